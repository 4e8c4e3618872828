/* watch.h - watchdogs: what looks fine from outside, and is not.  Each is a warning with advice. */
#ifndef OPS_WATCH_H
#define OPS_WATCH_H

#include "ops/status.h"

/* How many hand-outs without an outcome are near the limit of an endpoint: one before the lowest. */
int watch_near(const struct config *config);

/* Adds warnings to s->checks, from what was collected and a few questions more.  What cannot be asked is no
 * warning: the store's own check tells of that. */
void watch_check(struct status *s);

#endif
