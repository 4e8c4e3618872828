/* The port for people's side (store/sql.h) over SQLite. */
#include "store/sql.h"

#include <string.h>
#include <sys/statvfs.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/id.h"
#include "store/sqlite/change.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define SCRATCH_BYTES 65536
#define SQL_MADE_MAX (1u << 18)
#define WAL_BYTES_MUCH (256LL << 20)

/* ---- The transaction ----------------------------------------------------------------------- */

static int sqlite_begin(void *self, enum sql_purpose purpose, struct sql *sql)
{
    struct sqlite_store *store = self;
    struct conn *conn;
    int rc = store_people(store, false, &conn, sql->reterr);
    if (rc != PR_OK)
        return rc;
    conn_lock(conn);
    rc = conn_begin(conn, purpose == SQL_WRITE, sql->reterr);
    if (rc != PR_OK) {
        conn_unlock(conn);
        return rc;
    }
    sqlite_sql_use(sql, store, conn);
    return PR_OK;
}

void sqlite_sql_use(struct sql *sql, struct sqlite_store *store, struct conn *conn)
{
    sql->ops = &sqlite_sql;
    sql->store = store;
    sql->connection = conn;
    sql->payload_max = store->payload_max;
    sql->wall_us = store_wall_us(store);
    sql->mono_us = store_mono_us(store);
    sql->boot = slice_from(store->boot_id);
}

static int sqlite_commit(struct sql *sql)
{
    int rc = conn_commit(sql->connection, sql->reterr);
    if (rc == PR_OK)
        store_wake(sql->store);
    return rc;
}

static void sqlite_end(struct sql *sql)
{
    conn_rollback(sql->connection);
    conn_unlock(sql->connection);
}

static bool sqlite_may_retry(struct sql *sql)
{
    (void)sql;
    return false;
}

/* ---- Statements ---------------------------------------------------------------------------- */

static int sqlite_run(struct sql *sql, const char *text, bool made, pr_slice box, const struct value *values,
                      size_t count, struct rows *ret)
{
    sqlite3_stmt *statement;
    struct buf expanded;
    struct box_names names;
    int rc = made ? conn_box(sql->connection, box, &names, sql->reterr) : PR_OK;
    *ret = (struct rows){ .sql = sql };
    if (rc != PR_OK)
        return rc;
    if (made) {
        buf_init(&expanded, SQL_MADE_MAX);
        sql_expand(&expanded, text, names);
        rc = buf_failed(&expanded) == PR_OK
                 ? conn_bind_made(sql->connection, expanded.data, values, count, &statement, sql->reterr)
                 : error_set(sql->reterr, PR_ENOMEM, "out of memory for a statement");
        buf_fini(&expanded);
    } else {
        rc = conn_bind(sql->connection, text, box, values, count, &statement, sql->reterr);
    }
    if (rc == PR_OK)
        ret->statement = statement;
    return rc;
}

static int sqlite_step(struct rows *rows)
{
    return conn_step(rows->sql->connection, rows->statement, rows->sql->reterr);
}

static void sqlite_rows_end(struct rows *rows)
{
    sqlite3_reset(rows->statement);
}

static bool sqlite_is_null(const struct rows *rows, int column)
{
    return sqlite3_column_type(rows->statement, column) == SQLITE_NULL;
}

static int64_t sqlite_number(const struct rows *rows, int column)
{
    return sqlite3_column_int64(rows->statement, column);
}

static pr_slice sqlite_text(const struct rows *rows, int column)
{
    return column_slice(rows->statement, column);
}

static pr_id sqlite_id(const struct rows *rows, int column)
{
    pr_id id;
    if (sqlite_is_null(rows, column) || id_from_stored(column_slice(rows->statement, column), &id) != PR_OK)
        return (pr_id){ { 0 } };
    return id;
}

static int sqlite_message(struct rows *rows, struct pr_message *ret, unsigned *ret_lane, const char **ret_bad)
{
    uint64_t row;
    if (!rows->has_scratch)
        arena_init(&rows->scratch, SCRATCH_BYTES);
    else
        arena_reset(&rows->scratch);
    rows->has_scratch = true;
    *ret_lane = 0;
    return message_decode(rows->statement, &rows->scratch, rows->sql->payload_max, ret, &row, NULL, ret_bad,
                          rows->sql->reterr);
}

/* ---- Beside statements --------------------------------------------------------------------- */

static int sqlite_apply(struct sql *sql, const struct sql_changes *changes)
{
    int rc = PR_OK;
    for (size_t i = 0; i < changes->count && rc >= 0; i++) {
        const struct changing w = { sql->connection, changes->boxes[i], changes->now_us, 0, sql->reterr };
        rc = changes->dead ? dead_change(&w, &changes->list[i], changes->order, &changes->rows[i])
                           : box_change(&w, &changes->list[i], NULL);
        changes->answers[i] = rc;
    }
    return rc < 0 ? rc : PR_OK;
}

static int sqlite_ended(struct sql *sql, const struct ended *list, size_t count, pr_slice by, int64_t now_us,
                        struct arena *arena)
{
    return ended_insert(sql->connection, list, count, by, now_us, arena, sql->reterr);
}

