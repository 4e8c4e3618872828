/* util.h - small helpers that C lacks. */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The struct that contains this member.  The pointer must not be NULL; it may be const, because the struct is the
 * caller's own. */
#define CONTAINER_OF(pointer, type, member) ((type *)((uintptr_t)(pointer)-offsetof(type, member)))

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
