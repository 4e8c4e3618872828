/* amqp_properties.h - reading the properties of a message of AMQP 0-9-1 from unchecked bytes.  Nested tables are
 * skipped without recursion, however deep they are. */
#ifndef SOURCE_BROKER_AMQP_PROPERTIES_H
#define SOURCE_BROKER_AMQP_PROPERTIES_H

#include "base/arena.h"
#include "base/cursor.h"
#include "source/decode.h"

pr_slice amqp_take_short(struct cursor *c); /* a string with a length of one byte */

/* Borrowed from the payload of the frame and from the arena. */
struct amqp_properties {
    uint64_t body_size;
    pr_slice content_type, correlation_id, message_id, type;
    struct decode_header *headers; /* "cloudEvents:x" is written "cloudEvents_x" */
    size_t header_count;
};

/* Parses the payload of a header frame.  PR_OK, PR_EINVAL or PR_ENOMEM. */
PR_MUST_CHECK int amqp_properties_read(pr_slice payload, struct arena *arena, struct amqp_properties *ret);

#endif
