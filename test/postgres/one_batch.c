/* Plain cycles: during a backlog a whole cycle goes to the server at once, and the server itself checks the assumptions
 * of the relay. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/util.h"
#include "core/mark.h"
#include "drain.h"
#include "proxy.h"
#include "store/suite_postgres.h"

#define CAREFUL_EVERY 9 /* cycles: ONE_BATCH_MAX in a row, and then one that looks at everything */

void drain_take(struct drain *d)
{
    d->count = 0;
    CHECK(d->w->reply->row_count <= AT_ONCE);
    for (size_t i = 0; i < d->w->reply->row_count; i++) {
        const struct row *row = &d->w->reply->rows[i];
        d->verdicts[d->count++] =
            (struct verdict){ .kind = VERDICT_COMPLETE, .row = row->row, .id = row->m.id, .number = 1 };
    }
}

struct cycle drain_cycle(const struct drain *d)
{
    return (struct cycle){ .verdicts = d->verdicts, .verdict_count = d->count, .fresh_rows = AT_ONCE };
}

void drain_on(struct drain *d)
{
    struct cycle cycle = drain_cycle(d);
    worker_cycle(d->w, &cycle);
    for (size_t i = 0; i < cycle.verdict_count; i++)
        CHECK_EQ(d->w->reply->answers[i], PR_OK);
    drain_take(d);
}

struct drain drain_begin(struct suite *s, int messages)
{
    struct drain d = { .w = suite_join(s, "outbox") };
    for (int i = 0; i < messages; i++)
        SEND(s, "outbox");
    drain_on(&d);
    drain_on(&d); /* all is prepared by now */
    CHECK_EQ(d.count, AT_ONCE);
    return d;
}

STORE_TEST(while_there_is_a_backlog_most_cycles_are_one_round_trip) /* B11 */
{
    enum { CYCLES = 16, CAREFUL = 2 };
    struct proxy *proxy = over_a_wire(s);
    struct drain d = drain_begin(s, (CYCLES + 4) * AT_ONCE);
    unsigned before = proxy_halves(proxy);
    for (int i = 0; i < CYCLES; i++)
        drain_on(&d);
    CHECK(proxy_halves(proxy) - before <= CAREFUL);
    while (d.count > 0)
        drain_on(&d);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"))), 0);
    end_of_wire(s, proxy);
}

/* What the server is told to delete is not where it was, or not there at all. */
STORE_TEST(a_plain_cycle_that_misses_a_row_begins_anew_and_finds_the_others_by_their_keys) /* B11 */
{
    char sql[100];
    PGconn *pg = suite_pg_connect();
    struct drain d = drain_begin(s, 8 * AT_ONCE);
    suite_pg_do(pg, "UPDATE %s.outbox SET subject = 'moved'");
    drain_on(&d);
    struct cycle cycle = drain_cycle(&d);
    snprintf(sql, sizeof(sql), "DELETE FROM %%s.outbox WHERE seq = %lld", (long long)d.w->reply->rows[0].m.seq);
    suite_pg_do(pg, sql);
    worker_cycle(d.w, &cycle);
    CHECK_EQ(d.w->reply->answers[0], PR_UNKNOWN);
    for (size_t i = 1; i < d.count; i++)
        CHECK_EQ(d.w->reply->answers[i], PR_OK);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox"), (8 - 3) * AT_ONCE);
    PQfinish(pg);
}

/* ---- Many rows, which are deleted where they were written ---------------------------------------- */

#define CROWD 128

struct crowd {
    struct worker *w;
    struct verdict verdicts[CROWD];
};

static void crowd_send(PGconn *pg, const char *type, int times)
{
    char sql[200];
    snprintf(sql, sizeof(sql),
             "INSERT INTO %%s.outbox (type, subject) SELECT '%s', repeat('s', 200) FROM generate_series(1, %d)", type,
             times * CROWD);
    suite_pg_do(pg, sql);
}

