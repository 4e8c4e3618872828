/* See flows.h. */
#include "flow_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "flow/flow_id.h"

#define ROOTS_MAX 8
#define STEPS 600         /* with faults */
#define NUDGES_MAX 400    /* rounds of events and mail, until all flows have ended: more, and one hangs ... */
#define NUDGES_CANCEL 120 /* ... from this one on they are cancelled, too */
#define MOVES_MAX 50000   /* the same of steps between two rounds */
#define JUMP_US PR_SECONDS(40)

/* ---- The world ---------------------------------------------------------------------------------------- */

static int64_t world_mono(void *arg)
{
    return ((struct flow_world *)arg)->mono_us;
}

int64_t flow_world_wall_us(const struct flow_world *w)
{
    return w->mono_us + w->wall_offset_us;
}

static int64_t world_wall(void *arg)
{
    return flow_world_wall_us(arg);
}

bool flow_chance(struct flow_world *w, double share)
{
    return !w->calm && random_chance(&w->random, share);
}

void flow_broken(struct flow_world *w, const char *invariant, const char *format, ...)
{
    va_list args;
    if (w->breach->invariant != NULL)
        return;
    w->breach->invariant = invariant;
    va_start(args, format);
    vsnprintf(w->breach->text, sizeof(w->breach->text), format, args);
    va_end(args);
}

void flow_happened(struct flow_world *w, const char *format, ...)
{
    char line[160];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    w->counts.events++;
    w->counts.hash = hash_bytes(w->counts.hash, line, min_size((size_t)size, sizeof(line) - 1));
    if (w->life->trace != NULL)
        fprintf(w->life->trace, "%12" PRId64 " %s\n", w->mono_us - WORLD_START_US, line);
}

void flow_world_ask(struct flow_world *w, const struct query *query, struct query_reply *ret)
{
    arena_reset(&w->arena);
    int rc = store_query(&w->store, query, &w->arena, ret, NULL);
    ASSERT(rc == PR_OK);
}

void flow_world_meet(struct flow_world *w, pr_slice flow)
{
    for (size_t i = 0; i < w->flow_count; i++)
        if (slice_eq(w->flows[i], flow))
            return;
    ASSERT(w->flow_count < FLOW_FLOWS_MAX);
    w->flows[w->flow_count++] = slice_dup(&w->kept, flow);
}

bool flow_world_row(struct flow_world *w, pr_slice flow, struct flow_row *ret)
{
    const struct query query = { .kind = QUERY_FLOW, .brief = true, .flow.id = flow };
    struct query_reply reply;
    flow_world_ask(w, &query, &reply);
    if (reply.flow_count == 0)
        return false;
    void *block = arena_alloc(&w->kept, sizeof(*ret) + flow_row_bytes(&reply.flows[0]));
    ASSERT(block != NULL);
    *ret = *flow_row_copy(&reply.flows[0], block);
    return true;
}

/* ---- Who tells flows something -------------------------------------------------------------------------- */

void flow_world_tell(struct flow_world *w, const struct turn_message *m, pr_id id)
{
    struct pr_message made;
    struct arena arena;
    int answer;
    w->sent++;
    if (pr_id_is_zero(id))
        id = (pr_id){ { 2, (uint8_t)(w->sent >> 16), (uint8_t)(w->sent >> 8), (uint8_t)w->sent } };
    arena_init(&arena, 1024);
    int rc = turn_message_make(m, id, &arena, &made);
    ASSERT(rc == PR_OK);
    rc = store_enqueue(&w->store, PR_STR("turns"), &made, 1, PR_PAYLOAD_MAX, NULL, &answer, NULL);
    ASSERT(rc == PR_OK);
    flow_happened(w, "tell %.*s %s %.*s", SLICE_ARGS(m->flow), turn_message_type(m->kind), SLICE_ARGS(m->name));
    arena_fini(&arena);
}

static pr_slice root_id(struct flow_world *w, unsigned root)
{
    return arena_printf(&w->kept, "r%u", root);
}

