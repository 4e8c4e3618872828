/* amqp1_message.h - encoding a message as AMQP 1.0, following the CloudEvents binding. */
#ifndef TRANSPORT_BROKER_AMQP1_MESSAGE_H
#define TRANSPORT_BROKER_AMQP1_MESSAGE_H

#include "base/arena.h"
#include "base/buf.h"
#include "transport/envelope.h"

/* ret is reset first.  PR_OK, PR_ENOMEM, or PR_EINVAL: the message cannot be represented. */
PR_MUST_CHECK int amqp1_message_encode(const struct pr_message *message, const char *source, enum envelope envelope,
                                       struct arena *scratch, struct buf *ret, struct pr_error *reterr);

#endif
