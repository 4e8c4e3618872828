/* feed.h - what happens right now, for listeners.
 *
 * One ring for all: a listener that falls behind by more than FEED_MAX happenings has missed some, and is informed
 * about that; writers never wait.  Without listeners nothing is written, and no memory is used.  The truth is in the
 * store; this is for watching.
 *
 * Threads: all functions but new and free may be called from any. */
#ifndef RUNTIME_FEED_H
#define RUNTIME_FEED_H

#include <postrider.h>

#define FEED_MAX 1024

enum happening_kind {
    HAPPENING_SENT,
    HAPPENING_FAILED,
    HAPPENING_DEAD,
    HAPPENING_PARKED,
    HAPPENING_DISCARDED,
    HAPPENING_EXPIRED,
    HAPPENING_DUPLICATE,
    HAPPENING_CHANGED,  /* a person did something: see `error` */
    HAPPENING_ENDPOINT, /* its breaker opened or closed: see `error` */
};
const char *happening_name(enum happening_kind kind);

struct happening {
    uint64_t number; /* set by feed_put() */
    enum happening_kind kind;
    int64_t at_us, next_us; /* store time; next: the next attempt, 0: none by itself */
    pr_id id;               /* zero: not about a message */
    int attempt, reason;
    char box[64], endpoint[64], rule[64], error[256]; /* cut when longer */
};

struct feed;

struct feed *feed_new(void); /* NULL: no memory */
void feed_free(struct feed *feed);

bool feed_is_heard(const struct feed *feed);
void feed_put(struct feed *feed, const struct happening *what);
void happening_text(char *ret, size_t size, pr_slice text); /* cuts at a character */

/* Adds a listener; *ret_next is its cursor.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int feed_join(struct feed *feed, uint64_t *ret_next);
void feed_leave(struct feed *feed);
/* Returns new happenings, up to max; waits for the first at most timeout_us.  PR_OK; PR_TIMEOUT: none; PR_STALE: some
 * were missed (the cursor is at the end now). */
PR_MUST_CHECK int feed_read(struct feed *feed, uint64_t *next, struct happening *ret, size_t max, size_t *ret_count,
                            int64_t timeout_us);
/* Wakes all waiting listeners: they get PR_TIMEOUT. */
void feed_shake(struct feed *feed);

#endif
