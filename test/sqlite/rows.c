/* Rows that are odd, and rows that are many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "store/sqlite/send.h"

/* ---- Rows that cannot be decoded ------------------------------------------------------ */

static const struct {
    const char *what, *columns, *values;
} odd[] = {
    { "an id of five bytes", "id, type", "x'0102030405', 't'" },
    { "an id that is a word", "id, type", "'order-7', 't'" },
    { "an id that is a number", "id, type", "7, 't'" },
    { "an empty id", "id, type", "x'', 't'" },
    { "an empty type", "type", "''" },
    { "a type that is too long", "type", "printf('%.*c', 256, 'x')" },
    { "a type with a line break", "type", "'a' || char(10) || 'b'" },
    { "headers that are a list", "type, headers", "'t', '[1]'" },
    { "headers that end early", "type, headers", "'t', '{\"a\":'" },
    { "headers that are a number", "type, headers", "'t', 5" },
    { "a stream that is too long", "type, stream", "'t', printf('%.*c', 256, 'x')" },
    { "a counter below zero", "type, attempts", "'t', -1" },
    { "a birth in words", "type, created_at", "'t', '2025-01-01T00:00:00Z'" },
    { "an end in words", "type, expires_at", "'t', '2035-01-01T00:00:00Z'" },
};

static void plant_odd(sqlite3 *db)
{
    char sql[512];
    raw_run(db, "PRAGMA ignore_check_constraints = on"); /* as before there were checks */
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++) {
        snprintf(sql, sizeof(sql), "INSERT INTO outbox (%s) VALUES (%s)", odd[i].columns, odd[i].values);
        raw_run(db, sql);
    }
}

TEST(each_sort_of_undecodable_row_is_read_as_such_listed_and_buried_with_its_bytes) /* B9, B81, B87 */
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    struct worker w;
    plant_odd(db);
    fixture_send(f, "good");
    raw_run(db, "CREATE TABLE before AS SELECT row_id, id, type, headers, payload, stream FROM outbox");
    worker_open(&w, &f->store);
    CYCLE(&w, );
    const struct cycle_reply *r = CYCLE(&w, .fresh_rows = 100);
    CHECK_EQ(r->row_count, ARRAY_LENGTH(odd) + 1);
    struct verdict v[ARRAY_LENGTH(odd)];
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++) {
        if (r->rows[i].bad == NULL)
            check_fail(__FILE__, __LINE__, "%s is read as a good row", odd[i].what);
        v[i] = (struct verdict){ .kind = VERDICT_DEAD_LETTER,
                                 .row = r->rows[i].row,
                                 .id = r->rows[i].m.id,
                                 .number = 1,
                                 .cause = PR_REASON_SERIALIZATION_ERROR };
        if (r->rows[i].m.attempts < 0)
            v[i].number = 0;
    }
    CHECK(r->rows[ARRAY_LENGTH(odd)].bad == NULL);

    struct arena arena;
    struct query_reply listed;
    struct query query = { .kind = QUERY_MESSAGES, .filter = { .box = PR_STR("outbox"), .state = -1 } };
    arena_init(&arena, 65536);
    CHECK_OK(store_query(&f->store, &query, &arena, &listed, &f->error), &f->error);
    CHECK_EQ(listed.listed_count, ARRAY_LENGTH(odd) + 1);

    CYCLE(&w, .verdicts = v, .verdict_count = ARRAY_LENGTH(odd));
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++)
        CHECK_EQ(w.reply->answers[i], PR_OK);
    query.kind = QUERY_DEAD;
    CHECK_OK(store_query(&f->store, &query, &arena, &listed, &f->error), &f->error);
    CHECK_EQ(listed.listed_count, ARRAY_LENGTH(odd));
    arena_fini(&arena);
    /* Byte for byte, with the types that SQLite gave them. */
    CHECK_EQ(
        raw_int(db, "SELECT count(*) FROM postrider_dead_letter d JOIN before b ON b.row_id = d.seq AND typeof(b.id) = "
                    "typeof(d.id)"
                    " AND b.id = d.id AND b.type = d.type AND b.headers IS d.headers AND b.payload IS d.payload"
                    " AND b.stream IS d.stream"),
        (int64_t)ARRAY_LENGTH(odd));
    sqlite3_close(db);
    worker_close(&w);
    fixture_close(f);
}

/* ---- Many ------------------------------------------------------------------------------- */

#define HELD_ROWS 100000

