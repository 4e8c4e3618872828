/* Is the relay alive, can it work, and what should people know? */
#include "base/error.h"
#include "base/slice.h"
#include "runtime/relay/parts.h"
#include "runtime/runtime.h"

#define LIVE_US PR_SECONDS(60) /* a cycle may wait long for a lock; a loop without progress for longer is broken */

int relay_is_live(struct relay *r, struct pr_error *reterr)
{
    int rc = PR_OK;
    int64_t now = now_us();
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->started && rc == PR_OK; i++) {
        const struct box_loop_view *v = box_loop_view(r->box_loops[i]);
        if (v->ended)
            rc = error_set(reterr, PR_ESTORE, "box %s: stopped", box_loop_name(r->box_loops[i]));
        else if (now - v->tick_us > LIVE_US)
            rc = error_set(reterr, PR_ESTORE, "box %s: no progress for %d s", box_loop_name(r->box_loops[i]),
                           (int)((now - v->tick_us) / PR_SECONDS(1)));
    }
    monitor_unlock(&r->monitor);
    return rc;
}

int relay_is_ready(struct relay *r, struct pr_error *reterr)
{
    int rc = PR_OK;
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->started && rc == PR_OK; i++) {
        const struct box_loop_view *v = box_loop_view(r->box_loops[i]);
        if (v->trouble.code != PR_OK)
            rc = error_set(reterr, v->trouble.code, "box %s: %s", box_loop_name(r->box_loops[i]), v->trouble.text);
        else if (v->ended || !v->joined)
            rc = error_set(reterr, PR_ESTORE, "box %s: %s", box_loop_name(r->box_loops[i]),
                           v->ended ? "stopped" : "has not started yet");
    }
    monitor_unlock(&r->monitor);
    return rc;
}

/* An endpoint at which every attempt of this process fails. */
static bool is_failing(struct relay *r, struct pr_error *reterr)
{
    for (size_t i = 0; i < relay_endpoint_count(r); i++) {
        pr_slice name = relay_endpoint_name(r, i);
        struct endpoint_view v;
        relay_endpoint(r, i, &v);
        if (v.breaker != BREAKER_CLOSED)
            error_set(reterr, NOTE_ENDPOINT, "endpoint %.*s: failing, its messages wait: postrider endpoints",
                      SLICE_ARGS(name));
        else if (v.failed_in_row >= ENDPOINT_FAILING_MIN)
            error_set(reterr, NOTE_ENDPOINT, "endpoint %.*s: the last %llu attempts all failed: postrider endpoints",
                      SLICE_ARGS(name), (unsigned long long)v.failed_in_row);
        else
            continue;
        return true;
    }
    return false;
}

static bool is_source_in_trouble(struct relay *r, struct pr_error *reterr)
{
    struct source_status s;
    for (size_t i = 0; i < relay_source_count(r); i++) {
        relay_source(r, i, &s);
        if (s.trouble.code == PR_OK)
            continue;
        error_set(reterr, NOTE_SOURCE, "source %s: %s", s.name, s.trouble.text);
        return true;
    }
    return false;
}

static bool stands_by(struct relay *r, struct pr_error *reterr)
{
    bool found = false;
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->started && !found; i++) {
        found = box_loop_view(r->box_loops[i])->standby;
        if (found)
            error_set(reterr, NOTE_STANDBY, "box %s: standing by, another instance serves it: postrider instances",
                      box_loop_name(r->box_loops[i]));
    }
    monitor_unlock(&r->monitor);
    return found;
}

int relay_note(struct relay *r, struct pr_error *reterr)
{
    return is_source_in_trouble(r, reterr) ? NOTE_SOURCE
           : is_failing(r, reterr)         ? NOTE_ENDPOINT
           : stands_by(r, reterr)          ? NOTE_STANDBY
                                           : NOTE_NONE;
}

bool relay_is_claimable(struct relay *r)
{
    bool all = true;
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->box_loop_count; i++)
        all = all && box_loop_view(r->box_loops[i])->claimable;
    monitor_unlock(&r->monitor);
    return all;
}
