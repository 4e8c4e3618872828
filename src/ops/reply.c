#include "ops/reply.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/columns.h"
#include "ops/explain/words.h"
#include "ops/member.h"

#define KEY_MAX 64

enum member_kind {
    MEMBER_TEXT,    /* pr_slice; null: empty */
    MEMBER_OBJECT,  /* pr_slice: JSON, as it is stored */
    MEMBER_ID,      /* pr_id; null: zero */
    MEMBER_TIME,    /* int64_t; null: 0 (and PR_NEVER, when it is written) */
    MEMBER_UNTIL,   /* int64_t; null: PR_NEVER */
    MEMBER_SPAN,    /* int64_t; seconds */
    MEMBER_INT,     /* int */
    MEMBER_NUMBER,  /* int64_t */
    MEMBER_COUNT,   /* uint64_t */
    MEMBER_BOUNDED, /* uint64_t to COUNT_EXACT_MAX; KEY_exact is false where there are more */
    MEMBER_REASON,  /* int, enum pr_reason */
    MEMBER_STATE,   /* enum state */
    MEMBER_HELD_FOR,
    MEMBER_PARKED_BY,
};

struct member {
    const char *key;
    enum member_kind kind;
    size_t offset;
};

/* ---- The tables ---- */

#define M(type, key, kind, member) { key, MEMBER_##kind, offsetof(struct type, member) },

static const struct member box_members[] = {
    /* clang-format off */
    M(box_counts, "name", TEXT, name)
    M(box_counts, "ready", COUNT, ready)
    M(box_counts, "in_flight", COUNT, in_flight)
    M(box_counts, "delayed", COUNT, delayed)
    M(box_counts, "retrying", COUNT, retrying)
    M(box_counts, "held", COUNT, held)
    M(box_counts, "parked", COUNT, parked)
    M(box_counts, "paused", COUNT, paused)
    M(box_counts, "dead", COUNT, dead)
    M(box_counts, "done", COUNT, done)
    /* clang-format on */
};

static const struct member endpoint_members[] = {
    /* clang-format off */
    M(endpoint_state, "sent", COUNT, sent)
    M(endpoint_state, "failed", COUNT, failed)
    M(endpoint_state, "dead", COUNT, dead)
    M(endpoint_state, "discarded", COUNT, discarded)
    M(endpoint_state, "expired", COUNT, expired)
    M(endpoint_state, "duplicates", COUNT, duplicates)
    M(endpoint_state, "failed_in_row", COUNT, failed_in_row)
    /* clang-format on */
};

static const struct member failure_members[] = {
    /* clang-format off */
    M(endpoint_state, "at", TIME, last_failed_us)
    M(endpoint_state, "reason", REASON, last_reason)
    M(endpoint_state, "code", TEXT, last_code)
    M(endpoint_state, "error", TEXT, last_error)
    /* clang-format on */
};

static const struct member breaker_members[] = {
    /* clang-format off */
    M(breaker_info, "endpoint", TEXT, endpoint)
    M(breaker_info, "type", TEXT, type)
    M(breaker_info, "since", TIME, since_us)
    M(breaker_info, "until", UNTIL, until_us)
    M(breaker_info, "failed_probes", INT, probes)
    M(breaker_info, "reason", REASON, reason)
    M(breaker_info, "code", TEXT, code)
    M(breaker_info, "error", TEXT, error)
    M(breaker_info, "box", TEXT, box)
    M(breaker_info, "instance", TEXT, instance)
    /* clang-format on */
};

static const struct member instance_members[] = {
    /* clang-format off */
    M(instance_info, "id", ID, id)
    M(instance_info, "name", TEXT, name)
    M(instance_info, "box", TEXT, box)
    M(instance_info, "version", TEXT, version)
    M(instance_info, "epoch", NUMBER, epoch)
    M(instance_info, "lanes", INT, lanes)
    M(instance_info, "in_flight", COUNT, in_flight)
    M(instance_info, "lease_left_seconds", SPAN, lease_left_us)
    M(instance_info, "started_at", TIME, started_us)
    /* clang-format on */
};

static const struct member group_members[] = {
    /* clang-format off */
    M(dead_group, "fingerprint", TEXT, fingerprint)
    M(dead_group, "first_at", TIME, first_us)
    M(dead_group, "last_at", TIME, last_us)
    M(dead_group, "box", TEXT, box)
    M(dead_group, "endpoint", TEXT, endpoint)
    M(dead_group, "type", TEXT, type)
    M(dead_group, "cause", REASON, cause)
    M(dead_group, "reason", REASON, reason)
    M(dead_group, "error", TEXT, error)
    M(dead_group, "sample", ID, sample)
    /* clang-format on */
};

