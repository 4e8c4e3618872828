/* Reads the history and keeps the shadow.  See checkers.h. */
#include "checkers.h"

#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"

void breach_set(struct checker *c, const char *invariant, const char *format, ...)
{
    va_list args;
    if (c->breach->invariant != NULL)
        return; /* the first one is the one to look at */
    c->breach->invariant = invariant;
    c->breach->event = c->at;
    va_start(args, format);
    vsnprintf(c->breach->text, sizeof(c->breach->text), format, args);
    va_end(args);
}

/* ---- The shadow -------------------------------------------------------------------------- */

struct shadow_row *shadow_find(struct checker *c, uint32_t message, uint16_t destination)
{
    for (struct shadow_row *row = c->messages[message].rows; row != NULL; row = row->next)
        if (row->destination == destination)
            return row;
    return NULL;
}

struct shadow_row *shadow_make(struct checker *c, uint32_t message, uint16_t destination)
{
    struct shadow_row *row = arena_zalloc(&c->arena, sizeof(*row));
    ASSERT(row != NULL);
    row->message = message;
    row->destination = destination;
    row->result = RESULT_NONE;
    row->next = c->messages[message].rows;
    c->messages[message].rows = row;
    return row;
}

unsigned shadow_lane(const struct shadow_message *m)
{
    return lane_of(m->parcel->m.stream, m->parcel->m.id);
}

unsigned shadow_config(const struct checker *c, const struct event *e, const struct shadow_row *row)
{
    return row != NULL && row->open && row->session == e->session ? row->config : c->configs[e->instance].now;
}

int shadow_endpoint(const struct checker *c, const struct shadow_row *row, unsigned config)
{
    const struct shadow_message *m = &c->messages[row->message];
    if (m->split)
        return config_has(c->s, config, row->destination - 1u) ? row->destination - 1 : -1;
    return m->targets[config].count > 0 ? (int)m->targets[config].list[0] : -1;
}

bool shadow_is_whole(const struct checker *c, const struct shadow_row *row, unsigned config)
{
    const struct shadow_message *m = &c->messages[row->message];
    return m->split ? row->destination != DESTINATION_NONE && config_has(c->s, config, row->destination - 1u)
                    : m->targets[config].count == 1;
}

static bool is_target(const struct shadow_targets *t, unsigned endpoint)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i] == endpoint)
            return true;
    return false;
}

/* A message that is not split has one row, for '' or its destination; while it is out it goes where it was handed out
 * to. */
struct shadow_row *shadow_leg(const struct checker *c, uint8_t instance, const struct shadow_message *m,
                              unsigned endpoint)
{
    for (struct shadow_row *row = m->rows; row != NULL; row = row->next) {
        unsigned config = row->open ? row->config : c->configs[instance].now;
        bool waits = row->state != STATE_HELD || is_target(&m->targets[row->held], endpoint);
        if (m->split ? row->destination == endpoint + 1 : waits && is_target(&m->targets[config], endpoint))
            return row;
    }
    return NULL;
}

bool shadow_is_over(const struct shadow_row *row)
{
    return row->state == STATE_GONE || row->state == STATE_DONE || row->state == STATE_DEAD;
}

bool shadow_due_is_reached(const struct shadow_row *row, int64_t wall_us)
{
    return row->due_us == 0 || row->due_reached || row->due_us <= wall_us;
}

void shadow_bury(struct shadow_row *row)
{
    if (!row->open)
        return;
    if (!row->forgotten && row->attempts == row->number - 1) {
        row->attempts = row->number;
        row->lost++;
        row->excused = false;
    }
    shadow_come_back(row);
}

void shadow_come_back(struct shadow_row *row)
{
    row->open = row->forgotten = row->busy = false;
    if (row->state == STATE_IN_FLIGHT)
        row->state = row->parked ? STATE_PARKED : row->failed ? STATE_RETRYING : STATE_READY;
}

/* The only place where the history moves a state: along an edge of the table (I5). */
void shadow_move(struct checker *c, struct shadow_row *row, enum state next)
{
    /* Time passes without an event. */
    if ((row->state == STATE_DELAYED || row->state == STATE_RETRYING) && next != STATE_PARKED)
        row->state = state_may_become(row->state, next) ? row->state : STATE_READY;
    if (!state_may_become(row->state, next))
        breach_set(c, "I5", "a message went from %s to %s", state_name(row->state), state_name(next));
    row->state = next;
}

/* ---- Senders and operators ------------------------------------------------------------------ */

