/* The words between engine and transport: a delivery goes out, its result comes back. */
#ifndef CORE_DELIVERY_H
#define CORE_DELIVERY_H

#include <postrider.h>

#include "core/effect.h"

enum send_outcome {
    SEND_OK,
    SEND_FAILED,    /* it did not arrive */
    SEND_UNKNOWN,   /* it may have arrived (answer lost, timeout after sending): counts as a failure, says so */
    SEND_RETURNED,  /* never started (cancelled, shutting down, lease over): counts nothing */
    SEND_ABANDONED, /* nobody says how it ended: the attempt counts, and it is no failure */
    SEND_RELEASED,  /* handed back, and it may overtake the failed head of its stream: counts nothing */
    SEND_POSTPONED, /* not now, and it is not the message's fault: counts nothing */
    SEND_SETTLED, /* its receiver has completed it in a transaction of its own: the store is asked whether that is so */
    SEND_UNCERTAIN, /* the same, but nobody saw the answer to that commit: when it is not so, nothing is counted */
    SEND_STALE,     /* its receiver found the row changed by somebody else: the store is asked what is left of it */
    SEND_AGAIN,     /* it failed, and comes again after retry_after_us: that is settled, and no rule is asked */
};

/* Why a message of a box of flows is not to be worked on any more: the one that gets it only answers what follows. */
struct delivery_dead {
    int cause, reason, limit; /* as in its dead letter */
    int attempts, failures;   /* of the message, with this one */
    pr_slice rule, code, error;
};

/* One message on its way.  Owned by the caller, borrowed until its result was polled. */
struct delivery {
    const struct pr_message *message;
    uint64_t token;          /* the caller's; comes back in the result */
    int attempt;             /* hand-out number, 1 first */
    uint64_t row;            /* the store's name for it, for those who complete it themselves */
    unsigned ask;            /* for which ask of its endpoint it is (core/ask.h) */
    int64_t deadline_us;     /* monotonic: give up then (TIMEOUT_EXCEEDED) */
    int64_t start_before_us; /* monotonic: not to be started after it (the lease ends): RETURNED */
    /* Boxes of turns: the next message of the same stream, which goes out with this one.  Only the first one's token comes
     * back, and its result is that of all.  NULL: it was the last. */
    const struct delivery *run_next;
    const struct delivery_dead
        *dead; /* boxes of turns: nobody runs it any more.  OK: it becomes a dead letter, with the
                                       * effects of the result.  NULL: it is to be worked */
};

/* What the handler wants stored with its verdict; effect's own box and message are those beside it. */
struct send_effect {
    struct send_effect *next;
    pr_slice box;
    struct pr_message message;
    struct effect
        effect; /* zeroed: the message goes into the box.  MAIL with a message without an id: what is kept goes */
};
void effects_append(struct send_effect **list, struct send_effect *more); /* takes them over */
void effects_free(struct send_effect *effects);
/* In a block of its own, next excepted; NULL: no memory. */
struct send_effect *send_effect_copy(const struct send_effect *effect);
PR_MUST_CHECK int effects_copy(const struct send_effect *effects,
                               struct send_effect **ret); /* all of them; PR_ENOMEM */

/* For delivery_result.output: malloc'ed, also of nothing; NULL: no memory. */
char *output_copy(pr_slice output);

#define RESULT_CODE_SIZE 64
#define RESULT_ERROR_SIZE 2048

struct delivery_result {
    uint64_t token;
    enum send_outcome outcome;
    int reason;                  /* enum pr_reason, when it failed */
    int bits;                    /* status bits reached */
    int64_t retry_after_us;      /* 0: none was given */
    bool release_followers;      /* FAILED, and tried again: its followers may overtake it */
    bool disable;                /* the destination says it is gone for good (HTTP 410) */
    bool unsent;                 /* FAILED, and nothing of it went out: see reason_fault() */
    char code[RESULT_CODE_SIZE]; /* the broker's own */
    char *error;                 /* its text, malloc'ed, may be NULL; the receiver frees it */
    struct send_effect *effects; /* one block each (free() each), may be NULL; the receiver frees */
    uint64_t
        blamed; /* FAILED, of a run: the token of the message whose fault it is; the others count nothing.  0: all */
    /* Activities of flows: what the worker reports. */
    char *output; /* what it returned; FAILED: its own words.  Malloc'ed, may be NULL; the receiver frees it */
    size_t output_size;
    int category; /* FAILED: enum pr_category; 0: none was given */
    bool final;   /* FAILED: another try is of no use */
    char *need;   /* what it takes to do it (core/offer.h), where others may lack it; POSTPONED: this instance lacks it.
                     * Malloc'ed, may be NULL; the receiver frees it */
    /* For the worker that reported the end: called once, with whether that is committed (PR_OK), came too late (PR_STALE,
     * PR_UNKNOWN), or was not stored since its effects do not fit what is stored (PR_ECONFLICT) or the database refuses them (PR_FAILED).  The engine takes it over; who frees a result that no engine got tells PR_STALE. */
    void (*settled)(void *arg, int answer);
    void *settled_arg;
    int settled_as; /* what to answer instead of PR_OK: it became another outcome than was said; 0: nothing */
};

#endif
