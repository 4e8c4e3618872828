#include "base/http_head.h"

#include <string.h>
#include <strings.h>

#include "base/slice.h"

#define LENGTH_DIGITS_MAX 18

/* How often the fields occur that must occur once, or not together. */
struct fields {
    size_t count, hosts, lengths, codings;
    uint64_t length;
};

static enum head_found wrong(struct http_head *h, unsigned status, const char *code, const char *text)
{
    h->status = status;
    h->code = code;
    h->text = text;
    return HEAD_WRONG;
}

static enum head_found invalid(struct http_head *h, const char *text)
{
    return wrong(h, 400, "bad_request", text);
}

static bool is_token(pr_slice s)
{
    for (size_t i = 0; i < s.size; i++)
        if (s.data[i] <= ' ' || s.data[i] >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", s.data[i]) != NULL)
            return false;
    return s.size > 0;
}

bool http_name_is(pr_slice name, const char *text)
{
    return name.size == strlen(text) && strncasecmp(name.data, text, name.size) == 0;
}

/* Take a line up to CR LF.  False: a CR or LF stands alone. *ret_ends is false when the end of the line is not there
 * yet. */
static bool take_line(pr_slice *rest, pr_slice *ret, bool *ret_ends)
{
    size_t size = 0;
    while (size < rest->size && rest->data[size] != '\r' && rest->data[size] != '\n')
        size++;
    *ret = (pr_slice){ rest->data, size };
    *ret_ends = size < rest->size && (rest->data[size] == '\n' || size + 1 < rest->size);
    if (!*ret_ends)
        return true;
    if (rest->data[size] != '\r' || rest->data[size + 1] != '\n')
        return false;
    *rest = (pr_slice){ rest->data + size + 2, rest->size - size - 2 };
    return true;
}

static enum head_found read_target(pr_slice target, struct http_head *h)
{
    const char *mark = target.size > 0 ? memchr(target.data, '?', target.size) : NULL;
    size_t params = mark != NULL;
    if (target.size > HEAD_TARGET_MAX)
        return wrong(h, 414, "too_large", "the URL is too long");
    if (target.size == 0 || target.data[0] != '/')
        return invalid(h, "the request has no path");
    for (size_t i = 0; i < target.size; i++)
        if (target.data[i] <= ' ' || target.data[i] >= 0x7f || target.data[i] == '#')
            return invalid(h, "the path has a character that must be URL-encoded");
    h->path = (pr_slice){ target.data, mark != NULL ? (size_t)(mark - target.data) : target.size };
    for (size_t i = h->path.size; i < target.size; i++)
        params += target.data[i] == '&';
    return params <= HEAD_PARAMS_MAX ? HEAD_READ : wrong(h, 400, "invalid", "too many parameters");
}

/* METHOD SP TARGET SP HTTP/1.1, one space each. */
static enum head_found read_request_line(pr_slice line, struct http_head *h, bool *ret_is_1_1)
{
    const char *first = line.size > 0 ? memchr(line.data, ' ', line.size) : NULL;
    const char *last = line.size > 0 ? memrchr(line.data, ' ', line.size) : NULL;
    if (first == NULL || first == last)
        return invalid(h, "the first line is not METHOD PATH HTTP/1.1");
    pr_slice version = { last + 1, (size_t)(line.data + line.size - last - 1) };
    h->method = (pr_slice){ line.data, (size_t)(first - line.data) };
    *ret_is_1_1 = slice_eq_cstr(version, "HTTP/1.1");
    if (!is_token(h->method))
        return invalid(h, "the method is not a word");
    if (!*ret_is_1_1 && !slice_eq_cstr(version, "HTTP/1.0"))
        return wrong(h, 505, "version", "only HTTP/1.1 and HTTP/1.0 are supported");
    return read_target((pr_slice){ first + 1, (size_t)(last - first - 1) }, h);
}

static bool read_length(pr_slice value, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return false;
        *ret = *ret * 10 + (uint64_t)(value.data[i] - '0');
    }
    return value.size > 0 && value.size <= LENGTH_DIGITS_MAX;
}

static enum head_found read_field(pr_slice line, struct http_head *h, struct fields *f)
{
    const char *colon = memchr(line.data, ':', line.size);
    pr_slice name = { line.data, colon != NULL ? (size_t)(colon - line.data) : line.size };
    if (++f->count > HEAD_FIELDS_MAX)
        return wrong(h, 431, "too_large", "too many header fields");
    if (colon == NULL || !is_token(name)) /* a folded line begins with a space, so it fails here */
        return invalid(h, "a header field is not NAME: VALUE on one line");
    pr_slice value = slice_trim((pr_slice){ colon + 1, line.size - name.size - 1 });
    for (size_t i = 0; i < value.size; i++)
        if (((unsigned char)value.data[i] < ' ' && value.data[i] != '\t') || value.data[i] == 0x7f)
            return invalid(h, "a header field has a control character");
    f->hosts += http_name_is(name, "Host");
    if (http_name_is(name, "Content-Length")) {
        f->lengths++;
        if (!read_length(value, &f->length))
            return invalid(h, "Content-Length is not a number");
    }
    if (http_name_is(name, "Transfer-Encoding")) {
        f->codings++;
        if (!http_name_is(value, "chunked"))
            return wrong(h, 501, "unsupported", "the only supported transfer encoding is chunked");
    }
    return HEAD_READ;
}

static enum head_found check_fields(const struct fields *f, bool is_1_1, struct http_head *h)
{
    if (f->hosts > 1 || (is_1_1 && f->hosts == 0))
        return invalid(h, "HTTP/1.1 needs exactly one Host field");
    if (f->lengths > 1)
        return invalid(h, "two Content-Length fields");
    if (f->codings > 1 || (f->codings == 1 && (f->lengths == 1 || !is_1_1)))
        return invalid(h, "Transfer-Encoding needs HTTP/1.1, only once and without Content-Length");
    h->chunked = f->codings == 1;
    h->body_bytes = f->length;
    return HEAD_READ;
}

enum head_found http_head_read(pr_slice bytes, struct http_head *ret)
{
    struct fields fields = { .count = 0 };
    bool is_1_1 = false, ends = true, first = true;
    enum head_found found = HEAD_READ;
    const char *begin = bytes.data;
    pr_slice line;
    *ret = (struct http_head){ .status = 0 };
    while (found == HEAD_READ) {
        if (!take_line(&bytes, &line, &ends))
            return invalid(ret, "lines must end with CR LF");
        if (!ends)
            return HEAD_MORE;
        if (!first && line.size == 0) {
            ret->is_1_1 = is_1_1;
            ret->size = (size_t)(bytes.data - begin);
            return check_fields(&fields, is_1_1, ret);
        }
        found = first ? read_request_line(line, ret, &is_1_1) : read_field(line, ret, &fields);
        first = false;
    }
    return found;
}

bool http_head_next(pr_slice bytes, const char **at, pr_slice *ret_name, pr_slice *ret_value)
{
    const char *end = bytes.data + bytes.size;
    const char *from = *at != NULL ? *at : bytes.data;
    const char *line = memmem(from, (size_t)(end - from), "\r\n", 2);
    line += 2;
    const char *stop = memmem(line, (size_t)(end - line), "\r\n", 2);
    if (stop == NULL || stop == line)
        return false;
    const char *colon = memchr(line, ':', (size_t)(stop - line));
    *ret_name = (pr_slice){ line, (size_t)(colon - line) };
    *ret_value = slice_trim((pr_slice){ colon + 1, (size_t)(stop - colon - 1) });
    *at = stop;
    return true;
}
