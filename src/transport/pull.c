#include "transport/pull.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "flow/turn_message.h"
#include "transport/delivery.h"

/* Those who ask for little and often find what came meanwhile; then it goes back, and others may have it. */
#define OFFER_US PR_MILLISECONDS(100)
#define TAG_AGAIN_US PR_SECONDS(1) /* until a message comes again whose tag nobody offered */
#define TAG_BLOCK 1024
#define ASK_FORGET_US PR_SECONDS(600)     /* how long it is known that somebody asked for these types */
#define GONE_LOOK_US PR_MILLISECONDS(500) /* how long somebody who has gone may keep messages from others */

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

/* Whoever ended claims, and waits.  It is freed by the last who knows it. */
struct waiting {
    struct pull *pull;
    size_t refs, pending;
    struct pull_waiter {
        struct waiting *waiting;
        struct pull_verdict *verdict; /* NULL: nobody waits any more */
    } waiters[];
};

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

static void pull_lock(struct pull *p)
{
    ASSERT(pthread_mutex_lock(&p->lock) == 0);
}

static void pull_unlock(struct pull *p)
{
    ASSERT(pthread_mutex_unlock(&p->lock) == 0);
}

static void ring(int fd)
{
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0)
        ASSERT(errno == EAGAIN); /* it is readable already */
}

/* With the lock; at most until then. */
static void pull_wait(struct pull *p, int64_t until_us)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t left_us = max64(time_sub(until_us, now_us()), 0);
    int64_t end_ns = end.tv_nsec + left_us % 1000000 * 1000;
    end.tv_sec += left_us / 1000000 + end_ns / 1000000000;
    end.tv_nsec = end_ns % 1000000000;
    pthread_cond_timedwait(&p->moved, &p->lock, &end);
}

/* ---- Life ----------------------------------------------------------------------------------- */

