/* A shelf, and the side of its transport: offered messages, and ended claims. */
#include "transport/pull/shelf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/delivery.h"

struct pull_shelf *shelf_of(const struct pull *p, pr_slice endpoint, pr_slice box)
{
    list_foreach(node, &p->shelves) {
        struct pull_shelf *s = LIST_ENTRY(node, struct pull_shelf, node);
        if (slice_eq_cstr(endpoint, s->endpoint) && slice_eq_cstr(box, s->box))
            return s;
    }
    return NULL;
}

struct pull_shelf *shelf_new(struct pull *p, pr_slice endpoint, pr_slice box)
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

static void claims_free(struct list *list)
{
    list_foreach(node, list)
        claim_free(LIST_ENTRY(node, struct open_claim, node));
}

void shelf_free(struct pull_shelf *s)
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

void shelf_return_all(struct pull_shelf *s, const void *owner)
{
    list_foreach(node, &s->offered) {
        struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
        if (owner == NULL || c->owner == owner)
            claim_return(c, &s->offered);
    }
}

/* Does a waiting claimer offer the tag that it needs?  Without waiting claimers, one that does may come at once. */
static bool is_wanted(const struct pull_shelf *s, const struct open_claim *c)
{
    bool wanted = c->tag == NULL || list_is_empty(&s->claimers);
    list_foreach(node, &s->claimers)
        wanted |= request_offers(LIST_ENTRY(node, struct claimer, node)->request, c->tag);
    return wanted;
}

void shelf_postpone_unwanted(struct pull_shelf *s)
{
    list_foreach(node, &s->offered) {
        struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
        if (!is_wanted(s, c))
            claim_postpone(c);
    }
}

bool shelf_has_surplus(const struct pull_shelf *s)
{
    for (size_t i = 0; i < ASKS_MAX; i++)
        if (s->asks[i].offered > s->asks[i].demand)
            return true;
    return false;
}

/* ---- The transport's side ---- */

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
    else if (shelf_has_surplus(s) && s->surplus_us == 0)
        s->surplus_us = pull_now_us();
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

/* Returns more than claimers ask for; the last ones first, so that the others keep their order. */
static void shelf_return_surplus(struct pull_shelf *s, int64_t now)
{
    if (!shelf_has_surplus(s))
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
    int64_t now = pull_now_us();
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
        c->result = (struct delivery_result){ .token = 0 };
        claim_free(c);
    }
    if (!list_is_empty(&s->ended))
        pull_ring(s->ended_fd);
    *ret_next_us = min64(s->expiring_us, s->surplus_us != 0 ? time_add(s->surplus_us, OFFER_US) : INT64_MAX);
    pull_unlock(s->pull);
    return count;
}
