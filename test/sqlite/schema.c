/* Tables, views, and what a plain INSERT gets. */
#include <stdio.h>
#include <string.h>

#include "store/sqlite/send.h"
#include "fixture.h"

TEST(migrating_twice_changes_nothing) /* I18 */
{
    struct fixture *f = fixture_open("");
    fixture_send(f, "kept");
    int64_t version = fixture_int(f, "SELECT value FROM postrider_meta WHERE key = 'schema_version'");
    int64_t tables = fixture_int(f, "SELECT count(*) FROM sqlite_master");
    CHECK_OK(fixture_migrate(f), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT value FROM postrider_meta WHERE key = 'schema_version'"), version);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM sqlite_master"), tables);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 1);
    CHECK_OK(store_check(&f->store, &f->error), &f->error);
    fixture_close(f);
}

static int migrate_in_child(void *arg)
{
    struct fixture *f = arg;
    const struct store_options options = { .url = f->url, .payload_max = PAYLOAD_MAX };
    struct store store = { 0 };
    struct pr_error error;
    if (store_open(&options, &store, &error) != PR_OK)
        return 1;
    int rc = store_migrate(&store, NULL, 0, &error);
    store_close(&store);
    return rc == PR_OK ? 0 : 2;
}

TEST(two_that_migrate_at_once_both_succeed) /* I18 */
{
    struct fixture *f = fixture_bare("?busy=1m"); /* three others go before the last one */
    pid_t children[4];
    for (size_t i = 0; i < ARRAY_LENGTH(children); i++)
        children[i] = child_start(migrate_in_child, f);
    for (size_t i = 0; i < ARRAY_LENGTH(children); i++)
        CHECK_EQ(child_wait(children[i]), 0);
    fixture_open_store(f);
    CHECK_OK(store_check(&f->store, &f->error), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_box"), 4);
    fixture_close(f);
}

#define DROP_ACTS(box)                                                                                                 \
    "DROP TRIGGER postrider_" box "_event; DROP TRIGGER postrider_" box "_schedule; DROP VIEW postrider_" box "_acts"

#define TRIGGER(box, act)                                                                                              \
    "CREATE TRIGGER postrider_" box "_" act " AFTER INSERT ON " box " BEGIN SELECT RAISE(ABORT, 'old'); END;"

/* In version 80 boxes of flows had the triggers of the others, in 85 none. */
TEST(of_older_stores_only_boxes_of_senders_have_the_new_triggers) /* I18 */
{
    static const char *const versions[] = {
        TRIGGER("turns", "event") TRIGGER("turns", "schedule") TRIGGER("activities", "event")
            TRIGGER("activities", "schedule") "UPDATE postrider_meta SET value = 80 WHERE key = 'schema_version'",
        "UPDATE postrider_meta SET value = 85 WHERE key = 'schema_version'",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(versions); i++) {
        struct fixture *f = fixture_open("");
        sqlite3 *db = fixture_raw(f);
        raw_run(db, DROP_ACTS("outbox") ";" DROP_ACTS("inbox") ";" DROP_ACTS("ledger"));
        raw_run(db, TRIGGER("outbox", "event") TRIGGER("outbox", "schedule") TRIGGER("inbox", "event"));
        raw_run(db, versions[i]);
        CHECK_OK(fixture_migrate(f), &f->error); /* db knows the schema of before */
        raw_run(db, "INSERT INTO outbox (type, stream, event) VALUES ('t', 's', 1);"
                    "INSERT INTO inbox (type, stream, event) VALUES ('t', 's', 1);"
                    "INSERT INTO turns (type, stream, event) VALUES ('t', 's', 0)");
        CHECK_EQ(raw_int(db, "SELECT count(*) FROM postrider_event"), 2);
        CHECK_EQ(raw_int(db, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'postrider%acts'"), 3);
        CHECK_EQ(raw_int(db, "SELECT count(*) FROM sqlite_master WHERE tbl_name LIKE 'postrider%acts'"), 9);
        CHECK_EQ(raw_int(db, "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%AFTER INSERT%'"
                             " AND tbl_name IN ('turns', 'activities')"),
                 0);
        CHECK_EQ(raw_int(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
        sqlite3_close(db);
        fixture_close(f);
    }
}

TEST(rows_of_a_version_before_say_after_the_upgrade_who_parked_them_and_what_they_are_held_for) /* I18 */
{
    static const char *const steps[] = {
        "DROP TABLE postrider_ended",
        DROP_ACTS("outbox"),
        DROP_ACTS("inbox"),
        DROP_ACTS("ledger"),
        "DROP VIEW postrider_messages",
        "DROP VIEW postrider_blocked_streams",
        "DROP VIEW postrider_schedules",
        "DROP TABLE turns", /* they and all of flows are younger */
        "DROP TABLE activities",
        "DELETE FROM postrider_box WHERE name IN ('turns', 'activities')",
        "DELETE FROM postrider_repaired WHERE box IN ('turns', 'activities')",
        "DROP TABLE postrider_flow",
        "DROP TABLE postrider_flow_execution",
        "DROP TABLE postrider_flow_mail",
        "DROP TABLE postrider_flow_session",
        "ALTER TABLE postrider_instance DROP COLUMN offer",
        "ALTER TABLE postrider_instance DROP COLUMN sources",
        "ALTER TABLE postrider_box DROP COLUMN passed_to",
        "DROP TABLE postrider_source_position",
        "DROP TABLE postrider_subscription",
        "DROP TABLE postrider_snapshot",
        "INSERT INTO inbox (type, stream, event) VALUES ('placed', 's', 1), ('paid', 's', 1), ('other', 's', 0)",
        "ALTER TABLE outbox DROP COLUMN held_for",
        "ALTER TABLE outbox DROP COLUMN parked_by",
        "ALTER TABLE inbox DROP COLUMN held_for",
        "ALTER TABLE inbox DROP COLUMN parked_by",
        "ALTER TABLE postrider_dead_letter DROP COLUMN held_for",
        "ALTER TABLE postrider_dead_letter DROP COLUMN parked_by",
        "ALTER TABLE postrider_done DROP COLUMN held_for",
        "ALTER TABLE postrider_done DROP COLUMN parked_by",
        "INSERT INTO outbox (type, held_by) VALUES ('stream', 'a/s'), ('endpoint', 'a/')",
        "INSERT INTO outbox (type, due_at, failure_reason, story) VALUES ('route', 9223372036854775807, 9,"
        " '[{\"attempt\":0,\"reason\":\"destination_missing\",\"rule\":\"routes\",\"step\":\"park\"}]'),"
        " ('rule', 9223372036854775807, 9, '[{\"attempt\":1,\"reason\":\"destination_missing\",\"step\":\"park\"}]'),"
        " ('person', 9223372036854775807, 9, '[{\"attempt\":0,\"rule\":\"ann\",\"step\":\"park\"}]'),"
        " ('sender', 9223372036854775807, 0, NULL)",
        "ALTER TABLE postrider_box DROP COLUMN table_name",
        "ALTER TABLE postrider_box DROP COLUMN dedupe_us",
        "DROP VIEW postrider_endpoint_overview",
        "ALTER TABLE postrider_endpoint DROP COLUMN duplicates",
        "DROP INDEX postrider_seen_until",
        "ALTER TABLE postrider_seen DROP COLUMN outcome",
        "ALTER TABLE postrider_seen DROP COLUMN alone",
        "ALTER TABLE postrider_seen DROP COLUMN until",
        "ALTER TABLE postrider_seen DROP COLUMN again_at",
        "DROP TABLE postrider_again",
        "CREATE INDEX postrider_seen_at ON postrider_seen (at)",
        "UPDATE postrider_meta SET value = 21 WHERE key = 'schema_version'",
    };
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++)
        raw_run(db, steps[i]);
    sqlite3_close(db);
    CHECK_OK(fixture_migrate(f), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT held_for FROM outbox WHERE type = 'stream'"), PR_HELD_FOR_STREAM);
    CHECK_EQ(fixture_int(f, "SELECT held_for FROM outbox WHERE type = 'endpoint'"), PR_HELD_FOR_ENDPOINT);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_messages WHERE parked_by = type"), 3);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_messages WHERE type = 'sender' AND parked_by IS NULL"), 1);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_dead_letter WHERE parked_by IS NOT NULL"), 0);
    CHECK_EQ(fixture_int(f, "SELECT group_concat(type || version || place) = 'placed11,paid22' FROM postrider_event"),
             1); /* what waited to be sent is stored as events, too */
    CHECK_EQ(fixture_int(f, "SELECT version FROM postrider_event_stream WHERE stream = 's'"), 2);
    fixture_close(f);
}

TEST(a_newer_schema_is_refused_with_what_to_do) /* I18 */
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "UPDATE postrider_meta SET value = 99 WHERE key = 'schema_version'");
    sqlite3_close(db);
    CHECK_EQ(fixture_migrate(f), PR_ESCHEMA);
    CHECK(strstr(f->error.text, "version 99") != NULL);
    CHECK(strstr(f->error.text, "upgrade Postrider") != NULL);
    memset(&f->error, 0, sizeof(f->error));
    CHECK_EQ(store_check(&f->store, &f->error), PR_ESCHEMA);
    CHECK(strstr(f->error.text, "upgrade Postrider") != NULL);
    fixture_close(f);
}

TEST(a_file_that_is_not_there_is_not_made_by_asking)
{
    struct fixture *f = fixture_bare("");
    fixture_open_store(f);
    CHECK_EQ(store_check(&f->store, &f->error), PR_ESCHEMA);
    CHECK(strstr(f->error.text, "postrider init") != NULL);
    struct store_session session;
    CHECK_EQ(store_session_open(&f->store, PR_STR("outbox"), &session, &f->error), PR_ESCHEMA);
    sqlite3 *db = NULL;
    CHECK(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK);
    sqlite3_close(db);
    fixture_close(f);
}

TEST(a_database_without_our_tables_says_run_init)
{
    struct fixture *f = fixture_bare("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "CREATE TABLE account (id INTEGER)");
    sqlite3_close(db);
    fixture_open_store(f);
    CHECK_EQ(store_check(&f->store, &f->error), PR_ESCHEMA);
    CHECK(strstr(f->error.text, "postrider init") != NULL);
    CHECK_OK(fixture_migrate(f), &f->error);
    CHECK_OK(store_check(&f->store, &f->error), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM account"), 0);
    fixture_close(f);
}

TEST(the_name_of_a_table_that_is_there_cannot_be_a_box)
{
    struct fixture *f = fixture_open("");
    static const char *const bad[] = { "postrider_meta", "postrider_mine", "a b", "x\"; DROP TABLE outbox; --", "",
                                       "Outbox" };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        CHECK_EQ(store_migrate(&f->store, &(struct store_box){ bad[i], NULL }, 1, &f->error), PR_EINVAL);
    CHECK_OK(store_check(&f->store, &f->error), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_box"), 5);
    fixture_close(f);
}

TEST(a_name_that_the_application_has_taken_is_said_in_words_and_nothing_is_changed) /* D14 */
{
    struct fixture *f = fixture_bare("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "CREATE TABLE outbox (mine TEXT); INSERT INTO outbox VALUES ('x')");
    fixture_open_store(f);
    CHECK_EQ(fixture_migrate(f), PR_EINVAL);
    CHECK(strstr(f->error.text, "already has a table \"outbox\" that Postrider did not create") != NULL);
    CHECK(strstr(f->error.text, f->path) != NULL);
    CHECK(strstr(f->error.text, "name another with boxes.outbox.table") != NULL);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM sqlite_master"), 1);
    CHECK_EQ(raw_int(db, "SELECT count(mine) FROM outbox"), 1);
    raw_run(db, "ALTER TABLE outbox RENAME TO shop_outbox; CREATE VIEW ledger AS SELECT 1");
    CHECK_EQ(fixture_migrate(f), PR_EINVAL);
    CHECK(strstr(f->error.text, "\"ledger\"") != NULL && strstr(f->error.text, "boxes.ledger.table") != NULL);
    sqlite3_close(db);
    fixture_close(f);
}

TEST(what_is_called_as_our_tables_are_is_said_in_words_and_nothing_is_changed) /* D14 */
{
    static const struct {
        const char *sql, *text;
    } taken[] = {
        { "CREATE TABLE postrider_meta (x)", "already has a table \"postrider_meta\" that Postrider did not create" },
        { "CREATE TABLE postrider_dead_letter (x)", "a table \"postrider_dead_letter\"" },
        { "CREATE VIEW postrider_messages AS SELECT 1 AS mine", "a view \"postrider_messages\"" },
        { "CREATE TABLE t (x); CREATE INDEX postrider_done_id ON t (x)", "an index \"postrider_done_id\"" },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(taken); i++) {
        struct fixture *f = fixture_bare("");
        sqlite3 *db = fixture_raw(f);
        raw_run(db, taken[i].sql);
        int64_t before = raw_int(db, "SELECT count(*) FROM sqlite_master");
        fixture_open_store(f);
        CHECK_EQ(fixture_migrate(f), PR_EINVAL);
        CHECK(strstr(f->error.text, taken[i].text) != NULL);
        CHECK(strstr(f->error.text, "rename it, or use another file") != NULL);
        CHECK_EQ(raw_int(db, "SELECT count(*) FROM sqlite_master"), before);
        sqlite3_close(db);
        fixture_close(f);
    }
}

static int migrate_one(struct fixture *f, const char *box, const char *table)
{
    return store_migrate(&f->store, &(struct store_box){ box, table }, 1, &f->error);
}

TEST(a_box_can_have_another_table_than_its_name_which_may_be_the_applications) /* D14 */
{
    const struct pr_message m = { .type = PR_STR("sent"), .id = { { 1 } } },
                            other = { .type = PR_STR("sent"), .id = { { 2 } } };
    int answer;
    struct fixture *f = fixture_bare("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "CREATE TABLE outbox (mine TEXT); INSERT INTO outbox VALUES ('x')");
    fixture_open_store(f);
    CHECK_OK(migrate_one(f, "outbox", "shop_outbox"), &f->error);
    raw_run(db, "INSERT INTO shop_outbox (type, payload) VALUES ('plain', 'x')");
    CHECK_OK(sqlite_send_many(db, PR_STR("outbox"), &m, 1, &answer, &f->error), &f->error);
    CHECK_OK(store_enqueue(&f->store, PR_STR("outbox"), &other, 1, 100, &(pr_id){ { 0 } }, &answer, &f->error),
             &f->error);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM shop_outbox"), 3);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM postrider_messages WHERE box = 'outbox' AND state = 'ready'"), 3);
    CHECK_EQ(raw_int(db, "SELECT count(mine) FROM outbox"), 1);
    CHECK_EQ(sqlite_send_many(db, PR_STR("shop_outbox"), &m, 1, &answer, &f->error), PR_ESCHEMA);
    CHECK(strstr(f->error.text, "no box \"shop_outbox\"") != NULL);
    CHECK_OK(fixture_migrate(f), &f->error); /* who does not say it finds it */
    sqlite3_close(db);
    fixture_close(f);
}

TEST(the_table_of_a_box_is_nobody_elses_and_stays) /* D14 */
{
    struct fixture *f = fixture_open("");
    CHECK_OK(migrate_one(f, "shop", "shop_outbox"), &f->error);
    CHECK_OK(migrate_one(f, "shop", "shop_outbox"), &f->error);
    CHECK_OK(migrate_one(f, "shop", NULL), &f->error);
    CHECK_EQ(migrate_one(f, "shop", "other"), PR_ECONFIG);
    CHECK(strstr(f->error.text, "\"shop_outbox\"") != NULL && strstr(f->error.text, "set it back") != NULL);
    CHECK_EQ(migrate_one(f, "outbox", "other"), PR_ECONFIG);
    CHECK_EQ(migrate_one(f, "second", "Shop_Outbox"), PR_EINVAL);
    CHECK(strstr(f->error.text, "already the table of the box \"shop\"") != NULL);
    CHECK_EQ(migrate_one(f, "shop_outbox", NULL), PR_EINVAL);
    CHECK_EQ(migrate_one(f, "Shop", "third"), PR_EINVAL);
    CHECK_EQ(migrate_one(f, "second", "postrider_meta"), PR_EINVAL);
    CHECK_EQ(migrate_one(f, "second", "a\" b"), PR_EINVAL);
    CHECK_OK(store_check_boxes(&f->store, &(struct store_box){ "shop", "shop_outbox" }, 1, &f->error), &f->error);
    CHECK_EQ(store_check_boxes(&f->store, &(struct store_box){ "shop", "other" }, 1, &f->error), PR_ECONFIG);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_box"), 6);
    fixture_close(f);
}

TEST(unknown_options_of_the_url_are_named)
{
    static const char *const bad[] = { "sqlite:x.db?sync=full", "sqlite:x.db?synchronous=off", "sqlite:x.db?busy=soon",
                                       "sqlite:" };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        const struct store_options options = { .url = bad[i], .payload_max = PAYLOAD_MAX };
        struct store store = { 0 };
        struct pr_error error = { 0 };
        CHECK_EQ(store_open(&options, &store, &error), PR_EINVAL);
        CHECK(error.text[0] != '\0');
    }
}

/* ---- Plain INSERTs ------------------------------------------------------------------ */

TEST(a_plain_insert_of_type_and_payload_is_a_message)
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    int64_t before_us = clock_wall_us(clock_system());
    raw_run(db, "INSERT INTO outbox (type, payload) VALUES ('a.b', '{\"x\":1}')");
    raw_run(db, "INSERT INTO outbox (type, payload) VALUES ('a.b', x'00ff')");
    sqlite3_close(db);

    struct worker w;
    worker_open(&w, &f->store);
    CYCLE(&w, );
    const struct cycle_reply *r = CYCLE(&w, .fresh_rows = 10);
    CHECK_EQ(r->row_count, 2);
    const struct pr_message *m = &r->rows[0].m;
    CHECK(r->rows[0].bad == NULL);
    CHECK_EQ(m->id.bytes[6] >> 4, 7); /* a UUIDv7 ... */
    CHECK_EQ(m->id.bytes[8] >> 6, 2);
    int64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | m->id.bytes[i];
    CHECK(ms >= before_us / 1000 - 1 && ms <= clock_wall_us(clock_system()) / 1000 + 1); /* ... of now */
    CHECK(!pr_id_equal(m->id, r->rows[1].m.id));
    CHECK(m->created_us >= before_us - 2000 && m->created_us <= clock_wall_us(clock_system()) + 2000);
    CHECK_EQ(m->status, PR_STATUS_STORED);
    CHECK_EQ(m->due_us, 0);
    CHECK_SLICE(m->destination, "");
    CHECK_SLICE(m->payload, "{\"x\":1}");
    CHECK_SLICE(r->rows[1].m.payload, PR_BYTES("\x00\xff", 2));
    worker_close(&w);
    fixture_close(f);
}

/* The expression that makes ids, asked at times of three centuries. */
TEST(an_id_that_is_made_begins_with_its_milliseconds_at_any_time)
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    char make[8192], sql[16384];
    raw_text(db,
             "SELECT replace(dflt_value, 'julianday()', 'julianday(ms / 1000.0, ''unixepoch'')')"
             " FROM pragma_table_info('outbox') WHERE name = 'id'",
             make, sizeof(make));
    CHECK(strstr(make, "julianday(ms") != NULL);
    snprintf(sql, sizeof(sql),
             "WITH RECURSIVE time(ms) AS (SELECT 946684800000 UNION ALL SELECT ms + 2654435761 FROM time LIMIT 3500)"
             " SELECT count(DISTINCT id) FROM (SELECT ms, %s AS id FROM time LIMIT -1 OFFSET 0)"
             " WHERE typeof(id) = 'blob' AND length(id) = 16 AND substr(hex(id), 1, 12) = printf('%%012X', ms)"
             " AND substr(hex(id), 13, 1) = '7' AND substr(hex(id), 17, 1) IN ('8', '9', 'A', 'B')",
             make);
    CHECK_EQ(raw_int(db, sql), 3500);
    raw_run(db, "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 3000)"
                " INSERT INTO outbox (type) SELECT 't' FROM n"); /* in a few milliseconds, and all different */
    CHECK_EQ(
        raw_int(db, "SELECT count(*) FROM outbox WHERE substr(hex(id), 1, 12) = printf('%012X', created_at / 1000)"),
        3000);
    sqlite3_close(db);
    fixture_close(f);
}

/* SQLite prepares room for the body of each trigger for each row, whether its condition holds or not. */
TEST(a_box_has_short_triggers_for_insert_and_a_box_of_flows_none)
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    static const char OF_OUTBOX[] =
        "FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'outbox' AND sql LIKE '%AFTER INSERT%'";
    char sql[256];
    snprintf(sql, sizeof(sql), "SELECT count(*) %s", OF_OUTBOX);
    CHECK_EQ(raw_int(db, sql), 2);
    snprintf(sql, sizeof(sql), "SELECT max(length(sql)) < 400 %s", OF_OUTBOX);
    CHECK_EQ(raw_int(db, sql), 1);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view') AND"
                         " (tbl_name LIKE 'postrider_turns%' OR tbl_name LIKE 'postrider_activities%')"),
             0);
    sqlite3_close(db);
    fixture_close(f);
}

