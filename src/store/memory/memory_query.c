/* People's questions. */
#include <string.h>

#include "base/util.h"
#include "store/people/failing.h"
#include "store/memory/memory_model.h"
#include "store/people/ranking.h"

#define LISTED_DEFAULT 100

struct listing {
    struct memory *memory;
    struct arena *arena;
    struct query_reply *reply;
    size_t capacity, limit;
    int64_t now_us;
    bool brief;
};

/* ---- Messages ------------------------------------------------------------------------------- */

static struct listed *listing_room(struct listing *l)
{
    struct query_reply *reply = l->reply;
    if (reply->listed_count == l->capacity) {
        size_t capacity = l->capacity > 0 ? 2 * l->capacity : 16;
        struct listed *listed = arena_alloc_array(l->arena, capacity, sizeof(listed[0]));
        if (listed == NULL)
            return NULL;
        if (reply->listed_count > 0)
            memcpy(listed, reply->listed, reply->listed_count * sizeof(listed[0]));
        reply->listed = listed;
        l->capacity = capacity;
    }
    return &reply->listed[reply->listed_count];
}

static bool listed_set_after_life(struct listed *listed, const struct after_life *after, struct arena *arena)
{
    listed->cause = after->cause;
    listed->limit = after->limit;
    listed->died_us = after->at_us;
    listed->edited_as = after->edited_as;
    listed->rule = slice_dup(arena, after->rule);
    listed->note = slice_dup(arena, after->note);
    listed->fingerprint = slice_dup(arena, slice_from(after->fingerprint));
    return listed->rule.data != NULL && listed->note.data != NULL && listed->fingerprint.data != NULL;
}

static int listing_add(struct listing *l, const struct stored *row, enum state state)
{
    struct listed *listed = listing_room(l);
    char *block = arena_alloc(l->arena, message_bytes(&row->m));
    if (listed == NULL || block == NULL)
        return PR_ENOMEM;
    *listed = (struct listed){ .row = row->row, .state = state, .lane = row->lane };
    message_copy(&row->m, block, &listed->m);
    if (l->brief)
        listed->m.payload = (pr_slice){ NULL, 0 };
    listed->bad = message_defect(&row->m, l->memory->payload_max);
    if (row->bad != NULL)
        listed->bad = row->bad;
    listed->box = slice_dup(l->arena, box_name(row->box));
    listed->endpoint = slice_dup(l->arena, row_endpoint(row));
    if (state == STATE_IN_FLIGHT)
        listed->instance = slice_dup(l->arena, row->in_flight->name);
    if (listed->box.data == NULL || listed->endpoint.data == NULL ||
        (state == STATE_IN_FLIGHT && listed->instance.data == NULL) ||
        (row->after != NULL && !listed_set_after_life(listed, row->after, l->arena)))
        return PR_ENOMEM;
    l->reply->listed_count++;
    return PR_OK;
}

/* The dead letters of all boxes in one order: box by box, each from where its list stands. */
static int listing_dead(struct listing *l, const struct filter *filter)
{
    struct filter rest = *filter;
    for (;;) {
        const struct stored *next = NULL;
        list_foreach(box_node, &l->memory->boxes) {
            const struct box *box = LIST_ENTRY(box_node, struct box, node);
            list_foreach(node, &box->dead) {
                const struct stored *row = LIST_ENTRY(node, struct stored, order);
                if (row->row > rest.after && filter_matches(filter, row, STATE_DEAD)) {
                    next = next == NULL || row->row < next->row ? row : next;
                    break; /* a list is in order */
                }
            }
        }
        if (next == NULL)
            return PR_OK;
        if (l->reply->listed_count == l->limit) {
            reply_is_full(l->reply);
            return PR_OK;
        }
        int rc = listing_add(l, next, STATE_DEAD);
        if (rc < 0)
            return rc;
        rest.after = next->row;
    }
}

/* Those of one list that match and come after the cursor. */
static int listing_scan(struct listing *l, const struct list *rows, const struct filter *filter)
{
    list_foreach(node, rows) {
        const struct stored *row = LIST_ENTRY(node, struct stored, order);
        if (row->row <= filter->after)
            continue;
        enum state state = row_state(l->memory, row, filter, l->now_us);
        if (!filter_matches(filter, row, state))
            continue;
        if (l->reply->listed_count == l->limit) {
            reply_is_full(l->reply);
            return PR_OK;
        }
        int rc = listing_add(l, row, state);
        if (rc < 0)
            return rc;
    }
    return PR_OK;
}

