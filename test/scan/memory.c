/* The memory store under senders whose transactions commit in any order, several instances
 * that share the lanes, die and join, replies that get lost, and memory that runs out. */
#include "store/memory/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/util.h"
#include "check.h"
#include "fault.h"

#define SEEDS 300
#define MESSAGES_MAX 600
#define INSTANCES 4
#define TX_MAX 8
#define STREAMS 40
#define LEASE_US PR_SECONDS(10)

/* Who has read a message since it owns the lane: bits by instance. */
struct sent {
    pr_id id;
    bool committed, completed;
    unsigned read_by;
    unsigned lane;
};

struct worker {
    struct store_session session;
    bool open;
    pr_id id;
    int64_t epoch;
    uint64_t number; /* of the latest cycle */
    uint64_t lanes;
    struct verdict verdicts[MESSAGES_MAX];
    size_t verdict_count;
};

struct world {
    struct random random;
    struct clock clock;
    int64_t mono_us;
    struct store store;
    struct sent sent[MESSAGES_MAX];
    size_t sent_count;
    struct {
        struct memory_tx *tx;
        size_t messages[MESSAGES_MAX];
        size_t count;
    } tx[TX_MAX];
    struct worker workers[INSTANCES];
    uint64_t reads, takeovers;
};

static struct world world; /* large */

static int64_t world_now(void *arg)
{
    return ((struct world *)arg)->mono_us;
}

static void world_init(struct world *w, uint64_t seed)
{
    struct pr_error error;
    memset(w, 0, sizeof(*w));
    random_init(&w->random, seed);
    w->mono_us = PR_SECONDS(1000);
    w->clock = (struct clock){ .wall_us = world_now, .mono_us = world_now, .arg = w };
    struct store_options options = { .url = "memory:", .clock = &w->clock, .payload_max = 1000 };
    CHECK_OK(store_open(&options, &w->store, &error), &error);
}

static void world_fini(struct world *w)
{
    for (size_t i = 0; i < INSTANCES; i++)
        if (w->workers[i].open)
            store_session_close(&w->workers[i].session);
    store_close(&w->store);
}

/* ---- Senders ---------------------------------------------------------------------------- */

static void send_in(struct world *w, size_t slot)
{
    char stream[16];
    if (w->sent_count == MESSAGES_MAX)
        return;
    if (w->tx[slot].tx == NULL) {
        w->tx[slot].tx = memory_tx_begin(&w->store);
        w->tx[slot].count = 0;
    }
    struct sent *sent = &w->sent[w->sent_count];
    sent->id.bytes[0] = 1;
    memcpy(&sent->id.bytes[8], &w->sent_count, sizeof(w->sent_count));
    snprintf(stream, sizeof(stream), "s%u", (unsigned)random_below(&w->random, STREAMS));
    struct pr_message m = { .id = sent->id, .type = PR_STR("t"), .stream = pr_str(stream) };
    sent->lane = lane_of(m.stream, m.id);
    CHECK_EQ(memory_tx_insert(w->tx[slot].tx, PR_STR("outbox"), &m), PR_OK);
    w->tx[slot].messages[w->tx[slot].count++] = w->sent_count++;
}

static void end_tx(struct world *w, size_t slot, bool commit)
{
    if (w->tx[slot].tx == NULL)
        return;
    if (commit)
        memory_tx_commit(w->tx[slot].tx);
    else
        memory_tx_rollback(w->tx[slot].tx);
    for (size_t i = 0; i < w->tx[slot].count; i++)
        w->sent[w->tx[slot].messages[i]].committed = commit;
    w->tx[slot].tx = NULL;
}

/* ---- Instances -------------------------------------------------------------------------- */

static struct sent *sent_get(struct world *w, pr_id id)
{
    size_t index;
    memcpy(&index, &id.bytes[8], sizeof(index));
    CHECK(index < w->sent_count);
    return &w->sent[index];
}

static void forget_reads(struct world *w, unsigned bit, uint64_t lanes)
{
    for (size_t i = 0; i < w->sent_count; i++)
        if (lanes & lane_bit(w->sent[i].lane))
            w->sent[i].read_by &= ~bit;
}

static void absorb_rows(struct world *w, struct worker *worker, unsigned bit, const struct cycle_reply *reply)
{
    for (size_t i = 0; i < reply->row_count; i++) {
        struct sent *sent = sent_get(w, reply->rows[i].m.id);
        CHECK(sent->committed); /* B1 */
        CHECK(!sent->completed);
        CHECK(!(sent->read_by & bit)); /* T7: once */
        sent->read_by |= bit;
        w->reads++;
        worker->verdicts[worker->verdict_count++] = (struct verdict){
            .kind = VERDICT_COMPLETE,
            .row = reply->rows[i].row,
            .id = sent->id,
            .number = 1,
        };
    }
}