static struct shadow_stream *stream_of(struct checker *c, pr_slice name)
{
    uint64_t hash = hash_slice(0, name);
    for (struct map_node *n = map_first(&c->streams, hash); n != NULL; n = map_next_same(n))
        if (slice_eq(MAP_ENTRY(n, struct shadow_stream, node)->name, name))
            return MAP_ENTRY(n, struct shadow_stream, node);
    struct shadow_stream *stream = arena_zalloc(&c->arena, sizeof(*stream));
    ASSERT(stream != NULL);
    stream->name = name;
    stream->last = &stream->first;
    int rc = map_insert(&c->streams, &stream->node, hash);
    ASSERT(rc == PR_OK);
    return stream;
}

/* Its sender had tried it: the row is stored with that failure, which one engine may have counted. */
static void on_inline_failure(struct checker *c, const struct event *e, struct shadow_row *row, unsigned endpoint)
{
    row->attempts = row->failures = 1;
    row->failed = true;
    row->state = STATE_RETRYING;
    row->failed_event = c->at;
    row->failed_wall_us = e->wall_us;
    c->too_many[endpoint + 1].counts[TOTAL_FAILED]++;
    for (size_t i = 0; i < SIM_INSTANCES_MAX; i++)
        c->instances[i].failed_us[endpoint] = c->instances[i].busy_us[endpoint] = e->at_us;
}

static void on_commit(struct checker *c, const struct event *e)
{
    struct shadow_message *m = &c->messages[e->message];
    m->committed = c->at + 1;
    m->place = e->number;
    m->admin = -1;
    for (unsigned i = 0; i < (c->s->other.drawn ? SIM_CONFIGS : 1); i++)
        m->targets[i].count = scenario_targets_in(c->s, i, &m->parcel->m, m->targets[i].list);
    struct shadow_row *row = shadow_make(c, e->message, e->destination);
    row->state = e->what ? STATE_DELAYED : STATE_READY;
    row->delayed = e->what;
    row->failed = row->excused = row->set_aside = e->answer != 0; /* it corrects a dead letter, as if that came back */
    row->due_us = row->wait_until_us = e->value;
    if (m->parcel->inline_endpoint > 0)
        on_inline_failure(c, e, row, (unsigned)m->parcel->inline_endpoint - 1);
    if (m->parcel->corrects != NULL) { /* its story goes on: that has one row (operator_edit()) */
        const struct shadow_row *letter = c->messages[m->parcel->corrects->index].rows;
        row->lost = letter->lost;
        row->lost_perhaps = letter->lost_perhaps;
    }
    if (!slice_is_empty(m->parcel->m.stream)) {
        struct shadow_stream *stream = stream_of(c, m->parcel->m.stream);
        *stream->last = m;
        stream->last = &m->next_in_stream;
    }
}

/* Nothing was written about it, so there is one row at most. */
static void on_unstored(struct checker *c, const struct event *e)
{
    struct shadow_message *m = &c->messages[e->message];
    m->lost = true;
    for (struct shadow_row *row = m->rows; row != NULL; row = row->next)
        row->state = STATE_GONE;
}

/* A pause that is over is not resumed: its end stays, and holds again when the clock goes back. */
static void on_pause(struct checker *c, const struct event *e)
{
    struct shadow_endpoint *endpoint = &c->endpoints[e->number];
    bool resumes = e->what == ADMIN_RESUME && endpoint->until_us > e->wall_us;
    bool pauses = e->what == ADMIN_PAUSE && (endpoint->paused_at == 0 || e->value > endpoint->until_us);
    if (resumes || pauses)
        *endpoint = (struct shadow_endpoint){ .paused_at = pauses ? c->at : 0, .until_us = pauses ? e->value : 0 };
    endpoint->changed_us = e->at_us;
    endpoint->changed_wall_us = e->wall_us;
}

static void on_admin(struct checker *c, const struct event *e)
{
    struct shadow_message *m = &c->messages[e->message];
    m->admin = e->what;
    for (struct shadow_row *row = m->rows; row != NULL; row = row->next)
        row->seen = false;
}

/* It was out and no longer is: its instance died and was buried, which some stores do without being asked; or an
 * operator reset the counters, and the order of both is unknown. */
static void take_from_air(const struct checker *c, const struct event *e, struct shadow_row *row)
{
    const struct shadow_session *s = &c->sessions[row->session];
    if (c->messages[e->message].admin != ADMIN_RETRY ? e->number >= row->number : s->buried) {
        shadow_bury(row);
    } else if (c->messages[e->message].admin == ADMIN_RETRY) {
        row->lost_perhaps += !row->forgotten && session_may_be_buried(s, e);
        row->forgotten = true;
    }
}

