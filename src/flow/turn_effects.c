/* The effects of a turn. */
#include "flow/turn_steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "flow/flow_id.h"

struct effect *turn_effect(struct turn *t, enum effect_kind kind)
{
    static struct effect nowhere; /* without memory the turn is abandoned anyway */
    struct flow_turn_out *out = t->out;
    if (out->effect_count == t->effect_capacity) {
        size_t larger = t->effect_capacity < 16 ? 16 : t->effect_capacity * 2;
        struct effect *moved = arena_alloc_array(t->arena, larger, sizeof(*moved));
        if (moved == NULL) {
            t->out_of_memory = true;
            return &nowhere;
        }
        if (out->effect_count > 0)
            memcpy(moved, out->effects, out->effect_count * sizeof(*moved));
        out->effects = moved;
        t->effect_capacity = larger;
    }
    struct effect *e = &out->effects[out->effect_count++];
    *e = (struct effect){ .kind = kind };
    return e;
}

void turn_order_effects(struct turn *t)
{
    static const enum effect_kind order[] = { EFFECT_FLOW,  EFFECT_EXECUTION, EFFECT_HISTORY, EFFECT_MESSAGE,
                                              EFFECT_STATE, EFFECT_DELETE,    EFFECT_MAIL };
    struct effect *sorted = arena_alloc_array(t->arena, t->out->effect_count + 1, sizeof(*sorted));
    size_t at = 0;
    if (sorted == NULL) {
        t->out_of_memory = true;
        return;
    }
    for (size_t kind = 0; kind < ARRAY_LENGTH(order); kind++) {
        for (size_t i = 0; i < t->out->effect_count; i++) {
            if (t->out->effects[i].kind == order[kind])
                sorted[at++] = t->out->effects[i];
        }
    }
    t->out->effects = sorted;
}

void turn_send(struct turn *t, pr_slice box, const struct pr_message *m)
{
    struct pr_message *copy = arena_dup(t->arena, m, sizeof(*m));
    struct effect *e = turn_effect(t, EFFECT_MESSAGE);
    if (copy == NULL)
        t->out_of_memory = true;
    e->box = box;
    e->id = m->id;
    e->message = copy;
}

void turn_send_turn(struct turn *t, const struct turn_message *m, pr_id id)
{
    struct pr_message made;
    if (turn_message_make(m, id, t->arena, &made) != PR_OK)
        t->out_of_memory = true;
    else
        turn_send(t, t->in->turns_box, &made);
}

static void delete_row(struct turn *t, pr_slice box, pr_id id)
{
    struct effect *e = turn_effect(t, EFFECT_DELETE);
    e->box = box;
    e->id = id;
}

static pr_slice id_text(struct turn *t, pr_id id)
{
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    pr_slice copy = slice_dup(t->arena, slice_from(text));
    t->out_of_memory = t->out_of_memory || copy.data == NULL;
    return copy;
}

/* ---- The flow itself ---------------------------------------------------------------------------------- */

/* The guard: no other instance has run a turn of the flow meanwhile. */
void turn_store_row(struct turn *t)
{
    struct effect *e = turn_effect(t, EFFECT_FLOW);
    const struct flow_row *seen = t->in->row;
    e->takes_verdict = true;
    e->flow = t->row;
    e->key = t->row->id;
    if (seen != NULL && !flow_has_ended(seen)) {
        e->id = seen->execution;
        e->expected = seen->next;
    }
}

/* For a flow that continues as new in its very first turn, no store has a row of the execution: this stores it. */
void turn_store_execution(struct turn *t)
{
    struct flow_row *ended = arena_dup(t->arena, t->row, sizeof(*t->row));
    struct effect *e = turn_effect(t, EFFECT_EXECUTION);
    if (ended == NULL) {
        t->out_of_memory = true;
        return;
    }
    ended->state = FLOW_CONTINUED;
    e->flow = ended;
    e->key = ended->id;
}

void turn_store_events(struct turn *t, const struct flow_event *events, size_t count, size_t before)
{
    struct effect *e = turn_effect(t, EFFECT_HISTORY);
    struct buf lines;
    buf_init(&lines, SIZE_MAX / 2);
    flow_history_encode(&lines, events, count, before + 1);
    e->takes_verdict = true;
    e->key = id_text(t, t->out->execution);
    e->value = slice_dup(t->arena, buf_slice(&lines));
    e->count = (int64_t)count;
    e->expected = t->in->damaged.size > 0 ? EFFECT_ANY : (int64_t)before;
    t->out_of_memory = t->out_of_memory || buf_failed(&lines) != 0 || e->value.data == NULL;
    buf_fini(&lines);
}

