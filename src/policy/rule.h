/* A rule: when (matchers) + then (steps).  Steps are taken by how often the message has failed: the first failures use
 * up the first step, the next ones the second, and so on.
 *
 *   retry_now     n failures: again at once
 *   retry         a table of k delays takes k failures; a formula that ends at its F-th takes F - 1
 *   dead_letter, discard, park   the end: they take all failures that are left
 *   pause alone   hands the message back, uncounted: takes all that are left, since none is counted
 *   call alone    the function decides about every failure that comes here; those that it does
 *                 not decide go to the next step, as if the call were not there
 *
 * In addition to any of them: pause, raise, call.  A rule that runs out of steps dead-letters. */
#ifndef POLICY_RULE_H
#define POLICY_RULE_H

#include "policy/matcher.h"
#include "policy/retry.h"

#define RULES_MAX 1024   /* in one list */
#define RULE_NAME_MAX 63 /* bytes; it is in every story line */
#define RULE_STEPS_MAX 32
#define RETRY_NOW_MAX 100       /* at once: more would be a loop */
#define RAISE_PAYLOAD_MAX 65536 /* bytes of a template, and of its result */

enum step {
    STEP_RETRY,
    STEP_DEAD_LETTER,
    STEP_DISCARD,
    STEP_PARK,
    STEP_RETRY_NOW,
    STEP_PAUSE,    /* alone: hand back, uncounted */
    STEP_CALL,     /* alone: a function decides */
    STEP_POSTPONE, /* later, uncounted: only the retry setting has it */
};

/* A message about a failure.  stream and payload are templates, see policy/raised.h. */
struct raise {
    pr_slice type;
    pr_slice to; /* an endpoint; empty: the routes decide */
    pr_slice stream;
    pr_slice payload; /* empty: a JSON object describing the failure */
};

struct rule_step {
    enum step step;
    int times;                  /* RETRY_NOW */
    struct retry_setting retry; /* RETRY */
    pr_slice to;                /* DEAD_LETTER: another endpoint; empty: the table */
    int64_t pause_us;           /* 0: none; PR_NEVER: until resumed */
    const struct raise *raise;  /* NULL: none */
    pr_slice call;              /* a registered function; empty: none */
    pr_slice place;             /* where it was written, for people; may be empty */
};

struct rule {
    pr_slice name;
    struct matcher when;
    const struct rule_step *steps;
    size_t step_count; /* > 0 */
};

/* "retry", "dead_letter", ... */
const char *step_name(enum step step);

/* Is it final: does nothing follow the step? */
bool step_is_end(enum step step);

/* How many failures a step takes before the next one's turn; INT_MAX: all. */
int rule_step_width(const struct rule_step *step);

/* Limits for rules of any origin.  PR_OK, or PR_EINVAL with what is wrong. */
PR_MUST_CHECK int rule_check(const struct rule *rule, struct pr_error *reterr);
/* Checks the length of a delay or a pause: not negative, at most a year.  PR_OK, or PR_EINVAL. */
PR_MUST_CHECK int rule_check_delay(int64_t us, struct pr_error *reterr);

#endif
