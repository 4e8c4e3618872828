/* words.h - spans, times, counts and decisions in words, and making texts safe to print. */
#ifndef OPS_EXPLAIN_WORDS_H
#define OPS_EXPLAIN_WORDS_H

#include "base/arena.h"
#include "base/buf.h"
#include "policy/policy.h"

/* "3s", "2m", "5h", "3d": for a column. */
const char *span_short(struct arena *arena, int64_t us);
/* "2.1s", "1m 5s", "3d 4h": two units, for a sentence. */
const char *span_words(struct arena *arena, int64_t us);
/* "2024-01-31 12:00:00", local time. */
const char *time_words(struct arena *arena, int64_t us);
/* "12:03"; with seconds if it is less than a minute from now, with the date if it is far. */
const char *clock_words(struct arena *arena, int64_t us, int64_t now_us);
/* "1 message", "3 messages", "10,000+ messages" */
const char *count_words(struct arena *arena, uint64_t count, const char *one, const char *many);

/* "retry after 5s; pause the endpoint for 5m" */
const char *decision_words(struct arena *arena, const struct decision *decision);

/* One line without control characters: texts from messages cannot control the terminal.  keep_lines keeps newlines and
 * tabs. */
void text_clean(struct buf *b, pr_slice text, bool keep_lines);
const char *text_clean_copy(struct arena *arena, pr_slice text);

#endif
