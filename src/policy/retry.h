/* When to try again: a formula or a table of delays. */
#ifndef POLICY_RETRY_H
#define POLICY_RETRY_H

#include <postrider.h>

#define RETRY_DELAYS_MAX 64
#define RETRY_DELAY_MAX_US (PR_SECONDS(86400) * 365) /* a longer wait is certainly a mistake */

#define RETRY_CONTENT_FAILURES 3 /* tries after refused content: more would change nothing */
/* minimum time between tries of a message that would be dead if there was evidence */
#define RETRY_UNPROVEN_US PR_SECONDS(10)

/* When is a message blamed for its failures? */
enum blame {
    BLAME_ALWAYS, /* dead when its tries are used up, no matter who was at fault */
    /* Failures of the endpoint are not counted, and content gets a few tries; any other message is dead when its tries
     * are used up and its endpoint worked for another message of its type since its previous failure.  Without that it
     * is retried, until give_up_us. */
    BLAME_EVIDENCE,
};

/* delay = base x factor^failures, at most cap; dead when `failures` are reached.  With a table: the n-th failure waits
 * delays[n - 1]; one more is dead.  Jitter only lengthens. */
struct retry_setting {
    int64_t base_us;
    double factor;
    int64_t cap_us;        /* 0: RETRY_DELAY_MAX_US */
    int failures;          /* dead at this failure; 0: never */
    double jitter;         /* 0.1: up to 10 % longer */
    const int64_t *delays; /* borrowed; NULL: the formula */
    size_t delay_count;
    enum blame blame;
    int64_t give_up_us; /* BLAME_EVIDENCE: dead after this time without evidence; 0: never */
};

/* 1 s, doubled, at most 10 min, 10 % jitter; blamed by evidence at the 8th, given up after three days. */
extern const struct retry_setting retry_default;

/* The delay after the failures-th failure (1 is the first), or -1: no more retries.
 * draw is in [0, 1): the jitter's share. */
int64_t retry_delay_us(const struct retry_setting *setting, int failures, double draw);
/* The same without a limit. */
int64_t retry_again_us(const struct retry_setting *setting, int failures, double draw);
/* The minimum time that a message with this many failures has waited: the sum of its delays, without jitter. */
int64_t retry_spent_us(const struct retry_setting *setting, int failures);

#endif
