/* The checkers of flows.h: they read what is stored, and what the functions of activities did. */
#include "flow_world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "flow/flow_error.h"
#include "flow/machine.h"
#include "flow/replay.h"

/* One execution. */
struct seen_history {
    struct flow_world *w;
    const struct flow_row *row; /* of its flow, as it is now */
    struct flow_history h;
    size_t turns;                 /* in which it was written */
    bool current;                 /* it is the row's */
    bool ended_by_code;           /* or nobody called its code: poison, a history that does not fit */
    struct flow_error error;      /* of a FAILED */
    const struct flow_code *code; /* that fits to it; NULL: none */
    struct arena arena;
};

static const struct flow_event *last_event(const struct seen_history *s)
{
    return &s->h.events[s->h.count - 1];
}

/* ---- Reading -------------------------------------------------------------------------------------------- */

struct flow_row *flow_world_rows(struct flow_world *w, size_t *ret_count)
{
    static struct flow_row rows[FLOW_FLOWS_MAX];
    *ret_count = 0;
    for (size_t i = 0; i < w->flow_count; i++)
        *ret_count += flow_world_row(w, w->flows[i], &rows[*ret_count]);
    return rows;
}

bool flow_world_was_deleted(const struct flow_world *w, pr_slice flow)
{
    for (size_t i = 0; i < w->deleted_count; i++)
        if (slice_eq(w->deleted[i].flow, flow))
            return true;
    return false;
}

size_t flow_world_executions(struct flow_world *w, pr_slice flow, pr_id *ret, size_t max)
{
    const struct query query = { .kind = QUERY_FLOW_EXECUTIONS, .flow.id = flow, .filter.limit = max };
    struct query_reply reply;
    flow_world_ask(w, &query, &reply);
    ASSERT(reply.flow_count < max);
    for (size_t i = 0; i < reply.flow_count; i++)
        ret[i] = reply.flows[i].execution;
    return reply.flow_count;
}

static const struct flow_row *find_row(const struct flow_row *rows, size_t count, pr_slice id)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(rows[i].id, id))
            return &rows[i];
    return NULL;
}

static bool read_history(struct flow_world *w, const struct flow_row *row, pr_id execution, struct flow_history *h,
                         size_t *ret_turns)
{
    const struct query query = { .kind = QUERY_FLOW, .flow = { .id = row->id, .execution = execution } };
    struct query_reply reply;
    struct pr_error error;
    int64_t next = 0;
    flow_history_init(h, execution);
    flow_world_ask(w, &query, &reply);
    *ret_turns = reply.turn_count;
    for (size_t i = 0; i < reply.turn_count; i++) {
        if (reply.turns[i].first != next || flow_history_decode(h, reply.turns[i].events, &error) != PR_OK) {
            flow_broken(w, "I48", "a history of %.*s cannot be read: %s", SLICE_ARGS(row->id),
                        reply.turns[i].first != next ? "a turn is missing" : error.text);
            return false;
        }
        next += reply.turns[i].count;
    }
    return true;
}

/* Prints a history with a breach, after everything that led to it. */
static void show(const struct flow_world *w, pr_slice flow, const struct flow_history *h)
{
    struct buf lines;
    if (w->life->trace == NULL || w->breach->invariant == NULL)
        return;
    buf_init(&lines, SIZE_MAX / 2);
    flow_history_encode(&lines, h->events, h->count, 1);
    fprintf(w->life->trace, "%.*s: %s\n%.*s", SLICE_ARGS(flow), w->breach->text, SLICE_ARGS(buf_slice(&lines)));
    buf_fini(&lines);
}

/* ---- I11 ---------------------------------------------------------------------------------------------------- */

static const struct flow_code *code_of(const struct seen_history *s, size_t program)
{
    const struct flow_event *start = &s->h.events[0];
    pr_slice version = start->more != NULL ? start->more->version : (pr_slice){ "", 0 };
    return flow_registry_find(&s->w->programs[program]->flows, start->name, version);
}

/* Its end was made without its code: the code has only seen what it got before. */
static bool fits(struct seen_history *s, const struct flow_code *code, struct pr_error *reterr)
{
    size_t count = s->h.count;
    struct flow_replayed replayed;
    if (code == NULL)
        return false;
    if (!s->ended_by_code)
        s->h.count--;
    int rc = flow_replay(&s->h, code, &s->arena, &replayed, reterr);
    if (rc == PR_OK && replayed.diverged)
        rc = error_set(reterr, PR_FAILED, "%.*s", SLICE_ARGS(replayed.error.message));
    if (rc == PR_OK)
        rc = flow_check_prefixes(&s->h, code, &s->arena, reterr);
    s->h.count = count;
    return rc == PR_OK;
}