/* A count of what SQLite did, instead of a time: the virtual machine's steps. */
static int64_t steps;

static int count_steps(void *arg)
{
    (void)arg;
    steps++;
    return 0;
}

static int on_open(sqlite3 *db, char **error, const struct sqlite3_api_routines *api)
{
    (void)error;
    (void)api;
    sqlite3_progress_handler(db, 100, count_steps, NULL);
    return SQLITE_OK;
}

static int64_t steps_of_one_message(struct fixture *f, struct worker *w)
{
    fixture_send(f, "new");
    int64_t before = steps;
    CHECK_EQ(CYCLE(w, .fresh_rows = 100, .due.rows = 100)->row_count, 1);
    struct verdict v = { .kind = VERDICT_COMPLETE, .row = w->reply->rows[0].row, .id = w->reply->rows[0].m.id };
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .fresh_rows = 100, .due.rows = 100);
    return steps - before;
}

TEST(a_hundred_thousand_held_rows_cost_the_others_nothing) /* B57 */
{
    int (*entry)(void) = (int (*)(void))(void (*)(void))on_open;
    CHECK_EQ(sqlite3_auto_extension((void (*)(void))entry), SQLITE_OK);
    struct fixture *f = fixture_open("?synchronous=normal");
    struct worker w;
    worker_open(&w, &f->store);
    CYCLE(&w, );
    CYCLE(&w, .fresh_rows = 100);
    int64_t alone = steps_of_one_message(f, &w);

    sqlite3 *db = fixture_raw(f);
    raw_run(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
                " INSERT INTO outbox (type, stream, held_by, payload) SELECT 't', 's' || (i % 2), 's' || (i % "
                "2), zeroblob(100) FROM n");
    sqlite3_close(db);
    while (!CYCLE(&w, .fresh_rows = 100)->fresh_end) /* once past them */
        CHECK_EQ(w.reply->row_count, 0);
    int64_t among = steps_of_one_message(f, &w);
    CHECK(among <= alone * 2 + 10);

    struct held_read read = { .key = PR_STR("s1"), .rows = 10 };
    CHECK_EQ(CYCLE(&w, .held = &read, .held_count = 1)->row_count, 10);
    CHECK_EQ(CYCLE(&w, .held_keys = { .rows = 10, .lanes = LANES_ALL })->held_key_count, 2);
    worker_close(&w);
    fixture_close(f);
    sqlite3_cancel_auto_extension((void (*)(void))entry);
}

TEST(a_walk_over_many_rows_stops_in_between_and_loses_none)
{
    struct fixture *f = fixture_open("?synchronous=normal");
    sqlite3 *db = fixture_raw(f);
    struct worker w;
    /* 300,000 places, of which one in a thousand is fresh, and a wide gap. */
    raw_run(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
                " INSERT INTO outbox (type, due_at) SELECT 't', iif(i % 1000 = 0, NULL, 9000000000000000) FROM n");
    raw_run(db, "INSERT INTO outbox (row_id, type) VALUES (900000000, 't')");
    sqlite3_close(db);
    worker_open(&w, &f->store);
    CYCLE(&w, );
    size_t count = 0;
    int64_t last = 0;
    int cycles = 0;
    do {
        CYCLE(&w, .fresh_rows = 1000);
        for (size_t i = 0; i < w.reply->row_count; i++) {
            CHECK(w.reply->rows[i].m.seq > last);
            last = w.reply->rows[i].m.seq;
        }
        count += w.reply->row_count;
        cycles++;
    } while (!w.reply->fresh_end);
    CHECK_EQ(count, 301);
    CHECK(cycles > 1);
    worker_close(&w);
    fixture_close(f);
}

/* ---- Counting what is far apart ------------------------------------------------------------ */

#define BIG_BYTES 3000 /* a page holds one such row */

/* What this process has read, from files and whatever else. */
static int64_t bytes_read(void)
{
    long long bytes = -1;
    FILE *file = fopen("/proc/self/io", "r");
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "rchar: %lld", &bytes), 1);
    fclose(file);
    return bytes;
}

static struct query_reply ask(struct fixture *f, const struct query *query, struct arena *arena)
{
    struct query_reply reply;
    CHECK_OK(store_query(&f->store, query, arena, &reply, &f->error), &f->error);
    return reply;
}

static const struct box_counts *outbox_of(const struct query_reply *reply)
{
    for (size_t i = 0; i < reply->box_count; i++)
        if (slice_eq_cstr(reply->boxes[i].name, "outbox"))
            return &reply->boxes[i];
    CHECK(!"the outbox is there");
    return NULL;
}

