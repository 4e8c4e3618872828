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
#include "store/box_table.h"
#include "store/sqlite/message.h"
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

static void script_expand(struct buf *b, const char *sql, struct box_names names)
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

/* ---- Views ----------------------------------------------------------------------------- */

#define NOW_US "CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000"
#define ID_TEXT_OF(id)                                                                                                 \
    "CASE WHEN typeof(" id ") = 'blob' THEN lower(substr(hex(" id "), 1, 8) || '-' || substr(hex(" id "), 9, 4)"       \
    " || '-' || substr(hex(" id "), 13, 4) || '-' || substr(hex(" id "), 17, 4) || '-' || substr(hex(" id "), 21))"    \
    " ELSE " id " END"
#define ID_TEXT ID_TEXT_OF("b.id")

static const char VIEW_IN_FLIGHT[] =
    "CREATE VIEW postrider_in_flight AS SELECT c.box, CAST(e.key AS INTEGER) AS row_id, e.value AS number,"
    " i.name AS instance, c.at FROM postrider_claim c JOIN postrider_instance i ON i.id = c.instance, "
    "json_each(c.entries) e;";

/* Breakers that are not closed, of live instances with lanes. */
#define TIME_TEXT(column)                                                                                              \
    "CASE WHEN " column " < 9223372036854775807 THEN strftime('%Y-%m-%dT%H:%M:%fZ', " column " / 1e6, 'unixepoch') "   \
    "END"
static const char VIEW_OPEN[] =
    "CREATE VIEW postrider_open_breaker AS SELECT b.endpoint, b.type, i.box, i.name AS instance,"
    " CASE WHEN b.until > " NOW_US
    " THEN 'open' ELSE 'half-open' END AS state, " TIME_TEXT("b.since") " AS since, " TIME_TEXT(
        "b.until") " AS until, b.probes, b.failure_reason, b.code, b.error"
                   " FROM postrider_breaker b JOIN postrider_instance i ON i.id = b.instance "
                   "WHERE i.lanes > 0 AND i.lease_wall > " NOW_US ";";

#define MESSAGE_TIMES                                                                                                  \
    " " TIME_TEXT("b.created_at") " AS created_at, " TIME_TEXT("b.due_at") " AS due_at, " TIME_TEXT(                   \
        "b.expires_at") " AS expires_at,"
#define MESSAGE_FAILED_AT " " TIME_TEXT("nullif(b.failed_at, 0)") " AS failed_at,"

/* Same as state_of_row(), considering receipts and pauses.  A ready or retrying row may wait for an endpoint that
 * fails: see endpoint_state. */
static const char VIEW_MESSAGES[] =
    "SELECT '{box}' AS box, b.row_id, b.seq, " ID_TEXT " AS id,"
    " CASE WHEN (b.row_id, b.attempts + 1) IN (SELECT row_id, number FROM postrider_in_flight WHERE box = '{box}') "
    "THEN "
    "'in-flight'"
    " WHEN b.due_at = 9223372036854775807 THEN 'parked'"
    " WHEN b.held_by IS NOT NULL AND coalesce(b.held_for, 1) <> 2 THEN 'held'"
    " WHEN b.due_at > " NOW_US " AND (b.status & 32768) = 0 AND b.attempts = 0 THEN 'delayed'"
    " WHEN b.destination IN (SELECT name FROM postrider_endpoint WHERE paused_until > " NOW_US ") THEN 'paused'"
    " WHEN b.due_at > " NOW_US " THEN 'retrying'"
    " ELSE 'ready' END AS state,"
    " b.type, b.stream, b.destination, b.correlation_id," MESSAGE_TIMES
    " b.status | iif(b.event, 2, 0) AS status, b.attempts, b.failures, b.failure_reason, b.code, "
    "b.error," MESSAGE_FAILED_AT
    " b.held_by, b.headers, b.story, coalesce(length(CAST(b.payload AS BLOB)), 0) AS payload_size,"
    " (SELECT max(o.state) FROM postrider_open_breaker o WHERE o.endpoint = b.destination AND o.box = '{box}'"
    " AND o.type IN ('', b.type)) AS endpoint_state,"
    " CASE WHEN b.due_at = 9223372036854775807 THEN CASE b.parked_by WHEN 1 THEN 'route' WHEN 2 THEN 'rule' WHEN 3 THEN"
    " 'person' END END AS parked_by"
    " FROM \"{box}\" b";

