#include "ops/flow/flow_tell.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/id.h"
#include "flow/flow_id.h"
#include "runtime/flow/watch.h"

#define TASKS_AT_ONCE 1000 /* ids in one query */
#define WAIT_MIN_US                                                                                                    \
    PR_MILLISECONDS(5) /* pause between looks at a flow that may run elsewhere; half as long again each time ... */
#define WAIT_MAX_US PR_MILLISECONDS(500) /* ... up to this */

pr_slice flow_box(const struct config *config, enum box_kind kind)
{
    for (size_t i = 0; i < config->box_count; i++)
        if (config->boxes[i].kind == kind)
            return slice_from(config->boxes[i].name);
    return kind == BOX_TURNS ? PR_STR("turns") : PR_STR("activities");
}

int flow_state_parse(pr_slice name)
{
    for (int state = FLOW_RUNNING; state <= FLOW_CONTINUED; state++)
        if (slice_eq_cstr(name, flow_state_name(state)))
            return state;
    return 0;
}

int flow_read_row(struct store *store, pr_slice flow, struct arena *arena, const struct flow_row **ret,
                  struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_FLOW, .flow = { .id = flow }, .brief = true, .filter.state = -1 };
    struct query_reply reply;
    int rc = store_query(store, &query, arena, &reply, reterr);
    *ret = rc == PR_OK && reply.flow_count > 0 ? &reply.flows[0] : NULL;
    return rc;
}

/* ---- Starts and signals ------------------------------------------------------------------------------------------ */

static int check_text(const char *what, pr_slice text, struct pr_error *reterr)
{
    if (text.size == 0)
        return error_set(reterr, PR_EINVAL, "%s is empty", what);
    if (text.size > PR_NAME_MAX)
        return error_set(reterr, PR_EINVAL, "%s has %zu bytes; at most %d are allowed", what, text.size, PR_NAME_MAX);
    if (!utf8_valid(text))
        return error_set(reterr, PR_EINVAL, "%s is not valid UTF-8", what);
    return PR_OK;
}

static int check(const struct turn_message *message, struct pr_error *reterr)
{
    int rc = check_text("the flow id", message->flow, reterr);
    if (rc == PR_OK && message->kind != TURN_CANCEL)
        rc = check_text(message->kind == TURN_START   ? "the name of the flow"
                        : message->kind == TURN_EVENT ? "the name of the event"
                                                      : "the name of the mailbox",
                        message->name, reterr);
    return rc;
}

static int store_message(const struct flow_teller *t, const struct turn_message *message, pr_id id,
                         struct flow_tell_result *ret, struct pr_error *reterr)
{
    struct pr_message m;
    int answer = PR_OK;
    int rc = check(message, reterr);
    if (rc != PR_OK)
        return rc;
    if (turn_message_make(message, id, t->arena, &m) != PR_OK)
        return error_set(reterr, PR_ENOMEM, "out of memory for a message to a flow");
    m.due_us = message->due_us;
    rc = store_enqueue(t->store, flow_box(t->config, BOX_TURNS), &m, 1, (size_t)t->config->payload_max, &ret->message,
                       &answer, reterr);
    ret->duplicate = answer == PR_DUPLICATE;
    return rc < 0 ? rc : PR_OK;
}

/* Would this start do nothing, since the flow exists? */
static int start_is_needless(const struct flow_teller *t, const struct turn_message *start, bool *ret,
                             struct pr_error *reterr)
{
    const struct flow_row *row;
    int rc = flow_read_row(t->store, start->flow, t->arena, &row, reterr);
    *ret = row != NULL && !(start->restart && flow_has_ended(row)) && !(start->resume && row->state == FLOW_FAILED);
    return rc;
}

int flow_tell(const struct flow_teller *t, const struct turn_message *message, pr_id id, struct flow_tell_result *ret,
              struct pr_error *reterr)
{
    struct turn_message m = *message;
    bool starts = m.kind == TURN_START, needless = false;
    char made[PR_ID_TEXT_SIZE];
    int rc = PR_OK;

    *ret = (struct flow_tell_result){ 0 };
    if (pr_id_is_zero(id))
        pr_id_new(&id);
    if (starts && m.flow.size == 0) {
        pr_id_format(id, made);
        m.flow = slice_dup(t->arena, slice_from(made));
        if (m.flow.data == NULL)
            return error_set(reterr, PR_ENOMEM, "out of memory for the id of a flow");
    } else if (starts) {
        rc = start_is_needless(t, &m, &needless, reterr);
    }
    /* two starts collide; but a restart must not collide with the start that it replaces */
    if (starts && !m.restart && !m.resume)
        id = flow_start_id(m.flow);
    ret->flow = m.flow;
    ret->duplicate = needless;
    return rc != PR_OK || needless ? rc : store_message(t, &m, id, ret, reterr);
}