static const struct member stream_members[] = {
    /* clang-format off */
    M(stream_info, "box", TEXT, box)
    M(stream_info, "stream", TEXT, stream)
    M(stream_info, "endpoint", TEXT, endpoint)
    M(stream_info, "head", ID, head)
    M(stream_info, "head_state", STATE, head_state)
    M(stream_info, "attempts", INT, attempts)
    M(stream_info, "failures", INT, failures)
    M(stream_info, "reason", REASON, reason)
    M(stream_info, "code", TEXT, code)
    M(stream_info, "error", TEXT, error)
    M(stream_info, "since", TIME, since_us)
    M(stream_info, "next_at", TIME, due_us)
    M(stream_info, "waiting", BOUNDED, waiting)
    /* clang-format on */
};

static const struct member subscription_members[] = {
    /* clang-format off */
    M(subscription_info, "name", TEXT, name)
    M(subscription_info, "position", COUNT, position)
    M(subscription_info, "last", COUNT, last)
    M(subscription_info, "lag", COUNT, lag)
    M(subscription_info, "fence", COUNT, fence)
    M(subscription_info, "held_by", TEXT, holder)
    M(subscription_info, "expires_at", TIME, until_us)
    /* clang-format on */
};

static const struct member audit_members[] = {
    /* clang-format off */
    M(audit_entry, "number", COUNT, number)
    M(audit_entry, "at", TIME, at_us)
    M(audit_entry, "who", TEXT, who)
    M(audit_entry, "action", TEXT, action)
    M(audit_entry, "matched", COUNT, matched)
    M(audit_entry, "changed", COUNT, changed)
    M(audit_entry, "refused", COUNT, refused)
    M(audit_entry, "why", TEXT, why)
    M(audit_entry, "target", OBJECT, target)
    /* clang-format on */
};

/* With its place, headers and payload beside it (message.c). */
static const struct member event_members[] = {
    /* clang-format off */
    M(stored_event, "stream", TEXT, stream)
    M(stored_event, "version", COUNT, version)
    M(stored_event, "id", ID, id)
    M(stored_event, "type", TEXT, type)
    M(stored_event, "content_type", TEXT, content_type)
    M(stored_event, "created_at", TIME, created_us)
    /* clang-format on */
};

/* With the payload, headers and the story beside it (message.c). */
static const struct member message_members[] = {
    /* clang-format off */
    M(listed, "id", ID, m.id)
    M(listed, "box", TEXT, box)
    M(listed, "seq", NUMBER, m.seq)
    M(listed, "row", COUNT, row)
    M(listed, "state", STATE, state)
    M(listed, "type", TEXT, m.type)
    M(listed, "stream", TEXT, m.stream)
    M(listed, "destination", TEXT, m.destination)
    M(listed, "endpoint", TEXT, endpoint)
#define X(column, ...) M(listed, #column, TEXT, m.column)
    SENDER_TEXTS(X)
#undef X
    M(listed, "created_at", TIME, m.created_us)
    M(listed, "due_at", TIME, m.due_us)
    M(listed, "expires_at", TIME, m.expires_us)
    M(listed, "status", INT, m.status)
    M(listed, "attempts", INT, m.attempts)
    M(listed, "failures", INT, m.failures)
    M(listed, "reason", REASON, m.reason)
    M(listed, "code", TEXT, m.code)
    M(listed, "error", TEXT, m.error)
    M(listed, "failed_at", TIME, m.failed_us)
    M(listed, "held_by", TEXT, m.held_by)
    M(listed, "held_for", HELD_FOR, m.held_for)
    M(listed, "parked_by", PARKED_BY, m.parked_by)
    /* clang-format on */
};

static const struct member dead_members[] = {
    /* clang-format off */
    M(listed, "cause", REASON, cause)
    M(listed, "limit", INT, limit)
    M(listed, "rule", TEXT, rule)
    M(listed, "fingerprint", TEXT, fingerprint)
    M(listed, "note", TEXT, note)
    M(listed, "died_at", TIME, died_us)
    M(listed, "edited_as", ID, edited_as)
    /* clang-format on */
};

