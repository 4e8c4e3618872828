/* Orders about flows: to delete them, and to forget executions before the current one.
 *
 * A flow is deleted with its children, in one transaction with all other flows of the order.  First all their rows are
 * locked, from the parent down; a flow with a row that another transaction has locked (a turn is being committed) is
 * left unchanged and counted as busy.  From then on no turn of it can be committed, since its guard is gone.  Rows in
 * the boxes of flows that another transaction has locked are about to end: their results will find no flow. */
#include "store/people/flow_order.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "core/id.h"
#include "core/message.h"
#include "flow/activity.h"
#include "flow/flow_id.h"
#include "flow/history.h"
#include "flow/turn_message.h"
#include "store/people/question.h"

#define TASKS_AT_ONCE 1000
#define PRUNE_AT_ONCE 1000

struct doomed {
    pr_slice id;
    pr_id execution;
    int64_t tasks;
};

struct flow_deletion {
    struct sql *sql;
    const struct flow_order *order;
    struct admin_reply *reply;
    struct arena *arena;
    struct doomed *list; /* a flow, its children, their children, and so on */
    size_t count, room;
};

static int no_memory(struct sql *sql)
{
    return error_set(sql->reterr, PR_ENOMEM, "out of memory for what is to be deleted");
}

enum taken { TAKEN_NOT_THERE, TAKEN_OURS, TAKEN_BUSY };

/* Locks the row of a flow until the transaction ends. */
static int flow_take(struct flow_deletion *d, pr_slice id, enum taken *ret, int *ret_state)
{
    struct rows rows;
    int64_t one;
    *ret = TAKEN_NOT_THERE;
    int rc = sql_run(d->sql, SQL_flow_lock, NO_BOX, VALUES(V_TEXT(id)), &rows);
    if (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        d->list = list_room(d->arena, d->list, d->count, &d->room, sizeof(d->list[0]));
        struct doomed flow = { .id = slice_dup(d->arena, id), .tasks = row_number(&rows, 1) };
        /* nothing is found by the key of a damaged one */
        if (row_text(&rows, 0).size > 0)
            (void)id_from_stored(row_text(&rows, 0), &flow.execution);
        *ret_state = (int)row_number(&rows, 2);
        *ret = TAKEN_OURS;
        if (d->list == NULL || flow.id.data == NULL)
            rc = no_memory(d->sql);
        else
            d->list[d->count++] = flow;
    }
    rows_end(&rows);
    if (rc < 0 || *ret == TAKEN_OURS)
        return rc < 0 ? rc : PR_OK;
    rc = sql_number(d->sql, SQL_flow_is_there, NO_BOX, VALUES(V_TEXT(id)), &one);
    *ret = rc == PR_OK ? TAKEN_BUSY : TAKEN_NOT_THERE;
    return rc < 0 ? rc : PR_OK;
}

/* Locks the children of the flow at this place. */
static int children_take(struct flow_deletion *d, size_t parent, bool *ret_busy)
{
    pr_slice *children = NULL;
    size_t count = 0, room = 0;
    struct rows rows;
    int rc = sql_run(d->sql, SQL_flow_children, NO_BOX, VALUES(V_TEXT(d->list[parent].id)), &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        children = list_room(d->arena, children, count, &room, sizeof(children[0]));
        if (children == NULL || (children[count] = slice_dup(d->arena, row_text(&rows, 0))).data == NULL)
            rc = no_memory(d->sql);
        else
            rc = PR_OK;
        count++;
    }
    rows_end(&rows);
    for (size_t i = 0; i < count && rc >= PR_OK && !*ret_busy; i++) {
        enum taken taken;
        int state;
        bool known = false; /* a flow that is its own ancestor would never end */
        for (size_t k = 0; k < d->count && !known; k++)
            known = slice_eq(d->list[k].id, children[i]);
        if (known)
            continue;
        rc = flow_take(d, children[i], &taken, &state);
        *ret_busy = taken == TAKEN_BUSY;
    }
    return rc < 0 ? rc : PR_OK;
}

static pr_slice box_or(pr_slice box, const char *usual)
{
    return box.size > 0 ? box : slice_from(usual);
}

