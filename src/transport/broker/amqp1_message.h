/* amqp1_message.h - a message in the encoding of AMQP 1.0, as the CloudEvents binding wants it. */
#ifndef TRANSPORT_BROKER_AMQP1_MESSAGE_H
#define TRANSPORT_BROKER_AMQP1_MESSAGE_H

#include "base/arena.h"
#include "base/buf.h"
#include "transport/envelope.h"

/* ret is reset first.  PR_OK, PR_ENOMEM, or PR_EINVAL: it cannot be written like this. */
PR_MUST_CHECK int amqp1_message_encode(const struct pr_message *message, const char *source, enum envelope envelope,
                                       struct arena *scratch, struct buf *ret, struct pr_error *reterr);

#endif