/* A trigger does not run inside itself unless the application has said so (recursive_triggers). */
TEST(an_event_that_an_applications_trigger_stores_because_of_an_order_is_one)
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "CREATE TRIGGER of_the_application AFTER INSERT ON outbox WHEN NEW.destination = 'schedule:' BEGIN"
                " INSERT INTO outbox (type, stream, event) VALUES ('ordered', 'audit', 1); END");
    raw_run(db, "INSERT INTO outbox (type, stream, destination, payload)"
                " VALUES ('t', 'nightly', 'schedule:', '{\"cron\":\"0 3 * * *\"}')");
    raw_run(db, "INSERT INTO outbox (type, stream, destination, payload)"
                " VALUES ('t', 'nightly', 'schedule:', '{\"run\":true}')");
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM outbox WHERE event"), 3); /* an order is stored anew as a wish */
    CHECK_EQ(raw_int(db, "SELECT max(version) FROM postrider_event WHERE stream = 'audit'"), 3);
    sqlite3_close(db);
    fixture_close(f);
}

TEST(a_message_follows_the_transaction_of_its_sender) /* B1 */
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "BEGIN; INSERT INTO outbox (type, payload) VALUES ('gone', 'x'); ROLLBACK");
    raw_run(db, "BEGIN; INSERT INTO outbox (type, payload) VALUES ('kept', 'x'); COMMIT");
    sqlite3_close(db);
    struct worker w;
    worker_open(&w, &f->store);
    CYCLE(&w, );
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 1);
    CHECK_SLICE(w.reply->rows[0].m.type, "kept");
    worker_close(&w);
    fixture_close(f);
}

