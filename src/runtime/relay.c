#include "runtime/relay.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/runtime.h"
#include "runtime/threads/schedule_keeper.h"

#define LIVE_US PR_SECONDS(60) /* a cycle may wait long for a lock; a loop that hangs longer is broken */

#define STOP_MIN_US PR_MILLISECONDS(100)   /* to say goodbye to the store, when nothing is out */
#define RETUNES_MAX 100                    /* then a new one is made, which keeps nothing of the past */
#define RETUNE_WAIT_US PR_SECONDS(10)      /* for boxes that cannot follow now; they do when they can */
#define RETUNE_LOOK_US PR_MILLISECONDS(50) /* ... meanwhile: is it to stop? */
#define START_FAILED_STOP_US PR_SECONDS(1) /* nothing is out yet */

struct relay {
    struct relay_options options;
    struct setting *setting; /* by which it works; those before it are kept, since much borrows from them */
    struct setting *next;    /* by which the boxes work already */
    struct past {
        struct setting *setting;
        struct config *config;
    } past[RETUNES_MAX];
    size_t past_count;
    size_t first_count; /* endpoints of the first setting */
    struct monitor monitor;
    struct limits *limits; /* over all boxes */
    pthread_mutex_t *limit_locks;
    size_t limit_lock_count;
    struct caller caller;
    struct flows *flows;
    struct inliner *inliner;
    struct source_threads *sources, *next_sources, *gone_sources;
    pthread_mutex_t sources_lock; /* over `sources`, for the keeper: others are kept from it by the runtime's lock */
    struct schedule_keeper *keeper;
    struct box_loop **box_loops;
    size_t box_loop_count;
    size_t started;
    pthread_mutex_t drain_lock; /* one at a time: looks are numbered */
    uint64_t look;
};

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

/* One box cannot go on: then none does, for they share the store. */
static void relay_fault(void *arg, const struct pr_error *fault)
{
    struct relay *r = arg;
    int64_t deadline_us = time_add(now_us(), r->options.config->stop_timeout_us);
    r->options.on_fault(r->options.on_fault_arg, fault);
    for (size_t i = 0; i < r->box_loop_count; i++)
        box_loop_stop(r->box_loops[i], deadline_us);
}

/* The others cost no thread and no session. */
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

/* One box has its limits for itself, and takes no lock. */
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

/* A box has stored something for others: they need not look around for it. */
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

static void sum_endpoint(struct relay *r, size_t index, struct endpoint_view *ret_view);

static bool endpoint_is_closed(void *arg, size_t endpoint)
{
    struct relay *r = arg;
    struct endpoint_view view;
    sum_endpoint(r, endpoint, &view);
    return view.breaker != BREAKER_CLOSED || view.paused_until_us > store_time(r->options.store);
}

static void tell_box_loop(void *arg, pr_slice box, const struct engine_inline_result *result)
{
    struct relay *r = arg;
    for (size_t i = 0; i < r->box_loop_count; i++)
        if (slice_eq(slice_from(box_loop_name(r->box_loops[i])), box))
            box_loop_tell(r->box_loops[i], result);
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
                                             .tell = tell_box_loop,
                                             .tell_arg = r };
    r->inliner = inliner_new(&options);
    return r->inliner != NULL
               ? PR_OK
               : error_set(reterr, PR_ENOMEM, "out of memory for %zu endpoints", r->setting->endpoint_count);
}

static void setting_free(struct setting *s)
{
    if (s == NULL)
        return;
    setting_fini(s);
    free(s);
}

static int setting_make(const struct relay *r, const struct config *config, struct setting **ret,
                        struct pr_error *reterr)
{
    struct setting *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the configuration");
    int rc = setting_init(s, config, r->options.program, r->flows, r->options.log, reterr);
    if (rc < 0)
        setting_free(s);
    else
        *ret = s;
    return rc;
}

