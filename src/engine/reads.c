/* The rows that a cycle has read: held rows before fresh ones, since they are earlier in their streams. */
#include <stdlib.h>

#include "engine/internal.h"

/* The lane was opened again and its fresh scan has not reached this place yet: earlier rows of the stream may be
 * unread. */
bool scan_will_come(const struct engine *e, const struct row *row)
{
    return !scan_has_passed(e, row->lane, row->m.seq);
}

bool row_is_ours(const struct engine *e, const struct row *row)
{
    return (e->membership.open & ~e->membership.giving & lane_bit(row->lane)) != 0 &&
           item_find(e, row->row, row->m.id) == NULL;
}

/* Did a row come in whose endpoint does not slow the scan down? */
static bool absorb_fresh_row(struct engine *e, const struct row *row, int64_t now_us)
{
    struct target target;
    struct endpoint *ep;

    if (!row_is_ours(e, row))
        return false;
    ep = find_target(e, row, &target);
    /* Earlier rows of its stream may wait to be read again: it must stay behind them. */
    if (ep != NULL && !endpoint_has_gap(ep) && (held_types_passes_over(e, ep, row) || sorts_pass_over(e, ep, row)))
        return false;
    if (ep != NULL && (endpoint_has_gap(ep) || admit(e, row, &target, now_us) == NO_ROOM)) {
        gap_pass_over(e, ep, row);
        skips_learn(e, ep, row);
        return false;
    }
    if (ep == NULL && admit(e, row, &target, now_us) == NO_ROOM)
        open_lanes(e, lane_bit(row->lane)); /* no memory for a split: later rows must not overtake it */
    return ep == NULL || !ep->slow;
}

static void absorb_fresh(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    uint64_t unscanned = e->membership.open & ~e->reading.scanned;

    e->reading.restart_lanes &= ~e->plan.cycle.restart_lanes;
    if (e->plan.cycle.fresh_rows == 0) {
        /* The cycle's own effects are new rows, too, and nothing announces them. */
        e->reading.fresh_wanted = e->reading.fresh_wanted || e->plan.stores_in_box;
        return;
    }
    skips_absorb(e, r);
    e->reading.fresh_wanted = !r->fresh_end;
    e->reading.fresh_passed = !r->fresh_end || r->row_count > 0;
    if (r->fresh_end)
        e->reading.scan_held_since_us = 0;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        if (row->from != ROW_FRESH)
            continue;
        if ((e->membership.open & lane_bit(row->lane)) != 0)
            e->reading.scan_seq[row->lane] = max64(e->reading.scan_seq[row->lane], row->m.seq);
        if (absorb_fresh_row(e, row, now_us))
            e->reading.fresh_passed = false;
    }
    if (unscanned == 0)
        return;
    if (r->fresh_end)
        e->reading.scanned |= e->membership.open;
    list_foreach(node, &e->reading.unscanned)
        stream_update(e, LIST_ENTRY(node, struct stream, unscanned));
}

/* A due row that has no room, and whose endpoint is closed, is held by the endpoint: otherwise it would be read again
 * and again until there is room. */
static bool hold_for_closed(struct engine *e, const struct row *row, const struct target *target, int64_t now_us)
{
    struct endpoint *ep = target->count == 1 ? &e->endpoints[target->endpoints[0]] : NULL;

    return ep != NULL && !row->m.released && window_has_room(e) &&
           (endpoint_is_closed(e, ep, now_us) || breakers_hold_type(e, ep, row->m.type) ||
            sorts_refuse(e, ep, row->m.type)) &&
           gap_hold_row(e, ep, row);
}

/* A due row without room whose stream is in memory anyway is held by the stream, for the same reason.  A head has no
 * followers in memory here; a row that blocks nothing must not begin to. */
static bool hold_for_stream(struct engine *e, const struct row *row, const struct target *target)
{
    struct endpoint *ep = target->count == 1 ? &e->endpoints[target->endpoints[0]] : NULL;
    struct stream *s = ep != NULL && stream_is_ordered(ep, row->m.stream) ? stream_find(e, ep, row->m.stream) : NULL;

    if (s == NULL || row->m.released || !stream_ends_before(s, row->m.seq) ||
        !stream_hold_row(e, s, row->row, row->m.id, row->m.seq))
        return false;
    stream_update(e, s);
    return true;
}

