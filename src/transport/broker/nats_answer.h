/* nats_answer.h - parsing one protocol message of a NATS server: a line, and the payload after it. */
#ifndef TRANSPORT_BROKER_NATS_ANSWER_H
#define TRANSPORT_BROKER_NATS_ANSWER_H

#include <sys/types.h>

#include "transport/broker/inbox.h"

#define NATS_ANSWER_MAX (INBOX_SIZE - 8192) /* bytes of a message: an answer of JetStream has a few hundred */

enum nats_kind { NATS_INFO, NATS_MESSAGE, NATS_PING, NATS_PONG, NATS_OK, NATS_ERROR };

/* Borrowed from the bytes; members of other kinds are empty. */
struct nats_answer {
    enum nats_kind kind;
    pr_slice text;          /* INFO: its JSON; ERROR: the text, without quotes */
    pr_slice subject, data; /* MESSAGE */
    pr_slice reply, head;   /* ... the subject for replies, and its unparsed headers */
    unsigned status;        /* MESSAGE: status in its header, 503: no responders; 0: none */
    uint64_t missing;       /* MESSAGE: bytes at the end of its data that were left out */
};

/* The first message in these bytes: returns its size; 0: it is incomplete.  PR_EINVAL: not the NATS protocol, or too
 * large; *reterr has the reason. */
PR_MUST_CHECK ssize_t nats_answer_read(pr_slice bytes, struct nats_answer *ret, struct pr_error *reterr);
/* The same for a reader that keeps `max` bytes of a message.  Of a larger one only these are needed: `missing` is the
 * number of bytes after them, followed by NATS_END_SIZE more. */
#define NATS_END_SIZE 2
PR_MUST_CHECK ssize_t nats_answer_read_max(pr_slice bytes, size_t max, struct nats_answer *ret,
                                           struct pr_error *reterr);

#endif