/* Of each 10: 4 are delayed, 2 failed, one failed after it was released, one is ready again, one parked; and one is
 * delayed, too, or (of each 100 one) held. */
static void plant_back(sqlite3 *db, int count)
{
    char sql[1024];
    snprintf(sql, sizeof(sql),
             "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
             " INSERT INTO outbox (type, destination, created_at, due_at, held_by, status, attempts, failures, "
             "released,"
             " failure_reason, payload)"
             " SELECT 't', iif(i %% 20 = 4, 'paused', 'e'), 7000 + i, CASE WHEN i %% 10 = 7 THEN 8000 WHEN i %% 10 "
             "= 8"
             " THEN 9223372036854775807 WHEN i %% 100 = 99 THEN NULL ELSE 9000000000000000 END,"
             " iif(i %% 100 = 99, 'e/s', NULL), iif(i %% 10 BETWEEN 4 AND 7, 32769, 1), i %% 10 BETWEEN 4 AND 7,"
             " i %% 10 BETWEEN 4 AND 7, i %% 10 = 6, iif(i %% 10 = 8, %d, 0), zeroblob(%d) FROM n",
             count - 1, PR_REASON_DESTINATION_MISSING, BIG_BYTES);
    raw_run(db, sql);
}

TEST(what_came_back_is_counted_and_what_is_parked_is_found_without_reading_the_others)
{
    struct fixture *f = fixture_open("?synchronous=normal");
    struct arena arena;
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "PRAGMA ignore_check_constraints = on"); /* small times are easy to read */
    plant_back(db, 5000);
    raw_run(db, "DELETE FROM outbox WHERE row_id IN (2010, 3010, 4010)");
    raw_run(db, "INSERT INTO outbox (row_id, type) VALUES (2010, 'fresh'), (4010, 'fresh'), (5001, 'fresh')");
    arena_init(&arena, 65536);
    (void)ask(f, &(struct query){ .kind = QUERY_FACTS }, &arena); /* the connection is there */

    int64_t before = bytes_read();
    struct query_reply boxes = ask(f, &(struct query){ .kind = QUERY_BOXES }, &arena);
    struct query_reply failing = ask(f, &(struct query){ .kind = QUERY_FAILING, .near = 1 }, &arena);
    const struct query parked = { .kind = QUERY_MESSAGES,
                                  .brief = true,
                                  .filter = { .state = STATE_PARKED,
                                              .reason = PR_REASON_DESTINATION_MISSING,
                                              .after = 4900,
                                              .box = PR_STR("outbox"),
                                              .limit = 1 } };
    CHECK_EQ(ask(f, &parked, &arena).listed_count, 1);
    CHECK(bytes_read() - before < 1000 * BIG_BYTES);

    const struct box_counts *b = outbox_of(&boxes);
    CHECK_EQ(b->delayed, 2447);
    CHECK_EQ(b->retrying, 1500);
    CHECK_EQ(b->ready, 503);
    CHECK_EQ(b->parked, 500);
    CHECK_EQ(b->held, 50);
    CHECK_EQ(b->oldest_us, 8000); /* when they came due */
    CHECK(box_counts_exact(b));
    for (size_t i = 0; i < failing.failing_count; i++)
        if (slice_eq_cstr(failing.failing[i].name, "outbox"))
            CHECK_EQ(failing.failing[i].rows, 2500); /* with those that are parked, and those that were released */

    raw_run(db, "INSERT INTO postrider_endpoint (name, paused_until) VALUES ('paused', 9223372036854775807)");
    boxes = ask(f, &(struct query){ .kind = QUERY_BOXES }, &arena);
    CHECK_EQ(outbox_of(&boxes)->paused, 250);
    CHECK_EQ(outbox_of(&boxes)->retrying, 1250);
    sqlite3_close(db);
    arena_fini(&arena);
    fixture_close(f);
}

