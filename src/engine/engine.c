/* Life and death of an engine, what goes out and what comes back, and when to look again. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "base/utf8.h"
#include "engine/internal.h"

#define POSTPONED_US PR_MILLISECONDS(200) /* until a receiver is asked again whose database was busy */
#define LEASE_MARGIN_DIVISOR 10           /* nothing is started in the last tenth of the lease */

void engine_new_instance(struct engine *e)
{
    uint64_t high = random_u64(&e->random), low = random_u64(&e->random);
    memcpy(e->membership.instance.bytes, &high, 8);
    memcpy(e->membership.instance.bytes + 8, &low, 8);
}

/* false: no memory. */
static bool endpoint_init(struct engine *e, size_t i, const struct endpoint_setting *setting)
{
    struct endpoint *ep = &e->endpoints[i];

    ep->setting = setting;
    ep->room = SIZE_MAX;
    ep->index = (unsigned)i;
    ep->key = malloc(ep->setting->name.size + 2);
    list_init(&ep->ready_streams);
    list_init(&ep->waking);
    list_init(&ep->loose);
    list_init(&ep->ready);
    map_init(&ep->breakers);
    map_init(&ep->proofs);
    ep->limits = &e->limits->endpoints[i];
    ep->use = (struct limits_use){ .look_us = PR_NEVER, .wake = e->setting.wake, .wake_arg = e->setting.wake_arg };
    endpoint_breaker_init(&ep->gate, ep, &ep->limits->gate);
    e->any_strict = e->any_strict || ep->setting->ordering == ORDERING_STRICT;
    if (ep->key == NULL)
        return false;
    memcpy(ep->key, ep->setting->name.data, ep->setting->name.size);
    memcpy(ep->key + ep->setting->name.size, "/", 2);
    return true;
}

/* Shared ones, or its own.  false: no memory. */
static bool engine_join(struct engine *e)
{
    const struct limits_setting alone = {
        .engines = 1,
        .endpoint_count = e->setting.endpoint_count,
        .window_count = e->setting.window_count,
        .window_bytes = e->setting.window_bytes,
        .payload_max = e->setting.payload_max,
    };

    e->own_limits = e->setting.limits == NULL ? limits_new(&alone) : NULL;
    e->limits = e->setting.limits != NULL ? e->setting.limits : e->own_limits;
    if (e->limits == NULL)
        return false;
    ASSERT(e->limits->setting.endpoint_count == e->setting.endpoint_count);
    e->setting.window_count = e->limits->setting.window_count;
    e->setting.window_bytes = e->limits->setting.window_bytes;
    e->breaker_salt = limits_are_shared(e->limits) ? hash_slice(0, e->setting.box) : 0;
    e->member = (struct limits_member){ .wake = e->setting.wake, .wake_arg = e->setting.wake_arg, .look_us = PR_NEVER };
    limits_join(e->limits, &e->member);
    return true;
}

static void engine_leave(struct engine *e)
{
    if (e->limits != NULL)
        limits_leave(e->limits, &e->member);
    limits_free(e->own_limits);
}

struct engine *engine_new(const struct engine_setting *setting, struct pr_error *reterr)
{
    struct engine *e;
    bool known;