static int sqlite_insert(struct sql *sql, pr_slice box, const struct pr_message *messages, size_t count, int64_t now_us,
                         int *answers)
{
    for (size_t i = 0; i < count; i++) {
        answers[i] = message_insert(sql->connection, box, &messages[i], now_us, sql->reterr);
        if (answers[i] < 0)
            return answers[i];
    }
    return PR_OK;
}

static int sqlite_endpoints(struct sql *sql, struct arena *arena, struct endpoint_state **ret, size_t *ret_count)
{
    return endpoints_read(sql->connection, arena, ret, ret_count, sql->reterr);
}

static void facts_warn(struct store_facts *facts, pr_slice text)
{
    if (facts->warning_count < ARRAY_LENGTH(facts->warnings) && text.data != NULL)
        facts->warnings[facts->warning_count++] = text;
}

static int64_t file_bytes(const struct sqlite_store *store, struct arena *arena, const char *suffix)
{
    struct stat info;
    pr_slice path = arena_printf(arena, "%s%s", store->location.path, suffix);
    return path.data != NULL && stat(path.data, &info) == 0 ? (int64_t)info.st_size : 0;
}

static void facts_of_file(const struct sqlite_store *store, struct arena *arena, struct store_facts *facts)
{
    int64_t log_bytes = file_bytes(store, arena, "-wal");
    facts->bytes = file_bytes(store, arena, "") + log_bytes;
    if (sqlite3_libversion_number() < 3051003)
        facts_warn(facts,
                   arena_printf(arena,
                                "SQLite %s can damage a database when two connections write and checkpoint at once "
                                "(rare, fixed in 3.51.3): let applications set PRAGMA wal_autocheckpoint = 0",
                                sqlite3_libversion()));
    if (log_bytes > WAL_BYTES_MUCH) {
        facts->horizon = arena_printf(
            arena,
            "the log %s-wal has %lld MiB: a reader that stays open keeps it from being emptied; find and stop it",
            store->location.path, (long long)(log_bytes >> 20));
        facts_warn(facts, facts->horizon);
    }
}

/* Another program may hold the write lock, which readers do not notice.  Tried on a separate connection, since this one
 * is reading. */
static pr_slice facts_locked(const struct sqlite_store *store, struct arena *arena)
{
    struct sqlite_location location = store->location;
    struct pr_error error = { 0 };
    struct conn *conn = NULL;
    location.busy_us = FACTS_LOCKED_US;
    int rc = conn_open(&location, false, &conn, &error);
    if (rc == PR_OK)
        rc = conn_begin(conn, true, &error);
    if (rc == PR_OK)
        conn_rollback(conn);
    conn_close(conn);
    return rc == PR_EBUSY ? slice_dup(arena, slice_from(error.text)) : (pr_slice){ NULL, 0 };
}

static int64_t facts_disk_free(const struct sqlite_store *store, struct arena *arena)
{
    const char *slash = strrchr(store->location.path, '/');
    pr_slice directory =
        slash == NULL ? PR_STR(".") : (pr_slice){ store->location.path, (size_t)(slash - store->location.path) + 1 };
    struct statvfs disk;
    pr_slice path = slice_dup(arena, directory);
    if (path.data == NULL || statvfs(path.data, &disk) != 0)
        return -1;
    return (int64_t)((uint64_t)disk.f_bavail * disk.f_frsize);
}

static int sqlite_facts(struct sql *sql, struct arena *arena, struct store_facts *facts, int64_t *ret_now_us)
{
    const struct sqlite_store *store = sql->store;
    int64_t version;
    int rc = schema_version(sql->connection, &version, sql->reterr);
    if (rc != PR_OK)
        return rc;
    *ret_now_us = sql->wall_us;
    facts->schema_version = (int)version;
    facts->schema_wanted = schema_wanted();
    facts->software = arena_printf(arena, "SQLite %s", sqlite3_libversion());
    if (facts->software.data == NULL)
        return error_set(sql->reterr, PR_ENOMEM, "out of memory for the answer");
    if (store->location.memory)
        facts_warn(facts, PR_STR("messages are lost when the process ends: use a file to keep them"));
    else
        facts_of_file(store, arena, facts);
    facts->disk_free_bytes = store->location.memory ? -1 : facts_disk_free(store, arena);
    if (!store->location.memory)
        facts->locked = facts_locked(store, arena);
    facts_warn(facts, facts->locked);
    if (!store->location.full)
        facts_warn(facts, PR_STR("synchronous=normal: a power loss can undo the latest commits; use synchronous=full"));
    return PR_OK;
}

const struct sql_ops sqlite_sql = {
    .dialect = DIALECT_SQLITE,
    .message_columns = MESSAGE_COLUMN_COUNT,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .end = sqlite_end,
    .may_retry = sqlite_may_retry,
    .run = sqlite_run,
    .step = sqlite_step,
    .rows_end = sqlite_rows_end,
    .is_null = sqlite_is_null,
    .number = sqlite_number,
    .time = sqlite_number,
    .text = sqlite_text,
    .id = sqlite_id,
    .message = sqlite_message,
    .apply = sqlite_apply,
    .ended = sqlite_ended,
    .insert = sqlite_insert,
    .endpoints = sqlite_endpoints,
    .facts = sqlite_facts,
};
