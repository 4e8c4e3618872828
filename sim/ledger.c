/* The store's ledger at the end of the run: an event for each end, and one after the last. */
#include "base/error.h"
#include "base/slice.h"
#include "world.h"

static void tell(struct world *w, uint32_t message, const struct listed *l)
{
    world_note(w, (struct event){ .kind = EVENT_ENDED,
                                  .instance = INSTANCE_NONE,
                                  .message = message,
                                  .destination = world_destination(w, l->endpoint),
                                  .what = (uint16_t)l->ended,
                                  .number = l->m.attempts });
}

void ledger_note(struct world *w)
{
    struct arena arena;
    arena_init(&arena, 1 << 16);
    for (uint32_t i = 0; i < w->parcel_count; i++) {
        const struct query query = { .kind = QUERY_ID,
                                     .filter = { .state = -1, .ids = &w->parcels[i]->m.id, .id_count = 1 },
                                     .ended = true };
        struct query_reply reply;
        arena_reset(&arena);
        int rc = store_query(&w->store, &query, &arena, &reply, NULL);
        ASSERT(rc == PR_OK);
        if (w->parcels[i]->original != NULL)
            continue; /* it was asked for by its id */
        for (size_t k = 0; k < reply.listed_count; k++)
            if (slice_eq(reply.listed[k].box, w->scenario->engine.box) && reply.listed[k].ended != 0 &&
                reply.listed[k].m.attempts + (int)reply.listed[k].instance.size > 0)
                tell(w, i, &reply.listed[k]);
    }
    arena_fini(&arena);
    world_note(w, (struct event){ .kind = EVENT_ENDED, .instance = INSTANCE_NONE, .message = MESSAGE_NONE });
}
