/* Finding new messages on a real server: each committed row is read once, whatever the order in
 * which places are drawn and transactions end (blueprint: S1 to S6). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "store/suite.h"
#include "store/suite_postgres.h"

static size_t count_type(const struct cycle_reply *r, const char *type)
{
    size_t count = 0;
    for (size_t i = 0; i < r->row_count; i++)
        count += slice_eq_cstr(r->rows[i].m.type, type);
    return count;
}

/* How many rows of this type come in one cycle. */
static size_t read_type(struct worker *w, const char *type)
{
    return count_type(CYCLE(w, .fresh_rows = 1000), type);
}

/* ---- S1 --------------------------------------------------------------------------- */

/* No transaction has ended since it began, so PostgreSQL's own xmax is not above its xid. */
STORE_TEST(the_newest_transaction_of_all_is_not_forgotten) /* S1, B10 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *sender = suite_pg_connect();
    for (int i = 0; i < 20; i++) {
        suite_pg_do(sender, "BEGIN");
        suite_pg_do(sender, "INSERT INTO %s.outbox (type) VALUES ('late')");
        for (int k = 0; k < 3; k++)
            CHECK_EQ(read_type(w, "late"), 0);
        suite_pg_do(sender, "COMMIT");
        CHECK_EQ(read_type(w, "late"), 1);
        CHECK_EQ(read_type(w, "late"), 0);
    }
    PQfinish(sender);
}

static void copy_rows(PGconn *pg, const char *type, int count)
{
    char text[128];
    snprintf(text, sizeof(text), "COPY %s.outbox (type) FROM STDIN", suite_pg_schema());
    PQclear(PQexec(pg, text));
    for (int i = 0; i < count; i++) {
        int size = snprintf(text, sizeof(text), "%s\n", type);
        CHECK_EQ(PQputCopyData(pg, text, size), 1);
    }
    CHECK_EQ(PQputCopyEnd(pg, NULL), 1);
    PGresult *result;
    while ((result = PQgetResult(pg)) != NULL) {
        CHECK_EQ(PQresultStatus(result), PGRES_COMMAND_OK);
        PQclear(result);
    }
}

/* Whoever asks for the default of xid must not have drawn a place yet.  The first row of a
 * transaction is enough: later ones have the xid already. */
static void watch_defaults(PGconn *pg)
{
    suite_pg_do(pg, "CREATE FUNCTION %s.watched() RETURNS xid8 LANGUAGE plpgsql AS $$ BEGIN"
                    " IF pg_current_xact_id_if_assigned() IS NULL AND (SELECT last_value FROM %s.outbox_seq_seq)"
                    " <> current_setting('test.last')::bigint THEN RAISE EXCEPTION 'the place was drawn first'; END IF;"
                    " RETURN pg_current_xact_id(); END $$");
    suite_pg_do(pg, "ALTER TABLE %s.outbox ALTER xid SET DEFAULT %s.watched()");
}

static void watch_again(PGconn *pg)
{
    suite_pg_do(pg, "SELECT set_config('test.last', last_value::text, false) FROM %s.outbox_seq_seq");
}

/* Every way to write a row draws the xid before the place. */
STORE_TEST(every_way_to_insert_draws_its_xid_first) /* S1 */
{
    static const char *const ways[] = {
        "INSERT INTO %s.outbox (type) VALUES ('t')",
        "INSERT INTO %s.outbox (type) VALUES ('t'), ('t'), ('t')",
        "INSERT INTO %s.outbox (type) SELECT 't' FROM generate_series(1, 3)",
        "INSERT INTO %s.outbox (payload, type) SELECT '', 't' FROM generate_series(3, 1, -1) i ORDER BY i",
        "INSERT INTO %s.outbox (type) VALUES ('t') ON CONFLICT DO NOTHING RETURNING seq",
        "WITH x AS (INSERT INTO %s.outbox (type) VALUES ('t') RETURNING 1) SELECT * FROM x",
        "DO $$ BEGIN INSERT INTO %s.outbox (type) VALUES ('t'); EXCEPTION WHEN division_by_zero THEN RAISE; END $$",
        "SELECT %s.send(type => 't', payload => 'p')",
    };
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('first')");
    watch_defaults(pg);
    for (size_t i = 0; i < ARRAY_LENGTH(ways); i++) {
        watch_again(pg);
        suite_pg_do(pg, ways[i]);
    }
    watch_again(pg);
    copy_rows(pg, "t", 3);
    PQfinish(pg);
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(read_type(w, "t"), 3 * 3 + 5 + 3);
}

