/* Instances of flow_world.h: what a process with flows does, step by step, and the faults of each step. */
#include "flow_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/delivery.h"
#include "transport/handler_context.h"

#define LEASE_US PR_SECONDS(15)
#define TIMEOUT_US PR_SECONDS(600)
#define GONE_MAX 16
#define PEERS_MAX 8

/* ---- Life and death --------------------------------------------------------------------------------- */

static void side_start(struct flow_world *w, struct flow_instance *i, struct flow_side *s, enum box_kind kind)
{
    static const unsigned to[] = { 0 };
    static const struct route routes[] = { { .box = { "turns", 5 }, .to = to, .to_count = 1 },
                                           { .box = { "activities", 10 }, .to = to, .to_count = 1 } };
    bool turns = kind == BOX_TURNS;
    *s = (struct flow_side){ .kind = kind };
    s->endpoint = (struct endpoint_setting){
        .name = turns ? PR_STR(FLOW_TURNS_ENDPOINT) : PR_STR(FLOW_ACTIVITIES_ENDPOINT),
        .max_attempts = FLOW_ATTEMPTS_MAX + (w->bug == FLOWS_POISON_IS_LATE),
        .timeout_us = TIMEOUT_US,
        .policy.retry = { .factor = 1, .blame = BLAME_ALWAYS },
    };
    s->setting = (struct engine_setting){
        .box = turns ? PR_STR("turns") : PR_STR("activities"),
        .kind = kind,
        .name = PR_STR("sim"),
        .instance = { { 1, (uint8_t)(w->started >> 8), (uint8_t)w->started, (uint8_t)kind } },
        .lease_us = LEASE_US,
        .batch = 1 + (size_t)random_below(&w->random, 50),
        .window_count = 20 + (size_t)random_below(&w->random, 200),
        .window_bytes = 1 << 20,
        .payload_max = PR_PAYLOAD_MAX,
        .poll_us = PR_SECONDS(1),
        .seed = random_u64(&w->random),
        .offer = flows_offer(i->flows, kind),
        .on_dead = turns || w->bug == FLOWS_DEATH_IS_UNTOLD ? NULL : flow_on_dead,
        .on_dead_arg = i->flows,
        .endpoints = &s->endpoint,
        .endpoint_count = 1,
        .routes = &routes[turns ? 0 : 1],
        .route_count = 1,
    };
    int rc = store_session_open(&w->store, s->setting.box, &s->session, NULL);
    ASSERT(rc == PR_OK);
    s->engine = engine_new(&s->setting, NULL);
    ASSERT(s->engine != NULL);
}

void flow_instance_start(struct flow_world *w, struct flow_instance *i)
{
    size_t program = w->calm ? w->deployed : (size_t)random_below(&w->random, w->deployed + 1);
    const struct flows_options options = {
        .config = &w->config, .program = w->programs[program], .store = &w->store, .clock = &w->clock, .random = &w->ids
    };
    int rc = flows_open(&options, &i->flows, NULL);
    ASSERT(rc == PR_OK);
    w->started++;
    i->program = program;
    side_start(w, i, &i->sides[0], BOX_TURNS);
    side_start(w, i, &i->sides[1], BOX_ACTIVITIES);
    flow_happened(w, "start of program %zu", program);
}

static void side_die(struct flow_side *s)
{
    for (size_t i = 0; i < s->out_count; i++)
        if (s->out[i].is_run)
            delivery_result_fini(&s->out[i].result);
    engine_free(s->engine);
    store_session_close(&s->session);
}

void flow_instance_die(struct flow_world *w, struct flow_instance *i)
{
    side_die(&i->sides[0]);
    side_die(&i->sides[1]);
    flows_close(i->flows);
    i->flows = NULL;
    w->counts.crashes++;
    w->hardships++;
    flow_happened(w, "crash");
}

/* ---- Cycles --------------------------------------------------------------------------------------------- */

