/* Lanes: those that this instance gains are opened (failed and held rows are read first, then the rest), and those that
 * another instance should have are given once none of their messages is out. */
#include <stdlib.h>
#include <string.h>

#include "core/story.h"
#include "engine/internal.h"

/* Reads these lanes from the beginning: first failed and held rows, then the rest. */
void open_lanes(struct engine *e, uint64_t lanes)
{
    lanes &= e->membership.lanes;
    if (lanes == 0)
        return;
    window_drop_lanes(e, lanes, false);
    e->membership.open &= ~lanes;
    e->reading.scanned &= ~lanes;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        if ((lanes & lane_bit(lane)) != 0)
            e->reading.scan_seq[lane] = INT64_MIN;
    map_foreach(node, &e->window.streams) {
        struct stream *s = MAP_ENTRY(node, struct stream, node);
        if ((lanes & lane_bit(s->lane)) == 0)
            continue;
        e->window.head_count -= s->head_count;
        s->head_count = s->heads_here = 0;
        s->held = false;
        if (s->holds > 0)
            stream_is_held(s, 0);
        stream_update(e, s);
    }
    e->membership.opening_lanes |= lanes;
    e->membership.opening = OPEN_HEADS;
    e->membership.opening_row = 0;
    e->membership.opening_serial++;
    e->membership.opening_key = (pr_slice){ e->membership.opening_key_bytes, 0 };
}

static void opening_done(struct engine *e, int64_t now_us)
{
    e->membership.opening = OPEN_DONE;
    e->membership.open |= e->membership.opening_lanes;
    e->reading.restart_lanes |= e->membership.opening_lanes;
    e->membership.opening_lanes = 0;
    e->reading.fresh_wanted = true;
    e->reading.due_wanted = true;
    e->reading.due_restart_us = now_us;
}

/* Another instance should have these lanes: nothing new is begun in them, and waiting rows are dropped.  A lane that is
 * not given after all is read again. */
static void absorb_asked(struct engine *e, uint64_t asked)
{
    uint64_t more = asked & ~e->membership.giving, kept = e->membership.giving & e->membership.lanes & ~asked;

    e->membership.giving = asked;
    if (more != 0)
        window_drop_lanes(e, more, false);
    if (more != 0 || kept != 0)
        map_foreach(node, &e->window.streams)
            stream_update(e, MAP_ENTRY(node, struct stream, node));
    open_lanes(e, kept);
}

void lanes_give_up(struct engine *e, int64_t now_us)
{
    uint64_t asked =
        e->membership.asked & ~peers_kept(e, now_us); /* such a lane may have come with the cycle that asks for it */
    absorb_asked(e, (asked | peers_passing(e, now_us)) & e->membership.lanes);
}

