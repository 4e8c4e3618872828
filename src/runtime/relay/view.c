/* What people see of a relay: sums over the boxes. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/relay/parts.h"

void relay_counts(struct relay *r, struct pr_engine_counts *counts)
{
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->started; i++) {
        const struct engine_counts *c = &box_loop_view(r->box_loops[i])->counts;
        counts->sent += c->sent;
        counts->failed += c->failed;
        counts->dead += c->dead;
        counts->discarded += c->discarded;
        counts->expired += c->expired;
        counts->duplicates += c->duplicates;
        counts->returned += c->returned;
        counts->stale += c->stale;
        counts->poison += c->poison;
        counts->waiting_in_memory += c->window_count - min_size(c->out, c->window_count);
        counts->in_flight += c->out;
        counts->cycles += c->cycles;
    }
    monitor_unlock(&r->monitor);
    const struct inliner_counts *own = inliner_counts(r->inliner);
    counts->sent += atomic_load(&own->sent);
    counts->failed += atomic_load(&own->failed);
    counts->dead += atomic_load(&own->dead);
    counts->discarded += atomic_load(&own->discarded);
}

size_t relay_box_count(const struct relay *r)
{
    return r->started;
}

void relay_box(struct relay *r, size_t index, struct relay_box *ret)
{
    ASSERT(index < r->started);
    monitor_lock(&r->monitor);
    const struct box_loop_view *v = box_loop_view(r->box_loops[index]);
    *ret = (struct relay_box){ .name = box_loop_name(r->box_loops[index]),
                               .kind = box_loop_kind(r->box_loops[index]),
                               .counts = v->counts,
                               .cycles = v->cycles,
                               .lanes = v->lanes,
                               .standby = v->standby };
    monitor_unlock(&r->monitor);
}

void relay_flow_counts(const struct relay *r, struct flow_counts *ret)
{
    flows_counts(r->flows, ret);
}

size_t relay_source_count(const struct relay *r)
{
    return source_threads_count(r->sources);
}

void relay_source(struct relay *r, size_t index, struct source_status *ret)
{
    source_threads_status(r->sources, index, ret);
}

size_t relay_endpoint_count(const struct relay *r)
{
    return r->setting->listed_count;
}

pr_slice relay_endpoint_name(const struct relay *r, size_t index)
{
    ASSERT(index < r->setting->listed_count);
    return r->setting->endpoints[r->setting->listed[index]].name;
}

bool relay_has_endpoint(const struct relay *r, pr_slice name)
{
    for (size_t i = 0; i < relay_endpoint_count(r); i++)
        if (slice_eq(relay_endpoint_name(r, i), name))
            return true;
    return false;
}

void relay_sum_endpoint(struct relay *r, size_t index, struct endpoint_view *ret_view)
{
    *ret_view = (struct endpoint_view){ 0 };
    bool delivers = false;
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->started; i++) {
        const struct endpoint_view *v = &box_loop_view(r->box_loops[i])->endpoints[index];
        if (v->breaker != BREAKER_CLOSED)
            ret_view->breaker = v->breaker;
        ret_view->paused_until_us = max64(ret_view->paused_until_us, v->paused_until_us);
        ret_view->waiting += v->waiting;
        ret_view->out += v->out;
        ret_view->sent += v->sent;
        ret_view->failed += v->failed;
        ret_view->failed_in_row += v->failed_in_row;
        delivers = delivers || (v->sent > 0 && v->failed_in_row == 0); /* it works from another box */
        for (size_t k = 0; k < REASON_COUNT; k++)
            ret_view->reasons[k] += v->reasons[k];
        histogram_merge(&ret_view->durations, &v->durations);
    }
    monitor_unlock(&r->monitor);
    if (delivers)
        ret_view->failed_in_row = 0;
}

void relay_endpoint(struct relay *r, size_t index, struct endpoint_view *ret_view)
{
    ASSERT(index < r->setting->listed_count);
    relay_sum_endpoint(r, r->setting->listed[index], ret_view);
}

static int newest_first(const void *a, const void *b)
{
    const struct incident *x = a, *y = b;
    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? 1 : -1;
    return (x->number < y->number) - (x->number > y->number);
}

size_t relay_incidents(struct relay *r, bool deaths, struct incident *ret, size_t max)
{
    size_t count = 0;
    struct incident *all = calloc(r->started + 1, INCIDENTS_MAX * sizeof *all);
    if (all == NULL)
        return 0; /* only for people who are watching */
    monitor_lock(&r->monitor);
    for (size_t i = 0; i < r->started; i++) {
        const struct box_loop_view *v = box_loop_view(r->box_loops[i]);
        count += incident_list(deaths ? &v->deaths : &v->failures, all + count, INCIDENTS_MAX);
    }
    monitor_unlock(&r->monitor);
    qsort(all, count, sizeof *all, newest_first);
    count = min_size(count, max);
    memcpy(ret, all, count * sizeof *all);
    free(all);
    return count;
}
