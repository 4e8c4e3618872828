/* Large payloads.
 *
 * They are not in the window: their rows come in without them, so there may be many.  A chosen message gets its payload
 * with the cycle that commits its receipt, as one copy that the store makes and hands over, and loses it when it is
 * judged or handed back.  Their total in memory is limited for the process (limits.in_flight_bytes, together with the
 * window); a single payload of any size may always go, or it never would. */
#include <stdlib.h>

#include "engine/internal.h"

size_t late_bytes(const struct engine *e)
{
    return e->setting.late_bytes > 0 ? e->setting.late_bytes : LATE_BYTES;
}

size_t item_payload_size(const struct item *item)
{
    return item->over > 0 ? item->over : item->m.payload.size;
}

bool item_is_late(const struct item *item)
{
    return item->over > 0 && item->loaded == NULL;
}

bool load_is_possible(struct engine *e, const struct item *item, int64_t now_us)
{
    return !item_is_late(item) || is_judged_here(e, item, now_us) ||
           limits_may_load(e->limits, item->endpoint, item->over, e->window.bytes, false, now_us);
}

bool load_take_room(struct engine *e, struct item *item, int64_t now_us)
{
    if (!item_is_late(item))
        return true;
    if (!limits_may_load(e->limits, item->endpoint, item->over, e->window.bytes, true, now_us))
        return false;
    item->load_room = item->over;
    return true;
}

void item_unload(struct engine *e, struct item *item)
{
    if (item->loaded != NULL)
        item->m.payload = (pr_slice){ NULL, 0 };
    free(item->loaded);
    item->loaded = NULL;
    item->load = 0;
    if (item->load_room > 0)
        limits_unload(e->limits, item->load_room);
    item->load_room = 0;
}

int loads_plan(struct engine *e, struct arena *arena)
{
    size_t count = 0;

    list_foreach(node, &e->window.chosen)
        count += item_is_late(LIST_ENTRY(node, struct item, node));
    if (count == 0)
        return PR_OK;
    struct row_name *rows = arena_alloc(arena, count * sizeof(*rows));
    if (rows == NULL)
        return PR_ENOMEM;
    count = 0;
    list_foreach(node, &e->window.chosen) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (!item_is_late(item))
            continue;
        rows[count++] = (struct row_name){ item->row, item->m.id };
        item->load = count;
    }
    e->plan.cycle.loads = rows;
    e->plan.cycle.load_count = count;
    return PR_OK;
}

bool load_absorb(struct item *item, const struct cycle_reply *r)
{
    size_t at = item->load;

    item->load = 0;
    if (at == 0)
        return true;
    if (r->loaded == NULL || r->loaded[at - 1].data == NULL)
        return false;
    item->m.payload = r->loaded[at - 1];
    item->loaded = (char *)(uintptr_t)item->m.payload.data;
    r->loaded[at - 1].data = NULL;
    return true;
}
