/* From a failure to the decision.  This is the one place that decides, for the engine, `policy explain` and the tests.
 * Rules come before the retry setting. */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "core/reason.h"
#include "policy/rule.h"

/* A failure, as known when the policy decides. */
struct failure {
    const struct pr_message *message;
    pr_slice endpoint;
    int reason;
    pr_slice code, error;
    int failures;           /* including this one */
    int64_t retry_after_us; /* requested by the other side; 0: none */
    int64_t age_us;
    bool unsent;   /* nothing was transmitted */
    size_t unread; /* size of a payload that was not read, since it exceeds limits.payload */

    /* For BLAME_EVIDENCE. */
    bool proven;         /* another message was delivered to its endpoint, of its type, since its previous failure */
    int64_t since_us;    /* time since that failure; 0: there is none */
    int64_t postpone_us; /* how long failures of the endpoint as a whole postpone it: see struct setback */
};

enum fault failure_fault(const struct failure *failure);

/* The endpoint's rules are asked first, then the global ones, each list in order; the first that matches decides.  When
 * none does the retry setting decides. */
struct policy {
    const struct rule *own;
    size_t own_count;
    const struct rule *global;
    size_t global_count;
    struct retry_setting retry;
};

struct decision {
    enum step step;
    int64_t delay_us; /* STEP_RETRY, STEP_RETRY_NOW, STEP_POSTPONE */
    int cause;        /* STEP_DEAD_LETTER: PR_REASON_POISON_MESSAGE when the retries ran out */
    int limit;        /* the limit that was reached; 0: none */
    pr_slice rule;    /* what decided: the rule's name, or "retry" */

    const struct rule *matched; /* NULL: the retry setting */
    const struct rule_step *by; /* the step, with its side actions; NULL: none was left */
    size_t index;               /* of the step in its rule */
    bool gave_up;               /* STEP_DEAD_LETTER: it failed for too long, and no limit was reached */
};

/* Does the failure count no matter who is at fault: by a rule, or since the setting always blames? */
bool policy_counts_plainly(const struct policy *policy, const struct failure *failure);
/* Is it dead now because it failed for as long as the setting allows, whether or not failures were counted? */
bool policy_gives_up(const struct policy *policy, const struct failure *failure);

/* draw is in [0, 1): the only randomness.  Poison is never retried (B45). */
void policy_decide(const struct policy *policy, const struct failure *failure, double draw, struct decision *ret);

/* The call of a STEP_CALL decision did not decide: asks the steps after it. */
void policy_decide_after(const struct decision *before, const struct failure *failure, double draw,
                         struct decision *ret);

#endif
