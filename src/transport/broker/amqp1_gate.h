/* amqp1_gate.h - what a broker of AMQP 1.0 may say to one who sends, or to one who receives, and when.
 *
 * Proton asserts where a frame comes too early, keeps sessions and links that nobody asked for, and follows values in values as
 * deep as they go.  So it gets whole frames only, which have passed here. */
#ifndef TRANSPORT_BROKER_AMQP1_GATE_H
#define TRANSPORT_BROKER_AMQP1_GATE_H

#include <sys/types.h>

#include "transport/broker/inbox.h"

#define AMQP1_FRAME_MAX 16384 /* bytes of what we take; we say so when we open */

enum amqp1_stage {
    AMQP1_SASL_HEADER, /* each of these awaits what it is called */
    AMQP1_MECHANISMS,
    AMQP1_OUTCOME,
    AMQP1_HEADER,
    AMQP1_OPEN,
    AMQP1_BEGIN,
    AMQP1_UP,    /* links, their credit and what became of messages */
    AMQP1_ENDED, /* the broker has ended the session: it may only close */
};

enum amqp1_role {
    AMQP1_SENDS,    /* nobody transfers anything to us */
    AMQP1_RECEIVES, /* messages, whose bytes are not looked at here */
};

/* The first header or frame in these bytes: how many it has, and *stage goes on; 0: it is not whole yet.
 * PR_EINVAL: it may not come now, or is no frame; *reterr says why. */
PR_MUST_CHECK ssize_t amqp1_gate_pass(enum amqp1_stage *stage, enum amqp1_role role, pr_slice bytes,
                                      struct pr_error *reterr);

/* Are these whole values, one behind the other, and none too deep in others?  Those of a message are its sections. */
bool amqp1_gate_is_sound(pr_slice values);
/* Of a message that may end anywhere: its sections before the body, as far as they are sound; *ret_body is what follows them,
 * without the description and the size of a body that is bytes. */
pr_slice amqp1_gate_head(pr_slice values, pr_slice *ret_body);

#endif
