#include "runtime/threads/box_loop.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/reason.h"
#include "runtime/effects.h"
#include "runtime/threads/transport_thread.h"
#include "runtime/threads/inline_results.h"
#include "transport/delivery.h"
#include "transport/pull/pull.h"

#define TAKE_MAX 1000                      /* deliveries handed over at once: a cycle of the default size */
#define REST_MAX_US PR_SECONDS(1)          /* so that the loop is seen to make progress */
#define VIEW_EVERY_US PR_MILLISECONDS(50)  /* while it is busy; always when it rests */
#define TROUBLE_MIN_US PR_MILLISECONDS(10) /* first pause after a fault; doubled up to ... */
#define TROUBLE_MAX_US PR_SECONDS(1)
#define THREAD_AGAIN_US PR_SECONDS(1) /* pause when no thread could be started */
#define STOP_RESERVE 8                /* 1/8 of the time is reserved for abandoning what is still out */
#define LOG_PER_SECOND 10             /* lines about single messages */
#define TIMER_SLACK_NS 1000ul         /* by default the kernel may lengthen each short wait by 50 us */
#define STANDBY_US PR_SECONDS(2)      /* without lanes for this long: no instance is about to give lanes */
#define QUERY_BLOCK 4096
#define GONE_MAX 64              /* cancelled activities reported at once */
#define BREAKERS_SEARCHED_MAX 64 /* open ones that are searched for the reason to log */

enum stop_phase { STOP_NOT, STOP_FINISHING, STOP_GIVEN_UP };

struct box_loop {
    struct box_loop_options options;
    struct engine_setting engine_setting;
    struct engine *engine;
    struct store_session session;
    struct transport_thread **transport_threads; /* by endpoint; NULL until the first delivery */
    struct transport_thread **retired;           /* of endpoints that have changed, until their deliveries have ended */
    size_t retired_count, retired_room;
    struct results results;
    struct result_list taken; /* results; swaps memory with `results` */
    struct inline_results inline_results;
    pthread_t thread;
    bool started;
    int wake_fd;
    atomic_bool changed_by_others; /* set by other threads of this process: see box_loop_changed() */

    /* Guarded by the monitor: */
    struct box_loop_view view;
    uint64_t look_wanted;
    const struct setting *setting_wanted;
    bool stop_wanted;
    int64_t stop_deadline_us;

    /* The thread's own: */
    bool changed;             /* the store may have something new */
    uint64_t looking, looked; /* numbers of look_wanted: requested in the next cycle; answered */
    bool again;               /* the last cycle failed: the next may be the same one, without a new look */
    bool joined;
    uint64_t lanes;        /* as of the latest cycle */
    uint64_t peers_serial; /* of the peers that flows know of */
    int64_t idle_since_us; /* without lanes since then; 0: it has some, or has not joined */
    struct pr_error trouble;
    int64_t trouble_delay_us, trouble_until_us;
    int64_t hand_out_after_us;
    int64_t viewed_us;
    enum stop_phase phase;
    int64_t give_up_us, deadline_us; /* of the stop */
    struct incident_ring failures, deaths;
    struct histogram cycles;
    uint64_t incidents;
    int64_t log_second;
    int log_lines;
    int attempt_lines; /* lines about failed attempts that are retried have a limit of their own */
};

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

static struct log *box_loop_log(const struct box_loop *d)
{
    return d->options.log;
}

/* ---- Results in ------------------------------------------------------------------------- */

/* The end of an activity means the same, whether a function, an endpoint or a claimer ran it. */
static void box_loop_end_activity(const struct box_loop *d, struct delivery_result *result)
{
    const struct pr_message *m = d->options.box->kind == BOX_ACTIVITIES && d->options.flows != NULL
                                     ? engine_message(d->engine, result->token)
                                     : NULL;
    if (m != NULL)
        flow_activity_ended(d->options.flows, m, result);
}

static void box_loop_settle(struct box_loop *d)
{
    results_take(&d->results, &d->taken);
    int64_t now = now_us();
    for (size_t i = 0; i < d->taken.count; i++) {
        box_loop_end_activity(d, &d->taken.entries[i]);
        effects_check(d->options.config, d->options.store, false, &d->taken.entries[i]);
        engine_result(d->engine, now, &d->taken.entries[i]);
        d->taken.entries[i].settled = NULL; /* the engine has taken it over */
        delivery_result_fini(&d->taken.entries[i]);
    }
    d->taken.count = 0;
    store_tend(&d->session);
    inline_results_pass_on(&d->inline_results, d->engine, now);
}

/* ---- The cycle -------------------------------------------------------------------------- */

/* In a new second: logs what the last one left out. */
static void box_loop_log_rest(struct box_loop *d, int64_t now)
{
    if (now / PR_SECONDS(1) == d->log_second)
        return;
    if (d->attempt_lines > LOG_PER_SECOND)
        log_emit(box_loop_log(d), LOG_INFO, "attempts_not_logged", LOG_STR("box", box_loop_name(d)),
                 LOG_INT("failed", d->attempt_lines - LOG_PER_SECOND), LOG_STR("next", "see postrider endpoints"));
    d->attempt_lines = 0;
    if (d->log_lines > LOG_PER_SECOND)
        log_emit(box_loop_log(d), LOG_WARN, "not_logged", LOG_STR("box", box_loop_name(d)),
                 LOG_INT("messages", d->log_lines - LOG_PER_SECOND),
                 LOG_STR("next", "see postrider dead list and postrider list"));
    d->log_second = now / PR_SECONDS(1);
    d->log_lines = 0;
}

