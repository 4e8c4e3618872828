/* schedule_why.h - what a schedule is doing, in the place of what is said of an ordinary message. */
#ifndef OPS_EXPLAIN_SCHEDULE_WHY_H
#define OPS_EXPLAIN_SCHEDULE_WHY_H

#include "ops/explain/message_why.h"

/* Sets now, next, next_us and the commands; workers: live instances of its box.  false: it is no schedule in a box. */
bool schedule_why_make(struct message_why *o, uint64_t workers);

#endif