static int relay_make_setting(struct relay *r, const struct config *config, struct pr_error *reterr)
{
    struct setting *s = NULL;
    int rc = setting_make(r, config, &s, reterr);
    r->setting = s;
    r->first_count = s != NULL ? s->endpoint_count : 0;
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
        rc = relay_make_setting(r, options->config, reterr);
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
    flows_close(r->flows); /* after the engines: they tell it what became of its turns */
    setting_free(r->setting);
    for (size_t i = 0; i < r->past_count; i++) {
        setting_free(r->past[i].setting);
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

/* Wait, with the monitor held, until the condition is true of all boxes that were started. */
static bool relay_wait(struct relay *r, bool (*is_true)(const struct box_loop_view *view, uint64_t arg), uint64_t arg,
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
    source_threads_stop(r->sources); /* what they store last, others deliver */
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

/* ---- Another configuration ---------------------------------------------------------------- */

static bool view_follows(const struct box_loop_view *view, uint64_t setting)
{
    return view->ended || (uintptr_t)view->setting == setting;
}

/* Boxes that cannot follow now do when they can. */
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
    int rc = setting_make(r, config, &s, reterr);
    if (rc < 0)
        return rc;
    rc = setting_follow(s, r->setting, r->first_count);
    if (rc < 0)
        rc = error_set(reterr, rc, "out of memory for the configuration");
    if (rc == PR_OK)
        rc = source_threads_new(r->sources, config, r->options.store, r->options.log, &r->next_sources, reterr);
    if (rc != PR_OK) {
        setting_free(s);
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

/* ---- Drain ------------------------------------------------------------------------------- */

static bool view_is_idle(const struct box_loop_view *view, uint64_t look)
{
    return view->ended || (view->looked >= look && view->idle);
}

/* With the monitor held: does it change while nobody touches it, there was work. */
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

/* A handler in one box may send into another that was looked at before: so it is over only when
 * a whole round of looks, box by box, found everything idle and nothing was done meanwhile. */
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

/* ---- How it is doing ------------------------------------------------------------------------ */

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

/* An endpoint to which nothing gets through, by what this process tried. */
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

void relay_counts(struct relay *r, struct pr_engine_counts *counts)
{
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->started; i++) {
        const struct engine_counts *c = &box_loop_view(r->box_loops[i])->counts;
        counts->sent += c->sent;
        counts->failed += c->failed;
        counts->dead += c->dead;
        counts->discarded += c->discarded;
        counts->expired += c->expired;
        counts->duplicates += c->duplicates;
        counts->returned += c->returned;
        counts->stale += c->stale;
        counts->poison += c->poison;
        counts->waiting_in_memory += c->window_count - min_size(c->out, c->window_count);
        counts->in_flight += c->out;
        counts->cycles += c->cycles;
    }
    monitor_unlock(&r->monitor);
    const struct inliner_counts *own = inliner_counts(r->inliner);
    counts->sent += atomic_load(&own->sent);
    counts->failed += atomic_load(&own->failed);
    counts->dead += atomic_load(&own->dead);
    counts->discarded += atomic_load(&own->discarded);
}

size_t relay_box_count(const struct relay *r)
{
    return r->started;
}

void relay_box(struct relay *r, size_t index, struct relay_box *ret)
{
    ASSERT(index < r->started);
    monitor_lock(&r->monitor);
    const struct box_loop_view *v = box_loop_view(r->box_loops[index]);
    *ret = (struct relay_box){ .name = box_loop_name(r->box_loops[index]),
                               .kind = box_loop_kind(r->box_loops[index]),
                               .counts = v->counts,
                               .cycles = v->cycles,
                               .lanes = v->lanes,
                               .standby = v->standby };
    monitor_unlock(&r->monitor);
}

void relay_flow_counts(const struct relay *r, struct flow_counts *ret)
{
    flows_counts(r->flows, ret);
}

size_t relay_source_count(const struct relay *r)
{
    return source_threads_count(r->sources);
}

void relay_source(struct relay *r, size_t index, struct source_status *ret)
{
    source_threads_status(r->sources, index, ret);
}

struct inliner *relay_inliner(const struct relay *r)
{
    return r->inliner;
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

bool relay_has_box(const struct relay *r, pr_slice name)
{
    return config_find_box(r->options.config, name) != NULL;
}

size_t relay_endpoint_count(const struct relay *r)
{
    return r->setting->listed_count;
}

pr_slice relay_endpoint_name(const struct relay *r, size_t index)
{
    ASSERT(index < r->setting->listed_count);
    return r->setting->endpoints[r->setting->listed[index]].name;
}

bool relay_has_endpoint(const struct relay *r, pr_slice name)
{
    for (size_t i = 0; i < relay_endpoint_count(r); i++)
        if (slice_eq(relay_endpoint_name(r, i), name))
            return true;
    return false;
}

void relay_endpoint(struct relay *r, size_t index, struct endpoint_view *ret_view)
{
    ASSERT(index < r->setting->listed_count);
    sum_endpoint(r, r->setting->listed[index], ret_view);
}

/* By the setting's index. */
static void sum_endpoint(struct relay *r, size_t index, struct endpoint_view *ret_view)
{
    *ret_view = (struct endpoint_view){ 0 };
    bool delivers = false;
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->started; i++) {
        const struct endpoint_view *v = &box_loop_view(r->box_loops[i])->endpoints[index];
        if (v->breaker != BREAKER_CLOSED)
            ret_view->breaker = v->breaker;
        ret_view->paused_until_us = max64(ret_view->paused_until_us, v->paused_until_us);
        ret_view->waiting += v->waiting;
        ret_view->out += v->out;
        ret_view->sent += v->sent;
        ret_view->failed += v->failed;
        ret_view->failed_in_row += v->failed_in_row;
        delivers = delivers || (v->sent > 0 && v->failed_in_row == 0); /* from another box it gets through */
        for (size_t k = 0; k < REASON_COUNT; k++)
            ret_view->reasons[k] += v->reasons[k];
        histogram_merge(&ret_view->durations, &v->durations);
    }
    monitor_unlock(&r->monitor);
    if (delivers)
        ret_view->failed_in_row = 0;
}

static int newest_first(const void *a, const void *b)
{
    const struct incident *x = a, *y = b;
    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? 1 : -1;
    return (x->number < y->number) - (x->number > y->number);
}

size_t relay_incidents(struct relay *r, bool deaths, struct incident *ret, size_t max)
{
    size_t count = 0;
    struct incident *all = calloc(r->started + 1, INCIDENTS_MAX * sizeof *all);
    if (all == NULL)
        return 0; /* only for people who are watching */
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->started; i++) {
        const struct box_loop_view *v = box_loop_view(r->box_loops[i]);
        count += incident_list(deaths ? &v->deaths : &v->failures, all + count, INCIDENTS_MAX);
    }
    monitor_unlock(&r->monitor);
    qsort(all, count, sizeof *all, newest_first);
    count = min_size(count, max);
    memcpy(ret, all, count * sizeof *all);
    free(all);
    return count;
}
