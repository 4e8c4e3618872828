/* The port's calls that are the same for every database. */
#include "store/sql.h"

#include "base/error.h"
#include "store/store.h"

int sql_begin(struct sql *sql, const struct store *store, enum sql_purpose purpose)
{
    ASSERT(store->ops->sql != NULL);
    sql->ops = store->ops->sql;
    sql->store = store->self;
    return sql->ops->begin(store->self, purpose, sql);
}

int sql_run(struct sql *sql, enum sql_statement statement, pr_slice box, const struct value *values, size_t count,
            struct rows *ret)
{
    *ret = (struct rows){ .sql = sql };
    return sql->ops->run(sql, statement_text(statement, sql->ops->dialect), false, box, values, count, ret);
}

int sql_do(struct sql *sql, enum sql_statement statement, pr_slice box, const struct value *values, size_t count)
{
    struct rows rows;
    int rc = sql_run(sql, statement, box, values, count, &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0)
        rc = PR_OK;
    rows_end(&rows);
    return rc;
}

int sql_number(struct sql *sql, enum sql_statement statement, pr_slice box, const struct value *values, size_t count,
               int64_t *ret)
{
    struct rows rows;
    int rc = sql_run(sql, statement, box, values, count, &rows);
    if (rc == PR_OK)
        rc = rows_step(&rows);
    if (rc > 0)
        *ret = row_number(&rows, 0);
    rows_end(&rows);
    return rc > 0 ? PR_OK : rc < 0 ? rc : PR_UNKNOWN;
}

int sql_now(struct sql *sql, int64_t *ret_us)
{
    struct rows rows;
    int rc = sql_run(sql, SQL_clock, NO_BOX, VALUES(V_TIME(sql->wall_us)), &rows);
    if (rc == PR_OK)
        rc = rows_step(&rows);
    if (rc > 0)
        *ret_us = row_time(&rows, 0);
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

void rows_end(struct rows *rows)
{
    if (rows->statement != NULL)
        rows->sql->ops->rows_end(rows);
    rows->statement = NULL;
    if (rows->has_scratch)
        arena_fini(&rows->scratch);
    rows->has_scratch = false;
}
