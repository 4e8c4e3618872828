#include "policy/raised.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/message.h"

#define HEADER_ERROR_MAX 500 /* characters: some receivers refuse long headers */

/* ---- Marks ----------------------------------------------------------------------------- */

/* Is there a key of this name?  A value with the same text counts, too: then nothing is raised again, which does no
 * harm. */
static bool has_header(const struct pr_message *m, pr_slice quoted)
{
    return slice_contains(m->headers, quoted);
}

bool message_was_raised(const struct pr_message *m)
{
    return has_header(m, PR_STR("\"" HEADER_RAISED "\""));
}

bool message_was_moved(const struct pr_message *m)
{
    return has_header(m, PR_STR("\"" HEADER_DEAD_ID "\""));
}

/* ---- What is known of a failure ------------------------------------------------------------ */

enum raised_field {
    FIELD_ID,
    FIELD_TYPE,
    FIELD_STREAM,
    FIELD_ENDPOINT,
    FIELD_BOX,
    FIELD_REASON,
    FIELD_CODE,
    FIELD_ERROR,
    FIELD_FAILURES,
    FIELD_ATTEMPTS,
    FIELD_RULE,
    FIELD_AT,
    FIELD_COUNT
};

static const char *const field_names[FIELD_COUNT] = {
    "id", "type", "stream", "endpoint", "box", "reason", "code", "error", "failures", "attempts", "rule", "at",
};

static bool is_number(enum raised_field field)
{
    return field == FIELD_FAILURES || field == FIELD_ATTEMPTS;
}

_Static_assert(PR_ID_TEXT_SIZE <= 64 && TIME_TEXT_SIZE <= 64, "");

/* As plain text. */
static void add_field(const struct raised *a, enum raised_field field, struct buf *b)
{
    const struct failure *f = a->failure;
    char text[64];

    switch (field) {
    case FIELD_ID:
        pr_id_format(f->message->id, text);
        buf_add_cstr(b, text);
        break;
    case FIELD_AT:
        time_format_rfc3339(a->at_us, text);
        buf_add_cstr(b, text);
        break;
    case FIELD_TYPE: buf_add_slice(b, f->message->type); break;
    case FIELD_STREAM: buf_add_slice(b, f->message->stream); break;
    case FIELD_ENDPOINT: buf_add_slice(b, f->endpoint); break;
    case FIELD_BOX: buf_add_slice(b, a->box); break;
    case FIELD_REASON: buf_add_cstr(b, pr_reason_name(f->reason)); break;
    case FIELD_CODE: utf8_clean(b, utf8_cut(f->code, 64)); break;
    case FIELD_ERROR: utf8_clean(b, utf8_cut(f->error, PR_ERROR_MAX)); break;
    case FIELD_FAILURES: buf_addf(b, "%d", f->failures); break;
    case FIELD_ATTEMPTS: buf_addf(b, "%d", a->attempts); break;
    case FIELD_RULE: buf_add_slice(b, a->rule); break;
    case FIELD_COUNT: break;
    }
}

static void add_json(struct json_writer *w, const struct raised *a, enum raised_field field)
{
    struct buf text;

    buf_init(&text, RAISE_PAYLOAD_MAX);
    add_field(a, field, &text);
    if (is_number(field))
        json_raw(w, buf_slice(&text));
    else
        json_slice(w, buf_slice(&text));
    buf_fini(&text);
}

/* ---- Templates --------------------------------------------------------------------------------- */

/* "{reason}...": which field, and how long the placeholder is; FIELD_COUNT: none. */
static enum raised_field field_at(pr_slice text, size_t *ret_size)
{
    for (enum raised_field f = 0; f < FIELD_COUNT; f++) {
        size_t size = strlen(field_names[f]);
        if (text.size >= size + 2 && text.data[size + 1] == '}' && memcmp(text.data + 1, field_names[f], size) == 0) {
            *ret_size = size + 2;
            return f;
        }
    }
    return FIELD_COUNT;
}

static void add_escaped(struct buf *b, const struct raised *a, enum raised_field field)
{
    struct buf text, quoted;

    buf_init(&text, RAISE_PAYLOAD_MAX);
    buf_init(&quoted, RAISE_PAYLOAD_MAX);
    add_field(a, field, &text);
    json_quote(&quoted, buf_slice(&text));
    if (quoted.size >= 2)
        buf_add(b, quoted.data + 1, quoted.size - 2);
    buf_fini(&text);
    buf_fini(&quoted);
}

static void expand(const struct raised *a, pr_slice template, bool escaped, struct buf *b)
{
    for (size_t i = 0; i < template.size;) {
        size_t size = 0;
        enum raised_field field = FIELD_COUNT;

        if (template.data[i] == '{')
            field = field_at((pr_slice){ template.data + i, template.size - i }, &size);
        if (field == FIELD_COUNT) {
            buf_add_char(b, template.data[i++]);
            continue;
        }
        if (escaped)
            add_escaped(b, a, field);
        else
            add_field(a, field, b);
        i += size;
    }
}

void raised_payload(const struct raised *a, const struct raise *raise, struct buf *ret)
{
    struct json_writer w;

    if (raise->payload.size > 0) {
        expand(a, raise->payload, true, ret);
        return;
    }
    json_init(&w, ret);
    json_begin_object(&w);
    for (enum raised_field f = 0; f < FIELD_COUNT; f++) {
        json_key(&w, field_names[f]);
        add_json(&w, a, f);
    }
    json_end_object(&w);
}

