/* A completion: a message that its receiver completes in a transaction of its own.  The row is the fence: it must be there
 * as it was handed out, and goes with that transaction. */
#ifndef CORE_COMPLETION_H
#define CORE_COMPLETION_H

#include "core/delivery.h"

struct completion {
    pr_slice box, endpoint, destination; /* the latter as its row names it; empty: it names none */
    uint64_t row;
    pr_id id;
    int number; /* of the hand-out */
    int bits;
    int64_t keep_us;   /* > 0: it goes to `done` for so long */
    int64_t dedupe_us; /* > 0: it leaves a mark for so long (core/mark.h) */
    const struct send_effect *effects;
};

/* Its effects as those of the first verdict of a cycle, with room for one more behind them.  Fault PR_ENOMEM. */
PR_MUST_CHECK int completion_effects(const struct completion *c, struct arena *arena, struct effect **ret,
                                     size_t *ret_count);

#endif
