/* The breakers of an endpoint: one for all of it, or one for each message type.
 *
 * With one for each type, messages of a type that may not go now are put on that type's shelf, so
 * that they are not met again and again while the others go on.  They are still waiting: a shelf
 * is only another list for the same node.  A type whose breaker has nothing to remember has none. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define BRAKES_MAX 1024 /* types of one endpoint that are watched at once; others are not */

static uint64_t type_hash(pr_slice type)
{
    return hash_slice(0, type);
}

static struct brake *brake_find(const struct endpoint *ep, pr_slice type)
{
    for (struct map_node *n = map_first(&ep->brakes, type_hash(type)); n != NULL; n = map_next_same(n)) {
        struct brake *b = MAP_ENTRY(n, struct brake, node);
        if (slice_eq(b->type, type))
            return b;
    }
    return NULL;
}

void brake_init(struct brake *b, struct endpoint *ep)
{
    b->endpoint = ep;
    list_init(&b->loose);
    list_init(&b->streams);
}

/* NULL: no memory, or too many: then this type has no breaker. */
static struct brake *brake_get(struct endpoint *ep, pr_slice type)
{
    struct brake *b = brake_find(ep, type);

    if (b != NULL || map_count(&ep->brakes) >= BRAKES_MAX)
        return b;
    b = calloc(1, sizeof(*b) + type.size);
    if (b == NULL)
        return NULL;
    brake_init(b, ep);
    memcpy(b + 1, type.data, type.size);
    b->type = (pr_slice){ (const char *)(b + 1), type.size };
    if (map_insert(&ep->brakes, &b->node, type_hash(type)) != PR_OK) {
        free(b);
        return NULL;
    }
    return b;
}

static bool is_per_type(const struct endpoint *ep)
{
    return ep->setting->breaker.per_type && ep->setting->breaker.enabled;
}

/* NULL: nothing is to be remembered of this type. */
static struct brake *brake_of(struct endpoint *ep, pr_slice type)
{
    return is_per_type(ep) ? brake_find(ep, type) : &ep->brake;
}

static struct breaker *breaker_find(struct endpoint *ep, pr_slice type)
{
    struct brake *b = brake_of(ep, type);
    return b != NULL ? &b->breaker : NULL;
}

/* ---- Shelves -------------------------------------------------------------------------------- */

static void brake_unshelve(struct endpoint *ep, struct brake *b)
{
    for (struct list_node *n = list_pop_front(&b->loose); n != NULL; n = list_pop_front(&b->loose))
        list_push_back(&ep->loose, n);
    for (struct list_node *n = list_pop_front(&b->streams); n != NULL; n = list_pop_front(&b->streams)) {
        LIST_ENTRY(n, struct stream, ready)->shelved = false;
        list_push_back(&ep->ready_streams, n);
    }
}

void brakes_unshelve(struct endpoint *ep, int64_t now_us)
{
    if (!is_per_type(ep))
        return;
    map_foreach(node, &ep->brakes) {
        struct brake *b = MAP_ENTRY(node, struct brake, node);
        if (!(list_is_empty(&b->loose) && list_is_empty(&b->streams)) &&
            breaker_allows(&b->breaker, &ep->setting->breaker, now_us))
            brake_unshelve(ep, b);
    }
}

