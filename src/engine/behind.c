/* Endpoints that are behind: their rows are in the store, were met once, and found no room here.
 *
 * Fresh rows are passed over and stay where they are (the pass); parts of a split are stored as
 * held by their endpoint (the parts).  Of both only a place is known, so that a million of them
 * take no memory.  When there is room they are read again, together in the order of their
 * seqs: nothing of the one may overtake the other in its stream.  Who comes later joins them. */
#include "engine/internal.h"

void pass_widen(struct pass *p, int64_t from_seq, uint64_t after_row, int64_t to_seq)
{
    if (!p->active || from_seq < p->from_seq || (from_seq == p->from_seq && after_row < p->after_row)) {
        p->from_seq = from_seq;
        p->after_row = after_row;
    }
    p->to_seq = p->active ? max64(p->to_seq, to_seq) : to_seq;
    p->active = true;
}

void pass_again(struct engine *e, struct endpoint *ep, int64_t from_seq, uint64_t after_row, int64_t to_seq)
{
    e->behind_count += !ep->pass.active;
    pass_widen(&ep->pass, from_seq, after_row, to_seq);
}

void pass_over(struct engine *e, struct endpoint *ep, const struct row *row)
{
    pass_again(e, ep, row->m.seq, row->row - 1, row->m.seq + 1);
}

void parts_wait(struct engine *e, struct endpoint *ep, int64_t seq)
{
    struct parts *p = &ep->parts;

    if (!p->active || seq < p->from_seq) {
        p->from_seq = seq;
        p->scan_seq = INT64_MIN;
    }
    e->behind_count += !p->active;
    p->active = true;
}

bool parts_hold_row(struct engine *e, struct endpoint *ep, const struct row *row)
{
    if (!hold_add(e, (struct hold){ row->row, row->m.id, row->lane, NULL, ep }))
        return false;
    parts_wait(e, ep, row->m.seq);
    return true;
}

static void caught_up(struct endpoint *ep)
{
    if (endpoint_is_behind(ep))
        return;
    ep->slow = false;
    ep->full_since_us = 0;
}

static void pass_end(struct engine *e, struct endpoint *ep)
{
    e->behind_count -= ep->pass.active;
    ep->pass.active = false;
    caught_up(ep);
}

static void parts_end(struct engine *e, struct endpoint *ep)
{
    e->behind_count -= ep->parts.active;
    ep->parts.active = false;
    caught_up(ep);
}

void behind_forget(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++) {
        pass_end(e, &e->endpoints[i]);
        parts_end(e, &e->endpoints[i]);
    }
}

/* ---- Asking ------------------------------------------------------------------------------------ */

/* Must the next part wait for the fresh scan?  Not when its lane is somebody else's by now. */
static bool parts_await_scan(const struct engine *e, const struct parts *p)
{
    return (e->open & ~e->giving & lane_bit(p->scan_lane)) != 0 && !scan_has_passed(e, p->scan_lane, p->scan_seq);
}

/* Would a read bring something that can come in? */
static bool can_catch_up(const struct engine *e, const struct endpoint *ep, int64_t now_us)
{
    const struct parts *p = &ep->parts;
    bool parts_can = p->active && !parts_await_scan(e, p);
    bool pass_can = ep->pass.active && (!p->active || parts_can || ep->pass.from_seq < p->from_seq);

    return (parts_can || pass_can) && ep->count - ep->held_types.count <= e->setting.window_count / 8 &&
           endpoint_room(e, ep, now_us) > 0;
}

static struct endpoint *candidate(const struct engine *e, int64_t now_us)
{
    for (size_t i = 0; i < e->endpoint_count && e->behind_count > 0; i++) {
        struct endpoint *ep = &e->endpoints[(e->next_catching + i) % e->endpoint_count];
        if (can_catch_up(e, ep, now_us))
            return ep;
    }
    return NULL;
}

bool behind_can_read(const struct engine *e, int64_t now_us)
{
    return candidate(e, now_us) != NULL;
}

/* Both at once: alone, either would soon have to wait for the other. */
void behind_plan(struct engine *e, struct held_read *reads, size_t *count, int64_t now_us)
{
    struct endpoint *ep = candidate(e, now_us);
    size_t rows;

    if (ep == NULL)
        return;
    rows = min_size(e->setting.batch, endpoint_room(e, ep, now_us));
    e->catching = ep;
    e->next_catching = ep->index + 1;
    e->reads_parts = ep->parts.active && plan_held_read(e, pr_str(ep->key), ep->parts.from_seq - 1, rows, reads, count);
    if (!ep->pass.active)
        return;
    e->cycle.reread.rows = rows;
    e->cycle.reread.from_seq = ep->pass.from_seq;
    e->cycle.reread.after_row = ep->pass.after_row;
    e->cycle.reread.to_seq = ep->pass.to_seq;
}

