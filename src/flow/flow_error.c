#include "flow/flow_error.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/message.h"
#include "flow/flow_json.h"

static const char *const category_names[] = {
    [PR_CATEGORY_NONE] = "none",
    [PR_CATEGORY_INFRASTRUCTURE] = "infrastructure",
    [PR_CATEGORY_CONFIGURATION] = "configuration",
    [PR_CATEGORY_APPLICATION] = "application",
    [PR_CATEGORY_POISON] = "poison",
};
static const char *const poison_names[] = {
    [FLOW_POISON_NONE] = "none",
    [FLOW_POISON_FLOW] = "flow",
    [FLOW_POISON_ACTIVITY] = "activity",
    [FLOW_POISON_UNDECODABLE] = "undecodable",
};

PR_API const char *pr_category_name(enum pr_category category)
{
    return (size_t)category < ARRAY_LENGTH(category_names) ? category_names[category] : "unknown";
}

bool flow_category_is_final(enum pr_category category)
{
    return category == PR_CATEGORY_INFRASTRUCTURE || category == PR_CATEGORY_CONFIGURATION;
}

static bool is_never_retryable(enum pr_category category)
{
    return category == PR_CATEGORY_POISON || category == PR_CATEGORY_CONFIGURATION;
}

static pr_slice to_arena(struct buf *b, struct arena *arena)
{
    pr_slice text = buf_failed(b) == 0 ? slice_dup(arena, buf_slice(b)) : (pr_slice){ NULL, 0 };
    buf_fini(b);
    return text;
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static void write_poison(struct json_writer *w, const struct flow_error *e)
{
    json_put_cstr(w, "kind", poison_names[e->kind]);
    json_put_int(w, "count", e->count);
    json_put_int(w, "limit", e->limit);
    flow_json_text(w, "flow", e->flow);
    if (!pr_id_is_zero(e->execution))
        flow_json_id(w, "execution", e->execution);
    flow_json_text(w, "name", e->name);
    if (e->kind == FLOW_POISON_ACTIVITY)
        json_put_int(w, "number", e->number);
    if (e->content.size > 0) {
        json_key(w, "content");
        json_raw(w, e->content);
    }
}

pr_slice flow_error_encode(const struct flow_error *e, struct arena *arena)
{
    struct buf b;
    struct json_writer w;
    buf_init(&b, SIZE_MAX / 2);
    json_init(&w, &b);
    json_begin_object(&w);
    json_put_cstr(&w, "category", pr_category_name(e->category));
    flow_json_bytes(&w, "message", e->message);
    if (e->retryable && !is_never_retryable(e->category))
        json_put_bool(&w, "retryable", true);
    if (e->kind != FLOW_POISON_NONE)
        write_poison(&w, e);
    if (e->event > 0) {
        json_put_cstr(&w, "kind", "nondeterminism");
        json_put_int(&w, "event", e->event);
        flow_json_bytes(&w, "expected", e->expected);
        flow_json_bytes(&w, "found", e->found);
    }
    json_end_object(&w);
    return to_arena(&b, arena);
}

static int name_index(pr_slice name, const char *const *names, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (slice_eq_cstr(name, names[i]))
            return (int)i;
    }
    return 0;
}

