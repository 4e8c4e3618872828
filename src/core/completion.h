/* A completion: the receiver completes a message in its own transaction.  The row is the fence: it must exist as it was
 * handed out, and that transaction deletes it. */
#ifndef CORE_COMPLETION_H
#define CORE_COMPLETION_H

#include "core/delivery.h"

struct completion {
    pr_slice box, endpoint, destination; /* destination: as in the row; empty: the row names none */
    uint64_t row;
    pr_id id;
    int number; /* of the hand-out */
    int bits;
    int64_t keep_us;   /* > 0: the row goes to `done` for this time */
    int64_t dedupe_us; /* > 0: the message stays marked for this time (core/mark.h) */
    const struct send_effect *effects;
};

/* Its effects as those of the first verdict of a cycle, with room for one more at the end.  Fault PR_ENOMEM. */
PR_MUST_CHECK int completion_effects(const struct completion *c, struct arena *arena, struct effect **ret,
                                     size_t *ret_count);

#endif
