/* Faults between a store and its server, and how the store handles them. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy.h"
#include "store/suite.h"
#include "store/suite_postgres.h"

#define SAYS(text, words) CHECK(strstr((text), (words)) != NULL)

/* One cycle with everything that must not happen twice. */
struct step {
    pr_id id, other;
    struct claim claim;
    struct verdict verdict;
    struct tally tally;
    struct breaker_change breaker;
    struct receipt_entry entry;
    struct cycle cycle;
};

static void step_prepare(struct suite *s, struct worker *w, struct step *t)
{
    t->id = SEND(s, "outbox");
    t->other = SEND(s, "outbox");
    t->claim = worker_claim(w, t->id);
    t->verdict = (struct verdict){
        .kind = VERDICT_FAIL, .row = t->claim.row, .id = t->id, .number = 1, .reason = PR_REASON_UNKNOWN, .delay_us = 5
    };
    t->tally = (struct tally){ .endpoint = PR_STR("e"), .failed = 1, .reason = PR_REASON_UNKNOWN };
    t->breaker = (struct breaker_change){ .endpoint = PR_STR("e"), .open = true, .for_us = PR_SECONDS(5) };
    t->entry = (struct receipt_entry){ .row = suite_get(s, t->other)->row, .number = 1 };
    t->cycle = (struct cycle){ .verdicts = &t->verdict,
                               .verdict_count = 1,
                               .tallies = &t->tally,
                               .tally_count = 1,
                               .receipt = &t->entry,
                               .receipt_count = 1,
                               .closed = &t->claim.cycle,
                               .closed_count = 1,
                               .breakers = &t->breaker,
                               .breaker_count = 1,
                               .fresh_rows = 100 };
}

static void step_happened_once(struct suite *s, const struct step *t)
{
    CHECK_EQ(suite_get(s, t->id)->m.failures, 1);
    CHECK_EQ(suite_get(s, t->id)->m.attempts, 1);
    CHECK_EQ(suite_endpoint(s, "e")->failed, 1);
    CHECK_EQ(suite_endpoint(s, "e")->last_reason, PR_REASON_UNKNOWN);
    CHECK_EQ(suite_query(s, QUERY_ENDPOINTS, FILTER())->breaker_count, 1);
}

/* The reply came over the connection that the rows were read over, or the first one has landed. */
static void step_was_announced(struct suite *s, const struct step *t)
{
    CHECK_EQ(suite_get(s, t->other)->state, STATE_IN_FLIGHT);
}

/* It was made over a new connection: what was read before is not announced until it is seen again (B28). */
static void step_was_not_announced(struct suite *s, const struct worker *w, const struct step *t)
{
    CHECK(w->reply->history_changed);
    CHECK_EQ(suite_get(s, t->other)->state, STATE_READY);
}

/* Try until it does not fail any more; how often it failed. */
static int until_it_lands(struct worker *w, const struct cycle *cycle)
{
    int64_t end_us = clock_mono_us(clock_system()) + PR_SECONDS(20);
    int faults = 0;
    while (worker_try(w, cycle) != PR_OK) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        faults++;
        usleep(20000);
    }
    return faults;
}

/* ---- The wire is cut -------------------------------------------------------------- */

STORE_TEST(a_commit_whose_answer_was_lost_is_found_by_looking) /* B7, B27 */
{
    struct step t;
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = suite_join(s, "outbox");
    step_prepare(s, w, &t);
    proxy_set(proxy, PROXY_CUT_ANSWER);
    CHECK_EQ(worker_try(w, &t.cycle), PR_EUNCERTAIN);
    CHECK(strlen(w->error.text) > 0);
    worker_cycle(w, &t.cycle);
    CHECK(w->reply->replayed);
    CHECK_EQ(w->reply->row_count, 1); /* what the lost answer had read: the other one */
    step_happened_once(s, &t);
    step_was_announced(s, &t);
    CYCLE(w, .fresh_rows = 100);
    CHECK(!w->reply->replayed);
    CHECK_EQ(w->reply->row_count, 0);
    end_of_wire(s, proxy);
}

/* What a handler sent came back into the box; it is read once.  Over the new connection the scan begins anew, so
 * what is still in the box comes with it, and then no more. */
