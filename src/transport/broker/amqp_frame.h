/* amqp_frame.h - frames of AMQP 0-9-1, appended to a buffer; librabbitmq encodes their content. */
#ifndef TRANSPORT_BROKER_AMQP_FRAME_H
#define TRANSPORT_BROKER_AMQP_FRAME_H

#include <amqp.h>
#include <amqp_framing.h>

#include "base/arena.h"
#include "base/buf.h"
#include "transport/envelope.h"

#define FRAME_MAX 65536     /* bytes; we neither propose nor accept more */
#define FRAME_MIN 4096      /* bytes: the protocol does not allow a smaller frame_max */
#define FRAME_EDGES 8       /* bytes around the content of a frame */
#define FRAME_SHORT_MAX 255 /* bytes of a short string, such as a routing key */

static inline amqp_bytes_t frame_bytes(pr_slice s)
{
    return (amqp_bytes_t){ .len = s.size, .bytes = (void *)(uintptr_t)(s.data != NULL ? s.data : "") };
}

/* ---- Reading ----
 *
 * Frames are put together and checked here before anybody looks into them, librabbitmq included: it would take any
 * channel, keep memory for each, and follow tables in tables as deep as they go. */

struct amqp_frame {
    uint8_t type;     /* AMQP_FRAME_METHOD, _HEADER, _BODY or _HEARTBEAT */
    uint16_t channel; /* 0 to `channel_max` of frame_next() */
    pr_slice payload; /* borrowed until the next call */
};

struct frame_reader {
    char bytes[FRAME_MAX]; /* the beginning of a frame */
    size_t size;
};

enum frame_outcome { FRAME_PART = 0, FRAME_WHOLE = 1 };

/* Takes the bytes of the next frame from `data`.  FRAME_WHOLE: *ret is a frame.  FRAME_PART: all of data was taken, and
 * more is needed.  PR_EINVAL: not a frame; *reterr has the reason. */
PR_MUST_CHECK int frame_next(struct frame_reader *r, pr_slice *data, uint16_t channel_max, struct amqp_frame *ret,
                             struct pr_error *reterr);

/* The number of a method frame; false: it is too short for a method. */
PR_MUST_CHECK bool frame_method(const struct amqp_frame *f, amqp_method_number_t *ret);

/* The body's size and the message-id in a header frame, empty when there is none.  False: it is too short. */
PR_MUST_CHECK bool frame_header(const struct amqp_frame *f, uint64_t *ret_body_size, pr_slice *ret_message_id);

/* ---- Writing ---- */

/* Errors stick in the buffer. */
void frame_put_greeting(struct buf *b);
void frame_put_heartbeat(struct buf *b);
void frame_put_method(struct buf *b, amqp_channel_t channel, amqp_method_number_t method, void *fields);

/* The parts of a published message. */
struct frame_message {
    const struct pr_message *message;
    const char *source; /* of the endpoint, may be NULL */
    enum envelope envelope;
    pr_slice exchange, key;
    bool mandatory;
    size_t frame_max;
};

/* The message in three or more frames.  PR_OK, PR_ENOMEM, or PR_EINVAL: it cannot be represented.  After a fault the
 * buffer is unchanged. */
PR_MUST_CHECK int frame_put_message(struct buf *b, amqp_channel_t channel, const struct frame_message *m,
                                    struct arena *scratch, struct buf *json, struct pr_error *reterr);

#endif