TEST(behind_very_many_that_wait_for_their_time_the_newest_are_counted)
{
    struct fixture *f = fixture_open("?synchronous=normal");
    struct arena arena;
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "PRAGMA ignore_check_constraints = on"); /* small times are easy to read */
    raw_run(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)"
                " INSERT INTO outbox (row_id, type, due_at) SELECT 2 * i, 't', 9000000000000000 FROM n");
    raw_run(db, "INSERT INTO outbox (type, created_at) VALUES ('fresh', 5), ('fresh', 6)");
    sqlite3_close(db);
    arena_init(&arena, 65536);
    struct query_reply boxes = ask(f, &(struct query){ .kind = QUERY_BOXES }, &arena);
    const struct box_counts *b = outbox_of(&boxes);
    CHECK_EQ(b->ready, 2);
    CHECK_EQ(b->oldest_us, 5);
    CHECK_EQ(b->delayed, COUNT_EXACT_MAX + 1);
    CHECK(b->partial);
    arena_fini(&arena);
    fixture_close(f);
}

/* ---- Sending through somebody else's connection ------------------------------------------- */

TEST(a_message_sent_through_the_callers_connection_shares_its_fate) /* B1, B2 */
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    struct pr_error error;
    struct pr_message m = { .type = PR_STR("t"), .stream = PR_STR("s"), .payload = PR_STR("p") };
    pr_id_new(&m.id);
    raw_run(db, "BEGIN");
    CHECK_EQ(sqlite_send(db, PR_STR("outbox"), &m, &error), PR_OK);
    raw_run(db, "ROLLBACK");
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM outbox"), 0);

    raw_run(db, "BEGIN");
    CHECK_EQ(sqlite_send(db, PR_STR("outbox"), &m, &error), PR_OK);
    CHECK_EQ(sqlite_send(db, PR_STR("outbox"), &m, &error), PR_DUPLICATE);
    CHECK_EQ(sqlite3_get_autocommit(db), 0);
    raw_run(db, "COMMIT");
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM outbox WHERE stream = 's' AND payload = CAST('p' AS BLOB)"), 1);

    struct pr_message many[3] = { m, m, m };
    int answers[3];
    pr_id_new(&many[0].id);
    pr_id_new(&many[2].id);
    CHECK_EQ(sqlite_send_many(db, PR_STR("outbox"), many, 3, answers, &error), PR_OK);
    CHECK_EQ(answers[0], PR_OK);
    CHECK_EQ(answers[1], PR_DUPLICATE);
    CHECK_EQ(answers[2], PR_OK);
    /* The first one dies: its id is known all the same. */
    raw_run(db, "INSERT INTO postrider_dead_letter (box, id, destination, seq, status, attempts, failures, "
                "failure_reason, released,"
                " endpoint, cause, limit_reached, rule, fingerprint, died_at) SELECT 'outbox', id, "
                "destination, seq, 1, 0, 0, 0,"
                " 0, '', 10, 0, '', '', 1 FROM outbox ORDER BY row_id LIMIT 1;"
                "DELETE FROM outbox WHERE row_id = (SELECT min(row_id) FROM outbox)");
    CHECK_EQ(sqlite_send(db, PR_STR("outbox"), &m, &error), PR_DUPLICATE);
    CHECK_EQ(sqlite_send(db, PR_STR("ledger"), &m, &error), PR_OK);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM outbox"), 2);
    sqlite3_close(db);
    fixture_close(f);
}

TEST(sending_into_a_database_without_tables_says_run_init)
{
    sqlite3 *db = NULL;
    struct pr_error error;
    struct pr_message m = { .type = PR_STR("t") };
    pr_id_new(&m.id);
    CHECK_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
    CHECK_EQ(sqlite_send(db, PR_STR("outbox"), &m, &error), PR_ESCHEMA);
    CHECK(strstr(error.text, "postrider init") != NULL);
    CHECK_EQ(sqlite_send(db, PR_STR("no such box"), &m, &error), PR_EINVAL);
    sqlite3_close(db);
}

/* ---- What a plain INSERT is refused for --------------------------------------------------- */