TEST(the_same_id_twice_gets_the_databases_own_error) /* B2 */
{
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "INSERT INTO outbox (id, type) VALUES (x'00112233445566778899aabbccddeeff', 't')");
    CHECK_EQ(raw_try(db, "INSERT INTO outbox (id, type) VALUES (x'00112233445566778899aabbccddeeff', 't')"),
             SQLITE_CONSTRAINT);
    CHECK_EQ(raw_try(db, "INSERT INTO outbox (type, due_at) VALUES ('t', 'tomorrow')"), SQLITE_CONSTRAINT);
    CHECK_EQ(raw_try(db, "INSERT INTO outbox (payload) VALUES ('no type')"), SQLITE_CONSTRAINT);
    sqlite3_close(db);
    fixture_close(f);
}

/* Some languages bind UUIDs as text, in small or capital letters. */
TEST(ids_that_are_stored_as_text_are_read_found_judged_and_known)
{
    static const char *const texts[] = { "018f0000-0000-7000-8000-00000000000a",
                                         "018F0000-0000-7000-8000-00000000000B" };
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "INSERT INTO outbox (id, type) VALUES ('018f0000-0000-7000-8000-00000000000a', 't'),"
                " ('018F0000-0000-7000-8000-00000000000B', 't')");
    struct worker w;
    worker_open(&w, &f->store);
    CYCLE(&w, );
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 2);
    for (size_t i = 0; i < 2; i++) {
        pr_id id;
        CHECK_EQ(pr_id_parse(pr_str(texts[i]), &id), PR_OK);
        CHECK(pr_id_equal(w.reply->rows[i].m.id, id));
        CHECK(w.reply->rows[i].bad == NULL);

        struct pr_message m = { .id = id, .type = PR_STR("t") };
        pr_id again;
        int answer;
        CHECK_OK(store_enqueue(&f->store, PR_STR("outbox"), &m, 1, PAYLOAD_MAX, &again, &answer, &f->error), &f->error);
        CHECK_EQ(answer, PR_DUPLICATE);
    }
    struct verdict v[] = {
        { .kind = VERDICT_COMPLETE, .row = w.reply->rows[0].row, .id = w.reply->rows[0].m.id },
        { .kind = VERDICT_DEAD_LETTER,
          .row = w.reply->rows[1].row,
          .id = w.reply->rows[1].m.id,
          .cause = PR_REASON_REJECTED },
    };
    CYCLE(&w, .verdicts = v, .verdict_count = 2);
    CHECK_EQ(w.reply->answers[0], PR_OK);
    CHECK_EQ(w.reply->answers[1], PR_OK);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM outbox"), 0);
    CHECK_EQ(
        raw_int(db, "SELECT count(*) FROM postrider_dead_letter WHERE id = '018F0000-0000-7000-8000-00000000000B'"), 1);
    sqlite3_close(db);
    worker_close(&w);
    fixture_close(f);
}

