/* Short questions: the audit, instances, open breakers, failures; and the table of which function answers which
 * question. */
#include "base/error.h"
#include "base/slice.h"
#include "store/people/failing.h"
#include "store/people/question.h"

/* ---- What people did -------------------------------------------------------------------------- */

static int audit(struct question *q)
{
    const struct filter *f = &q->query->filter;
    struct query_reply *reply = q->reply;
    const size_t limit = question_limit(q);
    size_t capacity = 0;
    struct rows rows;
    int rc = sql_run(q->sql, SQL_audit, NO_BOX,
                     VALUES(V_INT(f->after != 0 ? f->after : INT64_MAX), V_TIME(max64(f->since_us, 1)),
                            V_TIME(f->until_us != 0 ? f->until_us : PR_NEVER), V_INT(limit + 1)),
                     &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        reply->more = reply->audit_count == limit;
        if (reply->more)
            break;
        reply->audit = list_room(q->arena, reply->audit, reply->audit_count, &capacity, sizeof(reply->audit[0]));
        if (reply->audit == NULL)
            return question_no_memory(q);
        reply->audit[reply->audit_count++] = (struct audit_entry){
            .number = (uint64_t)row_number(&rows, 0),
            .at_us = row_time(&rows, 1),
            .who = question_text(q, &rows, 2),
            .action = question_text(q, &rows, 3),
            .target = question_text(q, &rows, 4),
            .why = question_text(q, &rows, 5),
            .matched = (uint64_t)row_number(&rows, 6),
            .changed = (uint64_t)row_number(&rows, 7),
            .refused = (uint64_t)row_number(&rows, 8),
        };
        rc = PR_OK;
    }
    rows_end(&rows);
    return rc;
}

/* ---- Who works -------------------------------------------------------------------------------- */

/* Rows on its receipts that still exist and have no verdict. */
static int in_flight_read(struct question *q, struct instance_info *info)
{
    int64_t count = 0;
    int rc = sql_number(q->sql, SQL_instance_in_flight, info->box, VALUES(V_ID(info->id)), &count);
    info->in_flight = (uint64_t)count;
    return rc;
}

static int instances(struct question *q)
{
    struct query_reply *reply = q->reply;
    size_t capacity = 0;
    struct rows rows;
    int rc = sql_run(q->sql, SQL_instances, NO_BOX, VALUES(V_TEXT(q->sql->boot)), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        reply->instances =
            list_room(q->arena, reply->instances, reply->instance_count, &capacity, sizeof(reply->instances[0]));
        if (reply->instances == NULL)
            return question_no_memory(q);
        reply->instances[reply->instance_count++] = (struct instance_info){
            .id = row_id(&rows, 0),
            .box = question_text(q, &rows, 1),
            .name = question_text(q, &rows, 2),
            .version = question_text(q, &rows, 3),
            .epoch = row_number(&rows, 4),
            .lanes = __builtin_popcountll((uint64_t)row_number(&rows, 5)),
            .lease_left_us = max64(0, row_time(&rows, 6) - q->s.mono_us),
            .started_us = row_time(&rows, 7),
            .sources = question_text(q, &rows, 8),
        };
        rc = PR_OK;
    }
    rows_end(&rows);
    for (size_t i = 0; i < reply->instance_count && rc == PR_OK && !q->lacks_memory; i++)
        rc = in_flight_read(q, &reply->instances[i]);
    return rc;
}

/* ---- Breakers ---------------------------------------------------------------------------------- */

int question_breakers(struct question *q)
{
    struct query_reply *reply = q->reply;
    size_t capacity = 0;
    struct rows rows;
    int rc = sql_run(q->sql, SQL_breakers, NO_BOX, VALUES(V_TIME(q->s.mono_us), V_TEXT(q->sql->boot)), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        reply->breakers =
            list_room(q->arena, reply->breakers, reply->breaker_count, &capacity, sizeof(reply->breakers[0]));
        if (reply->breakers == NULL)
            return question_no_memory(q);
        reply->breakers[reply->breaker_count++] = (struct breaker_info){
            .endpoint = question_text(q, &rows, 0),
            .type = question_text(q, &rows, 1),
            .box = question_text(q, &rows, 2),
            .instance = question_text(q, &rows, 3),
            .code = question_text(q, &rows, 4),
            .error = question_text(q, &rows, 5),
            .instance_id = row_id(&rows, 6),
            .lanes = (uint64_t)row_number(&rows, 7),
            .since_us = row_time(&rows, 8),
            .until_us = row_time(&rows, 9),
            .probes = (int)row_number(&rows, 10),
            .reason = (int)row_number(&rows, 11),
        };
        rc = PR_OK;
    }
    rows_end(&rows);
    return rc;
}

