/* rate.h - a number of messages per time: a token bucket, with time as an argument.
 *
 * A token is taken when a message goes out.  Between its choice and then it is pledged: pledged tokens do not refill
 * with time, so that messages that were delayed do not go out together with as many new ones.  The bucket holds the
 * tokens of RATE_BURST_US (one token at least): enough that nobody must be woken for each message, and too few for a
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
    int64_t missing; /* units until it is full: `count` units refill in each microsecond, a token has period_us */
    int64_t at_us;   /* ... at this time */
    uint32_t fills;  /* how often it was full when a token was taken */
};

/* May one more token be pledged? */
bool rate_allows(const struct rate *r, const struct rate_setting *s, size_t pledged, int64_t now_us);
/* Takes a token that was allowed and pledged, even if it is missing because the rate was lowered meanwhile.  The number
 * is for rate_give_back(). */
uint32_t rate_take(struct rate *r, const struct rate_setting *s, int64_t now_us);
/* Returns a token that was taken and not used, unless the bucket was full since: then others have been taken from the
 * overflow. */
void rate_give_back(struct rate *r, const struct rate_setting *s, uint32_t taken);
/* Switches to another setting: the same number of tokens is missing as before. */
void rate_retune(struct rate *r, const struct rate_setting *from, const struct rate_setting *to);
/* When the next token is available, if it is not now. */
int64_t rate_next_us(const struct rate *r, const struct rate_setting *s, size_t pledged);

#endif
