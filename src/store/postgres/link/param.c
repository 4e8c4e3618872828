/* Binary parameters and results; see param.h. */
#include "store/postgres/link/param.h"

#include <endian.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define EPOCH_2000_US INT64_C(946684800000000)
#define TIME_WIRE_MAX INT64_C(9223371331199999999) /* the last microsecond that PostgreSQL can represent */
#define ARRAY_HEADER_BYTES 20
#define ARRAY_EMPTY_BYTES 12 /* without the dimension */

static int64_t time_to_wire(int64_t us)
{
    return us == PR_NEVER ? INT64_MAX : min64(us - EPOCH_2000_US, TIME_WIRE_MAX);
}

static int64_t time_from_wire(int64_t wire)
{
    if (wire == INT64_MAX || wire > INT64_MAX - EPOCH_2000_US)
        return PR_NEVER;
    return max64(1, wire + EPOCH_2000_US); /* also -infinity */
}

/* ---- Arrays ------------------------------------------------------------------------------- */

void array_init(struct array *a)
{
    buf_init(&a->b, PARAM_BYTES_MAX);
}

void array_fini(struct array *a)
{
    buf_fini(&a->b);
}

static void put_u32(char *at, uint32_t value)
{
    uint32_t wire = htobe32(value);
    memcpy(at, &wire, sizeof(wire));
}

void array_begin(struct array *a, enum oid element)
{
    static const char room[ARRAY_HEADER_BYTES];
    buf_reset(&a->b);
    a->element = element;
    a->count = 0;
    buf_add(&a->b, room, sizeof(room)); /* filled in by array_end() */
}

static void array_add(struct array *a, const void *data, size_t size)
{
    uint32_t length = htobe32((uint32_t)size);
    buf_add(&a->b, &length, sizeof(length));
    buf_add(&a->b, data, size);
    a->count++;
}

void array_null(struct array *a)
{
    static const uint32_t none = UINT32_MAX;
    buf_add(&a->b, &none, sizeof(none));
    a->count++;
}

void array_bool(struct array *a, bool value)
{
    char byte = value;
    array_add(a, &byte, 1);
}

void array_i16(struct array *a, int value)
{
    uint16_t wire = htobe16((uint16_t)value);
    array_add(a, &wire, sizeof(wire));
}

void array_i32(struct array *a, int value)
{
    uint32_t wire = htobe32((uint32_t)value);
    array_add(a, &wire, sizeof(wire));
}

void array_i64(struct array *a, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);
    array_add(a, &wire, sizeof(wire));
}

void array_id(struct array *a, pr_id id)
{
    array_add(a, id.bytes, sizeof(id.bytes));
}

void array_tid(struct array *a, struct tid tid)
{
    array_add(a, tid.wire, sizeof(tid.wire));
}

void array_bytes(struct array *a, pr_slice bytes)
{
    if (bytes.size > PARAM_BYTES_MAX)
        a->b.error = PR_ETOOBIG;
    else
        array_add(a, bytes.size > 0 ? bytes.data : "", bytes.size);
}

void array_text(struct array *a, pr_slice text)
{
    size_t before = a->b.size + sizeof(uint32_t);
    array_bytes(a, text);
    if (text.size == 0 || buf_failed(&a->b) != PR_OK || memchr(text.data, '\0', text.size) == NULL)
        return;
    for (char *at = a->b.data + before; at < a->b.data + a->b.size; at++)
        if (*at == '\0')
            *at = ' ';
}

void array_text_or_null(struct array *a, pr_slice text)
{
    if (text.size > 0)
        array_text(a, text);
    else
        array_null(a);
}

void array_time(struct array *a, int64_t us)
{
    if (us == 0)
        array_null(a);
    else
        array_i64(a, time_to_wire(us));
}

static void array_end(struct array *a)
{
    if (buf_failed(&a->b) != PR_OK)
        return;
    char *at = a->b.data;
    put_u32(at, a->count > 0); /* dimensions */
    put_u32(at + 4, 1);        /* there may be NULLs */
    put_u32(at + 8, (uint32_t)a->element);
    put_u32(at + 12, a->count);
    put_u32(at + 16, 1); /* the first has the number 1 */
}

static enum oid array_oid(enum oid element)
{
    switch (element) {
    case OID_BOOL: return OID_BOOL_ARRAY;
    case OID_BYTEA: return OID_BYTEA_ARRAY;
    case OID_INT8: return OID_INT8_ARRAY;
    case OID_INT2: return OID_INT2_ARRAY;
    case OID_INT4: return OID_INT4_ARRAY;
    case OID_JSON: return OID_JSON_ARRAY;
    case OID_TEXT: return OID_TEXT_ARRAY;
    case OID_TID: return OID_TID_ARRAY;
    case OID_TIME: return OID_TIME_ARRAY;
    case OID_UUID: return OID_UUID_ARRAY;
    default: break;
    }
    ASSERT(!"an element that has an array");
    return OID_TEXT_ARRAY;
}

