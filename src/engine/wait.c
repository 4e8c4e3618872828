/* When the owner must call the engine again, and whether it has anything to do. */
#include "base/time.h"
#include "engine/internal.h"

static int64_t shared_next_us(const struct endpoint *ep, int64_t now_us)
{
    int64_t next_us;

    limits_lock(ep->limits);
    next_us = limits_next_us(ep->limits, &ep->use, ep->setting, now_us);
    limits_unlock(ep->limits);
    return next_us;
}

static int64_t endpoint_next_us(const struct engine *e, const struct endpoint *ep, int64_t now_us)
{
    int64_t next_us = PR_NEVER;

    if (endpoint_paused_until(ep) != 0 && endpoint_paused_until(ep) != PR_NEVER)
        next_us = endpoint_paused_until(ep) - e->membership.store_offset_us;
    if (ep->count > 0)
        next_us = min64(next_us, breakers_next_us(ep));
    if (ep->count > ep->out && (ep->setting->rate.count > 0 || ep->use.waits))
        next_us = min64(next_us, shared_next_us(ep, now_us));
    if (ep->full_since_us != 0 && !ep->slow && e->reading.fresh_wanted)
        next_us = min64(next_us, ep->full_since_us + PASS_OVER_AFTER_US);
    return next_us;
}

static int64_t due_next_us(const struct engine *e)
{
    int64_t next_us = e->reading.due_restart_us;

    if (e->reading.next_due_us != PR_NEVER)
        next_us = min64(next_us, e->reading.next_due_us - e->membership.store_offset_us);
    if (e->reading.orphans.wanted)
        next_us = min64(next_us, e->reading.orphans.at_us);
    return next_us;
}

int64_t engine_next_us(struct engine *e, int64_t now_us)
{
    int64_t next_us;

    if (e->membership.left)
        return PR_NEVER;
    breakers_sync_all(e);
    if (e->plan.asked || e->plan.retry_at_us > now_us)
        return max64(e->plan.retry_at_us, now_us);
    if (wants_cycle(e, now_us))
        return now_us;
    next_us = min64(min64(renew_at_us(e), look_at_us(e)), e->plan.inline_results_at_us);
    if (e->member.look_us > now_us)
        next_us = min64(next_us, e->member.look_us);
    if (e->membership.stopping)
        return next_us;
    next_us = min64(next_us, peers_next_us(e, now_us));
    if (e->membership.lanes != 0 && window_has_room(e))
        next_us = min64(next_us, due_next_us(e));
    for (size_t i = 0; i < e->endpoint_count; i++) {
        int64_t at_us = endpoint_next_us(e, &e->endpoints[i], now_us);
        if (at_us > now_us)
            next_us = min64(next_us, at_us);
    }
    return max64(next_us, now_us);
}

bool engine_idle(struct engine *e, int64_t now_us)
{
    if (e->membership.left)
        return true;
    return e->membership.epoch != 0 && !e->plan.asked && e->window.count == 0 && e->plan.hold_count == 0 &&
           !e->reading.fresh_wanted && !e->reading.due_wanted && e->membership.opening == OPEN_DONE &&
           e->reading.next_due_us > store_now(e, now_us) && !wants_cycle(e, now_us);
}
