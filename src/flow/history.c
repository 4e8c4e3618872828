#include "flow/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "flow/history_line.h"

#define HISTORY_BLOCK 1024 /* many histories are short, and many are kept */

static const char *const kind_names[FLOW_EVENT_KINDS] = {
    [FLOW_EVENT_NONE] = "none",
    [FLOW_EVENT_STARTED] = "started",
    [FLOW_EVENT_RESULT] = "result",
    [FLOW_EVENT_CHILD_END] = "child_end",
    [FLOW_EVENT_FIRED] = "fired",
    [FLOW_EVENT_EVENT] = "event",
    [FLOW_EVENT_MAIL] = "mail",
    [FLOW_EVENT_CANCEL] = "cancel",
    [FLOW_EVENT_ACTIVITY] = "activity",
    [FLOW_EVENT_TIMER] = "timer",
    [FLOW_EVENT_WAIT] = "wait",
    [FLOW_EVENT_WAIT_MAIL] = "wait_mail",
    [FLOW_EVENT_CHILD] = "child",
    [FLOW_EVENT_DETACHED] = "detached",
    [FLOW_EVENT_CANCEL_TASK] = "cancel_task",
    [FLOW_EVENT_NOW] = "now",
    [FLOW_EVENT_UUID] = "uuid",
    [FLOW_EVENT_RANDOM] = "random",
    [FLOW_EVENT_COMPLETED] = "completed",
    [FLOW_EVENT_FAILED] = "failed",
    [FLOW_EVENT_CANCELLED] = "cancelled",
    [FLOW_EVENT_CONTINUED] = "continued",
};

const char *flow_event_kind_name(int kind)
{
    return kind >= 0 && kind < FLOW_EVENT_KINDS ? kind_names[kind] : "unknown";
}

void flow_history_init(struct flow_history *h, pr_id execution)
{
    *h = (struct flow_history){ .execution = execution };
    arena_init(&h->arena, HISTORY_BLOCK);
}

void flow_history_fini(struct flow_history *h)
{
    free(h->events);
    free(h->tasks);
    arena_fini(&h->arena);
    *h = (struct flow_history){ .count = 0 };
}

size_t flow_history_bytes(const struct flow_history *h)
{
    return sizeof(*h) + h->capacity * sizeof(h->events[0]) + h->task_capacity * sizeof(h->tasks[0]) +
           arena_reserved(&h->arena);
}

/* ---- What may follow what ------------------------------------------------------------------------- */

static int damaged(struct pr_error *reterr, size_t n, const struct flow_event *e, const char *why)
{
    return error_set(reterr, PR_ECORRUPT, "the history is damaged at event %zu (%s): %s", n,
                     flow_event_kind_name(e->kind), why);
}

static uint8_t ended_by(int kind)
{
    switch (kind) {
    case FLOW_EVENT_RESULT: return FLOW_EVENT_ACTIVITY;
    case FLOW_EVENT_CHILD_END: return FLOW_EVENT_CHILD;
    case FLOW_EVENT_FIRED: return FLOW_EVENT_TIMER;
    default: return FLOW_EVENT_NONE;
    }
}

/* NULL, or why the event cannot follow the existing ones. */
static const char *misfit(const struct flow_history *h, const struct flow_event *e)
{
    bool first = h->count == 0;
    if (e->kind == FLOW_EVENT_NONE || e->kind >= FLOW_EVENT_KINDS)
        return "unknown event kind";
    if (first != (e->kind == FLOW_EVENT_STARTED))
        return first ? "a history must begin with started" : "a history has only one start";
    if (!first && flow_event_is_end(&h->events[h->count - 1]))
        return "nothing can follow the end";
    if (flow_event_begins_task(e) || e->kind == FLOW_EVENT_DETACHED)
        return (size_t)e->task == h->task_count + 1 ? NULL : "its task number is out of order";
    uint8_t begun_as = ended_by(e->kind);
    if (begun_as == FLOW_EVENT_NONE && e->kind != FLOW_EVENT_CANCEL_TASK)
        return e->task == 0 ? NULL : "this event cannot have a task";
    if (e->task < 1 || (size_t)e->task > h->task_count)
        return "its task was never started";
    const struct flow_task *task = &h->tasks[e->task - 1];
    if (begun_as == FLOW_EVENT_NONE)
        return NULL;
    if (task->kind != begun_as)
        return "its task is of another kind";
    return task->state == FLOW_TASK_ENDED ? "its task has already ended" : NULL;
}

/* ---- Growing -------------------------------------------------------------------------------------------- */

static int grow(void **array, size_t *capacity, size_t wanted, size_t size)
{
    if (wanted <= *capacity)
        return PR_OK;
    size_t larger = max_size(wanted, *capacity < 16 ? 16 : *capacity * 2);
    void *moved = larger <= SIZE_MAX / size ? realloc(*array, larger * size) : NULL;
    if (moved == NULL)
        return PR_ENOMEM;
    *array = moved;
    *capacity = larger;
    return PR_OK;
}