/* Its activities, and children that have not begun, found by the ids that they must have. */
static int tasks_delete(struct flow_deletion *d, const struct doomed *flow)
{
    pr_slice box = box_or(d->order->activities, "activities"), turns = box_or(d->order->turns, "turns");
    pr_id *ids = arena_alloc_array(d->arena, TASKS_AT_ONCE, sizeof(ids[0]));
    int rc = ids != NULL ? PR_OK : no_memory(d->sql);
    for (int64_t number = 1; number <= flow->tasks && rc == PR_OK;) {
        size_t count = 0;
        for (; count < TASKS_AT_ONCE && number <= flow->tasks; number++)
            ids[count++] = flow_task_id(flow->execution, number);
        rc = sql_do(d->sql, SQL_flow_delete_tasks, box, VALUES(V_IDS(ids, count)));
        if (rc == PR_OK)
            rc = sql_do(d->sql, SQL_flow_delete_starts, turns, VALUES(V_IDS(ids, count), V_TEXT(flow->id)));
    }
    return rc;
}

/* ---- Activities that a person ends -------------------------------------------------------------------- */

pr_slice flow_order_turns(const struct admin *admin)
{
    return box_or(admin->turns, "turns");
}

/* Only a flow gives its message this id. */
static bool is_activity(const struct pr_message *m, struct arena *arena)
{
    struct activity_message a;
    struct pr_error ignored;
    return m->headers.size > 0 && activity_message_read(m, arena, &a, &ignored) == PR_OK &&
           pr_id_equal(m->id, flow_task_id(a.execution, a.task));
}

int flow_order_result(const struct admin *admin, const struct pr_message *m, struct arena *arena,
                      struct pr_message *ret)
{
    const struct activity_dead dead = { .end = admin->kind == ADMIN_DISCARD ? ACTIVITY_DISCARDED : ACTIVITY_BURIED,
                                        .by = admin->by,
                                        .why = utf8_cut(admin->why, PR_ERROR_MAX) };
    struct pr_message made;
    struct pr_error ignored;
    bool by_hand = admin->kind == ADMIN_DISCARD || (admin->kind == ADMIN_DEAD_ADD && admin->verdict == NULL);
    if (!by_hand || !is_activity(m, arena))
        return PR_UNKNOWN;
    if (flow_on_activity_dead(m, &dead, arena, &made, &ignored) != PR_OK)
        return PR_ENOMEM;
    char *block = arena_alloc(arena, message_bytes(&made)); /* some of its texts are m's */
    if (block == NULL)
        return PR_ENOMEM;
    message_copy(&made, block, ret);
    return PR_OK;
}

/* ---- Dead letters that are replayed ---------------------------------------------------------------------- */

static int read_flow(struct sql *sql, pr_slice id, struct arena *arena, struct query_reply *ret)
{
    const struct query query = { .kind = QUERY_FLOW, .flow = { .id = id } };
    struct question q = { .sql = sql, .arena = arena, .query = &query, .reply = ret };
    *ret = (struct query_reply){ 0 };
    int rc = question_flow(&q);
    return rc == PR_OK && q.lacks_memory ? PR_ENOMEM : rc;
}

/* Would the flow request this task again if it continued from before its failure? */
static int asks_again(const struct query_reply *flow, int64_t task, struct arena *arena, bool *ret)
{
    struct flow_history h;
    struct pr_error ignored;
    int rc = PR_OK;
    *ret = false;
    flow_history_init(&h, flow->flows[0].execution);
    for (size_t i = 0; i < flow->turn_count && rc == PR_OK; i++)
        rc = flow_history_decode(&h, flow->turns[i].events, &ignored);
    struct flow_event *kept = rc == PR_OK ? arena_alloc_array(arena, h.count, sizeof(*kept)) : NULL;
    if (kept != NULL) {
        size_t count = flow_history_rewind(&h, kept);
        for (size_t i = 0; i < count; i++)
            if (kept[i].task == task)
                *ret = kept[i].kind == FLOW_EVENT_ACTIVITY;
    } else if (rc == PR_OK) {
        rc = PR_ENOMEM;
    }
    flow_history_fini(&h);
    return rc == PR_ENOMEM ? rc : PR_OK; /* a damaged history requests nothing */
}

