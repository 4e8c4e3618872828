/* What other modules see of an engine, and what must always be true of it (E1 to E6). */
#include "engine/internal.h"

int64_t engine_dedupe_us(const struct engine *e)
{
    return e->membership.dedupe_us;
}

void engine_counts(const struct engine *e, struct engine_counts *ret)
{
    *ret = e->counts;
    ret->window_count = e->window.count;
    ret->window_bytes = e->window.bytes;
    ret->out = e->window.out_count;
    ret->streams = map_count(&e->window.streams);
    ret->heads = e->window.head_count;
}

void engine_endpoint(const struct engine *e, unsigned endpoint, struct endpoint_view *ret)
{
    const struct endpoint *ep = &e->endpoints[endpoint];

    ASSERT(endpoint < e->endpoint_count);
    *ret = (struct endpoint_view){
        .breaker = breakers_state(ep),
        .paused_until_us = endpoint_paused_until(ep),
        .waiting = ep->count - ep->out,
        .out = ep->out,
        .sent = ep->sent,
        .failed = ep->failed,
        .failed_in_row = ep->failed_in_row,
        .durations = ep->durations,
    };
    memcpy(ret->reasons, ep->reasons, sizeof ret->reasons);
}

uint64_t engine_lanes(const struct engine *e)
{
    return e->membership.lanes;
}

pr_id engine_instance(const struct engine *e)
{
    return e->membership.instance;
}

/* ---- What must be true ---- */

static void check_item(const struct engine *e, const struct item *item)
{
    ASSERT(item->place != PLACE_NONE);
    ASSERT(list_is_linked(&item->node));
    if (item->place == PLACE_READY || item->place == PLACE_OUT)
        ASSERT(item->receipt != NULL && item->receipt->number <= e->membership.number + e->plan.asked &&
               item->number > 0); /* E1 */
    if (item->row != 0)
        ASSERT(item_find(e, item->row, item->m.id) == item);
    if (item->place == PLACE_SPLITTING)
        ASSERT(item->row == 0);
    if (place_is_on_its_way(item->place))
        ASSERT(!twin_is_on_its_way(e, item)); /* E3 */
    if (item->place == PLACE_CHOSEN || item->place == PLACE_READY || item->place == PLACE_OUT)
        run_check(item); /* E2 */
    if (item->endpoint != NULL)
        ASSERT((item->sort != NULL) == item->endpoint->sorting.on);
    if (item->place == PLACE_RUN)
        ASSERT(hands_out_runs(e) && item->run_first != NULL && place_is_on_its_way(item->run_first->place));
}

static void check_stream(const struct engine *e, const struct stream *s)
{
    int64_t last = INT64_MIN;
    size_t n = 0;

    ASSERT(s->busy <= 1 || hands_out_runs(e)); /* E2 */
    list_foreach(node, &s->items) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        ASSERT(item->stream == s && item->m.seq >= last);
        last = item->m.seq;
        n++;
    }
    ASSERT(n == s->item_count);
    for (size_t i = 1; i < s->head_count; i++)
        ASSERT(s->heads[i - 1].seq < s->heads[i].seq);
    for (size_t i = 0; i < s->heads_here; i++)
        ASSERT(s->heads[i].here);
    ASSERT(s->heads_here == s->head_count || (s->heads_here < s->head_count && !s->heads[s->heads_here].here));
}

/* The next slot in use, from here on.  Nearly all are free, and tests look at them after each step: free ones are passed by the block. */
static size_t used_slot(const struct engine *e, size_t slot)
{
    static struct item *const block[64];

    while (slot + ARRAY_LENGTH(block) <= e->window.slot_count &&
           memcmp(&e->window.slots[slot], block, sizeof block) == 0)
        slot += ARRAY_LENGTH(block);
    while (slot < e->window.slot_count && e->window.slots[slot] == NULL)
        slot++;
    return slot;
}

void engine_check(const struct engine *e)
{
    size_t count = 0, bytes = 0, out = 0, runs = 0;

    for (size_t i = 0; (i = used_slot(e, i)) < e->window.slot_count; i++) {
        const struct item *item = e->window.slots[i];
        check_item(e, item);
        count++;
        bytes += item->bytes;
        runs += item->place == PLACE_RUN;
        out += item->place == PLACE_CHOSEN || item->place == PLACE_READY || item->place == PLACE_OUT;
    }
    ASSERT(count == e->window.count && bytes == e->window.bytes && out == e->window.out_count); /* E3 */
    ASSERT(runs == e->window.run_count);
    for (size_t i = 0; i < e->endpoint_count; i++)
        breakers_check(&e->endpoints[i]), sorts_check(&e->endpoints[i]);
    map_foreach(node, &e->window.streams)
        check_stream(e, MAP_ENTRY(node, struct stream, node));
    list_foreach(node, &e->window.receipts) /* E6 */
        list_foreach(item_node, &LIST_ENTRY(node, struct receipt, node)->items)
            ASSERT(LIST_ENTRY(item_node, struct item, on_receipt)->receipt == LIST_ENTRY(node, struct receipt, node));
}
