/* pgarray.h - a one-dimensional array in PostgreSQL's binary form, as a parameter of a statement. */
#ifndef BENCH_PGARRAY_H
#define BENCH_PGARRAY_H

#include <stdint.h>

#define PG_ARRAY_MAX 2048 /* elements, of 16 bytes at most */

enum { OID_BYTEA = 17, OID_INT8 = 20, OID_INT4 = 23, OID_UUID = 2950 };

struct pg_array {
    char bytes[20 + PG_ARRAY_MAX * 20];
    int size, count;
};

void pg_array_begin(struct pg_array *a, uint32_t element);
/* In the server's byte order. */
void pg_array_add(struct pg_array *a, const void *bytes, int size);
void pg_array_add_i64(struct pg_array *a, int64_t value);

#endif
