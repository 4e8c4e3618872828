#include "flow/turn.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "flow/flow_id.h"
#include "flow/turn_steps.h"

static int no_memory(struct pr_error *reterr)
{
    return error_set(reterr, PR_ENOMEM, "out of memory for a turn of a flow");
}

static pr_slice encode_error(struct turn *t, const struct flow_error *e)
{
    pr_slice json = flow_error_encode(e, t->arena);
    t->out_of_memory = t->out_of_memory || json.data == NULL;
    return json;
}

/* ---- Which code --------------------------------------------------------------------------------------- */

static bool resumes(const struct flow_row *row, const struct turn_message *m)
{
    return m->kind == TURN_START && m->resume && row != NULL && row->state == FLOW_FAILED;
}

/* A parent that is resumed begins its own children again, but not flows that were begun otherwise under the same id. */
static bool is_of_other_parent(const struct flow_row *row, const struct turn_message *m)
{
    return m->parent.size > 0 && !(slice_eq(m->parent, row->parent) && m->parent_task == row->parent_task);
}

/* Does the message begin a flow that is not running? */
static bool begins(const struct flow_row *row, const struct turn_message *m)
{
    if (m->kind != TURN_START || row == NULL)
        return m->kind == TURN_START;
    return (m->restart || resumes(row, m)) && !is_of_other_parent(row, m);
}

/* Name and version that the start begins; a resumed flow keeps its version, whatever is the highest by now. */
static void begun_by(const struct flow_row *row, const struct turn_message *start, pr_slice *ret_name,
                     pr_slice *ret_version)
{
    bool same = resumes(row, start) && row->version.size > 0;
    *ret_name = same ? row->name : start->name;
    *ret_version = same ? row->version : start->version;
}

/* The first message that begins an execution.  Outcome PR_UNKNOWN: none does. */
static int find_begin(const struct flow_row *row, const struct pr_message *const *messages, size_t count,
                      struct arena *arena, struct turn_message *ret)
{
    for (size_t i = 0; i < count; i++) {
        struct pr_error ignored;
        int rc = turn_message_read(messages[i], arena, ret, &ignored);
        if (rc == PR_ENOMEM || (rc == PR_OK && begins(row, ret)))
            return rc;
    }
    return PR_UNKNOWN;
}

int flow_turn_resumes(const struct flow_row *row, const struct pr_message *const *messages, size_t count,
                      struct arena *arena, bool *ret)
{
    struct turn_message m;
    *ret = false;
    if (row == NULL || row->state != FLOW_FAILED)
        return PR_OK;
    int rc = find_begin(row, messages, count, arena, &m);
    if (rc == PR_OK)
        *ret = m.resume;
    return rc == PR_UNKNOWN ? PR_OK : rc;
}

int flow_turn_code(const struct flow_row *row, const struct pr_message *const *messages, size_t count,
                   struct arena *arena, pr_slice *ret_name, pr_slice *ret_version)
{
    struct turn_message m;
    if (row != NULL && !flow_has_ended(row)) {
        *ret_name = row->name;
        *ret_version = row->version;
        return PR_OK;
    }
    int rc = find_begin(row, messages, count, arena, &m);
    if (rc == PR_OK)
        begun_by(row, &m, ret_name, ret_version);
    return rc;
}

/* ---- The row ---------------------------------------------------------------------------------------------- */

/* The row of a flow that this start begins. */
static void begin_row(struct turn *t, const struct turn_message *start)
{
    const struct flow_row *before = t->in->row;
    pr_slice name, version;
    begun_by(before, start, &name, &version);
    *t->row = (struct flow_row){ .id = t->in->flow,
                                 .name = name,
                                 .version = t->in->code != NULL ? t->in->code->version : version,
                                 .execution = t->in->new_execution,
                                 .state = FLOW_RUNNING,
                                 .input = start->data,
                                 .parent = start->parent,
                                 .parent_execution = start->parent_execution,
                                 .parent_task = start->parent_task,
                                 .restarts = before != NULL };
    if (before != NULL && before->status_number > 0)
        t->row->status_number = before->status_number + 1; /* callers that wait for a change are notified */
}

