/* nats_answer.h - one thing that a server of NATS says: a line, and for a message what follows it. */
#ifndef TRANSPORT_BROKER_NATS_ANSWER_H
#define TRANSPORT_BROKER_NATS_ANSWER_H

#include <sys/types.h>

#include "transport/broker/inbox.h"

#define NATS_ANSWER_MAX (INBOX_SIZE - 8192) /* bytes of a message: an answer of JetStream has some hundred */

enum nats_kind { NATS_INFO, NATS_MESSAGE, NATS_PING, NATS_PONG, NATS_OK, NATS_ERROR };

/* Borrowed from the bytes; what does not belong to its kind is empty. */
struct nats_answer {
    enum nats_kind kind;
    pr_slice text;          /* INFO: its JSON; ERROR: what is wrong, without quotes */
    pr_slice subject, data; /* MESSAGE */
    pr_slice reply, head;   /* ... where an answer to it goes, and its headers as they came */
    unsigned status;        /* MESSAGE: of its header, 503: nobody listens; 0: it has none */
    uint64_t missing;       /* MESSAGE: bytes of its data that are left out */
};

/* The first one in these bytes: how many it has; 0: it is not whole yet.
 * PR_EINVAL: that is not NATS, or too large; *reterr says why. */
PR_MUST_CHECK ssize_t nats_answer_read(pr_slice bytes, struct nats_answer *ret, struct pr_error *reterr);
/* The same for a reader that keeps `max` bytes of a message.  Of a larger one only these need to be here: `missing` says how
 * many follow them, and NATS_END_SIZE more. */
#define NATS_END_SIZE 2
PR_MUST_CHECK ssize_t nats_answer_read_max(pr_slice bytes, size_t max, struct nats_answer *ret,
                                           struct pr_error *reterr);

#endif
