/* pull.h - messages that receivers claim: endpoints with `url: pull:`.
 *
 * A box hands messages out to such an endpoint only as far as receivers ask for them (pull_asks()).  A receiver claims
 * them: each has a token, by which the claimer reports how it ended.  A claim that is not ended in time is abandoned:
 * the attempt counts, so that a message which kills its workers ends as poison.
 *
 *    offered --(pull_take)--> claimed --(pull_end, timeout)--> ended --(poll)--> the engine
 *        '----(cancel, no ask any more, the lease ends)---------^
 *
 *   U1  A claim is in exactly one list of its shelf, and only moves under the lock.
 *   U2  A token ends one claim, once.  A second verdict changes nothing, and is answered as stale.
 *   U3  A verdict is answered when it is committed, not before.
 *
 * Threads: the box loop and the transport of each box, and any number of claimers. */
#ifndef TRANSPORT_PULL_H
#define TRANSPORT_PULL_H

#include "core/ask.h"
#include "core/delivery.h"
#include "transport/transport.h"

#define PULL_TOKEN_SIZE 64
#define PULL_BYTES                                                                                                     \
    ((size_t)16 << 20) /* ... and their total size, except for a single larger one: JSON can be six times as long */
#define PULL_MAX 1000  /* messages in one claim, and claims in one verdict */

struct pull;

/* Fault PR_ENOMEM, PR_EIO. */
PR_MUST_CHECK int pull_new(struct pull **ret, struct pr_error *reterr);
void pull_free(struct pull *p); /* when nothing uses it any more; NULL is allowed */

/* ---- The box's side -------------------------------------------------------------------------- */

/* routed: a route of this box leads to the endpoint, so that a claimer need not name it.  tagged: its messages are
 * activities of flows, and a claimer must offer the tag of an activity that has one.  wake_fd (an eventfd) is written
 * when pull_asks() may return more.  Fault PR_ENOMEM. */
PR_MUST_CHECK int pull_attach(struct pull *p, pr_slice endpoint, pr_slice box, bool routed, bool tagged, int wake_fd,
                              struct pr_error *reterr);
/* The box loop with this wake_fd stops: claims are abandoned, and waiting claimers return.  An endpoint that another
 * loop has attached meanwhile stays attached. */
void pull_detach(struct pull *p, pr_slice endpoint, pr_slice box, int wake_fd);
/* Deliveries of this box whose rows others have deleted: their claims end, and are stale. */
void pull_gone(struct pull *p, pr_slice box, const uint64_t *tokens, size_t count);
/* The process stops: waiting claimers return at once. */
void pull_interrupt(struct pull *p);
/* What receivers ask for, and how many messages of each ask may be out: claimed ones, and those that claimers wait for.
 * An ask is remembered for ten minutes. */
struct pull_asks {
    struct ask list[ASKS_MAX];
    char text[ASKS_MAX * ASK_BYTES_MAX]; /* memory of the list */
};
void pull_asks(struct pull *p, pr_slice endpoint, pr_slice box, struct pull_asks *ret);

/* ---- The claimers' side ---------------------------------------------------------------------- */

struct pull_request {
    pr_slice endpoint; /* empty: the only one that a route of this box leads to */
    pr_slice box;
    size_t max;           /* 1 .. PULL_MAX */
    int64_t wait_us;      /* for the first message */
    const pr_slice *tags; /* tags that the claimer offers */
    size_t tag_count;
    pr_slice types; /* types that it accepts, as in struct ask; empty: all.  At most ASK_BYTES_MAX */
    /* Is the claimer gone?  Then it gets nothing, since it could not report the outcome.  NULL: never. */
    bool (*is_gone)(void *arg);
    void *is_gone_arg;
};
/* Borrowed for the length of the call. */
struct pull_claim {
    const char *token;
    int attempt;
    int64_t left_us; /* until it is abandoned */
    pr_slice endpoint, box;
    uint64_t row; /* the store's name for it */
    const struct pr_message *message;
};
/* Called with the lock that all claimers share, so it only copies what it needs.  False: it failed, and the message
 * goes back. */
typedef bool (*pull_visit)(void *arg, const struct pull_claim *claim);

/* Calls visit for each claimed message; there may be none in time.  Fault PR_ENOTFOUND: no such endpoint takes messages
 * of this box; PR_EINVAL: several do, or there are too many different lists of types. */
PR_MUST_CHECK int pull_take(struct pull *p, const struct pull_request *request, pull_visit visit, void *arg,
                            struct pr_error *reterr);

/* Hands back claims whose answer never reached the claimer, uncounted. */
void pull_give_back(struct pull *p, const pr_slice *tokens, size_t count);

enum pull_answer {
    PULL_OK,
    PULL_FAILED, /* its effects could not be stored: the message has failed, and its endpoint's rules decide */
    /* An event expects another version than its stream has: nothing changed, and the message comes again. */
    PULL_CONFLICT,
    PULL_STALE,   /* the claim had ended already, or timed out: nothing changed */
    PULL_UNKNOWN, /* not a token of this process */
    PULL_PENDING, /* it is not committed yet */
};
/* A message that is stored in the transaction of the verdict; it must be checked. */
struct pull_effect {
    pr_slice box;
    struct pr_message message;
};
struct pull_verdict {
    pr_slice token;
    struct delivery_result result; /* without token and effects; handed over */
    const struct pull_effect *effects;
    size_t effect_count;
    enum pull_answer answer; /* set by pull_end() */
};
/* Ends claims, and waits until that is committed, at most wait_us.  Fault PR_ENOMEM: not all were ended; see the
 * answers. */
PR_MUST_CHECK int pull_end(struct pull *p, struct pull_verdict *verdicts, size_t count, int64_t wait_us,
                           struct pr_error *reterr);
/* From now on the claim lasts this long; 0: as long as initially. */
enum pull_answer pull_renew(struct pull *p, pr_slice token, int64_t span_us, int64_t *ret_left_us);

/* ---- The transport's side (pull_transport.c) ---------------------------------------------------- */

struct pull_shelf; /* a box's part of an endpoint */

struct pull_shelf *pull_shelf_find(struct pull *p, pr_slice endpoint, pr_slice box); /* NULL: never attached */
int pull_shelf_fd(const struct pull_shelf *shelf);                                   /* readable: something ended */
/* owner: the transport.  While one is being replaced, two have deliveries on a shelf, each its own.  Returns how many were
 * taken, from the front. */
size_t pull_shelf_offer(struct pull_shelf *shelf, const struct endpoint_config *config, const void *owner,
                        const struct delivery *const *list, size_t count);
void pull_shelf_cancel(struct pull_shelf *shelf, const void *owner); /* what nobody has claimed is returned */
/* What has ended by now; *ret_next_us: when to look again. */
size_t pull_shelf_collect(struct pull_shelf *shelf, const void *owner, struct delivery_result *ret, size_t max,
                          int64_t *ret_next_us);

#endif
