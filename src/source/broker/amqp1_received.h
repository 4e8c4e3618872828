/* amqp1_received.h - a message of AMQP 1.0, read from bytes that nobody has checked. */
#ifndef SOURCE_BROKER_AMQP1_RECEIVED_H
#define SOURCE_BROKER_AMQP1_RECEIVED_H

#include "source/broker/intake.h"

struct pn_message_t;

/* `reader` is used again and again; *ret is borrowed from it and from the arena.  What is no message, or has a body that is
 * neither bytes nor text, has all its bytes as the body, and *ret_why says so.  missing: bytes that would follow these.
 * PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int amqp1_received_read(struct pn_message_t *reader, pr_slice bytes, uint64_t missing,
                                      struct arena *arena, struct received *ret, const char **ret_why);

#endif
