/* watch.h - watchdogs: what looks fine from outside, and is not.  Each is a warning with advice. */
#ifndef OPS_WATCH_WATCH_H
#define OPS_WATCH_WATCH_H

#include "ops/status.h"

/* How many hand-outs without an outcome are near the limit of an endpoint: one before the lowest. */
int watch_near(const struct config *config);

/* When something was sent last, by the totals in the store: an earlier look is needed to know. */
struct watch_past {
    bool known;
    uint64_t total;   /* what endpoints did, ever */
    int64_t since_us; /* it has stood still since then, at least */
};
void watch_see(struct watch_past *past, const struct status *s);

/* Is somebody responsible for a box, and does nothing though there is something to do?  Where an endpoint has a rate that
 * may be as it should, and whether it is only the past tells: without one nothing is said. */
void watch_progress(struct status *s);

/* Streams whose head goes on failing for ten minutes, with the command that frees those behind it. */
void watch_streams(struct status *s, const struct stream_info *streams, size_t count);

/* What the store says about itself: the write lock, the disk, who keeps it from cleaning up. */
void watch_facts(struct status *s, const struct store_facts *facts);

/* Has a message been ready for watch.stuck although its endpoint sends and has nothing to do?  Then nobody has read it. */
void watch_unread(struct status *s, const struct listed *oldest);

/* Adds warnings to s->checks, from what was collected and a few questions more.  What cannot be asked is no
 * warning: the store's own check tells of that. */
void watch_check(struct status *s);

#endif