STORE_TEST(a_lost_commit_with_a_message_that_came_back_stores_it_once) /* B7, S1 */
{
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = suite_join(s, "outbox");
    struct pr_message m = { .type = PR_STR("effect"), .id = suite_id(7) };
    struct effect effect = { .verdict = EFFECT_ALWAYS, .box = PR_STR("outbox"), .message = &m };
    struct cycle cycle = { .effects = &effect, .effect_count = 1, .fresh_rows = 100 };
    SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 100)->row_count, 1);
    proxy_set(proxy, PROXY_CUT_ANSWER);
    CHECK_EQ(worker_try(w, &cycle), PR_EUNCERTAIN);
    worker_cycle(w, &cycle);
    CHECK(w->reply->replayed);
    CHECK_EQ(w->reply->row_count, 2);
    CHECK(reply_find(w->reply, m.id) != NULL);
    CHECK_EQ(CYCLE(w, .fresh_rows = 100)->row_count, 0);
    end_of_wire(s, proxy);
}

STORE_TEST(a_commit_that_never_arrived_is_made_when_it_is_asked_again) /* B7, B27 */
{
    struct step t;
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = suite_join(s, "outbox");
    step_prepare(s, w, &t);
    proxy_set(proxy, PROXY_CUT_COMMIT);
    CHECK_EQ(worker_try(w, &t.cycle), PR_EUNCERTAIN);
    worker_cycle(w, &t.cycle);
    CHECK(!w->reply->replayed);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    step_happened_once(s, &t);
    step_was_not_announced(s, w, &t);
    end_of_wire(s, proxy);
}

STORE_TEST(a_transaction_that_never_began_is_a_fault_and_nothing_is_uncertain) /* B27 */
{
    struct step t;
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = suite_join(s, "outbox");
    step_prepare(s, w, &t);
    proxy_set(proxy, PROXY_CUT_BEGIN);
    CHECK_EQ(worker_try(w, &t.cycle), PR_ESTORE);
    CHECK_EQ(suite_get(s, t.id)->m.failures, 0);
    worker_cycle(w, &t.cycle);
    CHECK(!w->reply->replayed);
    step_happened_once(s, &t);
    step_was_not_announced(s, w, &t);
    end_of_wire(s, proxy);
}

STORE_TEST(a_message_whose_commit_was_lost_is_uncertain_and_sent_again_is_a_duplicate) /* B2 */
{
    struct proxy *proxy = over_a_wire(s);
    pr_id id = suite_id(1);
    SEND(s, "outbox");
    proxy_set(proxy, PROXY_CUT_ANSWER);
    CHECK_EQ(OFFER(s, "outbox", .id = id), PR_EUNCERTAIN);
    CHECK_EQ(OFFER(s, "outbox", .id = id), PR_DUPLICATE);
    proxy_set(proxy, PROXY_CUT_BEGIN); /* all of it is one batch: nobody knows */
    CHECK_EQ(OFFER(s, "outbox", .id = suite_id(2)), PR_EUNCERTAIN);
    CHECK_EQ(OFFER(s, "outbox", .id = suite_id(2)), PR_OK);
    end_of_wire(s, proxy);
}

/* ---- The server ends a connection -------------------------------------------------- */

static void terminate_relays(PGconn *pg)
{
    suite_pg_do(pg, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'postrider'");
}

STORE_TEST(a_connection_that_ended_between_two_cycles_is_made_anew)
{
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
    terminate_relays(pg);
    until_it_lands(w, &(struct cycle){ .fresh_rows = 10 });
    CHECK_EQ(w->reply->row_count, 1); /* a crash may have ended it: what the engine holds, it drops */
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 0);
    CHECK(w->lanes == LANES_ALL);
    terminate_relays(pg);
    CHECK_EQ(suite_get(s, id)->m.attempts, 0);
    terminate_relays(pg);
    SEND(s, "outbox");
    PQfinish(pg);
}

struct job {
    struct worker *w;
    struct cycle *cycle;
    int rc;
};

static void *job_run(void *arg)
{
    struct job *job = arg;
    job->rc = worker_try(job->w, job->cycle);
    return NULL;
}

/* Until the store waits for a lock of somebody else. */
static void wait_for_blocked(PGconn *pg)
{
    int64_t end_us = clock_mono_us(clock_system()) + PR_SECONDS(10);
    while (suite_pg_number(pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postrider'"
                               " AND wait_event_type = 'Lock'") == 0) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        usleep(1000);
    }
}

