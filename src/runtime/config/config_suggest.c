#include "runtime/config/config_suggest.h"

#include <string.h>

#include "base/slice.h"
#include "base/util.h"

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

/* Three rows of the usual table are sufficient: a swap looks two rows back. */
size_t suggest_distance(pr_slice a, pr_slice b)
{
    size_t rows[3][SUGGEST_WORD_MAX + 1];

    if (a.size >= SUGGEST_WORD_MAX || b.size >= SUGGEST_WORD_MAX)
        return SUGGEST_WORD_MAX;
    for (size_t j = 0; j <= b.size; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        const size_t *before = rows[(i + 1) % 3], *above = rows[(i - 1) % 3];
        size_t *row = rows[i % 3];

        row[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            int x = lower(a.data[i - 1]), y = lower(b.data[j - 1]);
            size_t cost = above[j - 1] + (x != y);

            cost = min_size(cost, min_size(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower(b.data[j - 2]) && y == lower(a.data[i - 2]))
                cost = min_size(cost, before[j - 2] + 1);
            row[j] = cost;
        }
    }
    return rows[a.size % 3][b.size];
}

void suggest_try(struct suggestion *s, pr_slice word, const char *candidate)
{
    pr_slice other = slice_from(candidate);
    size_t distance = suggest_distance(word, other);
    size_t near = max_size(1, max_size(word.size, other.size) / 3);

    if (distance <= near && (s->best == NULL || distance < s->distance)) {
        s->best = candidate;
        s->distance = distance;
    }
}
