/* What a flow waits for, derived from its history alone. */
#include "flow/flow_id.h"
#include "flow/machine.h"
#include "flow/turn.h"

static struct flow_wait wait_of(pr_id execution, const struct flow_event *e)
{
    struct flow_wait w = { .kind = e->kind, .task = e->task, .name = e->name, .since_us = e->at_us };
    if (e->kind == FLOW_EVENT_TIMER)
        w.due_us = e->value;
    if (e->kind == FLOW_EVENT_CHILD)
        w.child = e->more->id;
    if (e->kind == FLOW_EVENT_ACTIVITY && e->more != NULL)
        w.tag = e->more->tag;
    if (e->kind == FLOW_EVENT_ACTIVITY || e->kind == FLOW_EVENT_TIMER)
        w.id = flow_task_id(execution, e->task);
    return w;
}

static int list_waits(const pr_flow *f, struct arena *arena, const struct flow_wait **ret, size_t *ret_count)
{
    struct flow_wait *waits = arena_alloc_array(arena, f->open_count + 1, sizeof(*waits));
    size_t count = 0;
    if (waits == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < f->task_count; i++) {
        if (f->tasks[i].state == FLOW_TASK_OPEN)
            waits[count++] = wait_of(f->execution, machine_event(f, f->tasks[i].event));
    }
    *ret = waits;
    *ret_count = count;
    return PR_OK;
}

int flow_waits(const struct flow_history *history, struct arena *arena, const struct flow_wait **ret, size_t *ret_count)
{
    pr_flow f = { .execution = history->execution };
    *ret_count = 0;
    if (history->count == 0)
        return PR_OK;
    int rc = machine_init(&f, history, history->count, NULL, 0, arena);
    if (rc == PR_OK)
        machine_follow(&f);
    if (rc == PR_OK && f.out_of_memory)
        rc = PR_ENOMEM;
    if (rc == PR_OK && !flow_event_is_end(&history->events[history->count - 1]))
        rc = list_waits(&f, arena, ret, ret_count);
    machine_fini(&f);
    return rc;
}