    if (setting->endpoint_count > ENDPOINTS_MAX || setting->batch == 0 || setting->lease_us <= 0) {
        error_set(reterr, PR_EINVAL, "at most %d endpoints, a batch of at least 1, a lease", ENDPOINTS_MAX);
        return NULL;
    }
    e = calloc(1, sizeof(*e));
    if (e == NULL) {
        error_set(reterr, PR_ENOMEM, "out of memory for an engine");
        return NULL;
    }
    e->setting = *setting;
    e->membership.instance = setting->instance;
    e->membership.dedupe_us = max64(setting->dedupe_us, 0);
    e->endpoint_count = setting->endpoint_count;
    e->reading.next_due_us = PR_NEVER;
    e->plan.inline_results_at_us = PR_NEVER;
    e->reading.due_restart_us = PR_NEVER;
    list_init(&e->plan.reports);
    random_init(&e->random, setting->seed);
    arena_init(&e->plan.arena, 64 * 1024);
    e->endpoints = calloc(setting->endpoint_count + ENDPOINTS_SPARE + 1, sizeof(*e->endpoints));
    e->endpoint_room = setting->endpoint_count + ENDPOINTS_SPARE;
    known = engine_join(e) && e->endpoints != NULL && window_init(e, reterr) == PR_OK;
    for (size_t i = 0; i < e->endpoint_count && e->endpoints != NULL && e->limits != NULL; i++)
        known = endpoint_init(e, i, &setting->endpoints[i]) && known;
    if (known)
        return e;
    error_set(reterr, PR_ENOMEM, "out of memory for an engine");
    engine_free(e);
    return NULL;
}

void engine_free(struct engine *e)
{
    if (e == NULL)
        return;
    choose_over(e);
    window_fini(e);
    pauses_drop(e);
    effects_free(e->plan.effects);
    effects_free(e->plan.planned_effects);
    peers_forget(e);
    free(e->plan.start);
    for (size_t i = 0; i < e->endpoint_count && e->endpoints != NULL && e->limits != NULL; i++) {
        breakers_fini(&e->endpoints[i]);
        sorts_fini(&e->endpoints[i]);
        evidence_fini(&e->endpoints[i]);
    }
    orphans_forget(e);
    for (size_t i = 0; i < e->endpoint_count && e->endpoints != NULL; i++) {
        skips_forget(&e->endpoints[i]);
        free(e->endpoints[i].key);
    }
    free(e->endpoints);
    engine_leave(e);
    arena_fini(&e->plan.arena);
    free(e);
}

int engine_retune(struct engine *e, const struct engine_setting *setting, const struct endpoint_state *states,
                  size_t state_count, bool reread)
{
    size_t before = e->endpoint_count;

    ASSERT(setting->endpoint_count >= before && setting->endpoint_count <= e->endpoint_room);
    for (size_t i = before; i < setting->endpoint_count; i++) {
        e->endpoints[i] = (struct endpoint){ .setting = NULL };
        if (endpoint_init(e, i, &setting->endpoints[i]))
            continue;
        for (size_t k = before; k <= i; k++)
            free(e->endpoints[k].key);
        return PR_ENOMEM;
    }
    e->setting.endpoints = setting->endpoints;
    e->setting.endpoint_count = e->endpoint_count = setting->endpoint_count;
    e->setting.routes = setting->routes;
    e->setting.route_count = setting->route_count;
    e->setting.overrides = setting->overrides;
    e->setting.override_count = setting->override_count;
    e->setting.batch = setting->batch;
    e->setting.retention = setting->retention;
    for (size_t i = 0; i < before; i++) {
        skips_forget(&e->endpoints[i]);
        ASSERT(slice_eq(e->endpoints[i].setting->name, setting->endpoints[i].name) &&
               e->endpoints[i].setting->ordering == setting->endpoints[i].ordering);
        e->endpoints[i].setting = &setting->endpoints[i];
        choose_settle(&e->endpoints[i]); /* by another concurrency others wait at the transport */
        if (!setting->endpoints[i].gone)
            continue;
        gaps_forget_endpoint(e, &e->endpoints[i]); /* what is in them goes elsewhere now */
        held_types_forget_endpoint(&e->endpoints[i]);
        sorts_forget_endpoint(&e->endpoints[i]);
    }
    for (size_t i = before; i < e->endpoint_count; i++)
        for (size_t k = 0; k < state_count; k++)
            if (slice_eq(e->endpoints[i].setting->name, states[k].name))
                e->endpoints[i].paused_until_us = states[k].paused_until_us;
    if (reread)
        read_all_anew(e);
    return PR_OK;
}

/* ---- Out and back ------------------------------------------------------------------------------- */

