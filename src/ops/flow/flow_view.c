#include "ops/flow/flow_view.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/shell.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "flow/flow_error.h"
#include "ops/explain/words.h"
#include "runtime/flow/flows.h"

#define VIEW_TEXT_MAX (1u << 20)
#define PENDING_SHOWN 100

static const char *clean(const struct flow_view *v, pr_slice text)
{
    return text_clean_copy(v->arena, text);
}

static const char *argument(const struct flow_view *v)
{
    return shell_argument(v->arena, v->id);
}

static const char *in_time(const struct flow_view *v, int64_t us)
{
    return us > v->now_us
               ? arena_printf(v->arena, "in %s (%s)", span_words(v->arena, us - v->now_us), time_words(v->arena, us))
                     .data
               : "now";
}

const char *flow_error_words(struct arena *arena, pr_slice error)
{
    struct flow_error e = { 0 };
    if (flow_error_read(error, arena, &e) != PR_OK || e.message.size == 0)
        return text_clean_copy(arena, error);
    return text_clean_copy(arena, e.message);
}

const char *flow_event_words(struct arena *arena, const struct flow_event *e)
{
    const char *kind = flow_event_kind_name(e->kind), *name = text_clean_copy(arena, e->name);
    if (e->task == 0)
        return arena_printf(arena, "%s%s%s", kind, name[0] != '\0' ? " " : "", name).data;
    return arena_printf(arena, "%s %s#%d", kind, name, (int)e->task).data;
}

const char *flow_of_message(struct arena *arena, const struct config *config, pr_slice box,
                            const struct pr_message *message)
{
    const struct config_box *known = config_find_box(config, box);
    struct activity_message activity;
    struct turn_message turn;
    struct pr_error ignored;
    if (known != NULL && known->kind == BOX_TURNS && message->stream.size > 0) {
        if (turn_message_read(message, arena, &turn, &ignored) != PR_OK)
            return arena_printf(arena, "a message that cannot be decoded, for flow %s",
                                text_clean_copy(arena, message->stream))
                .data;
        return arena_printf(arena, "a message (%s%s%s) for flow %s", turn_message_type(turn.kind),
                            turn.name.size > 0 ? " " : "", text_clean_copy(arena, turn.name),
                            text_clean_copy(arena, turn.flow))
            .data;
    }
    if (known == NULL || known->kind != BOX_ACTIVITIES ||
        activity_message_read(message, arena, &activity, &ignored) != PR_OK)
        return NULL;
    return arena_printf(arena, "activity %s#%lld of flow %s", text_clean_copy(arena, activity.name),
                        (long long)activity.task, text_clean_copy(arena, activity.flow))
        .data;
}

const char *session_words(struct store *store, struct arena *arena, pr_slice session, int64_t now_us)
{
    struct session_info info;
    struct pr_error ignored;
    if (session.size == 0 || store_session_look(store, session, arena, &info, &ignored) != PR_OK)
        return NULL; /* or none of its activities has begun */
    const char *name = text_clean_copy(arena, session), *instance = text_clean_copy(arena, info.instance),
               *since = span_words(arena, max64(now_us - info.since_us, 0));
    if (info.moved_from.size == 0)
        return arena_printf(arena, "session %s is at %s, for %s", name, instance, since).data;
    return arena_printf(arena, "session %s is at %s, for %s; it moved there from %s", name, instance, since,
                        text_clean_copy(arena, info.moved_from))
        .data;
}

/* ---- Reading ------------------------------------------------------------------------------------------- */

int flow_view_read(struct flow_view *v, struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_FLOW,
                                 .flow = { .id = v->id, .execution = v->execution },
                                 .filter.state = -1 };
    struct query_reply reply;
    struct pr_error damage;
    int rc = store_query(v->store, &query, v->arena, &reply, reterr);
    v->row = rc == PR_OK && reply.flow_count > 0 ? &reply.flows[0] : NULL;
    flow_history_init(&v->history, v->row != NULL ? v->row->execution : v->execution);
    v->now_us = store_time(v->store);
    if (rc != PR_OK)
        return rc;
    v->values = reply.values;
    v->value_count = reply.value_count;
    for (size_t i = 0; i < reply.turn_count && v->damaged == NULL; i++) {
        rc = flow_history_decode(&v->history, reply.turns[i].events, &damage);
        if (rc == PR_ENOMEM)
            return error_set(reterr, rc, "out of memory for a history");
        if (rc != PR_OK)
            v->damaged = text_clean_copy(v->arena, slice_from(damage.text));
    }
    return PR_OK;
}

