/* See turns.h. */
#include "turns.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/slice.h"
#include "core/offer.h"
#include "turn_extras.h"

#define INSTANCES 2
#define FLOWS_MAX 6
#define MESSAGES_MAX 400
#define OUT_MAX 64
#define CALM_STEPS 20000 /* without faults until all is done: more, and it hangs */

struct out_run {
    const struct delivery *d;
    pr_id session;       /* the engine's, when it was taken */
    struct flow_row row; /* as it was then */
    bool is_there;
    char stream[4];
    bool over; /* it has its result: TURNS_OUT_TWICE */
};

struct turn_worker {
    struct engine *engine; /* NULL: it is down */
    struct store_session session;
    struct out_run out[OUT_MAX];
    size_t out_count;
    unsigned lacks; /* flows, by bit, that its program does not have; another's has them */
    char offer[256];
};

struct turns {
    const struct life *life;
    enum turns_bug bug;
    struct breach *breach;
    struct random random;
    int64_t now_us;
    struct clock clock;
    struct store store;
    struct endpoint_setting endpoint;
    struct engine_setting setting;
    struct turn_worker workers[INSTANCES];
    uint8_t instances; /* started so far */
    unsigned flows, messages, sent;
    uint8_t flow_of[MESSAGES_MAX];
    unsigned executions;
    bool calm;
    struct arena arena; /* of one question */
    struct life_counts counts;
};

static int64_t turns_now(void *arg)
{
    return ((struct turns *)arg)->now_us;
}

static bool chance(struct turns *t, double share)
{
    return !t->calm && random_chance(&t->random, share);
}