static void delivery_begin(struct engine *e, struct item *item, int64_t last_start, int64_t now_us)
{
    item->given = true;
    item->delivery = (struct delivery){
        .message = &item->m,
        .token = item_token(item),
        .attempt = item->number,
        .row = item->row,
        .ask = item->ask,
        .deadline_us = now_us + item->endpoint->setting->timeout_us,
        .start_before_us = last_start,
        .run_next = item->run_next != NULL ? &item->run_next->delivery : NULL,
        .dead = item->dead != NULL ? &item->dead->d : NULL,
    };
    if (item->number == 1 && item->m.due_us == 0)
        histogram_add(&e->counts.commit_to_send, store_now(e, now_us) - item->m.created_us);
}

size_t engine_take(struct engine *e, int64_t now_us, unsigned endpoint, const struct delivery **ret, size_t max)
{
    struct endpoint *ep = &e->endpoints[endpoint];
    int64_t last_start = e->membership.lease_end_us - e->setting.lease_us / LEASE_MARGIN_DIVISOR;
    size_t count = 0;

    ASSERT(endpoint < e->endpoint_count);
    if (now_us >= last_start || e->membership.stopping)
        return 0;
    breakers_sync(e, ep);
    while (count < max) {
        struct list_node *node = list_first(&ep->ready);
        struct item *item;
        if (node == NULL)
            break;
        item = LIST_ENTRY(node, struct item, node);
        if (endpoint_has_pause(e, ep, now_us) || breakers_hold_back(ep, item)) {
            item_return(e, item, false); /* announced before the endpoint was closed: not started */
            continue;
        }
        for (struct item *one = item; one != NULL; one = one->run_next)
            delivery_begin(e, one, last_start, now_us);
        choose_begin(item, now_us);
        item_move(e, item, PLACE_OUT);
        ret[count++] = &item->delivery;
    }
    return count;
}

bool engine_wants_back(struct engine *e, int64_t now_us, unsigned endpoint)
{
    struct endpoint *ep = &e->endpoints[endpoint];
    bool was_shut = ep->shut, tripped = ep->tripped;

    ASSERT(endpoint < e->endpoint_count);
    breakers_sync(e, ep);
    ep->shut = endpoint_has_pause(e, ep, now_us) || ep->gate.seen.state == BREAKER_OPEN;
    ep->tripped = false;
    return ((ep->shut && !was_shut) || tripped) && ep->setting->ahead &&
           (ep->out > 0 || !list_is_empty(&e->window.zombies));
}

void endpoints_call_back(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        e->endpoints[i].tripped = true;
}

/* The item that a result or verdict is about; NULL when it is not ours any more. */
static struct item *find_out(struct engine *e, uint64_t token)
{
    struct item *item = item_find_token(e, token);

    if (item != NULL && item->place == PLACE_ZOMBIE) {
        for (struct item *next; item != NULL; item = next) {
            next = item->run_next;
            item_free(e, item);
        }
        return NULL;
    }
    return item != NULL && item->place == PLACE_OUT ? item : NULL;
}

static void settle_success(struct engine *e, struct item *item, int bits, int64_t now_us)
{
    breakers_succeeded(e, item, now_us);
    if (item->dead != NULL)
        run_bury(e, item, now_us);
    else
        judge_complete(e, item, bits);
}

/* Handed back by its receiver, which says nothing of the endpoint. */
static void hand_back_counted(struct engine *e, struct item *item, enum verdict_kind kind,
                              const struct delivery_result *result, int64_t now_us)
{
    breakers_returned(e, item->endpoint, item);
    judge_simple(e, item, kind, PR_REASON_NONE, PR_STR("receiver"), pr_str(result->error), now_us);
}

