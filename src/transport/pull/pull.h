/* pull.h - messages that their receiver comes for: endpoints with `url: pull:`.
 *
 * A box hands messages out to such an endpoint only as far as somebody asks for them (pull_asks()).  Whoever asks claims
 * them: each has a token, by which its claimer says how it ended.  A claim that nobody ends in time is abandoned: the
 * attempt counts, so that a message which kills its workers ends as poison.
 *
 *    offered --(pull_take)--> claimed --(pull_end, time is over)--> ended --(poll)--> the engine
 *        '----(cancel, nobody asks any more, the lease ends)---------^
 *
 *   U1  A claim is in exactly one list of its shelf, and only moves under the lock.
 *   U2  A token ends one claim, once.  One that has ended changes nothing, and its owner hears so.
 *   U3  What is ended is answered when it is committed, not before.
 *
 * Threads: the box loop and the transport of each box, and any number of claimers. */
#ifndef TRANSPORT_PULL_H
#define TRANSPORT_PULL_H

#include "core/ask.h"
#include "core/delivery.h"
#include "transport/transport.h"

#define PULL_TOKEN_SIZE 64
#define PULL_BYTES                                                                                                     \
    ((size_t)16 << 20) /* ... and their bytes, unless one alone has more: JSON can be six times as long */
#define PULL_MAX 1000  /* messages in one claim, and claims in one verdict */

struct pull;

/* Fault PR_ENOMEM, PR_EIO. */
PR_MUST_CHECK int pull_new(struct pull **ret, struct pr_error *reterr);
void pull_free(struct pull *p); /* nobody uses it any more; NULL is fine */

/* ---- The box's side -------------------------------------------------------------------------- */

/* routed: a route of this box leads there, so that a claimer need not name it.  tagged: they are activities of flows, and who claims one
 * that has a tag must offer it.  wake_fd (an eventfd) is written when
 * pull_asks() may tell of more.  Fault PR_ENOMEM. */
PR_MUST_CHECK int pull_attach(struct pull *p, pr_slice endpoint, pr_slice box, bool routed, bool tagged, int wake_fd,
                              struct pr_error *reterr);
/* The box loop with this wake_fd stops: what is claimed is abandoned, and nobody waits here any more.  One that another loop
 * has attached meanwhile stays. */
void pull_detach(struct pull *p, pr_slice endpoint, pr_slice box, int wake_fd);
/* Deliveries of this box whose rows others have deleted: their claims have ended, and are stale. */
void pull_gone(struct pull *p, pr_slice box, const uint64_t *tokens, size_t count);
/* The process stops: whoever waits goes on at once. */
void pull_interrupt(struct pull *p);
/* Who asks for what, and how many of it may be out: what is claimed, and what claimers wait for.  Those who have asked are known
 * for ten minutes. */
struct pull_asks {
    struct ask list[ASKS_MAX];
    char text[ASKS_MAX * ASK_BYTES_MAX]; /* of the list */
};
void pull_asks(struct pull *p, pr_slice endpoint, pr_slice box, struct pull_asks *ret);

/* ---- The claimers' side ---------------------------------------------------------------------- */

struct pull_request {
    pr_slice endpoint; /* empty: the only one that a route of this box leads to */
    pr_slice box;
    size_t max;           /* 1 .. PULL_MAX */
    int64_t wait_us;      /* for the first message */
    const pr_slice *tags; /* what the claimer offers */
    size_t tag_count;
    pr_slice types; /* which it takes, as in struct ask; empty: all.  At most ASK_BYTES_MAX */
    /* Has whoever asked gone?  Then it gets nothing: it could not say what became of it.  NULL: it cannot go. */
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
/* Called with the lock that all claimers share: it only copies what it needs.  False: it cannot, and the message goes back. */
typedef bool (*pull_visit)(void *arg, const struct pull_claim *claim);

/* Calls visit for each message that is claimed; none may come in time.  Fault PR_ENOTFOUND: no such endpoint takes messages
 * of this box; PR_EINVAL: several do, or others ask it for too many lists of types. */
PR_MUST_CHECK int pull_take(struct pull *p, const struct pull_request *request, pull_visit visit, void *arg,
                            struct pr_error *reterr);

/* Claims that never reached who asked for them go back, and count nothing. */
void pull_give_back(struct pull *p, const pr_slice *tokens, size_t count);

enum pull_answer {
    PULL_OK,
    PULL_FAILED, /* its effects could not be stored: it has failed, and its endpoint's rules say what follows */
    PULL_CONFLICT, /* an event expects another version than its stream has: nothing changed, and the message comes again */
    PULL_STALE,    /* the claim had ended already, or its time was over: nothing changed */
    PULL_UNKNOWN, /* no token of this process */
    PULL_PENDING, /* it is not committed yet */
};
/* A message that is stored in the transaction of the verdict; it was checked. */
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
/* Ends claims, and waits until that is committed, wait_us at most.  Fault PR_ENOMEM: not all were ended; answers tell. */
PR_MUST_CHECK int pull_end(struct pull *p, struct pull_verdict *verdicts, size_t count, int64_t wait_us,
                           struct pr_error *reterr);
/* The claim has this long from now on; 0: as long as at first. */
enum pull_answer pull_renew(struct pull *p, pr_slice token, int64_t span_us, int64_t *ret_left_us);

/* ---- The transport's side (pull_transport.c) ---------------------------------------------------- */

struct pull_shelf; /* what one box has for one endpoint */

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