/* For a flow that does not exist or has ended: the start in this run that begins it. */
static const struct turn_message *find_start(const struct turn *t)
{
    for (size_t i = 0; i < t->message_count; i++) {
        const struct turn_message *m = &t->messages[i];
        if (begins(t->in->row, m))
            return m;
    }
    return NULL;
}

/* Nothing runs: events and mail are kept for a flow that may begin later, impossible children are refused. */
static void pass_by(struct turn *t)
{
    t->out->kind = FLOW_TURN_NOTHING;
    t->out->row = t->in->row;
    for (size_t i = 0, bad = 0; i < t->in->count; i++) {
        if (bad < t->out->bad_count && t->out->bad[bad].index == i) {
            bad++;
            continue;
        }
        const struct turn_message *m = &t->messages[i - bad];
        if (t->in->row == NULL && (m->kind == TURN_EVENT || m->kind == TURN_MAIL))
            turn_keep_mail(t, t->in->messages[i], t->in->keep_mail_us);
        else if (m->kind == TURN_START)
            turn_refuse_child(t, m);
    }
}

/* ---- How it ended ---------------------------------------------------------------------------------------------- */

static struct flow_event end_event(struct turn *t, int kind, pr_slice data)
{
    return (struct flow_event){ .kind = (uint8_t)kind, .at_us = t->in->now_us, .data = data };
}

static struct flow_event end_as_failed(struct turn *t, const struct flow_error *error)
{
    t->row->state = FLOW_FAILED;
    t->row->error = encode_error(t, error);
    return end_event(t, FLOW_EVENT_FAILED, t->row->error);
}

static struct flow_event end_as_continued(struct turn *t, const pr_flow *f)
{
    struct flow_event e = end_event(t, FLOW_EVENT_CONTINUED, f->output);
    struct flow_more *more = arena_zalloc(t->arena, sizeof(*more));
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(t->in->next_execution, text);
    pr_slice id = slice_dup(t->arena, slice_from(text));
    if (more == NULL || id.data == NULL) {
        t->out_of_memory = true;
        return e;
    }
    *more = (struct flow_more){ .id = id, .version = f->next_version };
    e.more = more;
    return e;
}

static struct flow_event end_of(struct turn *t, const pr_flow *f)
{
    static const struct flow_error cancelled = { .category = PR_CATEGORY_APPLICATION,
                                                 .message = { "the flow was cancelled", 22 } };
    switch (f->outcome) {
    case FLOW_RETURNED:
        t->row->state = FLOW_COMPLETED;
        t->row->output = f->output;
        return end_event(t, FLOW_EVENT_COMPLETED, f->output);
    case FLOW_GAVE_UP:
        t->row->state = FLOW_CANCELLED;
        t->row->error = encode_error(t, &cancelled);
        return end_event(t, FLOW_EVENT_CANCELLED, (pr_slice){ "", 0 });
    case FLOW_CONTINUES: return end_as_continued(t, f);
    case FLOW_ERRED: return end_as_failed(t, &f->error);
    case FLOW_OPEN:
    case FLOW_SUSPENDED: break;
    }
    return end_event(t, FLOW_EVENT_NONE, (pr_slice){ "", 0 });
}

/* The code has not seen that the flow is cancelled: the next execution will. */
static void pass_cancel_on(struct turn *t, const pr_flow *f)
{
    struct turn_message m = { .kind = TURN_CANCEL, .flow = t->row->id };
    if (!f->cancel_pending || f->cancel_seen)
        return;
    m.data = machine_event(f, f->cancel_at)->data;
    turn_send_turn(t, &m, flow_cancel_id(t->row->execution, 0));
}

/* The next execution has no events yet: a message to itself begins it, and its mail waits for it. */
static void continue_as_new(struct turn *t, pr_flow *f)
{
    const struct flow_event **left = NULL;
    size_t count = 0;
    struct flow_row *row = t->row;
    if (t->start != NULL)
        turn_store_execution(t);
    row->execution = t->in->next_execution;
    row->version = f->next_version;
    row->input = f->output;
    row->next = 0;
    row->tasks = 0;
    struct turn_message again = { .kind = TURN_START, .flow = row->id, .name = row->name, .version = row->version };
    turn_send_turn(t, &again, flow_continue_id(row->execution));
    pass_cancel_on(t, f);
    if (mailbox_left(f, &left, &count) != PR_OK)
        t->out_of_memory = true;
    for (size_t i = 0; i < count && !t->out_of_memory; i++) {
        struct turn_message m = { .kind = TURN_MAIL, .flow = row->id, .name = left[i]->name, .data = left[i]->data };
        struct pr_message *made = arena_zalloc(t->arena, sizeof(*made));
        if (made == NULL || turn_message_make(&m, flow_mail_id(row->execution, (int64_t)i), t->arena, made) != PR_OK)
            t->out_of_memory = true;
        else
            turn_keep_mail(t, made, 0);
    }
}

