/* listing.h - the functions that listing.c needs for a database: filling it, and naming it in a configuration. */
#ifndef BENCH_LISTING_H
#define BENCH_LISTING_H

#include "bench.h"

/* Waiting messages and dead letters, the same in every database:
 *
 *   of each LISTING_ROUND messages in the outbox
 *     0            failed and waits for its retry; in stream "order-<round>"
 *     1 to 5       are held behind it
 *     10           was delayed by its sender
 *   one in LISTING_RARE is of type, stream, endpoint "rare"; one is parked
 *   half of the dead letters died of the same thing, the others of LISTING_PRINTS different ones; one in
 *   LISTING_RARE is of type and endpoint "rare"
 */
#define LISTING_ROUND 500
#define LISTING_RARE 100000
#define LISTING_PRINTS 900

struct listing_place {
    const char *name; /* before each measurement's */
    const char *url;
    void (*fill)(const struct listing_place *place, size_t messages, size_t dead);
    void (*pause)(const struct listing_place *place); /* the endpoint of all messages */
    void (*remove)(const struct listing_place *place);
    const char *path; /* of a file; or the name of a database */
};

void listing_measure(const struct bench *b, const struct listing_place *place);
/* On the server of POSTRIDER_TEST_PG. */
void listing_postgres(const struct bench *b);

#endif
