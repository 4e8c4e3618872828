/* Flows as JSON. */
#include "base/slice.h"
#include "base/utf8.h"
#include "flow/flow_error.h"
#include "flow/flow_json.h"
#include "ops/flow/flow_view.h"
#include "ops/member.h"

static void member_bytes(struct json_writer *w, const char *key, pr_slice bytes)
{
    if (bytes.size > 0)
        flow_json_bytes(w, key, bytes);
    else
        json_key(w, key), json_cstr(w, NULL);
}

static void member_id(struct json_writer *w, const char *key, pr_id id)
{
    if (pr_id_is_zero(id))
        json_key(w, key), json_cstr(w, NULL);
    else
        flow_json_id(w, key, id);
}

static void member_number(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, key);
    json_int(w, number);
}

/* What is stored is an object, unless somebody else wrote it. */
static void member_error(struct json_writer *w, pr_slice error)
{
    json_key(w, "error");
    if (error.size == 0)
        json_cstr(w, NULL);
    else if (slice_is_json_object(error))
        json_raw_shown(w, error);
    else
        json_slice(w, error);
}

void flow_row_json(struct json_writer *w, const struct flow_row *row)
{
    member_text(w, "id", row->id);
    member_text(w, "name", row->name);
    member_text(w, "version", row->version);
    member_id(w, "execution", row->execution);
    json_key(w, "state");
    json_cstr(w, row->state != 0 ? flow_state_name(row->state) : NULL);
    member_bytes(w, "custom_status", row->custom_status);
    member_number(w, "status_number", row->status_number);
    member_bytes(w, "input", row->input);
    member_bytes(w, "output", row->output);
    member_error(w, row->error);
    member_text(w, "parent", row->parent);
    member_number(w, "events", row->next);
    member_time(w, "created_at", row->created_us);
    member_time(w, "updated_at", row->updated_us);
}

/* ---- Histories ---------------------------------------------------------------------------------------- */

static void more_json(struct json_writer *w, const struct flow_event *e)
{
    const struct flow_more *m = e->more;
    if (m == NULL)
        return;
    flow_json_text(w, e->kind == FLOW_EVENT_CONTINUED ? "execution" : "id", m->id);
    flow_json_text(w, "version", m->version);
    flow_json_text(w, "tag", m->tag);
    flow_json_text(w, "session", m->session);
    if (m->status.size > 0)
        flow_json_bytes(w, "custom_status", m->status);
}

static bool data_is_error(const struct flow_event *e)
{
    return e->failed || e->kind == FLOW_EVENT_FAILED;
}

void flow_event_json(struct json_writer *w, const struct flow_event *e, size_t number)
{
    json_begin_object(w);
    member_number(w, "number", (int64_t)number);
    json_key(w, "kind");
    json_cstr(w, flow_event_kind_name(e->kind));
    member_time(w, "at", e->at_us);
    if (e->task != 0)
        member_number(w, "task", e->task);
    flow_json_text(w, "name", e->name);
    if (e->failed)
        json_key(w, "failed"), json_bool(w, true);
    if (e->kind == FLOW_EVENT_TIMER)
        member_time(w, "due_at", e->value);
    else if (e->kind == FLOW_EVENT_NOW)
        member_time(w, "value", e->value);
    more_json(w, e);
    if (data_is_error(e))
        member_error(w, e->data);
    else if (e->data.size > 0)
        flow_json_bytes(w, "data", e->data);
    json_end_object(w);
}

/* ---- One flow ------------------------------------------------------------------------------------------- */

static void wait_json(struct json_writer *w, const struct flow_waited *waited)
{
    static const char *const kinds[FLOW_EVENT_KINDS] = { [FLOW_EVENT_ACTIVITY] = "activity",
                                                         [FLOW_EVENT_TIMER] = "timer",
                                                         [FLOW_EVENT_WAIT] = "event",
                                                         [FLOW_EVENT_WAIT_MAIL] = "mail",
                                                         [FLOW_EVENT_CHILD] = "child" };
    const struct flow_wait *wait = waited->wait;
    const struct listed *row = waited->row;
    json_begin_object(w);
    json_key(w, "kind");
    json_cstr(w, kinds[wait->kind]);
    member_number(w, "task", wait->task);
    flow_json_text(w, "name", wait->name);
    flow_json_text(w, "flow", wait->child);
    flow_json_text(w, "tag", wait->tag);
    member_time(w, "since", wait->since_us);
    if (wait->kind == FLOW_EVENT_TIMER)
        member_time(w, "due_at", wait->due_us);
    if (wait->kind == FLOW_EVENT_ACTIVITY || wait->kind == FLOW_EVENT_TIMER)
        member_id(w, "message", wait->id);
    if (row != NULL && wait->kind == FLOW_EVENT_ACTIVITY) {
        json_key(w, "state");
        json_cstr(w, state_name(row->state));
        member_number(w, "attempts", row->m.attempts);
        member_number(w, "failures", row->m.failures);
        member_text(w, "last_error", row->m.error);
        member_time(w, "next_at", row->m.due_us);
    }
    json_key(w, "what");
    json_cstr(w, waited->words);
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

void flow_view_json(struct json_writer *w, const struct flow_view *v)
{
    const struct flow_row none = { .id = v->id };
    json_begin_object(w);
    flow_row_json(w, v->row != NULL ? v->row : &none);
    values_json(w, v);
    json_key(w, "waits_for");
    json_begin_array(w);
    for (size_t i = 0; i < v->wait_count; i++)
        wait_json(w, &v->waits[i]);
    json_end_array(w);
    member_number(w, "waits", (int64_t)v->waits_in_all);
    member_number(w, "pending", (int64_t)v->pending_count);
    member_text(w, "now", slice_trim(slice_from(v->now)));
    member_text(w, "next", slice_trim(slice_from(v->next)));
    member_text(w, "damaged", slice_from(v->damaged));
    json_key(w, "commands");
    json_begin_array(w);
    for (size_t i = 0; i < v->command_count; i++) {
        json_begin_object(w);
        json_key(w, "command");
        json_cstr(w, v->commands[i].command);
        json_key(w, "what");
        json_cstr(w, v->commands[i].what);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}
