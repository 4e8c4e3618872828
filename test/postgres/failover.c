/* A streaming standby: refused while it is one, used when it has taken over. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/suite.h"
#include "store/suite_postgres.h"

static const char *server_folder(void)
{
    const char *folder = getenv("POSTRIDER_TEST_PG_FOLDER");
    if (folder == NULL)
        SKIP("the server is not ours to break");
    return folder;
}

/* One of PostgreSQL's own programs, as its user. */
static PR_PRINTF(1, 2) void tool(const char *format, ...)
{
    char command[1024], arguments[768];
    va_list args;
    va_start(args, format);
    vsnprintf(arguments, sizeof(arguments), format, args);
    va_end(args);
    snprintf(command, sizeof(command), "%s/%s >/dev/null 2>&1", getenv("POSTRIDER_TEST_PG_BIN"), arguments);
    if (system(command) != 0)
        check_fail(__FILE__, __LINE__, "failed: %s", arguments);
}

static void wait_until_replayed(PGconn *primary)
{
    int64_t end_us = clock_mono_us(clock_system()) + PR_SECONDS(20);
    while (suite_pg_number(primary,
                           "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()") == 0) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        usleep(10000);
    }
}

static const char *standby_url(void)
{
    static char url[sizeof(((struct suite *)NULL)->url)];
    snprintf(url, sizeof(url),
             "postgres:///postgres?host=%s,%s/standby&target_session_attrs=read-write&user=postgres&schema=%s",
             server_folder(), server_folder(), suite_pg_schema());
    return url;
}

static void cycle_until_it_lands(struct worker *w)
{
    int64_t end_us = clock_mono_us(clock_system()) + PR_SECONDS(20);
    while (CYCLE_TRY(w, .fresh_rows = 1000) != PR_OK) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        usleep(20000);
    }
}

#define AHEAD 200

/* What was committed last never came to the standby, and its places are drawn again there. */
STORE_TEST(a_standby_that_lacks_the_last_commits_says_so_and_hands_out_what_takes_their_places) /* B28, S5 */
{
    const char *folder = server_folder();
    pr_id there[AHEAD];

    snprintf(s->url, sizeof(s->url), "%s", standby_url());
    suite_reopen(s);
    struct worker *w = suite_join(s, "outbox");
    tool("pg_basebackup -h %s -U postgres -D %s/standby -c fast --no-sync", folder, folder);
    for (int i = 0; i < AHEAD; i++)
        SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 1000)->row_count, AHEAD);
    CHECK(!w->reply->history_changed);
    int64_t seq = w->reply->rows[0].m.seq;
    tool("pg_ctl -D %s/data -w -m immediate stop", folder);
    CHECK(CYCLE_TRY(w, .fresh_rows = 10) < 0);
    tool("pg_ctl -D %s/standby -w -o '-c unix_socket_directories=%s/standby' -l %s/standby.log start", folder, folder,
         folder);

    for (int i = 0; i < AHEAD; i++)
        there[i] = SEND(s, "outbox");
    cycle_until_it_lands(w);
    CHECK(w->reply->history_changed);
    CHECK_EQ(w->reply->row_count, AHEAD);
    CHECK_EQ(w->reply->rows[0].m.seq, seq); /* the same place, another message */
    for (int i = 0; i < AHEAD; i++)
        CHECK(reply_find(w->reply, there[i]) != NULL);
    CHECK(!CYCLE(w, .fresh_rows = 10)->history_changed);
    tool("pg_ctl -D %s/standby -w -m immediate stop", folder);
    tool("pg_ctl -D %s/data -w -l %s/server.log start", folder, folder);
    if (system("rm -rf \"$POSTRIDER_TEST_PG_FOLDER/standby\"") != 0)
        check_fail(__FILE__, __LINE__, "the standby stays");
}

/* What was read ahead and is gone since then. */
struct lost {
    pr_id ids[AHEAD];
    int64_t seq; /* the first place of them */
};

static void read_ahead(struct worker *w, struct lost *ret)
{
    CHECK_EQ(CYCLE(w, .fresh_rows = 1000)->row_count, AHEAD);
    CHECK(!w->reply->history_changed);
    ret->seq = w->reply->rows[0].m.seq;
    for (int i = 0; i < AHEAD; i++)
        ret->ids[i] = w->reply->rows[i].m.id;
}

