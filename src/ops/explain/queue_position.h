/* queue_position.h - what a ready message waits for, as far as the store and the configuration know.  Whether a rate is
 * used up is only known to the instance that sends. */
#ifndef OPS_EXPLAIN_QUEUE_POSITION_H
#define OPS_EXPLAIN_QUEUE_POSITION_H

#include "runtime/config/config.h"
#include "store/store.h"

struct queue_position {
    const struct listed *before; /* the earlier message of its stream that is out or ready; NULL: none is known */
    uint64_t out, room; /* out: messages on their way to its endpoint; room: how many it takes at once, 0: unknown */
    struct query_reply stream; /* what `before` is in */
};

/* setting: of its endpoint; may be NULL.  workers: live instances of its box. */
PR_MUST_CHECK int turn_look(struct store *store, const struct config *config, struct arena *arena,
                            const struct listed *listed, const struct config_endpoint *setting, uint64_t workers,
                            struct queue_position *ret, struct pr_error *reterr);
/* Only the earlier message of its stream at this endpoint: sets before and stream. */
PR_MUST_CHECK int turn_look_before(struct store *store, const struct config *config, struct arena *arena,
                                   const struct listed *listed, pr_slice endpoint, struct queue_position *ret,
                                   struct pr_error *reterr);

#endif
