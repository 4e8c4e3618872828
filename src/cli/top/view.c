#include "cli/top/view.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "ops/endpoint.h"
#include "ops/status.h"
#include "ops/explain/routed.h"

#define VIEW_BLOCK 65536

struct view_total {
    pr_slice name;
    uint64_t sent, failed, dead;
    const struct endpoint_state *state; /* NULL: it has not sent yet */
    bool configured;
};

struct top_view *view_new(void)
{
    struct top_view *v = calloc(1, sizeof(*v));

    if (v != NULL)
        arena_init(&v->arena, VIEW_BLOCK);
    return v;
}

void view_free(struct top_view *v)
{
    if (v == NULL)
        return;
    arena_fini(&v->arena);
    free(v);
}

/* ---- Rates ---- */

static int by_name(const void *a, const void *b)
{
    return slice_cmp(((const struct view_total *)a)->name, ((const struct view_total *)b)->name);
}

static double rate(uint64_t now, uint64_t before, double seconds)
{
    return now > before ? (double)(now - before) / seconds : 0; /* a smaller value means another store */
}

static struct view_rates rates_of(const struct top_view *v, const struct top_view *before, const struct view_total *t)
{
    double seconds = before != NULL ? (double)(v->mono_us - before->mono_us) / 1e6 : 0;
    const struct view_total none = { .name = t->name }, *old = NULL;

    if (seconds <= 0)
        return (struct view_rates){ 0 };
    if (before->total_count > 0)
        old = bsearch(t, before->totals, before->total_count, sizeof(*t), by_name);
    if (old == NULL)
        old = &none;
    return (struct view_rates){ true, rate(t->sent, old->sent, seconds), rate(t->failed, old->failed, seconds),
                                rate(t->dead, old->dead, seconds) };
}

static void add_rates(struct view_rates *sum, const struct view_rates *r)
{
    sum->sent += r->sent;
    sum->failed += r->failed;
    sum->dead += r->dead;
}

/* ---- Endpoints ---- */

static enum view_state state_of(const struct endpoint_condition *s, bool known)
{
    if (s->state[0] == 'p')
        return VIEW_PAUSED;
    if (s->breaker != NULL)
        return s->state[0] == 'o' ? VIEW_OPEN : VIEW_HALF_OPEN;
    return known ? VIEW_SENDS : VIEW_UNUSED;
}

static struct view_endpoint endpoint_from(struct top_view *v, const struct query_reply *reply,
                                          const struct view_total *total, const struct top_view *before)
{
    const struct endpoint_state fresh = { .name = total->name }, *e = total->state != NULL ? total->state : &fresh;
    struct endpoint_condition s = endpoint_condition(reply, e);

    return (struct view_endpoint){
        .name = e->name,
        .state = state_of(&s, total->configured),
        .since_us = s.breaker != NULL ? s.breaker->since_us : 0,
        .until_us = s.until_us,
        .why = slice_from(condition_why(&v->arena, &s, e)),
        .sent = e->sent,
        .failed = e->failed,
        .dead = e->dead,
        .rates = rates_of(v, before, total),
        .last_failed_us = e->last_failed_us,
        .last_reason = e->last_reason,
        .last_error = e->last_error,
    };
}

static int compare(double a, double b)
{
    return a > b ? -1 : a < b ? 1 : 0;
}

/* Inactive ones first; then by failures; then by sent messages. */
static int worst_first(const void *a, const void *b)
{
    const struct view_endpoint *x = a, *y = b;
    int order = (int)x->state - (int)y->state;

    if (order == 0)
        order = compare(x->rates.dead + x->rates.failed, y->rates.dead + y->rates.failed);
    if (order == 0)
        order = compare(x->rates.sent, y->rates.sent);
    return order != 0 ? order : slice_cmp(x->name, y->name);
}

static void sort(void *rows, size_t count, size_t size, int (*order)(const void *, const void *))
{
    if (count > 1)
        qsort(rows, count, size, order);
}

/* Those of the store and those of the configuration, each once. */
static void list_totals(struct top_view *v, const struct query_reply *reply, const struct config *config)
{
    bool all = config == NULL || config->endpoint_count == 0;
    size_t stored = reply->endpoint_count;

    for (size_t i = 0; i < stored; i++) {
        const struct endpoint_state *e = &reply->endpoints[i];

        v->totals[i] = (struct view_total){ e->name, e->sent, e->failed, e->dead, e, all };
    }
    sort(v->totals, stored, sizeof(*v->totals), by_name);
    v->total_count = stored;
    for (size_t i = 0; !all && i < config->endpoint_count; i++) {
        struct view_total fresh = { .name = slice_from(config->endpoints[i].name), .configured = true };
        struct view_total *found = stored > 0 ? bsearch(&fresh, v->totals, stored, sizeof(fresh), by_name) : NULL;

        if (found != NULL)
            found->configured = true;
        else
            v->totals[v->total_count++] = fresh;
    }
    sort(v->totals, v->total_count, sizeof(*v->totals), by_name);
}