#define DEAD(id)                                                                                                       \
    "INSERT INTO postrider_dead_letter (box, id, destination, seq, status, attempts, failures, failure_reason,"        \
    " released, endpoint, cause, limit_reached, rule, fingerprint, died_at)"                                           \
    " VALUES ('outbox', " id ", '', 1, 0, 1, 1, 1, 0, 'e', 1, 0, '', 'f', 1)"

static void plant_known(sqlite3 *db, const char *known)
{
    raw_run(db, "DELETE FROM outbox; DELETE FROM postrider_dead_letter; DELETE FROM postrider_seen;"
                "UPDATE postrider_box SET dedupe_us = 0; DROP TRIGGER IF EXISTS of_the_application");
    raw_run(db, known);
}

static void check_known(struct fixture *f, sqlite3 *db, int known_too, bool on_callers_connection)
{
    enum { COUNT = 6, KNOWN = 4 };
    struct pr_message m[COUNT];
    pr_id ids[COUNT];
    int answers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        m[i] = (struct pr_message){ .type = PR_STR("t"), .payload = PR_STR("p") };
        CHECK_EQ(pr_id_parse(PR_STR("018f0000-0000-7000-8000-000000000000"), &m[i].id), PR_OK);
        m[i].id.bytes[15] = (unsigned char)i;
    }
    if (on_callers_connection) {
        raw_run(db, "BEGIN");
        CHECK_OK(sqlite_send_many(db, PR_STR("outbox"), m, COUNT, answers, &f->error), &f->error);
        raw_run(db, "COMMIT");
    } else {
        CHECK_OK(store_enqueue(&f->store, PR_STR("outbox"), m, COUNT, PAYLOAD_MAX, ids, answers, &f->error), &f->error);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(answers[i], i == KNOWN || i == known_too ? PR_DUPLICATE : PR_OK);
}

