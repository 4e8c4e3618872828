/* Validates JSON texts and walks the members of one object, without building a tree, because it runs on every message.
 * Values are returned as they are written, so that no digit of a number is lost. */
#include <string.h>

#include "base/utf8.h"
#include "core/message.h"

#define EACH_BYTE UINT64_C(0x0101010101010101)
#define JSON_NESTING_MAX 64 /* deeper headers are a mistake; deeper payloads are not judged here */

struct json_cursor {
    const char *at, *end;
    bool nests; /* an object or array was found inside another one */
};

static bool skip_value(struct json_cursor *c, int depth);

static void skip_space(struct json_cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool skip_char(struct json_cursor *c, char wanted)
{
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool skip_hex4(struct json_cursor *c)
{
    if (c->end - c->at < 4)
        return false;
    for (int i = 0; i < 4; i++)
        if (strchr("0123456789abcdefABCDEF", c->at[i]) == NULL || c->at[i] == '\0')
            return false;
    c->at += 4;
    return true;
}

/* The sign bit of each byte that is `byte`: exact up to the first one, so exact about whether there is any. */
static uint64_t bytes_like(uint64_t word, unsigned char byte)
{
    uint64_t zeros = word ^ (EACH_BYTE * byte);
    return (zeros - EACH_BYTE) & ~zeros;
}

/* Most of a payload is inside its strings: eight bytes at a time, up to those with a quote, an escape or a control. */
static void skip_plain(struct json_cursor *c)
{
    uint64_t word;
    for (; (size_t)(c->end - c->at) >= sizeof(word); c->at += sizeof(word)) {
        memcpy(&word, c->at, sizeof(word));
        uint64_t controls = (word - EACH_BYTE * 0x20) & ~word;
        if (((controls | bytes_like(word, '"') | bytes_like(word, '\\')) & (EACH_BYTE * 0x80)) != 0)
            return;
    }
}

static bool skip_string(struct json_cursor *c)
{
    if (!skip_char(c, '"'))
        return false;
    skip_plain(c);
    while (c->at < c->end) {
        unsigned char ch = (unsigned char)*c->at++;
        if (ch == '"')
            return true;
        if (ch < 0x20)
            return false;
        if (ch != '\\')
            continue;
        if (c->at == c->end)
            return false;
        ch = (unsigned char)*c->at++;
        if (ch == 'u' ? !skip_hex4(c) : (ch == '\0' || strchr("\"\\/bfnrt", ch) == NULL))
            return false;
        skip_plain(c);
    }
    return false;
}

static size_t skip_digits(struct json_cursor *c)
{
    const char *from = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return (size_t)(c->at - from);
}

static bool skip_number(struct json_cursor *c)
{
    skip_char(c, '-');
    bool zero = c->at < c->end && *c->at == '0';
    size_t digits = skip_digits(c);
    if (digits == 0 || (zero && digits > 1))
        return false;
    if (skip_char(c, '.') && skip_digits(c) == 0)
        return false;
    if (skip_char(c, 'e') || skip_char(c, 'E')) {
        if (!skip_char(c, '+'))
            skip_char(c, '-');
        if (skip_digits(c) == 0)
            return false;
    }
    return true;
}

static bool skip_word(struct json_cursor *c, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size) != 0)
        return false;
    c->at += size;
    return true;
}

/* The inside of an object (named: each member has a name) or of an array. */
static bool skip_members(struct json_cursor *c, int depth, char close, bool named)
{
    c->at++;
    skip_space(c);
    if (skip_char(c, close))
        return true;
    for (;;) {
        skip_space(c);
        if (named) {
            if (!skip_string(c))
                return false;
            skip_space(c);
            if (!skip_char(c, ':'))
                return false;
        }
        if (!skip_value(c, depth + 1))
            return false;
        if (skip_char(c, close))
            return true;
        if (!skip_char(c, ','))
            return false;
    }
}

static bool skip_value(struct json_cursor *c, int depth)
{
    bool ok;

    if (depth > JSON_NESTING_MAX)
        return false;
    skip_space(c);
    if (c->at == c->end)
        return false;
    c->nests |= depth > 0 && (*c->at == '{' || *c->at == '[');
    switch (*c->at) {
    case '{': ok = skip_members(c, depth, '}', true); break;
    case '[': ok = skip_members(c, depth, ']', false); break;
    case '"': ok = skip_string(c); break;
    case 't': ok = skip_word(c, "true"); break;
    case 'f': ok = skip_word(c, "false"); break;
    case 'n': ok = skip_word(c, "null"); break;
    default: ok = skip_number(c); break;
    }
    skip_space(c);
    return ok;
}