/* None of them is there; others come, and those are told. */
static void check_lost(struct suite *s, struct worker *w, const struct lost *lost)
{
    PGconn *sender = suite_pg_connect();
    CHECK_EQ(suite_pg_number(sender, "SELECT count(*) FROM %s.outbox"), 0); /* or this is no test */
    suite_pg_do(sender, "INSERT INTO %s.outbox (type) SELECT 't' FROM generate_series(1, 200)");
    cycle_until_it_lands(w);
    CHECK(w->reply->history_changed);
    CHECK_EQ(w->reply->row_count, AHEAD);
    for (int i = 0; i < AHEAD; i++) {
        CHECK(reply_find(w->reply, lost->ids[i]) == NULL);
        CHECK(suite_find(s, lost->ids[i]) == NULL);
    }
    CHECK(!CYCLE(w, .fresh_rows = 10)->history_changed);
    PQfinish(sender);
}

static void restart(const char *folder)
{
    tool("pg_ctl -D %s/data -w -m immediate -l %s/server.log restart", folder, folder);
}

/* Senders that do not wait for the disk, and a server that dies before it has written what they committed. */
STORE_TEST(what_a_crash_loses_is_not_told_again_and_what_comes_after_it_is) /* B28 */
{
    const char *folder = server_folder();
    struct lost lost;
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "ALTER SYSTEM SET wal_writer_delay = '10s'"); /* nobody else writes them earlier */
    suite_pg_do(pg, "ALTER SYSTEM SET wal_writer_flush_after = '1GB'");
    suite_pg_do(pg, "ALTER SYSTEM SET autovacuum = off");
    PQfinish(pg);
    restart(folder);
    suite_reopen(s);
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 1000);

    PGconn *sender = suite_pg_connect();
    suite_pg_do(sender, "SET synchronous_commit = off");
    suite_pg_do(sender, "INSERT INTO %s.outbox (type) SELECT 't' FROM generate_series(1, 200)");
    read_ahead(w, &lost);
    tool("pg_ctl -D %s/data -w -m immediate stop", folder);
    CHECK(CYCLE_TRY(w, .fresh_rows = 10) < 0);
    PQfinish(sender);
    tool("pg_ctl -D %s/data -w -l %s/server.log start", folder, folder);
    check_lost(s, w, &lost); /* numbers may have been written though the commit was not */

    pg = suite_pg_connect();
    suite_pg_do(pg, "ALTER SYSTEM RESET ALL");
    PQfinish(pg);
    restart(folder);
}

/* The same address, and what is there is of an hour ago. */
STORE_TEST(what_a_restored_backup_lacks_is_not_told_again_and_what_takes_its_places_is) /* B28 */
{
    const char *folder = server_folder();
    struct lost lost;
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 1000);
    tool("pg_basebackup -h %s -U postgres -D %s/restored -c fast --no-sync", folder, folder);
    PGconn *sender = suite_pg_connect();
    suite_pg_do(sender, "INSERT INTO %s.outbox (type) SELECT 't' FROM generate_series(1, 200)");
    PQfinish(sender);
    read_ahead(w, &lost);
    tool("pg_ctl -D %s/data -w -m fast stop", folder);
    CHECK(CYCLE_TRY(w, .fresh_rows = 10) < 0);
    if (system("cd \"$POSTRIDER_TEST_PG_FOLDER\" && rm -rf data && mv restored data") != 0)
        check_fail(__FILE__, __LINE__, "the backup was not restored");
    tool("pg_ctl -D %s/data -w -l %s/server.log start", folder, folder);
    check_lost(s, w, &lost);
    CHECK_EQ(suite_query(s, QUERY_MESSAGES, FILTER(.limit = 1))->listed[0].m.seq, lost.seq); /* the same places */
}

static int64_t insert_many(PGconn *sender)
{
    suite_pg_do(sender, "INSERT INTO %s.outbox (type) SELECT 't' FROM generate_series(1, 200)");
    return suite_pg_number(sender, "SELECT max(xid::text::bigint) FROM %s.outbox");
}

