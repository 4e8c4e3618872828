#include "runtime/relay/relay.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/relay/parts.h"

#define STOP_MIN_US PR_MILLISECONDS(100)   /* time to leave the store, when nothing is out */
#define START_FAILED_STOP_US PR_SECONDS(1) /* nothing is out yet */

/* If one box cannot continue, no box does, since they share the store. */
static void relay_fault(void *arg, const struct pr_error *fault)
{
    struct relay *r = arg;
    int64_t deadline_us = time_add(now_us(), r->options.config->stop_timeout_us);
    r->options.on_fault(r->options.on_fault_arg, fault);
    for (size_t i = 0; i < r->box_loop_count; i++)
        box_loop_stop(r->box_loops[i], deadline_us);
}

/* Unused boxes have no thread and no session. */
static bool box_is_used(const struct relay *r, const struct config_box *box)
{
    const struct program *program = r->options.program;
    bool used = box->used;
    for (size_t i = 0; i < program->handler_count; i++)
        used |= program->handlers[i].box != NULL && strcmp(program->handlers[i].box, box->name) == 0;
    used |= box->kind == BOX_TURNS && program->flows.count > 0;
    used |= box->kind == BOX_ACTIVITIES && program->activity_count > 0;
    return used;
}

static void limit_lock(void *arg, size_t index)
{
    const struct relay *r = arg;
    ASSERT(pthread_mutex_lock(&r->limit_locks[index]) == 0);
}

static void limit_unlock(void *arg, size_t index)
{
    const struct relay *r = arg;
    ASSERT(pthread_mutex_unlock(&r->limit_locks[index]) == 0);
}

