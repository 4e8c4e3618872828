/* Positions of sources, and messages that are stored together with them. */
#include "base/error.h"
#include "base/slice.h"
#include "store/people/question.h"

/* The second of two concurrent moves waits for the first, and then finds the position moved. */
static int position_move(struct sql *sql, const struct position_move *move, int64_t now_us)
{
    int64_t one;
    int rc = move->from.size > 0
                 ? sql_number(sql, SQL_position_move, NO_BOX,
                              VALUES(V_TEXT(move->source), V_TEXT(move->from), V_TEXT(move->to), V_TIME(now_us)), &one)
                 : sql_number(sql, SQL_position_new, NO_BOX,
                              VALUES(V_TEXT(move->source), V_TEXT(move->to), V_TIME(now_us)), &one);
    return rc == PR_UNKNOWN ? PR_STALE : rc;
}

int people_take(const struct store *store, pr_slice box, const struct pr_message *messages, size_t count,
                const struct position_move *move, int *answers, struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    int64_t now_us = store->ops->time(store->self);
    int rc = sql_begin(&sql, store, SQL_WRITE);
    if (rc != PR_OK)
        return rc;
    rc = position_move(&sql, move, now_us);
    if (rc == PR_OK && count > 0)
        rc = sql.ops->insert(&sql, box, messages, count, now_us, answers);
    if (rc == PR_OK)
        rc = sql_commit(&sql);
    sql_end(&sql);
    return rc;
}

int people_position(const struct store *store, pr_slice source, struct arena *arena, pr_slice *ret,
                    struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    struct rows rows;
    int rc = sql_begin(&sql, store, SQL_LOOK);
    if (rc != PR_OK)
        return rc;
    *ret = PR_STR("");
    rc = sql_run(&sql, SQL_position, NO_BOX, VALUES(V_TEXT(source)), &rows);
    if (rc == PR_OK)
        rc = rows_step(&rows);
    if (rc == STEP_ROW)
        *ret = slice_dup(arena, row_text(&rows, 0));
    rows_end(&rows);
    sql_end(&sql);
    if (rc >= 0 && ret->data == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a position");
    return rc < 0 ? rc : PR_OK;
}
