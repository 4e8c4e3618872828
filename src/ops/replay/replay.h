/* replay.h - many dead letters go back: in steps, not too fast, and a few of them first (B83).
 *
 * It has neither clock nor thread: replay_step() does what is due, and says when it wants to be called again.  A
 * command calls it from its own loop, the daemon from a thread of its own (replays.h).
 *
 * What was replayed is no dead letter any more, so the same replay, started again, goes on where another one ended.  What
 * dies again while it runs is not meant: it would go round for ever. */
#ifndef OPS_REPLAY_REPLAY_H
#define OPS_REPLAY_REPLAY_H

#include "store/store.h"

#define REPLAY_RATE_MAX 1000000 /* in a second */
#define REPLAY_CANARY_MAX 1000
#define REPLAY_CANARY_WAIT_US PR_SECONDS(60)

enum replay_state {
    REPLAY_CANARY, /* the first ones have not gone yet */
    REPLAY_WATCH,  /* they have: have they arrived? */
    REPLAY_REST,   /* all others go */
    REPLAY_DONE,
    REPLAY_FAILED, /* a canary did not arrive: `why`; the others were left where they are, unless it was resumed */
};

struct replay {
    /* Set these: */
    struct admin order;     /* ADMIN_DEAD_REPLAY by filter; what it points to is borrowed as long as this lives */
    uint64_t rate;          /* letters per second at most; 0: as fast as it goes */
    size_t canary;          /* letters that go first, the others only when these have arrived; 0: none */
    int64_t canary_wait_us; /* ... within this time */
    /* And read these: */
    enum replay_state state;
    struct admin_reply sum; /* what happened, also when it ended early */
    char why[PR_ERROR_TEXT_SIZE];
    /* Its own: */
    pr_id *canaries;
    size_t canary_count, canary_passed;
    pr_id *lost; /* canaries that failed before it was resumed */
    size_t lost_count;
    uint64_t canary_row; /* what died since they went has a higher row */
    int64_t watch_end_us;
};

/* "100/s" or "100". */
bool replay_rate_parse(pr_slice text, uint64_t *ret);

/* After the options are set. */
void replay_begin(struct replay *r);
void replay_fini(struct replay *r); /* safe on a zeroed one */

/* Do what is due at now_us of a steady clock.  PR_OK: *ret_next_us is when to call again, unless replay_has_ended().
 * A fault: nothing of this step happened (PR_EUNCERTAIN: it may have), and it can be called again. */
PR_MUST_CHECK int replay_step(struct replay *r, struct store *store, int64_t now_us, int64_t *ret_next_us,
                              struct pr_error *reterr);
bool replay_has_ended(const struct replay *r);
/* Go on from where it stands, also with canaries that failed or were interrupted: others are chosen, and it
 * is done when those that failed have arrived, too. */
void replay_again(struct replay *r);

#endif
