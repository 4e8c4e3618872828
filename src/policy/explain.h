/* What will happen: the schedule of a message that goes on failing in the same way.  It asks
 * policy_decide() itself, so it cannot say anything else than the engine will do (B71). */
#ifndef POLICY_EXPLAIN_H
#define POLICY_EXPLAIN_H

#include "policy/policy.h"

#define EXPLAIN_LINES_MAX 200

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
};

/* Every attempt fails at once, and jitter is left out.  A call is taken not to decide. */
void policy_explain(const struct policy *policy, const struct failure *failure, struct explanation *ret);

#endif
