/* The breakers of an endpoint: one for all of it, and one for each message type unless `per: endpoint` says otherwise.
 *
 * What could not be sent counts for the endpoint, and so does that it does not know us; an answer, or silence, counts
 * for the type of its message, and says that the endpoint is there.  A message goes out when both let it.
 *
 * Where types have their own, messages of a type that may not go now are put on that type's shelf, so
 * that they are not met again and again while the others go on.  They are still waiting: a shelf
 * is only another list for the same node.  Such a type is held back: what it has in memory takes no
 * room from the others, and it gets little more (held_types.c).  A type with nothing in memory whose
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
struct endpoint_breaker *breakers_blamed(struct endpoint *ep, const struct item *item, enum fault fault)
{
    return is_per_type(ep) && fault != FAULT_ENDPOINT ? item->gate : &ep->gate;
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
    return breaker_allows(&ep->gate.breaker, &ep->setting->breaker, now_us);
}

bool breakers_are_shut(const struct endpoint *ep)
{
    return ep->gate.breaker.state != BREAKER_CLOSED;
}

/* Sent after its breaker opened, only because it was announced before. */
bool breakers_hold_back(struct endpoint *ep, const struct item *item)
{
    return ep->gate.breaker.state == BREAKER_OPEN || (item->gate != NULL && item->gate->breaker.state == BREAKER_OPEN);
}

void breakers_started(struct endpoint *ep, const struct item *item)
{
    breaker_started(&ep->gate.breaker, item->row);
    if (item->gate != NULL)
        breaker_started(&item->gate->breaker, item->row);
}

static bool endpoint_breaker_failed(struct engine *e, struct endpoint_breaker *b, const struct failure *f,
                                    uint64_t message, enum breaker_weight weight, int64_t now_us, bool *ret_opened)
{
    enum breaker_state before = b->breaker.state, after;
    bool ours;

    ours = breaker_failed(&b->breaker, &b->endpoint->setting->breaker, message, weight, f->retry_after_us, now_us);
    after = b->breaker.state;
    *ret_opened = before == BREAKER_CLOSED && after == BREAKER_OPEN;
    if (after == BREAKER_OPEN && before != BREAKER_OPEN)
        report_opened(e, b, f, *ret_opened, now_us);
    else if (after == BREAKER_CLOSED && before != BREAKER_CLOSED)
        report_closed(e, b);
    endpoint_breaker_update(b->endpoint, b);
    return ours;
}

static void endpoint_breaker_succeeded(struct engine *e, struct endpoint_breaker *b, uint64_t message, int64_t now_us)
{
    bool was_closed = b->breaker.state == BREAKER_CLOSED;

    breaker_succeeded(&b->breaker, &b->endpoint->setting->breaker, message, now_us);
    if (!was_closed && b->breaker.state == BREAKER_CLOSED)
        report_closed(e, b);
    endpoint_breaker_update(b->endpoint, b);
}

/* The endpoint could not be asked about this type: whether it works for it is as open as before. */
static bool whole_failed(struct engine *e, struct endpoint *ep, struct endpoint_breaker *type, const struct failure *f,
                         uint64_t message, enum breaker_weight weight, int64_t now_us, bool *ret_opened)
{
    if (type != NULL)
        breaker_returned(&type->breaker, message);
    return endpoint_breaker_failed(e, &ep->gate, f, message, weight, now_us, ret_opened);
}

bool breakers_failed(struct engine *e, const struct item *item, const struct failure *f, enum breaker_weight weight,
                     int64_t now_us, bool *ret_opened)
{
    struct endpoint *ep = item->endpoint;
    struct endpoint_breaker *b = breakers_blamed(ep, item, failure_fault(f));

    *ret_opened = false;
    if (b == &ep->gate)
        return whole_failed(e, ep, item->gate, f, item->row, weight, now_us, ret_opened);
    endpoint_breaker_succeeded(e, &ep->gate, item->row, now_us); /* it is there */
    return b != NULL && endpoint_breaker_failed(e, b, f, item->row, weight, now_us, ret_opened);
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

void breakers_succeeded(struct engine *e, const struct item *item, int64_t now_us)
{
    struct endpoint *ep = item->endpoint;

    ep->setback = (struct setback){ 0 };
    endpoint_breaker_succeeded(e, &ep->gate, item->row, now_us);
    if (item->gate != NULL)
        endpoint_breaker_succeeded(e, item->gate, item->row, now_us);
}

void breakers_returned(struct endpoint *ep, const struct item *item)
{
    breaker_returned(&ep->gate.breaker, item->row);
    if (item->gate != NULL)
        breaker_returned(&item->gate->breaker, item->row);
}

void breakers_heard(struct engine *e, struct endpoint *ep, const struct engine_inline_result *news, int64_t now_us)
{
    struct endpoint_breaker *type = is_per_type(ep) ? endpoint_breaker_get(ep, news->type) : NULL;
    struct failure f = { .reason = news->reason, .retry_after_us = news->retry_after_us };
    bool of_type = news->failed > 0 && is_per_type(ep) && news->fault != FAULT_ENDPOINT, opened;

    if (news->failed > 0 && !of_type)
        (void)whole_failed(e, ep, type, &f, news->message, news->weight, now_us, &opened);
    else
        endpoint_breaker_succeeded(e, &ep->gate, news->message, now_us);
    if (of_type && type != NULL)
        (void)endpoint_breaker_failed(e, type, &f, news->message, news->weight, now_us, &opened);
    else if (news->failed == 0 && type != NULL)
        endpoint_breaker_succeeded(e, type, news->message, now_us);
    if (type != NULL)
        endpoint_breaker_release(type);
}

int64_t breakers_next_us(const struct endpoint *ep)
{
    int64_t next_us = breaker_next_us(&ep->gate.breaker);

    if (ep->held_types.types == 0)
        return next_us;
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
