/* The breakers of an endpoint: one for the endpoint as a whole, and one for each message type unless `per: endpoint` is
 * set.
 *
 * Failures to send and failures to authenticate count for the endpoint; an answer, or a timeout, counts for the type of
 * its message, and proves that the endpoint exists.  A message goes out when both breakers allow it.
 *
 * Where types have breakers, messages of a type that may not go now are put on that type's shelf, so that choosing does
 * not meet them again and again while other types go on.  They are still waiting: a shelf is only another list for the
 * same node.  Such a type is held: its rows in memory take no room from other types, and it gets few more
 * (held_types.c).  A type without rows in memory whose breaker is closed and remembers nothing has no breaker. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define BREAKERS_MAX 1024 /* message types with a breaker at one endpoint; further types have none */

static uint64_t type_hash(pr_slice type)
{
    return hash_slice(0, type);
}

static struct endpoint_breaker *endpoint_breaker_find(const struct endpoint *ep, pr_slice type)
{
    for (struct map_node *n = map_first(&ep->breakers, type_hash(type)); n != NULL; n = map_next_same(n)) {
        struct endpoint_breaker *b = MAP_ENTRY(n, struct endpoint_breaker, node);
        if (slice_eq(b->type, type))
            return b;
    }
    return NULL;
}

void endpoint_breaker_init(struct endpoint_breaker *b, struct endpoint *ep, struct shared_breaker *shared)
{
    b->endpoint = ep;
    b->shared = shared;
    b->type = shared->type;
    list_init(&b->loose);
    list_init(&b->streams);
}

bool breakers_are_per_type(const struct endpoint *ep)
{
    return ep->setting->breaker.per_type && ep->setting->breaker.enabled;
}

/* NULL: this type has no breaker. */
struct endpoint_breaker *breakers_blamed(struct endpoint *ep, const struct item *item, enum fault fault)
{
    return breakers_are_per_type(ep) && fault != FAULT_ENDPOINT ? item->gate : &ep->gate;
}

/* ---- What all engines know, and what follows of it here ----------------------------------------------- */

static void endpoint_breaker_unshelve(struct endpoint *ep, struct endpoint_breaker *b)
{
    for (struct list_node *n = list_pop_front(&b->loose); n != NULL; n = list_pop_front(&b->loose))
        list_push_back(&ep->loose, n);
    for (struct list_node *n = list_pop_front(&b->streams); n != NULL; n = list_pop_front(&b->streams)) {
        LIST_ENTRY(n, struct stream, ready)->shelved = false;
        list_push_back(&ep->ready_streams, n);
    }
}

/* A result was counted in the breaker; the only place that holds a type back, or ends that. */
static void endpoint_breaker_update(struct endpoint *ep, struct endpoint_breaker *b)
{
    bool holds_type = b->seen.state != BREAKER_CLOSED;

    if (holds_type == b->holds_type || b == &ep->gate)
        return;
    b->holds_type = holds_type;
    if (holds_type) {
        ep->tripped = true;
        ep->held_types.types++;
        ep->held_types.count += b->count;
        ep->held_types.bytes += b->bytes;
        return;
    }
    ep->held_types.types--;
    ep->held_types.count -= b->count;
    ep->held_types.bytes -= b->bytes;
    ep->held_types.over = true;
    endpoint_breaker_unshelve(ep, b);
}

/* With the lock held: may it go? */
bool endpoint_breaker_allows(struct endpoint_breaker *b, int64_t now_us)
{
    bool allowed = breaker_allows(&b->shared->breaker, &b->endpoint->setting->breaker, now_us);

    if (b->seen.state == BREAKER_OPEN && b->shared->breaker.state == BREAKER_HALF_OPEN)
        b->seen.state = BREAKER_HALF_OPEN; /* endpoint_breaker_look() does the rest */
    return allowed;
}

void endpoint_breaker_look(struct engine *e, struct endpoint_breaker *b)
{
    const struct breaker *now = &b->shared->breaker;
    enum breaker_state before = b->seen.state;
    bool again = now->opened != b->seen.opened || now->until_us != b->seen.until_us;

    b->seen.state = now->state;
    b->seen.opened = now->opened;
    b->seen.until_us = now->until_us;
    if (now->state != BREAKER_CLOSED && (before == BREAKER_CLOSED || again))
        report_opened(e, b);
    else if (now->state == BREAKER_CLOSED && before != BREAKER_CLOSED)
        report_closed(e, b);
    b->burst = b->burst || (before == BREAKER_CLOSED && now->state != BREAKER_CLOSED);
    endpoint_breaker_update(b->endpoint, b);
}

