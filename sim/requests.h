/* Requests and replies, checked from what callers get, without looking into the store.
 *
 *   I45  a caller gets a reply that was given to this request, and always the same one until its day is over
 *   I46  a reply exists for a day after it was given, however often it is read, and is removed then, with no more than
 *        a batch of others
 *   I47  a request is answered, unless it is reported as dead, discarded or expired
 *
 * A life of callers that forget everything but the ids of their requests; of handlers that reply with the verdict, or
 * by messages from elsewhere, late and more than once; and of instances that crash at every point of a cycle. */
#ifndef SIM_REQUESTS_H
#define SIM_REQUESTS_H

#include "checkers.h"
#include "store/requests.h"

#define REQUESTS_MAX 64
#define ANSWERS_MAX 512

/* Bugs that the checker must find. */
enum request_bug {
    REQUEST_BUG_NONE,
    REQUEST_BUG_OTHER, /* a second reply replaces the first */
    REQUEST_BUG_SHORT, /* a reply is removed before its day is over */
    REQUEST_BUG_LOST,  /* a request is completed, and its reply is not stored */
    REQUEST_BUG_LONG,  /* a reply is never removed */
};

struct request_checker {
    struct {
        unsigned request;
        int64_t at_us;
    } answers[ANSWERS_MAX]; /* by number, starting at 1: the request that it answers, and when it was given */
    unsigned answer_count;
    unsigned told[REQUESTS_MAX]; /* the number of its answer; 0: none */
    struct breach *breach;
};

void request_checker_init(struct request_checker *c, struct breach *ret);
/* A reply to this request: returns its number. */
unsigned request_answered(struct request_checker *c, unsigned request, int64_t now_us);
/* A caller got this answer (0: none). */
void request_told(struct request_checker *c, unsigned request, unsigned answer, int64_t now_us);
/* Nothing is on its way any more; ended: it was reported that there will be no reply. */
void request_over(struct request_checker *c, unsigned request, bool ended);

struct request_life_counts {
    uint64_t requests, answers, told, crashes, cycles;
    int64_t simulated_us;
    uint64_t hash;
};

/* false: *ret describes the breach. */
bool requests_live(uint64_t seed, bool sqlite, enum request_bug bug, struct request_life_counts *counts,
                   struct breach *ret);

#endif
