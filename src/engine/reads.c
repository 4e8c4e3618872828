/* What a cycle has read: held ones before fresh ones, since they are earlier in their streams. */
#include <stdlib.h>

#include "engine/internal.h"

/* The lane was opened anew and its fresh scan has not reached this place yet: earlier ones of its
 * stream may stand before it. */
static bool scan_will_come(const struct engine *e, const struct row *row)
{
    return !scan_has_passed(e, row->lane, row->m.seq);
}

static bool row_is_ours(const struct engine *e, const struct row *row)
{
    return (e->open & ~e->giving & lane_bit(row->lane)) != 0 && item_find_row(e, row->row) == NULL;
}

static void absorb_fresh_row(struct engine *e, const struct row *row, int64_t now_us)
{
    struct target    target;
    struct endpoint *ep;

    if (!row_is_ours(e, row))
        return;
    ep = find_target(e, row, &target);
    /* While a pass is active, earlier ones of its stream may have been passed over. */
    if (ep != NULL && !ep->pass.active && pass_over_barred(e, ep, row))
        return;
    if (ep != NULL && (ep->pass.active || admit(e, row, &target, now_us) == NO_ROOM))
        pass_over(e, ep, row);
    else if (ep == NULL && admit(e, row, &target, now_us) == NO_ROOM)
        e->restart_lanes |= lane_bit(row->lane); /* no memory for a split: read it again */
}

static void absorb_fresh(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    uint64_t unscanned = e->open & ~e->scanned;

    e->restart_lanes &= ~e->cycle.restart_lanes;
    if (e->cycle.fresh_rows == 0) {
        e->fresh_wanted = e->fresh_wanted || e->cycle.effect_count > 0; /* our own, which nobody announces */
        return;
    }
    e->fresh_wanted = !r->fresh_end;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        if (row->from != ROW_FRESH)
            continue;
        if ((e->open & ~e->restart_lanes & lane_bit(row->lane)) != 0)
            e->scan_seq[row->lane] = max64(e->scan_seq[row->lane], row->m.seq);
        absorb_fresh_row(e, row, now_us);
    }
    if (unscanned == 0)
        return;
    if (r->fresh_end)
        e->scanned |= e->open & ~e->restart_lanes;
    list_foreach(node, &e->unscanned)
        stream_update(e, LIST_ENTRY(node, struct stream, unscanned));
}

static void absorb_reread(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    struct endpoint *wanted = &e->endpoints[e->reread_endpoint];
    struct pass     *p      = &wanted->pass;
    int64_t          to_seq = e->cycle.reread.to_seq;

    if (e->cycle.reread.rows == 0)
        return;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        struct target     target;
        if (row->from != ROW_REREAD)
            continue;
        if (row_is_ours(e, row) && !scan_will_come(e, row) && find_target(e, row, &target) == wanted &&
            !pass_over_barred(e, wanted, row) && admit(e, row, &target, now_us) == NO_ROOM)
            return; /* go on from here when there is room again */
        p->from_seq  = row->m.seq;
        p->after_row = row->row;
    }
    if (!r->reread_end)
        return;
    p->from_seq  = to_seq;
    p->after_row = 0;
    if (p->to_seq <= to_seq)
        pass_end(e, wanted);
}

/* A part of a split comes by the due index.  It must not overtake what was passed over before it, nor
 * what the fresh scan of a lane that is new to us has not reached yet. */
static bool due_is_early(const struct engine *e, const struct endpoint *ep, const struct row *row)
{
    if (ep == NULL || (row->m.status & PR_STATUS_FAILED) != 0 || !message_blocks_stream(&row->m))
        return false;
    if (pass_hides(ep, row->m.stream, row->m.seq))
        return true;
    return stream_is_ordered(ep, row->m.stream) && scan_will_come(e, row);
}

