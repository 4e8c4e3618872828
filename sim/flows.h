/* Flows: a life of its own (life.h).  Flows of random steps (random_flow.h), their children and their activities, run by the code
 * that runs them in the product (runtime/flow), on instances that have a box of turns and one of activities.  Cycles fail,
 * get lost after they landed, instances die with what they have out, results come twice, late, and from an execution that never was, clocks jump, events and mail
 * come before their flow, people cancel, resume, restart, delete and prune, and some activities need a tag that not every instance offers.  In some lives a second version is deployed in between, and in some the code of the
 * first one is changed in place, which is a mistake that a flow fails with and never goes on over.
 *
 *   I11  from every beginning of its history a flow does what follows in it
 *   I15  when nothing fails any more every flow ends, and nothing is left in the boxes
 *   I48  what happened is recorded once, a result as it was given, and a timer when it was due
 *   I49  a parent is told how its child ended, and a child that nobody waits for is cancelled
 *   I50  who kills its instance is poison at its limit and not before, and nobody else is
 *   I51  a flow is stored as its history says: state, output, key-values, custom status
 *   I52  a deleted execution does not come back, and nothing of it is worked on any more; pruning takes what it was asked to take,
 *        and never the current execution
 *   I53  an activity that needs a tag runs only where that tag is offered */
#ifndef SIM_FLOWS_H
#define SIM_FLOWS_H

#include "life.h"

/* What is wrong with this world, for tests of its checkers. */
enum flows_bug {
    FLOWS_FINE,
    FLOWS_CODE_IS_RANDOM,    /* a flow function looks at what is not recorded */
    FLOWS_RESULT_IS_CHANGED, /* what an activity gave is not what its flow is told */
    FLOWS_FACT_IS_TWICE,     /* an event is recorded twice */
    FLOWS_TIMER_IS_EARLY,
    FLOWS_CHILD_LIES,     /* a parent is told something else */
    FLOWS_CANCEL_IS_LOST, /* of a child whose parent has ended */
    FLOWS_POISON_IS_LATE, /* it is handed out once more than it may */
    FLOWS_KEY_IS_LOST,
    FLOWS_DEATH_IS_UNTOLD, /* the flow of an activity that is given up */
    FLOWS_DELETED_COMES_BACK,
    FLOWS_DELETED_STAYS,   /* an activity of a deleted flow waits on */
    FLOWS_PRUNE_IS_GREEDY, /* it keeps one execution less than it was asked to */
    FLOWS_TAG_IS_IGNORED,  /* an instance takes what needs a tag that it does not offer */
};

struct flows_life_counts {
    uint64_t flows, histories, events, poison, crashes, changed, resumed; /* changed: it met other code, and failed */
    uint64_t deleted, pruned, tagged;                                     /* executions; executions; activities */
};

bool flows_life_with(const struct life *life, enum flows_bug bug, struct life_counts *counts,
                     struct flows_life_counts *more, struct breach *ret);

#endif