/* Records in the audit what was done to one flow without the store's own orders. */
static int record(const struct flow_teller *t, enum admin_kind kind, pr_slice flow, struct pr_error *reterr)
{
    const struct admin_reply outcome = { .matched = 1, .changed = 1 };
    const struct flow_order order = { .flows = &flow, .flow_count = 1 };
    const struct admin admin = {
        .kind = kind, .filter.state = -1, .by = t->by, .why = t->why, .flow = &order, .outcome = &outcome
    };
    struct admin_reply reply;
    return store_admin(t->store, &admin, &reply, reterr);
}

/* Does a start of the flow, or another message for it, wait in the box? */
static int is_expected(const struct flow_teller *t, pr_slice flow, bool *ret, struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_MESSAGES,
                                 .brief = true,
                                 .filter = {
                                     .box = flow_box(t->config, BOX_TURNS), .stream = flow, .state = -1, .limit = 1 } };
    struct query_reply reply;
    int rc = store_query(t->store, &query, t->arena, &reply, reterr);
    *ret = rc == PR_OK && reply.listed_count > 0;
    return rc;
}

int flow_cancel(const struct flow_teller *t, pr_slice flow, struct pr_error *reterr)
{
    const struct turn_message cancel = { .kind = TURN_CANCEL, .flow = flow, .data = t->why };
    const struct flow_row *row;
    struct flow_tell_result result;
    bool expected = false;
    int rc = flow_read_row(t->store, flow, t->arena, &row, reterr);
    if (rc == PR_OK && row == NULL)
        rc = is_expected(t, flow, &expected, reterr);
    if (rc != PR_OK)
        return rc;
    if (row == NULL && !expected)
        return PR_UNKNOWN;
    if (row != NULL && flow_has_ended(row))
        return PR_STALE;
    rc = record(t, ADMIN_FLOW_CANCEL, flow, reterr); /* first: nothing is done without a record */
    return rc == PR_OK ? flow_tell(t, &cancel, (pr_id){ { 0 } }, &result, reterr) : rc;
}

/* Continues a flow that has ended, from the beginning or from before its failure. */
static int begin_again(const struct flow_teller *t, const struct flow_row *row, pr_slice version, enum admin_kind kind,
                       struct pr_error *reterr)
{
    bool resumes = kind == ADMIN_FLOW_RESUME;
    const struct turn_message start = { .kind = TURN_START,
                                        .flow = row->id,
                                        .name = row->name,
                                        .version = version.size > 0 ? version : row->version,
                                        .data = row->input,
                                        .restart = !resumes,
                                        .resume = resumes };
    struct flow_tell_result result;
    int rc = record(t, kind, row->id, reterr);
    return rc == PR_OK
               ? flow_tell(t, &start, resumes ? flow_resume_id(row->execution) : (pr_id){ { 0 } }, &result, reterr)
               : rc;
}

int flow_restart(const struct flow_teller *t, pr_slice flow, pr_slice version, struct pr_error *reterr)
{
    const struct flow_row *row;
    int rc = flow_read_row(t->store, flow, t->arena, &row, reterr);
    if (rc != PR_OK)
        return rc;
    if (row == NULL)
        return PR_UNKNOWN;
    return flow_has_ended(row) ? begin_again(t, row, version, ADMIN_FLOW_RESTART, reterr) : PR_STALE;
}

/* ---- Retrying ------------------------------------------------------------------------------------------ */