STORE_TEST(a_connection_that_ended_in_the_middle_of_a_cycle_leaves_nothing_behind) /* T1 */
{
    struct step t;
    pthread_t thread;
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect(), *blocker = suite_pg_connect();
    step_prepare(s, w, &t);
    suite_pg_do(blocker, "BEGIN");
    suite_pg_do(blocker, "LOCK TABLE %s.outbox IN EXCLUSIVE MODE"); /* rows alone are not waited for */
    struct job job = { w, &t.cycle, 0 };
    CHECK_EQ(pthread_create(&thread, NULL, job_run, &job), 0);
    wait_for_blocked(pg);
    terminate_relays(pg);
    pthread_join(thread, NULL);
    CHECK(job.rc < 0 && job.rc != PR_EUNCERTAIN);
    suite_pg_do(blocker, "ROLLBACK");
    CHECK_EQ(suite_get(s, t.id)->m.failures, 0);
    worker_cycle(w, &t.cycle);
    CHECK(!w->reply->replayed);
    step_happened_once(s, &t);
    step_was_not_announced(s, w, &t);
    PQfinish(pg);
    PQfinish(blocker);
}

STORE_TEST(a_deadlock_is_tried_again)
{
    pthread_t thread;
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect(), *other = suite_pg_connect();
    pr_id a = SEND(s, "outbox", .id = suite_id(1)), b = SEND(s, "outbox", .id = suite_id(2));
    struct claim ca = suite_seen(s, a), cb = suite_seen(s, b);
    struct verdict v[] = { VERDICT_OF(ca, .kind = VERDICT_COMPLETE), VERDICT_OF(cb, .kind = VERDICT_COMPLETE) };
    struct cycle cycle = { .verdicts = v, .verdict_count = 2 };
    suite_pg_do(other, "BEGIN");
    suite_pg_do(other, "SELECT FROM %s.outbox WHERE seq = 2 FOR UPDATE");
    struct job job = { w, &cycle, 0 };
    CHECK_EQ(pthread_create(&thread, NULL, job_run, &job), 0);
    wait_for_blocked(pg);
    /* One of the two is the victim; whichever it is, the cycle lands. */
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT FROM %s.outbox WHERE seq = 1 FOR UPDATE", suite_pg_schema());
    PQclear(PQexec(other, sql));
    PQclear(PQexec(other, "ROLLBACK"));
    pthread_join(thread, NULL);
    CHECK_EQ(job.rc, PR_OK);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EQ(w->reply->answers[1], PR_OK);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 0);
    PQfinish(pg);
    PQfinish(other);
}

/* A cycle that waits for a lock gives up in time to renew its lease (B38). */
STORE_TEST(a_lock_that_somebody_holds_for_long_is_told_and_not_waited_for)
{
    struct step t;
    struct worker *w = suite_join(s, "outbox");
    PGconn *blocker = suite_pg_connect();
    step_prepare(s, w, &t);
    t.cycle.lease_us = PR_MILLISECONDS(600);
    suite_pg_do(blocker, "BEGIN");
    suite_pg_do(blocker, "LOCK TABLE %s.outbox IN EXCLUSIVE MODE"); /* rows alone are not waited for */
    int64_t start_us = clock_mono_us(clock_system());
    CHECK_EQ(worker_try(w, &t.cycle), PR_EBUSY);
    CHECK(clock_mono_us(clock_system()) - start_us < PR_SECONDS(5)); /* 0.2 s when nobody is busy */
    SAYS(w->error.text, "pg_stat_activity");
    CHECK_EQ(CYCLE(w, .fresh_rows = 0)->lanes_owned, LANES_ALL); /* the lease can be renewed meanwhile */
    suite_pg_do(blocker, "ROLLBACK");
    worker_cycle(w, &t.cycle);
    step_happened_once(s, &t);
    step_was_announced(s, &t);
    PQfinish(blocker);
}

/* As the server says it, where a transaction lost against another. */
STORE_TEST(a_serialization_failure_and_a_deadlock_are_tried_again) /* B38 */
{
    struct step t;
    char sql[200];
    struct worker *w = suite_join(s, "outbox");
    PGconn *pg = suite_pg_connect();
    step_prepare(s, w, &t);
    suite_pg_do(pg, "CREATE SEQUENCE %s.losses");
    suite_pg_do(
        pg, "CREATE FUNCTION %s.lose() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n bigint := nextval('%s.losses');"
            " BEGIN IF n <= 2 THEN RAISE EXCEPTION 'it lost'"
            " USING ERRCODE = CASE n WHEN 1 THEN '40001' ELSE '40P01' END; END IF; RETURN NEW; END $$");
    suite_pg_do(pg, "CREATE TRIGGER lose BEFORE INSERT ON %s.claim FOR EACH ROW EXECUTE FUNCTION %s.lose()");
    worker_cycle(w, &t.cycle);
    CHECK(!w->reply->replayed);
    CHECK_EQ(suite_pg_number(pg, "SELECT last_value FROM %s.losses"), 3);
    step_happened_once(s, &t);
    step_was_announced(s, &t);
    for (size_t i = 0; i < 2; i++) { /* who loses each time is told to come back later */
        snprintf(sql, sizeof(sql),
                 "CREATE OR REPLACE FUNCTION %%s.lose() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$ BEGIN RAISE EXCEPTION 'it lost' USING ERRCODE = '%s'; END $$",
                 i == 0 ? "40001" : "40P01");
        suite_pg_do(pg, sql);
        CHECK_EQ(worker_try(w, &t.cycle), PR_EBUSY);
        SAYS(w->error.text, "try again");
    }
    PQfinish(pg);
}