int pull_new(struct pull **ret, struct pr_error *reterr)
{
    struct pull *p = calloc(1, sizeof *p);
    pthread_condattr_t attr;
    if (p == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for claims");
    if (random_bytes_os(&p->tag, sizeof p->tag) < 0) {
        free(p);
        return error_set(reterr, PR_EIO, "no random numbers from the operating system");
    }
    ASSERT(pthread_mutex_init(&p->lock, NULL) == 0);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    ASSERT(pthread_cond_init(&p->moved, &attr) == 0);
    pthread_condattr_destroy(&attr);
    list_init(&p->shelves);
    map_init(&p->claims);
    *ret = p;
    return PR_OK;
}

static void claims_free(struct list *list)
{
    list_foreach(node, list) {
        struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
        delivery_result_fini(&c->result);
        free(c->tag);
        free(c);
    }
}

static void shelf_free(struct pull_shelf *s)
{
    claims_free(&s->offered);
    claims_free(&s->claimed);
    claims_free(&s->ended);
    if (s->ended_fd >= 0)
        close(s->ended_fd);
    for (size_t i = 0; i < ASKS_MAX; i++)
        free(s->asks[i].types);
    free(s->endpoint);
    free(s->box);
    free(s);
}

void pull_free(struct pull *p)
{
    if (p == NULL)
        return;
    list_foreach(node, &p->shelves)
        shelf_free(LIST_ENTRY(node, struct pull_shelf, node));
    map_fini(&p->claims);
    pthread_cond_destroy(&p->moved);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* ---- Shelves -------------------------------------------------------------------------------- */

static struct pull_shelf *shelf_of(const struct pull *p, pr_slice endpoint, pr_slice box)
{
    list_foreach(node, &p->shelves) {
        struct pull_shelf *s = LIST_ENTRY(node, struct pull_shelf, node);
        if (slice_eq_cstr(endpoint, s->endpoint) && slice_eq_cstr(box, s->box))
            return s;
    }
    return NULL;
}

static struct pull_shelf *shelf_new(struct pull *p, pr_slice endpoint, pr_slice box)
{
    struct pull_shelf *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->pull = p;
    s->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->endpoint = strndup(endpoint.data, endpoint.size);
    s->box = strndup(box.data, box.size);
    s->expiring_us = INT64_MAX;
    list_init(&s->offered);
    list_init(&s->claimed);
    list_init(&s->ended);
    list_init(&s->claimers);
    if (s->ended_fd < 0 || s->endpoint == NULL || s->box == NULL) {
        shelf_free(s);
        return NULL;
    }
    list_push_back(&p->shelves, &s->node);
    return s;
}

int pull_attach(struct pull *p, pr_slice endpoint, pr_slice box, bool routed, bool tagged, int wake_fd,
                struct pr_error *reterr)
{
    pull_lock(p);
    struct pull_shelf *s = shelf_of(p, endpoint, box);
    if (s == NULL)
        s = shelf_new(p, endpoint, box);
    if (s != NULL) {
        s->attached = true;
        s->routed = routed;
        s->tagged = tagged;
        s->wake_fd = wake_fd;
    }
    pull_unlock(p);
    return s != NULL ? PR_OK
                     : error_set(reterr, PR_ENOMEM, "out of memory for the endpoint %.*s", SLICE_ARGS(endpoint));
}

/* The result is set. */
static void claim_end(struct open_claim *c, struct list *list)
{
    struct pull_shelf *s = c->shelf;
    c->result.token = c->delivery->token;
    c->delivery = NULL;
    list_remove(&c->node);
    if (list == &s->claimed) {
        map_remove(&s->pull->claims, &c->by_number);
        s->asks[c->ask].claimed--;
    } else {
        s->asks[c->ask].offered--;
    }
    if (list_is_empty(&s->ended))
        ring(s->ended_fd);
    list_push_back(&s->ended, &c->node);
}

static void claim_return(struct open_claim *c, struct list *list)
{
    c->result = (struct delivery_result){ .outcome = SEND_RETURNED };
    claim_end(c, list);
}

static void claim_abandon(struct open_claim *c, const char *why)
{
    c->result = (struct delivery_result){ .outcome = SEND_ABANDONED, .error = strdup(why) };
    claim_end(c, &c->shelf->claimed);
}

/* owner NULL: whoever has them. */
static void shelf_return_all(struct pull_shelf *s, const void *owner)
{
    list_foreach(node, &s->offered) {
        struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
        if (owner == NULL || c->owner == owner)
            claim_return(c, &s->offered);
    }
}

void pull_interrupt(struct pull *p)
{
    pull_lock(p);
    p->stopping = true;
    pthread_cond_broadcast(&p->moved);
    pull_unlock(p);
}

void pull_detach(struct pull *p, pr_slice endpoint, pr_slice box, int wake_fd)
{
    pull_lock(p);
    struct pull_shelf *s = shelf_of(p, endpoint, box);
    if (s != NULL && s->wake_fd == wake_fd) {
        s->attached = false;
        s->wake_fd = -1;
        shelf_return_all(s, NULL);
        list_foreach(node, &s->claimed)
            claim_abandon(LIST_ENTRY(node, struct open_claim, node), "its instance stopped");
        pthread_cond_broadcast(&p->moved);
    }
    pull_unlock(p);
}

void pull_gone(struct pull *p, pr_slice box, const uint64_t *tokens, size_t count)
{
    pull_lock(p);
    list_foreach(shelf_node, &p->shelves) {
        struct pull_shelf *s = LIST_ENTRY(shelf_node, struct pull_shelf, node);
        if (!slice_eq_cstr(box, s->box))
            continue;
        list_foreach(node, &s->claimed) {
            struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
            bool gone = false;
            for (size_t i = 0; i < count; i++)
                gone |= c->delivery->token == tokens[i];
            if (gone)
                claim_abandon(c, "it was cancelled");
        }
    }
    pull_unlock(p);
}

static bool ask_is_used(const struct shelf_ask *a)
{
    return a->waiting + a->offered + a->claimed > 0;
}

static void ask_forget(struct shelf_ask *a)
{
    free(a->types);
    *a = (struct shelf_ask){ .present = false };
}

void pull_asks(struct pull *p, pr_slice endpoint, pr_slice box, struct pull_asks *ret)
{
    char *at = ret->text;
    int64_t now = now_us();
    pull_lock(p);
    struct pull_shelf *s = shelf_of(p, endpoint, box);
    for (size_t i = 0; i < ASKS_MAX; i++) {
        struct shelf_ask *a = s != NULL ? &s->asks[i] : NULL;
        ret->list[i] = (struct ask){ .present = false };
        if (a != NULL && a->present && !ask_is_used(a) && now >= time_add(a->asked_us, ASK_FORGET_US))
            ask_forget(a);
        if (a == NULL || !a->present)
            continue;
        size_t size = a->types != NULL ? strlen(a->types) : 0;
        if (size > 0)
            memcpy(at, a->types, size);
        ret->list[i] = (struct ask){ .types = { at, size }, .present = true, .room = a->claimed + a->demand };
        at += size;
    }
    pull_unlock(p);
}

/* ---- Claiming ------------------------------------------------------------------------------- */

static bool is_gone(const struct pull_request *r)
{
    return r->is_gone != NULL && r->is_gone(r->is_gone_arg);
}

/* NULL: the fault says why. */
static struct pull_shelf *shelf_for(struct pull *p, const struct pull_request *r, struct pr_error *reterr)
{
    struct pull_shelf *found = NULL;
    list_foreach(node, &p->shelves) {
        struct pull_shelf *s = LIST_ENTRY(node, struct pull_shelf, node);
        if (!s->attached || !slice_eq_cstr(r->box, s->box) ||
            !(r->endpoint.size > 0 ? slice_eq_cstr(r->endpoint, s->endpoint) : s->routed))
            continue;
        if (found != NULL) {
            error_set(reterr, PR_EINVAL, "several endpoints of box %s are pulled from: name one (%s, %s, ...)", s->box,
                      found->endpoint, s->endpoint);
            return NULL;
        }
        found = s;
    }
    if (found == NULL && r->endpoint.size > 0)
        error_set(reterr, PR_ENOTFOUND, "box %.*s has no endpoint \"%.*s\" with url: \"pull:\"", SLICE_ARGS(r->box),
                  SLICE_ARGS(r->endpoint));
    else if (found == NULL)
        error_set(reterr, PR_ENOTFOUND,
                  "nothing can be claimed from box %.*s: it needs an endpoint with url: \"pull:\", and a route to it",
                  SLICE_ARGS(r->box));
    return found;
}

static void token_write(const struct open_claim *c, char text[PULL_TOKEN_SIZE])
{
    snprintf(text, PULL_TOKEN_SIZE, "%016" PRIx64 "-%016" PRIx64 "-%" PRIx64, c->shelf->pull->tag, c->secret,
             c->number);
}

/* The first that is offered.  False: no memory or no randomness, and it is returned. */
static bool claim_begin(struct pull_shelf *s, struct open_claim *c, int64_t now)
{
    c->number = s->pull->last_number + 1;
    if (random_bytes_os(&c->secret, sizeof c->secret) < 0 ||
        map_insert(&s->pull->claims, &c->by_number, c->number) < 0) {
        claim_return(c, &s->offered);
        return false;
    }
    s->pull->last_number++;
    list_remove(&c->node);
    s->asks[c->ask].offered--;
    list_push_back(&s->claimed, &c->node);
    s->asks[c->ask].claimed++;
    c->expires_us = time_add(now, c->span_us);
    if (c->expires_us < s->expiring_us) {
        s->expiring_us = c->expires_us;
        ring(s->ended_fd); /* the transport looks again then */
    }
    return true;
}

static bool offers(const struct pull_request *r, const char *tag)
{
    bool offered = tag == NULL;
    for (size_t i = 0; i < r->tag_count; i++)
        offered |= tag != NULL && slice_eq_cstr(r->tags[i], tag);
    return offered;
}

/* Does it offer what the message needs, and take its type? */
static bool fits_claimer(const struct claimer *who, const struct open_claim *c)
{
    return offers(who->request, c->tag) && ask_takes(slice_from(who->ask->types), c->delivery->message->type);
}

static size_t shelf_claim(struct pull_shelf *s, const struct claimer *who, pull_visit visit, void *arg)
{
    const struct pull_request *r = who->request;
    size_t max = min_size(r->max, PULL_MAX);
    int64_t now = now_us();
    size_t count = 0, bytes = 0;
    list_foreach(node, &s->offered) {
        struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
        char token[PULL_TOKEN_SIZE];
        if (count == max || bytes >= PULL_BYTES)
            break;
        if (!fits_claimer(who, c))
            continue;
        bytes += message_bytes(c->delivery->message);
        if (!delivery_may_start(c->delivery, now)) {
            claim_return(c, &s->offered); /* the lease is about to end */
            continue;
        }
        if (!claim_begin(s, c, now))
            continue;
        token_write(c, token);
        const struct pull_claim claim = { .token = token,
                                          .attempt = c->delivery->attempt,
                                          .left_us = c->span_us,
                                          .endpoint = slice_from(s->endpoint),
                                          .box = slice_from(s->box),
                                          .row = c->delivery->row,
                                          .message = c->delivery->message };
        if (!visit(arg, &claim)) {
            claim_return(c, &s->claimed);
            break;
        }
        count++;
    }
    return count;
}

static bool has_for(const struct pull_shelf *s, const struct claimer *who)
{
    list_foreach(node, &s->offered)
        if (fits_claimer(who, LIST_ENTRY(node, struct open_claim, node)))
            return true;
    return false;
}

/* With the lock: until something could be claimed, the time is over, or nobody is there to have it. */
static void shelf_wait(struct pull_shelf *s, const struct claimer *who, int64_t until_us)
{
    while (!has_for(s, who) && s->attached && !s->pull->stopping && now_us() < until_us && !is_gone(who->request))
        pull_wait(s->pull, min64(until_us, time_add(now_us(), GONE_LOOK_US)));
}

/* Does anybody who waits offer what it needs?  When nobody waits, somebody who does may come at once. */
static bool is_wanted(const struct pull_shelf *s, const struct open_claim *c)
{
    bool wanted = c->tag == NULL || list_is_empty(&s->claimers);
    list_foreach(node, &s->claimers)
        wanted |= offers(LIST_ENTRY(node, struct claimer, node)->request, c->tag);
    return wanted;
}

/* It makes room for others, and comes again. */
static void claim_postpone(struct open_claim *c)
{
    char text[PR_ERROR_MAX];
    snprintf(text, sizeof text, "it needs %s, which no worker offers", c->tag);
    c->result =
        (struct delivery_result){ .outcome = SEND_POSTPONED, .retry_after_us = TAG_AGAIN_US, .error = strdup(text) };
    claim_end(c, &c->shelf->offered);
}

/* Who waits has changed: what none of them offers must not take the room of what they could have. */
static void shelf_postpone_unwanted(struct pull_shelf *s)
{
    list_foreach(node, &s->offered) {
        struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
        if (!is_wanted(s, c))
            claim_postpone(c);
    }
}

static bool has_surplus(const struct pull_shelf *s)
{
    for (size_t i = 0; i < ASKS_MAX; i++)
        if (s->asks[i].offered > s->asks[i].demand)
            return true;
    return false;
}

/* Where these types are known, or can be; NULL: too many others are. */
static struct shelf_ask *ask_place(struct pull_shelf *s, pr_slice types)
{
    struct shelf_ask *place = NULL;
    if (types.size == 0)
        return &s->asks[0];
    for (size_t i = 1; i < ASKS_MAX; i++) {
        struct shelf_ask *a = &s->asks[i];
        if (a->present && slice_eq_cstr(types, a->types))
            return a;
        if (!ask_is_used(a) && (place == NULL || !a->present || (place->present && a->asked_us < place->asked_us)))
            place = a;
    }
    return place;
}

/* NULL: the fault says why. */
static struct shelf_ask *ask_for(struct pull_shelf *s, pr_slice types, struct pr_error *reterr)
{
    struct shelf_ask *a = ask_place(s, types);
    bool known = a != NULL && a->present;
    if (a == NULL) {
        error_set(reterr, PR_EINVAL,
                  "types: workers ask endpoint %s for %d different lists of types already: let workers of one kind ask "
                  "for the same list, or give some an endpoint of their own",
                  s->endpoint, ASKS_MAX - 1);
        return NULL;
    }
    if (types.size > 0 && !(known && slice_eq_cstr(types, a->types))) {
        char *copy = strndup(types.data, types.size);
        if (copy == NULL) {
            error_set(reterr, PR_ENOMEM, "out of memory for a list of types");
            return NULL;
        }
        ask_forget(a);
        a->types = copy;
    }
    a->present = true;
    return a;
}

/* With the lock.  Asks, waits, and takes what it can have. */
static void shelf_take(struct pull_shelf *s, struct claimer *self, int64_t until_us, pull_visit visit, void *arg)
{
    struct pull *p = s->pull;
    size_t max = min_size(self->request->max, PULL_MAX);
    self->ask->demand += max;
    self->ask->waiting++;
    list_push_back(&s->claimers, &self->node);
    shelf_postpone_unwanted(s);
    s->surplus_us = 0;
    ring(s->wake_fd);
    do
        shelf_wait(s, self, until_us);
    while (!is_gone(self->request) && shelf_claim(s, self, visit, arg) == 0 && s->attached && !p->stopping &&
           now_us() < until_us);
    self->ask->demand -= max;
    self->ask->waiting--;
    self->ask->asked_us = now_us();
    list_remove(&self->node);
    shelf_postpone_unwanted(s);
    if (has_surplus(s)) {
        s->surplus_us = now_us();
        ring(s->ended_fd);
    }
}

int pull_take(struct pull *p, const struct pull_request *request, pull_visit visit, void *arg, struct pr_error *reterr)
{
    int64_t until_us = time_add(now_us(), max64(request->wait_us, OFFER_US)); /* a cycle must have the time to come */
    struct claimer self = { .request = request };
    pull_lock(p);
    struct pull_shelf *s = shelf_for(p, request, reterr);
    self.ask = s != NULL ? ask_for(s, request->types, reterr) : NULL;
    int rc = self.ask != NULL ? PR_OK : reterr->code;
    if (self.ask != NULL)
        shelf_take(s, &self, until_us, visit, arg);
    pull_unlock(p);
    return rc;
}

/* ---- Ending --------------------------------------------------------------------------------- */

static bool token_read(pr_slice text, uint64_t *ret_tag, uint64_t *ret_secret, uint64_t *ret_number)
{
    char copy[PULL_TOKEN_SIZE];
    int used = 0;
    if (text.size >= sizeof copy)
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return strspn(copy, "0123456789abcdef-") == text.size && /* sscanf takes blanks and 0x, too */
           sscanf(copy, "%16" SCNx64 "-%16" SCNx64 "-%16" SCNx64 "%n", ret_tag, ret_secret, ret_number, &used) == 3 &&
           (size_t)used == text.size;
}

/* The claim of a token; NULL: *ret_answer says what is wrong with it. */
static struct open_claim *claim_of(const struct pull *p, pr_slice token, enum pull_answer *ret_answer)
{
    uint64_t tag, secret, number;
    *ret_answer = PULL_UNKNOWN;
    if (!token_read(token, &tag, &secret, &number) || tag != p->tag || number == 0 || number > p->last_number)
        return NULL;
    *ret_answer = PULL_STALE;
    for (struct map_node *n = map_first(&p->claims, number); n != NULL; n = map_next_same(n)) {
        struct open_claim *c = MAP_ENTRY(n, struct open_claim, by_number);
        if (c->number == number && c->secret == secret)
            return now_us() < c->expires_us ? c : NULL;
    }
    return NULL;
}

void pull_give_back(struct pull *p, const pr_slice *tokens, size_t count)
{
    enum pull_answer ignored;
    pull_lock(p);
    for (size_t i = 0; i < count; i++) {
        struct open_claim *c = claim_of(p, tokens[i], &ignored);
        if (c != NULL)
            claim_return(c, &c->shelf->claimed);
    }
    pull_unlock(p);
}

static void waiting_leave(struct waiting *w)
{
    if (--w->refs == 0)
        free(w);
}

static enum pull_answer pull_answer_of(int answer)
{
    switch (answer) {
    case PR_OK: return PULL_OK;
    case PR_EINVAL:
    case PR_FAILED: return PULL_FAILED;
    case PR_ECONFLICT: return PULL_CONFLICT;
    default: return PULL_STALE;
    }
}

/* The engine tells what became of a verdict. */
static void on_settled(void *arg, int answer)
{
    struct pull_waiter *waiter = arg;
    struct waiting *w = waiter->waiting;
    struct pull *p = w->pull;
    pull_lock(p);
    if (waiter->verdict != NULL)
        waiter->verdict->answer = pull_answer_of(answer);
    w->pending--;
    if (w->pending == 0)
        pthread_cond_broadcast(&p->moved);
    waiting_leave(w);
    pull_unlock(p);
}

/* False: no memory. */
static bool add_effects(const struct open_claim *c, const struct pull_verdict *v, struct delivery_result *result)
{
    struct send_effect **end = &result->effects;
    for (size_t i = 0; i < v->effect_count; i++, end = &(*end)->next)
        if ((*end = effect_of(c->delivery->message, v->effects[i].box, &v->effects[i].message)) == NULL)
            return false;
    return true;
}

static bool end_one(struct pull *p, struct pull_verdict *v, struct pull_waiter *waiter)
{
    struct open_claim *c = claim_of(p, v->token, &v->answer);
    bool fits = c == NULL || add_effects(c, v, &v->result);
    if (c == NULL || !fits) {
        delivery_result_fini(&v->result);
        v->answer = fits ? v->answer : PULL_PENDING;
        return fits;
    }
    v->answer = PULL_PENDING;
    waiter->verdict = v;
    waiter->waiting->pending++;
    waiter->waiting->refs++;
    c->result = v->result;
    c->result.settled = on_settled;
    c->result.settled_arg = waiter;
    claim_end(c, &c->shelf->claimed);
    return true;
}

int pull_end(struct pull *p, struct pull_verdict *verdicts, size_t count, int64_t wait_us, struct pr_error *reterr)
{
    struct waiting *w = calloc(1, sizeof *w + count * sizeof w->waiters[0]);
    int64_t until_us = time_add(now_us(), wait_us);
    bool fits = w != NULL;
    for (size_t i = 0; !fits && i < count; i++) {
        delivery_result_fini(&verdicts[i].result);
        verdicts[i].answer = PULL_PENDING;
    }
    if (!fits)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu claims", count);
    w->pull = p;
    w->refs = 1;
    pull_lock(p);
    for (size_t i = 0; i < count; i++) {
        w->waiters[i].waiting = w;
        fits = end_one(p, &verdicts[i], &w->waiters[i]) && fits;
    }
    while (w->pending > 0 && !p->stopping && now_us() < until_us)
        pull_wait(p, until_us);
    for (size_t i = 0; i < count; i++)
        w->waiters[i].verdict = NULL;
    waiting_leave(w);
    pull_unlock(p);
    return fits ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for the messages of %zu claims", count);
}

enum pull_answer pull_renew(struct pull *p, pr_slice token, int64_t span_us, int64_t *ret_left_us)
{
    enum pull_answer answer;
    pull_lock(p);
    struct open_claim *c = claim_of(p, token, &answer);
    if (c != NULL) {
        *ret_left_us = span_us > 0 ? span_us : c->span_us;
        c->expires_us = time_add(now_us(), *ret_left_us);
        if (c->expires_us < c->shelf->expiring_us) {
            c->shelf->expiring_us = c->expires_us;
            ring(c->shelf->ended_fd);
        }
        answer = PULL_OK;
    }
    pull_unlock(p);
    return answer;
}

/* ---- The transport's side -------------------------------------------------------------------- */

struct pull_shelf *pull_shelf_find(struct pull *p, pr_slice endpoint, pr_slice box)
{
    pull_lock(p);
    struct pull_shelf *s = shelf_of(p, endpoint, box);
    pull_unlock(p);
    return s;
}

int pull_shelf_fd(const struct pull_shelf *shelf)
{
    return shelf->ended_fd;
}

/* What the activity needs.  False: no memory. */
static bool read_tag(struct open_claim *c)
{
    struct activity_message a;
    struct pr_error ignored;
    struct arena arena;
    arena_init(&arena, TAG_BLOCK);
    int rc = activity_message_read(c->delivery->message, &arena, &a, &ignored);
    bool fits = rc != PR_ENOMEM;
    if (rc == PR_OK && a.tag.size > 0)
        fits = (c->tag = strndup(a.tag.data, a.tag.size)) != NULL;
    arena_fini(&arena);
    return fits;
}

/* NULL: no memory. */
static struct open_claim *claim_new(struct pull_shelf *s, const struct endpoint_config *config,
                                    const struct delivery *delivery)
{
    struct open_claim *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    int64_t own_us = message_timeout_us(config, delivery->message);
    c->shelf = s;
    c->delivery = delivery;
    c->ask = delivery->ask;
    c->span_us = own_us > 0 ? own_us : config->timeout_us;
    if (!s->tagged || read_tag(c))
        return c;
    free(c);
    return NULL;
}

size_t pull_shelf_offer(struct pull_shelf *s, const struct endpoint_config *config, const void *owner,
                        const struct delivery *const *list, size_t count)
{
    size_t taken = 0;
    pull_lock(s->pull);
    for (struct open_claim *c; taken < count && (c = claim_new(s, config, list[taken])) != NULL; taken++) {
        c->owner = owner;
        list_push_back(&s->offered, &c->node);
        s->asks[c->ask].offered++;
        if (!is_wanted(s, c))
            claim_postpone(c);
    }
    if (!s->attached)
        shelf_return_all(s, NULL);
    else if (has_surplus(s) && s->surplus_us == 0)
        s->surplus_us = now_us();
    pthread_cond_broadcast(&s->pull->moved);
    pull_unlock(s->pull);
    return taken;
}

void pull_shelf_cancel(struct pull_shelf *s, const void *owner)
{
    pull_lock(s->pull);
    shelf_return_all(s, owner);
    pull_unlock(s->pull);
}

static void shelf_expire(struct pull_shelf *s, int64_t now)
{
    if (now < s->expiring_us)
        return;
    s->expiring_us = INT64_MAX;
    list_foreach(node, &s->claimed) {
        struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
        if (now >= c->expires_us)
            claim_abandon(c, "its claim expired without an outcome");
        else
            s->expiring_us = min64(s->expiring_us, c->expires_us);
    }
}

/* More than anybody asks for; the last first, so that the others keep their order. */
static void shelf_return_surplus(struct pull_shelf *s, int64_t now)
{
    if (!has_surplus(s))
        s->surplus_us = 0;
    if (s->surplus_us == 0 || now < time_add(s->surplus_us, OFFER_US))
        return;
    for (struct list_node *node = list_last(&s->offered), *before; node != NULL; node = before) {
        struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
        before = list_prev(&s->offered, node);
        if (s->asks[c->ask].offered > s->asks[c->ask].demand)
            claim_return(c, &s->offered);
    }
    s->surplus_us = 0;
}

size_t pull_shelf_collect(struct pull_shelf *s, const void *owner, struct delivery_result *ret, size_t max,
                          int64_t *ret_next_us)
{
    int64_t now = now_us();
    size_t count = 0;
    uint64_t rung;
    pull_lock(s->pull);
    if (read(s->ended_fd, &rung, sizeof rung) < 0)
        ASSERT(errno == EAGAIN);
    shelf_expire(s, now);
    shelf_return_surplus(s, now);
    list_foreach(node, &s->ended) {
        struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
        if (count == max)
            break;
        if (c->owner != owner)
            continue;
        list_remove(node);
        ret[count++] = c->result;
        free(c->tag);
        free(c);
    }
    if (!list_is_empty(&s->ended))
        ring(s->ended_fd);
    *ret_next_us = min64(s->expiring_us, s->surplus_us != 0 ? time_add(s->surplus_us, OFFER_US) : INT64_MAX);
    pull_unlock(s->pull);
    return count;
}
