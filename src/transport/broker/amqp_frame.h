/* amqp_frame.h - frames of AMQP 0-9-1, appended to a buffer; librabbitmq writes what stands in them. */
#ifndef TRANSPORT_AMQP_FRAME_H
#define TRANSPORT_AMQP_FRAME_H

#include <amqp.h>
#include <amqp_framing.h>

#include "base/arena.h"
#include "base/buf.h"
#include "transport/envelope.h"

#define FRAME_MAX 65536     /* bytes, what librabbitmq takes without being told; we propose no more */
#define FRAME_SHORT_MAX 255 /* bytes of a short string, such as a routing key */

static inline amqp_bytes_t frame_bytes(pr_slice s)
{
    return (amqp_bytes_t){ .len = s.size, .bytes = (void *)(uintptr_t)(s.data != NULL ? s.data : "") };
}

/* Errors stick in the buffer. */
void frame_put_greeting(struct buf *b);
void frame_put_heartbeat(struct buf *b);
void frame_put_method(struct buf *b, amqp_channel_t channel, amqp_method_number_t method, void *fields);

/* What a message becomes. */
struct frame_message {
    const struct pr_message *message;
    const char *source; /* of the endpoint, may be NULL */
    enum envelope envelope;
    pr_slice exchange, key;
    bool mandatory;
    size_t frame_max;
};

/* The message in three or more frames.  PR_OK, PR_ENOMEM, or PR_EINVAL: it cannot be written like this.
 * After a fault the buffer is as before. */
PR_MUST_CHECK int frame_put_message(struct buf *b, amqp_channel_t channel, const struct frame_message *m,
                                    struct arena *scratch, struct buf *json, struct pr_error *reterr);

#endif