/* As before, and the others were even written by a transaction of the same number, into the same places of the table. */
STORE_TEST(what_takes_the_places_of_rows_that_a_restored_backup_lacks_is_not_deleted_for_them) /* B11, B28 */
{
    const char *folder = server_folder();
    struct verdict verdicts[AHEAD];
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 1000);
    tool("pg_basebackup -h %s -U postgres -D %s/restored -c fast --no-sync", folder, folder);
    PGconn *sender = suite_pg_connect();
    int64_t xid = insert_many(sender);
    PQfinish(sender);
    CHECK_EQ(CYCLE(w, .fresh_rows = 1000)->row_count, AHEAD);
    for (int i = 0; i < AHEAD; i++)
        verdicts[i] = (struct verdict){
            .kind = VERDICT_COMPLETE, .row = w->reply->rows[i].row, .id = w->reply->rows[i].m.id, .number = 1
        };
    tool("pg_ctl -D %s/data -w -m fast stop", folder);
    CHECK(CYCLE_TRY(w, .fresh_rows = 0) < 0);
    if (system("cd \"$POSTRIDER_TEST_PG_FOLDER\" && rm -rf data && mv restored data") != 0)
        check_fail(__FILE__, __LINE__, "the backup was not restored");
    tool("pg_ctl -D %s/data -w -l %s/server.log start", folder, folder);

    sender = suite_pg_connect();
    while (suite_pg_number(sender, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint") < xid)
        suite_pg_do(sender, "SELECT pg_current_xact_id()");
    CHECK_EQ(insert_many(sender), xid); /* or this is no test */
    int64_t end_us = clock_mono_us(clock_system()) + PR_SECONDS(20);
    while (CYCLE_TRY(w, .fresh_rows = 0) != PR_OK) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        usleep(20000);
    }
    CYCLE(w, .fresh_rows = 0);
    CYCLE(w, .verdicts = verdicts, .verdict_count = AHEAD);
    for (int i = 0; i < AHEAD; i++)
        CHECK_EQ(w->reply->answers[i], PR_UNKNOWN);
    CHECK_EQ(suite_pg_number(sender, "SELECT count(*) FROM %s.outbox"), AHEAD);
    PQfinish(sender);
}

STORE_TEST(a_standby_is_refused_and_gone_on_with_when_it_is_the_primary) /* S5 */
{
    const char *folder = server_folder();
    struct pr_error error;
    struct store store = { 0 };
    char url[512];
    PGconn *primary = suite_pg_connect();

    tool("pg_basebackup -h %s -U postgres -D %s/standby -R -c fast --no-sync", folder, folder);
    tool("pg_ctl -D %s/standby -w -o '-c unix_socket_directories=%s/standby' -l %s/standby.log start", folder, folder,
         folder);
    snprintf(url, sizeof(url), "postgres:///postgres?host=%s/standby&user=postgres&schema=%s", folder,
             suite_pg_schema());
    CHECK_EQ(store_open(&(struct store_options){ .url = url }, &store, &error), PR_ESTORE);
    CHECK(strstr(error.text, "standby") != NULL);

    snprintf(s->url, sizeof(s->url),
             "postgres:///postgres?host=%s,%s/standby&target_session_attrs=read-write&user=postgres&schema=%s", folder,
             folder, suite_pg_schema());
    suite_reopen(s);
    struct worker *w = suite_join(s, "outbox");
    pr_id first = SEND(s, "outbox"), second = SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 2);
    struct claim c = worker_claim(w, first);
    wait_until_replayed(primary);
    PQfinish(primary);
    tool("pg_ctl -D %s/data -w -m immediate stop", folder);
    CHECK(CYCLE_TRY(w, .fresh_rows = 10) < 0);
    tool("pg_ctl -D %s/standby -w promote", folder);

    int64_t end_us = clock_mono_us(clock_system()) + PR_SECONDS(20);
    while (CYCLE_TRY(w, .fresh_rows = 10) != PR_OK) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        usleep(20000);
    }
    CHECK_EQ(w->lanes, LANES_ALL);
    CHECK_EQ(w->reply->row_count, 2); /* another server: everything is read anew */
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE), PR_OK);
    pr_id third = SEND(s, "outbox");
    CHECK(reply_find(CYCLE(w, .fresh_rows = 10), third) != NULL);
    CHECK(suite_find(s, first) == NULL);
    suite_get(s, second);
}