static void check_replays(struct seen_history *s)
{
    struct pr_error error = { .text = "there is no such code" };
    for (size_t i = FLOW_PROGRAMS; i > 0 && s->code == NULL; i--)
        if (fits(s, code_of(s, i - 1), &error))
            s->code = code_of(s, i - 1);
    if (s->code == NULL)
        flow_broken(s->w, "I11", "%.*s: %.150s", SLICE_ARGS(s->row->id), error.text);
    else if (s->error.event > 0 && !s->w->code_changes)
        flow_broken(s->w, "I11", "%.*s: %.*s", SLICE_ARGS(s->row->id), SLICE_ARGS(s->error.message));
    s->w->more.changed += s->error.event > 0;
}

/* ---- I48 ------------------------------------------------------------------------------------------------------ */

static bool was_given(const struct seen_history *s, const struct flow_event *e, pr_slice text)
{
    const struct flow_world *w = s->w;
    for (size_t i = 0; i < w->note_count; i++)
        if (w->notes[i].number == e->task && w->notes[i].failed == e->failed && w->notes[i].text.data != NULL &&
            slice_eq(w->notes[i].text, text))
            return true;
    return false;
}

static void check_task_result(struct seen_history *s, const struct flow_event *e)
{
    struct flow_error error = { .category = PR_CATEGORY_NONE };
    if (e->failed) {
        int rc = flow_error_read(e->data, &s->arena, &error);
        ASSERT(rc == PR_OK);
    }
    if (error.category == PR_CATEGORY_POISON ||
        (e->failed && slice_ends_with(error.message, PR_STR("was not started in time"))))
        return;
    if (!was_given(s, e, e->failed ? error.message : e->data))
        flow_broken(s->w, "I48", "%.*s: the result of task %d, \"%.*s\", is none that its activity gave",
                    SLICE_ARGS(s->row->id), (int)e->task, SLICE_ARGS(e->data));
}

static bool is_same_fact(const struct flow_event *a, const struct flow_event *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case FLOW_EVENT_RESULT:
    case FLOW_EVENT_CHILD_END:
    case FLOW_EVENT_FIRED: return a->task == b->task;
    case FLOW_EVENT_EVENT:
    case FLOW_EVENT_MAIL: return slice_eq(a->data, b->data); /* a number of its own */
    case FLOW_EVENT_STARTED:
    case FLOW_EVENT_CANCEL: return true;
    default: return false;
    }
}

static void check_facts(struct seen_history *s)
{
    const struct flow_event *events = s->h.events;
    for (size_t i = 0; i < s->h.count; i++) {
        const struct flow_event *e = &events[i];
        for (size_t k = 0; k < i; k++)
            if (is_same_fact(e, &events[k]))
                flow_broken(s->w, "I48", "%.*s: events %zu and %zu are the same %s", SLICE_ARGS(s->row->id), k + 1,
                            i + 1, flow_event_kind_name(e->kind));
        if (e->kind == FLOW_EVENT_RESULT)
            check_task_result(s, e);
        if (e->kind == FLOW_EVENT_FIRED && !s->w->clock_steps && e->at_us < events[s->h.tasks[e->task - 1].event].value)
            flow_broken(s->w, "I48", "%.*s: the timer of task %d fired too early", SLICE_ARGS(s->row->id),
                        (int)e->task);
    }
}

/* ---- I49 --------------------------------------------------------------------------------------------------------- */

static void check_children(struct seen_history *s, const struct flow_row *rows, size_t count)
{
    for (size_t i = 0; i < s->h.count; i++) {
        const struct flow_event *e = &s->h.events[i];
        if (e->kind != FLOW_EVENT_CHILD_END)
            continue;
        const struct flow_row *child = find_row(rows, count, s->h.events[s->h.tasks[e->task - 1].event].more->id);
        if (child == NULL && flow_world_was_deleted(s->w, s->h.events[s->h.tasks[e->task - 1].event].more->id))
            continue; /* it was the child of a flow that was deleted */
        if (child == NULL)
            flow_broken(s->w, "I49", "%.*s was told the end of a child that does not exist", SLICE_ARGS(s->row->id));
        else if (pr_id_equal(child->parent_execution, s->h.execution) && child->parent_task == e->task &&
                 ((child->state != FLOW_COMPLETED) != e->failed ||
                  !slice_eq(e->data, e->failed ? child->error : child->output)))
            flow_broken(s->w, "I49", "%.*s was told \"%.*s\" of %.*s, which has ended as %s", SLICE_ARGS(s->row->id),
                        SLICE_ARGS(e->data), SLICE_ARGS(child->id), flow_state_name(child->state));
    }
}