/* ---- S1: a cycle that is held up ---------------------------------------------------- */

/* A cycle that sends something into a box ("": it does not), and is held up somewhere. */
struct held {
    struct worker *w;
    const char *box;
    pthread_t thread;
};

static void *held_run(void *arg)
{
    struct held *h = arg;
    struct pr_message m = { .type = PR_STR("effect") };
    struct effect effect = { .verdict = EFFECT_ALWAYS, .box = slice_from(h->box), .message = &m };
    pr_id_new(&m.id);
    CYCLE(h->w, .fresh_rows = 10, .effects = &effect, .effect_count = h->box[0] != '\0');
    return NULL;
}

/* Until somebody waits for the lock that stands in the way. */
static void wait_for_waiter(PGconn *pg)
{
    int64_t end_us = clock_mono_us(clock_system()) + PR_SECONDS(10);
    while (suite_pg_number(
               pg, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 77") == 0) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        usleep(1000);
    }
}

/* Of two senders one has the newer xid and the lower place, and only the other one commits.  So
 * PostgreSQL's snapshot of that moment shows the higher place, and ends below the newer xid. */
static void send_out_of_order(PGconn *late, PGconn *other)
{
    suite_pg_do(other, "BEGIN");
    suite_pg_do(other, "SELECT pg_current_xact_id()");
    suite_pg_do(late, "BEGIN");
    suite_pg_do(late, "INSERT INTO %s.outbox (type, stream) VALUES ('late', 'same lane')");
    suite_pg_do(other, "INSERT INTO %s.outbox (type, stream) VALUES ('other', 'same lane')");
    suite_pg_do(other, "COMMIT");
}

/* While a cycle waits for the lock 77 somewhere, two transactions begin.  Wherever that was: each
 * row is read once. */
static void check_held_cycle(struct worker *w, const char *box)
{
    struct held h = { .w = w, .box = box };
    PGconn *pg = suite_pg_connect(), *late = suite_pg_connect(), *other = suite_pg_connect();
    CYCLE(w, .fresh_rows = 10);
    suite_pg_do(pg, "SELECT pg_advisory_lock(77)");
    CHECK_EQ(pthread_create(&h.thread, NULL, held_run, &h), 0);
    wait_for_waiter(pg);
    send_out_of_order(late, other);
    suite_pg_do(pg, "SELECT pg_advisory_unlock(77)");
    pthread_join(h.thread, NULL);
    suite_pg_do(late, "COMMIT"); /* before the first check: whoever fails must leave no transaction behind */
    CHECK_EQ(count_type(w->reply, "late"), 0);
    CHECK_EQ(count_type(w->reply, "effect"), strcmp(box, "outbox") == 0);
    size_t others = count_type(w->reply, "other");
    CYCLE(w, .fresh_rows = 10);
    CHECK_EQ(count_type(w->reply, "late"), 1);
    CHECK_EQ(count_type(w->reply, "other") + others, 1);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 0);
    PQfinish(pg);
    PQfinish(late);
    PQfinish(other);
}

/* Instead of the sequence there is a view from now on. */
static void replace_sequence(const char *view)
{
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "ALTER SEQUENCE %s.outbox_seq_seq RENAME TO real_seq");
    suite_pg_do(pg, view);
    PQfinish(pg);
}

STORE_TEST(the_snapshot_is_taken_after_the_sequence_was_read) /* S1 */
{
    struct worker *w = suite_join(s, "outbox");
    replace_sequence("CREATE VIEW %s.outbox_seq_seq AS SELECT q.* FROM"
                     " (SELECT pg_advisory_lock_shared(77), pg_advisory_unlock_shared(77) OFFSET 0) p,"
                     " LATERAL (SELECT tableoid, last_value, is_called FROM %s.real_seq WHERE p IS NOT NULL) q");
    check_held_cycle(w, "");
    check_held_cycle(w, "inbox");
    check_held_cycle(w, "outbox");
}

/* A trigger makes whoever inserts wait for the lock. */
static void check_held_insert(struct worker *w, const char *when, const char *box)
{
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "CREATE OR REPLACE FUNCTION %s.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                    " PERFORM pg_advisory_lock_shared(77), pg_advisory_unlock_shared(77); RETURN NEW; END $$");
    suite_pg_do(pg, when);
    check_held_cycle(w, box);
    suite_pg_do(pg, "SET client_min_messages = warning");
    suite_pg_do(pg, "DROP FUNCTION %s.hold CASCADE");
    PQfinish(pg);
}

