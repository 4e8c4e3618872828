/* nats_message.h - the headers of a message on NATS. */
#ifndef TRANSPORT_BROKER_NATS_MESSAGE_H
#define TRANSPORT_BROKER_NATS_MESSAGE_H

#include "base/arena.h"
#include "base/buf.h"
#include "transport/envelope.h"

#define NATS_HEADERS_MAX (8u << 20) /* bytes, for one message */

/* All headers in wire format, in *ret, which is emptied first: those of the event, the id by which JetStream detects
 * duplicates, and the message's own.  source is the endpoint's.  PR_OK, PR_ENOMEM, or PR_EINVAL: the message's own
 * headers are invalid. */
PR_MUST_CHECK int nats_message_headers(const struct pr_message *m, enum envelope envelope, const char *source,
                                       struct arena *scratch, struct buf *ret, struct pr_error *reterr);

#endif
