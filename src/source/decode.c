#include "source/decode.h"

#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/time.h"
#include "base/units.h"
#include "base/url.h"
#include "core/id.h"
#include "transport/cloudevents.h"

#define ATTRIBUTE_NAME_MAX 64
#define DATA_MAX (SIZE_MAX / 4) /* decoded data is smaller than the body, which has a limit */

bool json_is_shallow(pr_slice text)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{') && ++depth > DECODE_DEPTH_MAX)
            return false;
        else if (!quoted && (c == ']' || c == '}') && depth > 0)
            depth--;
    }
    return true;
}

bool media_type_is(pr_slice content_type, const char *media_type)
{
    const char *semicolon = content_type.size > 0 ? memchr(content_type.data, ';', content_type.size) : NULL;
    if (semicolon != NULL)
        content_type.size = (size_t)(semicolon - content_type.data);
    content_type = slice_trim(content_type);
    return content_type.size == strlen(media_type) &&
           strncasecmp(content_type.data, media_type, content_type.size) == 0;
}

/* ---- Attributes, wherever they came from -------------------------------------------------- */

struct event_decoder {
    const struct decode_input *in;
    struct arena *arena;
    int64_t now_us;
    struct pr_error *reterr;
    struct pr_message *m;
    pr_slice event_id; /* an id that is not a UUID: kept as a header */
    bool versioned;
    struct buf headers; /* JSON: extensions without a field of their own */
    struct json_writer w;
    bool has_headers;
};

static pr_slice keep(const struct event_decoder *d, pr_slice text)
{
    return slice_dup(d->arena, text);
}

static int take_time(struct event_decoder *d, pr_slice name, pr_slice value, int64_t *ret)
{
    if (time_or_span(value, 1, d->now_us, ret))
        return PR_OK;
    return error_set(d->reterr, PR_EINVAL, "%.*s: \"%.*s\" is not a time; use 5m or 2024-01-31T12:00:00Z",
                     SLICE_ARGS(name), SLICE_ARGS(value));
}

static void extension(struct event_decoder *d, pr_slice name, pr_slice value)
{
    json_key_slice(&d->w, name);
    json_slice(&d->w, value);
    d->has_headers = true;
}

/* Names of CloudEvents attributes, in lower case. */
static int take_attribute(struct event_decoder *d, pr_slice name, pr_slice value)
{
    const struct {
        const char *name;
        pr_slice *field;
    } fields[] = { { "type", &d->m->type },
                   { "partitionkey", &d->m->stream },
#define X(column, attribute, ...) { attribute, &d->m->column },
                   SENDER_TEXTS(X)
#undef X
                       { CLOUDEVENTS_HEADERS, &d->m->headers },
                   { "postriderdestination", &d->m->destination } };
    size_t known = ARRAY_LENGTH(fields) - d->in->is_foreign; /* the sender does not choose the destination */
    value = keep(d, value);
    if (value.data == NULL)
        return error_set(d->reterr, PR_ENOMEM, "out of memory for the message");
    for (size_t i = 0; i < known; i++)
        if (slice_eq_cstr(name, fields[i].name)) {
            *fields[i].field = value;
            return PR_OK;
        }
    if (slice_eq_cstr(name, "specversion")) {
        d->versioned = slice_eq_cstr(value, "1.0");
        return d->versioned ? PR_OK : error_set(d->reterr, PR_EINVAL, "specversion: only 1.0 is supported");
    }
    if (slice_eq_cstr(name, "id")) {
        if (pr_id_parse(value, &d->m->id) != PR_OK)
            d->event_id = value;
        return PR_OK;
    }
    if (slice_eq_cstr(name, "postriderdue") && !d->in->is_foreign)
        return take_time(d, name, value, &d->m->due_us);
    if (slice_eq_cstr(name, "expirytime"))
        return take_time(d, name, value, &d->m->expires_us);
    if (!slice_eq_cstr(name, "time") && !slice_eq_cstr(name, "sequence")) /* these are set at delivery */
        extension(d, name, value);
    return PR_OK;
}

