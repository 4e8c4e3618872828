/* The bell: senders NOTIFY while few messages come and a session waits for them, and only then. */
#include <pthread.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proxy.h"
#include "store/suite.h"
#include "store/suite_postgres.h"

#define LOOK_US PR_SECONDS(60) /* between looks: whoever is woken earlier was rung up */
#define RATE_SPAN_US 100000    /* as cycle/wait.c has it */
#define SOON_US PR_SECONDS(20) /* a busy machine is slow; a look is slower */

static int64_t real_us(void)
{
    return clock_mono_us(clock_system());
}

/* The store of the test, which looks only once a minute. */
static void look_rarely(struct suite *s)
{
    const struct store_options options = { .url = s->url,
                                           .clock = &s->clock,
                                           .payload_max = SUITE_PAYLOAD_MAX,
                                           .poll_min_us = LOOK_US,
                                           .poll_max_us = LOOK_US };
    store_close(&s->store);
    CHECK_OK(store_open(&options, &s->store, &s->error), &s->error);
}

/* Behind a pooler nobody can be rung up. */
static void needs_bell(PGconn *pg)
{
    if (suite_pg_number(pg, "SELECT pg_backend_pid()") != PQbackendPID(pg))
        SKIP("a pooler is in between");
}

struct sleeper {
    pthread_t thread;
    struct worker *w;
    int rc;
    int64_t took_us;
};

static void *sleeper_run(void *arg)
{
    struct sleeper *sleeper = arg;
    int64_t start_us = real_us();
    sleeper->rc = store_wait(&sleeper->w->session, -1, LOOK_US);
    sleeper->took_us = real_us() - start_us;
    return NULL;
}

static long long guards(PGconn *pg)
{
    return suite_pg_number(
        pg, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted"
            " AND (classid::bigint << 32 | objid::bigint) = hashtextextended('postrider %s.outbox', 0)");
}

static void wait_for_guard(PGconn *pg, long long wanted)
{
    int64_t end_us = real_us() + SOON_US;
    while (guards(pg) != wanted) {
        CHECK(real_us() < end_us);
        usleep(1000);
    }
}

static void sleeper_start(struct sleeper *sleeper, struct worker *w, PGconn *pg)
{
    sleeper->w = w;
    CHECK_EQ(pthread_create(&sleeper->thread, NULL, sleeper_run, sleeper), 0);
    wait_for_guard(pg, 1);
}

STORE_TEST(a_sender_who_knows_nothing_of_us_wakes_who_sleeps)
{
    struct sleeper sleeper;
    PGconn *pg = suite_pg_connect();
    needs_bell(pg);
    look_rarely(s);
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    sleeper_start(&sleeper, w, pg);
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('t')");
    pthread_join(sleeper.thread, NULL);
    CHECK_EQ(sleeper.rc, 1);
    CHECK(sleeper.took_us < SOON_US);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
    PQfinish(pg);
}

/* It takes no look to be rung up again: whoever waits for the next message heard of the last one by the bell. */
STORE_TEST(while_few_messages_come_each_of_them_rings)
{
    struct sleeper sleeper;
    PGconn *pg = suite_pg_connect();
    needs_bell(pg);
    look_rarely(s);
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    sleeper_start(&sleeper, w, pg);
    for (int i = 0; i < 3; i++) {
        suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('t')");
        pthread_join(sleeper.thread, NULL);
        CHECK_EQ(sleeper.rc, 1);
        CHECK(sleeper.took_us < SOON_US);
        CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
        CHECK_EQ(guards(pg), 1); /* so who sends now, before anybody waits again, rings, too */
        sleeper_start(&sleeper, w, pg);
    }
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('t')");
    pthread_join(sleeper.thread, NULL);
    PQfinish(pg);
}

/* A sender that began before anybody slept rings nobody; nobody falls asleep for long meanwhile. */
STORE_TEST(nobody_falls_asleep_while_a_sender_has_not_committed)
{
    struct sleeper sleeper = { .w = NULL };
    PGconn *pg = suite_pg_connect(), *sender = suite_pg_connect();
    needs_bell(pg);
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    suite_pg_do(sender, "BEGIN");
    suite_pg_do(sender, "INSERT INTO %s.outbox (type) VALUES ('t')");
    CYCLE(w, .fresh_rows = 10);
    sleeper.w = w;
    CHECK_EQ(pthread_create(&sleeper.thread, NULL, sleeper_run, &sleeper), 0);
    CHECK_EQ(guards(pg), 0);
    suite_pg_do(sender, "COMMIT");
    pthread_join(sleeper.thread, NULL);
    CHECK_EQ(sleeper.rc, 1);
    CHECK(sleeper.took_us < SOON_US); /* by a look */
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
    PQfinish(pg);
    PQfinish(sender);
}