int flow_error_decode(pr_slice json, struct arena *arena, struct flow_error *ret, struct pr_error *reterr)
{
    struct flow_error e = { .category = PR_CATEGORY_NONE };
    pr_slice category = { NULL, 0 }, kind = { NULL, 0 }, execution = { NULL, 0 };
    const struct flow_member members[] = {
        { "category", FLOW_MEMBER_TEXT, &category, NULL },     { "message", FLOW_MEMBER_BYTES, &e.message, NULL },
        { "retryable", FLOW_MEMBER_BOOL, &e.retryable, NULL }, { "kind", FLOW_MEMBER_TEXT, &kind, NULL },
        { "count", FLOW_MEMBER_INT, &e.count, NULL },          { "limit", FLOW_MEMBER_INT, &e.limit, NULL },
        { "flow", FLOW_MEMBER_TEXT, &e.flow, NULL },           { "execution", FLOW_MEMBER_TEXT, &execution, NULL },
        { "name", FLOW_MEMBER_TEXT, &e.name, NULL },           { "number", FLOW_MEMBER_INT, &e.number, NULL },
        { "content", FLOW_MEMBER_RAW, &e.content, NULL },      { "event", FLOW_MEMBER_INT, &e.event, NULL },
        { "expected", FLOW_MEMBER_BYTES, &e.expected, NULL },  { "found", FLOW_MEMBER_BYTES, &e.found, NULL },
    };
    int rc = flow_json_read(json, members, ARRAY_LENGTH(members), false, arena, reterr);
    if (rc != PR_OK)
        return rc;
    e.category = (enum pr_category)name_index(category, category_names, ARRAY_LENGTH(category_names));
    e.kind = (enum flow_poison_kind)name_index(kind, poison_names, ARRAY_LENGTH(poison_names));
    if (e.category == PR_CATEGORY_NONE)
        return error_set(reterr, PR_EINVAL, "unknown \"category\"");
    if (execution.size > 0 && pr_id_parse(execution, &e.execution) != PR_OK)
        return error_set(reterr, PR_EINVAL, "\"execution\" is not an id");
    e.retryable = e.retryable && !is_never_retryable(e.category);
    *ret = e;
    return PR_OK;
}

int flow_error_read(pr_slice data, struct arena *arena, struct flow_error *ret)
{
    struct pr_error ignored;
    int rc = flow_error_decode(data, arena, ret, &ignored);
    if (rc == PR_EINVAL) {
        *ret = (struct flow_error){ .category = PR_CATEGORY_APPLICATION, .message = slice_dup(arena, data) };
        rc = ret->message.data != NULL ? PR_OK : PR_ENOMEM;
    }
    return rc;
}

/* ---- Poison ------------------------------------------------------------------------------------------ */

pr_slice flow_poison_message(const struct flow_error *e, struct arena *arena)
{
    pr_slice name = utf8_cut_bytes(e->kind == FLOW_POISON_ACTIVITY ? e->name : e->flow, 256);
    switch (e->kind) {
    case FLOW_POISON_ACTIVITY:
        return arena_printf(arena, "poison: activity %.*s#%" PRId64 " exceeded %" PRId64 " attempts (max %" PRId64 ")",
                            SLICE_ARGS(name), e->number, e->count, e->limit);
    case FLOW_POISON_UNDECODABLE:
        return arena_printf(arena,
                            "poison: undecodable message of flow %.*s exceeded %" PRId64 " attempts (max %" PRId64 ")",
                            SLICE_ARGS(name), e->count, e->limit);
    default:
        return arena_printf(arena, "poison: flow %.*s exceeded %" PRId64 " attempts (max %" PRId64 ")",
                            SLICE_ARGS(name), e->count, e->limit);
    }
}

pr_slice flow_message_json(const struct pr_message *m, struct arena *arena)
{
    struct buf b;
    struct json_writer w;
    buf_init(&b, SIZE_MAX / 2);
    json_init(&w, &b);
    json_begin_object(&w);
    flow_json_id(&w, "id", m->id);
    flow_json_bytes(&w, "type", m->type);
    flow_json_bytes(&w, "stream", m->stream);
    if (m->headers.size > 0 && slice_is_json_object(m->headers)) {
        json_key(&w, "headers");
        json_raw(&w, m->headers);
    } else if (m->headers.size > 0) {
        flow_json_bytes(&w, "headers_text", m->headers);
    }
    flow_json_bytes(&w, "payload", m->payload);
    json_put_int(&w, "attempts", m->attempts);
    json_put_int(&w, "failures", m->failures);
    json_put_int(&w, "created", m->created_us);
    if (m->error.size > 0)
        flow_json_bytes(&w, "error", m->error);
    json_end_object(&w);
    return to_arena(&b, arena);
}

int flow_poison(struct flow_error *e, const struct pr_message *m, struct arena *arena)
{
    e->category = PR_CATEGORY_POISON;
    e->message = flow_poison_message(e, arena);
    e->content = flow_message_json(m, arena);
    return e->message.data != NULL && e->content.data != NULL ? PR_OK : PR_ENOMEM;
}
