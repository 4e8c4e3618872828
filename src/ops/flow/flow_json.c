/* Flows as JSON. */
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "ops/flow/flow_view.h"
#include "ops/reply.h"

void flow_row_json(struct json_writer *w, const struct flow_row *row)
{
    reply_write(w, REPLY_FLOW, row);
}

/* ---- Histories ---------------------------------------------------------------------------------------- */

static int word_event(pr_slice name)
{
    for (int kind = FLOW_EVENT_STARTED; kind < FLOW_EVENT_KINDS; kind++)
        if (slice_eq_cstr(name, flow_event_kind_name(kind)))
            return kind;
    return FLOW_EVENT_NONE;
}

static const struct member_words words_of_events = { .name = flow_event_kind_name, .parse = word_event };

/* An event, with the values that depend on its kind. */
struct event_reply {
    int64_t number, task, at_us, value_us;
    int kind; /* enum flow_event_kind */
    bool failed;
    pr_slice name;
    pr_slice id, execution; /* one of them, or none */
    struct flow_more more;
    pr_slice error, data; /* one of them, or none */
};

static const struct member event_members[] = {
    /* clang-format off */
    MEMBER(event_reply, "number", NUMBER, number)
    MEMBER_NAME(event_reply, "kind", words_of_events, kind)
    MEMBER(event_reply, "at", TIME, at_us)
    MEMBER_IF(event_reply, "task", NUMBER, task)
    MEMBER_IF(event_reply, "name", STRING, name)
    MEMBER_IF(event_reply, "failed", BOOL, failed)
    /* clang-format on */
};

/* clang-format off */
static const struct member event_due_members[] = { MEMBER(event_reply, "due_at", TIME, value_us) };
static const struct member event_value_members[] = { MEMBER(event_reply, "value", TIME, value_us) };
static const struct member event_error_members[] = { MEMBER(event_reply, "error", FAILURE, error) };
/* clang-format on */

static const struct member event_more_members[] = {
    /* clang-format off */
    MEMBER_IF(event_reply, "id", STRING, id)
    MEMBER_IF(event_reply, "execution", STRING, execution)
    MEMBER_IF(event_reply, "version", STRING, more.version)
    MEMBER_IF(event_reply, "tag", STRING, more.tag)
    MEMBER_IF(event_reply, "session", STRING, more.session)
    MEMBER_IF(event_reply, "custom_status", BYTES, more.status)
    MEMBER_IF(event_reply, "data", BYTES, data)
    /* clang-format on */
};

static const struct members event_table = MEMBERS(event_members), event_due = MEMBERS(event_due_members),
                            event_value = MEMBERS(event_value_members), event_more = MEMBERS(event_more_members),
                            event_error = MEMBERS(event_error_members);

static bool data_is_error(const struct flow_event *e)
{
    return e->failed || e->kind == FLOW_EVENT_FAILED;
}

static struct event_reply event_reply_of(const struct flow_event *e, size_t number)
{
    static const struct flow_more none;
    struct event_reply r = { .number = (int64_t)number,
                             .task = e->task,
                             .at_us = e->at_us,
                             .value_us = e->value,
                             .kind = e->kind,
                             .failed = e->failed,
                             .name = e->name,
                             .more = e->more != NULL ? *e->more : none };
    *(e->kind == FLOW_EVENT_CONTINUED ? &r.execution : &r.id) = r.more.id;
    *(data_is_error(e) ? &r.error : &r.data) = e->data;
    return r;
}

void flow_event_json(struct json_writer *w, const struct flow_event *e, size_t number)
{
    const struct event_reply r = event_reply_of(e, number);
    json_begin_object(w);
    members_write(w, &event_table, &r);
    if (e->kind == FLOW_EVENT_TIMER)
        members_write(w, &event_due, &r);
    else if (e->kind == FLOW_EVENT_NOW)
        members_write(w, &event_value, &r);
    members_write(w, &event_more, &r);
    if (data_is_error(e))
        members_write(w, &event_error, &r);
    json_end_object(w);
}

/* ---- One flow ------------------------------------------------------------------------------------------- */

static const char *wait_word(int kind)
{
    static const char *const kinds[FLOW_EVENT_KINDS] = { [FLOW_EVENT_ACTIVITY] = "activity",
                                                         [FLOW_EVENT_TIMER] = "timer",
                                                         [FLOW_EVENT_WAIT] = "event",
                                                         [FLOW_EVENT_WAIT_MAIL] = "mail",
                                                         [FLOW_EVENT_CHILD] = "child" };
    return kinds[kind];
}