/* From time to time twice: the second start does nothing. */
static void start_root(struct flow_world *w)
{
    const char *const names[] = { "root", "root", "root", "root", FLOW_KILLS, FLOW_CALLS_KILLER };
    struct turn_message m = { .kind = TURN_START,
                              .flow = root_id(w, w->begun_roots++),
                              .name = slice_from(names[random_below(&w->random, 6)]),
                              .data = arena_printf(&w->kept, "input %" PRIu64, w->sent) };
    flow_world_tell(w, &m, flow_start_id(m.flow));
    if (random_chance(&w->random, 0.2))
        flow_world_tell(w, &m, flow_start_id(m.flow));
}

/* Each has another number, by which the checker recognises it. */
static void say(struct flow_world *w, pr_slice flow, enum turn_message_kind kind, const char *name)
{
    const struct turn_message m = {
        .kind = kind, .flow = flow, .name = slice_from(name), .data = arena_printf(&w->kept, "%" PRIu64, w->sent)
    };
    flow_world_tell(w, &m, (pr_id){ { 0 } });
}

static void say_something(struct flow_world *w)
{
    pr_slice flow = root_id(w, (unsigned)random_below(&w->random, w->roots)); /* it may not have begun */
    say(w, flow, random_chance(&w->random, 0.5) ? TURN_EVENT : TURN_MAIL, random_chance(&w->random, 0.5) ? "x" : "y");
}

/* A result that was given already, as by a sender that does not know that; or of an execution that never existed. */
static void repeat_result(struct flow_world *w)
{
    const struct flow_note *n = w->note_count > 0 ? &w->notes[random_below(&w->random, w->note_count)] : NULL;
    struct flow_row row;
    if (n == NULL || n->failed || n->text.data == NULL)
        return;
    struct turn_message m = { .kind = TURN_RESULT, .execution = n->execution, .task = n->number, .data = n->text };
    if (random_chance(&w->random, 0.3)) {
        m.execution.bytes[9] ^= 1;
        m.data = PR_STR("of nobody");
    }
    for (size_t i = 0; i < w->flow_count && m.flow.size == 0; i++)
        if (flow_world_row(w, w->flows[i], &row) && pr_id_equal(row.execution, n->execution))
            m.flow = row.id;
    for (size_t i = 0; i < w->deleted_count && m.flow.size == 0; i++)
        if (pr_id_equal(w->deleted[i].execution, n->execution))
            m.flow = w->deleted[i].flow; /* which may run again, as another execution */
    if (m.flow.size > 0)
        flow_world_tell(w, &m, (pr_id){ { 0 } });
}

static void tell_something(struct flow_world *w)
{
    double what = random_double(&w->random);
    if (w->begun_roots < w->roots && what < 0.3)
        start_root(w);
    else if (what < 0.8)
        say_something(w);
    else if (what < 0.88)
        repeat_result(w);
    else
        flow_operators_act(w, root_id(w, (unsigned)random_below(&w->random, w->roots)));
}

/* ---- With faults -------------------------------------------------------------------------------------------- */

static void time_passes(struct flow_world *w)
{
    w->mono_us += flow_chance(w, 0.005) ? JUMP_US : random_between(&w->random, 1, PR_MILLISECONDS(400));
    if (w->clock_steps && flow_chance(w, 0.005)) {
        w->wall_offset_us += PR_SECONDS(random_between(&w->random, -3600, 3600));
        flow_happened(w, "clock jumps");
    }
}

static void step_of(struct flow_world *w, struct flow_instance *i)
{
    struct flow_side *s = &i->sides[random_below(&w->random, 2)];
    double what = random_double(&w->random);
    if (flow_chance(w, 0.003))
        flow_instance_die(w, i);
    else if (what < 0.4)
        (void)flow_instance_work(w, i, s);
    else if (what < 0.8)
        (void)flow_instance_cycle(w, i, s, random_chance(&w->random, 0.7));
    else
        (void)flow_instance_take(w, i, s);
}

static void step(struct flow_world *w)
{
    struct flow_instance *i = &w->instances[random_below(&w->random, FLOW_INSTANCES)];
    time_passes(w);
    if (random_chance(&w->random, 0.06))
        tell_something(w);
    else if (i->flows != NULL)
        step_of(w, i);
    else if (random_chance(&w->random, 0.1))
        flow_instance_start(w, i);
    if (flow_chance(w, 0.002) && w->deployed + 1 < FLOW_PROGRAMS) {
        w->deployed++;
        flow_happened(w, "deploy");
    }
}

