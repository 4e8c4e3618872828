#include "flow/turn_message.h"

#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"
#include "flow/flow_id.h"
#include "flow/flow_json.h"

#define RETRY_MILLIONTHS 1000000.0 /* factor and jitter are whole numbers in headers, which every reader parses alike */
#define RETRY_TRIES_MAX 1000000000

static const char *const type_names[TURN_KINDS] = {
    [TURN_NONE] = "none",   [TURN_START] = "start", [TURN_RESULT] = "result", [TURN_CHILD] = "child",
    [TURN_TIMER] = "timer", [TURN_EVENT] = "event", [TURN_MAIL] = "mail",     [TURN_CANCEL] = "cancel",
};

const char *turn_message_type(enum turn_message_kind kind)
{
    return (unsigned)kind < TURN_KINDS ? type_names[kind] : "unknown";
}

/* ---- Making ------------------------------------------------------------------------------------------ */

struct headers {
    struct buf buf;
    struct json_writer w;
};

static void headers_begin(struct headers *h)
{
    buf_init(&h->buf, PR_HEADERS_MAX);
    json_init(&h->w, &h->buf);
    json_begin_object(&h->w);
}

static void put_int(struct headers *h, const char *key, int64_t value)
{
    if (value == 0)
        return;
    json_put_int(&h->w, key, value);
}

static void put_id(struct headers *h, const char *key, pr_id id)
{
    if (!pr_id_is_zero(id))
        flow_json_id(&h->w, key, id);
}

static void put_true(struct headers *h, const char *key, bool value)
{
    if (!value)
        return;
    json_put_bool(&h->w, key, true);
}

static int headers_end(struct headers *h, struct arena *arena, pr_slice *ret)
{
    json_end_object(&h->w);
    int rc = buf_failed(&h->buf);
    if (rc == 0) {
        *ret = slice_dup(arena, buf_slice(&h->buf));
        rc = ret->data != NULL ? PR_OK : PR_ENOMEM;
    }
    buf_fini(&h->buf);
    return rc;
}

int turn_message_make(const struct turn_message *t, pr_id id, struct arena *arena, struct pr_message *ret)
{
    struct headers h;
    *ret = (struct pr_message){ .id = id,
                                .type = slice_from(turn_message_type(t->kind)),
                                .stream = t->flow,
                                .payload = t->data,
                                .due_us = t->due_us };
    headers_begin(&h);
    flow_json_text(&h.w, "name", t->name);
    flow_json_text(&h.w, "version", t->version);
    flow_json_text(&h.w, "parent", t->parent);
    put_id(&h, "parent_execution", t->parent_execution);
    put_int(&h, "parent_task", t->parent_task);
    put_true(&h, "restart", t->restart);
    put_true(&h, "resume", t->resume);
    put_true(&h, "unheard_of", t->unheard_of);
    put_id(&h, "execution", t->execution);
    put_int(&h, "task", t->task);
    put_true(&h, "failed", t->failed);
    return headers_end(&h, arena, &ret->headers);
}

int activity_message_make(const struct activity_message *a, struct arena *arena, struct pr_message *ret)
{
    struct headers h;
    *ret = (struct pr_message){ .id = flow_task_id(a->execution, a->task),
                                .type = a->name,
                                .stream = a->session,
                                .payload = a->input,
                                .correlation_id = a->flow,
                                .expires_us = a->expires_us };
    headers_begin(&h);
    flow_json_text(&h.w, "flow", a->flow);
    put_id(&h, "execution", a->execution);
    put_int(&h, "task", a->task);
    flow_json_text(&h.w, "tag", a->tag);
    put_int(&h, "timeout_us", a->timeout_us);
    put_int(&h, "retry_tries", a->retry.tries);
    put_int(&h, "retry_backoff", a->retry.backoff);
    put_int(&h, "retry_first_us", a->retry.first_us);
    put_int(&h, "retry_max_us", a->retry.max_us);
    put_int(&h, "retry_factor_millionths", (int64_t)llround(a->retry.factor * RETRY_MILLIONTHS));
    put_int(&h, "retry_jitter_millionths", (int64_t)llround(a->retry.jitter * RETRY_MILLIONTHS));
    return headers_end(&h, arena, &ret->headers);
}

/* ---- Reading ------------------------------------------------------------------------------------------- */

static int bad(struct pr_error *reterr, const struct pr_message *m, const char *why)
{
    return error_set(reterr, PR_EINVAL, "message %.*s of flow %.*s: %s", (int)min_size(m->type.size, 64),
                     m->type.size > 0 ? m->type.data : "", (int)min_size(m->stream.size, 128),
                     m->stream.size > 0 ? m->stream.data : "", why);
}

static int read_headers(const struct pr_message *m, const struct flow_member *members, size_t count,
                        struct arena *arena, struct pr_error *reterr)
{
    struct pr_error why = { .code = 0 };
    int rc = m->headers.size > 0 ? flow_json_read(m->headers, members, count, false, arena, &why) : PR_OK;
    if (rc == PR_EINVAL)
        return bad(reterr, m, why.text);
    return rc == PR_OK ? rc : error_set(reterr, rc, "out of memory for a message of a flow");
}

static int read_id(pr_slice text, pr_id *ret)
{
    return text.size == 0 ? PR_OK : pr_id_parse(text, ret);
}

