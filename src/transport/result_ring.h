/* result_ring.h - results that poll has not handed out yet: a ring of fixed size, first in, first out. */
#ifndef TRANSPORT_RESULT_RING_H
#define TRANSPORT_RESULT_RING_H

#include <stdlib.h>

#include "base/error.h"
#include "base/util.h"
#include "transport/transport.h"

struct result_ring {
    struct delivery_result *results;
    size_t capacity, first, count;
};

PR_MUST_CHECK static inline int result_ring_init(struct result_ring *r, size_t capacity, struct pr_error *reterr)
{
    *r = (struct result_ring){ .results = calloc(capacity, sizeof(*r->results)), .capacity = capacity };
    return r->results != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for %zu results", capacity);
}

/* Room for one more; there must be some. */
static inline struct delivery_result *result_ring_add(struct result_ring *r)
{
    ASSERT(r->count < r->capacity);
    return &r->results[(r->first + r->count++) % r->capacity];
}

static inline size_t result_ring_take(struct result_ring *r, struct delivery_result *ret, size_t max)
{
    size_t count = 0;
    for (; count < max && r->count > 0; count++, r->count--) {
        ret[count] = r->results[r->first];
        r->first = (r->first + 1) % r->capacity;
    }
    return count;
}

/* Safe on a zeroed one. */
static inline void result_ring_fini(struct result_ring *r)
{
    struct delivery_result result;
    while (result_ring_take(r, &result, 1) > 0)
        delivery_result_fini(&result);
    free(r->results);
    *r = (struct result_ring){ 0 };
}

#endif
