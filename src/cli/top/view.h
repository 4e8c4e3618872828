/* view.h - the facts of `top` at one moment, from any store: a file, a server, or a daemon's API.
 *
 * Every list is a page with the worst first, and says whether there is more.  Rates are differences to an earlier
 * view. */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include "base/arena.h"
#include "base/buf.h"
#include "runtime/config/config.h"
#include "store/store.h"

#define VIEW_ROWS_MAX 200 /* entries of a list: nobody reads further, and a store in trouble should not be loaded */

struct view_rates {
    bool known;                /* there was an earlier view */
    double sent, failed, dead; /* per second */
};

enum view_state { VIEW_OPEN, VIEW_HALF_OPEN, VIEW_PAUSED, VIEW_SENDS, VIEW_UNUSED }; /* the worst first */

struct view_endpoint {
    pr_slice name;         /* empty: messages died before they were routed */
    enum view_state state; /* UNUSED: sends nothing, and is not in the configuration */
    int64_t since_us;      /* when the breaker opened; 0: none */
    int64_t until_us;      /* the next probe, or the end of the pause; PR_NEVER; 0: none */
    pr_slice why;          /* "" when it is active */
    uint64_t sent, failed, dead;
    struct view_rates rates;
    int64_t last_failed_us; /* 0: never */
    int last_reason;
    pr_slice last_error;
};

struct view_total; /* totals of an endpoint, for the next view's rates */

struct top_view {
    struct arena arena; /* memory of everything below */
    int64_t now_us;     /* by the store's clock */
    int64_t mono_us;    /* when the store was asked */

    struct box_counts *boxes;
    size_t box_count;
    struct view_endpoint *endpoints;
    size_t endpoint_count;
    size_t open_count, paused_count; /* including those beyond the page */
    struct dead_group *groups;
    size_t group_count;
    bool groups_more;
    struct stream_info *streams;
    size_t stream_count;
    bool streams_more;

    size_t instance_count; /* processes with a lease */
    uint64_t backlog;      /* neither delivered nor dead */
    uint64_t in_flight, dead;
    bool backlog_exact, dead_exact;
    int64_t oldest_us; /* of ready messages; 0: none */
    struct view_rates rates;

    struct view_total *totals; /* of all endpoints, by name */
    size_t total_count;
};

struct top_view *view_new(void); /* NULL: no memory */
void view_free(struct top_view *v);

/* Asks the store.  config: adds the endpoints that have not sent yet; NULL: the store knows them all.  before (may be
 * NULL) is for the rates.  After a fault (the store's) *v is empty. */
PR_MUST_CHECK int view_ask(struct top_view *v, struct store *store, const struct config *config,
                           const struct top_view *before, int64_t mono_us, struct pr_error *reterr);

/* The object of top --json. */
void view_json(const struct top_view *v, struct buf *ret);

/* ---- Numbers for people; into the arena ---- */

const char *count_human(struct arena *arena, uint64_t count);         /* "1,204", "123k", "4.5M" */
const char *count_grouped(struct arena *arena, uint64_t count);       /* "10,000" */
const char *count_bounded(struct arena *arena, uint64_t count);       /* "10,000+" beyond COUNT_EXACT_MAX */
const char *rate_human(struct arena *arena, bool known, double rate); /* "0", "0.4", "1,204"; "-" when unknown */

#endif
