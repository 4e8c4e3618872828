#include "ops/reply.h"

#include <ctype.h>
#include <string.h>

#include "base/slice.h"
#include "base/util.h"
#include "core/columns.h"
#include "ops/flow/flow_tell.h"

static const struct member_words words_of_holding = { .name = held_for_name, .parse = held_for_parse };
static const struct member_words words_of_parking = { .name = parked_by_name, .parse = parked_by_parse };

static const char *flow_word(int state)
{
    return state != 0 ? flow_state_name(state) : NULL;
}

static const char *schedule_word(int state)
{
    return schedule_state_name((enum schedule_state)state);
}

static const char *missed_word(int missed)
{
    return schedule_missed_name((enum schedule_missed)missed);
}

static const struct member_words words_of_flows = { .name = flow_word, .parse = flow_state_parse };
static const struct member_words words_of_schedules = { .name = schedule_word,
                                                        .first = SCHEDULE_ACTIVE,
                                                        .last = SCHEDULE_DEAD };
static const struct member_words words_of_missed = { .name = missed_word, .first = MISSED_ONCE, .last = MISSED_ALL };

/* ---- The tables ---- */

static const struct member box_members[] = {
    /* clang-format off */
    MEMBER(box_reply, "name", STRING, counts.name)
    MEMBER(box_reply, "ready", COUNT, counts.ready)
    MEMBER(box_reply, "in_flight", COUNT, counts.in_flight)
    MEMBER(box_reply, "delayed", COUNT, counts.delayed)
    MEMBER(box_reply, "retrying", COUNT, counts.retrying)
    MEMBER(box_reply, "held", COUNT, counts.held)
    MEMBER(box_reply, "parked", COUNT, counts.parked)
    MEMBER(box_reply, "paused", COUNT, counts.paused)
    MEMBER(box_reply, "dead", COUNT, counts.dead)
    MEMBER(box_reply, "done", COUNT, counts.done)
    MEMBER(box_reply, "counts_exact", BOOL, exact)
    MEMBER(box_reply, "oldest_age_seconds", SPAN, oldest_age_us)
    /* clang-format on */
};

static const struct member condition_members[] = {
    /* clang-format off */
    MEMBER(condition_reply, "state", TEXT, state)
    MEMBER(condition_reply, "until", UNTIL, until_us)
    MEMBER(condition_reply, "by", TEXT, by)
    MEMBER(condition_reply, "why", TEXT, why)
    /* clang-format on */
};

static const struct member endpoint_members[] = {
    /* clang-format off */
    MEMBER(endpoint_state, "sent", COUNT, sent)
    MEMBER(endpoint_state, "failed", COUNT, failed)
    MEMBER(endpoint_state, "dead", COUNT, dead)
    MEMBER(endpoint_state, "discarded", COUNT, discarded)
    MEMBER(endpoint_state, "expired", COUNT, expired)
    MEMBER(endpoint_state, "duplicates", COUNT, duplicates)
    MEMBER(endpoint_state, "failed_in_row", COUNT, failed_in_row)
    /* clang-format on */
};

static const struct member failure_members[] = {
    /* clang-format off */
    MEMBER(endpoint_state, "at", TIME, last_failed_us)
    MEMBER_NAME(endpoint_state, "reason", words_of_reasons, last_reason)
    MEMBER(endpoint_state, "code", TEXT, last_code)
    MEMBER(endpoint_state, "error", TEXT, last_error)
    /* clang-format on */
};

static const struct member breaker_members[] = {
    /* clang-format off */
    MEMBER(breaker_info, "endpoint", TEXT, endpoint)
    MEMBER(breaker_info, "type", TEXT, type)
    MEMBER(breaker_info, "since", TIME, since_us)
    MEMBER(breaker_info, "until", UNTIL, until_us)
    MEMBER(breaker_info, "failed_probes", INT, probes)
    MEMBER_NAME(breaker_info, "reason", words_of_reasons, reason)
    MEMBER(breaker_info, "code", TEXT, code)
    MEMBER(breaker_info, "error", TEXT, error)
    MEMBER(breaker_info, "box", TEXT, box)
    MEMBER(breaker_info, "instance", TEXT, instance)
    /* clang-format on */
};