static int compare_keys(const void *a, const void *b)
{
    const struct flow_value *x = a, *y = b;
    return slice_cmp(x->key, y->key);
}

/* value.data NULL: removes the key. */
static void store_value(struct turn *t, pr_slice key, pr_slice value)
{
    struct effect *e = turn_effect(t, EFFECT_STATE);
    e->key = t->row->id;
    e->name = key;
    e->value = value;
}

static pr_slice value_now(const pr_flow *f, pr_slice key)
{
    pr_slice value;
    return pr_state_get(f, key, &value) == PR_OK ? value : (pr_slice){ NULL, 0 };
}

/* Each changed key once, with its final value. */
void turn_store_state(struct turn *t, pr_flow *f)
{
    if (f->change_count > 0)
        qsort(f->changes, f->change_count, sizeof(*f->changes), compare_keys);
    for (size_t i = 0; i < f->change_count; i++) {
        if (i == 0 || !slice_eq(f->changes[i - 1].key, f->changes[i].key))
            store_value(t, f->changes[i].key, value_now(f, f->changes[i].key));
    }
}

/* A previous flow of this id has left key-values: those of the new one replace them, including those that a resumed one
 * begins with. */
void turn_replace_state(struct turn *t, const pr_flow *f)
{
    for (size_t i = 0; i < t->in->state_count; i++) {
        if (value_now(f, t->in->state[i].key).data == NULL)
            store_value(t, t->in->state[i].key, (pr_slice){ NULL, 0 });
    }
    for (size_t i = 0; i < f->state_count; i++)
        store_value(t, f->state[i].key, f->state[i].value);
}

void turn_keep_mail(struct turn *t, const struct pr_message *m, int64_t keep_us)
{
    struct effect *e = turn_effect(t, EFFECT_MAIL);
    e->key = t->in->flow;
    e->message = m;
    e->keep_us = keep_us;
}

void turn_tell_parent(struct turn *t)
{
    const struct flow_row *row = t->row;
    bool well = row->state == FLOW_COMPLETED;
    if (row->parent.size == 0)
        return;
    struct turn_message m = { .kind = TURN_CHILD,
                              .flow = row->parent,
                              .execution = row->parent_execution,
                              .task = row->parent_task,
                              .failed = !well,
                              .data = well ? row->output : row->error };
    turn_send_turn(t, &m, flow_result_id(row->parent_execution, row->parent_task));
}

/* A start reached a flow that was begun otherwise: without this result its parent would wait forever. */
void turn_refuse_child(struct turn *t, const struct turn_message *start)
{
    const struct flow_row *row = t->row->id.size > 0 ? t->row : t->in->row; /* its new state, or how it ended */
    if (start->parent.size == 0 || start == t->start)
        return;
    if (row != NULL && pr_id_equal(start->parent_execution, row->parent_execution) &&
        start->parent_task == row->parent_task)
        return; /* the same start again */
    struct flow_error e = { .category = PR_CATEGORY_APPLICATION };
    e.message = arena_printf(t->arena, "a flow with the id %.*s already exists", SLICE_ARGS(start->flow));
    struct turn_message m = { .kind = TURN_CHILD,
                              .flow = start->parent,
                              .execution = start->parent_execution,
                              .task = start->parent_task,
                              .failed = true,
                              .data = flow_error_encode(&e, t->arena) };
    if (e.message.data == NULL || m.data.data == NULL)
        t->out_of_memory = true;
    else
        turn_send_turn(t, &m, flow_result_id(start->parent_execution, start->parent_task));
}

/* ---- Tasks that begin ------------------------------------------------------------------------------------- */

static void send_activity(struct turn *t, pr_flow *f, const struct flow_event *e, const struct fresh_activity *o)
{
    struct pr_message made;
    struct activity_message a = {
        .name = e->name, .flow = f->id, .execution = f->execution, .task = e->task, .input = e->data
    };
    if (e->more != NULL) {
        a.tag = e->more->tag;
        a.session = e->more->session;
    }
    if (o != NULL) {
        a.timeout_us = o->timeout_us;
        a.retry = o->retry;
        a.expires_us = o->schedule_to_start_us > 0 ? time_add(f->now_us, o->schedule_to_start_us) : 0;
    }
    if (activity_message_make(&a, t->arena, &made) != PR_OK)
        t->out_of_memory = true;
    else
        turn_send(t, t->in->activities_box, &made);
}

