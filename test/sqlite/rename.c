/* Stores whose tables have bare names, and applications that have tables of these names. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/failpoint.h"
#include "fixture.h"
#include "old_stores.h"

/* A file as version 10 left it; none open. */
static struct fixture *fixture_old(void)
{
    struct fixture *f = fixture_bare("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, old_stores[0].sql);
    raw_run(db, "PRAGMA journal_mode = wal");
    sqlite3_close(db);
    return f;
}

/* Of version 10, as it was before breakers were told. */
static void make_old(sqlite3 *db)
{
    static const char *const steps[] = {
        "DROP VIEW messages",
        "DROP VIEW blocked_streams",
        "DROP VIEW endpoint_overview",
        "DROP VIEW open_breaker",
        "DROP VIEW in_flight",
        "DROP VIEW audit_log",
        "DROP INDEX dead_letter_group",
        "DROP INDEX dead_letter_endpoint",
        "DROP INDEX dead_letter_stream",
        "DROP INDEX dead_letter_died",
        "DROP INDEX dead_letter_print",
        "DROP INDEX outbox_back",
        "DROP INDEX inbox_back",
        "DROP INDEX ledger_back",
        "DROP TABLE raised_warning",
        "ALTER TABLE dead_letter DROP COLUMN edited_as",
        "DROP TABLE breaker",
        "ALTER TABLE instance DROP COLUMN lease_wall",
        "ALTER TABLE endpoint DROP COLUMN last_failed_at",
        "ALTER TABLE endpoint DROP COLUMN last_reason",
        "ALTER TABLE endpoint DROP COLUMN last_code",
        "ALTER TABLE endpoint DROP COLUMN last_error",
        "INSERT INTO endpoint (name, sent) VALUES ('e', 7)",
        /* two parts of a message, of which one has failed */
        "INSERT INTO outbox (id, type, destination, split_seq, created_at, due_at, attempts, status)"
        " VALUES (x'0190163d8694739baea5966c26f8ad91', 'part', 'a', 1, 1000, 1000, 0, 1),"
        " (x'0190163d8694739baea5966c26f8ad91', 'part', 'b', 1, 1000, 1000, 1, 32769)",
        "UPDATE meta SET value = 2 WHERE key = 'schema_version'",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++)
        raw_run(db, steps[i]);
}

TEST(a_file_of_an_older_version_is_upgraded_and_keeps_what_it_has) /* I18 */
{
    struct fixture *f = fixture_old();
    sqlite3 *db = fixture_raw(f);
    make_old(db);
    raw_run(db, "CREATE TABLE breaker (fuse TEXT)"); /* of the application: that version had none */
    sqlite3_close(db);
    fixture_open_store(f);
    CHECK_EQ(store_check(&f->store, &f->error), PR_ESCHEMA);
    CHECK(strstr(f->error.text, "version 2") != NULL);
    CHECK_OK(fixture_migrate(f), &f->error);
    CHECK_OK(store_check(&f->store, &f->error), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 4);
    CHECK_EQ(fixture_int(f, "SELECT held_by = 'a/' AND due_at IS NULL FROM outbox WHERE destination = 'a'"), 1);
    CHECK_EQ(fixture_int(f, "SELECT held_by IS NULL AND due_at = 1000 FROM outbox WHERE destination = 'b'"), 1);
    CHECK_EQ(fixture_int(f, "SELECT sent FROM postrider_endpoint_overview WHERE name = 'e' AND state = 'ok'"), 7);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_messages WHERE endpoint_state IS NULL"), 4);
    CHECK_EQ(fixture_int(f, "SELECT count(fuse) FROM breaker"), 0);
    fixture_close(f);
}

/* All that is ours and is not a box, under a name that is. */
#define UNPREFIXED                                                                                                     \
    "SELECT count(*) FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' AND name NOT LIKE 'postrider_%'"                \
    " AND name NOT IN ('outbox', 'inbox', 'turns', 'activities', 'ledger', 'meta')"

static void check_renamed(struct fixture *f)
{
    CHECK_OK(store_check(&f->store, &f->error), &f->error);
    CHECK_EQ(fixture_int(f, UNPREFIXED), 0);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), 2);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_dead_letter WHERE type = 'dies'"), 1);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM postrider_audit WHERE action IN ('dead_add', 'pause')"), 2);
    CHECK_EQ(fixture_int(f, "SELECT seq FROM sqlite_sequence WHERE name = 'postrider_control'"), 3);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM sqlite_sequence WHERE name = 'control'"), 0);
}

