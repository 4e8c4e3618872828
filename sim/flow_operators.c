/* People in flow_world.h: they cancel, resume and restart flows, delete them with their children, and prune old
 * executions.  The result of an order is checked directly after it (I52). */
#include "flow_world.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"
#include "flow/activity.h"
#include "flow/flow_id.h"

#define MESSAGES_MAX 1000

/* ---- Messages to flows ---------------------------------------------------------------------------------- */

/* A failed flow is resumed, or another one begins from its start. */
static void begin_again(struct flow_world *w, const struct flow_row *row)
{
    struct turn_message m = { .kind = TURN_START, .flow = row->id, .name = row->name };
    pr_id id = { { 0 } };
    if (row->state == FLOW_FAILED) {
        m.version = row->version;
        m.data = row->input;
        m.resume = true;
        id = flow_resume_id(row->execution);
    } else {
        m.restart = true;
        m.data = PR_STR("again");
    }
    flow_world_tell(w, &m, id);
    w->more.resumed += m.resume;
}

/* A flow that was deleted begins as if it had never existed. */
static void begin_deleted(struct flow_world *w, pr_slice flow)
{
    const struct turn_message m = {
        .kind = TURN_START, .flow = flow, .name = PR_STR("root"), .data = PR_STR("after its deletion")
    };
    flow_world_tell(w, &m, flow_start_id(flow));
}

/* ---- Deleting --------------------------------------------------------------------------------------------- */

static void ask_box(struct flow_world *w, const char *box, struct query_reply *ret)
{
    const struct query query = { .kind = QUERY_MESSAGES,
                                 .filter = { .box = slice_from(box), .state = -1, .limit = MESSAGES_MAX } };
    flow_world_ask(w, &query, ret);
    ASSERT(ret->listed_count < MESSAGES_MAX);
}

static bool execution_of(struct flow_world *w, const struct pr_message *m, pr_id *ret)
{
    struct activity_message a;
    struct pr_error ignored;
    if (activity_message_read(m, &w->kept, &a, &ignored) != PR_OK)
        return false;
    *ret = a.execution;
    return true;
}

static void keep_message(struct flow_world *w, const struct pr_message *m, struct pr_message *ret)
{
    char *block = arena_alloc(&w->kept, message_bytes(m));
    ASSERT(block != NULL);
    message_copy(m, block, ret);
}

/* Keeps an activity, as if the order had missed it. */
static void keep_activity(struct flow_world *w, const struct pr_message *m)
{
    int answer, rc = store_enqueue(&w->store, PR_STR("activities"), m, 1, PR_PAYLOAD_MAX, NULL, &answer, NULL);
    ASSERT(rc == PR_OK);
}

static void check_nothing_waits(struct flow_world *w, const struct flow_deleted *d)
{
    struct query_reply reply;
    pr_id execution;
    ask_box(w, "turns", &reply);
    for (size_t i = 0; i < reply.listed_count; i++)
        if (slice_eq(reply.listed[i].m.stream, d->flow))
            flow_broken(w, "I52", "%.*s was deleted, and a %.*s waits for it", SLICE_ARGS(d->flow),
                        SLICE_ARGS(reply.listed[i].m.type));
    ask_box(w, "activities", &reply);
    for (size_t i = 0; i < reply.listed_count; i++)
        if (execution_of(w, &reply.listed[i].m, &execution) && pr_id_equal(execution, d->execution))
            flow_broken(w, "I52", "%.*s was deleted, and its activity %.*s waits", SLICE_ARGS(d->flow),
                        SLICE_ARGS(reply.listed[i].m.type));
}

/* Records these rows before the order. */
static size_t note_deleted(struct flow_world *w, const struct flow_row *rows, size_t count, const pr_id *executions,
                           const size_t *execution_counts)
{
    struct flow_row now;
    size_t gone = 0;
    for (size_t i = 0; i < count; executions += execution_counts[i++]) {
        if (flow_world_row(w, rows[i].id, &now)) {
            if (now.parent.size > 0 && !flow_world_row(w, now.parent, &(struct flow_row){ 0 }))
                flow_broken(w, "I52", "%.*s stays, and its parent %.*s was deleted", SLICE_ARGS(now.id),
                            SLICE_ARGS(now.parent));
            continue;
        }
        gone++;
        for (size_t k = 0; k < execution_counts[i]; k++) {
            ASSERT(w->deleted_count < FLOW_FLOWS_MAX);
            w->deleted[w->deleted_count] = (struct flow_deleted){ rows[i].id, executions[k] };
            check_nothing_waits(w, &w->deleted[w->deleted_count++]);
        }
    }
    return gone;
}