#define CROWD_MAX 200

STORE_TEST(when_all_connections_are_in_use_it_waits_for_one)
{
    static PGconn *crowd[CROWD_MAX];
    size_t count = 0;
    struct store store = { 0 };
    server_folder();
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    PGconn *pg = suite_pg_connect();
    terminate_relays(pg);
    do {
        CHECK(count < CROWD_MAX);
        crowd[count] = PQconnectdb(getenv("POSTRIDER_TEST_PG"));
    } while (PQstatus(crowd[count++]) == CONNECTION_OK);
    CHECK_EQ(CYCLE_TRY(w, .fresh_rows = 10), PR_EBUSY);
    SAYS(w->error.text, "max_connections");
    CHECK_EQ(store_open(&(struct store_options){ .url = s->url }, &store, &s->error), PR_EBUSY);
    SAYS(s->error.text, "max_connections");
    while (count > 0)
        PQfinish(crowd[--count]);
    until_it_lands(w, &(struct cycle){ .fresh_rows = 10 });
    CHECK_EQ(w->lanes, LANES_ALL);
    CHECK_EQ(suite_get(s, id)->m.attempts, 0);
    PQfinish(pg);
}

/* What a sender committed with synchronous_commit = off can vanish when the server dies; what is on a
 * receipt cannot any more. */
STORE_TEST(what_is_handed_out_is_on_disk) /* T5 */
{
    server_folder();
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "ALTER ROLE CURRENT_USER SET synchronous_commit = off");
    suite_reopen(s);
    struct worker *w = suite_join(s, "outbox");
    PGconn *sender = suite_pg_connect();
    for (int i = 0; i < 5; i++) {
        pr_id id = SEND(s, "outbox");
        suite_pg_do(sender, "INSERT INTO %s.ledger (type) VALUES ('t')"); /* its commit flushes nothing */
        suite_pg_do(sender, "SELECT set_config('test.lsn', pg_current_wal_insert_lsn()::text, false)");
        worker_claim(w, id);
        CHECK_EQ(
            suite_pg_number(sender, "SELECT (pg_current_wal_flush_lsn() >= current_setting('test.lsn')::pg_lsn)::int"),
            1);
    }
    suite_pg_do(pg, "ALTER ROLE CURRENT_USER RESET synchronous_commit");
    PQfinish(sender);
    PQfinish(pg);
}

/* ---- The server dies ---------------------------------------------------------------- */

static void server_restart(void)
{
    const char *command = getenv("POSTRIDER_TEST_PG_RESTART");
    if (command == NULL)
        SKIP("the server is not ours to break");
    CHECK_EQ(system(command), 0);
}

STORE_TEST(a_server_that_was_killed_and_is_back_is_gone_on_with) /* B28, S5 */
{
    struct step t;
    server_folder();
    struct worker *w = suite_join(s, "outbox");
    step_prepare(s, w, &t);
    CYCLE(w, .fresh_rows = 100);
    server_restart();
    int faults = until_it_lands(w, &t.cycle);
    CHECK(faults <= 50);
    step_happened_once(s, &t);
    step_was_not_announced(s, w, &t);
    pr_id later = SEND(s, "outbox");
    CHECK(reply_find(CYCLE(w, .fresh_rows = 100), later) != NULL);
    CHECK_EQ(CYCLE(w, .fresh_rows = 100)->row_count, 0);
}

static bool answers(PGconn *pg)
{
    PGresult *result = PQstatus(pg) == CONNECTION_OK ? PQexec(pg, "SELECT 1") : NULL;
    bool does = PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    return does;
}

/* One of its processes is killed, and the server begins anew with all of them; the postmaster goes on. */
static void server_crash(void)
{
    PGconn *victim = suite_pg_connect(), *witness = suite_pg_connect();
    int64_t end_us = clock_mono_us(clock_system()) + PR_SECONDS(20);
    CHECK_EQ(kill(PQbackendPID(victim), SIGKILL), 0);
    while (answers(witness)) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        usleep(2000);
    }
    PQfinish(victim);
    while (!answers(witness)) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        usleep(20000);
        PQreset(witness);
    }
    PQfinish(witness);
}

