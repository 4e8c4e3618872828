/* amqp1_gate.h - a filter for frames of AMQP 1.0: what a broker may send to a sender or a receiver, and when.
 *
 * Proton asserts where a frame comes too early, keeps unrequested sessions and links, and recurses into nested values
 * to any depth.  So it gets only whole frames that have passed this gate. */
#ifndef TRANSPORT_BROKER_AMQP1_GATE_H
#define TRANSPORT_BROKER_AMQP1_GATE_H

#include <sys/types.h>

#include "transport/broker/inbox.h"

#define AMQP1_FRAME_MAX 16384 /* bytes of a frame that we accept; announced when the connection opens */

enum amqp1_stage {
    AMQP1_SASL_HEADER, /* each of these awaits what its name says */
    AMQP1_MECHANISMS,
    AMQP1_OUTCOME,
    AMQP1_HEADER,
    AMQP1_OPEN,
    AMQP1_BEGIN,
    AMQP1_UP,    /* links, their credit and dispositions of messages */
    AMQP1_ENDED, /* the broker has ended the session: it may only close */
};

enum amqp1_role {
    AMQP1_SENDS,    /* the broker must not transfer messages */
    AMQP1_RECEIVES, /* messages, whose bytes are not looked at here */
};

/* The first header or frame in these bytes: returns its size, and advances *stage; 0: it is incomplete.  PR_EINVAL: it
 * is not allowed now, or not a frame; *reterr has the reason. */
PR_MUST_CHECK ssize_t amqp1_gate_pass(enum amqp1_stage *stage, enum amqp1_role role, pr_slice bytes,
                                      struct pr_error *reterr);

/* Are these complete values, one after the other, and not nested too deep?  Those of a message are its sections. */
bool amqp1_gate_is_sound(pr_slice values);
/* For a message that may be truncated: its sections before the body, as far as they are valid; *ret_body is what
 * follows, without the description and the size of a binary body. */
pr_slice amqp1_gate_head(pr_slice values, pr_slice *ret_body);

#endif