static void join(struct world *w, struct worker *worker)
{
    struct pr_error error;
    if (!worker->open)
        CHECK_OK(store_session_open(&w->store, PR_STR("outbox"), &worker->session, &error), &error);
    worker->open = true;
    worker->epoch = 0;
    worker->number = 0;
    worker->lanes = 0;
    worker->verdict_count = 0;
    for (size_t i = 0; i < sizeof(worker->id.bytes); i++)
        worker->id.bytes[i] = (uint8_t)random_u64(&w->random);
}

static void cycle(struct world *w, struct worker *worker, uint64_t give, bool lose, size_t rows)
{
    const struct cycle_reply *reply;
    struct pr_error error;
    unsigned bit = 1u << (worker - w->workers);
    struct cycle c = {
        .box = PR_STR("outbox"),
        .instance = worker->id,
        .epoch = worker->epoch,
        .number = worker->number + 1,
        .lease_us = LEASE_US,
        .lanes_give = give & worker->lanes,
        .payload_max = 1000,
        .verdicts = worker->verdicts,
        .verdict_count = worker->verdict_count,
        .fresh_rows = rows,
        .fresh_bytes = SIZE_MAX,
    };
    int rc = store_cycle(&worker->session, &c, &reply, &error);
    if (rc == PR_ELEASE) { /* somebody buried us */
        w->takeovers++;
        forget_reads(w, bit, LANES_ALL);
        join(w, worker);
        return;
    }
    CHECK_OK(rc, &error);
    for (size_t i = 0; i < worker->verdict_count; i++) {
        struct sent *sent = sent_get(w, worker->verdicts[i].id);
        CHECK(reply->answers[i] == PR_OK || sent->completed || !(worker->lanes & lane_bit(sent->lane)));
        sent->completed |= reply->answers[i] == PR_OK;
    }
    if (lose) { /* asked again with the same number: it must bring the same rows (T2) */
        CHECK_OK(store_cycle(&worker->session, &c, &reply, &error), &error);
        CHECK(reply->replayed);
    }
    worker->verdict_count = 0;
    worker->number++;
    worker->epoch = reply->epoch;
    forget_reads(w, bit, reply->lanes_owned & ~(worker->lanes & ~c.lanes_give));
    worker->lanes = reply->lanes_owned;
    absorb_rows(w, worker, bit, reply);
}

/* T4: whoever's lease is not over. */
static void check_owners(struct world *w)
{
    uint64_t all = 0;
    for (size_t i = 0; i < INSTANCES; i++) {
        CHECK_EQ(all & w->workers[i].lanes, 0);
        all |= w->workers[i].lanes;
    }
}

static void step(struct world *w)
{
    size_t slot = random_below(&w->random, TX_MAX);
    struct worker *worker = &w->workers[random_below(&w->random, INSTANCES)];
    switch (random_below(&w->random, 10)) {
    case 0:
    case 1:
    case 2:
    case 3: send_in(w, slot); break;
    case 4:
    case 5: end_tx(w, slot, random_chance(&w->random, 0.8)); break;
    case 6:
        if (random_chance(&w->random, 0.1))
            w->mono_us += PR_SECONDS(4); /* those who do not cycle for long lose their lease */
        break;
    default:
        if (!worker->open)
            join(w, worker);
        cycle(w, worker, random_chance(&w->random, 0.3) ? random_u64(&w->random) : 0, random_chance(&w->random, 0.2),
              1 + random_below(&w->random, 20));
    }
}

/* B1 B10 B11 B20 B21 T2 T4 T7. */
TEST(every_message_is_read_once_by_each_owner_of_its_lane_and_completed_once)
{
    struct world *w = &world;
    uint64_t takeovers = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world_init(w, seed);
        for (int i = 0; i < 1500; i++)
            step(w);
        for (size_t i = 0; i < TX_MAX; i++)
            end_tx(w, i, true);
        for (int round = 0; round < 6; round++) {
            w->mono_us += PR_SECONDS(3);
            for (size_t i = 0; i < INSTANCES; i++) {
                if (!w->workers[i].open)
                    join(w, &w->workers[i]);
                cycle(w, &w->workers[i], 0, false, MESSAGES_MAX);
            }
        }
        check_owners(w);
        for (size_t i = 0; i < w->sent_count; i++)
            CHECK_EQ(w->sent[i].completed, w->sent[i].committed);
        memory_check(&w->store);
        takeovers += w->takeovers;
        world_fini(w);
    }
    CHECK(takeovers > SEEDS / 10); /* else the test does not see them */
}

/* ---- No memory -------------------------------------------------------------------------- */

