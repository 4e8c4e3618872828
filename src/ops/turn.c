#include "ops/turn.h"

#include "base/slice.h"
#include "ops/endpoint.h"
#include "ops/message.h"

#define STREAM_LOOKED_MAX 1000 /* rows of the stream, the first ones */

/* One at a time, in order: of those before it the one that is on its way, else the first that is ready. */
static int look_before(struct store *store, const struct config *config, struct arena *arena,
                       const struct listed *listed, pr_slice endpoint, struct turn *t, struct pr_error *reterr)
{
    const struct query query = {
        .kind = QUERY_MESSAGES,
        .brief = true,
        .filter = { .box = listed->box, .stream = listed->m.stream, .state = -1, .limit = STREAM_LOOKED_MAX }
    };
    int rc = store_query(store, &query, arena, &t->stream, reterr);
    if (rc != PR_OK)
        return rc;
    messages_see_routes(config, &t->stream);
    for (size_t i = 0; i < t->stream.listed_count; i++) {
        const struct listed *other = &t->stream.listed[i];
        if (other->m.seq >= listed->m.seq || !slice_eq(message_endpoint(other), endpoint))
            continue;
        if (other->state == STATE_IN_FLIGHT) {
            t->before = other;
            break;
        }
        if (other->state == STATE_READY && t->before == NULL)
            t->before = other;
    }
    return PR_OK;
}

static int look_out(struct store *store, const struct config *config, struct arena *arena,
                    const struct listed *listed, pr_slice endpoint, struct turn *t, struct pr_error *reterr)
{
    struct config_routing routing = config_routing(config);
    const struct query query = { .kind = QUERY_MESSAGES,
                                 .brief = true,
                                 .filter = { .box = listed->box,
                                             .endpoint = endpoint,
                                             .state = STATE_IN_FLIGHT,
                                             .limit = (size_t)t->room,
                                             .routing = &routing.routing } };
    struct query_reply reply;
    int rc = store_query(store, &query, arena, &reply, reterr);
    if (rc == PR_EUNSUPPORTED) { /* over HTTP nobody counts them */
        t->room = 0;
        return PR_OK;
    }
    if (rc == PR_OK)
        t->out = reply.listed_count;
    return rc;
}

int turn_look(struct store *store, const struct config *config, struct arena *arena,
              const struct listed *listed, const struct config_endpoint *setting, uint64_t workers,
              struct turn *ret, struct pr_error *reterr)
{
    int rc = PR_OK;
    *ret = (struct turn){ .room = setting != NULL ? (uint64_t)setting->concurrency * workers : 0 };
    if (setting == NULL)
        return rc;
    pr_slice endpoint = slice_from(setting->name);
    bool ordered = listed->m.stream.size > 0 && setting->ordering != ORDERING_NONE && !listed->m.released;
    if (ordered)
        rc = look_before(store, config, arena, listed, endpoint, ret, reterr);
    if (rc == PR_OK && ret->room > 0)
        rc = look_out(store, config, arena, listed, endpoint, ret, reterr);
    return rc;
}