static void absorb_due(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    if (e->cycle.due.rows == 0) {
        e->due_wanted = e->due_wanted || e->cycle.verdict_count > 0; /* they may have set due times */
        return;
    }
    e->due_wanted = !r->due_end;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        struct target     target;
        if (row->from != ROW_DUE)
            continue;
        if (!window_has_room(e)) {
            e->due_wanted = true;
            break;
        }
        e->due_after_us  = row->m.due_us;
        e->due_after_seq = row->m.seq;
        e->due_after_row = row->row;
        if (!row_is_ours(e, row))
            continue;
        if (due_is_early(e, find_target(e, row, &target), row) || admit(e, row, &target, now_us) == NO_ROOM)
            e->due_dropped++;
    }
    e->next_due_us = r->next_due_us;
    if (!e->due_wanted && e->due_dropped > 0)
        e->due_restart_us =
            min64(e->due_restart_us, now_us + max64(e->setting.poll_us, (int64_t)e->due_dropped * SWEEP_ROW_US));
}

static struct stream *stream_of_key(struct engine *e, pr_slice key)
{
    pr_slice         name;
    struct endpoint *ep = stream_split_key(e, key, &name);
    return ep != NULL ? stream_find(e, ep, name) : NULL;
}

static void absorb_held_row(struct engine *e, const struct row *row, int64_t now_us)
{
    struct stream *s = stream_of_key(e, row->m.held_by);
    struct target  target;

    bool           waits = false;

    if (s != NULL && s->held_stop)
        return;
    find_target(e, row, &target);
    if (row_is_ours(e, row))
        waits = (s != NULL && (stream_blocks(s, &row->m) || scan_will_come(e, row) ||
                               pass_hides(s->endpoint, s->name, row->m.seq))) ||
                admit(e, row, &target, now_us) == NO_ROOM;
    if (s != NULL) {
        s->dozing    = waits && brakes_bar(e, s->endpoint, row->m.type);
        s->held_stop = waits; /* go on from here when the head is gone, or when there is room */
        s->held_from = waits ? row->m.seq : row->m.seq + 1;
    }
}

static void drop_orphan(struct engine *e)
{
    free(e->orphans[0]);
    e->orphans[0] = e->orphans[--e->orphan_count];
}

static void absorb_held(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    size_t orphan_rows = 0;

    /* A verdict of this cycle sent earlier ones back: what was read comes behind them, later. */
    for (size_t i = 0; i < e->cycle.held_count; i++) {
        struct stream *s = stream_of_key(e, e->cycle.held[i].key);
        if (s != NULL && s->held && s->held_from <= e->cycle.held[i].after_seq)
            s->held_stop = true;
    }
    for (size_t i = 0; i < r->row_count; i++) {
        if (r->rows[i].from != ROW_HELD)
            continue;
        orphan_rows += e->orphan_count > 0 && slice_eq_cstr(r->rows[i].m.held_by, e->orphans[0]);
        absorb_held_row(e, &r->rows[i], now_us);
    }
    for (size_t i = 0; i < e->cycle.held_count; i++) {
        struct stream *s = stream_of_key(e, e->cycle.held[i].key);
        if (s != NULL) {
            if (r->held_end[i] && !s->held_stop && s->holds == 0)
                s->held = false;
            /* Heads that had to wait until it was known what is held before them can come now. */
            if (e->due_dropped > 0 && (!s->held || s->held_from > e->cycle.held[i].after_seq + 1))
                e->due_restart_us = now_us;
            s->held_stop = false;
            stream_update(e, s);
        } else if (e->orphan_count > 0 && orphan_rows == 0 && slice_eq_cstr(e->cycle.held[i].key, e->orphans[0])) {
            drop_orphan(e);
        }
    }
}

void absorb_reads(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    absorb_opening(e, r, now_us);
    absorb_held(e, r, now_us);
    absorb_reread(e, r, now_us);
    absorb_fresh(e, r, now_us);
    absorb_due(e, r, now_us);
    if (e->cycle.effect_count > 0)
        due_look_again(e, now_us);
}
