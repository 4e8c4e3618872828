/* A forecast: the schedule of a message that fails again and again in the same way.  It asks policy_decide() itself, so
 * it agrees with what the engine will do (B71). */
#ifndef POLICY_EXPLAIN_H
#define POLICY_EXPLAIN_H

#include "policy/breaker.h"
#include "policy/policy.h"

#define EXPLAIN_LINES_MAX 200
#define EXPLAIN_TRIES_MAX 10000 /* tries that are simulated when nothing blames the message */

struct explain_line {
    int failure;   /* number of the failure */
    int64_t at_us; /* when it happens, counted from the first line */
    struct decision decision;
};

struct explanation {
    struct explain_line lines[EXPLAIN_LINES_MAX];
    size_t line_count; /* > 0; the first line is the failure in question */
    bool goes_on;      /* it did not end within EXPLAIN_LINES_MAX failures */
    bool endless;      /* ... because the last line repeats itself without being counted */

    /* The last line requires evidence; what follows without it: */
    bool needs_evidence;
    struct decision unproven; /* instead of the last line */
    bool gives_up;            /* ... the message is given up: */
    int given_up;             /* ... at this failure, */
    int64_t given_up_us;      /* ... at this time, counted from the first line */
};

/* Assumes that every attempt fails at once, without jitter, that calls do not decide, and that other messages of the
 * type are always delivered. */
void policy_explain(const struct policy *policy, const struct breaker_setting *breaker, const struct failure *failure,
                    struct explanation *ret);

#endif
