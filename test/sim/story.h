/* Stories: histories that a test writes, event by event, of a world in which nothing happens by itself.  The checkers
 * must accept a good one, and refuse one with a mistake in it. */
#ifndef TEST_SIM_STORY_H
#define TEST_SIM_STORY_H

#include "check.h"
#include "checkers.h"

#define NOBODY .instance = INSTANCE_NONE

/* One message in the box of a world in which nothing happens by itself. */
struct story {
    struct world w;
    struct scenario scenario;
    uint32_t first, second; /* of one stream, in this order */
};

void story_begin(struct story *s, enum ordering ordering);
void tell(struct story *s, struct event event);
void joins(struct story *s, uint16_t session);
void cycle(struct story *s, uint16_t session, int number, uint64_t lanes);
void handed_out(struct story *s, uint16_t session, uint32_t message, int number, int receipt);
void started(struct story *s, uint16_t session, uint32_t message, int number);
void arrived(struct story *s, uint16_t session, uint32_t message, int number);
void answered(struct story *s, uint16_t session, uint32_t message, int number, enum send_outcome outcome);
void judged(struct story *s, uint16_t session, uint32_t message, int number, enum verdict_kind kind, int64_t delay_us);
void read_with(struct story *s, uint16_t session, uint32_t message, int attempts, int failures, int lost);
void crashed(struct story *s, uint16_t session);
void closed(struct story *s, uint16_t session, int receipt);
void delivered(struct story *s, uint16_t session, uint32_t message, int number);
void story_ends(struct story *s, const char *invariant, const char *text);
void the_end(struct story *s);

#endif
