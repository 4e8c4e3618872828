/* bundle.h - several messages in one request, and who is to blame when it is refused as a whole.
 *
 * Pure: it says which messages go into the next request, hears how that ended, and says what became
 * of each message.  One request of a batch is out at a time, in the order of the messages.
 *
 *   G1  Each message gets exactly one end.
 *   G2  A message has failed only when it was alone in a refused request, or in one that met an
 *       outage: nobody fails for the fault of another.
 *   G3  Whoever stands behind a failed message of its stream is not sent any more.
 *   G4  n messages cost at most 2 n - 1 requests; one guilty one costs at most 2 log2(n) + 1. */
#ifndef TRANSPORT_BUNDLE_H
#define TRANSPORT_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUNDLE_MAX 1000     /* messages */
#define BUNDLE_PARTS_MAX 16 /* halves that wait: a batch can be halved ten times */

enum bundle_answer {
    BUNDLE_TAKEN,
    BUNDLE_REFUSED, /* because of something in it: alone nobody else is to blame */
    BUNDLE_DOWN,    /* whatever is in it: each message in it has failed, the others were not asked */
};

enum bundle_end { BUNDLE_WAITS, BUNDLE_DONE, BUNDLE_FAILED, BUNDLE_RETURNED };

struct bundle_part {
    uint16_t first, count;
};

struct bundle {
    size_t count;
    uint64_t streams[BUNDLE_MAX]; /* a hash; 0: no order */
    uint8_t ends[BUNDLE_MAX];     /* enum bundle_end */
    uint16_t judged[BUNDLE_MAX];  /* those with an end, in the order of their ends */
    size_t judged_count, reported_count;
    struct bundle_part left[BUNDLE_PARTS_MAX]; /* to be sent, the next one last */
    size_t left_count;
};

/* streams[i] is the stream of message i; 1 <= count <= BUNDLE_MAX. */
void bundle_init(struct bundle *b, const uint64_t *streams, size_t count);

/* The messages of the next request, in order; the room is for all.  0: no more requests. */
size_t bundle_next(struct bundle *b, uint16_t *ret_places);

/* How the request that bundle_next() named ended. */
void bundle_answer(struct bundle *b, enum bundle_answer answer);

/* This one may not be sent any more (its time is over): neither are those behind it in its stream. */
void bundle_give_back(struct bundle *b, size_t place);
/* No more requests: what waits is returned. */
void bundle_stop(struct bundle *b);

/* Each message once, as soon as it has its end.  False: no news. */
bool bundle_tell(struct bundle *b, size_t *ret_place, enum bundle_end *ret_end);

#endif