static void tell_flows(struct flow_instance *i, struct flow_side *s)
{
    uint64_t tokens[GONE_MAX], lanes = engine_lanes(s->engine), lost = s->lanes & ~lanes;
    pr_slice offers[PEERS_MAX];
    size_t count;
    s->lanes = lanes;
    if (lost != 0 && s->kind == BOX_TURNS)
        flows_lost_lanes(i->flows, lost);
    if (lost != 0 && s->kind == BOX_ACTIVITIES)
        flows_lost_sessions(i->flows, lost);
    while ((count = engine_gone(s->engine, tokens, GONE_MAX)) > 0)
        flows_gone(i->flows, tokens, count);
    if (engine_peers_serial(s->engine) != s->peers_serial) {
        s->peers_serial = engine_peers_serial(s->engine);
        count = min_size(engine_peers(s->engine, offers, PEERS_MAX), PEERS_MAX);
        flows_peers(i->flows, s->kind, offers, count, engine_is_mixed(s->engine));
    }
}

/* It landed; which answer does the instance get? */
static void cycle_landed(struct flow_world *w, struct flow_instance *i, struct flow_side *s,
                         const struct cycle_reply *reply)
{
    if (flow_chance(w, 0.03)) {
        w->hardships++;
        engine_cycle_failed(s->engine, w->mono_us, PR_EUNCERTAIN);
    } else if (flow_chance(w, 0.01)) {
        flow_instance_die(w, i);
    } else {
        flows_clock(i->flows, reply->now_us);
        engine_absorb(s->engine, w->mono_us, w->mono_us, reply);
        tell_flows(i, s);
    }
}

bool flow_instance_cycle(struct flow_world *w, struct flow_instance *i, struct flow_side *s, bool changed)
{
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    if (!engine_plan(s->engine, w->mono_us, changed, &cycle))
        return false;
    w->counts.cycles++;
    if (flow_chance(w, 0.02)) {
        engine_cycle_failed(s->engine, w->mono_us, PR_ESTORE);
        return false;
    }
    bool works = cycle->verdict_count + cycle->receipt_count > 0;
    int rc = store_cycle(&s->session, cycle, &reply, NULL);
    ASSERT(rc != PR_EINVAL);
    if (works || rc != PR_OK)
        flow_happened(w, "cycle %d of %s verdicts %zu effects %zu receipt %zu", rc, s->setting.box.data,
                      cycle->verdict_count, cycle->effect_count, cycle->receipt_count);
    if (rc != PR_OK)
        engine_cycle_failed(s->engine, w->mono_us, rc);
    else
        cycle_landed(w, i, s, reply);
    if (i->flows != NULL && w->life->check)
        engine_check(s->engine);
    return works;
}

/* ---- What is out ------------------------------------------------------------------------------------------ */

bool flow_instance_take(struct flow_world *w, struct flow_instance *i, struct flow_side *s)
{
    const struct delivery *list[FLOW_OUT_MAX];
    size_t count = engine_take(s->engine, w->mono_us, 0, list, FLOW_OUT_MAX - s->out_count);
    (void)i;
    for (size_t at = 0; at < count; at++) {
        s->out[s->out_count++] = (struct flow_out){ .d = list[at] };
        if (s->kind == BOX_TURNS)
            flow_world_meet(w, list[at]->message->stream);
        w->counts.sends++;
    }
    return count > 0;
}

/* ---- Mistakes for the checkers to find --------------------------------------------------------------------- */

static struct send_effect **find_effect(struct delivery_result *r, enum effect_kind kind, enum turn_message_kind type)
{
    struct send_effect **link = &r->effects;
    while (*link != NULL &&
           ((*link)->effect.kind != kind ||
            (kind == EFFECT_MESSAGE && !slice_eq_cstr((*link)->message.type, turn_message_type(type)))))
        link = &(*link)->next;
    return link;
}

static void lose_effect(struct delivery_result *r, enum effect_kind kind, enum turn_message_kind type)
{
    struct send_effect **link = find_effect(r, kind, type), *lost = *link;
    if (lost == NULL)
        return;
    *link = lost->next;
    lost->next = NULL;
    effects_free(lost);
}

static void change_payload(struct delivery_result *r, enum turn_message_kind type)
{
    struct send_effect *e = *find_effect(r, EFFECT_MESSAGE, type);
    if (e != NULL && e->message.payload.size > 0)
        e->message.payload.size--;
}

/* Repeats the line of the last event. */
static void repeat_event(struct flow_world *w, struct delivery_result *r)
{
    struct send_effect *e = *find_effect(r, EFFECT_HISTORY, TURN_NONE);
    pr_slice lines = e != NULL ? e->effect.value : (pr_slice){ "", 0 };
    size_t at = lines.size;
    while (at > 1 && lines.data[at - 2] != '\n')
        at--;
    if (at > 1 && memmem(&lines.data[at - 1], lines.size - at, "\"mail\"", 6) != NULL)
        e->effect.value =
            arena_printf(&w->kept, "%.*s%.*s", SLICE_ARGS(lines), (int)(lines.size - at + 1), &lines.data[at - 1]);
}

