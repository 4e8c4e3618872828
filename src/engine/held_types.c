/* Rows of held types (breakers.c): they can wait as long as an outage lasts and must not stop other types, so they are
 * left in the store (left.c).  They are read again when the type is no longer held back. */
#include "engine/internal.h"

void held_types_forget_endpoint(struct endpoint *ep)
{
    left_forget(&ep->held_types.left);
}

void held_types_forget(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        held_types_forget_endpoint(&e->endpoints[i]);
}

/* ---- Leaving rows behind -------------------------------------------------------------------------- */

/* Without memory for the stream filter the row is treated like any other that finds no room. */
static bool is_left(struct engine *e, struct endpoint *ep, const struct row *row)
{
    struct left *l = &ep->held_types.left;
    bool ordered = stream_is_ordered(ep, row->m.stream) && !row->m.released, open = left_is_open(l);

    if (ep->held_types.types == 0 && !open)
        return false;
    if (!breakers_hold_type(e, ep, row->m.type) && !(open && ordered && left_has_before(l, row->m.stream, row->m.seq)))
        return false;
    return !ordered || left_add_stream(l, row->m.stream, row->m.seq);
}

bool held_types_passes_over(struct engine *e, struct endpoint *ep, const struct row *row)
{
    if (!is_left(e, ep, row))
        return false;
    left_fresh(&ep->held_types.left, row);
    return true;
}

bool held_types_takes_part(struct engine *e, struct endpoint *ep, const struct row *row)
{
    if (!is_left(e, ep, row))
        return false;
    left_held(&ep->held_types.left, row);
    return true;
}

bool endpoint_hides(const struct endpoint *ep, pr_slice stream, int64_t seq)
{
    return endpoint_has_gap_before(ep, seq) || left_hides(&ep->held_types.left, ep, stream, seq) ||
           sorts_hide(ep, stream, seq);
}

/* ---- Going on ------------------------------------------------------------------------------------ */

void streams_wake_dozing(struct engine *e, const struct endpoint *ep)
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
        streams_wake_dozing(e, ep);
        left_reopen(e, ep, &ep->held_types.left);
        held_types_forget_endpoint(ep);
    }
}