/* ---- When nothing fails any more -------------------------------------------------------------------------------- */

static bool moves(struct flow_world *w, struct flow_instance *i)
{
    bool moved = false;
    for (size_t at = 0; at < 2; at++) {
        struct flow_side *s = &i->sides[at];
        if (i->flows == NULL)
            flow_instance_start(w, i);
        moved |= flow_instance_cycle(w, i, s, true);
        moved |= flow_instance_take(w, i, s);
        while (i->flows != NULL && flow_instance_work(w, i, s))
            moved = true;
    }
    return moved;
}

/* *ret_left: what is still in it. */
static bool box_is_empty(struct flow_world *w, const char *box, pr_slice *ret_left)
{
    const struct query query = { .kind = QUERY_MESSAGES,
                                 .filter = { .box = slice_from(box), .state = -1, .limit = 1 } };
    struct query_reply reply;
    flow_world_ask(w, &query, &reply);
    if (reply.listed_count == 0)
        return true;
    const struct pr_message *m = &reply.listed[0].m;
    *ret_left = arena_printf(&w->arena, "%.*s of %.*s in %s, due %" PRId64 ", attempts %d, %.*s", SLICE_ARGS(m->type),
                             SLICE_ARGS(m->stream), box, m->due_us, m->attempts, SLICE_ARGS(m->story));
    return false;
}

static int64_t next_us(struct flow_world *w)
{
    int64_t next = time_add(w->mono_us, PR_SECONDS(60));
    for (size_t i = 0; i < FLOW_INSTANCES; i++)
        for (size_t at = 0; at < 2; at++)
            next = min64(next, engine_next_us(w->instances[i].sides[at].engine, w->mono_us));
    return max64(next, w->mono_us + PR_MILLISECONDS(1));
}

/* Until nothing is in the boxes. */
static void drain(struct flow_world *w)
{
    pr_slice left = { "", 0 };
    for (unsigned at = 0; at < MOVES_MAX; at++) {
        bool moved = false;
        for (size_t i = 0; i < FLOW_INSTANCES; i++)
            moved |= moves(w, &w->instances[i]);
        if (!moved && box_is_empty(w, "turns", &left) && box_is_empty(w, "activities", &left))
            return;
        w->mono_us = moved ? w->mono_us + PR_MILLISECONDS(1) : next_us(w);
    }
    flow_broken(w, "I15", "when nothing fails any more this stays: %.*s", SLICE_ARGS(left));
}

/* Sends what flows may wait for; false: none is running. */
static bool nudge(struct flow_world *w, bool cancel)
{
    struct flow_row row;
    bool some = false;
    for (size_t i = 0; i < w->flow_count; i++) {
        if (!flow_world_row(w, w->flows[i], &row) || row.state != FLOW_RUNNING)
            continue;
        say(w, row.id, TURN_EVENT, "x");
        say(w, row.id, TURN_EVENT, "y");
        say(w, row.id, TURN_MAIL, "x");
        say(w, row.id, TURN_MAIL, "y");
        const struct turn_message m = { .kind = TURN_CANCEL, .flow = row.id, .data = PR_STR("late") };
        if (cancel)
            flow_world_tell(w, &m, (pr_id){ { 0 } });
        some = true;
    }
    return some;
}

static void calm_down(struct flow_world *w)
{
    w->calm = true;
    w->deployed = FLOW_PROGRAMS - 1;
    for (size_t i = 0; i < FLOW_INSTANCES; i++)
        if (w->instances[i].flows != NULL)
            flow_instance_die(w, &w->instances[i]);
    drain(w);
    for (unsigned at = 0; w->breach->invariant == NULL; at++) {
        check_cancelled_children(w);
        if (!nudge(w, at >= NUDGES_CANCEL))
            return;
        drain(w);
        if (at == NUDGES_MAX)
            check_running_flows(w);
    }
}

