/* Events: those of one stream by their versions, or all of them by their places. */
#include "base/error.h"
#include "base/slice.h"
#include "store/people/question.h"

#define PLACED_AT_ONCE 10000
#define PIECES_MAX 100 /* pieces that one question waits for; the next question continues */

/* Assigns places to events that were committed since; *ret_placed: to how many. */
static int place_some(const struct store *store, int64_t *ret_placed, struct pr_error *reterr)
{
    struct sql sql = { .reterr = reterr };
    int64_t may = 0;
    *ret_placed = 0;
    int rc = sql_begin(&sql, store, SQL_WRITE);
    if (rc != PR_OK)
        return rc;
    rc = sql_number(&sql, SQL_events_may_place, NO_BOX, NO_VALUES, &may);
    if (rc == PR_OK && may != 0)
        rc = sql_number(&sql, SQL_events_place, NO_BOX, VALUES(V_INT(PLACED_AT_ONCE)), ret_placed);
    /* otherwise nothing has changed, and a commit would wake all waiting sessions */
    if (rc == PR_OK && *ret_placed > 0)
        rc = sql_commit(&sql);
    sql_end(&sql);
    return rc;
}

int events_place(const struct store *store, int64_t *ret_placed, struct pr_error *reterr)
{
    int64_t placed = PLACED_AT_ONCE;
    int rc = PR_OK;
    *ret_placed = 0;
    if (statement_is_empty(SQL_events_place, store->ops->sql->dialect))
        return PR_OK;
    for (int i = 0; i < PIECES_MAX && rc == PR_OK && placed == PLACED_AT_ONCE; i++) {
        rc = place_some(store, &placed, reterr);
        *ret_placed += placed;
    }
    return rc;
}

static struct stored_event event_of(struct question *q, const struct rows *rows)
{
    return (struct stored_event){
        .place = (uint64_t)row_number(rows, 0),
        .stream = question_text(q, rows, 1),
        .version = (uint64_t)row_number(rows, 2),
        .id = row_id(rows, 3),
        .type = question_text(q, rows, 4),
        .content_type = question_text(q, rows, 5),
        .headers = question_text(q, rows, 6),
        .payload = question_text(q, rows, 7),
        .created_us = row_time(rows, 8),
    };
}

static int events_last(struct question *q)
{
    const struct filter *f = &q->query->filter;
    struct rows rows;
    int rc = f->stream.size > 0 ? sql_run(q->sql, SQL_events_last_of_stream, NO_BOX, VALUES(V_TEXT(f->stream)), &rows)
                                : sql_run(q->sql, SQL_events_last, NO_BOX, NO_VALUES, &rows);
    if (rc == PR_OK && (rc = rows_step(&rows)) > 0)
        q->reply->total = (uint64_t)row_number(&rows, 0);
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

int question_events(struct question *q)
{
    if (q->query->brief)
        return events_last(q);
    const struct filter *f = &q->query->filter;
    struct query_reply *reply = q->reply;
    const size_t limit = question_limit(q);
    size_t capacity = 0, bytes = 0;
    struct rows rows;
    char id[PR_ID_TEXT_SIZE];
    if (f->id_count > 0)
        pr_id_format(f->ids[0], id);
    int rc = f->id_count > 0
                 ? sql_run(q->sql, SQL_event_of_id, NO_BOX, VALUES(V_TEXT(f->stream), V_TEXT(slice_from(id))), &rows)
             : f->stream.size > 0
                 ? sql_run(q->sql, SQL_events_of_stream, NO_BOX,
                           VALUES(V_INT(f->after), V_INT(limit + 1), V_TEXT(f->stream), V_INT(EVENTS_BYTES)), &rows)
                 : sql_run(q->sql, SQL_events, NO_BOX, VALUES(V_INT(f->after), V_INT(limit + 1), V_INT(EVENTS_BYTES)),
                           &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        reply->more = reply->event_count == limit || bytes >= EVENTS_BYTES;
        if (reply->more)
            break;
        reply->events = list_room(q->arena, reply->events, reply->event_count, &capacity, sizeof(reply->events[0]));
        if (reply->events == NULL)
            return question_no_memory(q);
        reply->events[reply->event_count] = event_of(q, &rows);
        bytes += event_bytes(&reply->events[reply->event_count++]);
        rc = PR_OK;
    }
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}
