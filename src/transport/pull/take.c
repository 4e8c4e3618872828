/* Claiming: a claimer waits until a message is offered that it can have. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/delivery.h"
#include "transport/pull/shelf.h"

#define GONE_LOOK_US PR_MILLISECONDS(500) /* how long a claimer that is gone may keep messages from others */

static bool is_gone(const struct pull_request *r)
{
    return r->is_gone != NULL && r->is_gone(r->is_gone_arg);
}

/* NULL: see the fault. */
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

bool request_offers(const struct pull_request *r, const char *tag)
{
    bool offered = tag == NULL;
    for (size_t i = 0; i < r->tag_count; i++)
        offered |= tag != NULL && slice_eq_cstr(r->tags[i], tag);
    return offered;
}

/* Does the claimer offer the tag that the message needs, and accept its type? */
static bool fits_claimer(const struct claimer *who, const struct open_claim *c)
{
    return request_offers(who->request, c->tag) && ask_takes(slice_from(who->ask->types), c->delivery->message->type);
}

static size_t shelf_claim(struct pull_shelf *s, const struct claimer *who, pull_visit visit, void *arg)
{
    const struct pull_request *r = who->request;
    size_t max = min_size(r->max, PULL_MAX);
    int64_t now = pull_now_us();
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
        claim_token(c, token);
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

/* With the lock: waits until something can be claimed, the time is over, or the claimer is gone. */
static void shelf_wait(struct pull_shelf *s, const struct claimer *who, int64_t until_us)
{
    while (!has_for(s, who) && s->attached && !s->pull->stopping && pull_now_us() < until_us && !is_gone(who->request))
        pull_wait(s->pull, min64(until_us, time_add(pull_now_us(), GONE_LOOK_US)));
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
    pull_ring(s->wake_fd);
    do
        shelf_wait(s, self, until_us);
    while (!is_gone(self->request) && shelf_claim(s, self, visit, arg) == 0 && s->attached && !p->stopping &&
           pull_now_us() < until_us);
    self->ask->demand -= max;
    self->ask->waiting--;
    self->ask->asked_us = pull_now_us();
    list_remove(&self->node);
    shelf_postpone_unwanted(s);
    if (shelf_has_surplus(s)) {
        s->surplus_us = pull_now_us();
        pull_ring(s->ended_fd);
    }
}

int pull_take(struct pull *p, const struct pull_request *request, pull_visit visit, void *arg, struct pr_error *reterr)
{
    int64_t until_us =
        time_add(pull_now_us(), max64(request->wait_us, OFFER_US)); /* a cycle must have time to hand something out */
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
