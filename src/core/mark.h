/* Marks: who has ended which message, so that it is not handled twice (B90).
 *
 * In a box with dedupe: whatever ends there leaves a mark (box, id, handler) in the transaction of its end; the handler is
 * the destination that its row names, and the endpoint that it went to where it names none (mark_handler()).  Where an
 * override sends rows elsewhere, those of two destinations are two messages for two handlers, though one endpoint gets
 * both.  The key decides: of two rows of one message that are out at once, whatever their streams,
 * lanes and owners, the second finds the mark, its verdict is refused with all its effects (ANSWER_HANDLED), and it ends as
 * a duplicate.  Everything else only spares work: rows that are about to be handed out are looked for among the marks and
 * the dead letters, and so are messages that arrive.
 *
 * A message that names no destination has its handlers from the routes.  Where that is one, its mark says so (`alone`): the
 * same message, arriving again without a destination, is a duplicate.
 *
 * A mark is kept for the box's time, and longer while a row or a dead letter has its id: it is looked at again a time
 * later. */
#ifndef CORE_MARK_H
#define CORE_MARK_H

#include "base/slice.h"
#include "core/cycle.h"
#include "core/schedule.h"

/* The handler of a row with this destination that went, or goes, to this endpoint. */
static inline pr_slice mark_handler(pr_slice destination, pr_slice endpoint)
{
    return destination.size > 0 ? destination : endpoint;
}

/* A schedule that was cancelled may come back under the same id. */
static inline bool mark_is_made_for(pr_slice destination)
{
    return !slice_eq(destination, PR_STR(SCHEDULE_DESTINATION));
}

/* The mark that the verdict about a row with this destination makes when it is applied; its number in the cycle is the caller's to fill in.  false: it makes
 * none, since its message goes on, or has no id. */
bool mark_of_verdict(const struct verdict *verdict, pr_slice box, pr_slice destination, int64_t keep_us,
                     struct effect *ret);

#define MARK_LOOK_AGAIN_US                                                                                             \
    PR_MINUTES(60) /* at those that are over and still needed, where the box has no time of its own */

/* When a mark that is over, and whose id is still there, is looked at again. */
static inline int64_t mark_look_again_us(int64_t dedupe_us)
{
    return dedupe_us > 0 ? dedupe_us : MARK_LOOK_AGAIN_US;
}

#endif