static const struct member_words words_of_waits = { .name = wait_word,
                                                    .first = FLOW_EVENT_NONE,
                                                    .last = FLOW_EVENT_CHILD };

static const struct member wait_members[] = {
    /* clang-format off */
    MEMBER_NAME(flow_wait, "kind", words_of_waits, kind)
    MEMBER(flow_wait, "task", NUMBER, task)
    MEMBER_IF(flow_wait, "name", STRING, name)
    MEMBER_IF(flow_wait, "flow", STRING, child)
    MEMBER_IF(flow_wait, "tag", STRING, tag)
    MEMBER(flow_wait, "since", TIME, since_us)
    /* clang-format on */
};

/* clang-format off */
static const struct member wait_due_members[] = { MEMBER(flow_wait, "due_at", TIME, due_us) };
static const struct member wait_message_members[] = { MEMBER(flow_wait, "message", ID, id) };
static const struct member wait_what_members[] = { MEMBER(flow_waited, "what", CSTR, words) };
/* clang-format on */

/* From the message of an activity. */
static const struct member wait_row_members[] = {
    /* clang-format off */
    MEMBER_NAME(listed, "state", words_of_states, state)
    MEMBER(listed, "attempts", INT, m.attempts)
    MEMBER(listed, "failures", INT, m.failures)
    MEMBER(listed, "last_error", TEXT, m.error)
    MEMBER(listed, "next_at", TIME, m.due_us)
    /* clang-format on */
};

static const struct members wait_table = MEMBERS(wait_members), wait_due = MEMBERS(wait_due_members),
                            wait_message = MEMBERS(wait_message_members), wait_row = MEMBERS(wait_row_members),
                            wait_what = MEMBERS(wait_what_members);

static void wait_json(struct json_writer *w, const struct flow_waited *waited)
{
    const struct flow_wait *wait = waited->wait;
    json_begin_object(w);
    members_write(w, &wait_table, wait);
    if (wait->kind == FLOW_EVENT_TIMER)
        members_write(w, &wait_due, wait);
    if (wait->kind == FLOW_EVENT_ACTIVITY || wait->kind == FLOW_EVENT_TIMER)
        members_write(w, &wait_message, wait);
    if (waited->row != NULL && wait->kind == FLOW_EVENT_ACTIVITY)
        members_write(w, &wait_row, waited->row);
    members_write(w, &wait_what, waited);
    json_end_object(w);
}

static void values_json(struct json_writer *w, const struct flow_view *v)
{
    json_key(w, "values");
    json_begin_object(w);
    for (size_t i = 0; i < v->value_count; i++)
        if (utf8_valid(v->values[i].value)) {
            json_key_slice(w, v->values[i].key);
            json_slice(w, v->values[i].value);
        }
    json_end_object(w);
}

/* What a view has besides its row and its lists. */
struct flow_view_reply {
    int64_t waits, pending;
    pr_slice now, next, damaged;
};

static const struct member view_members[] = {
    /* clang-format off */
    MEMBER(flow_view_reply, "waits", NUMBER, waits)
    MEMBER(flow_view_reply, "pending", NUMBER, pending)
    MEMBER(flow_view_reply, "now", TEXT, now)
    MEMBER(flow_view_reply, "next", TEXT, next)
    MEMBER(flow_view_reply, "damaged", TEXT, damaged)
    /* clang-format on */
};

void flow_view_json(struct json_writer *w, const struct flow_view *v)
{
    static const struct members table = MEMBERS(view_members);
    const struct flow_row none = { .id = v->id };
    const struct flow_view_reply r = { .waits = (int64_t)v->waits_in_all,
                                       .pending = (int64_t)v->pending_count,
                                       .now = slice_trim(slice_from(v->now)),
                                       .next = slice_trim(slice_from(v->next)),
                                       .damaged = slice_from(v->damaged) };
    json_begin_object(w);
    flow_row_json(w, v->row != NULL ? v->row : &none);
    values_json(w, v);
    json_key(w, "waits_for");
    json_begin_array(w);
    for (size_t i = 0; i < v->wait_count; i++)
        wait_json(w, &v->waits[i]);
    json_end_array(w);
    members_write(w, &table, &r);
    why_commands_json(w, v->commands, v->command_count);
    json_end_object(w);
}