#define HOLD(when) "CREATE TRIGGER hold " when " FOR EACH ROW EXECUTE FUNCTION %s.hold()"

/* The cycle's own message goes elsewhere: the round was over by then. */
/* Only the nearest places are looked at first, so that a question costs what it tells. */
STORE_TEST(reading_again_goes_over_places_that_nobody_has_and_says_when_it_was_all)
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('a'), ('b')");
    suite_pg_do(pg, "SELECT setval('%s.outbox_seq_seq', 1000000)");
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('c')");
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 3);
    const struct cycle_reply *r = CYCLE(w, .reread = { .rows = 10, .from_seq = 0, .to_seq = INT64_MAX });
    CHECK_EQ(r->row_count, 2);
    CHECK(!r->reread_end);
    int64_t from_seq = r->rows[1].m.seq;
    r = CYCLE(w, .reread = { .rows = 10, .from_seq = from_seq, .after_row = r->rows[1].row, .to_seq = INT64_MAX });
    CHECK_EQ(r->row_count, 1);
    CHECK(slice_eq_cstr(r->rows[0].m.type, "c"));
    from_seq = r->rows[0].m.seq;
    uint64_t row = r->rows[0].row;
    CHECK_EQ(CYCLE(w, .reread = { .rows = 10, .from_seq = from_seq, .after_row = row, .to_seq = INT64_MAX })->row_count,
             0);
    CHECK(w->reply->reread_end);
    suite_pg_do(pg, "DELETE FROM %s.outbox");
    PQfinish(pg);
}

STORE_TEST(senders_that_begin_while_a_message_of_a_handler_is_stored_are_not_forgotten) /* S1 */
{
    struct worker *w = suite_join(s, "outbox");
    check_held_insert(w, HOLD("BEFORE INSERT ON %s.inbox"), "inbox");
    check_held_insert(w, HOLD("BEFORE INSERT ON %s.claim"), "inbox");
}

/* It comes back into the box that is read: before the round, and around the row that tells the next xid. */
STORE_TEST(senders_that_begin_while_a_message_comes_back_are_not_forgotten) /* S1 */
{
    struct worker *w = suite_join(s, "outbox");
    check_held_insert(w, HOLD("BEFORE INSERT ON %s.claim"), "outbox");
    check_held_insert(w, HOLD("AFTER INSERT ON %s.claim"), "outbox");
}

/* They began before the cycle, and its snapshot does not name the newest of all. */
STORE_TEST(a_cycle_whose_message_comes_back_does_not_forget_the_newest_transaction) /* S1 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *late = suite_pg_connect(), *other = suite_pg_connect();
    CYCLE(w, .fresh_rows = 10);
    send_out_of_order(late, other);
    held_run(&(struct held){ .w = w, .box = "outbox" });
    suite_pg_do(late, "COMMIT");
    CHECK_EQ(count_type(w->reply, "other"), 1);
    CHECK_EQ(count_type(w->reply, "effect"), 1);
    CHECK_EQ(w->reply->row_count, 2);
    CHECK_EQ(read_type(w, "late"), 1);
    CHECK_EQ(w->reply->row_count, 1);
    PQfinish(late);
    PQfinish(other);
}

/* What a SELECT may see while nextval() writes its log record: 32 numbers more than were drawn. */
STORE_TEST(a_sequence_that_shows_more_than_was_drawn_loses_nothing) /* S1 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    replace_sequence(
        "CREATE VIEW %s.outbox_seq_seq AS SELECT tableoid, last_value + 32 AS last_value, is_called FROM %s.real_seq");
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(read_type(w, "next"), 0);
        suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('next')");
        CHECK_EQ(read_type(w, "next"), 1);
    }
    PQfinish(pg);
}

/* ---- S1, S2: what is committed late --------------------------------------------------- */

STORE_TEST(rows_of_a_copy_are_read_when_it_commits) /* S1 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "BEGIN");
    copy_rows(pg, "copied", 500);
    SEND(s, "outbox", .type = PR_STR("other"));
    CHECK_EQ(read_type(w, "copied"), 0);
    suite_pg_do(pg, "COMMIT");
    CHECK_EQ(read_type(w, "copied"), 500);
    CHECK_EQ(read_type(w, "copied"), 0);
    PQfinish(pg);
}

/* ---- S4 --------------------------------------------------------------------------- */