/* Its receiver cannot do it now, for a reason that is not the message's. */
static void judge_postponed(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    struct verdict postponed = {
        .kind = VERDICT_POSTPONE,
        .reason = PR_REASON_DEPENDENCY_FAILURE,
        .code = pr_str(result->code),
        .error = pr_str(result->error),
        .rule = PR_STR("receiver"),
        .delay_us = result->retry_after_us > 0 ? result->retry_after_us : POSTPONED_US,
    };

    int64_t passed_us = peers_pass(e, item, pr_str(result->need), now_us);

    if (passed_us >= 0)
        postponed.delay_us = passed_us;
    breakers_returned(e, item->endpoint, item);
    judge(e, item, &postponed, verdict_traits(VERDICT_POSTPONE)->name, 0, now_us);
}

/* It failed, and whoever did it has a policy of its own: when it comes again is settled. */
static void judge_again(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    const struct verdict again = {
        .kind = VERDICT_FAIL,
        .bits = result->bits,
        .reason = result->reason,
        .code = pr_str(result->code),
        .error = pr_str(result->error),
        .rule = PR_STR("retry"),
        .delay_us = result->retry_after_us,
    };

    breakers_succeeded(e, item, now_us); /* its receiver works: it has answered */
    judge(e, item, &again, "retry", time_add(store_now(e, now_us), again.delay_us), now_us);
}

/* Its receiver has done it, and this is to be stored with it. */
static void settle_with_effects(struct engine *e, struct item *item, const struct delivery_result *result,
                                int64_t now_us)
{
    struct send_effect *effects;

    if (effects_copy(result->effects, &effects) != PR_OK) {
        item_return(e, item, true); /* they cannot be kept: as if it had never been handled */
        return;
    }
    /* When the others of its run could stay behind without it, the stream waits for the answer, too. */
    item->refusable = effects_can_refuse(effects) || (item->run_next != NULL && effects != NULL);
    struct item *rest = run_detach(item);
    settle_success(e, item, result->bits, now_us);
    item->effects = effects;
    run_follow(e, item, rest, now_us);
}

/* Whatever is not done: it is judged, or comes back, and so do the others of its run. */
static void settle_otherwise(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    struct item *rest = run_detach(item);

    switch (result->outcome) {
    case SEND_ABANDONED: hand_back_counted(e, item, VERDICT_ABANDON, result, now_us); break;
    case SEND_RELEASED: hand_back_counted(e, item, VERDICT_RELEASE, result, now_us); break;
    case SEND_POSTPONED: judge_postponed(e, item, result, now_us); break;
    case SEND_AGAIN: judge_again(e, item, result, now_us); break;
    case SEND_SETTLED:
    case SEND_UNCERTAIN:
    case SEND_STALE:
        breakers_succeeded(e, item, now_us); /* whatever becomes of it: its receiver works */
        judge_asking(e, item, result, now_us);
        break;
    default:
        if (item->dead != NULL)
            run_postpone_dead(e, item, result, now_us);
        else
            judge_failure(e, item, result, now_us);
        break;
    }
    run_follow(e, item, rest, now_us);
}

void engine_result(struct engine *e, int64_t now_us, const struct delivery_result *result)
{
    struct item *item = find_out(e, result->token);

    if (item == NULL) {
        e->counts.stale++;
        if (result->settled != NULL)
            result->settled(result->settled_arg, PR_STALE);
        return;
    }
    item->settled = result->settled;
    item->settled_arg = result->settled_arg;
    item->settled_as = result->settled_as;
    if (result->outcome != SEND_RETURNED) {
        int64_t took_us = now_us - (item->delivery.deadline_us - item->endpoint->setting->timeout_us);
        choose_ended(e, item->endpoint, took_us, now_us);
        histogram_add(&item->endpoint->durations, took_us);
    }
    if (result->outcome != SEND_POSTPONED && result->outcome != SEND_RETURNED)
        peers_did(e, item, pr_str(result->need), now_us);
    if (result->outcome == SEND_FAILED && result->blamed != 0)
        run_blame(e, item, result);
    else if (result->outcome == SEND_OK)
        settle_with_effects(e, item, result, now_us);
    else if (result->outcome == SEND_RETURNED)
        item_return_unsent(e, item);
    else
        settle_otherwise(e, item, result, now_us);
}