/* So many rows were read, and as many are behind them. */
static struct crowd crowd_read(struct suite *s)
{
    struct crowd c = { .w = suite_join(s, "outbox") };
    const struct cycle_reply *r = CYCLE(c.w, .fresh_rows = CROWD);
    CHECK_EQ(r->row_count, CROWD);
    CHECK(!r->fresh_end);
    for (size_t i = 0; i < CROWD; i++)
        c.verdicts[i] =
            (struct verdict){ .kind = VERDICT_COMPLETE, .row = r->rows[i].row, .id = r->rows[i].m.id, .number = 1 };
    return c;
}

/* All were sent.  So many of them had gone before. */
static void crowd_end(struct suite *s, PGconn *pg, struct crowd *c, int gone)
{
    long long waiting = suite_pg_number(pg, "SELECT count(*) FROM %s.outbox");
    int unknown = 0;
    CYCLE(c->w, .verdicts = c->verdicts, .verdict_count = CROWD, .fresh_rows = CROWD);
    for (size_t i = 0; i < CROWD; i++) {
        CHECK(c->w->reply->answers[i] == PR_OK || c->w->reply->answers[i] == PR_UNKNOWN);
        unknown += c->w->reply->answers[i] == PR_UNKNOWN;
        CHECK(suite_find(s, c->verdicts[i].id) == NULL);
    }
    CHECK_EQ(unknown, gone);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox"), waiting - (CROWD - gone));
}

/* The first of them, as SQL tells it. */
static void crowd_do(PGconn *pg, const struct crowd *c, const char *sql)
{
    char id[PR_ID_TEXT_SIZE], text[300];
    pr_id_format(c->verdicts[0].id, id);
    snprintf(text, sizeof(text), "%s WHERE id = '%s'", sql, id);
    suite_pg_do(pg, text);
}

STORE_TEST(many_rows_are_deleted_where_they_were_written) /* B11 */
{
    static const char *const moves[] = { NULL, "UPDATE %s.outbox SET subject = 'moved'", "VACUUM FULL %s.outbox" };
    PGconn *pg = suite_pg_connect();
    for (size_t i = 0; i < ARRAY_LENGTH(moves); i++) {
        crowd_send(pg, "many", 2);
        struct crowd c = crowd_read(s);
        if (moves[i] != NULL)
            suite_pg_do(pg, moves[i]);
        crowd_end(s, pg, &c, 0);
        suite_pg_do(pg, "DELETE FROM %s.outbox");
        suite_pg_do(pg, "DELETE FROM %s.instance");
    }
    PQfinish(pg);
}

STORE_TEST(of_many_rows_one_that_is_gone_is_told_and_the_others_are_deleted) /* B11 */
{
    PGconn *pg = suite_pg_connect();
    crowd_send(pg, "many", 2);
    struct crowd c = crowd_read(s);
    crowd_do(pg, &c, "DELETE FROM %s.outbox");
    crowd_end(s, pg, &c, 1);
    PQfinish(pg);
}

/* Each row behind the one that is gone has the place of another. */
STORE_TEST(of_many_rows_in_a_table_that_was_written_anew_no_other_is_deleted) /* B11 */
{
    PGconn *pg = suite_pg_connect();
    crowd_send(pg, "many", 2);
    struct crowd c = crowd_read(s);
    crowd_do(pg, &c, "DELETE FROM %s.outbox");
    suite_pg_do(pg, "VACUUM FULL %s.outbox");
    crowd_end(s, pg, &c, 1);
    PQfinish(pg);
}

