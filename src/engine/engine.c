/* An engine's life and death: the settings it works by, and how it stops. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "engine/internal.h"

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

/* Joins the shared limits, or makes its own.  false: no memory. */
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
        choose_settle(&e->endpoints[i]); /* the new concurrency changes how many wait at the transport */
        if (!setting->endpoints[i].gone)
            continue;
        gaps_forget_endpoint(e, &e->endpoints[i]); /* the rows in them have other destinations now */
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

/* ---- Stopping ---- */

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

/* The transport still reads the message: it keeps the item, and a copy gets the verdict. */
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
