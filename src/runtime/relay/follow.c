/* Switching a running relay to another configuration. */
#include <stdlib.h>

#include "base/error.h"
#include "base/util.h"
#include "runtime/relay/parts.h"

#define RETUNE_WAIT_US PR_SECONDS(10)      /* for boxes that cannot switch now; they do so when they can */
#define RETUNE_LOOK_US PR_MILLISECONDS(50) /* ... how often to check meanwhile whether to stop */

static bool view_follows(const struct box_loop_view *view, uint64_t setting)
{
    return view->ended || (uintptr_t)view->setting == setting;
}

/* Boxes that cannot switch now do so when they can. */
static void await_following(struct relay *r, const struct setting *s)
{
    int64_t deadline_us = time_add(now_us(), RETUNE_WAIT_US);
    bool all = false;
    while (!all && !atomic_load(r->options.stops) && now_us() < deadline_us) {
        monitor_lock(&r->monitor);
        all = relay_wait(r, view_follows, (uintptr_t)s, min64(deadline_us, time_add(now_us(), RETUNE_LOOK_US)));
        monitor_unlock(&r->monitor);
    }
}

int relay_retune(struct relay *r, const struct config *config, struct pr_error *reterr)
{
    struct setting *s = NULL;
    if (r->past_count == RETUNES_MAX)
        return PR_STALE;
    int rc = relay_make_setting(r, config, &s, reterr);
    if (rc < 0)
        return rc;
    rc = setting_follow(s, r->setting, r->first_count);
    if (rc < 0)
        rc = error_set(reterr, rc, "out of memory for the configuration");
    if (rc == PR_OK)
        rc = source_threads_new(r->sources, config, r->options.store, r->options.log, &r->next_sources, reterr);
    if (rc != PR_OK) {
        relay_free_setting(s);
        return rc;
    }
    setting_warn(s, config, r->options.log);
    for (size_t i = 0; i < r->started; i++)
        box_loop_retune(r->box_loops[i], s);
    await_following(r, s);
    r->next = s;
    source_threads_follow(r->next_sources, r->sources, config);
    return PR_OK;
}

void relay_follow(struct relay *r, struct config *old, const struct config *config)
{
    if (old->schedules_digest != config->schedules_digest)
        schedule_keeper_retune(r->keeper, config);
    r->past[r->past_count++] = (struct past){ r->setting, old };
    r->setting = r->next;
    r->next = NULL;
    ASSERT(pthread_mutex_lock(&r->sources_lock) == 0);
    r->gone_sources = r->sources;
    r->sources = r->next_sources;
    r->next_sources = NULL;
    ASSERT(pthread_mutex_unlock(&r->sources_lock) == 0);
}

void relay_let_go(struct relay *r)
{
    source_threads_free(r->gone_sources);
    r->gone_sources = NULL;
}
