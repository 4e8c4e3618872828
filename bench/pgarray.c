#include "pgarray.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#include "bench.h"

void pg_array_begin(struct pg_array *a, uint32_t element)
{
    const uint32_t head[] = { htonl(1), 0, htonl(element), 0, htonl(1) };
    memcpy(a->bytes, head, sizeof head);
    a->size = sizeof head;
    a->count = 0;
}

void pg_array_add(struct pg_array *a, const void *bytes, int size)
{
    if (a->count == PG_ARRAY_MAX)
        die("an array of more than %d elements", PG_ARRAY_MAX);
    uint32_t length = htonl((uint32_t)size), count = htonl((uint32_t)++a->count);
    memcpy(a->bytes + a->size, &length, 4);
    memcpy(a->bytes + a->size + 4, bytes, (size_t)size);
    memcpy(a->bytes + 12, &count, 4);
    a->size += 4 + size;
}

void pg_array_add_i64(struct pg_array *a, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);
    pg_array_add(a, &wire, 8);
}