static int query_listed(struct listing *l, const struct query *query)
{
    struct filter filter = query->filter;
    bool by_id = query->kind == QUERY_ID;
    if (by_id)
        filter =
            (struct filter){ .state = -1, .ids = query->filter.ids, .id_count = 1, .routing = query->filter.routing };
    bool live = by_id || (query->kind == QUERY_MESSAGES && filter.state != STATE_DONE);
    bool done = by_id || (query->kind == QUERY_MESSAGES && filter.state == STATE_DONE);
    int rc = PR_OK;

    flights_mark(l->memory);
    list_foreach(node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        struct filter here;
        if (rc == PR_OK && live && !l->reply->more && filter_of_box(&filter, box_name(box), &here))
            rc = listing_scan(l, &box->rows, &here);
        if (rc == PR_OK && by_id)
            rc = listing_scan(l, &box->dead, &filter);
        if (rc == PR_OK && done && !l->reply->more && filter_of_box(&filter, box_name(box), &here))
            rc = listing_scan(l, &box->done, &here);
    }
    return rc == PR_OK && query->kind == QUERY_DEAD ? listing_dead(l, &filter) : rc;
}

/* ---- Counts --------------------------------------------------------------------------------- */

static void count_state(struct box_counts *counts, enum state state)
{
    uint64_t *const places[STATE_COUNT] = {
        [STATE_READY] = &counts->ready,     [STATE_IN_FLIGHT] = &counts->in_flight,
        [STATE_DELAYED] = &counts->delayed, [STATE_RETRYING] = &counts->retrying,
        [STATE_HELD] = &counts->held,       [STATE_PARKED] = &counts->parked,
        [STATE_PAUSED] = &counts->paused,   [STATE_DEAD] = &counts->dead,
        [STATE_DONE] = &counts->done,
    };
    ASSERT(places[state] != NULL);
    *places[state] = *places[state] <= COUNT_EXACT_MAX ? *places[state] + 1 : *places[state];
}

static void count_box(const struct listing *l, const struct box *box, struct box_counts *counts)
{
    const struct list *const lists[] = { &box->rows, &box->dead, &box->done };
    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++) {
        list_foreach(node, lists[i]) {
            const struct stored *row = LIST_ENTRY(node, struct stored, order);
            enum state state = row_state(l->memory, row, NULL, l->now_us);
            count_state(counts, state);
            if (state == STATE_READY && (counts->oldest_us == 0 || message_ready_since(&row->m) < counts->oldest_us))
                counts->oldest_us = message_ready_since(&row->m);
        }
    }
}

static size_t list_length(const struct list *list)
{
    size_t length = 0;
    list_foreach(node, list)
        length++;
    return length;
}

static int query_boxes(struct listing *l)
{
    struct query_reply *reply = l->reply;
    reply->boxes = arena_alloc_array(l->arena, list_length(&l->memory->boxes), sizeof(reply->boxes[0]));
    if (reply->boxes == NULL)
        return PR_ENOMEM;
    flights_mark(l->memory);
    list_foreach(node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        struct box_counts *counts = &reply->boxes[reply->box_count++];
        counts->name = slice_dup(l->arena, box_name(box));
        if (counts->name.data == NULL)
            return PR_ENOMEM;
        count_box(l, box, counts);
        counts->stored = (uint64_t)box->last_seq;
    }
    return PR_OK;
}

static void count_dead(struct listing *l, const struct filter *filter, bool replayable)
{
    list_foreach(box_node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(box_node, struct box, node);
        list_foreach(node, &box->dead) {
            const struct stored *row = LIST_ENTRY(node, struct stored, order);
            l->reply->total += l->reply->total <= COUNT_EXACT_MAX && filter_matches(filter, row, STATE_DEAD) &&
                               (!replayable || pr_id_is_zero(row->after->edited_as));
        }
    }
}

/* ---- What fails -------------------------------------------------------------------------- */

static int query_failing(struct listing *l, const struct query *query)
{
    struct query_reply *reply = l->reply;
    reply->failing = arena_alloc_array(l->arena, list_length(&l->memory->boxes), sizeof(reply->failing[0]));
    if (reply->failing == NULL)
        return PR_ENOMEM;
    list_foreach(node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        struct box_failing *f = &reply->failing[reply->failing_count++];
        f->name = slice_dup(l->arena, box_name(box));
        if (f->name.data == NULL)
            return PR_ENOMEM;
        list_foreach(place, &box->rows) {
            const struct pr_message *m = &LIST_ENTRY(place, struct stored, order)->m;
            if (!message_came_back(m))
                continue;
            if (!failing_add(f, query, m->attempts, m->failures))
                break;
            if (m->held_by.size == 0)
                failing_add_due(f, m->due_us);
        }
        list_foreach(place, &box->dead) {
            const struct stored *row = LIST_ENTRY(place, struct stored, order);
            failing_add_dead(f, row->m.reason, row->after->cause, 1);
        }
    }
    return PR_OK;
}

