/* Gaps: rows of an endpoint that the engine met in the store and had no room for.
 *
 * Fresh rows are passed over and stay where they are; parts of a split are stored as held by their endpoint.  Only the
 * places are remembered, so that a million such rows take no memory.  When there is room they are read again, both
 * sources together in the order of their seqs, so that no row overtakes an earlier one of its stream.  Rows that come
 * later join the gap.  Gaps of held types wait until the type may go (held_types.c), those of sorts until other rows of
 * the sort are gone (sorts.c); then they become gaps of the endpoint. */
#include "engine/internal.h"

void gap_widen(struct gap *g, int64_t from_seq, uint64_t after_row, int64_t to_seq)
{
    if (!g->active || from_seq < g->from_seq || (from_seq == g->from_seq && after_row < g->after_row)) {
        g->from_seq = from_seq;
        g->after_row = after_row;
        g->await_seq = INT64_MIN;
    }
    g->to_seq = g->active ? max64(g->to_seq, to_seq) : to_seq;
    g->active = true;
}

void gap_open(struct engine *e, struct endpoint *ep, enum gap_source source, const struct gap *g)
{
    struct gap *mine = &ep->gaps[source];

    e->reading.gap_count += !mine->active;
    gap_widen(mine, g->from_seq, g->after_row, g->to_seq);
    sorts_joined(ep, source, g->from_seq);
}

void gap_pass_over(struct engine *e, struct endpoint *ep, const struct row *row)
{
    gap_open(e, ep, GAP_FRESH,
             &(struct gap){ .from_seq = row->m.seq, .after_row = row->row - 1, .to_seq = row->m.seq + 1 });
}

void gap_hold_from(struct engine *e, struct endpoint *ep, int64_t seq)
{
    gap_open(e, ep, GAP_HELD, &(struct gap){ .from_seq = seq, .to_seq = INT64_MAX });
}

bool gap_hold_row(struct engine *e, struct endpoint *ep, const struct row *row)
{
    if (!hold_add(e, (struct hold){ row->row, row->m.id, row->lane, NULL, ep }))
        return false;
    gap_hold_from(e, ep, row->m.seq);
    return true;
}

void gap_close(struct engine *e, struct endpoint *ep, enum gap_source source)
{
    struct gap *g = &ep->gaps[source];

    e->reading.gap_count -= g->active;
    g->active = false;
    if (endpoint_has_gap(ep))
        return;
    ep->slow = false;
    ep->full_since_us = 0;
    sorts_read_all(ep);
}

void gaps_forget_endpoint(struct engine *e, struct endpoint *ep)
{
    gap_close(e, ep, GAP_FRESH);
    gap_close(e, ep, GAP_HELD);
}

void gaps_forget(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        gaps_forget_endpoint(e, &e->endpoints[i]);
}

/* ---- Asking ------------------------------------------------------------------------------------ */

/* Must the next held row wait for the fresh scan?  Not when its lane belongs to another instance by now. */
static bool gap_awaits_scan(const struct engine *e, const struct gap *g)
{
    return (e->membership.open & ~e->membership.giving & lane_bit(g->await_lane)) != 0 &&
           !scan_has_passed(e, g->await_lane, g->await_seq);
}

/* Can nothing of this endpoint go before more is read?  Then rows in memory wait behind held rows of their streams, and
 * a gap hides those: see endpoint_hides(). */
static bool is_stuck(const struct endpoint *ep)
{
    return ep->out == 0 && ep->pledged == 0 && list_is_empty(&ep->ready) && list_is_empty(&ep->ready_streams) &&
           list_is_empty(&ep->loose) && !list_is_empty(&ep->waking);
}

/* Rows in memory that have not gone out.  A fast endpoint has thousands out (choose_pace()), which are gone with the next
 * cycles. */
static size_t waiting_rows(const struct endpoint *ep)
{
    return ep->count - min_size(ep->count, ep->out + ep->leaving + ep->held_types.count);
}

