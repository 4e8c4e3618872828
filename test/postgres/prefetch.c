/* Prefetching: while plain cycles follow each other, the server reads the rows of the next one before it asks.  Changes
 * in between must be seen all the same. */
#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "drain.h"
#include "proxy.h"
#include "store/suite_postgres.h"

#define BACKLOG (12 * AT_ONCE)
#define DEADLINE_US PR_SECONDS(30)

/* The next rows were read, and nobody was told of them. */
struct prefetch {
    struct drain d;
    PGconn *pg;
    pr_id told[BACKLOG];
    int told_count;
};

static void prefetch_note(struct prefetch *a)
{
    for (size_t i = 0; i < a->d.w->reply->row_count; i++) {
        CHECK(a->told_count < BACKLOG);
        a->told[a->told_count++] = a->d.w->reply->rows[i].m.id;
    }
}

static void prefetch_on(struct prefetch *a)
{
    drain_on(&a->d);
    prefetch_note(a);
}

/* Its connection has nothing to do, and that was the latest, as far as the server shows it (track_activity_query_size). */
static void prefetch_await(struct prefetch *a)
{
    int64_t end_us = clock_mono_us(clock_system()) + DEADLINE_US;
    while (suite_pg_number(a->pg,
                           "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND pid <> pg_backend_pid()"
                           " AND query LIKE '%%WITH ORDINALITY%%\"%s\".\"outbox\"%%'") == 0)
        CHECK(clock_mono_us(clock_system()) < end_us);
}

static struct prefetch prefetch_begin(struct suite *s)
{
    struct prefetch a = { .d = drain_begin(s, BACKLOG), .pg = suite_pg_connect() };
    a.told_count = AT_ONCE; /* the first ones are gone */
    prefetch_note(&a);
    prefetch_on(&a);
    prefetch_on(&a);
    prefetch_await(&a);
    return a;
}

/* All that is left, each once. */
static void prefetch_end(struct prefetch *a)
{
    while (a->d.count > 0)
        prefetch_on(a);
    for (int i = 0; i < a->told_count; i++)
        for (int k = i + 1; k < a->told_count; k++)
            CHECK(memcmp(&a->told[i], &a->told[k], sizeof(pr_id)) != 0 || i < AT_ONCE);
    CHECK_EQ(a->told_count, BACKLOG);
    CHECK_EQ(suite_pg_number(a->pg, "SELECT count(*) FROM %s.outbox"), 0);
    PQfinish(a->pg);
}

STORE_TEST(what_comes_next_is_read_before_it_is_asked_for) /* B11 */
{
    struct prefetch a = prefetch_begin(s);
    prefetch_end(&a);
}

/* Without names, each in a transaction with its settings: as behind a pooler. */
STORE_TEST(what_comes_next_is_read_before_it_is_asked_for_behind_a_pooler) /* B11 */
{
    strncat(s->url, strchr(s->url, '?') != NULL ? "&prepare=off" : "?prepare=off", sizeof(s->url) - strlen(s->url) - 1);
    suite_reopen(s);
    struct drain d = drain_begin(s, BACKLOG);
    int sent = 2 * AT_ONCE;
    for (drain_on(&d); d.count > 0; drain_on(&d))
        sent += (int)d.count;
    CHECK_EQ(sent, BACKLOG);
}

/* Those in the box that nobody was told of; room for BACKLOG. */
static size_t prefetch_untold(const struct prefetch *a, pr_id *ret)
{
    char sql[128];
    size_t count = 0;
    snprintf(sql, sizeof(sql), "SELECT id FROM %s.outbox", suite_pg_schema());
    PGresult *r = PQexec(a->pg, sql);
    CHECK(PQntuples(r) <= BACKLOG);
    for (int i = 0; i < PQntuples(r); i++) {
        CHECK_EQ(pr_id_parse(slice_from(PQgetvalue(r, i, 0)), &ret[count]), PR_OK);
        count += reply_find(a->d.w->reply, ret[count]) == NULL;
    }
    PQclear(r);
    CHECK_EQ(count, BACKLOG - a->told_count);
    return count;
}

/* What is on its way is left alone, so the next cycle is plain. */
static void operator_comes_before(struct suite *s, enum admin_kind kind)
{
    pr_id ids[BACKLOG];
    struct prefetch a = prefetch_begin(s);
    size_t count = prefetch_untold(&a, ids);
    ADMIN(s, kind, FILTER(.ids = ids, .id_count = count));
    drain_on(&a.d);
    CHECK_EQ(a.d.w->reply->notice_count, count);
    CHECK_EQ(a.d.w->reply->row_count, 0);
    PQfinish(a.pg);
}

STORE_TEST(what_was_read_in_advance_and_then_parked_is_not_handed_out) /* B202 */
{
    operator_comes_before(s, ADMIN_PARK);
}