static void delete_flow(struct flow_world *w, pr_slice flow)
{
    static pr_id executions[FLOW_FLOWS_MAX];
    static size_t execution_counts[FLOW_FLOWS_MAX];
    size_t count, all = 0;
    const struct flow_row *rows = flow_world_rows(w, &count);
    const struct flow_order order = { .flows = &flow, .flow_count = 1, .force = random_chance(&w->random, 0.7) };
    const struct admin admin = { .kind = ADMIN_FLOW_DELETE, .filter.state = -1, .by = PR_STR("sim"), .flow = &order };
    struct admin_reply reply;
    struct query_reply waiting;
    struct pr_message kept = { .payload = { NULL, 0 } };
    for (size_t i = 0; i < count; i++, all += execution_counts[i - 1])
        execution_counts[i] = flow_world_executions(w, rows[i].id, &executions[all], FLOW_FLOWS_MAX - all);
    if (w->bug == FLOWS_DELETED_STAYS) {
        ask_box(w, "activities", &waiting);
        if (waiting.listed_count > 0)
            keep_message(w, &waiting.listed[0].m, &kept);
    }
    int rc = store_admin(&w->store, &admin, &reply, NULL);
    ASSERT(rc == PR_OK);
    if (kept.type.size > 0)
        keep_activity(w, &kept);
    size_t gone = note_deleted(w, rows, count, executions, execution_counts);
    flow_happened(w, "delete %.*s: %" PRIu64, SLICE_ARGS(flow), reply.changed);
    if (gone != reply.changed)
        flow_broken(w, "I52", "%" PRIu64 " flows were deleted, and %zu are gone", reply.changed, gone);
}

/* ---- Pruning ------------------------------------------------------------------------------------------------ */

static void prune(struct flow_world *w)
{
    pr_id before[FLOW_EXECUTIONS_MAX], after[FLOW_EXECUTIONS_MAX];
    size_t before_count = 0, after_count = 0, count, keep = (size_t)random_below(&w->random, 2);
    const struct flow_row *rows = flow_world_rows(w, &count);
    const struct flow_order order = { .keep = (int64_t)keep - (w->bug == FLOWS_PRUNE_IS_GREEDY) };
    const struct admin admin = { .kind = ADMIN_FLOW_PRUNE, .filter.state = -1, .by = PR_STR("sim"), .flow = &order };
    struct admin_reply reply;
    static size_t had[FLOW_FLOWS_MAX];
    for (size_t i = 0; i < count; i++, before_count += had[i - 1])
        had[i] = flow_world_executions(w, rows[i].id, before, FLOW_EXECUTIONS_MAX);
    int rc = store_admin(&w->store, &admin, &reply, NULL);
    ASSERT(rc == PR_OK);
    for (size_t i = 0; i < count; i++) {
        size_t has = flow_world_executions(w, rows[i].id, after, FLOW_EXECUTIONS_MAX);
        if (has != min_size(had[i], keep + 1) || (has > 0 && !pr_id_equal(after[0], rows[i].execution)))
            flow_broken(w, "I52",
                        "%.*s had %zu executions, and %zu after pruning that should keep %zu and the current one",
                        SLICE_ARGS(rows[i].id), had[i], has, keep);
        after_count += has;
    }
    if (before_count - after_count != reply.changed)
        flow_broken(w, "I52", "%" PRIu64 " executions were pruned, and %zu are gone", reply.changed,
                    before_count - after_count);
    w->more.pruned += reply.changed;
    flow_happened(w, "prune %" PRIu64, reply.changed);
}

void flow_operators_act(struct flow_world *w, pr_slice flow)
{
    const struct turn_message cancel = { .kind = TURN_CANCEL, .flow = flow, .data = PR_STR("enough") };
    struct flow_row row;
    double what = random_double(&w->random);
    bool people = w->life->sqlite; /* the memory store has no orders about flows */
    if (what < 0.25)
        flow_world_tell(w, &cancel, (pr_id){ { 0 } });
    else if (what < 0.45 && people)
        delete_flow(w, flow);
    else if (what < 0.6 && people)
        prune(w);
    else if (flow_world_row(w, flow, &row) && flow_has_ended(&row))
        begin_again(w, &row);
    else if (flow_world_was_deleted(w, flow))
        begin_deleted(w, flow);
}
