/* Flows: a life of its own (life.h).  Flows of random steps (random_flow.h), their children and their activities, run
 * by the product's own code (runtime/flow), on instances that have a box of turns and one of activities.  Cycles fail,
 * or get lost after they landed, instances die with what they have out, results come twice, late, and from an execution
 * that never was, clocks jump, events and mail come before their flow, people cancel, resume, restart, delete and
 * prune, and some activities need a tag that not every instance offers.  In some lives a second version is deployed
 * meanwhile, and in some the code of the first one is changed in place, a mistake that must make a flow fail and must
 * never be ignored.
 *
 *   I11  from every prefix of its history a flow does what follows in it
 *   I15  when faults stop every flow ends, and nothing is left in the boxes
 *   I48  everything that happened is recorded once, a result unchanged, and a timer when it was due
 *   I49  a parent gets the end of its child, and a child that nothing waits for is cancelled
 *   I50  a message that kills its instance is poison at its limit and not before, and no other is
 *   I51  a flow is stored as its history says: state, output, key-values, custom status
 *   I52  a deleted execution does not come back, and none of its messages is processed any more; pruning removes
 *        exactly what was ordered,
 *        and never the current execution
 *   I53  an activity that needs a tag runs only where that tag is offered */
#ifndef SIM_FLOWS_H
#define SIM_FLOWS_H

#include "life.h"

/* Deliberate bugs of this world, for tests of its checkers. */
enum flows_bug {
    FLOWS_FINE,
    FLOWS_CODE_IS_RANDOM,    /* a flow function uses a value that is not recorded */
    FLOWS_RESULT_IS_CHANGED, /* the flow gets another result than the activity returned */
    FLOWS_FACT_IS_TWICE,     /* an event is recorded twice */
    FLOWS_TIMER_IS_EARLY,
    FLOWS_CHILD_LIES,     /* a parent gets another end of its child */
    FLOWS_CANCEL_IS_LOST, /* of a child whose parent has ended */
    FLOWS_POISON_IS_LATE, /* it is handed out once more than it may */
    FLOWS_KEY_IS_LOST,
    FLOWS_DEATH_IS_UNTOLD, /* the flow of a failed activity gets no message */
    FLOWS_DELETED_COMES_BACK,
    FLOWS_DELETED_STAYS,   /* an activity of a deleted flow stays */
    FLOWS_PRUNE_IS_GREEDY, /* it keeps one execution less than ordered */
    FLOWS_TAG_IS_IGNORED,  /* an instance runs an activity whose tag it does not offer */
};

struct flows_life_counts {
    uint64_t flows, histories, events, poison, crashes, changed, resumed; /* changed: it met other code, and failed */
    uint64_t deleted, pruned, tagged;                                     /* executions; executions; activities */
};

bool flows_life_with(const struct life *life, enum flows_bug bug, struct life_counts *counts,
                     struct flows_life_counts *more, struct breach *ret);

#endif
