/* Which warnings are new, for all instances together; and the errors of sources that instances report. */
#include "base/error.h"
#include "store/people/question.h"

/* The second of two concurrent transactions waits for the first, and then finds the warning. */
static int warn_one(struct sql *sql, const struct warnings *warnings, size_t i, int64_t now_us, bool *ret_new)
{
    const struct value values[] = { V_TEXT(warnings->names[i]), V_TIME(now_us) };
    int64_t one;
    int answer;
    *ret_new = false;
    int rc = sql_number(sql, SQL_warning_seen, NO_BOX, values, ARRAY_LENGTH(values), &one);
    if (rc == PR_UNKNOWN)
        rc = sql_number(sql, SQL_warning_new, NO_BOX, values, ARRAY_LENGTH(values), &one);
    else
        return rc;
    *ret_new = rc == PR_OK;
    if (*ret_new && warnings->messages != NULL)
        rc = sql->ops->insert(sql, warnings->box, &warnings->messages[i], 1, now_us, &answer);
    return rc < 0 ? rc : PR_OK; /* a duplicate exists already */
}

int people_note_sources(const struct store *store, pr_slice instance, pr_slice lines, struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    int rc = sql_begin(&sql, store, SQL_WRITE);
    if (rc != PR_OK)
        return rc;
    rc = sql_do(&sql, SQL_instance_sources, NO_BOX, VALUES(V_TEXT(instance), V_TEXT_OR_NULL(lines)));
    if (rc == PR_OK)
        rc = sql_commit(&sql);
    sql_end(&sql);
    return rc;
}

int people_warn(const struct store *store, const struct warnings *warnings, int64_t calm_us, bool *ret_new,
                struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    int64_t now_us = 0;
    int rc = sql_begin(&sql, store, SQL_WRITE);
    if (rc != PR_OK)
        return rc;
    rc = sql_now(&sql, &now_us);
    if (rc == PR_OK)
        rc = sql_do(&sql, SQL_warnings_forget, NO_BOX, VALUES(V_TIME(max64(time_sub(now_us, calm_us), 1))));
    for (size_t i = 0; i < warnings->count && rc == PR_OK; i++)
        rc = warn_one(&sql, warnings, i, now_us, &ret_new[i]);
    if (rc == PR_OK)
        rc = sql_commit(&sql);
    sql_end(&sql);
    return rc;
}
