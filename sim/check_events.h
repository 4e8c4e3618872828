/* The guarantees of an event store, checked from what its writers and readers got, without looking into the store.
 *
 *   I41  versions of a stream are 1, 2, 3 ... in the order of places; none is assigned twice
 *   I42  a place that was reported to a reader never has another event
 *   I43  an event that expected a version got the next one
 *   I44  a projection has each event in its writes once (once more for each time that a person took it back) */
#ifndef SIM_CHECK_EVENTS_H
#define SIM_CHECK_EVENTS_H

#include "checkers.h"

#define EVENT_STREAMS 4
#define EVENT_PLACES_MAX 4096

struct event_checker {
    struct told {
        pr_id id; /* zero: nobody has asked for this place */
        unsigned stream;
        uint64_t version;
    } told[EVENT_PLACES_MAX]; /* by place */
    uint64_t last;            /* the highest place that was reported */
    unsigned written[EVENT_PLACES_MAX];
    uint64_t position; /* of the projection */
    struct breach *breach;
    bool broken;
};

void event_checker_init(struct event_checker *c, struct breach *ret);
/* An event was reported to a reader. */
void event_told(struct event_checker *c, uint64_t place, unsigned stream, uint64_t version, pr_id id);
/* A writer that expected this number of events got this version for its event. */
void event_got(struct event_checker *c, pr_id id, int64_t expected, uint64_t version);
/* The projection has committed its writes for the places in (from, to]. */
void event_projected(struct event_checker *c, uint64_t from, uint64_t to);
/* A person has set the projection's position. */
void event_reset(struct event_checker *c, uint64_t position);
/* At the end: the store has this number of writes for a place. */
void event_written(struct event_checker *c, uint64_t place, unsigned count);
void event_breach(struct event_checker *c, const char *invariant, const char *format, ...) PR_PRINTF(3, 4);

#endif
