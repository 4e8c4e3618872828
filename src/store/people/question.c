/* People's questions: one read transaction each. */
#include "store/people/question.h"

#include "base/error.h"
#include "base/slice.h"

int question_no_memory(struct question *q)
{
    return error_set(q->sql->reterr, PR_ENOMEM, "out of memory for the answer");
}

pr_slice question_text(struct question *q, const struct rows *rows, int column)
{
    pr_slice text = slice_dup(q->arena, row_text(rows, column));
    q->lacks_memory |= text.data == NULL;
    return text;
}

/* *ret_again: it failed, and may be asked again. */
static int question_ask(struct question *q, const struct store *store, bool *ret_again)
{
    *q->reply = (struct query_reply){ .now_us = 0 };
    *ret_again = false;
    int rc = sql_begin(q->sql, store, q->query->kind == QUERY_FLOW ? SQL_GLANCE : SQL_LOOK);
    if (rc != PR_OK)
        return rc;
    rc = question_answer(q);
    if (rc >= PR_OK && q->lacks_memory)
        rc = question_no_memory(q);
    *ret_again = rc < 0 && q->sql->ops->may_retry(q->sql);
    sql_end(q->sql);
    q->reply->now_us = q->s.now_us;
    return rc;
}

int people_query(const struct store *store, const struct query *query, struct arena *arena,
                 struct query_reply *ret_reply, struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    struct query_reply reply;
    struct question q = { .sql = &sql, .arena = arena, .query = query, .reply = &reply };
    bool again = false;
    int64_t placed;
    int rc =
        query->kind == QUERY_EVENTS && query->filter.stream.size == 0 ? events_place(store, &placed, reterr) : PR_OK;
    if (rc == PR_OK)
        rc = question_ask(&q, store, &again);
    if (rc == PR_OK && reply.subscription_count > 0) { /* how far behind they are: computed only if there are any */
        rc = events_place(store, &placed, reterr);
        again = rc == PR_OK;
    }
    if (again)
        rc = question_ask(&q, store, &again);
    if (rc >= PR_OK)
        *ret_reply = reply;
    return rc < 0 ? rc : PR_OK;
}