/* One failing endpoint must not fill the disk with lines. */
static bool box_loop_may_log(struct box_loop *d, int64_t now)
{
    box_loop_log_rest(d, now);
    return d->log_lines++ < LOG_PER_SECOND;
}

static void box_loop_log_verdict(struct box_loop *d, const struct verdict *v, const char *event)
{
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(v->id, id);
    log_emit(box_loop_log(d), LOG_WARN, event, LOG_STR("box", box_loop_name(d)), LOG_STR("id", id),
             LOG_SLICE("endpoint", v->endpoint), LOG_STR("reason", pr_reason_name(v->reason)),
             LOG_SLICE("code", v->code), LOG_SLICE("error", v->error), LOG_SLICE("rule", v->rule),
             LOG_INT("attempt", v->number));
}

/* Logs a failed attempt and the next one; postponed attempts count for no message. */
static void box_loop_log_attempt(struct box_loop *d, const struct verdict *v)
{
    char id[PR_ID_TEXT_SIZE];
    if (d->attempt_lines++ >= LOG_PER_SECOND)
        return;
    pr_id_format(v->id, id);
    log_emit(
        box_loop_log(d), LOG_INFO, "attempt_failed", LOG_STR("box", box_loop_name(d)), LOG_STR("id", id),
        LOG_SLICE("endpoint", v->endpoint), LOG_STR("reason", pr_reason_name(v->reason)), LOG_SLICE("code", v->code),
        LOG_SLICE("error", v->error), LOG_SLICE("rule", v->rule), LOG_INT("attempt", v->number),
        LOG_INT("retry_seconds", v->delay_us == PR_NEVER ? -1 : (v->delay_us + PR_SECONDS(1) - 1) / PR_SECONDS(1)));
}

static void box_loop_log_delivery(struct box_loop *d, const struct verdict *v)
{
    char id[PR_ID_TEXT_SIZE];
    if (!log_is_enabled(box_loop_log(d), LOG_DEBUG))
        return;
    pr_id_format(v->id, id);
    log_emit(box_loop_log(d), LOG_DEBUG, "delivered", LOG_STR("box", box_loop_name(d)), LOG_STR("id", id),
             LOG_SLICE("endpoint", v->endpoint), LOG_INT("attempt", v->number));
}

static void box_loop_log_pauses(struct box_loop *d, const struct cycle *cycle)
{
    for (size_t i = 0; i < cycle->pause_count; i++) {
        const struct pause *p = &cycle->pauses[i];
        log_emit(box_loop_log(d), LOG_WARN, "paused", LOG_SLICE("endpoint", p->endpoint), LOG_SLICE("by", p->by),
                 LOG_SLICE("why", p->why),
                 LOG_INT("seconds", p->for_us == PR_NEVER ? -1 : (p->for_us + PR_SECONDS(1) - 1) / PR_SECONDS(1)));
    }
}

/* For listeners of the feed.  Hand-backs, holds and splits are not shown. */
static void box_loop_feed_verdict(const struct box_loop *d, const struct verdict *v, int64_t store_now_us)
{
    static const enum happening_kind kinds[] = {
        [VERDICT_COMPLETE] = HAPPENING_SENT,       [VERDICT_FAIL] = HAPPENING_FAILED,
        [VERDICT_DISCARD] = HAPPENING_DISCARDED,   [VERDICT_EXPIRE] = HAPPENING_EXPIRED,
        [VERDICT_DEAD_LETTER] = HAPPENING_DEAD,    [VERDICT_PARK] = HAPPENING_PARKED,
        [VERDICT_DUPLICATE] = HAPPENING_DUPLICATE,
    };
    bool told = v->kind == VERDICT_COMPLETE || v->kind == VERDICT_FAIL || v->kind == VERDICT_DISCARD ||
                v->kind == VERDICT_EXPIRE || v->kind == VERDICT_DEAD_LETTER || v->kind == VERDICT_PARK ||
                v->kind == VERDICT_DUPLICATE;
    if (!told || !feed_is_heard(d->options.feed))
        return;
    struct happening h = {
        .kind = kinds[v->kind], .at_us = store_now_us, .id = v->id, .attempt = v->number, .reason = v->reason
    };
    if (v->kind == VERDICT_FAIL && v->delay_us != PR_NEVER)
        h.next_us = time_add(store_now_us, v->delay_us);
    happening_text(h.box, sizeof h.box, slice_from(box_loop_name(d)));
    happening_text(h.endpoint, sizeof h.endpoint, v->endpoint);
    happening_text(h.rule, sizeof h.rule, v->rule);
    happening_text(h.error, sizeof h.error, v->error);
    feed_put(d->options.feed, &h);
}