/* The message that makes the flow continue, and behind it the message that it had not taken yet. */
static int resume_with(const struct flow_row *row, const struct pr_message *taken, struct arena *arena,
                       struct flow_letter *ret)
{
    const struct turn_message start = { .kind = TURN_START,
                                        .flow = row->id,
                                        .name = row->name,
                                        .version = row->version,
                                        .data = row->input,
                                        .resume = true };
    int rc = turn_message_make(&start, flow_resume_id(row->execution), arena, &ret->messages[0]);
    ret->kind = FLOW_LETTER_RESUMES;
    ret->count = 1;
    if (rc != PR_OK || taken == NULL)
        return rc;
    char *block = arena_alloc(arena, message_bytes(taken));
    if (block == NULL)
        return PR_ENOMEM;
    struct pr_message *copy = &ret->messages[ret->count++];
    message_copy(taken, block, copy);
    *copy = (struct pr_message){ .id = copy->id,
                                 .type = copy->type,
                                 .stream = copy->stream,
                                 .headers = copy->headers,
                                 .payload = copy->payload,
                                 .content_type = copy->content_type };
    return PR_OK;
}

static int activity_letter(struct sql *sql, const struct activity_message *a, struct arena *arena,
                           struct flow_letter *ret)
{
    struct query_reply flow;
    bool again = false;
    int rc = read_flow(sql, a->flow, arena, &flow);
    ret->kind = FLOW_LETTER_LATE;
    if (rc == PR_OK && flow.flow_count > 0 && flow.flows[0].state == FLOW_FAILED &&
        pr_id_equal(flow.flows[0].execution, a->execution))
        rc = asks_again(&flow, a->task, arena, &again);
    return rc == PR_OK && again ? resume_with(&flow.flows[0], NULL, arena, ret) : rc;
}

/* Results and timers belong to the execution that failed: the next execution starts its own. */
static int turn_letter(struct sql *sql, const struct pr_message *m, const struct turn_message *t, struct arena *arena,
                       struct flow_letter *ret)
{
    struct query_reply flow;
    bool taken = t->kind == TURN_EVENT || t->kind == TURN_MAIL || t->kind == TURN_CANCEL;
    int rc = read_flow(sql, m->stream, arena, &flow);
    if (rc != PR_OK || flow.flow_count == 0 || !flow_has_ended(&flow.flows[0]))
        return rc;
    ret->kind = FLOW_LETTER_LATE;
    return flow.flows[0].state == FLOW_FAILED ? resume_with(&flow.flows[0], taken ? m : NULL, arena, ret) : rc;
}

int flow_order_letter(struct sql *sql, const struct admin *admin, pr_slice box, const struct pr_message *m,
                      struct arena *arena, struct flow_letter *ret)
{
    struct activity_message a;
    struct turn_message t;
    struct pr_error ignored;
    int rc = PR_OK;
    *ret = (struct flow_letter){ .kind = FLOW_LETTER_PLAIN };
    if (slice_eq(box, flow_order_turns(admin)) && turn_message_read(m, arena, &t, &ignored) == PR_OK)
        rc = turn_letter(sql, m, &t, arena, ret);
    else if (is_activity(m, arena) && activity_message_read(m, arena, &a, &ignored) == PR_OK)
        rc = activity_letter(sql, &a, arena, ret);
    return rc == PR_ENOMEM ? no_memory(sql) : rc;
}

/* ---- Flows that go -------------------------------------------------------------------------------------- */

static int flow_delete(struct flow_deletion *d, const struct doomed *flow)
{
    static const enum sql_statement rest[] = { SQL_flow_delete_history, SQL_flow_delete_executions,
                                               SQL_flow_delete_values, SQL_flow_delete_mail, SQL_flow_delete_row };
    int rc = tasks_delete(d, flow);
    if (rc == PR_OK)
        rc = sql_do(d->sql, SQL_flow_delete_messages, box_or(d->order->turns, "turns"), VALUES(V_TEXT(flow->id)));
    for (size_t i = 0; i < ARRAY_LENGTH(rest) && rc == PR_OK; i++)
        rc = sql_do(d->sql, rest[i], NO_BOX, VALUES(V_TEXT(flow->id)));
    return rc;
}

