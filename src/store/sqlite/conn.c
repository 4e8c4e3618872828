#include "store/sqlite/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/time.h"
#include "store/sqlite/message.h"

/* Of GLOB and LIKE, which recurse: Postrider's own patterns are shorter (base/glob.h). */
#define PATTERN_BYTES_MAX 1024
#define SQL_MAX 65536                     /* bytes of one SQL statement; Postrider's have a few hundred */
#define WAL_BYTES_KEPT "67108864"         /* a log that grew is truncated to this */
#define WAL_PAGES_PRESSED 16384           /* a log of 64 MiB, and each 64 MiB more, is restarted from its beginning */
#define PRESS_WAIT_US PR_MILLISECONDS(20) /* ... unless a reader takes longer than this */

#define WAL_AGAIN_NS 1000000l              /* a moment, as others may be changing the mode of the file */
#define LOCK_LEAST_US PR_MILLISECONDS(100) /* of the wait for SQLite's lock, after that for a turn */
#define ARRAY_BYTES_MAX (64u << 20)        /* size of one value: 10,000 keys of streams, with some reserve */
#define TABLE_PREFIX "postrider_"

/* Statements are found by the address of their text. */
const char SQL_BOX_TABLE[] = "SELECT coalesce(table_name, name) FROM postrider_box WHERE name = ?1";
static const char SQL_BEGIN_READ[] = "BEGIN";
static const char SQL_BEGIN_WRITE[] = "BEGIN IMMEDIATE";
static const char SQL_COMMIT[] = "COMMIT";
static const char SQL_ROLLBACK[] = "ROLLBACK";

struct conn_statement {
    struct map_node node;
    const char *sql; /* a constant of the program: compared by address */
    char box[BOX_NAME_MAX + 1];
    sqlite3_stmt *handle;
};

/* ---- Faults ------------------------------------------------------------------------- */

static int fault_busy(const char *path, struct pr_error *reterr)
{
    return error_set(reterr, PR_EBUSY,
                     "%s: another connection has held the write lock for too long: find the program with an open "
                     "transaction (fuser %s) and stop it, or raise busy= in the store's URL",
                     path, path);
}

int sqlite_fault(sqlite3 *db, int rc, const char *path, struct pr_error *reterr)
{
    const char *text = db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc);

    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return fault_busy(path, reterr);
    case SQLITE_FULL:
        return error_set(reterr, PR_EFULL, "%s: disk full (%s): free some space; stored messages are safe", path, text);
    case SQLITE_NOTADB:
        return error_set(
            reterr, PR_ECORRUPT,
            "%s is not a SQLite database, or its beginning is damaged: name another file, or restore a backup", path);
    case SQLITE_CORRUPT:
        return error_set(reterr, PR_ECORRUPT,
                         "%s is damaged (%s): stop everything that uses it, keep a copy, and try \"sqlite3 %s "
                         ".recover\"",
                         path, text, path);
    case SQLITE_IOERR:
        return error_set(reterr, PR_EIO, "%s: input/output error (%s, code %d): check the disk and the kernel's log",
                         path, text, rc);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
        return error_set(reterr, PR_EIO,
                         "%s: %s: check that the file and its directory exist and that this user can write them", path,
                         text);
    case SQLITE_NOMEM: return error_set(reterr, PR_ENOMEM, "%s: out of memory", path);
    case SQLITE_TOOBIG: return error_set(reterr, PR_ETOOBIG, "%s: %s", path, text);
    case SQLITE_ERROR:
        if (strncmp(text, "no such table", 13) == 0 || strncmp(text, "no such column", 14) == 0 ||
            strstr(text, " has no column named ") != NULL || strncmp(text, "cannot modify", 13) == 0)
            return error_set(reterr, PR_ESCHEMA,
                             "%s: %s: run postrider init; boxes other than outbox and inbox must be under boxes: in "
                             "the configuration",
                             path, text);
        break;
    default: break;
    }
    return error_set(reterr, PR_ESTORE, "%s: %s (SQLite code %d)", path, text, rc);
}

