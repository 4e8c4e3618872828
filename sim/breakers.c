/* The breakers of an engine compared with what people see in the store (I29).
 *
 * A cycle that landed has reported all changes before it was planned.  If nothing changed since (a cycle can be asked
 * again much later), both must be the same, one by one. */
#include "base/slice.h"
#include "base/util.h"
#include "world.h"

#define COMPARED_MAX 256
#define LOOK_EVERY 16 /* cycles, when nothing was told */

static const struct breaker_info *find(const struct query_reply *reply, const struct instance *in,
                                       const struct cycle *cycle, const struct breaker_view *view)
{
    pr_slice endpoint = in->setting.endpoints[view->endpoint].name;
    for (size_t i = 0; i < reply->breaker_count; i++) {
        const struct breaker_info *b = &reply->breakers[i];
        if (pr_id_equal(b->instance_id, cycle->instance) && slice_eq(b->endpoint, endpoint) &&
            slice_eq(b->type, view->type))
            return b;
    }
    return NULL;
}

static size_t count_own(const struct query_reply *reply, const struct cycle *cycle)
{
    size_t count = 0;
    for (size_t i = 0; i < reply->breaker_count; i++)
        count += pr_id_equal(reply->breakers[i].instance_id, cycle->instance);
    return count;
}

static bool are_same(const struct query_reply *reply, const struct instance *in, const struct cycle *cycle,
                     const struct breaker_view *views, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct breaker_info *b = find(reply, in, cycle, &views[i]);
        if (b == NULL || b->probes != views[i].probes || b->reason == PR_REASON_NONE)
            return false;
    }
    return count_own(reply, cycle) == count;
}

void world_compare_breakers(struct world *w, struct instance *in, const struct cycle *cycle, bool has_lanes)
{
    struct breaker_view views[COMPARED_MAX];
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply reply;
    struct arena arena;
    size_t count;

    if (!w->scenario->check || cycle->leave || (cycle->breaker_count == 0 && w->cycles % LOOK_EVERY != 0) ||
        !engine_breakers_are_stored(in->engine))
        return;
    count = engine_breakers(in->engine, views, COMPARED_MAX);
    if (count > COMPARED_MAX)
        return;
    arena_init(&arena, 1 << 12);
    if (store_query(&w->store, &query, &arena, &reply, NULL) != PR_OK)
        w->broken = "the store cannot be asked";
    else if (!are_same(&reply, in, cycle, views, has_lanes ? count : 0))
        world_note(w, (struct event){ .kind = EVENT_UNREPORTED,
                                      .instance = (uint8_t)in->index,
                                      .session = in->session_number,
                                      .message = MESSAGE_NONE,
                                      .number = (int32_t)count_own(&reply, cycle),
                                      .value = (int64_t)count });
    arena_fini(&arena);
}
