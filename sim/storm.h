/* I13: an endpoint that fails, and has no breaker, slows a healthy one by a fifth at most.
 *
 * A storm is lived twice: messages for one endpoint all the time, and a heap of them for another one, which takes them
 * in the first life and refuses them at once in the second. */
#ifndef SIM_STORM_H
#define SIM_STORM_H

#include "checkers.h"

struct storm {
    int64_t cycle_us;          /* each takes as long */
    int64_t calm_us, wild_us;  /* how long the healthy endpoint's messages took, on average */
    unsigned healthy, missing; /* messages that were sent, and those that did not arrive in the second life */
};

void storm_live(uint64_t seed, struct storm *ret);
/* false: *ret says what is broken. */
bool storm_check(const struct storm *s, struct breach *ret);

#endif
