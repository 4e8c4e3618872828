#include "source/broker/intake.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/id.h"
#include "core/letter.h"
#include "source/undecodable.h"
#include "transport/cloudevents.h"

#define INTAKE_FIRST 100 /* size of the first batch, while the size of messages is unknown */
#define ARENA_BLOCK_SIZE 65536

int intake_init(struct intake *in, struct source *source, struct pr_error *reterr)
{
    *in = (struct intake){ .source = source, .capacity = min_size(source->batch, IMPORT_MAX) };
    arena_init(&in->arena, ARENA_BLOCK_SIZE);
    in->messages = calloc(in->capacity, sizeof(*in->messages));
    in->dead = calloc(in->capacity, sizeof(*in->dead));
    in->ids = calloc(in->capacity, sizeof(*in->ids));
    in->answers = calloc(in->capacity, sizeof(*in->answers));
    return in->messages != NULL && in->dead != NULL && in->ids != NULL && in->answers != NULL
               ? PR_OK
               : error_set(reterr, PR_ENOMEM, "source %s: out of memory for batches of %zu messages",
                           source->config->name, in->capacity);
}

void intake_fini(struct intake *in)
{
    free(in->messages);
    free(in->dead);
    free(in->ids);
    free(in->answers);
    if (in->source != NULL)
        arena_fini(&in->arena);
    *in = (struct intake){ 0 };
}

static void log_undecodable(struct intake *in)
{
    undecodable_log_line(&in->undecodable, in->source->log, in->source->config->name,
                         slice_from(in->source->config->box), clock_mono_us(clock_system()));
}

void intake_begin(struct intake *in)
{
    if (intake_size(in) > 0)
        in->average = in->bytes / intake_size(in) + 1;
    in->count = in->dead_count = in->bytes = 0;
    in->move = (struct position_move){ .source = { NULL, 0 } };
    arena_reset(&in->arena);
    log_undecodable(in);
}

void intake_expect(struct intake *in, size_t average)
{
    in->average = average;
}

size_t intake_room(const struct intake *in)
{
    size_t fits = in->average > 0 ? INTAKE_BYTES_MAX / in->average : INTAKE_FIRST;
    size_t left = in->capacity - intake_size(in);
    return min_size(fits > 0 ? fits : 1, left);
}

/* ---- From a broker's message to ours ---------------------------------------------------------------- */

static pr_slice name_of(const struct intake *in)
{
    return slice_from(in->source->config->name);
}

/* All headers as a JSON object, the first of each name; empty: none. */
static int write_headers(struct intake *in, const struct received *r, pr_slice original_id, pr_slice *ret)
{
    struct buf text;
    struct json_writer w;
    size_t written = 0;
    buf_init(&text, (size_t)4 * PR_HEADERS_MAX);
    json_init(&w, &text);
    json_begin_object(&w);
    for (size_t i = 0; i < r->header_count; i++) {
        bool again = slice_eq_cstr(r->headers[i].name, DECODE_ORIGINAL_ID) && original_id.size > 0;
        for (size_t k = 0; k < i && !again; k++)
            again = slice_eq(r->headers[k].name, r->headers[i].name);
        if (again)
            continue;
        json_key_slice(&w, r->headers[i].name);
        json_slice(&w, r->headers[i].value);
        written++;
    }
    json_put_some(&w, DECODE_ORIGINAL_ID, original_id);
    json_end_object(&w);
    int rc = buf_failed(&text);
    if (rc == PR_OK && written + original_id.size > 0) {
        *ret = slice_dup(&in->arena, buf_slice(&text));
        rc = ret->data != NULL ? PR_OK : PR_ENOMEM;
    }
    buf_fini(&text);
    return rc;
}

/* The default content type. */
static pr_slice guess_content_type(pr_slice body)
{
    if (body.size == 0 || slice_is_json(body))
        return PR_STR("application/json");
    return utf8_valid(body) ? PR_STR("text/plain; charset=utf-8") : PR_STR("application/octet-stream");
}

/* Its own id, or one from its position; zero: it has neither. */
static void settle_id(const struct intake *in, const struct received *r, pr_id *ret)
{
    if (r->id.size > 0 && pr_id_parse(r->id, ret) != PR_OK)
        id_from_event(name_of(in), r->id, ret);
    else if (r->id.size == 0 && r->position.size > 0)
        id_from_position(name_of(in), r->position, ret);
}

