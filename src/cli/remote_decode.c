/* The objects of the API as the structs that they were made from.  A member that is missing or has another type is
 * treated as null: a newer daemon may send more, an older one less. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "cli/remote.h"
#include "core/lane.h"
#include "ops/reply.h"

#include <jansson.h>

struct reply_decoder {
    struct arena *arena;
    int64_t now_us;
    struct query_reply *reply;
};

/* ---- Rows ---- */

static void add_breaker(struct reply_decoder *d, const json_t *o, size_t max)
{
    if (!json_is_object(o) || d->reply->breaker_count == max)
        return;
    struct breaker_info *b = &d->reply->breakers[d->reply->breaker_count++];
    *b = (struct breaker_info){ .lanes = LANES_ALL }; /* the daemon has checked which messages wait for it */
    reply_parse(o, REPLY_BREAKER, d->arena, b);
}

static void decode_box(struct reply_decoder *d, const json_t *o, void *row)
{
    struct box_counts *b = row;
    struct box_reply box = { 0 };

    reply_parse(o, REPLY_BOX, d->arena, &box);
    *b = box.counts;
    b->oldest_us = box.oldest_age_us > 0 ? d->now_us - box.oldest_age_us : 0;
}

static const struct member name_members[] = { MEMBER(endpoint_state, "name", TEXT, name) };
static const struct members of_name = MEMBERS(name_members);

static void decode_endpoint(struct reply_decoder *d, const json_t *o, void *row)
{
    struct endpoint_state *e = row;
    struct condition_reply condition = { .until_us = 0 };

    reply_parse(o, REPLY_CONDITION, d->arena, &condition);
    const bool paused = slice_eq_cstr(condition.state, "paused");
    members_read(o, &of_name, d->arena, e);
    reply_parse(o, REPLY_ENDPOINT, d->arena, e);
    reply_parse(json_object_get(o, "last_failure"), REPLY_FAILURE, d->arena, e);
    e->paused_until_us = paused ? condition.until_us : 0;
    e->by = condition.by;
    e->why = paused ? condition.why : (pr_slice){ NULL, 0 };
}

static void decode_instance(struct reply_decoder *d, const json_t *o, void *row)
{
    reply_parse(o, REPLY_INSTANCE, d->arena, row);
}

static void decode_group(struct reply_decoder *d, const json_t *o, void *row)
{
    struct dead_group *g = row;
    struct group_reply group = { .count = 0 };

    reply_parse(o, REPLY_GROUP, d->arena, &group);
    *g = group.group;
    g->count = group.count;
    g->partial = !group.exact && g->count < COUNT_EXACT_MAX;
    g->count += !group.exact && g->count == COUNT_EXACT_MAX; /* one more means that the count is a lower bound */
}

static void decode_stream(struct reply_decoder *d, const json_t *o, void *row)
{
    struct stream_info *s = row;

    reply_parse(o, REPLY_STREAM, d->arena, s);
    if (s->due_us == 0 && (s->head_state == STATE_DEAD || s->head_state == STATE_PARKED))
        s->due_us = PR_NEVER; /* no attempt is planned */
}

/* What only some messages have, and what stands behind their payload. */
static const struct member listed_members[] = {
    /* clang-format off */
    MEMBER(listed, "headers", OBJECT, m.headers)
    MEMBER(listed, "story", OBJECT, m.story)
    MEMBER(listed, "instance", TEXT, instance)
    MEMBER(listed, "bad", CSTR, bad)
    /* clang-format on */
};
static const struct members of_listed = MEMBERS(listed_members);
static const struct member done_members[] = { MEMBER(listed, "done_at", TIME, died_us) };
static const struct members of_done = MEMBERS(done_members);

static void decode_message(struct reply_decoder *d, const json_t *o, void *row)
{
    struct listed *l = row;

    reply_parse(o, REPLY_MESSAGE, d->arena, l);
    reply_parse(o, REPLY_DEAD, d->arena, l);
    members_read(o, &of_listed, d->arena, l);
    if (l->state == STATE_DONE)
        members_read(o, &of_done, d->arena, l);
    if (l->m.due_us == 0 && l->state == STATE_PARKED)
        l->m.due_us = PR_NEVER;
}

/* The entry of the ledger. */
static void decode_end(struct reply_decoder *d, const json_t *o, struct listed *l)
{
    struct end_reply end = { .outcome = 0 };

    reply_parse(o, REPLY_END, d->arena, &end);
    if (end.outcome == 0)
        return;
    l->ended = end.by.size > 0 ? ENDED_BY_PERSON : end.outcome;
    l->died_us = end.ended_us;
    if (end.by.size > 0)
        l->instance = end.by;
}

/* Decodes a list of objects as rows of a shape; returns how many. */
static size_t decode_rows(struct reply_decoder *d, const json_t *list, enum reply_shape shape, size_t row_size,
                          void **ret)
{
    const size_t count = json_array_size(list);
    char *rows = arena_alloc_array(d->arena, count, row_size);

    *ret = rows;
    if (rows == NULL)
        return 0;
    memset(rows, 0, count * row_size);
    for (size_t i = 0; i < count; i++)
        reply_parse(json_array_get(list, i), shape, d->arena, rows + i * row_size);
    return count;
}

