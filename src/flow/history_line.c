#include "flow/history_line.h"

#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"
#include "flow/flow_json.h"

#define TASK_MAX INT32_MAX

/* Which members a kind of event has, and which are required. */
enum { HAS_TASK = 1, HAS_NAME = 2, HAS_DATA = 4, HAS_VALUE = 8, HAS_ID = 16 };

static const uint8_t has[FLOW_EVENT_KINDS] = {
    [FLOW_EVENT_STARTED] = HAS_NAME | HAS_DATA,
    [FLOW_EVENT_RESULT] = HAS_TASK | HAS_DATA,
    [FLOW_EVENT_CHILD_END] = HAS_TASK | HAS_DATA,
    [FLOW_EVENT_FIRED] = HAS_TASK,
    [FLOW_EVENT_EVENT] = HAS_NAME | HAS_DATA,
    [FLOW_EVENT_MAIL] = HAS_NAME | HAS_DATA,
    [FLOW_EVENT_CANCEL] = HAS_DATA,
    [FLOW_EVENT_ACTIVITY] = HAS_TASK | HAS_NAME | HAS_DATA,
    [FLOW_EVENT_TIMER] = HAS_TASK | HAS_VALUE,
    [FLOW_EVENT_WAIT] = HAS_TASK | HAS_NAME,
    [FLOW_EVENT_WAIT_MAIL] = HAS_TASK | HAS_NAME,
    [FLOW_EVENT_CHILD] = HAS_TASK | HAS_NAME | HAS_DATA | HAS_ID,
    [FLOW_EVENT_DETACHED] = HAS_TASK | HAS_NAME | HAS_DATA | HAS_ID,
    [FLOW_EVENT_CANCEL_TASK] = HAS_TASK,
    [FLOW_EVENT_NOW] = HAS_VALUE,
    [FLOW_EVENT_UUID] = HAS_ID,
    [FLOW_EVENT_RANDOM] = HAS_VALUE,
    [FLOW_EVENT_COMPLETED] = HAS_DATA,
    [FLOW_EVENT_FAILED] = HAS_DATA,
    [FLOW_EVENT_CONTINUED] = HAS_DATA | HAS_ID,
};

/* ---- Writing ------------------------------------------------------------------------------------------ */

static void write_state(struct json_writer *w, const struct flow_more *m)
{
    if (m->state_count == 0)
        return;
    json_key(w, "state");
    json_begin_array(w);
    for (size_t i = 0; i < m->state_count; i++) {
        json_begin_object(w);
        json_put_slice(w, "key", m->state[i].key);
        flow_json_bytes(w, "value", m->state[i].value);
        json_end_object(w);
    }
    json_end_array(w);
}

void flow_line_write(struct buf *b, const struct flow_event *e, size_t n)
{
    struct json_writer w;
    json_init(&w, b);
    json_begin_object(&w);
    json_put_int(&w, "n", (int64_t)n);
    json_put_cstr(&w, "kind", flow_event_kind_name(e->kind));
    json_put_int(&w, "at", e->at_us);
    if (e->task != 0)
        json_put_int(&w, "task", e->task);
    flow_json_text(&w, "name", e->name);
    if (e->more != NULL) {
        flow_json_text(&w, "version", e->more->version);
        flow_json_text(&w, "id", e->more->id);
        flow_json_text(&w, "tag", e->more->tag);
        flow_json_text(&w, "session", e->more->session);
        if (e->more->status.size > 0)
            flow_json_bytes(&w, "status", e->more->status);
        write_state(&w, e->more);
    }
    if ((has[e->kind] & HAS_VALUE) != 0)
        json_put_int(&w, "value", e->value);
    if (e->failed)
        json_put_bool(&w, "failed", true);
    if ((has[e->kind] & HAS_DATA) != 0)
        flow_json_bytes(&w, "data", e->data);
    json_end_object(&w);
    buf_add_char(b, '\n');
}

