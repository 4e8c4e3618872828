/* The life of an event store: writers that append, with or without an expected version; transactions that commit late
 * or never; readers; and a projection with two instances, which crash and lose their lease between any two steps.  Its
 * writes are rows of a box, in the transaction that moves its position. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "check_events.h"
#include "dice.h"
#include "life.h"
#include "store/memory/memory.h"

#define WRITERS 3
#define OPEN_MAX 3
#define INSTANCES 2
#define STEPS_MAX 700
#define BATCH_MAX 7
#define LEASE_US PR_SECONDS(10)
#define START_US INT64_C(1700000000000000)
#define VIEW PR_STR("ledger")

struct event_writer {
    bool decided, stored; /* stored: it was told so, or the answer was lost and it was */
    struct pr_message m;
};

struct projector {
    enum { PROJECTOR_IDLE, PROJECTOR_HAS, PROJECTOR_READ } state;
    uint64_t fence, position, to;
    size_t count;
    uint64_t places[BATCH_MAX];
};

struct event_life {
    struct random die;
    struct clock clock;
    int64_t now_us;
    struct store store;
    struct arena arena;
    bool sqlite;
    uint64_t ids, hash;
    struct event_writer writers[WRITERS];
    struct memory_tx *open[OPEN_MAX];
    struct projector projectors[INSTANCES];
    struct event_checker checker;
    struct pr_error error;
    uint64_t crashes, steps;
};

static int64_t now(void *arg)
{
    return ((struct event_life *)arg)->now_us;
}

static pr_id next_id(struct event_life *l)
{
    pr_id id = { .bytes = { 0x01, 0x90, 0, 0, 0, 0, 0x70, 0, 0x80 } };
    l->ids++;
    for (int i = 0; i < 6; i++)
        id.bytes[15 - i] = (uint8_t)(l->ids >> (8 * i));
    return id;
}

static pr_slice stream_name(uint64_t stream)
{
    static const char *const names[EVENT_STREAMS] = { "s0", "s1", "s2", "s3" };
    return slice_from(names[stream]);
}

static void fail(struct event_life *l, const char *what, int rc)
{
    event_breach(&l->checker, "store", "%s: %d %s", what, rc, l->error.text);
}

static struct query_reply ask(struct event_life *l, struct query query)
{
    struct query_reply reply = { 0 };
    query.filter.state = -1;
    int rc = store_query(&l->store, &query, &l->arena, &reply, &l->error);
    if (rc != PR_OK)
        fail(l, "query", rc);
    return reply;
}

/* ---- Writers ------------------------------------------------------------------------------------ */

static void writer_decides(struct event_life *l, struct event_writer *w)
{
    uint64_t stream = random_below(&l->die, EVENT_STREAMS);
    *w = (struct event_writer){ .decided = true };
    w->m = (struct pr_message){
        .id = next_id(l), .type = PR_STR("t"), .stream = stream_name(stream), .event = true, .destination = PR_STR("e")
    };
    w->m.expects_version = random_chance(&l->die, 0.6);
    if (w->m.expects_version)
        w->m.expected_version =
            (int64_t)ask(l, (struct query){ .kind = QUERY_EVENTS, .brief = true, .filter = { .stream = w->m.stream } })
                .total;
}

/* The version of an event; 0: no event with this id. */
static uint64_t version_of(struct event_life *l, const struct pr_message *m)
{
    struct query_reply r =
        ask(l, (struct query){ .kind = QUERY_EVENTS, .filter = { .stream = m->stream, .ids = &m->id, .id_count = 1 } });
    return r.event_count == 1 ? r.events[0].version : 0;
}

static void writer_sends(struct event_life *l, struct event_writer *w)
{
    int answer = PR_OK;
    int rc = store_enqueue(&l->store, PR_STR("outbox"), &w->m, 1, PR_PAYLOAD_MAX, NULL, &answer, &l->error);
    if (rc != PR_OK && rc != PR_ECONFLICT)
        fail(l, "append", rc);
    if (rc == PR_ECONFLICT && !w->m.expects_version)
        event_breach(&l->checker, "I43", "a conflict, though nothing was expected");
    if (w->stored && answer != PR_DUPLICATE)
        event_breach(&l->checker, "I43", "the same send again is no duplicate: %d", rc);
    if (rc == PR_OK && answer == PR_OK && w->m.expects_version)
        event_got(&l->checker, w->m.id, w->m.expected_version, version_of(l, &w->m));
    w->stored = rc == PR_OK;
    w->decided = random_chance(&l->die, 0.15); /* its answer was lost: it sends again */
    l->hash = hash_u64(l->hash ^ (uint64_t)(rc + 100) ^ (uint64_t)answer << 8);
}

static void writer_step(struct event_life *l)
{
    struct event_writer *w = &l->writers[random_below(&l->die, WRITERS)];
    if (w->decided)
        writer_sends(l, w);
    else
        writer_decides(l, w);
}

/* ---- Transactions of applications, where they can commit late -------------------------------------- */

