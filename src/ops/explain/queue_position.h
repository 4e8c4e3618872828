/* turn.h - what a message that is ready waits for, as far as the store and the configuration know it.  Whether a rate is
 * used up only the instance knows that sends. */
#ifndef OPS_EXPLAIN_QUEUE_POSITION_H
#define OPS_EXPLAIN_QUEUE_POSITION_H

#include "runtime/config/config.h"
#include "store/store.h"

struct queue_position {
    const struct listed *before; /* stands before it in its stream, on its way or ready; NULL: none is known */
    uint64_t out, room; /* out: messages on their way to its endpoint; room: how many it takes at once, 0: not known */
    struct query_reply stream; /* what `before` is in */
};

/* setting: of the endpoint that it goes to; may be NULL.  workers: live instances of its box. */
PR_MUST_CHECK int turn_look(struct store *store, const struct config *config, struct arena *arena,
                            const struct listed *listed, const struct config_endpoint *setting, uint64_t workers,
                            struct queue_position *ret, struct pr_error *reterr);
/* Only what stands before it on the way to this endpoint: sets before and stream. */
PR_MUST_CHECK int turn_look_before(struct store *store, const struct config *config, struct arena *arena,
                                   const struct listed *listed, pr_slice endpoint, struct queue_position *ret,
                                   struct pr_error *reterr);

#endif
