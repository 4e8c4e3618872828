/* Messages become facts of the history, each once. */
#include "flow/turn_steps.h"

#include <inttypes.h>
#include <string.h>

#include "base/slice.h"

static void note_bad(struct turn *t, struct flow_bad_message *bad, size_t index, const char *why)
{
    const struct pr_message *m = t->in->messages[index];
    struct flow_error e = { .kind = FLOW_POISON_UNDECODABLE,
                            .count = m->attempts,
                            .limit = t->in->dead != NULL ? t->in->dead->limit : 0,
                            .flow = t->in->flow };
    if (flow_poison(&e, m, t->arena) != PR_OK) {
        t->out_of_memory = true;
        return;
    }
    *bad = (struct flow_bad_message){ .index = index,
                                      .error = flow_error_encode(&e, t->arena),
                                      .why = slice_dup(t->arena, slice_from(why)) };
    if (bad->error.data == NULL || bad->why.data == NULL)
        t->out_of_memory = true;
}

void turn_read(struct turn *t)
{
    struct pr_error why;
    struct flow_bad_message *bad = arena_alloc_array(t->arena, t->in->count + 1, sizeof(*bad));
    t->messages = arena_alloc_array(t->arena, t->in->count + 1, sizeof(*t->messages));
    if (bad == NULL || t->messages == NULL) {
        t->out_of_memory = true;
        return;
    }
    t->out->bad = bad;
    for (size_t i = 0; i < t->in->count; i++) {
        int rc = turn_message_read(t->in->messages[i], t->arena, &t->messages[t->message_count], &why);
        if (rc == PR_OK)
            t->message_count++;
        else if (rc == PR_EINVAL)
            note_bad(t, &bad[t->out->bad_count++], i, why.text);
        else
            t->out_of_memory = true;
    }
}

/* ---- What happened to tasks ------------------------------------------------------------------------------ */

static void surprise(struct turn *t, const struct turn_message *m, const char *expected)
{
    struct flow_error *e = arena_zalloc(t->arena, sizeof(*e));
    if (e == NULL) {
        t->out_of_memory = true;
        return;
    }
    e->category = PR_CATEGORY_CONFIGURATION;
    e->event = (int64_t)(t->in->history->count + t->fact_count + 1);
    e->expected = arena_printf(t->arena, "%s", expected);
    e->found = arena_printf(t->arena, "%s of task %" PRId64, turn_message_type(m->kind), m->task);
    e->message = arena_printf(t->arena, "nondeterministic: received %.*s, but %s", SLICE_ARGS(e->found), expected);
    if (e->expected.data == NULL || e->found.data == NULL || e->message.data == NULL)
        t->out_of_memory = true;
    if (t->surprise == NULL)
        t->surprise = e;
}

static void task_ends(struct turn *t, const struct turn_message *m)
{
    static const uint8_t begun_as[TURN_KINDS] = {
        [TURN_RESULT] = FLOW_EVENT_ACTIVITY, [TURN_CHILD] = FLOW_EVENT_CHILD, [TURN_TIMER] = FLOW_EVENT_TIMER
    };
    static const uint8_t ends_as[TURN_KINDS] = {
        [TURN_RESULT] = FLOW_EVENT_RESULT, [TURN_CHILD] = FLOW_EVENT_CHILD_END, [TURN_TIMER] = FLOW_EVENT_FIRED
    };
    const struct flow_history *h = t->in->history;
    if (t->first || !pr_id_equal(m->execution, t->in->row->execution))
        return; /* of an earlier execution */
    if ((uint64_t)m->task > h->task_count) {
        surprise(t, m, "the flow has started no such task");
        return;
    }
    const struct flow_task *task = &h->tasks[m->task - 1];
    if (task->kind != begun_as[m->kind]) {
        surprise(t, m, "this task is of another kind");
        return;
    }
    if (task->state != FLOW_TASK_OPEN || t->got[m->task - 1])
        return; /* a duplicate, or too late */
    t->got[m->task - 1] = true;
    t->facts[t->fact_count++] = (struct flow_event){ .kind = ends_as[m->kind],
                                                     .task = (int32_t)m->task,
                                                     .failed = m->failed && m->kind != TURN_TIMER,
                                                     .at_us = t->in->now_us,
                                                     .data = m->kind != TURN_TIMER ? m->data : (pr_slice){ "", 0 } };
}