/* Would a read bring rows that can come in?  Not worth it for a few rows, as long as other rows in memory can go. */
static bool can_catch_up(const struct engine *e, const struct endpoint *ep, int64_t now_us)
{
    const struct gap *fresh = &ep->gaps[GAP_FRESH], *held = &ep->gaps[GAP_HELD];
    bool held_can = held->active && !gap_awaits_scan(e, held);
    bool fresh_can = fresh->active && (!held->active || held_can || fresh->from_seq < held->from_seq);

    return (held_can || fresh_can) && endpoint_room(e, ep, now_us) > 0 &&
           (waiting_rows(ep) <= window_limit(e) / 8 || is_stuck(ep) || sorts_want_rows(e, ep));
}

static struct endpoint *candidate(const struct engine *e, int64_t now_us)
{
    for (size_t i = 0; i < e->endpoint_count && e->reading.gap_count > 0; i++) {
        struct endpoint *ep = &e->endpoints[(e->reading.next_catching + i) % e->endpoint_count];
        if (can_catch_up(e, ep, now_us))
            return ep;
    }
    return NULL;
}

bool gaps_can_read(const struct engine *e, int64_t now_us)
{
    return candidate(e, now_us) != NULL;
}

/* Reads both sources in one cycle: either alone would soon have to wait for the other. */
void gaps_plan(struct engine *e, struct held_read *reads, size_t *count, int64_t now_us)
{
    struct endpoint *ep = candidate(e, now_us);
    const struct gap *fresh, *held;
    size_t rows;

    if (ep == NULL)
        return;
    fresh = &ep->gaps[GAP_FRESH];
    held = &ep->gaps[GAP_HELD];
    rows = min_size(e->setting.batch, endpoint_room(e, ep, now_us));
    e->reading.catching = ep;
    e->reading.next_catching = ep->index + 1;
    e->reading.reads_held = held->active && plan_held_read(e, pr_str(ep->key), held->from_seq - 1, rows, reads, count);
    if (!fresh->active)
        return;
    e->plan.cycle.reread.rows = rows;
    e->plan.cycle.reread.from_seq = fresh->from_seq;
    e->plan.cycle.reread.after_row = fresh->after_row;
    e->plan.cycle.reread.to_seq = fresh->to_seq;
}

/* ---- Taking ------------------------------------------------------------------------------------ */

/* The rows of both reads, each in order; NULL: no more of them. */
struct gap_rows {
    const struct row *fresh, *held;
    size_t fresh_at, held_at;
};

static const struct row *next_row(const struct engine *e, const struct cycle_reply *r, enum row_from from, size_t *at)
{
    while (*at < r->row_count) {
        const struct row *row = &r->rows[(*at)++];
        if (row->from == from &&
            (from != ROW_HELD || (e->reading.reads_held && slice_eq(row->m.held_by, e->plan.cycle.held[0].key))))
            return row;
    }
    return NULL;
}

/* The fresh gap has no row before this place. */
static int64_t fresh_place(const struct engine *e, const struct gap *g, const struct row *next, bool end)
{
    if (!g->active)
        return INT64_MAX;
    if (next != NULL)
        return next->m.seq;
    if (!end)
        return g->from_seq;
    return g->to_seq > e->plan.cycle.reread.to_seq ? e->plan.cycle.reread.to_seq : INT64_MAX;
}

static int64_t held_place(const struct gap *g, const struct row *next, bool end)
{
    if (!g->active)
        return INT64_MAX;
    if (next != NULL)
        return next->m.seq;
    return end ? INT64_MAX : g->from_seq;
}

static enum admitted take_fresh(struct engine *e, struct endpoint *ep, const struct row *row, int64_t now_us)
{
    struct gap *g = &ep->gaps[GAP_FRESH];
    struct target target;