/* An hour of traffic passes while it stays open: more places than the scan looks back. */
STORE_TEST(a_transaction_that_stays_open_for_long_holds_nobody_up_and_is_read_at_last) /* S4, B11 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *sender = suite_pg_connect(), *others = suite_pg_connect();
    suite_pg_do(sender, "BEGIN");
    suite_pg_do(sender, "INSERT INTO %s.outbox (type) VALUES ('long')");
    for (int i = 0; i < 12; i++) {
        suite_pg_do(others, "INSERT INTO %s.outbox (type) SELECT 'other' FROM generate_series(1, 900)");
        CHECK_EQ(read_type(w, "other"), 900);
        if (i == 5)
            suite_pg_do(sender, "INSERT INTO %s.outbox (type) VALUES ('long')");
        suite_advance(s, PR_SECONDS(3));
    }
    CHECK_EQ(read_type(w, "long"), 0);
    suite_pg_do(sender, "COMMIT");
    CHECK_EQ(read_type(w, "long"), 2);
    CHECK_EQ(read_type(w, "long"), 0);
    CHECK_EQ(w->reply->row_count, 0);
    PQfinish(sender);
    PQfinish(others);
}

STORE_TEST(a_prepared_transaction_is_read_when_it_is_committed) /* B29, S2 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    if (suite_pg_number(pg, "SELECT setting::int FROM pg_settings WHERE name = 'max_prepared_transactions'") == 0) {
        PQfinish(pg);
        SKIP("max_prepared_transactions of the server is not set");
    }
    suite_pg_do(pg, "BEGIN");
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('prepared')");
    suite_pg_do(pg, "PREPARE TRANSACTION '%s'");
    PQfinish(pg);
    pg = suite_pg_connect();
    for (int i = 0; i < 5; i++) {
        suite_pg_do(pg, "INSERT INTO %s.outbox (type) SELECT 'other' FROM generate_series(1, 900)");
        CHECK_EQ(read_type(w, "other"), 900);
    }
    suite_pg_do(pg, "COMMIT PREPARED '%s'");
    CHECK_EQ(read_type(w, "prepared"), 1);
    CHECK_EQ(w->reply->row_count, 1);
    PQfinish(pg);
}

/* ---- S5 --------------------------------------------------------------------------- */

STORE_TEST(when_the_sequence_has_gone_back_everything_is_read_anew) /* S5 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) SELECT 'old' FROM generate_series(1, 50)");
    CHECK_EQ(read_type(w, "old"), 50);
    suite_pg_do(pg, "TRUNCATE %s.outbox RESTART IDENTITY"); /* as a restore would */
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) SELECT 'new' FROM generate_series(1, 10)");
    CHECK_EQ(read_type(w, "new"), 10);
    CHECK_EQ(read_type(w, "new"), 0);
    CHECK(!w->reply->history_changed);
    suite_pg_do(pg, "DELETE FROM %s.outbox"); /* set back by hand: it stays in its file */
    suite_pg_do(pg, "SELECT setval('%s.outbox_seq_seq', 3)");
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) SELECT 'newer' FROM generate_series(1, 5)");
    CHECK_EQ(read_type(w, "newer"), 5);
    CHECK(w->reply->history_changed); /* whoever remembers the old ones must forget them */
    PQfinish(pg);
}

/* As a restore leaves them: with the xids of another server, some of which come here much later. */
/* The last value is where it was, so it cannot tell. */
STORE_TEST(places_that_are_drawn_again_in_one_transaction_are_read) /* S5, B28 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) SELECT 'old' FROM generate_series(1, 50)");
    CHECK_EQ(read_type(w, "old"), 50);
    CHECK_EQ(read_type(w, "old"), 0);
    suite_pg_do(pg, "BEGIN");
    suite_pg_do(pg, "TRUNCATE %s.outbox RESTART IDENTITY");
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) SELECT 'new' FROM generate_series(1, 50)");
    suite_pg_do(pg, "COMMIT");
    CHECK_EQ(store_wait(&w->session, -1, PR_SECONDS(20)), 1);
    CHECK_EQ(read_type(w, "new"), 50);
    CHECK(w->reply->history_changed); /* whoever remembers the old ones must forget them */
    CHECK_EQ(read_type(w, "new"), 0);
    PQfinish(pg);
}

