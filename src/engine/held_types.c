/* Rows of held types (breakers.c), which can wait as long as an outage lasts and must not stop the others.
 *
 * Like all rows that find no room they stay in the store, and only places are remembered (gap.c).  But
 * these have gaps of their own, and a stream filter knows the streams of which rows were left: only their rows
 * are left behind with them, and all others go on.  When a type is held back no more, its endpoint is simply
 * without room for them from those places on. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define FILTER_BITS 65536 /* two streams with the same bit: one of them waits without need */

static bool has_gap(const struct endpoint *ep)
{
    return ep->gaps[GAP_HELD_TYPE][GAP_FRESH].active || ep->gaps[GAP_HELD_TYPE][GAP_HELD].active;
}

void held_types_forget_endpoint(struct endpoint *ep)
{
    ep->gaps[GAP_HELD_TYPE][GAP_FRESH].active = ep->gaps[GAP_HELD_TYPE][GAP_HELD].active = false;
    if (ep->held_types.stream_filter != NULL)
        memset(ep->held_types.stream_filter, 0, FILTER_BITS / 8);
}

void held_types_forget(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        held_types_forget_endpoint(&e->endpoints[i]);
}

/* ---- The stream filter ---------------------------------------------------------------------------------- */

static size_t stream_filter_bit(pr_slice stream)
{
    return hash_slice(0, stream) % FILTER_BITS;
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
        b->stream_filter = calloc(1, FILTER_BITS / 8);
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

    if (b->types == 0 && !has_gap(ep))
        return false;
    if (!breakers_hold_type(e, ep, row->m.type) && !(has_gap(ep) && ordered && stream_filter_has(b, row->m.stream)))
        return false;
    return !ordered || stream_filter_add(b, row->m.stream);
}

bool held_types_passes_over(struct engine *e, struct endpoint *ep, const struct row *row)
{
    if (!is_left(e, ep, row))
        return false;
    gap_widen(&ep->gaps[GAP_HELD_TYPE][GAP_FRESH], row->m.seq, row->row - 1, row->m.seq + 1);
    return true;
}

bool held_types_takes_part(struct engine *e, struct endpoint *ep, const struct row *row)
{
    if (!is_left(e, ep, row))
        return false;
    gap_widen(&ep->gaps[GAP_HELD_TYPE][GAP_HELD], row->m.seq, 0, INT64_MAX);
    return true;
}

bool endpoint_hides(const struct endpoint *ep, pr_slice stream, int64_t seq)
{
    const struct gap *gaps = ep->gaps[GAP_HELD_TYPE];

    if (endpoint_has_gap_before(ep, seq))
        return true;
    return (gap_reaches(&gaps[GAP_FRESH], seq) || gap_reaches(&gaps[GAP_HELD], seq)) && stream_is_ordered(ep, stream) &&
           stream_filter_has(&ep->held_types, stream);
}

/* ---- Going on ------------------------------------------------------------------------------------ */

static void wake_dozing(struct engine *e, const struct endpoint *ep)
{
    map_foreach(node, &e->window.streams) {
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

        if (!ep->held_types.over)
            continue;
        ep->held_types.over = false;
        wake_dozing(e, ep);
        for (enum gap_source source = 0; source < GAP_SOURCES; source++)
            if (ep->gaps[GAP_HELD_TYPE][source].active)
                gap_open(e, ep, source, &ep->gaps[GAP_HELD_TYPE][source]);
        held_types_forget_endpoint(ep);
    }
}