/* NULL, or what is missing or wrong. */
static const char *turn_defect(const struct turn_message *t)
{
    bool for_task = t->kind == TURN_RESULT || t->kind == TURN_CHILD || t->kind == TURN_TIMER;
    bool named = t->kind == TURN_START || t->kind == TURN_EVENT || t->kind == TURN_MAIL;
    if (t->flow.size == 0)
        return "it has no stream, which is the flow's id";
    if (for_task && (pr_id_is_zero(t->execution) || t->task < 1 || t->task > INT32_MAX))
        return "its headers need \"execution\" and \"task\"";
    if (named && (t->name.size == 0 || t->name.size > PR_TYPE_MAX))
        return "its headers need \"name\", 1 to 255 bytes";
    if (t->parent.size > 0 && (pr_id_is_zero(t->parent_execution) || t->parent_task < 1))
        return "\"parent\" needs \"parent_execution\" and \"parent_task\"";
    return NULL;
}

int turn_message_read(const struct pr_message *m, struct arena *arena, struct turn_message *ret,
                      struct pr_error *reterr)
{
    struct turn_message t = { .flow = m->stream, .data = m->payload, .due_us = m->due_us };
    pr_slice execution = { NULL, 0 }, parent_execution = { NULL, 0 };
    const struct flow_member members[] = {
        { "name", FLOW_MEMBER_TEXT, &t.name, NULL },
        { "version", FLOW_MEMBER_TEXT, &t.version, NULL },
        { "parent", FLOW_MEMBER_TEXT, &t.parent, NULL },
        { "parent_execution", FLOW_MEMBER_TEXT, &parent_execution, NULL },
        { "parent_task", FLOW_MEMBER_INT, &t.parent_task, NULL },
        { "restart", FLOW_MEMBER_BOOL, &t.restart, NULL },
        { "resume", FLOW_MEMBER_BOOL, &t.resume, NULL },
        { "unheard_of", FLOW_MEMBER_BOOL, &t.unheard_of, NULL },
        { "execution", FLOW_MEMBER_TEXT, &execution, NULL },
        { "task", FLOW_MEMBER_INT, &t.task, NULL },
        { "failed", FLOW_MEMBER_BOOL, &t.failed, NULL },
    };
    for (int kind = TURN_START; kind < TURN_KINDS && t.kind == TURN_NONE; kind++) {
        if (slice_eq_cstr(m->type, type_names[kind]))
            t.kind = (enum turn_message_kind)kind;
    }
    if (t.kind == TURN_NONE)
        return bad(reterr, m, "flows have no messages of this type");
    int rc = read_headers(m, members, ARRAY_LENGTH(members), arena, reterr);
    if (rc != PR_OK)
        return rc;
    if (read_id(execution, &t.execution) != PR_OK || read_id(parent_execution, &t.parent_execution) != PR_OK)
        return bad(reterr, m, "\"execution\" is not a UUID");
    const char *defect = turn_defect(&t);
    if (defect != NULL)
        return bad(reterr, m, defect);
    *ret = t;
    return PR_OK;
}

static const char *activity_defect(const struct activity_message *a, int64_t tries, int64_t backoff)
{
    if (a->flow.size == 0 || pr_id_is_zero(a->execution) || a->task < 1 || a->task > INT32_MAX)
        return "its headers need \"flow\", \"execution\" and \"task\"";
    if (tries < 0 || tries > RETRY_TRIES_MAX || backoff < PR_BACKOFF_NONE || backoff > PR_BACKOFF_EXPONENTIAL ||
        a->retry.first_us < 0 || a->retry.max_us < 0 || a->retry.factor < 0 || a->retry.jitter < 0)
        return "its retry policy is not valid";
    return a->timeout_us < 0 ? "its timeout is negative" : NULL;
}

int activity_message_read(const struct pr_message *m, struct arena *arena, struct activity_message *ret,
                          struct pr_error *reterr)
{
    struct activity_message a = {
        .name = m->type, .session = m->stream, .input = m->payload, .expires_us = m->expires_us
    };
    pr_slice execution = { NULL, 0 };
    int64_t tries = 0, backoff = 0, factor = 0, jitter = 0;
    const struct flow_member members[] = {
        { "flow", FLOW_MEMBER_TEXT, &a.flow, NULL },
        { "execution", FLOW_MEMBER_TEXT, &execution, NULL },
        { "task", FLOW_MEMBER_INT, &a.task, NULL },
        { "tag", FLOW_MEMBER_TEXT, &a.tag, NULL },
        { "timeout_us", FLOW_MEMBER_INT, &a.timeout_us, NULL },
        { "retry_tries", FLOW_MEMBER_INT, &tries, NULL },
        { "retry_backoff", FLOW_MEMBER_INT, &backoff, NULL },
        { "retry_first_us", FLOW_MEMBER_INT, &a.retry.first_us, NULL },
        { "retry_max_us", FLOW_MEMBER_INT, &a.retry.max_us, NULL },
        { "retry_factor_millionths", FLOW_MEMBER_INT, &factor, NULL },
        { "retry_jitter_millionths", FLOW_MEMBER_INT, &jitter, NULL },
    };
    int rc = read_headers(m, members, ARRAY_LENGTH(members), arena, reterr);
    if (rc != PR_OK)
        return rc;
    a.retry.factor = (double)factor / RETRY_MILLIONTHS;
    a.retry.jitter = (double)jitter / RETRY_MILLIONTHS;
    if (read_id(execution, &a.execution) != PR_OK)
        return bad(reterr, m, "\"execution\" is not a UUID");
    const char *defect = activity_defect(&a, tries, backoff);
    if (defect != NULL)
        return bad(reterr, m, defect);
    a.retry.tries = (int)tries;
    a.retry.backoff = (enum pr_backoff)backoff;
    *ret = a;
    return PR_OK;
}
