/* words.h - spans, times and counts in the words of people. */
#ifndef OPS_WORDS_H
#define OPS_WORDS_H

#include "base/arena.h"

/* "3s", "2m", "5h", "3d": for a column. */
const char *span_short(struct arena *arena, int64_t us);
/* "2.1s", "1m 5s", "3d 4h": two units, for a sentence. */
const char *span_words(struct arena *arena, int64_t us);
/* "2024-01-31 12:00:00", local time. */
const char *time_words(struct arena *arena, int64_t us);
/* "1 message", "3 messages", "10,000+ messages" */
const char *count_words(struct arena *arena, uint64_t count, const char *one, const char *many);

#endif