/* Cycles of five seconds each, as an idle engine makes them when it renews its lease. */
static int sweeps_until(struct suite *s, struct worker *w, const char *type, size_t count)
{
    size_t found = 0;
    int cycles = 0;
    for (; found < count; cycles++) {
        CHECK(cycles < 200);
        suite_advance(s, PR_SECONDS(5));
        found += read_type(w, type);
    }
    return cycles;
}

/* Each session draws fifty places at once, so rows come below what the scan has passed, with new xids. */
STORE_TEST(a_sequence_with_a_cache_loses_nothing) /* S1, S5 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *one = suite_pg_connect(), *two = suite_pg_connect();
    suite_pg_do(one, "ALTER SEQUENCE %s.outbox_seq_seq CACHE 50");
    suite_pg_do(one, "INSERT INTO %s.outbox (type) VALUES ('first')");
    suite_pg_do(two, "INSERT INTO %s.outbox (type) VALUES ('first')");
    CHECK_EQ(read_type(w, "first"), 2);
    CHECK_EQ(read_type(w, "first"), 0);
    suite_pg_do(one, "INSERT INTO %s.outbox (type) SELECT 'low' FROM generate_series(1, 20)");
    sweeps_until(s, w, "low", 20);
    /* There is a reason to look more often from now on. */
    suite_pg_do(one, "INSERT INTO %s.outbox (type) SELECT 'lower' FROM generate_series(1, 5)");
    CHECK(sweeps_until(s, w, "lower", 5) <= 4);
    const struct store_facts *facts = &suite_query(s, QUERY_FACTS, FILTER())->facts;
    bool told = false;
    for (size_t i = 0; i < facts->warning_count; i++)
        told |= slice_contains(facts->warnings[i], PR_STR("outbox_seq_seq CACHE 1"));
    CHECK(told);
    PQfinish(one);
    PQfinish(two);
}

/* As a subscriber applies them: places and xids of the publisher, and its own sequence does not move. */
STORE_TEST(rows_that_logical_replication_applies_are_delivered) /* S5 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) SELECT 'own' FROM generate_series(1, 5)");
    CHECK_EQ(read_type(w, "own"), 5);
    suite_pg_do(pg, "SET session_replication_role = replica");
    suite_pg_do(pg, "INSERT INTO %s.outbox (xid, seq, type) OVERRIDING SYSTEM VALUE"
                    " SELECT '900000000000', g, 'future' FROM generate_series(1000, 1009) g");
    sweeps_until(s, w, "future", 10);
    suite_pg_do(pg, "INSERT INTO %s.outbox (xid, seq, type) OVERRIDING SYSTEM VALUE"
                    " SELECT '3', g, 'past' FROM generate_series(500, 509) g");
    sweeps_until(s, w, "past", 10);
    suite_pg_do(pg, "INSERT INTO %s.outbox (xid, seq, type) OVERRIDING SYSTEM VALUE"
                    " SELECT '3', g, 'below' FROM generate_series(-10, -1) g");
    sweeps_until(s, w, "below", 10);
    PQfinish(pg);
}

/* New rows are found by their places, and this one's was passed long ago: so it has a time. */
STORE_TEST(due_at_null_by_hand_means_now) /* B19 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    pr_id failed = SEND(s, "outbox"), delayed = SEND(s, "outbox", .due_us = s->wall_us + PR_SECONDS(3600));
    worker_fail(w, failed, PR_SECONDS(3600));
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 0);
    suite_pg_do(pg, "UPDATE %s.outbox SET due_at = NULL, payload = 'mended'");
    CHECK_EQ(suite_pg_number(
                 pg, "SELECT count(*) FROM %s.outbox WHERE due_at BETWEEN now() - interval '1 minute' AND now()"),
             2);
    suite_advance(s, clock_wall_us(clock_system()) - s->wall_us + PR_SECONDS(1)); /* the server's clock set it */
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 2);
    CHECK(slice_eq_cstr(reply_find(w->reply, failed)->m.payload, "mended"));
    CHECK(reply_find(w->reply, delayed) != NULL);
    PQfinish(pg);
}

/* It waits behind nothing that it waited behind, and a change of the payload alone lets nobody pass.  A transaction leaves one
 * line, however many rows it changes, and none when it changes nothing that is sent. */