/* Records what was committed, for people. */
static void box_loop_note(struct box_loop *d, const struct cycle *cycle, const struct cycle_reply *reply)
{
    int64_t now = now_us();
    box_loop_log_rest(d, now);
    for (size_t i = 0; i < cycle->verdict_count; i++) {
        const struct verdict *v = &cycle->verdicts[i];
        if (!reply->replayed && reply->answers[i] != PR_OK)
            continue;
        box_loop_feed_verdict(d, v, reply->now_us);
        if (v->kind == VERDICT_COMPLETE) {
            box_loop_log_delivery(d, v);
            continue;
        }
        if (v->kind == VERDICT_FAIL || v->kind == VERDICT_POSTPONE)
            box_loop_log_attempt(d, v);
        if (v->kind == VERDICT_RESCHEDULE && v->error.size > 0 && box_loop_may_log(d, now))
            log_emit(box_loop_log(d), LOG_WARN, "schedule_missed", LOG_STR("box", box_loop_name(d)),
                     LOG_SLICE("missed", v->rule), LOG_SLICE("error", v->error));
        if (v->kind == VERDICT_DISCARD && v->moved_to.size > 0)
            box_loop_log_verdict(d, v, "dead_letter_moved");
        else if (v->kind == VERDICT_DISCARD || v->kind == VERDICT_EXPIRE) /* deleted for good: always one line */
            box_loop_log_verdict(d, v, v->kind == VERDICT_DISCARD ? "discarded" : "expired");
        if (!incident_note(&d->failures, &d->deaths, v, reply->now_us, d->incidents))
            continue;
        d->incidents++;
        if (v->kind == VERDICT_DEAD_LETTER && box_loop_may_log(d, now))
            box_loop_log_verdict(d, v, "dead_letter");
        else if (v->kind == VERDICT_PARK && box_loop_may_log(d, now))
            box_loop_log_verdict(d, v, "parked");
    }
}

static void box_loop_recall(struct box_loop *d, enum recall recall)
{
    for (size_t i = 0; i < d->options.setting->endpoint_count; i++)
        if (d->transport_threads[i] != NULL)
            transport_thread_recall(d->transport_threads[i], recall);
}

static void box_loop_end_trouble(struct box_loop *d)
{
    if (d->trouble.code != PR_OK)
        log_emit(box_loop_log(d), LOG_INFO, "store_recovered", LOG_STR("box", box_loop_name(d)));
    error_clear(&d->trouble);
    d->trouble_delay_us = 0;
    d->trouble_until_us = 0;
}

/* Logged once when a fault begins or changes; the store is then tried less and less often. */
static void box_loop_begin_trouble(struct box_loop *d, const struct pr_error *fault, int64_t now)
{
    if (d->trouble.code != fault->code)
        log_emit(box_loop_log(d), LOG_ERROR, "store_trouble", LOG_STR("box", box_loop_name(d)),
                 LOG_STR("error", fault->text));
    d->trouble = *fault;
    d->trouble_delay_us = min64(max64(d->trouble_delay_us * 2, TROUBLE_MIN_US), TROUBLE_MAX_US);
    d->trouble_until_us = time_add(now, d->trouble_delay_us);
}

/* Effects went into other boxes of this process: these look at once. */
static void box_loop_wake_boxes(const struct box_loop *d, const struct cycle *cycle)
{
    pr_slice told = { "", 0 };
    for (size_t i = 0; d->options.stored != NULL && i < cycle->effect_count; i++) {
        const struct effect *e = &cycle->effects[i];
        if (e->kind != EFFECT_MESSAGE || slice_eq(e->box, told) || slice_eq_cstr(e->box, box_loop_name(d)))
            continue;
        d->options.stored(d->options.stored_arg, e->box);
        told = e->box;
    }
}

#define PEERS_TOLD_MAX 64 /* a few peers represent the offers of more */

static void box_loop_tell_peers(struct box_loop *d)
{
    pr_slice offers[PEERS_TOLD_MAX];
    size_t count = min_size(engine_peers(d->engine, offers, PEERS_TOLD_MAX), PEERS_TOLD_MAX);

    d->peers_serial = engine_peers_serial(d->engine);
    flows_peers(d->options.flows, d->engine_setting.kind, offers, count, engine_is_mixed(d->engine));
}

/* The cache of flows is valid only while their lanes are owned; and activities may have been cancelled. */
static void box_loop_update_flows(struct box_loop *d)
{
    uint64_t tokens[GONE_MAX], lanes = engine_lanes(d->engine), lost = d->lanes & ~lanes;
    size_t count;

    d->lanes = lanes;
    if (d->options.flows == NULL || !box_is_of_flows(d->engine_setting.kind))
        return;
    if (lost != 0 && d->engine_setting.kind == BOX_TURNS)
        flows_lost_lanes(d->options.flows, lost);
    if (lost != 0 && d->engine_setting.kind == BOX_ACTIVITIES)
        flows_lost_sessions(d->options.flows, lost);
    while ((count = engine_gone(d->engine, tokens, GONE_MAX)) > 0) {
        flows_gone(d->options.flows, tokens, count);
        if (d->options.pull != NULL)
            pull_gone(d->options.pull, slice_from(box_loop_name(d)), tokens, count);
    }
    if (engine_peers_serial(d->engine) != d->peers_serial)
        box_loop_tell_peers(d);
}

/* With a damaged store, or one of another version, the loop cannot go on. */
static bool is_final(int fault)
{
    return fault == PR_ECORRUPT || fault == PR_ESCHEMA || fault == PR_EUNSUPPORTED;
}