/* Places were drawn and passed, a crash took them back before the log was written, and they are given out
 * once more: as many as before, so that the sequence does not tell. */
STORE_TEST(places_that_a_crash_gave_out_again_are_read) /* S5 */
{
    static const char LAST[] = "SELECT last_value FROM %s.outbox_seq_seq";
    char sql[128];
    PGconn *pg = suite_pg_connect();
    server_folder();
    suite_pg_do(pg, "ALTER SYSTEM SET wal_writer_delay = '10s'");
    suite_pg_do(pg, "SELECT pg_reload_conf()");
    struct worker *w = suite_join(s, "outbox");
    suite_pg_do(pg,
                "BEGIN; INSERT INTO %s.outbox (type, payload) SELECT 't', '' FROM generate_series(1, 400); ROLLBACK");
    CHECK_EQ(CYCLE(w, .fresh_rows = 1000)->row_count, 0); /* passes them */
    long long drawn = suite_pg_number(pg, LAST);
    PQfinish(pg);

    server_crash();
    pg = suite_pg_connect();
    suite_pg_do(pg, "ALTER SYSTEM RESET wal_writer_delay");
    suite_pg_do(pg, "SELECT pg_reload_conf()");
    long long lost = drawn - suite_pg_number(pg, LAST);
    if (lost <= 0) {
        PQfinish(pg);
        SKIP("the server wrote its log in the very moment");
    }
    snprintf(sql, sizeof sql, "INSERT INTO %%s.outbox (type, payload) SELECT 't', '' FROM generate_series(1, %lld)",
             lost);
    suite_pg_do(pg, sql);
    CHECK_EQ(suite_pg_number(pg, LAST), drawn);
    until_it_lands(w, &(struct cycle){ .fresh_rows = 1000 });
    CHECK_EQ(w->reply->row_count, lost);
    PQfinish(pg);
}

/* ---- Bad input ------------------------------------------------------------------------ */

static const char *open_error(const char *url)
{
    static struct pr_error error;
    struct store store = { 0 };
    const struct store_options options = { .url = url };
    int rc = store_open(&options, &store, &error);
    if (rc == PR_OK) {
        rc = store_check(&store, &error);
        store_close(&store);
    }
    CHECK(rc < 0);
    return error.text;
}

STORE_TEST(whoever_cannot_connect_is_told_why_and_what_to_do)
{
    char url[512];
    const char *folder = server_folder();
    (void)s;
    SAYS(open_error("postgres://u@127.0.0.1:1/db"), "is the server running");
    SAYS(open_error("postgres://u@no-such-host.invalid/db"), "host");
    SAYS(open_error("postgres://u@h/db?nonsense=1"), "invalid URI query parameter");
    SAYS(open_error("postgres://u@h/db?schema=no-name"), "schema");
    snprintf(url, sizeof(url), "postgresql:///nowhere?host=%s&user=postgres", folder);
    SAYS(open_error(url), "create the database");
    snprintf(url, sizeof(url), "postgres:///postgres?host=%s&user=nobody_at_all", folder);
    SAYS(open_error(url), "create the role");
    snprintf(url, sizeof(url), "postgres:///postgres?host=%s&user=postgres&schema=not_there", folder);
    SAYS(open_error(url), "run postrider init");
}

STORE_TEST(a_wrong_password_is_told)
{
    char url[512];
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg,
                "DO $$ BEGIN CREATE ROLE locked LOGIN PASSWORD 'right'; EXCEPTION WHEN duplicate_object THEN END $$");
    snprintf(url, sizeof(url), "postgres://locked:wrong@/postgres?host=%s", server_folder());
    (void)s;
    SAYS(open_error(url), "check the user and the password");
    snprintf(url, sizeof(url), "postgres://locked@/postgres?host=%s", server_folder());
    SAYS(open_error(url), "PGPASSWORD");
    PQfinish(pg);
}

STORE_TEST(a_server_that_is_too_old_is_told)
{
    char url[512];
    struct proxy *proxy = proxy_start(server_folder());
    (void)s;
    snprintf(url, sizeof(url), "postgres:///postgres?host=%s&user=postgres", proxy_folder(proxy));
    proxy_set(proxy, PROXY_OLD_SERVER);
    SAYS(open_error(url), "PostgreSQL 13: Postrider needs 14 or newer");
    proxy_stop(proxy);
}