static const struct member instance_members[] = {
    /* clang-format off */
    MEMBER(instance_info, "id", ID, id)
    MEMBER(instance_info, "name", TEXT, name)
    MEMBER(instance_info, "box", TEXT, box)
    MEMBER(instance_info, "version", TEXT, version)
    MEMBER(instance_info, "epoch", NUMBER, epoch)
    MEMBER(instance_info, "lanes", INT, lanes)
    MEMBER(instance_info, "in_flight", COUNT, in_flight)
    MEMBER(instance_info, "lease_left_seconds", SPAN, lease_left_us)
    MEMBER(instance_info, "started_at", TIME, started_us)
    /* clang-format on */
};

static const struct member group_members[] = {
    /* clang-format off */
    MEMBER(group_reply, "count", COUNT, count)
    MEMBER(group_reply, "count_exact", EXACT, exact)
    MEMBER(group_reply, "fingerprint", TEXT, group.fingerprint)
    MEMBER(group_reply, "first_at", TIME, group.first_us)
    MEMBER(group_reply, "last_at", TIME, group.last_us)
    MEMBER(group_reply, "box", TEXT, group.box)
    MEMBER(group_reply, "endpoint", TEXT, group.endpoint)
    MEMBER(group_reply, "type", TEXT, group.type)
    MEMBER_NAME(group_reply, "cause", words_of_reasons, group.cause)
    MEMBER_NAME(group_reply, "reason", words_of_reasons, group.reason)
    MEMBER(group_reply, "error", TEXT, group.error)
    MEMBER(group_reply, "sample", ID, group.sample)
    /* clang-format on */
};

static const struct member stream_members[] = {
    /* clang-format off */
    MEMBER(stream_info, "box", TEXT, box)
    MEMBER(stream_info, "stream", TEXT, stream)
    MEMBER(stream_info, "endpoint", TEXT, endpoint)
    MEMBER(stream_info, "head", ID, head)
    MEMBER_NAME(stream_info, "head_state", words_of_states, head_state)
    MEMBER(stream_info, "attempts", INT, attempts)
    MEMBER(stream_info, "failures", INT, failures)
    MEMBER_NAME(stream_info, "reason", words_of_reasons, reason)
    MEMBER(stream_info, "code", TEXT, code)
    MEMBER(stream_info, "error", TEXT, error)
    MEMBER(stream_info, "since", TIME, since_us)
    MEMBER(stream_info, "next_at", TIME, due_us)
    MEMBER(stream_info, "waiting", BOUNDED, waiting)
    /* clang-format on */
};

static const struct member subscription_members[] = {
    /* clang-format off */
    MEMBER(subscription_info, "name", TEXT, name)
    MEMBER(subscription_info, "position", COUNT, position)
    MEMBER(subscription_info, "last", COUNT, last)
    MEMBER(subscription_info, "lag", COUNT, lag)
    MEMBER(subscription_info, "fence", COUNT, fence)
    MEMBER(subscription_info, "held_by", TEXT, holder)
    MEMBER(subscription_info, "expires_at", TIME, until_us)
    /* clang-format on */
};

static const struct member audit_members[] = {
    /* clang-format off */
    MEMBER(audit_entry, "number", COUNT, number)
    MEMBER(audit_entry, "at", TIME, at_us)
    MEMBER(audit_entry, "who", TEXT, who)
    MEMBER(audit_entry, "action", TEXT, action)
    MEMBER(audit_entry, "matched", COUNT, matched)
    MEMBER(audit_entry, "changed", COUNT, changed)
    MEMBER(audit_entry, "refused", COUNT, refused)
    MEMBER(audit_entry, "why", TEXT, why)
    MEMBER(audit_entry, "target", OBJECT, target)
    /* clang-format on */
};

/* Place, headers and payload are added by message.c. */
static const struct member event_members[] = {
    /* clang-format off */
    MEMBER(stored_event, "stream", TEXT, stream)
    MEMBER(stored_event, "version", COUNT, version)
    MEMBER(stored_event, "id", ID, id)
    MEMBER(stored_event, "type", TEXT, type)
    MEMBER(stored_event, "content_type", TEXT, content_type)
    MEMBER(stored_event, "created_at", TIME, created_us)
    /* clang-format on */
};

