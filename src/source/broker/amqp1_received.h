/* amqp1_received.h - reading a message of AMQP 1.0 from unchecked bytes. */
#ifndef SOURCE_BROKER_AMQP1_RECEIVED_H
#define SOURCE_BROKER_AMQP1_RECEIVED_H

#include "source/broker/intake.h"

struct pn_message_t;

/* `reader` is reused; *ret is borrowed from it and from the arena.  Bytes that are not a message, or whose body is
 * neither bytes nor text, become the body as they are, and *ret_why has the reason.  missing: number of bytes after
 * these.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int amqp1_received_read(struct pn_message_t *reader, pr_slice bytes, uint64_t missing,
                                      struct arena *arena, struct received *ret, const char **ret_why);

#endif