static int flow_delete_tree(struct flow_deletion *d, pr_slice id, bool dry_run)
{
    enum taken taken;
    int state = 0;
    bool busy = false;
    size_t first = d->count;
    int rc = flow_take(d, id, &taken, &state);
    if (rc != PR_OK)
        return rc;
    d->reply->missing += taken == TAKEN_NOT_THERE;
    d->reply->matched += taken != TAKEN_NOT_THERE;
    busy = taken == TAKEN_BUSY;
    bool refused = taken == TAKEN_OURS && state == FLOW_RUNNING && !d->order->force;
    for (size_t i = first; i < d->count && rc == PR_OK && !refused && !busy; i++)
        rc = children_take(d, i, &busy);
    d->reply->busy += busy;
    d->reply->refused += busy || refused;
    bool goes = taken == TAKEN_OURS && !refused && !busy;
    for (size_t i = first; i < d->count && goes && rc == PR_OK; i++) {
        d->reply->changed++;
        rc = dry_run ? PR_OK : flow_delete(d, &d->list[i]);
    }
    return rc;
}

static int flows_delete(struct flow_deletion *d, bool dry_run)
{
    int rc = PR_OK;
    for (size_t i = 0; i < d->order->flow_count && rc == PR_OK; i++) {
        bool gone = false; /* deleted with its parent, which was named before */
        for (size_t k = 0; k < d->count && !gone; k++)
            gone = slice_eq(d->list[k].id, d->order->flows[i]);
        rc = gone ? PR_OK : flow_delete_tree(d, d->order->flows[i], dry_run);
    }
    return rc;
}

/* ---- Pruning ---------------------------------------------------------------------------------------- */

/* Executions of one flow, or of all ('').  *ret_count: how many were found. */
static int prune_some(struct flow_deletion *d, pr_slice flow, bool dry_run, size_t *ret_count)
{
    pr_slice *executions = arena_alloc_array(d->arena, PRUNE_AT_ONCE, sizeof(executions[0]));
    struct rows rows;
    *ret_count = 0;
    if (executions == NULL)
        return no_memory(d->sql);
    int rc = sql_run(d->sql, SQL_flow_prune_find, NO_BOX,
                     VALUES(V_TEXT(flow), V_INT(d->order->keep >= 0 ? d->order->keep : INT64_MAX),
                            V_TIME(max64(d->order->before_us, 1)), V_INT(dry_run ? INT64_MAX : PRUNE_AT_ONCE)),
                     &rows);
    while (rc == PR_OK && (rc = rows_step(&rows)) > 0) {
        size_t at = (*ret_count)++;
        rc = PR_OK;
        if (!dry_run && (executions[at] = slice_dup(d->arena, row_text(&rows, 0))).data == NULL)
            rc = no_memory(d->sql);
    }
    rows_end(&rows);
    if (rc < 0)
        return rc;
    d->reply->matched += *ret_count;
    d->reply->changed += *ret_count;
    rc = PR_OK;
    if (*ret_count > 0 && !dry_run)
        rc = sql_do(d->sql, SQL_flow_prune_history, NO_BOX, VALUES(V_TEXTS(executions, *ret_count)));
    if (*ret_count > 0 && !dry_run && rc == PR_OK)
        rc = sql_do(d->sql, SQL_flow_prune_executions, NO_BOX, VALUES(V_TEXTS(executions, *ret_count)));
    return rc;
}

static int flows_prune(struct flow_deletion *d, bool dry_run)
{
    const pr_slice all = { "", 0 };
    size_t flows = d->order->flow_count > 0 ? d->order->flow_count : 1, found;
    int rc = PR_OK;
    for (size_t i = 0; i < flows && rc == PR_OK; i++)
        do
            rc = prune_some(d, d->order->flow_count > 0 ? d->order->flows[i] : all, dry_run, &found);
        while (rc == PR_OK && !dry_run && found == PRUNE_AT_ONCE);
    return rc;
}

int flow_order_run(struct sql *sql, const struct admin *admin, struct arena *arena, struct admin_reply *reply)
{
    struct flow_deletion d = { .sql = sql, .order = admin->flow, .reply = reply, .arena = arena };
    return admin->kind == ADMIN_FLOW_DELETE ? flows_delete(&d, admin->dry_run) : flows_prune(&d, admin->dry_run);
}
