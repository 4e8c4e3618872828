#include "base/slice.h"

#include <string.h>

#include "base/arena.h"
#include "base/util.h"

pr_slice slice_from(const char *text)
{
    return text == NULL ? (pr_slice){ NULL, 0 } : (pr_slice){ text, strlen(text) };
}

bool slice_is_empty(pr_slice s)
{
    return s.size == 0;
}

bool slice_eq(pr_slice a, pr_slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool slice_eq_cstr(pr_slice a, const char *b)
{
    return slice_eq(a, slice_from(b));
}

int slice_cmp(pr_slice a, pr_slice b)
{
    size_t common = min_size(a.size, b.size);
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

bool slice_starts_with(pr_slice text, pr_slice prefix)
{
    return text.size >= prefix.size && slice_eq(PR_BYTES(text.data, prefix.size), prefix);
}

bool slice_ends_with(pr_slice text, pr_slice suffix)
{
    if (suffix.size == 0)
        return true;
    return text.size >= suffix.size && slice_eq(PR_BYTES(text.data + (text.size - suffix.size), suffix.size), suffix);
}

bool slice_contains(pr_slice text, pr_slice part)
{
    if (part.size == 0)
        return true;
    return text.size >= part.size && memmem(text.data, text.size, part.data, part.size) != NULL;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

pr_slice slice_trim(pr_slice s)
{
    while (s.size > 0 && is_space(s.data[0])) {
        s.data++;
        s.size--;
    }
    while (s.size > 0 && is_space(s.data[s.size - 1]))
        s.size--;
    return s;
}

pr_slice slice_dup(struct arena *arena, pr_slice s)
{
    char *copy = s.size < SIZE_MAX ? arena_alloc(arena, s.size + 1) : NULL;
    if (copy == NULL)
        return (pr_slice){ NULL, 0 };
    if (s.size > 0)
        memcpy(copy, s.data, s.size);
    copy[s.size] = '\0';
    return PR_BYTES(copy, s.size);
}

/* Only the latest star needs to be remembered: when the rest does not match, extending an earlier star cannot help,
 * because the later one could have matched the same bytes. */
bool slice_glob(pr_slice pattern, pr_slice text)
{
    size_t p = 0, t = 0;
    bool star_seen = false;
    size_t star_p = 0, star_t = 0; /* position behind the star; the text that it has matched so far ends here */

    while (t < text.size) {
        if (p < pattern.size && pattern.data[p] == '*') {
            star_seen = true;
            star_p = ++p;
            star_t = t;
        } else if (p < pattern.size && (pattern.data[p] == '?' || pattern.data[p] == text.data[t])) {
            p++;
            t++;
        } else if (star_seen) {
            p = star_p;
            t = ++star_t;
        } else {
            return false;
        }
    }
    while (p < pattern.size && pattern.data[p] == '*')
        p++;
    return p == pattern.size;
}

bool slice_is_secret(pr_slice secret, pr_slice given)
{
    unsigned char wrong = secret.size != given.size || secret.size == 0;
    for (size_t i = 0; i < given.size; i++)
        wrong |= (unsigned char)(given.data[i] ^ (secret.size > 0 ? secret.data[i % secret.size] : 0));
    return wrong == 0;
}