/* ---- Parameters --------------------------------------------------------------------------- */

static void arg_add(struct args *a, Oid type, const char *value, size_t size, int format)
{
    ASSERT(a->count < ARGS_MAX);
    if (size > INT_MAX)
        a->failed = PR_ETOOBIG;
    a->types[a->count] = type;
    a->values[a->count] = value;
    a->lengths[a->count] = (int)size;
    a->formats[a->count] = format;
    a->count++;
}

static void arg_small(struct args *a, enum oid type, const void *data, size_t size)
{
    ASSERT(a->count < ARGS_MAX && size <= sizeof(a->small[0]));
    memcpy(a->small[a->count], data, size);
    arg_add(a, type, a->small[a->count], size, 1);
}

void arg_null(struct args *a, enum oid type)
{
    arg_add(a, type, NULL, 0, 1);
}

void arg_bool(struct args *a, bool value)
{
    char byte = value;
    arg_small(a, OID_BOOL, &byte, 1);
}

void arg_i32(struct args *a, int value)
{
    uint32_t wire = htobe32((uint32_t)value);
    arg_small(a, OID_INT4, &wire, sizeof(wire));
}

void arg_i64(struct args *a, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);
    arg_small(a, OID_INT8, &wire, sizeof(wire));
}

void arg_id(struct args *a, pr_id id)
{
    arg_small(a, OID_UUID, id.bytes, sizeof(id.bytes));
}

void arg_time(struct args *a, int64_t us)
{
    uint64_t wire = htobe64((uint64_t)time_to_wire(us));
    if (us == 0)
        arg_null(a, OID_TIME);
    else
        arg_small(a, OID_TIME, &wire, sizeof(wire));
}

void arg_text(struct args *a, pr_slice text)
{
    arg_add(a, OID_TEXT, text.size > 0 ? text.data : "", text.size, 1);
}

void arg_text_or_null(struct args *a, pr_slice text)
{
    if (text.size > 0)
        arg_text(a, text);
    else
        arg_null(a, OID_TEXT);
}

void arg_bytes(struct args *a, pr_slice bytes)
{
    arg_add(a, OID_BYTEA, bytes.size > 0 ? bytes.data : "", bytes.size, 1);
}

void arg_bytes_or_null(struct args *a, pr_slice bytes)
{
    if (bytes.data != NULL)
        arg_bytes(a, bytes);
    else
        arg_null(a, OID_BYTEA);
}

void arg_literal(struct args *a, const char *text)
{
    arg_add(a, 0, text, strlen(text), 0);
}

void arg_array(struct args *a, struct array *array)
{
    array_end(array);
    if (buf_failed(&array->b) != PR_OK)
        a->failed = buf_failed(&array->b);
    size_t size = array->count > 0 ? array->b.size : ARRAY_EMPTY_BYTES;
    arg_add(a, array_oid(array->element), array->b.data, size, 1);
}

/* ---- Results ------------------------------------------------------------------------------ */

bool field_is_null(const PGresult *r, int row, int column)
{
    return PQgetisnull(r, row, column) != 0;
}

int64_t field_i64(const PGresult *r, int row, int column)
{
    uint64_t wire;
    if (PQgetisnull(r, row, column))
        return 0;
    ASSERT(PQgetlength(r, row, column) == sizeof(wire));
    memcpy(&wire, PQgetvalue(r, row, column), sizeof(wire));
    return (int64_t)be64toh(wire);
}

int field_int(const PGresult *r, int row, int column)
{
    const char *value = PQgetvalue(r, row, column);
    uint16_t two;
    uint32_t four;
    switch (PQgetisnull(r, row, column) ? 0 : PQgetlength(r, row, column)) {
    case 0: return 0;
    case 2: memcpy(&two, value, sizeof(two)); return (int16_t)be16toh(two);
    default:
        ASSERT(PQgetlength(r, row, column) == sizeof(four));
        memcpy(&four, value, sizeof(four));
        return (int)be32toh(four);
    }
}

bool field_bool(const PGresult *r, int row, int column)
{
    return !PQgetisnull(r, row, column) && *PQgetvalue(r, row, column) != 0;
}

pr_id field_id(const PGresult *r, int row, int column)
{
    pr_id id = { { 0 } };
    if (PQgetlength(r, row, column) == sizeof(id.bytes))
        memcpy(id.bytes, PQgetvalue(r, row, column), sizeof(id.bytes));
    return id;
}

int64_t field_time(const PGresult *r, int row, int column)
{
    return PQgetisnull(r, row, column) ? 0 : time_from_wire(field_i64(r, row, column));
}

struct tid field_tid(const PGresult *r, int row, int column)
{
    struct tid tid;
    ASSERT(PQgetlength(r, row, column) == (int)sizeof(tid.wire));
    memcpy(tid.wire, PQgetvalue(r, row, column), sizeof(tid.wire));
    return tid;
}

pr_slice field_slice(const PGresult *r, int row, int column)
{
    return (pr_slice){ PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column) };
}