/* After all attributes: checks required ones, and adds headers. */
static int finish_event(struct event_decoder *d)
{
    struct pr_message *m = d->m;
    if (!d->versioned)
        return error_set(d->reterr, PR_EINVAL, "specversion is missing: not a CloudEvent");
    if (m->type.size == 0 || m->source.size == 0 || (d->event_id.size == 0 && pr_id_is_zero(m->id)))
        return error_set(d->reterr, PR_EINVAL, "%s is missing: every CloudEvent needs it",
                         m->type.size == 0     ? "type"
                         : m->source.size == 0 ? "source"
                                               : "id");
    if (d->event_id.size > 0) {
        id_from_event(m->source, d->event_id, &m->id);
        extension(d, PR_STR(DECODE_ORIGINAL_ID), d->event_id);
    }
    return PR_OK;
}

static int finish_headers(struct event_decoder *d)
{
    json_end_object(&d->w);
    if (!d->has_headers)
        return PR_OK;
    if (d->m->headers.size > 0)
        return error_set(d->reterr, PR_EINVAL, "give headers in " CLOUDEVENTS_HEADERS " or as extensions, not both");
    d->m->headers = keep(d, buf_slice(&d->headers));
    return buf_failed(&d->headers) == 0 && d->m->headers.data != NULL
               ? PR_OK
               : error_set(d->reterr, PR_ETOOBIG, "too many extensions");
}

static void decoder_begin(struct event_decoder *d, struct pr_message *m)
{
    *m = (struct pr_message){ .due_us = 0 };
    d->m = m;
    d->event_id = (pr_slice){ NULL, 0 };
    d->versioned = d->has_headers = false;
    buf_reset(&d->headers);
    json_init(&d->w, &d->headers);
    json_begin_object(&d->w);
}

/* ---- Data ------------------------------------------------------------------------------------- */

static int take_base64(struct event_decoder *d, const json_t *value)
{
    struct buf bytes;
    pr_slice text = { json_string_value(value), json_string_length(value) };
    buf_init(&bytes, DATA_MAX);
    int rc = text.data != NULL ? base64_decode(&bytes, text) : PR_EINVAL;
    if (rc == PR_OK && buf_failed(&bytes) == 0)
        d->m->payload = keep(d, buf_slice(&bytes));
    buf_fini(&bytes);
    if (rc == PR_OK && d->m->payload.data == NULL)
        rc = PR_ENOMEM;
    return rc == PR_OK ? rc : error_set(d->reterr, rc == PR_ENOMEM ? rc : PR_EINVAL, "the data is not valid base64");
}

/* A JSON value becomes the payload as it is written; a JSON string its text when the content type is not JSON. */
static int take_data(struct event_decoder *d, const json_t *value)
{
    if (json_is_string(value) && !cloudevent_type_is_json(cloudevent_content_type(d->m))) {
        d->m->payload = keep(d, (pr_slice){ json_string_value(value), json_string_length(value) });
        return d->m->payload.data != NULL ? PR_OK : error_set(d->reterr, PR_ENOMEM, "out of memory for the data");
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL)
        return error_set(d->reterr, PR_ENOMEM, "out of memory for the data");
    d->m->payload = keep(d, slice_from(text));
    free(text);
    return d->m->payload.data != NULL ? PR_OK : error_set(d->reterr, PR_ENOMEM, "out of memory for the data");
}

/* ---- CloudEvents ------------------------------------------------------------------------------- */

static bool is_attribute_name(pr_slice name)
{
    for (size_t i = 0; i < name.size; i++)
        if (!(name.data[i] >= 'a' && name.data[i] <= 'z') && !(name.data[i] >= '0' && name.data[i] <= '9'))
            return false;
    return name.size > 0;
}