int box_fault(const char *path, pr_slice box, struct pr_error *reterr)
{
    return error_set(reterr, PR_ESCHEMA,
                     "%s has no box \"%.*s\": name it under boxes: in the configuration, and run postrider init", path,
                     SLICE_ARGS(box));
}

static int conn_fault(struct conn *conn, int rc, struct pr_error *reterr)
{
    return sqlite_fault(conn->db, rc, conn->location->path, reterr);
}

/* ---- Open and close ------------------------------------------------------------------- */

/* SQLite's own handler sleeps up to 100 ms at a time, which is too long for a queue. */
static int conn_on_busy(void *arg, int count)
{
    struct conn *conn = arg;
    int64_t now_us = clock_mono_us(clock_system());

    if (count == 0)
        conn->busy_since_us = now_us;
    if (now_us - conn->busy_since_us >= conn->busy_us)
        return 0;
    int64_t pause_us = count < 10 ? 200 : count < 50 ? 1000 : 5000;
    struct timespec pause = { .tv_nsec = pause_us * 1000 };
    nanosleep(&pause, NULL);
    return 1;
}

static int conn_on_commit(void *arg, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct conn *)arg)->wal_pages = pages;
    return SQLITE_OK;
}

static int conn_try_wal(struct conn *conn, struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    int rc = sqlite3_prepare_v2(conn->db, "PRAGMA journal_mode = wal", -1, &statement, NULL);
    if (rc != SQLITE_OK)
        return conn_fault(conn, rc, reterr);
    rc = sqlite3_step(statement);
    const char *mode = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    int result = PR_OK;
    if (rc != SQLITE_ROW)
        result = conn_fault(conn, rc, reterr);
    else if (mode == NULL || (strcmp(mode, "wal") != 0 && !conn->location->memory))
        result = error_set(reterr, PR_EIO, "%s cannot be used in WAL mode (it is in mode %s): put it on a local disk",
                           conn->location->path, mode != NULL ? mode : "unknown");
    sqlite3_finalize(statement);
    return result;
}

/* Some file systems and VFSs do not support WAL; SQLite then returns the mode it uses instead of failing.  Of two that
 * change a new file to WAL at once SQLite refuses one without a wait, since both hold a lock that the other needs. */
static int conn_use_wal(struct conn *conn, struct pr_error *reterr)
{
    const struct timespec pause = { .tv_nsec = WAL_AGAIN_NS };
    int64_t begun_us = clock_mono_us(clock_system());
    int rc;

    while ((rc = conn_try_wal(conn, reterr)) == PR_EBUSY && clock_mono_us(clock_system()) - begun_us < conn->busy_us)
        nanosleep(&pause, NULL);
    return rc;
}

/* No automatic checkpoints: SQLite before 3.51.3 can damage a database when two connections write and checkpoint at
 * once, so of Postrider's connections only the session that serves the box does that.  No mmap: an I/O error would be a
 * signal.  The checks of boxes are for senders: rows that they once let in must be moved, retried and replayed
 * unchanged. */
static int conn_configure(struct conn *conn, struct pr_error *reterr)
{
    int rc = conn_script(conn,
                         "PRAGMA mmap_size = 0;"
                         "PRAGMA temp_store = memory;"
                         "PRAGMA cache_size = -16384;"
                         "PRAGMA secure_delete = off;"
                         "PRAGMA ignore_check_constraints = on;"
                         "PRAGMA journal_size_limit = " WAL_BYTES_KEPT ";",
                         reterr);
    if (rc == PR_OK)
        rc = conn_use_wal(conn, reterr);
    if (rc == PR_OK)
        rc = conn_script(conn, conn->location->full ? "PRAGMA synchronous = full" : "PRAGMA synchronous = normal",
                         reterr);
    sqlite3_wal_hook(conn->db, conn_on_commit, conn); /* also turns automatic checkpoints off */

    sqlite3_stmt *statement; /* prepared now: a rollback must not need memory */
    if (rc == PR_OK)
        rc = conn_bind(conn, SQL_ROLLBACK, NO_BOX, NULL, 0, &statement, reterr);
    return rc;
}

