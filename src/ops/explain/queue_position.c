#include "ops/explain/queue_position.h"

#include "base/slice.h"
#include "base/util.h"
#include "ops/endpoint.h"

#define BEFORE_MAX 100 /* rows of the stream, on their way to the endpoint, that are looked at */

/* One at a time, in order: of the earlier ones the one that is out, else the first that is ready. */
static const struct listed *choose_before(const struct query_reply *stream, const struct listed *listed)
{
    const struct listed *ready = NULL;
    for (size_t i = 0; i < stream->listed_count; i++) {
        const struct listed *other = &stream->listed[i];
        if (other->m.seq >= listed->m.seq)
            continue;
        if (other->state == STATE_IN_FLIGHT)
            return other;
        if (other->state == STATE_READY && ready == NULL)
            ready = other;
    }
    return ready;
}

/* Messages that are out are on receipts, so they are found anywhere; ready ones are searched among the first rows of
 * the box, since no index knows streams. */
int turn_look_before(struct store *store, const struct config *config, struct arena *arena, const struct listed *listed,
                     pr_slice endpoint, struct queue_position *t, struct pr_error *reterr)
{
    struct config_routing routing = config_routing(config);
    const int states[] = { STATE_IN_FLIGHT, -1 };
    int rc = PR_OK;
    for (size_t i = 0; i < ARRAY_LENGTH(states) && rc == PR_OK && t->before == NULL; i++) {
        const struct query query = { .kind = QUERY_MESSAGES,
                                     .brief = true,
                                     .filter = { .box = listed->box,
                                                 .stream = listed->m.stream,
                                                 .endpoint = endpoint,
                                                 .state = states[i],
                                                 .limit = BEFORE_MAX,
                                                 .look_max = LOOK_MAX,
                                                 .routing = &routing.routing } };
        rc = store_query(store, &query, arena, &t->stream, reterr);
        if (rc == PR_OK)
            t->before = choose_before(&t->stream, listed);
        else if (rc == PR_EUNSUPPORTED) /* the HTTP API does not filter by states here */
            rc = PR_OK;
    }
    return rc;
}

static int look_out(struct store *store, const struct config *config, struct arena *arena, const struct listed *listed,
                    pr_slice endpoint, struct queue_position *t, struct pr_error *reterr)
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
    if (rc == PR_EUNSUPPORTED) { /* the HTTP API does not count them */
        t->room = 0;
        return PR_OK;
    }
    if (rc == PR_OK)
        t->out = reply.listed_count;
    return rc;
}

int turn_look(struct store *store, const struct config *config, struct arena *arena, const struct listed *listed,
              const struct config_endpoint *setting, uint64_t workers, struct queue_position *ret,
              struct pr_error *reterr)
{
    int rc = PR_OK;
    *ret = (struct queue_position){ .room = setting != NULL ? (uint64_t)setting->concurrency * workers : 0 };
    if (setting == NULL)
        return rc;
    pr_slice endpoint = slice_from(setting->name);
    bool ordered = listed->m.stream.size > 0 && setting->ordering != ORDERING_NONE && !listed->m.released;
    if (ordered)
        rc = turn_look_before(store, config, arena, listed, endpoint, ret, reterr);
    if (rc == PR_OK && ret->room > 0)
        rc = look_out(store, config, arena, listed, endpoint, ret, reterr);
    return rc;
}
