/* listing_context.h - what a listing needs besides the rows: which rows are on receipts, which endpoints are paused,
 * which boxes exist.  Read once per question or order, in its transaction. */
#ifndef STORE_PEOPLE_LISTING_CONTEXT_H
#define STORE_PEOPLE_LISTING_CONTEXT_H

#include "core/state.h"
#include "store/sql.h"

/* An entry of an open receipt of a living instance. */
struct hand_out {
    pr_slice box, instance;
    uint64_t row;
    int number;
};

struct listing_context {
    int64_t now_us, mono_us;    /* the store's clocks */
    struct hand_out *hand_outs; /* by box and row */
    size_t hand_out_count;
    pr_slice *paused; /* endpoints, ascending */
    size_t paused_count;
    pr_slice *boxes;  /* ascending */
    pr_slice *tables; /* their tables, in the same order */
    size_t box_count;
};
PR_MUST_CHECK int listing_context_read(struct sql *sql, struct arena *arena, struct listing_context *ret);

/* NULL: the row is not in flight. */
const struct hand_out *listing_context_hand_out(const struct listing_context *s, pr_slice box, uint64_t row,
                                                int attempts);
/* The state of a row of this box, considering receipts and pauses.  endpoint: where it goes. */
enum state listing_context_state(const struct listing_context *s, pr_slice box, uint64_t row,
                                 const struct pr_message *m, pr_slice endpoint);

/* Room for one more entry in a list of `count` entries; the list may move.  NULL: no memory.  *capacity starts at 0. */
void *list_room(struct arena *arena, void *list, size_t count, size_t *capacity, size_t size);

#endif