STORE_TEST(a_held_row_that_is_sent_elsewhere_by_hand_is_not_held_any_more) /* B19 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    pr_id moved = SEND(s, "outbox"), stays = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, suite_seen(s, moved), .kind = VERDICT_HOLD, .held_by = PR_STR("a/s")), PR_OK);
    CHECK_EQ(VERDICT(w, suite_seen(s, stays), .kind = VERDICT_HOLD, .held_by = PR_STR("a/t")), PR_OK);
    suite_pg_do(pg, "UPDATE %s.outbox SET payload = payload, due_at = due_at, failures = failures");
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.repaired"), 0);
    suite_pg_do(pg,
                "UPDATE %s.outbox SET payload = 'mended', destination = CASE held_by WHEN 'a/s' THEN 'b' ELSE '' END");
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.repaired"), 1);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox WHERE held_by IS NULL AND destination = 'b'"), 1);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox WHERE held_by = 'a/t' AND destination = ''"), 1);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .restart_lanes = LANES_ALL)->row_count, 1);
    CHECK_SLICE(reply_find(w->reply, moved)->m.destination, "b");
    CYCLE(w);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.repaired"), 0);
    PQfinish(pg);
}

STORE_TEST(rows_with_xids_of_another_server_are_read_once) /* S5 */
{
    PGconn *pg = suite_pg_connect();
    suite_pg_do(
        pg, "INSERT INTO %s.outbox (xid, type) SELECT (pg_current_xact_id()::text::bigint + i)::text::xid8, 'strange'"
            " FROM generate_series(1, 1000) i");
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(read_type(w, "strange"), 1000);
    for (int i = 0; i < 20; i++) {
        suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('other')"); /* with one of them */
        CHECK_EQ(read_type(w, "strange"), 0);
        CHECK_EQ(w->reply->row_count, 1);
    }
    PQfinish(pg);
}

/* Far below where the scan is, and with an xid that has ended long ago: nothing tells of it. */
STORE_TEST(a_row_that_was_overlooked_is_found_by_the_sweep) /* S5 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) SELECT 'old' FROM generate_series(1, 300)");
    CHECK_EQ(read_type(w, "old"), 300);
    suite_pg_do(pg, "INSERT INTO %s.outbox (xid, seq, type) OVERRIDING SYSTEM VALUE SELECT '3', i - 1000, 'lost'"
                    " FROM generate_series(1, 200) i");
    CHECK_EQ(read_type(w, "lost"), 0);
    CHECK_EQ(w->reply->row_count, 0);
    size_t found = 0, pages = 0;
    for (int minute = 0; minute < 9 && found < 200; minute++) { /* it is soon looked for more */
        suite_advance(s, PR_SECONDS(60));
        for (int i = 0; i < 4; i++, suite_advance(s, PR_SECONDS(2))) {
            found += read_type(w, "lost");
            CHECK(w->reply->row_count <= 64); /* the cost of a page */
            pages += w->reply->row_count > 0;
        }
    }
    CHECK_EQ(found, 200);
    CHECK(pages >= (300 + 200) / 64);
    PQfinish(pg);
}

/* ---- All of it at once ------------------------------------------------------------ */

#define WRITERS 6
#define ROWS_MAX 4000 /* of one writer */

struct writer {
    pthread_t thread;
    PGconn *pg;
    unsigned number;
    uint32_t rows;
    bool committed[ROWS_MAX];
    unsigned seen[ROWS_MAX];
    bool done;
};

static uint32_t write_some(struct writer *w, struct random *random, uint32_t first)
{
    char sql[512];
    uint32_t count = 1 + (uint32_t)random_below(random, 8);
    unsigned way = (unsigned)random_below(random, 4);
    const char *schema = suite_pg_schema();
    if (way == 0) {
        snprintf(sql, sizeof(sql),
                 "INSERT INTO %s.outbox (type, subject) SELECT 'w%u', i::text FROM generate_series(%u, %u) i", schema,
                 w->number, first, first + count - 1);
    } else if (way == 1) {
        snprintf(sql, sizeof(sql), "INSERT INTO %s.outbox (type, subject) VALUES ('w%u', '%u'), ('w%u', '%u')", schema,
                 w->number, first, w->number, first + 1);
        count = 2;
    } else if (way == 2) {
        snprintf(sql, sizeof(sql), "SAVEPOINT x; INSERT INTO %s.outbox (type, subject) VALUES ('w%u', '%u'); RELEASE x",
                 schema, w->number, first);
        count = 1;
    } else {
        snprintf(sql, sizeof(sql),
                 "SELECT %s.send(type => 'w%u', payload => '', stream => 's%u') FROM generate_series(1, 0)", schema,
                 w->number, w->number);
        PQclear(PQexec(w->pg, sql));
        snprintf(sql, sizeof(sql), "COPY %s.outbox (type, subject) FROM STDIN", schema);
        PQclear(PQexec(w->pg, sql));
        for (uint32_t i = 0; i < count; i++) {
            int size = snprintf(sql, sizeof(sql), "w%u\t%u\n", w->number, first + i);
            PQputCopyData(w->pg, sql, size);
        }
        PQputCopyEnd(w->pg, NULL);
        PGresult *result;
        while ((result = PQgetResult(w->pg)) != NULL)
            PQclear(result);
        return count;
    }
    PQclear(PQexec(w->pg, sql));
    return count;
}

