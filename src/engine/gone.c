/* Rows that are out, or that block others, and that somebody has deleted: an activity whose flow cancelled it, a timer.
 *
 * No notice reports this, since it would cost all engines of the store a lock for each such row.  So the cycle that
 * renews the lease asks for the rows that have been out for a while; the receiver of a deleted one can stop.  A cycle
 * that fails says nothing about any row.  A failed head that has not come back when it was due is looked for by reading
 * its lane again. */
#include "engine/internal.h"

#define GONE_AFTER_US PR_SECONDS(1) /* work that has been out for less will mostly end before it could be stopped */
#define HEAD_LATE_US PR_SECONDS(5)  /* a due row comes sooner, unless there is no room for it */

static bool is_asked_for(const struct item *item, int64_t now_us)
{
    int64_t taken_us = item->delivery.deadline_us - item->endpoint->setting->timeout_us;
    return !item->gone && now_us - taken_us >= GONE_AFTER_US;
}

void gone_plan(struct engine *e, int64_t now_us)
{
    if (e->setting.kind != BOX_ACTIVITIES || !e->plan.cycle.force_write || list_is_empty(&e->window.out))
        return;
    struct row_name *names = arena_alloc(&e->plan.arena, e->window.out_count * sizeof(*names));
    size_t count = 0;
    list_foreach(node, &e->window.out) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        item->gone_asked = names != NULL && is_asked_for(item, now_us);
        if (item->gone_asked)
            names[count++] = (struct row_name){ item->row, item->m.id };
    }
    e->plan.cycle.alive = names;
    e->plan.cycle.alive_count = count;
}

void gone_absorb(struct engine *e, const struct cycle_reply *r)
{
    for (size_t i = 0; r->gone != NULL && i < e->plan.cycle.alive_count; i++) {
        struct item *item = r->gone[i] ? item_find(e, e->plan.cycle.alive[i].row, e->plan.cycle.alive[i].id) : NULL;
        if (item == NULL || item->place != PLACE_OUT || !item->gone_asked || item->gone)
            continue;
        item->gone = true;
        e->window.gone_count++;
    }
}

/* The item is no longer out. */
void gone_forget(struct engine *e, struct item *item)
{
    e->window.gone_count -= item->gone && !item->gone_reported;
    item->gone = item->gone_asked = item->gone_reported = false;
}

size_t engine_gone(struct engine *e, uint64_t *ret_tokens, size_t max)
{
    size_t count = 0;
    if (e->window.gone_count == 0)
        return 0;
    list_foreach(node, &e->window.out) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        if (!item->gone || item->gone_reported || count == max)
            continue;
        item->gone_reported = true;
        e->window.gone_count--;
        ret_tokens[count++] = item_token(item);
    }
    return count;
}

/* It should be in memory, and nothing keeps it in the store. */
static bool misses_head(const struct engine *e, const struct stream *s, int64_t now_us)
{
    const struct head *first = s->heads;
    return s->head_count > 0 && s->busy == 0 && !first->here && !first->dead && first->due_us != PR_NEVER &&
           store_now(e, now_us) - first->due_us > HEAD_LATE_US && !endpoint_is_closed(e, s->endpoint, now_us);
}

void gone_heads(struct engine *e, int64_t now_us)
{
    uint64_t lanes = 0;
    if (!box_is_of_flows(e->setting.kind) || !e->plan.cycle.force_write || e->window.head_count == 0 ||
        e->membership.opening != OPEN_DONE)
        return;
    map_foreach(node, &e->window.streams) {
        const struct stream *s = MAP_ENTRY(node, struct stream, node);
        if (misses_head(e, s, now_us))
            lanes |= lane_bit(s->lane);
    }
    open_lanes(e, lanes);
}