static void box_loop_cycle_failed(struct box_loop *d, const struct pr_error *fault)
{
    int64_t now = now_us();
    if (fault->code == PR_ELEASE) {
        /* Another instance has the lanes: deliveries that are not on the wire yet must not go out. */
        log_emit(box_loop_log(d), LOG_WARN, "lease_lost", LOG_STR("box", box_loop_name(d)),
                 LOG_STR("error", fault->text));
        box_loop_recall(d, RECALL_CANCEL);
    }
    d->again = true;
    if (fault->code == PR_EINVAL && engine_cycle_refused(d->engine, now, fault->text)) {
        log_emit(box_loop_log(d), LOG_WARN, "effect_refused", LOG_STR("box", box_loop_name(d)),
                 LOG_STR("error", fault->text));
        return;
    }
    if (fault->code != PR_ELEASE)
        box_loop_begin_trouble(d, fault, now);
    if (fault->code != PR_EINVAL)
        engine_cycle_failed(d->engine, now, fault->code);
    box_loop_update_flows(d);
}

/* ---- Endpoints whose receivers ask for messages --------------------------------------------- */

static bool is_asked(const struct box_loop *d, size_t endpoint)
{
    const struct endpoint_setting *s = &d->options.setting->endpoints[endpoint];
    return d->options.pull != NULL && s->asked && !s->gone;
}

static bool leads_to(const struct box_loop *d, const struct route *routes, size_t count, size_t endpoint)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < routes[i].to_count; k++)
            if (routes[i].to[k] == endpoint &&
                route_takes_box(routes[i].box, d->engine_setting.box, d->engine_setting.kind))
                return true;
    return false;
}

static bool is_routed(const struct box_loop *d, size_t endpoint)
{
    const struct setting *s = d->options.setting;
    return leads_to(d, s->routes, s->route_count, endpoint) || leads_to(d, s->overrides, s->override_count, endpoint);
}

/* Including new ones.  Without memory claimers cannot use the new one; a later reload tries again. */
static void box_loop_attach(struct box_loop *d)
{
    struct pr_error error;
    for (size_t i = 0; i < d->options.setting->endpoint_count; i++)
        if (is_asked(d, i) &&
            pull_attach(d->options.pull, d->options.setting->endpoints[i].name, slice_from(box_loop_name(d)),
                        is_routed(d, i), d->options.box->kind == BOX_ACTIVITIES, d->wake_fd, &error) < 0)
            log_emit(box_loop_log(d), LOG_ERROR, "claims_unavailable", LOG_STR("box", box_loop_name(d)),
                     LOG_STR("error", error.text));
}

static void box_loop_set_claimable(struct box_loop *d, bool claimable)
{
    monitor_lock(d->options.monitor);
    d->view.claimable = claimable;
    monitor_unlock(d->options.monitor);
}

/* Endpoints without claimers in the next setting; NULL: all. */
static void box_loop_detach(struct box_loop *d, const struct setting *next)
{
    for (size_t i = 0; i < d->options.setting->endpoint_count; i++)
        if (is_asked(d, i) && (next == NULL || !next->endpoints[i].asked || next->endpoints[i].gone))
            pull_detach(d->options.pull, d->options.setting->endpoints[i].name, slice_from(box_loop_name(d)),
                        d->wake_fd);
}

static void box_loop_set_asks(struct box_loop *d, unsigned endpoint)
{
    struct pull_asks asks;
    if (is_asked(d, endpoint))
        pull_asks(d->options.pull, d->options.setting->endpoints[endpoint].name, slice_from(box_loop_name(d)), &asks);
    engine_set_asks(d->engine, endpoint, asks.list, is_asked(d, endpoint) ? ASKS_MAX : 0);
}

static void box_loop_set_room(struct box_loop *d)
{
    for (unsigned i = 0; i < d->options.setting->endpoint_count; i++)
        box_loop_set_asks(d, i);
}

static void box_loop_cycle(struct box_loop *d)
{
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    struct pr_error fault = { 0 };
    int64_t asked = now_us();
    box_loop_set_room(d);
    if (asked < d->trouble_until_us || !engine_plan(d->engine, asked, d->changed, &cycle))
        return;
    FAILPOINT("runtime.before_cycle");
    int rc = store_cycle(&d->session, cycle, &reply, &fault);
    if (rc < 0) {
        fault.code = rc;
        box_loop_cycle_failed(d, &fault);
        return;
    }
    FAILPOINT("runtime.after_cycle");
    histogram_add(&d->cycles, now_us() - asked);
    box_loop_note(d, cycle, reply);
    box_loop_log_pauses(d, cycle);
    box_loop_wake_boxes(d, cycle);
    if (d->options.flows != NULL)
        flows_clock(d->options.flows, reply->now_us);
    engine_absorb(d->engine, asked, now_us(), reply);
    store_tend(&d->session);
    box_loop_update_flows(d);
    box_loop_end_trouble(d);
    d->joined = true;
    if (!d->again) {
        d->changed = false;
        d->looked = d->looking;
    }
    d->again = false;
}

/* ---- Deliveries out ---------------------------------------------------------------------- */

