/* Rows that were passed over, since there was no room for them: the places between which they stand
 * are remembered, and read again later.  Nothing is written for them.
 *
 * An endpoint has one such pass for all its rows: while it is active every fresh row is passed over,
 * since an earlier one of its stream may have been.  And it has one for the rows of barred types
 * (brake.c), which can last as long as an outage and must not stop the others: its sieve knows the
 * streams in it, so only their rows are passed over with it.  When a type is barred no more, the
 * second pass becomes a part of the first. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define SIEVE_BITS 65536 /* two streams with the same bit: one of them waits without need */

static void pass_widen(struct pass *p, int64_t from_seq, uint64_t after_row, int64_t to_seq)
{
    if (!p->active || from_seq < p->from_seq || (from_seq == p->from_seq && after_row < p->after_row)) {
        p->from_seq = from_seq;
        p->after_row = after_row;
    }
    p->to_seq = p->active ? max64(p->to_seq, to_seq) : to_seq;
    p->active = true;
}

void pass_over(struct engine *e, struct endpoint *ep, const struct row *row)
{
    e->pass_count += !ep->pass.active;
    pass_widen(&ep->pass, row->m.seq, row->row - 1, row->m.seq + 1);
}

void pass_end(struct engine *e, struct endpoint *ep)
{
    e->pass_count -= ep->pass.active;
    ep->pass.active = false;
    ep->slow = false;
    ep->full_since_us = 0;
}

static void pass_end_barred(struct barred *b)
{
    b->pass.active = false;
    if (b->sieve != NULL)
        memset(b->sieve, 0, SIEVE_BITS / 8);
}

void passes_drop(struct engine *e, struct endpoint *ep)
{
    pass_end(e, ep);
    pass_end_barred(&ep->barred);
}

/* ---- Barred types ---------------------------------------------------------------------------------- */

static size_t sieve_bit(pr_slice stream)
{
    return hash_slice(0, stream) % SIEVE_BITS;
}

static bool sieve_has(const struct barred *b, pr_slice stream)
{
    size_t bit = sieve_bit(stream);
    return b->sieve != NULL && (b->sieve[bit / 8] >> bit % 8 & 1) != 0;
}

static bool sieve_add(struct barred *b, pr_slice stream)
{
    size_t bit = sieve_bit(stream);

    if (b->sieve == NULL)
        b->sieve = calloc(1, SIEVE_BITS / 8);
    if (b->sieve == NULL)
        return false;
    b->sieve[bit / 8] |= (uint8_t)(1u << bit % 8);
    return true;
}

/* Without memory for the sieve the row is like any other that finds no room. */
bool pass_over_barred(struct engine *e, struct endpoint *ep, const struct row *row)
{
    struct barred *b = &ep->barred;
    bool ordered = stream_is_ordered(ep, row->m.stream);

    if (b->types == 0 && !b->pass.active)
        return false;
    if (!brakes_bar(e, ep, row->m.type) && !(b->pass.active && ordered && sieve_has(b, row->m.stream)))
        return false;
    if (ordered && !sieve_add(b, row->m.stream))
        return false;
    pass_widen(&b->pass, row->m.seq, row->row - 1, row->m.seq + 1);
    return true;
}

bool pass_hides(const struct endpoint *ep, pr_slice stream, int64_t seq)
{
    if (ep->pass.active && seq >= ep->pass.from_seq)
        return true;
    return ep->barred.pass.active && seq >= ep->barred.pass.from_seq && stream_is_ordered(ep, stream) &&
           sieve_has(&ep->barred, stream);
}

static void wake_dozing(struct engine *e, const struct endpoint *ep)
{
    map_foreach(node, &e->streams) {
        struct stream *s = MAP_ENTRY(node, struct stream, node);
        if (s->endpoint != ep || !s->dozing)
            continue;
        s->dozing = false;
        stream_update(e, s);
    }
}

void passes_renew(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++) {
        struct endpoint *ep = &e->endpoints[i];
        struct pass *p = &ep->barred.pass;

        if (!ep->barred.over)
            continue;
        ep->barred.over = false;
        wake_dozing(e, ep);
        if (!p->active)
            continue;
        e->pass_count += !ep->pass.active;
        pass_widen(&ep->pass, p->from_seq, p->after_row, p->to_seq);
        pass_end_barred(&ep->barred);
    }
}
