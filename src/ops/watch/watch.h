/* watch.h - watchdogs: problems that are not visible from outside.  Each is a warning with advice. */
#ifndef OPS_WATCH_WATCH_H
#define OPS_WATCH_WATCH_H

#include "ops/status.h"

/* How many hand-outs without an outcome are close to the limit of an endpoint: one less than the lowest limit. */
int watch_near(const struct config *config);

/* Earlier looks at the totals in the store: they show when something was last sent. */
#define WATCH_SUBSCRIPTIONS_MAX 32 /* with remembered positions */
struct watch_past {
    bool known;
    uint64_t total;   /* totals of endpoints */
    int64_t since_us; /* no change since then, at least */
    struct subscription_past {
        uint64_t name; /* hash of the name */
        uint64_t position;
        int64_t since_us;
    } subscriptions[WATCH_SUBSCRIPTIONS_MAX];
    size_t subscription_count;
};
void watch_see(struct watch_past *past, const struct status *s);

/* Does an instance have the lease of a box, and do nothing though there is work?  If an endpoint has a rate that may be
 * normal, and only earlier looks can show it: without any nothing is reported. */
void watch_progress(struct status *s);

bool subscription_is_held(const struct subscription_info *n, int64_t now_us);
/* A subscription that does not move while an event, stored at first_us, has waited after its position for longer than
 * watch.stuck.  If it has a holder, that may be busy with a long batch or a rebuild: then only earlier looks can
 * show it, and without any nothing is reported. */
void watch_subscription(struct status *s, const struct subscription_info *n, int64_t first_us);

/* Streams with something behind a head that is dead, parked, or has been failing for ten minutes, with the command that frees
 * those behind it. */
void watch_streams(struct status *s, const struct stream_info *streams, size_t count);

/* What the store says about itself: the write lock, the disk, who keeps it from cleaning up. */
void watch_facts(struct status *s, const struct store_facts *facts);

/* Has a message been ready for watch.stuck although its endpoint sends and has nothing to do?  Then nobody has read it. */
void watch_unread(struct status *s, const struct listed *oldest);

/* Schedules that cannot run, SCHEDULES_NAMED_MAX at most: their time zone is not known where they should. */
#define SCHEDULES_NAMED_MAX 10
PR_MUST_CHECK int watch_failing_schedules(struct store *store, struct arena *arena, struct query_reply *ret,
                                          struct pr_error *reterr);

/* Adds warnings to s->checks, from what was collected and a few questions more.  What cannot be asked is no
 * warning: the store's own check reports that. */
void watch_check(struct status *s);

#endif
