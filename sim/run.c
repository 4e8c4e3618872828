/* The two phases of a run.  First safety: faults happen at random, and nothing may break an invariant.  Then liveness:
 * the faults stop, and everything must drain in bounded time. */
#include "life.h"

#include <math.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/sqlite/conn.h"
#include "store/sqlite/sqlite.h"

#define DRAIN_LOOKS 200    /* how often it is asked whether all is gone */
#define DRAIN_PATIENCE 100 /* times the time for one step, while there are steps */
#define DRAIN_ROUNDS 1000  /* a strict stream can need a person for each of its messages */

/* ---- Faults that come by themselves -------------------------------------------------------- */

static int64_t wait_us(struct random *r, int64_t mean_us)
{
    return 1 + (int64_t)(-log(1 - random_double(r)) * (double)mean_us);
}

static struct instance *some_instance(struct world *w, struct random *r)
{
    return &w->instances[random_below(r, w->scenario->instances)];
}

static void start_again(struct world *w, void *arg)
{
    struct instance *in = arg;
    if (in->state == INSTANCE_DOWN)
        instance_start(w, in);
}

/* Restarts processes that are down, sooner or later. */
static void supervise(struct world *w, void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < w->scenario->instances; i++)
        if (w->instances[i].state == INSTANCE_DOWN && random_chance(&w->dice[DIE_SUPERVISOR], 0.5))
            start_again(w, &w->instances[i]);
    world_at(w, w->mono_us + wait_us(&w->dice[DIE_SUPERVISOR], w->scenario->engine.lease_us), supervise, NULL, NULL);
}

static void crash_some(struct world *w, struct random *r)
{
    instance_crash(w, some_instance(w, r));
}

static void freeze_some(struct world *w, struct random *r)
{
    int64_t lease_us = w->scenario->engine.lease_us;
    instance_freeze(w, some_instance(w, r), random_between(r, 1, random_chance(r, 0.5) ? lease_us : 4 * lease_us));
}

static void stop_some(struct world *w, struct random *r)
{
    instance_stop(w, some_instance(w, r), random_between(r, 0, PR_SECONDS(10)));
}

static void retune_some(struct world *w, struct random *r)
{
    struct instance *in = some_instance(w, r);
    unsigned config = w->scenario->other.drawn ? (unsigned)random_below(r, SIM_CONFIGS) : 0;
    bool all = w->scenario->other.drawn && random_chance(r, 0.3);
    for (unsigned i = 0; i < w->scenario->instances; i++)
        if (all || &w->instances[i] == in)
            w->instances[i].wanted = config;
    instance_retune(w, in);
    for (unsigned i = 0; all && i < w->scenario->instances; i++)
        instance_wake(&w->instances[i], w->mono_us);
}

static void step_clock(struct world *w, struct random *r)
{
    static const int64_t steps[] = { PR_MINUTES(60), PR_MINUTES(60) * 24 * 3652, PR_SECONDS(1) };
    int64_t by_us = steps[random_below(r, ARRAY_LENGTH(steps))];
    world_step_clock(w, random_chance(r, 0.5) ? by_us : -by_us);
}

static void outage_end(struct world *w, void *arg)
{
    struct receiver *receiver = arg;
    receiver->down = false;
    world_note(w, (struct event){ .kind = EVENT_OUTAGE,
                                  .instance = INSTANCE_NONE,
                                  .message = MESSAGE_NONE,
                                  .what = 1,
                                  .number = (int32_t)(receiver - w->receivers) });
}

