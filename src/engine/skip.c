/* New rows that the store need not read.
 *
 * An endpoint with a gap takes no new rows: they would only widen the gap (gap.c).  It costs a store much less to look
 * past a long backlog of such an endpoint than to read it, so the cycle asks the store to leave these rows out, and the
 * store answers which range it left out; the gap widens by that range.  The rows are named by destination, or by type
 * where the routes look at nothing else; the types are learnt from rows that were passed over.  A message behind a
 * million of them, whose endpoint works, is found soon (B77). */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

void skips_forget(struct endpoint *ep)
{
    for (size_t i = 0; i < ep->skips.count; i++)
        free(ep->skips.types[i]);
    ep->skips = (struct skips){ .count = 0 };
}

static bool has_type(const struct skips *s, pr_slice type)
{
    for (size_t i = 0; i < s->count; i++)
        if (slice_eq_cstr(type, s->types[i]))
            return true;
    return false;
}

/* Without memory its rows are read as before. */
static void learn_type(struct engine *e, struct endpoint *ep, pr_slice type)
{
    struct skips *s = &ep->skips;

    if (s->count == SKIP_TYPES_MAX || has_type(s, type) || memchr(type.data, '\0', type.size) != NULL ||
        !route_is_by_type(&e->setting, type, ep->index))
        return;
    s->types[s->count] = strndup(type.data, type.size);
    s->count += s->types[s->count] != NULL;
}

void skips_learn(struct engine *e, struct endpoint *ep, const struct row *row)
{
    if (row->m.destination.size == 0)
        learn_type(e, ep, row->m.type);
    else if (e->setting.override_count == 0)
        ep->skips.named = true;
}

static size_t skip_count(const struct engine *e)
{
    size_t count = 0;
    for (size_t i = 0; i < e->endpoint_count; i++)
        if (endpoint_has_gap(&e->endpoints[i]))
            count += e->endpoints[i].skips.count + e->endpoints[i].skips.named;
    return count;
}

/* They are copied: a cycle may outlive what its endpoints learnt. */
void skips_plan(struct engine *e)
{
    struct fresh_skip *skips = arena_alloc(&e->plan.arena, (skip_count(e) + 1) * sizeof(*skips));
    size_t count = 0;

    for (size_t i = 0; i < e->endpoint_count; i++) {
        struct endpoint *ep = &e->endpoints[i];
        ep->skips.planned = skips != NULL && endpoint_has_gap(ep) && (ep->skips.named || ep->skips.count > 0);
        if (!ep->skips.planned)
            continue;
        if (ep->skips.named)
            skips[count++] = (struct fresh_skip){ .destination = slice_dup(&e->plan.arena, ep->setting->name) };
        for (size_t k = 0; k < ep->skips.count; k++)
            skips[count++] = (struct fresh_skip){ .type = slice_dup(&e->plan.arena, pr_str(ep->skips.types[k])) };
    }
    for (size_t i = 0; i < count; i++)
        if (skips[i].destination.data == NULL && skips[i].type.data == NULL)
            count = 0; /* no memory: all rows are read */
    e->plan.cycle.skips = skips;
    e->plan.cycle.skip_count = count;
}

void skips_absorb(struct engine *e, const struct cycle_reply *r)
{
    if (e->plan.cycle.skip_count == 0)
        return;
    for (unsigned lane = 0; lane < LANE_COUNT && r->passed != NULL; lane++)
        if ((e->membership.open & lane_bit(lane)) != 0)
            e->reading.scan_seq[lane] = max64(e->reading.scan_seq[lane], r->passed[lane]);
    if (r->skipped.from_seq == r->skipped.to_seq)
        return;
    for (size_t i = 0; i < e->endpoint_count; i++)
        if (e->endpoints[i].skips.planned)
            gap_open(e, &e->endpoints[i], GAP_FRESH,
                     &(struct gap){ .from_seq = r->skipped.from_seq, .to_seq = r->skipped.to_seq });
}