static void send_timer(struct turn *t, pr_flow *f, const struct flow_event *e)
{
    struct turn_message m = {
        .kind = TURN_TIMER, .flow = f->id, .execution = f->execution, .task = e->task, .due_us = e->value
    };
    turn_send_turn(t, &m, flow_task_id(f->execution, e->task));
}

/* again: the failed execution had begun the child, too, and ended it. */
static void send_start(struct turn *t, pr_flow *f, const struct flow_event *e, bool again)
{
    struct turn_message m = { .kind = TURN_START,
                              .flow = e->more->id,
                              .name = e->name,
                              .version = e->more->version,
                              .data = e->data,
                              .restart = again,
                              .resume = again };
    if (e->kind == FLOW_EVENT_CHILD) {
        m.parent = f->id;
        m.parent_execution = f->execution;
        m.parent_task = e->task;
    }
    turn_send_turn(t, &m, flow_task_id(f->execution, e->task));
}

/* Messages for what the code began in this turn (and, of a resumed flow, before) and has not cancelled; when the flow
 * has ended, only detached starts remain. */
void turn_schedule_tasks(struct turn *t, pr_flow *f)
{
    bool runs = f->outcome == FLOW_SUSPENDED;
    size_t option = 0;
    for (size_t i = 0; i < f->fresh_count; i++) {
        const struct flow_event *e = &f->fresh[i];
        bool again = i < t->lived;
        if (e->kind == FLOW_EVENT_DETACHED && !again)
            send_start(t, f, e, false);
        if (!runs || !flow_event_begins_task(e) || f->tasks[e->task - 1].state != FLOW_TASK_OPEN)
            continue;
        if (e->kind == FLOW_EVENT_ACTIVITY) {
            while (option < f->option_count && f->options[option].task < e->task)
                option++;
            bool has = option < f->option_count && f->options[option].task == e->task;
            send_activity(t, f, e, has ? &f->options[option] : NULL);
        } else if (e->kind == FLOW_EVENT_TIMER) {
            send_timer(t, f, e);
        } else if (e->kind == FLOW_EVENT_CHILD) {
            send_start(t, f, e, again);
        }
    }
}

/* ---- Tasks that are cancelled --------------------------------------------------------------------------------- */

static void cancel_task(struct turn *t, pr_id execution, const struct flow_event *begun)
{
    switch (begun->kind) {
    case FLOW_EVENT_ACTIVITY: delete_row(t, t->in->activities_box, flow_task_id(execution, begun->task)); break;
    case FLOW_EVENT_TIMER: delete_row(t, t->in->turns_box, flow_task_id(execution, begun->task)); break;
    case FLOW_EVENT_CHILD: {
        struct turn_message m = { .kind = TURN_CANCEL,
                                  .flow = begun->more->id,
                                  .parent_execution = execution,
                                  .parent_task = begun->task,
                                  .data = PR_STR("cancelled by its parent") };
        turn_send_turn(t, &m, flow_cancel_id(execution, begun->task));
        break;
    }
    default: break; /* waits have no row */
    }
}

void turn_cancel_tasks(struct turn *t, pr_flow *f)
{
    for (size_t i = 0; i < f->fresh_count; i++) {
        if (f->fresh[i].kind != FLOW_EVENT_CANCEL_TASK)
            continue;
        const struct live_task *task = &f->tasks[f->fresh[i].task - 1];
        const struct flow_task *before = (size_t)f->fresh[i].task <= (t->first ? 0 : t->in->history->task_count)
                                             ? &t->in->history->tasks[f->fresh[i].task - 1]
                                             : NULL;
        bool over = before == NULL || before->state != FLOW_TASK_OPEN || t->got[f->fresh[i].task - 1];
        if (!over && task->state == FLOW_TASK_CANCELLED)
            cancel_task(t, f->execution, machine_event(f, task->event));
    }
}

/* The flow has ended: deletes all open tasks.  Without a history the possible ones are computed. */
void turn_cancel_all(struct turn *t)
{
    const struct flow_history *h = t->in->history;
    if (t->first)
        return;
    if (h != NULL && t->in->damaged.size == 0) {
        for (size_t i = 0; i < h->task_count; i++) {
            bool ended = t->got != NULL && t->got[i];
            if (h->tasks[i].state == FLOW_TASK_OPEN && !ended)
                cancel_task(t, t->in->row->execution, &h->events[h->tasks[i].event]);
        }
        return;
    }
    for (int64_t n = 1; n <= t->in->row->tasks; n++) {
        pr_id id = flow_task_id(t->in->row->execution, n);
        delete_row(t, t->in->activities_box, id);
        delete_row(t, t->in->turns_box, id);
    }
}