/* How many notifications for this box have come? */
static int rings(PGconn *pg)
{
    char wanted[128];
    int count = 0;
    PGnotify *notify;
    snprintf(wanted, sizeof(wanted), "%s.outbox", suite_pg_schema());
    suite_pg_do(pg, "SELECT 1"); /* they come before its answer */
    while ((notify = PQnotifies(pg)) != NULL) {
        count += strcmp(notify->extra, wanted) == 0;
        PQfreemem(notify);
    }
    return count;
}

STORE_TEST(nobody_is_rung_up_on_a_busy_path)
{
    struct sleeper sleeper;
    PGconn *pg = suite_pg_connect(), *listener = suite_pg_connect();
    needs_bell(pg);
    look_rarely(s);
    suite_pg_do(listener, "LISTEN postrider");
    struct worker *w = suite_join(s, "outbox");
    (void)rings(listener); /* who comes rings once */
    for (int i = 0; i < 50; i++) {
        suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('t')");
        CYCLE(w, .fresh_rows = 10);
    }
    CHECK_EQ(rings(listener), 0);
    usleep(RATE_SPAN_US);
    CYCLE(w, .fresh_rows = 10); /* none for a while */
    sleeper_start(&sleeper, w, pg);
    suite_pg_do(pg, "INSERT INTO %s.ledger (type) VALUES ('t')"); /* of another box: no bell at all */
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) SELECT 't' FROM generate_series(1, 100000)");
    pthread_join(sleeper.thread, NULL);
    CHECK_EQ(rings(listener), 1);
    usleep(RATE_SPAN_US);
    while (!CYCLE(w, .fresh_rows = 50000)->fresh_end)
        ;
    CHECK_EQ(guards(pg), 0); /* many have come, though none is left */
    for (int i = 0; i < 50; i++)
        suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('t')");
    CHECK_EQ(rings(listener), 0);
    PQfinish(pg);
    PQfinish(listener);
}

static void *sender_run(void *arg)
{
    for (int i = 0; i < 30; i++)
        suite_pg_do(arg, "INSERT INTO %s.outbox (type) VALUES ('t')");
    return NULL;
}

