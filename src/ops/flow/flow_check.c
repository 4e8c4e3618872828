#include "ops/flow/flow_check.h"

#include "base/error.h"
#include "base/slice.h"
#include "flow/replay.h"

#define CHECK_BLOCK 65536
#define CHECK_PAGE 500

const char *flow_check_name(enum flow_check_outcome outcome)
{
    static const char *const names[] = { "fits", "diverges", "lacks", "damaged" };
    return names[outcome];
}

static int replay(const struct flow_registry *code, const struct flow_history *h, struct arena *arena,
                  struct flow_checked *ret, struct pr_error *reterr)
{
    const struct flow_event *start = &h->events[0];
    struct flow_replayed replayed;

    if (start->kind != FLOW_EVENT_STARTED) {
        ret->outcome = FLOW_CHECK_DAMAGED;
        ret->why = PR_STR("the history does not begin with a start");
        return PR_OK;
    }
    ret->name = start->name;
    ret->version = start->more != NULL ? start->more->version : (pr_slice){ NULL, 0 };
    const struct flow_code *found = flow_registry_find(code, ret->name, ret->version);
    if (found == NULL) {
        ret->outcome = FLOW_CHECK_LACKS;
        ret->why = arena_printf(arena, "the code has no flow %.*s of version %.*s", SLICE_ARGS(ret->name),
                                SLICE_ARGS(ret->version));
        return PR_OK;
    }
    int rc = flow_replay(h, found, arena, &replayed, reterr);
    if (rc != PR_OK || !replayed.diverged)
        return rc;
    ret->outcome = FLOW_CHECK_DIVERGES;
    ret->event = replayed.error.event;
    ret->expected = replayed.error.expected;
    ret->found = replayed.error.found;
    ret->why = replayed.error.message;
    return PR_OK;
}

/* Each text has the lines of a turn. */
static int check_history(const struct flow_registry *code, struct flow_checked *checked,
                         const struct flow_turn_row *turns, size_t turn_count, flow_check_each each, void *arg,
                         struct pr_error *reterr)
{
    struct flow_history history;
    struct pr_error damage;
    struct arena arena;
    int rc = PR_OK;

    arena_init(&arena, CHECK_BLOCK);
    flow_history_init(&history, checked->execution);
    for (size_t i = 0; rc == PR_OK && i < turn_count; i++)
        rc = flow_history_decode(&history, turns[i].events, &damage);
    if (rc == PR_ECORRUPT || rc == PR_EINVAL) {
        checked->outcome = FLOW_CHECK_DAMAGED;
        checked->why = slice_from(damage.text);
        rc = PR_OK;
    } else if (rc == PR_OK && history.count > 0) {
        rc = replay(code, &history, &arena, checked, reterr);
    } else if (rc != PR_OK) {
        rc = error_set(reterr, rc, "%s", damage.text);
    }
    if (rc == PR_OK)
        rc = each(arg, checked);
    flow_history_fini(&history);
    arena_fini(&arena);
    return rc;
}

int flow_check_lines(const struct flow_registry *code, pr_slice lines, flow_check_each each, void *arg,
                     struct pr_error *reterr)
{
    const struct flow_turn_row all = { .events = lines };
    struct flow_checked checked = { 0 };
    if (slice_trim(lines).size == 0)
        return error_set(reterr, PR_EINVAL, "the history is empty");
    return check_history(code, &checked, &all, 1, each, arg, reterr);
}

static int check_one(struct store *store, const struct flow_registry *code, pr_slice flow, flow_check_each each,
                     void *arg, struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_FLOW, .flow = { .id = flow }, .filter.state = -1 };
    struct query_reply reply;
    struct arena arena;

    arena_init(&arena, CHECK_BLOCK);
    int rc = store_query(store, &query, &arena, &reply, reterr);
    if (rc == PR_OK && reply.flow_count == 0) {
        rc = PR_UNKNOWN;
    } else if (rc == PR_OK) {
        const struct flow_row *row = &reply.flows[0];
        struct flow_checked checked = {
            .flow = row->id, .name = row->name, .version = row->version, .execution = row->execution
        };
        rc = check_history(code, &checked, reply.turns, reply.turn_count, each, arg, reterr);
    }
    arena_fini(&arena);
    return rc;
}

int flow_check_stored(struct store *store, const struct flow_registry *code, pr_slice flow, flow_check_each each,
                      void *arg, struct pr_error *reterr)
{
    struct query query = { .kind = QUERY_FLOWS,
                           .flow = { .state = FLOW_RUNNING },
                           .filter = { .state = -1, .limit = CHECK_PAGE } };
    struct query_reply page = { .more = true };
    struct arena arena;
    int rc = PR_OK;

    if (flow.size > 0)
        return check_one(store, code, flow, each, arg, reterr);
    arena_init(&arena, CHECK_BLOCK);
    while (rc == PR_OK && page.more) {
        rc = store_query(store, &query, &arena, &page, reterr);
        for (size_t i = 0; rc == PR_OK && i < page.flow_count; i++) {
            rc = check_one(store, code, page.flows[i].id, each, arg, reterr);
            rc = rc == PR_UNKNOWN ? PR_OK : rc; /* it was deleted meanwhile */
        }
        if (rc != PR_OK || page.flow_count == 0)
            break;
        query.flow.after_us = page.flows[page.flow_count - 1].created_us;
        query.flow.after_id = page.flows[page.flow_count - 1].id;
    }
    arena_fini(&arena);
    return rc;
}
