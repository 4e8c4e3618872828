/* Leases by the server's own clock, which may jump: the test changes the rows as a jump would. */
#include <stdio.h>
#include <unistd.h>

#include "store/suite.h"
#include "store/suite_postgres.h"

#define LEASE_US PR_SECONDS(2)
#define SOON_US PR_SECONDS(20)

static int64_t real_us(void)
{
    return clock_mono_us(clock_system());
}

static void by_the_servers_clock(struct suite *s)
{
    const struct store_options options = { .url = s->url, .payload_max = SUITE_PAYLOAD_MAX };
    store_close(&s->store);
    CHECK_OK(store_open(&options, &s->store, &s->error), &s->error);
}

static void clock_jumps(PGconn *pg, bool ahead)
{
    suite_pg_do(pg, ahead ? "UPDATE %s.instance SET lease_end = lease_end - interval '1 hour'"
                          : "UPDATE %s.instance SET lease_end = lease_end + interval '1 hour'");
}

static struct worker *join(struct suite *s)
{
    struct worker *w = suite_worker(s, "outbox");
    CYCLE(w, .lease_us = LEASE_US);
    return w;
}

STORE_TEST(a_clock_that_jumps_ahead_costs_nobody_its_lease) /* B25 */
{
    PGconn *pg = suite_pg_connect();
    by_the_servers_clock(s);
    struct worker *a = join(s), *b = join(s);
    int64_t epoch = a->epoch;
    clock_jumps(pg, true);
    CYCLE(b, .lease_us = LEASE_US);    /* has seen the other alive */
    struct worker *newcomer = join(s); /* has not */
    CHECK_EQ(newcomer->lanes, 0);
    CYCLE(a, .lease_us = LEASE_US);
    CHECK_EQ(a->epoch, epoch);
    CHECK_EQ(a->lanes, LANES_ALL);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.instance WHERE lease_end > now()"), 3);
    PQfinish(pg);
}

STORE_TEST(a_clock_that_went_back_keeps_nobody_waiting) /* B24, B25 */
{
    PGconn *pg = suite_pg_connect();
    by_the_servers_clock(s);
    struct worker *a = join(s), *b = join(s);
    clock_jumps(pg, false);
    CYCLE(a, .lease_us = LEASE_US);
    CHECK_EQ(suite_pg_number(pg, "SELECT count(*) FROM %s.instance WHERE lease_end > now() + interval '30 minutes'"),
             1);
    clock_jumps(pg, false);
    worker_vanish(a);
    int64_t start_us = real_us();
    while (b->lanes != LANES_ALL && real_us() - start_us < SOON_US) {
        usleep(10000);
        CYCLE(b, .lease_us = LEASE_US);
    }
    CHECK_EQ(b->lanes, LANES_ALL);
    CHECK(real_us() - start_us >= LEASE_US / 2); /* nothing but its lease has kept them */
    PQfinish(pg);
}

STORE_TEST(who_comes_after_a_death_takes_over_at_once) /* B24 */
{
    PGconn *pg = suite_pg_connect();
    by_the_servers_clock(s);
    struct worker *a = join(s);
    worker_vanish(a);
    clock_jumps(pg, true); /* its lease is over */
    int64_t end_us = real_us() + SOON_US;
    while (suite_pg_number(pg, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted") > 0) {
        CHECK(real_us() < end_us); /* the server has to notice that it is gone */
        usleep(1000);
    }
    struct worker *b = join(s);
    CHECK_EQ(b->lanes, LANES_ALL);
    PQfinish(pg);
}