const struct pr_message *engine_message(const struct engine *e, uint64_t token)
{
    const struct item *item = item_find_token(e, token);

    return item != NULL && item->place == PLACE_OUT ? &item->m : NULL;
}

void engine_set_asks(struct engine *e, unsigned endpoint, const struct ask *asks, size_t count)
{
    ASSERT(endpoint < e->endpoint_count && count <= ASKS_MAX);
    sorts_set_asks(e, &e->endpoints[endpoint], asks, count);
}

static int copy_worker_effects(const struct pr_verdict *v, struct send_effect **ret)
{
    struct send_effect **tail = ret;

    *ret = NULL;
    for (size_t i = 0; i < v->effect_count; i++) {
        struct send_effect one = { .box = v->effect_box != NULL ? pr_str(v->effect_box) : PR_STR("outbox"),
                                   .message = v->effects[i] };
        int rc = effects_copy(&one, tail);
        if (rc != PR_OK) {
            effects_free(*ret);
            *ret = NULL;
            return rc;
        }
        tail = &(*tail)->next;
    }
    return PR_OK;
}

/* With a reason it is a failure that waits for a person. */
static void park_by_worker(struct engine *e, struct item *item, const struct pr_verdict *v, int64_t now_us)
{
    const struct verdict parked = {
        .kind = VERDICT_PARK,
        .reason = (int)v->reason,
        .code = v->reason != PR_REASON_NONE ? v->code : (pr_slice){ NULL, 0 },
        .error = v->error,
        .rule = PR_STR("worker"),
        .counted = v->reason != PR_REASON_NONE,
    };

    judge(e, item, &parked, "park", PR_NEVER, now_us);
}

static void judge_by_worker(struct engine *e, struct item *item, const struct pr_verdict *v, int64_t now_us)
{
    int reason = v->reason != PR_REASON_NONE ? (int)v->reason : PR_REASON_UNKNOWN;

    if (v->kind != PR_VERDICT_COMPLETE)
        breakers_returned(e, item->endpoint, item); /* it says nothing of the endpoint */
    switch (v->kind) {
    case PR_VERDICT_COMPLETE: settle_success(e, item, v->status, now_us); break;
    case PR_VERDICT_RETURN: item_return_unsent(e, item); break;
    case PR_VERDICT_ABANDON:
        judge_simple(e, item, VERDICT_ABANDON, PR_REASON_NONE, PR_STR("worker"), v->error, now_us);
        break;
    case PR_VERDICT_RELEASE:
        judge_simple(e, item, VERDICT_RELEASE, PR_REASON_NONE, PR_STR("worker"), v->error, now_us);
        break;
    case PR_VERDICT_DISCARD:
        judge_simple(e, item, VERDICT_DISCARD, v->reason, PR_STR("worker"), v->error, now_us);
        break;
    case PR_VERDICT_PARK: park_by_worker(e, item, v, now_us); break;
    case PR_VERDICT_DEAD_LETTER:
        judge_dead(e, item, reason, reason, 0, PR_STR("worker"), true, v->code, v->error, now_us);
        break;
    case PR_VERDICT_FAIL: break; /* by policy, see engine_judge() */
    case PR_VERDICT_SETTLED:
        judge_asking(e, item, &(struct delivery_result){ .outcome = SEND_SETTLED }, now_us);
        return;
    }
    if (item->place == PLACE_JUDGED && v->kind != PR_VERDICT_RELEASE)
        item->verdict.bits |= v->status; /* what was reached stays, however it ended (B37) */
}