static void outage(struct world *w, struct random *r)
{
    unsigned endpoint = (unsigned)random_below(r, w->scenario->engine.endpoint_count);
    struct receiver *receiver = &w->receivers[endpoint];
    if (receiver->down)
        return;
    *receiver = (struct receiver){ .down = true, .hangs = random_chance(r, 0.3) };
    if (!receiver->hangs && w->scenario->endpoints[endpoint].policy.retry.blame == BLAME_EVIDENCE) {
        receiver->away = random_chance(r, 0.4);
        receiver->stranger = !receiver->away && random_chance(r, 0.4);
    }
    if (w->scenario->crowded)
        receiver->type = scenario_type((unsigned)random_below(r, 2));
    world_note(w, (struct event){ .kind = EVENT_OUTAGE,
                                  .instance = INSTANCE_NONE,
                                  .message = MESSAGE_NONE,
                                  .what = 0,
                                  .number = (int32_t)endpoint });
    int64_t longest_us = min64(PR_MINUTES(24 * 60), w->scenario->safety_us / 2);
    world_at(w, w->mono_us + random_between(r, 1, longest_us), outage_end, receiver, NULL);
}

struct plague {
    void (*cause)(struct world *w, struct random *r);
    int64_t every_us;
    enum die die;
};

static void cause(struct world *w, void *arg)
{
    struct plague *p = arg;
    if (w->healed)
        return;
    p->cause(w, &w->dice[p->die]);
    world_at(w, w->mono_us + wait_us(&w->dice[p->die], p->every_us), cause, p, NULL);
}

void faults_begin(struct world *w)
{
    const struct faults *f = &w->faults;
    const struct plague plagues[] = {
        { crash_some, f->crash_every_us, DIE_CRASHES },       { freeze_some, f->freeze_every_us, DIE_FREEZES },
        { stop_some, f->stop_every_us, DIE_STOPS },           { step_clock, f->step_every_us, DIE_CLOCK },
        { outage, f->outage_every_us, DIE_OUTAGES },          { operator_act, f->operator_every_us, DIE_OPERATORS },
        { operators_share, f->share_every_us, DIE_SHARES },   { retune_some, f->retune_every_us, DIE_RETUNES },
        { asks_change, f->ask_every_us, DIE_ASKS },           { operator_edit, f->edit_every_us, DIE_EDITS },
        { operator_export, f->export_every_us, DIE_EXPORTS },
    };
    struct plague *kept = arena_dup(&w->arena, plagues, sizeof(plagues));
    ASSERT(kept != NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(plagues); i++)
        if (kept[i].every_us > 0)
            world_at(w, w->mono_us + wait_us(&w->dice[kept[i].die], kept[i].every_us), cause, &kept[i], NULL);
    supervise(w, NULL);
}

static void blackout_begin(struct world *w)
{
    const struct scenario *s = w->scenario;
    if (s->blackout > 0 && s->blackout_paused)
        world_pause(w, s->blackout - 1, PR_NEVER);
    else if (s->blackout > 0)
        w->receivers[s->blackout - 1].down = true;
}

/* ---- Liveness ---------------------------------------------------------------------------------- */

/* Faults stop, pauses end, all instances are up.  The wall clock is set to the latest time that it ever showed: a
 * message that should wait for an hour by a clock that was ten years ahead continues. */
static int64_t latest_wall_us(const struct world *w)
{
    int64_t latest_us = world_wall_us(w);
    world_foreach(x, w) for (size_t i = 0; i < x->history.count; i++) latest_us =
        max64(latest_us, x->history.events[i].wall_us);
    return latest_us;
}

static void heal(struct world *w)
{
    int64_t latest_us = latest_wall_us(w);
    w->healed = true;
    w->faults = (struct faults){ .slow = w->faults.slow };
    if (latest_us > world_wall_us(w))
        world_step_clock(w, latest_us - world_wall_us(w));
    world_note(w, (struct event){ .kind = EVENT_HEAL, .instance = INSTANCE_NONE, .message = MESSAGE_NONE });
    for (unsigned i = 0; i < w->scenario->engine.endpoint_count; i++) {
        w->receivers[i].down = false;
        world_resume(w, i);
    }
    for (unsigned i = 0; i < w->scenario->instances; i++) {
        w->instances[i].wanted = 0;
        start_again(w, &w->instances[i]);
        asks_heal(w, &w->instances[i]);
        if (w->instances[i].config != 0)
            instance_wake(&w->instances[i], w->mono_us);
    }
}

