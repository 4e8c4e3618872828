#include "flow/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"

/* ---- Memory ----------------------------------------------------------------------------------------- */

void machine_no_memory(pr_flow *f)
{
    f->out_of_memory = true;
    f->inert = true;
}

bool machine_grow(pr_flow *f, void **array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return true;
    size_t larger = *capacity < 16 ? 16 : *capacity * 2;
    void *moved = arena_alloc_array(f->arena, larger, size);
    if (moved == NULL) {
        machine_no_memory(f);
        return false;
    }
    if (count > 0)
        memcpy(moved, *array, count * size);
    *array = moved;
    *capacity = larger;
    return true;
}

void machine_log(pr_flow *f, bool warning, pr_slice text)
{
    struct flow_log_line *line = arena_zalloc(f->arena, sizeof(*line));
    if (line == NULL || text.data == NULL) {
        machine_no_memory(f);
        return;
    }
    line->warning = warning;
    line->text = text;
    *f->log_end = line;
    f->log_end = &line->next;
}

int machine_fault(pr_flow *f, int code, const char *format, ...)
{
    char text[PR_ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_set(&f->fault, code, "%s", text);
}

void machine_fail(pr_flow *f, const struct flow_error *error)
{
    if (f->outcome == FLOW_ERRED)
        return;
    f->outcome = FLOW_ERRED;
    f->error = *error;
    f->inert = true;
}

/* ---- Words for what is compared ------------------------------------------------------------------------- */

static pr_slice event_words(struct arena *arena, const struct flow_event *e)
{
    pr_slice name = utf8_cut_bytes(e->name, 128), data = utf8_cut_bytes(e->data, 128);
    const struct flow_more none = { .state_count = 0 }, *m = e->more != NULL ? e->more : &none;
    const char *kind = flow_event_kind_name(e->kind);
    if (e->kind == FLOW_EVENT_CANCEL_TASK)
        return arena_printf(arena, "%s of task %d", kind, (int)e->task);
    if (e->name.size == 0)
        return arena_printf(arena, "%s", kind);
    return arena_printf(arena, "%s %.*s%s%.*s%s%.*s%s%.*s%s%.*s%s%.*s%s", kind, SLICE_ARGS(name),
                        m->id.size > 0 ? " id " : "", SLICE_ARGS(m->id), m->version.size > 0 ? " version " : "",
                        SLICE_ARGS(m->version), m->tag.size > 0 ? " tag " : "", SLICE_ARGS(m->tag),
                        m->session.size > 0 ? " session " : "", SLICE_ARGS(m->session),
                        e->data.size > 0 ? " with input \"" : "", SLICE_ARGS(data), e->data.size > 0 ? "\"" : "");
}

static void nondeterministic(pr_flow *f, pr_slice expected, pr_slice found)
{
    struct flow_error e = {
        .category = PR_CATEGORY_CONFIGURATION, .event = (int64_t)f->cursor + 1, .expected = expected, .found = found
    };
    e.message = arena_printf(f->arena, "nondeterministic: event %zu of the history is %.*s; the code has %.*s here",
                             f->cursor + 1, SLICE_ARGS(expected), SLICE_ARGS(found));
    if (e.message.data == NULL || expected.data == NULL || found.data == NULL)
        machine_no_memory(f);
    f->diverged = f->outcome != FLOW_ERRED;
    machine_fail(f, &e);
}

/* ---- The cursor --------------------------------------------------------------------------------------------- */

struct live_task *machine_task(pr_flow *f, int64_t number)
{
    return number >= 1 && (uint64_t)number <= f->task_count ? &f->tasks[number - 1] : NULL;
}

static void end_task(pr_flow *f, const struct flow_event *e, uint32_t index)
{
    struct live_task *t = machine_task(f, e->task);
    if (t == NULL || t->state != FLOW_TASK_OPEN)
        return; /* the task was cancelled: a late result is harmless */
    t->state = FLOW_TASK_ENDED;
    t->ended = index;
    f->open_count--;
    f->last_ended = e->task;
}

/* Applies the fact at the cursor. */
static void apply_fact(pr_flow *f)
{
    uint32_t index = (uint32_t)f->cursor;
    const struct flow_event *e = machine_event(f, f->cursor++);
    f->last_ended = 0;
    switch (e->kind) {
    case FLOW_EVENT_RESULT:
    case FLOW_EVENT_CHILD_END:
    case FLOW_EVENT_FIRED: end_task(f, e, index); break;
    case FLOW_EVENT_EVENT:
    case FLOW_EVENT_MAIL: mailbox_arrive(f, e, index); break;
    case FLOW_EVENT_CANCEL:
        if (!f->cancel_pending)
            f->cancel_at = index;
        f->cancel_pending = true;
        break;
    default: break;
    }
}

static void apply_facts(pr_flow *f)
{
    while (f->cursor < machine_event_count(f) && !flow_event_is_command(machine_event(f, f->cursor)))
        apply_fact(f);
}

static bool same_more(const struct flow_event *a, const struct flow_event *b)
{
    static const struct flow_more none;
    const struct flow_more *x = a->more != NULL ? a->more : &none, *y = b->more != NULL ? b->more : &none;
    /* The id of a child is only compared where the code gave one: see pr_child_with(). */
    return slice_eq(x->tag, y->tag) && slice_eq(x->session, y->session) && slice_eq(x->version, y->version) &&
           (y->id.size == 0 || slice_eq(x->id, y->id));
}

static bool same_command(const struct flow_event *there, const struct flow_event *wanted)
{
    if (there->kind != wanted->kind || (wanted->task != 0 && there->task != wanted->task))
        return false;
    if (!slice_eq(there->name, wanted->name))
        return false;
    if (!slice_eq(there->data, wanted->data))
        return false;
    return (there->more == NULL && wanted->more == NULL) || there->kind == FLOW_EVENT_UUID || same_more(there, wanted);
}

/* The value recorded at this place, when a prefix of a history is replayed to be compared with all of it. */
static void take_recorded(pr_flow *f, struct flow_event *e)
{
    const struct flow_history *script = f->script;
    size_t at = f->script_at;
    while (at < script->count && !flow_event_is_command(&script->events[at]))
        at++;
    f->script_at = at + 1;
    if (at < script->count && script->events[at].kind == e->kind) {
        e->value = script->events[at].value;
        if (e->kind == FLOW_EVENT_UUID)
            e->more = script->events[at].more;
    }
}

static const struct flow_event *add_event(pr_flow *f, const struct flow_event *wanted)
{
    void *fresh = f->fresh;
    if (!machine_grow(f, &fresh, &f->fresh_capacity, f->fresh_count, sizeof(f->fresh[0])))
        return NULL;
    f->fresh = fresh;
    struct flow_event *e = &f->fresh[f->fresh_count];
    *e = *wanted;
    e->at_us = f->now_us;
    e->name = slice_dup(f->arena, wanted->name);
    e->data = slice_dup(f->arena, wanted->data);
    if (e->name.data == NULL || e->data.data == NULL) {
        machine_no_memory(f);
        return NULL;
    }
    if (f->script != NULL)
        take_recorded(f, e);
    f->cursor++;
    f->fresh_count++;
    return e;
}

const struct flow_event *machine_command(pr_flow *f, const struct flow_event *wanted)
{
    if (f->inert)
        return NULL;
    apply_facts(f);
    if (f->cursor == machine_event_count(f))
        return add_event(f, wanted);
    const struct flow_event *there = machine_event(f, f->cursor);
    if (!same_command(there, wanted)) {
        nondeterministic(f, event_words(f->arena, there), event_words(f->arena, wanted));
        return NULL;
    }
    f->cursor++;
    return there;
}

/* The command before the cursor begins a task. */
static bool begin_task(pr_flow *f, const struct flow_event *e)
{
    bool waits = e->kind != FLOW_EVENT_DETACHED;
    void *tasks = f->tasks;
    if (!machine_grow(f, &tasks, &f->task_capacity, f->task_count, sizeof(f->tasks[0])))
        return false;
    f->tasks = tasks;
    f->tasks[f->task_count++] = (struct live_task){ .kind = e->kind,
                                                    .state = waits ? FLOW_TASK_OPEN : FLOW_TASK_ENDED,
                                                    .fresh = f->cursor > f->base,
                                                    .event = (uint32_t)(f->cursor - 1) };
    f->open_count += waits;
    if (e->kind == FLOW_EVENT_WAIT || e->kind == FLOW_EVENT_WAIT_MAIL)
        mailbox_wait(f, e, e->task);
    return true;
}

int64_t machine_begin(pr_flow *f, struct flow_event *wanted)
{
    bool waits = wanted->kind != FLOW_EVENT_DETACHED;
    if (f->inert)
        return PR_SUSPEND;
    if (waits && f->open_count >= PR_FLOW_TASKS_MAX)
        return machine_fault(f, PR_ETOOBIG, "the flow has %d open tasks; end some before you start more",
                             PR_FLOW_TASKS_MAX);
    wanted->task = (int32_t)f->task_count + 1;
    const struct flow_event *e = machine_command(f, wanted);
    return e != NULL && begin_task(f, e) ? e->task : PR_SUSPEND;
}
/* ---- Waiting --------------------------------------------------------------------------------------------------- */

int machine_next_fact(pr_flow *f)
{
    if (f->inert)
        return PR_SUSPEND;
    if (f->cursor == machine_event_count(f)) {
        f->inert = true;
        f->outcome = FLOW_SUSPENDED;
        return PR_SUSPEND;
    }
    const struct flow_event *e = machine_event(f, f->cursor);
    if (flow_event_is_command(e)) {
        nondeterministic(f, event_words(f->arena, e), slice_dup(f->arena, PR_STR("a wait")));
        return PR_SUSPEND;
    }
    apply_fact(f);
    return PR_OK;
}

/* ---- One turn ------------------------------------------------------------------------------------------------------ */

int machine_init(pr_flow *f, const struct flow_history *history, size_t base, const struct flow_event *facts,
                 size_t fact_count, struct arena *arena)
{
    f->arena = arena;
    f->history = history;
    f->base = base;
    f->log_end = &f->log;
    map_init(&f->mailboxes);
    f->fresh_capacity = fact_count + 16;
    f->fresh = arena_alloc_array(arena, f->fresh_capacity, sizeof(f->fresh[0]));
    f->task_capacity = (history != NULL ? history->task_count : 0) + 16;
    f->tasks = arena_alloc_array(arena, f->task_capacity, sizeof(f->tasks[0]));
    if (f->fresh == NULL || f->tasks == NULL)
        return PR_ENOMEM;
    if (fact_count > 0)
        memcpy(f->fresh, facts, fact_count * sizeof(f->fresh[0]));
    f->fresh_count = fact_count;

    const struct flow_event *start = machine_event(f, 0);
    ASSERT(start->kind == FLOW_EVENT_STARTED);
    f->cursor = 1;
    if (start->more == NULL)
        return PR_OK;
    f->status = start->more->status;
    return machine_state_begin(f, start->more->state, start->more->state_count);
}

void machine_fini(pr_flow *f)
{
    map_fini(&f->mailboxes);
}

/* The function returned, which ends the flow: compares this with the end in the history, if it has one. */
static void compare_end(pr_flow *f)
{
    static const uint8_t kinds[] = { [FLOW_RETURNED] = FLOW_EVENT_COMPLETED,
                                     [FLOW_ERRED] = FLOW_EVENT_FAILED,
                                     [FLOW_GAVE_UP] = FLOW_EVENT_CANCELLED,
                                     [FLOW_CONTINUES] = FLOW_EVENT_CONTINUED };
    apply_facts(f);
    if (f->cursor == machine_event_count(f))
        return;
    const struct flow_event *there = machine_event(f, f->cursor);
    struct flow_event end = { .kind = kinds[f->outcome], .data = f->output };
    bool compared = f->outcome == FLOW_RETURNED || f->outcome == FLOW_CONTINUES;
    if (there->kind == end.kind && (!compared || slice_eq(there->data, end.data))) {
        f->cursor++;
        return;
    }
    f->outcome = FLOW_OPEN;
    nondeterministic(f, event_words(f->arena, there), event_words(f->arena, &end));
}

void machine_follow(pr_flow *f)
{
    while (f->cursor < machine_event_count(f) && !f->inert) {
        const struct flow_event *e = machine_event(f, f->cursor);
        if (!flow_event_is_command(e)) {
            apply_fact(f);
            continue;
        }
        f->cursor++;
        if (flow_event_begins_task(e) || e->kind == FLOW_EVENT_DETACHED)
            (void)begin_task(f, e);
        else if (e->kind == FLOW_EVENT_CANCEL_TASK)
            machine_cancel(f, e->task);
    }
}

static void err_with(pr_flow *f, const char *format, const char *text, int rc)
{
    struct flow_error e = { .category = PR_CATEGORY_APPLICATION };
    e.message = text[0] != '\0' ? slice_dup(f->arena, slice_from(text)) : arena_printf(f->arena, format, rc);
    if (e.message.data == NULL)
        machine_no_memory(f);
    machine_fail(f, &e);
}

/* The function returned this while the flow was not inert. */
static void take_return(pr_flow *f, int rc, pr_slice output)
{
    switch (rc) {
    case PR_OK:
        f->output = output;
        f->outcome = FLOW_RETURNED;
        break;
    case PR_ECANCELLED: f->outcome = FLOW_GAVE_UP; break;
    case PR_CONTINUED:
        if (f->outcome != FLOW_CONTINUES)
            err_with(f, "the flow function returned PR_CONTINUED (%d) without pr_continue_as_new()", "", rc);
        break;
    case PR_FAILED:
        if (f->last_seen.category == PR_CATEGORY_NONE)
            err_with(f, "the flow function returned PR_FAILED (%d) without an error", "", rc);
        else
            machine_fail(f, &f->last_seen);
        break;
    case PR_SUSPEND:
        err_with(f, "the flow function returned PR_SUSPEND (%d), but is not waiting for anything", "", rc);
        break;
    default: err_with(f, "the flow function returned %d", f->fault.code == rc ? f->fault.text : "", rc); break;
    }
}

void machine_run(pr_flow *f, pr_flow_function function)
{
    pr_slice output = { "", 0 };
    int rc = function(f, machine_event(f, 0)->data, &output);
    if (f->inert) {
        if (rc != PR_SUSPEND)
            machine_log(f, true,
                        arena_printf(f->arena, "flow %.*s returned %d after PR_SUSPEND; it must return PR_SUSPEND then",
                                     SLICE_ARGS(f->name), rc));
        if (f->outcome == FLOW_OPEN || f->outcome == FLOW_CONTINUES)
            f->outcome = FLOW_SUSPENDED;
        return;
    }
    if (rc != PR_CONTINUED && f->outcome == FLOW_CONTINUES)
        f->outcome = FLOW_OPEN;
    take_return(f, rc, output);
    compare_end(f);
    f->inert = true;
}