/* A new file is not readable by everybody, since it will have payloads.  SQLite gives its log the same mode.  If the
 * file cannot be created, SQLite reports why. */
static void file_make(const char *path)
{
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0660);
    if (fd >= 0)
        close(fd);
}

/* ---- Which file -------------------------------------------------------------------------- */

/* Zero: no such file. */
static struct file_name file_name_of(const struct conn *conn, const char *suffix)
{
    char path[4096];
    struct stat state;
    if (snprintf(path, sizeof(path), "%s%s", conn->location->path, suffix) >= (int)sizeof(path) ||
        stat(path, &state) != 0)
        return (struct file_name){ 0 };
    return (struct file_name){ (uint64_t)state.st_dev, (uint64_t)state.st_ino };
}

static bool file_name_equal(struct file_name a, struct file_name b)
{
    return a.device == b.device && a.number == b.number;
}

static void conn_note_files(struct conn *conn)
{
    conn->file = file_name_of(conn, "");
    conn->log = file_name_of(conn, "-wal");
    conn->index = file_name_of(conn, "-shm");
    conn->generation++;
}

bool conn_is_replaced(const struct conn *conn)
{
    return !conn->location->memory && !file_name_equal(conn->file, file_name_of(conn, ""));
}

static void file_remove(const struct conn *conn, const char *suffix, struct file_name name)
{
    char path[4096];
    if (name.number == 0 || !file_name_equal(name, file_name_of(conn, suffix)))
        return; /* it belongs to the new file */
    if (snprintf(path, sizeof(path), "%s%s", conn->location->path, suffix) < (int)sizeof(path))
        (void)unlink(path); /* if it stays, opening the new file reports the error */
}

static int conn_open_file(struct conn *conn, bool create, struct pr_error *reterr)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | (create ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(conn->location->path, &conn->db, flags, NULL);
    if (rc != SQLITE_OK)
        return conn_fault(conn, rc, reterr);
    sqlite3_busy_handler(conn->db, conn_on_busy, conn);
    sqlite3_limit(conn->db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES_MAX);
    rc = conn_configure(conn, reterr);
    if (rc == PR_OK)
        conn_note_files(conn);
    if (rc == PR_OK && !conn->location->memory)
        conn->writers = writers_join(conn->file);
    return rc;
}

static void conn_forget_statements(struct conn *conn)
{
    map_foreach(node, &conn->statements) {
        struct conn_statement *statement = MAP_ENTRY(node, struct conn_statement, node);
        sqlite3_finalize(statement->handle);
        map_remove(&conn->statements, node);
        free(statement);
    }
    for (size_t i = 0; i < CONN_MADE_MAX; i++) {
        sqlite3_finalize(conn->made[i]);
        conn->made[i] = NULL;
    }
}

static void conn_close_file(struct conn *conn)
{
    conn_forget_statements(conn);
    int rc = sqlite3_close(conn->db);
    ASSERT(rc == SQLITE_OK); /* every statement belongs to this connection */
    conn->db = NULL;
    writers_leave(conn->writers);
    conn->writers = NULL;
    conn->wal_pages = conn->wal_tried = conn->wal_pressed = 0;
}

/* Another file has taken the name of this database, for example a restored backup.  The log belongs to the old file:
 * together with the new one it would be garbage for every program that opens it.  So the log is copied into the old
 * file first, and removed. */
static int conn_follow(struct conn *conn, struct pr_error *reterr)
{
    if (conn->db != NULL && !conn_is_replaced(conn))
        return PR_OK;
    if (access(conn->location->path, F_OK) != 0)
        return error_set(reterr, PR_EIO,
                         "%s was moved or deleted while it was in use: put it, or a backup, in its place",
                         conn->location->path);
    if (conn->db != NULL) {
        /* as far as possible */
        (void)sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        conn_close_file(conn);
        file_remove(conn, "-wal", conn->log);
        file_remove(conn, "-shm", conn->index);
    }
    int rc = conn_open_file(conn, false, reterr);
    if (rc != PR_OK)
        conn_close_file(conn);
    return rc;
}