/* Of several messages with one id `done` does not show whose row it was. */
static bool any_is_done(struct checker *c, const struct event *e)
{
    const struct parcel *p = c->messages[e->message].parcel;
    for (const struct parcel *twin = parcel_next_of_id(p, NULL); twin != NULL; twin = parcel_next_of_id(p, twin)) {
        const struct shadow_row *row = shadow_find(c, twin->index, e->destination);
        if (row != NULL && row->state == STATE_DONE)
            return true;
    }
    return false;
}

/* The states that an operator's action may lead to; the rest of its effects is taken as shown. */
static void on_seen(struct checker *c, const struct event *e)
{
    struct shadow_message *m = &c->messages[e->message];
    struct shadow_row *row = shadow_find(c, e->message, e->destination);
    bool dead = e->what == STATE_DEAD, done = e->what == STATE_DONE;
    if (row == NULL || m->committed == 0) {
        breach_set(c, "I2", "m%u is in the store and was never committed there", e->message);
        return;
    }
    row->seen = row->seen || !done || row->state == STATE_DONE; /* else it is another row of its id that is done */
    check_purged(c, e, row);
    if (row->open && e->what != STATE_IN_FLIGHT)
        take_from_air(c, e, row);
    if (done || shadow_is_over(row)) {
        if (done ? !any_is_done(c, e) : !dead && m->admin != ADMIN_DEAD_REPLAY)
            breach_set(c, "I5", "m%u was %s and is %s now", e->message, state_name(row->state),
                       state_name((enum state)e->what));
        if (done)
            return;
    } else if (dead && m->admin != ADMIN_DEAD_ADD) {
        breach_set(c, "I5", "m%u is dead and nobody said so", e->message);
    }
    shadow_handler(c, e->message, e->destination)->was_dead |= dead;
    if (dead && e->extra != m->parcel->digest)
        breach_set(c, "I7", "the dead letter of m%u is not what was sent", e->message);
    if (dead && row->state == STATE_DEAD && (e->number != row->attempts || e->value != row->failures))
        breach_set(c, "I4", "the dead letter of m%u counts %d/%d, not %d/%d", e->message, e->number, (int)e->value,
                   row->attempts, row->failures);
    bool back = row->state == STATE_DEAD && !dead, parked = row->state == STATE_PARKED && e->what != STATE_PARKED;
    row->excused = row->excused || back || parked || m->admin == ADMIN_RETRY || m->admin == ADMIN_RESCHEDULE ||
                   m->admin == ADMIN_PARK || m->admin == ADMIN_DEAD_ADD;
    row->set_aside = row->set_aside || dead || e->what == STATE_PARKED || (e->flag & SEEN_PARKED) != 0;
    row->released = (e->flag & SEEN_RELEASED) != 0;
    row->parked = (e->flag & SEEN_PARKED) != 0;
    row->unrouted = row->unrouted && row->parked && m->admin != ADMIN_PARK;
    row->corrected = (e->flag & SEEN_CORRECTED) != 0;
    if (e->number != row->attempts)
        row->reset_at = c->at;
    row->attempts = e->number;
    row->failures = (int)e->value;
    if (dead || back)
        row->open = false;
    if (m->admin == ADMIN_RETRY || m->admin == ADMIN_RELEASE || m->admin == ADMIN_RESCHEDULE || back || parked) {
        row->due_us = e->wall_us;
        row->due_reached = true;
        if ((e->flag & SEEN_NOT_DUE) == 0)
            row->wait_until_us = e->wall_us;
    }
    if (back)
        row->ok = false; /* a new life: it may well go out again */
    enum state shown = (enum state)e->what;
    if (shown == STATE_PAUSED) /* that is the endpoint's state, laid over the row's */
        shown = row->failed ? STATE_RETRYING : STATE_READY;
    if (dead || back || (!row->open && shown != STATE_IN_FLIGHT)) /* one that is out comes back to it */
        row->state = shown;
}

static void on_admin_end(struct checker *c, const struct event *e)
{
    struct shadow_message *m = &c->messages[e->message];
    for (struct shadow_row *row = m->rows; row != NULL; row = row->next) {
        wait_touched(row, e);
        if (row->seen || row->state == STATE_GONE || row->state == STATE_DONE)
            continue;
        if (m->admin != (row->state == STATE_DEAD ? ADMIN_DEAD_DISCARD : ADMIN_DISCARD))
            breach_set(c, "I1", "m%u was %s and is nowhere", e->message, state_name(row->state));
        ended_by_person(c, e->message);
        mark_ended(c, e, row->destination);
        row->state = STATE_GONE;
        row->open = false;
    }
    m->admin = -1;
}