/* ---- What fails -------------------------------------------------------------------------------- */

/* Through the index of heads alone, so that neither fresh nor held rows cost anything. */
static int failing_rows(struct question *q, struct box_failing *f)
{
    struct rows rows;
    int rc = sql_run(q->sql, SQL_failing_rows, f->name, VALUES(V_INT(COUNT_EXACT_MAX + 1)), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        if (!failing_add(f, q->query, (int)row_number(&rows, 0), (int)row_number(&rows, 1)))
            break;
        if (row_time(&rows, 2) > q->s.now_us)
            failing_add_due(f, row_time(&rows, 2));
        rc = PR_OK;
    }
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

/* Only due rows are held, and the index of heads does not contain due times, so the index of due rows is used. */
static int failing_due(struct question *q, struct box_failing *f)
{
    struct rows rows;
    int rc = sql_run(q->sql, SQL_failing_due, f->name, VALUES(V_TIME(q->s.now_us), V_INT(COUNT_EXACT_MAX)), &rows);
    if (rc == PR_OK)
        rc = rows_step(&rows);
    for (int i = 0; rc > 0 && i < 2; i++)
        failing_add_due(f, row_time(&rows, i));
    rows_end(&rows);
    return rc < 0 ? rc : PR_OK;
}

static int failing_dead(struct question *q, struct box_failing *f)
{
    struct rows rows;
    int rc = sql_run(q->sql, SQL_failing_dead, NO_BOX, VALUES(V_TEXT(f->name), V_INT(COUNT_EXACT_MAX)), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        failing_add_dead(f, (int)row_number(&rows, 0), (int)row_number(&rows, 1), (uint64_t)row_number(&rows, 2));
        rc = PR_OK;
    }
    rows_end(&rows);
    return rc;
}

static int failing(struct question *q)
{
    struct query_reply *reply = q->reply;
    int rc = PR_OK;
    reply->failing = arena_alloc_array(q->arena, q->s.box_count, sizeof(*reply->failing));
    if (reply->failing == NULL)
        return question_no_memory(q);
    for (size_t i = 0; i < q->s.box_count && rc == PR_OK; i++) {
        struct box_failing *f = &reply->failing[reply->failing_count++];
        f->name = q->s.boxes[i];
        rc = failing_rows(q, f);
        if (rc == PR_OK)
            rc = failing_due(q, f);
        if (rc == PR_OK)
            rc = failing_dead(q, f);
    }
    return rc;
}

/* ---- Which it is ------------------------------------------------------------------------------ */

static int endpoints(struct question *q)
{
    int rc = question_breakers(q);
    return rc != PR_OK ? rc : q->sql->ops->endpoints(q->sql, q->arena, &q->reply->endpoints, &q->reply->endpoint_count);
}

int question_answer(struct question *q)
{
    if (q->query->kind == QUERY_FACTS) /* works also without tables */
        return q->sql->ops->facts(q->sql, q->arena, &q->reply->facts, &q->s.now_us);
    if (q->query->kind == QUERY_FLOW) /* a turn waits for it: nothing else is read */
        return question_flow(q);
    int rc = listing_context_read(q->sql, q->arena, &q->s);
    if (rc != PR_OK)
        return rc;
    switch (q->query->kind) {
    case QUERY_MESSAGES: return question_messages(q);
    case QUERY_DEAD: return question_dead(q);
    case QUERY_ID: return question_id(q);
    case QUERY_DEAD_COUNT: return question_dead_count(q);
    case QUERY_DEAD_GROUPS: return question_groups(q);
    case QUERY_BOXES: return question_boxes(q);
    case QUERY_STREAMS: return question_streams(q);
    case QUERY_ENDPOINTS: return endpoints(q);
    case QUERY_INSTANCES: return instances(q);
    case QUERY_AUDIT: return audit(q);
    case QUERY_FAILING: return failing(q);
    case QUERY_EVENTS: return question_events(q);
    case QUERY_SUBSCRIPTIONS: return question_subscriptions(q);
    case QUERY_ROWS: return question_rows(q);
    case QUERY_FLOWS: return question_flows(q);
    case QUERY_FLOW_EXECUTIONS: return question_flow_executions(q);
    case QUERY_FLOW:
    case QUERY_FACTS: break;
    }
    return error_set(q->sql->reterr, PR_EINVAL, "unknown kind of question %d", (int)q->query->kind);
}
