/* migrate.c - creating tables, boxes and views, in one transaction.
 *
 * Files run in the order of their numbers, once each; those named *_box once for each box: for existing boxes when the
 * file is new, and all of them for a new box.  Views name all boxes, so they are created again each time.  All names
 * but the boxes' begin with postrider_, since the file belongs to the application.  A store with the names of early
 * versions is renamed first (rename.c). */
#include "store/sqlite/migrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "core/columns.h"
#include "store/box_table.h"
#include "store/sqlite/sqlite.h"

#define SCRIPT_MAX (1u << 20)
#define NO_BOX ((pr_slice){ NULL, 0 })
/* `"{columns}"` in files for boxes: adds the columns of core/columns.h to a box, dead letters and done */
#define COLUMNS_MARK "{columns}"

int schema_wanted(void)
{
    return sqlite_migrations[sqlite_migrations_count - 1].number;
}

static bool is_for_boxes(const struct migration *m)
{
    return slice_ends_with(slice_from(m->name), PR_STR("_box"));
}

/* ---- Files ------------------------------------------------------------------------- */

static void add_all_bytes(struct buf *b)
{
    buf_add_cstr(b, "x'");
    for (int i = 0; i < 256; i++)
        buf_addf(b, "%02x", (unsigned)i);
    buf_add_char(b, '\'');
}

void script_expand(struct buf *b, const char *sql, struct box_names names)
{
    for (const char *at = sql; *at != '\0';) {
        if (strncmp(at, "{box}", 5) == 0) {
            buf_add_slice(b, at > sql && at[-1] == '"' ? names.table : names.box);
            at += 5;
        } else if (strncmp(at, "{table}", 7) == 0) {
            buf_add_slice(b, names.table);
            at += 7;
        } else if (strncmp(at, "{now_ms}", 8) == 0) {
            buf_add_cstr(b, "CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)");
            at += 8;
        } else if (strncmp(at, "{bytes}", 7) == 0) {
            add_all_bytes(b);
            at += 7;
        } else if (strncmp(at, COLUMNS_MARK, strlen(COLUMNS_MARK)) == 0) {
            at += strlen(COLUMNS_MARK); /* columns_add() has handled it */
        } else {
            buf_add_char(b, *at++);
        }
    }
}

static int name_is_taken(const struct conn *conn, const char *what, pr_slice name, struct pr_error *reterr)
{
    return error_set(
        reterr, PR_EINVAL,
        "%s already has %s \"%.*s\" that Postrider did not create, and all names that begin with " OUR_PREFIX
        " are Postrider's: rename it, or use another file",
        conn->location->path, what, SLICE_ARGS(name));
}

/* "table postrider_seen already exists": the upgrade meets a table of another program. */
static int script_fault(struct conn *conn, int rc, struct pr_error *reterr)
{
    pr_slice text = slice_from(sqlite3_errmsg(conn->db));
    const char *name = strstr(text.data, " " OUR_PREFIX);

    if (rc != SQLITE_ERROR || name == NULL || !slice_ends_with(text, PR_STR(" already exists")))
        return sqlite_fault(conn->db, rc, conn->location->path, reterr);
    return name_is_taken(conn, "something called", (pr_slice){ name + 1, strcspn(name + 1, " ") }, reterr);
}

int script_run(struct conn *conn, const char *sql, struct pr_error *reterr)
{
    for (const char *rest = sql; *rest != '\0';) {
        sqlite3_stmt *statement = NULL;
        int rc = sqlite3_prepare_v2(conn->db, rest, -1, &statement, &rest);
        if (rc == SQLITE_OK && statement != NULL) {
            FAILPOINT("store.migrate.statement");
            rc = sqlite3_step(statement);
            if (rc == SQLITE_DONE || rc == SQLITE_ROW)
                rc = SQLITE_OK;
        }
        int fault = rc == SQLITE_OK ? PR_OK : script_fault(conn, rc, reterr);
        sqlite3_finalize(statement);
        if (fault != PR_OK)
            return fault;
    }
    return PR_OK;
}

static const struct {
    const char *name, *type;
} columns[] = {
#define TYPE_INT "INTEGER"
#define TYPE_BOOL "INTEGER"
#define TYPE_TIME "INTEGER"
#define TYPE_TEXT "TEXT"
#define TYPE_JSON "TEXT"
#define SENDER_TEXT(column, ...) { #column, "TEXT" },
#define FATE(kind, column, ...) { #column, TYPE_##kind },
    /* clang-format off */
    SENDER_TEXTS(SENDER_TEXT)
    FATE_COLUMNS(FATE)
    /* clang-format on */
};