void absorb_lanes(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    uint64_t lost = e->membership.lanes & ~r->lanes_owned;
    uint64_t gained = r->lanes_owned & ~e->membership.lanes;

    if (lost != 0)
        window_drop_lanes(e, lost, true);
    e->membership.lanes = r->lanes_owned;
    e->membership.open &= e->membership.lanes;
    e->membership.opening_lanes &= e->membership.lanes;
    e->reading.restart_lanes &= e->membership.lanes;
    peers_absorb(e, r);
    peers_gained(e, gained, now_us);
    open_lanes(e, gained);
    e->membership.asked = r->lanes_asked;
    lanes_give_up(e, now_us);
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

/* Its endpoint was missing and exists now: bring the parked row back. */
static void unpark(struct engine *e, const struct row *row, int64_t now_us)
{
    struct item *item = item_find(e, row->row, row->m.id) == NULL ? item_new(e, row, NULL) : NULL;

    if (item == NULL)
        return;
    judge_simple(e, item, VERDICT_ABANDON, PR_REASON_NONE, PR_STR("routes"), PR_STR("the endpoint is configured again"),
                 now_us);
    item->verdict.reason = PR_REASON_NONE;
}

/* Its receiver has completed it; the store does not know yet.  Its stream has gone on without it. */
static bool is_delivered(const struct engine *e, const struct row *row)
{
    const struct item *item = item_find(e, row->row, row->m.id);
    return item != NULL && (item->place == PLACE_JUDGED || item->place == PLACE_PLANNED) &&
           item->verdict.kind == VERDICT_COMPLETE;
}

/* Does the row block its stream at this endpoint?  Adds it as a head if so.  false: no memory. */
static bool absorb_head_at(struct engine *e, struct endpoint *ep, const struct row *row)
{
    bool parked = !row->dead && row->m.due_us == PR_NEVER;
    struct stream *s;

    if (!stream_is_ordered(ep, row->m.stream))
        return true;
    if ((parked || row->dead) ? ep->setting->ordering != ORDERING_STRICT : !keeps_back(ep, &row->m))
        return true;
    s = stream_get(e, ep, row->m.stream, row->lane);
    if (s == NULL || !stream_add_head(e, s, row->m.seq, row->m.due_us, row->dead))
        return false;
    stream_update(e, s);
    return true;
}

/* A row that was not divided yet blocks its stream at all endpoints that the routes send it to.  false: no memory. */
static bool absorb_head(struct engine *e, const struct row *row, int64_t now_us)
{
    unsigned targets[TARGETS_MAX];
    size_t count = route_message(e, &row->m, targets, TARGETS_MAX);

    if (row->bad != NULL || count == 0)
        return true;
    if (!row->dead && message_awaits_route(&row->m))
        unpark(e, row, now_us); /* until that is stored and the row is in memory, a strict stream waits for it */
    else if (!row->dead && is_delivered(e, row))
        return true; /* it left the store after this was read */
    for (size_t i = 0; i < count; i++)
        if (!absorb_head_at(e, &e->endpoints[targets[i]], row))
            return false;
    return true;
}

bool held_key_is_orphan(struct engine *e, pr_slice key)
{
    pr_slice name;
    struct endpoint *ep = stream_split_key(e, key, &name);
    return ep == NULL || (name.size > 0 && !stream_is_ordered(ep, name));
}

/* "endpoint/stream" is held by a stream, "endpoint/" by an endpoint.  false: no memory. */
static bool absorb_held_key(struct engine *e, pr_slice key)
{
    pr_slice name;
    struct endpoint *ep;
    struct stream *s;

    if (held_key_is_orphan(e, key)) {
        orphans_found(e, e->plan.cycle.held_keys.after);
        return true;
    }
    ep = stream_split_key(e, key, &name);
    if (name.size == 0) {
        gap_hold_from(e, ep, 0);
        return true;
    }
    s = stream_get(e, ep, name, lane_of(name, (pr_id){ { 0 } }));
    if (s == NULL)
        return false;
    stream_is_held(s, 0);
    stream_update(e, s);
    return true;
}

static bool absorb_heads(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    for (size_t i = 0; i < r->row_count; i++) {
        if (r->rows[i].from != ROW_HEAD)
            continue;
        e->membership.opening_row = r->rows[i].row;
        if (!absorb_head(e, &r->rows[i], now_us))
            return false;
    }
    if (r->heads_end) {
        e->membership.opening = e->plan.cycle.heads_dead || !e->any_strict ? OPEN_HELD : OPEN_DEAD;
        e->membership.opening_row = 0;
    }
    return true;
}

static bool absorb_held_keys(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    for (size_t i = 0; i < r->held_key_count; i++)
        if (!absorb_held_key(e, r->held_keys[i]))
            return false;
    if (r->held_key_count > 0) {
        pr_slice last = r->held_keys[r->held_key_count - 1];
        e->membership.opening_key.size = min_size(last.size, sizeof(e->membership.opening_key_bytes));
        memcpy(e->membership.opening_key_bytes, last.data, e->membership.opening_key.size);
    }
    if (r->held_keys_end)
        opening_done(e, now_us);
    return true;
}

void absorb_opening(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    bool known = true;

    if (e->membership.opening == OPEN_DONE || e->membership.planned_serial != e->membership.opening_serial)
        return; /* ... or the opening started over meanwhile */
    if (e->plan.cycle.heads.rows > 0)
        known = absorb_heads(e, r, now_us);
    else if (e->plan.cycle.held_keys.rows > 0)
        known = absorb_held_keys(e, r, now_us);
    /* No memory: start over, since rows of a head that is forgotten would overtake it. */
    if (!known)
        open_lanes(e, e->membership.opening_lanes);
}
