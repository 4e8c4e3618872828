/* redis_answer.h - one answer in RESP, the protocol of Redis: a line or a string, the only answers to AUTH, SELECT and
 * XADD. */
#ifndef TRANSPORT_BROKER_REDIS_ANSWER_H
#define TRANSPORT_BROKER_REDIS_ANSWER_H

#include <sys/types.h>

#include "transport/broker/inbox.h"

#define REDIS_ANSWER_MAX (INBOX_SIZE - 64) /* bytes of a string */

struct redis_answer {
    bool is_error;
    pr_slice text; /* borrowed from the bytes */
};

/* The first answer in these bytes: returns its size; 0: it is incomplete.  PR_EINVAL: an unexpected kind of answer;
 * *reterr has the reason. */
PR_MUST_CHECK ssize_t redis_answer_read(pr_slice bytes, struct redis_answer *ret, struct pr_error *reterr);

#endif
