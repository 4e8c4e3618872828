/* inbox.h - bytes of a broker that were not parsed yet: of fixed size, which limits the size of answers.
 *
 *    while ((got = session_read(&s, inbox_room(&in), inbox_room_size(&in))) > 0) {
 *        in.size += got;
 *        ... look at inbox_bytes() from `used` on, until an answer is incomplete ...
 *        inbox_drop(&in, used);
 *    } */
#ifndef TRANSPORT_BROKER_INBOX_H
#define TRANSPORT_BROKER_INBOX_H

#include <string.h>

#include <postrider.h>

#include "base/error.h"
#include "base/util.h"

#define INBOX_SIZE 65536 /* bytes: many times what any answer to a message has */

struct inbox {
    char bytes[INBOX_SIZE];
    size_t size;
};

static inline char *inbox_room(struct inbox *in)
{
    return in->bytes + in->size;
}

/* 0: it is full, and contains not even one complete answer. */
static inline size_t inbox_room_size(const struct inbox *in)
{
    return INBOX_SIZE - in->size;
}

static inline pr_slice inbox_bytes(const struct inbox *in, size_t from)
{
    ASSERT(from <= in->size);
    return (pr_slice){ in->bytes + from, in->size - from };
}

/* Drops the first bytes, which were parsed. */
static inline void inbox_drop(struct inbox *in, size_t used)
{
    ASSERT(used <= in->size);
    in->size -= used;
    memmove(in->bytes, in->bytes + used, in->size);
}

/* A line that ends with CR LF: returns its size with both, and *ret without them; 0: it is incomplete. */
static inline size_t inbox_line(pr_slice bytes, pr_slice *ret)
{
    const char *end = bytes.size > 0 ? memmem(bytes.data, bytes.size, "\r\n", 2) : NULL;
    if (end == NULL)
        return 0;
    *ret = (pr_slice){ bytes.data, (size_t)(end - bytes.data) };
    return ret->size + 2;
}

/* A number of only digits, at most max; -1: not such a number. */
static inline int64_t inbox_number(pr_slice text, int64_t max)
{
    int64_t number = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -1;
        number = number * 10 + (text.data[i] - '0');
        if (number > max)
            return -1;
    }
    return text.size > 0 ? number : -1;
}

#endif
