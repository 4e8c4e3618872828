/* The objects of the API as the structs that they were made from.  What is missing or of another type is as
 * if it were null: a newer daemon may say more, an older one less. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "cli/remote.h"
#include "core/columns.h"
#include "core/lane.h"

#include <jansson.h>

struct decoder {
    struct arena *arena;
    int64_t now_us;
    struct query_reply *reply;
};

static pr_slice text_of(const struct decoder *d, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    pr_slice text = { json_string_value(value), json_string_length(value) };

    if (text.data == NULL)
        return (pr_slice){ NULL, 0 };
    text = slice_dup(d->arena, text);
    ASSERT(text.data != NULL);
    return text;
}

static uint64_t count_of(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));

    return value > 0 ? (uint64_t)value : 0;
}

static int number_of(const json_t *object, const char *key)
{
    uint64_t value = count_of(object, key);

    return value <= COUNTER_MAX ? (int)value : COUNTER_MAX;
}

/* null: `otherwise`. */
static int64_t time_of(const json_t *object, const char *key, int64_t otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    int64_t us;

    return text != NULL && time_parse_rfc3339(slice_from(text), &us) == PR_OK ? us : otherwise;
}

static int64_t span_of(const json_t *object, const char *key)
{
    double seconds = json_number_value(json_object_get(object, key));

    return seconds > -1e9 && seconds < 1e9 ? (int64_t)(seconds * 1e6) : 0;
}

static int reason_of(const json_t *object, const char *key)
{
    return reason_parse(slice_from(json_string_value(json_object_get(object, key))));
}

static pr_id id_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    pr_id id = { { 0 } };

    if (text == NULL || pr_id_parse(slice_from(text), &id) != PR_OK)
        return (pr_id){ { 0 } };
    return id;
}

static enum state state_in(const json_t *object, const char *key)
{
    enum state state = state_parse(slice_from(json_string_value(json_object_get(object, key))));

    return state != STATE_COUNT ? state : STATE_GONE;
}

/* JSON inside a message, as the store keeps it. */
static pr_slice json_in(const struct decoder *d, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
    pr_slice copy = { NULL, 0 };

    if (text != NULL) {
        copy = slice_dup(d->arena, slice_from(text));
        ASSERT(copy.data != NULL);
    }
    free(text);
    return copy;
}

/* ---- Rows ---- */

static struct breaker_info breaker_from(const struct decoder *d, const json_t *o)
{
    return (struct breaker_info){
        .endpoint = text_of(d, o, "endpoint"),
        .type = text_of(d, o, "type"),
        .box = text_of(d, o, "box"),
        .instance = text_of(d, o, "instance"),
        .lanes = LANES_ALL, /* the daemon has looked which messages wait for it */
        .since_us = time_of(o, "since", 0),
        .until_us = time_of(o, "until", PR_NEVER),
        .probes = number_of(o, "failed_probes"),
        .reason = reason_of(o, "reason"),
        .code = text_of(d, o, "code"),
        .error = text_of(d, o, "error"),
    };
}

static void add_breaker(struct decoder *d, const json_t *o, size_t max)
{
    if (json_is_object(o) && d->reply->breaker_count < max)
        d->reply->breakers[d->reply->breaker_count++] = breaker_from(d, o);
}

/* A count that is told to COUNT_EXACT_MAX: then it says that there are more. */
static uint64_t bounded_of(const json_t *o, const char *key, const char *exact_key)
{
    uint64_t count = count_of(o, key);
    return count + (count == COUNT_EXACT_MAX && json_is_false(json_object_get(o, exact_key)));
}

static void decode_box(struct decoder *d, const json_t *o, size_t i)
{
    int64_t age_us = span_of(o, "oldest_age_seconds");

    d->reply->boxes[i] = (struct box_counts){
        .name = text_of(d, o, "name"),
        .ready = count_of(o, "ready"),
        .in_flight = count_of(o, "in_flight"),
        .delayed = count_of(o, "delayed"),
        .retrying = count_of(o, "retrying"),
        .held = count_of(o, "held"),
        .parked = count_of(o, "parked"),
        .paused = count_of(o, "paused"),
        .dead = count_of(o, "dead"),
        .done = count_of(o, "done"),
        .oldest_us = age_us > 0 ? d->now_us - age_us : 0,
    };
}

