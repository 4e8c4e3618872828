/* amqp_greeting.h - the beginning of a connection of AMQP 0-9-1: login and negotiation. */
#ifndef TRANSPORT_BROKER_AMQP_GREETING_H
#define TRANSPORT_BROKER_AMQP_GREETING_H

#include "transport/broker/amqp_frame.h"
#include "transport/broker/broker_url.h"

#define AMQP_HEARTBEAT_S 30 /* at most; a peer that is silent for two of them counts as gone */
#define AMQP_CHANNEL 1      /* the only channel in use */

/* connection.start-ok.  PR_OK or PR_ENOMEM, also in the buffer. */
PR_MUST_CHECK int amqp_put_start_ok(struct buf *b, const struct broker_url *url, const char *name,
                                    struct arena *scratch);

struct amqp_terms {
    size_t frame_max;
    int64_t heartbeat_us; /* 0: none */
};
/* connection.tune-ok and connection.open.  PR_OK, or PR_EINVAL: the proposal is unacceptable; the buffer may have
 * failed. */
PR_MUST_CHECK int amqp_put_tune_ok(struct buf *b, uint32_t frame_max, uint16_t heartbeat_s, pr_slice vhost,
                                   struct amqp_terms *ret, struct pr_error *reterr);

#endif
