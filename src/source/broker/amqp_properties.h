/* amqp_properties.h - what AMQP 0-9-1 says about a message, read from bytes that nobody has checked.  Tables in tables are
 * left out: nothing here follows them, however deep they go. */
#ifndef SOURCE_BROKER_AMQP_PROPERTIES_H
#define SOURCE_BROKER_AMQP_PROPERTIES_H

#include "base/arena.h"
#include "source/decode.h"

/* After the first field that is not whole, `bad` stays. */
struct amqp_cursor {
    pr_slice rest;
    bool bad;
};
pr_slice amqp_take(struct amqp_cursor *c, uint64_t size);
uint64_t amqp_take_number(struct amqp_cursor *c, unsigned bytes);
pr_slice amqp_take_short(struct amqp_cursor *c); /* a string with a byte for its size */

/* Borrowed from the payload of the frame and from the arena. */
struct amqp_properties {
    uint64_t body_size;
    pr_slice content_type, correlation_id, message_id, type;
    struct decode_header *headers; /* "cloudEvents:x" is written "cloudEvents_x" */
    size_t header_count;
};

/* A header frame's payload.  PR_OK, PR_EINVAL or PR_ENOMEM. */
PR_MUST_CHECK int amqp_properties_read(pr_slice payload, struct arena *arena, struct amqp_properties *ret);

#endif