static void check_cancelled(struct flow_world *w, const struct flow_row *child, const struct flow_row *parent)
{
    struct flow_history h, of_parent;
    size_t turns;
    bool is_told = read_history(w, child, child->execution, &h, &turns) && h.cancelled;
    bool is_read = read_history(w, parent, child->parent_execution, &of_parent, &turns);
    if (is_read && !is_told)
        flow_broken(w, "I49", "%.*s runs, though its parent %.*s has ended", SLICE_ARGS(child->id),
                    SLICE_ARGS(parent->id));
    show(w, child->id, &h);
    show(w, parent->id, &of_parent);
    flow_history_fini(&h);
    flow_history_fini(&of_parent);
}

/* Nothing waits for these children any more, and they have been notified. */
void check_cancelled_children(struct flow_world *w)
{
    size_t count;
    const struct flow_row *rows = flow_world_rows(w, &count);
    for (size_t i = 0; i < count && w->breach->invariant == NULL; i++) {
        const struct flow_row *parent = find_row(rows, count, rows[i].parent);
        if (rows[i].state == FLOW_RUNNING && parent != NULL &&
            (parent->state != FLOW_RUNNING || !pr_id_equal(parent->execution, rows[i].parent_execution)))
            check_cancelled(w, &rows[i], parent);
    }
}

/* ---- I50 ----------------------------------------------------------------------------------------------------------- */

static unsigned begun(const struct flow_world *w, pr_id execution, int64_t number)
{
    unsigned count = 0;
    for (size_t i = 0; i < w->note_count; i++)
        count += w->notes[i].text.data == NULL && w->notes[i].number == number &&
                 pr_id_equal(w->notes[i].execution, execution);
    return count;
}

static void check_poison(struct seen_history *s, const struct flow_error *e, bool killer)
{
    struct flow_world *w = s->w;
    if (e->category != PR_CATEGORY_POISON)
        return;
    w->more.poison++;
    if (e->limit != FLOW_ATTEMPTS_MAX || e->count <= FLOW_ATTEMPTS_MAX || e->retryable)
        flow_broken(w, "I50", "%.*s: %.*s", SLICE_ARGS(s->row->id), SLICE_ARGS(e->message));
    if (!killer && w->hardships < FLOW_ATTEMPTS_MAX)
        flow_broken(w, "I50", "%.*s: %.*s, and it never killed anybody", SLICE_ARGS(s->row->id),
                    SLICE_ARGS(e->message));
}

static void check_killer_activity(struct seen_history *s, const struct flow_event *e, const struct flow_error *error)
{
    unsigned tries = begun(s->w, s->h.execution, e->task);
    bool is_last = slice_eq(s->row->id, PR_STR("last"));
    if (!e->failed || (error->category != PR_CATEGORY_POISON && tries > 0))
        flow_broken(s->w, "I50", "%.*s: task %d never returned, and has a result", SLICE_ARGS(s->row->id),
                    (int)e->task);
    if (tries > FLOW_ATTEMPTS_MAX || (is_last && tries != FLOW_ATTEMPTS_MAX))
        flow_broken(s->w, "I50", "%.*s: task %d was begun %u times", SLICE_ARGS(s->row->id), (int)e->task, tries);
}

static void check_all_poison(struct seen_history *s)
{
    for (size_t i = 0; i < s->h.count; i++) {
        const struct flow_event *e = &s->h.events[i];
        struct flow_error error = { .category = PR_CATEGORY_NONE };
        if (e->kind != FLOW_EVENT_RESULT)
            continue;
        int rc = e->failed ? flow_error_read(e->data, &s->arena, &error) : PR_OK;
        bool killer = slice_eq(s->h.events[s->h.tasks[e->task - 1].event].name, PR_STR(FLOW_KILLS));
        ASSERT(rc == PR_OK);
        check_poison(s, &error, killer);
        if (killer)
            check_killer_activity(s, e, &error);
    }
    check_poison(s, &s->error, slice_eq(s->h.events[0].name, PR_STR(FLOW_KILLS)));
    if (slice_eq(s->h.events[0].name, PR_STR(FLOW_KILLS)) && last_event(s)->kind == FLOW_EVENT_COMPLETED)
        flow_broken(s->w, "I50", "%.*s never returned, and has completed", SLICE_ARGS(s->row->id));
}

/* ---- I51 -------------------------------------------------------------------------------------------------------------- */

static void check_end(struct seen_history *s)
{
    static const int states[FLOW_EVENT_KINDS] = { [FLOW_EVENT_COMPLETED] = FLOW_COMPLETED,
                                                  [FLOW_EVENT_FAILED] = FLOW_FAILED,
                                                  [FLOW_EVENT_CANCELLED] = FLOW_CANCELLED };
    const struct flow_event *end = last_event(s);
    const struct flow_row *row = s->row;
    if (row->state != states[end->kind] || (size_t)row->next != s->h.count ||
        (end->kind == FLOW_EVENT_COMPLETED && !slice_eq(row->output, end->data)) ||
        (end->kind == FLOW_EVENT_FAILED && !slice_eq(row->error, end->data)))
        flow_broken(s->w, "I51", "%.*s is %s with %" PRId64 " events, and its history has %zu and ends with %s",
                    SLICE_ARGS(row->id), flow_state_name(row->state), row->next, s->h.count,
                    flow_event_kind_name(end->kind));
}