/* Payload, headers and story are added by message.c. */
static const struct member message_members[] = {
    /* clang-format off */
    MEMBER(listed, "id", ID, m.id)
    MEMBER(listed, "box", TEXT, box)
    MEMBER(listed, "seq", NUMBER, m.seq)
    MEMBER(listed, "row", COUNT, row)
    MEMBER_NAME(listed, "state", words_of_states, state)
    MEMBER(listed, "type", TEXT, m.type)
    MEMBER(listed, "stream", TEXT, m.stream)
    MEMBER(listed, "destination", TEXT, m.destination)
    MEMBER(listed, "endpoint", TEXT, endpoint)
#define X(column, ...) MEMBER(listed, #column, TEXT, m.column)
    SENDER_TEXTS(X)
#undef X
    MEMBER(listed, "created_at", TIME, m.created_us)
    MEMBER(listed, "due_at", TIME, m.due_us)
    MEMBER(listed, "expires_at", TIME, m.expires_us)
    MEMBER(listed, "status", INT, m.status)
    MEMBER(listed, "attempts", INT, m.attempts)
    MEMBER(listed, "failures", INT, m.failures)
    MEMBER_NAME(listed, "reason", words_of_reasons, m.reason)
    MEMBER(listed, "code", TEXT, m.code)
    MEMBER(listed, "error", TEXT, m.error)
    MEMBER(listed, "failed_at", TIME, m.failed_us)
    MEMBER(listed, "held_by", TEXT, m.held_by)
    MEMBER_NAME(listed, "held_for", words_of_holding, m.held_for)
    MEMBER_NAME(listed, "parked_by", words_of_parking, m.parked_by)
    /* clang-format on */
};

static const struct member dead_members[] = {
    /* clang-format off */
    MEMBER_NAME(listed, "cause", words_of_reasons, cause)
    MEMBER(listed, "limit", INT, limit)
    MEMBER(listed, "rule", TEXT, rule)
    MEMBER(listed, "fingerprint", TEXT, fingerprint)
    MEMBER(listed, "note", TEXT, note)
    MEMBER(listed, "died_at", TIME, died_us)
    MEMBER(listed, "edited_as", ID, edited_as)
    /* clang-format on */
};

/* A message of a box with dedupe: the handlers that ended it, and how often it arrived again. */
static const struct member mark_members[] = {
    /* clang-format off */
    MEMBER(mark_info, "box", TEXT, box)
    MEMBER(mark_info, "handler", TEXT, handler)
    MEMBER(mark_info, "at", TIME, at_us)
    MEMBER_NAME(mark_info, "outcome", words_of_ended, outcome)
    /* clang-format on */
};

static const struct member again_members[] = {
    /* clang-format off */
    MEMBER(again_info, "box", TEXT, box)
    MEMBER(again_info, "destination", TEXT, destination)
    MEMBER(again_info, "times", COUNT, times)
    MEMBER(again_info, "last_at", TIME, at_us)
    /* clang-format on */
};

/* The ledger's entry for a message that is gone. */
static const struct member end_members[] = {
    /* clang-format off */
    MEMBER_NAME(end_reply, "outcome", words_of_ended, outcome)
    MEMBER(end_reply, "ended_at", TIME, ended_us)
    MEMBER(end_reply, "instance", TEXT, instance)
    MEMBER(end_reply, "by", TEXT, by)
    /* clang-format on */
};

static const struct member change_members[] = {
    /* clang-format off */
    MEMBER(admin_reply, "matched", COUNT, matched)
    MEMBER(admin_reply, "changed", COUNT, changed)
    MEMBER(admin_reply, "refused", COUNT, refused)
    /* clang-format on */
};

static const struct member handled_members[] = {
    /* clang-format off */
    MEMBER(admin_reply, "handled", COUNT, handled) /* of the refused */
    MEMBER(admin_reply, "handled_at", TIME, handled_us)
    /* clang-format on */
};

static const struct member missing_members[] = {
    /* clang-format off */
    MEMBER(admin_reply, "missing", COUNT, missing)
    /* clang-format on */
};

static const struct member further_members[] = {
    /* clang-format off */
    MEMBER_IF(admin_reply, "next", COUNT, last_row)         /* as filter.after */
    /* as filter.newest_row: excludes letters that die meanwhile */
    MEMBER_IF(admin_reply, "newest_row", COUNT, newest_row)
    MEMBER_IF(admin_reply, "made", ID, made)
    /* clang-format on */
};

