/* param.h - binary parameters and results.
 *
 * Times are Unix microseconds here and microseconds since 2000 on the wire; PR_NEVER is
 * infinity, and 0 is NULL. */
#ifndef STORE_POSTGRES_LINK_PARAM_H
#define STORE_POSTGRES_LINK_PARAM_H

#include <libpq-fe.h>

#include "base/buf.h"

#define ARGS_MAX 40
#define PARAM_BYTES_MAX ((size_t)1 << 30) /* PostgreSQL's own limit of one value */

enum oid {
    OID_INFERRED = 0, /* by the server */
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_TID = 27,
    OID_JSON = 114,
    OID_JSON_ARRAY = 199,
    OID_BOOL_ARRAY = 1000,
    OID_BYTEA_ARRAY = 1001,
    OID_INT2_ARRAY = 1005,
    OID_INT4_ARRAY = 1007,
    OID_TEXT_ARRAY = 1009,
    OID_TID_ARRAY = 1010,
    OID_INT8_ARRAY = 1016,
    OID_TIME = 1184,
    OID_TIME_ARRAY = 1185,
    OID_UUID = 2950,
    OID_UUID_ARRAY = 2951,
};

/* Where a version of a row is in its table: on the wire, block and place in the block. */
struct tid {
    unsigned char wire[6];
};

/* ---- An array on its way ---------------------------------------------------------------- */

struct array {
    struct buf b;
    enum oid element;
    uint32_t count;
};

void array_init(struct array *a);
void array_fini(struct array *a);
void array_begin(struct array *a, enum oid element); /* discards earlier elements */

void array_null(struct array *a);
void array_bool(struct array *a, bool value);
void array_i16(struct array *a, int value);
void array_i32(struct array *a, int value);
void array_i64(struct array *a, int64_t value);
void array_id(struct array *a, pr_id id);
void array_tid(struct array *a, struct tid tid);
void array_bytes(struct array *a, pr_slice bytes);
void array_text(struct array *a, pr_slice text);         /* a NUL becomes a space, since the server cannot store it */
void array_text_or_null(struct array *a, pr_slice text); /* empty: NULL */
void array_time(struct array *a, int64_t us);            /* 0: NULL */

/* ---- Parameters ------------------------------------------------------------------------- */

struct args {
    int count;
    Oid types[ARGS_MAX];
    const char *values[ARGS_MAX];
    int lengths[ARGS_MAX];
    int formats[ARGS_MAX];
    char small[ARGS_MAX][16];
    int failed; /* an array had no memory or was too large */
};

void arg_null(struct args *a, enum oid type);
void arg_bool(struct args *a, bool value);
void arg_i32(struct args *a, int value);
void arg_i64(struct args *a, int64_t value);
void arg_id(struct args *a, pr_id id);
void arg_time(struct args *a, int64_t us);    /* 0: NULL */
void arg_text(struct args *a, pr_slice text); /* borrowed */
void arg_text_or_null(struct args *a, pr_slice text);
void arg_bytes(struct args *a, pr_slice bytes);
void arg_bytes_or_null(struct args *a, pr_slice bytes); /* NULL stays NULL, and empty stays empty */
void arg_literal(struct args *a, const char *text);     /* text form of a type that the statement casts to; borrowed */
void arg_array(struct args *a, struct array *array);    /* borrowed */

/* ---- Results ---------------------------------------------------------------------------- */

bool field_is_null(const PGresult *r, int row, int column);
int64_t field_i64(const PGresult *r, int row, int column); /* NULL: 0 */
int field_int(const PGresult *r, int row, int column);     /* of int2 and int4 */
bool field_bool(const PGresult *r, int row, int column);
pr_id field_id(const PGresult *r, int row, int column);
int64_t field_time(const PGresult *r, int row, int column);   /* NULL: 0; any other time: at least 1 */
struct tid field_tid(const PGresult *r, int row, int column); /* not NULL */
pr_slice field_slice(const PGresult *r, int row, int column); /* valid as long as the result */

#endif
