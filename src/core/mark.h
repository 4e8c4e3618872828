/* Marks: which handler has ended which message, so that no message is handled twice (B90).
 *
 * In a box with dedupe, every message that ends leaves a mark (box, id, handler) in the same transaction.  The handler
 * is the destination of its row, or, where the row names none, the endpoint that it went to (mark_handler()).  Where an
 * override sends rows elsewhere, the rows of two destinations are two messages for two handlers, although one endpoint
 * gets both.  The key of the mark decides: when two rows of one message are handed out at once, whatever their streams,
 * lanes and owners, the second one finds the mark, its verdict is refused with all its effects (ANSWER_HANDLED), and it
 * ends as a duplicate.  All other checks only save work: rows about to be handed out are looked up in the marks and the
 * dead letters, and so are arriving messages.
 *
 * The handlers of a message without a destination come from the routes.  When there is only one, its mark says so
 * (`alone`): the same message, arriving again without a destination, is a duplicate.
 *
 * A mark is kept for the box's time, and longer while a row or a dead letter has its id: expired marks are checked
 * again after that time. */
#ifndef CORE_MARK_H
#define CORE_MARK_H

#include "base/slice.h"
#include "core/cycle.h"
#include "core/schedule.h"

/* The handler of a row with this destination that was sent, or will be sent, to this endpoint. */
static inline pr_slice mark_handler(pr_slice destination, pr_slice endpoint)
{
    return destination.size > 0 ? destination : endpoint;
}

/* Schedules get no marks: a cancelled schedule may come back under the same id. */
static inline bool mark_is_made_for(pr_slice destination)
{
    return !slice_eq(destination, PR_STR(SCHEDULE_DESTINATION));
}

/* The mark to store when the verdict about a row with this destination is applied; the caller sets its index in the
 * cycle. false: no mark, because the message does not end, or has no id. */
bool mark_of_verdict(const struct verdict *verdict, pr_slice box, pr_slice destination, int64_t keep_us,
                     struct effect *ret);

/* for expired marks that are still needed, in boxes without a time of their own */
#define MARK_LOOK_AGAIN_US PR_MINUTES(60)

/* The delay until an expired mark whose id still exists is checked again. */
static inline int64_t mark_look_again_us(int64_t dedupe_us)
{
    return dedupe_us > 0 ? dedupe_us : MARK_LOOK_AGAIN_US;
}

#endif
