/* boxes.c - which boxes a store has, and their tables. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "store/box_table.h"
#include "store/sqlite/migrate.h"
#include "store/sqlite/sqlite.h"

#define TABLES_SINCE 24 /* 024_table.sql */

struct box_names names_get(const struct names *names, size_t i)
{
    return (struct box_names){ slice_from(names->boxes[i].box), slice_from(names->boxes[i].table) };
}

void names_add(struct names *names, pr_slice box, pr_slice table)
{
    ASSERT(names->count < BOXES_MAX);
    snprintf(names->boxes[names->count].box, sizeof(names->boxes[0].box), "%.*s", SLICE_ARGS(box));
    snprintf(names->boxes[names->count++].table, sizeof(names->boxes[0].table), "%.*s", SLICE_ARGS(table));
}

/* Stores before version 24 do not record tables: each box has the table of its name. */
int boxes_read(struct conn *conn, int64_t version, struct names *ret, struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(conn,
                       version < TABLES_SINCE
                           ? "SELECT name, name FROM postrider_box ORDER BY name LIMIT ?1"
                           : "SELECT name, coalesce(table_name, name) FROM postrider_box ORDER BY name LIMIT ?1",
                       NO_BOX, VALUES(V_INT(BOXES_MAX)), &statement, reterr);
    if (rc != PR_OK)
        return rc;
    ret->count = 0;
    while ((rc = conn_step(conn, statement, reterr)) > 0)
        if (name_is_valid(column_slice(statement, 0)) &&
            name_is_valid(column_slice(statement, 1))) /* other rows are not boxes */
            names_add(ret, column_slice(statement, 0), column_slice(statement, 1));
    return rc;
}

static bool same_name(pr_slice a, pr_slice b)
{
    return a.size == b.size && sqlite3_strnicmp(a.data, b.data, (int)a.size) == 0; /* SQLite ignores case */
}

/* Outcome PR_UNKNOWN: no such box. */
int names_find(const struct names *names, pr_slice box, pr_slice table, struct pr_error *reterr)
{
    for (size_t i = 0; i < names->count; i++) {
        struct box_names known = names_get(names, i);
        if (slice_eq(known.box, box))
            return box_keeps_table(box, known.table, table, reterr);
        if (same_name(known.box, box))
            return error_set(reterr, PR_EINVAL,
                             "the boxes \"%.*s\" and \"%.*s\" differ in case only: rename one of them",
                             SLICE_ARGS(known.box), SLICE_ARGS(box));
        if (same_name(known.table, table.size > 0 ? table : box))
            return box_shares_table(box, known.table, known.box, reterr);
    }
    return PR_UNKNOWN;
}

/* Can this become the table of a box? */
int table_check(struct conn *conn, pr_slice box, pr_slice table, struct pr_error *reterr)
{
    int64_t found;
    if (!name_is_valid(table) || sqlite3_strnicmp(table.data, OUR_PREFIX, strlen(OUR_PREFIX)) == 0)
        return error_set(reterr, PR_EINVAL,
                         "\"%.*s\" cannot be the table of a box: use letters, digits and _, at most %d, and not "
                         "starting with " OUR_PREFIX,
                         SLICE_ARGS(table), BOX_NAME_MAX);
    int rc = conn_int(conn, "SELECT 1 FROM sqlite_master WHERE name = ?1 COLLATE NOCASE", NO_BOX, VALUES(V_TEXT(table)),
                      &found, reterr);
    if (rc == PR_OK)
        return box_table_is_taken(box, conn->location->path, table, "", reterr);
    return rc == PR_UNKNOWN ? PR_OK : rc;
}