static void tx_step(struct event_life *l)
{
    struct memory_tx **tx = &l->open[random_below(&l->die, OPEN_MAX)];
    if (l->sqlite)
        return;
    if (*tx == NULL) {
        *tx = memory_tx_begin(&l->store);
        for (uint64_t n = random_below(&l->die, 3); *tx != NULL; n--) {
            const struct pr_message m = { .id = next_id(l),
                                          .type = PR_STR("t"),
                                          .stream = stream_name(random_below(&l->die, EVENT_STREAMS)),
                                          .destination = PR_STR("e"),
                                          .event = true };
            int rc = memory_tx_insert(*tx, PR_STR("outbox"), &m);
            if (rc != PR_OK)
                fail(l, "insert", rc);
            if (n == 0)
                break;
        }
        return;
    }
    if (random_chance(&l->die, 0.3))
        memory_tx_rollback(*tx);
    else
        memory_tx_commit(*tx);
    *tx = NULL;
}

/* Loses commits whose places were not reported, as in a crash of a server that did not wait for its disk. */
static void lose(struct event_life *l)
{
    if (l->sqlite)
        return;
    (void)memory_lose(&l->store, false, NULL, NULL);
    for (size_t i = 0; i < WRITERS; i++)
        l->writers[i].stored = l->writers[i].stored && version_of(l, &l->writers[i].m) > 0;
    l->crashes++;
}

/* ---- Readers ---------------------------------------------------------------------------------------- */

static struct query_reply read_from(struct event_life *l, uint64_t after, size_t limit)
{
    struct query_reply r = ask(l, (struct query){ .kind = QUERY_EVENTS, .filter = { .after = after, .limit = limit } });
    for (size_t i = 0; i < r.event_count; i++) {
        const struct stored_event *e = &r.events[i];
        unsigned stream = e->stream.size == 2 ? (unsigned)(e->stream.data[1] - '0') : EVENT_STREAMS;
        if (e->place != after + 1 + i)
            event_breach(&l->checker, "I42", "place %" PRIu64 " comes behind %" PRIu64, e->place, after + i);
        event_told(&l->checker, e->place, stream, e->version, e->id);
        l->hash = hash_u64(l->hash ^ e->place << 16 ^ e->version << 4 ^ stream);
    }
    return r;
}

static void reader_step(struct event_life *l)
{
    (void)read_from(l, random_below(&l->die, l->checker.last + 1), (size_t)random_between(&l->die, 1, 20));
}

/* ---- The projection ---------------------------------------------------------------------------------- */

static int step(struct event_life *l, size_t number, struct subscription_call call, struct subscription_info *ret)
{
    static const char *const names[INSTANCES] = { "one", "two" };
    call.name = PR_STR("view");
    call.holder = slice_from(names[number]);
    call.lease_us = LEASE_US;
    int rc = store_subscription(&l->store, &call, &l->arena, ret, &l->error);
    if (rc < 0)
        fail(l, "subscription", rc);
    return rc;
}

static void projector_reads(struct event_life *l, struct projector *p)
{
    struct query_reply r = read_from(l, p->position, (size_t)random_between(&l->die, 1, BATCH_MAX));
    p->count = r.event_count;
    for (size_t i = 0; i < r.event_count; i++)
        p->places[i] = r.events[i].place;
    p->state = r.event_count > 0 ? PROJECTOR_READ : PROJECTOR_IDLE;
}

static void projector_writes(struct event_life *l, size_t number, struct projector *p)
{
    struct pr_message rows[BATCH_MAX];
    char texts[BATCH_MAX][24];
    struct subscription_info info;
    for (size_t i = 0; i < p->count; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%" PRIu64, p->places[i]);
        rows[i] = (struct pr_message){
            .id = next_id(l), .type = PR_STR("row"), .destination = PR_STR("e"), .payload = slice_from(texts[i])
        };
    }
    uint64_t to = p->places[p->count - 1];
    int rc = step(l, number,
                  (struct subscription_call){ .step = SUBSCRIPTION_ADVANCE,
                                              .fence = p->fence,
                                              .from = p->position,
                                              .to = to,
                                              .box = VIEW,
                                              .messages = rows,
                                              .message_count = p->count },
                  &info);
    if (rc == PR_OK)
        event_projected(&l->checker, p->position, to);
    l->hash = hash_u64(l->hash ^ to << 8 ^ (uint64_t)(rc + 100));
    p->state = PROJECTOR_IDLE;
}

static void projector_step(struct event_life *l, size_t number)
{
    struct projector *p = &l->projectors[number];
    struct subscription_info info;
    switch (p->state) {
    case PROJECTOR_IDLE:
        if (step(l, number, (struct subscription_call){ .step = SUBSCRIPTION_CLAIM, .fence = p->fence }, &info) !=
            PR_OK)
            return;
        *p = (struct projector){ .state = PROJECTOR_HAS, .fence = info.fence, .position = info.position };
        return;
    case PROJECTOR_HAS: projector_reads(l, p); return;
    case PROJECTOR_READ: projector_writes(l, number, p); return;
    }
}

