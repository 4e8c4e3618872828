/* What breakers of an endpoint answer before a message goes out, and what they learn from its result.  They are shared
 * (limits.h): every question and every result is one step under the endpoint's lock. */
#include "engine/internal.h"

/* ---- The breaker's questions ------------------------------------------------------------------ */

/* Rows of other boxes have the same numbers, so the box's salt is mixed in. */
static uint64_t message_number(const struct engine *e, const struct item *item)
{
    return item->row ^ e->breaker_salt;
}

bool breakers_allow(struct endpoint *ep, int64_t now_us)
{
    bool allowed;

    limits_lock(ep->limits);
    allowed = endpoint_breaker_allows(&ep->gate, now_us);
    limits_unlock(ep->limits);
    return allowed;
}

bool breakers_start(struct engine *e, struct endpoint *ep, const struct item *item, int64_t now_us)
{
    bool starts;

    limits_lock(ep->limits);
    starts = limits_may_take(ep->limits, &ep->use, ep->setting, now_us) && endpoint_breaker_allows(&ep->gate, now_us) &&
             (item->gate == NULL || endpoint_breaker_allows(item->gate, now_us));
    if (starts) {
        limits_taken(ep->limits, &ep->use, ep->setting);
        breaker_started(&ep->gate.shared->breaker, message_number(e, item));
        if (item->gate != NULL)
            breaker_started(&item->gate->shared->breaker, message_number(e, item));
    }
    limits_unlock(ep->limits);
    return starts;
}

/* ---- Results: with the lock held ---------------------------------------------------------------- */

static bool shared_failed(struct engine *e, struct endpoint_breaker *b, const struct failure *f, uint64_t message,
                          enum breaker_weight weight, int64_t now_us)
{
    struct shared_breaker *shared = b->shared;
    enum breaker_state before = shared->breaker.state, after;
    bool ours =
        breaker_failed(&shared->breaker, &b->endpoint->setting->breaker, message, weight, f->retry_after_us, now_us);

    after = shared->breaker.state;
    if (before == BREAKER_CLOSED && after == BREAKER_OPEN)
        shared->since_us = now_us;
    if (after == BREAKER_OPEN && before != BREAKER_OPEN)
        last_failure_set(&shared->last_failure, f);
    if (after != before)
        limits_breaker_changed(b->endpoint->limits);
    endpoint_breaker_look(e, b);
    return ours;
}

static void shared_succeeded(struct engine *e, struct endpoint_breaker *b, uint64_t message, int64_t now_us)
{
    struct shared_breaker *shared = b->shared;
    enum breaker_state before = shared->breaker.state;

    breaker_succeeded(&shared->breaker, &b->endpoint->setting->breaker, message, now_us);
    if (shared->breaker.state != before) {
        last_failure_fini(&shared->last_failure);
        limits_breaker_changed(b->endpoint->limits);
    }
    endpoint_breaker_look(e, b);
}

/* Another message may be the probe. */
static void shared_returned(struct endpoint_breaker *b, uint64_t message)
{
    struct breaker *breaker = &b->shared->breaker;
    bool probed = breaker->probe != 0;

    breaker_returned(breaker, message);
    if (probed && breaker->probe == 0)
        limits_breaker_changed(b->endpoint->limits);
}

/* The endpoint could not be asked about this type: whether it accepts the type is as unknown as before. */
static bool whole_failed(struct engine *e, struct endpoint *ep, struct endpoint_breaker *type, const struct failure *f,
                         uint64_t message, enum breaker_weight weight, int64_t now_us)
{
    if (type != NULL)
        shared_returned(type, message);
    return shared_failed(e, &ep->gate, f, message, weight, now_us);
}

/* ---- Results ------------------------------------------------------------------------------------ */

int64_t breakers_set_back(struct endpoint *ep, int64_t now_us)
{
    int64_t for_us;

    limits_lock(ep->limits);
    for_us = setback_failed(&ep->limits->setback, &ep->setting->breaker, now_us);
    limits_unlock(ep->limits);
    return for_us;
}

void breakers_end_setback(struct endpoint *ep)
{
    limits_lock(ep->limits);
    ep->limits->setback = (struct setback){ 0 };
    limits_unlock(ep->limits);
}

bool breakers_failed(struct engine *e, const struct item *item, const struct failure *f, enum breaker_weight weight,
                     int64_t now_us)
{
    struct endpoint *ep = item->endpoint;
    struct endpoint_breaker *b = breakers_blamed(ep, item, failure_fault(f));
    uint64_t message = message_number(e, item);
    bool ours = false;

    limits_lock(ep->limits);
    if (b == &ep->gate) {
        ours = whole_failed(e, ep, item->gate, f, message, weight, now_us);
    } else {
        shared_succeeded(e, &ep->gate, message, now_us); /* the endpoint answered */
        ours = b != NULL && shared_failed(e, b, f, message, weight, now_us);
    }
    limits_unlock(ep->limits);
    return ours;
}

void breakers_succeeded(struct engine *e, const struct item *item, int64_t now_us)
{
    struct endpoint *ep = item->endpoint;

    limits_lock(ep->limits);
    ep->limits->setback = (struct setback){ 0 };
    shared_succeeded(e, &ep->gate, message_number(e, item), now_us);
    if (item->gate != NULL)
        shared_succeeded(e, item->gate, message_number(e, item), now_us);
    limits_unlock(ep->limits);
}

void breakers_returned(struct engine *e, struct endpoint *ep, const struct item *item)
{
    limits_lock(ep->limits);
    shared_returned(&ep->gate, message_number(e, item));
    if (item->gate != NULL)
        shared_returned(item->gate, message_number(e, item));
    limits_unlock(ep->limits);
}

void breakers_heard(struct engine *e, struct endpoint *ep, const struct engine_inline_result *result, int64_t now_us)
{
    struct endpoint_breaker *type = breakers_are_per_type(ep) ? endpoint_breaker_get(e, ep, result->type) : NULL;
    struct failure f = { .reason = result->reason, .retry_after_us = result->retry_after_us };
    bool of_type = result->failed > 0 && breakers_are_per_type(ep) && result->fault != FAULT_ENDPOINT;

    limits_lock(ep->limits);
    if (result->failed > 0 && !of_type)
        (void)whole_failed(e, ep, type, &f, result->message, result->weight, now_us);
    else
        shared_succeeded(e, &ep->gate, result->message, now_us);
    if (of_type && type != NULL)
        (void)shared_failed(e, type, &f, result->message, result->weight, now_us);
    else if (result->failed == 0 && type != NULL)
        shared_succeeded(e, type, result->message, now_us);
    limits_unlock(ep->limits);
    if (type != NULL)
        endpoint_breaker_release(type);
}