/* A cycle until it lands.  PR_ENOMEM says that nothing happened, PR_EUNCERTAIN that it did. */
static int cycle_until_done(struct store_session *session, const struct cycle *c, const struct cycle_reply **ret)
{
    struct pr_error error;
    int refused = 0, fault = PR_OK, rc;
    while ((rc = store_cycle(session, c, ret, &error)) != PR_OK) {
        CHECK(rc == PR_ENOMEM || rc == PR_EUNCERTAIN);
        fault = rc;
        refused++;
    }
    CHECK_EQ((*ret)->replayed, fault == PR_EUNCERTAIN);
    return refused;
}

/* A store in a process that runs out of memory once.  Each step is done or not done at all;
 * asked again, it succeeds. */
struct scarce {
    struct store store;
    struct store_session session;
    struct cycle cycle;
    const struct cycle_reply *reply;
    struct pr_error error;
    int refused; /* steps that did not succeed at once */
};

#define DO(s, call) /* until it is done */                                                                             \
    for (int rc = (call); rc != PR_OK; rc = (call)) {                                                                  \
        CHECK_EQ(rc, PR_ENOMEM);                                                                                       \
        (s)->refused++;                                                                                                \
    }

/* Open, send six, read them. */
static void scarce_begin(struct scarce *s)
{
    static const struct store_box boxes[] = { { "ledger", NULL } };
    struct store_options options = { .url = "memory:", .clock = &world.clock, .payload_max = 1000 };
    DO(s, store_open(&options, &s->store, &s->error));
    DO(s, store_migrate(&s->store, boxes, 1, &s->error));
    DO(s, store_session_open(&s->store, PR_STR("outbox"), &s->session, &s->error));

    struct pr_message m[6];
    pr_id ids[6];
    int answers[6];
    for (unsigned i = 0; i < 6; i++)
        m[i] = (struct pr_message){ .id = { { (uint8_t)(i + 1) } }, .type = PR_STR("t"), .stream = PR_STR("s") };
    DO(s, store_enqueue(&s->store, PR_STR("outbox"), m, 6, 1000, ids, answers, &s->error));
    for (int i = 0; i < 6; i++)
        CHECK_EQ(answers[i], PR_OK);

    s->cycle = (struct cycle){ .box = PR_STR("outbox"),
                               .instance = { { 9 } },
                               .number = 1,
                               .lease_us = LEASE_US,
                               .payload_max = 1000,
                               .fresh_rows = 10,
                               .fresh_bytes = SIZE_MAX };
    s->refused += cycle_until_done(&s->session, &s->cycle, &s->reply);
    CHECK_EQ(s->reply->row_count, 6); /* T8: no fault lost one */
}

/* One cycle with a verdict of each kind that takes memory, and every kind of read. */
static void scarce_judge(struct scarce *s)
{
    static const enum verdict_kind kinds[] = { VERDICT_FAIL, VERDICT_DEAD_LETTER, VERDICT_SPLIT,
                                               VERDICT_HOLD, VERDICT_COMPLETE,    VERDICT_PARK };
    const pr_slice to[] = { PR_STR("a"), PR_STR("b") };
    struct verdict verdicts[6];
    for (int i = 0; i < 6; i++)
        verdicts[i] = (struct verdict){
            .kind = kinds[i],
            .row = s->reply->rows[i].row,
            .id = s->reply->rows[i].m.id,
            .number = kinds[i] == VERDICT_FAIL,
            .reason = PR_REASON_REJECTED,
            .cause = PR_REASON_REJECTED,
            .error = PR_STR("no"),
            .code = PR_STR("5"),
            .story = PR_STR("[]"),
            .held_by = PR_STR("k"),
            .destinations = to,
            .destination_count = 2,
        };
    const struct pr_message added = { .id = { { 77 } }, .type = PR_STR("t") };
    const struct effect effect = { .verdict = 4, .box = PR_STR("ledger"), .message = &added };
    const struct receipt_entry entry = { .row = verdicts[0].row, .number = 1 };
    const struct tally tally = { .endpoint = PR_STR("e"), .sent = 1 };
    const struct held_read held = { .key = PR_STR("k"), .rows = 5 };
    struct cycle c = s->cycle;
    c.epoch = s->reply->epoch;
    c.number = 2;
    c.verdicts = verdicts, c.verdict_count = 6;
    c.effects = &effect, c.effect_count = 1;
    c.receipt = &entry, c.receipt_count = 1;
    c.tallies = &tally, c.tally_count = 1;
    c.keep_us = PR_SECONDS(60);
    c.due.rows = c.heads.rows = c.held_keys.rows = 10;
    c.heads.lanes = c.held_keys.lanes = LANES_ALL;
    c.held = &held, c.held_count = 1;
    s->refused += cycle_until_done(&s->session, &c, &s->reply);
    for (int i = 0; i < 6 && !s->reply->replayed; i++)
        CHECK_EQ(s->reply->answers[i], PR_OK);
    memory_check(&s->store);
}

