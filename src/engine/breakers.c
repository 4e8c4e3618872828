/* The breakers of an endpoint: one for all of it, or one for each message type.
 *
 * With one for each type, messages of a type that may not go now are put on that type's shelf, so
 * that they are not met again and again while the others go on.  They are still waiting: a shelf
 * is only another list for the same node.  Such a type is held back: what it has in memory takes no
 * room from the others, and it gets little more (pass.c).  A type with nothing in memory whose
 * breaker has nothing to remember has none. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define BRAKES_MAX 1024 /* types of one endpoint that are watched at once; others are not */

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

void endpoint_breaker_init(struct endpoint_breaker *b, struct endpoint *ep)
{
    b->endpoint = ep;
    list_init(&b->loose);
    list_init(&b->streams);
}

/* NULL: no memory, or too many: then this type has no breaker. */
static struct endpoint_breaker *endpoint_breaker_get(struct endpoint *ep, pr_slice type)
{
    struct endpoint_breaker *b = endpoint_breaker_find(ep, type);

    if (b != NULL || map_count(&ep->breakers) >= BRAKES_MAX)
        return b;
    b = calloc(1, sizeof(*b) + type.size);
    if (b == NULL)
        return NULL;
    endpoint_breaker_init(b, ep);
    memcpy(b + 1, type.data, type.size);
    b->type = (pr_slice){ (const char *)(b + 1), type.size };
    if (map_insert(&ep->breakers, &b->node, type_hash(type)) != PR_OK) {
        free(b);
        return NULL;
    }
    return b;
}

static bool is_per_type(const struct endpoint *ep)
{
    return ep->setting->breaker.per_type && ep->setting->breaker.enabled;
}

/* NULL: this type is not watched. */
static struct endpoint_breaker *endpoint_breaker_of(struct endpoint *ep, const struct item *item)
{
    return is_per_type(ep) ? item->gate : &ep->gate;
}

static struct breaker *breaker_of(struct endpoint *ep, const struct item *item)
{
    struct endpoint_breaker *b = endpoint_breaker_of(ep, item);
    return b != NULL ? &b->breaker : NULL;
}

/* ---- Shelves -------------------------------------------------------------------------------- */

static void endpoint_breaker_unshelve(struct endpoint *ep, struct endpoint_breaker *b)
{
    for (struct list_node *n = list_pop_front(&b->loose); n != NULL; n = list_pop_front(&b->loose))
        list_push_back(&ep->loose, n);
    for (struct list_node *n = list_pop_front(&b->streams); n != NULL; n = list_pop_front(&b->streams)) {
        LIST_ENTRY(n, struct stream, ready)->shelved = false;
        list_push_back(&ep->ready_streams, n);
    }
}

void breakers_unshelve(struct endpoint *ep, int64_t now_us)
{
    if (ep->held_types.types == 0)
        return;
    map_foreach(node, &ep->breakers) {
        struct endpoint_breaker *b = MAP_ENTRY(node, struct endpoint_breaker, node);
        if (!(list_is_empty(&b->loose) && list_is_empty(&b->streams)) &&
            breaker_allows(&b->breaker, &ep->setting->breaker, now_us))
            endpoint_breaker_unshelve(ep, b);
    }
}

