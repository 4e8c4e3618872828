#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"

void json_init(struct json_writer *w, struct buf *b)
{
    memset(w, 0, sizeof(*w));
    w->buf = b;
}

static const char *json_escape(int32_t codepoint)
{
    switch (codepoint) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\b': return "\\b";
    case '\f': return "\\f";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return NULL;
    }
}

/* The number of bytes at the front that need no escape. */
static size_t plain_size(pr_slice text)
{
    size_t size = 0;
    while (size < text.size && text.data[size] >= 0x20 && text.data[size] < 0x7f && text.data[size] != '"' &&
           text.data[size] != '\\')
        size++;
    return size;
}

void json_escape_text(struct buf *b, pr_slice text)
{
    while (text.size > 0) {
        int32_t codepoint;
        size_t size = plain_size(text);
        if (size > 0) {
            buf_add(b, text.data, size);
            text = PR_BYTES(text.data + size, text.size - size);
            continue;
        }
        size = utf8_next(text, &codepoint);
        const char *escape = json_escape(codepoint);
        if (codepoint < 0)
            buf_add_slice(b, PR_STR("\xef\xbf\xbd"));
        else if (escape != NULL)
            buf_add_cstr(b, escape);
        else if (utf8_is_control(codepoint)) /* escaped: the same to a machine, and cannot mislead a person */
            buf_addf(b, "\\u%04x", (unsigned)codepoint);
        else
            buf_add(b, text.data, size);
        text.data += size;
        text.size -= size;
    }
}

void json_quote(struct buf *b, pr_slice text)
{
    char plain[64]; /* names and most values: one addition instead of three */
    if (text.size <= sizeof(plain) - 2 && plain_size(text) == text.size) {
        plain[0] = plain[text.size + 1] = '"';
        memcpy(plain + 1, text.size > 0 ? text.data : "", text.size);
        buf_add(b, plain, text.size + 2);
        return;
    }
    buf_add_char(b, '"');
    json_escape_text(b, text);
    buf_add_char(b, '"');
}

/* Called before each value: adds the comma where one is needed. */
static void json_begin_value(struct json_writer *w)
{
    ASSERT(w->after_key == w->stack[w->depth].object); /* a value has a key in an object, and only there */
    if (w->depth == 0)
        ASSERT(!w->stack[0].comma); /* only one top-level value */
    if (w->stack[w->depth].comma && !w->after_key)
        buf_add_char(w->buf, ',');
    w->stack[w->depth].comma = true;
    w->after_key = false;
}

static void json_begin(struct json_writer *w, bool object)
{
    json_begin_value(w);
    ASSERT(w->depth < JSON_DEPTH_MAX);
    w->depth++;
    w->stack[w->depth].object = object;
    w->stack[w->depth].comma = false;
    buf_add_char(w->buf, object ? '{' : '[');
}

static void json_end(struct json_writer *w, bool object)
{
    ASSERT(w->depth > 0 && w->stack[w->depth].object == object && !w->after_key);
    w->depth--;
    buf_add_char(w->buf, object ? '}' : ']');
}

void json_begin_object(struct json_writer *w)
{
    json_begin(w, true);
}

void json_end_object(struct json_writer *w)
{
    json_end(w, true);
}

void json_begin_array(struct json_writer *w)
{
    json_begin(w, false);
}

void json_end_array(struct json_writer *w)
{
    json_end(w, false);
}

void json_key_slice(struct json_writer *w, pr_slice key)
{
    ASSERT(w->stack[w->depth].object && !w->after_key);
    if (w->stack[w->depth].comma)
        buf_add_char(w->buf, ',');
    json_quote(w->buf, key);
    buf_add_char(w->buf, ':');
    w->after_key = true;
}

void json_key(struct json_writer *w, const char *key)
{
    json_key_slice(w, slice_from(key));
}

void json_slice(struct json_writer *w, pr_slice value)
{
    json_begin_value(w);
    json_quote(w->buf, value);
}

void json_raw(struct json_writer *w, pr_slice json)
{
    json_begin_value(w);
    buf_add_slice(w->buf, json);
}

void json_raw_shown(struct json_writer *w, pr_slice json)
{
    json_begin_value(w);
    while (json.size > 0) {
        int32_t codepoint;
        size_t size = plain_size(json);
        if (size == 0) {
            size = utf8_next(json, &codepoint);
            if (codepoint >= 0x7f && utf8_is_control(codepoint)) {
                buf_addf(w->buf, "\\u%04x", (unsigned)codepoint);
                json = PR_BYTES(json.data + size, json.size - size);
                continue;
            }
        }
        buf_add(w->buf, json.data, size);
        json = PR_BYTES(json.data + size, json.size - size);
    }
}

void json_cstr(struct json_writer *w, const char *value)
{
    if (value == NULL)
        json_raw(w, PR_STR("null"));
    else
        json_slice(w, slice_from(value));
}

void json_int(struct json_writer *w, int64_t value)
{
    json_begin_value(w);
    buf_addf(w->buf, "%" PRId64, value);
}

void json_uint(struct json_writer *w, uint64_t value)
{
    json_begin_value(w);
    buf_addf(w->buf, "%" PRIu64, value);
}

void json_double(struct json_writer *w, double value)
{
    if (!isfinite(value)) {
        json_raw(w, PR_STR("null"));
        return;
    }
    char text[32];
    snprintf(text, sizeof(text), "%.15g", value);
    for (char *c = text; *c != '\0'; c++)
        if (*c == ',')
            *c = '.'; /* the locale of the embedding program may use another decimal separator */
    json_raw(w, slice_from(text));
}

void json_bool(struct json_writer *w, bool value)
{
    json_raw(w, value ? PR_STR("true") : PR_STR("false"));
}

void json_time(struct json_writer *w, int64_t us)
{
    char text[TIME_TEXT_SIZE];
    time_format_rfc3339(us, text);
    json_slice(w, slice_from(text));
}

/* ---- Members ---- */

#define PUT(kind, type)                                                                                                \
    void json_put_##kind(struct json_writer *w, const char *key, type value)                                           \
    {                                                                                                                  \
        json_key(w, key);                                                                                              \
        json_##kind(w, value);                                                                                         \
    }
/* clang-format off */
PUT(slice, pr_slice)
PUT(cstr, const char *)
PUT(int, int64_t)
PUT(uint, uint64_t)
PUT(double, double)
PUT(bool, bool)
PUT(time, int64_t)
/* clang-format on */

void json_put_some(struct json_writer *w, const char *key, pr_slice value)
{
    if (value.size > 0)
        json_put_slice(w, key, value);
}

void json_put_span(struct json_writer *w, const char *key, int64_t us)
{
    if (us != PR_NEVER)
        json_put_double(w, key, (double)us / 1e6);
    else
        json_put_cstr(w, key, NULL);
}