void flow_history_encode(struct buf *b, const struct flow_event *events, size_t count, size_t first)
{
    for (size_t i = 0; i < count; i++)
        flow_line_write(b, &events[i], first + i);
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

static int kind_from(pr_slice name)
{
    for (int kind = FLOW_EVENT_STARTED; kind < FLOW_EVENT_KINDS; kind++) {
        if (slice_eq_cstr(name, flow_event_kind_name(kind)))
            return kind;
    }
    return FLOW_EVENT_NONE;
}

struct state_reader {
    struct arena *arena;
    struct flow_value *values;
    size_t count, capacity;
    struct pr_error *reterr;
};

static int add_value(struct state_reader *r, pr_slice object)
{
    struct flow_value v = { { NULL, 0 }, { NULL, 0 } };
    bool key = false, value = false;
    const struct flow_member members[] = { { "key", FLOW_MEMBER_TEXT, &v.key, &key },
                                           { "value", FLOW_MEMBER_BYTES, &v.value, &value } };
    int rc = flow_json_read(object, members, ARRAY_LENGTH(members), true, r->arena, r->reterr);
    if (rc != PR_OK)
        return rc;
    if (!key || !value || (r->count > 0 && slice_cmp(r->values[r->count - 1].key, v.key) >= 0))
        return error_set(r->reterr, PR_EINVAL, "\"state\" is not sorted, or a field is missing");
    if (r->count == r->capacity) {
        size_t larger = r->capacity < 8 ? 8 : r->capacity * 2;
        struct flow_value *moved = arena_alloc_array(r->arena, larger, sizeof(*moved));
        if (moved == NULL)
            return error_set(r->reterr, PR_ENOMEM, "out of memory for the history of a flow");
        if (r->count > 0)
            memcpy(moved, r->values, r->count * sizeof(*moved));
        r->values = moved;
        r->capacity = larger;
    }
    r->values[r->count++] = v;
    return PR_OK;
}

/* The elements of an array of flat objects, whose JSON was checked before: an object ends at its brace outside of
 * strings. */
static int read_state(pr_slice array, struct state_reader *r)
{
    if (array.size < 2 || array.data[0] != '[')
        return error_set(r->reterr, PR_EINVAL, "\"state\" has an invalid value");
    size_t from = 0;
    int depth = 0;
    bool quoted = false;
    for (size_t at = 1; at + 1 < array.size; at++) {
        char c = array.data[at];
        if (quoted) {
            at += c == '\\';
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        if ((c == '{' || c == '[') && depth++ == 0)
            from = at;
        if ((c == '}' || c == ']') && --depth == 0) {
            int rc = add_value(r, (pr_slice){ array.data + from, at - from + 1 });
            if (rc != PR_OK)
                return rc;
        } else if (depth == 0 && strchr("{}[], \t\r\n", c) == NULL) {
            return error_set(r->reterr, PR_EINVAL, "\"state\" has an invalid value");
        }
    }
    return PR_OK;
}

struct event_line {
    int64_t n, at, task, value;
    bool failed, has_task, has_name, has_data, has_value, has_id, has_more, has_state;
    pr_slice kind, name, data, state;
    struct flow_more more;
};

static int read_line(pr_slice text, struct event_line *l, struct arena *arena, struct pr_error *reterr)
{
    const struct flow_member members[] = {
        { "n", FLOW_MEMBER_INT, &l->n, NULL },
        { "kind", FLOW_MEMBER_TEXT, &l->kind, NULL },
        { "at", FLOW_MEMBER_INT, &l->at, NULL },
        { "task", FLOW_MEMBER_INT, &l->task, &l->has_task },
        { "name", FLOW_MEMBER_TEXT, &l->name, &l->has_name },
        { "version", FLOW_MEMBER_TEXT, &l->more.version, &l->has_more },
        { "id", FLOW_MEMBER_TEXT, &l->more.id, &l->has_id },
        { "tag", FLOW_MEMBER_TEXT, &l->more.tag, &l->has_more },
        { "session", FLOW_MEMBER_TEXT, &l->more.session, &l->has_more },
        { "status", FLOW_MEMBER_BYTES, &l->more.status, &l->has_more },
        { "state", FLOW_MEMBER_RAW, &l->state, &l->has_state },
        { "value", FLOW_MEMBER_INT, &l->value, &l->has_value },
        { "failed", FLOW_MEMBER_BOOL, &l->failed, NULL },
        { "data", FLOW_MEMBER_BYTES, &l->data, &l->has_data },
    };
    struct state_reader state = { .arena = arena, .reterr = reterr };
    int rc = flow_json_read(text, members, ARRAY_LENGTH(members), true, arena, reterr);
    if (rc == PR_OK && l->has_state)
        rc = read_state(l->state, &state);
    l->more.state = state.values;
    l->more.state_count = state.count;
    return rc;
}

/* NULL, or what is wrong with a line that is valid JSON. */
static const char *line_defect(const struct event_line *l, size_t n, int kind)
{
    unsigned found = (l->has_task ? HAS_TASK : 0U) | (l->has_name ? HAS_NAME : 0U) | (l->has_data ? HAS_DATA : 0U) |
                     (l->has_value ? HAS_VALUE : 0U) | (l->has_id ? HAS_ID : 0U);
    pr_id id;
    if (l->n < 1 || (uint64_t)l->n != n)
        return "its number is out of order";
    if (kind == FLOW_EVENT_NONE)
        return "unknown event kind";
    if (found != has[kind])
        return "a field is missing or unexpected";
    if (l->has_task && (l->task < 1 || l->task > TASK_MAX))
        return "its task number is out of range";
    if (l->has_name && l->name.size == 0)
        return "its name is empty";
    if ((kind == FLOW_EVENT_UUID || kind == FLOW_EVENT_CONTINUED) && pr_id_parse(l->more.id, &id) != PR_OK)
        return "invalid id";
    if (l->failed && kind != FLOW_EVENT_RESULT && kind != FLOW_EVENT_CHILD_END)
        return "this event cannot carry an error";
    return NULL;
}

int flow_line_read(pr_slice line, size_t n, struct arena *arena, struct flow_event *ret, struct pr_error *reterr)
{
    struct event_line l = { .n = 0 };
    struct pr_error why = { .code = 0 };
    int rc = read_line(line, &l, arena, &why);
    if (rc == PR_ENOMEM)
        return error_set(reterr, rc, "%s", why.text);
    if (rc != PR_OK)
        return error_set(reterr, PR_ECORRUPT, "the history is damaged at event %zu: %s", n, why.text);
    int kind = kind_from(l.kind);
    const char *defect = line_defect(&l, n, kind);
    if (defect != NULL)
        return error_set(reterr, PR_ECORRUPT, "the history is damaged at event %zu: %s", n, defect);
    *ret = (struct flow_event){ .kind = (uint8_t)kind,
                                .failed = l.failed,
                                .task = (int32_t)l.task,
                                .at_us = l.at,
                                .value = l.value,
                                .name = l.name,
                                .data = l.data };
    if (l.has_more || l.has_id || l.has_state) {
        ret->more = arena_dup(arena, &l.more, sizeof(l.more));
        if (ret->more == NULL)
            return error_set(reterr, PR_ENOMEM, "out of memory for the history of a flow");
    }
    return PR_OK;
}