/* Not a CloudEvent: the body is the payload, and the type is where it came from. */
static int take_raw(struct intake *in, const struct received *r, struct pr_message *m, struct pr_error *reterr)
{
    pr_id parsed;
    bool is_uuid = pr_id_parse(r->id, &parsed) == PR_OK;
    *m = (struct pr_message){ .type = r->type, .payload = r->body, .source = name_of(in) };
    m->content_type = r->content_type.size > 0 ? r->content_type : guess_content_type(r->body);
    settle_id(in, r, &m->id);
    int rc = write_headers(in, r, is_uuid ? PR_STR("") : r->id, &m->headers);
    return rc == PR_ETOOBIG ? error_set(reterr, PR_EINVAL, "its headers have more than %d bytes", PR_HEADERS_MAX) : rc;
}

static int see_version(void *arg, pr_slice key, pr_slice value)
{
    (void)value;
    *(bool *)arg |= slice_eq_cstr(key, "\"specversion\"");
    return PR_OK;
}

static int take_structured(struct intake *in, const struct received *r, struct pr_message *m, struct pr_error *reterr)
{
    bool has_version = false;
    if (json_object_walk(r->body, see_version, &has_version) != PR_OK)
        return error_set(reterr, PR_EINVAL,
                         "the body is not a JSON object, but its content type is " CLOUDEVENTS_MEDIA_TYPE);
    if (!has_version)
        return error_set(reterr, PR_EINVAL,
                         "specversion is missing: a CloudEvent has specversion, id, source and type");
    int rc = letter_read(r->body, &in->arena, m, reterr);
    m->destination = (pr_slice){ NULL, 0 };
    return rc;
}

/* Missing values are filled in as for a message that is not an event. */
static int take_letter(struct intake *in, const struct received *r, struct pr_message *m, struct pr_error *reterr)
{
    int rc = letter_read(r->body, &in->arena, m, reterr);
    if (rc != PR_OK)
        return rc;
    if (pr_id_is_zero(m->id))
        settle_id(in, r, &m->id);
    if (m->type.size == 0)
        m->type = r->type;
    if (m->source.size == 0)
        m->source = name_of(in);
    m->destination = (pr_slice){ NULL, 0 };
    m->due_us = 0;
    m->event = false;
    return PR_OK;
}

/* PR_OK, PR_ENOMEM, or why it is not a message. */
static int map(struct intake *in, const struct received *r, struct pr_message *m, struct pr_error *reterr)
{
    struct decode_input input = { .content_type = r->content_type,
                                  .headers = r->headers,
                                  .header_count = r->header_count,
                                  .prefix = r->prefix,
                                  .is_percent_encoded = r->is_percent_encoded,
                                  .is_foreign = true,
                                  .body = r->body,
                                  .now_us = store_time(in->source->store) };
    bool is_binary = false;
    int rc;
    if (r->missing > 0)
        rc =
            error_set(reterr, PR_EINVAL,
                      "it has %" PRIu64 " bytes, which is too large: its first %zu bytes are kept; " INTAKE_SIZE_ADVICE,
                      r->body.size + r->missing, r->body.size);
    else if (r->header_count > INTAKE_HEADERS_MAX)
        rc = error_set(reterr, PR_EINVAL, "it has %zu headers, at most %d are allowed", r->header_count,
                       INTAKE_HEADERS_MAX);
    else if (r->is_letter)
        rc = take_letter(in, r, m, reterr);
    else if (media_type_is(r->content_type, CLOUDEVENTS_MEDIA_TYPE))
        rc = take_structured(in, r, m, reterr);
    else if ((is_binary = decode_is_event(&input)))
        rc = decode_event(&input, &in->arena, m, reterr);
    else
        rc = take_raw(in, r, m, reterr);
    if (rc != PR_OK)
        return rc;
    if (r->has_signed_id && is_binary)
        settle_id(in, r, &m->id);
    if (m->stream.size == 0)
        m->stream = r->stream;
    if (m->correlation_id.size == 0)
        m->correlation_id = r->correlation_id;
    return message_check(m, in->source->payload_max, reterr);
}

static int no_memory(const struct intake *in, struct pr_error *reterr)
{
    return error_set(reterr, PR_ENOMEM, "out of memory for the messages of %s", in->source->config->name);
}

static int copy(struct intake *in, const struct pr_message *m, struct pr_message *ret, struct pr_error *reterr)
{
    char *block = arena_alloc(&in->arena, message_bytes(m) + 1);
    if (block == NULL)
        return no_memory(in, reterr);
    message_copy(m, block, ret);
    return PR_OK;
}

/* Can a text column hold it? */
static bool is_text(pr_slice s)
{
    return utf8_valid(s) && (s.size == 0 || memchr(s.data, '\0', s.size) == NULL) && s.size <= PR_NAME_MAX;
}