static void compare_values(struct seen_history *s, const pr_flow *f)
{
    const struct query query = { .kind = QUERY_FLOW, .flow.id = s->row->id };
    struct query_reply reply;
    flow_world_ask(s->w, &query, &reply);
    bool same = reply.value_count == f->state_count && slice_eq(s->row->custom_status, f->status);
    for (size_t i = 0; same && i < f->state_count; i++)
        same = slice_eq(reply.values[i].key, f->state[i].key) && slice_eq(reply.values[i].value, f->state[i].value);
    if (!same)
        flow_broken(s->w, "I51", "%.*s has the status \"%.*s\" and %zu key-values, and by its history \"%.*s\" and %zu",
                    SLICE_ARGS(s->row->id), SLICE_ARGS(s->row->custom_status), reply.value_count, SLICE_ARGS(f->status),
                    f->state_count);
}

/* The values that its code has stored, if it ran.  Where the code was changed in place, a short history fits both, and
 * they store different values. */
static void check_stored(struct seen_history *s)
{
    pr_flow f;
    if (s->w->code_changes || (s->turns == 1 && !s->ended_by_code))
        return;
    int rc = flow_replay_beginning(&f, &s->h, s->h.count - !s->ended_by_code, s->code, &s->arena, NULL);
    ASSERT(rc == PR_OK);
    compare_values(s, &f);
}

/* ---- All of them -------------------------------------------------------------------------------------------------------- */

static void look_at_end(struct seen_history *s)
{
    const struct flow_event *end = last_event(s);
    s->ended_by_code = true;
    if (end->kind != FLOW_EVENT_FAILED)
        return;
    int rc = flow_error_read(end->data, &s->arena, &s->error);
    ASSERT(rc == PR_OK);
    s->ended_by_code = s->error.kind != FLOW_POISON_FLOW && s->error.event == 0;
}

static void check_history(struct flow_world *w, const struct flow_row *row, pr_id execution,
                          const struct flow_row *rows, size_t count)
{
    struct seen_history s = { .w = w, .row = row, .current = pr_id_equal(row->execution, execution) };
    arena_init(&s.arena, 65536);
    bool is_read = read_history(w, row, execution, &s.h, &s.turns);
    if (is_read && (s.h.count == 0 || !flow_event_is_end(last_event(&s)))) {
        flow_broken(w, "I15", "a history of %.*s has no end", SLICE_ARGS(row->id));
    } else if (is_read) {
        look_at_end(&s);
        w->more.histories++;
        w->more.events += s.h.count;
        check_facts(&s);
        check_replays(&s);
        check_children(&s, rows, count);
        check_all_poison(&s);
        if (s.current)
            check_end(&s);
        if (s.current && s.code != NULL)
            check_stored(&s);
    }
    show(w, row->id, &s.h);
    flow_history_fini(&s.h);
    arena_fini(&s.arena);
}

/* I52: none of these is of a flow that was deleted. */
static void check_gone(struct flow_world *w, pr_slice flow, const pr_id *executions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < w->deleted_count; k++)
            if (pr_id_equal(executions[i], w->deleted[k].execution))
                flow_broken(w, "I52", "%.*s was deleted, and its execution is there again", SLICE_ARGS(flow));
}

void check_running_flows(struct flow_world *w)
{
    struct flow_row row;
    struct flow_history h;
    size_t turns;
    for (size_t i = 0; i < w->flow_count; i++) {
        if (!flow_world_row(w, w->flows[i], &row) || row.state != FLOW_RUNNING)
            continue;
        flow_broken(w, "I15", "%.*s has got all that it can wait for, was cancelled, and has not ended",
                    SLICE_ARGS(row.id));
        if (read_history(w, &row, row.execution, &h, &turns))
            show(w, row.id, &h);
        flow_history_fini(&h);
    }
}

void check_flows(struct flow_world *w)
{
    pr_id executions[FLOW_EXECUTIONS_MAX];
    size_t count;
    const struct flow_row *rows = flow_world_rows(w, &count);
    w->more.flows += count;
    for (size_t i = 0; i < count; i++) {
        size_t execution_count = flow_world_executions(w, rows[i].id, executions, FLOW_EXECUTIONS_MAX);
        check_gone(w, rows[i].id, executions, execution_count);
        for (size_t k = 0; k < execution_count && w->breach->invariant == NULL; k++)
            check_history(w, &rows[i], executions[k], rows, count);
    }
}
