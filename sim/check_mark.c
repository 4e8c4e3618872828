/* I32: in a box with dedupe each handler ends a message once within the box's time, whatever rows of it exist; no row
 * ends as a duplicate, or is refused as one, without such an end; and a split leaves out only parts that another row of
 * the id represents.
 *
 * A twin is another message with the same id (workload.c, sources.c); it counts where it has the same handler. */
#include "base/slice.h"
#include "base/util.h"
#include "checkers.h"

/* The routes decide about a row without a destination; with several endpoints it has no handler yet. */
static size_t handler_of(const struct checker *c, uint32_t message, uint16_t destination)
{
    const struct pr_message *m = &c->messages[message].parcel->m;
    if (destination == DESTINATION_NONE)
        destination = world_destination(c->w, scenario_handler(c->s, m));
    return destination <= SIM_ENDPOINTS_MAX ? destination : 0;
}

struct shadow_handler *shadow_handler(struct checker *c, uint32_t message, uint16_t destination)
{
    return &c->messages[message].handlers[handler_of(c, message, destination)];
}

void mark_ended(struct checker *c, const struct event *e, uint16_t destination)
{
    struct shadow_handler *h = shadow_handler(c, e->message, destination);
    h->ended = true;
    h->ended_wall_us = e->wall_us;
}

bool any_has_ended(struct checker *c, const struct event *e)
{
    size_t handler = handler_of(c, e->message, e->destination);
    const struct parcel *p = c->messages[e->message].parcel;
    for (const struct parcel *twin = parcel_next_of_id(p, NULL); twin != NULL; twin = parcel_next_of_id(p, twin))
        if (c->messages[twin->index].handlers[handler].ended)
            return true;
    return false;
}

void check_ends_once(struct checker *c, const struct event *e)
{
    size_t handler = handler_of(c, e->message, e->destination);
    const struct parcel *p = c->messages[e->message].parcel;
    for (const struct parcel *twin = parcel_next_of_id(p, NULL); twin != NULL; twin = parcel_next_of_id(p, twin)) {
        const struct shadow_handler *h = &c->messages[twin->index].handlers[handler];
        if (twin != p && c->s->engine.dedupe_us > 0 && h->ended &&
            e->wall_us < time_add(h->ended_wall_us, c->s->engine.dedupe_us))
            breach_set(c, "I32", "m%u was completed, and m%u of the same id was ended before", e->message, twin->index);
    }
}

/* A dead letter represents its message, as long as it exists. */
static bool is_dead(struct checker *c, const struct parcel *p, size_t handler)
{
    for (const struct shadow_row *row = c->messages[p->index].rows; row != NULL; row = row->next)
        if (row->state == STATE_DEAD && handler_of(c, p->index, row->destination) == handler)
            return true;
    return false;
}

void check_duplicate_end(struct checker *c, const struct event *e, bool may_be_dead)
{
    size_t handler = handler_of(c, e->message, e->destination);
    const struct parcel *p = c->messages[e->message].parcel;
    for (const struct parcel *twin = parcel_next_of_id(p, NULL); twin != NULL; twin = parcel_next_of_id(p, twin)) {
        const struct shadow_handler *h = &c->messages[twin->index].handlers[handler];
        if (twin != p && (h->ended || (may_be_dead && (h->was_dead || is_dead(c, twin, handler)))))
            return;
    }
    breach_set(c, "I32", "m%u is a duplicate, and nobody has handled another one of its id", e->message);
}

void check_left_out(struct checker *c, const struct event *e)
{
    const struct parcel *p = c->messages[e->message].parcel;
    for (const struct parcel *twin = parcel_next_of_id(p, NULL); twin != NULL; twin = parcel_next_of_id(p, twin)) {
        const struct shadow_row *row = shadow_find(c, twin->index, e->destination);
        if (twin != p && row != NULL && (row->state == STATE_DEAD || !shadow_is_over(row))) {
            c->happened[e->destination].counts[TOTAL_DUPLICATES]++;
            ended_left_out(c, e->message);
            return;
        }
    }
    breach_set(c, "I32", "the part of m%u for e%d was left out, and nobody has one of its id", e->message,
               e->destination - 1);
}
