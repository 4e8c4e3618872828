/* Turns: a life of its own (life.h).  Instances work a box of turns whose messages go out in runs; each turn appends the numbers
 * of its messages to the history of its flow, guarded by the flow's row.  Cycles fail, get lost after they landed, instances
 * die with what they have out, turns are abandoned, postponed, or made from a row that is not the latest.  In half of the worlds
 * instances have different programs: a turn whose flow one lacks is put back, and is done by the other in the end (I15).
 *
 *   I21  the mail and the executions that a committed turn brings along are there, and no others (turn_extras.h)
 *   I37  each message is in the history of its flow once, and the history is as long as its row says
 *   I38  of a flow an instance has one run out, in the order of its messages; who is suspected is alone */
#ifndef SIM_TURNS_H
#define SIM_TURNS_H

#include "life.h"

/* What is wrong with this world, for tests of its checkers. */
enum turns_bug {
    TURNS_FINE,
    TURNS_RUN_FALLS_APART,   /* verdicts of a run are not joined to the first one's */
    TURNS_GUARD_IS_IGNORED,  /* a turn that was made from an old row is completed all the same */
    TURNS_OUT_TWICE,         /* a run that has its result counts as out */
    TURNS_NEED_IS_FORGOTTEN, /* who puts a turn back does not say which flow it lacks */
    TURNS_MAIL_IS_LOST,      /* what a turn brings along is left out */
    TURNS_EXECUTION_IS_LOST,
};

bool turns_life_with(const struct life *life, enum turns_bug bug, struct life_counts *counts, struct breach *ret);

#endif
