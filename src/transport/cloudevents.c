#include "transport/cloudevents.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/utf8.h"

static void add(struct cloudevent *event, const char *name, pr_slice value)
{
    if (value.size == 0)
        return;
    ASSERT(event->count < CLOUDEVENTS_ATTRIBUTES_MAX);
    event->attributes[event->count++] = (struct cloudevent_attribute){ name, value };
}

static void add_time(struct cloudevent *event, const char *name, int64_t us, char text[TIME_TEXT_SIZE])
{
    if (us <= 0 || us == PR_NEVER)
        return;
    time_format_rfc3339(us, text);
    add(event, name, slice_from(text));
}

void cloudevent_init(struct cloudevent *event, const struct pr_message *m, const char *source)
{
    event->count = 0;
    pr_id_format(m->id, event->id);
    add(event, "specversion", PR_STR("1.0"));
    add(event, "id", slice_from(event->id));
    add(event, "type", m->type);
    add(event, "source",
        m->source.size > 0                    ? m->source
        : source != NULL && source[0] != '\0' ? slice_from(source)
                                              : PR_STR(CLOUDEVENTS_SOURCE));
    add(event, "subject", m->subject);
    add_time(event, "time", m->created_us, event->time);

    /* Extensions. */
    add(event, "partitionkey", m->stream);
    if (m->seq > 0) {
        /* All of one length: the extension requires a text that sorts. */
        snprintf(event->sequence, sizeof(event->sequence), "%019" PRId64, m->seq);
        add(event, "sequence", slice_from(event->sequence));
    }
#define CORE(attribute, value)
#define EXTENSION(attribute, value) add(event, attribute, value);
#define X(column, attribute, place, max) place(attribute, m->column)
    SENDER_TEXTS(X)
#undef X
#undef EXTENSION
#undef CORE
    add_time(event, "expirytime", m->expires_us, event->expiry);
}

pr_slice cloudevent_name(struct arena *arena, const char *prefix, const char *name)
{
    size_t before = strlen(prefix), size = strlen(name);
    char *text = arena_alloc(arena, before + size + 1);
    if (text == NULL)
        return (pr_slice){ NULL, 0 };
    memcpy(text, prefix, before);
    memcpy(text + before, name, size + 1);
    return (pr_slice){ text, before + size };
}

static bool may_have_surrogates(pr_slice text)
{
    return memchr(text.data, '\\', text.size) != NULL &&
           (slice_contains(text, PR_STR("\\ud")) || slice_contains(text, PR_STR("\\uD")));
}

/* Only validates, and copies the text: so numbers may be of any size.  Rare cases are left to a real parser: surrogates
 * in "\\u", or deep nesting. */
static bool is_json(pr_slice text)
{
    if (slice_is_json(text) && !may_have_surrogates(text))
        return true;
    json_t *value = json_loadb(text.data, text.size, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
    json_decref(value);
    return value != NULL;
}

/* Many receivers cut JSON text at a NUL, or refuse it: so it is treated as bytes. */
static bool is_text(pr_slice payload)
{
    return utf8_valid(payload) && memchr(payload.data, '\0', payload.size) == NULL;
}

/* The default content type follows from the payload: a receiver that gets the type JSON parses JSON, and refuses
 * anything else. */
pr_slice cloudevent_content_type(const struct pr_message *m)
{
    if (m->content_type.size > 0)
        return m->content_type;
    if (m->payload.size == 0 || is_json(m->payload))
        return PR_STR("application/json");
    return is_text(m->payload) ? PR_STR("text/plain; charset=utf-8") : PR_STR("application/octet-stream");
}

size_t cloudevent_percent_encode(pr_slice value, char *ret_text)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t size = 0;
    for (size_t i = 0; i < value.size; i++) {
        unsigned char c = (unsigned char)value.data[i];
        if (c > 0x20 && c < 0x7f && c != '"' && c != '%') {
            ret_text[size++] = (char)c;
        } else {
            ret_text[size++] = '%';
            ret_text[size++] = digits[c >> 4];
            ret_text[size++] = digits[c & 15];
        }
    }
    return size;
}

bool cloudevent_type_is_json(pr_slice type)
{
    const char *semicolon = memchr(type.data, ';', type.size);
    if (semicolon != NULL)
        type.size = (size_t)(semicolon - type.data);
    type = slice_trim(type);
    return type.size > 5 && (type.data[type.size - 5] == '/' || type.data[type.size - 5] == '+') &&
           strncasecmp(type.data + type.size - 4, "json", 4) == 0;
}