/* Adds those of core/columns.h that the table lacks. */
static int columns_add(struct conn *conn, pr_slice table, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (size_t i = 0; i < ARRAY_LENGTH(columns) && rc == PR_OK; i++) {
        struct buf script;
        int64_t found;
        rc = conn_int(conn, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2", NO_BOX,
                      VALUES(V_TEXT(table), V_TEXT(slice_from(columns[i].name))), &found, reterr);
        if (rc != PR_UNKNOWN)
            continue;
        buf_init(&script, SCRIPT_MAX);
        buf_addf(&script, "ALTER TABLE \"%.*s\" ADD COLUMN %s %s;", SLICE_ARGS(table), columns[i].name,
                 columns[i].type);
        rc = buf_failed(&script);
        rc = rc == PR_OK ? script_run(conn, script.data, reterr) : error_set(reterr, rc, "out of memory for a column");
        buf_fini(&script);
    }
    return rc;
}

static int tables_complete(struct conn *conn, pr_slice table, struct pr_error *reterr)
{
    int rc = columns_add(conn, table, reterr);
    if (rc == PR_OK)
        rc = columns_add(conn, PR_STR(OUR_PREFIX "dead_letter"), reterr);
    return rc == PR_OK ? columns_add(conn, PR_STR(OUR_PREFIX "done"), reterr) : rc;
}

static int migration_run(struct conn *conn, const struct migration *m, struct box_names box, struct pr_error *reterr)
{
    struct buf script;
    int rc = strstr(m->sql, COLUMNS_MARK) != NULL ? tables_complete(conn, box.table, reterr) : PR_OK;
    if (rc != PR_OK)
        return rc;
    buf_init(&script, SCRIPT_MAX);
    script_expand(&script, m->sql, box);
    rc = buf_failed(&script);
    rc = rc == PR_OK ? script_run(conn, script.data, reterr)
                     : error_set(reterr, rc, "out of memory for %s.sql", m->name);
    buf_fini(&script);
    return rc;
}

/* ---- Boxes --------------------------------------------------------------------------- */

/* table empty: the existing one, or one of the box's name. */
static int box_make(struct conn *conn, struct names *names, pr_slice box, pr_slice table, struct pr_error *reterr)
{
    if (!name_is_valid(box))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not a valid box name: use letters, digits and _, at most %d",
                         SLICE_ARGS(box), BOX_NAME_MAX);
    int rc = names_find(names, box, table, reterr);
    if (rc != PR_UNKNOWN)
        return rc;
    if (names->count == BOXES_MAX)
        return error_set(reterr, PR_ETOOBIG, "%d boxes exist already, which is the maximum", BOXES_MAX);
    struct box_names made = { box, table.size > 0 ? table : box };
    rc = table_check(conn, box, made.table, reterr);
    for (size_t i = 0; i < sqlite_migrations_count && rc == PR_OK; i++)
        if (is_for_boxes(&sqlite_migrations[i]))
            rc = migration_run(conn, &sqlite_migrations[i], made, reterr);
    if (rc == PR_OK && !slice_eq(made.table, box))
        rc = conn_do(conn, "UPDATE postrider_box SET table_name = ?2 WHERE name = ?1", NO_BOX,
                     VALUES(V_TEXT(box), V_TEXT(made.table)), NULL, reterr);
    if (rc == PR_OK)
        names_add(names, box, made.table);
    return rc;
}

/* ---- Views (views.c) ---- */

static int views_make(struct conn *conn, const struct names *names, struct pr_error *reterr)
{
    struct buf script;
    buf_init(&script, SCRIPT_MAX);
    views_write(&script, names);
    int rc = buf_failed(&script);
    rc = rc == PR_OK ? script_run(conn, script.data, reterr) : error_set(reterr, rc, "out of memory for the views");
    buf_fini(&script);
    return rc;
}

/* ---- The whole --------------------------------------------------------------------------- */

int schema_version(struct conn *conn, int64_t *ret_version, struct pr_error *reterr)
{
    int64_t there;
    int rc = conn_int(conn, "SELECT 1 FROM pragma_table_info('postrider_meta') WHERE name = 'value'", NO_BOX, NULL, 0,
                      &there, reterr);
    if (rc == PR_OK)
        rc = conn_int(conn, "SELECT value FROM postrider_meta WHERE key = 'schema_version'", NO_BOX, NULL, 0,
                      ret_version, reterr);
    else if (rc == PR_UNKNOWN)
        rc = rename_version(conn, ret_version, reterr);
    if (rc == PR_UNKNOWN) {
        *ret_version = 0;
        return PR_OK;
    }
    return rc;
}

/* A file without Postrider's tables must have nothing with their names. */
static int names_check(struct conn *conn, struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(conn, "SELECT type, name FROM sqlite_master WHERE name LIKE 'postrider!_%' ESCAPE '!' LIMIT 1",
                       NO_BOX, NULL, 0, &statement, reterr);
    if (rc == PR_OK && (rc = conn_step(conn, statement, reterr)) > 0) {
        pr_slice type = column_slice(statement, 0);
        const char *what = slice_eq_cstr(type, "table")   ? "a table"
                           : slice_eq_cstr(type, "view")  ? "a view"
                           : slice_eq_cstr(type, "index") ? "an index"
                                                          : "a trigger";
        rc = name_is_taken(conn, what, column_slice(statement, 1), reterr);
        sqlite3_reset(statement);
    }
    return rc;
}

