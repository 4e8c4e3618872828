#include "runtime/runtime.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/inside.h"
#include "runtime/threads/thread.h"
#include "transport/process/launcher.h"
#include "transport/pull/pull.h"

#define MALLOC_ARENAS 2

void runtime_tune_process(void)
{
    mallopt(M_ARENA_MAX, MALLOC_ARENAS);
}

void runtime_on_fault(void *arg, const struct pr_error *fault)
{
    struct runtime *rt = arg;
    ASSERT(pthread_mutex_lock(&rt->fault_lock) == 0);
    bool first = rt->fault.code == PR_OK;
    if (first)
        rt->fault = *fault;
    ASSERT(pthread_mutex_unlock(&rt->fault_lock) == 0);
    if (!first)
        return;
    log_emit(rt->options.log, LOG_ERROR, "stopped_by_fault", LOG_STR("error", fault->text));
    wake_send(rt->fault_fd);
}

struct runtime *runtime_new(struct config *config, const struct runtime_options *options, struct pr_error *reterr)
{
    struct runtime *rt = calloc(1, sizeof *rt);
    if (rt == NULL) {
        error_set(reterr, PR_ENOMEM, "out of memory for the runtime");
        return NULL;
    }
    rt->feed = feed_new();
    if (rt->feed == NULL) {
        free(rt);
        error_set(reterr, PR_ENOMEM, "out of memory for the runtime");
        return NULL;
    }
    int rc = pull_new(&rt->pull, reterr);
    if (rc == PR_OK)
        rc = wake_open(&rt->fault_fd, reterr);
    if (rc < 0) {
        pull_free(rt->pull);
        feed_free(rt->feed);
        free(rt);
        return NULL;
    }
    rt->options = *options;
    program_init(&rt->program);
    ASSERT(pthread_mutex_init(&rt->change_lock, NULL) == 0);
    ASSERT(pthread_rwlock_init(&rt->lock, NULL) == 0);
    ASSERT(pthread_mutex_init(&rt->fault_lock, NULL) == 0);
    rt->config = config;
    return rt;
}

void runtime_free(struct runtime *rt)
{
    if (rt == NULL)
        return;
    runtime_stop(rt, rt->config->stop_timeout_us);
    leftovers_free(rt, true);
    relay_free(rt->relay);
    launcher_free(rt->program.launcher);
    store_free(rt->store);
    feed_free(rt->feed);
    pull_free(rt->pull); /* after the relay, which may have requests to answer */
    config_free(rt->config);
    program_fini(&rt->program);
    wake_close(rt->fault_fd);
    pthread_mutex_destroy(&rt->change_lock);
    pthread_rwlock_destroy(&rt->lock);
    pthread_mutex_destroy(&rt->fault_lock);
    free(rt);
}

/* ---- Start, stop, reload ---- */

/* Before there are threads: see launcher.h. */
static int start_launcher(struct runtime *rt, struct pr_error *reterr)
{
    bool is_needed = false;
    for (size_t i = 0; i < rt->config->endpoint_count; i++)
        is_needed |= rt->config->endpoints[i].isolation;
    return is_needed && rt->program.launcher == NULL ? launcher_start(&rt->program.launcher, reterr) : PR_OK;
}

int runtime_start(struct runtime *rt, struct pr_error *reterr)
{
    struct works w = { .config = rt->config };
    ASSERT(pthread_mutex_lock(&rt->change_lock) == 0);
    int rc = rt->state == RUNTIME_NEW ? start_launcher(rt, reterr)
                                      : error_set(reterr, PR_EINVAL, "it was already started once: create a new one");
    if (rc == PR_OK)
        rc = works_prepare(rt, &w, reterr);
    if (rc == PR_OK)
        rc = relay_start(w.relay, reterr);
    if (rc == PR_OK) {
        works_swap(rt, w, RUNTIME_RUNNING);
        works_log_started(rt, &w);
    } else {
        front_stop(rt, w.front);
        relay_free(w.relay);
        store_free(w.store);
    }
    ASSERT(pthread_mutex_unlock(&rt->change_lock) == 0);
    return rc;
}

int runtime_stop(struct runtime *rt, int64_t timeout_us)
{
    int rc = PR_OK;
    atomic_store(&rt->stops, true); /* a reload that is under way ends when the old relay has stopped */
    ASSERT(pthread_mutex_lock(&rt->change_lock) == 0);
    if (rt->state == RUNTIME_RUNNING) {
        rc = relay_stop(rt->relay, timeout_us);
        pull_interrupt(rt->pull);
        struct works w = { rt->config, rt->store, rt->relay, NULL };
        struct works old = works_swap(rt, w, RUNTIME_STOPPED);
        front_stop(rt, old.front);
        leftovers_free(rt, false);
        if (rt->leftovers != NULL) /* left behind by a reload, and still running */
            rc = PR_TIMEOUT;
    }
    ASSERT(pthread_mutex_unlock(&rt->change_lock) == 0);
    return rc;
}