static bool is_media_type(pr_slice text)
{
    const char *slash = memchr(text.data, '/', text.size);
    return slash != NULL && slash > text.data && slash + 1 < text.data + text.size;
}

/* As the specification requires: a violation is a mistake that is best reported at once. */
static int take_event_attribute(struct event_decoder *d, pr_slice name, pr_slice value)
{
    int64_t at_us;
    if (!is_attribute_name(name))
        return error_set(d->reterr, PR_EINVAL, "%.*s: attribute names consist of a-z and digits", SLICE_ARGS(name));
    if (value.size == 0)
        return error_set(d->reterr, PR_EINVAL, "%.*s: must not be empty; omit it instead", SLICE_ARGS(name));
    if (slice_eq_cstr(name, "time") && time_parse_rfc3339(value, &at_us) != PR_OK)
        return error_set(d->reterr, PR_EINVAL, "time: \"%.*s\" is not a time; use a value such as 2024-01-31T12:00:00Z",
                         SLICE_ARGS(value));
    if (slice_eq_cstr(name, "datacontenttype") && !is_media_type(value))
        return error_set(d->reterr, PR_EINVAL, "datacontenttype: \"%.*s\" is not a media type", SLICE_ARGS(value));
    return take_attribute(d, name, value);
}

/* The core attributes are texts in every binding. */
static bool is_core(const char *name)
{
    static const char *const core[] = { "specversion", "id",   "source",          "type",
                                        "subject",     "time", "datacontenttype", "dataschema" };
    for (size_t i = 0; i < ARRAY_LENGTH(core); i++)
        if (strcmp(name, core[i]) == 0)
            return true;
    return false;
}

/* An attribute in the structured form is a string, a number or a boolean; all are stored as text. */
static int take_member(struct event_decoder *d, const char *key, const json_t *value)
{
    pr_slice name = slice_from(key);
    if (json_is_null(value))
        return PR_OK;
    if (json_is_string(value))
        return take_event_attribute(d, name, (pr_slice){ json_string_value(value), json_string_length(value) });
    if (is_core(key))
        return error_set(d->reterr, PR_EINVAL, "%s: must be a string", key);
    if (json_is_boolean(value))
        return take_event_attribute(d, name, json_is_true(value) ? PR_STR("true") : PR_STR("false"));
    if (json_is_integer(value)) {
        pr_slice text = arena_printf(d->arena, "%lld", (long long)json_integer_value(value));
        return text.data != NULL ? take_event_attribute(d, name, text)
                                 : error_set(d->reterr, PR_ENOMEM, "out of memory");
    }
    return error_set(d->reterr, PR_EINVAL, "%.60s: an attribute must be a string, an integer or a boolean", key);
}

static int structured(struct event_decoder *d, const json_t *event, struct pr_message *m)
{
    const char *key;
    json_t *value;
    const json_t *data = json_object_get(event, "data"), *base64 = json_object_get(event, "data_base64");
    decoder_begin(d, m);
    if (!json_is_object(event))
        return error_set(d->reterr, PR_EINVAL, "an event must be a JSON object");
    json_object_foreach((json_t *)(uintptr_t)event, key, value)
    {
        bool is_data = strcmp(key, "data") == 0 || strcmp(key, "data_base64") == 0;
        int rc = is_data ? PR_OK : take_member(d, key, value);
        if (rc < 0)
            return rc;
    }
    if (data != NULL && base64 != NULL)
        return error_set(d->reterr, PR_EINVAL, "data and data_base64 cannot be combined");
    int rc = finish_event(d);
    if (rc == PR_OK)
        rc = finish_headers(d);
    if (rc == PR_OK && base64 != NULL)
        rc = take_base64(d, base64);
    return rc == PR_OK && data != NULL && !json_is_null(data) ? take_data(d, data) : rc;
}