STORE_TEST(of_many_rows_the_one_in_the_place_of_another_is_left_alone) /* B11 */
{
    static const char *const others[] = { "INSERT INTO %s.outbox (type) SELECT 'other' FROM generate_series(1, 1000)",
                                          "UPDATE %s.outbox SET subject = NULL WHERE type = 'late'" };
    PGconn *pg = suite_pg_connect();
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        crowd_send(pg, "many", 16); /* so that no lane is read to its end */
        crowd_send(pg, "late", 4);  /* the same snapshot sees their transaction */
        struct crowd c = crowd_read(s);
        crowd_do(pg, &c, "CREATE TEMP TABLE place AS SELECT ctid AS tid FROM %s.outbox");
        crowd_do(pg, &c, "DELETE FROM %s.outbox");
        suite_pg_do(pg, "VACUUM (INDEX_CLEANUP ON) %s.outbox");
        suite_pg_do(pg, others[i]);
        CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox b JOIN place p ON p.tid = b.ctid"), 1);
        crowd_end(s, pg, &c, 1);
        suite_pg_do(pg, "DROP TABLE place");
        suite_pg_do(pg, "TRUNCATE %s.outbox");
        suite_pg_do(pg, "DELETE FROM %s.instance");
    }
    PQfinish(pg);
}

/* A table that inherits from the box has rows in the same places, of the same transaction: here they wait for a person. */
STORE_TEST(of_many_rows_those_in_a_table_that_inherits_from_the_box_are_left_alone) /* B11 */
{
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "CREATE TABLE heir () INHERITS (%s.outbox)");
    suite_pg_do(pg, "BEGIN");
    crowd_send(pg, "many", 2);
    suite_pg_do(pg, "CREATE TEMP TABLE parked AS SELECT * FROM %s.outbox");
    suite_pg_do(pg, "UPDATE parked SET id = gen_random_uuid(), due_at = 'infinity'");
    suite_pg_do(pg, "INSERT INTO heir SELECT * FROM parked");
    suite_pg_do(pg, "COMMIT");
    struct crowd c = crowd_read(s);
    crowd_end(s, pg, &c, 0);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM heir"), 2 * CROWD);
    suite_pg_do(pg, "DROP TABLE heir, parked");
    PQfinish(pg);
}

/* Their transaction is not the one that `xid` names, nor is that of a row which comes from another server. */
STORE_TEST(many_rows_that_were_stored_after_a_savepoint_are_deleted) /* B11 */
{
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "BEGIN");
    suite_pg_do(pg, "SAVEPOINT a");
    crowd_send(pg, "many", 2);
    suite_pg_do(pg, "COMMIT");
    struct crowd c = crowd_read(s);
    crowd_end(s, pg, &c, 0);
    PQfinish(pg);
}

STORE_TEST(a_plain_cycle_of_one_that_was_buried_changes_nothing) /* B26 */
{
    PGconn *pg = suite_pg_connect();
    struct drain d = drain_begin(s, 8 * AT_ONCE);
    struct cycle cycle = drain_cycle(&d);
    long long waiting = suite_pg_number(pg, "SELECT count(*) FROM %s.outbox");
    suite_pg_do(pg, "DELETE FROM %s.instance");
    suite_pg_do(pg, "DELETE FROM %s.claim");
    CHECK_EQ(worker_try(d.w, &cycle), PR_ELEASE);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox"), waiting);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.claim"), 0);
    PQfinish(pg);
}

STORE_TEST(a_plain_cycle_of_one_whose_lanes_are_of_others_by_now_leaves_their_rows_alone) /* B26 */
{
    PGconn *pg = suite_pg_connect();
    struct drain d = drain_begin(s, 8 * AT_ONCE);
    struct cycle cycle = drain_cycle(&d);
    long long waiting = suite_pg_number(pg, "SELECT count(*) FROM %s.outbox");
    suite_pg_do(pg, "UPDATE %s.instance SET lanes = 0");
    suite_pg_do(pg, "INSERT INTO %s.instance (id, box, name, version, epoch, lanes, lease_end, started_at, lease_us, "
                    "schema_version)"
                    " SELECT gen_random_uuid(), box, 'b', version, epoch + 1, -1, lease_end, started_at, lease_us, "
                    "schema_version FROM %s.instance");
    worker_cycle(d.w, &cycle);
    for (size_t i = 0; i < d.count; i++)
        CHECK_EQ(d.w->reply->answers[i], PR_STALE);
    CHECK_EQ(d.w->reply->row_count, 0);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox"), waiting);
    PQfinish(pg);
}