static struct endpoint_breaker *find_burst(struct endpoint *ep)
{
    if (ep->gate.burst)
        return &ep->gate;
    map_foreach(node, &ep->breakers) {
        struct endpoint_breaker *b = MAP_ENTRY(node, struct endpoint_breaker, node);
        if (b->burst)
            return b;
    }
    return NULL;
}

void breakers_sync(struct engine *e, struct endpoint *ep)
{
    uint64_t changes = atomic_load(&ep->limits->changes);

    if (changes == ep->changes_seen)
        return;
    ep->changes_seen = changes;
    limits_lock(ep->limits);
    endpoint_breaker_look(e, &ep->gate);
    map_foreach(node, &ep->breakers)
        endpoint_breaker_look(e, MAP_ENTRY(node, struct endpoint_breaker, node));
    limits_unlock(ep->limits);
    for (struct endpoint_breaker *b = find_burst(ep); b != NULL; b = find_burst(ep))
        return_burst(e, b);
    map_foreach(node, &ep->breakers)
        endpoint_breaker_release(MAP_ENTRY(node, struct endpoint_breaker, node));
}

void breakers_sync_all(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++)
        breakers_sync(e, &e->endpoints[i]);
}

/* NULL: the type has no breaker, since there is no memory or there are too many. */
struct endpoint_breaker *endpoint_breaker_get(struct engine *e, struct endpoint *ep, pr_slice type)
{
    struct endpoint_breaker *b = endpoint_breaker_find(ep, type);
    struct shared_breaker *shared;

    if (b != NULL || map_count(&ep->breakers) >= BREAKERS_MAX)
        return b;
    b = calloc(1, sizeof(*b));
    if (b == NULL)
        return NULL;
    limits_lock(ep->limits);
    shared = limits_breaker_get(ep->limits, type);
    if (shared != NULL) {
        endpoint_breaker_init(b, ep, shared);
        if (map_insert(&ep->breakers, &b->node, type_hash(type)) != PR_OK) {
            limits_breaker_put(ep->limits, shared);
            shared = NULL;
        }
    }
    if (shared != NULL)
        endpoint_breaker_look(e, b); /* another engine may have created it */
    limits_unlock(ep->limits);
    if (shared != NULL)
        return b;
    free(b);
    return NULL;
}

/* Frees the breaker of a type that remembers nothing, as if the type never had one. */
void endpoint_breaker_release(struct endpoint_breaker *b)
{
    struct endpoint *ep = b->endpoint;
    bool fresh;

    if (b == &ep->gate || b->count > 0 || b->seen.state != BREAKER_CLOSED || !report_is_over(b))
        return;
    limits_lock(ep->limits);
    fresh = breaker_is_fresh(&b->shared->breaker);
    if (fresh)
        limits_breaker_put(ep->limits, b->shared);
    limits_unlock(ep->limits);
    if (!fresh)
        return;
    map_remove(&ep->breakers, &b->node);
    last_failure_fini(&b->last_failure);
    free(b);
}

/* ---- Shelves -------------------------------------------------------------------------------- */

/* An item is shelved only for a breaker that this engine has seen open: otherwise nothing would take it off the shelf
 * again. */
static bool type_is_allowed(struct engine *e, struct endpoint *ep, struct endpoint_breaker *b, int64_t now_us)
{
    bool allowed;

    limits_lock(ep->limits);
    allowed = endpoint_breaker_allows(b, now_us);
    if (!allowed)
        endpoint_breaker_look(e, b);
    limits_unlock(ep->limits);
    return allowed;
}

void breakers_unshelve(struct engine *e, struct endpoint *ep, int64_t now_us)
{
    if (ep->held_types.types == 0)
        return;
    map_foreach(node, &ep->breakers) {
        struct endpoint_breaker *b = MAP_ENTRY(node, struct endpoint_breaker, node);
        if (!(list_is_empty(&b->loose) && list_is_empty(&b->streams)) && type_is_allowed(e, ep, b, now_us))
            endpoint_breaker_unshelve(ep, b);
    }
}

bool breakers_allow_or_shelve(struct engine *e, struct endpoint *ep, struct item *item, int64_t now_us)
{
    struct endpoint_breaker *b = item->gate;

    if (b == NULL || type_is_allowed(e, ep, b, now_us))
        return true;
    if (item->stream != NULL) {
        list_remove(&item->stream->ready);
        list_push_back(&b->streams, &item->stream->ready);
        item->stream->shelved = true;
    } else {
        list_remove(&item->node);
        list_push_back(&b->loose, &item->node);
    }
    return false;
}