/* The name of the attribute in a header, in lower case; false: it is not an attribute. */
static bool attribute_of(const struct decode_input *in, pr_slice header, char ret[ATTRIBUTE_NAME_MAX])
{
    const pr_slice prefix = slice_from(in->prefix);
    bool is_trace = header.size == 11 && strncasecmp(header.data, "traceparent", 11) == 0;
    is_trace |= header.size == 10 && strncasecmp(header.data, "tracestate", 10) == 0;
    if (!is_trace && (header.size <= prefix.size || strncasecmp(header.data, prefix.data, prefix.size) != 0))
        return false;
    size_t skip = is_trace ? 0 : prefix.size, size = header.size - skip;
    if (size >= ATTRIBUTE_NAME_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        char c = header.data[skip + i];
        ret[i] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    ret[size] = '\0';
    return is_attribute_name(slice_from(ret)) || !in->is_foreign;
}

static int take_header(struct event_decoder *d, const struct decode_header *h)
{
    char name[ATTRIBUTE_NAME_MAX];
    pr_slice value = h->value;
    if (!attribute_of(d->in, h->name, name)) {
        if (!d->in->is_foreign)
            return error_set(d->reterr, PR_EINVAL, "%.*s: the name is too long", (int)min_size(h->name.size, 60),
                             h->name.data);
        extension(d, h->name, value);
        return PR_OK;
    }
    int rc = d->in->is_percent_encoded ? url_decode(h->value, false, d->arena, &value) : PR_OK;
    if (rc < 0 || !utf8_valid(value))
        return error_set(d->reterr, PR_EINVAL, "%.*s: not %sUTF-8", (int)min_size(h->name.size, 60), h->name.data,
                         d->in->is_percent_encoded ? "percent-encoded " : "");
    return take_event_attribute(d, slice_from(name), value);
}

/* The first of several with the same name counts. */
static bool came_before(const struct decode_input *in, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (slice_eq(in->headers[i].name, in->headers[index].name))
            return true;
    return false;
}

static int binary(struct event_decoder *d, struct pr_message *m)
{
    const struct decode_input *in = d->in;
    decoder_begin(d, m);
    for (size_t i = 0; i < in->header_count; i++) {
        int rc = came_before(in, i) ? PR_OK : take_header(d, &in->headers[i]);
        if (rc < 0)
            return rc;
    }
    if (in->content_type.size > 0 || !in->is_foreign)
        m->content_type = keep(d, in->content_type);
    m->payload = in->body;
    int rc = finish_event(d);
    return rc == PR_OK ? finish_headers(d) : rc;
}

/* ---- Plain JSON ---------------------------------------------------------------------------------- */

static int take_headers(struct event_decoder *d, const json_t *value)
{
    if (!json_is_object(value))
        return error_set(d->reterr, PR_EINVAL, "headers: must be an object");
    char *text = json_dumps(value, JSON_COMPACT);
    d->m->headers = text != NULL ? keep(d, slice_from(text)) : (pr_slice){ NULL, 0 };
    free(text);
    return d->m->headers.data != NULL ? PR_OK : error_set(d->reterr, PR_ENOMEM, "out of memory for the headers");
}

/* Faults name the member as its sender wrote it. */
static int take_plain_text(struct event_decoder *d, const char *key, pr_slice value, pr_slice *text, int64_t *time_us)
{
    if (time_us != NULL)
        return take_time(d, slice_from(key), value, time_us);
    if (text == NULL)
        return pr_id_parse(value, &d->m->id) == PR_OK
                   ? PR_OK
                   : error_set(d->reterr, PR_EINVAL, "id: must be a UUID; omit it to get a new one");
    *text = keep(d, value);
    return text->data != NULL ? PR_OK : error_set(d->reterr, PR_ENOMEM, "out of memory for the message");
}

static int take_plain(struct event_decoder *d, const char *key, const json_t *value)
{
    struct pr_message *m = d->m;
    const struct {
        const char *name;
        pr_slice *text;
        int64_t *time_us;
    } fields[] = { { "type", &m->type, NULL },
                   { "stream", &m->stream, NULL },
                   { "destination", &m->destination, NULL },
#define X(column, ...) { #column, &m->column, NULL },
                   SENDER_TEXTS(X)
#undef X
                       { "due_at", NULL, &m->due_us },
                   { "expires_at", NULL, &m->expires_us },
                   { "id", NULL, NULL } };
    if (strcmp(key, "headers") == 0)
        return json_is_null(value) ? PR_OK : take_headers(d, value);
    if (strcmp(key, "event") == 0) {
        m->event = json_is_true(value);
        return json_is_boolean(value) || json_is_null(value)
                   ? PR_OK
                   : error_set(d->reterr, PR_EINVAL, "event: must be true or false");
    }
    if (strcmp(key, "expected_version") == 0) {
        m->expects_version = !json_is_null(value);
        m->expected_version = json_integer_value(value);
        return json_is_integer(value) || json_is_null(value)
                   ? PR_OK
                   : error_set(d->reterr, PR_EINVAL, "expected_version: must be a whole number, 0 for a new stream");
    }
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        if (strcmp(key, fields[i].name) != 0)
            continue;
        if (json_is_null(value))
            return PR_OK;
        if (!json_is_string(value))
            return error_set(d->reterr, PR_EINVAL, "%s: must be a string", key);
        return take_plain_text(d, key, (pr_slice){ json_string_value(value), json_string_length(value) },
                               fields[i].text, fields[i].time_us);
    }
    return error_set(d->reterr, PR_EINVAL,
                     "%.60s: unknown field; fields are type, payload, payload_text, payload_base64, stream, "
                     "destination, id, due_at, ...",
                     key);
}