STORE_TEST(a_plain_cycle_whose_answer_was_lost_is_found_by_looking) /* B7, B27 */
{
    struct proxy *proxy = over_a_wire(s);
    struct drain d = drain_begin(s, 8 * AT_ONCE);
    struct cycle cycle = drain_cycle(&d);
    proxy_set(proxy, PROXY_CUT_ANSWER);
    CHECK_EQ(worker_try(d.w, &cycle), PR_EUNCERTAIN);
    worker_cycle(d.w, &cycle);
    CHECK(d.w->reply->replayed);
    drain_take(&d);
    int sent = 0;
    for (; d.count > 0; drain_on(&d))
        sent += (int)d.count;
    CHECK_EQ(sent, (8 - 2) * AT_ONCE); /* each once */
    end_of_wire(s, proxy);
}

STORE_TEST(what_an_operator_did_is_told_in_a_plain_cycle) /* B202 */
{
    struct proxy *proxy = over_a_wire(s);
    struct drain d = drain_begin(s, 8 * AT_ONCE);
    ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("e")));
    unsigned before = proxy_round_trips(proxy);
    drain_on(&d);
    CHECK_EQ(d.w->reply->notice_count, 1);
    CHECK(d.w->reply->endpoints_known);
    CHECK_EQ(d.w->reply->endpoint_count, 1);
    CHECK_EQ(d.w->reply->endpoints[0].paused_until_us, PR_NEVER);
    CHECK(proxy_round_trips(proxy) - before <= 2); /* the second for the endpoints */
    end_of_wire(s, proxy);
}

/* The backlog is read as of one snapshot for a few cycles only. */
STORE_TEST(what_was_committed_late_does_not_wait_until_a_backlog_is_over) /* B10 */
{
    pr_id late = suite_id(900);
    struct worker *w = suite_join(s, "outbox");
    void *tx = suite_tx_begin(s);
    s->kind->tx_add(s, tx, "outbox", &(struct pr_message){ .type = PR_STR("late"), .stream = PR_STR("a"), .id = late });
    for (int i = 0; i < 30 * AT_ONCE; i++)
        SEND(s, "outbox", .stream = PR_STR("a"));
    struct drain d = { .w = w };
    for (int i = 0; i < 2; i++)
        drain_on(&d);
    s->kind->tx_end(s, tx, true);
    int cycles = 0;
    do
        drain_on(&d);
    while (reply_find(w->reply, late) == NULL && ++cycles < 30);
    CHECK(cycles <= CAREFUL_EVERY);
}

/* ---- With failures ------------------------------------------------------------------------------------------ */

/* The first of those that it is about to tell of has failed. */
static void drain_fail(struct drain *d, int64_t delay_us)
{
    d->verdicts[0] = (struct verdict){ .kind = VERDICT_FAIL,
                                       .row = d->verdicts[0].row,
                                       .id = d->verdicts[0].id,
                                       .number = 1,
                                       .reason = PR_REASON_TIMEOUT_EXCEEDED,
                                       .delay_us = delay_us };
}

STORE_TEST(a_failure_in_a_backlog_is_told_in_one_round_trip) /* B11 */
{
    enum { CYCLES = 6 };
    struct proxy *proxy = over_a_wire(s);
    struct drain d = drain_begin(s, (CYCLES + 4) * AT_ONCE);
    drain_fail(&d, PR_MINUTES(60));
    drain_on(&d); /* all is prepared by now */
    unsigned before = proxy_round_trips(proxy), halves = proxy_halves(proxy);
    for (int i = 0; i < CYCLES; i++) {
        drain_fail(&d, PR_MINUTES(60));
        drain_on(&d);
    }
    CHECK_EQ(proxy_halves(proxy) - halves, 0);
    CHECK(proxy_round_trips(proxy) - before <= 2 * CYCLES); /* what comes next is one of its own */
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.state = STATE_RETRYING)), CYCLES + 1);
    end_of_wire(s, proxy);
}