bool breakers_allow_or_shelve(struct endpoint *ep, struct item *item, int64_t now_us)
{
    struct endpoint_breaker *b = item->gate;

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

/* ---- Who is in memory --------------------------------------------------------------------------- */

/* Its breaker was told something: the only place that bars a type, or ends that. */
static void endpoint_breaker_update(struct endpoint *ep, struct endpoint_breaker *b)
{
    bool holds_type = b->breaker.state != BREAKER_CLOSED;

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

void breakers_enter(struct endpoint *ep, struct item *item)
{
    struct endpoint_breaker *b = is_per_type(ep) ? endpoint_breaker_get(ep, item->m.type) : NULL;

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
    ep->held_types.over |= b->holds_type && b->count == 0; /* there must be somebody to probe with */
    endpoint_breaker_release(b);
}

bool breakers_hold_type(const struct engine *e, const struct endpoint *ep, pr_slice type)
{
    const struct endpoint_breaker *b = ep->held_types.types > 0 ? endpoint_breaker_find(ep, type) : NULL;

    return b != NULL && b->holds_type && b->count > 0 &&
           (b->count >= CLOSED_SHARE || ep->held_types.count >= e->setting.window_count / 4);
}

/* ---- The breaker's questions ------------------------------------------------------------------ */

bool breakers_allow(struct endpoint *ep, int64_t now_us)
{
    return is_per_type(ep) || breaker_allows(&ep->gate.breaker, &ep->setting->breaker, now_us);
}

bool breakers_are_shut(const struct endpoint *ep)
{
    return !is_per_type(ep) && ep->gate.breaker.state != BREAKER_CLOSED;
}

/* Sent after its breaker opened, only because it was announced before. */
bool breakers_hold_back(struct endpoint *ep, const struct item *item)
{
    const struct breaker *b = breaker_of(ep, item);
    return b != NULL && b->state == BREAKER_OPEN;
}

void breakers_started(struct endpoint *ep, const struct item *item)
{
    struct breaker *b = breaker_of(ep, item);
    if (b != NULL)
        breaker_started(b, item->row);
}

static bool endpoint_breaker_failed(struct engine *e, struct endpoint_breaker *b, const struct failure *f,
                                    uint64_t message, bool transient, int64_t now_us, bool *ret_opened)
{
    enum breaker_state before = b->breaker.state, after;
    bool ours;

    ours = breaker_failed(&b->breaker, &b->endpoint->setting->breaker, message, transient, f->retry_after_us, now_us);
    after = b->breaker.state;
    *ret_opened = before == BREAKER_CLOSED && after == BREAKER_OPEN;
    if (after == BREAKER_OPEN && before != BREAKER_OPEN)
        report_opened(e, b, f, *ret_opened, now_us);
    else if (after == BREAKER_CLOSED && before != BREAKER_CLOSED)
        report_closed(e, b);
    endpoint_breaker_update(b->endpoint, b);
    return ours;
}

bool breakers_failed(struct engine *e, const struct item *item, const struct failure *f, bool transient, int64_t now_us,
                     bool *ret_opened)
{
    struct endpoint_breaker *b = endpoint_breaker_of(item->endpoint, item);

    *ret_opened = false;
    return b != NULL && endpoint_breaker_failed(e, b, f, item->row, transient, now_us, ret_opened);
}

bool breakers_are_same(const struct endpoint *ep, const struct item *a, const struct item *b)
{
    return a->endpoint == ep && b->endpoint == ep && (!is_per_type(ep) || slice_eq(a->m.type, b->m.type));
}

/* Of a type that has nothing to remember any more: it goes on as if it never had one. */
void endpoint_breaker_release(struct endpoint_breaker *b)
{
    struct endpoint *ep = b->endpoint;

    if (b == &ep->gate || b->count > 0 || !breaker_is_fresh(&b->breaker) || !report_is_over(b))
        return;
    map_remove(&ep->breakers, &b->node);
    last_failure_fini(&b->last_failure);
    free(b);
}

static void endpoint_breaker_succeeded(struct engine *e, struct endpoint_breaker *b, uint64_t message, int64_t now_us)
{
    bool was_closed = b->breaker.state == BREAKER_CLOSED;

    breaker_succeeded(&b->breaker, &b->endpoint->setting->breaker, message, now_us);
    if (!was_closed && b->breaker.state == BREAKER_CLOSED)
        report_closed(e, b);
    endpoint_breaker_update(b->endpoint, b);
}

void breakers_succeeded(struct engine *e, const struct item *item, int64_t now_us)
{
    struct endpoint_breaker *b = endpoint_breaker_of(item->endpoint, item);

    if (b != NULL)
        endpoint_breaker_succeeded(e, b, item->row, now_us);
}

void breakers_returned(struct endpoint *ep, const struct item *item)
{
    struct breaker *b = breaker_of(ep, item);
    if (b != NULL)
        breaker_returned(b, item->row);
}

void breakers_heard(struct engine *e, struct endpoint *ep, const struct engine_inline_result *news, int64_t now_us)
{
    struct endpoint_breaker *b = is_per_type(ep) ? endpoint_breaker_get(ep, news->type) : &ep->gate;
    struct failure f = { .reason = news->reason, .retry_after_us = news->retry_after_us };
    bool opened;

    if (b == NULL)
        return;
    if (news->failed > 0)
        (void)endpoint_breaker_failed(e, b, &f, news->message, news->transient, now_us, &opened);
    else
        endpoint_breaker_succeeded(e, b, news->message, now_us);
    endpoint_breaker_release(b);
}

int64_t breakers_next_us(const struct endpoint *ep)
{
    int64_t next_us = PR_NEVER;

    if (!is_per_type(ep))
        return breaker_next_us(&ep->gate.breaker);
    if (ep->held_types.types == 0)
        return PR_NEVER;
    map_foreach(node, &ep->breakers)
        next_us = min64(next_us, breaker_next_us(&MAP_ENTRY(node, struct endpoint_breaker, node)->breaker));
    return next_us;
}

enum breaker_state breakers_state(const struct endpoint *ep)
{
    enum breaker_state state = ep->gate.breaker.state;

    if (ep->held_types.types == 0)
        return state;
    map_foreach(node, &ep->breakers) {
        const struct breaker *b = &MAP_ENTRY(node, struct endpoint_breaker, node)->breaker;
        if (b->state != BREAKER_CLOSED && state != BREAKER_OPEN)
            state = b->state;
    }
    return state;
}

void breakers_check(const struct endpoint *ep)
{
    size_t types = 0, count = 0, bytes = 0, held_types_count = 0, held_types_bytes = 0;

    map_foreach(node, &ep->breakers) {
        const struct endpoint_breaker *b = MAP_ENTRY(node, struct endpoint_breaker, node);
        ASSERT(b->holds_type == (b->breaker.state != BREAKER_CLOSED));
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
        free(b);
    }
    map_fini(&ep->breakers);
    last_failure_fini(&ep->gate.last_failure);
    last_failure_fini(&ep->last_failure);
    free(ep->held_types.stream_filter);
}