/* Same as streams --blocked: each stream that is held back, and behind what.  The view knows neither which endpoints
 * are strict (rows held without a failed head before them wait for the first parked or dead one) nor the routes (rows
 * that were parked or made dead before they had an endpoint may belong to any).  Of several heads the other columns are
 * of the one with the lowest rank.  The endpoint is taken from the key (held_endpoint()): the row of a routed message
 * has none. */
#define NEVER "9223372036854775807"
#define OF_HEAD(column, of_dead) " CASE WHEN d.row_id IS NULL THEN h." column " ELSE " of_dead " END AS " column ","
static const char VIEW_BLOCKED[] =
    "SELECT '{box}' AS box, h.stream, CASE WHEN d.row_id IS NULL THEN h.id ELSE " ID_TEXT_OF(
        "d.id") " END AS head," OF_HEAD("seq", "d.seq")
        OF_HEAD("failure_reason", "coalesce(nullif(d.failure_reason, 0), d.cause)")
            OF_HEAD("error", "d.error") " CASE WHEN d.row_id IS NULL THEN " TIME_TEXT(
                "h.due_at") " END AS due_at,"
                            " h.held - (d.row_id IS NULL AND h.held_by IS h.key) AS held, h.endpoint,"
                            " CASE WHEN d.row_id IS NOT NULL THEN 'dead' WHEN h.due_at = " NEVER
                            " THEN 'parked' ELSE 'failed' END AS head_state"
                            " FROM (SELECT k.key, k.endpoint, k.stream, k.held, k.first, r.id, r.seq, "
                            "r.failure_reason, r.error, r.due_at,"
                            " r.held_by, min(r.rank) FROM (SELECT held_by AS key, substr(held_by, 1, instr(held_by, "
                            "'/') - 1) AS endpoint,"
                            " max(stream) AS stream, count(*) AS held, min(seq) AS first "
                            "FROM \"{box}\""
                            " WHERE held_by IS NOT NULL AND coalesce(held_for, 1) <> 2 GROUP BY held_by) k"
                            " LEFT JOIN (SELECT stream, CASE destination WHEN '' THEN (SELECT json_extract(value, "
                            "'$.endpoint') FROM"
                            " json_each(story) WHERE json_extract(value, '$.endpoint') <> '' ORDER BY key DESC LIMIT "
                            "1) ELSE destination END AS endpoint, " ID_TEXT_OF(
                                "id") " AS id, seq, failure_reason, error, due_at, held_by, (due_at = " NEVER
                                      ") << 62 | seq AS rank"
                                      " FROM \"{box}\" WHERE " MESSAGE_IS_HEAD " AND stream <> '') r"
                                      " ON r.stream = k.stream AND coalesce(r.endpoint, k.endpoint) = k.endpoint GROUP "
                                      "BY k.key) h"
                                      " LEFT JOIN postrider_dead_letter d ON d.row_id = CASE WHEN h.id IS NULL OR "
                                      "h.due_at = " NEVER " THEN (SELECT"
                                      " x.row_id FROM postrider_dead_letter x WHERE x.stream = h.stream AND x.box = "
                                      "'{box}' AND x.endpoint IN (h.endpoint, '')"
                                      " AND x.seq < min(h.first, coalesce(h.seq, h.first)) AND x.edited_as IS NULL "
                                      "ORDER BY x.seq LIMIT 1) END"
                                      " WHERE d.row_id IS NOT NULL OR (h.id IS NOT NULL AND (h.held > 1 OR h.held_by "
                                      "IS NOT h.key))";

