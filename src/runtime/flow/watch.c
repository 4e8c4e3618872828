#include "runtime/flow/watch.h"

#include <time.h>

#include "base/error.h"
#include "base/hash.h"

#define WATCH_BUCKETS 256
#define STARTS_KEPT 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list buckets[WATCH_BUCKETS]; /* of struct flow_watch; initialised by the first waiter */
static atomic_size_t waiters;
static atomic_int tellers;
static _Atomic uint64_t starts[STARTS_KEPT]; /* by hash: flows started here without a reported end or status */

static uint64_t hash_of(pr_slice flow)
{
    return hash_bytes(0, flow.data, flow.size);
}

void flow_watch_begin(struct flow_watch *w, pr_slice flow, int64_t after_number)
{
    static bool made;
    pthread_condattr_t attr;

    *w = (struct flow_watch){ .flow = hash_of(flow), .after_number = after_number };
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    ASSERT(pthread_cond_init(&w->told, &attr) == 0);
    pthread_condattr_destroy(&attr);
    ASSERT(pthread_mutex_lock(&lock) == 0);
    for (size_t i = 0; !made && i < WATCH_BUCKETS; i++)
        list_init(&buckets[i]);
    made = true;
    list_push_back(&buckets[w->flow % WATCH_BUCKETS], &w->node);
    atomic_fetch_add(&waiters, 1);
    ASSERT(pthread_mutex_unlock(&lock) == 0);
}

bool flow_watch_wait(struct flow_watch *w, int64_t timeout_us)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_us / 1000000;
    until.tv_nsec += timeout_us % 1000000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    ASSERT(pthread_mutex_lock(&lock) == 0);
    int rc = 0;
    while (!w->moved && rc == 0)
        rc = pthread_cond_timedwait(&w->told, &lock, &until);
    bool moved = w->moved;
    w->moved = false;
    ASSERT(pthread_mutex_unlock(&lock) == 0);
    return moved;
}

void flow_watch_end(struct flow_watch *w)
{
    ASSERT(pthread_mutex_lock(&lock) == 0);
    list_remove(&w->node);
    atomic_fetch_sub(&waiters, 1);
    ASSERT(pthread_mutex_unlock(&lock) == 0);
    pthread_cond_destroy(&w->told);
}

void flow_watch_teller(int more)
{
    atomic_fetch_add(&tellers, more);
}

bool flow_watch_is_told(void)
{
    return atomic_load(&tellers) > 0;
}

void flow_watch_start(pr_slice flow)
{
    uint64_t hash = hash_of(flow);

    atomic_store(&starts[hash % STARTS_KEPT], hash);
}

bool flow_watch_is_new(const struct flow_watch *w)
{
    return flow_watch_is_told() && atomic_load(&starts[w->flow % STARTS_KEPT]) == w->flow;
}

/* Called before the waiters are woken: a waiter that begins later finds that the flow is not new. */
static void forget_start(uint64_t hash)
{
    uint64_t expected = hash;

    (void)atomic_compare_exchange_strong(&starts[hash % STARTS_KEPT], &expected, 0);
}

void flow_watch_tell(pr_slice flow, bool has_ended, int64_t status_number)
{
    uint64_t hash = hash_of(flow);

    if (has_ended || status_number > 0)
        forget_start(hash);
    if (atomic_load(&waiters) == 0)
        return;
    ASSERT(pthread_mutex_lock(&lock) == 0);
    list_foreach(node, &buckets[hash % WATCH_BUCKETS]) {
        struct flow_watch *w = LIST_ENTRY(node, struct flow_watch, node);
        if (w->flow != hash)
            continue;
        atomic_store(&w->is_here, true);
        w->moved |= has_ended || (w->after_number >= 0 && status_number > w->after_number);
        if (w->moved)
            pthread_cond_signal(&w->told);
    }
    ASSERT(pthread_mutex_unlock(&lock) == 0);
}
