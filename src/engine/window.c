/* The window: the rows that are in memory, each one block, found by row and by token.
 *
 * How much an endpoint may take depends on what is free: at most as much as is left.  A single endpoint gets half of
 * the window, two get a third each; so a slow one can never take all, and nothing has to be configured. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

int window_init(struct engine *e, struct pr_error *reterr)
{
    /* Children of a split and rows that go nowhere may exceed the count a little: see admit(). */
    e->window.slot_count = e->setting.window_count * 2 + ENDPOINTS_MAX + 1024;
    e->window.slots = calloc(e->window.slot_count, sizeof(*e->window.slots));
    e->window.generations = calloc(e->window.slot_count, sizeof(*e->window.generations));
    e->window.free_slots = calloc(e->window.slot_count, sizeof(*e->window.free_slots));
    if (e->window.slots == NULL || e->window.generations == NULL || e->window.free_slots == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a window of %zu messages", e->setting.window_count);
    for (size_t i = 0; i < e->window.slot_count; i++)
        e->window.free_slots[i] = (uint32_t)(e->window.slot_count - 1 - i);
    e->window.free_count = e->window.slot_count;
    map_init(&e->window.rows);
    map_init(&e->window.streams);
    map_init(&e->window.ids);
    list_init(&e->window.twins);
    list_init(&e->window.chosen);
    list_init(&e->window.runs);
    list_init(&e->window.out);
    list_init(&e->window.judged);
    list_init(&e->window.planned);
    list_init(&e->window.zombies);
    list_init(&e->reading.unscanned);
    list_init(&e->window.receipts);
    return PR_OK;
}

/* Nothing follows for the item: engines that share the endpoint's limits must not wait for it. */
static void window_give_back(struct engine *e, struct item *item)
{
    if (item->endpoint != NULL)
        breakers_returned(e, item->endpoint, item);
    item_free(e, item);
}

void window_fini(struct engine *e)
{
    for (size_t i = 0; i < e->window.slot_count && e->window.slots != NULL; i++)
        if (e->window.slots[i] != NULL)
            window_give_back(e, e->window.slots[i]);
    receipt_free_all(e);
    map_foreach(node, &e->window.streams)
        stream_free(e, MAP_ENTRY(node, struct stream, node));
    map_fini(&e->window.rows);
    map_fini(&e->window.streams);
    map_fini(&e->window.ids);
    free(e->window.slots);
    free(e->window.generations);
    free(e->window.free_slots);
    free(e->plan.holds);
    free(e->plan.planned_holds);
}

/* ---- Items ---------------------------------------------------------------------------- */

static void window_count(struct engine *e, int change, size_t bytes)
{
    size_t count_before = e->window.count, bytes_before = e->window.bytes;

    e->window.count += (size_t)change;
    e->window.bytes += bytes;
    limits_window_changed(e->limits, count_before, e->window.count, bytes_before, e->window.bytes);
}

struct item *item_new(struct engine *e, const struct row *row, struct endpoint *ep)
{
    size_t bytes = message_bytes(&row->m);
    struct item *item;

    if (e->window.free_count == 0)
        return NULL;
    item = malloc(sizeof(*item) + bytes);
    if (item == NULL)
        return NULL;
    memset(item, 0, sizeof(*item));
    message_copy(&row->m, (char *)(item + 1), &item->m);
    item->lane = row->lane;
    item->endpoint = ep;
    item->over = row->over;
    item->bytes = bytes + sizeof(*item);
    item->from_due = row->m.due_us != 0;
    if (!twin_enter(e, item) || (row->row != 0 && item_set_row(e, item, row->row) != PR_OK)) {
        twin_leave(e, item);
        free(item);
        return NULL;
    }
    item->slot = e->window.free_slots[--e->window.free_count];
    item->generation = ++e->window.generations[item->slot];
    e->window.slots[item->slot] = item;
    window_count(e, +1, item->bytes);
    if (ep != NULL) {
        ep->count++;
        ep->bytes += item->bytes;
        breakers_enter(e, ep, item);
        sorts_enter(ep, item);
    }
    return item;
}

int item_set_row(struct engine *e, struct item *item, uint64_t row)
{
    int rc = map_insert(&e->window.rows, &item->by_row, hash_u64(row));
    if (rc == PR_OK)
        item->row = row;
    return rc;
}

struct item *item_find_row(const struct engine *e, uint64_t row, const struct item *after)
{
    struct map_node *n = after != NULL ? map_next_same(&after->by_row) : map_first(&e->window.rows, hash_u64(row));

    for (; n != NULL; n = map_next_same(n)) {
        struct item *item = MAP_ENTRY(n, struct item, by_row);
        if (item->row == row)
            return item;
    }
    return NULL;
}

struct item *item_find(const struct engine *e, uint64_t row, pr_id id)
{
    struct item *item = item_find_row(e, row, NULL);

    while (item != NULL && !pr_id_equal(item->m.id, id))
        item = item_find_row(e, row, item);
    return item;
}

uint64_t item_token(const struct item *item)
{
    return (uint64_t)item->generation << 32 | item->slot;
}