static void scarce_operate(struct scarce *s)
{
    struct admin_reply done;
    struct admin pause = { .kind = ADMIN_PAUSE,
                           .filter = { .state = -1, .endpoint = PR_STR("f") },
                           .until_us = PR_NEVER,
                           .by = PR_STR("ann"),
                           .why = PR_STR("noise") };
    struct admin add = { .kind = ADMIN_DEAD_ADD, .filter = { .state = STATE_HELD }, .by = PR_STR("ann") };
    struct admin replay = { .kind = ADMIN_DEAD_REPLAY, .filter = { .state = -1, .box = PR_STR("outbox") } };
    DO(s, store_admin(&s->store, &pause, &done, &s->error));
    DO(s, store_admin(&s->store, &add, &done, &s->error));
    CHECK_EQ(done.changed, 1);
    DO(s, store_admin(&s->store, &replay, &done, &s->error));
    CHECK_EQ(done.changed, 2);
    CHECK_EQ(memory_audit_count(&s->store), 3);

    struct arena arena;
    struct query_reply found;
    struct query everything = { .kind = QUERY_MESSAGES, .filter = { .state = -1 } };
    struct query kept = { .kind = QUERY_MESSAGES, .filter = { .state = STATE_DONE } };
    arena_init(&arena, 1024);
    DO(s, store_query(&s->store, &everything, &arena, &found, &s->error));
    CHECK_EQ(found.listed_count, 7); /* failed, replayed twice, split in two, parked; and the effect */
    DO(s, store_query(&s->store, &kept, &arena, &found, &s->error));
    CHECK_EQ(found.listed_count, 1);
    arena_fini(&arena);
    memory_check(&s->store);
}

static int with_fault(long nth)
{
    struct scarce s = { .refused = 0 };
    world.mono_us = PR_SECONDS(1000);
    world.clock = (struct clock){ .wall_us = world_now, .mono_us = world_now, .arg = &world };
    fault_after(nth);
    scarce_begin(&s);
    scarce_judge(&s);
    scarce_operate(&s);
    store_session_close(&s.session);
    store_close(&s.store);
    fault_after(0);
    return s.refused;
}

TEST(a_store_without_memory_does_a_thing_wholly_or_not_at_all) /* B6 T1 */
{
    CHECK_EQ(with_fault(0), 0);
    long nth = 1;
    while (with_fault(nth) > 0 && nth < 10000)
        nth++;
    CHECK(nth > 30 && nth < 10000);
}

/* ---- Names ------------------------------------------------------------------------------ */

TEST(a_name_is_shared_within_the_process_and_no_name_is_not)
{
    struct pr_error error;
    struct store named[2], own;
    struct store_options options = { .url = "memory:shop", .payload_max = 1000 };
    CHECK_OK(store_open(&options, &named[0], &error), &error);
    CHECK_OK(store_open(&options, &named[1], &error), &error);
    options.url = "memory:";
    CHECK_OK(store_open(&options, &own, &error), &error);
    struct pr_message m = { .id = { { 1 } }, .type = PR_STR("t") };
    pr_id id;
    int answer;
    CHECK_OK(store_enqueue(&named[0], PR_STR("outbox"), &m, 1, 1000, &id, &answer, &error), &error);
    store_close(&named[0]);
    CHECK_OK(store_enqueue(&named[1], PR_STR("outbox"), &m, 1, 1000, &id, &answer, &error), &error);
    CHECK_EQ(answer, PR_DUPLICATE);
    CHECK_OK(store_enqueue(&own, PR_STR("outbox"), &m, 1, 1000, &id, &answer, &error), &error);
    CHECK_EQ(answer, PR_OK);
    store_close(&named[1]);
    store_close(&own);
}

TEST(an_unknown_url_says_which_stores_there_are_and_keeps_its_secret) /* B204 */
{
    struct pr_error error;
    struct store store;
    struct store_options options = { .url = "postgres://ann:secret@127.0.0.1:1/shop", .payload_max = 1000 };
    int rc = store_open(&options, &store, &error);
    CHECK(rc == PR_ESTORE || (rc == PR_EUNSUPPORTED && strstr(error.text, "built without PostgreSQL support") != NULL));
    CHECK(strstr(error.text, "secret") == NULL);
    options.url = "mysql://ann:secret@db/shop";
    CHECK_EQ(store_open(&options, &store, &error), PR_EINVAL);
    CHECK(strstr(error.text, "sqlite:") != NULL && strstr(error.text, "memory:") != NULL);
    CHECK(strstr(error.text, "secret") == NULL);
    options.url = "nothing";
    CHECK_EQ(store_open(&options, &store, &error), PR_EINVAL);
    options.url = NULL;
    CHECK_EQ(store_open(&options, &store, &error), PR_EINVAL);
}
