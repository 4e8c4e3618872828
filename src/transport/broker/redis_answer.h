/* redis_answer.h - one answer of RESP, the protocol of Redis: a line or a string, which is all that AUTH, SELECT and
 * XADD are answered with. */
#ifndef TRANSPORT_BROKER_REDIS_ANSWER_H
#define TRANSPORT_BROKER_REDIS_ANSWER_H

#include <sys/types.h>

#include "transport/broker/inbox.h"

#define REDIS_ANSWER_MAX (INBOX_SIZE - 64) /* bytes of a string */

struct redis_answer {
    bool is_error;
    pr_slice text; /* borrowed from the bytes */
};

/* The first answer in these bytes: how many it has; 0: it is not whole yet.
 * PR_EINVAL: no such answer was asked for, and *reterr says why. */
PR_MUST_CHECK ssize_t redis_answer_read(pr_slice bytes, struct redis_answer *ret, struct pr_error *reterr);

#endif