static void absorb_due(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    if (e->plan.cycle.due.rows == 0) {
        e->reading.due_wanted =
            e->reading.due_wanted || e->plan.cycle.verdict_count > 0; /* the cycle's verdicts may have set due times */
        return;
    }
    e->reading.due_wanted = !r->due_end;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        struct target target;
        if (row->from != ROW_DUE)
            continue;
        if (!window_has_room(e)) {
            e->reading.due_wanted = true;
            break;
        }
        e->reading.due_after_us = row->m.due_us;
        e->reading.due_after_seq = row->m.seq;
        e->reading.due_after_row = row->row;
        if (!row_is_ours(e, row))
            continue;
        find_target(e, row, &target);
        if (admit(e, row, &target, now_us) == NO_ROOM && !hold_for_closed(e, row, &target, now_us) &&
            !hold_for_stream(e, row, &target))
            e->reading.due_dropped++;
    }
    e->reading.next_due_us = r->next_due_us;
    if (!e->reading.due_wanted && e->reading.due_dropped > 0)
        e->reading.due_restart_us =
            min64(e->reading.due_restart_us,
                  now_us + max64(e->setting.poll_us, (int64_t)e->reading.due_dropped * SWEEP_ROW_US));
}

static struct stream *stream_of_key(struct engine *e, pr_slice key)
{
    pr_slice name;
    struct endpoint *ep = stream_split_key(e, key, &name);
    return ep != NULL ? stream_find(e, ep, name) : NULL;
}

/* Is there an earlier row that is not in memory or that waits for the breaker of its type, or are there as many rows in
 * memory as may be? */
static bool stands_behind(const struct engine *e, const struct stream *s, const struct row *row)
{
    const struct sort *sort = sort_of(s->endpoint, row->m.type);
    int64_t seq = row->m.seq;

    if (sort != NULL && stream_ends_before(s, seq) && s->item_count >= sorts_stream_share(e, s->endpoint, sort))
        return true;
    if (!row->m.released && (stream_misses_head(s, seq) || stream_has_held_type_at(s, seq) || s->mixed))
        return true;
    return scan_will_come(e, row) || endpoint_hides(s->endpoint, s->name, seq);
}

static void absorb_held_row(struct engine *e, struct stream *s, const struct row *row, int64_t now_us)
{
    struct target target;
    bool waits = false;

    find_target(e, row, &target);
    s->mixed = sorts_differ(s, &row->m);
    if (row_is_ours(e, row))
        waits = stands_behind(e, s, row) || admit(e, row, &target, now_us) == NO_ROOM;
    s->mixed = s->mixed && waits;
    s->dozing = waits && (breakers_hold_type(e, s->endpoint, row->m.type) || sorts_refuse(e, s->endpoint, row->m.type));
    s->held_stop = waits; /* continue here when the head is gone, or when there is room */
    s->held_from = waits ? row->m.seq : row->m.seq + 1;
}

static void absorb_held(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    size_t first = e->reading.reads_held ? 1 : 0, end = e->plan.cycle.held_count - e->reading.orphans.reading;

    /* A verdict of this cycle sent earlier rows back: what was read comes behind them, later. */
    for (size_t i = first; i < end; i++) {
        struct stream *s = stream_of_key(e, e->plan.cycle.held[i].key);
        if (s != NULL && s->held && s->held_from <= e->plan.cycle.held[i].after_seq)
            s->held_stop = true;
    }
    for (size_t i = 0; i < r->row_count; i++) {
        struct stream *s = r->rows[i].from == ROW_HELD ? stream_of_key(e, r->rows[i].m.held_by) : NULL;
        if (s != NULL && !s->held_stop)
            absorb_held_row(e, s, &r->rows[i], now_us);
    }
    for (size_t i = first; i < end; i++) {
        struct stream *s = stream_of_key(e, e->plan.cycle.held[i].key);
        if (s == NULL)
            continue;
        if (r->held_end[i] && !s->held_stop && s->holds == 0)
            s->held = false;
        s->held_stop = false;
        stream_update(e, s);
    }
}

/* The incomplete reads are over. */
static void forget_lacks(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        e->endpoints[i].gap_lacks_rows = false;
}

void absorb_reads(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    absorb_opening(e, r, now_us);
    absorb_held(e, r, now_us);
    gaps_absorb(e, r, now_us);
    forget_lacks(e);
    orphans_absorb(e, r, now_us);
    absorb_fresh(e, r, now_us);
    absorb_due(e, r, now_us);
    if (e->plan.stores_in_box)
        due_look_again(e, now_us);
}