/* A payload that claims to be JSON and is not must not become a JSON string: the receiver would take the string for the
 * value.  Its bytes are passed on. */
static enum cloudevent_form form_of(const struct pr_message *m, pr_slice type)
{
    if (m->payload.size == 0)
        return CLOUDEVENT_EMPTY;
    if (cloudevent_type_is_json(type))
        return m->content_type.size == 0 || is_json(m->payload) ? CLOUDEVENT_JSON : CLOUDEVENT_BASE64;
    return is_text(m->payload) ? CLOUDEVENT_TEXT : CLOUDEVENT_BASE64;
}

static bool is_quoted(enum cloudevent_form form)
{
    return form == CLOUDEVENT_TEXT || form == CLOUDEVENT_BASE64;
}

/* Up to where the data begins. */
static enum cloudevent_form write_head(struct buf *b, const struct pr_message *m, const char *source, pr_slice headers)
{
    struct json_writer w;
    struct cloudevent event;
    pr_slice type = cloudevent_content_type(m);
    enum cloudevent_form form = form_of(m, type);

    json_init(&w, b);
    json_begin_object(&w);
    cloudevent_init(&event, m, source);
    for (size_t i = 0; i < event.count; i++)
        json_put_slice(&w, event.attributes[i].name, event.attributes[i].value);
    json_put_some(&w, CLOUDEVENTS_HEADERS, headers);
    json_put_slice(&w, "datacontenttype", type);
    if (form != CLOUDEVENT_EMPTY)
        json_key(&w, form == CLOUDEVENT_BASE64 ? "data_base64" : "data");
    if (is_quoted(form))
        buf_add_char(b, '"');
    return form;
}

static void write_data(struct buf *b, enum cloudevent_form form, pr_slice piece)
{
    if (form == CLOUDEVENT_TEXT)
        json_escape_text(b, piece);
    else if (form == CLOUDEVENT_BASE64)
        base64_encode(b, piece);
    else
        buf_add_slice(b, piece);
}

static void write_end(struct buf *b, enum cloudevent_form form)
{
    buf_add_cstr(b, is_quoted(form) ? "\"}" : "}");
}

static void write_json(struct buf *b, const struct pr_message *m, const char *source, pr_slice headers)
{
    enum cloudevent_form form = write_head(b, m, source, headers);
    write_data(b, form, m->payload);
    write_end(b, form);
}

void cloudevent_write_json(struct buf *b, const struct pr_message *m, const char *source)
{
    write_json(b, m, source, (pr_slice){ NULL, 0 });
}

void cloudevent_write_json_with_headers(struct buf *b, const struct pr_message *m, const char *source)
{
    write_json(b, m, source, m->headers);
}

/* ---- Lines ------------------------------------------------------------------------------------------- */

static void blank_out(struct buf *b, size_t begin, char c)
{
    char *at = b->data + begin;
    while (begin < b->size && (at = memchr(at, c, (size_t)(b->data + b->size - at))) != NULL)
        *at = ' ';
}

enum cloudevent_form cloudevent_write_line_begin(struct buf *b, const struct pr_message *m, const char *source)
{
    return write_head(b, m, source, m->headers);
}

/* Base64 is cut between groups, and text between characters. */
size_t cloudevent_write_line_piece(struct buf *b, enum cloudevent_form form, pr_slice data, size_t max)
{
    size_t begin = b->size, whole = form == CLOUDEVENT_BASE64 ? max - max % 3 : max;
    pr_slice piece = data.size <= max          ? data
                     : form == CLOUDEVENT_TEXT ? utf8_cut_bytes(data, max)
                                               : PR_BYTES(data.data, whole);
    write_data(b, form, piece);
    if (form == CLOUDEVENT_JSON) { /* it was written over several lines: strings contain no line breaks */
        blank_out(b, begin, '\n');
        blank_out(b, begin, '\r');
    }
    return piece.size;
}

void cloudevent_write_line_end(struct buf *b, enum cloudevent_form form)
{
    write_end(b, form);
    buf_add_char(b, '\n');
}

void cloudevent_write_line(struct buf *b, const struct pr_message *m, const char *source)
{
    enum cloudevent_form form = cloudevent_write_line_begin(b, m, source);
    (void)cloudevent_write_line_piece(b, form, m->payload, m->payload.size);
    cloudevent_write_line_end(b, form);
}