static const char VIEW_ENDPOINTS[] =
    "CREATE VIEW postrider_endpoint_overview AS SELECT name, CASE WHEN paused_until > " NOW_US " THEN 'paused'"
    " ELSE coalesce((SELECT max(o.state) FROM postrider_open_breaker o WHERE o.endpoint = e.name), 'ok') END AS "
    "state,"
    " CASE WHEN paused_until > " NOW_US " AND paused_until < 9223372036854775807"
    " THEN strftime('%Y-%m-%dT%H:%M:%fZ', paused_until / 1e6, 'unixepoch') END AS paused_until,"
    " paused_by, paused_why, sent, failed, failed_in_row, dead, discarded, expired, duplicates,"
    " (SELECT count(*) FROM postrider_dead_letter d WHERE d.endpoint = e.name) AS dead_letters,"
    " CASE WHEN last_failed_at > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', last_failed_at / 1e6, 'unixepoch') END"
    " AS last_failed_at, last_reason, last_code, last_error,"
    " (SELECT min(o.since) FROM postrider_open_breaker o WHERE o.endpoint = e.name) AS open_since,"
    " (SELECT min(o.until) FROM postrider_open_breaker o WHERE o.endpoint = e.name) AS next_probe FROM "
    "postrider_endpoint e;";

static const char VIEW_AUDIT[] = "CREATE VIEW postrider_audit_log AS SELECT number, " TIME_TEXT(
    "at") " AS at, who, action, target, why, matched, changed,"
          " refused FROM postrider_audit;";

/* Schedules that can be decoded (others become dead letters); a wish that its owner has not seen yet is new. */
static const char VIEW_SCHEDULES[] =
    "SELECT '{box}' AS box, b.stream AS name, json_extract(b.spec, '$.cron') AS cron,"
    " coalesce(json_extract(b.spec, '$.zone'), 'UTC') AS zone, coalesce(json_extract(b.spec, '$.missed'), 'once') AS "
    "missed, " TIME_TEXT(
        "b.due_at") " AS next_at,"
                    " CASE WHEN b.due_at = " NEVER " THEN 'paused' WHEN (b.status & 32768) <> 0 THEN 'failing'"
                    " WHEN b.due_at IS NULL THEN 'new' ELSE 'active' END AS state,"
                    " CASE WHEN (b.status & 32768) <> 0 THEN b.error END AS error"
                    " FROM (SELECT stream, due_at, status, error,"
                    " CASE WHEN json_valid(CAST(payload AS TEXT)) THEN CAST(payload AS TEXT) ELSE '{}' END AS spec"
                    " FROM \"{box}\" WHERE destination = 'schedule:') b WHERE json_extract(b.spec, '$.cron') IS NOT "
                    "NULL";

static void view_add(struct buf *b, const char *name, const char *select, const struct names *names)
{
    buf_addf(b, "CREATE VIEW %s AS ", name);
    for (size_t i = 0; i < names->count; i++) {
        buf_add_cstr(b, i > 0 ? " UNION ALL " : "");
        script_expand(b, select, names_get(names, i));
    }
    buf_add_char(b, ';');
}

static int views_make(struct conn *conn, const struct names *names, struct pr_error *reterr)
{
    struct buf script;
    buf_init(&script, SCRIPT_MAX);
    buf_add_cstr(&script, "DROP VIEW IF EXISTS postrider_messages; DROP VIEW IF EXISTS postrider_blocked_streams;"
                          "DROP VIEW IF EXISTS postrider_endpoint_overview; DROP VIEW IF EXISTS postrider_in_flight;"
                          "DROP VIEW IF EXISTS postrider_open_breaker; DROP VIEW IF EXISTS postrider_audit_log;"
                          "DROP VIEW IF EXISTS postrider_schedules;");
    buf_add_cstr(&script, VIEW_IN_FLIGHT);
    buf_add_cstr(&script, VIEW_OPEN);
    buf_add_cstr(&script, VIEW_ENDPOINTS);
    buf_add_cstr(&script, VIEW_AUDIT);
    view_add(&script, "postrider_messages", VIEW_MESSAGES, names);
    view_add(&script, "postrider_blocked_streams", VIEW_BLOCKED, names);
    view_add(&script, "postrider_schedules", VIEW_SCHEDULES, names);
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
