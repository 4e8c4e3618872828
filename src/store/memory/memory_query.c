/* The questions of the simulator.  All other questions are put to databases (store/people). */
#include <string.h>

#include "base/util.h"
#include "store/memory/memory_model.h"
#include "store/people/ranking.h"

#define LISTED_DEFAULT 100

struct memory_listing {
    struct memory *memory;
    struct arena *arena;
    struct query_reply *reply;
    size_t capacity, limit;
    int64_t now_us;
    bool brief;
};

/* ---- Messages ------------------------------------------------------------------------------- */

static struct listed *listing_room(struct memory_listing *l)
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

static int listing_add(struct memory_listing *l, const struct stored_row *row, enum state state)
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

/* The first row of a list, from here on, that matches; NULL: none. */
static const struct stored_row *dead_from(const struct list *list, struct list_node *node, const struct filter *filter)
{
    for (; node != NULL; node = list_next(list, node)) {
        const struct stored_row *row = LIST_ENTRY(node, struct stored_row, order);
        if (row->row > filter->after && filter_matches(filter, row, STATE_DEAD))
            return row;
    }
    return NULL;
}

/* The dead letters of all boxes in one order: each list is in order, and at[i] is the position in that of box i. */
static int listing_dead(struct memory_listing *l, const struct filter *filter)
{
    size_t count = 0, i = 0;
    list_foreach(node, &l->memory->boxes)
        count++;
    struct stored_row const **at = arena_alloc_array(l->arena, count, sizeof(*at));
    if (at == NULL)
        return PR_ENOMEM;
    list_foreach(node, &l->memory->boxes) {
        const struct list *dead = &LIST_ENTRY(node, struct box, node)->dead;
        at[i++] = dead_from(dead, list_first(dead), filter);
    }
    for (;;) {
        size_t next = 0;
        for (i = 1; i < count; i++)
            if (at[i] != NULL && (at[next] == NULL || at[i]->row < at[next]->row))
                next = i;
        if (count == 0 || at[next] == NULL)
            return PR_OK;
        if (l->reply->listed_count == l->limit) {
            reply_is_full(l->reply);
            return PR_OK;
        }
        int rc = listing_add(l, at[next], STATE_DEAD);
        if (rc < 0)
            return rc;
        const struct list *dead = &at[next]->box->dead;
        at[next] = dead_from(dead, list_next(dead, &at[next]->order), filter);
    }
}