static int take_endpoints(struct top_view *v, const struct query_reply *reply, const struct config *config,
                          const struct top_view *before, struct pr_error *reterr)
{
    size_t room = reply->endpoint_count + (config != NULL ? config->endpoint_count : 0);

    v->endpoints = arena_alloc_array(&v->arena, room, sizeof(*v->endpoints));
    v->totals = arena_alloc_array(&v->arena, room, sizeof(*v->totals));
    if (v->endpoints == NULL || v->totals == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the endpoints");
    list_totals(v, reply, config);
    for (size_t i = 0; i < v->total_count; i++) {
        struct view_endpoint *e = &v->endpoints[i];

        *e = endpoint_from(v, reply, &v->totals[i], before);
        v->open_count += e->state <= VIEW_HALF_OPEN;
        v->paused_count += e->state == VIEW_PAUSED;
        add_rates(&v->rates, &e->rates);
    }
    v->rates.known = before != NULL;
    sort(v->endpoints, v->total_count, sizeof(*v->endpoints), worst_first);
    v->endpoint_count = min_size(v->total_count, VIEW_ROWS_MAX);
    return PR_OK;
}

/* ---- Boxes ---- */

static void take_boxes(struct top_view *v, const struct query_reply *reply)
{
    v->boxes = reply->boxes;
    v->box_count = reply->box_count;
    v->backlog_exact = v->dead_exact = true;
    for (size_t i = 0; i < reply->box_count; i++) {
        const struct box_counts *b = &reply->boxes[i];
        const uint64_t waits[] = { b->ready, b->delayed, b->retrying, b->held, b->parked, b->paused, b->in_flight };

        for (size_t k = 0; k < ARRAY_LENGTH(waits); k++) {
            v->backlog += min_size((size_t)waits[k], COUNT_EXACT_MAX);
            v->backlog_exact &= waits[k] <= COUNT_EXACT_MAX;
        }
        v->in_flight += b->in_flight;
        v->dead += min_size((size_t)b->dead, COUNT_EXACT_MAX);
        v->dead_exact &= b->dead <= COUNT_EXACT_MAX;
        if (b->oldest_us != 0 && (v->oldest_us == 0 || b->oldest_us < v->oldest_us))
            v->oldest_us = b->oldest_us;
    }
}

/* An instance that serves several boxes has a lease on each. */
static size_t count_instances(const struct query_reply *reply)
{
    size_t count = 0;

    for (size_t i = 0; i < reply->instance_count; i++) {
        const struct instance_info *n = &reply->instances[i];
        bool counted = n->lease_left_us <= 0;

        for (size_t k = 0; k < i && !counted; k++)
            counted = reply->instances[k].lease_left_us > 0 && slice_eq(reply->instances[k].name, n->name);
        count += !counted;
    }
    return count;
}

/* ---- All of it ---- */

static void clear(struct top_view *v)
{
    struct arena arena = v->arena;

    arena_reset(&arena);
    *v = (struct top_view){ .arena = arena };
}

static int ask(struct top_view *v, struct store *store, const struct config *config, enum query_kind kind,
               struct query_reply *ret, struct pr_error *reterr)
{
    const struct config_routing routing = config_routing(config);
    const struct query query = {
        .kind = kind,
        .filter = { .state = -1, .limit = VIEW_ROWS_MAX, .routing = config != NULL ? &routing.routing : NULL },
        .blocked = kind == QUERY_STREAMS
    };

    return store_query(store, &query, &v->arena, ret, reterr);
}

static int ask_all(struct top_view *v, struct store *store, const struct config *config, const struct top_view *before,
                   struct pr_error *reterr)
{
    struct query_reply boxes, endpoints, instances, groups, streams;
    int rc = ask(v, store, config, QUERY_BOXES, &boxes, reterr);

    if (rc == PR_OK)
        rc = ask(v, store, config, QUERY_ENDPOINTS, &endpoints, reterr);
    if (rc == PR_OK)
        rc = ask(v, store, config, QUERY_INSTANCES, &instances, reterr);
    if (rc == PR_OK)
        rc = ask(v, store, config, QUERY_DEAD_GROUPS, &groups, reterr);
    if (rc == PR_OK)
        rc = ask(v, store, config, QUERY_STREAMS, &streams, reterr);
    if (rc == PR_OK && config != NULL) /* a daemon knows its routes itself */
        boxes_hide_unused(config, &boxes, &instances);
    if (rc == PR_OK && config != NULL)
        rc = boxes_see_routes(store, config, &endpoints, &boxes, NULL, reterr);
    if (rc == PR_OK)
        rc = take_endpoints(v, &endpoints, config, before, reterr);
    if (rc != PR_OK)
        return rc;
    take_boxes(v, &boxes);
    v->now_us = boxes.now_us;
    v->groups = groups.groups;
    v->group_count = groups.group_count;
    v->groups_more = groups.more;
    v->streams = streams.streams;
    v->stream_count = streams.stream_count;
    v->streams_more = streams.more;
    v->instance_count = count_instances(&instances);
    return PR_OK;
}

int view_ask(struct top_view *v, struct store *store, const struct config *config, const struct top_view *before,
             int64_t mono_us, struct pr_error *reterr)
{
    clear(v);
    v->mono_us = mono_us;
    int rc = ask_all(v, store, config, before, reterr);
    if (rc != PR_OK)
        clear(v);
    return rc;
}
