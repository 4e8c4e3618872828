/* A message as columns; see message.h. */
#include "store/postgres/message.h"

#include <stddef.h>

#include <string.h>

#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/message.h"

/* ---- Reading ---------------------------------------------------------------------------- */

enum {
    COLUMN_LANE,
    COLUMN_SEQ,
    COLUMN_ID,
    COLUMN_TEXTS,
    COLUMN_EVENT = COLUMN_TEXTS + 4 + SENDER_TEXT_COUNT,
    COLUMN_CREATED,
    COLUMN_EXPIRES,
    COLUMN_ATTEMPTS,
    COLUMN_PAYLOAD,
    COLUMN_BYTES,
    COLUMN_SIZE,
    COLUMN_DUE,
#define X(kind, column, member) COLUMN_##column,
    FATE_COLUMNS(X)
#undef X
        COLUMN_COUNT
};
_Static_assert(COLUMN_DUE == MESSAGE_COLUMN_DUE && COLUMN_COUNT == MESSAGE_COLUMN_COUNT, "the columns of a message");

static const size_t texts[] = {
    /* from COLUMN_TEXTS on */
    offsetof(struct pr_message, destination), offsetof(struct pr_message, stream), offsetof(struct pr_message, type),
    offsetof(struct pr_message, headers),
#define X(column, ...) offsetof(struct pr_message, column),
    SENDER_TEXTS(X)
#undef X
};
_Static_assert(COLUMN_TEXTS + ARRAY_LENGTH(texts) == COLUMN_EVENT, "the texts of a message");

static pr_slice field_payload(const PGresult *r, int row, int first)
{
    bool is_text = !field_is_null(r, row, first + COLUMN_PAYLOAD);
    return field_slice(r, row, first + (is_text ? COLUMN_PAYLOAD : COLUMN_BYTES));
}

static void decode_said(const PGresult *r, int row, int first, struct pr_message *m)
{
    m->seq = field_i64(r, row, first + COLUMN_SEQ);
    m->id = field_id(r, row, first + COLUMN_ID);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        *(pr_slice *)(void *)((char *)m + texts[i]) = field_slice(r, row, first + COLUMN_TEXTS + (int)i);
    m->event = field_bool(r, row, first + COLUMN_EVENT);
    m->created_us = field_time(r, row, first + COLUMN_CREATED);
    m->expires_us = field_time(r, row, first + COLUMN_EXPIRES);
    m->attempts = field_int(r, row, first + COLUMN_ATTEMPTS);
    m->payload = field_payload(r, row, first);
}

bool pg_message_has_fate(const PGresult *result, int row, int first)
{
    return !field_is_null(result, row, first + COLUMN_ATTEMPTS);
}

void pg_message_decode_fate(const PGresult *r, int row, int first, struct pr_message *m)
{
    first -= COLUMN_DUE;
    m->due_us = field_time(r, row, first + COLUMN_DUE);
#define FATE_INT field_int
#define FATE_TEXT field_slice
#define FATE_JSON field_slice
#define FATE_TIME field_time
#define FATE_BOOL field_bool
#define X(kind, column, member) m->member = FATE_##kind(r, row, first + COLUMN_##column);
    FATE_COLUMNS(X)
#undef X
}

size_t pg_message_size(const PGresult *result, int row, int first)
{
    int size = field_int(result, row, first + COLUMN_SIZE);
    return size > 0 ? (size_t)size : field_payload(result, row, first).size;
}

/* Its real size decides, even if it was left on the server.  A database in SQL_ASCII accepts any bytes as text; others
 * have checked them. */
static const char *defect(const PGresult *r, int row, int first, size_t payload_max, bool checked,
                          const struct pr_message *m)
{
    struct pr_message whole = *m;
    whole.payload.size = pg_message_size(r, row, first);
    if (!checked && !field_is_null(r, row, first + COLUMN_PAYLOAD) && !utf8_valid(m->payload))
        return "the payload is not UTF-8: bytes belong in payload_bytes";
    return message_defect(&whole, payload_max);
}

void pg_message_decode_new(const PGresult *result, int row, int first, bool checked, struct pr_message *ret,
                           unsigned *ret_lane, const char **ret_bad)
{
    *ret = (struct pr_message){ .status = PR_STATUS_STORED };
    decode_said(result, row, first, ret);
    ret->status |= message_status_bits(ret);
    *ret_lane = (unsigned)field_int(result, row, first + COLUMN_LANE);
    *ret_bad = defect(result, row, first, SIZE_MAX, checked, ret);
}

void pg_message_decode(const PGresult *result, int row, int first, size_t payload_max, struct pr_message *ret,
                       unsigned *ret_lane, const char **ret_bad)
{
    *ret = (struct pr_message){ .seq = 0 };
    decode_said(result, row, first, ret);
    pg_message_decode_fate(result, row, first + COLUMN_DUE, ret);
    ret->status |= message_status_bits(ret);
    *ret_lane = (unsigned)field_int(result, row, first + COLUMN_LANE);
    *ret_bad = defect(result, row, first, payload_max, false, ret);
}