/* It lies elsewhere since it failed, which is no reason to begin anew. */
STORE_TEST(what_failed_and_came_back_goes_with_the_others_in_one_round_trip) /* B11 */
{
    struct proxy *proxy = over_a_wire(s);
    struct drain d = drain_begin(s, 12 * AT_ONCE);
    unsigned halves = 0;
    for (int i = 0; i < 3; i++) { /* the first time the statements are prepared */
        const uint64_t row = d.verdicts[0].row;
        const pr_id id = d.verdicts[0].id;
        halves = proxy_halves(proxy);
        drain_fail(&d, 0);
        drain_on(&d);
        d.verdicts[d.count - 1] = (struct verdict){ .kind = VERDICT_COMPLETE, .row = row, .id = id, .number = 2 };
        drain_on(&d);
        halves = proxy_halves(proxy) - halves;
        CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.ids = &id, .id_count = 1)), 0);
    }
    CHECK_EQ(halves, 0);
    end_of_wire(s, proxy);
}

STORE_TEST(a_failure_that_is_stale_begins_the_cycle_anew_and_is_told) /* B11 */
{
    char sql[128];
    PGconn *pg = suite_pg_connect();
    struct drain d = drain_begin(s, 8 * AT_ONCE);
    drain_fail(&d, PR_MINUTES(60));
    struct cycle cycle = drain_cycle(&d);
    snprintf(sql, sizeof(sql), "UPDATE %%s.outbox SET attempts = 3 WHERE seq = %lld",
             (long long)d.w->reply->rows[0].m.seq);
    suite_pg_do(pg, sql);
    worker_cycle(d.w, &cycle);
    CHECK_EQ(d.w->reply->answers[0], PR_STALE);
    for (size_t i = 1; i < d.count; i++)
        CHECK_EQ(d.w->reply->answers[i], PR_OK);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox WHERE attempts = 3 AND due_at IS NULL"), 1);
    PQfinish(pg);
}

STORE_TEST(a_failure_of_a_row_that_somebody_holds_waits_for_nobody) /* B11 */
{
    char sql[128];
    PGconn *pg = suite_pg_connect();
    struct drain d = drain_begin(s, 8 * AT_ONCE);
    drain_fail(&d, PR_MINUTES(60));
    struct cycle cycle = drain_cycle(&d);
    snprintf(sql, sizeof(sql), "SELECT seq FROM %%s.outbox WHERE seq = %lld FOR UPDATE",
             (long long)d.w->reply->rows[0].m.seq);
    suite_pg_do(pg, "BEGIN");
    (void)suite_pg_number(pg, sql);
    worker_cycle(d.w, &cycle);
    CHECK_EQ(d.w->reply->answers[0], ANSWER_BUSY);
    for (size_t i = 1; i < d.count; i++)
        CHECK_EQ(d.w->reply->answers[i], PR_OK);
    PQfinish(pg);
}

/* The other ways in which a row ends.  What is kept goes whatever its counters say, so it is missing. */
STORE_TEST(an_end_that_is_stale_begins_the_cycle_anew_and_is_told) /* B8, B11 */
{
    static const struct {
        enum verdict_kind kind;
        int64_t keep_us;
        const char *meanwhile;
        int answer;
    } ends[] = {
        { VERDICT_DEAD_LETTER, 0, "UPDATE %%s.outbox SET attempts = 3 WHERE seq = %lld", PR_STALE },
        { VERDICT_DISCARD, 0, "UPDATE %%s.outbox SET attempts = 3 WHERE seq = %lld", PR_STALE },
        { VERDICT_COMPLETE, PR_MINUTES(60), "DELETE FROM %%s.outbox WHERE seq = %lld", PR_UNKNOWN },
    };
    char sql[128];
    PGconn *pg = suite_pg_connect();
    struct drain d = drain_begin(s, 16 * AT_ONCE);
    for (size_t i = 0; i < ARRAY_LENGTH(ends); i++) {
        drain_on(&d); /* behind one that looked at everything there may be plain ones */
        d.verdicts[0].kind = ends[i].kind;
        d.verdicts[0].reason = d.verdicts[0].cause = PR_REASON_REJECTED;
        d.verdicts[0].endpoint = PR_STR("e");
        struct cycle cycle = drain_cycle(&d);
        cycle.keep_us = ends[i].keep_us;
        snprintf(sql, sizeof(sql), ends[i].meanwhile, (long long)d.w->reply->rows[0].m.seq);
        suite_pg_do(pg, sql);
        worker_cycle(d.w, &cycle);
        CHECK_EQ(d.w->reply->answers[0], ends[i].answer);
        for (size_t k = 1; k < d.count; k++)
            CHECK_EQ(d.w->reply->answers[k], PR_OK);
        drain_take(&d);
    }
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER(.box = PR_STR("outbox"))), 0);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox WHERE attempts = 3"), 2);
    PQfinish(pg);
}

