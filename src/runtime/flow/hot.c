#include "runtime/flow/hot.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "core/lane.h"

#define HOT_SEED 7

static uint64_t hash_of(pr_slice flow)
{
    return hash_bytes(HOT_SEED, flow.data, flow.size);
}

/* ---- One ------------------------------------------------------------------------------------- */

bool hot_flow_set_row(struct hot_flow *flow, const struct flow_row *row)
{
    void *block = malloc(sizeof(*row) + flow_row_bytes(row));
    if (block == NULL)
        return false;
    struct flow_row *copy = flow_row_copy(row, block);
    free(flow->row);
    flow->row = copy;
    return true;
}

struct hot_flow *hot_flow_new(const struct flow_row *row)
{
    struct hot_flow *flow = calloc(1, sizeof(*flow));
    if (flow == NULL || !hot_flow_set_row(flow, row)) {
        free(flow);
        return NULL;
    }
    flow_history_init(&flow->history, row->execution);
    flow->lane = lane_of(row->id, (pr_id){ { 0 } });
    return flow;
}

void hot_flow_free(struct hot_flow *flow)
{
    if (flow == NULL)
        return;
    flow_history_fini(&flow->history);
    free(flow->row);
    free(flow);
}

/* ---- All of them ------------------------------------------------------------------------------ */

void hot_init(struct hot *hot, size_t bytes_max)
{
    *hot = (struct hot){ .bytes_max = bytes_max };
    ASSERT(pthread_mutex_init(&hot->lock, NULL) == 0);
    map_init(&hot->flows);
    list_init(&hot->uses);
}

static void detach(struct hot *hot, struct hot_flow *flow)
{
    map_remove(&hot->flows, &flow->by_id);
    list_remove(&flow->by_use);
    hot->bytes -= flow->bytes;
}

static void drop(struct hot *hot, struct hot_flow *flow)
{
    detach(hot, flow);
    hot_flow_free(flow);
}

void hot_fini(struct hot *hot)
{
    list_foreach(node, &hot->uses)
        drop(hot, LIST_ENTRY(node, struct hot_flow, by_use));
    map_fini(&hot->flows);
    pthread_mutex_destroy(&hot->lock);
}

struct hot_flow *hot_take(struct hot *hot, pr_slice id)
{
    struct hot_flow *found = NULL;

    ASSERT(pthread_mutex_lock(&hot->lock) == 0);
    for (struct map_node *n = map_first(&hot->flows, hash_of(id)); n != NULL && found == NULL; n = map_next_same(n)) {
        struct hot_flow *flow = MAP_ENTRY(n, struct hot_flow, by_id);
        if (slice_eq(flow->row->id, id))
            found = flow;
    }
    if (found != NULL)
        detach(hot, found);
    ASSERT(pthread_mutex_unlock(&hot->lock) == 0);
    return found;
}

void hot_put(struct hot *hot, struct hot_flow *flow)
{
    flow->bytes = sizeof(*flow) + sizeof(*flow->row) + flow_row_bytes(flow->row) + flow_history_bytes(&flow->history);
    ASSERT(pthread_mutex_lock(&hot->lock) == 0);
    if (flow->bytes > hot->bytes_max || map_insert(&hot->flows, &flow->by_id, hash_of(flow->row->id)) != PR_OK) {
        hot_flow_free(flow); /* it will be read again */
    } else {
        list_push_back(&hot->uses, &flow->by_use);
        hot->bytes += flow->bytes;
        while (hot->bytes > hot->bytes_max)
            drop(hot, LIST_ENTRY(list_first(&hot->uses), struct hot_flow, by_use));
    }
    ASSERT(pthread_mutex_unlock(&hot->lock) == 0);
}

void hot_drop_lanes(struct hot *hot, uint64_t lanes)
{
    ASSERT(pthread_mutex_lock(&hot->lock) == 0);
    list_foreach(node, &hot->uses) {
        struct hot_flow *flow = LIST_ENTRY(node, struct hot_flow, by_use);
        if ((lanes & lane_bit(flow->lane)) != 0)
            drop(hot, flow);
    }
    ASSERT(pthread_mutex_unlock(&hot->lock) == 0);
}