struct leftovers {
    struct arena arena;
    struct query_reply rows, dead;
};

static void leftovers_init(struct world *w, struct leftovers *l)
{
    struct query query = { .kind = QUERY_MESSAGES,
                           .filter = { .box = w->scenario->engine.box, .state = -1, .limit = 100000 } };
    arena_init(&l->arena, 1 << 14);
    int rc = store_query(&w->store, &query, &l->arena, &l->rows, NULL);
    query.kind = QUERY_DEAD;
    if (rc == PR_OK)
        rc = store_query(&w->store, &query, &l->arena, &l->dead, NULL);
    ASSERT(rc == PR_OK);
}

/* Is it held for this endpoint, to which it was routed at that time?  Routes may have changed since. */
static bool is_held_at(const struct endpoint_setting *s, pr_slice held_by)
{
    return slice_eq(held_endpoint(held_by), s->name);
}

static bool is_strict(const struct world *w, const struct listed *row)
{
    unsigned targets[SIM_ENDPOINTS_MAX];
    size_t count = scenario_targets(w->scenario, &row->m, targets);
    for (size_t i = 0; i < count; i++)
        if (w->scenario->endpoints[targets[i]].ordering == ORDERING_STRICT)
            return true;
    for (size_t i = 0; i < w->scenario->engine.endpoint_count; i++)
        if (w->scenario->endpoints[i].ordering == ORDERING_STRICT &&
            is_held_at(&w->scenario->endpoints[i], row->m.held_by))
            return true;
    return false;
}

/* Does it wait for a person?  A parked row does, and in a strict stream the rows behind one that is parked or dead. */
static bool waits_for_a_person(const struct world *w, const struct leftovers *l, const struct listed *row)
{
    if (row->state == STATE_PARKED)
        return true;
    if (!is_strict(w, row))
        return false;
    for (size_t i = 0; i < l->dead.listed_count; i++)
        if (slice_eq(l->dead.listed[i].m.stream, row->m.stream))
            return true;
    for (size_t i = 0; i < l->rows.listed_count; i++)
        if (l->rows.listed[i].state == STATE_PARKED && slice_eq(l->rows.listed[i].m.stream, row->m.stream))
            return true;
    return false;
}

enum { ROWS_NONE, ROWS_FOR_A_PERSON, ROWS_LEFT };

/* Rows left in the box; `note` writes them into the history.  *ret_state: changes when a row comes, fails or goes. */
static int look_at_leftovers(struct world *w, bool note, uint64_t *ret_state)
{
    struct leftovers l;
    int left = ROWS_NONE;
    leftovers_init(w, &l);
    *ret_state = 0;
    for (size_t i = 0; i < l.rows.listed_count; i++) {
        const struct listed *row = &l.rows.listed[i];
        const struct parcel *p = parcel_of(w, &row->m);
        bool person = waits_for_a_person(w, &l, row);
        left = max64(left, person ? ROWS_FOR_A_PERSON : ROWS_LEFT);
        *ret_state += person ? 0 : ((uint64_t)1 << 32) + (uint64_t)row->m.failures;
        if (note && !person)
            world_note(w, (struct event){ .kind = EVENT_UNDRAINED,
                                          .instance = INSTANCE_NONE,
                                          .message = p != NULL ? p->index : MESSAGE_NONE,
                                          .what = (uint16_t)row->state,
                                          .destination = world_destination(w, row->m.destination),
                                          .value = row->m.due_us });
    }
    arena_fini(&l.arena);
    return left;
}

