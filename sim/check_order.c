/* I3: the order of first sends within a stream.
 *
 * The rule, at every send of B to an endpoint whose ordering is not `none`.  Let A be another
 * message of the same stream to the same endpoint.
 *
 *   One at a time   B does not start while A is out in the same session: handed out, and
 *                   neither answered with ok nor judged by a verdict that has landed (or handed
 *                   back).
 *   In order        the first time that B starts, no A that was inserted before B and committed
 *                   before B may still have its turn: A must be
 *                     - over: delivered, discarded, expired; dead, unless ordering is strict;
 *                     - answered with ok in this session (its verdict may follow);
 *                     - parked, unless ordering is strict;
 *                     - delayed by its sender, and not failed since;
 *                     - handed out before (or found too large to be), when ordering is available;
 *                     - past its time (it will not be sent at all), or not decodable;
 *                     - known to be handled, by another row of its message: it ends as a duplicate.
 *   Exceptions      a B that its sender delayed has left the order; a released B overtakes; a
 *                   released A is overtaken; an A that was held for an endpoint and goes to another one by other
 *                   routes is new there; an A whose sender committed after B's comes when it
 *                   comes; and so does an A that an operator touched (retry, park, replay, dead
 *                   by hand), until a hand-out of it is counted.  A B that was touched so and
 *                   handed out has overtaken; if that died before it was sent, it does so again. */
#include "checkers.h"

#include "base/hash.h"
#include "base/slice.h"

static bool is_expired(const struct checker *c, const struct shadow_message *m, const struct event *e)
{
    int64_t expires_us = m->parcel->m.expires_us;
    return expires_us != 0 && (expires_us <= e->wall_us || expires_us <= c->wall_max_us);
}

static bool is_out(const struct checker *c, const struct shadow_row *a, const struct event *e)
{
    (void)c;
    return a->open && a->session == e->session && a->started && a->result != SEND_OK;
}

static bool has_its_turn(const struct checker *c, const struct shadow_message *m, const struct shadow_row *a,
                         enum ordering ordering, const struct event *e)
{
    bool strict = ordering == ORDERING_STRICT;
    if (m->parcel->undecodable || is_expired(c, m, e) || a->released || a->excused || a->handled)
        return false;
    switch (a->state) {
    case STATE_GONE:
    case STATE_DONE: return false;
    case STATE_DEAD: return strict && !a->corrected;
    case STATE_PARKED: return strict;
    default: break;
    }
    if (a->delayed)
        return false;
    if (ordering == ORDERING_AVAILABLE && (a->failed || a->handed_out))
        return false;
    return !(a->ok && a->ok_session == e->session);
}

struct shadow_message *first_of_stream(struct checker *c, pr_slice name)
{
    for (struct map_node *n = map_first(&c->streams, hash_slice(0, name)); n != NULL; n = map_next_same(n))
        if (slice_eq(MAP_ENTRY(n, struct shadow_stream, node)->name, name))
            return MAP_ENTRY(n, struct shadow_stream, node)->first;
    return NULL;
}

void check_start_order(struct checker *c, const struct event *e, struct shadow_message *b, struct shadow_row *row)
{
    unsigned endpoint = e->what;
    enum ordering ordering = c->s->endpoints[endpoint].ordering;
    bool before_b = true, first = !row->sent && !row->ahead && !b->parcel->delayed;

    if (ordering == ORDERING_NONE || slice_is_empty(b->parcel->m.stream))
        return;
    for (struct shadow_message *a = first_of_stream(c, b->parcel->m.stream); a != NULL; a = a->next_in_stream) {
        struct shadow_row *leg = a == b ? NULL : shadow_leg(c, e->instance, a, endpoint);
        if (a == b)
            before_b = false;
        if (leg == NULL)
            continue;
        if (is_out(c, leg, e))
            breach_set(c, "I3", "m%u was sent while m%u of its stream was out", b->parcel->index, a->parcel->index);
        else if (before_b && first && a->place < b->place && !row->released && !row->excused &&
                 has_its_turn(c, a, leg, ordering, e))
            breach_set(c, "I3", "m%u was sent before m%u, which is %s", b->parcel->index, a->parcel->index,
                       state_name(leg->state));
    }
}
