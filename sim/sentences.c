/* Helpers for the tests of worlds. */
#include "world.h"

#include "base/error.h"
#include "base/slice.h"
#include "store/memory/memory.h"

pr_id world_send_to(struct world *w, const char *destination, const char *stream, const char *payload)
{
    struct parcel *p = world_parcel(w);
    p->m.type = scenario_type(0);
    p->m.destination = slice_dup(&w->arena, slice_from(destination));
    p->m.stream = slice_dup(&w->arena, slice_from(stream));
    p->m.payload = slice_dup(&w->arena, slice_from(payload));
    parcel_seal(w, p);
    int rc = world_store(w, &p, 1);
    ASSERT(rc == PR_OK);
    return p->m.id;
}

void world_send_again(struct world *w, pr_id id, const char *destination, const char *stream, const char *payload)
{
    struct parcel *original = world_find(w, id), *p = world_parcel(w);
    struct memory_tx *tx = memory_tx_begin(&w->store);
    ASSERT(original != NULL && tx != NULL);
    p->m = original->m;
    p->m.destination = slice_dup(&w->arena, slice_from(destination));
    p->m.stream = slice_dup(&w->arena, slice_from(stream));
    p->m.payload = slice_dup(&w->arena, slice_from(payload));
    p->original = original;
    original->copy = p;
    parcel_seal(w, p);
    int rc = memory_tx_insert(tx, w->scenario->engine.box, &p->m);
    ASSERT(rc == PR_OK);
    memory_tx_commit(tx);
    parcel_stored(w, p);
    world_announce(w);
}

pr_id world_send(struct world *w, const char *stream, const char *payload)
{
    return world_send_to(w, "", stream, payload);
}

unsigned world_deliveries(struct world *w, pr_id id)
{
    return world_find(w, id)->arrivals;
}

unsigned world_sends(struct world *w, pr_id id)
{
    return world_find(w, id)->starts;
}

enum state world_state(struct world *w, pr_id id, pr_slice destination)
{
    struct arena arena;
    struct query_reply reply;
    struct query query = { .kind = QUERY_ID, .filter = { .ids = &id, .id_count = 1, .state = -1 } };
    enum state state = STATE_GONE;

    arena_init(&arena, 4096);
    int rc = store_query(&w->store, &query, &arena, &reply, NULL);
    ASSERT(rc == PR_OK);
    for (size_t i = 0; i < reply.listed_count; i++)
        if (slice_is_empty(destination) || slice_eq(reply.listed[i].m.destination, destination))
            state = reply.listed[i].state;
    arena_fini(&arena);
    return state;
}
