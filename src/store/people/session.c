/* Sessions of activities: which instance runs them. */
#include "base/error.h"
#include "base/slice.h"
#include "store/people/question.h"

#define SESSION_KEEP_US (PR_MINUTES(60) * 24 * 7)
#define SESSION_PURGE_MAX 100

/* Outcome PR_UNKNOWN: there is none. */
static int session_read(struct sql *sql, pr_slice session, struct arena *arena, struct session_info *ret)
{
    struct rows rows;
    int rc = sql_run(sql, SQL_session_look, NO_BOX, VALUES(V_TEXT(session)), &rows);
    if (rc == PR_OK)
        rc = rows_step(&rows);
    if (rc == STEP_ROW) {
        *ret = (struct session_info){ .holder = slice_dup(arena, row_text(&rows, 0)),
                                      .instance = slice_dup(arena, row_text(&rows, 1)),
                                      .since_us = row_time(&rows, 2),
                                      .moved_from = slice_dup(arena, row_text(&rows, 3)) };
        bool copied = ret->holder.data != NULL && ret->instance.data != NULL && ret->moved_from.data != NULL;
        rc = copied ? PR_OK : error_set(sql->reterr, PR_ENOMEM, "out of memory for a session");
    } else if (rc == PR_OK) {
        rc = PR_UNKNOWN;
    }
    rows_end(&rows);
    return rc;
}

int people_session_look(const struct store *store, pr_slice session, struct arena *arena, struct session_info *ret,
                        struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    int rc = sql_begin(&sql, store, SQL_LOOK);
    if (rc != PR_OK)
        return rc;
    rc = session_read(&sql, session, arena, ret);
    sql_end(&sql);
    return rc;
}

int people_session_hold(const struct store *store, pr_slice session, pr_slice holder, pr_slice instance,
                        struct arena *arena, pr_slice *ret_from, struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    struct session_info before;
    int64_t now_us = 0;
    int rc = sql_begin(&sql, store, SQL_WRITE);
    if (rc != PR_OK)
        return rc;
    *ret_from = (pr_slice){ NULL, 0 };
    rc = session_read(&sql, session, arena, &before);
    if (rc == PR_OK && !slice_eq(before.holder, holder))
        *ret_from = before.instance;
    if (rc >= 0)
        rc = sql_now(&sql, &now_us);
    if (rc == PR_OK)
        rc = sql_do(&sql, SQL_session_hold, NO_BOX,
                    VALUES(V_TEXT(session), V_TEXT(holder), V_TEXT(instance), V_TIME(now_us)));
    if (rc == PR_OK)
        rc =
            sql_do(&sql, SQL_session_purge, NO_BOX, VALUES(V_TIME(now_us - SESSION_KEEP_US), V_INT(SESSION_PURGE_MAX)));
    if (rc == PR_OK)
        rc = sql_commit(&sql);
    sql_end(&sql);
    return rc;
}
