/* I32: in a box with dedupe a message is ended once by each handler within the box's time, whatever rows of it there are;
 * and nothing ends as a duplicate, or is refused as one, that nobody has ended.
 *
 * A twin is another message with the same id for the same handler (workload.c). */
#include "base/util.h"
#include "checkers.h"

static struct shadow_message *twin_of(struct checker *c, uint32_t message)
{
    const struct parcel *p = c->messages[message].parcel, *twin = p->copy != NULL ? p->copy : p->original;
    bool same = twin != NULL && slice_eq(scenario_handler(c->s, &p->m), scenario_handler(c->s, &twin->m));
    return same ? &c->messages[twin->index] : NULL;
}

void mark_ended(struct checker *c, const struct event *e)
{
    struct shadow_message *m = &c->messages[e->message];
    m->ended = true;
    m->ended_wall_us = e->wall_us;
}

void check_ends_once(struct checker *c, const struct event *e)
{
    const struct shadow_message *twin = twin_of(c, e->message);
    if (c->s->engine.dedupe_us > 0 && twin != NULL && twin->ended &&
        e->wall_us < time_add(twin->ended_wall_us, c->s->engine.dedupe_us))
        breach_set(c, "I32", "m%u was completed, and m%u of the same id was ended before", e->message,
                   twin->parcel->index);
}

/* A dead letter stands for its message, as long as it is there. */
static bool is_dead(const struct shadow_message *m)
{
    for (const struct shadow_row *row = m->rows; row != NULL; row = row->next)
        if (row->state == STATE_DEAD)
            return true;
    return false;
}

void check_duplicate_end(struct checker *c, const struct event *e, bool may_be_dead)
{
    const struct shadow_message *twin = twin_of(c, e->message);
    if (twin == NULL || !(twin->ended || (may_be_dead && (is_dead(twin) || twin->was_dead))))
        breach_set(c, "I32", "m%u is a duplicate, and nobody has handled another one of its id", e->message);
}
