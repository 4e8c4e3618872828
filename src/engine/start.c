/* Messages are read and announced in one cycle.
 *
 * An idle engine lets the store put the new rows that it reads on the receipt of the same cycle (cycle.start_fresh):
 * those that are then chosen go out without a second cycle.  The others are on a receipt all the same, so the receipt
 * is dirty, and the next cycle closes it; if the process dies before that, an attempt is counted for them.
 * (doc/adr/0088)
 *
 * In boxes of flows, where each step of a flow waits for several cycles in a row, that also happens while other messages
 * are out, and in cycles with verdicts.  The cycle names the streams that the engine knows: nothing of them is started.
 * (doc/adr/0104) */
#include <stdlib.h>

#include "engine/internal.h"

#define START_MAX 16 /* more rows are no hurry, and all would be counted if the process died at the wrong moment */
#define START_FLOWS_MAX 64
#define START_NOT_MAX 256 /* streams: an engine that knows more has a backlog */

static bool is_of_flows(const struct engine *e)
{
    return box_is_of_flows(e->setting.kind);
}

static bool changes_nothing(const struct cycle *c)
{
    return c->verdict_count + c->effect_count + c->receipt_count + c->closed_count + c->tally_count + c->pause_count +
                   c->breaker_count + c->delivered_count ==
               0 &&
           c->lanes_give == 0 && !c->leave && !c->force_write;
}

static bool announces_nothing(const struct cycle *c)
{
    return c->receipt_count == 0 && c->lanes_give == 0 && !c->leave && !cycle_stores_in_box(c);
}

static bool reads_new_rows_only(const struct cycle *c)
{
    return c->fresh_rows > 0 && c->restart_lanes == 0 && c->held_count == 0 && c->heads.rows == 0 &&
           c->held_keys.rows == 0 && c->evidence_count == 0 && c->alive_count == 0;
}

/* Does nothing have to be read or stored before new rows can go out? */
static bool is_settled(const struct engine *e)
{
    return e->plan.hold_count == 0 && e->membership.dedupe_us == 0 && !e->membership.stopping &&
           e->membership.giving == 0 && e->membership.opening == OPEN_DONE && e->reading.gap_count == 0;
}

/* Could all new rows go out as soon as they are read, as far as can be known before? */
static bool is_idle(const struct engine *e)
{
    return e->window.count == 0 && e->window.head_count == 0 && list_is_empty(&e->window.receipts) &&
           e->setting.override_count == 0;
}

/* How many can go at once to the endpoint with most room; 0: some endpoint takes nothing now. */
static size_t start_room(const struct engine *e, int64_t now_us)
{
    size_t most = 0, max = is_of_flows(e) ? START_FLOWS_MAX : START_MAX;

    for (size_t i = 0; i < e->endpoint_count; i++) {
        const struct endpoint *ep = &e->endpoints[i];
        size_t limit = min_size(ep->setting->concurrency > 0 ? endpoint_limit(e, ep) : max, ep->room);
        if (ep->setting->gone || endpoint_is_closed(e, ep, now_us) || ep->sorting.on)
            return 0;
        most = max_size(most, limit > ep->out ? limit - ep->out : 0);
    }
    return min_size(most, max);
}

/* Names the streams that are known here.  False: too many, or out of memory. */
static bool name_streams(struct engine *e, struct cycle *c)
{
    size_t count = map_count(&e->window.streams), named = 0;
    pr_slice *names = count <= START_NOT_MAX ? arena_alloc(&e->plan.arena, (count + 1) * sizeof(*names)) : NULL;

    if (names == NULL)
        return false;
    map_foreach(node, &e->window.streams) {
        names[named] = slice_dup(&e->plan.arena, MAP_ENTRY(node, struct stream, node)->name);
        if (names[named++].data == NULL)
            return false;
    }
    c->start_not = names;
    c->start_not_count = named;
    return true;
}

/* The receipt is made here: after the cycle there may be no memory for it, and then nothing could close it. */
void start_plan(struct engine *e, int64_t now_us)
{
    struct cycle *c = &e->plan.cycle;
    bool may = is_of_flows(e) ? announces_nothing(c) : changes_nothing(c) && is_idle(e);

    if (!may || !reads_new_rows_only(c) || !is_settled(e) || !name_streams(e, c))
        return;
    if (e->plan.start == NULL)
        e->plan.start = calloc(1, sizeof(*e->plan.start));
    if (e->plan.start == NULL)
        return;
    list_init(&e->plan.start->items);
    e->plan.start->number = c->number;
    c->start_runs = hands_out_runs(e);
    c->start_fresh = start_room(e, now_us);
}

static bool all_are_new(const struct cycle_reply *r)
{
    for (size_t i = 0; i < r->row_count; i++)
        if (r->rows[i].from != ROW_FRESH)
            return false;
    return true;
}

/* The chosen rows are on a committed receipt already. (E1)  Payloads that are still in the store take a cycle of their
 * own. */
static size_t start_chosen(struct engine *e, const struct cycle_reply *r, struct receipt *receipt, int64_t now_us)
{
    size_t count = 0;

    breakers_sync_all(e);
    for (size_t i = 0; i < r->row_count; i++) {
        struct item *item = item_find(e, r->rows[i].row, r->rows[i].m.id);
        if (item != NULL && item->endpoint != NULL && !item_is_late(item))
            choose_this(e, item, now_us);
    }
    list_foreach(node, &e->window.chosen) {
        struct item *first = LIST_ENTRY(node, struct item, node);
        for (struct item *item = first; item != NULL; item = item->run_next, count++)
            receipt_add(receipt, item);
        item_move(e, first, PLACE_READY);
    }
    return count;
}

void start_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    struct receipt *receipt = e->plan.start;

    if (e->plan.cycle.start_fresh == 0 || r->started == STARTED_NONE)
        return;
    e->plan.start = NULL;
    receipt->dirty = true;
    list_push_back(&e->window.receipts, &receipt->node);
    e->window.receipt_count++;
    if (r->started == STARTED_ALL && !r->replayed && !r->history_changed && !e->membership.stopping && all_are_new(r))
        receipt->dirty = start_chosen(e, r, receipt, now_us) < r->row_count;
}