/* ---- Who is in memory --------------------------------------------------------------------------- */

void breakers_enter(struct engine *e, struct endpoint *ep, struct item *item)
{
    struct endpoint_breaker *b = breakers_are_per_type(ep) ? endpoint_breaker_get(e, ep, item->m.type) : NULL;

    item->gate = b;
    if (b == NULL)
        return;
    b->count++;
    b->bytes += item->bytes;
    ep->held_types.count += b->holds_type ? 1 : 0;
    ep->held_types.bytes += b->holds_type ? item->bytes : 0;
}

void breakers_leave(struct endpoint *ep, struct item *item)
{
    struct endpoint_breaker *b = item->gate;

    if (b == NULL)
        return;
    item->gate = NULL;
    b->count--;
    b->bytes -= item->bytes;
    ep->held_types.count -= b->holds_type ? 1 : 0;
    ep->held_types.bytes -= b->holds_type ? item->bytes : 0;
    ep->held_types.over |= b->holds_type && b->count == 0; /* a message is needed as the probe */
    endpoint_breaker_release(b);
}

bool breakers_are_shut(const struct endpoint *ep)
{
    return ep->gate.seen.state != BREAKER_CLOSED;
}

/* It would be sent after its breaker opened, only because it was announced before. */
bool breakers_hold_back(const struct endpoint *ep, const struct item *item)
{
    return ep->gate.seen.state == BREAKER_OPEN || (item->gate != NULL && item->gate->seen.state == BREAKER_OPEN);
}

bool breakers_hold_type(const struct engine *e, const struct endpoint *ep, pr_slice type)
{
    const struct endpoint_breaker *b = ep->held_types.types > 0 ? endpoint_breaker_find(ep, type) : NULL;

    return b != NULL && b->holds_type && b->count > 0 &&
           (b->count >= CLOSED_SHARE || ep->held_types.count >= window_limit(e) / 4);
}

static int64_t seen_next_us(const struct endpoint_breaker *b)
{
    return b->seen.state == BREAKER_OPEN ? b->seen.until_us : PR_NEVER;
}

int64_t breakers_next_us(const struct endpoint *ep)
{
    int64_t next_us = seen_next_us(&ep->gate);

    if (ep->held_types.types == 0)
        return next_us;
    map_foreach(node, &ep->breakers)
        next_us = min64(next_us, seen_next_us(MAP_ENTRY(node, struct endpoint_breaker, node)));
    return next_us;
}

enum breaker_state breakers_state(const struct endpoint *ep)
{
    enum breaker_state state = ep->gate.seen.state;

    if (ep->held_types.types == 0)
        return state;
    map_foreach(node, &ep->breakers) {
        const struct endpoint_breaker *b = MAP_ENTRY(node, struct endpoint_breaker, node);
        if (b->seen.state != BREAKER_CLOSED && state != BREAKER_OPEN)
            state = b->seen.state;
    }
    return state;
}

void breakers_check(const struct endpoint *ep)
{
    size_t types = 0, count = 0, bytes = 0, held_types_count = 0, held_types_bytes = 0;

    map_foreach(node, &ep->breakers) {
        const struct endpoint_breaker *b = MAP_ENTRY(node, struct endpoint_breaker, node);
        ASSERT(b->holds_type == (b->seen.state != BREAKER_CLOSED));
        ASSERT(b->holds_type || (list_is_empty(&b->loose) && list_is_empty(&b->streams)));
        types += b->holds_type;
        count += b->count;
        bytes += b->bytes;
        held_types_count += b->holds_type ? b->count : 0;
        held_types_bytes += b->holds_type ? b->bytes : 0;
    }
    ASSERT(count <= ep->count && bytes <= ep->bytes);
    ASSERT(types == ep->held_types.types && held_types_count == ep->held_types.count &&
           held_types_bytes == ep->held_types.bytes);
}

void breakers_fini(struct endpoint *ep)
{
    map_foreach(node, &ep->breakers) {
        struct endpoint_breaker *b = MAP_ENTRY(node, struct endpoint_breaker, node);
        map_remove(&ep->breakers, node);
        last_failure_fini(&b->last_failure);
        limits_lock(ep->limits);
        limits_breaker_put(ep->limits, b->shared);
        limits_unlock(ep->limits);
        free(b);
    }
    map_fini(&ep->breakers);
    last_failure_fini(&ep->gate.last_failure);
    last_failure_fini(&ep->last_failure);
    held_types_forget_endpoint(ep);
}