/* ---- A turn that runs ------------------------------------------------------------------------------------------------ */

static void store_turn(struct turn *t, pr_flow *f)
{
    struct flow_event end = end_of(t, f);
    bool ended = end.kind != FLOW_EVENT_NONE;
    void *fresh = f->fresh;
    if (ended && machine_grow(f, &fresh, &f->fresh_capacity, f->fresh_count, sizeof(f->fresh[0]))) {
        f->fresh = fresh;
        f->fresh[f->fresh_count++] = end;
    }
    t->out->events = f->fresh;
    t->out->event_count = f->fresh_count;
    t->row->next = (int64_t)machine_event_count(f);
    t->row->tasks = (int64_t)(f->task_count > (size_t)t->row->tasks ? f->task_count : (size_t)t->row->tasks);
    if (f->status_changes > 0 || t->resumes) /* it may have had one at the beginning */
        t->row->custom_status = f->status;
    t->row->status_number += f->status_changes;
    t->row->created_us = t->in->row != NULL && !t->row->restarts ? t->in->row->created_us : 0;
    t->row->updated_us = 0;

    turn_store_row(t);
    turn_store_events(t, f->fresh, f->fresh_count, f->base);
    turn_schedule_tasks(t, f);
    if (ended)
        turn_cancel_all(t);
    else
        turn_cancel_tasks(t, f);
    if (t->row->restarts)
        turn_replace_state(t, f);
    else
        turn_store_state(t, f);
    if (t->first && t->in->mail_count > 0)
        turn_keep_mail(t, NULL, 0);
    if (f->outcome == FLOW_CONTINUES)
        continue_as_new(t, f);
    else if (ended)
        turn_tell_parent(t);
}

static void run_code(struct turn *t)
{
    const struct flow_history *history = t->first ? NULL : t->in->history;
    pr_flow *f = arena_zalloc(t->arena, sizeof(*f));
    if (f == NULL) {
        t->out_of_memory = true;
        return;
    }
    f->id = t->row->id;
    f->name = t->row->name;
    f->version = t->row->version;
    f->execution = t->row->execution;
    f->user = t->in->code->user;
    f->now_us = t->in->now_us;
    random_init(&f->random, t->in->seed);
    f->lived = t->lived;
    int rc = machine_init(f, history, history != NULL ? history->count : 0, t->facts, t->fact_count, t->arena);
    if (rc == PR_OK && t->surprise != NULL)
        machine_fail(f, t->surprise);
    else if (rc == PR_OK)
        machine_run(f, t->in->code->function);
    if (rc == PR_OK && !f->out_of_memory)
        store_turn(t, f);
    t->out_of_memory = t->out_of_memory || rc != PR_OK || f->out_of_memory;
    t->out->log = f->log;
    machine_fini(f);
}

/* ---- A turn that does not run ----------------------------------------------------------------------------------------- */

/* Other parents that tried to begin the flow learn that it exists. */
static void refuse_children(struct turn *t)
{
    for (size_t i = 0; i < t->message_count; i++) {
        if (t->messages[i].kind == TURN_START)
            turn_refuse_child(t, &t->messages[i]);
    }
}

