/* The data exchanged between engine and transport: a delivery goes out, its result comes back. */
#ifndef CORE_DELIVERY_H
#define CORE_DELIVERY_H

#include <postrider.h>

#include "core/effect.h"

enum send_outcome {
    SEND_OK,
    SEND_FAILED, /* the message did not arrive */
    /* it may have arrived (answer lost, timeout after sending): counts as a failure, and is recorded as unknown */
    SEND_UNKNOWN,
    SEND_RETURNED,  /* never sent (cancelled, shutting down, lease over): counts nothing */
    SEND_ABANDONED, /* outcome never reported: the attempt counts, but not as a failure */
    SEND_RELEASED,  /* handed back, and it may overtake the failed head of its stream: counts nothing */
    SEND_POSTPONED, /* not now, and the message is not at fault: counts nothing */
    SEND_SETTLED,   /* the receiver has completed it in its own transaction: the store is asked whether it has */
    SEND_UNCERTAIN, /* the same, but the answer to that commit was lost: if it was not committed, nothing is counted */
    SEND_STALE,     /* the receiver found the row changed: the store is asked what is left of it */
    SEND_AGAIN,     /* failed, and is sent again after retry_after_us without asking the rules */
};

/* Why a message in a box of flows is not worked on any more: such a delivery only produces the effects that follow from
 * that. */
struct delivery_dead {
    int cause, reason, limit; /* as in its dead letter */
    int attempts, failures;   /* of the message, including this one */
    pr_slice rule, code, error;
};

/* One message to be sent.  Owned by the caller, borrowed until its result was polled. */
struct delivery {
    const struct pr_message *message;
    uint64_t token;      /* chosen by the caller; returned in the result */
    int attempt;         /* hand-out number, 1 first */
    uint64_t row;        /* the store's name for the row, for receivers that complete it themselves */
    unsigned ask;        /* the ask of its endpoint that it belongs to (core/ask.h) */
    int64_t deadline_us; /* monotonic: fail then with TIMEOUT_EXCEEDED */
    /* monotonic: return it (RETURNED) when it has not started by then, because the lease ends */
    int64_t start_before_us;
    /* Boxes of turns: the next message of the same stream, delivered together with this one.  Only the token of the
     * first one comes back, and its result holds for all.  NULL: the last one. */
    const struct delivery *run_next;
    /* Boxes of turns: the flow does not run.  With the outcome OK the message becomes a dead letter, with the effects
     * of the result.  NULL: run it normally. */
    const struct delivery_dead *dead;
};

/* Something that the handler stores together with its verdict. box and message replace those inside effect. */
struct send_effect {
    struct send_effect *next;
    pr_slice box;
    struct pr_message message;
    /* Zeroed: the message goes into the box.  MAIL with a message without an id: the kept mail is removed. */
    struct effect effect;
};
void effects_append(struct send_effect **list, struct send_effect *more); /* takes ownership of more */
void effects_free(struct send_effect *effects);
/* A copy in one block, with next NULL; NULL: out of memory. */
struct send_effect *send_effect_copy(const struct send_effect *effect);
PR_MUST_CHECK int effects_copy(const struct send_effect *effects,
                               struct send_effect **ret); /* the whole list; PR_ENOMEM */

/* A malloc'ed copy for delivery_result.output, also of an empty one; NULL: out of memory. */
char *output_copy(pr_slice output);

#define RESULT_CODE_SIZE 64
#define RESULT_ERROR_SIZE 2048

struct delivery_result {
    uint64_t token;
    enum send_outcome outcome;
    int reason;                  /* enum pr_reason, when it failed */
    int bits;                    /* status bits reached */
    int64_t retry_after_us;      /* 0: not given */
    bool release_followers;      /* FAILED and retried: its followers may overtake it */
    bool disable;                /* the destination is gone for good (HTTP 410) */
    bool unsent;                 /* FAILED, and no part of it was sent: see reason_fault() */
    char code[RESULT_CODE_SIZE]; /* the broker's own */
    char *error;                 /* error text, malloc'ed, may be NULL; the receiver frees it */
    struct send_effect *effects; /* each is one block for free(), may be NULL; the receiver frees them */
    uint64_t
        blamed; /* FAILED, of a run: the token of the message that is at fault; the others count nothing. 0: all are. */
    /* Activities of flows: what the worker reports. */
    char *output; /* return value, or for FAILED the details.  Malloc'ed, may be NULL; the receiver frees it */
    size_t output_size;
    int category; /* FAILED: enum pr_category; 0: not given */
    bool final;   /* FAILED: do not retry */
    /* What an instance must offer to do it (core/offer.h), where not all do; POSTPONED: this instance does not.
     * Malloc'ed, may be NULL; the receiver frees it. */
    char *need;
    /* For the worker that reported the end: called once, with whether that end was committed (PR_OK), came too late
     * (PR_STALE, PR_UNKNOWN), or was not stored because its effects contradict what is stored (PR_ECONFLICT) or the
     * database refused them (PR_FAILED).  The engine takes it over; code that frees a result which no engine received
     * calls it with PR_STALE. */
    void (*settled)(void *arg, int answer);
    void *settled_arg;
    int settled_as; /* answer this instead of PR_OK, because the outcome became another one than reported; 0: none */
};

#endif
