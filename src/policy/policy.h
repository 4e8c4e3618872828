/* From a failure to what follows.  The one place that decides: the engine, `policy explain`
 * and the tests all come here.  Rules stand in front of the retry setting. */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "core/reason.h"
#include "policy/rule.h"

/* What is known of a failure when it is judged. */
struct failure {
    const struct pr_message *message;
    pr_slice endpoint;
    int reason;
    pr_slice code, error;
    int failures;           /* this one included */
    int64_t retry_after_us; /* what the other side asked for; 0: nothing */
    int64_t age_us;
    bool unsent;   /* nothing of it went to the other side */
    size_t unread; /* bytes of a payload that is not here, for it is over limits.payload */

    /* For BLAME_EVIDENCE. */
    bool proven;         /* another message was delivered to its endpoint, of its type, since its previous failure */
    int64_t since_us;    /* time since that failure; 0: it has none */
    int64_t postpone_us; /* for how long the endpoint's own faults put it off: see struct setback */
};

enum fault failure_fault(const struct failure *failure);

/* The endpoint's rules are asked first, then the global ones, each list in order; the first that
 * matches decides.  When none does the retry setting decides. */
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
    const struct rule_step *by; /* the step, with what is to be done beside it; NULL: none was left */
    size_t index;               /* of the step in its rule */
    bool gave_up;               /* STEP_DEAD_LETTER: its time was over, and no limit was reached */
};

/* Is it counted whoever's fault it is: by a rule, or since the setting blames always? */
bool policy_counts_plainly(const struct policy *policy, const struct failure *failure);
/* Is it dead now because it failed for as long as the setting allows, with or without a count? */
bool policy_gives_up(const struct policy *policy, const struct failure *failure);

/* draw is in [0, 1): the only randomness.  Poison is never retried (B45). */
void policy_decide(const struct policy *policy, const struct failure *failure, double draw, struct decision *ret);

/* The call of a STEP_CALL decision did not decide: what the steps behind it say. */
void policy_decide_after(const struct decision *before, const struct failure *failure, double draw,
                         struct decision *ret);

#endif
