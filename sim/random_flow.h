/* A flow of random steps.  They depend on its seed, its input and everything that it has seen so far, and on nothing
 * else: so it is as deterministic as a flow must be, and two seeds are two programs. */
#ifndef SIM_RANDOM_FLOW_H
#define SIM_RANDOM_FLOW_H

#include <postrider_flow.h>

#define RANDOM_FLOW_STEPS 20
#define RANDOM_FLOW_CHILDREN 4

struct random_flow {
    uint64_t seed;
    int generations;                            /* the maximum number of times that it continues as new */
    const char *next_version;                   /* some of them with this version; NULL: all with the same */
    const char *children[RANDOM_FLOW_CHILDREN]; /* names of flows that it starts; NULL: no more */
    const char *activities[2];
    const char *tag; /* a tag that some of its activities need; NULL: none */
};

/* A flow function; it was registered with its struct random_flow. */
int random_flow_run(pr_flow *f, pr_slice input, pr_slice *ret_output);

#endif