bool slice_is_json(pr_slice text)
{
    struct json_cursor c = { .at = text.data, .end = text.data + text.size };
    return skip_value(&c, 0) && c.at == c.end && utf8_valid(text);
}

static bool is_object(pr_slice text, bool *ret_nests)
{
    struct json_cursor c = { .at = text.data, .end = text.data + text.size };
    skip_space(&c);
    bool ok = c.at < c.end && *c.at == '{' && skip_value(&c, 0) && c.at == c.end && utf8_valid(text);
    *ret_nests = c.nests;
    return ok;
}

bool slice_is_json_object(pr_slice text)
{
    bool nests;
    return text.size == 0 || (text.size == 2 && memcmp(text.data, "{}", 2) == 0) || is_object(text, &nests);
}

bool slice_is_flat_json_object(pr_slice text)
{
    bool nests;
    return text.size == 0 || (is_object(text, &nests) && !nests);
}

/* ---- Members ---------------------------------------------------------------------------------- */

static pr_slice cut_value(struct json_cursor *c)
{
    skip_space(c);
    const char *from = c->at, *to;
    bool ok = skip_value(c, 1);
    (void)ok; /* the whole text was validated before */
    for (to = c->at; to > from && strchr(" \t\r\n", to[-1]) != NULL;)
        to--;
    return (pr_slice){ from, (size_t)(to - from) };
}

int json_object_walk(pr_slice text, json_member member, void *arg)
{
    if (text.size == 0 || !slice_is_json_object(text))
        return PR_EINVAL;
    struct json_cursor c = { .at = text.data, .end = text.data + text.size };
    int rc = PR_OK;
    skip_space(&c);
    c.at++;
    skip_space(&c);
    if (*c.at == '}')
        return PR_OK;
    do {
        pr_slice key = cut_value(&c);
        skip_char(&c, ':');
        pr_slice value = cut_value(&c);
        rc = member(arg, key, value);
    } while (rc == PR_OK && skip_char(&c, ','));
    return rc;
}

int json_array_walk(pr_slice text, json_element element, void *arg)
{
    struct json_cursor c = { .at = text.data, .end = text.data + text.size };
    int rc = PR_OK;
    if (text.size > 0)
        skip_space(&c);
    if (c.at == c.end || *c.at != '[' || !slice_is_json(text))
        return PR_EINVAL;
    c.at++;
    skip_space(&c);
    if (*c.at == ']')
        return PR_OK;
    do
        rc = element(arg, cut_value(&c));
    while (rc == PR_OK && skip_char(&c, ','));
    return rc;
}

/* ---- Strings ---------------------------------------------------------------------------------- */

static unsigned hex4(const char *at)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 4 | (unsigned)(at[i] <= '9' ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
    return value;
}

/* The code point behind "\u"; 0: not valid in a text. */
static unsigned read_escape(const char **at, const char *end)
{
    unsigned high = hex4(*at), low;
    *at += 4;
    if (high < 0xd800 || high > 0xdfff)
        return high;
    if (high > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return 0;
    low = hex4(*at + 2);
    *at += 6;
    return low >= 0xdc00 && low <= 0xdfff ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) : 0;
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

int json_string_read(pr_slice value, struct arena *arena, pr_slice *ret)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (value.size < 2 || value.data[0] != '"')
        return PR_EINVAL;
    const char *at = value.data + 1, *end = value.data + value.size - 1;
    if (memchr(at, '\\', (size_t)(end - at)) == NULL) {
        *ret = (pr_slice){ at, (size_t)(end - at) };
        return PR_OK;
    }
    char *text = arena_alloc(arena, value.size), *to = text; /* decoding only makes it shorter */
    if (text == NULL)
        return PR_ENOMEM;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
        } else if (at[1] != 'u') {
            *to++ = meanings[strchr(escapes, at[1]) - escapes];
            at += 2;
        } else {
            at += 2;
            unsigned c = read_escape(&at, end);
            if (c == 0)
                return PR_EINVAL;
            to = put_utf8(to, c);
        }
    }
    *ret = (pr_slice){ text, (size_t)(to - text) };
    return PR_OK;
}