static int schema_too_new(int64_t version, struct pr_error *reterr)
{
    return error_set(reterr, PR_ESCHEMA,
                     "the schema has version %lld, this program knows version %d: upgrade Postrider",
                     (long long)version, schema_wanted());
}

static int files_run(struct conn *conn, int64_t version, const struct names *names, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (size_t i = 0; i < sqlite_migrations_count && rc == PR_OK; i++) {
        const struct migration *m = &sqlite_migrations[i];
        if (m->number <= version)
            continue;
        if (!is_for_boxes(m))
            rc = migration_run(conn, m, (struct box_names){ NO_BOX, NO_BOX }, reterr);
        for (size_t k = 0; is_for_boxes(m) && k < names->count && rc == PR_OK; k++)
            rc = migration_run(conn, m, names_get(names, k), reterr);
    }
    if (rc == PR_OK && version < schema_wanted())
        rc = conn_do(conn, "UPDATE postrider_meta SET value = ?1 WHERE key = 'schema_version'", NO_BOX,
                     VALUES(V_INT(schema_wanted())), NULL, reterr);
    return rc;
}

static int migrate_inside(struct conn *conn, const struct store_box *boxes, size_t box_count, struct names *names,
                          struct pr_error *reterr)
{
    static const char *const always[] = { "outbox", "inbox", "turns", "activities" };
    int64_t version;
    int rc = schema_version(conn, &version, reterr);
    if (rc == PR_OK && version > schema_wanted())
        return schema_too_new(version, reterr);
    if (rc == PR_OK)
        rc = version > 0 ? rename_old(conn, reterr) : names_check(conn, reterr);
    names->count = 0;
    if (rc == PR_OK && version > 0)
        rc = boxes_read(conn, version, names, reterr);
    if (rc == PR_OK)
        rc = files_run(conn, version, names, reterr);

    size_t before = names->count;
    for (size_t i = 0; i < box_count && rc == PR_OK; i++)
        rc = box_make(conn, names, slice_from(boxes[i].name), box_table(&boxes[i]), reterr);
    for (size_t i = 0; i < ARRAY_LENGTH(always) && rc == PR_OK; i++) /* unless they were in the list */
        rc = box_make(conn, names, slice_from(always[i]), NO_BOX, reterr);
    if (rc == PR_OK && (names->count > before || version < schema_wanted()))
        rc = views_make(conn, names, reterr);
    return rc;
}

/* The default of id consists of bytes, which other encodings would change. */
static int encoding_check(struct conn *conn, struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(conn, "PRAGMA encoding", NO_BOX, NULL, 0, &statement, reterr);
    if (rc == PR_OK && (rc = conn_step(conn, statement, reterr)) > 0) {
        bool utf8 = slice_eq_cstr(column_slice(statement, 0), "UTF-8");
        sqlite3_reset(statement);
        rc = utf8 ? PR_OK
                  : error_set(reterr, PR_EUNSUPPORTED, "%s is not encoded in UTF-8: Postrider needs a UTF-8 database",
                              conn->location->path);
    }
    return rc;
}

int sqlite_migrate(void *self, const struct store_box *boxes, size_t box_count, struct pr_error *reterr)
{
    struct sqlite_store *store = self;
    struct conn *conn;
    int rc = store_people(store, true, &conn, reterr);
    if (rc != PR_OK)
        return rc;
    struct names *names = calloc(1, sizeof(*names));
    if (names == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the names of boxes");

    conn_lock(conn);
    rc = encoding_check(conn, reterr);
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL); /* some builds enable it by default: see 012 */
    if (rc == PR_OK)
        rc = conn_begin(conn, true, reterr);
    if (rc == PR_OK)
        rc = migrate_inside(conn, boxes, box_count, names, reterr);
    FAILPOINT("store.migrate.before_commit");
    if (rc == PR_OK)
        rc = conn_commit(conn, reterr);
    FAILPOINT("store.migrate.after_commit");
    conn_rollback(conn);
    conn_unlock(conn);
    free(names);
    return rc;
}

int sqlite_check(void *self, struct pr_error *reterr)
{
    struct sqlite_store *store = self;
    struct conn *conn;
    int64_t version;
    int rc = store_people(store, false, &conn, reterr);
    if (rc != PR_OK)
        return rc;
    conn_lock(conn);
    rc = schema_version(conn, &version, reterr);
    conn_unlock(conn);
    if (rc != PR_OK)
        return rc;
    if (version > schema_wanted())
        return schema_too_new(version, reterr);
    if (version == 0)
        return error_set(reterr, PR_ESCHEMA, "%s has no Postrider tables: run postrider init", store->location.path);
    if (version < schema_wanted())
        return error_set(reterr, PR_ESCHEMA,
                         "the schema has version %lld, this program needs version %d: run postrider init",
                         (long long)version, schema_wanted());
    return PR_OK;
}