/* S3.  Its origin is its source; its headers are kept as far as they are text. */
static int bury(struct intake *in, const struct received *r, const char *why, struct pr_error *reterr)
{
    struct undecodable u;
    struct listed *l = &in->dead[in->dead_count];
    const pr_slice box = slice_from(in->source->config->box), error = slice_from(why), none = PR_STR("");
    int64_t now_us = store_time(in->source->store);
    struct pr_message m = { .source = name_of(in),
                            .content_type = is_text(r->content_type) ? r->content_type : none,
                            .payload = r->body,
                            .created_us = now_us,
                            .seq = 1,
                            .status = PR_STATUS_STORED | PR_STATUS_FAILED,
                            .failures = 1,
                            .reason = PR_REASON_SERIALIZATION_ERROR,
                            .failed_us = now_us };
    settle_id(in, r, &m.id);
    if (pr_id_is_zero(m.id))
        pr_id_new(&m.id);
    if (r->header_count <= INTAKE_HEADERS_MAX && write_headers(in, r, none, &m.headers) == PR_ENOMEM)
        return no_memory(in, reterr);
    if (undecodable_init(&u, &m, error, error, now_us) != PR_OK)
        return no_memory(in, reterr);
    m.error = u.verdict.error;
    m.story = u.verdict.story;
    *l = (struct listed){ .box = box,
                          .cause = PR_REASON_SERIALIZATION_ERROR,
                          .rule = PR_STR(UNDECODABLE_RULE),
                          .fingerprint = slice_dup(&in->arena, slice_from(u.print)),
                          .died_us = now_us };
    int rc = l->fingerprint.data != NULL ? copy(in, &m, &l->m, reterr) : no_memory(in, reterr);
    undecodable_fini(&u);
    if (rc != PR_OK)
        return rc;
    in->dead_count++;
    undecodable_note(&in->undecodable, why);
    return PR_OK;
}

static void count_bytes(struct intake *in, const struct received *r)
{
    ASSERT(!intake_is_full(in));
    in->bytes += r->body.size;
    for (size_t i = 0; i < r->header_count; i++)
        in->bytes += r->headers[i].name.size + r->headers[i].value.size;
}

int intake_bury(struct intake *in, const struct received *r, const char *why, struct pr_error *reterr)
{
    count_bytes(in, r);
    return bury(in, r, why, reterr);
}

int intake_add(struct intake *in, const struct received *r, struct pr_error *reterr)
{
    struct pr_message m;
    struct pr_error why = { 0 };
    count_bytes(in, r);
    int rc = map(in, r, &m, &why);
    if (rc == PR_ENOMEM)
        return no_memory(in, reterr);
    if (rc != PR_OK)
        return bury(in, r, why.text, reterr);
    if (pr_id_is_zero(m.id))
        pr_id_new(&m.id); /* now: a batch that is stored twice is stored once */
    rc = copy(in, &m, &in->messages[in->count], reterr);
    in->count += rc == PR_OK;
    return rc;
}

/* ---- Into the box ---------------------------------------------------------------------------------------- */

static int store_dead(struct intake *in, struct source_counts *counts, struct pr_error *reterr)
{
    struct admin_reply reply = { 0 };
    struct admin admin = { .kind = ADMIN_DEAD_IMPORT,
                           .by = arena_printf(&in->arena, "source %s", in->source->config->name),
                           .from_source = true,
                           .letters = in->dead,
                           .letter_count = in->dead_count,
                           .answers = in->answers };
    if (in->dead_count == 0)
        return PR_OK;
    int rc = store_admin(in->source->store, &admin, &reply, reterr);
    for (size_t i = 0; rc == PR_OK && i < in->dead_count; i++)
        if (in->answers[i] == PR_UNKNOWN)
            rc = error_set(reterr, PR_ESTORE, "the store has no box \"%s\": run postrider init",
                           in->source->config->box);
    counts->dead += reply.changed;
    counts->duplicates += reply.refused;
    return rc;
}

static int store_rows(struct intake *in, struct source_counts *counts, struct pr_error *reterr)
{
    if (in->count == 0 && in->move.source.size == 0)
        return PR_OK;
    int rc = in->move.source.size > 0
                 ? store_take(in->source->store, slice_from(in->source->config->box), in->messages, in->count,
                              in->source->payload_max, &in->move, in->answers, reterr)
                 : store_enqueue(in->source->store, slice_from(in->source->config->box), in->messages, in->count,
                                 in->source->payload_max, in->ids, in->answers, reterr);
    for (size_t i = 0; rc >= 0 && i < in->count; i++) {
        counts->stored += in->answers[i] == PR_OK;
        counts->duplicates += in->answers[i] == PR_DUPLICATE;
    }
    return rc < 0 || rc == PR_STALE ? rc : PR_OK;
}

int intake_store(struct intake *in, struct source_counts *ret, struct pr_error *reterr)
{
    *ret = (struct source_counts){ 0 };
    int rc = store_dead(in, ret, reterr);
    if (rc == PR_OK)
        log_undecodable(in);
    return rc == PR_OK ? store_rows(in, ret, reterr) : rc;
}