static void decode_endpoint(struct decoder *d, const json_t *o, size_t i)
{
    const json_t *failure = json_object_get(o, "last_failure");
    const char *state = json_string_value(json_object_get(o, "state"));
    bool paused = state != NULL && strcmp(state, "paused") == 0;

    d->reply->endpoints[i] = (struct endpoint_state){
        .name = text_of(d, o, "name"),
        .paused_until_us = paused ? time_of(o, "until", PR_NEVER) : 0,
        .by = text_of(d, o, "by"),
        .why = paused ? text_of(d, o, "why") : (pr_slice){ NULL, 0 },
        .sent = count_of(o, "sent"),
        .failed = count_of(o, "failed"),
        .dead = count_of(o, "dead"),
        .discarded = count_of(o, "discarded"),
        .expired = count_of(o, "expired"),
        .failed_in_row = count_of(o, "failed_in_row"),
        .last_failed_us = time_of(failure, "at", 0),
        .last_reason = reason_of(failure, "reason"),
        .last_code = text_of(d, failure, "code"),
        .last_error = text_of(d, failure, "error"),
    };
}

static void decode_instance(struct decoder *d, const json_t *o, size_t i)
{
    d->reply->instances[i] = (struct instance_info){
        .name = text_of(d, o, "name"),
        .box = text_of(d, o, "box"),
        .version = text_of(d, o, "version"),
        .id = id_of(o, "id"),
        .epoch = (int64_t)count_of(o, "epoch"),
        .lease_left_us = span_of(o, "lease_left_seconds"),
        .started_us = time_of(o, "started_at", 0),
        .lanes = number_of(o, "lanes"),
        .in_flight = count_of(o, "in_flight"),
    };
}

static void decode_group(struct decoder *d, const json_t *o, size_t i)
{
    d->reply->groups[i] = (struct dead_group){
        .fingerprint = text_of(d, o, "fingerprint"),
        .count = bounded_of(o, "count", "count_exact"),
        .partial = count_of(o, "count") < COUNT_EXACT_MAX && json_is_false(json_object_get(o, "count_exact")),
        .first_us = time_of(o, "first_at", 0),
        .last_us = time_of(o, "last_at", 0),
        .box = text_of(d, o, "box"),
        .endpoint = text_of(d, o, "endpoint"),
        .type = text_of(d, o, "type"),
        .error = text_of(d, o, "error"),
        .cause = reason_of(o, "cause"),
        .reason = reason_of(o, "reason"),
        .sample = id_of(o, "sample"),
    };
}

static void decode_stream(struct decoder *d, const json_t *o, size_t i)
{
    enum state state = state_in(o, "head_state");
    bool by_itself = state != STATE_DEAD && state != STATE_PARKED;

    d->reply->streams[i] = (struct stream_info){
        .box = text_of(d, o, "box"),
        .stream = text_of(d, o, "stream"),
        .endpoint = text_of(d, o, "endpoint"),
        .head = id_of(o, "head"),
        .head_state = state,
        .attempts = number_of(o, "attempts"),
        .failures = number_of(o, "failures"),
        .reason = reason_of(o, "reason"),
        .code = text_of(d, o, "code"),
        .error = text_of(d, o, "error"),
        .since_us = time_of(o, "since", 0),
        .due_us = time_of(o, "next_at", by_itself ? 0 : PR_NEVER),
        .waiting = bounded_of(o, "waiting", "waiting_exact"),
    };
}

static void decode_message(struct decoder *d, const json_t *o, size_t i)
{
    struct listed *l = &d->reply->listed[i];

    *l = (struct listed){
        .row = count_of(o, "row"),
        .box = text_of(d, o, "box"),
        .state = state_in(o, "state"),
        .endpoint = text_of(d, o, "endpoint"),
        .cause = reason_of(o, "cause"),
        .limit = number_of(o, "limit"),
        .rule = text_of(d, o, "rule"),
        .fingerprint = text_of(d, o, "fingerprint"),
        .note = text_of(d, o, "note"),
        .edited_as = id_of(o, "edited_as"),
        .instance = text_of(d, o, "instance"),
        .bad = text_of(d, o, "bad").data,
    };
    l->died_us = time_of(o, l->state == STATE_DONE ? "done_at" : "died_at", 0);
    l->m = (struct pr_message){
        .id = id_of(o, "id"),
        .type = text_of(d, o, "type"),
        .stream = text_of(d, o, "stream"),
        .destination = text_of(d, o, "destination"),
#define X(column, ...) .column = text_of(d, o, #column),
        SENDER_TEXTS(X)
#undef X
            .headers = json_in(d, o, "headers"),
        .due_us = time_of(o, "due_at", l->state == STATE_PARKED ? PR_NEVER : 0),
        .expires_us = time_of(o, "expires_at", 0),
        .created_us = time_of(o, "created_at", 0),
        .seq = (int64_t)count_of(o, "seq"),
        .status = number_of(o, "status"),
        .attempts = number_of(o, "attempts"),
        .failures = number_of(o, "failures"),
        .reason = reason_of(o, "reason"),
        .code = text_of(d, o, "code"),
        .error = text_of(d, o, "error"),
        .failed_us = time_of(o, "failed_at", 0),
        .story = json_in(d, o, "story"),
        .held_by = text_of(d, o, "held_by"),
        .held_for = held_for_parse(slice_from(json_string_value(json_object_get(o, "held_for")))),
        .parked_by = parked_by_parse(slice_from(json_string_value(json_object_get(o, "parked_by")))),
    };
}