/* Each delivery repeats all of them. */
static void decode_dedupe(struct reply_decoder *d, const json_t *delivery)
{
    void *marks, *again;

    d->reply->mark_count =
        decode_rows(d, json_object_get(delivery, "handled"), REPLY_MARK, sizeof(*d->reply->marks), &marks);
    d->reply->again_count =
        decode_rows(d, json_object_get(delivery, "again"), REPLY_AGAIN, sizeof(*d->reply->again), &again);
    d->reply->marks = marks;
    d->reply->again = again;
}

/* One row for each endpoint, with what it waits for. */
static void decode_delivery(struct reply_decoder *d, const json_t *o, void *row)
{
    size_t count = (size_t)((struct listed *)row - d->reply->listed) + 1;

    if (count == 1)
        decode_dedupe(d, o);
    decode_message(d, json_object_get(o, "message"), row);
    decode_end(d, json_object_get(o, "message"), row);
    add_breaker(d, json_object_get(json_object_get(o, "next"), "breaker"), count);
}

/* ---- The whole ---- */

/* A list of an answer: its name, and its place in the reply. */
struct list_shape {
    const char *list;
    void (*decode)(struct reply_decoder *d, const json_t *object, void *row);
    size_t size, rows, count;
};
#define SHAPE(list, decode, type, rows, count)                                                                         \
    {                                                                                                                  \
        list, decode, sizeof(struct type), offsetof(struct query_reply, rows), offsetof(struct query_reply, count)     \
    }
#define LISTED(list, decode) SHAPE(list, decode, listed, listed, listed_count)

static const struct list_shape shapes[] = {
    [QUERY_MESSAGES] = LISTED("messages", decode_message),
    [QUERY_DEAD] = LISTED("messages", decode_message),
    [QUERY_ID] = LISTED("deliveries", decode_delivery),
    [QUERY_BOXES] = SHAPE("boxes", decode_box, box_counts, boxes, box_count),
    [QUERY_ENDPOINTS] = SHAPE("endpoints", decode_endpoint, endpoint_state, endpoints, endpoint_count),
    [QUERY_INSTANCES] = SHAPE("instances", decode_instance, instance_info, instances, instance_count),
    [QUERY_DEAD_GROUPS] = SHAPE("groups", decode_group, dead_group, groups, group_count),
    [QUERY_STREAMS] = SHAPE("streams", decode_stream, stream_info, streams, stream_count),
};

/* Zeroed rows for the answer; NULL: no memory. */
static char *make_rows(struct reply_decoder *d, const struct list_shape *shape, size_t count)
{
    struct query_reply *r = d->reply;
    char *rows = arena_alloc_array(d->arena, count, shape->size);

    if (rows == NULL)
        return NULL;
    memset(rows, 0, count * shape->size);
    memcpy((char *)r + shape->rows, &rows, sizeof(rows));
    memcpy((char *)r + shape->count, &count, sizeof(count));
    if (r->listed_count > 0)
        r->breakers = arena_alloc_array(d->arena, count, sizeof(*r->breakers));
    return r->listed_count == 0 || r->breakers != NULL ? rows : NULL;
}

/* Those of all endpoints, one after the other. */
static bool decode_breakers(struct reply_decoder *d, const json_t *endpoints)
{
    const json_t *endpoint, *breaker;
    size_t i, k, count = 0;

    json_array_foreach(endpoints, i, endpoint) count += json_array_size(json_object_get(endpoint, "breakers"));
    d->reply->breakers = arena_alloc_array(d->arena, count, sizeof(*d->reply->breakers));
    if (d->reply->breakers == NULL)
        return false;
    json_array_foreach(endpoints, i, endpoint) json_array_foreach(json_object_get(endpoint, "breakers"), k, breaker)
        add_breaker(d, breaker, count);
    return true;
}

static const struct member page_members[] = {
    /* clang-format off */
    MEMBER(query_reply, "more", BOOL, more)
    MEMBER(query_reply, "cut", BOOL, cut)
    MEMBER(query_reply, "looked_at", COUNT, looked)
    MEMBER(query_reply, "searched_from", TIME, ended_from_us)
    /* clang-format on */
};
static const struct members of_page = MEMBERS(page_members);

int remote_decode(const json_t *answer, enum query_kind kind, int64_t now_us, struct arena *arena,
                  struct query_reply *ret, struct pr_error *reterr)
{
    struct query_reply reply = { .now_us = now_us };
    struct reply_decoder d = { arena, now_us, &reply };
    const struct list_shape *shape = &shapes[kind];
    const json_t *list = json_object_get(answer, shape->list), *row;
    size_t i;

    if (!json_is_array(list))
        return error_set(reterr, PR_ESTORE, "the answer has no \"%s\"; check that the URL is Postrider's API",
                         shape->list);
    char *rows = make_rows(&d, shape, json_array_size(list));
    if (rows == NULL || (kind == QUERY_ENDPOINTS && !decode_breakers(&d, list)))
        return error_set(reterr, PR_ENOMEM, "out of memory for the answer");
    members_read(answer, &of_page, arena, &reply);
    json_array_foreach(list, i, row) shape->decode(&d, row, rows + i * shape->size);
    *ret = reply;
    return PR_OK;
}