static bool box_loop_give(struct box_loop *d, size_t endpoint, const struct delivery *const *list, size_t count,
                          struct pr_error *reterr)
{
    struct endpoint_config config = d->options.setting->transports[endpoint];
    config.pull = d->options.pull;
    config.box = box_loop_name(d);
    config.store_url = d->options.config->store;
    config.keep_us = d->options.box->keep_us;
    config.dedupe_us = d->options.box->dedupe_us;
    config.lease_us = d->options.config->lease_us;
    if (d->options.box->kind == BOX_ACTIVITIES) {
        config.message_timeout = flow_activity_timeout;
        config.answer_max = (size_t)d->options.config->payload_max;
    }
    if (d->transport_threads[endpoint] == NULL &&
        transport_thread_new(&config, &d->results, &d->transport_threads[endpoint], reterr) < 0)
        return false;
    if (transport_thread_give(d->transport_threads[endpoint], list, count))
        return true;
    error_set(reterr, PR_ENOMEM, "out of memory for %zu deliveries", count);
    return false;
}

static void box_loop_call_back(struct box_loop *d)
{
    int64_t now = now_us();
    for (unsigned i = 0; i < d->options.setting->endpoint_count; i++)
        if (engine_wants_back(d->engine, now, i) && d->transport_threads[i] != NULL)
            transport_thread_recall(d->transport_threads[i], RECALL_CANCEL);
}

static void box_loop_hand_out(struct box_loop *d)
{
    const struct delivery *list[TAKE_MAX];
    struct pr_error fault;
    int64_t now = now_us();
    if (now < d->hand_out_after_us)
        return;
    for (unsigned i = 0; i < d->options.setting->endpoint_count; i++) {
        size_t count;
        while ((count = engine_take(d->engine, now, i, list, TAKE_MAX)) > 0) {
            if (box_loop_give(d, i, list, count, &fault))
                continue;
            log_emit(box_loop_log(d), LOG_ERROR, "transport_thread_failed",
                     LOG_SLICE("endpoint", d->options.setting->endpoints[i].name), LOG_STR("error", fault.text));
            for (size_t k = 0; k < count; k++)
                engine_result(d->engine, now,
                              &(struct delivery_result){ .token = list[k]->token, .outcome = SEND_RETURNED });
            d->hand_out_after_us = time_add(now, THREAD_AGAIN_US);
            return;
        }
    }
}

static void box_loop_publish(struct box_loop *d, int64_t now);

/* ---- Another setting ------------------------------------------------------------------------- */

static void box_loop_free_retired(struct box_loop *d, bool wait)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->retired_count; i++) {
        if (wait || transport_thread_is_over(d->retired[i]))
            transport_thread_free(d->retired[i]);
        else
            d->retired[kept++] = d->retired[i];
    }
    d->retired_count = kept;
}

/* Its deliveries may finish; the next delivery starts another thread.  False: no memory. */
static bool box_loop_retire(struct box_loop *d, size_t endpoint)
{
    if (d->transport_threads[endpoint] == NULL)
        return true;
    if (d->retired_count == d->retired_room) {
        size_t room = 2 * d->retired_room + 8;
        void *list = reallocarray(d->retired, room, sizeof d->retired[0]);
        if (list == NULL)
            return false;
        d->retired = list;
        d->retired_room = room;
    }
    transport_thread_recall(d->transport_threads[endpoint], RECALL_QUIT);
    d->retired[d->retired_count++] = d->transport_threads[endpoint];
    d->transport_threads[endpoint] = NULL;
    return true;
}

static int box_loop_retune_engine(struct box_loop *d, const struct setting *s, const struct query_reply *states)
{
    const struct setting *old = d->options.setting;
    struct engine_setting *engine = &d->engine_setting;
    engine->endpoints = s->endpoints;
    engine->endpoint_count = s->endpoint_count;
    engine->routes = s->routes;
    engine->route_count = s->route_count;
    engine->overrides = s->overrides;
    engine->override_count = s->override_count;
    engine->batch = s->batch;
    engine->retention = s->retention;
    bool reread = s->endpoint_count != old->endpoint_count || s->routes_digest != old->routes_digest;
    for (size_t i = 0; i < old->endpoint_count; i++)
        reread |= s->endpoints[i].gone != old->endpoints[i].gone;
    return engine_retune(d->engine, engine, states->endpoints, states->endpoint_count, reread);
}

/* Tried again in the next round when the store or the memory does not allow it now. */
static void box_loop_follow(struct box_loop *d, const struct setting *s)
{
    const struct setting *old = d->options.setting;
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply states = { 0 };
    struct pr_error error;
    struct arena arena;
    if (d->again || d->phase != STOP_NOT)
        return;
    arena_init(&arena, QUERY_BLOCK);
    int rc = s->endpoint_count > old->endpoint_count ? store_query(d->options.store, &query, &arena, &states, &error)
                                                     : PR_OK;
    for (size_t i = 0; rc == PR_OK && i < old->endpoint_count; i++)
        if (s->digests[i] != old->digests[i] && !box_loop_retire(d, i))
            rc = PR_ENOMEM;
    if (rc == PR_OK)
        rc = box_loop_retune_engine(d, s, &states);
    arena_fini(&arena);
    if (rc == PR_OK) {
        box_loop_detach(d, s);
        d->options.setting = s;
        box_loop_attach(d);
        d->changed = true;
        box_loop_publish(d, now_us());
    }
}

/* ---- Orders, and what others see ----------------------------------------------------------- */

