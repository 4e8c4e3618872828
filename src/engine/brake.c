/* The breakers of an endpoint: one for all of it, or one for each message type.
 *
 * With one for each type, messages of a type that may not go now are put on that type's shelf, so
 * that they are not met again and again while the others go on.  They are still waiting: a shelf
 * is only another list for the same node.  Such a type is barred: what it has in memory takes no
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

/* NULL: this type is not watched. */
static struct brake *brake_of(struct endpoint *ep, const struct item *item)
{
    return is_per_type(ep) ? item->brake : &ep->brake;
}

static struct breaker *breaker_of(struct endpoint *ep, const struct item *item)
{
    struct brake *b = brake_of(ep, item);
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
    if (ep->barred.types == 0)
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
    struct brake *b = item->brake;

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
static void brake_update(struct endpoint *ep, struct brake *b)
{
    bool barred = b->breaker.state != BREAKER_CLOSED;

    if (barred == b->barred || b == &ep->brake)
        return;
    b->barred = barred;
    if (barred) {
        ep->tripped = true;
        ep->barred.types++;
        ep->barred.count += b->count;
        ep->barred.bytes += b->bytes;
        return;
    }
    ep->barred.types--;
    ep->barred.count -= b->count;
    ep->barred.bytes -= b->bytes;
    ep->barred.over = true;
    brake_unshelve(ep, b);
}

void brakes_enter(struct endpoint *ep, struct item *item)
{
    struct brake *b = is_per_type(ep) ? brake_get(ep, item->m.type) : NULL;

    item->brake = b;
    if (b == NULL)
        return;
    b->count++;
    b->bytes += item->bytes;
    ep->barred.count += b->barred ? 1 : 0;
    ep->barred.bytes += b->barred ? item->bytes : 0;
}

void brakes_leave(struct endpoint *ep, struct item *item)
{
    struct brake *b = item->brake;

    if (b == NULL)
        return;
    item->brake = NULL;
    b->count--;
    b->bytes -= item->bytes;
    ep->barred.count -= b->barred ? 1 : 0;
    ep->barred.bytes -= b->barred ? item->bytes : 0;
    ep->barred.over |= b->barred && b->count == 0; /* there must be somebody to probe with */
    brake_release(b);
}

bool brakes_bar(const struct engine *e, const struct endpoint *ep, pr_slice type)
{
    const struct brake *b = ep->barred.types > 0 ? brake_find(ep, type) : NULL;

    return b != NULL && b->barred && b->count > 0 &&
           (b->count >= CLOSED_SHARE || ep->barred.count >= e->setting.window_count / 4);
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
    const struct breaker *b = breaker_of(ep, item);
    return b != NULL && b->state == BREAKER_OPEN;
}

void brakes_started(struct endpoint *ep, const struct item *item)
{
    struct breaker *b = breaker_of(ep, item);
    if (b != NULL)
        breaker_started(b, item->row);
}

static bool brake_failed(struct engine *e, struct brake *b, const struct failure *f, uint64_t message, bool transient,
                         int64_t now_us, bool *ret_opened)
{
    enum breaker_state before = b->breaker.state, after;
    bool               ours;

    ours  = breaker_failed(&b->breaker, &b->endpoint->setting->breaker, message, transient, f->retry_after_us, now_us);
    after = b->breaker.state;
    *ret_opened = before == BREAKER_CLOSED && after == BREAKER_OPEN;
    if (after == BREAKER_OPEN && before != BREAKER_OPEN)
        report_opened(e, b, f, *ret_opened, now_us);
    else if (after == BREAKER_CLOSED && before != BREAKER_CLOSED)
        report_closed(e, b);
    brake_update(b->endpoint, b);
    return ours;
}

bool brakes_failed(struct engine *e, const struct item *item, const struct failure *f, bool transient, int64_t now_us,
                   bool *ret_opened)
{
    struct brake *b = brake_of(item->endpoint, item);

    *ret_opened = false;
    return b != NULL && brake_failed(e, b, f, item->row, transient, now_us, ret_opened);
}

bool brakes_are_same(const struct endpoint *ep, const struct item *a, const struct item *b)
{
    return a->endpoint == ep && b->endpoint == ep && (!is_per_type(ep) || slice_eq(a->m.type, b->m.type));
}

/* Of a type that has nothing to remember any more: it goes on as if it never had one. */
void brake_release(struct brake *b)
{
    struct endpoint *ep = b->endpoint;

    if (b == &ep->brake || b->count > 0 || !breaker_is_fresh(&b->breaker) || !report_is_over(b))
        return;
    map_remove(&ep->brakes, &b->node);
    mishap_fini(&b->mishap);
    free(b);
}

static void brake_succeeded(struct engine *e, struct brake *b, uint64_t message, int64_t now_us)
{
    bool was_closed = b->breaker.state == BREAKER_CLOSED;

    breaker_succeeded(&b->breaker, &b->endpoint->setting->breaker, message, now_us);
    if (!was_closed && b->breaker.state == BREAKER_CLOSED)
        report_closed(e, b);
    brake_update(b->endpoint, b);
}

void brakes_succeeded(struct engine *e, const struct item *item, int64_t now_us)
{
    struct brake *b = brake_of(item->endpoint, item);

    if (b != NULL)
        brake_succeeded(e, b, item->row, now_us);
}

void brakes_returned(struct endpoint *ep, const struct item *item)
{
    struct breaker *b = breaker_of(ep, item);
    if (b != NULL)
        breaker_returned(b, item->row);
}

void brakes_heard(struct engine *e, struct endpoint *ep, const struct engine_news *news, int64_t now_us)
{
    struct brake  *b = is_per_type(ep) ? brake_get(ep, news->type) : &ep->brake;
    struct failure f = { .reason = news->reason, .retry_after_us = news->retry_after_us };
    bool           opened;

    if (b == NULL)
        return;
    if (news->failed > 0)
        (void)brake_failed(e, b, &f, news->message, news->transient, now_us, &opened);
    else
        brake_succeeded(e, b, news->message, now_us);
    brake_release(b);
}

int64_t brakes_next_us(const struct endpoint *ep)
{
    int64_t next_us = PR_NEVER;

    if (!is_per_type(ep))
        return breaker_next_us(&ep->brake.breaker);
    if (ep->barred.types == 0)
        return PR_NEVER;
    map_foreach(node, &ep->brakes)
        next_us = min64(next_us, breaker_next_us(&MAP_ENTRY(node, struct brake, node)->breaker));
    return next_us;
}

enum breaker_state brakes_state(const struct endpoint *ep)
{
    enum breaker_state state = ep->brake.breaker.state;

    if (ep->barred.types == 0)
        return state;
    map_foreach(node, &ep->brakes) {
        const struct breaker *b = &MAP_ENTRY(node, struct brake, node)->breaker;
        if (b->state != BREAKER_CLOSED && state != BREAKER_OPEN)
            state = b->state;
    }
    return state;
}

void brakes_check(const struct endpoint *ep)
{
    size_t types = 0, count = 0, bytes = 0, barred_count = 0, barred_bytes = 0;

    map_foreach(node, &ep->brakes) {
        const struct brake *b = MAP_ENTRY(node, struct brake, node);
        ASSERT(b->barred == (b->breaker.state != BREAKER_CLOSED));
        ASSERT(b->barred || (list_is_empty(&b->loose) && list_is_empty(&b->streams)));
        types += b->barred;
        count += b->count;
        bytes += b->bytes;
        barred_count += b->barred ? b->count : 0;
        barred_bytes += b->barred ? b->bytes : 0;
    }
    ASSERT(count <= ep->count && bytes <= ep->bytes);
    ASSERT(types == ep->barred.types && barred_count == ep->barred.count && barred_bytes == ep->barred.bytes);
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
    free(ep->barred.sieve);
}
