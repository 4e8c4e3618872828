/* bundle.h - several messages in one request, and finding the guilty one when it is refused as a whole.
 *
 * Pure: it chooses the messages of the next request, takes the request's outcome, and returns the outcome of each
 * message.  One request of a batch is out at a time, in the order of the messages.
 *
 *   G1  Each message gets exactly one end.
 *   G2  A message fails only when it was alone in a refused request, or in one that met an
 *       outage: no message fails because of another.
 *   G3  Messages behind a failed one of their stream are not sent any more.
 *   G4  n messages cost at most 2 n - 1 requests; one guilty one costs at most 2 log2(n) + 1. */
#ifndef TRANSPORT_BUNDLE_H
#define TRANSPORT_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUNDLE_MAX 1000     /* messages */
#define BUNDLE_PARTS_MAX 16 /* waiting halves: a batch can be halved ten times */

enum bundle_answer {
    BUNDLE_TAKEN,
    BUNDLE_REFUSED, /* because of a message in it: if it is alone, that one is to blame */
    BUNDLE_DOWN,    /* regardless of the messages: each in this request has failed, the others were not sent */
};

enum bundle_end { BUNDLE_WAITS, BUNDLE_DONE, BUNDLE_FAILED, BUNDLE_RETURNED };

struct bundle_part {
    uint16_t first, count;
};

struct bundle {
    size_t count;
    uint64_t streams[BUNDLE_MAX]; /* a hash; 0: no order */
    uint8_t ends[BUNDLE_MAX];     /* enum bundle_end */
    uint16_t judged[BUNDLE_MAX];  /* messages with an end, in the order of their ends */
    size_t judged_count, reported_count;
    struct bundle_part left[BUNDLE_PARTS_MAX]; /* to be sent, the next one last */
    size_t left_count;
};

/* streams[i] is the stream of message i; 1 <= count <= BUNDLE_MAX. */
void bundle_init(struct bundle *b, const uint64_t *streams, size_t count);

/* The messages of the next request, in order; there must be room for all.  0: no more requests. */
size_t bundle_next(struct bundle *b, uint16_t *ret_places);

/* The outcome of the request that bundle_next() returned. */
void bundle_answer(struct bundle *b, enum bundle_answer answer);

/* This message may not be sent any more (its time is over), nor may those behind it in its stream. */
void bundle_give_back(struct bundle *b, size_t place);
/* No more requests: waiting messages are returned. */
void bundle_stop(struct bundle *b);

/* Returns each message once, as soon as it has its end.  False: none. */
bool bundle_tell(struct bundle *b, size_t *ret_place, enum bundle_end *ret_end);

#endif
