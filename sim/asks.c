/* Receivers that ask for messages, some of them for some types only; workers come, are slow, and go. */
#include "world.h"

#include <string.h>

#include "base/slice.h"
#include "base/util.h"

#define ROOM_AFTERWARDS 1000

/* Patterns of no, one or several types, some of which overlap. */
static const char *const lists[] = { "t0.*\n", "t0.a\n", "t1.*\n", "t1.*\nt2.*\n", "*.a\n", "nobody.*\n" };

static uint64_t types_taken(const struct ask *asks)
{
    uint64_t types = 0;
    for (unsigned type = 0; type < SIM_TYPES; type++)
        for (size_t i = 0; i < ASKS_MAX; i++)
            if (asks[i].present && asks[i].room > 0 && (i == 0 || ask_takes(asks[i].types, scenario_type(type))))
                types |= 1u << type;
    return types;
}

static void asks_set(struct world *w, struct instance *in, unsigned endpoint)
{
    in->asked |= 1u << endpoint;
    world_note(w, (struct event){ .kind = EVENT_ASKS,
                                  .instance = (uint8_t)in->index,
                                  .session = in->session_number,
                                  .message = MESSAGE_NONE,
                                  .what = (uint16_t)endpoint,
                                  .extra = types_taken(in->asks[endpoint]) });
    instance_wake(in, w->mono_us);
}

/* Before each cycle, like box loops: during a cycle the engine accepts no other lists. */
void asks_tell(struct instance *in)
{
    for (unsigned i = 0; i < SIM_ASKED_MAX; i++)
        if ((in->asked & 1u << i) != 0)
            engine_set_asks(in->engine, i, in->asks[i], ASKS_MAX);
}

static void draw_ask(struct random *r, struct ask *a, const char *types)
{
    a->present = random_chance(r, 0.6);
    a->room = random_chance(r, 0.3) ? 0 : random_below(r, 20);
    if (a->present && a->types.size == 0)
        a->types = slice_from(types);
}

void asks_change(struct world *w, struct random *r)
{
    struct instance *in = &w->instances[random_below(r, w->scenario->instances)];
    unsigned endpoint = (unsigned)random_below(r, min_size(in->setting.endpoint_count, SIM_ASKED_MAX));
    struct ask *asks = in->asks[endpoint];

    if (in->state == INSTANCE_DOWN)
        return;
    if (random_chance(r, 0.2))
        memset(asks, 0, ASKS_MAX * sizeof *asks);
    draw_ask(r, &asks[0], "");
    for (int i = 0; i < 3; i++)
        draw_ask(r, &asks[1 + random_below(r, ASKS_MAX - 1)], lists[random_below(r, ARRAY_LENGTH(lists))]);
    asks_set(w, in, endpoint);
}

void asks_heal(struct world *w, struct instance *in)
{
    for (unsigned i = 0; i < SIM_ASKED_MAX && i < in->setting.endpoint_count && w->scenario->faults.ask_every_us > 0;
         i++) {
        in->asks[i][0] = (struct ask){ .present = true, .room = ROOM_AFTERWARDS };
        if (in->state == INSTANCE_UP)
            asks_set(w, in, i);
    }
}