struct item *item_find_token(const struct engine *e, uint64_t token)
{
    uint32_t slot = (uint32_t)token;
    struct item *item = slot < e->window.slot_count ? e->window.slots[slot] : NULL;
    return item != NULL && item->generation == (uint32_t)(token >> 32) ? item : NULL;
}

/* An item is "going" from choice to result; this is what counts as out. */
bool place_is_going(enum place place)
{
    return place == PLACE_CHOSEN || place == PLACE_READY || place == PLACE_OUT;
}

/* ... and pledged before it is handed to the transport. */
static bool is_pledged(enum place place)
{
    return place == PLACE_CHOSEN || place == PLACE_READY;
}

static void count_going(struct engine *e, struct item *item, int change)
{
    e->window.out_count += (size_t)change;
    item->endpoint->out += (size_t)change;
    item->endpoint->sorting.out[item->ask] += (size_t)change;
}

static struct list *place_list(struct engine *e, struct item *item, enum place place)
{
    switch (place) {
    case PLACE_TWIN: return &e->window.twins;
    case PLACE_CHOSEN: return &e->window.chosen;
    case PLACE_RUN: return &e->window.runs;
    case PLACE_READY: return &item->endpoint->ready;
    case PLACE_OUT: return &e->window.out;
    case PLACE_JUDGED: return &e->window.judged;
    case PLACE_PLANNED: return &e->window.planned;
    case PLACE_ZOMBIE: return &e->window.zombies;
    default: return NULL;
    }
}

/* An item in these places keeps its lane from being given away. */
static bool is_busy(enum place place)
{
    return place_is_going(place) || place == PLACE_RUN || place == PLACE_JUDGED || place == PLACE_PLANNED ||
           place == PLACE_SPLITTING;
}

/* Leaves the list of its place, and updates the counters. */
static void item_unlink(struct engine *e, struct item *item, enum place next)
{
    if (item->place == PLACE_NONE)
        return;
    list_remove(&item->node);
    if (item->seat != 0)
        choose_seat(e, item, next);
    if ((item->place == PLACE_WAITING || item->place == PLACE_SPLITTING) && item->stream != NULL)
        item->stream->item_count--;
    if (is_pledged(item->place))
        item->endpoint->pledged--;
    if (item->place == PLACE_JUDGED)
        e->window.judged_count--;
    if (item->place == PLACE_RUN)
        e->window.run_count--;
    if (item->place == PLACE_OUT)
        gone_forget(e, item);
    if (place_is_going(item->place))
        count_going(e, item, -1);
    if (is_busy(item->place))
        e->membership.lane_busy[item->lane]--;
    item->place = PLACE_NONE;
}

/* Enters the list of its place, and updates the counters. */
static void item_link(struct engine *e, struct item *item, enum place place)
{
    item->place = place;
    if (is_busy(place))
        e->membership.lane_busy[item->lane]++;
    if (place == PLACE_NONE || place == PLACE_WAITING || place == PLACE_SPLITTING)
        return; /* stream_insert() or item_wait() puts it into its queue */
    list_push_back(place_list(e, item, place), &item->node);
    if (is_pledged(place))
        item->endpoint->pledged++;
    if (place == PLACE_JUDGED)
        e->window.judged_count++;
    if (place == PLACE_RUN)
        e->window.run_count++;
    if (place_is_going(place))
        count_going(e, item, +1);
}

void item_move(struct engine *e, struct item *item, enum place place)
{
    bool was_going = place_is_going(item->place), was_on_its_way = place_is_on_its_way(item->place);

    item_unlink(e, item, place);
    item_link(e, item, place);
    if (was_going || place_is_going(place))
        choose_settle(item->endpoint);
    if (was_on_its_way && !place_is_on_its_way(place))
        twins_wake(e, item);
}

void item_wait(struct engine *e, struct item *item, bool at_back)
{
    struct endpoint *ep = item->endpoint;
    enum place place = item->row != 0 ? PLACE_WAITING : PLACE_SPLITTING;

    item_unload(e, item);
    item_move(e, item, place);
    if (item->stream != NULL)
        stream_insert(e, item->stream, item);
    else if (at_back)
        list_push_back(&ep->loose, &item->node);
    else
        list_push_front(&ep->loose, &item->node);
}

void item_return(struct engine *e, struct item *item, bool at_back)
{
    struct stream *s = item->stream;

    ASSERT(item->place == PLACE_CHOSEN || item->place == PLACE_READY || item->place == PLACE_OUT ||
           item->place == PLACE_JUDGED);
    run_return(e, run_detach(item));
    receipt_return(e, item);
    item_drop_verdict(item);
    item->given = false;
    item_report_answer(item, PR_STALE);
    breakers_returned(e, item->endpoint, item);
    item_wait(e, item, at_back);
    e->counts.returned++;
    if (s != NULL) {
        ASSERT(s->busy > 0);
        s->busy--;
        stream_update(e, s);
    }
}

void item_return_unsent(struct engine *e, struct item *item)
{
    ASSERT(item->place == PLACE_OUT);
    choose_unsent(item);
    item_return(e, item, false);
}