static const struct {
    const char *columns, *values, *says;
} refused[] = {
    { "type, due_at", "'t', 1767225600", "postrider: due_at must be Unix microseconds" },
    { "type, due_at", "'t', 1767225600000", "milliseconds * 1000" },
    { "type, due_at", "'t', 1767225600000000000", "postrider: due_at" },
    { "type, due_at", "'t', 0", "postrider: due_at" },
    { "type, due_at", "'t', -1", "postrider: due_at" },
    { "type, due_at", "'t', '2030-01-01T00:00:00Z'", "postrider: due_at" },
    { "type, expires_at", "'t', strftime('%s', 'now') + 60", "postrider: expires_at must be Unix microseconds" },
    { "type, expires_at", "'t', 1767225600000", "seconds * 1000000" },
    { "type, expires_at", "'t', 'tomorrow'", "postrider: expires_at" },
    { "type, created_at", "'t', 1767225600", "postrider: created_at must be Unix microseconds" },
    { "type, created_at", "'t', datetime('now')", "postrider: created_at" },
    { "type", "''", "postrider: type must not be empty" },
    { "type, headers", "'t', '[1]'",
      "postrider: headers must be the text of a JSON object such as {\"tenant\":\"7\"}" },
    { "type, headers", "'t', '{\"a\":'", "postrider: headers" },
    { "type, headers", "'t', 'a: b'", "postrider: headers" },
    { "type, headers", "'t', 5", "postrider: headers" },
    { "type, headers", "'t', '{\"a\":{}}'",
      "postrider: headers must not hold objects or arrays: each value is a string" },
    { "type, headers", "'t', '{\"a\":1, \"b\" : [ 1 ]}'", "postrider: headers must not hold objects or arrays" },
    { "type, id", "'t', 'order-7'", "postrider: id must be a UUID" },
    { "type, id", "'t', 7", "postrider: id" },
    { "type, id", "'t', x'0102030405'", "blob of 16 bytes" },
    { "type, id", "'t', 'sixteen letters!'", "postrider: id" },
    { "type, id", "'t', '018f0000-0000-7000-8000-00000000000g'", "text of 36 characters" },
    { "type, payload", "'t', 42", "postrider: payload must be text or a blob" },
    { "type, payload", "'t', 4.5", "CAST(... AS TEXT)" },
    { "type, stream, event", "'t', 's', 'true'", "postrider: event must be 1" },
    { "type, stream, event", "'t', 's', 2", "postrider: event must be 1" },
    { "type, stream, event", "'t', x'73', 1", "postrider: type, stream and destination must be text" },
    { "type, stream", "'t', x'73'", "write CAST(... AS TEXT) of a blob" },
    { "type, stream", "'t', x''", "postrider: type, stream and destination must be text" },
    { "type, destination", "'t', x'73'", "postrider: type, stream and destination must be text" },
    { "type", "x'74'", "postrider: type, stream and destination must be text" },
};

TEST(what_no_relay_could_understand_is_refused_where_it_is_written_and_the_text_says_what_to_write) /* B9, D13 */
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    char sql[512];
    for (size_t i = 0; i < ARRAY_LENGTH(refused); i++) {
        snprintf(sql, sizeof(sql), "INSERT INTO outbox (%s) VALUES (%s)", refused[i].columns, refused[i].values);
        int rc = raw_try(db, sql);
        if ((rc & 0xff) != SQLITE_CONSTRAINT || strstr(sqlite3_errmsg(db), refused[i].says) == NULL)
            check_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(db));
    }
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM outbox"), 0);
    raw_run(db, "INSERT INTO ledger (type, stream) VALUES ('t', 7), ('t', '')"); /* they become text */
    CHECK_EQ(raw_try(db, "INSERT INTO ledger (type, due_at) VALUES ('t', 1767225600)"),
             SQLITE_CONSTRAINT); /* every box */

    raw_run(db, "INSERT INTO outbox (type, payload, headers, due_at, expires_at) VALUES"
                " ('good', NULL, NULL, NULL, NULL), ('good', '', '{}', 946684800000000, 1767225600000000),"
                " ('good', x'', ' {\"a\": \"b\"}', 9223372036854775807, 10413791999999999),"
                " ('good', '', '{\"a\":\"{\\\":{[\",\"b\":-1.5,\"c\":true,\"d\":null}', NULL, NULL)");
    raw_run(db, "INSERT INTO outbox (id, type) VALUES ('018f0000-0000-7000-8000-00000000000A', 'good'), "
                "(randomblob(16), 'good')");
    static const char *const changes[] = { "stream = x'73'", "due_at = 1767225600", "expires_at = 1767225600000",
                                           "type = ''",      "headers = '[]'",      "headers = '{\"a\":[]}'",
                                           "id = 'x'",       "payload = 1" };
    for (size_t i = 0; i < ARRAY_LENGTH(changes); i++) {
        snprintf(sql, sizeof(sql), "UPDATE outbox SET %s", changes[i]);
        CHECK_EQ(raw_try(db, sql) & 0xff, SQLITE_CONSTRAINT);
        CHECK(strstr(sqlite3_errmsg(db), "postrider: ") != NULL);
    }
    sqlite3_close(db);
    fixture_close(f);
}