/* Transactions of all lengths, some of which are rolled back. */
static void *writer_run(void *arg)
{
    struct writer *w = arg;
    struct random random;
    random_init(&random, w->number + 1);
    while (w->rows + 20 < ROWS_MAX) {
        uint32_t first = w->rows, count = 0;
        PQclear(PQexec(w->pg, "BEGIN"));
        unsigned pieces = 1 + (unsigned)random_below(&random, 2);
        for (unsigned i = 0; i < pieces; i++) {
            count += write_some(w, &random, first + count);
            if (random_below(&random, 8) == 0)
                usleep((useconds_t)random_below(&random, w->number == 0 ? 30000 : 2000));
        }
        bool commit = random_below(&random, 10) != 0;
        PGresult *result = PQexec(w->pg, commit ? "COMMIT" : "ROLLBACK");
        commit = commit && strcmp(PQcmdStatus(result), "COMMIT") == 0;
        PQclear(result);
        for (uint32_t i = 0; i < count; i++)
            w->committed[first + i] = commit;
        w->rows += count;
    }
    __atomic_store_n(&w->done, true, __ATOMIC_SEQ_CST);
    return NULL;
}

static struct writer writers[WRITERS];
static size_t effects_sent, effects_seen;

static void reader_note(const struct cycle_reply *r)
{
    for (size_t i = 0; i < r->row_count; i++) {
        if (slice_eq_cstr(r->rows[i].m.type, "effect")) {
            effects_seen++;
            continue;
        }
        unsigned writer = (unsigned)(r->rows[i].m.type.data[1] - '0');
        char text[16] = "";
        CHECK(writer < WRITERS && r->rows[i].m.subject.size < sizeof(text));
        memcpy(text, r->rows[i].m.subject.data, r->rows[i].m.subject.size);
        writers[writer].seen[strtoul(text, NULL, 10)]++;
    }
}

/* Read, and complete what the cycle before has read; now and then a handler sends something into
 * the same box, which is seen at once, or into another one ("": it does not). */
static size_t reader_step(struct worker *w, struct verdict *verdicts, size_t *count, const char *box)
{
    struct pr_message m = { .type = PR_STR("effect") };
    struct effect effect = { .verdict = EFFECT_ALWAYS, .box = slice_from(box), .message = &m };
    pr_id_new(&m.id);
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 200, .verdicts = verdicts, .verdict_count = *count,
                                        .effects = &effect, .effect_count = box[0] != '\0');
    effects_sent += strcmp(box, "outbox") == 0;
    for (size_t i = 0; i < *count; i++)
        CHECK_EQ(r->answers[i], PR_OK);
    reader_note(r);
    for (*count = 0; *count < r->row_count; ++*count)
        verdicts[*count] =
            (struct verdict){ .kind = VERDICT_COMPLETE, .row = r->rows[*count].row, .id = r->rows[*count].m.id };
    return r->row_count;
}

static bool writers_done(void)
{
    bool done = true;
    for (unsigned i = 0; i < WRITERS; i++)
        done = done && __atomic_load_n(&writers[i].done, __ATOMIC_SEQ_CST);
    return done;
}