/* ---- Instances ------------------------------------------------------------------------------ */

static uint64_t instance_in_flight(const struct box *box, const struct instance *instance)
{
    uint64_t count = 0;
    list_foreach(node, &box->rows) {
        const struct stored *row = LIST_ENTRY(node, struct stored, order);
        count += row->flight_stamp == box->memory->flight_stamp && row->in_flight == instance;
    }
    return count;
}

static int query_instance(struct listing *l, const struct box *box, const struct instance *instance)
{
    struct instance_info *info = &l->reply->instances[l->reply->instance_count++];
    *info = (struct instance_info){
        .id = instance->id,
        .epoch = instance->epoch,
        .name = slice_dup(l->arena, instance->name),
        .box = slice_dup(l->arena, box_name(box)),
        .version = slice_dup(l->arena, PR_STR(POSTRIDER_VERSION)),
        .lease_left_us = max64(0, instance->lease_end - clock_mono_us(l->memory->clock)),
        .started_us = instance->started_us,
        .lanes = __builtin_popcountll(instance->lanes),
        .in_flight = instance_in_flight(box, instance),
    };
    return info->name.data != NULL && info->box.data != NULL && info->version.data != NULL ? PR_OK : PR_ENOMEM;
}

static int query_instances(struct listing *l)
{
    size_t count = 0;
    list_foreach(node, &l->memory->boxes)
        count += list_length(&LIST_ENTRY(node, struct box, node)->instances);
    l->reply->instances = arena_alloc_array(l->arena, count, sizeof(l->reply->instances[0]));
    if (l->reply->instances == NULL)
        return PR_ENOMEM;
    flights_mark(l->memory);
    int rc = PR_OK;
    list_foreach(box_node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(box_node, struct box, node);
        list_foreach(node, &box->instances)
            if (rc == PR_OK)
                rc = query_instance(l, box, LIST_ENTRY(node, struct instance, node));
    }
    return rc;
}

static void query_facts(struct listing *l)
{
    int64_t bytes = 0;
    list_foreach(box_node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(box_node, struct box, node);
        list_foreach(node, &box->rows)
            bytes += (int64_t)message_bytes(&LIST_ENTRY(node, struct stored, order)->m);
    }
    l->reply->facts = (struct store_facts){
        .schema_version = 1,
        .schema_wanted = 1,
        .software = PR_STR("memory"),
        .warnings = { PR_STR("messages are lost when the process ends: use sqlite: or postgres: to keep them") },
        .warning_count = 1,
        .bytes = bytes,
    };
}

int memory_query(void *self, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
                 struct pr_error *reterr)
{
    struct memory *memory = self;
    struct query_reply reply = { 0 };
    struct listing l = { .memory = memory,
                         .arena = arena,
                         .reply = &reply,
                         .limit = query->filter.limit > 0 ? query->filter.limit : LISTED_DEFAULT,
                         .brief = query->brief };
    int rc = PR_OK;

    pthread_mutex_lock(&memory->mutex);
    l.now_us = reply.now_us = memory_now(memory);
    switch (query->kind) {
    case QUERY_MESSAGES:
    case QUERY_DEAD:
    case QUERY_ID:
        rc = query_listed(&l, query);
        if (rc == PR_OK)
            rc = breakers_copy(memory, arena, &reply.breakers, &reply.breaker_count);
        break;
    case QUERY_BOXES: rc = query_boxes(&l); break;
    case QUERY_ENDPOINTS:
        rc = endpoints_copy(memory, arena, &reply.endpoints, &reply.endpoint_count);
        if (rc == PR_OK)
            rc = breakers_copy(memory, arena, &reply.breakers, &reply.breaker_count);
        break;
    case QUERY_INSTANCES: rc = query_instances(&l); break;
    case QUERY_FAILING: rc = query_failing(&l, query); break;
    case QUERY_FACTS: query_facts(&l); break;
    case QUERY_DEAD_COUNT: count_dead(&l, &query->filter, query->replayable); break;
    case QUERY_DEAD_GROUPS: rc = memory_groups(memory, query, arena, &reply); break;
    case QUERY_STREAMS: rc = memory_streams(memory, query, arena, &reply); break;
    case QUERY_AUDIT: rc = memory_audit(memory, query, arena, &reply); break;
    }
    pthread_mutex_unlock(&memory->mutex);
    if (rc < 0)
        return error_set(reterr, rc, "there is no memory left for the answer");
    *ret_reply = reply;
    return PR_OK;
}
