/* The breaker of an endpoint or of one message type of it: when several sends fail in a row, or too
 * large a share of what was sent lately, it opens, nothing is sent for a while, then one probe goes
 * out.  Pure. */
#ifndef POLICY_BREAKER_H
#define POLICY_BREAKER_H

#include <postrider.h>

#define BREAKER_AFTER_MAX 64
#define BREAKER_SLICES 10 /* steps in which the window moves */

struct breaker_setting {
    bool enabled;
    int after;       /* failures in a row, 1..BREAKER_AFTER_MAX */
    int64_t open_us; /* how long the first time; doubled each time a probe fails */
    int64_t cap_us;
    bool
        per_type; /* answers count for each message type, what was not sent for the endpoint; else all for the endpoint */
    double share; /* > 0: opens at this share of transient failures in the window, instead of `after` */
    int64_t window_us;
    int least; /* sends in the window before the share counts */
};

extern const struct breaker_setting breaker_default; /* 5 failures, 5 s, at most 5 min, answers per type */

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
    enum breaker_state state;
    int run;                            /* failures in a row */
    uint64_t failed[BREAKER_AFTER_MAX]; /* whose */
    int opened;                         /* times in a row, for the growing open time */
    int64_t until_us;                   /* OPEN: when the probe may go */
    uint64_t probe;                     /* HALF_OPEN: the message that is out; 0: none yet */
    uint64_t last_probe;                /* the next probe is another message, where there is one */
    int64_t slice;                      /* the window: number of the newest slice, */
    unsigned sent[BREAKER_SLICES];      /* ... what ended in each, */
    unsigned bad[BREAKER_SLICES];       /* ... and failed for transient reasons */
};

/* May this message be sent now?  Moves OPEN to HALF_OPEN when its time has come. */
bool breaker_allows(struct breaker *b, const struct breaker_setting *s, int64_t now_us);
/* It is being sent: in HALF_OPEN it is the probe. */
void breaker_started(struct breaker *b, uint64_t message);
enum breaker_weight {
    WEIGHS_NOTHING, /* the other side is there: the failure is the message's own */
    WEIGHS_ONCE,    /* a message that fails again and again counts once: its retries are counted, and end */
    WEIGHS_ALWAYS,  /* every failure counts, whoever's */
};

/* How it ended.  true: it is the breaker's failure and not the message's (hand back, uncounted).
 * retry_after_us > 0 lengthens the open time. */
bool breaker_failed(struct breaker *b, const struct breaker_setting *s, uint64_t message, enum breaker_weight weight,
                    int64_t retry_after_us, int64_t now_us);
void breaker_succeeded(struct breaker *b, const struct breaker_setting *s, uint64_t message, int64_t now_us);
/* The probe came back without an outcome (stopped, lease lost). */
void breaker_returned(struct breaker *b, uint64_t message);
/* When it may change by itself; PR_NEVER: not. */
int64_t breaker_next_us(const struct breaker *b);
/* Nothing is to be remembered of it: a new one would behave the same. */
bool breaker_is_fresh(const struct breaker *b);

/* How long the endpoint's own faults put off the messages that met them: as long as a breaker would be open, and it
 * grows in the same way, also where there is none.  What fails while others are put off comes back with them: a round.
 * Zeroed: all is well, and so it is when the endpoint has answered. */
struct setback {
    int rounds;
    int64_t until_us; /* of the latest */
};

/* Another message has met such a fault: how long it waits. */
int64_t setback_failed(struct setback *b, const struct breaker_setting *s, int64_t now_us);

#endif