/* What dies in it is in the ledger as in any other cycle, and there once. */
STORE_TEST(a_death_in_a_backlog_is_told_in_one_round_trip) /* B11 */
{
    struct proxy *proxy = over_a_wire(s);
    struct drain d = drain_begin(s, 8 * AT_ONCE);
    unsigned halves = 0;
    for (int i = 0; i < 2; i++) {
        d.verdicts[0].kind = VERDICT_DEAD_LETTER;
        d.verdicts[0].reason = d.verdicts[0].cause = PR_REASON_REJECTED;
        d.verdicts[0].endpoint = PR_STR("e");
        halves = proxy_halves(proxy);
        drain_on(&d);
    }
    CHECK_EQ(proxy_halves(proxy) - halves, 0);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER(.box = PR_STR("outbox"))), 2);
    end_of_wire(s, proxy);
}

/* ---- Without new rows -------------------------------------------------------------------------------------- */

/* One message, on a receipt: the cycle between a sender's commit and the send. */
static const struct cycle_reply *start(struct worker *w, const struct receipt_entry *entry)
{
    return CYCLE(w, .receipt = entry, .receipt_count = 1);
}

static struct receipt_entry read_one(struct suite *s, struct worker *w)
{
    pr_id id = SEND(s, "outbox");
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = AT_ONCE);
    return (struct receipt_entry){ reply_find(r, id)->row, 1 };
}

STORE_TEST(a_receipt_takes_one_round_trip) /* B11 */
{
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = suite_join(s, "outbox");
    struct receipt_entry first = read_one(s, w), second = read_one(s, w);
    start(w, &first); /* all is prepared by now */
    unsigned before = proxy_round_trips(proxy);
    start(w, &second);
    CHECK_EQ(proxy_round_trips(proxy) - before, 1);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.state = STATE_IN_FLIGHT)), 2);
    end_of_wire(s, proxy);
}

STORE_TEST(the_verdict_of_a_single_message_takes_one_round_trip) /* B11 */
{
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = suite_join(s, "outbox");
    unsigned round_trips = 0;
    for (int i = 0; i < 2; i++) {
        struct receipt_entry entry = read_one(s, w);
        pr_id id = w->reply->rows[0].m.id;
        start(w, &entry);
        uint64_t number = w->number - 1;
        struct verdict sent = { .kind = VERDICT_COMPLETE, .row = entry.row, .id = id, .number = 1 };
        unsigned before = proxy_round_trips(proxy);
        CYCLE(w, .verdicts = &sent, .verdict_count = 1, .closed = &number, .closed_count = 1);
        CHECK_EQ(w->reply->answers[0], PR_OK);
        round_trips = proxy_round_trips(proxy) - before;
    }
    CHECK_EQ(round_trips, 1);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"))), 0);
    end_of_wire(s, proxy);
}

