/* Flows: one with everything that a turn needs, lists of them, and the executions of one. */
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/id.h"
#include "store/people/question.h"

/* Kinds of rows of SQL_flow. */
enum { FLOW_ITSELF, FLOW_TURN, FLOW_VALUE, FLOW_MAIL };

static pr_id execution_of(const struct rows *rows, int column)
{
    pr_id id = { { 0 } };
    if (row_text(rows, column).size > 0)
        (void)id_from_stored(row_text(rows, column), &id); /* zero when it is damaged */
    return id;
}

/* Columns as in FLOW_COLUMNS; column 0 is the id, or the kind of the row. */
static struct flow_row flow_of(struct question *q, const struct rows *rows, pr_slice id)
{
    return (struct flow_row){
        .id = id,
        .name = question_text(q, rows, 1),
        .version = question_text(q, rows, 2),
        .execution = execution_of(rows, 3),
        .next = row_number(rows, 4),
        .state = (int)row_number(rows, 5),
        .custom_status = question_text(q, rows, 6),
        .status_number = row_number(rows, 7),
        .input = question_text(q, rows, 8),
        .output = question_text(q, rows, 9),
        .error = question_text(q, rows, 10),
        .parent = question_text(q, rows, 11),
        .parent_execution = execution_of(rows, 12),
        .parent_task = row_number(rows, 13),
        .tasks = row_number(rows, 14),
        .created_us = row_time(rows, 15),
        .updated_us = row_time(rows, 16),
    };
}

static bool flows_add(struct question *q, struct flow_row flow, size_t *capacity)
{
    struct query_reply *reply = q->reply;
    reply->flows = list_room(q->arena, reply->flows, reply->flow_count, capacity, sizeof(reply->flows[0]));
    if (reply->flows == NULL)
        return false;
    reply->flows[reply->flow_count++] = flow;
    return true;
}

/* ---- One ----------------------------------------------------------------------------------------- */

struct flow_room {
    size_t flows, turns, values, mail;
};

static bool part_add(struct question *q, const struct rows *rows, struct flow_room *room)
{
    struct query_reply *reply = q->reply;
    switch (row_number(rows, 0)) {
    case FLOW_ITSELF: return flows_add(q, flow_of(q, rows, slice_dup(q->arena, q->query->flow.id)), &room->flows);
    case FLOW_TURN:
        reply->turns = list_room(q->arena, reply->turns, reply->turn_count, &room->turns, sizeof(reply->turns[0]));
        if (reply->turns == NULL)
            return false;
        reply->turns[reply->turn_count++] =
            (struct flow_turn_row){ row_number(rows, 4), row_number(rows, 7), question_text(q, rows, 10) };
        return true;
    case FLOW_VALUE:
        reply->values = list_room(q->arena, reply->values, reply->value_count, &room->values, sizeof(reply->values[0]));
        if (reply->values == NULL)
            return false;
        reply->values[reply->value_count++] =
            (struct flow_key_value){ question_text(q, rows, 1), question_text(q, rows, 8) };
        return true;
    default:
        reply->mail = list_room(q->arena, reply->mail, reply->mail_count, &room->mail, sizeof(reply->mail[0]));
        if (reply->mail == NULL)
            return false;
        reply->mail[reply->mail_count++] = (struct pr_message){
            .id = execution_of(rows, 3),
            .type = question_text(q, rows, 1),
            .content_type = question_text(q, rows, 2),
            .headers = question_text(q, rows, 10),
            .payload = question_text(q, rows, 8),
            .stream = slice_dup(q->arena, q->query->flow.id),
            .created_us = row_time(rows, 15),
        };
        return true;
    }
}

static int compare_values(const void *a, const void *b)
{
    return slice_cmp(((const struct flow_key_value *)a)->key, ((const struct flow_key_value *)b)->key);
}