/* ---- Taking ------------------------------------------------------------------------------------ */

/* The rows of both reads, each in order; NULL: no more of them. */
struct reading {
    const struct row *pass, *part;
    size_t pass_at, part_at;
};

static const struct row *next_row(const struct engine *e, const struct cycle_reply *r, enum row_from from, size_t *at)
{
    while (*at < r->row_count) {
        const struct row *row = &r->rows[(*at)++];
        if (row->from == from &&
            (from != ROW_HELD || (e->reads_parts && slice_eq(row->m.held_by, e->cycle.held[0].key))))
            return row;
    }
    return NULL;
}

/* No row that was passed over is before this place. */
static int64_t pass_place(const struct engine *e, const struct pass *p, const struct row *next, bool end)
{
    if (!p->active)
        return INT64_MAX;
    if (next != NULL)
        return next->m.seq;
    if (!end)
        return p->from_seq;
    return p->to_seq > e->cycle.reread.to_seq ? e->cycle.reread.to_seq : INT64_MAX;
}

static int64_t parts_place(const struct parts *p, const struct row *next, bool end)
{
    if (!p->active)
        return INT64_MAX;
    if (next != NULL)
        return next->m.seq;
    return end ? INT64_MAX : p->from_seq;
}

static enum admitted take_passed(struct engine *e, struct endpoint *ep, const struct row *row, int64_t now_us)
{
    struct target target;

    if (row_is_ours(e, row) && !scan_will_come(e, row) && find_target(e, row, &target) == ep &&
        !held_types_passes_over(e, ep, row) && admit(e, row, &target, now_us) == NO_ROOM)
        return NO_ROOM;
    ep->pass.from_seq = row->m.seq;
    ep->pass.after_row = row->row;
    return TAKEN;
}

static enum admitted take_part(struct engine *e, struct endpoint *ep, const struct row *row, int64_t now_us)
{
    struct target target;

    if (row_is_ours(e, row)) {
        if (scan_will_come(e, row)) {
            ep->parts.scan_lane = row->lane;
            ep->parts.scan_seq = row->m.seq;
            return NO_ROOM;
        }
        find_target(e, row, &target);
        if (!held_types_takes_part(e, ep, row) && admit(e, row, &target, now_us) == NO_ROOM)
            return NO_ROOM;
    }
    ep->parts.from_seq = row->m.seq + 1;
    return TAKEN;
}

/* Until one finds no room, or waits for what was not read yet: then from there another time.  What is left of
 * each is the next one that could not be taken. */
static struct reading take_all(struct engine *e, struct endpoint *ep, const struct cycle_reply *r, bool parts_end,
                               int64_t now_us)
{
    struct reading in = { .pass_at = 0, .part_at = 0 };
    enum admitted taken;

    in.pass = next_row(e, r, ROW_REREAD, &in.pass_at);
    in.part = next_row(e, r, ROW_HELD, &in.part_at);
    do {
        if (in.pass != NULL && in.pass->m.seq <= parts_place(&ep->parts, in.part, parts_end)) {
            taken = take_passed(e, ep, in.pass, now_us);
            in.pass = taken == TAKEN ? next_row(e, r, ROW_REREAD, &in.pass_at) : in.pass;
        } else if (in.part != NULL && in.part->m.seq < pass_place(e, &ep->pass, in.pass, r->reread_end)) {
            taken = take_part(e, ep, in.part, now_us);
            in.part = taken == TAKEN ? next_row(e, r, ROW_HELD, &in.part_at) : in.part;
        } else {
            break;
        }
    } while (taken == TAKEN);
    if (in.pass != NULL) { /* nothing is left before these two: else the same would be read again and again */
        ep->pass.from_seq = in.pass->m.seq;
        ep->pass.after_row = in.pass->row - 1;
    }
    if (in.part != NULL)
        ep->parts.from_seq = in.part->m.seq;
    return in;
}

void behind_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us)
{
    struct endpoint *ep = e->catching;
    int64_t to_seq = e->cycle.reread.to_seq;
    bool end = e->reads_parts && r->held_end[0];

    /* Lanes were opened anew, or earlier ones came to wait: what was read is not all. */
    if (ep == NULL || e->opening != OPEN_DONE || (e->reads_parts && ep->parts.from_seq <= e->cycle.held[0].after_seq))
        return;
    struct reading left = take_all(e, ep, r, end, now_us);
    /* Either may be over while the other waits, and must then not be asked for again. */
    if (end && left.part == NULL)
        parts_end(e, ep);
    if (e->cycle.reread.rows == 0 || !r->reread_end || left.pass != NULL)
        return;
    ep->pass.from_seq = to_seq;
    ep->pass.after_row = 0;
    if (ep->pass.to_seq <= to_seq)
        pass_end(e, ep);
}