/* ---- What happened to the flow --------------------------------------------------------------------------------- */

static void add_named(struct turn *t, const struct turn_message *m)
{
    t->facts[t->fact_count++] = (struct flow_event){ .kind = m->kind == TURN_MAIL ? FLOW_EVENT_MAIL : FLOW_EVENT_EVENT,
                                                     .at_us = t->in->now_us,
                                                     .name = m->name,
                                                     .data = m->data };
}

/* A parent cancels its own child, but not a flow that was begun otherwise under the same id. */
static void add_cancel(struct turn *t, const struct turn_message *m)
{
    bool cancelled = !t->first && t->in->history->cancelled;
    if (!pr_id_is_zero(m->parent_execution) &&
        (!pr_id_equal(m->parent_execution, t->row->parent_execution) || m->parent_task != t->row->parent_task))
        return;
    for (size_t i = 0; i < t->fact_count; i++)
        cancelled = cancelled || t->facts[i].kind == FLOW_EVENT_CANCEL;
    if (!cancelled)
        t->facts[t->fact_count++] =
            (struct flow_event){ .kind = FLOW_EVENT_CANCEL, .at_us = t->in->now_us, .data = m->data };
}

static void add_start(struct turn *t)
{
    struct flow_more *more = arena_zalloc(t->arena, sizeof(*more));
    if (more == NULL) {
        t->out_of_memory = true;
        return;
    }
    bool continues = t->start == NULL; /* then it keeps its key-values and its status */
    more->version = t->row->version;
    more->status = t->row->custom_status;
    more->state = continues ? t->in->state : NULL;
    more->state_count = continues ? t->in->state_count : 0;
    t->facts[t->fact_count++] = (struct flow_event){
        .kind = FLOW_EVENT_STARTED, .at_us = t->in->now_us, .name = t->row->name, .data = t->row->input, .more = more
    };
}

/* The events before the failure of an execution are where the resumed one begins. */
static void add_lived(struct turn *t)
{
    t->fact_count = t->lived = flow_history_rewind(t->in->history, t->facts);
}

static void add_kept(struct turn *t)
{
    struct turn_message m;
    struct pr_error ignored;
    for (size_t i = 0; i < t->in->mail_count; i++) {
        int rc = turn_message_read(t->in->mail[i], t->arena, &m, &ignored);
        if (rc == PR_OK && (m.kind == TURN_EVENT || m.kind == TURN_MAIL))
            add_named(t, &m);
        else if (rc == PR_ENOMEM)
            t->out_of_memory = true;
    }
}

static void add_message(struct turn *t, const struct turn_message *m)
{
    switch (m->kind) {
    case TURN_RESULT:
    case TURN_CHILD:
    case TURN_TIMER: task_ends(t, m); break;
    case TURN_EVENT:
    case TURN_MAIL: add_named(t, m); break;
    case TURN_CANCEL: add_cancel(t, m); break;
    case TURN_START: turn_refuse_child(t, m); break;
    case TURN_NONE:
    case TURN_KINDS: break;
    }
}

void turn_collect_facts(struct turn *t)
{
    size_t tasks = t->in->history != NULL ? t->in->history->task_count : 0;
    size_t lived = t->resumes ? t->in->history->count : 0;
    t->facts = arena_alloc_array(t->arena, lived + t->message_count + t->in->mail_count + 1, sizeof(*t->facts));
    t->got = arena_zalloc(t->arena, tasks + 1);
    if (t->facts == NULL || t->got == NULL) {
        t->out_of_memory = true;
        return;
    }
    if (t->resumes)
        add_lived(t);
    else if (t->first)
        add_start(t);
    if (t->first)
        add_kept(t);
    for (size_t i = 0; i < t->message_count && !t->out_of_memory; i++)
        add_message(t, &t->messages[i]);
}
