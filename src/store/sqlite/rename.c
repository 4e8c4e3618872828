/* rename.c - stores before version 11, whose tables meta, audit, messages ... have no prefix.
 *
 * They get the prefix before any file runs, so the files know only current names.  A table is renamed only if it
 * certainly belongs to Postrider: some tables with such columns an application would hardly have, and they show that
 * there is a store.  ALTER TABLE also corrects the application's own views and triggers that read Postrider's tables,
 * but not views over Postrider's views.
 *
 * An old program looks for `meta`, and without it would report that there is no store.  So a renamed store keeps a
 * table of that name with the version in it: the old program then reports that it must be upgraded, and changes
 * nothing. */
#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/util.h"
#include "store/sqlite/migrate.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define SCRIPT_MAX (1u << 20)
#define NO_BOX ((pr_slice){ NULL, 0 })

static const struct {
    const char *name;
    int since; /* before this version a table of that name belongs to the application */
} tables[] = {
    { "meta", 1 },     { "box", 1 },     { "instance", 1 },       { "claim", 1 },
    { "endpoint", 1 }, { "control", 1 }, { "audit", 1 },          { "dead_letter", 1 },
    { "done", 1 },     { "breaker", 3 }, { "raised_warning", 6 },
};

/* An application's table meta may have a key schema_version, too. */
static const char IS_OURS[] =
    "SELECT (SELECT count(*) FROM pragma_table_info('meta') WHERE name IN ('key', 'value')) = 2"
    " AND (SELECT count(*) FROM pragma_table_info('claim') WHERE name IN ('instance', 'cycle', 'box', 'at', "
    "'entries')) = 5"
    " AND (SELECT count(*) FROM pragma_table_info('instance') WHERE name IN ('epoch', 'lanes', 'lease_end', "
    "'boot_id')) = 4"
    " AND (SELECT count(*) FROM pragma_table_info('dead_letter') WHERE name IN ('row_id', 'box', 'fingerprint')) = 3"
    " AND (SELECT count(*) FROM pragma_table_info('box') WHERE name = 'name') = 1";

int rename_version(struct conn *conn, int64_t *ret_version, struct pr_error *reterr)
{
    int64_t ours;
    int rc = conn_int(conn, IS_OURS, NO_BOX, NULL, 0, &ours, reterr);
    if (rc == PR_OK && ours == 0)
        rc = PR_UNKNOWN;
    if (rc == PR_OK)
        rc =
            conn_int(conn, "SELECT value FROM meta WHERE key = 'schema_version'", NO_BOX, NULL, 0, ret_version, reterr);
    return rc;
}

/* The query returns statements, which are run. */
static int rename_by(struct conn *conn, const char *query, struct pr_error *reterr)
{
    struct buf script;
    sqlite3_stmt *statement;
    int rc = conn_bind(conn, query, NO_BOX, NULL, 0, &statement, reterr);
    if (rc != PR_OK)
        return rc;
    buf_init(&script, SCRIPT_MAX);
    while ((rc = conn_step(conn, statement, reterr)) > 0)
        buf_add_slice(&script, column_slice(statement, 0));
    if (rc == PR_OK && (rc = buf_failed(&script)) != PR_OK)
        error_set(reterr, rc, "out of memory for new names");
    if (rc == PR_OK && script.size > 0)
        rc = script_run(conn, script.data, reterr);
    buf_fini(&script);
    return rc;
}

static int rename_tables(struct conn *conn, int64_t version, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (size_t i = 0; i < ARRAY_LENGTH(tables) && rc == PR_OK; i++) {
        char sql[128];
        snprintf(sql, sizeof(sql), "ALTER TABLE %s RENAME TO " OUR_PREFIX "%s", tables[i].name, tables[i].name);
        if (tables[i].since <= version)
            rc = script_run(conn, sql, reterr);
    }
    return rc;
}

/* After the tables: ALTER TABLE fails when an application's view reads a view that is gone. */
static const char VIEWS[] =
    "SELECT 'DROP VIEW ' || name || ';' FROM sqlite_master WHERE type = 'view' AND name IN"
    " ('messages', 'blocked_streams', 'endpoint_overview', 'in_flight', 'open_breaker', 'audit_log')";

/* Indexes cannot be renamed.  Indexes that an application created on Postrider's tables stay unchanged. */
static const char INDEXES[] =
    "SELECT 'DROP INDEX \"' || name || '\"; CREATE INDEX \"" OUR_PREFIX
    "' || name || '\"' || substr(sql, instr(sql, ' ON ')) || ';'"
    " FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND ("
    " tbl_name = '" OUR_PREFIX
    "dead_letter' AND substr(name, 13) IN ('id', 'box', 'group', 'endpoint', 'stream', 'died', 'print')"
    " AND substr(name, 1, 12) = 'dead_letter_'"
    " OR tbl_name = '" OUR_PREFIX "done' AND name IN ('done_id', 'done_box', 'done_keep')"
    " OR tbl_name IN (SELECT name FROM " OUR_PREFIX "box)"
    " AND name IN (tbl_name || '_due', tbl_name || '_held', tbl_name || '_heads', tbl_name || '_back'))";

static const char GUARD[] = "CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY) WITHOUT ROWID;"
                            "INSERT INTO meta VALUES ('schema_version', 11), ('see', 'the store is in postrider_meta: "
                            "this stops programs before 11');";

int rename_old(struct conn *conn, struct pr_error *reterr)
{
    int64_t there, version;
    int rc = conn_int(conn, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'postrider_meta'", NO_BOX,
                      NULL, 0, &there, reterr);
    if (rc != PR_UNKNOWN)
        return rc;
    rc = rename_version(conn, &version, reterr);
    if (rc != PR_OK)
        return rc;
    if ((rc = rename_tables(conn, version, reterr)) != PR_OK || (rc = rename_by(conn, VIEWS, reterr)) != PR_OK ||
        (rc = rename_by(conn, INDEXES, reterr)) != PR_OK)
        return rc;
    return script_run(conn, GUARD, reterr);
}