__attribute__((format(printf, 3, 4))) static void broken(struct turns *t, const char *invariant, const char *format,
                                                         ...)
{
    va_list args;
    if (t->breach->invariant != NULL)
        return;
    t->breach->invariant = invariant;
    va_start(args, format);
    vsnprintf(t->breach->text, sizeof(t->breach->text), format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void note(struct turns *t, const char *format, ...)
{
    char line[160];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    t->counts.events++;
    t->counts.hash =
        hash_bytes(t->counts.hash, line, (size_t)(size < (int)sizeof(line) ? size : (int)sizeof(line) - 1));
    if (t->life->trace != NULL)
        fprintf(t->life->trace, "%12" PRId64 " %s\n", t->now_us - WORLD_START_US, line);
}

static const char *flow_name(unsigned flow)
{
    static const char *const names[FLOWS_MAX] = { "f0", "f1", "f2", "f3", "f4", "f5" };
    return names[flow];
}

/* ---- Instances ---------------------------------------------------------------------------------- */

/* In half of the worlds they have different programs, and each flow is in at least one of them. */
static void draw_programs(struct turns *t)
{
    unsigned all = (1u << t->flows) - 1, taken = 0;
    if (random_chance(&t->random, 0.5))
        return;
    for (size_t i = 0; i < INSTANCES; i++) {
        t->workers[i].lacks = (unsigned)random_below(&t->random, all + 1) & ~taken;
        taken |= t->workers[i].lacks;
    }
}

static void write_offer(const struct turns *t, struct turn_worker *w)
{
    struct buf offer;
    buf_init(&offer, sizeof(w->offer));
    for (unsigned i = 0; i < t->flows; i++)
        if ((w->lacks & 1u << i) == 0)
            offer_add_flow(&offer, pr_str(flow_name(i)), PR_STR("1"));
    memcpy(w->offer, buf_slice(&offer).data != NULL ? buf_slice(&offer).data : "", buf_slice(&offer).size);
    w->offer[buf_slice(&offer).size] = '\0';
    buf_fini(&offer);
}

static void worker_start(struct turns *t, struct turn_worker *w)
{
    write_offer(t, w);
    t->setting.offer = pr_str(w->offer);
    t->setting.instance = (pr_id){ { 1, ++t->instances } };
    t->setting.seed = random_u64(&t->random); /* or two would take the same name when they join anew */
    int rc = store_session_open(&t->store, t->setting.box, &w->session, NULL);
    ASSERT(rc == PR_OK);
    w->engine = engine_new(&t->setting, NULL);
    ASSERT(w->engine != NULL);
    note(t, "start %u", (unsigned)t->instances);
}

static void worker_die(struct turns *t, struct turn_worker *w)
{
    engine_free(w->engine);
    store_session_close(&w->session);
    w->engine = NULL;
    w->out_count = 0;
    t->counts.crashes++;
    note(t, "crash");
}

static void send(struct turns *t)
{
    char payload[16];
    unsigned flow = (unsigned)random_below(&t->random, t->flows);
    snprintf(payload, sizeof(payload), "%u", t->sent);
    struct pr_message m = { .id = { { 2, (uint8_t)(t->sent >> 8), (uint8_t)t->sent } },
                            .type = PR_STR("event"),
                            .stream = pr_str(flow_name(flow)),
                            .payload = pr_str(payload) };
    int rc = store_enqueue(&t->store, t->setting.box, &m, 1, PR_PAYLOAD_MAX, NULL, NULL, NULL);
    ASSERT(rc == PR_OK);
    t->flow_of[t->sent++] = (uint8_t)flow;
    note(t, "send %s %s", payload, flow_name(flow));
}

/* ---- Cycles ----------------------------------------------------------------------------------------- */

static void worker_cycle(struct turns *t, struct turn_worker *w, bool changed)
{
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    struct pr_error error;
    if (!engine_plan(w->engine, t->now_us, changed, &cycle))
        return;
    t->counts.cycles++;
    if (chance(t, 0.02)) {
        note(t, "cycle fails");
        engine_cycle_failed(w->engine, t->now_us, PR_ESTORE);
        return;
    }
    struct cycle asked = *cycle;
    if (t->bug == TURNS_RUN_FALLS_APART)
        for (size_t i = 0; i < asked.verdict_count; i++)
            ((struct verdict *)(uintptr_t)asked.verdicts)[i].joined = false;
    int rc = store_cycle(&w->session, &asked, &reply, &error);
    note(t, "cycle %d verdicts %zu effects %zu receipt %zu", rc, cycle->verdict_count, cycle->effect_count,
         cycle->receipt_count);
    if (rc != PR_OK)
        engine_cycle_failed(w->engine, t->now_us, rc);
    else if (chance(t, 0.03))
        engine_cycle_failed(w->engine, t->now_us, PR_EUNCERTAIN); /* it landed, and nobody heard of it */
    else if (chance(t, 0.01))
        worker_die(t, w);
    else
        engine_absorb(w->engine, t->now_us, t->now_us, reply);
    if (w->engine != NULL && t->life->check)
        engine_check(w->engine);
}

/* ---- Turns ------------------------------------------------------------------------------------------- */

/* The row of a flow; its texts are not used. */
static bool read_row(struct turns *t, pr_slice flow, struct flow_row *ret)
{
    const struct query query = { .kind = QUERY_FLOW, .brief = true, .flow.id = flow };
    struct query_reply reply;
    struct pr_error error;
    arena_reset(&t->arena);
    int rc = store_query(&t->store, &query, &t->arena, &reply, &error);
    ASSERT(rc == PR_OK);
    *ret = reply.flow_count > 0 ? reply.flows[0] : (struct flow_row){ .next = 0 };
    return reply.flow_count > 0;
}

/* I38 */
static void check_run(struct turns *t, const struct turn_worker *w, const struct delivery *first)
{
    size_t count = 0;
    int64_t last = INT64_MIN;
    bool suspect = false;
    for (const struct delivery *d = first; d != NULL; d = d->run_next, count++) {
        if (!slice_eq(d->message->stream, first->message->stream) || d->message->seq <= last)
            broken(t, "I38", "a run of %.*s is not in the order of its messages", SLICE_ARGS(first->message->stream));
        last = d->message->seq;
        suspect = suspect || message_unexplained(d->message) >= 2;
    }
    if (suspect && count > 1)
        broken(t, "I38", "a suspect of %.*s is not alone", SLICE_ARGS(first->message->stream));
    for (size_t i = 0; i < w->out_count; i++)
        if (pr_id_equal(w->out[i].session, engine_instance(w->engine)) &&
            slice_eq_cstr(first->message->stream, w->out[i].stream))
            broken(t, "I38", "two runs of %.*s are out", SLICE_ARGS(first->message->stream));
}

static void worker_take(struct turns *t, struct turn_worker *w)
{
    const struct delivery *list[OUT_MAX];
    size_t count = engine_take(w->engine, t->now_us, 0, list, OUT_MAX - w->out_count);
    for (size_t i = 0; i < count; i++) {
        check_run(t, w, list[i]);
        struct out_run run = { .d = list[i], .session = engine_instance(w->engine) };
        run.is_there = read_row(t, list[i]->message->stream, &run.row);
        snprintf(run.stream, sizeof(run.stream), "%.*s", SLICE_ARGS(list[i]->message->stream));
        w->out[w->out_count++] = run;
        t->counts.sends++;
        note(t, "take %.*s", SLICE_ARGS(list[i]->message->stream));
    }
}

static struct send_effect *effect_new(struct effect effect, size_t more)
{
    struct send_effect *e = calloc(1, sizeof(*e) + more);
    ASSERT(e != NULL);
    e->effect = effect;
    return e;
}

/* The row advances by the messages of the run, and their numbers are what happened. */
static struct send_effect *turn_effects(struct turns *t, const struct out_run *run)
{
    struct flow_row row = run->row;
    char execution[PR_ID_TEXT_SIZE], events[4096];
    size_t size = 0, count = 0;
    for (const struct delivery *d = run->d; d != NULL; d = d->run_next, count++)
        size += (size_t)snprintf(events + size, sizeof(events) - size, "%.*s\n", SLICE_ARGS(d->message->payload));
    bool is_old = run->is_there && chance(t, 0.05); /* it was made from an older row */
    int64_t expected = row.next - is_old;
    bool guarded = t->bug != TURNS_GUARD_IS_IGNORED;
    pr_id saw = run->is_there ? row.execution : (pr_id){ { 0 } };
    row.id = run->d->message->stream;
    row.name = PR_STR("sim");
    row.version = PR_STR("1");
    row.state = FLOW_RUNNING;
    row.custom_status = row.input = row.output = row.error = row.parent = (pr_slice){ NULL, 0 };
    if (!run->is_there)
        row.execution = (pr_id){ { 3, (uint8_t)(t->executions >> 8), (uint8_t)t->executions } };
    t->executions += !run->is_there;
    row.next = expected + (int64_t)count;
    pr_id_format(row.execution, execution);

    struct send_effect *flow =
        effect_new((struct effect){ .kind = EFFECT_FLOW, .id = saw, .expected = expected, .takes_verdict = guarded },
                   sizeof(row) + row.id.size);
    struct flow_row *kept = (struct flow_row *)(flow + 1);
    *kept = row;
    memcpy(kept + 1, row.id.data, row.id.size);
    kept->id.data = (char *)(kept + 1);
    flow->effect.flow = kept;
    struct send_effect *history = effect_new(
        (struct effect){
            .kind = EFFECT_HISTORY, .expected = expected, .count = (int64_t)count, .takes_verdict = guarded },
        sizeof(execution) + size);
    char *at = (char *)(history + 1);
    memcpy(at, execution, sizeof(execution));
    memcpy(at + sizeof(execution), events, size);
    history->effect.key = (pr_slice){ at, sizeof(execution) - 1 };
    history->effect.value = (pr_slice){ at + sizeof(execution), size };
    flow->next = history;
    history->next = turn_extras_make(run->d);
    return flow;
}

/* The first of this kind, if any. */
static void lose_effect(struct send_effect *list, enum effect_kind kind)
{
    for (struct send_effect **link = &list; *link != NULL; link = &(*link)->next) {
        struct send_effect *lost = *link;
        if (lost->effect.kind != kind)
            continue;
        *link = lost->next;
        lost->next = NULL;
        effects_free(lost);
        return;
    }
}

static void worker_answer(struct turns *t, struct turn_worker *w)
{
    static const enum send_outcome otherwise[] = { SEND_ABANDONED, SEND_RETURNED, SEND_POSTPONED, SEND_FAILED };
    size_t at = (size_t)random_below(&t->random, w->out_count);
    struct out_run *run = &w->out[at];
    if (run->over)
        return;
    struct delivery_result result = { .token = run->d->token, .outcome = SEND_OK };
    if (chance(t, 0.1))
        result.outcome = otherwise[random_below(&t->random, 4)];
    bool lacks = (w->lacks & 1u << (unsigned)(run->stream[1] - '0')) != 0;
    if (lacks)
        result.outcome = SEND_POSTPONED;
    if (t->bug != TURNS_NEED_IS_FORGOTTEN && (lacks || result.outcome == SEND_OK))
        result.need = need_of_flow(run->d->message->stream, PR_STR("1"));
    if (result.outcome == SEND_OK)
        result.effects = turn_effects(t, run);
    if (t->bug == TURNS_MAIL_IS_LOST || t->bug == TURNS_EXECUTION_IS_LOST) /* (the first one is the flow's row) */
        lose_effect(result.effects, t->bug == TURNS_MAIL_IS_LOST ? EFFECT_MAIL : EFFECT_EXECUTION);
    result.reason = result.outcome == SEND_FAILED ? PR_REASON_HANDLER_EXCEPTION : PR_REASON_NONE;
    note(t, "answer %.*s %d", SLICE_ARGS(run->d->message->stream), (int)result.outcome);
    engine_result(w->engine, t->now_us, &result);
    effects_free(result.effects);
    free(result.need);
    if (t->bug != TURNS_OUT_TWICE)
        *run = w->out[--w->out_count];
    else
        run->over = true;
    if (t->life->check)
        engine_check(w->engine);
}

/* ---- The end -------------------------------------------------------------------------------------------- */

static void read_flow(struct turns *t, unsigned flow, struct query_reply *ret)
{
    const struct query query = { .kind = QUERY_FLOW, .flow.id = pr_str(flow_name(flow)) };
    struct pr_error error;
    arena_reset(&t->arena);
    int rc = store_query(&t->store, &query, &t->arena, ret, &error);
    ASSERT(rc == PR_OK);
}

/* I37 */
static void check_flow(struct turns *t, unsigned flow, unsigned *seen)
{
    struct query_reply reply;
    int64_t next = 0;
    read_flow(t, flow, &reply);
    for (size_t i = 0; i < reply.turn_count; i++) {
        const struct flow_turn_row *turn = &reply.turns[i];
        if (turn->first != next)
            broken(t, "I37", "the history of %s goes on at %" PRId64 " and not at %" PRId64, flow_name(flow),
                   turn->first, next);
        next = turn->first + turn->count;
        for (size_t at = 0; at < turn->events.size;) {
            unsigned number = turn_read_number(turn->events, &at);
            if (number >= t->sent || t->flow_of[number] != flow)
                broken(t, "I37", "message %u is in the history of %s", number, flow_name(flow));
            else
                seen[number]++;
        }
    }
    if ((reply.flow_count > 0 ? reply.flows[0].next : 0) != next)
        broken(t, "I37", "the row of %s does not say how long its history is", flow_name(flow));
}

/* I21 */
static void check_extras(struct turns *t, unsigned flow)
{
    struct query_reply reply;
    read_flow(t, flow, &reply);
    const char *wrong = turn_extras_check(&t->store, pr_str(flow_name(flow)), reply.turns, reply.turn_count, &t->arena);
    if (wrong != NULL)
        broken(t, "I21", "%s: %s", flow_name(flow), wrong);
}

static void check_all(struct turns *t)
{
    unsigned seen[MESSAGES_MAX] = { 0 };
    for (unsigned i = 0; i < t->flows; i++)
        check_flow(t, i, seen);
    for (unsigned i = 0; i < t->sent; i++)
        if (seen[i] != 1)
            broken(t, "I37", "message %u is in the history of its flow %u times", i, seen[i]);
    for (unsigned i = 0; i < t->flows && t->breach->invariant == NULL; i++)
        check_extras(t, i);
}

static bool is_done(struct turns *t)
{
    const struct query query = { .kind = QUERY_MESSAGES, .filter = { .box = t->setting.box, .state = -1, .limit = 1 } };
    struct query_reply reply;
    struct pr_error error;
    arena_reset(&t->arena);
    int rc = store_query(&t->store, &query, &t->arena, &reply, &error);
    ASSERT(rc == PR_OK);
    return reply.listed_count == 0;
}

/* ---- The life --------------------------------------------------------------------------------------------- */

static void step(struct turns *t)
{
    struct turn_worker *w = &t->workers[random_below(&t->random, INSTANCES)];
    t->now_us += chance(t, 0.005) ? PR_SECONDS(40) : random_between(&t->random, 1, PR_MILLISECONDS(100));
    if (t->sent < t->messages && random_chance(&t->random, 0.3)) {
        send(t);
        return;
    }
    if (w->engine == NULL) {
        if (t->calm || chance(t, 0.1))
            worker_start(t, w);
        return;
    }
    if (chance(t, 0.002))
        worker_die(t, w);
    else if (w->out_count > 0 && random_chance(&t->random, 0.5))
        worker_answer(t, w);
    else if (random_chance(&t->random, 0.7))
        worker_cycle(t, w, random_chance(&t->random, 0.5));
    else
        worker_take(t, w);
}

static void turns_open(struct turns *t)
{
    static const unsigned to[] = { 0 };
    static const struct route route = { .box = { "turns", 5 }, .to = to, .to_count = 1 };
    const struct store_options options = { .url = t->life->sqlite ? "sqlite::memory:" : "memory:", .clock = &t->clock };
    t->endpoint = (struct endpoint_setting){
        .name = PR_STR("flows"),
        .max_attempts = 5,
        .timeout_us = PR_SECONDS(600),
        .policy.retry = { .base_us = PR_SECONDS(1), .factor = 1, .failures = 3, .blame = BLAME_ALWAYS },
    };
    t->setting = (struct engine_setting){
        .box = PR_STR("turns"),
        .kind = BOX_TURNS,
        .name = PR_STR("sim"),
        .lease_us = PR_SECONDS(15),
        .batch = 1 + (size_t)random_below(&t->random, 50),
        .window_count = 10 + (size_t)random_below(&t->random, 200),
        .window_bytes = 1 << 20,
        .payload_max = 4096,
        .poll_us = PR_SECONDS(1),
        .endpoints = &t->endpoint,
        .endpoint_count = 1,
        .routes = &route,
        .route_count = 1,
    };
    int rc = store_open(&options, &t->store, NULL);
    ASSERT(rc == PR_OK);
    rc = store_migrate(&t->store, NULL, 0, NULL);
    ASSERT(rc == PR_OK);
}

static void turns_close(struct turns *t)
{
    for (size_t i = 0; i < INSTANCES; i++)
        if (t->workers[i].engine != NULL) {
            engine_free(t->workers[i].engine);
            store_session_close(&t->workers[i].session);
        }
    store_close(&t->store);
    arena_fini(&t->arena);
}

bool turns_life_with(const struct life *life, enum turns_bug bug, struct life_counts *counts, struct breach *ret)
{
    static struct turns t;
    t = (struct turns){ .life = life, .bug = bug, .breach = ret, .now_us = WORLD_START_US };
    t.clock = (struct clock){ turns_now, turns_now, &t };
    *ret = (struct breach){ .invariant = NULL };
    random_init(&t.random, life->seed);
    arena_init(&t.arena, 65536);
    t.flows = 1 + (unsigned)random_below(&t.random, FLOWS_MAX);
    t.messages = life->messages != 0 ? life->messages : 20 + (unsigned)random_below(&t.random, 180);
    t.messages = t.messages < MESSAGES_MAX ? t.messages : MESSAGES_MAX;
    draw_programs(&t);
    turns_open(&t);
    while (t.sent < t.messages && ret->invariant == NULL)
        step(&t);
    t.calm = true;
    unsigned steps = 0;
    while (ret->invariant == NULL && (steps % 64 != 0 || !is_done(&t)))
        if (step(&t), ++steps == CALM_STEPS)
            broken(&t, "I15", "messages of flows are left when nothing fails any more");
    if (ret->invariant == NULL)
        check_all(&t);
    t.counts.messages = t.sent;
    t.counts.simulated_us = (double)(t.now_us - WORLD_START_US);
    turns_close(&t);
    counts->hash = hash_u64(counts->hash ^ t.counts.hash);
    counts->messages += t.counts.messages;
    counts->sends += t.counts.sends;
    counts->crashes += t.counts.crashes;
    counts->cycles += t.counts.cycles;
    counts->events += t.counts.events;
    counts->simulated_us += t.counts.simulated_us;
    return ret->invariant == NULL;
}

bool turns_life(const struct life *life, struct life_counts *counts, struct breach *ret)
{
    return turns_life_with(life, TURNS_FINE, counts, ret);
}