/* A person decides about dead and parked messages: at first some of them are replayed. */
static void decide_by_hand(struct world *w, bool replay)
{
    struct leftovers l;
    unsigned targets[SIM_ENDPOINTS_MAX];
    leftovers_init(w, &l);
    for (size_t i = 0; i < l.dead.listed_count; i++) {
        const struct parcel *p = parcel_of(w, &l.dead.listed[i].m);
        if (p != NULL)
            world_admin(w, !p->undecodable && replay && p->index % 2 != 0 ? ADMIN_DEAD_REPLAY : ADMIN_DEAD_DISCARD, p);
    }
    for (size_t i = 0; i < l.rows.listed_count; i++) {
        const struct parcel *p = parcel_of(w, &l.rows.listed[i].m);
        if (p != NULL && l.rows.listed[i].state == STATE_PARKED)
            world_admin(w, scenario_targets(w->scenario, &p->m, targets) > 0 && replay ? ADMIN_RETRY : ADMIN_DISCARD,
                        p);
    }
    arena_fini(&l.arena);
}

static bool all_follow(const struct world *w)
{
    for (unsigned i = 0; i < w->scenario->instances; i++)
        if (w->instances[i].state == INSTANCE_UP && w->instances[i].config != w->instances[i].wanted)
            return false;
    return true;
}

/* The same for all worlds: a message that leaves one of them may continue in another. */
static int look_at_all(struct world *w, uint64_t *ret_state)
{
    int left = ROWS_NONE;
    uint64_t state;
    *ret_state = 0;
    world_foreach(x, w)
    {
        bool settled = x->open_transactions == 0 && all_follow(x);
        int here = settled ? look_at_leftovers(x, false, &state) : ROWS_LEFT;
        *ret_state += settled ? state : 0;
        left = max64(left, here);
    }
    return left;
}

static bool drain(struct world *w, int64_t limit_us)
{
    for (int round = 0; round < DRAIN_ROUNDS; round++) {
        int64_t until_us = w->mono_us + limit_us, last_us = w->mono_us + DRAIN_PATIENCE * limit_us;
        int left = ROWS_LEFT;
        uint64_t state = 0, before = 0;
        while (w->mono_us < until_us && !world_is_broken(w)) {
            left = look_at_all(w, &state);
            if (left != ROWS_LEFT)
                break;
            if (state != before) { /* each failure may pause its endpoint once more: the time is for one of them */
                before = state;
                until_us = min64(w->mono_us + limit_us, last_us);
            }
            world_run_for(w, limit_us / DRAIN_LOOKS);
        }
        if (left != ROWS_FOR_A_PERSON)
            return left == ROWS_NONE;
        world_foreach(x, w) decide_by_hand(x, round < 3);
    }
    return false;
}

/* People do not see expired rows, so SQLite is asked directly. */
static int64_t done_left(struct world *w, int64_t until_us)
{
    struct pr_error error;
    struct conn *conn;
    int64_t count = 0;
    int rc = w->scenario->sqlite ? store_people(w->store.self, false, &conn, &error) : PR_UNKNOWN;
    if (rc == PR_OK)
        rc = conn_int(conn, "SELECT count(*) FROM postrider_done WHERE keep_until <= ?1", w->scenario->engine.box,
                      VALUES(V_INT(until_us)), &count, &error);
    ASSERT(rc == PR_OK || !w->scenario->sqlite);
    return count;
}

/* Data that is kept too long is gone after each engine had a cycle. */
static void let_purge(struct world *w)
{
    if (w->scenario->engine.keep_us == 0 || w->broken != NULL)
        return;
    int64_t now_us = world_wall_us(w);
    world_run_for(w, 2 * w->scenario->engine.lease_us + PR_SECONDS(2));
    world_note(w, (struct event){ .kind = EVENT_PURGED,
                                  .instance = INSTANCE_NONE,
                                  .message = MESSAGE_NONE,
                                  .value = done_left(w, now_us),
                                  .extra = (uint64_t)now_us });
}