/* ---- Headers --------------------------------------------------------------------------------------- */

static void add_text_header(struct json_writer *w, const char *name, pr_slice value)
{
    if (value.size == 0)
        return;
    json_put_slice(w, name, value);
}

static void add_field_header(struct json_writer *w, const struct raised *a, const char *name, enum raised_field field)
{
    struct buf text;

    buf_init(&text, RAISE_PAYLOAD_MAX);
    add_field(a, field, &text);
    add_text_header(w, name, utf8_cut(buf_slice(&text), HEADER_ERROR_MAX));
    buf_fini(&text);
}

/* The diagnostic headers, then the message's own as far as there is room. */
static void moved_headers(const struct raised *a, struct buf *ret)
{
    pr_slice own = slice_trim(a->failure->message->headers);
    struct json_writer w;

    json_init(&w, ret);
    json_begin_object(&w);
    add_field_header(&w, a, HEADER_DEAD_ID, FIELD_ID);
    add_field_header(&w, a, "postrider-dead-endpoint", FIELD_ENDPOINT);
    add_field_header(&w, a, "postrider-dead-reason", FIELD_REASON);
    add_field_header(&w, a, "postrider-dead-code", FIELD_CODE);
    add_field_header(&w, a, "postrider-dead-error", FIELD_ERROR);
    add_field_header(&w, a, "postrider-dead-rule", FIELD_RULE);
    add_field_header(&w, a, "postrider-dead-failures", FIELD_FAILURES);
    add_field_header(&w, a, "postrider-dead-attempts", FIELD_ATTEMPTS);
    add_field_header(&w, a, "postrider-dead-at", FIELD_AT);
    json_end_object(&w);
    /* "{ours}" + "{own}" = "{ours,own}" */
    pr_slice inner = own.size > 2 ? slice_trim((pr_slice){ own.data + 1, own.size - 2 }) : (pr_slice){ NULL, 0 };
    if (buf_failed(ret) != 0 || inner.size == 0 || ret->size + inner.size + 1 > PR_HEADERS_MAX)
        return;
    ret->size--;
    buf_add_char(ret, ',');
    buf_add_slice(ret, inner);
    buf_add_char(ret, '}');
}

static void raised_headers(const struct raised *a, struct buf *ret)
{
    struct json_writer w;

    json_init(&w, ret);
    json_begin_object(&w);
    add_text_header(&w, HEADER_RAISED, a->rule);
    json_end_object(&w);
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

static struct send_effect *make_effect(const struct raised *a, const struct pr_message *m)
{
    size_t bytes = message_bytes(m);
    struct send_effect *effect = malloc(sizeof(*effect) + a->box.size + bytes);

    if (effect == NULL)
        return NULL;
    char *block = (char *)(effect + 1);
    *effect = (struct send_effect){ .box = { block, a->box.size } };
    memcpy(block, a->box.data, a->box.size);
    message_copy(m, block + a->box.size, &effect->message);
    effect->message.id = a->id;
    return effect;
}

struct send_effect *raised_raise(const struct raised *a, const struct raise *raise)
{
    const struct pr_message *failed = a->failure->message;
    struct send_effect *effect = NULL;
    struct buf payload, headers, stream;
    char id[PR_ID_TEXT_SIZE];

    buf_init(&payload, RAISE_PAYLOAD_MAX);
    buf_init(&headers, PR_HEADERS_MAX);
    buf_init(&stream, RAISE_PAYLOAD_MAX);
    raised_payload(a, raise, &payload);
    raised_headers(a, &headers);
    expand(a, raise->stream, false, &stream);
    pr_id_format(failed->id, id);
    const struct pr_message m = {
        .type = raise->type,
        .destination = raise->to,
        .stream = utf8_cut_bytes(buf_slice(&stream), PR_NAME_MAX),
        .headers = buf_slice(&headers),
        .payload = buf_failed(&payload) == 0 ? buf_slice(&payload) : PR_STR("{}"),
        .correlation_id = failed->correlation_id,
        .causation_id = slice_from(id),
        .traceparent = failed->traceparent,
        .tracestate = failed->tracestate,
    };
    /* A payload that grew too large becomes an empty object rather than a truncated one. */
    if (buf_failed(&headers) == 0 && buf_failed(&stream) == 0 && buf_failed(&payload) != PR_ENOMEM)
        effect = make_effect(a, &m);
    buf_fini(&payload);
    buf_fini(&headers);
    buf_fini(&stream);
    return effect;
}

struct send_effect *raised_move(const struct raised *a, pr_slice to)
{
    const struct pr_message *failed = a->failure->message;
    struct send_effect *effect = NULL;
    struct buf headers;
    char id[PR_ID_TEXT_SIZE];

    buf_init(&headers, PR_HEADERS_MAX + 1);
    moved_headers(a, &headers);
    pr_id_format(failed->id, id);
    struct pr_message m = *failed;
    m.destination = to;
    m.headers = buf_slice(&headers);
    m.causation_id = slice_from(id);
    m.due_us = m.expires_us = 0;
    m.event = false; /* the event store has it already, or never will */
    m.code = m.error = m.story = m.held_by = (pr_slice){ NULL, 0 };
    m.held_for = m.parked_by = 0;
    if (buf_failed(&headers) == 0)
        effect = make_effect(a, &m);
    buf_fini(&headers);
    return effect;
}