static void box_loop_take_results(struct box_loop *d)
{
    wake_clear(d->wake_fd);
    monitor_lock(d->options.monitor);
    uint64_t look = d->look_wanted;
    bool stop = d->stop_wanted;
    int64_t deadline_us = d->stop_deadline_us;
    const struct setting *setting = d->setting_wanted;
    monitor_unlock(d->options.monitor);

    if (setting != NULL && setting != d->options.setting)
        box_loop_follow(d, setting);
    box_loop_free_retired(d, false);

    if (atomic_exchange(&d->changed_by_others, false))
        d->changed = true;
    if (look != d->looked) {
        d->looking = look;
        d->changed = true;
    }
    if (!stop || d->phase != STOP_NOT)
        return;
    FAILPOINT("runtime.stop");
    int64_t now = now_us(), left_us = max64(time_sub(deadline_us, now), 0);
    d->phase = STOP_FINISHING;
    d->deadline_us = deadline_us;
    d->give_up_us = deadline_us - left_us / STOP_RESERVE;
    engine_stop(d->engine, now);
    box_loop_recall(d, RECALL_QUIT); /* deliveries that have started may finish, and handlers are asked to */
}

/* Continues the stop according to the clock.  True: it is complete. */
static bool box_loop_has_stopped(struct box_loop *d, bool *ret_left_behind)
{
    if (is_final(d->trouble.code)) {
        *ret_left_behind = true;
        return true;
    }
    if (d->phase == STOP_NOT)
        return false;
    if (engine_stopped(d->engine))
        return true;
    int64_t now = now_us();
    if (d->phase == STOP_FINISHING && now >= d->give_up_us) {
        struct engine_counts counts;
        engine_counts(d->engine, &counts);
        *ret_left_behind = counts.out > 0;
        d->phase = STOP_GIVEN_UP;
        engine_give_up(d->engine, now);
        return false; /* one more cycle informs the store */
    }
    if (now < d->deadline_us)
        return false;
    *ret_left_behind = true; /* the lease will end by itself */
    return true;
}

static void box_loop_tell_breaker(const struct box_loop *d, pr_slice endpoint, bool open)
{
    if (!feed_is_heard(d->options.feed))
        return;
    struct happening h = { .kind = HAPPENING_ENDPOINT, .at_us = store_time(d->options.store) };
    happening_text(h.box, sizeof h.box, slice_from(box_loop_name(d)));
    happening_text(h.endpoint, sizeof h.endpoint, endpoint);
    happening_text(h.error, sizeof h.error, open ? PR_STR("open") : PR_STR("closed"));
    feed_put(d->options.feed, &h);
}

/* Why an endpoint is failing: the first of its breakers that is not closed. */
static struct breaker_view box_loop_failing(const struct box_loop *d, unsigned endpoint)
{
    struct breaker_view views[BREAKERS_SEARCHED_MAX];
    size_t count = min_size(engine_breakers(d->engine, views, BREAKERS_SEARCHED_MAX), BREAKERS_SEARCHED_MAX);

    for (size_t i = 0; i < count; i++)
        if (views[i].endpoint == endpoint)
            return views[i];
    return (struct breaker_view){ .endpoint = endpoint };
}

static void box_loop_log_opened(struct box_loop *d, unsigned index)
{
    struct breaker_view b = box_loop_failing(d, index);

    log_emit(box_loop_log(d), LOG_WARN, "breaker_opened", LOG_STR("box", box_loop_name(d)),
             LOG_SLICE("endpoint", d->options.setting->endpoints[index].name), LOG_SLICE("type", b.type),
             LOG_STR("reason", b.reason != PR_REASON_NONE ? pr_reason_name(b.reason) : ""), LOG_STR("code", b.code),
             LOG_STR("error", b.error),
             LOG_STR("next", b.type.size > 0 ? "messages of this type wait and no failures are counted; probes are sent"
                                             : "its messages wait and no failures are counted; probes are sent"));
}

/* Failures that open a breaker are counted for no message, so no other line reports them. */
static void box_loop_log_breaker(struct box_loop *d, unsigned index, enum breaker_state before,
                                 enum breaker_state after)
{
    pr_slice endpoint = d->options.setting->endpoints[index].name;

    if ((before == BREAKER_CLOSED) != (after == BREAKER_CLOSED))
        box_loop_tell_breaker(d, endpoint, after != BREAKER_CLOSED);
    if (before == BREAKER_CLOSED && after != BREAKER_CLOSED)
        box_loop_log_opened(d, index);
    else if (before != BREAKER_CLOSED && after == BREAKER_CLOSED)
        log_emit(box_loop_log(d), LOG_INFO, "breaker_closed", LOG_STR("box", box_loop_name(d)),
                 LOG_SLICE("endpoint", endpoint));
}

/* Does another instance serve this box?  Logged once, and when it ends. */
static bool box_loop_stands_by(struct box_loop *d, bool before, int64_t now)
{
    if (!d->joined || d->phase != STOP_NOT || engine_lanes(d->engine) != 0)
        d->idle_since_us = 0;
    else if (d->idle_since_us == 0)
        d->idle_since_us = now;
    bool standby = d->idle_since_us != 0 && now - d->idle_since_us >= STANDBY_US;
    if (standby && !before)
        log_emit(box_loop_log(d), LOG_INFO, "standing_by", LOG_STR("box", box_loop_name(d)),
                 LOG_STR("next", "another instance serves this box; this one takes over when it stops"));
    if (!standby && before && d->phase == STOP_NOT)
        log_emit(box_loop_log(d), LOG_INFO, "took_over", LOG_STR("box", box_loop_name(d)));
    return standby;
}