static void fail_by_worker(struct engine *e, struct item *item, const struct pr_verdict *v, int64_t now_us)
{
    struct delivery_result result = {
        .outcome = SEND_FAILED,
        .reason = v->reason != PR_REASON_NONE ? (int)v->reason : PR_REASON_UNKNOWN,
        .bits = v->status,
        .retry_after_us = v->retry_after_us,
        .release_followers = v->release_followers,
    };
    pr_slice code = utf8_cut_bytes(v->code, sizeof(result.code) - 1);

    if (code.size > 0)
        memcpy(result.code, code.data, code.size);
    result.error = strndup(v->error.data != NULL ? v->error.data : "", v->error.size);
    judge_failure(e, item, &result, now_us);
    free(result.error);
}

int engine_judge(struct engine *e, int64_t now_us, const struct pr_verdict *verdict, int *ret_answer)
{
    struct item *item = find_out(e, verdict->claim);
    struct send_effect *effects;
    int rc;

    if (item == NULL) {
        if (ret_answer != NULL)
            *ret_answer = PR_STALE;
        e->counts.stale++;
        return PR_OK;
    }
    rc = copy_worker_effects(verdict, &effects);
    if (rc != PR_OK)
        return rc;
    if (ret_answer != NULL)
        *ret_answer = PR_OK;
    struct item *rest = run_detach(item);
    item->refusable = rest != NULL && effects != NULL;
    if (verdict->kind == PR_VERDICT_FAIL)
        fail_by_worker(e, item, verdict, now_us);
    else
        judge_by_worker(e, item, verdict, now_us);
    if (item->place == PLACE_JUDGED) {
        item->answer = ret_answer;
        item_add_effects(e, item, effects);
    } else {
        effects_free(effects); /* handed back: nothing was done */
    }
    run_follow(e, item, rest, now_us);
    return PR_OK;
}

/* ---- Stopping -------------------------------------------------------------------------------------- */

static void return_ready(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        list_foreach(node, &e->endpoints[i].ready)
            item_return(e, LIST_ENTRY(node, struct item, node), false);
}

void engine_stop(struct engine *e, int64_t now_us)
{
    (void)now_us;
    e->membership.stopping = true;
    choose_over(e);
    return_ready(e);
    if (e->membership.epoch == 0 && !e->plan.asked)
        e->membership.left = true;
}

/* The transport still reads the message: leave it the item, and judge a copy. */
static void abandon_copy(struct engine *e, struct item *item, int64_t now_us)
{
    struct row row = { .m = item->m, .row = item->row, .lane = item->lane };
    struct item *ghost = NULL;

    breakers_returned(e, item->endpoint, item);
    map_remove(&e->window.rows, &item->by_row);
    item->row = 0;
    ghost = item_new(e, &row, item->endpoint);
    if (ghost != NULL) {
        ghost->number = item->number;
        ghost->stream = item->stream;
    } else if (item->stream != NULL) {
        item->stream->busy--;
    }
    receipt_leave(item, ghost != NULL);
    item->stream = NULL;
    item_move(e, item, PLACE_ZOMBIE);
    if (ghost != NULL)
        judge_simple(e, ghost, VERDICT_ABANDON, PR_REASON_NONE, PR_STR("stop"),
                     PR_STR("still being sent when the engine had to stop"), now_us);
}

void engine_give_up(struct engine *e, int64_t now_us)
{
    list_foreach(node, &e->window.out)
        for (struct item *item = LIST_ENTRY(node, struct item, node); item != NULL; item = item->run_next)
            abandon_copy(e, item, now_us);
}

bool engine_stopped(const struct engine *e)
{
    return e->membership.left;
}

/* ---- Waiting ---------------------------------------------------------------------------------------- */

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

/* ---- Looking in --------------------------------------------------------------------------------------- */

int64_t engine_dedupe_us(const struct engine *e)
{
    return e->membership.dedupe_us;
}

void engine_counts(const struct engine *e, struct engine_counts *ret)
{
    *ret = e->counts;
    ret->window_count = e->window.count;
    ret->window_bytes = e->window.bytes;
    ret->out = e->window.out_count;
    ret->streams = map_count(&e->window.streams);
    ret->heads = e->window.head_count;
}

