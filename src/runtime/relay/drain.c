/* Waiting until nothing is left to do in any box. */
#include "base/error.h"
#include "base/util.h"
#include "runtime/relay/parts.h"

static bool view_is_idle(const struct box_loop_view *view, uint64_t look)
{
    return view->ended || (view->looked >= look && view->idle);
}

/* With the monitor held: if the value changes while nobody touches the relay, there was work. */
static uint64_t relay_work(const struct relay *r)
{
    uint64_t work = 0;
    for (size_t i = 0; i < r->started; i++) {
        const struct engine_counts *c = &box_loop_view(r->box_loops[i])->counts;
        work += c->sent + c->failed + c->dead + c->discarded + c->expired + c->duplicates + c->parked + c->returned +
                c->split;
    }
    return work;
}

static bool relay_has_ended_box_loop(const struct relay *r)
{
    for (size_t i = 0; i < r->started; i++)
        if (box_loop_view(r->box_loops[i])->ended)
            return true;
    return false;
}

/* A handler in one box may send into another one that was checked before: so the drain is complete only when a whole
 * round of looks, box by box, found everything idle and nothing was done meanwhile. */
int relay_drain(struct relay *r, int64_t timeout_us)
{
    int64_t deadline_us = time_add(now_us(), max64(timeout_us, 0));
    uint64_t before, after = UINT64_MAX;
    bool idle, ended;
    ASSERT(pthread_mutex_lock(&r->drain_lock) == 0);
    do {
        before = after;
        r->look++;
        for (size_t i = 0; i < r->started; i++)
            box_loop_look(r->box_loops[i], r->look);
        monitor_lock(&r->monitor);
        idle = relay_wait(r, view_is_idle, r->look, deadline_us);
        ended = relay_has_ended_box_loop(r);
        after = relay_work(r);
        monitor_unlock(&r->monitor);
    } while (idle && !ended && before != after);
    ASSERT(pthread_mutex_unlock(&r->drain_lock) == 0);
    return ended ? PR_STALE : idle ? PR_OK : PR_TIMEOUT;
}