TEST(a_store_with_bare_names_is_renamed_and_is_what_a_new_one_is) /* D14, I18 */
{
    struct fixture *f = fixture_old();
    fixture_open_store(f);
    CHECK_EQ(store_check(&f->store, &f->error), PR_ESCHEMA);
    CHECK(strstr(f->error.text, "run postrider init") != NULL);
    CHECK_OK(fixture_migrate(f), &f->error);
    check_renamed(f);
    static const char TABLE[] = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'outbox'";
    char renamed[8192];
    sqlite3 *db = fixture_raw(f);
    static const char NAMES[] =
        "SELECT group_concat(name) FROM (SELECT name FROM sqlite_master WHERE name <> 'meta' AND name"
        " NOT LIKE 'sqlite_autoindex_meta%' ORDER BY name)";
    raw_text(db, NAMES, renamed, sizeof(renamed));
    char table[8192];
    raw_text(db, TABLE, table, sizeof(table));
    sqlite3_close(db);

    struct worker w; /* and it works */
    worker_open(&w, &f->store);
    CYCLE(&w, );
    CHECK_EQ(CYCLE(&w, .fresh_rows = 10)->row_count, 1);
    worker_close(&w);
    fixture_close(f);

    f = fixture_open("");
    char fresh[8192];
    db = fixture_raw(f);
    raw_text(db, NAMES, fresh, sizeof(fresh));
    char fresh_table[8192];
    raw_text(db, TABLE, fresh_table, sizeof(fresh_table));
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM sqlite_master WHERE name = 'meta'"), 0);
    sqlite3_close(db);
    CHECK_STR(renamed, fresh);
    CHECK_STR(table, fresh_table);
    CHECK(strstr(table, "CONSTRAINT \"postrider: due_at") != NULL);
    CHECK(strstr(table, "DEFAULT (max(") != NULL);
    CHECK(strstr(table, "typeof(due_at)") == NULL);
    fixture_close(f);
}

/* What a program of version 10 asks first. */
TEST(an_older_program_finds_a_version_that_it_does_not_know) /* D14, I18 */
{
    struct fixture *f = fixture_old();
    fixture_open_store(f);
    CHECK_OK(fixture_migrate(f), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'"), 1);
    CHECK(fixture_int(f, "SELECT value FROM meta WHERE key = 'schema_version'") > 10);
    CHECK_OK(fixture_migrate(f), &f->error);
    check_renamed(f);
    fixture_close(f);
}

TEST(an_applications_trigger_on_a_box_and_rows_of_before_the_checks_outlive_the_upgrade) /* D13 */
{
    struct fixture *f = fixture_old();
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "CREATE TABLE sent (type TEXT); CREATE TRIGGER mine AFTER INSERT ON outbox BEGIN INSERT INTO sent "
                "VALUES (NEW.type);"
                "END; INSERT INTO outbox (type, due_at, payload) VALUES ('in seconds', 1767225600, 7)");
    sqlite3_close(db);
    fixture_open_store(f);
    CHECK_OK(fixture_migrate(f), &f->error);
    db = fixture_raw(f);
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM outbox WHERE due_at = 1767225600 AND payload = 7"), 1);
    raw_run(db, "INSERT INTO outbox (type) VALUES ('new')");
    CHECK_EQ(raw_int(db, "SELECT count(*) FROM sent"), 2);
    CHECK_EQ(raw_try(db, "INSERT INTO outbox (type, due_at) VALUES ('in seconds', 1767225600)"), SQLITE_CONSTRAINT);
    sqlite3_close(db);
    fixture_close(f);
}