/* The rows of one list that match and come after the cursor. */
static int listing_scan(struct memory_listing *l, const struct list *rows, const struct filter *filter)
{
    list_foreach(node, rows) {
        const struct stored_row *row = LIST_ENTRY(node, struct stored_row, order);
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

/* The newest first, as in a database. */
static int listing_ended(struct memory_listing *l, pr_id id)
{
    size_t first = l->reply->listed_count;
    list_foreach(node, &l->memory->ended) {
        const struct stored_ended *entry = LIST_ENTRY(node, struct stored_ended, node);
        struct listed *room = pr_id_equal(entry->e.id, id) ? listing_room(l) : NULL;
        if (!pr_id_equal(entry->e.id, id))
            continue;
        if (room == NULL)
            return PR_ENOMEM;
        memmove(&l->reply->listed[first + 1], &l->reply->listed[first],
                (l->reply->listed_count - first) * sizeof(l->reply->listed[0]));
        struct listed ended = listed_ended(&entry->e, entry->at_us, entry->by);
        ended.box = slice_dup(l->arena, ended.box);
        ended.endpoint = slice_dup(l->arena, ended.endpoint);
        ended.instance = slice_dup(l->arena, ended.instance);
        if (ended.box.data == NULL || ended.endpoint.data == NULL || ended.instance.data == NULL)
            return PR_ENOMEM;
        l->reply->listed[first] = ended;
        l->reply->listed_count++;
    }
    return PR_OK;
}

static size_t count_marks(const struct memory *memory, pr_id id)
{
    size_t count = 0;
    list_foreach(node, &memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        for (const struct stored_mark *m = mark_next_of_id(box, id, NULL); m != NULL; m = mark_next_of_id(box, id, m))
            count++;
    }
    return count;
}

static int mark_found(struct memory_listing *l, const struct box *box, const struct stored_mark *mark, bool alone)
{
    struct mark_info *found = &l->reply->marks[l->reply->mark_count++];
    *found = (struct mark_info){ .box = slice_dup(l->arena, box_name(box)),
                                 .handler = slice_dup(l->arena, mark->handler),
                                 .outcome = mark->outcome,
                                 .at_us = mark->at_us };
    struct listed *room = alone ? listing_room(l) : NULL;
    if (found->box.data == NULL || found->handler.data == NULL || (alone && room == NULL))
        return PR_ENOMEM;
    if (alone)
        l->reply->listed[l->reply->listed_count++] = listed_marked(found, mark->id);
    return PR_OK;
}

/* And, where only its mark remains, as an entry of the listing. */
static int listing_marks(struct memory_listing *l, pr_id id)
{
    bool alone = l->reply->listed_count == 0;
    l->reply->marks = arena_alloc_array(l->arena, count_marks(l->memory, id), sizeof(l->reply->marks[0]));
    int rc = l->reply->marks != NULL ? PR_OK : PR_ENOMEM;
    list_foreach(node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        for (const struct stored_mark *m = mark_next_of_id(box, id, NULL); m != NULL && rc == PR_OK;
             m = mark_next_of_id(box, id, m))
            rc = mark_found(l, box, m, alone);
    }
    return rc;
}

static size_t count_again(const struct memory *memory, pr_id id)
{
    size_t count = 0;
    list_foreach(node, &memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        for (const struct stored_again *a = again_next_of_id(box, id, NULL); a != NULL;
             a = again_next_of_id(box, id, a))
            count++;
    }
    return count;
}

static int listing_again(struct memory_listing *l, pr_id id)
{
    struct query_reply *reply = l->reply;
    reply->again = arena_alloc_array(l->arena, count_again(l->memory, id), sizeof(reply->again[0]));
    if (reply->again == NULL)
        return PR_ENOMEM;
    list_foreach(node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        for (const struct stored_again *a = again_next_of_id(box, id, NULL); a != NULL;
             a = again_next_of_id(box, id, a))
            reply->again[reply->again_count++] =
                (struct again_info){ .box = slice_dup(l->arena, box_name(box)),
                                     .destination = slice_dup(l->arena, a->destination),
                                     .times = a->times,
                                     .at_us = a->at_us };
    }
    return PR_OK;
}

/* The rows of one id. */
static int listing_id(struct memory_listing *l, const struct box *box, bool dead, const struct filter *filter)
{
    int rc = PR_OK;
    for (const struct stored_row *row = row_next_of_id(box, dead, filter->ids[0], filter->after);
         row != NULL && rc == PR_OK; row = row_next_of_id(box, dead, filter->ids[0], row->row))
        rc = listing_add(l, row, row_state(l->memory, row, filter, l->now_us));
    return rc;
}

static int query_listed(struct memory_listing *l, const struct query *query)
{
    struct filter filter = query->filter;
    bool by_id = query->kind == QUERY_ID;
    if (by_id)
        filter =
            (struct filter){ .state = -1, .ids = query->filter.ids, .id_count = 1, .routing = query->filter.routing };
    bool live = by_id || (query->kind == QUERY_MESSAGES && filter.state != STATE_DONE);
    bool done = by_id || (query->kind == QUERY_MESSAGES && filter.state == STATE_DONE);
    int rc = PR_OK;

    handed_out_mark(l->memory);
    list_foreach(node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        struct filter here;
        if (rc == PR_OK && live && !l->reply->more && filter_of_box(&filter, box_name(box), &here))
            rc = by_id ? listing_id(l, box, false, &here) : listing_scan(l, &box->rows, &here);
        if (rc == PR_OK && by_id)
            rc = listing_id(l, box, true, &filter);
        if (rc == PR_OK && done && !l->reply->more && filter_of_box(&filter, box_name(box), &here))
            rc = listing_scan(l, &box->done, &here);
    }
    if (rc == PR_OK && by_id && query->ended)
        rc = listing_ended(l, query->filter.ids[0]);
    if (rc == PR_OK && by_id && query->ended)
        rc = listing_marks(l, query->filter.ids[0]);
    if (rc == PR_OK && by_id && query->ended)
        rc = listing_again(l, query->filter.ids[0]);
    return rc == PR_OK && query->kind == QUERY_DEAD ? listing_dead(l, &filter) : rc;
}

/* ---- Boxes ---------------------------------------------------------------------------------- */

static int query_boxes(struct memory_listing *l)
{
    struct query_reply *reply = l->reply;
    size_t count = 0;
    list_foreach(node, &l->memory->boxes)
        count++;
    reply->boxes = arena_alloc_array(l->arena, count, sizeof(reply->boxes[0]));
    if (reply->boxes == NULL)
        return PR_ENOMEM;
    list_foreach(node, &l->memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        struct box_counts *counts = &reply->boxes[reply->box_count++];
        *counts = (struct box_counts){ .name = slice_dup(l->arena, box_name(box)), .stored = (uint64_t)box->last_seq };
        if (counts->name.data == NULL)
            return PR_ENOMEM;
    }
    return PR_OK;
}

static bool is_answered(const struct query *query)
{
    return query->kind == QUERY_MESSAGES || query->kind == QUERY_DEAD || query->kind == QUERY_ID ||
           query->kind == QUERY_ENDPOINTS || query->kind == QUERY_EVENTS ||
           (query->kind == QUERY_BOXES && query->brief) || query->kind == QUERY_FLOW ||
           query->kind == QUERY_FLOW_EXECUTIONS;
}

int memory_query(void *self, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
                 struct pr_error *reterr)
{
    struct memory *memory = self;
    struct query_reply reply = { 0 };
    struct memory_listing l = { .memory = memory,
                                .arena = arena,
                                .reply = &reply,
                                .limit = query->filter.limit > 0 ? query->filter.limit : LISTED_DEFAULT,
                                .brief = query->brief };
    int rc;

    if (!is_answered(query))
        return error_set(reterr, PR_EUNSUPPORTED,
                         "the memory store is for simulations and answers few questions: use sqlite::memory:");
    pthread_mutex_lock(&memory->mutex);
    l.now_us = reply.now_us = memory_now(memory);
    if (query->kind == QUERY_BOXES)
        rc = query_boxes(&l);
    else if (query->kind == QUERY_EVENTS)
        rc = events_copy(memory, query, l.limit, arena, &reply);
    else if (query->kind == QUERY_FLOW)
        rc = memory_query_flow(memory, &query->flow, query->brief, arena, &reply);
    else if (query->kind == QUERY_FLOW_EXECUTIONS)
        rc = memory_query_executions(memory, &query->flow, arena, &reply);
    else if (query->kind == QUERY_ENDPOINTS)
        rc = endpoints_copy(memory, arena, &reply.endpoints, &reply.endpoint_count);
    else
        rc = query_listed(&l, query);
    if (rc == PR_OK && query->kind != QUERY_BOXES && query->kind != QUERY_EVENTS && query->kind != QUERY_FLOW)
        rc = breakers_copy(memory, arena, &reply.breakers, &reply.breaker_count);
    pthread_mutex_unlock(&memory->mutex);
    if (rc < 0)
        return error_set(reterr, rc, "out of memory for the answer");
    *ret_reply = reply;
    return PR_OK;
}
