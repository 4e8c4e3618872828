/* The SQLite store under test: on a file of its own, and in memory. */
#include "suite.h"

#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sqlite_template.h"

static char directory[64];

static const char *sqlite_path(const struct suite *s)
{
    return s->url + strlen("sqlite:");
}

static void sqlite_prepare(struct suite *s)
{
    /* In memory where possible: what a disk does to it is tested elsewhere. */
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(directory, sizeof(directory), "%s/suite-XXXXXX", base);
    CHECK(mkdtemp(directory) != NULL);
    snprintf(s->url, sizeof(s->url), "sqlite:%s/store.db", directory);
    if (!sqlite_template_copy(sqlite_path(s))) {
        suite_open_store(s);
        store_close(&s->store);
        sqlite_template_keep(sqlite_path(s));
    }
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

static void sqlite_destroy(struct suite *s)
{
    (void)s;
    /* Whatever the store has put beside its file goes, too. */
    nftw(directory, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
}

static sqlite3 *sqlite_raw(struct suite *s)
{
    sqlite3 *db = NULL;
    CHECK_EQ(sqlite3_open(sqlite_path(s), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    return db;
}

static void bind_text(sqlite3_stmt *statement, int column, const char *text)
{
    if (text != NULL)
        sqlite3_bind_text(statement, column, text, -1, SQLITE_STATIC);
}

/* As an application does that knows nothing of us: a plain INSERT. */
static int raw_insert(sqlite3 *db, const char *box, const struct plant *plant)
{
    sqlite3_stmt *statement = NULL;
    char sql[256];
    snprintf(sql, sizeof(sql),
             "INSERT INTO \"%s\" (%stype, destination, stream, headers, payload, event)"
             " VALUES (%s?2, coalesce(?3, ''), ?4, ?5, ?6, %d)",
             box, plant->id.size > 0 ? "id, " : "", plant->id.size > 0 ? "?1, " : "", plant->event);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        return SQLITE_ERROR;
    if (plant->id.size > 0)
        sqlite3_bind_blob(statement, 1, plant->id.data, (int)plant->id.size, SQLITE_STATIC);
    bind_text(statement, 2, plant->type);
    bind_text(statement, 3, plant->destination);
    bind_text(statement, 4, plant->stream);
    bind_text(statement, 5, plant->headers);
    if (plant->payload != NULL)
        sqlite3_bind_blob(statement, 6, plant->payload, (int)strlen(plant->payload), SQLITE_STATIC);
    int rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return rc;
}

static void sqlite_plant(struct suite *s, const char *box, const struct plant *plant)
{
    sqlite3 *db = sqlite_raw(s);
    CHECK_EQ(sqlite3_exec(db, "PRAGMA ignore_check_constraints = on", NULL, NULL, NULL),
             SQLITE_OK); /* as before there were checks */
    int rc = raw_insert(db, suite_table(box), plant);
    sqlite3_close(db);
    CHECK_EQ(rc, SQLITE_DONE);
}

static void sqlite_repair(struct suite *s, pr_id id, const char *payload)
{
    sqlite3 *db = sqlite_raw(s);
    sqlite3_stmt *statement = NULL;
    char sql[128];
    snprintf(sql, sizeof(sql), "UPDATE %s SET payload = ?1 WHERE id = ?2", suite_table("outbox"));
    CHECK_EQ(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    bind_text(statement, 1, payload);
    sqlite3_bind_blob(statement, 2, id.bytes, sizeof(id.bytes), SQLITE_STATIC);
    int rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    int changed = sqlite3_changes(db);
    sqlite3_close(db);
    CHECK_EQ(rc, SQLITE_DONE);
    CHECK_EQ(changed, 1);
}

static int64_t sqlite_count(struct suite *s, const char *table)
{
    sqlite3 *db = sqlite_raw(s);
    sqlite3_stmt *statement = NULL;
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM postrider_%s", table);
    CHECK_EQ(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_step(statement), SQLITE_ROW);
    int64_t count = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return count;
}

static void sqlite_effects(struct suite *s, struct buf *ret)
{
    static const char sql[] =
        "SELECT 'event ' || stream || ' ' || version || ' ' || type || ' ' || CAST(payload AS TEXT) FROM "
        "postrider_event"
        " UNION ALL SELECT 'history ' || execution || ' ' || first || ' ' || count || ' ' || events FROM "
        "postrider_flow_history"
        " UNION ALL SELECT 'state ' || flow || ' ' || key || ' ' || CAST(value AS TEXT) FROM postrider_flow_state"
        " UNION ALL SELECT 'seen ' || box || ' ' || handler FROM postrider_seen";
    sqlite3 *db = sqlite_raw(s);
    sqlite3_stmt *statement = NULL;
    CHECK_EQ(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW)
        buf_addf(ret, "%s\n", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static sqlite3 *open_tx; /* one writer at a time */

static void sqlite_finish(struct suite *s)
{
    (void)s;
    sqlite3_close(open_tx); /* what a failed test left open */
    open_tx = NULL;
}

static void *sqlite_begin(struct suite *s)
{
    CHECK(open_tx == NULL);
    open_tx = sqlite_raw(s);
    CHECK_EQ(sqlite3_exec(open_tx, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return open_tx;
}

static void sqlite_add(struct suite *s, void *tx, const char *box, const struct pr_message *message)
{
    (void)s;
    char *type = strndup(message->type.data, message->type.size);
    char *stream = message->stream.size > 0 ? strndup(message->stream.data, message->stream.size) : NULL;
    struct plant plant = {
        .id = PR_BYTES((const char *)message->id.bytes, 16), .type = type, .stream = stream, .event = message->event
    };
    int rc = raw_insert(tx, suite_table(box), &plant);
    free(type);
    free(stream);
    CHECK_EQ(rc, SQLITE_DONE);
}

static void sqlite_end(struct suite *s, void *tx, bool commit)
{
    int rc = sqlite3_exec(tx, commit ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    sqlite_finish(s);
    CHECK_EQ(rc, SQLITE_OK);
}

/* A database in memory cannot be kept as a file.  So a copy of the first one, as init left it, is the content of each
 * that is opened after it: making the tables takes longer than most tests. */
static sqlite3 *memory_template, *memory_opened;

static void memory_copy(sqlite3 *to, sqlite3 *from)
{
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    CHECK(backup != NULL);
    CHECK_EQ(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    CHECK_EQ(sqlite3_backup_finish(backup), SQLITE_OK);
}

/* SQLite calls this for each database that is opened. */
static int memory_was_opened(sqlite3 *db, char **message, const void *routines)
{
    (void)message;
    (void)routines;
    memory_opened = db;
    if (memory_template != NULL)
        memory_copy(db, memory_template);
    return SQLITE_OK;
}

static void sqlite_memory_prepare(struct suite *s)
{
    snprintf(s->url, sizeof(s->url), "sqlite::memory:");
    if (memory_template != NULL)
        return;
    sqlite3 *copy;
    CHECK_EQ(sqlite3_open(":memory:", &copy), SQLITE_OK);
    CHECK_EQ(sqlite3_auto_extension((void (*)(void))memory_was_opened), SQLITE_OK);
    suite_open_store(s);
    memory_copy(copy, memory_opened);
    memory_template = copy;
    store_close(&s->store);
    memset(&s->store, 0, sizeof(s->store));
}

const struct suite_kind suite_sqlite = {
    .name = "sqlite",
    .ops = &store_sqlite,
    .prepare = sqlite_prepare,
    .destroy = sqlite_destroy,
    .plant = sqlite_plant,
    .repair = sqlite_repair,
    .count = sqlite_count,
    .effects = sqlite_effects,
    .finish = sqlite_finish,
    .tx_begin = sqlite_begin,
    .tx_add = sqlite_add,
    .tx_end = sqlite_end,
};

const struct suite_kind suite_sqlite_memory = {
    .name = "sqlite-memory",
    .ops = &store_sqlite,
    .lacks = STORE_CAN_LAST | STORE_CAN_PROCESSES,
    .prepare = sqlite_memory_prepare,
};
