/* Rows of held types (breakers.c), which can wait as long as an outage lasts and must not stop the others.
 *
 * Like all rows that find no room they stay in the store, and only places are remembered (behind.c).  But
 * these have places of their own, and a stream filter knows the streams of which rows were left: only their rows
 * are left behind with them, and all others go on.  When a type is held back no more, its endpoint is simply
 * behind from those places on. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define SIEVE_BITS 65536 /* two streams with the same bit: one of them waits without need */

void held_types_init(struct held_types *b)
{
    *b = (struct held_types){ .parts_from = PR_NEVER };
}

static bool is_active(const struct held_types *b)
{
    return b->pass.active || b->parts_from != PR_NEVER;
}

static void places_forget(struct held_types *b)
{
    b->pass.active = false;
    b->parts_from = PR_NEVER;
    if (b->stream_filter != NULL)
        memset(b->stream_filter, 0, SIEVE_BITS / 8);
}

void held_types_forget(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        places_forget(&e->endpoints[i].held_types);
}

/* ---- The stream filter ---------------------------------------------------------------------------------- */

static size_t stream_filter_bit(pr_slice stream)
{
    return hash_slice(0, stream) % SIEVE_BITS;
}

static bool stream_filter_has(const struct held_types *b, pr_slice stream)
{
    size_t bit = stream_filter_bit(stream);
    return b->stream_filter != NULL && (b->stream_filter[bit / 8] >> bit % 8 & 1) != 0;
}

static bool stream_filter_add(struct held_types *b, pr_slice stream)
{
    size_t bit = stream_filter_bit(stream);

    if (b->stream_filter == NULL)
        b->stream_filter = calloc(1, SIEVE_BITS / 8);
    if (b->stream_filter == NULL)
        return false;
    b->stream_filter[bit / 8] |= (uint8_t)(1u << bit % 8);
    return true;
}

/* ---- Leaving rows behind -------------------------------------------------------------------------- */

/* Without memory for the stream filter the row is like any other that finds no room. */
static bool is_left(struct engine *e, struct endpoint *ep, const struct row *row)
{
    struct held_types *b = &ep->held_types;
    bool ordered = stream_is_ordered(ep, row->m.stream) && !row->m.released;

    if (b->types == 0 && !is_active(b))
        return false;
    if (!breakers_hold_type(e, ep, row->m.type) && !(is_active(b) && ordered && stream_filter_has(b, row->m.stream)))
        return false;
    return !ordered || stream_filter_add(b, row->m.stream);
}

bool held_types_passes_over(struct engine *e, struct endpoint *ep, const struct row *row)
{
    if (!is_left(e, ep, row))
        return false;
    pass_widen(&ep->held_types.pass, row->m.seq, row->row - 1, row->m.seq + 1);
    return true;
}

bool held_types_takes_part(struct engine *e, struct endpoint *ep, const struct row *row)
{
    if (!is_left(e, ep, row))
        return false;
    ep->held_types.parts_from = min64(ep->held_types.parts_from, row->m.seq);
    return true;
}

bool endpoint_hides(const struct endpoint *ep, pr_slice stream, int64_t seq)
{
    const struct held_types *b = &ep->held_types;

    if (endpoint_is_behind_at(ep, seq))
        return true;
    return ((b->pass.active && seq >= b->pass.from_seq) || seq >= b->parts_from) && stream_is_ordered(ep, stream) &&
           stream_filter_has(b, stream);
}

/* ---- Going on ------------------------------------------------------------------------------------ */

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

void held_types_renew(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++) {
        struct endpoint *ep = &e->endpoints[i];
        struct held_types *b = &ep->held_types;

        if (!b->over)
            continue;
        b->over = false;
        wake_dozing(e, ep);
        if (b->pass.active)
            pass_again(e, ep, b->pass.from_seq, b->pass.after_row, b->pass.to_seq);
        if (b->parts_from != PR_NEVER)
            parts_wait(e, ep, b->parts_from);
        places_forget(b);
    }
}