/* An order for everything that the query finds, by ids. */
static int order_found(const struct flow_teller *t, const struct query *query, enum admin_kind kind, bool dry_run,
                       uint64_t *sum, struct pr_error *reterr)
{
    struct query_reply found;
    int rc = store_query(t->store, query, t->arena, &found, reterr);
    if (rc != PR_OK || found.listed_count == 0)
        return rc;
    pr_id *ids = arena_alloc_array(t->arena, found.listed_count, sizeof *ids);
    if (ids == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu ids", found.listed_count);
    for (size_t i = 0; i < found.listed_count; i++)
        ids[i] = found.listed[i].m.id;
    const struct admin admin = { .kind = kind,
                                 .filter = { .state = -1, .ids = ids, .id_count = found.listed_count },
                                 .by = t->by,
                                 .why = t->why,
                                 .turns = flow_box(t->config, BOX_TURNS),
                                 .dry_run = dry_run };
    struct admin_reply reply = { 0 };
    rc = store_admin(t->store, &admin, &reply, reterr);
    *sum += reply.changed;
    return rc;
}

/* Dead messages, and those that wait for their next try, among the messages that the filter finds. */
static int retry_found(const struct flow_teller *t, const struct filter *filter, bool dry_run, struct flow_retried *sum,
                       struct pr_error *reterr)
{
    struct query query = { .kind = QUERY_DEAD, .brief = true, .filter = *filter };
    query.filter.limit = TASKS_AT_ONCE;
    int rc = order_found(t, &query, ADMIN_DEAD_REPLAY, dry_run, &sum->replayed, reterr);
    query.kind = QUERY_MESSAGES;
    query.filter.state = STATE_RETRYING;
    return rc == PR_OK ? order_found(t, &query, ADMIN_RETRY, dry_run, &sum->hastened, reterr) : rc;
}

int flow_retry(const struct flow_teller *t, pr_slice flow, bool dry_run, struct flow_retried *ret,
               struct pr_error *reterr)
{
    struct filter turns = { .box = flow_box(t->config, BOX_TURNS), .stream = flow, .state = -1 };
    struct filter tasks = { .box = flow_box(t->config, BOX_ACTIVITIES), .state = -1 };
    const struct flow_row *row;
    pr_id *ids = arena_alloc_array(t->arena, TASKS_AT_ONCE, sizeof *ids);
    *ret = (struct flow_retried){ 0 };
    if (ids == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the tasks of a flow");
    int rc = flow_read_row(t->store, flow, t->arena, &row, reterr);
    if (rc == PR_OK)
        rc = retry_found(t, &turns, dry_run, ret, reterr);
    for (int64_t first = 1; rc == PR_OK && row != NULL && first <= row->tasks; first += TASKS_AT_ONCE) {
        tasks.ids = ids;
        for (tasks.id_count = 0; tasks.id_count < TASKS_AT_ONCE && first + (int64_t)tasks.id_count <= row->tasks;
             tasks.id_count++)
            ids[tasks.id_count] = flow_task_id(row->execution, first + (int64_t)tasks.id_count);
        rc = retry_found(t, &tasks, dry_run, ret, reterr);
    }
    if (rc == PR_OK && row == NULL && ret->replayed + ret->hastened == 0)
        return PR_UNKNOWN;
    if (rc != PR_OK || row == NULL || !flow_has_ended(row))
        return rc;
    ret->resumed = row->state == FLOW_FAILED; /* through its dead letters, or without any by itself */
    if (ret->resumed && ret->replayed == 0 && !dry_run)
        rc = begin_again(t, row, (pr_slice){ NULL, 0 }, ADMIN_FLOW_RESUME, reterr);
    return rc == PR_OK && !ret->resumed && ret->replayed + ret->hastened == 0 ? PR_STALE : rc;
}

/* ---- Waiting ------------------------------------------------------------------------------------------- */

static bool is_over(const struct flow_row *row, int64_t after_number)
{
    return flow_has_ended(row) || (after_number >= 0 && row->status_number > after_number);
}

int flow_wait_for(const struct flow_waiter *w, const struct flow_row **ret, struct pr_error *reterr)
{
    const int64_t until_us = time_add(clock_mono_us(clock_system()), max64(w->timeout_us, 0));
    int64_t pause_us = WAIT_MIN_US;
    struct flow_watch watch;
    int rc;

    flow_watch_begin(&watch, w->flow, w->after_number);
    for (;;) {
        arena_reset(w->arena);
        rc = w->look(w->arg, w->arena, ret, reterr);
        if (rc != PR_OK || (*ret != NULL && is_over(*ret, w->after_number)))
            break;
        int64_t left_us = time_sub(until_us, clock_mono_us(clock_system()));
        if (left_us <= 0 || (w->is_gone != NULL && w->is_gone(w->arg))) {
            rc = *ret == NULL ? PR_UNKNOWN : PR_TIMEOUT;
            break;
        }
        bool moved = flow_watch_wait(&watch, min64(pause_us, left_us));
        if (moved || atomic_load(&watch.is_here))
            pause_us = WAIT_MAX_US; /* its turns run in this process, which will wake the waiter */
        else
            pause_us = min64(pause_us + pause_us / 2, WAIT_MAX_US);
    }
    flow_watch_end(&watch);
    return rc;
}