    if (row_is_ours(e, row) && !scan_will_come(e, row)) {
        struct endpoint *to = find_target(e, row, &target);
        /* A row without a target was left out for its type, and goes nowhere.  A row with several targets is committed
         * late, and the scan brings it: divided here, its part for this endpoint would be missing in what was read, and
         * the gap could close without it. */
        if (((to == NULL && target.count == 0) ||
             (to == ep && !held_types_passes_over(e, ep, row) && !sorts_pass_over(e, ep, row))) &&
            admit(e, row, &target, now_us) == NO_ROOM)
            return NO_ROOM;
    }
    g->from_seq = row->m.seq;
    g->after_row = row->row;
    return TAKEN;
}

static enum admitted take_held(struct engine *e, struct endpoint *ep, const struct row *row, int64_t now_us)
{
    struct gap *g = &ep->gaps[GAP_HELD];
    struct target target;

    if (row_is_ours(e, row)) {
        if (scan_will_come(e, row)) {
            g->await_lane = row->lane;
            g->await_seq = row->m.seq;
            return NO_ROOM;
        }
        find_target(e, row, &target);
        if (!held_types_takes_part(e, ep, row) && !sorts_take_part(e, ep, row) &&
            admit(e, row, &target, now_us) == NO_ROOM)
            return NO_ROOM;
    }
    g->from_seq = row->m.seq + 1;
    return TAKEN;
}

/* Takes rows until one finds no room, or waits for rows that were not read yet: the next read begins there.  What
 * remains of each source is the next row that could not be taken. */
static struct gap_rows take_all(struct engine *e, struct endpoint *ep, const struct cycle_reply *r, bool held_end,
                                int64_t now_us)
{
    struct gap *fresh = &ep->gaps[GAP_FRESH], *held = &ep->gaps[GAP_HELD];
    struct gap_rows in = { .fresh_at = 0, .held_at = 0 };
    enum admitted taken;

    in.fresh = next_row(e, r, ROW_REREAD, &in.fresh_at);
    in.held = next_row(e, r, ROW_HELD, &in.held_at);
    do {
        if (in.fresh != NULL && in.fresh->m.seq <= held_place(held, in.held, held_end)) {
            taken = take_fresh(e, ep, in.fresh, now_us);
            in.fresh = taken == TAKEN ? next_row(e, r, ROW_REREAD, &in.fresh_at) : in.fresh;
        } else if (in.held != NULL && in.held->m.seq < fresh_place(e, fresh, in.fresh, r->reread_end)) {
            taken = take_held(e, ep, in.held, now_us);
            in.held = taken == TAKEN ? next_row(e, r, ROW_HELD, &in.held_at) : in.held;
        } else {
            break;
        }
    } while (taken == TAKEN);
    if (in.fresh != NULL) { /* one source must advance, or the same rows would be read again and again */
        fresh->from_seq = in.fresh->m.seq;
        fresh->after_row = in.fresh->row - 1;
    }
    if (in.held != NULL)
        held->from_seq = in.held->m.seq;
    return in;
}

static void take_gaps(struct engine *e, struct endpoint *ep, const struct cycle_reply *r, int64_t now_us)
{
    int64_t to_seq = e->plan.cycle.reread.to_seq;
    bool end = e->reading.reads_held && r->held_end[0];

    struct gap *fresh = &ep->gaps[GAP_FRESH];
    struct gap_rows left = take_all(e, ep, r, end, now_us);
    /* either source may have ended while the other waits, and must not be asked for again */
    if (end && left.held == NULL)
        gap_close(e, ep, GAP_HELD);
    if (e->plan.cycle.reread.rows == 0 || !r->reread_end || left.fresh != NULL)
        return;
    fresh->from_seq = to_seq;
    fresh->after_row = 0;
    if (fresh->to_seq <= to_seq)
        gap_close(e, ep, GAP_FRESH);
}

void gaps_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    struct endpoint *ep = e->reading.catching;

    /* Lanes were opened again, earlier rows came to wait, or rows must still be held: what was read is incomplete. */
    if (ep == NULL || e->membership.opening != OPEN_DONE || ep->gap_lacks_rows ||
        (e->reading.reads_held && ep->gaps[GAP_HELD].from_seq <= e->plan.cycle.held[0].after_seq))
        return;
    take_gaps(e, ep, r, now_us);
    sorts_have_read(e, ep);
}
