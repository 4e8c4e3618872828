/* From a failure to what follows.  The one place that decides: the engine, `policy explain`
 * and the tests all come here.  Rules stand in front of the retry setting. */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "policy/retry.h"

/* What is known of a failure when it is judged. */
struct failure {
    const struct pr_message *message;
    pr_slice endpoint;
    int      reason;
    pr_slice code, error;
    int      failures;       /* this one included */
    int64_t  retry_after_us; /* what the other side asked for; 0: nothing */
    int64_t  age_us;
};

enum step { STEP_RETRY, STEP_DEAD_LETTER, STEP_DISCARD, STEP_PARK };

struct decision {
    enum step step;
    int64_t   delay_us;  /* STEP_RETRY */
    int       cause;     /* STEP_DEAD_LETTER: PR_REASON_POISON_MESSAGE when the retries ran out */
    int       limit;     /* the limit that was reached; 0: none */
    pr_slice  rule;      /* what decided */
};

struct policy {
    struct retry_setting retry;
};

const char *step_name(enum step step);

/* draw is in [0, 1): the only randomness. */
void policy_decide(const struct policy *policy, const struct failure *failure, double draw,
                   struct decision *ret);

#endif