STORE_TEST(a_receipt_of_one_that_was_buried_is_not_written) /* B26 */
{
    PGconn *pg = suite_pg_connect();
    struct worker *w = suite_join(s, "outbox");
    struct receipt_entry entry = read_one(s, w);
    suite_pg_do(pg, "DELETE FROM %s.instance");
    suite_pg_do(pg, "DELETE FROM %s.claim");
    CHECK_EQ(CYCLE_TRY(w, .receipt = &entry, .receipt_count = 1), PR_ELEASE);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.claim"), 0);
    PQfinish(pg);
}

STORE_TEST(a_receipt_of_one_whose_epoch_is_over_is_not_written) /* B26 */
{
    PGconn *pg = suite_pg_connect();
    struct worker *w = suite_join(s, "outbox");
    struct receipt_entry entry = read_one(s, w);
    suite_pg_do(pg, "UPDATE %s.instance SET epoch = epoch + 1");
    CHECK_EQ(CYCLE_TRY(w, .receipt = &entry, .receipt_count = 1), PR_ELEASE);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.claim WHERE rows <> '{}'"), 0);
    PQfinish(pg);
}

STORE_TEST(a_receipt_tells_who_lost_its_lanes_meanwhile) /* B26 */
{
    PGconn *pg = suite_pg_connect();
    struct worker *w = suite_join(s, "outbox");
    struct receipt_entry entry = read_one(s, w);
    suite_pg_do(pg, "UPDATE %s.instance SET lanes = lanes & 1");
    CHECK_EQ(start(w, &entry)->lanes_owned, LANES_ALL); /* nobody else has them: they were taken again */
    PQfinish(pg);
}

STORE_TEST(a_receipt_whose_answer_was_lost_is_found_by_looking) /* B7, B27 */
{
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = suite_join(s, "outbox");
    struct receipt_entry entry = read_one(s, w);
    const struct cycle cycle = { .receipt = &entry, .receipt_count = 1 };
    proxy_set(proxy, PROXY_CUT_ANSWER);
    CHECK_EQ(worker_try(w, &cycle), PR_EUNCERTAIN);
    worker_cycle(w, &cycle);
    CHECK(w->reply->replayed);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.state = STATE_IN_FLIGHT)), 1);
    end_of_wire(s, proxy);
}

/* What is announced in the same cycle as marks are made is on disk, too (T5). */
STORE_TEST(a_plain_cycle_with_marks_writes_its_receipt) /* B90 */
{
    PGconn *pg = suite_pg_connect();
    s->dedupe_us = PR_SECONDS(3600);
    struct drain d = drain_begin(s, 8 * AT_ONCE);
    struct cycle cycle = drain_cycle(&d);
    struct effect marks[AT_ONCE];
    pr_id next = SEND(s, "outbox");
    struct receipt_entry entry = { suite_get(s, next)->row, 1 };
    for (size_t i = 0; i < d.count; i++) {
        CHECK(mark_of_verdict(&d.verdicts[i], d.w->box, PR_STR("e"), s->dedupe_us, &marks[i]));
        marks[i].verdict = i;
    }
    cycle.effects = marks;
    cycle.effect_count = d.count;
    cycle.receipt = &entry;
    cycle.receipt_count = 1;
    worker_cycle(d.w, &cycle);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.claim WHERE cardinality(rows) = 1"), 1);
    PQfinish(pg);
}

/* ---- What is started by the cycle that reads it -------------------------------------------------------------- */

static const struct cycle start_cycle = { .fresh_rows = 10, .fresh_bytes = 1 << 20, .start_fresh = 4 };

static struct worker *start_worker(struct suite *s)
{
    struct worker *w = suite_join(s, "outbox");
    for (int i = 0; i < 2; i++) { /* the first rows are looked at more closely */
        SEND(s, "outbox");
        worker_cycle(w, &start_cycle);
    }
    CHECK_EQ(w->reply->started, STARTED_ALL);
    return w;
}