/* ---- The world around ------------------------------------------------------------------------ */

/* The clock jumped: a due time that was reached before stays reached. */
static void on_clock(struct checker *c, const struct event *e)
{
    c->jumped = true;
    c->jumped_us = e->at_us;
    c->jumped_wall_us = e->wall_us;
    for (uint32_t i = 0; i < c->message_count; i++)
        for (struct shadow_row *row = c->messages[i].rows; row != NULL; row = row->next)
            row->due_reached = shadow_due_is_reached(row, e->value);
}

/* Rows whose failure the engine may have to remember, and that keep their followers in the store.  People can fail rows
 * that were never handed out: a strict stream also waits behind dead or parked ones, and any ordered stream behind
 * those that were brought back. */
static size_t rows_that_may_be_heads(const struct checker *c)
{
    size_t count = 0;
    for (uint32_t i = 0; i < c->message_count; i++)
        for (const struct shadow_row *row = c->messages[i].rows; row != NULL; row = row->next)
            count += row->handed_out || row->sent || row->failed ||
                     row->set_aside; /* what is too large fails without being handed out */
    return count;
}

/* Rows that come back with their endpoint are judged at once, however many there are. */
static size_t rows_unrouted(const struct checker *c)
{
    size_t count = 0;
    for (uint32_t i = 0; c->s->other.drawn && i < c->message_count; i++)
        for (const struct shadow_row *row = c->messages[i].rows; row != NULL; row = row->next)
            count += row->unrouted;
    return count;
}

#define STORY_BYTES 4096 /* of a row that was parked and came back as often as its story tells */

/* A cycle can bring a batch of splits, each with a child for every endpoint, and a row's size is known only when it is
 * there: so the window may be exceeded by this much.  A window that is too small for anything to flow is enlarged (see
 * engine_new()). */
static void on_window(struct checker *c, const struct event *e)
{
    const struct engine_setting *s = &c->s->engine;
    size_t unrouted = rows_unrouted(c);
    size_t count_max =
        max_size(s->window_count, 64 + 4 * s->endpoint_count) + s->batch * (s->endpoint_count + 1) + unrouted;
    size_t bytes_max =
        max_size(s->window_bytes, 4 * s->payload_max) + count_max * (1024 + c->s->payload_max) + unrouted * STORY_BYTES;
    if ((size_t)e->number > count_max || (size_t)e->value > bytes_max)
        breach_set(c, "I14", "an engine holds %d messages and %lld bytes; %zu and %zu are allowed", e->number,
                   (long long)e->value, count_max, bytes_max);
    /* A stream for each message in the window; a stream and a head for each that failed, or died or was parked
     * before it was sent.  What only waits takes nothing, however much it is. */
    size_t places_max = count_max + 2 * rows_that_may_be_heads(c);
    if (e->extra > places_max)
        breach_set(c, "I14", "an engine remembers %llu streams and heads; %zu are allowed",
                   (unsigned long long)e->extra, places_max);
}

static void on_end(struct checker *c)
{
    for (uint32_t i = 0; i < c->message_count; i++)
        for (struct shadow_row *row = c->messages[i].rows; row != NULL; row = row->next) {
            if (!shadow_is_over(row))
                breach_set(c, "I1", "m%u is %s at the end", i, state_name(row->state));
            if (c->perfect && row->arrivals > 1)
                breach_set(c, "I9", "m%u arrived %u times, without any fault", i, row->arrivals);
        }
}

static void on_config(struct checker *c, const struct event *e)
{
    struct shadow_config *config = &c->configs[e->instance];
    *config = (struct shadow_config){ .now = e->what, .before = e->kind == EVENT_UP ? e->what : config->now };
}