static void note_task(struct flow_history *h, const struct flow_event *e)
{
    if (flow_event_begins_task(e) || e->kind == FLOW_EVENT_DETACHED)
        h->tasks[h->task_count++] =
            (struct flow_task){ .kind = e->kind,
                                .state = e->kind == FLOW_EVENT_DETACHED ? FLOW_TASK_ENDED : FLOW_TASK_OPEN,
                                .event = (uint32_t)h->count };
    else if (e->task != 0 && h->tasks[e->task - 1].state == FLOW_TASK_OPEN)
        h->tasks[e->task - 1].state = e->kind == FLOW_EVENT_CANCEL_TASK ? FLOW_TASK_CANCELLED : FLOW_TASK_ENDED;
    h->cancelled = h->cancelled || e->kind == FLOW_EVENT_CANCEL;
}

/* The event's slices must belong to the history already. */
static int push(struct flow_history *h, const struct flow_event *e, struct pr_error *reterr)
{
    const char *why = misfit(h, e);
    if (why != NULL)
        return damaged(reterr, h->count + 1, e, why);
    if (h->count >= UINT32_MAX || h->task_count >= INT32_MAX)
        return error_set(reterr, PR_ETOOBIG, "the history has %zu events; continue as new before that", h->count);
    void *events = h->events, *tasks = h->tasks;
    int rc = grow(&events, &h->capacity, h->count + 1, sizeof(h->events[0]));
    h->events = events;
    if (rc == PR_OK)
        rc = grow(&tasks, &h->task_capacity, h->task_count + 1, sizeof(h->tasks[0]));
    h->tasks = tasks;
    if (rc != PR_OK)
        return error_set(reterr, rc, "out of memory for the history of a flow");
    note_task(h, e);
    h->events[h->count++] = *e;
    return PR_OK;
}

static bool copy_slice(struct arena *arena, pr_slice *s)
{
    if (s->size == 0)
        *s = (pr_slice){ "", 0 };
    else
        s->data = arena_dup(arena, s->data, s->size);
    return s->data != NULL;
}

static bool copy_state(struct arena *arena, struct flow_more *m)
{
    struct flow_value *state = arena_alloc_array(arena, m->state_count + 1, sizeof(*state));
    if (state == NULL)
        return false;
    for (size_t i = 0; i < m->state_count; i++) {
        state[i] = m->state[i];
        if (!copy_slice(arena, &state[i].key) || !copy_slice(arena, &state[i].value))
            return false;
    }
    m->state = state;
    return true;
}

static bool copy_event(struct arena *arena, const struct flow_event *e, struct flow_event *ret)
{
    *ret = *e;
    if (!copy_slice(arena, &ret->name) || !copy_slice(arena, &ret->data))
        return false;
    if (e->more == NULL)
        return true;
    struct flow_more *more = arena_dup(arena, e->more, sizeof(*more));
    ret->more = more;
    return more != NULL && copy_slice(arena, &more->id) && copy_slice(arena, &more->version) &&
           copy_slice(arena, &more->tag) && copy_slice(arena, &more->session) && copy_slice(arena, &more->status) &&
           copy_state(arena, more);
}

int flow_history_append(struct flow_history *h, const struct flow_event *events, size_t count, struct pr_error *reterr)
{
    for (size_t i = 0; i < count; i++) {
        struct flow_event copy;
        if (!copy_event(&h->arena, &events[i], &copy))
            return error_set(reterr, PR_ENOMEM, "out of memory for the history of a flow");
        int rc = push(h, &copy, reterr);
        if (rc != PR_OK)
            return rc;
    }
    return PR_OK;
}

/* ---- Going back ------------------------------------------------------------------------------------------ */

/* A command that the rest of the world may have seen; a recorded value is internal to the code. */
static bool is_asked_for(const struct flow_event *e)
{
    return flow_event_is_command(e) && !flow_event_is_end(e) && e->kind != FLOW_EVENT_NOW &&
           e->kind != FLOW_EVENT_UUID && e->kind != FLOW_EVENT_RANDOM;
}

size_t flow_history_rewind(const struct flow_history *h, struct flow_event *ret)
{
    size_t count = 0, tail = h->count;
    bool dropped = false;
    while (tail > 0 && !is_asked_for(&h->events[tail - 1]))
        tail--;
    for (size_t i = 0; i < h->count; i++) {
        const struct flow_event *e = &h->events[i];
        dropped = dropped || (i >= tail && e->failed);
        /* Values that were recorded after a dropped failure belong to what the code did about the failure. */
        if (!flow_event_is_end(e) && !(i >= tail && e->failed) && !(dropped && flow_event_is_command(e)))
            ret[count++] = *e;
    }
    return count;
}

/* ---- Text ------------------------------------------------------------------------------------------------- */

int flow_history_decode(struct flow_history *h, pr_slice lines, struct pr_error *reterr)
{
    while (lines.size > 0) {
        const char *end = memchr(lines.data, '\n', lines.size);
        pr_slice line = { lines.data, end != NULL ? (size_t)(end - lines.data) : lines.size };
        lines.data += line.size + (end != NULL);
        lines.size -= line.size + (end != NULL);

        struct flow_event event;
        int rc = flow_line_read(line, h->count + 1, &h->arena, &event, reterr);
        if (rc == PR_OK)
            rc = push(h, &event, reterr);
        if (rc != PR_OK)
            return rc;
    }
    return PR_OK;
}