/* Alone in the world, it has as many tries as it should. */
static void kill_once_more(struct flow_world *w)
{
    const struct turn_message m = { .kind = TURN_START, .flow = PR_STR("last"), .name = PR_STR(FLOW_CALLS_KILLER) };
    flow_world_tell(w, &m, flow_start_id(m.flow));
    drain(w);
}

/* ---- The life ------------------------------------------------------------------------------------------------------ */

static void world_open(struct flow_world *w)
{
    const struct store_options options = { .url = w->life->sqlite ? "sqlite::memory:" : "memory:", .clock = &w->clock };
    w->boxes[0] = (struct config_box){ .name = "turns", .kind = BOX_TURNS };
    w->boxes[1] = (struct config_box){ .name = "activities", .kind = BOX_ACTIVITIES };
    w->config = (struct config){ .instance = "sim",
                                 .payload_max = PR_PAYLOAD_MAX,
                                 .boxes = w->boxes,
                                 .box_count = 2,
                                 .flows = { .max_attempts = FLOW_ATTEMPTS_MAX,
                                            .unknown_us = PR_MINUTES(60) * 24,
                                            .cache_bytes = random_chance(&w->random, 0.5) ? 1 << 20 : 4096 } };
    int rc = store_open(&options, &w->store, NULL);
    ASSERT(rc == PR_OK);
    rc = store_migrate(&w->store, NULL, 0, NULL);
    ASSERT(rc == PR_OK);
    flow_programs_make(w);
}

static void world_close(struct flow_world *w)
{
    for (size_t i = 0; i < FLOW_INSTANCES; i++)
        if (w->instances[i].flows != NULL)
            flow_instance_die(w, &w->instances[i]);
    store_close(&w->store);
    flow_programs_free(w);
    arena_fini(&w->arena);
    arena_fini(&w->kept);
}

static void add_counts(const struct flow_world *w, struct life_counts *counts, struct flows_life_counts *more)
{
    counts->hash = hash_u64(counts->hash ^ w->counts.hash);
    counts->messages += w->sent;
    counts->sends += w->counts.sends;
    counts->crashes += w->counts.crashes;
    counts->cycles += w->counts.cycles;
    counts->events += w->counts.events;
    counts->simulated_us += (double)(w->mono_us - WORLD_START_US);
    more->flows += w->more.flows;
    more->histories += w->more.histories;
    more->events += w->more.events;
    more->poison += w->more.poison;
    more->changed += w->more.changed;
    more->resumed += w->more.resumed;
    more->crashes += w->counts.crashes;
    more->deleted += w->deleted_count;
    more->pruned += w->more.pruned;
    more->tagged += w->more.tagged;
}

bool flows_life_with(const struct life *life, enum flows_bug bug, struct life_counts *counts,
                     struct flows_life_counts *more, struct breach *ret)
{
    static struct flow_world w;
    w = (struct flow_world){ .life = life, .bug = bug, .breach = ret, .mono_us = WORLD_START_US };
    w.clock = (struct clock){ world_wall, world_mono, &w };
    *ret = (struct breach){ .invariant = NULL };
    random_init(&w.random, life->seed);
    random_init(&w.ids, ~life->seed);
    arena_init(&w.arena, 65536);
    arena_init(&w.kept, 65536);
    w.roots = 2 + (unsigned)random_below(&w.random, ROOTS_MAX - 2);
    w.code_changes = random_chance(&w.random, 0.2);
    w.clock_steps = random_chance(&w.random, 0.3);
    world_open(&w);
    for (unsigned i = 0; i < (life->messages != 0 ? life->messages * 10 : STEPS * w.roots); i++)
        step(&w);
    calm_down(&w);
    if (ret->invariant == NULL)
        kill_once_more(&w);
    if (ret->invariant == NULL)
        check_flows(&w);
    world_close(&w);
    add_counts(&w, counts, more);
    return ret->invariant == NULL;
}

bool flows_life(const struct life *life, struct life_counts *counts, struct breach *ret)
{
    struct flows_life_counts more = { 0 };
    return flows_life_with(life, FLOWS_FINE, counts, &more, ret);
}