static void box_loop_publish(struct box_loop *d, int64_t now)
{
    struct box_loop_view *v = &d->view;
    bool idle = engine_idle(d->engine, now);
    d->viewed_us = now;
    monitor_lock(d->options.monitor);
    engine_counts(d->engine, &v->counts);
    for (unsigned i = 0; i < d->options.setting->endpoint_count; i++) {
        enum breaker_state before = v->endpoints[i].breaker;
        engine_endpoint(d->engine, i, &v->endpoints[i]);
        box_loop_log_breaker(d, i, before, v->endpoints[i].breaker);
    }
    v->cycles = d->cycles;
    v->lanes = __builtin_popcountll(engine_lanes(d->engine));
    if (v->failures.count != d->failures.count)
        v->failures = d->failures;
    if (v->deaths.count != d->deaths.count)
        v->deaths = d->deaths;
    v->trouble = d->trouble;
    v->setting = d->options.setting;
    v->looked = d->looked;
    v->idle = idle;
    v->tick_us = now;
    v->joined = d->joined;
    v->standby = box_loop_stands_by(d, v->standby, now);
    monitor_notify(d->options.monitor);
    monitor_unlock(d->options.monitor);
}

static void box_loop_rest(struct box_loop *d)
{
    int64_t now = now_us();
    int64_t next_us = engine_next_us(d->engine, now);
    next_us = d->trouble.code != PR_OK ? d->trouble_until_us : max64(next_us, d->hand_out_after_us);
    if (d->phase != STOP_NOT)
        next_us = min64(next_us, d->phase == STOP_FINISHING ? d->give_up_us : d->deadline_us);

    if (next_us <= now) {
        if (now - d->viewed_us >= VIEW_EVERY_US)
            box_loop_publish(d, now);
        return;
    }
    box_loop_publish(d, now);
    int64_t rest_us = min64(time_sub(next_us, now), REST_MAX_US);
    if (d->trouble.code != PR_OK) /* a store in trouble is not bothered meanwhile */
        wake_wait(d->wake_fd, rest_us);
    else if (store_wait(&d->session, d->wake_fd, rest_us) == WAIT_LOOK_AGAIN)
        d->changed = true;
}

/* ---- The thread ---------------------------------------------------------------------------- */

static void box_loop_end(struct box_loop *d, bool left_behind)
{
    box_loop_recall(d, RECALL_QUIT);
    box_loop_set_claimable(d, false);
    box_loop_detach(d, NULL);
    store_session_close(&d->session);
    box_loop_publish(d, now_us());
    if (is_final(d->trouble.code))
        d->options.on_fault(d->options.on_fault_arg, &d->trouble);
    monitor_lock(d->options.monitor);
    d->view.left_behind = left_behind;
    d->view.ended = true;
    monitor_notify(d->options.monitor);
    monitor_unlock(d->options.monitor);
}

static void *box_loop_run(void *arg)
{
    struct box_loop *d = arg;
    bool left_behind = false;
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    box_loop_attach(d);
    box_loop_set_claimable(d, true);
    for (;;) {
        box_loop_take_results(d);
        box_loop_settle(d);
        box_loop_cycle(d);
        if (box_loop_has_stopped(d, &left_behind))
            break;
        box_loop_call_back(d);
        box_loop_hand_out(d);
        box_loop_rest(d);
    }
    box_loop_end(d, left_behind);
    return NULL;
}

/* ---- From outside --------------------------------------------------------------------------- */

/* Another box has made room: the loop looks in its next round. */
static bool box_loop_knows_box(void *arg, pr_slice box)
{
    const struct box_loop *d = arg;
    return box_is_known(d->options.config, d->options.store, box);
}

static void box_loop_wake(void *arg)
{
    const struct box_loop *d = arg;
    wake_send(d->wake_fd);
}

static int box_loop_make_engine(struct box_loop *d, struct pr_error *reterr)
{
    const struct config *config = d->options.config;
    const struct setting *s = d->options.setting;
    struct engine_setting *engine = &d->engine_setting;
    *engine = (struct engine_setting){
        .box = slice_from(d->options.box->name),
        .kind = d->options.box->kind,
        .name = slice_from(config->instance),
        .lease_us = config->lease_us,
        .batch = s->batch,
        .window_count = (size_t)config->in_flight_max,
        .window_bytes = (size_t)config->in_flight_bytes_max,
        .keep_us = d->options.box->keep_us,
        .dedupe_us = d->options.box->dedupe_us,
        .retention = s->retention,
        .payload_max = (size_t)config->payload_max,
        .poll_us = config->poll_max_us,
        .endpoints = s->endpoints,
        .endpoint_count = s->endpoint_count,
        .routes = s->routes,
        .route_count = s->route_count,
        .overrides = s->overrides,
        .override_count = s->override_count,
        .limits = d->options.limits,
        .wake = box_loop_wake,
        .wake_arg = d,
        .find_zone = zone_find,
        .knows_box = box_loop_knows_box,
        .knows_box_arg = d,
        .call = program_call,
        .call_arg = d->options.caller,
    };
    if (box_is_of_flows(d->options.box->kind) && d->options.flows != NULL)
        engine->offer = flows_offer(d->options.flows, d->options.box->kind);
    if (d->options.box->kind == BOX_ACTIVITIES && d->options.flows != NULL) {
        engine->on_dead = flow_on_dead;
        engine->on_dead_arg = d->options.flows;
    }
    pr_id_new(&engine->instance);
    if (random_bytes_os(&engine->seed, sizeof engine->seed) < 0)
        engine->seed = (uint64_t)now_us(); /* only jitter depends on it */
    struct pr_error fault;
    d->engine = engine_new(engine, &fault);
    return d->engine != NULL ? PR_OK : error_set(reterr, fault.code, "%s", fault.text);
}

