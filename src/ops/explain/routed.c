#include "ops/explain/routed.h"

#include "base/slice.h"
#include "core/state.h"
#include "ops/endpoint.h"

#define PAGE 1000
#define LOOK_FIRST 5000 /* rows */

static bool is_paused(const struct query_reply *endpoints, const char *name)
{
    for (size_t i = 0; i < endpoints->endpoint_count; i++)
        if (slice_eq_cstr(endpoints->endpoints[i].name, name))
            return endpoints->endpoints[i].paused_until_us > endpoints->now_us;
    return false;
}

/* Does a route lead to an endpoint that is paused? */
static bool routes_are_paused(const struct config *config, const struct query_reply *endpoints)
{
    for (size_t i = 0; i < config->route_count; i++)
        for (size_t k = 0; k < config->routes[i].to_count; k++)
            if (is_paused(endpoints, config->routes[i].to[k]))
                return true;
    return false;
}

struct routed {
    uint64_t ready, retrying; /* counted in these states by the store, although their endpoint is paused */
    int64_t oldest_us;        /* since when the oldest ready one waits */
};

static void tally(const struct query_reply *page, struct routed *r)
{
    uint64_t *const counts[] = { [STATE_READY] = &r->ready, [STATE_RETRYING] = &r->retrying };

    for (size_t i = 0; i < page->listed_count; i++) {
        const struct listed *l = &page->listed[i];
        enum state unpaused = state_of_row(&l->m, page->now_us);

        if (l->state == STATE_PAUSED && l->m.destination.size == 0)
            ++*counts[unpaused];
        else if (l->state == STATE_READY && (r->oldest_us == 0 || message_ready_since(&l->m) < r->oldest_us))
            r->oldest_us = message_ready_since(&l->m);
    }
}

/* Looks at the rows of a box; true: at all of them. */
static int look(struct store *store, const struct config *config, pr_slice box, struct routed *r, bool *ret_all,
                struct pr_error *reterr)
{
    const struct config_routing routing = config_routing(config);
    struct query query = { .kind = QUERY_MESSAGES,
                           .brief = true,
                           .filter = { .box = box, .state = -1, .limit = PAGE, .routing = &routing.routing } };
    struct query_reply page = { .more = true };
    struct arena arena;
    int code = PR_OK;

    arena_init(&arena, 65536);
    for (size_t seen = 0; seen < COUNT_EXACT_MAX && page.more && code == PR_OK; seen += page.listed_count) {
        arena_reset(&arena);
        code = store_query(store, &query, &arena, &page, reterr);
        if (code != PR_OK)
            break;
        tally(&page, r);
        query.filter.after = page.next;
    }
    arena_fini(&arena);
    *ret_all = !page.more;
    return code;
}

/* Too many to look at: the first rows show whether anything is ready at all, and since when. */
static int look_first(struct store *store, const struct config *config, struct box_counts *b, struct pr_error *reterr)
{
    const struct config_routing routing = config_routing(config);
    const struct query query = {
        .kind = QUERY_MESSAGES,
        .brief = true,
        .filter = { .box = b->name,
                    .state = STATE_READY,
                    .limit = 1,
                    .look_max = LOOK_FIRST,
                    .routing = &routing.routing },
    };
    struct query_reply page = { .listed_count = 0 };
    struct arena arena;

    arena_init(&arena, 65536);
    int code = store_query(store, &query, &arena, &page, reterr);
    if (code == PR_OK && page.listed_count > 0)
        b->oldest_us = message_ready_since(&page.listed[0].m);
    else if (code == PR_OK) {
        b->paused = b->paused + b->ready <= COUNT_EXACT_MAX ? b->paused + b->ready : COUNT_EXACT_MAX + 1;
        b->ready = 0;
        b->oldest_us = 0;
    }
    b->partial = true;
    arena_fini(&arena);
    return code;
}

/* Looks at no more rows than are counted. */
static int see_routed(struct store *store, const struct config *config, struct box_counts *b, struct pr_error *reterr)
{
    struct routed r = { 0 };
    bool all = b->ready + b->in_flight + b->delayed + b->retrying + b->held + b->parked + b->paused <= COUNT_EXACT_MAX;
    int code = all ? look(store, config, b->name, &r, &all, reterr) : PR_OK;

    if (code != PR_OK)
        return code;
    if (!all)
        return look_first(store, config, b, reterr);
    b->paused += r.ready + r.retrying;
    b->ready -= r.ready < b->ready ? r.ready : b->ready;
    b->retrying -= r.retrying < b->retrying ? r.retrying : b->retrying;
    b->oldest_us = b->ready > 0 ? r.oldest_us : 0;
    return PR_OK;
}

int boxes_see_routes(struct store *store, const struct config *config, const struct query_reply *endpoints,
                     struct query_reply *boxes, bool *ret_unknown, struct pr_error *reterr)
{
    int code = PR_OK;

    if (!routes_are_paused(config, endpoints))
        return PR_OK;
    for (size_t i = 0; i < boxes->box_count && code == PR_OK; i++) {
        struct box_counts *b = &boxes->boxes[i];

        if (b->ready + b->retrying > 0)
            code = see_routed(store, config, b, reterr);
        if (ret_unknown != NULL)
            *ret_unknown |= b->partial;
    }
    return code;
}
