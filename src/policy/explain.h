/* What will happen: the schedule of a message that goes on failing in the same way.  It asks
 * policy_decide() itself, so it cannot say anything else than the engine will do (B71). */
#ifndef POLICY_EXPLAIN_H
#define POLICY_EXPLAIN_H

#include "policy/breaker.h"
#include "policy/policy.h"

#define EXPLAIN_LINES_MAX 200
#define EXPLAIN_TRIES_MAX 10000 /* looked at when nothing blames the message */

struct explain_line {
    int failure;   /* the n-th */
    int64_t at_us; /* when it happens, from the first line on */
    struct decision decision;
};

struct explanation {
    struct explain_line lines[EXPLAIN_LINES_MAX];
    size_t line_count; /* > 0; the first is the failure that was asked about */
    bool goes_on;      /* it did not end within EXPLAIN_LINES_MAX failures */
    bool endless;      /* ... because the last line repeats itself without being counted */

    /* The last line is blame, which needs evidence: what follows without. */
    bool needs_evidence;
    struct decision unproven; /* instead of the last line */
    bool gives_up;            /* ... it is given up: */
    int given_up;             /* ... at this failure, */
    int64_t given_up_us;      /* ... at this time from the first line on */
};

/* Every attempt fails at once, and jitter is left out.  A call is taken not to decide.  Others of the message's type
 * are taken to be delivered all the time. */
void policy_explain(const struct policy *policy, const struct breaker_setting *breaker, const struct failure *failure,
                    struct explanation *ret);

#endif