/* It knows that there are more: the whole backlog would ring for nothing. */
STORE_TEST(who_has_no_room_for_more_is_not_rung_up)
{
    pthread_t thread;
    PGconn *pg = suite_pg_connect(), *listener = suite_pg_connect();
    needs_bell(pg);
    look_rarely(s);
    suite_pg_do(listener, "LISTEN postrider");
    struct worker *w = suite_join(s, "outbox");
    (void)rings(listener); /* who comes rings once */
    sender_run(pg);
    CHECK(!CYCLE(w, .fresh_rows = 2)->fresh_end);
    CHECK_EQ(pthread_create(&thread, NULL, sender_run, pg), 0);
    CHECK_EQ(store_wait(&w->session, -1, PR_MILLISECONDS(300)), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(rings(listener), 0);
    PQfinish(pg);
    PQfinish(listener);
}

/* All that a look would find rings: looks are rare. */
static void check_rings(struct suite *s, const char *sql)
{
    struct sleeper sleeper;
    PGconn *pg = suite_pg_connect();
    needs_bell(pg);
    look_rarely(s);
    struct worker *w = suite_join(s, "outbox");
    SEND(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    while (store_wait(&w->session, -1, 1) ==
           WAIT_LOOK_AGAIN) /* it was told of the message, and that it has come itself */
        CYCLE(w, .fresh_rows = 10);
    sleeper_start(&sleeper, w, pg);
    suite_pg_do(pg, sql);
    pthread_join(sleeper.thread, NULL);
    CHECK_EQ(sleeper.rc, WAIT_LOOK_AGAIN);
    CHECK(sleeper.took_us < SOON_US);
    PQfinish(pg);
}

STORE_TEST(what_an_operator_does_wakes_who_sleeps) /* B202 */
{
    check_rings(s, "INSERT INTO %s.control (box, kind, \"row\", seq) VALUES ('outbox', 1, 0, 0)");
}

STORE_TEST(what_an_operator_does_to_all_boxes_wakes_who_sleeps) /* B202 */
{
    check_rings(s, "INSERT INTO %s.control (box, kind, \"row\", seq, endpoint) VALUES ('', 3, 0, 0, 'e')");
}

STORE_TEST(a_row_that_is_repaired_by_hand_wakes_who_sleeps) /* B19 */
{
    check_rings(s, "UPDATE %s.outbox SET type = 'repaired'");
}

STORE_TEST(an_instance_that_comes_wakes_who_sleeps) /* B24 */
{
    check_rings(s, "INSERT INTO %s.instance (id, box, name, version, epoch, lanes, lease_end, started_at, lease_us,"
                   " schema_version) SELECT gen_random_uuid(), box, 'b', version, epoch + 1, 0, lease_end, started_at,"
                   " lease_us, schema_version FROM %s.instance WHERE box = 'outbox'");
}

STORE_TEST(lanes_that_change_hands_wake_who_sleeps) /* B24 */
{
    check_rings(s, "UPDATE %s.instance SET lanes = lanes & 1 WHERE box = 'outbox'");
}

/* No message waits for it. */
STORE_TEST(what_is_over_is_removed_while_nothing_is_to_be_done)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    struct verdict sent = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    CYCLE(w, .verdicts = &sent, .verdict_count = 1, .closed = &c.cycle, .closed_count = 1, .keep_us = PR_SECONDS(1));
    CHECK_EQ(suite_table_count(s, "done"), 1);
    suite_advance(s, PR_SECONDS(12)); /* that is when it is looked for */
    CYCLE(w, .fresh_rows = 10);
    CHECK_EQ(suite_table_count(s, "done"), 1);
    for (int i = 0; i < 2; i++) /* the first one is told of the message */
        (void)store_wait(&w->session, -1, 1);
    CHECK_EQ(suite_table_count(s, "done"), 0);
}

/* A daemon looks for them now and then. */
STORE_TEST(a_look_for_events_without_places_wakes_nobody)
{
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    while (store_wait(&w->session, -1, 1) == WAIT_LOOK_AGAIN) /* it has come itself */
        CYCLE(w, .fresh_rows = 10);
    CHECK_EQ(store_place_events(&s->store, &s->error), PR_STALE);
    CHECK_EQ(store_wait(&w->session, -1, 1), WAIT_TIMEOUT);
}

/* ---- Renewals of an idle box ------------------------------------------------------------------------------- */

/* It has seen all that there is. */
static struct worker *idle_worker(struct suite *s)
{
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    CYCLE(w, .fresh_rows = 10, .due.rows = 10, .force_write = true);
    return w;
}

static const struct cycle_reply *renew(struct worker *w)
{
    return CYCLE(w, .fresh_rows = 10, .due.rows = 10, .force_write = true);
}

STORE_TEST(the_lease_of_an_idle_box_is_renewed_in_one_statement)
{
    struct proxy *proxy = over_a_wire(s);
    struct worker *w = idle_worker(s);
    suite_advance(s, PR_SECONDS(5));
    unsigned before = proxy_round_trips(proxy);
    const struct cycle_reply *r = renew(w);
    CHECK_EQ(proxy_round_trips(proxy) - before, 1);
    CHECK_EQ(r->lease_left_us, SUITE_LEASE_US);
    CHECK(r->fresh_end && r->due_end && r->row_count == 0);
    CHECK_EQ(r->next_due_us, PR_NEVER);
    CHECK_EQ(r->lanes_owned, LANES_ALL);
    end_of_wire(s, proxy);
}

STORE_TEST(a_renewal_finds_what_nobody_rang_for) /* B8, B19 */
{
    PGconn *pg = suite_pg_connect();
    struct worker *w = idle_worker(s);
    suite_pg_do(pg, "INSERT INTO %s.outbox (type) VALUES ('t')");
    CHECK_EQ(reply_count(renew(w), ROW_FRESH), 1);
    CHECK_EQ(renew(w)->row_count, 0);
    suite_pg_do(pg, "UPDATE %s.outbox SET due_at = '2000-01-01'");
    CHECK_EQ(reply_count(renew(w), ROW_DUE), 1);
    suite_pg_do(pg, "UPDATE %s.outbox SET due_at = '2199-01-01'");
    CHECK(renew(w)->next_due_us != PR_NEVER);
    CHECK(renew(w)->next_due_us != PR_NEVER); /* it is told each time */
    suite_pg_do(pg, "INSERT INTO %s.control (box, kind, \"row\", seq) VALUES ('outbox', 1, 0, 0)");
    CHECK_EQ(renew(w)->notice_count, 1);
    CHECK_EQ(renew(w)->notice_count, 0);
    PQfinish(pg);
}

STORE_TEST(a_renewal_of_one_that_was_buried_says_so) /* B26 */
{
    PGconn *pg = suite_pg_connect();
    struct worker *w = idle_worker(s);
    suite_pg_do(pg, "DELETE FROM %s.instance");
    CHECK_EQ(CYCLE_TRY(w, .fresh_rows = 10, .due.rows = 10, .force_write = true), PR_ELEASE);
    PQfinish(pg);
}

/* ... and gets up when another one has died. */
STORE_TEST(a_renewal_takes_the_lanes_of_one_whose_lease_is_over) /* B24 */
{
    struct worker *a = suite_join(s, "outbox"), *b = suite_join(s, "outbox");
    suite_settle_lanes(s);
    worker_vanish(b);
    CYCLE(a, .fresh_rows = 10);
    CHECK(renew(a)->lanes_owned != LANES_ALL);
    suite_advance(s, PR_SECONDS(3600));
    for (int i = 0; i < 2 && renew(a)->lanes_owned != LANES_ALL; i++)
        ;
    CHECK_EQ(a->reply->lanes_owned, LANES_ALL);
}
