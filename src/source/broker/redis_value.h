/* redis_value.h - an answer in RESP, the protocol of Redis, of any shape: XREADGROUP is answered with nested lists. */
#ifndef SOURCE_BROKER_REDIS_VALUE_H
#define SOURCE_BROKER_REDIS_VALUE_H

#include <sys/types.h>

#include "base/arena.h"

#define REDIS_DEPTH_MAX 8 /* nesting of lists */

struct redis_value {
    enum redis_shape { REDIS_TEXT, REDIS_NUMBER, REDIS_ERROR, REDIS_LIST, REDIS_NOTHING } shape;
    pr_slice text;            /* TEXT, NUMBER, ERROR; borrowed from the bytes */
    struct redis_value *list; /* LIST, in the arena */
    size_t count;
};

/* The first value in these bytes: returns its size; 0: it is incomplete.  PR_EINVAL: not RESP, *reterr has the reason;
 * PR_ENOMEM. */
PR_MUST_CHECK ssize_t redis_value_read(pr_slice bytes, struct arena *arena, struct redis_value *ret,
                                       struct pr_error *reterr);

/* Bytes that end within a text. */
struct redis_part {
    size_t digits, text; /* where its size is written, and where it begins */
    size_t size;         /* size of the whole text */
};
/* False: they end elsewhere. */
bool redis_value_part(pr_slice bytes, struct redis_part *ret);

#endif
