#include <string.h>

#include "base/shell.h"
#include "base/slice.h"
#include "ops/endpoint.h"
#include "ops/message.h"
#include "ops/explain/why_context.h"

/* The endpoint at which it is held. */
static pr_slice held_at(const struct listed *l)
{
    const pr_slice endpoint = held_endpoint(l->m.held_by);
    return endpoint.size > 0 ? endpoint : message_endpoint(l);
}

/* Of the head's parts for several endpoints, the one that blocks the others; or, before it is routed, the whole
 * message. */
static const struct listed *choose_part(const struct query_reply *parts, const struct stream_info *stream)
{
    const struct listed *undecided = NULL;
    for (size_t i = 0; i < parts->listed_count; i++) {
        const struct listed *l = &parts->listed[i];
        bool there = stream->head_state == STATE_DEAD ? l->state == STATE_DEAD : is_in_box(l);
        if (!there || !slice_eq(l->box, stream->box))
            continue;
        if (slice_eq(message_endpoint(l), stream->endpoint))
            return l;
        if (l->m.destination.size == 0)
            undecided = l;
    }
    return undecided;
}

/* The store's entry for its stream; NULL: none. */
static int ask_head(struct why_context *v, pr_slice endpoint, const struct listed **ret, struct pr_error *reterr)
{
    const struct config_routing routing = config_routing(v->o->config);
    const struct query question = { .kind = QUERY_STREAMS,
                                    .filter = { .box = v->l->box,
                                                .stream = v->l->m.stream,
                                                .endpoint = endpoint,
                                                .state = -1,
                                                .routing = &routing.routing } };
    struct query_reply streams;
    *ret = NULL;
    int rc = store_query(v->o->store, &question, v->arena, &streams, reterr);
    if (rc != PR_OK || streams.stream_count == 0)
        return rc;
    const struct query parts = { .kind = QUERY_ID,
                                 .filter = { .state = -1, .ids = &streams.streams[0].head, .id_count = 1 } };
    rc = store_query(v->o->store, &parts, v->arena, &v->head_parts, reterr);
    if (rc == PR_OK)
        *ret = choose_part(&v->head_parts, &streams.streams[0]);
    return rc;
}

/* What blocks it: in the box, or (strict) parked or among the dead letters.  If the ordering is unknown it may be
 * strict.  A head whose counters a person reset is not a head for the store, but goes first all the same. */
static int find_head(struct why_context *v, struct pr_error *reterr)
{
    const pr_slice endpoint = held_at(v->l);
    const struct config_endpoint *setting = config_find_endpoint(v->o->config, endpoint);
    const struct listed *head;
    int rc = ask_head(v, endpoint, &head, reterr);
    if (rc != PR_OK)
        return rc;
    if (head != NULL && head->m.seq < v->l->m.seq) {
        bool strict = setting == NULL || setting->ordering == ORDERING_STRICT;
        if (strict || (head->state != STATE_PARKED && head->state != STATE_DEAD))
            v->o->head = head;
        else if (head->state == STATE_PARKED)
            v->aside = head;
    }
    if (v->o->head != NULL)
        return PR_OK;
    struct queue_position turn = { .before = NULL };
    rc = turn_look_before(v->o->store, v->o->config, v->arena, v->l, endpoint, &turn, reterr);
    v->o->head = turn.before;
    return rc;
}

static const struct endpoint_state *find_pause(const struct why_context *v, pr_slice endpoint)
{
    for (size_t i = 0; i < v->endpoints.endpoint_count; i++)
        if (slice_eq(v->endpoints.endpoints[i].name, endpoint))
            return v->endpoints.endpoints[i].paused_until_us > v->now_us ? &v->endpoints.endpoints[i] : NULL;
    return NULL;
}

int why_look_around(struct why_context *v, struct pr_error *reterr)
{
    struct message_why *o = v->o;
    const struct query endpoints = { .kind = QUERY_ENDPOINTS, .filter.state = -1 },
                       instances = { .kind = QUERY_INSTANCES, .filter.state = -1 };
    int rc = store_query(o->store, &endpoints, v->arena, &v->endpoints, reterr);
    if (rc == PR_OK)
        rc = store_query(o->store, &instances, v->arena, &v->instances, reterr);
    if (rc == PR_OK && v->l->state == STATE_HELD)
        rc = find_head(v, reterr);
    if (rc != PR_OK)
        return rc;
    for (size_t i = 0; i < v->instances.instance_count; i++)
        v->workers += slice_eq(v->instances.instances[i].box, v->l->box) && v->instances.instances[i].lease_left_us > 0;
    o->endpoint = v->l->state == STATE_HELD ? held_at(v->l) : message_endpoint(v->l);
    o->breaker = message_breaker(o->config, o->reply, v->l);
    v->pause = find_pause(v, o->endpoint);
    v->setting = config_find_endpoint(o->config, o->endpoint);
    if (v->l->state != STATE_READY || o->breaker != NULL || v->workers == 0)
        return PR_OK;
    rc = turn_look(o->store, o->config, v->arena, v->l, v->setting, v->workers, &v->turn, reterr);
    o->head = v->turn.before;
    return rc;
}

bool why_is_claimed(const struct why_context *v)
{
    return v->setting != NULL && strcmp(v->setting->url, "pull:") == 0;
}

const char *why_name(const struct why_context *v, const struct query_reply *reply, const struct listed *l,
                     pr_slice endpoint)
{
    char id[PR_ID_TEXT_SIZE];
    size_t parts = 0;
    for (size_t i = 0; i < reply->listed_count; i++)
        parts += l->state == STATE_DEAD ? reply->listed[i].state == STATE_DEAD : is_in_box(&reply->listed[i]);
    pr_id_format(l->m.id, id);
    bool several = parts > 1 && endpoint.size > 0;
    return arena_printf(v->arena, "%s%s%s", id, several ? " --endpoint " : "",
                        several ? shell_quote(v->arena, endpoint) : "")
        .data;
}