static const struct reply_members {
    const struct member *members;
    size_t count;
} shapes[] = {
    [REPLY_BOX] = { box_members, ARRAY_LENGTH(box_members) },
    [REPLY_ENDPOINT] = { endpoint_members, ARRAY_LENGTH(endpoint_members) },
    [REPLY_FAILURE] = { failure_members, ARRAY_LENGTH(failure_members) },
    [REPLY_BREAKER] = { breaker_members, ARRAY_LENGTH(breaker_members) },
    [REPLY_INSTANCE] = { instance_members, ARRAY_LENGTH(instance_members) },
    [REPLY_GROUP] = { group_members, ARRAY_LENGTH(group_members) },
    [REPLY_STREAM] = { stream_members, ARRAY_LENGTH(stream_members) },
    [REPLY_EVENT] = { event_members, ARRAY_LENGTH(event_members) },
    [REPLY_MESSAGE] = { message_members, ARRAY_LENGTH(message_members) },
    [REPLY_DEAD] = { dead_members, ARRAY_LENGTH(dead_members) },
};

/* ---- Writing ---- */

/* JSON that is stored; what is broken is shown as the text that it is. */
static void write_object(struct json_writer *w, pr_slice json)
{
    if (json.size > 0 && slice_is_json_object(json))
        json_raw_shown(w, json);
    else
        json_slice(w, json);
}

static void write_id(struct json_writer *w, pr_id id)
{
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    json_cstr(w, pr_id_is_zero(id) ? NULL : text);
}

static void write_member(struct json_writer *w, const struct member *m, const void *at)
{
    char exact[KEY_MAX];
    switch (m->kind) {
    case MEMBER_TEXT: member_text(w, m->key, *(const pr_slice *)at); return;
    case MEMBER_TIME:
    case MEMBER_UNTIL: member_time(w, m->key, *(const int64_t *)at); return;
    case MEMBER_BOUNDED:
        (void)snprintf(exact, sizeof(exact), "%s_exact", m->key);
        member_count(w, m->key, exact, *(const uint64_t *)at);
        return;
    default: break;
    }
    json_key(w, m->key);
    switch (m->kind) {
    case MEMBER_OBJECT: write_object(w, *(const pr_slice *)at); break;
    case MEMBER_ID: write_id(w, *(const pr_id *)at); break;
    case MEMBER_SPAN: json_double(w, (double)*(const int64_t *)at / 1e6); break;
    case MEMBER_INT: json_int(w, *(const int *)at); break;
    case MEMBER_NUMBER: json_int(w, *(const int64_t *)at); break;
    case MEMBER_COUNT: json_uint(w, *(const uint64_t *)at); break;
    case MEMBER_REASON:
        json_cstr(w, *(const int *)at != PR_REASON_NONE ? pr_reason_name(*(const int *)at) : NULL);
        break;
    case MEMBER_STATE: json_cstr(w, state_name(*(const enum state *)at)); break;
    case MEMBER_HELD_FOR: json_cstr(w, held_for_name(*(const int *)at)); break;
    case MEMBER_PARKED_BY: json_cstr(w, parked_by_name(*(const int *)at)); break;
    default: ASSERT(!"a kind of member");
    }
}

static void members_write(struct json_writer *w, const struct reply_members *m, const void *row)
{
    for (size_t i = 0; i < m->count; i++)
        write_member(w, &m->members[i], (const char *)row + m->members[i].offset);
}

void reply_write(struct json_writer *w, enum reply_shape shape, const void *row)
{
    members_write(w, &shapes[shape], row);
}

/* ---- Reading ---- */

static pr_slice read_text(const json_t *value, struct arena *arena)
{
    pr_slice text = { json_string_value(value), json_string_length(value) };
    if (text.data == NULL)
        return (pr_slice){ NULL, 0 };
    text = slice_dup(arena, text);
    ASSERT(text.data != NULL);
    return text;
}

static pr_slice read_object(const json_t *value, struct arena *arena)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
    pr_slice copy = text != NULL ? slice_dup(arena, slice_from(text)) : (pr_slice){ NULL, 0 };
    ASSERT(text == NULL || copy.data != NULL);
    free(text);
    return copy;
}

static uint64_t read_count(const json_t *value)
{
    json_int_t number = json_integer_value(value);
    return number > 0 ? (uint64_t)number : 0;
}

static int read_int(const json_t *value)
{
    uint64_t number = read_count(value);
    return number <= COUNTER_MAX ? (int)number : COUNTER_MAX;
}