void engine_endpoint(const struct engine *e, unsigned endpoint, struct endpoint_view *ret)
{
    const struct endpoint *ep = &e->endpoints[endpoint];

    ASSERT(endpoint < e->endpoint_count);
    *ret = (struct endpoint_view){
        .breaker = breakers_state(ep),
        .paused_until_us = endpoint_paused_until(ep),
        .waiting = ep->count - ep->out,
        .out = ep->out,
        .sent = ep->sent,
        .failed = ep->failed,
        .failed_in_row = ep->failed_in_row,
        .durations = ep->durations,
    };
    memcpy(ret->reasons, ep->reasons, sizeof ret->reasons);
}

uint64_t engine_lanes(const struct engine *e)
{
    return e->membership.lanes;
}

pr_id engine_instance(const struct engine *e)
{
    return e->membership.instance;
}

static void check_item(const struct engine *e, const struct item *item)
{
    ASSERT(item->place != PLACE_NONE);
    ASSERT(list_is_linked(&item->node));
    if (item->place == PLACE_READY || item->place == PLACE_OUT)
        ASSERT(item->receipt != NULL && item->receipt->number <= e->membership.number + e->plan.asked &&
               item->number > 0); /* E1 */
    if (item->row != 0)
        ASSERT(item_find(e, item->row, item->m.id) == item);
    if (item->place == PLACE_SPLITTING)
        ASSERT(item->row == 0);
    if (place_is_on_its_way(item->place))
        ASSERT(!twin_is_on_its_way(e, item)); /* E3 */
    if (item->place == PLACE_CHOSEN || item->place == PLACE_READY || item->place == PLACE_OUT)
        run_check(item); /* E2 */
    if (item->place == PLACE_RUN)
        ASSERT(hands_out_runs(e) && item->run_first != NULL && place_is_on_its_way(item->run_first->place));
}

static void check_stream(const struct engine *e, const struct stream *s)
{
    int64_t last = INT64_MIN;
    size_t n = 0;

    ASSERT(s->busy <= 1 || hands_out_runs(e)); /* E2 */
    list_foreach(node, &s->items) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        ASSERT(item->stream == s && item->m.seq >= last);
        last = item->m.seq;
        n++;
    }
    ASSERT(n == s->item_count);
    for (size_t i = 1; i < s->head_count; i++)
        ASSERT(s->heads[i - 1].seq < s->heads[i].seq);
    for (size_t i = 0; i < s->heads_here; i++)
        ASSERT(s->heads[i].here);
    ASSERT(s->heads_here == s->head_count || (s->heads_here < s->head_count && !s->heads[s->heads_here].here));
}

void engine_check(const struct engine *e)
{
    size_t count = 0, bytes = 0, out = 0, runs = 0;

    for (size_t i = 0; i < e->window.slot_count; i++) {
        const struct item *item = e->window.slots[i];
        if (item == NULL)
            continue;
        check_item(e, item);
        count++;
        bytes += item->bytes;
        runs += item->place == PLACE_RUN;
        out += item->place == PLACE_CHOSEN || item->place == PLACE_READY || item->place == PLACE_OUT;
    }
    ASSERT(count == e->window.count && bytes == e->window.bytes && out == e->window.out_count); /* E3 */
    ASSERT(runs == e->window.run_count);
    for (size_t i = 0; i < e->endpoint_count; i++)
        breakers_check(&e->endpoints[i]), sorts_check(e, &e->endpoints[i]);
    map_foreach(node, &e->window.streams)
        check_stream(e, MAP_ENTRY(node, struct stream, node));
    list_foreach(node, &e->window.receipts) /* E6 */
        list_foreach(item_node, &LIST_ENTRY(node, struct receipt, node)->items)
            ASSERT(LIST_ENTRY(item_node, struct item, on_receipt)->receipt == LIST_ENTRY(node, struct receipt, node));
}