void flow_view_fini(struct flow_view *v)
{
    flow_history_fini(&v->history);
}

static int read_pending(struct flow_view *v, struct pr_error *reterr)
{
    const struct query query = {
        .kind = QUERY_MESSAGES,
        .brief = true,
        .filter = { .box = flow_box(v->config, BOX_TURNS), .stream = v->id, .state = -1, .limit = PENDING_SHOWN }
    };
    struct query_reply reply;
    int rc = store_query(v->store, &query, v->arena, &reply, reterr);
    if (rc != PR_OK)
        return rc;
    v->pending = reply.listed;
    /* A timer that has not fired is not pending: the flow waits for it. */
    for (size_t i = 0; i < reply.listed_count; i++)
        if (reply.listed[i].m.due_us <= v->now_us ||
            !slice_eq_cstr(reply.listed[i].m.type, turn_message_type(TURN_TIMER)))
            reply.listed[v->pending_count++] = reply.listed[i];
    return PR_OK;
}

/* ---- What it waits for ----------------------------------------------------------------------------------- */

static const char *attempts_words(const struct flow_view *v, const struct listed *l)
{
    if (l->m.failures == 0)
        return l->m.error.size > 0 ? arena_printf(v->arena, "; %s", clean(v, l->m.error)).data : "";
    return arena_printf(v->arena, "; it failed %s, last with: %s",
                        count_words(v->arena, (uint64_t)l->m.failures, "time", "times"), clean(v, l->m.error))
        .data;
}

static const char *activity_words(const struct flow_view *v, const struct flow_wait *w, const struct listed *l)
{
    const char *tag =
        w->tag.size > 0 ? arena_printf(v->arena, " (for a worker that offers %s)", clean(v, w->tag)).data : "";
    if (l == NULL)
        return "its result is on its way, or it is dead: see postrider dead list --box activities";
    switch (l->state) {
    case STATE_IN_FLIGHT:
        return arena_printf(v->arena, "it is running at %s, attempt %d%s",
                            l->instance.size > 0 ? clean(v, l->instance) : "an instance", l->m.attempts + 1,
                            attempts_words(v, l))
            .data;
    case STATE_RETRYING:
    case STATE_DELAYED:
        return arena_printf(v->arena, "it is tried again %s%s%s", in_time(v, l->m.due_us), tag, attempts_words(v, l))
            .data;
    case STATE_READY:
    case STATE_HELD: return arena_printf(v->arena, "no worker has taken it yet%s%s", tag, attempts_words(v, l)).data;
    case STATE_DEAD: return arena_printf(v->arena, "it is dead%s", attempts_words(v, l)).data;
    default: return arena_printf(v->arena, "it is %s%s", state_name(l->state), attempts_words(v, l)).data;
    }
}

static const char *wait_words(const struct flow_view *v, const struct flow_wait *w, const struct listed *l)
{
    const char *since = span_words(v->arena, max64(v->now_us - w->since_us, 0)), *name = clean(v, w->name);
    long long task = (long long)w->task;
    struct arena *a = v->arena;
    switch (w->kind) {
    case FLOW_EVENT_ACTIVITY:
        return arena_printf(a, "activity %s#%lld, for %s: %s", name, task, since, activity_words(v, w, l)).data;
    case FLOW_EVENT_TIMER:
        return arena_printf(a, "timer #%lld, for %s: it fires %s", task, since, in_time(v, w->due_us)).data;
    case FLOW_EVENT_WAIT:
        return arena_printf(a, "event %s, for %s: postrider flow raise %s %s", name, since, argument(v),
                            shell_argument(a, w->name))
            .data;
    case FLOW_EVENT_WAIT_MAIL:
        return arena_printf(a, "mail in %s, for %s: postrider flow send %s %s", name, since, argument(v),
                            shell_argument(a, w->name))
            .data;
    default:
        return arena_printf(a, "flow %s (%s), for %s: postrider why %s", clean(v, w->child), name, since,
                            shell_argument(a, w->child))
            .data;
    }
}