STORE_TEST(what_was_read_in_advance_and_then_discarded_is_not_handed_out) /* B202 */
{
    operator_comes_before(s, ADMIN_DISCARD);
}

STORE_TEST(what_was_read_in_advance_and_then_made_dead_is_not_handed_out) /* B202 */
{
    operator_comes_before(s, ADMIN_DEAD_ADD);
}

STORE_TEST(what_was_read_in_advance_is_not_handed_out_when_the_lanes_are_of_others) /* B26 */
{
    struct prefetch a = prefetch_begin(s);
    struct cycle cycle = drain_cycle(&a.d);
    long long waiting = suite_pg_number(a.pg, "SELECT count(*) FROM %s.outbox");
    suite_pg_do(a.pg, "UPDATE %s.instance SET lanes = 0");
    suite_pg_do(
        a.pg,
        "INSERT INTO %s.instance (id, box, name, version, epoch, lanes, lease_end, started_at, lease_us, "
        "schema_version)"
        " SELECT gen_random_uuid(), box, 'b', version, epoch + 1, -1, lease_end, started_at, lease_us, schema_version"
        " FROM %s.instance");
    worker_cycle(a.d.w, &cycle);
    CHECK_EQ(a.d.w->reply->answers[0], PR_STALE);
    CHECK_EQ(a.d.w->reply->row_count, 0);
    CHECK_EQ(suite_pg_number(a.pg, "SELECT count(*) FROM %s.outbox"), waiting);
    PQfinish(a.pg);
}

STORE_TEST(who_asks_for_less_than_was_read_in_advance_misses_nothing) /* B11 */
{
    struct prefetch a = prefetch_begin(s);
    struct cycle cycle = drain_cycle(&a.d);
    cycle.fresh_rows = 1;
    worker_cycle(a.d.w, &cycle);
    CHECK_EQ(a.d.w->reply->row_count, 1);
    CHECK(!a.d.w->reply->fresh_end);
    drain_take(&a.d);
    prefetch_note(&a);
    prefetch_end(&a);
}

/* Its window is full, or it is being stopped. */
STORE_TEST(who_asks_for_nothing_new_is_not_told_what_was_read_in_advance) /* B11 */
{
    struct prefetch a = prefetch_begin(s);
    struct cycle cycle = drain_cycle(&a.d);
    cycle.fresh_rows = 0;
    worker_cycle(a.d.w, &cycle);
    CHECK_EQ(a.d.w->reply->row_count, 0);
    a.d.count = 0;
    prefetch_on(&a);
    prefetch_end(&a);
}

/* The same number again: the scan goes over the same ground, and what lies behind it was read for nothing. */
STORE_TEST(what_was_read_in_advance_is_forgotten_when_an_answer_was_lost) /* B7, B27 */
{
    struct proxy *proxy = over_a_wire(s);
    struct prefetch a = prefetch_begin(s);
    struct cycle cycle = drain_cycle(&a.d);
    proxy_set(proxy, PROXY_CUT_COMMIT);
    CHECK_EQ(worker_try(a.d.w, &cycle), PR_EUNCERTAIN);
    worker_cycle(a.d.w, &cycle); /* it did not land; and all that is not on its way is read anew */
    CHECK(!a.d.w->reply->replayed);
    drain_take(&a.d);
    prefetch_note(&a);
    prefetch_end(&a);
    end_of_wire(s, proxy);
}

STORE_TEST(who_leaves_does_not_mind_what_was_read_in_advance) /* B26 */
{
    struct prefetch a = prefetch_begin(s);
    struct cycle cycle = drain_cycle(&a.d);
    cycle.leave = true;
    cycle.fresh_rows = 0;
    worker_cycle(a.d.w, &cycle);
    a.d = (struct drain){ .w = suite_join(s, "outbox") };
    prefetch_on(&a);
    prefetch_end(&a);
}

STORE_TEST(a_connection_that_ends_with_what_was_read_in_advance_is_made_anew)
{
    struct prefetch a = prefetch_begin(s);
    struct cycle cycle = drain_cycle(&a.d);
    int64_t end_us = clock_mono_us(clock_system()) + DEADLINE_US;
    suite_pg_do(a.pg, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'postrider'");
    while (worker_try(a.d.w, &cycle) != PR_OK)
        CHECK(clock_mono_us(clock_system()) < end_us);
    drain_take(&a.d);
    prefetch_note(&a);
    prefetch_end(&a);
}

STORE_TEST(rows_that_were_handed_out_before_are_read_in_advance_too)
{
    struct prefetch a = { .d = drain_begin(s, BACKLOG), .pg = suite_pg_connect() };
    a.told_count = AT_ONCE;
    prefetch_note(&a);
    suite_pg_do(a.pg, "UPDATE %s.outbox SET attempts = 1"); /* so that each cycle asks for more than their columns */
    prefetch_on(&a);
    prefetch_on(&a);
    prefetch_end(&a);
}