/* A single box has limits of its own, and takes no lock. */
static int relay_make_limits(struct relay *r, struct pr_error *reterr)
{
    const struct config *config = r->options.config;
    size_t used = 0;
    for (size_t i = 0; i < config->box_count; i++)
        used += box_is_used(r, &config->boxes[i]);
    if (used < 2)
        return PR_OK;
    const struct limits_setting setting = {
        .engines = used,
        .endpoint_count = r->setting->endpoint_count,
        .window_count = (size_t)config->in_flight_max,
        .window_bytes = (size_t)config->in_flight_bytes_max,
        .payload_max = (size_t)config->payload_max,
        .lock = limit_lock,
        .unlock = limit_unlock,
        .lock_arg = r,
    };
    r->limits = limits_new(&setting);
    r->limit_locks = calloc(limits_lock_count(&setting), sizeof r->limit_locks[0]);
    if (r->limits == NULL || r->limit_locks == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu boxes", used);
    for (; r->limit_lock_count < limits_lock_count(&setting); r->limit_lock_count++)
        ASSERT(pthread_mutex_init(&r->limit_locks[r->limit_lock_count], NULL) == 0);
    return PR_OK;
}

static void relay_free_limits(struct relay *r)
{
    limits_free(r->limits);
    for (size_t i = 0; i < r->limit_lock_count; i++)
        pthread_mutex_destroy(&r->limit_locks[i]);
    free(r->limit_locks);
}

/* A box has stored messages for another one, which looks at once. */
static void relay_stored(void *arg, pr_slice box)
{
    struct relay *r = arg;
    for (size_t i = 0; i < r->box_loop_count; i++)
        if (slice_eq(slice_from(box_loop_name(r->box_loops[i])), box))
            box_loop_changed(r->box_loops[i]);
}

static int relay_make_flows(struct relay *r, struct pr_error *reterr)
{
    const struct flows_options options = {
        .config = r->options.config, .program = r->options.program, .store = r->options.store, .log = r->options.log
    };
    return flows_open(&options, &r->flows, reterr);
}

static int relay_make_box_loops(struct relay *r, struct pr_error *reterr)
{
    const struct config *config = r->options.config;
    r->box_loops = calloc(config->box_count, sizeof r->box_loops[0]);
    if (r->box_loops == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu boxes", config->box_count);
    for (size_t i = 0; i < config->box_count; i++) {
        if (!box_is_used(r, &config->boxes[i]))
            continue;
        const struct box_loop_options options = { .config = config,
                                                  .box = &config->boxes[i],
                                                  .setting = r->setting,
                                                  .store = r->options.store,
                                                  .log = r->options.log,
                                                  .monitor = &r->monitor,
                                                  .limits = r->limits,
                                                  .caller = &r->caller,
                                                  .flows = r->flows,
                                                  .stored = relay_stored,
                                                  .stored_arg = r,
                                                  .feed = r->options.feed,
                                                  .pull = r->options.pull,
                                                  .on_fault = relay_fault,
                                                  .on_fault_arg = r };
        int rc = box_loop_new(&options, &r->box_loops[r->box_loop_count], reterr);
        if (rc < 0)
            return rc;
        r->box_loop_count++;
    }
    return PR_OK;
}

static bool endpoint_is_closed(void *arg, size_t endpoint)
{
    struct relay *r = arg;
    struct endpoint_view view;
    relay_sum_endpoint(r, endpoint, &view);
    return view.breaker != BREAKER_CLOSED || view.paused_until_us > store_time(r->options.store);
}

static void add_inline_result(void *arg, pr_slice box, const struct engine_inline_result *result)
{
    struct relay *r = arg;
    for (size_t i = 0; i < r->box_loop_count; i++)
        if (slice_eq(slice_from(box_loop_name(r->box_loops[i])), box))
            box_loop_add_inline_result(r->box_loops[i], result);
}

static int relay_make_inliner(struct relay *r, struct pr_error *reterr)
{
    const struct inliner_options options = { .config = r->options.config,
                                             .setting = r->setting,
                                             .store = r->options.store,
                                             .caller = &r->caller,
                                             .log = r->options.log,
                                             .payload_max = (size_t)r->options.config->payload_max,
                                             .is_closed = endpoint_is_closed,
                                             .is_closed_arg = r,
                                             .tell = add_inline_result,
                                             .tell_arg = r };
    r->inliner = inliner_new(&options);
    return r->inliner != NULL
               ? PR_OK
               : error_set(reterr, PR_ENOMEM, "out of memory for %zu endpoints", r->setting->endpoint_count);
}

void relay_free_setting(struct setting *s)
{
    if (s == NULL)
        return;
    setting_fini(s);
    free(s);
}

int relay_make_setting(const struct relay *r, const struct config *config, struct setting **ret,
                       struct pr_error *reterr)
{
    struct setting *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the configuration");
    int rc = setting_init(s, config, r->options.program, r->flows, r->options.log, reterr);
    if (rc < 0)
        relay_free_setting(s);
    else
        *ret = s;
    return rc;
}

static void describe_sources(void *arg, struct buf *ret)
{
    struct relay *r = arg;
    ASSERT(pthread_mutex_lock(&r->sources_lock) == 0);
    source_threads_describe(r->sources, ret);
    ASSERT(pthread_mutex_unlock(&r->sources_lock) == 0);
}

int relay_new(const struct relay_options *options, struct relay **ret_relay, struct pr_error *reterr)
{
    struct relay *r = calloc(1, sizeof *r);
    if (r == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a relay");
    r->options = *options;
    r->caller = (struct caller){ .program = options->program, .log = options->log };
    int rc = monitor_init(&r->monitor, reterr);
    if (rc < 0) {
        free(r);
        return rc;
    }
    ASSERT(pthread_mutex_init(&r->drain_lock, NULL) == 0);
    ASSERT(pthread_mutex_init(&r->sources_lock, NULL) == 0);
    rc = relay_make_flows(r, reterr);
    if (rc == PR_OK)
        rc = relay_make_setting(r, options->config, &r->setting, reterr);
    r->first_count = r->setting != NULL ? r->setting->endpoint_count : 0;
    if (rc == PR_OK)
        rc = relay_make_inliner(r, reterr);
    if (rc == PR_OK)
        rc = relay_make_limits(r, reterr);
    if (rc == PR_OK)
        rc = relay_make_box_loops(r, reterr);
    if (rc == PR_OK)
        rc = source_threads_new(NULL, options->config, options->store, options->log, &r->sources, reterr);
    if (rc == PR_OK)
        rc =
            schedule_keeper_new(options->config, options->store, options->log, describe_sources, r, &r->keeper, reterr);
    if (rc < 0) {
        relay_free(r);
        return rc;
    }
    setting_warn(r->setting, options->config, options->log);
    *ret_relay = r;
    return PR_OK;
}

void relay_free(struct relay *r)
{
    if (r == NULL)
        return;
    schedule_keeper_free(r->keeper);
    source_threads_free(r->gone_sources);
    source_threads_free(r->sources);
    for (size_t i = 0; i < r->box_loop_count; i++)
        box_loop_free(r->box_loops[i]);
    free(r->box_loops);
    relay_free_limits(r);
    inliner_free(r->inliner);
    flows_close(r->flows); /* after the engines, which report the ends of turns */
    relay_free_setting(r->setting);
    for (size_t i = 0; i < r->past_count; i++) {
        relay_free_setting(r->past[i].setting);
        config_free(r->past[i].config);
    }
    pthread_mutex_destroy(&r->drain_lock);
    pthread_mutex_destroy(&r->sources_lock);
    monitor_fini(&r->monitor);
    free(r);
}

bool relay_is_over(struct relay *r)
{
    for (size_t i = 0; i < r->box_loop_count; i++)
        if (!box_loop_is_over(r->box_loops[i]))
            return false;
    return true;
}

int relay_start(struct relay *r, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (; rc == PR_OK && r->started < r->box_loop_count; r->started += rc == PR_OK)
        rc = box_loop_start(r->box_loops[r->started], reterr);
    if (rc == PR_OK)
        rc = source_threads_start(r->sources, reterr);
    if (rc == PR_OK)
        rc = schedule_keeper_start(r->keeper, reterr);
    if (rc < 0)
        relay_stop(r, START_FAILED_STOP_US);
    return rc;
}

bool relay_wait(struct relay *r, bool (*is_true)(const struct box_loop_view *view, uint64_t arg), uint64_t arg,
                int64_t deadline_us)
{
    for (;;) {
        size_t count = 0;
        for (size_t i = 0; i < r->started; i++)
            count += is_true(box_loop_view(r->box_loops[i]), arg);
        if (count == r->started)
            return true;
        int64_t left_us = time_sub(deadline_us, now_us());
        if (left_us <= 0)
            return false;
        monitor_wait(&r->monitor, left_us);
    }
}

static bool view_has_ended(const struct box_loop_view *view, uint64_t arg)
{
    (void)arg;
    return view->ended;
}

int relay_stop(struct relay *r, int64_t timeout_us)
{
    int64_t deadline_us = time_add(now_us(), max64(timeout_us, STOP_MIN_US));
    schedule_keeper_stop(r->keeper);
    source_threads_stop(r->sources); /* others deliver what they store last */
    for (size_t i = 0; i < r->started; i++)
        box_loop_stop(r->box_loops[i], deadline_us);
    monitor_lock(&r->monitor);
    bool all = relay_wait(r, view_has_ended, 0, deadline_us);
    for (size_t i = 0; i < r->started; i++)
        all = all && !box_loop_view(r->box_loops[i])->left_behind;
    monitor_unlock(&r->monitor);
    source_threads_join(r->sources);
    if (all)
        schedule_keeper_join(r->keeper);
    return all ? PR_OK : PR_TIMEOUT;
}

struct inliner *relay_inliner(const struct relay *r)
{
    return r->inliner;
}

bool relay_has_box(const struct relay *r, pr_slice name)
{
    return config_find_box(r->options.config, name) != NULL;
}
