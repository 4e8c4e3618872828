/* ended_words.h - the ledger's knowledge of an ended message (B89), in sentences. */
#ifndef OPS_EXPLAIN_ENDED_WORDS_H
#define OPS_EXPLAIN_ENDED_WORDS_H

#include "store/store.h"

/* "It was delivered to billing 3m ago (2024-01-31 12:00:00), at the 2nd attempt, by instance web-1."; safe for a
 * terminal. */
const char *ended_words(struct arena *arena, const struct listed *listed, int64_t now_us);

/* "It was handled by billing 3m ago (2024-01-31 12:00:00): delivered.", and whether it arrived again. */
const char *mark_words(struct arena *arena, const struct mark_info *mark, int64_t now_us);
/* "It arrived again ...": a sentence. */
const char *again_words(struct arena *arena, const struct again_info *again, int64_t now_us);

/* Why nothing was found, to follow "no message ID: ". */
const char *ended_missing_words(struct arena *arena, const struct query_reply *reply);

/* "1st", "2nd" */
const char *ordinal_words(struct arena *arena, int n);

#endif
