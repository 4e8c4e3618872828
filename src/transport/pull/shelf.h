/* shelf.h - the parts of pull.h between its files: what one box has for one endpoint, its claims, and who asks for them.  All of
 * it under the lock of the pull (U1). */
#ifndef TRANSPORT_PULL_SHELF_H
#define TRANSPORT_PULL_SHELF_H

#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "base/time.h"
#include "transport/pull/pull.h"

/* Those who ask for little and often find what came meanwhile; then it goes back, and others may have it. */
#define OFFER_US PR_MILLISECONDS(100)

struct open_claim {
    struct list_node node;     /* offered, claimed or ended of its shelf */
    struct map_node by_number; /* while it is claimed */
    struct pull_shelf *shelf;
    const void *owner;               /* the transport that has it */
    const struct delivery *delivery; /* until it has ended */
    uint64_t number, secret;
    int64_t span_us, expires_us;
    char *tag;                     /* what its claimer must offer; NULL: nothing */
    unsigned ask;                  /* for whom it was handed out: shelf.asks */
    struct delivery_result result; /* when it has ended */
};

/* Claimers that ask for the same types. */
struct shelf_ask {
    char *types; /* as in struct ask; NULL: all */
    bool present;
    size_t demand;           /* messages that they wait for */
    size_t waiting;          /* ... and how many they are */
    size_t offered, claimed; /* of what was handed out for them */
    int64_t asked_us;        /* the last time */
};

struct pull_shelf {
    struct list_node node;
    struct pull *pull;
    char *endpoint, *box;
    bool attached, routed, tagged;
    int wake_fd;                     /* the box loop's */
    int ended_fd;                    /* the transport's */
    struct shelf_ask asks[ASKS_MAX]; /* the first one is for all types */
    struct list claimers;            /* struct claimer: who waits */
    struct list offered, claimed, ended;
    int64_t surplus_us;  /* since when more is offered than asked for; 0: it is not */
    int64_t expiring_us; /* no claim ends before by itself */
};

struct pull {
    pthread_mutex_t lock; /* over all of it */
    pthread_cond_t moved; /* something was offered, answered, or detached */
    bool stopping;        /* nobody waits any more */
    struct list shelves;  /* never freed before the end: a box that stops may start again */
    struct map claims;    /* by number */
    uint64_t tag;         /* of this process, in its tokens */
    uint64_t last_number;
};

/* Whoever waits for something to claim. */
struct claimer {
    struct list_node node;
    const struct pull_request *request;
    struct shelf_ask *ask;
};

int64_t pull_now_us(void);
void pull_lock(struct pull *p);
void pull_unlock(struct pull *p);
void pull_wait(struct pull *p, int64_t until_us); /* with the lock; at most until then */
void pull_ring(int fd);

/* ---- A shelf (shelf.c) ---- */

struct pull_shelf *shelf_of(const struct pull *p, pr_slice endpoint, pr_slice box); /* NULL: never attached */
struct pull_shelf *shelf_new(struct pull *p, pr_slice endpoint, pr_slice box);      /* NULL: no memory */
void shelf_free(struct pull_shelf *s);
void shelf_return_all(struct pull_shelf *s, const void *owner); /* what is offered; owner NULL: whoever has it */
/* Who waits has changed: what none of them offers must not take the room of what they could have. */
void shelf_postpone_unwanted(struct pull_shelf *s);
bool shelf_has_surplus(const struct pull_shelf *s); /* more is offered than asked for */

/* ---- A claim (claim.c) ---- */

struct open_claim *claim_new(struct pull_shelf *s, const struct endpoint_config *config,
                             const struct delivery *delivery); /* NULL: no memory */
void claim_free(struct open_claim *c);
/* False: no memory or no randomness, and it is returned. */
bool claim_begin(struct pull_shelf *s, struct open_claim *c, int64_t now);
void claim_hold_for(struct open_claim *c, int64_t now, int64_t span_us); /* it expires then */
void claim_token(const struct open_claim *c, char text[PULL_TOKEN_SIZE]);
/* The claim of a token; NULL: *ret_answer says what is wrong with it. */
struct open_claim *claim_of(const struct pull *p, pr_slice token, enum pull_answer *ret_answer);
/* It goes from this list to those that have ended; its result is set. */
void claim_end(struct open_claim *c, struct list *list);
void claim_return(struct open_claim *c, struct list *list);
void claim_abandon(struct open_claim *c, const char *why);
void claim_postpone(struct open_claim *c); /* it makes room for others, and comes again */

/* ---- Who asks (asks.c, take.c) ---- */

/* Where these types are asked for; NULL: the fault says why. */
struct shelf_ask *ask_for(struct pull_shelf *s, pr_slice types, struct pr_error *reterr);
bool request_offers(const struct pull_request *r, const char *tag); /* what a message needs; NULL: nothing */

#endif