TEST(an_applications_views_over_our_tables_go_on) /* D14 */
{
    struct fixture *f = fixture_old();
    sqlite3 *db = fixture_raw(f);
    raw_run(db,
            "CREATE VIEW letters AS SELECT type FROM dead_letter; CREATE VIEW all_messages AS SELECT * FROM messages;"
            "CREATE INDEX my_own ON dead_letter (note)");
    sqlite3_close(db);
    fixture_open_store(f);
    CHECK_OK(fixture_migrate(f), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM letters"), 1);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM sqlite_master WHERE name = 'my_own'"), 1);
    fixture_close(f);
}

TEST(an_application_has_tables_of_the_names_that_were_ours) /* D14 */
{
    struct fixture *f = fixture_bare("");
    sqlite3 *db = fixture_raw(f);
    raw_run(db, "CREATE TABLE meta (key TEXT PRIMARY KEY, value); INSERT INTO meta VALUES ('schema_version', 7);"
                "CREATE TABLE audit (what TEXT); CREATE TABLE messages (body TEXT); CREATE TABLE instance (id);"
                "CREATE TABLE claim (id); CREATE TABLE box (name); CREATE VIEW endpoint AS SELECT 1 AS name;"
                "CREATE VIEW audit_log AS SELECT what FROM audit; CREATE INDEX outbox_due ON audit (what);"
                "CREATE TABLE dead_letter (id); CREATE TABLE done (id); CREATE TABLE control (id)");
    sqlite3_close(db);
    fixture_open_store(f);
    CHECK_EQ(store_check(&f->store, &f->error), PR_ESCHEMA);
    CHECK(strstr(f->error.text, "postrider init") != NULL);
    CHECK_OK(fixture_migrate(f), &f->error);
    CHECK_OK(fixture_migrate(f), &f->error);
    CHECK_OK(store_check(&f->store, &f->error), &f->error);
    CHECK_EQ(fixture_int(f, "SELECT value FROM meta WHERE key = 'schema_version'"), 7);
    CHECK_EQ(fixture_int(f, "SELECT count(what) FROM audit_log"), 0);
    CHECK_EQ(fixture_int(f, "SELECT count(body) FROM messages"), 0);
    fixture_close(f);
}

#ifdef POSTRIDER_FAILPOINTS

struct renamer {
    const char *url;
    char point[64];
};

static int rename_in_child(void *arg)
{
    const struct renamer *r = arg;
    failpoint_arm(r->point);
    const struct store_options options = { .url = r->url, .payload_max = PAYLOAD_MAX };
    struct store store = { 0 };
    struct pr_error error;
    if (store_open(&options, &store, &error) != PR_OK || store_migrate(&store, NULL, 0, &error) != PR_OK)
        return 1;
    store_close(&store);
    return 0;
}

/* All of it is one transaction, so that one statement is as good as its neighbours: some are killed. */
TEST(a_renaming_that_is_killed_at_any_statement_left_all_or_nothing) /* D14, I18 */
{
    for (int nth = 1;; nth += (int)fixture_step(61)) {
        struct fixture *f = fixture_old();
        struct renamer r = { .url = f->url };
        snprintf(r.point, sizeof(r.point), "store.migrate.statement:%d", nth);
        int code = child_wait(child_start(rename_in_child, &r));
        bool old = fixture_int(f, "SELECT count(*) FROM sqlite_master WHERE name = 'dead_letter'") == 1;
        CHECK_EQ(old, code != 0);
        CHECK_EQ(fixture_int(f, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'postrider_%'") == 0, old);
        fixture_open_store(f);
        CHECK_OK(fixture_migrate(f), &f->error);
        check_renamed(f);
        fixture_close(f);
        if (code == 0) {
            CHECK(nth > 30);
            return;
        }
        CHECK_EQ(code, -SIGKILL);
    }
}

#else

TEST(a_renaming_that_is_killed_at_any_statement_left_all_or_nothing)
{
    SKIP("built without -Dfailpoints=true");
}

#endif
