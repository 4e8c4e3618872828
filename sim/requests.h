/* Requests and replies, judged by what callers are told and by nothing of the store itself.
 *
 *   I45  a caller is told a reply that somebody gave to this request, and the same one until its day is over
 *   I46  a reply is there for a day after it was given, whoever asks, and is removed then, with no more than a batch of others
 *   I47  a request is answered, unless it is said to be dead, discarded or expired
 *
 * A life of callers that forget everything but the ids of their requests; of handlers that reply with the verdict, or by messages
 * from elsewhere, late and more than once; and of instances that crash at every point of a cycle. */
#ifndef SIM_REQUESTS_H
#define SIM_REQUESTS_H

#include "checkers.h"
#include "store/requests.h"

#define REQUESTS_MAX 64
#define ANSWERS_MAX 512

/* Mistakes that the checker must find. */
enum request_bug {
    REQUEST_BUG_NONE,
    REQUEST_BUG_OTHER, /* a second reply takes the place of the first */
    REQUEST_BUG_SHORT, /* a reply is removed before its day is over */
    REQUEST_BUG_LOST,  /* a request is completed, and its reply is not stored */
    REQUEST_BUG_LONG,  /* a reply is never removed */
};

struct request_checker {
    struct {
        unsigned request;
        int64_t at_us;
    } answers[ANSWERS_MAX]; /* by number, 1 first: whom it is for, and when it was given */
    unsigned answer_count;
    unsigned told[REQUESTS_MAX]; /* the number of its answer; 0: none */
    struct breach *breach;
};

void request_checker_init(struct request_checker *c, struct breach *ret);
/* Somebody replies to this request: the number that the reply has. */
unsigned request_answered(struct request_checker *c, unsigned request, int64_t now_us);
/* A caller was told this answer (0: none). */
void request_told(struct request_checker *c, unsigned request, unsigned answer, int64_t now_us);
/* Nothing is on its way any more; ended: it is said that there will be no reply. */
void request_over(struct request_checker *c, unsigned request, bool ended);

struct request_life_counts {
    uint64_t requests, answers, told, crashes, cycles;
    int64_t simulated_us;
    uint64_t hash;
};

/* false: *ret says what is broken. */
bool requests_live(uint64_t seed, bool sqlite, enum request_bug bug, struct request_life_counts *counts,
                   struct breach *ret);

#endif
