/* How a flow function waits: for one task, for all, for any; and cancelling tasks. */
#include <postrider_flow.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "flow/machine.h"

/* Does this wait report that the flow is cancelled?  Only once: the first wait that nothing has satisfied before the
 * cancel came.  Tasks that ended before that count as before, so that a wait gives the same answer whatever came
 * later. */
static bool reports_cancel(pr_flow *f, uint32_t satisfied_at)
{
    if (!f->cancel_pending || f->cancel_seen || satisfied_at < f->cancel_at)
        return false;
    f->cancel_seen = true;
    return true;
}

/* Finds a task that can be waited for, or returns a fault. */
static int check_task(pr_flow *f, pr_task task, struct live_task **ret)
{
    if (f->inert)
        return PR_SUSPEND;
    if (task.number < 0)
        return (int)task.number;
    *ret = machine_task(f, task.number);
    if (*ret == NULL || (*ret)->kind == FLOW_EVENT_DETACHED)
        return machine_fault(f, PR_EINVAL, "the flow has no task %lld", (long long)task.number);
    return PR_OK;
}

static int wait_one(pr_flow *f, pr_task task, struct live_task **ret)
{
    int rc = check_task(f, task, ret);
    while (rc == PR_OK) {
        const struct live_task *t = *ret;
        if (t->state == FLOW_TASK_CANCELLED)
            break;
        if (reports_cancel(f, t->state == FLOW_TASK_ENDED ? t->ended : UINT32_MAX))
            return PR_ECANCELLED;
        if (t->state == FLOW_TASK_ENDED) {
            (*ret)->known = true;
            break;
        }
        rc = machine_next_fact(f);
    }
    return rc;
}

PR_API int pr_all(pr_flow *f, size_t count, const pr_task *tasks)
{
    struct live_task *t;
    int rc = f->inert ? PR_SUSPEND : PR_OK;
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        rc = wait_one(f, tasks[i], &t);
    return rc;
}

/* The index of the task that ended first; SIZE_MAX: none has.  *ret_open: at least one of them can still end. */
static size_t find_winner(pr_flow *f, size_t count, const pr_task *tasks, bool *ret_open)
{
    size_t winner = SIZE_MAX;
    uint32_t earliest = UINT32_MAX;
    *ret_open = false;
    for (size_t i = 0; i < count; i++) {
        struct live_task *t = machine_task(f, tasks[i].number);
        *ret_open = *ret_open || t->state == FLOW_TASK_OPEN;
        t->wanted = f->waits;
        if (t->state == FLOW_TASK_ENDED && t->ended < earliest) {
            earliest = t->ended;
            winner = i;
        }
    }
    return winner;
}

PR_API int pr_any(pr_flow *f, size_t count, const pr_task *tasks)
{
    struct live_task *t;
    bool open = false;
    int rc = f->inert ? PR_SUSPEND : PR_OK;
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        rc = check_task(f, tasks[i], &t);
    if (rc != PR_OK)
        return rc;
    f->waits++;
    size_t winner = find_winner(f, count, tasks, &open);
    if (winner == SIZE_MAX && !open)
        return machine_fault(f, PR_EINVAL, "pr_any() has nothing to wait for: no task, or all of them are cancelled");
    while (winner == SIZE_MAX) {
        if (reports_cancel(f, UINT32_MAX))
            return PR_ECANCELLED;
        rc = machine_next_fact(f);
        if (rc != PR_OK)
            return rc;
        if (f->last_ended != 0 && f->tasks[f->last_ended - 1].wanted == f->waits)
            winner = find_winner(f, count, tasks, &open);
    }
    t = machine_task(f, tasks[winner].number);
    if (reports_cancel(f, t->ended))
        return PR_ECANCELLED;
    t->known = true;
    return winner <= INT32_MAX ? (int)winner : PR_ETOOBIG;
}

static int give_failure(pr_flow *f, const struct flow_event *e, struct pr_error *reterr)
{
    if (flow_error_read(e->data, f->arena, &f->last_seen) != PR_OK) {
        machine_no_memory(f);
        return PR_SUSPEND;
    }
    if (flow_category_is_final(f->last_seen.category)) {
        machine_fail(f, &f->last_seen);
        return PR_SUSPEND;
    }
    return error_set(reterr, PR_FAILED, "%.*s", (int)min_size(f->last_seen.message.size, PR_ERROR_TEXT_SIZE),
                     f->last_seen.message.data);
}

PR_API int pr_result(pr_flow *f, pr_task task, pr_slice *ret_output, struct pr_error *reterr)
{
    struct live_task *t = NULL;
    int rc = wait_one(f, task, &t);
    if (ret_output != NULL)
        *ret_output = (pr_slice){ "", 0 };
    if (rc != PR_OK) {
        if (rc != PR_SUSPEND && rc != PR_ECANCELLED)
            error_set(reterr, rc, "%s", f->fault.text);
        return rc;
    }
    if (t->state == FLOW_TASK_CANCELLED) {
        f->last_seen =
            (struct flow_error){ .category = PR_CATEGORY_APPLICATION, .message = PR_STR("the task was cancelled") };
        return error_set(reterr, PR_FAILED, "the task was cancelled");
    }
    t->seen = true;
    const struct flow_event *e = machine_event(f, t->ended);
    if (e->failed)
        return give_failure(f, e, reterr);
    if (ret_output != NULL)
        *ret_output = e->data;
    return PR_OK;
}

PR_API int pr_task_error(const pr_flow *f, pr_task task, struct pr_task_error *ret_error)
{
    const struct live_task *t =
        task.number >= 1 && (uint64_t)task.number <= f->task_count ? &f->tasks[task.number - 1] : NULL;
    if (t == NULL || !t->seen || t->state != FLOW_TASK_ENDED || !machine_event(f, t->ended)->failed)
        return PR_UNKNOWN;
    struct flow_error e;
    pr_slice json = machine_event(f, t->ended)->data;
    if (flow_error_read(json, f->arena, &e) != PR_OK)
        return PR_ENOMEM;
    *ret_error =
        (struct pr_task_error){ .category = e.category, .retryable = e.retryable, .message = e.message, .json = json };
    return PR_OK;
}

void machine_cancel(pr_flow *f, int32_t task)
{
    struct live_task *t = &f->tasks[task - 1];
    bool ended = t->state == FLOW_TASK_ENDED;
    if (t->state == FLOW_TASK_CANCELLED || (ended && t->known))
        return;
    t->state = FLOW_TASK_CANCELLED;
    if (!ended)
        f->open_count--;
    else if (t->kind == FLOW_EVENT_WAIT || t->kind == FLOW_EVENT_WAIT_MAIL)
        mailbox_give_back(f, task);
}

PR_API void pr_cancel(pr_flow *f, pr_task task)
{
    struct flow_event wanted = { .kind = FLOW_EVENT_CANCEL_TASK, .task = (int32_t)task.number };
    struct live_task *t = NULL;
    if (check_task(f, task, &t) != PR_OK || machine_command(f, &wanted) == NULL)
        return;
    machine_cancel(f, (int32_t)task.number);
}