static const struct member flow_members[] = {
    /* clang-format off */
    MEMBER(flow_row, "id", TEXT, id)
    MEMBER(flow_row, "name", TEXT, name)
    MEMBER(flow_row, "version", TEXT, version)
    MEMBER(flow_row, "execution", ID, execution)
    MEMBER_NAME(flow_row, "state", words_of_flows, state)
    MEMBER(flow_row, "custom_status", BYTES, custom_status)
    MEMBER(flow_row, "status_number", NUMBER, status_number)
    MEMBER(flow_row, "input", BYTES, input)
    MEMBER(flow_row, "output", BYTES, output)
    MEMBER(flow_row, "error", FAILURE, error)
    MEMBER(flow_row, "parent", TEXT, parent)
    MEMBER(flow_row, "events", NUMBER, next)
    MEMBER(flow_row, "created_at", TIME, created_us)
    MEMBER(flow_row, "updated_at", TIME, updated_us)
    /* clang-format on */
};

static const struct member told_members[] = {
    /* clang-format off */
    MEMBER(flow_tell_result, "id", TEXT, flow)
    MEMBER(flow_tell_result, "message", ID, message)
    MEMBER(flow_tell_result, "duplicate", BOOL, duplicate)
    /* clang-format on */
};

static const struct member retried_members[] = {
    /* clang-format off */
    MEMBER(flow_retried, "resumed", BOOL, resumed)
    MEMBER(flow_retried, "replayed", COUNT, replayed)
    MEMBER(flow_retried, "hastened", COUNT, hastened)
    /* clang-format on */
};

static const struct member flow_state_members[] = {
    /* clang-format off */
    MEMBER(query_reply, "running", COUNT, flow_states[FLOW_RUNNING])
    MEMBER(query_reply, "completed", COUNT, flow_states[FLOW_COMPLETED])
    MEMBER(query_reply, "failed", COUNT, flow_states[FLOW_FAILED])
    MEMBER(query_reply, "cancelled", COUNT, flow_states[FLOW_CANCELLED])
    /* clang-format on */
};

static const struct member schedule_members[] = {
    /* clang-format off */
    MEMBER(schedule_reply, "name", TEXT, info.s.name)
    MEMBER_NAME(schedule_reply, "state", words_of_schedules, info.state)
    MEMBER(schedule_reply, "cron", TEXT, info.s.cron_text)
    MEMBER(schedule_reply, "zone", STRING, info.s.zone_name)
    MEMBER_NAME(schedule_reply, "missed", words_of_missed, info.s.missed)
    MEMBER(schedule_reply, "grace", CSTR, grace)
    MEMBER(schedule_reply, "next_at", TIME, info.next_us)
    /* clang-format on */
};

/* Next times and payload are added by schedule.c. */
static const struct member schedule_message_members[] = {
    /* clang-format off */
    MEMBER(schedule_reply, "error", TEXT, info.error)
    MEMBER(schedule_reply, "origin", CSTR, origin)
    MEMBER(schedule_reply, "id", ID, id)
    MEMBER(schedule_reply, "in", TEXT, in)
    MEMBER(schedule_reply, "box", STRING, info.s.box)
    MEMBER(schedule_reply, "type", TEXT, info.s.message.type)
    MEMBER(schedule_reply, "stream", TEXT, info.s.message.stream)
    MEMBER(schedule_reply, "destination", TEXT, info.s.message.destination)
#define X(column, ...) MEMBER(schedule_reply, #column, TEXT, info.s.message.column)
    SENDER_TEXTS(X)
#undef X
    MEMBER(schedule_reply, "event", BOOL, info.s.message.event)
    MEMBER(schedule_reply, "headers", FAILURE, info.s.message.headers)
    /* clang-format on */
};

