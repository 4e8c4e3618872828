/* failing.h - what fails in a box, counted the same way by all stores: they find the rows. */
#ifndef STORE_PEOPLE_FAILING_H
#define STORE_PEOPLE_FAILING_H

#include "store/store.h"

/* One row that failed, was handed out without an outcome, or is parked.  False: enough, look at no more. */
bool failing_add(struct box_failing *f, const struct query *query, int attempts, int failures);
/* Its planned attempt.  Not of a row that is held: what waits in its stream has no time of its own (due_us tells when it was
 * to go). */
void failing_add_due(struct box_failing *f, int64_t due_us);
/* A number of dead letters. */
void failing_add_dead(struct box_failing *f, int reason, int cause, uint64_t count);

#endif