static int64_t read_time(const json_t *value, int64_t otherwise)
{
    const char *text = json_string_value(value);
    int64_t us;
    return text != NULL && time_parse_rfc3339(slice_from(text), &us) == PR_OK ? us : otherwise;
}

static int64_t read_span(const json_t *value)
{
    double seconds = json_number_value(value);
    return seconds > -1e9 && seconds < 1e9 ? (int64_t)(seconds * 1e6) : 0;
}

static pr_id read_id(const json_t *value)
{
    const char *text = json_string_value(value);
    pr_id id = { { 0 } };
    return text != NULL && pr_id_parse(slice_from(text), &id) == PR_OK ? id : (pr_id){ { 0 } };
}

static enum state read_state(pr_slice word)
{
    enum state state = state_parse(word);
    return state != STATE_COUNT ? state : STATE_GONE;
}

static uint64_t read_bounded(const json_t *object, const char *key)
{
    char exact[KEY_MAX];
    uint64_t count = read_count(json_object_get(object, key));
    (void)snprintf(exact, sizeof(exact), "%s_exact", key);
    return count + (count == COUNT_EXACT_MAX && json_is_false(json_object_get(object, exact)));
}

static void read_member(const json_t *object, const struct member *m, struct arena *arena, void *at)
{
    const json_t *value = json_object_get(object, m->key);
    pr_slice word = slice_from(json_string_value(value));
    switch (m->kind) {
    case MEMBER_TEXT: *(pr_slice *)at = read_text(value, arena); break;
    case MEMBER_OBJECT: *(pr_slice *)at = read_object(value, arena); break;
    case MEMBER_ID: *(pr_id *)at = read_id(value); break;
    case MEMBER_TIME: *(int64_t *)at = read_time(value, 0); break;
    case MEMBER_UNTIL: *(int64_t *)at = read_time(value, PR_NEVER); break;
    case MEMBER_SPAN: *(int64_t *)at = read_span(value); break;
    case MEMBER_INT: *(int *)at = read_int(value); break;
    case MEMBER_NUMBER: *(int64_t *)at = (int64_t)read_count(value); break;
    case MEMBER_COUNT: *(uint64_t *)at = read_count(value); break;
    case MEMBER_BOUNDED: *(uint64_t *)at = read_bounded(object, m->key); break;
    case MEMBER_REASON: *(int *)at = reason_parse(word); break;
    case MEMBER_STATE: *(enum state *)at = read_state(word); break;
    case MEMBER_HELD_FOR: *(int *)at = held_for_parse(word); break;
    case MEMBER_PARKED_BY: *(int *)at = parked_by_parse(word); break;
    }
}

void reply_parse(const json_t *object, enum reply_shape shape, struct arena *arena, void *row)
{
    for (size_t i = 0; i < shapes[shape].count; i++)
        read_member(object, &shapes[shape].members[i], arena, (char *)row + shapes[shape].members[i].offset);
}

/* ---- Whole objects ---- */

static void object_json(struct json_writer *w, enum reply_shape shape, const void *row)
{
    json_begin_object(w);
    reply_write(w, shape, row);
    json_end_object(w);
}

/* What was never tried failed for what it died of. */
void group_json(struct json_writer *w, const struct dead_group *group)
{
    struct dead_group g = *group;
    if (g.reason == PR_REASON_NONE)
        g.reason = g.cause;
    json_begin_object(w);
    json_key(w, "count");
    json_uint(w, g.count <= COUNT_EXACT_MAX ? g.count : COUNT_EXACT_MAX);
    json_key(w, "count_exact"); /* else: the counts are lower bounds */
    json_bool(w, g.count <= COUNT_EXACT_MAX && !g.partial);
    reply_write(w, REPLY_GROUP, &g);
    json_end_object(w);
}

void stream_json(struct json_writer *w, const struct stream_info *stream)
{
    object_json(w, REPLY_STREAM, stream);
}

void instance_json(struct json_writer *w, const struct instance_info *instance)
{
    object_json(w, REPLY_INSTANCE, instance);
}

/* ---- Lists ---- */

