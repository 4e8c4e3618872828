/* failing.h - counts of failures in a box, the same for all stores, which find the rows. */
#ifndef STORE_PEOPLE_FAILING_H
#define STORE_PEOPLE_FAILING_H

#include "store/store.h"

/* Adds a row that failed, was handed out without an outcome, or is parked.  False: the limit is reached. */
bool failing_add(struct box_failing *f, const struct query *query, int attempts, int failures);
/* Adds its planned attempt.  Not for held rows: they have no time of their own (due_us is when they were due
 * before). */
void failing_add_due(struct box_failing *f, int64_t due_us);
/* Adds a number of dead letters. */
void failing_add_dead(struct box_failing *f, int reason, int cause, uint64_t count);

#endif