/* Stores the row of a flow although it is gone. */
static void revive(struct flow_world *w, struct delivery_result *r)
{
    struct send_effect *e = *find_effect(r, EFFECT_FLOW, TURN_NONE), *copy;
    if (e == NULL || w->deleted_count == 0 || (copy = send_effect_copy(e)) == NULL)
        return;
    struct flow_row *row = arena_alloc(&w->kept, sizeof(*row));
    ASSERT(row != NULL);
    *row = *e->effect.flow;
    row->id = w->deleted[0].flow;
    row->execution = w->deleted[0].execution;
    copy->effect.flow = row;
    copy->effect.key = row->id;
    copy->effect.id = (pr_id){ { 0 } };
    copy->effect.takes_verdict = false;
    effects_append(&r->effects, copy);
}

static void plant(struct flow_world *w, struct delivery_result *r)
{
    switch (w->bug) {
    case FLOWS_RESULT_IS_CHANGED: change_payload(r, TURN_RESULT); break;
    case FLOWS_CHILD_LIES: change_payload(r, TURN_CHILD); break;
    case FLOWS_FACT_IS_TWICE: repeat_event(w, r); break;
    case FLOWS_CANCEL_IS_LOST: lose_effect(r, EFFECT_MESSAGE, TURN_CANCEL); break;
    case FLOWS_DELETED_COMES_BACK: revive(w, r); break;
    case FLOWS_KEY_IS_LOST: lose_effect(r, EFFECT_STATE, TURN_NONE); break;
    case FLOWS_TIMER_IS_EARLY: {
        struct send_effect *e = *find_effect(r, EFFECT_MESSAGE, TURN_TIMER);
        if (e != NULL)
            e->message.due_us = 0;
        break;
    }
    default: break;
    }
}

/* ---- Work -------------------------------------------------------------------------------------------------- */

static void run(struct flow_world *w, struct flow_instance *i, struct flow_side *s, struct flow_out *o)
{
    struct handler_stop stop = { .cancelled = false };
    struct pr_context context;
    struct pr_message message = *o->d->message;
    message.attempts = o->d->attempt;
    w->at_work = i->program;
    context_init(&context, o->d, NULL, &w->clock, time_add(w->mono_us, TIMEOUT_US), &stop);
    int rc = s->kind == BOX_TURNS ? flow_run_turn(&context, &message, i->flows)
                                  : flow_run_activity(&context, &message, i->flows);
    context_finish(&context, rc, &o->result);
    o->is_run = true;
    flow_happened(w, "run %.*s of %.*s: %d", SLICE_ARGS(message.type), SLICE_ARGS(message.stream),
                  (int)o->result.outcome);
}

/* Its outcome is unknown, or it was not even begun. */
static void leave(struct flow_world *w, struct flow_out *o)
{
    bool returned = random_chance(&w->random, 0.5);
    w->hardships += !returned;
    o->result = (struct delivery_result){ .token = o->d->token, .outcome = returned ? SEND_RETURNED : SEND_ABANDONED };
    o->is_run = true;
}

static void answer(struct flow_world *w, struct flow_instance *i, struct flow_side *s, struct flow_out *o)
{
    struct delivery_result *r = &o->result;
    const struct pr_message *m = engine_message(s->engine, r->token);
    if (s->kind == BOX_ACTIVITIES && m != NULL)
        flow_activity_ended(i->flows, m, r);
    plant(w, r);
    engine_result(s->engine, w->mono_us, r);
    r->settled = NULL; /* the engine has it */
    delivery_result_fini(r);
    *o = s->out[--s->out_count];
    if (w->life->check)
        engine_check(s->engine);
}

bool flow_instance_work(struct flow_world *w, struct flow_instance *i, struct flow_side *s)
{
    if (s->out_count == 0)
        return false;
    struct flow_out *o = &s->out[random_below(&w->random, s->out_count)];
    if (o->is_run) {
        answer(w, i, s, o);
    } else if (flow_chance(w, 0.05)) {
        leave(w, o);
    } else {
        run(w, i, s, o);
        if (w->killed)
            flow_instance_die(w, i);
        w->killed = false;
    }
    return true;
}