static const struct reply_list {
    const char *name;
    const char *none; /* what is said when there is none */
    struct reply_members members;
    size_t row_size, rows, count; /* rows, count: places in struct query_reply */
} lists[] = {
#define LIST(name, none, members, row, rows, count)                                                                    \
    {                                                                                                                  \
        name, none, { members, ARRAY_LENGTH(members) }, sizeof(struct row), offsetof(struct query_reply, rows),        \
            offsetof(struct query_reply, count)                                                                        \
    }
    [QUERY_AUDIT] = LIST("audit", "no changes by operators", audit_members, audit_entry, audit, audit_count),
    [QUERY_SUBSCRIPTIONS] =
        LIST("subscriptions", "no subscriptions: a program creates one when it first asks for events",
             subscription_members, subscription_info, subscriptions, subscription_count),
};

bool reply_list_find(pr_slice name, enum query_kind *ret)
{
    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++)
        if (lists[i].name != NULL && slice_eq_cstr(name, lists[i].name)) {
            *ret = (enum query_kind)i;
            return true;
        }
    return false;
}

void reply_row_json(struct json_writer *w, enum query_kind kind, const void *row)
{
    json_begin_object(w);
    members_write(w, &lists[kind].members, row);
    json_end_object(w);
}

size_t reply_rows(enum query_kind kind, const struct query_reply *reply, const char **ret_rows, size_t *ret_size)
{
    size_t count;
    memcpy(ret_rows, (const char *)reply + lists[kind].rows, sizeof(*ret_rows));
    memcpy(&count, (const char *)reply + lists[kind].count, sizeof(count));
    *ret_size = lists[kind].row_size;
    return count;
}

void reply_list_write(struct json_writer *w, enum query_kind kind, const struct query_reply *reply)
{
    const char *rows;
    size_t row_size, count = reply_rows(kind, reply, &rows, &row_size);
    json_key(w, lists[kind].name);
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        reply_row_json(w, kind, rows + i * row_size);
    json_end_array(w);
}

const char *reply_none(enum query_kind kind)
{
    return lists[kind].none;
}

/* ---- For people ---- */

static bool is_text(enum member_kind kind)
{
    return kind == MEMBER_TEXT || kind == MEMBER_OBJECT || kind == MEMBER_ID || kind == MEMBER_TIME ||
           kind >= MEMBER_REASON;
}

const char *reply_heads(enum query_kind kind, struct arena *arena)
{
    const struct reply_members *m = &lists[kind].members;
    pr_slice heads = PR_STR("");
    for (size_t i = 0; i < m->count; i++)
        heads = arena_printf(arena, "%.*s%s%s%s", (int)heads.size, heads.data, i > 0 ? "|" : "",
                             is_text(m->members[i].kind) ? "" : ">", m->members[i].key);
    char *text = arena_dup(arena, heads.data, heads.size + 1);
    for (char *c = text; c != NULL && *c != '\0'; c++)
        *c = (char)(*c == '_' ? '-' : toupper((unsigned char)*c));
    return text != NULL ? text : "";
}

static const char *moment_words(struct arena *arena, int64_t at_us)
{
    return at_us == 0 || at_us == PR_NEVER ? "" : time_words(arena, at_us);
}

pr_slice reply_cell(enum query_kind kind, const void *row, size_t column, struct arena *arena)
{
    const struct member *m = &lists[kind].members.members[column];
    const void *at = (const char *)row + m->offset;
    char id[PR_ID_TEXT_SIZE];
    switch (m->kind) {
    case MEMBER_TEXT:
    case MEMBER_OBJECT: return *(const pr_slice *)at;
    case MEMBER_ID: pr_id_format(*(const pr_id *)at, id); return arena_printf(arena, "%s", id);
    case MEMBER_TIME:
    case MEMBER_UNTIL: return slice_from(moment_words(arena, *(const int64_t *)at));
    case MEMBER_SPAN: return slice_from(span_short(arena, *(const int64_t *)at));
    case MEMBER_INT: return arena_printf(arena, "%d", *(const int *)at);
    case MEMBER_NUMBER: return arena_printf(arena, "%" PRId64, *(const int64_t *)at);
    case MEMBER_COUNT: return arena_printf(arena, "%" PRIu64, *(const uint64_t *)at);
    case MEMBER_BOUNDED: return slice_from(count_words(arena, *(const uint64_t *)at, "", ""));
    case MEMBER_REASON: return slice_from(pr_reason_name(*(const int *)at));
    case MEMBER_STATE: return slice_from(state_name(*(const enum state *)at));
    case MEMBER_HELD_FOR: return slice_from(held_for_name(*(const int *)at));
    case MEMBER_PARKED_BY: return slice_from(parked_by_name(*(const int *)at));
    }
    return PR_STR("");
}