STORE_TEST(a_message_is_read_and_announced_in_two_round_trips) /* B11 */
{
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = start_worker(s);
    SEND(s, "outbox");
    unsigned before = proxy_round_trips(proxy);
    CHECK_EQ(worker_cycle(w, &start_cycle)->started, STARTED_ALL);
    CHECK_EQ(proxy_round_trips(proxy) - before, 2);
    end_of_wire(s, proxy);
}

STORE_TEST(what_a_lost_answer_has_started_is_told_to_be_closed) /* B7, B27 */
{
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = start_worker(s);
    pr_id id = SEND(s, "outbox");
    proxy_set(proxy, PROXY_CUT_ANSWER);
    CHECK_EQ(worker_try(w, &start_cycle), PR_EUNCERTAIN);
    worker_cycle(w, &start_cycle);
    CHECK(w->reply->replayed);
    CHECK_EQ(w->reply->started, STARTED_UNKNOWN);
    CHECK(reply_find(w->reply, id) != NULL);
    end_of_wire(s, proxy);
}

STORE_TEST(what_never_arrived_is_started_when_it_is_asked_again_over_the_same_connection) /* B7 */
{
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = start_worker(s);
    SEND(s, "outbox");
    proxy_set(proxy, PROXY_CUT_COMMIT);
    CHECK_EQ(worker_try(w, &start_cycle), PR_EUNCERTAIN);
    worker_cycle(w, &start_cycle);
    CHECK(!w->reply->replayed);
    CHECK_EQ(w->reply->started, STARTED_NONE); /* over another connection commits may have been lost */
    CHECK(w->reply->history_changed);
    end_of_wire(s, proxy);
}

struct held_up {
    pthread_t thread;
    struct worker *w;
    int rc;
};

static void *held_up_run(void *arg)
{
    struct held_up *h = arg;
    h->rc = worker_try(h->w, &start_cycle);
    return NULL;
}

/* A cycle that has seen who it is and what operators did, and waits to read: meanwhile this happens. */
static const struct cycle_reply *meanwhile(struct held_up *h, const char *sql)
{
    PGconn *pg = suite_pg_connect(), *looker = suite_pg_connect();
    suite_pg_do(pg, "BEGIN");
    suite_pg_do(pg, "LOCK TABLE %s.claim IN ACCESS EXCLUSIVE MODE");
    CHECK_EQ(pthread_create(&h->thread, NULL, held_up_run, h), 0);
    while (suite_pg_number(looker,
                           "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '%s.claim'::regclass") == 0)
        usleep(1000);
    suite_pg_do(looker, sql);
    suite_pg_do(pg, "COMMIT");
    pthread_join(h->thread, NULL);
    PQfinish(pg);
    PQfinish(looker);
    return h->w->reply;
}

/* It may be about one that was stored before, and that what was read must wait behind. */
STORE_TEST(nothing_is_started_that_came_behind_a_notice_which_was_not_heard) /* B51 */
{
    struct held_up h = { .w = start_worker(s) };
    pr_id id = SEND(s, "outbox");
    const struct cycle_reply *r =
        meanwhile(&h, "INSERT INTO %s.control (box, kind, \"row\", seq) VALUES ('outbox', 1, 0, 0)");
    CHECK_EQ(h.rc, PR_OK);
    CHECK_EQ(r->started, STARTED_NONE);
    CHECK(reply_find(r, id) != NULL);
    CHECK(suite_get(s, id)->state != STATE_IN_FLIGHT);
    CHECK_EQ(worker_cycle(h.w, &start_cycle)->notice_count, 1);
}

STORE_TEST(who_is_buried_while_it_reads_starts_nothing) /* B26 */
{
    struct held_up h = { .w = start_worker(s) };
    pr_id id = SEND(s, "outbox");
    const struct cycle_reply *r = meanwhile(&h, "UPDATE %s.instance SET epoch = epoch + 1");
    CHECK_EQ(h.rc, PR_OK);
    CHECK_EQ(r->started, STARTED_NONE);
    CHECK(suite_get(s, id)->state != STATE_IN_FLIGHT);
    CHECK_EQ(worker_try(h.w, &start_cycle), PR_ELEASE);
}