int runtime_reload(struct runtime *rt, struct config *config, struct pr_error *reterr)
{
    ASSERT(pthread_mutex_lock(&rt->change_lock) == 0);
    int rc =
        rt->state == RUNTIME_RUNNING ? reload(rt, config, reterr) : error_set(reterr, PR_EINVAL, "it is not running");
    ASSERT(pthread_mutex_unlock(&rt->change_lock) == 0);
    return rc;
}

int runtime_drain(struct runtime *rt, int64_t timeout_us, struct pr_error *reterr)
{
    int64_t deadline_us = time_add(clock_mono_us(clock_system()), max64(timeout_us, 0));
    for (;;) {
        read_lock(rt);
        int rc = rt->state == RUNTIME_RUNNING
                     ? relay_drain(rt->relay, time_sub(deadline_us, clock_mono_us(clock_system())))
                     : error_set(reterr, PR_EINVAL, "it is not running");
        read_unlock(rt);
        int fault = runtime_fault(rt, reterr);
        if (fault != PR_OK)
            return fault;
        if (rc != PR_STALE)
            return rc;
        /* The relay ended meanwhile: wait for the stop or reload, then look again. */
        ASSERT(pthread_mutex_lock(&rt->change_lock) == 0);
        ASSERT(pthread_mutex_unlock(&rt->change_lock) == 0);
    }
}

/* ---- By the program's hand ---- */

struct program *runtime_program(struct runtime *rt)
{
    return rt->state == RUNTIME_NEW ? &rt->program : NULL;
}

static int on_endpoint(struct runtime *rt, enum admin_kind kind, pr_slice endpoint, int64_t for_us, pr_slice why,
                       struct pr_error *reterr)
{
    struct admin_reply reply;
    int rc = PR_OK;
    read_lock(rt);
    if (rt->state != RUNTIME_RUNNING)
        rc = error_set(reterr, PR_EINVAL, "it is not running");
    else if (!relay_has_endpoint(rt->relay, endpoint))
        rc = error_set(reterr, PR_ENOTFOUND, "unknown endpoint \"%.*s\"", SLICE_ARGS(endpoint));
    if (rc == PR_OK) {
        struct admin admin = { .kind = kind,
                               .filter = { .endpoint = endpoint, .state = -1 },
                               .by = slice_from(rt->config->instance),
                               .why = why,
                               .until_us = for_us == PR_NEVER ? PR_NEVER : time_add(store_time(rt->store), for_us) };
        rc = store_admin(rt->store, &admin, &reply, reterr);
    }
    read_unlock(rt);
    return rc;
}

int runtime_pause(struct runtime *rt, pr_slice endpoint, int64_t for_us, pr_slice why, struct pr_error *reterr)
{
    return on_endpoint(rt, ADMIN_PAUSE, endpoint, for_us, why, reterr);
}

int runtime_resume(struct runtime *rt, pr_slice endpoint, struct pr_error *reterr)
{
    return on_endpoint(rt, ADMIN_RESUME, endpoint, 0, (pr_slice){ NULL, 0 }, reterr);
}

int runtime_send(struct runtime *rt, pr_slice box, const struct pr_message *message, pr_id *ret_id,
                 enum pr_sent *ret_sent, struct pr_error *reterr)
{
    int rc = PR_OK;
    read_lock(rt);
    if (rt->state != RUNTIME_RUNNING)
        rc = error_set(reterr, PR_EINVAL, "it is not running");
    else if (!relay_has_box(rt->relay, box))
        rc = error_set(reterr, PR_ENOTFOUND, "unknown box \"%.*s\"", SLICE_ARGS(box));
    else
        rc = inliner_send(relay_inliner(rt->relay), box, message, ret_id, ret_sent, reterr);
    read_unlock(rt);
    return rc;
}

/* ---- What it works with ---- */

const struct config *runtime_config(const struct runtime *rt)
{
    return rt->config;
}

int runtime_enter(struct runtime *rt, struct runtime_inside *ret, struct pr_error *reterr)
{
    read_lock(rt);
    if (rt->state == RUNTIME_RUNNING) {
        *ret = (struct runtime_inside){ rt->config, rt->store, rt->relay };
        return PR_OK;
    }
    read_unlock(rt);
    return error_set(reterr, PR_EINVAL, "it is not running");
}

void runtime_leave(struct runtime *rt)
{
    read_unlock(rt);
}

bool runtime_is_claimable(struct runtime *rt)
{
    read_lock(rt);
    bool claimable = rt->state == RUNTIME_RUNNING && relay_is_claimable(rt->relay);
    read_unlock(rt);
    return claimable;
}

struct feed *runtime_feed(struct runtime *rt)
{
    return rt->feed;
}

struct pull *runtime_pull(struct runtime *rt)
{
    return rt->pull;
}