/* It forgets everything, including whether its last transaction was committed. */
static void projector_dies(struct event_life *l)
{
    l->projectors[random_below(&l->die, INSTANCES)] = (struct projector){ .state = PROJECTOR_IDLE };
    l->crashes++;
}

static void person_resets(struct event_life *l)
{
    struct admin_reply reply = { 0 };
    if (!l->sqlite || l->checker.last == 0)
        return;
    const struct admin admin = { .kind = ADMIN_SUBSCRIPTION_RESET,
                                 .filter = { .state = -1 },
                                 .by = PR_STR("ann"),
                                 .subscription = PR_STR("view"),
                                 .position = random_below(&l->die, l->checker.last + 1) };
    int rc = store_admin(&l->store, &admin, &reply, &l->error);
    if (rc != PR_OK)
        fail(l, "reset", rc);
    if (reply.changed == 1)
        event_reset(&l->checker, admin.position);
}

/* ---- A life --------------------------------------------------------------------------------------------- */

static void one_step(struct event_life *l)
{
    uint64_t what = random_below(&l->die, 100);
    if (what < 35)
        writer_step(l);
    else if (what < 45)
        tx_step(l);
    else if (what < 52)
        reader_step(l);
    else if (what < 88)
        projector_step(l, random_below(&l->die, INSTANCES));
    else if (what < 91)
        projector_dies(l);
    else if (what < 92)
        person_resets(l);
    else if (what < 93)
        lose(l);
    else
        l->now_us += random_chance(&l->die, 0.2) ? random_between(&l->die, 0, 2 * LEASE_US) : 1000;
    arena_reset(&l->arena);
    l->steps++;
}

/* Without further faults one instance processes the rest. */
static void drain(struct event_life *l)
{
    uint64_t last;
    for (size_t i = 0; i < OPEN_MAX; i++)
        if (l->open[i] != NULL)
            memory_tx_commit(l->open[i]);
    l->now_us += 2 * LEASE_US;
    (void)read_from(l, 0, EVENT_PLACES_MAX);
    do {
        last = l->checker.position;
        l->projectors[0].state = PROJECTOR_IDLE;
        for (int i = 0; i < 3; i++)
            projector_step(l, 0);
        arena_reset(&l->arena);
    } while (!l->checker.broken && l->checker.position > last);
    if (l->checker.position != l->checker.last)
        event_breach(&l->checker, "I44", "the projection stays at %" PRIu64 " of %" PRIu64, l->checker.position,
                     l->checker.last);
}

static void compare_writes(struct event_life *l)
{
    unsigned counts[EVENT_PLACES_MAX] = { 0 };
    struct query_reply r = ask(l, (struct query){ .kind = QUERY_MESSAGES, .filter = { .box = VIEW, .limit = 100000 } });
    for (size_t i = 0; i < r.listed_count; i++) {
        char text[24];
        snprintf(text, sizeof(text), "%.*s", (int)min_size(r.listed[i].m.payload.size, 20), r.listed[i].m.payload.data);
        uint64_t place = strtoull(text, NULL, 10);
        counts[place < EVENT_PLACES_MAX ? place : 0]++;
    }
    for (uint64_t p = 0; p <= l->checker.last && p < EVENT_PLACES_MAX; p++)
        event_written(&l->checker, p, counts[p]);
}

bool events_life(const struct life *life, struct life_counts *counts, struct breach *ret)
{
    static struct event_life l; /* it is large */
    l = (struct event_life){ .now_us = START_US, .sqlite = life->sqlite, .hash = life->seed };
    die_init(&l.die, life->seed, "events");
    event_checker_init(&l.checker, ret);
    arena_init(&l.arena, 65536);
    l.clock = (struct clock){ now, now, &l };
    const struct store_options options = { .url = life->sqlite ? "sqlite::memory:" : "memory:", .clock = &l.clock };
    int rc = store_open(&options, &l.store, &l.error);
    if (rc == PR_OK)
        rc = store_migrate(&l.store, &(struct store_box){ .name = "ledger" }, 1, &l.error);
    if (rc != PR_OK)
        fail(&l, "open", rc);
    for (int64_t n = random_between(&l.die, STEPS_MAX / 3, STEPS_MAX); rc == PR_OK && n > 0 && !l.checker.broken; n--)
        one_step(&l);
    if (rc == PR_OK)
        drain(&l);
    if (!l.checker.broken)
        compare_writes(&l);
    if (l.checker.broken && life->trace != NULL)
        fprintf(life->trace, "events: %" PRIu64 " steps, %" PRIu64 " places\n", l.steps, l.checker.last);
    *counts = (struct life_counts){ .hash = hash_u64(l.hash ^ l.checker.last),
                                    .messages = l.ids,
                                    .crashes = l.crashes,
                                    .events = l.checker.last,
                                    .simulated_us = (double)(l.now_us - START_US) };
    store_close(&l.store);
    arena_fini(&l.arena);
    return !l.checker.broken;
}