TEST(rows_of_before_the_checks_stay_and_can_be_changed_moved_and_replayed) /* B9, I18 */
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "PRAGMA ignore_check_constraints = on");
    raw_run(db, "INSERT INTO outbox (type, expires_at, due_at) VALUES ('t', 1767225600, 1767225600)");
    raw_run(db, "PRAGMA ignore_check_constraints = off");
    raw_run(db, "UPDATE outbox SET destination = 'e'");
    struct worker w;
    worker_open(&w, &f->store);
    CYCLE(&w, );
    CHECK_EQ(CYCLE(&w, .due.rows = 10)->row_count, 1);
    struct verdict v = { .kind = VERDICT_DEAD_LETTER,
                         .row = w.reply->rows[0].row,
                         .id = w.reply->rows[0].m.id,
                         .cause = PR_REASON_REJECTED };
    CYCLE(&w, .verdicts = &v, .verdict_count = 1);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM postrider_dead_letter"), 1);
    const struct admin replay = { .kind = ADMIN_DEAD_REPLAY, .filter = { .ids = &v.id, .id_count = 1, .state = -1 } };
    struct admin_reply reply;
    CHECK_OK(store_admin(&f->store, &replay, &reply, &f->error), &f->error);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM outbox WHERE expires_at = 1767225600"), 1);
    sqlite3_close(db);
    worker_close(&w);
    fixture_close(f);
}

TEST(sending_on_the_callers_connection_tells_a_refusal_from_a_duplicate) /* B2 */
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    struct pr_message m = { .type = PR_STR("t"), .due_us = 1767225600 };
    pr_id_new(&m.id);
    CHECK_EQ(sqlite_send(db, PR_STR("outbox"), &m, &f->error), PR_EINVAL);
    CHECK(strstr(f->error.text, "postrider: due_at must be Unix microseconds") != NULL);
    m.due_us = 0;
    CHECK_EQ(sqlite_send(db, PR_STR("outbox"), &m, &f->error), PR_OK);
    CHECK_EQ(sqlite_send(db, PR_STR("outbox"), &m, &f->error), PR_DUPLICATE);
    sqlite3_close(db);
    fixture_close(f);
}

/* New rows are found by their places, and this one's was passed long ago: so it has a time. */
TEST(due_at_null_by_hand_means_now) /* B19 */
{
    struct worker w;
    struct fixture *f = fixture_open("");
    worker_open(&w, &f->store);
    CYCLE(&w, .fresh_rows = 10);
    sqlite3 *raw = fixture_raw(f);
    raw_run(raw, "INSERT INTO outbox (type, due_at) VALUES ('delayed', 9000000000000000)");
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10, .due = { .rows = 10 })->row_count, 0);
    raw_run(raw, "UPDATE outbox SET due_at = NULL, payload = 'mended'");
    CHECK_EQ(raw_int(raw, "SELECT count(*) FROM outbox WHERE due_at BETWEEN 1700000000000000 AND 8000000000000000"), 1);
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10, .due = { .rows = 10 })->row_count, 1);
    CHECK(slice_eq_cstr(w.reply->rows[0].m.payload, "mended"));
    sqlite3_close(raw);
    worker_close(&w);
    fixture_close(f);
}

/* It waits behind nothing that it waited behind, and a change of the payload alone lets nobody pass. */
TEST(a_held_row_that_is_sent_elsewhere_by_hand_is_not_held_any_more) /* B19 */
{
    struct fixture *f = fixture_open("");
    sqlite3 *raw = fixture_raw(f);
    raw_run(raw, "INSERT INTO outbox (type, held_by) VALUES ('moved', 'a/s'), ('stays', 'a/t')");
    raw_run(raw, "UPDATE outbox SET payload = payload, failures = failures");
    CHECK_EQ(raw_int(raw, "SELECT times FROM postrider_repaired WHERE box = 'outbox'"), 0);
    raw_run(raw, "UPDATE outbox SET payload = 'mended', destination = CASE type WHEN 'moved' THEN 'b' ELSE '' END");
    CHECK_EQ(raw_int(raw, "SELECT times FROM postrider_repaired WHERE box = 'outbox'"), 2);
    CHECK_EQ(raw_int(raw, "SELECT count(*) FROM outbox WHERE held_by IS NULL AND type = 'moved'"), 1);
    CHECK_EQ(raw_int(raw, "SELECT count(*) FROM outbox WHERE held_by = 'a/t' AND type = 'stays'"), 1);
    sqlite3_close(raw);
    fixture_close(f);
}