/* One for each endpoint that it goes to, with what it waits for. */
static void decode_delivery(struct decoder *d, const json_t *o, size_t i)
{
    decode_message(d, json_object_get(o, "message"), i);
    add_breaker(d, json_object_get(json_object_get(o, "next"), "breaker"), i + 1);
}

/* ---- The whole ---- */

struct shape {
    const char *list;
    void (*decode)(struct decoder *d, const json_t *row, size_t i);
};

static const struct shape shapes[] = {
    [QUERY_MESSAGES] = { "messages", decode_message },    [QUERY_DEAD] = { "messages", decode_message },
    [QUERY_ID] = { "deliveries", decode_delivery },       [QUERY_BOXES] = { "boxes", decode_box },
    [QUERY_ENDPOINTS] = { "endpoints", decode_endpoint }, [QUERY_INSTANCES] = { "instances", decode_instance },
    [QUERY_DEAD_GROUPS] = { "groups", decode_group },     [QUERY_STREAMS] = { "streams", decode_stream },
};

/* Room for count rows of the kind that is asked for. */
static bool make_room(struct decoder *d, enum query_kind kind, size_t count)
{
    struct query_reply *r = d->reply;

    switch (kind) {
    case QUERY_BOXES:
        r->boxes = arena_alloc_array(d->arena, count, sizeof(*r->boxes));
        r->box_count = count;
        return r->boxes != NULL;
    case QUERY_ENDPOINTS:
        r->endpoints = arena_alloc_array(d->arena, count, sizeof(*r->endpoints));
        r->endpoint_count = count;
        return r->endpoints != NULL;
    case QUERY_INSTANCES:
        r->instances = arena_alloc_array(d->arena, count, sizeof(*r->instances));
        r->instance_count = count;
        return r->instances != NULL;
    case QUERY_DEAD_GROUPS:
        r->groups = arena_alloc_array(d->arena, count, sizeof(*r->groups));
        r->group_count = count;
        return r->groups != NULL;
    case QUERY_STREAMS:
        r->streams = arena_alloc_array(d->arena, count, sizeof(*r->streams));
        r->stream_count = count;
        return r->streams != NULL;
    default:
        r->listed = arena_alloc_array(d->arena, count, sizeof(*r->listed));
        r->breakers = arena_alloc_array(d->arena, count, sizeof(*r->breakers));
        r->listed_count = count;
        return r->listed != NULL && r->breakers != NULL;
    }
}

/* Those of all endpoints, behind each other. */
static bool decode_breakers(struct decoder *d, const json_t *endpoints)
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

int remote_decode(const json_t *answer, enum query_kind kind, int64_t now_us, struct arena *arena,
                  struct query_reply *ret, struct pr_error *reterr)
{
    struct query_reply reply = { .now_us = now_us,
                                 .more = json_is_true(json_object_get(answer, "more")),
                                 .cut = json_is_true(json_object_get(answer, "cut")),
                                 .looked = count_of(answer, "looked_at") };
    struct decoder d = { arena, now_us, &reply };
    const struct shape *shape = &shapes[kind];
    const json_t *list = json_object_get(answer, shape->list), *row;
    size_t i;

    if (!json_is_array(list))
        return error_set(reterr, PR_ESTORE, "the answer has no \"%s\"; check that the URL is Postrider's API",
                         shape->list);
    if (!make_room(&d, kind, json_array_size(list)) || (kind == QUERY_ENDPOINTS && !decode_breakers(&d, list)))
        return error_set(reterr, PR_ENOMEM, "out of memory for the answer");
    json_array_foreach(list, i, row) shape->decode(&d, row, i);
    *ret = reply;
    return PR_OK;
}