int box_loop_new(const struct box_loop_options *options, struct box_loop **ret_box_loop, struct pr_error *reterr)
{
    size_t endpoint_count = options->setting->endpoint_count;
    struct box_loop *d = calloc(1, sizeof *d);
    if (d == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the box %s", options->box->name);
    d->options = *options;
    d->wake_fd = -1;
    const size_t room = endpoint_count + ENDPOINTS_SPARE + 1;
    d->transport_threads = calloc(room, sizeof d->transport_threads[0]);
    d->view.endpoints = calloc(room, sizeof d->view.endpoints[0]);
    d->view.setting = options->setting;
    int rc = d->transport_threads != NULL && d->view.endpoints != NULL
                 ? wake_open(&d->wake_fd, reterr)
                 : error_set(reterr, PR_ENOMEM, "out of memory for the box %s", options->box->name);
    results_init(&d->results, d->wake_fd);
    if (rc == PR_OK && inline_results_init(&d->inline_results, endpoint_count, d->wake_fd) != PR_OK)
        rc = error_set(reterr, PR_ENOMEM, "out of memory for the box %s", options->box->name);
    if (rc == PR_OK)
        rc = box_loop_make_engine(d, reterr);
    if (rc < 0) {
        box_loop_free(d);
        return rc;
    }
    *ret_box_loop = d;
    return PR_OK;
}

int box_loop_start(struct box_loop *d, struct pr_error *reterr)
{
    int rc = store_session_open(d->options.store, slice_from(d->options.box->name), &d->session, reterr);
    if (rc < 0)
        return rc;
    d->view.tick_us = now_us();
    rc = thread_start(&d->thread, THREAD_STACK_LOOP, d->options.box->name, box_loop_run, d, reterr);
    if (rc < 0)
        store_session_close(&d->session);
    d->started = rc == PR_OK;
    return rc;
}

void box_loop_free(struct box_loop *d)
{
    if (d == NULL)
        return;
    if (d->started)
        ASSERT(pthread_join(d->thread, NULL) == 0);
    for (size_t i = 0; d->transport_threads != NULL && i < d->options.setting->endpoint_count; i++)
        transport_thread_free(d->transport_threads[i]);
    box_loop_free_retired(d, true);
    free(d->retired);
    engine_free(d->engine); /* after the transport threads: they borrow its deliveries */
    results_fini(&d->results);
    inline_results_fini(&d->inline_results);
    free(d->taken.entries); /* it is empty between two rounds */
    wake_close(d->wake_fd);
    free(d->transport_threads);
    free(d->view.endpoints);
    free(d);
}

bool box_loop_is_over(struct box_loop *d)
{
    monitor_lock(d->options.monitor);
    bool over = !d->started || d->view.ended;
    monitor_unlock(d->options.monitor);
    for (size_t i = 0; over && i < d->options.setting->endpoint_count; i++)
        over = d->transport_threads[i] == NULL || transport_thread_is_over(d->transport_threads[i]);
    for (size_t i = 0; over && i < d->retired_count; i++)
        over = transport_thread_is_over(d->retired[i]);
    return over;
}

void box_loop_add_inline_result(struct box_loop *d, const struct engine_inline_result *result)
{
    inline_results_put(&d->inline_results, result);
}

void box_loop_changed(struct box_loop *d)
{
    if (!atomic_exchange(&d->changed_by_others, true))
        wake_send(d->wake_fd);
}

void box_loop_look(struct box_loop *d, uint64_t number)
{
    monitor_lock(d->options.monitor);
    d->look_wanted = number;
    monitor_unlock(d->options.monitor);
    wake_send(d->wake_fd);
}

void box_loop_retune(struct box_loop *d, const struct setting *setting)
{
    monitor_lock(d->options.monitor);
    d->setting_wanted = setting;
    monitor_unlock(d->options.monitor);
    wake_send(d->wake_fd);
}

void box_loop_stop(struct box_loop *d, int64_t deadline_us)
{
    monitor_lock(d->options.monitor);
    d->stop_wanted = true;
    d->stop_deadline_us = deadline_us;
    monitor_unlock(d->options.monitor);
    wake_send(d->wake_fd);
}

const struct box_loop_view *box_loop_view(const struct box_loop *d)
{
    return &d->view;
}

const char *box_loop_name(const struct box_loop *d)
{
    return d->options.box->name;
}

enum box_kind box_loop_kind(const struct box_loop *d)
{
    return d->options.box->kind;
}
