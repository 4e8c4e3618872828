/* replay.h - replaying many dead letters: in steps, with a rate, and a few of them first (B83).
 *
 * It has neither clock nor thread: replay_step() does what is due, and returns when to call it again.  A command calls
 * it from its own loop, the daemon from a thread of its own (replays.h).
 *
 * Replayed messages are no longer dead letters, so the same replay, started again, continues where another one ended.
 * Letters that die again while it runs are excluded: otherwise they would be replayed endlessly. */
#ifndef OPS_REPLAY_REPLAY_H
#define OPS_REPLAY_REPLAY_H

#include "store/store.h"

#define REPLAY_RATE_MAX 1000000 /* in a second */
#define REPLAY_CANARY_MAX 1000
#define REPLAY_CANARY_WAIT_US PR_SECONDS(60)

enum replay_state {
    REPLAY_CANARY, /* the canaries were not replayed yet */
    REPLAY_WATCH,  /* they were: are they delivered? */
    REPLAY_REST,   /* all others are replayed */
    REPLAY_DONE,
    REPLAY_FAILED, /* a canary was not delivered: `why`; the others were not replayed, unless it was resumed */
};

struct replay {
    /* Input: */
    struct admin order;     /* ADMIN_DEAD_REPLAY by filter; its pointers are borrowed as long as this lives */
    uint64_t rate;          /* maximum letters per second; 0: unlimited */
    size_t canary;          /* letters that are replayed first, the others only when these are delivered; 0: none */
    int64_t canary_wait_us; /* ... within this time */
    /* Output: */
    enum replay_state state;
    struct admin_reply sum; /* what happened, even if it ended early */
    char why[PR_ERROR_TEXT_SIZE];
    /* Private: */
    pr_id *canaries;
    size_t canary_count, canary_passed;
    pr_id *lost; /* canaries that failed before it was resumed */
    size_t lost_count;
    uint64_t canary_row; /* letters that died since then have a higher row */
    int64_t watch_end_us;
};

/* "100/s" or "100". */
bool replay_rate_parse(pr_slice text, uint64_t *ret);

/* After the input is set. */
void replay_begin(struct replay *r);
void replay_fini(struct replay *r); /* safe on a zeroed one */

/* Does what is due at now_us of a monotonic clock.  PR_OK: *ret_next_us is when to call again, unless
 * replay_has_ended().  A fault: nothing of this step happened (PR_EUNCERTAIN: it may have), and it can be called
 * again. */
PR_MUST_CHECK int replay_step(struct replay *r, struct store *store, int64_t now_us, int64_t *ret_next_us,
                              struct pr_error *reterr);
bool replay_has_ended(const struct replay *r);
/* Continues where it stopped, also with canaries that failed or were interrupted: others are chosen, and it is complete
 * when those that failed are delivered, too. */
void replay_again(struct replay *r);

#endif