STORE_TEST(what_many_senders_commit_is_read_exactly_once) /* S1 to S4, B10 */
{
    static const char *const boxes[] = { "outbox", "inbox", "" };
    struct worker *w = suite_join(s, "outbox");
    static struct verdict verdicts[200];
    size_t count = 0;
    memset(writers, 0, sizeof(writers));
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i].number = i;
        writers[i].pg = suite_pg_connect();
        CHECK_EQ(pthread_create(&writers[i].thread, NULL, writer_run, &writers[i]), 0);
    }
    effects_sent = effects_seen = 0;
    for (unsigned step = 0; !writers_done(); step++)
        reader_step(w, verdicts, &count, boxes[step % ARRAY_LENGTH(boxes)]);
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        PQfinish(writers[i].pg);
    }
    while (reader_step(w, verdicts, &count, "") > 0)
        ;
    size_t lost = 0, twice = 0, ghosts = 0, committed = 0;
    for (unsigned i = 0; i < WRITERS; i++)
        for (uint32_t k = 0; k < writers[i].rows; k++) {
            committed += writers[i].committed[k];
            lost += writers[i].committed[k] && writers[i].seen[k] == 0;
            ghosts += !writers[i].committed[k] && writers[i].seen[k] > 0;
            twice += writers[i].seen[k] > 1;
        }
    CHECK(committed > 1000);
    CHECK(effects_sent > 10);
    CHECK_EQ(effects_seen, effects_sent);
    CHECK_EQ(lost, 0);
    CHECK_EQ(twice, 0);
    CHECK_EQ(ghosts, 0);
}

/* Subtransactions use up xids; while nobody ends, all of them are between xmax and the next. */
STORE_TEST(a_sender_with_many_subtransactions_does_not_stop_the_scan) /* S1 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *sender = suite_pg_connect();
    suite_pg_do(sender, "BEGIN");
    suite_pg_do(sender, "INSERT INTO %s.outbox (type) VALUES ('many')");
    suite_pg_do(sender, "CREATE TEMP TABLE x (n int)");
    suite_pg_do(sender, "DO $$ BEGIN FOR i IN 1..70000 LOOP BEGIN INSERT INTO x VALUES (i);"
                        " EXCEPTION WHEN division_by_zero THEN END; END LOOP; END $$");
    CHECK_EQ(read_type(w, "many"), 0);
    CHECK_EQ(read_type(w, "many"), 0);
    suite_pg_do(sender, "COMMIT");
    CHECK_EQ(read_type(w, "many"), 1);
    PQfinish(sender);
}

/* ---- Where rows were seen ----------------------------------------------------------- */

/* The relay deletes rows where it saw them.  Whoever touches one, or writes the table anew, moves it. */
STORE_TEST(rows_that_lie_elsewhere_by_now_are_deleted_all_the_same) /* B11 */
{
    static const char *const moves[] = { "UPDATE %s.outbox SET subject = 'moved'", "VACUUM FULL %s.outbox" };
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    for (size_t i = 0; i < ARRAY_LENGTH(moves); i++) {
        pr_id gone = SEND(s, "outbox"), first = SEND(s, "outbox"), second = SEND(s, "outbox");
        const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10);
        CHECK_EQ(r->row_count, 3);
        struct claim a = { .row = reply_find(r, first)->row, .id = first };
        struct claim b = { .row = reply_find(r, second)->row, .id = second };
        struct claim c = { .row = reply_find(r, gone)->row, .id = gone };
        struct verdict verdicts[] = { VERDICT_OF(c, .kind = VERDICT_DISCARD), VERDICT_OF(a, .kind = VERDICT_DISCARD),
                                      VERDICT_OF(b, .kind = VERDICT_DISCARD) };
        suite_pg_do(pg, "DELETE FROM %s.outbox WHERE seq = (SELECT min(seq) FROM %s.outbox)");
        suite_pg_do(pg, moves[i]);
        r = CYCLE(w, .verdicts = verdicts, .verdict_count = 3);
        CHECK_EQ(r->answers[0], PR_UNKNOWN);
        CHECK_EQ(r->answers[1], PR_OK);
        CHECK_EQ(r->answers[2], PR_OK);
        CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox"), 0);
    }
    PQfinish(pg);
}

/* ... and in the place where it was seen there may be another one by now. */
STORE_TEST(a_row_in_the_place_of_another_is_left_alone) /* B11 */
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    pr_id old = SEND(s, "outbox");
    struct claim c = { .row = reply_find(CYCLE(w, .fresh_rows = 10), old)->row, .id = old };
    suite_pg_do(pg, "DELETE FROM %s.outbox");
    suite_pg_do(pg, "VACUUM (INDEX_CLEANUP ON) %s.outbox");
    pr_id other = SEND(s, "outbox");
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.outbox WHERE ctid = '(0,1)'"), 1); /* where the first was */
    struct verdict verdict = VERDICT_OF(c, .kind = VERDICT_DISCARD);
    CHECK_EQ(CYCLE(w, .verdicts = &verdict, .verdict_count = 1)->answers[0], PR_UNKNOWN);
    CHECK(suite_find(s, other) != NULL);
    PQfinish(pg);
}