static void note_total(struct world *w, const struct endpoint_state *state)
{
    const uint64_t counts[TOTAL_KINDS] = { state->sent,      state->failed,  state->dead,
                                           state->discarded, state->expired, state->duplicates };
    for (size_t i = 0; i < TOTAL_KINDS; i++)
        world_note(w, (struct event){ .kind = EVENT_TOTAL,
                                      .instance = INSTANCE_NONE,
                                      .message = MESSAGE_NONE,
                                      .destination = world_destination(w, state->name),
                                      .what = (uint16_t)i,
                                      .value = (int64_t)counts[i] });
}

/* Also for endpoints that the store does not know: nothing happened there. */
static void note_totals(struct world *w)
{
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply reply;
    struct arena arena;
    bool told[SIM_ENDPOINTS_MAX + 1] = { false };

    arena_init(&arena, 1 << 12);
    int rc = store_query(&w->store, &query, &arena, &reply, NULL);
    ASSERT(rc == PR_OK);
    for (size_t i = 0; i < reply.endpoint_count; i++) {
        if (world_destination(w, reply.endpoints[i].name) == DESTINATION_UNKNOWN)
            continue; /* of a world beside this one */
        told[world_destination(w, reply.endpoints[i].name)] = true;
        if (reply.endpoints[i].name.size > 0 || world_is_alone(w)) /* they have no name for each box */
            note_total(w, &reply.endpoints[i]);
    }
    for (size_t i = world_is_alone(w) ? 0 : 1; i <= w->scenario->engine.endpoint_count; i++)
        if (!told[i])
            note_total(w, &(struct endpoint_state){ .name = i > 0 ? w->scenario->endpoints[i - 1].name : PR_STR("") });
    arena_fini(&arena);
}

static int64_t drain_limit_us(const struct scenario *s)
{
    return s->safety_us + s->delay_max_us + 10 * scenario_longest_wait_us(s) + 40 * s->engine.lease_us + PR_MINUTES(60);
}

static void note_end(struct world *w)
{
    let_purge(w);
    world_show_all(w);
    note_totals(w);
    effects_note_kept(w);
    ledger_note(w);
    world_note(w, (struct event){ .kind = EVENT_END, .instance = INSTANCE_NONE, .message = MESSAGE_NONE });
}

void world_live(struct world *w)
{
    int64_t safety_us = 0, limit_us = 0;
    uint64_t left;

    w = w->first;
    world_foreach(x, w)
    {
        workload_begin(x);
        sources_begin(x);
        blackout_begin(x);
        faults_begin(x);
        safety_us = max64(safety_us, x->scenario->safety_us);
        limit_us += drain_limit_us(x->scenario);
    }
    world_run_until(w, safety_us);
    if (world_is_broken(w))
        return;
    world_foreach(x, w) heal(x);
    bool drained = drain(w, limit_us);
    world_foreach(x, w)
    {
        if (!drained && !world_is_broken(w))
            look_at_leftovers(x, true, &left);
        note_end(x);
    }
}

void life_count(struct life_counts *counts, const struct world *w)
{
    counts->hash = counts->hash * 31 + w->history.hash;
    counts->messages += w->parcel_count;
    counts->sends += w->starts;
    counts->crashes += w->crashes;
    counts->cycles += w->cycles;
    counts->events += w->history.count;
    counts->simulated_us += (double)w->mono_us;
}

void life_show_breach(const struct world *w, const struct breach *b)
{
    size_t from = b->event > 3 ? b->event - 3 : 0;
    for (size_t i = from; i <= b->event && i < w->history.count; i++)
        history_print(stdout, i, &w->history.events[i]);
}

bool world_life(const struct life *life, struct life_counts *counts, struct breach *ret)
{
    static struct scenario scenario;
    struct world w;

    scenario_draw(&scenario, life->seed, life->sqlite, life->messages, life->safety_us);
    scenario.check = life->check;
    world_init_with(&w, &scenario);
    w.history.trace = life->trace;
    world_live(&w);
    bool good = check_world(&w, ret);
    if (!good)
        life_show_breach(&w, ret);
    life_count(counts, &w);
    world_fini(&w);
    return good;
}
