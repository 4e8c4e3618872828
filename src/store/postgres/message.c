/* A message as columns; see message.h. */
#include "store/postgres/message.h"

#include <stddef.h>

#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"

/* ---- Reading ---------------------------------------------------------------------------- */

static const struct {
    int    column;
    size_t offset;
} texts[] = {
    { 3, offsetof(struct pr_message, destination) },   { 4, offsetof(struct pr_message, stream) },
    { 5, offsetof(struct pr_message, type) },          { 6, offsetof(struct pr_message, source) },
    { 7, offsetof(struct pr_message, subject) },       { 8, offsetof(struct pr_message, content_type) },
    { 9, offsetof(struct pr_message, headers) },       { 10, offsetof(struct pr_message, correlation_id) },
    { 11, offsetof(struct pr_message, causation_id) }, { 12, offsetof(struct pr_message, traceparent) },
    { 13, offsetof(struct pr_message, tracestate) },   { 22, offsetof(struct pr_message, code) },
    { 23, offsetof(struct pr_message, error) },        { 25, offsetof(struct pr_message, story) },
    { 26, offsetof(struct pr_message, held_by) },      { 28, offsetof(struct pr_message, payload) },
};

static void decode_numbers(const PGresult *r, int row, int first, struct pr_message *m)
{
    m->seq = field_i64(r, row, first + 1);
    m->id = field_id(r, row, first + 2);
    m->event = field_bool(r, row, first + 14);
    m->created_us = field_time(r, row, first + 15);
    m->due_us = field_time(r, row, first + 16);
    m->expires_us = field_time(r, row, first + 17);
    m->status = field_int(r, row, first + 18);
    m->attempts = field_int(r, row, first + 19);
    m->failures = field_int(r, row, first + 20);
    m->reason = field_int(r, row, first + 21);
    m->failed_us = field_time(r, row, first + 24);
    m->released = field_bool(r, row, first + 27);
}

void pg_message_decode(const PGresult *result, int row, int first, size_t payload_max, struct pr_message *ret,
                    unsigned *ret_lane, const char **ret_bad)
{
    *ret = (struct pr_message){ .seq = 0 };
    decode_numbers(result, row, first, ret);
    *ret_lane = (unsigned)field_int(result, row, first);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        *(pr_slice *)(void *)((char *)ret + texts[i].offset) = field_slice(result, row, first + texts[i].column);

    /* Its real size decides, also when it was left on the server. */
    struct pr_message whole = *ret;
    whole.payload.size = (size_t)field_int(result, row, first + 29);
    *ret_bad = message_defect(&whole, payload_max);
}

/* ---- Writing ---------------------------------------------------------------------------- */

const char PG_MESSAGE_INSERT[] =
    "INSERT INTO {box} (id, destination, type, stream, source, subject, content_type, headers, correlation_id,"
    " causation_id, traceparent, tracestate, event, due_at, expires_at, payload, created_at)"
    " SELECT v.id, v.destination, v.type, v.stream, v.source, v.subject, v.content_type, v.headers, v.correlation_id,"
    " v.causation_id, v.traceparent, v.tracestate, v.event, v.due_at, v.expires_at, v.payload, coalesce($17, now())"
    " FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) WITH ORDINALITY"
    " AS v(id, destination, type, stream, source, subject, content_type, headers, correlation_id, causation_id,"
    " traceparent, tracestate, event, due_at, expires_at, payload, ord)"
    " WHERE NOT EXISTS (SELECT FROM {schema}.dead_letter d WHERE d.id = v.id AND d.destination = v.destination"
    " AND d.box = {box_name})"
    " ORDER BY v.ord ON CONFLICT (id, destination) DO NOTHING RETURNING id, destination";

static const enum oid batch_types[BATCH_ARRAYS] = {
    OID_UUID, OID_TEXT, OID_TEXT, OID_TEXT, OID_TEXT, OID_TEXT, OID_TEXT, OID_JSON,
    OID_TEXT, OID_TEXT, OID_TEXT, OID_TEXT, OID_BOOL, OID_TIME, OID_TIME, OID_BYTEA,
};

void batch_init(struct batch *batch)
{
    for (size_t i = 0; i < BATCH_ARRAYS; i++)
        array_init(&batch->arrays[i]);
}

void batch_fini(struct batch *batch)
{
    for (size_t i = 0; i < BATCH_ARRAYS; i++)
        array_fini(&batch->arrays[i]);
}

void batch_begin(struct batch *batch)
{
    for (size_t i = 0; i < BATCH_ARRAYS; i++)
        array_begin(&batch->arrays[i], batch_types[i]);
}

void batch_add(struct batch *batch, const struct pr_message *m)
{
    struct array  *a = batch->arrays;
    const pr_slice nullable[] = { m->stream, m->source, m->subject, m->content_type, m->headers, m->correlation_id,
                                  m->causation_id, m->traceparent, m->tracestate };
    array_id(&a[0], m->id);
    array_text(&a[1], m->destination);
    array_text(&a[2], m->type);
    for (size_t i = 0; i < ARRAY_LENGTH(nullable); i++)
        array_text_or_null(&a[3 + i], nullable[i]);
    array_bool(&a[12], m->event);
    array_time(&a[13], m->due_us);
    array_time(&a[14], m->expires_us);
    array_bytes(&a[15], m->payload);
}

void batch_args(struct batch *batch, int64_t now_us, struct args *ret)
{
    *ret = (struct args){ .count = 0 };
    for (size_t i = 0; i < BATCH_ARRAYS; i++)
        arg_array(ret, &batch->arrays[i]);
    arg_time(ret, now_us);
}

/* What came back is a part of the messages, in their order; of equal ones the first was stored. */
void batch_answers(const PGresult *result, const struct pr_message *messages, size_t count, int *answers)
{
    int stored = 0, stored_count = PQntuples(result);
    for (size_t i = 0; i < count; i++) {
        bool is_next = stored < stored_count && pr_id_equal(field_id(result, stored, 0), messages[i].id) &&
                       slice_eq(field_slice(result, stored, 1), messages[i].destination);
        answers[i] = is_next ? PR_OK : PR_DUPLICATE;
        stored += is_next;
    }
}
