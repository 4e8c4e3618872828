/* When to try again: a formula or a table of delays. */
#ifndef POLICY_RETRY_H
#define POLICY_RETRY_H

#include <postrider.h>

#define RETRY_DELAYS_MAX 64
#define RETRY_DELAY_MAX_US (PR_SECONDS(86400) * 365) /* a longer wait is a mistake */

/* delay = base x factor^failures, at most cap; dead when `failures` are reached.  With a
 * table: the n-th failure waits delays[n - 1]; one more is dead.  Jitter only lengthens. */
struct retry_setting {
    int64_t base_us;
    double factor;
    int64_t cap_us;        /* 0: RETRY_DELAY_MAX_US */
    int failures;          /* dead at this one; 0: never */
    double jitter;         /* 0.1: up to 10 % longer */
    const int64_t *delays; /* borrowed; NULL: the formula */
    size_t delay_count;
};

/* 1 s, doubled, at most 5 min, 10 % jitter, dead at the 5th. */
extern const struct retry_setting retry_default;

/* The delay after the failures-th failure (1 is the first), or -1: no more retries.
 * draw is in [0, 1): the jitter's share. */
int64_t retry_delay_us(const struct retry_setting *setting, int failures, double draw);

#endif
