/* Messages that their receivers complete in their own transactions (pr_complete_sqlite(), pr_complete_pg()).
 *
 * The row is the fence: either that transaction has deleted it, or it has not happened.  So when the receiver reports
 * how it ended, the store is asked, and its answer decides: when the row is gone, the message is done; when it still
 * exists, nothing was committed.  Until then the stream waits, and the message stays on its receipt. */
#include <string.h>

#include "engine/internal.h"

/* Until a message is handed out again whose commit turned out not to have happened. */
#define UNCERTAIN_US PR_MILLISECONDS(200)

void judge_asking(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    const struct verdict ask = { .kind = VERDICT_ASK, .fenced = result->outcome != SEND_STALE };

    item->refusable = true;
    item->asked = result->outcome;
    judge(e, item, &ask, "", 0, now_us);
    item->verdict.story = (pr_slice){ NULL, 0 }; /* nothing is written */
}

/* The row still exists: the receiver did not complete it, or did not know. */
static void judge_unsettled(struct engine *e, struct item *item, int64_t now_us)
{
    static char said[] =
        "the handler returned settled, but its transaction did not commit: the message is still in the box";
    struct delivery_result failed = { .outcome = SEND_FAILED, .reason = PR_REASON_HANDLER_EXCEPTION, .error = said };

    item->refusable = false;
    if (item->answer != NULL)
        *item->answer = item->asked == SEND_SETTLED ? PR_FAILED : PR_STALE;
    item->answer = NULL;
    item_drop_verdict(item);
    item_move(e, item, PLACE_JUDGED);
    if (item->asked == SEND_SETTLED) {
        judge_failure(e, item, &failed, now_us);
        return;
    }
    judge_simple(e, item, VERDICT_POSTPONE, PR_REASON_DEPENDENCY_FAILURE, PR_STR("receiver"),
                 PR_STR("its handler's transaction did not commit"), now_us);
    item->verdict.delay_us = UNCERTAIN_US;
}

bool settle_asked(struct engine *e, struct item *item, int *answer, bool replayed, int64_t now_us)
{
    /* For a cycle that is asked again the store does not know what it found the first time. */
    if (replayed || *answer == ANSWER_BUSY) {
        if (!replayed) {
            choose_verdict_busy(e, item);
            e->plan.retry_at_us = now_us + BUSY_PAUSE_US;
        }
        item_move(e, item, PLACE_JUDGED);
        return false;
    }
    if (*answer == PR_OK) {
        judge_unsettled(e, item, now_us);
        return false;
    }
    if (*answer == PR_UNKNOWN && item->verdict.fenced) {
        item->verdict.kind = VERDICT_COMPLETE; /* from here on like any other completion */
        item->verdict.fenced = false;
        verdict_tally(e, item, +1);
        *answer = PR_OK;
    }
    return true;
}
