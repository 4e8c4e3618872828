/* failing.c - what fails: in the index of heads alone, so neither fresh rows nor held ones cost anything. */
#include "store/failing.h"

#include "base/error.h"
#include "store/sqlite/listing.h"
#include "store/sqlite/message.h"

#define NO_BOX ((pr_slice){ NULL, 0 })

/* Only what is due is held, and the index of heads does not say what is.  So of what is due the index of due rows tells. */
static int failing_due(struct conn *conn, int64_t now_us, struct box_failing *f, struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(
        conn,
        "SELECT min(due_at), max(due_at) FROM (SELECT due_at, status, attempts FROM \"{box}\" INDEXED BY"
        " \"postrider_{box}_due\" WHERE due_at IS NOT NULL AND held_by IS NULL AND due_at <= ?1 ORDER BY due_at"
        " LIMIT ?2) WHERE (status & 32768) <> 0 OR attempts > 0",
        f->name, VALUES(V_INT(now_us), V_INT(COUNT_EXACT_MAX)), &statement, reterr);
    if (rc != PR_OK)
        return rc;
    rc = conn_step(conn, statement, reterr);
    if (rc > 0) {
        failing_add_due(f, sqlite3_column_int64(statement, 0));
        failing_add_due(f, sqlite3_column_int64(statement, 1));
    }
    sqlite3_reset(statement);
    return rc < 0 ? rc : PR_OK;
}

static int failing_rows(struct conn *conn, const struct query *query, int64_t now_us, struct box_failing *f,
                        struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    int rc = conn_bind(
        conn,
        "SELECT attempts, failures, due_at FROM \"{box}\" INDEXED BY \"postrider_{box}_heads\" WHERE " MESSAGE_IS_BACK
        " ORDER BY row_id LIMIT ?1",
        f->name, VALUES(V_INT(COUNT_EXACT_MAX + 1)), &statement, reterr);
    if (rc != PR_OK)
        return rc;
    while ((rc = conn_step(conn, statement, reterr)) > 0) {
        if (!failing_add(f, query, sqlite3_column_int(statement, 0), sqlite3_column_int(statement, 1)))
            break;
        if (sqlite3_column_int64(statement, 2) > now_us)
            failing_add_due(f, sqlite3_column_int64(statement, 2));
    }
    sqlite3_reset(statement);
    return rc < 0 ? rc : failing_due(conn, now_us, f, reterr);
}

static int failing_dead(struct conn *conn, struct box_failing *f, struct pr_error *reterr)
{
    sqlite3_stmt *statement;
    int rc =
        conn_bind(conn,
                  "SELECT failure_reason, cause, count(*) FROM (SELECT failure_reason, cause FROM postrider_dead_letter"
                  " WHERE box = ?1 ORDER BY row_id DESC LIMIT ?2) GROUP BY failure_reason, cause",
                  NO_BOX, VALUES(V_TEXT(f->name), V_INT(COUNT_EXACT_MAX)), &statement, reterr);
    if (rc != PR_OK)
        return rc;
    while ((rc = conn_step(conn, statement, reterr)) > 0)
        failing_add_dead(f, sqlite3_column_int(statement, 0), sqlite3_column_int(statement, 1),
                         (uint64_t)sqlite3_column_int64(statement, 2));
    sqlite3_reset(statement);
    return rc < 0 ? rc : PR_OK;
}

int sqlite_failing(struct conn *conn, const struct surroundings *s, const struct query *query, struct arena *arena,
                   struct query_reply *reply, struct pr_error *reterr)
{
    int rc = PR_OK;
    reply->failing = arena_alloc_array(arena, s->box_count, sizeof(*reply->failing));
    if (reply->failing == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for the answer");
    for (size_t i = 0; i < s->box_count && rc == PR_OK; i++) {
        struct box_failing *f = &reply->failing[reply->failing_count++];
        f->name = s->boxes[i];
        rc = failing_rows(conn, query, s->now_us, f, reterr);
        if (rc == PR_OK)
            rc = failing_dead(conn, f, reterr);
    }
    return rc;
}