static int plain(struct event_decoder *d, const json_t *object, struct pr_message *m)
{
    const char *key;
    json_t *value;
    const json_t *payload = json_object_get(object, "payload"), *text = json_object_get(object, "payload_text"),
                 *base64 = json_object_get(object, "payload_base64");
    decoder_begin(d, m);
    if (!json_is_object(object))
        return error_set(d->reterr, PR_EINVAL, "a message must be a JSON object");
    if ((payload != NULL) + (text != NULL) + (base64 != NULL) > 1)
        return error_set(d->reterr, PR_EINVAL, "payload, payload_text and payload_base64 cannot be combined");
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        int rc = value == payload || value == text || value == base64 ? PR_OK : take_plain(d, key, value);
        if (rc < 0)
            return rc;
    }
    if (base64 != NULL)
        return take_base64(d, base64);
    if (text != NULL) {
        if (!json_is_string(text))
            return error_set(d->reterr, PR_EINVAL, "payload_text: must be a string");
        m->payload = keep(d, (pr_slice){ json_string_value(text), json_string_length(text) });
        return m->payload.data != NULL ? PR_OK : error_set(d->reterr, PR_ENOMEM, "out of memory for the payload");
    }
    return payload != NULL ? take_data(d, payload) : PR_OK;
}

/* ---- The whole ------------------------------------------------------------------------------------- */

typedef int (*decode_one)(struct event_decoder *d, const json_t *value, struct pr_message *m);

static int list(struct event_decoder *d, const json_t *root, decode_one one, struct pr_message **ret, size_t *ret_count)
{
    size_t count = json_is_array(root) ? json_array_size(root) : 1;
    if (count == 0)
        return error_set(d->reterr, PR_EINVAL, "the batch has no messages");
    if (count > DECODE_MESSAGES_MAX)
        return error_set(d->reterr, PR_ETOOBIG, "a batch can have at most %d messages", DECODE_MESSAGES_MAX);
    struct pr_message *messages = arena_alloc_array(d->arena, count, sizeof *messages);
    if (messages == NULL)
        return error_set(d->reterr, PR_ENOMEM, "out of memory for %zu messages", count);
    for (size_t i = 0; i < count; i++) {
        int rc = one(d, json_is_array(root) ? json_array_get(root, i) : root, &messages[i]);
        if (rc < 0 && count > 1)
            return error_set(d->reterr, rc, "message %zu: %.400s", i + 1, d->reterr->text);
        if (rc < 0)
            return rc;
    }
    *ret = messages;
    *ret_count = count;
    return PR_OK;
}