/* -------------------------------------------------------------------------------------------- */

int conn_open(const struct sqlite_location *location, bool create, struct conn **ret_conn, struct pr_error *reterr)
{
    if (!create && !location->memory && access(location->path, F_OK) != 0)
        return error_set(reterr, PR_ESCHEMA,
                         "database %s does not exist: name yours with --store or -c, or run postrider init",
                         location->path);

    struct conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a connection");
    conn->location = location;
    conn->busy_us = location->busy_us;
    conn->users = 1;
    map_init(&conn->statements);
    pthread_mutex_init(&conn->lock, NULL);

    if (create && !location->memory)
        file_make(location->path);
    int rc = conn_open_file(conn, create, reterr);
    if (rc != PR_OK) {
        conn_close(conn);
        return rc;
    }
    *ret_conn = conn;
    return PR_OK;
}

void conn_close(struct conn *conn)
{
    if (conn == NULL || __atomic_sub_fetch(&conn->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    conn_close_file(conn);
    map_fini(&conn->statements);
    pthread_mutex_destroy(&conn->lock);
    free(conn);
}

void conn_borrow(struct conn *conn, sqlite3 *db, const struct sqlite_location *location)
{
    *conn = (struct conn){ .db = db, .location = location, .users = 1 };
    map_init(&conn->statements);
    pthread_mutex_init(&conn->lock, NULL);
}

void conn_give_back(struct conn *conn)
{
    conn_forget_statements(conn);
    map_fini(&conn->statements);
    pthread_mutex_destroy(&conn->lock);
}

struct conn *conn_share(struct conn *conn)
{
    __atomic_add_fetch(&conn->users, 1, __ATOMIC_RELAXED);
    return conn;
}

void conn_lock(struct conn *conn)
{
    pthread_mutex_lock(&conn->lock);
}

void conn_unlock(struct conn *conn)
{
    pthread_mutex_unlock(&conn->lock);
}

/* ---- Statements ------------------------------------------------------------------------ */

static struct conn_statement *statement_find(struct conn *conn, const char *sql, pr_slice box, uint64_t hash)
{
    for (struct map_node *n = map_first(&conn->statements, hash); n != NULL; n = map_next_same(n)) {
        struct conn_statement *statement = MAP_ENTRY(n, struct conn_statement, node);
        if (statement->sql == sql && slice_eq_cstr(box, statement->box))
            return statement;
    }
    return NULL;
}

void sql_expand(struct buf *b, const char *sql, struct box_names names)
{
    const struct {
        pr_slice mark, text;
    } marks[] = {
        { PR_STR("\"{box}"), names.table }, /* after its quotation mark */
        { PR_STR("{box}"), names.box },
        { PR_STR("{table}"), names.table },
        { PR_STR("{prefix}"), PR_STR(TABLE_PREFIX) },
        { PR_STR("{?}"), PR_STR("?") }, /* one more than the largest before it */
        { PR_STR("{message}"), PR_STR(MESSAGE_COLUMNS ", payload") },
        { PR_STR("{message_brief}"), PR_STR(MESSAGE_COLUMNS ", NULL") },
    };
    for (pr_slice rest = slice_from(sql); rest.size > 0;) {
        bool quoted = rest.data[0] == '"';
        size_t i = quoted || rest.data[0] == '{' ? 0 : ARRAY_LENGTH(marks), used = 1;
        while (i < ARRAY_LENGTH(marks) && !slice_starts_with(rest, marks[i].mark))
            i++;
        if (i < ARRAY_LENGTH(marks)) {
            used = marks[i].mark.size;
            buf_add_cstr(b, quoted ? "\"" : "");
            buf_add_slice(b, marks[i].text);
        } else {
            buf_add_char(b, rest.data[0]);
        }
        rest = (pr_slice){ rest.data + used, rest.size - used };
    }
}

int conn_box(struct conn *conn, pr_slice box, struct box_names *ret, struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    *ret = (struct box_names){ .box = box };
    if (box.size == 0)
        return PR_OK;
    ASSERT(name_is_valid(box));
    int rc = conn_bind(conn, SQL_BOX_TABLE, NO_BOX, VALUES(V_TEXT(box)), &statement, reterr);
    if (rc == PR_OK)
        rc = conn_step(conn, statement, reterr);
    if (rc == 0)
        return box_fault(conn->location->path, box, reterr);
    if (rc < 0)
        return rc;
    pr_slice table = column_slice(statement, 0);
    rc = name_is_valid(table) ? PR_OK : box_fault(conn->location->path, box, reterr);
    if (rc == PR_OK) {
        memcpy(conn->table, table.data, table.size);
        ret->table = PR_BYTES(conn->table, table.size);
    }
    sqlite3_reset(statement);
    return rc;
}

static int statement_make(struct conn *conn, const char *sql, pr_slice box, uint64_t hash, struct conn_statement **ret,
                          struct pr_error *reterr)
{
    struct buf text;
    struct box_names names;
    bool is_of_box = strstr(sql, "{box}") != NULL || strstr(sql, "{table}") != NULL;
    int fault = conn_box(conn, is_of_box ? box : NO_BOX, &names, reterr);
    if (fault != PR_OK)
        return fault;
    buf_init(&text, SQL_MAX);
    sql_expand(&text, sql, names);

    struct conn_statement *statement = calloc(1, sizeof(*statement));
    int rc = statement != NULL ? buf_failed(&text) : PR_ENOMEM;
    if (rc != PR_OK)
        error_set(reterr, rc, "out of memory for a statement");
    if (rc == PR_OK) {
        int sqlite_rc = sqlite3_prepare_v3(conn->db, text.data, (int)text.size, SQLITE_PREPARE_PERSISTENT,
                                           &statement->handle, NULL);
        if (sqlite_rc != SQLITE_OK)
            rc = conn_fault(conn, sqlite_rc, reterr);
    }
    buf_fini(&text);
    if (rc == PR_OK) {
        statement->sql = sql;
        if (box.size > 0)
            memcpy(statement->box, box.data, box.size);
        rc = map_insert(&conn->statements, &statement->node, hash);
        if (rc != PR_OK)
            error_set(reterr, rc, "out of memory for a statement");
    }
    if (rc != PR_OK) {
        if (statement != NULL)
            sqlite3_finalize(statement->handle);
        free(statement);
        return rc;
    }
    *ret = statement;
    return PR_OK;
}

/* An array as JSON, for json_each(). */
static int array_bind(sqlite3_stmt *statement, int at, const struct value *value)
{
    struct buf b;
    struct json_writer w;
    buf_init(&b, ARRAY_BYTES_MAX);
    json_init(&w, &b);
    json_begin_array(&w);
    for (int64_t i = 0; i < value->number; i++)
        if (value->type == VALUE_INTS)
            json_int(&w, ((const int64_t *)value->list)[i]);
        else
            json_slice(&w, ((const pr_slice *)value->list)[i]);
    json_end_array(&w);
    int rc = buf_failed(&b) != PR_OK
                 ? SQLITE_NOMEM
                 : sqlite3_bind_text64(statement, at, b.data, b.size, SQLITE_TRANSIENT, SQLITE_UTF8);
    buf_fini(&b);
    return rc;
}

int value_bind(sqlite3_stmt *statement, int at, const struct value *value)
{
    const char *data = value->bytes.data != NULL ? value->bytes.data : "";
    switch (value->type) {
    case VALUE_NULL: return sqlite3_bind_null(statement, at);
    case VALUE_TIME:
        if (value->number == 0)
            return sqlite3_bind_null(statement, at);
        return sqlite3_bind_int64(statement, at, value->number);
    case VALUE_BOOL:
    case VALUE_INT: return sqlite3_bind_int64(statement, at, value->number);
    case VALUE_TEXT: return sqlite3_bind_text64(statement, at, data, value->bytes.size, SQLITE_STATIC, SQLITE_UTF8);
    case VALUE_ID:
    case VALUE_PAYLOAD:
    case VALUE_BLOB: return sqlite3_bind_blob64(statement, at, data, value->bytes.size, SQLITE_STATIC);
    case VALUE_IDS: /* concatenated */
        return sqlite3_bind_blob64(statement, at, value->list, (sqlite3_uint64)value->number * sizeof(pr_id),
                                   SQLITE_STATIC);
    case VALUE_INTS:
    case VALUE_TEXTS: return array_bind(statement, at, value);
    }
    return SQLITE_MISUSE;
}

static int bind_all(struct conn *conn, sqlite3_stmt *handle, const struct value *values, size_t count,
                    struct pr_error *reterr)
{
    ASSERT(!sqlite3_stmt_busy(handle)); /* nobody may be using it */
    /* The last value may be for another database. */
    count = min_size(count, (size_t)sqlite3_bind_parameter_count(handle));
    for (size_t i = 0; i < count; i++) {
        int rc = value_bind(handle, (int)i + 1, &values[i]);
        if (rc != SQLITE_OK)
            return conn_fault(conn, rc, reterr);
    }
    return PR_OK;
}

int conn_bind(struct conn *conn, const char *sql, pr_slice box, const struct value *values, size_t count,
              sqlite3_stmt **ret_statement, struct pr_error *reterr)
{
    uint64_t hash = hash_slice((uint64_t)(uintptr_t)sql, box);
    struct conn_statement *statement = statement_find(conn, sql, box, hash);

    if (statement == NULL) {
        int rc = statement_make(conn, sql, box, hash, &statement, reterr);
        if (rc != PR_OK)
            return rc;
    }
    *ret_statement = statement->handle;
    return bind_all(conn, statement->handle, values, count, reterr);
}

int conn_bind_made(struct conn *conn, const char *sql, const struct value *values, size_t count,
                   sqlite3_stmt **ret_statement, struct pr_error *reterr)
{
    for (size_t i = 0; i < CONN_MADE_MAX; i++)
        if (conn->made[i] != NULL && strcmp(sqlite3_sql(conn->made[i]), sql) == 0) {
            *ret_statement = conn->made[i];
            return bind_all(conn, conn->made[i], values, count, reterr);
        }

    sqlite3_stmt *made;
    int rc = sqlite3_prepare_v3(conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, NULL);
    if (rc != SQLITE_OK)
        return conn_fault(conn, rc, reterr);
    sqlite3_stmt **place = &conn->made[conn->made_next++ % CONN_MADE_MAX];
    ASSERT(*place == NULL || !sqlite3_stmt_busy(*place));
    sqlite3_finalize(*place);
    *place = *ret_statement = made;
    return bind_all(conn, made, values, count, reterr);
}

int conn_step(struct conn *conn, sqlite3_stmt *statement, struct pr_error *reterr)
{
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        return STEP_ROW;
    if (rc != SQLITE_DONE) {
        int fault = conn_fault(conn, rc, reterr);
        sqlite3_reset(statement);
        return fault;
    }
    sqlite3_reset(statement);
    return STEP_DONE;
}

int conn_do(struct conn *conn, const char *sql, pr_slice box, const struct value *values, size_t count,
            int *ret_changed, struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(conn, sql, box, values, count, &statement, reterr);
    if (rc != PR_OK)
        return rc;
    do
        rc = conn_step(conn, statement, reterr);
    while (rc == STEP_ROW);
    if (rc == 0 && ret_changed != NULL)
        *ret_changed = sqlite3_changes(conn->db);
    return rc;
}

int conn_int(struct conn *conn, const char *sql, pr_slice box, const struct value *values, size_t count, int64_t *ret,
             struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(conn, sql, box, values, count, &statement, reterr);
    if (rc != PR_OK)
        return rc;
    rc = conn_step(conn, statement, reterr);
    if (rc <= 0)
        return rc < 0 ? rc : PR_UNKNOWN;
    *ret = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return PR_OK;
}

int conn_script(struct conn *conn, const char *sql, struct pr_error *reterr)
{
    int rc = sqlite3_exec(conn->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? PR_OK : conn_fault(conn, rc, reterr);
}

pr_slice column_slice(sqlite3_stmt *statement, int column)
{
    const void *data = sqlite3_column_blob(statement, column); /* before sqlite3_column_bytes(): it may convert */
    return (pr_slice){ data, data != NULL ? (size_t)sqlite3_column_bytes(statement, column) : 0 };
}

/* ---- Transactions ------------------------------------------------------------------------ */

/* A statement that is still active would keep its snapshot. */
static void conn_reset_all(struct conn *conn)
{
    map_foreach(node, &conn->statements) {
        sqlite3_stmt *handle = MAP_ENTRY(node, struct conn_statement, node)->handle;
        if (sqlite3_stmt_busy(handle))
            sqlite3_reset(handle);
    }
}

/* Waits for its turn among the writers of this process.  The rest of the time is for SQLite's lock, which others may hold;
 * at least a moment remains, since for a process that was stopped all of the time may be over. */
static void conn_await_turn(struct conn *conn, int64_t busy_us)
{
    int64_t begun_us = clock_mono_us(clock_system());
    conn->writing = conn->writers != NULL && writers_begin(conn->writers, busy_us);
    int64_t left_us = busy_us - (clock_mono_us(clock_system()) - begun_us);
    conn->busy_us = min64(busy_us, max64(left_us, LOCK_LEAST_US));
}

static void conn_end_turn(struct conn *conn)
{
    if (conn->writing)
        writers_end(conn->writers);
    conn->writing = false;
    conn->busy_us = conn->location->busy_us;
}

int conn_begin(struct conn *conn, bool write, struct pr_error *reterr)
{
    int rc = conn_follow(conn, reterr);
    if (rc != PR_OK)
        return rc;
    ASSERT(sqlite3_get_autocommit(conn->db));
    if (!write)
        return conn_do(conn, SQL_BEGIN_READ, NO_BOX, NULL, 0, NULL, reterr);
    conn_await_turn(conn, conn->location->busy_us);
    rc = conn_do(conn, SQL_BEGIN_WRITE, NO_BOX, NULL, 0, NULL, reterr);
    if (rc != PR_OK)
        conn_end_turn(conn);
    return rc;
}

int conn_commit(struct conn *conn, struct pr_error *reterr)
{
    conn_reset_all(conn);
    int rc = conn_do(conn, SQL_COMMIT, NO_BOX, NULL, 0, NULL, reterr);
    if (rc != PR_OK)
        conn_rollback(conn);
    conn_end_turn(conn);
    return rc;
}

void conn_rollback(struct conn *conn)
{
    conn_reset_all(conn);
    if (conn->db != NULL && !sqlite3_get_autocommit(conn->db)) {
        int rc = conn_do(conn, SQL_ROLLBACK, NO_BOX, NULL, 0, NULL, NULL);
        /* It may report the error that caused the rollback, but the transaction is over. */
        ASSERT(rc == PR_OK || sqlite3_get_autocommit(conn->db));
    }
    conn_end_turn(conn);
}

/* A long reader keeps the log from being emptied: then the checkpoint is tried again when the log has grown as much
 * again, not after every commit.  Writers that never pause keep the log from being restarted, since each of them writes
 * while the pages of the others are still being copied: so once the log is long, writers are blocked for the moment of
 * the checkpoint. */
void conn_checkpoint(struct conn *conn, int pages)
{
    if (conn->wal_pages < conn->wal_tried)
        conn->wal_tried = conn->wal_pressed = 0; /* the log was restarted from its beginning */
    if (conn->db == NULL || conn->wal_pages - conn->wal_tried < pages)
        return;
    conn->wal_tried = conn->wal_pages;
    /* An error here shows up again with the next commit or checkpoint. */
    (void)sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (conn->wal_pages - conn->wal_pressed < WAL_PAGES_PRESSED)
        return;
    conn->wal_pressed = conn->wal_pages;
    conn_await_turn(conn, min64(conn->location->busy_us, PRESS_WAIT_US));
    (void)sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    conn_end_turn(conn);
}
