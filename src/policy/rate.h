/* rate.h - a number of messages per time: a bucket of tokens, with time as an argument.
 *
 * A token is taken when a message goes out.  Between its choice and then it is pledged: time does not bring back what
 * was not taken yet, so that those that were held up do not go out beside as many new ones.  The bucket holds what comes
 * in within RATE_BURST_US (one token at least): enough that nobody must be woken for each message, and too little for a
 * burst that the other side would notice. */
#ifndef POLICY_RATE_H
#define POLICY_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RATE_BURST_US INT64_C(100000)
#define RATE_COUNT_MAX 1000000
#define RATE_PERIOD_MAX_US INT64_C(86400000000) /* a day */

struct rate_setting {
    int64_t count;     /* 0: no limit */
    int64_t period_us; /* 1 .. RATE_PERIOD_MAX_US */
};

/* Zeroed: full. */
struct rate {
    int64_t missing; /* to be full, in units: count of them come in each microsecond, a token has period_us */
    int64_t at_us;   /* ... at this time */
    uint32_t fills;  /* how often it was full when one was taken */
};

/* May one more be pledged? */
bool rate_allows(const struct rate *r, const struct rate_setting *s, size_t pledged, int64_t now_us);
/* One token that was allowed and pledged; also when it is not there since the rate was lowered meanwhile.  The number is for rate_give_back(). */
uint32_t rate_take(struct rate *r, const struct rate_setting *s, int64_t now_us);
/* One that was taken and not used goes in again: unless the bucket was full since, and others have been taken from
 * what would have run over. */
void rate_give_back(struct rate *r, const struct rate_setting *s, uint32_t taken);
/* Count by another setting: as many tokens are missing as before. */
void rate_retune(struct rate *r, const struct rate_setting *from, const struct rate_setting *to);
/* When the next one is there, when it is not there now; with time standing still before it. */
int64_t rate_next_us(const struct rate *r, const struct rate_setting *s, size_t pledged);

#endif
