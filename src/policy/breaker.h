/* The breaker of an endpoint or of one message type there: when several sends fail in a row, or too large a share of
 * recent sends, it opens, nothing is sent for a while, then one probe goes out.  Pure. */
#ifndef POLICY_BREAKER_H
#define POLICY_BREAKER_H

#include <postrider.h>

#define BREAKER_AFTER_MAX 64
#define BREAKER_SLICES 10 /* steps in which the window moves forward */

struct breaker_setting {
    bool enabled;
    int after;       /* failures in a row, 1..BREAKER_AFTER_MAX */
    int64_t open_us; /* open time at first; doubled each time a probe fails */
    int64_t cap_us;
    /* answers count for each message type, and failures to send for the endpoint; else everything counts for the
     * endpoint */
    bool per_type;
    double share; /* > 0: opens at this share of transient failures in the window, instead of `after` */
    int64_t window_us;
    int least; /* minimum number of sends in the window before the share counts */
};

extern const struct breaker_setting breaker_default; /* 5 failures, 5 s, at most 5 min, answers per type */

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
    enum breaker_state state;
    int run;                            /* failures in a row */
    uint64_t failed[BREAKER_AFTER_MAX]; /* their messages */
    int opened;                         /* how often it opened in a row, for the growing open time */
    int64_t until_us;                   /* OPEN: when the probe may go */
    uint64_t probe;                     /* HALF_OPEN: the message that is out; 0: none */
    uint64_t last_probe;                /* the next probe is another message, if there is one */
    int64_t slice;                      /* the window: number of the newest slice, */
    unsigned sent[BREAKER_SLICES];      /* ... sends that ended in each slice, */
    unsigned bad[BREAKER_SLICES];       /* ... and those that failed for transient reasons */
};

/* May a message be sent now?  Moves OPEN to HALF_OPEN when its time has come. */
bool breaker_allows(struct breaker *b, const struct breaker_setting *s, int64_t now_us);
/* The message is being sent: in HALF_OPEN it is the probe. */
void breaker_started(struct breaker *b, uint64_t message);
enum breaker_weight {
    WEIGHS_NOTHING, /* the other side is there: the failure is the message's own */
    WEIGHS_ONCE,    /* repeated failures of one message count once, since the count of its retries ends them */
    WEIGHS_ALWAYS,  /* every failure counts, no matter who is at fault */
};

/* A send failed.  true: the failure is the breaker's and not the message's (hand back, uncounted).  retry_after_us > 0
 * lengthens the open time. */
bool breaker_failed(struct breaker *b, const struct breaker_setting *s, uint64_t message, enum breaker_weight weight,
                    int64_t retry_after_us, int64_t now_us);
void breaker_succeeded(struct breaker *b, const struct breaker_setting *s, uint64_t message, int64_t now_us);
/* The probe came back without an outcome (stopped, lease lost). */
void breaker_returned(struct breaker *b, uint64_t message);
/* When the state may change by itself; PR_NEVER: never. */
int64_t breaker_next_us(const struct breaker *b);
/* Nothing is remembered: a new breaker would behave the same. */
bool breaker_is_fresh(const struct breaker *b);

/* How long messages wait that met a failure of the endpoint as a whole: as long as a breaker would be open, growing in
 * the same way, even without a breaker.  Messages that fail while others wait come back with them: a round.  Zeroed:
 * all is well, and so it is when the endpoint has answered. */
struct setback {
    int rounds;
    int64_t until_us; /* end of the latest wait */
};

/* Another message has met such a failure: returns how long it waits. */
int64_t setback_failed(struct setback *b, const struct breaker_setting *s, int64_t now_us);

#endif