void item_report_answer(struct item *item, int answer)
{
    if (item->settled != NULL)
        item->settled(item->settled_arg, answer == PR_OK ? item->settled_as : answer);
    item->settled = NULL;
}

void item_free(struct engine *e, struct item *item)
{
    item_report_answer(item, PR_STALE);
    free(item->dead);
    item_move(e, item, PLACE_NONE);
    receipt_leave(item, false);
    item_drop_verdict(item);
    item_unload(e, item);
    free(item->refusal);
    item->refusal = NULL;
    if (item->stream != NULL)
        stream_set_here(item->stream, item->m.seq, false);
    if (item->row != 0)
        map_remove(&e->window.rows, &item->by_row);
    twin_leave(e, item);
    window_count(e, -1, 0 - item->bytes);
    if (item->endpoint != NULL) {
        item->endpoint->count--;
        item->endpoint->bytes -= item->bytes;
        breakers_leave(item->endpoint, item);
        sorts_leave(item);
    }
    e->window.slots[item->slot] = NULL;
    e->window.free_slots[e->window.free_count++] = item->slot;
    free(item);
}

/* ---- Room ----------------------------------------------------------------------------- */

size_t window_limit(const struct engine *e)
{
    return limits_window_count(e->limits, e->window.count);
}

size_t window_free(const struct engine *e)
{
    size_t count = e->window.count - e->window.leaving, limit = window_limit(e);
    return limit - min_size(count, limit);
}

size_t window_bytes_free(const struct engine *e)
{
    size_t bytes = e->window.bytes - e->window.leaving_bytes, limit = limits_window_bytes(e->limits, e->window.bytes);
    return limit - min_size(bytes, limit);
}

bool window_has_room(const struct engine *e)
{
    return window_free(e) > 0 && (window_bytes_free(e) > 0 || e->window.count == e->window.leaving);
}

/* Announced before the last look, so that room made in between is not missed. */
void window_await_room(struct engine *e)
{
    if (limits_are_shared(e->limits) && !window_has_room(e))
        atomic_store(&e->limits->window_waits, true);
}

bool endpoint_is_closed(const struct engine *e, const struct endpoint *ep, int64_t now_us)
{
    return endpoint_has_pause(e, ep, now_us) || breakers_are_shut(ep);
}

/* How many more rows of this endpoint may come in.  Rows that wait for the breaker of their type do not count against
 * other types. */
size_t endpoint_room(const struct engine *e, const struct endpoint *ep, int64_t now_us)
{
    /* A row may be in both counts. */
    size_t count = ep->count - min_size(ep->count, ep->leaving + ep->held_types.count);
    size_t bytes = ep->bytes - min_size(ep->bytes, ep->leaving_bytes + ep->held_types.bytes);
    size_t free = window_free(e), room = free > count ? (free - count + 1) / 2 : 0;
    bool closed = endpoint_is_closed(e, ep, now_us);

    if (!window_has_room(e))
        return 0;
    if (ep->count == ep->leaving)
        return max_size(1, free / 2);
    if (bytes >= window_bytes_free(e))
        return 0;
    if (closed)
        return ep->count < CLOSED_SHARE ? min_size(room, CLOSED_SHARE - ep->count) : 0;
    return room;
}

/* Streams of these lanes are about to be freed: holds for them are dropped. */
static void drop_holds(struct engine *e, uint64_t lanes)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->plan.hold_count; i++)
        if ((lanes & lane_bit(e->plan.holds[i].lane)) == 0)
            e->plan.holds[kept++] = e->plan.holds[i];
    e->plan.hold_count = kept;
    ASSERT(e->plan.planned_hold_count == 0);
}

/* Drops everything in these lanes.  Items that the transport still reads become zombies. */
void window_drop_lanes(struct engine *e, uint64_t lanes, bool also_busy)
{
    for (size_t i = 0; i < e->window.slot_count; i++) {
        struct item *item = e->window.slots[i];
        if (item == NULL || (lanes & lane_bit(item->lane)) == 0 || item->place == PLACE_ZOMBIE)
            continue;
        if (item->place == PLACE_TWIN)
            twin_return(e, item);
        if (item->place == PLACE_SPLITTING)
            item->outdated = true; /* earlier rows of its stream are in the store again: see settle_split() */
        if (item->place != PLACE_WAITING && !also_busy)
            continue;
        if (item->endpoint != NULL)
            breakers_returned(e, item->endpoint, item);
        if (item->place == PLACE_OUT || (item->place == PLACE_RUN && item->given)) {
            receipt_leave(item, false);
            map_remove(&e->window.rows, &item->by_row);
            item->row = 0;
            item->stream = NULL;
            item_move(e, item, PLACE_ZOMBIE);
        } else {
            item_free(e, item);
        }
    }
    if (also_busy)
        drop_holds(e, lanes);
    map_foreach(node, &e->window.streams) {
        struct stream *s = MAP_ENTRY(node, struct stream, node);
        if ((lanes & lane_bit(s->lane)) == 0)
            continue;
        if (!also_busy && (s->busy > 0 || s->holds > 0 || s->item_count > 0))
            continue;
        stream_free(e, s);
    }
}
