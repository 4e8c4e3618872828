/* Messages that go into another box: their end here and their beginning there are one verdict and its effect.
 *
 * Nothing outside gets them, so there is no receipt, no hand-out that could be lost, and no suspect: they are judged
 * when their turn has come, in the cycle that is being made.  One message of a stream at a time: its row may be locked
 * by another transaction, and then the next one must not arrive before it. */
#include "core/local_delivery.h"
#include "engine/internal.h"

bool endpoint_is_local(const struct endpoint *ep)
{
    return ep->setting->into_box.size > 0;
}

/* No retry can help, so no rule is asked. */
static void judge_full(struct engine *e, struct item *item, int64_t now_us)
{
    judge_dead(e, item, PR_REASON_REJECTED, PR_REASON_REJECTED, 0, PR_STR("headers"), true, PR_STR("headers"),
               PR_STR("its headers have reached their limit: no room for " HEADER_FROM
                      ", which names the boxes that it came through"),
               now_us);
}

static void judge_loop(struct engine *e, struct item *item, int64_t now_us)
{
    struct pr_error text;

    error_set(&text, 0, "it is in box %.*s, and came through box %.*s before: it would loop forever; change the routes",
              SLICE_ARGS(e->setting.box), SLICE_ARGS(item->endpoint->setting->into_box));
    judge_dead(e, item, PR_REASON_REJECTED, PR_REASON_REJECTED, 0, PR_STR("loop"), true, PR_STR("loop"),
               pr_str(text.text), now_us);
}

void judge_local(struct engine *e, struct item *item, int64_t now_us)
{
    struct endpoint *ep = item->endpoint;
    struct send_effect *effect;

    limits_lock(ep->limits);
    limits_pass(ep->limits, &ep->use, ep->setting, now_us);
    limits_unlock(ep->limits);
    if (local_is_loop(&item->m, e->setting.box, ep->setting->into_box)) {
        judge_loop(e, item, now_us);
        return;
    }
    if (item->number == 1 && item->m.due_us == 0)
        histogram_add(&e->counts.commit_to_send, store_now(e, now_us) - item->m.created_us);
    int rc = local_effect(&item->m, e->setting.box, ep->setting->into_box, &effect);
    if (rc == PR_ETOOBIG) {
        judge_full(e, item, now_us);
        return;
    }
    if (rc != PR_OK) {
        put_back(e, item);
        return;
    }
    item->refusable = item->stream != NULL || e->membership.dedupe_us > 0;
    judge_complete(e, item, 0);
    item->effects = effect;
}
