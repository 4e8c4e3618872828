/* Another open transaction makes or changes the same rows as effects of a cycle: only their own verdicts wait for it,
 * and all others of the box land meanwhile (cycle/blocked.c). */
#include "store/suite.h"
#include "store/suite_postgres.h"

#include <stdio.h>

#include "base/time.h"
#include "core/mark.h"
#include "store/postgres/send.h"

#define OTHERS 200
#define MOST (OTHERS + 4)
#define HOUR_US PR_MINUTES(60)
#define COMPLETE .kind = VERDICT_COMPLETE, .endpoint = PR_STR("h")

/* Messages that are out, with one effect each. */
struct crowd {
    struct worker *w;
    struct verdict verdicts[MOST];
    struct effect effects[MOST];
    struct pr_message messages[MOST];
    char streams[MOST][32];
    size_t count;
};

/* All rows of the box go out on one receipt. */
static void claim_all(struct suite *s, struct crowd *c, struct worker *w, size_t count)
{
    struct receipt_entry receipt[MOST];
    *c = (struct crowd){ .w = w, .count = count };
    for (unsigned i = 0; i < count; i++)
        SEND(s, "outbox", .id = suite_id(1000 + i));
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = MOST);
    CHECK_EQ(r->row_count, count);
    for (size_t i = 0; i < count; i++) {
        receipt[i] = (struct receipt_entry){ .row = r->rows[i].row, .number = 1 };
        c->verdicts[i] = (struct verdict){ COMPLETE, .row = r->rows[i].row, .id = r->rows[i].m.id, .number = 1 };
    }
    CYCLE(w, .receipt = receipt, .receipt_count = count);
}

static void mark_all(struct crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        CHECK(mark_of_verdict(&c->verdicts[i], c->w->box, PR_STR(""), HOUR_US, &c->effects[i]));
        c->effects[i].verdict = i;
    }
}

/* Each has something of the kind, by a key of its own. */
static void give_effects(struct crowd *c, enum effect_kind kind, bool event)
{
    for (size_t i = 0; i < c->count; i++) {
        snprintf(c->streams[i], sizeof(c->streams[i]), "s%zu", i);
        c->messages[i] = (struct pr_message){
            .id = suite_id(5000 + (unsigned)i), .type = PR_STR("t"), .stream = pr_str(c->streams[i]), .event = event
        };
        c->effects[i] = (struct effect){ .kind = kind,
                                         .verdict = i,
                                         .box = PR_STR("ledger"),
                                         .message = &c->messages[i],
                                         .expected = EFFECT_ANY,
                                         .key = pr_str(c->streams[i]),
                                         .name = PR_STR("k"),
                                         .value = PR_STR("v") };
    }
}

static const int *ask(struct crowd *c)
{
    return CYCLE(c->w, .verdicts = c->verdicts, .verdict_count = c->count, .effects = c->effects,
                 .effect_count = c->count)
        ->answers;
}

/* The first so many wait, and are all that is left to ask for. */
static void only_first_wait(struct crowd *c, size_t waiting)
{
    const int *answers = ask(c);
    for (size_t i = 0; i < c->count; i++)
        CHECK_EQ(answers[i], i < waiting ? ANSWER_BUSY : PR_OK);
    c->count = waiting;
}

static PGconn *open_tx(const char *sql)
{
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "BEGIN");
    suite_pg_do(pg, sql);
    return pg;
}

static void end_tx(PGconn *pg, const char *how)
{
    suite_pg_do(pg, how);
    PQfinish(pg);
}

static PGconn *begin_stream(const char *stream)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "INSERT INTO %%s.outbox (type, stream, event) VALUES ('t', '%s', true)", stream);
    return open_tx(sql);
}

/* A handler completes one row of a message in its own transaction, while another row of it ends in a cycle. */
static void try_mark(struct suite *s, bool commits)
{
    static struct crowd c;
    struct worker *w = suite_join(s, "outbox");
    const pr_id twin = suite_id(1000);
    struct pr_error error;
    claim_all(s, &c, w, 1 + OTHERS);
    mark_all(&c);
    SEND(s, "outbox", .id = twin, .destination = PR_STR("h"));
    struct claim row = worker_claim_to(w, twin, "h");
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "BEGIN");
    const struct completion completion = { .box = PR_STR("outbox"),
                                           .endpoint = PR_STR("h"),
                                           .destination = PR_STR("h"),
                                           .row = row.row,
                                           .id = twin,
                                           .number = 1,
                                           .dedupe_us = HOUR_US };
    CHECK_OK(pg_complete(pg, pr_str(suite_pg_schema()), &completion, &error), &error);
    only_first_wait(&c, 1);
    only_first_wait(&c, 1);
    end_tx(pg, commits ? "COMMIT" : "ROLLBACK");
    CHECK_EQ(ask(&c)[0], commits ? ANSWER_HANDLED : PR_OK);
}

STORE_TEST(a_mark_in_an_open_transaction_holds_up_its_own_message_only) /* B90 */
{
    try_mark(s, true);
}

STORE_TEST(a_mark_in_an_open_transaction_that_is_rolled_back_was_never_made) /* B90 */
{
    try_mark(s, false);
}

