/* failing.h - what fails in a box, counted the same way by all stores: they find the rows. */
#ifndef STORE_FAILING_H
#define STORE_FAILING_H

#include "store/store.h"

/* One row that failed, was handed out without an outcome, or is parked.  False: enough, look at no more. */
bool failing_add(struct box_failing *f, const struct query *query, int attempts, int failures, int64_t due_us);
/* So many dead letters. */
void failing_add_dead(struct box_failing *f, int reason, int cause, uint64_t count);

#endif