TEST(of_many_messages_the_one_that_is_known_is_told_however_it_is_known) /* B2 */
{
    static const struct {
        const char *sql;
        int known_too; /* that the trigger of the application leaves out */
    } known[] = {
        { "INSERT INTO outbox (id, type) VALUES ('018F0000-0000-7000-8000-000000000004', 't')", -1 },
        { "INSERT INTO outbox (id, type) VALUES (x'018f0000000070008000000000000004', 't')", -1 },
        { DEAD("x'018f0000000070008000000000000004'"), -1 },
        { DEAD("'018F0000-0000-7000-8000-000000000004'"), -1 },
        { "UPDATE postrider_box SET dedupe_us = 1000000; INSERT INTO postrider_seen (box, id, handler, at, alone)"
          " VALUES ('outbox', x'018f0000000070008000000000000004', 'e', 1, 1)",
          -1 },
        { "CREATE TRIGGER of_the_application AFTER INSERT ON outbox WHEN hex(NEW.id) LIKE '%1' BEGIN"
          " INSERT INTO outbox (id, type) VALUES ('018f0000-0000-7000-8000-000000000004', 'mine'); END",
          -1 },
        { "CREATE TRIGGER of_the_application BEFORE INSERT ON outbox WHEN hex(NEW.id) LIKE '%2' BEGIN"
          " INSERT INTO outbox (id, type) VALUES ('018f0000-0000-7000-8000-000000000004', 'mine');"
          " SELECT RAISE(IGNORE); END",
          2 },
    };
    struct fixture *f = fixture_open("");
    sqlite3 *db = fixture_raw(f);
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
        for (int callers = 0; callers < 2; callers++) {
            plant_known(db, known[i].sql);
            check_known(f, db, known[i].known_too, callers);
        }
    sqlite3_close(db);
    fixture_close(f);
}