static void read_event(struct checker *c, const struct event *e)
{
    switch ((enum event_kind)e->kind) {
    case EVENT_COMMIT: on_commit(c, e); break;
    case EVENT_UNSTORED: on_unstored(c, e); break;
    case EVENT_REFUSED: check_duplicate_end(c, e, false); break;
    case EVENT_ROLLBACK: c->messages[e->message].rolled_back = true; break;
    case EVENT_UP:
        on_config(c, e);
        check_rate_up(c, e);
        wait_up(c, e);
        break;
    case EVENT_JOIN:
        check_join(c, e);
        wait_instance(c, e);
        break;
    case EVENT_FAULT:
    case EVENT_HEARD:
    case EVENT_FREEZE:
    case EVENT_THAW: wait_instance(c, e); break;
    case EVENT_RETUNE:
        on_config(c, e);
        wait_instance(c, e);
        break;
    case EVENT_HEAL: wait_all(c, e); break;
    case EVENT_ASKS: wait_asks(c, e); break;
    case EVENT_CYCLE:
        check_cycle(c, e);
        totals_cycle(c, e);
        break;
    case EVENT_LEAVE:
    case EVENT_LOST:
    case EVENT_CRASH:
    case EVENT_GIVE_UP:
        if (e->kind == EVENT_CRASH || e->kind == EVENT_LEAVE)
            wait_gone(c, e);
        check_session_end(c, e);
        break;
    case EVENT_READ: check_read(c, e); break;
    case EVENT_HANDOUT: check_handout(c, e); break;
    case EVENT_CLOSE: check_close(c, e); break;
    case EVENT_VERDICT: check_verdict(c, e); break;
    case EVENT_BORN: check_born(c, e); break;
    case EVENT_LEFT_OUT: check_left_out(c, e); break;
    case EVENT_EFFECT: check_effect(c, e); break;
    case EVENT_KEPT: check_kept(c, e); break;
    case EVENT_SETTLED: check_settled(c, e); break;
    case EVENT_ANSWERED: check_answered(c, e); break;
    case EVENT_BROUGHT: check_brought_again(c, e); break;
    case EVENT_START: check_start(c, e); break;
    case EVENT_ARRIVE: check_arrive(c, e); break;
    case EVENT_RESULT: check_result(c, e); break;
    case EVENT_ADMIN: (e->message == MESSAGE_NONE ? on_pause : on_admin)(c, e); break;
    case EVENT_SEEN: on_seen(c, e); break;
    case EVENT_ADMIN_END: on_admin_end(c, e); break;
    case EVENT_CLOCK: on_clock(c, e); break;
    case EVENT_WINDOW: on_window(c, e); break;
    case EVENT_UNREPORTED:
        breach_set(c, "I29", "%d breakers are stored that are not as the %lld in the engine", e->number,
                   (long long)e->value);
        break;
    case EVENT_UNDRAINED:
        breach_set(c, "I15", "m%u is still %s long after the last fault", e->message, state_name((enum state)e->what));
        break;
    case EVENT_ENDED: check_ended(c, e); break;
    case EVENT_PURGED: check_purge(c, e); break;
    case EVENT_TOTAL: check_total(c, e); break;
    case EVENT_END: on_end(c); break;
    default: break;
    }
    struct shadow_row *row = e->message != MESSAGE_NONE ? shadow_find(c, e->message, e->destination) : NULL;
    if (row != NULL && e->kind != EVENT_READ && e->kind != EVENT_HANDOUT)
        wait_touched(row, e);
    if (c->wall_max_us < e->wall_us)
        c->wall_max_us = e->wall_us;
}

static bool faults_are_none(const struct faults *f)
{
    static const struct faults none;
    struct faults rest = *f;
    rest.wake_lost = 0; /* being told late is no fault */
    return memcmp(&rest, &none, sizeof(none)) == 0;
}

bool check_world(struct world *w, struct breach *ret)
{
    struct checker c = { .w = w,
                         .s = w->scenario,
                         .breach = ret,
                         .message_count = w->parcel_count,
                         .session_count = (size_t)w->sessions + 1,
                         .perfect = faults_are_none(&w->scenario->faults) };
    *ret = (struct breach){ 0 };
    arena_init(&c.arena, 1 << 16);
    map_init(&c.streams);
    map_init(&c.proofs);
    c.messages = arena_alloc_array(&c.arena, (size_t)c.message_count + 1, sizeof(*c.messages));
    c.sessions = arena_alloc_array(&c.arena, c.session_count, sizeof(*c.sessions));
    ASSERT(c.messages != NULL && c.sessions != NULL);
    for (uint32_t i = 0; i < c.message_count; i++)
        c.messages[i] = (struct shadow_message){ .parcel = w->parcels[i], .admin = -1 };
    for (c.at = 0; c.at < w->history.count && ret->invariant == NULL; c.at++)
        read_event(&c, &w->history.events[c.at]);
    if (ret->invariant == NULL && w->broken != NULL)
        breach_set(&c, "world", "%s", w->broken);
    map_fini(&c.streams);
    map_fini(&c.proofs);
    arena_fini(&c.arena);
    return ret->invariant == NULL;
}
