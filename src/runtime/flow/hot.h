/* hot.h - a cache of flows that ran recently, with their decoded histories: the next turn of such a flow reads nothing.
 *
 * A flow that is running is taken out, and put back when the store has accepted its turn.  So an entry always equals
 * the store, as long as this instance has the flow's lane: a loss of lanes must be reported (hot_drop_lanes()).
 * Bounded by bytes; the least recently used entry is dropped first.
 *
 * Threads: any. */
#ifndef RUNTIME_FLOW_HOT_H
#define RUNTIME_FLOW_HOT_H

#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "core/flow_row.h"
#include "flow/history.h"

struct hot_flow {
    struct map_node by_id;
    struct list_node by_use;
    struct flow_row *row; /* owned; running, with at least one event */
    struct flow_history history;
    size_t bytes;
    unsigned lane;
};

struct hot {
    pthread_mutex_t lock;
    struct map flows;
    struct list uses; /* the latest use at the end */
    size_t bytes, bytes_max;
};

void hot_init(struct hot *hot, size_t bytes_max);
void hot_fini(struct hot *hot);

/* NULL: not in the cache. */
struct hot_flow *hot_take(struct hot *hot, pr_slice flow);
void hot_put(struct hot *hot, struct hot_flow *flow); /* takes the flow over */
void hot_drop_lanes(struct hot *hot, uint64_t lanes);

/* With an empty history of the row's execution; NULL: no memory. */
struct hot_flow *hot_flow_new(const struct flow_row *row);
/* False: no memory; unchanged. */
PR_MUST_CHECK bool hot_flow_set_row(struct hot_flow *flow, const struct flow_row *row);
void hot_flow_free(struct hot_flow *flow); /* NULL is allowed */

#endif