int question_flow(struct question *q)
{
    const struct flow_filter *f = &q->query->flow;
    char execution[PR_ID_TEXT_SIZE] = "";
    struct flow_room room = { 0 };
    struct rows rows;
    if (!pr_id_is_zero(f->execution))
        pr_id_format(f->execution, execution);
    int rc = q->query->brief
                 ? sql_run(q->sql, SQL_flow_row, NO_BOX, VALUES(V_TEXT(f->id)), &rows)
                 : sql_run(q->sql, SQL_flow, NO_BOX, VALUES(V_TEXT(f->id), V_TEXT(slice_from(execution))), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0)
        rc = part_add(q, &rows, &room) ? PR_OK : question_no_memory(q);
    rows_end(&rows);
    if (q->reply->value_count > 1) /* each database orders texts differently */
        qsort(q->reply->values, q->reply->value_count, sizeof(q->reply->values[0]), compare_values);
    return rc < 0 ? rc : PR_OK;
}

int question_flow_executions(struct question *q)
{
    const size_t limit = question_limit(q);
    size_t capacity = 0;
    struct rows rows;
    int rc = sql_run(q->sql, SQL_flow_executions, NO_BOX, VALUES(V_TEXT(q->query->flow.id), V_INT(limit + 1)), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        q->reply->more = q->reply->flow_count == limit;
        if (q->reply->more)
            break;
        rc = flows_add(q, flow_of(q, &rows, slice_dup(q->arena, q->query->flow.id)), &capacity) ? PR_OK
                                                                                                : question_no_memory(q);
    }
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

/* ---- Many ---------------------------------------------------------------------------------------- */

/* Flows of one state, or (0) of one parent in any state. */
static int flows_read(struct question *q, int state, size_t *capacity)
{
    const struct flow_filter *f = &q->query->flow;
    const struct filter *times = &q->query->filter;
    const struct value values[] = {
        V_INT(state),
        V_TIME(f->after_us != 0 ? f->after_us : PR_NEVER),
        V_TEXT(f->after_id),
        V_TIME(max64(times->since_us, 1)),
        V_TIME(times->until_us != 0 ? times->until_us : PR_NEVER),
        V_TEXT(f->name),
        V_TEXT(f->version),
        V_INT(question_limit(q) + 1),
        V_TEXT(f->parent),
    };
    struct rows rows;
    int rc = f->parent.size > 0 ? sql_run(q->sql, SQL_flows_of_parent, NO_BOX, values, ARRAY_LENGTH(values), &rows)
                                : sql_run(q->sql, SQL_flows_of_state, NO_BOX, values, ARRAY_LENGTH(values) - 1, &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0)
        rc = flows_add(q, flow_of(q, &rows, question_text(q, &rows, 0)), capacity) ? PR_OK : question_no_memory(q);
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

/* The newest first. */
static int compare_flows(const void *a, const void *b)
{
    const struct flow_row *x = a, *y = b;
    if (x->created_us != y->created_us)
        return x->created_us > y->created_us ? -1 : 1;
    return slice_cmp(y->id, x->id);
}

static int flows_count(struct question *q)
{
    struct rows rows;
    int rc = sql_run(q->sql, SQL_flow_counts, NO_BOX, VALUES(V_INT(COUNT_EXACT_MAX + 1)), &rows);
    if (rc == PR_OK && (rc = rows_step(&rows)) > 0)
        for (int state = FLOW_RUNNING; state < FLOW_CONTINUED; state++)
            q->reply->flow_states[state] = (uint64_t)row_number(&rows, state - FLOW_RUNNING);
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

int question_flows(struct question *q)
{
    const struct flow_filter *f = &q->query->flow;
    struct query_reply *reply = q->reply;
    const size_t limit = question_limit(q);
    size_t capacity = 0;
    int rc = f->parent.size > 0 ? flows_read(q, f->state, &capacity) : PR_OK;
    for (int state = FLOW_RUNNING; state < FLOW_CONTINUED && f->parent.size == 0 && rc == PR_OK; state++)
        if (f->state == 0 || f->state == state)
            rc = flows_read(q, state, &capacity);
    if (rc != PR_OK)
        return rc;
    if (reply->flow_count > 1)
        qsort(reply->flows, reply->flow_count, sizeof(reply->flows[0]), compare_flows);
    reply->more = reply->flow_count > limit;
    reply->flow_count = min_size(reply->flow_count, limit);
    return flows_count(q);
}