/* ---- Views --------------------------------------------------------------------------- */

TEST(the_views_for_people_say_what_the_listings_say) /* B201 */
{
    struct fixture *f = fixture_open("");
    struct worker w;
    worker_open(&w, &f->store);
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "INSERT INTO outbox (type, stream, destination) VALUES ('head', 's', 'x'), ('follower', 's', 'x')");
    raw_run(db, "INSERT INTO outbox (type, destination) VALUES ('ready', ''), ('paused', 'e'), ('flying', '')");
    raw_run(db, "INSERT INTO outbox (type, due_at) VALUES ('parked', 9223372036854775807), ('delayed', "
                "9000000000000000)");
    raw_run(db, "INSERT INTO ledger (type) VALUES ('other')");
    const struct admin pause = { .kind = ADMIN_PAUSE,
                                 .filter = { .endpoint = PR_STR("e"), .state = -1 },
                                 .why = PR_STR("why") };
    struct admin_reply paused;
    CHECK_OK(store_admin(&f->store, &pause, &paused, &f->error), &f->error);

    CYCLE(&w, );
    CYCLE(&w, .fresh_rows = 10);
    const struct row *rows = w.reply->rows;
    struct verdict v[] = {
        { .kind = VERDICT_FAIL,
          .row = rows[0].row,
          .id = rows[0].m.id,
          .number = 1,
          .reason = PR_REASON_REJECTED,
          .delay_us = PR_MINUTES(9) },
        { .kind = VERDICT_HOLD, .row = rows[1].row, .id = rows[1].m.id, .held_by = PR_STR("x/s") },
    };
    struct receipt_entry entry = { rows[4].row, 1 };
    CYCLE(&w, .verdicts = v, .verdict_count = 2, .receipt = &entry, .receipt_count = 1);

    static const char *const states[] = { "ready", "in-flight", "delayed", "retrying", "held", "parked", "paused" };
    for (size_t i = 0; i < ARRAY_LENGTH(states); i++) {
        char sql[128];
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM postrider_messages WHERE box = 'outbox' AND state = '%s'",
                 states[i]);
        if (raw_int(db, sql) != 1)
            check_fail(__FILE__, __LINE__, "the view messages has not one that is %s", states[i]);
    }
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM postrider_messages"), 8);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM postrider_messages WHERE length(id) = 36"), 8);
    CHECK_EQ(
        raw_int(db,
                "SELECT held FROM postrider_blocked_streams WHERE box = 'outbox' AND stream = 's' AND endpoint = 'x'"
                " AND head_state = 'failed' AND head = (SELECT id FROM postrider_messages WHERE type = 'head')"),
        1);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM postrider_blocked_streams"), 1);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM postrider_endpoint_overview WHERE name = 'e' AND state = 'paused' AND "
                         "paused_why = 'why'"),
             1);
    /* What is parked holds nobody up where something failed; nor does what nobody waits behind. */
    raw_run(db, "UPDATE outbox SET due_at = 9223372036854775807 WHERE type = 'head'");
    CHECK_EQ(
        raw_int(db, "SELECT count(*) FROM postrider_blocked_streams WHERE head_state = 'parked' AND due_at IS NULL"),
        1);
    raw_run(db, "INSERT INTO outbox (type, stream, destination, status, attempts, due_at) VALUES"
                " ('second', 's', 'x', 32769, 1, 9000000000000000), ('alone', 't', 'x', 32769, 1, 9000000000000000)");
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM postrider_blocked_streams"), 1);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM postrider_blocked_streams WHERE head_state = 'failed'"
                         " AND head = (SELECT id FROM postrider_messages WHERE type = 'second')"),
             1);
    sqlite3_close(db);
    worker_close(&w);
    fixture_close(f);
}

TEST(every_action_is_in_the_audit) /* B202 */
{
    struct fixture *f = fixture_open("");
    pr_id id = fixture_send(f, "x");
    const struct admin park = { .kind = ADMIN_PARK,
                                .filter = { .ids = &id, .id_count = 1, .state = -1 },
                                .by = PR_STR("ann"),
                                .why = PR_STR("it's \"odd\"") };
    struct admin_reply reply;
    CHECK_OK(store_admin(&f->store, &park, &reply, &f->error), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_audit WHERE who = 'ann' AND action = 'park' AND changed = 1"
                            " AND why = 'it''s \"odd\"' AND json_valid(target)"),
             1);
    fixture_close(f);
}

/* Each row of these boxes would pay for what it never is. */