static const struct members shapes[] = {
    [REPLY_BOX] = MEMBERS(box_members),           [REPLY_CONDITION] = MEMBERS(condition_members),
    [REPLY_ENDPOINT] = MEMBERS(endpoint_members), [REPLY_FAILURE] = MEMBERS(failure_members),
    [REPLY_BREAKER] = MEMBERS(breaker_members),   [REPLY_INSTANCE] = MEMBERS(instance_members),
    [REPLY_GROUP] = MEMBERS(group_members),       [REPLY_STREAM] = MEMBERS(stream_members),
    [REPLY_EVENT] = MEMBERS(event_members),       [REPLY_MESSAGE] = MEMBERS(message_members),
    [REPLY_DEAD] = MEMBERS(dead_members),         [REPLY_END] = MEMBERS(end_members),
    [REPLY_MARK] = MEMBERS(mark_members),         [REPLY_AGAIN] = MEMBERS(again_members),
    [REPLY_CHANGE] = MEMBERS(change_members),     [REPLY_HANDLED] = MEMBERS(handled_members),
    [REPLY_MISSING] = MEMBERS(missing_members),   [REPLY_FURTHER] = MEMBERS(further_members),
    [REPLY_FLOW] = MEMBERS(flow_members),         [REPLY_FLOW_STATES] = MEMBERS(flow_state_members),
    [REPLY_TOLD] = MEMBERS(told_members),         [REPLY_RETRIED] = MEMBERS(retried_members),
    [REPLY_SCHEDULE] = MEMBERS(schedule_members), [REPLY_SCHEDULE_MESSAGE] = MEMBERS(schedule_message_members),
};

void reply_write(struct json_writer *w, enum reply_shape shape, const void *row)
{
    members_write(w, &shapes[shape], row);
}

void reply_list(struct json_writer *w, const char *key, enum reply_shape shape, const void *rows, size_t row_size,
                size_t count)
{
    members_list(w, key, &shapes[shape], rows, row_size, count);
}

void reply_parse(const json_t *object, enum reply_shape shape, struct arena *arena, void *row)
{
    members_read(object, &shapes[shape], arena, row);
}

/* ---- Whole objects ---- */

/* A message that never failed has its cause of death as the reason.  If not all letters were looked at, the counts are
 * lower bounds. */
void group_json(struct json_writer *w, const struct dead_group *group)
{
    struct group_reply g = { .group = *group,
                             .count = group->count <= COUNT_EXACT_MAX ? group->count : COUNT_EXACT_MAX,
                             .exact = group->count <= COUNT_EXACT_MAX && !group->partial };
    if (g.group.reason == PR_REASON_NONE)
        g.group.reason = g.group.cause;
    members_object(w, &shapes[REPLY_GROUP], &g);
}

void stream_json(struct json_writer *w, const struct stream_info *stream)
{
    members_object(w, &shapes[REPLY_STREAM], stream);
}

void instance_json(struct json_writer *w, const struct instance_info *instance)
{
    members_object(w, &shapes[REPLY_INSTANCE], instance);
}

/* ---- Lists ---- */

static const struct reply_list {
    const char *name;
    const char *none; /* the text for an empty list */
    struct members members;
    size_t row_size, rows, count; /* rows, count: offsets in struct query_reply */
} lists[] = {
#define LIST(name, none, members, row, rows, count)                                                                    \
    {                                                                                                                  \
        name, none, MEMBERS(members), sizeof(struct row), offsetof(struct query_reply, rows),                          \
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
    members_object(w, &lists[kind].members, row);
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
    members_list(w, lists[kind].name, &lists[kind].members, rows, row_size, count);
}

const char *reply_none(enum query_kind kind)
{
    return lists[kind].none;
}

/* ---- For people ---- */

const char *reply_heads(enum query_kind kind, struct arena *arena)
{
    const struct members *m = &lists[kind].members;
    pr_slice heads = PR_STR("");
    for (size_t i = 0; i < m->count; i++)
        heads = arena_printf(arena, "%.*s%s%s%s", (int)heads.size, heads.data, i > 0 ? "|" : "",
                             member_is_text(&m->list[i]) ? "" : ">", m->list[i].key);
    char *text = arena_dup(arena, heads.data, heads.size + 1);
    for (char *c = text; c != NULL && *c != '\0'; c++)
        *c = (char)(*c == '_' ? '-' : toupper((unsigned char)*c));
    return text != NULL ? text : "";
}

pr_slice reply_cell(enum query_kind kind, const void *row, size_t column, struct arena *arena)
{
    return member_cell(&lists[kind].members.list[column], row, arena);
}
