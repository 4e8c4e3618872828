/* shelf.h - the parts of pull.h that its files share: a box's part of an endpoint, its claims, and the asks for them.
 * All of it under the lock of the pull (U1). */
#ifndef TRANSPORT_PULL_SHELF_H
#define TRANSPORT_PULL_SHELF_H

#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "base/time.h"
#include "transport/pull/pull.h"

/* Messages wait this long for a claimer that asks for a few at short intervals; then they go back, so that others may
 * have them. */
#define OFFER_US PR_MILLISECONDS(100)

struct open_claim {
    struct list_node node;     /* in the list offered, claimed or ended of its shelf */
    struct map_node by_number; /* while it is claimed */
    struct pull_shelf *shelf;
    const void *owner;               /* the transport that submitted it */
    const struct delivery *delivery; /* until it has ended */
    uint64_t number, secret;
    int64_t span_us, expires_us;
    char *tag;                     /* the tag that its claimer must offer; NULL: none */
    unsigned ask;                  /* the ask that it was handed out for: index in shelf.asks */
    struct delivery_result result; /* when it has ended */
};

/* Claimers that ask for the same types. */
struct shelf_ask {
    char *types; /* as in struct ask; NULL: all */
    bool present;
    size_t demand;           /* messages that they wait for */
    size_t waiting;          /* ... and the number of these claimers */
    size_t offered, claimed; /* of the messages that were handed out for them */
    int64_t asked_us;        /* the last time */
};

struct pull_shelf {
    struct list_node node;
    struct pull *pull;
    char *endpoint, *box;
    bool attached, routed, tagged;
    int wake_fd;                     /* of the box loop */
    int ended_fd;                    /* of the transport */
    struct shelf_ask asks[ASKS_MAX]; /* the first one is for all types */
    struct list claimers;            /* waiting claimers: struct claimer */
    struct list offered, claimed, ended;
    int64_t surplus_us;  /* since when more is offered than asked for; 0: it is not */
    int64_t expiring_us; /* no claim times out before */
};

struct pull {
    pthread_mutex_t lock; /* guards everything */
    pthread_cond_t moved; /* something was offered, answered, or detached */
    bool stopping;        /* waiting must end */
    struct list shelves;  /* never freed before the end: a box that stops may start again */
    struct map claims;    /* by number */
    uint64_t tag;         /* of this process, part of its tokens */
    uint64_t last_number;
};

/* A waiting claimer. */
struct claimer {
    struct list_node node;
    const struct pull_request *request;
    struct shelf_ask *ask;
};

int64_t pull_now_us(void);
void pull_lock(struct pull *p);
void pull_unlock(struct pull *p);
void pull_wait(struct pull *p, int64_t until_us); /* with the lock; returns at the latest then */
void pull_ring(int fd);

/* ---- A shelf (shelf.c) ---- */

struct pull_shelf *shelf_of(const struct pull *p, pr_slice endpoint, pr_slice box); /* NULL: never attached */
struct pull_shelf *shelf_new(struct pull *p, pr_slice endpoint, pr_slice box);      /* NULL: no memory */
void shelf_free(struct pull_shelf *s);
void shelf_return_all(struct pull_shelf *s, const void *owner); /* offered messages; owner NULL: of any transport */
/* The waiting claimers have changed: messages whose tag none of them offers must not take the room of others. */
void shelf_postpone_unwanted(struct pull_shelf *s);
bool shelf_has_surplus(const struct pull_shelf *s); /* more is offered than asked for */

/* ---- A claim (claim.c) ---- */

struct open_claim *claim_new(struct pull_shelf *s, const struct endpoint_config *config,
                             const struct delivery *delivery); /* NULL: no memory */
void claim_free(struct open_claim *c);
/* False: no memory or no randomness, and the message is returned. */
bool claim_begin(struct pull_shelf *s, struct open_claim *c, int64_t now);
void claim_hold_for(struct open_claim *c, int64_t now, int64_t span_us); /* sets when it times out */
void claim_token(const struct open_claim *c, char text[PULL_TOKEN_SIZE]);
/* The claim of a token; NULL: see *ret_answer. */
struct open_claim *claim_of(const struct pull *p, pr_slice token, enum pull_answer *ret_answer);
/* Moves the claim from this list to the ended ones; its result must be set. */
void claim_end(struct open_claim *c, struct list *list);
void claim_return(struct open_claim *c, struct list *list);
void claim_abandon(struct open_claim *c, const char *why);
void claim_postpone(struct open_claim *c); /* makes room for others; the message comes again */

/* ---- Who asks (asks.c, take.c) ---- */

/* The ask for these types; NULL: see the fault. */
struct shelf_ask *ask_for(struct pull_shelf *s, pr_slice types, struct pr_error *reterr);
/* Does the claimer offer the tag that a message needs (NULL: none)? */
bool request_offers(const struct pull_request *r, const char *tag);

#endif
