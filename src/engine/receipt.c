/* Receipts: what was announced to the store before it was sent.
 *
 * A cycle that starts something writes one.  It is closed when everything on it has a verdict.  Messages that were
 * handed back must not be counted if the process dies later, so a receipt with a hand-back is closed at once, and its
 * messages that are still out are carried over to the next receipt. */
#include <stdlib.h>

#include "engine/internal.h"

void receipt_leave(struct item *item, bool handed_back)
{
    if (item->receipt == NULL)
        return;
    list_remove(&item->on_receipt);
    if (handed_back)
        item->receipt->dirty = true;
    item->receipt_number = item->receipt->number;
    item->receipt = NULL;
}

/* It was judged, but its verdict was answered busy, and it is handed back instead: in the store it is on its receipt still. */
static void receipt_find_dirty(struct engine *e, uint64_t number)
{
    list_foreach(node, &e->window.receipts) {
        struct receipt *r = LIST_ENTRY(node, struct receipt, node);
        r->dirty = r->dirty || r->number == number;
    }
}

void receipt_return(struct engine *e, struct item *item)
{
    if (item->receipt == NULL && item->place == PLACE_JUDGED)
        receipt_find_dirty(e, item->receipt_number);
    receipt_leave(item, true);
}

void receipt_add(struct receipt *r, struct item *item)
{
    receipt_leave(item, false);
    item->receipt = r;
    list_push_back(&r->items, &item->on_receipt);
}

static void receipt_free(struct engine *e, struct receipt *r)
{
    list_foreach(node, &r->items)
        receipt_leave(LIST_ENTRY(node, struct item, on_receipt), false);
    list_remove(&r->node);
    e->window.receipt_count--;
    free(r);
}

void receipt_free_all(struct engine *e)
{
    list_foreach(node, &e->window.receipts)
        receipt_free(e, LIST_ENTRY(node, struct receipt, node));
}

/* Asks which of the messages that are about to be started were handled before, or are dead.  PR_ENOMEM: nothing is
 * asked. */
int receipt_plan_marks(struct engine *e, struct arena *arena)
{
    size_t count = 0;

    if (e->membership.dedupe_us == 0 || list_is_empty(&e->window.chosen))
        return PR_OK;
    struct mark_key *keys = arena_alloc(arena, e->window.out_count * sizeof(*keys));
    if (keys == NULL)
        return PR_ENOMEM;
    list_foreach(node, &e->window.chosen) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (pr_id_is_zero(item->m.id))
            continue; /* no id: it has no mark, and a dead letter without an id is another message */
        keys[count++] = (struct mark_key){ item->m.id, item_handler(item) };
        item->mark = count;
    }
    e->plan.cycle.marks = keys;
    e->plan.cycle.mark_count = count;
    return PR_OK;
}

/* The receipt of the cycle being made: chosen messages, and those carried over from receipts that it closes.  Judged
 * messages have left their receipt already, except those whose verdicts may be refused or wait for another cycle: these
 * are no longer out, and still on a receipt.  PR_ENOMEM: nothing changed. */
int receipt_plan(struct engine *e, struct arena *arena)
{
    size_t entry_max = e->window.out_count + e->window.run_count + e->window.judged_count + e->plan.cycle.verdict_count;
    struct receipt_entry *entries = arena_alloc(arena, (entry_max + 1) * sizeof(*entries));
    uint64_t *closed = arena_alloc(arena, (e->window.receipt_count + 1) * sizeof(*closed));
    struct receipt *r = calloc(1, sizeof(*r));
    size_t count = 0, closed_count = 0, carried = 0;

    if (entries == NULL || closed == NULL || r == NULL) {
        free(r);
        return PR_ENOMEM;
    }
    r->number = e->membership.number + 1;
    list_init(&r->items);
    list_foreach(node, &e->window.receipts) {
        struct receipt *old = LIST_ENTRY(node, struct receipt, node);
        if (!old->dirty && !list_is_empty(&old->items) && e->window.receipt_count <= RECEIPTS_OPEN_MAX)
            continue;
        list_foreach(item_node, &old->items) {
            receipt_add(r, LIST_ENTRY(item_node, struct item, on_receipt));
            carried++;
        }
        closed[closed_count++] = old->number;
        receipt_free(e, old);
    }
    list_foreach(node, &e->window.chosen)
        for (struct item *item = LIST_ENTRY(node, struct item, node); item != NULL; item = item->run_next)
            receipt_add(r, item);
    list_foreach(node, &r->items) {
        struct item *item = LIST_ENTRY(node, struct item, on_receipt);
        ASSERT(count < entry_max);
        entries[count++] = (struct receipt_entry){ item->row, item->number };
    }
    e->plan.cycle.receipt = entries;
    e->plan.cycle.receipt_count = count;
    e->plan.cycle.receipt_carried = carried;
    e->plan.cycle.closed = closed;
    e->plan.cycle.closed_count = closed_count;
    if (count == 0) {
        free(r);
        return PR_OK;
    }
    list_push_back(&e->window.receipts, &r->node);
    e->window.receipt_count++;
    return PR_OK;
}