/* ---- Payloads --------------------------------------------------------------------------- */

#define PRINTED_BYTES "\\x" /* as PostgreSQL prints them; no payload may begin with it */

static bool is_ascii(pr_slice text)
{
    unsigned char all = 0;
    for (size_t i = 0; i < text.size; i++)
        all |= (unsigned char)text.data[i];
    return all < 0x80;
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* Does it look like bytes that PostgreSQL has printed?  A box refuses such text; with bytea_output = escape also a
 * single backslash before three octal digits (062_check_box.sql), but a connection's setting is unknown here. */
static bool is_printed_bytes(pr_slice text)
{
    if (slice_starts_with(text, PR_STR(PRINTED_BYTES)))
        return true;
    const char *end = text.data + text.size, *at = memchr(text.data, '\\', text.size);
    while (at != NULL && end - at > 3) {
        if (at[1] <= '3' && is_octal(at[1]) && is_octal(at[2]) && is_octal(at[3]))
            return true;
        at += at[1] == '\\' ? 2 : 1;
        at = memchr(at, '\\', (size_t)(end - at));
    }
    return false;
}

bool pg_payload_is_text(pr_slice payload, bool utf8)
{
    if (payload.size == 0)
        return true;
    return memchr(payload.data, '\0', payload.size) == NULL && !is_printed_bytes(payload) &&
           (utf8 ? utf8_valid(payload) : is_ascii(payload));
}

bool pg_stores_utf8(const PGconn *pg)
{
    const char *client = PQparameterStatus(pg, "client_encoding"), *server = PQparameterStatus(pg, "server_encoding");
    return client != NULL && server != NULL && strcmp(client, server) == 0 &&
           (strcmp(server, "UTF8") == 0 || strcmp(server, "SQL_ASCII") == 0);
}

void arg_payload(struct args *args, pr_slice payload, const PGconn *pg)
{
    bool is_text = pg_payload_is_text(payload, pg_stores_utf8(pg));
    if (is_text)
        arg_text(args, payload);
    else
        arg_null(args, OID_TEXT);
    if (is_text)
        arg_null(args, OID_BYTEA);
    else
        arg_bytes(args, payload);
}

/* ---- Writing ---------------------------------------------------------------------------- */

/* clang-format off */
#define INSERT_BATCH                                                                                                   \
    MESSAGE_NEW_INTO BATCH_COLUMNS("v.", COLUMN_OF_V) ", coalesce($1, now())"                                          \
    " FROM " BATCH_UNNEST ") WITH ORDINALITY AS v(" BATCH_COLUMNS("", COLUMN_NAME) ", ord)"
const char PG_MESSAGE_INSERT[] = INSERT_BATCH MESSAGE_NEW_END;
const char PG_MESSAGE_SEND[] = INSERT_BATCH " WHERE" MESSAGE_IS_NOT_DEAD("v") MESSAGE_NEW_RETURNED;
/* clang-format on */

static const enum oid batch_types[BATCH_ARRAYS] = { OID_UUID,       OID_TEXT, OID_TEXT, OID_TEXT, OID_JSON,
                                                    OID_BOOL,       OID_TIME, OID_TIME, OID_TEXT, OID_BYTEA,
#define X(...) OID_TEXT,
                                                    SENDER_TEXTS(X)
#undef X
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

void batch_begin(struct batch *batch, const PGconn *pg)
{
    batch->utf8 = pg_stores_utf8(pg);
    for (size_t i = 0; i < BATCH_ARRAYS; i++)
        array_begin(&batch->arrays[i], batch_types[i]);
}

void batch_add(struct batch *batch, const struct pr_message *m)
{
    struct array *a = batch->arrays;
    array_id(a++, m->id);
    array_text(a++, m->destination);
    array_text(a++, m->type);
    array_text_or_null(a++, m->stream);
    array_text_or_null(a++, m->headers);
    array_bool(a++, m->event);
    /* A box refuses other times (062_check_box.sql), and a cycle must not fail. */
    array_time(a++, time_plausible(m->due_us));
    array_time(a++, time_plausible(m->expires_us));
    bool is_text = pg_payload_is_text(m->payload, batch->utf8);
    array_bytes(&a[is_text ? 0 : 1], m->payload);
    array_null(&a[is_text ? 1 : 0]);
    a += 2;
#define X(column, ...) array_text_or_null(a++, m->column);
    SENDER_TEXTS(X)
#undef X
}

void batch_args(struct batch *batch, int64_t now_us, struct args *ret)
{
    *ret = (struct args){ .count = 0 };
    arg_time(ret, time_plausible(now_us));
    for (size_t i = 0; i < BATCH_ARRAYS; i++)
        arg_array(ret, &batch->arrays[i]);
}

/* The statement returned a part of the messages, in their order; of equal ones the first was stored. */
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
