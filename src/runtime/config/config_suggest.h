/* config_suggest.h - "did you mean": the nearest of the words that would have been right. */
#ifndef RUNTIME_CONFIG_CONFIG_SUGGEST_H
#define RUNTIME_CONFIG_CONFIG_SUGGEST_H

#include <postrider.h>

#define SUGGEST_WORD_MAX 64 /* longer words are not compared */

/* Insertions, deletions, replacements and swapped neighbours that turn a into b;
 * SUGGEST_WORD_MAX when one of them is too long to be compared. */
size_t suggest_distance(pr_slice a, pr_slice b);

/* Collects the nearest: start with a zeroed one.  best is NULL when nothing is near enough
 * (more than a third of the word would have to change). */
struct suggestion {
    const char *best;
    size_t distance;
};

void suggest_try(struct suggestion *s, pr_slice word, const char *candidate);

#endif
