/* courtesy.h - a guest lets its hosts go first: how long a relay rests between two cycles, with time as an argument.
 *
 * Where others put messages into a box while a backlog is being drained, the store works for both, and a relay that
 * asks again at once leaves them waiting for a processor.  So it rests for three times as long as its last cycle took: while
 * somebody sends, while there is a backlog, and as far as it still drains several times as fast as they send.  Nobody
 * sends, or the backlog hardly shrinks: no rest.
 *
 * How much comes in is known from how many places were drawn between two looks of the store. */
#ifndef POLICY_COURTESY_H
#define POLICY_COURTESY_H

#include <stdbool.h>
#include <stdint.h>

#define COURTESY_LOOK_US INT64_C(20000) /* between two looks at least: in less time chance decides */
#define COURTESY_SENT_MIN 50            /* a second; fewer do not notice us */
#define COURTESY_FASTER 4               /* so many times as fast as others send we drain, rests included */
#define COURTESY_SHARE_MAX 3            /* of a cycle's time: with less, senders are still held up */
#define COURTESY_REST_MAX_US INT64_C(50000)

/* Zeroed: nothing is known yet. */
struct courtesy {
    int64_t drawn;     /* at the latest look ... */
    int64_t looked_us; /* ... which was then */
    int64_t ended;     /* by us since */
    int64_t rested_us; /* since */
    double share;      /* of a cycle's time, for which to rest: 0 to COURTESY_SHARE_MAX */
};

/* What a cycle was like. */
struct courtesy_cycle {
    int64_t took_us;
    int64_t drawn; /* places in the box so far; 0: it did not look */
    int64_t ended; /* messages that need not be read any more */
    bool backlog;  /* there is more to read */
};

/* It is over: how long to rest before the next. */
int64_t courtesy_rest(struct courtesy *c, int64_t now_us, const struct courtesy_cycle *cycle);

#endif