static int by_json(struct event_decoder *d, const struct decode_input *in, decode_one one, bool array,
                   struct pr_message **ret, size_t *ret_count)
{
    if (!json_is_shallow(in->body))
        return error_set(d->reterr, PR_EINVAL, "the body is nested more than %d levels deep", DECODE_DEPTH_MAX);
    json_error_t where;
    json_t *root = json_loadb(in->body.size > 0 ? in->body.data : "", in->body.size, JSON_REJECT_DUPLICATES, &where);
    int rc;
    if (root == NULL)
        return error_set(d->reterr, PR_EINVAL, "the body is not valid JSON: line %d: %.200s", where.line, where.text);
    if (json_is_array(root) != array)
        rc = error_set(d->reterr, PR_EINVAL,
                       array ? "a batch must be a JSON array of events" : "the body must be a JSON object");
    else
        rc = list(d, root, one, ret, ret_count);
    json_decref(root);
    return rc;
}

bool decode_is_event(const struct decode_input *in)
{
    char name[ATTRIBUTE_NAME_MAX];
    for (size_t i = 0; i < in->header_count; i++)
        if (attribute_of(in, in->headers[i].name, name) && strcmp(name, "specversion") == 0)
            return true;
    return false;
}

static int decode(struct event_decoder *d, const struct decode_input *in, struct pr_message **ret, size_t *ret_count)
{
    if (media_type_is(in->content_type, CLOUDEVENTS_BATCH_MEDIA_TYPE))
        return by_json(d, in, structured, true, ret, ret_count);
    if (media_type_is(in->content_type, CLOUDEVENTS_MEDIA_TYPE))
        return by_json(d, in, structured, false, ret, ret_count);
    if (decode_is_event(in)) {
        *ret = arena_alloc_array(d->arena, 1, sizeof **ret);
        *ret_count = 1;
        return *ret != NULL ? binary(d, *ret) : error_set(d->reterr, PR_ENOMEM, "out of memory for a message");
    }
    if (!media_type_is(in->content_type, "application/json"))
        return error_set(d->reterr, PR_EUNSUPPORTED,
                         "the content type must be application/json, " CLOUDEVENTS_MEDIA_TYPE
                         " or " CLOUDEVENTS_BATCH_MEDIA_TYPE "; with ce- headers any");
    return by_json(d, in, plain, false, ret, ret_count);
}

int decode_event(const struct decode_input *in, struct arena *arena, struct pr_message *ret, struct pr_error *reterr)
{
    struct event_decoder d = { .in = in, .arena = arena, .now_us = in->now_us, .reterr = reterr };
    buf_init(&d.headers, PR_HEADERS_MAX);
    int rc = binary(&d, ret);
    buf_fini(&d.headers);
    return rc;
}

int decode_messages(const struct decode_input *in, struct arena *arena, struct pr_message **ret, size_t *ret_count,
                    struct pr_error *reterr)
{
    struct event_decoder d = { .in = in, .arena = arena, .now_us = in->now_us, .reterr = reterr };
    buf_init(&d.headers, PR_HEADERS_MAX);
    int rc = decode(&d, in, ret, ret_count);
    buf_fini(&d.headers);
    return rc;
}

int decode_plain(const struct json_t *object, int64_t now_us, struct arena *arena, struct pr_message *ret,
                 struct pr_error *reterr)
{
    struct event_decoder d = { .arena = arena, .now_us = now_us, .reterr = reterr };
    buf_init(&d.headers, PR_HEADERS_MAX);
    int rc = plain(&d, object, ret);
    buf_fini(&d.headers);
    return rc;
}
