/* Rules of a world, twice: as the engine gets them, and as plain facts for the checkers, which must know what follows a
 * failure without using the engine's own code. */
#ifndef SIM_RULES_H
#define SIM_RULES_H

#include "base/random.h"
#include "policy/policy.h"

#define SIM_RULES_MAX 16
#define SIM_STEPS_MAX 3
#define SIM_RULE_DELAYS_MAX 3
#define SIM_NOBODY (-1)

struct sim_step {
    enum step step; /* not STEP_CALL */
    int times;      /* RETRY_NOW */
    int64_t delays[SIM_RULE_DELAYS_MAX];
    size_t delay_count;
    int to; /* DEAD_LETTER: an endpoint, or SIM_NOBODY */
    int64_t pause_us;
    bool raise;
    int raise_to; /* an endpoint, or SIM_NOBODY */
};

struct sim_rule {
    int owner;        /* an endpoint, or SIM_NOBODY: global */
    uint32_t reasons; /* bits 1 << reason; 0: any */
    const char *type; /* a glob, or NULL */
    int failures_max; /* 0: any */
    struct sim_step steps[SIM_STEPS_MAX];
    size_t step_count;

    /* The engine's form of the rule. */
    struct matcher parts[3];
    pr_slice glob;
    struct rule_step built[SIM_STEPS_MAX];
    struct raise raises[SIM_STEPS_MAX];
};

struct scenario;

/* Draws rules for some worlds, from its own dice: other draws are not affected. */
void rules_draw(struct scenario *s);
/* The engine's rules point into the scenario: call it again after a copy. */
void rules_link(struct scenario *s);

/* What must follow the n-th failure of a message at an endpoint. */
struct sim_expectation {
    enum step step;
    int64_t delay_us;          /* RETRY, RETRY_NOW: at least */
    const struct sim_step *by; /* NULL: the retry setting, or no step was left */
    bool ruled;                /* a rule decides */
};
void rules_expect(const struct scenario *s, unsigned endpoint, const struct pr_message *message, int reason,
                  int failures, struct sim_expectation *ret);

#endif
