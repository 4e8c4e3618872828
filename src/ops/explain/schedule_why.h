/* schedule_why.h - what a schedule is doing, instead of the sentences for an ordinary message. */
#ifndef OPS_EXPLAIN_SCHEDULE_WHY_H
#define OPS_EXPLAIN_SCHEDULE_WHY_H

#include "ops/explain/message_why.h"

/* Sets now, next, next_us and the commands; workers: live instances of its box.  false: it is not a schedule in a
 * box. */
bool schedule_why_make(struct message_why *o, uint64_t workers);

#endif