/* Whatever stands where our tables should be is left alone. */
STORE_TEST(a_schema_of_somebody_else_is_left_alone)
{
    char url[512];
    struct store store = { 0 };
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "CREATE SCHEMA theirs_%s");
    suite_pg_do(pg, "CREATE TABLE theirs_%s.outbox (id int)");
    snprintf(url, sizeof(url), "postgres:///postgres?host=%s&user=postgres&schema=theirs_%s", server_folder(),
             suite_pg_schema());
    CHECK_OK(store_open(&(struct store_options){ .url = url }, &store, &s->error), &s->error);
    CHECK_EQ(store_migrate(&store, NULL, 0, &s->error), PR_EINVAL);
    SAYS(s->error.text, "outbox");
    suite_pg_do(pg, "DROP TABLE theirs_%s.outbox");
    suite_pg_do(pg, "CREATE TABLE theirs_%s.meta (x int)");
    CHECK_EQ(store_migrate(&store, NULL, 0, &s->error), PR_ESCHEMA);
    SAYS(s->error.text, "another schema");
    CHECK_EQ(store_check(&store, &s->error), PR_ESCHEMA);
    SAYS(s->error.text, "another schema");
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM pg_class WHERE relnamespace = 'theirs_%s'::regnamespace"), 1);
    suite_pg_do(pg, "DROP SCHEMA theirs_%s CASCADE");
    store_close(&store);
    PQfinish(pg);
}

STORE_TEST(a_schema_that_is_not_ours_is_not_touched)
{
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "CREATE TABLE %s.before AS SELECT value FROM %s.meta WHERE key = 'schema_version'");
    suite_pg_do(pg, "UPDATE %s.meta SET value = '99' WHERE key = 'schema_version'");
    CHECK_EQ(store_check(&s->store, &s->error), PR_ESCHEMA);
    SAYS(s->error.text, "upgrade");
    CHECK_EQ(store_migrate(&s->store, NULL, 0, &s->error), PR_ESCHEMA);
    suite_pg_do(pg, "UPDATE %s.meta SET value = '1' WHERE key = 'schema_version'");
    CHECK_EQ(store_check(&s->store, &s->error), PR_ESCHEMA);
    SAYS(s->error.text, "postrider init");
    suite_pg_do(pg, "UPDATE %s.meta SET value = b.value FROM %s.before b WHERE key = 'schema_version'");
    suite_pg_do(pg, "CREATE TABLE %s.mine (x int)");
    static const struct store_box boxes[] = { { "mine", NULL } };
    CHECK_EQ(store_migrate(&s->store, boxes, 1, &s->error), PR_EINVAL);
    SAYS(s->error.text, "mine");
    suite_pg_do(pg, "ALTER TABLE %s.outbox DROP COLUMN subject CASCADE");
    CHECK_EQ(OFFER(s, "outbox"), PR_ESCHEMA);
    SAYS(s->error.text, "subject");
    PQfinish(pg);
}

