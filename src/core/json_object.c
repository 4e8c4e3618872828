/* Is a text one JSON object?  A checker without a tree: it runs on every message. */
#include <string.h>

#include "base/utf8.h"
#include "core/message.h"

#define JSON_NESTING_MAX 64 /* headers that are deeper are somebody's mistake */

struct cursor {
    const char *at, *end;
};

static bool skip_value(struct cursor *c, int depth);

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool skip_char(struct cursor *c, char wanted)
{
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool skip_hex4(struct cursor *c)
{
    if (c->end - c->at < 4)
        return false;
    for (int i = 0; i < 4; i++)
        if (strchr("0123456789abcdefABCDEF", c->at[i]) == NULL || c->at[i] == '\0')
            return false;
    c->at += 4;
    return true;
}

static bool skip_string(struct cursor *c)
{
    if (!skip_char(c, '"'))
        return false;
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
    }
    return false;
}

static size_t skip_digits(struct cursor *c)
{
    const char *from = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return (size_t)(c->at - from);
}

static bool skip_number(struct cursor *c)
{
    skip_char(c, '-');
    bool   zero   = c->at < c->end && *c->at == '0';
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

static bool skip_word(struct cursor *c, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size) != 0)
        return false;
    c->at += size;
    return true;
}

/* An object or an array: the members of an object have a name in front. */
static bool skip_members(struct cursor *c, int depth, char close, bool named)
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

static bool skip_value(struct cursor *c, int depth)
{
    bool ok;

    if (depth > JSON_NESTING_MAX)
        return false;
    skip_space(c);
    if (c->at == c->end)
        return false;
    switch (*c->at) {
    case '{': ok = skip_members(c, depth, '}', true); break;
    case '[': ok = skip_members(c, depth, ']', false); break;
    case '"': ok = skip_string(c); break;
    case 't': ok = skip_word(c, "true"); break;
    case 'f': ok = skip_word(c, "false"); break;
    case 'n': ok = skip_word(c, "null"); break;
    default:  ok = skip_number(c); break;
    }
    skip_space(c);
    return ok;
}

bool slice_is_json_object(pr_slice text)
{
    if (text.size == 0 || (text.size == 2 && memcmp(text.data, "{}", 2) == 0))
        return true;
    struct cursor c = { text.data, text.data + text.size };
    skip_space(&c);
    return c.at < c.end && *c.at == '{' && skip_value(&c, 0) && c.at == c.end && utf8_valid(text);
}