bool brakes_allow_or_shelve(struct endpoint *ep, struct item *item, int64_t now_us)
{
    struct brake *b;

    if (!is_per_type(ep))
        return true; /* brakes_allow() has said so for all */
    b = brake_find(ep, item->m.type);
    if (b == NULL || breaker_allows(&b->breaker, &ep->setting->breaker, now_us))
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

/* ---- The breaker's questions ------------------------------------------------------------------ */

bool brakes_allow(struct endpoint *ep, int64_t now_us)
{
    return is_per_type(ep) || breaker_allows(&ep->brake.breaker, &ep->setting->breaker, now_us);
}

bool brakes_are_shut(const struct endpoint *ep)
{
    return !is_per_type(ep) && ep->brake.breaker.state != BREAKER_CLOSED;
}

/* Sent after its breaker opened, only because it was announced before. */
bool brakes_hold_back(struct endpoint *ep, const struct item *item)
{
    const struct breaker *b = breaker_find(ep, item->m.type);
    return b != NULL && b->state == BREAKER_OPEN;
}

void brakes_started(struct endpoint *ep, const struct item *item)
{
    struct breaker *b = breaker_find(ep, item->m.type);
    if (b != NULL)
        breaker_started(b, item->row);
}

bool brakes_failed(struct engine *e, const struct item *item, const struct failure *f, bool transient, int64_t now_us,
                   bool *ret_opened)
{
    struct endpoint   *ep = item->endpoint;
    struct brake      *b  = brake_of(ep, item->m.type);
    enum breaker_state before, after;
    bool               ours;

    *ret_opened = false;
    if (b == NULL && transient)
        b = brake_get(ep, item->m.type);
    if (b == NULL)
        return false;
    before = b->breaker.state;
    ours   = breaker_failed(&b->breaker, &ep->setting->breaker, item->row, transient, f->retry_after_us, now_us);
    after  = b->breaker.state;
    *ret_opened = before == BREAKER_CLOSED && after == BREAKER_OPEN;
    if (after == BREAKER_OPEN && before != BREAKER_OPEN)
        report_opened(e, b, f, *ret_opened, now_us);
    else if (after == BREAKER_CLOSED && before != BREAKER_CLOSED)
        report_closed(e, b);
    return ours;
}

bool brakes_are_same(const struct endpoint *ep, const struct item *a, const struct item *b)
{
    return a->endpoint == ep && b->endpoint == ep && (!is_per_type(ep) || slice_eq(a->m.type, b->m.type));
}

/* Of a type that has nothing to remember any more: it goes on as if it never had one. */
void brake_release(struct brake *b)
{
    struct endpoint *ep = b->endpoint;

    if (b == &ep->brake || !breaker_is_fresh(&b->breaker) || !report_is_over(b))
        return;
    brake_unshelve(ep, b);
    map_remove(&ep->brakes, &b->node);
    mishap_fini(&b->mishap);
    free(b);
}

void brakes_succeeded(struct engine *e, const struct item *item, int64_t now_us)
{
    struct endpoint              *ep      = item->endpoint;
    const struct breaker_setting *setting = &ep->setting->breaker;
    struct brake                 *b       = brake_of(ep, item->m.type);
    bool                          was_closed;

    if (b == NULL && setting->share > 0)
        b = brake_get(ep, item->m.type);
    if (b == NULL)
        return;
    was_closed = b->breaker.state == BREAKER_CLOSED;
    breaker_succeeded(&b->breaker, setting, item->row, now_us);
    if (!was_closed && b->breaker.state == BREAKER_CLOSED) {
        brake_unshelve(ep, b);
        report_closed(e, b);
    }
    brake_release(b);
}

void brakes_returned(struct endpoint *ep, const struct item *item)
{
    struct breaker *b = breaker_find(ep, item->m.type);
    if (b != NULL)
        breaker_returned(b, item->row);
}

int64_t brakes_next_us(const struct endpoint *ep)
{
    int64_t next_us = PR_NEVER;

    if (!is_per_type(ep))
        return breaker_next_us(&ep->brake.breaker);
    map_foreach(node, &ep->brakes)
        next_us = min64(next_us, breaker_next_us(&MAP_ENTRY(node, struct brake, node)->breaker));
    return next_us;
}

enum breaker_state brakes_state(const struct endpoint *ep)
{
    enum breaker_state state = ep->brake.breaker.state;

    map_foreach(node, &ep->brakes) {
        const struct breaker *b = &MAP_ENTRY(node, struct brake, node)->breaker;
        if (b->state != BREAKER_CLOSED && state != BREAKER_OPEN)
            state = b->state;
    }
    return state;
}

void brakes_fini(struct endpoint *ep)
{
    map_foreach(node, &ep->brakes) {
        struct brake *b = MAP_ENTRY(node, struct brake, node);
        map_remove(&ep->brakes, node);
        mishap_fini(&b->mishap);
        free(b);
    }
    map_fini(&ep->brakes);
    mishap_fini(&ep->brake.mishap);
    mishap_fini(&ep->mishap);
}