/* The flow ends without running its code: poison, or an unreadable history. */
static void end_without_code(struct turn *t, const struct flow_error *error)
{
    size_t count = 0;
    if (t->first)
        turn_collect_facts(t);
    struct flow_event *events = arena_alloc_array(t->arena, t->lived + 2, sizeof(*events));
    t->out_of_memory = t->out_of_memory || events == NULL;
    if (t->out_of_memory)
        return;
    /* Its start; events taken over from a failed execution stay for the next try. */
    for (; t->first && count < max_size(t->lived, 1); count++)
        events[count] = t->facts[count];
    size_t before = t->first ? 0 : (size_t)t->in->row->next;
    events[count++] = end_as_failed(t, error);
    t->row->next = (int64_t)(before + count);
    t->out->events = events;
    t->out->event_count = count;
    t->out->effect_count = 0;
    turn_store_row(t);
    turn_store_events(t, events, count, before);
    turn_cancel_all(t);
    if (t->first && t->in->mail_count > 0)
        turn_keep_mail(t, NULL, 0);
    turn_tell_parent(t);
    refuse_children(t);
}

static void end_dead(struct turn *t)
{
    const struct flow_dead *dead = t->in->dead;
    struct flow_error e = { .category = dead->category, .message = dead->error };
    if (dead->category == PR_CATEGORY_POISON) {
        e = (struct flow_error){ .kind = FLOW_POISON_FLOW,
                                 .count = dead->count,
                                 .limit = dead->limit,
                                 .flow = t->in->flow,
                                 .execution = t->row->execution };
        t->out_of_memory = flow_poison(&e, t->in->messages[0], t->arena) != PR_OK;
    }
    if (!t->out_of_memory)
        end_without_code(t, &e);
}

static void end_damaged(struct turn *t)
{
    struct flow_error e = { .category = PR_CATEGORY_CONFIGURATION, .message = t->in->damaged };
    end_without_code(t, &e);
}

/* ---- The turn ------------------------------------------------------------------------------------------------------------ */

static int check_history(const struct flow_turn_in *in, struct pr_error *reterr)
{
    const struct flow_history *h = in->history;
    bool unused = in->row == NULL || (flow_has_ended(in->row) && h == NULL) || in->row->next == 0;
    if (unused || in->damaged.size > 0)
        return PR_OK;
    if (h == NULL ? in->dead != NULL
                  : pr_id_equal(h->execution, in->row->execution) && h->count == (size_t)in->row->next)
        return PR_OK;
    return error_set(reterr, PR_ECORRUPT, "the history of flow %.*s has %zu events, but its row says %" PRId64,
                     SLICE_ARGS(in->flow), h != NULL ? h->count : 0, in->row->next);
}

static void take_turn(struct turn *t)
{
    const struct flow_turn_in *in = t->in;
    bool runs = in->row != NULL && !flow_has_ended(in->row);
    t->start = runs ? NULL : find_start(t);
    if (!runs && t->start == NULL) {
        pass_by(t);
        return;
    }
    if (runs)
        *t->row = *in->row;
    else
        begin_row(t, t->start);
    t->row->restarts = !runs && in->row != NULL;
    t->first = !runs || in->row->next == 0;
    t->resumes = !runs && resumes(in->row, t->start) && in->history != NULL;
    t->out->row = t->row;
    t->out->execution = t->row->execution;
    if (in->dead != NULL && t->message_count > 0) {
        end_dead(t);
        return;
    }
    if (in->damaged.size > 0) {
        end_damaged(t);
        return;
    }
    turn_collect_facts(t);
    if (t->out_of_memory)
        return;
    if ((t->fact_count == 0 && t->surprise == NULL) || in->dead != NULL) {
        t->out->kind = FLOW_TURN_NOTHING;
        t->out->row = in->row;
    } else if (in->code == NULL) {
        t->out->kind = FLOW_TURN_UNKNOWN;
        t->out->effect_count = 0;
    } else {
        run_code(t);
    }
}

int flow_turn(const struct flow_turn_in *in, struct flow_turn_out *out, struct pr_error *reterr)
{
    struct turn t = { .in = in, .out = out, .arena = in->arena };
    *out = (struct flow_turn_out){ .kind = FLOW_TURN_DONE };
    int rc = check_history(in, reterr);
    if (rc != PR_OK)
        return rc;
    t.row = arena_zalloc(in->arena, sizeof(*t.row));
    t.out_of_memory = t.row == NULL;
    if (!t.out_of_memory)
        turn_read(&t);
    if (!t.out_of_memory)
        take_turn(&t);
    if (!t.out_of_memory)
        turn_order_effects(&t);
    return t.out_of_memory ? no_memory(reterr) : PR_OK;
}
