#include "ops/export.h"

#include <stdio.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/slice.h"
#include "base/utf8.h"

#define FORMAT 1
#define TEXT_MAX (SIZE_MAX / 4) /* of one text in base64: it is in memory already */

/* The members, each once: for writing and for reading. */
#define TEXTS(X)                                                                                               \
    X("box", box)                                                                                              \
    X("type", m.type)                                                                                          \
    X("stream", m.stream) X("destination", m.destination) X("source", m.source) X("subject", m.subject)        \
        X("content_type", m.content_type) X("headers", m.headers) X("correlation_id", m.correlation_id)        \
            X("causation_id", m.causation_id) X("traceparent", m.traceparent) X("tracestate", m.tracestate)    \
                X("code", m.code) X("error", m.error) X("story", m.story) X("held_by", m.held_by)              \
                    X("endpoint", endpoint) X("rule", rule) X("fingerprint", fingerprint) X("note", note)      \
                        X("payload", m.payload)
#define NUMBERS(X)                                                                                             \
    X("seq", m.seq)                                                                                            \
    X("status", m.status)                                                                                      \
    X("attempts", m.attempts) X("failures", m.failures) X("reason", m.reason) X("cause", cause)                \
        X("limit", limit) X("created_us", m.created_us) X("due_us", m.due_us) X("expires_us", m.expires_us)    \
            X("failed_us", m.failed_us) X("died_us", died_us) X("event", m.event) X("released", m.released)

/* ---- Out ---- */

static void write_text(struct json_writer *w, const char *key, pr_slice text)
{
    char name[64];
    struct buf coded;

    if (text.size == 0)
        return;
    if (utf8_valid(text)) {
        json_key(w, key);
        json_slice(w, text);
        return;
    }
    (void)snprintf(name, sizeof(name), "%s_base64", key);
    buf_init(&coded, TEXT_MAX);
    base64_encode(&coded, text);
    json_key(w, name);
    json_slice(w, buf_slice(&coded));
    buf_fini(&coded);
}

static void write_id(struct json_writer *w, const char *key, pr_id id)
{
    char text[PR_ID_TEXT_SIZE];

    pr_id_format(id, text);
    json_key(w, key);
    json_cstr(w, text);
}

void export_write(struct json_writer *w, const struct listed *l)
{
    json_begin_object(w);
    json_key(w, "postrider_dead_letter");
    json_int(w, FORMAT);
    write_id(w, "id", l->m.id);
#define X(key, member) write_text(w, key, l->member);
    TEXTS(X)
#undef X
#define X(key, member)                                                                                         \
    json_key(w, key);                                                                                          \
    json_int(w, l->member);
    NUMBERS(X)
#undef X
    if (!pr_id_is_zero(l->edited_as))
        write_id(w, "edited_as", l->edited_as);
    json_end_object(w);
}

/* ---- In ---- */

static bool read_text(struct arena *arena, const json_t *object, const char *key, pr_slice *ret)
{
    char name[64];
    const json_t *plain = json_object_get(object, key);
    struct buf bytes;

    *ret = (pr_slice){ NULL, 0 };
    (void)snprintf(name, sizeof(name), "%s_base64", key);
    const json_t *coded = json_object_get(object, name);
    if (plain != NULL) {
        if (json_is_string(plain))
            *ret = slice_dup(arena, (pr_slice){ json_string_value(plain), json_string_length(plain) });
        return ret->data != NULL;
    }
    if (coded == NULL)
        return true;
    buf_init(&bytes, TEXT_MAX);
    if (json_is_string(coded) &&
        base64_decode(&bytes, (pr_slice){ json_string_value(coded), json_string_length(coded) }) == PR_OK)
        *ret = slice_dup(arena, buf_slice(&bytes));
    buf_fini(&bytes);
    return ret->data != NULL;
}

static bool read_id(const json_t *object, const char *key, pr_id *ret)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL && pr_id_parse(slice_from(text), ret) == PR_OK;
}

const char *export_read(struct arena *arena, const json_t *object, struct listed *l)
{
    *l = (struct listed){ .state = STATE_DEAD };
    if (json_integer_value(json_object_get(object, "postrider_dead_letter")) != FORMAT)
        return "is not a dead letter of postrider dead export";
    if (!read_id(object, "id", &l->m.id))
        return "has no id";
#define X(key, member)                                                                                         \
    if (!read_text(arena, object, key, &l->member))                                                            \
        return "has a " key " that is no text";
    TEXTS(X)
#undef X
#define X(key, member)                                                                                         \
    if (!json_is_integer(json_object_get(object, key)))                                                        \
        return "has no number " key;                                                                           \
    l->member = json_integer_value(json_object_get(object, key));
    NUMBERS(X)
#undef X
    if (json_object_get(object, "edited_as") != NULL && !read_id(object, "edited_as", &l->edited_as))
        return "has an edited_as that is no id";
    if (l->box.size == 0 || l->m.type.size == 0 || l->died_us <= 0 || l->m.created_us <= 0 || l->m.due_us < 0)
        return "lacks its box, its type or its times";
    return slice_is_json_object(l->m.headers) ? NULL : "has headers that are no JSON object";
}