static void try_kind(struct suite *s, enum effect_kind kind, bool event, PGconn *(*hold)(void))
{
    static struct crowd c;
    claim_all(s, &c, suite_join(s, "outbox"), 1 + OTHERS);
    give_effects(&c, kind, event);
    PGconn *pg = hold();
    only_first_wait(&c, 1);
    only_first_wait(&c, 1);
    end_tx(pg, "ROLLBACK");
    CHECK_EQ(ask(&c)[0], PR_OK);
}

static PGconn *hold_new_stream(void)
{
    return begin_stream("s0");
}

STORE_TEST(a_stream_that_an_open_transaction_begins_holds_up_its_own_events_only) /* B95 */
{
    try_kind(s, EFFECT_EVENT, false, hold_new_stream);
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 0, .limit = 1000))->event_count, 1 + OTHERS);
}

STORE_TEST(a_stream_that_an_open_transaction_begins_holds_up_its_own_messages_only) /* B95 */
{
    try_kind(s, EFFECT_MESSAGE, true, hold_new_stream);
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 0, .limit = 1000))->event_count, 1 + OTHERS);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger"))), 1 + OTHERS);
}

static PGconn *hold_old_stream(void)
{
    end_tx(begin_stream("s0"), "COMMIT");
    return begin_stream("s0");
}

STORE_TEST(a_stream_that_an_open_transaction_appends_to_holds_up_its_own_messages_only) /* B95 */
{
    try_kind(s, EFFECT_MESSAGE, true, hold_old_stream);
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.stream = PR_STR("s0")))->event_count, 2);
}

static PGconn *hold_id(void)
{
    char id[PR_ID_TEXT_SIZE], sql[128];
    pr_id_format(suite_id(5000), id);
    snprintf(sql, sizeof(sql), "INSERT INTO %%s.ledger (id, type) VALUES ('%s', 't')", id);
    return open_tx(sql);
}

STORE_TEST(an_id_that_an_open_transaction_stores_holds_up_the_same_id_only)
{
    try_kind(s, EFFECT_MESSAGE, false, hold_id);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger"))), 1 + OTHERS);
}

static PGconn *hold_value(void)
{
    return open_tx("INSERT INTO %s.flow_state (flow, key, value) VALUES ('s0', 'k', 'mine')");
}

STORE_TEST(a_value_that_an_open_transaction_sets_holds_up_the_same_value_only)
{
    try_kind(s, EFFECT_STATE, false, hold_value);
}

/* Three transactions, one after the other, and each frees its own. */
STORE_TEST(of_several_open_transactions_each_holds_up_its_own) /* B95 */
{
    static struct crowd c;
    static const char *const streams[] = { "s0", "s1", "s2" };
    PGconn *pg[3];
    claim_all(s, &c, suite_join(s, "outbox"), 3 + OTHERS);
    give_effects(&c, EFFECT_EVENT, false);
    for (size_t i = 0; i < 3; i++)
        pg[i] = begin_stream(streams[i]);
    only_first_wait(&c, 3);
    end_tx(pg[2], "COMMIT");
    only_first_wait(&c, 2);
    end_tx(pg[1], "ROLLBACK");
    only_first_wait(&c, 1);
    end_tx(pg[0], "COMMIT");
    only_first_wait(&c, 0);
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.after = 0, .limit = 1000))->event_count, 5 + OTHERS);
}

/* Messages that come behind one that waits, and would append to the same stream: they wait with it, whoever else is there. */
STORE_TEST(who_comes_later_with_the_same_key_waits_too_and_others_do_not) /* B95 */
{
    static struct crowd c, later;
    struct worker *w = suite_join(s, "outbox");
    claim_all(s, &c, w, 2);
    give_effects(&c, EFFECT_EVENT, false);
    PGconn *pg = begin_stream("s0");
    only_first_wait(&c, 1);
    pr_id same = SEND(s, "outbox"), other = SEND(s, "outbox");
    struct claim claims[] = { worker_claim(w, same), worker_claim(w, other) };
    later = (struct crowd){ .w = w, .count = 3 };
    give_effects(&later, EFFECT_EVENT, false);
    later.verdicts[0] = c.verdicts[0];
    later.verdicts[1] = VERDICT_OF(claims[0], COMPLETE);
    later.verdicts[2] = VERDICT_OF(claims[1], COMPLETE);
    later.messages[1].stream = PR_STR("s0");
    later.messages[2].id = suite_id(6000);
    only_first_wait(&later, 2);
    end_tx(pg, "COMMIT");
    const struct clock *clock = clock_system();
    int64_t deadline_us = clock_mono_us(clock) + PR_SECONDS(60);
    const int *answers = ask(&later);
    while (answers[0] != PR_OK && clock_mono_us(clock) < deadline_us)
        answers = ask(&later);
    CHECK_EQ(answers[0], PR_OK);
    later.count = 1;
    later.verdicts[0] = later.verdicts[1];
    later.effects[0] = later.effects[1];
    later.effects[0].verdict = 0;
    CHECK_EQ(ask(&later)[0], PR_OK); /* of one stream one verdict in each cycle */
    CHECK_EQ(suite_query(s, QUERY_EVENTS, FILTER(.stream = PR_STR("s0")))->event_count, 3);
}
