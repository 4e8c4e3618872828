/* Results of inline sends (mode: inline), which do not go through the engine.  They count for the stored totals, for
 * the breaker, and as evidence, as if the engine had sent the messages. */
#include "engine/internal.h"

static void count(struct endpoint *ep, const struct engine_inline_result *n)
{
    ep->tally.sent += (int64_t)n->sent;
    ep->tally.failed += (int64_t)n->failed;
    ep->tally.dead += (int64_t)n->dead;
    ep->tally.discarded += (int64_t)n->discarded;
    ep->sent += n->sent;
    ep->failed += n->failed;
    ep->failed_in_row = n->sent > 0 ? 0 : ep->failed_in_row + n->failed;
    ep->reasons[reason_index(n->reason)] += n->failed;
}

void engine_inline_result_absorb(struct engine *e, int64_t now_us, const struct engine_inline_result *n)
{
    struct endpoint *ep = &e->endpoints[n->endpoint];

    ASSERT(n->endpoint < e->endpoint_count);
    count(ep, n);
    if (n->asked)
        breakers_heard(e, ep, n, now_us);
    bool at_once = n->asked && n->sent > 0 && evidence_from_outside(ep, n->type, n->at_us, now_us);
    e->plan.inline_results_at_us = min64(e->plan.inline_results_at_us, at_once ? now_us : now_us + INLINE_RESULTS_US);
}