STORE_TEST(a_schema_of_an_older_version_is_upgraded_and_keeps_what_it_has) /* I18 */
{
    static const char *const with_payload[] = { "outbox", "inbox",       "turns", "activities",
                                                "ledger", "dead_letter", "done" };
    PGconn *pg = suite_pg_connect();
    SEND(s, "outbox");
    suite_pg_do(pg, "DROP VIEW %s.open_breaker CASCADE");
    suite_pg_do(pg, "DROP VIEW %s.schedules");
    suite_pg_do(pg, "DROP TABLE %s.breaker");
    suite_pg_do(pg, "DROP TABLE %s.evidence");
    suite_pg_do(pg, "DROP TABLE %s.ended");
    suite_pg_do(pg, "DROP TABLE %s.event, %s.event_stream, %s.flow_history");
    suite_pg_do(pg, "DROP TABLE %s.flow_state, %s.seen");
    suite_pg_do(pg, "ALTER TABLE %s.claim DROP COLUMN refused, DROP COLUMN busy");
    suite_pg_do(pg, "DROP TABLE %s.wal_slot");
    suite_pg_do(pg, "DROP TABLE %s.wal_place");
    suite_pg_do(pg, "DROP INDEX %s.dead_letter_group");
    suite_pg_do(pg, "DROP INDEX %s.dead_letter_endpoint");
    suite_pg_do(pg, "DROP INDEX %s.dead_letter_stream");
    suite_pg_do(pg, "DROP INDEX %s.dead_letter_died");
    suite_pg_do(pg, "DROP INDEX %s.dead_letter_print");
    suite_pg_do(pg, "DROP TABLE %s.raised_warning");
    suite_pg_do(pg, "ALTER TABLE %s.dead_letter DROP COLUMN edited_as CASCADE");
    suite_pg_do(pg,
                "ALTER TABLE %s.endpoint DROP COLUMN last_failed_at CASCADE, DROP COLUMN last_reason CASCADE,"
                " DROP COLUMN last_code CASCADE, DROP COLUMN last_error CASCADE, DROP COLUMN failed_in_row CASCADE");
    suite_pg_do(pg, "ALTER TABLE %s.tally DROP COLUMN failed_at CASCADE, DROP COLUMN reason CASCADE,"
                    " DROP COLUMN code CASCADE, DROP COLUMN error CASCADE, DROP COLUMN sent_at CASCADE");
    suite_pg_do(pg, "SET client_min_messages = warning");
    suite_pg_do(pg, "DROP FUNCTION %s.send_row");
    suite_pg_do(pg, "DROP FUNCTION %s.check_message CASCADE");
    suite_pg_do(pg, "DROP FUNCTION %s.note_repair CASCADE");
    suite_pg_do(pg, "ALTER TABLE %s.instance DROP COLUMN schema_version");
    for (size_t i = 0; i < ARRAY_LENGTH(with_payload); i++) {
        char sql[512];
        snprintf(sql, sizeof(sql),
                 "ALTER TABLE %%s.%s DROP COLUMN payload;"
                 "ALTER TABLE %%s.%s RENAME COLUMN payload_bytes TO payload",
                 with_payload[i], with_payload[i]);
        suite_pg_do(pg, sql);
    }
    suite_pg_do(pg, "INSERT INTO %s.endpoint (name, sent) VALUES ('e', 7)");
    suite_pg_do(
        pg,
        "INSERT INTO %s.outbox (id, lane, row_id, type, destination, created_at, due_at) SELECT id, uuid_hash(id) & 63,"
        " nextval(pg_get_serial_sequence('%s.outbox', 'seq')), 'part', 'a', now(), now() FROM gen_random_uuid() id");
    suite_pg_do(pg, "UPDATE %s.meta SET value = '3' WHERE key = 'schema_version'"); /* before breakers and the log */
    CHECK_EQ(store_check(&s->store, &s->error), PR_ESCHEMA);
    CHECK_OK(store_migrate(&s->store, NULL, 0, &s->error), &s->error);
    CHECK_OK(store_check(&s->store, &s->error), &s->error);
    CHECK_EQ(suite_endpoint(s, "e")->sent, 7);
    CHECK_EQ(suite_endpoint(s, "e")->last_failed_us, 0);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 2);
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(w, .held_keys = { .rows = 10, .lanes = LANES_ALL })->held_key_count, 1);
    CHECK_SLICE(w->reply->held_keys[0], "a/"); /* a part waits for its endpoint */
    PQfinish(pg);
}

STORE_TEST(rows_of_a_version_before_say_after_the_upgrade_who_parked_them_and_what_they_are_held_for) /* I18 */
{
    PGconn *pg = suite_pg_connect();
    struct worker *w = suite_join(s, "outbox");
    pr_id ids[5];
    for (size_t i = 0; i < ARRAY_LENGTH(ids); i++)
        ids[i] = SEND(s, "outbox", .id = suite_id((unsigned)i + 1));
    struct claim out = worker_claim(w, ids[4]);
    suite_pg_do(pg, "UPDATE %s.outbox SET held_by = 'a/s' WHERE seq = 1");
    suite_pg_do(pg, "UPDATE %s.outbox SET held_by = 'a/' WHERE seq = 2");
    suite_pg_do(
        pg,
        "UPDATE %s.outbox SET due_at = 'infinity', failure_reason = 9, story ="
        " '[{\"attempt\":0,\"reason\":\"destination_missing\",\"rule\":\"routes\",\"step\":\"park\"}]' WHERE seq = 3");
    suite_pg_do(pg, "UPDATE %s.outbox SET due_at = 'infinity', story ="
                    " '[{\"attempt\":0,\"rule\":\"ann\",\"step\":\"park\"}]' WHERE seq = 4");
    static const char *const tables[] = { "outbox", "dead_letter", "done" };
    suite_pg_do(pg, "SET client_min_messages = warning");
    for (size_t i = 0; i < ARRAY_LENGTH(tables); i++) {
        char sql[256];
        snprintf(sql, sizeof(sql), "ALTER TABLE %%s.%s DROP COLUMN held_for CASCADE, DROP COLUMN parked_by CASCADE",
                 tables[i]);
        suite_pg_do(pg, sql);
    }
    suite_pg_do(pg, "DROP TABLE %s.ended");
    suite_pg_do(pg, "UPDATE %s.meta SET value = '26' WHERE key = 'schema_version'");
    CHECK_OK(store_migrate(&s->store, NULL, 0, &s->error), &s->error);
    CHECK_EQ(suite_get(s, ids[0])->m.held_for, PR_HELD_FOR_STREAM);
    CHECK_EQ(suite_get(s, ids[1])->m.held_for, PR_HELD_FOR_ENDPOINT);
    CHECK_EQ(suite_get(s, ids[2])->m.parked_by, PR_PARKED_BY_ROUTE);
    CHECK_EQ(suite_get(s, ids[3])->m.parked_by, PR_PARKED_BY_PERSON);
    CHECK_EQ(suite_get(s, out.id)->m.attempts, 1); /* who was at work joins anew: its hand-out counts */
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.instance"), 0);
    PQfinish(pg);
}

