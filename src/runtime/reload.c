/* Changing the configuration of a running relay: unaffected parts do not stop. */
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "runtime/inside.h"

/* The old relay has stopped: the new one takes over.  A drain that waits for the old one returns. */
static void replace(struct runtime *rt, struct works w, bool keep_store, bool keep_front, bool keep_config)
{
    struct works old = works_swap(rt, w, RUNTIME_RUNNING);
    if (!keep_front)
        front_stop(rt, old.front);
    leftover_add(rt, old.relay, keep_store ? NULL : old.store, keep_config ? NULL : old.config);
}

/* The new configuration did not start: goes back to the old one. */
static void fall_back(struct runtime *rt, struct works w)
{
    struct pr_error error;
    struct works old = { rt->config, rt->store, NULL, rt->front };
    int rc = works_prepare(rt, &old, &error);
    if (rc == PR_OK)
        rc = relay_start(old.relay, &error);
    if (rc == PR_OK)
        replace(rt, old, true, true, true);
    else {
        relay_free(old.relay);
        runtime_on_fault(rt, &error);
    }
    relay_free(w.relay);
    if (w.front != rt->front)
        front_stop(rt, w.front);
    else if (w.front != NULL && rt->options.front->retune(w.front, rt->config, &error) < 0)
        runtime_on_fault(rt, &error);
    if (w.store != rt->store)
        store_free(w.store);
}

/* The same store is kept: data in memory would be lost otherwise. */
static bool is_same_store(const struct config *a, const struct config *b)
{
    return strcmp(a->store, b->store) == 0 && a->payload_max == b->payload_max && a->poll_min_us == b->poll_min_us &&
           a->poll_max_us == b->poll_max_us;
}

/* A route can bring a box into use. */
static bool are_same_boxes(const struct config *a, const struct config *b)
{
    for (size_t i = 0; i < a->box_count && a->box_count == b->box_count; i++)
        if (strcmp(a->boxes[i].name, b->boxes[i].name) != 0 || a->boxes[i].used != b->boxes[i].used)
            return false;
    return a->box_count == b->box_count;
}

/* Only settings that a running relay can follow differ: nothing need stop. */
static int reload_softly(struct runtime *rt, struct config *config, struct pr_error *reterr)
{
    if (!is_same_store(config, rt->config) || !front_is_same(config, rt->config) ||
        config->rest_digest != rt->config->rest_digest || !are_same_boxes(config, rt->config))
        return PR_STALE;
    int rc = relay_retune(rt->relay, config, reterr);
    if (rc != PR_OK)
        return rc;
    FAILPOINT("runtime.retune");
    ASSERT(pthread_rwlock_wrlock(&rt->lock) == 0);
    relay_follow(rt->relay, rt->config, config);
    rt->config = config;
    ASSERT(pthread_rwlock_unlock(&rt->lock) == 0);
    relay_let_go(rt->relay);
    struct pr_error error;
    if (rt->front != NULL && rt->options.front->retune(rt->front, config, &error) < 0)
        runtime_on_fault(rt, &error); /* the same setting worked before */
    return PR_OK;
}

int reload(struct runtime *rt, struct config *config, struct pr_error *reterr)
{
    int soft = reload_softly(rt, config, reterr);
    if (soft <= PR_OK)
        return soft;

    const struct config *old = rt->config;
    bool keep_store = is_same_store(config, old);
    bool keep_front = front_is_same(config, old);
    struct works w = { .config = config,
                       .store = keep_store ? rt->store : NULL,
                       .front = keep_front ? rt->front : NULL };
    int rc = works_prepare(rt, &w, reterr);
    if (rc == PR_OK && keep_front && w.front != NULL)
        rc = rt->options.front->retune(w.front, config, reterr);
    if (rc < 0) {
        relay_free(w.relay);
        if (!keep_front)
            front_stop(rt, w.front);
        if (!keep_store)
            store_free(w.store);
        return rc;
    }
    FAILPOINT("runtime.reload");
    relay_stop(rt->relay, old->stop_timeout_us); /* the new relay finds what it had to leave */
    if (atomic_load(&rt->stops)) {               /* nothing must be started any more */
        relay_free(w.relay);
        if (!keep_front)
            front_stop(rt, w.front);
        if (!keep_store)
            store_free(w.store);
        return error_set(reterr, PR_EINVAL, "it is stopping");
    }
    rc = relay_start(w.relay, reterr);
    if (rc < 0) {
        fall_back(rt, w);
        return rc;
    }
    replace(rt, w, keep_store, keep_front, false);
    works_log_started(rt, &w);
    return PR_OK;
}
