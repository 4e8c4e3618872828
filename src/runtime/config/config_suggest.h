/* config_suggest.h - "did you mean": finds the most similar valid word. */
#ifndef RUNTIME_CONFIG_CONFIG_SUGGEST_H
#define RUNTIME_CONFIG_CONFIG_SUGGEST_H

#include <postrider.h>

#define SUGGEST_WORD_MAX 64 /* longer words are not compared */

/* Number of insertions, deletions, replacements and swaps of neighbours that turn a into b; SUGGEST_WORD_MAX when one
 * of them is too long to be compared. */
size_t suggest_distance(pr_slice a, pr_slice b);

/* Collects the best suggestion: start with a zeroed struct.  best is NULL when no word is similar enough (more than a
 * third of it would have to change). */
struct suggestion {
    const char *best;
    size_t distance;
};

void suggest_try(struct suggestion *s, pr_slice word, const char *candidate);

#endif