/* Rows of activities, by their ids. */
static int read_rows(struct flow_view *v, const struct flow_wait *waits, size_t count, struct query_reply *ret,
                     struct pr_error *reterr)
{
    pr_id *ids = arena_alloc_array(v->arena, count, sizeof *ids);
    struct query query = { .kind = QUERY_MESSAGES,
                           .brief = true,
                           .filter = { .box = flow_box(v->config, BOX_ACTIVITIES), .state = -1, .ids = ids } };
    *ret = (struct query_reply){ 0 };
    if (ids == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for what a flow waits for");
    for (size_t i = 0; i < count; i++)
        if (waits[i].kind == FLOW_EVENT_ACTIVITY)
            ids[query.filter.id_count++] = waits[i].id;
    query.filter.limit = query.filter.id_count;
    return query.filter.id_count > 0 ? store_query(v->store, &query, v->arena, ret, reterr) : PR_OK;
}

static const struct listed *find_row(const struct query_reply *rows, pr_id id)
{
    for (size_t i = 0; i < rows->listed_count; i++)
        if (pr_id_equal(rows->listed[i].m.id, id))
            return &rows->listed[i];
    return NULL;
}

static int read_waits(struct flow_view *v, struct pr_error *reterr)
{
    const struct flow_wait *waits;
    struct query_reply rows;
    if (v->row == NULL || flow_has_ended(v->row) || v->damaged != NULL || v->history.count == 0)
        return PR_OK;
    if (flow_waits(&v->history, v->arena, &waits, &v->waits_in_all) != PR_OK)
        return error_set(reterr, PR_ENOMEM, "out of memory for what a flow waits for");
    size_t count = min_size(v->waits_in_all, FLOW_WAITS_SHOWN);
    struct flow_waited *all = arena_alloc_array(v->arena, count, sizeof *all);
    int rc = all != NULL ? read_rows(v, waits, count, &rows, reterr) : PR_ENOMEM;
    if (rc != PR_OK)
        return rc;
    for (size_t i = 0; i < count; i++) {
        all[i] = (struct flow_waited){ .wait = &waits[i], .row = find_row(&rows, waits[i].id) };
        all[i].words = wait_words(v, &waits[i], all[i].row);
    }
    v->waits = all;
    v->wait_count = count;
    return PR_OK;
}

/* ---- In words ------------------------------------------------------------------------------------------- */

static void add(struct flow_view *v, const char *what, const char *format, const char *rest)
{
    ASSERT(v->command_count < WHY_COMMANDS_MAX);
    v->commands[v->command_count++] =
        (struct message_why_command){ arena_printf(v->arena, "postrider flow %s %s%s", format, argument(v), rest).data,
                                      what };
}

static void say_pending(const struct flow_view *v, struct buf *b)
{
    const struct listed *first = v->pending_count > 0 ? &v->pending[0] : NULL;
    if (first == NULL)
        return;
    buf_addf(b, "%s for it in the box %s, the first since %s",
             count_words(v->arena, v->pending_count, "message waits", "messages wait"), clean(v, first->box),
             span_words(v->arena, max64(v->now_us - first->m.created_us, 0)));
    if (first->state == STATE_IN_FLIGHT)
        buf_addf(b, "; a turn is running at %s", clean(v, first->instance));
    else if (first->m.due_us > v->now_us)
        buf_addf(b, "; its turn comes %s", in_time(v, first->m.due_us));
    if (first->m.error.size > 0)
        buf_addf(b, "; last: %s", clean(v, first->m.error));
    buf_addf(b, ".\n");
}

static void say_now(const struct flow_view *v, struct buf *b)
{
    const struct flow_row *r = v->row;
    if (r == NULL) {
        buf_addf(b, "It has not started: its first turn has not run yet.\n");
    } else if (r->state == FLOW_RUNNING) {
        buf_addf(b, "It has been running for %s; its last turn was %s ago.\n",
                 span_words(v->arena, max64(v->now_us - r->created_us, 0)),
                 span_words(v->arena, max64(v->now_us - r->updated_us, 0)));
    } else {
        buf_addf(b, "It %s %s ago (%s)%s%s.\n",
                 r->state == FLOW_FAILED      ? "failed"
                 : r->state == FLOW_CANCELLED ? "was cancelled"
                                              : "was completed",
                 span_words(v->arena, max64(v->now_us - r->updated_us, 0)), time_words(v->arena, r->updated_us),
                 r->error.size > 0 ? ": " : "", r->error.size > 0 ? flow_error_words(v->arena, r->error) : "");
    }
    if (v->history.cancelled && r != NULL && r->state == FLOW_RUNNING)
        buf_addf(b, "It is being cancelled, and may clean up.\n");
    if (v->damaged != NULL)
        buf_addf(b, "Its history is damaged: %s\n", v->damaged);
    say_pending(v, b);
}

static void say_next(const struct flow_view *v, struct buf *b)
{
    if (v->row == NULL) {
        buf_addf(b, "It starts when an instance that has its code serves the box %.*s.\n",
                 SLICE_ARGS(flow_box(v->config, BOX_TURNS)));
        return;
    }
    if (flow_has_ended(v->row)) {
        buf_addf(b, "Nothing: it has ended.\n");
        return;
    }
    if (v->pending_count > 0)
        buf_addf(b, "Its next turn, for the messages that already wait.\n");
    else if (v->waits_in_all > 0)
        buf_addf(b, "A turn when one of these ends:\n");
    else
        buf_addf(b, "A turn when an event or mail arrives.\n");
    for (size_t i = 0; i < v->wait_count; i++)
        buf_addf(b, "- %s\n", v->waits[i].words);
    if (v->waits_in_all > v->wait_count)
        buf_addf(b, "- and %zu more\n", v->waits_in_all - v->wait_count);
}

/* A start whose code no instance has: nobody can clean up and stop it, either. */
static void add_discard(struct flow_view *v)
{
    const struct listed *first = v->pending_count > 0 ? &v->pending[0] : NULL;
    char id[PR_ID_TEXT_SIZE];
    if (v->row != NULL || first == NULL || flow_unknown_since_us(&first->m) == 0)
        return;
    pr_id_format(first->m.id, id);
    ASSERT(v->command_count < WHY_COMMANDS_MAX);
    v->commands[v->command_count++] =
        (struct message_why_command){ arena_printf(v->arena, "postrider discard %s", id).data,
                                      "forget its start, if its name is wrong" };
}

static void add_commands(struct flow_view *v)
{
    bool runs = v->row == NULL || !flow_has_ended(v->row);
    bool retries = false;
    add_discard(v);
    for (size_t i = 0; i < v->wait_count; i++)
        retries |= v->waits[i].row != NULL && v->waits[i].row->state == STATE_RETRYING;
    if (v->row != NULL)
        add(v, "what happened, event by event", "history", "");
    if (v->row != NULL && v->row->state == FLOW_FAILED)
        add(v, "continue from before its failure", "retry", "");
    else if (retries)
        add(v, "retry pending activities now", "retry", "");
    if (runs) {
        add(v, "ask it to clean up and stop", "cancel", " --why 'TEXT'");
    } else {
        add(v, "restart with the same input", "retry", " --restart");
        add(v, "delete it with its history and children", "delete", "");
    }
}

int flow_view_make(struct flow_view *v, struct pr_error *reterr)
{
    struct buf now, next;
    flow_history_init(&v->history, v->execution);
    v->now_us = store_time(v->store);
    /* first: messages that are not pending have been seen by the row that is read next */
    int rc = read_pending(v, reterr);
    if (rc == PR_OK)
        rc = flow_view_read(v, reterr);
    if (rc == PR_OK && v->row == NULL && v->pending_count == 0)
        return PR_UNKNOWN;
    if (rc == PR_OK)
        rc = read_waits(v, reterr);
    if (rc != PR_OK)
        return rc;
    buf_init(&now, VIEW_TEXT_MAX);
    buf_init(&next, VIEW_TEXT_MAX);
    say_now(v, &now);
    say_next(v, &next);
    v->now = slice_dup(v->arena, buf_slice(&now)).data;
    v->next = slice_dup(v->arena, buf_slice(&next)).data;
    bool failed = buf_failed(&now) != PR_OK || buf_failed(&next) != PR_OK || v->now == NULL || v->next == NULL;
    buf_fini(&now);
    buf_fini(&next);
    add_commands(v);
    return failed ? error_set(reterr, PR_ENOMEM, "out of memory for the answer") : PR_OK;
}
