/* What the threads of flows share, each part alone: nothing else imposes an order that could hide a race. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/slice.h"
#include "check.h"
#include "runtime/flow/hot.h"
#include "runtime/flow/watch.h"

#define THREADS 4
#define ROUNDS 2000
#define FLOWS_EACH 8
#define WAIT_US PR_SECONDS(60)

/* ---- Flows that were run lately --------------------------------------------------------------------- */

struct runner {
    pthread_t thread;
    struct hot *hot;
    unsigned number;
    size_t made; /* since it was not there, or not any more */
    bool wrong;
};

static pr_slice flow_id(char text[32], unsigned runner, unsigned flow)
{
    return (pr_slice){ text, (size_t)snprintf(text, 32, "flow-%u-%u", runner, flow) };
}

/* A turn takes its flow out and puts it back, as often as it is run; lanes come and go. */
static void *run_turns(void *arg)
{
    struct runner *r = arg;
    char text[32];
    for (unsigned i = 0; i < ROUNDS && !r->wrong; i++) {
        struct flow_row row = { .id = flow_id(text, r->number, i % FLOWS_EACH), .next = 1 };
        struct hot_flow *flow = hot_take(r->hot, row.id);
        r->made += flow == NULL;
        if (flow == NULL)
            flow = hot_flow_new(&row);
        r->wrong = flow == NULL || !slice_eq(flow->row->id, row.id);
        if (flow != NULL)
            hot_put(r->hot, flow);
        if (i % 100 == 99)
            hot_drop_lanes(r->hot, UINT64_C(1) << i % 64);
    }
    return NULL;
}

TEST(hot_flows_are_taken_and_put_back_by_several_threads)
{
    static struct runner runners[THREADS];
    struct hot hot;
    size_t made = 0;
    hot_init(&hot, (size_t)1 << 20);
    for (unsigned i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){ .hot = &hot, .number = i };
        CHECK_EQ(pthread_create(&runners[i].thread, NULL, run_turns, &runners[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(runners[i].thread, NULL), 0);
        CHECK(!runners[i].wrong);
        made += runners[i].made;
    }
    CHECK(made >= THREADS * FLOWS_EACH && made < THREADS * ROUNDS / 2); /* most were found */
    hot_drop_lanes(&hot, UINT64_MAX);
    CHECK_EQ(hot.bytes, 0);
    hot_fini(&hot);
}

/* ---- Who waits for one -------------------------------------------------------------------------------- */

static atomic_uint waiting; /* threads that are not told yet */

static void *wait_often(void *arg)
{
    struct runner *r = arg;
    char text[32];
    for (unsigned i = 0; i < ROUNDS / 100 && !r->wrong; i++) {
        struct flow_watch watch;
        flow_watch_begin(&watch, flow_id(text, r->number, i), -1);
        r->wrong = !flow_watch_wait(&watch, WAIT_US);
        flow_watch_end(&watch);
    }
    atomic_fetch_sub(&waiting, 1);
    return NULL;
}

TEST(watchers_of_flows_come_and_go_while_others_tell)
{
    static struct runner runners[THREADS];
    char text[32];
    atomic_store(&waiting, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){ .number = i };
        CHECK_EQ(pthread_create(&runners[i].thread, NULL, wait_often, &runners[i]), 0);
    }
    for (unsigned i = 0; atomic_load(&waiting) > 0; i++)
        flow_watch_tell(flow_id(text, i % THREADS, i / THREADS % (ROUNDS / 100)), true, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(runners[i].thread, NULL), 0);
        CHECK(!runners[i].wrong);
    }
}

TEST(waiters_are_told_of_the_end_of_a_flow_or_of_the_status_that_they_wait_for)
{
    const pr_slice flow = PR_STR("watched");
    struct flow_watch end, status, later;
    flow_watch_teller(1);
    flow_watch_begin(&end, flow, -1);
    flow_watch_begin(&status, flow, 1);
    CHECK(!flow_watch_is_new(&end)); /* who knows who started it, and when */
    flow_watch_start(flow);
    CHECK(flow_watch_is_new(&end));
    flow_watch_tell(flow, false, 0);
    CHECK(!flow_watch_wait(&end, 0) && atomic_load(&end.is_here));
    CHECK(flow_watch_is_new(&end)); /* it goes on: there is nothing to look at */
    flow_watch_tell(flow, false, 1);
    CHECK(!flow_watch_is_new(&end));
    CHECK(!flow_watch_wait(&end, 0) && !flow_watch_wait(&status, 0)); /* it waits for the next one */
    flow_watch_tell(flow, false, 2);
    CHECK(!flow_watch_wait(&end, 0) && flow_watch_wait(&status, 0) && !flow_watch_wait(&status, 0));
    flow_watch_start(flow);
    flow_watch_tell(flow, true, 0);
    CHECK(flow_watch_wait(&end, WAIT_US) && flow_watch_wait(&status, WAIT_US));
    flow_watch_begin(&later, flow, -1);
    CHECK(!flow_watch_is_new(&later) && !atomic_load(&later.is_here));
    flow_watch_teller(-1);
    flow_watch_start(flow);
    CHECK(!flow_watch_is_new(&later)); /* nobody tells */
    flow_watch_end(&later);
    flow_watch_end(&status);
    flow_watch_end(&end);
}