static char noticed[512];

static void keep_notice(void *arg, const char *text)
{
    (void)arg;
    snprintf(noticed, sizeof(noticed), "%s", text);
}

STORE_TEST(the_function_says_that_an_id_is_there_already_also_among_the_dead_letters) /* B2 */
{
    static const struct {
        const char *destination;
        bool duplicate;
    } sends[] = { { "", false }, { "", true }, { "", true }, { "e", false } };
    PGconn *pg = suite_pg_connect();
    struct worker *w = suite_join(s, "outbox");
    pr_id id = suite_id(1);
    char sql[256], text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    PQclear(PQexec(pg, "SET client_min_messages = notice"));
    PQsetNoticeProcessor(pg, keep_notice, NULL);
    for (unsigned i = 0; i < ARRAY_LENGTH(sends); i++) {
        if (i == 2)
            worker_kill(w, id);
        noticed[0] = '\0';
        snprintf(sql, sizeof(sql), "SELECT %s.send(type => 't', payload => '%u', id => '%s', destination => '%s')",
                 suite_pg_schema(), i, text, sends[i].destination);
        PGresult *result = PQexec(pg, sql);
        CHECK_STR(PQgetvalue(result, 0, 0), text);
        PQclear(result);
        CHECK_EQ(strstr(noticed, "duplicate") != NULL, sends[i].duplicate);
    }
    CHECK_EQ(suite_query(s, QUERY_ID, FILTER(.ids = &id, .id_count = 1))->listed_count, 2);
    CHECK_SLICE(suite_get_to(s, id, "")->m.payload, "0");
    CHECK_EQ(suite_get_to(s, id, "")->state, STATE_DEAD);
    PQfinish(pg);
}

STORE_TEST(a_database_in_another_encoding_is_refused)
{
    char url[512];
    struct store store = { 0 };
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "CREATE DATABASE latin_%s ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    snprintf(url, sizeof(url), "postgres:///latin_%s?host=%s&user=postgres", suite_pg_schema(), server_folder());
    const struct store_options options = { .url = url };
    CHECK_OK(store_open(&options, &store, &s->error), &s->error);
    CHECK_EQ(store_migrate(&store, NULL, 0, &s->error), PR_EUNSUPPORTED);
    SAYS(s->error.text, "UTF");
    store_close(&store);
    suite_pg_do(pg, "DROP DATABASE latin_%s");
    PQfinish(pg);
}

STORE_TEST(a_right_that_is_missing_is_named)
{
    char url[512];
    struct store store = { 0 };
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "DO $$ BEGIN CREATE ROLE weak LOGIN; EXCEPTION WHEN duplicate_object THEN END $$");
    snprintf(url, sizeof(url), "postgres:///postgres?host=%s&user=weak&schema=%s", server_folder(), suite_pg_schema());
    const struct store_options options = { .url = url };
    struct pr_message m = { .type = PR_STR("t") };
    CHECK_OK(store_open(&options, &store, &s->error), &s->error);
    CHECK_EQ(store_enqueue(&store, PR_STR("outbox"), &m, 1, 100, NULL, NULL, &s->error), PR_ESTORE);
    SAYS(s->error.text, "permission denied");
    SAYS(s->error.text, "--grants");
    store_close(&store);
    snprintf(url, sizeof(url), "postgres:///postgres?host=%s&user=weak&schema=new_%s", server_folder(),
             suite_pg_schema());
    CHECK_OK(store_open(&options, &store, &s->error), &s->error);
    CHECK_EQ(store_migrate(&store, NULL, 0, &s->error), PR_ESTORE);
    SAYS(s->error.text, "GRANT CREATE ON DATABASE");
    store_close(&store);
    PQfinish(pg);
}
