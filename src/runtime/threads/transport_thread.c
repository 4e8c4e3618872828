#include "runtime/threads/transport_thread.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/time.h"
#include "base/util.h"
#include "runtime/threads/crash.h"
#include "runtime/threads/thread.h"
#include "transport/delivery.h"

#define SUBMIT_MAX 1000  /* deliveries passed to the transport in one call: the largest batch */
#define SUBMIT_MIN 16    /* ... and how many it is offered again, when it accepted few */
#define COLLECT_MAX 1000 /* results taken at once: a transport may do one thing for all of them */
#define COLLECT_MANY 750 /* results that are worth a cycle at once */
/* How long the first of them waits for results of others: a cycle of the box costs much, one more result in it
 * little. */
#define GATHER_US PR_MILLISECONDS(1)
#define GATHER_FAST_US PR_MILLISECONDS(10) /* ... when many deliveries end in that time, and enough are left */
#define GATHER_FAST_COUNT 32
#define POLL_SLICE_US PR_SECONDS(1) /* the longest wait for a transport */
/* When there is no memory, or the transport accepts nothing with nothing out. */
#define TRY_AGAIN_US PR_MILLISECONDS(10)

/* Deliveries, first in, first out. */
struct backlog {
    const struct delivery **entries;
    size_t first, count, capacity; /* entries[first .. first + count) */
};

struct transport_thread {
    struct results *results;
    struct endpoint_config config; /* with this thread's own wake_fd */
    pthread_t thread;
    int wake_fd;

    pthread_mutex_t lock; /* guards: */
    struct backlog given;
    size_t recalled; /* number of `given` that came before the cancel */
    bool cancel, quit, over;

    /* The thread's own: */
    struct transport transport;
    struct backlog waiting; /* taken, not submitted */
    size_t room;            /* of the transport: an estimate, so that not all deliveries are checked each time */
    struct delivery_result collected[COLLECT_MAX]; /* not put yet */
    size_t collected_count;
    int64_t collected_us; /* when the first of them arrived */
    bool collecting;      /* the latest poll had results */
    bool quitting;
};

/* ---- Backlog -------------------------------------------------------------------------- */

static bool backlog_add(struct backlog *q, const struct delivery *const *list, size_t count)
{
    if (q->first + q->count + count > q->capacity && q->first > 0) {
        memmove(q->entries, q->entries + q->first, q->count * sizeof q->entries[0]);
        q->first = 0;
    }
    if (q->count + count > q->capacity) {
        size_t capacity = max_size(q->count + count, q->capacity * 2);
        void *entries = reallocarray(q->entries, capacity, sizeof q->entries[0]);
        if (entries == NULL)
            return false;
        q->entries = entries;
        q->capacity = capacity;
    }
    if (count > 0)
        memcpy(q->entries + q->first + q->count, list, count * sizeof list[0]);
    q->count += count;
    return true;
}

static const struct delivery *backlog_at(const struct backlog *q, size_t index)
{
    return q->entries[q->first + index];
}

static void backlog_drop(struct backlog *q, size_t count)
{
    ASSERT(count <= q->count);
    q->first = count == q->count ? 0 : q->first + count;
    q->count -= count;
}

/* ---- Results -------------------------------------------------------------------------- */

/* The box depends on the results, so without memory it tries until there is some. */
static void transport_thread_put(struct transport_thread *c)
{
    while (c->collected_count > 0 && !results_put(c->results, c->collected, c->collected_count))
        wake_wait(-1, TRY_AGAIN_US);
    c->collected_count = 0;
}

static int64_t transport_thread_put_us(const struct transport_thread *c)
{
    bool fast = c->collected_count >= GATHER_FAST_COUNT;
    bool busy = c->transport.out + c->waiting.count >= c->collected_count / 2;
    return time_add(c->collected_us, fast && busy ? GATHER_FAST_US : GATHER_US);
}

/* Unless waiting for more is worthwhile. */
static void transport_thread_put_due(struct transport_thread *c)
{
    if (c->transport.out == 0 || c->collected_count >= COLLECT_MANY ||
        clock_mono_us(c->config.clock) >= transport_thread_put_us(c))
        transport_thread_put(c);
}

static void transport_thread_answer(struct transport_thread *c, const struct delivery_result *result)
{
    if (c->collected_count == COLLECT_MAX)
        transport_thread_put(c);
    c->collected[c->collected_count++] = *result;
}

/* Returns the first `count` waiting deliveries. */
static void transport_thread_return(struct transport_thread *c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        transport_thread_answer(
            c, &(struct delivery_result){ .token = backlog_at(&c->waiting, i)->token, .outcome = SEND_RETURNED });
    backlog_drop(&c->waiting, count);
}

static void transport_thread_fail(struct transport_thread *c, const struct pr_error *error)
{
    for (size_t i = 0; i < c->waiting.count; i++)
        transport_thread_answer(c, &(struct delivery_result){ .token = backlog_at(&c->waiting, i)->token,
                                                              .outcome = SEND_FAILED,
                                                              .reason = PR_REASON_TRANSPORT_UNAVAILABLE,
                                                              .unsent = true,
                                                              .error = strdup(error->text) });
    backlog_drop(&c->waiting, c->waiting.count);
}

/* ---- The thread ------------------------------------------------------------------------ */

/* Takes the box's orders.  False: no memory, ask again soon. */
static bool transport_thread_fetch(struct transport_thread *c)
{
    ASSERT(pthread_mutex_lock(&c->lock) == 0);
    if (c->given.count > 0 || c->cancel || c->quit || !c->collecting)
        wake_clear(c->wake_fd);         /* a late signal is cleared when a poll had no results */
    size_t recalled = c->waiting.count; /* a cancel concerns what was given before it */
    bool fits = backlog_add(&c->waiting, c->given.entries + c->given.first, c->given.count);
    bool cancel = c->cancel;
    if (fits) {
        recalled += c->recalled;
        backlog_drop(&c->given, c->given.count);
        c->recalled = 0;
        c->cancel = false;
    }
    c->quitting = c->quit;
    ASSERT(pthread_mutex_unlock(&c->lock) == 0);

    if (cancel) {
        if (c->transport.ops != NULL)
            transport_cancel(&c->transport);
        transport_thread_return(c, recalled); /* C2 */
    }
    if (c->quitting)
        transport_thread_return(c, c->waiting.count);
    return fits;
}

static bool transport_thread_open(struct transport_thread *c)
{
    if (c->transport.ops != NULL)
        return true;
    struct pr_error error;
    if (transport_open(&c->config, &c->transport, &error) == PR_OK)
        return true;
    c->transport = (struct transport){ 0 }; /* the next delivery tries again */
    transport_thread_fail(c, &error);
    return false;
}

static bool may_submit(const struct transport_thread *c, const struct delivery *d, int64_t now_us)
{
    int64_t given_us = time_sub(d->deadline_us, c->config.timeout_us);
    return now_us < d->start_before_us && !delivery_has_waited(given_us, &c->config, now_us);
}

/* Up to max of the first waiting deliveries that may start now; those that may not any more are returned. */
static size_t transport_thread_next(struct transport_thread *c, const struct delivery *ret_list[SUBMIT_MAX], size_t max)
{
    int64_t now_us = clock_mono_us(c->config.clock);
    size_t late = 0, count = 0;
    while (late < c->waiting.count && !may_submit(c, backlog_at(&c->waiting, late), now_us))
        late++;
    transport_thread_return(c, late); /* C1 */
    while (count < min_size(c->waiting.count, max) && may_submit(c, backlog_at(&c->waiting, count), now_us)) {
        ret_list[count] = backlog_at(&c->waiting, count);
        count++;
    }
    return count;
}

static void transport_thread_submit(struct transport_thread *c)
{
    const struct delivery *list[SUBMIT_MAX];
    size_t count, taken;
    do {
        if (c->waiting.count == 0 || !transport_thread_open(c))
            return;
        count = transport_thread_next(c, list, max_size(c->room, SUBMIT_MIN));
        if (count == 0)
            return;
        FAILPOINT("runtime.before_send");
        taken = transport_submit(&c->transport, list, count);
        backlog_drop(&c->waiting, taken);
        c->room = taken == count ? SUBMIT_MAX : min_size(2 * taken, SUBMIT_MAX);
    } while (taken == count);
}

/* Waits for results, or until the box has an order, and passes results on.  False: there were none. */
static bool transport_thread_collect(struct transport_thread *c)
{
    transport_thread_put_due(c); /* deliveries that were returned without being sent */
    if (c->transport.out == 0)
        return false;
    size_t before = c->collected_count;
    int64_t until_us = time_add(clock_mono_us(c->config.clock), POLL_SLICE_US);
    if (c->waiting.count > 0)
        until_us = min64(until_us, backlog_at(&c->waiting, 0)->start_before_us);
    if (before > 0)
        until_us = min64(until_us, transport_thread_put_us(c));
    size_t count = transport_poll(&c->transport, c->collected + before, COLLECT_MAX - before, until_us);
    if (count > 0)
        FAILPOINT("runtime.after_send");
    c->collected_count += count;
    if (before == 0)
        c->collected_us = clock_mono_us(c->config.clock);
    transport_thread_put_due(c);
    return count > 0;
}

static void *transport_thread_run(void *arg)
{
    struct transport_thread *c = arg;
    struct crash_thread crash;
    crash_thread_begin(&crash, c->config.name);
    for (;;) {
        bool heard = transport_thread_fetch(c);
        transport_thread_submit(c);
        c->collecting = transport_thread_collect(c);
        if (c->transport.out > 0 || (c->collecting && c->waiting.count > 0)) /* there is room again */
            continue;
        if (c->waiting.count > 0 || !heard)
            wake_wait(-1, TRY_AGAIN_US); /* the transport accepts nothing, or there is no memory */
        else if (c->quitting)
            break;
        else
            wake_wait(c->wake_fd, -1);
    }
    transport_close(&c->transport);
    crash_thread_end();
    ASSERT(pthread_mutex_lock(&c->lock) == 0);
    c->over = true;
    ASSERT(pthread_mutex_unlock(&c->lock) == 0);
    return NULL;
}

/* ---- The box's side --------------------------------------------------------------------- */

int transport_thread_new(const struct endpoint_config *config, struct results *results,
                         struct transport_thread **ret_transport_thread, struct pr_error *reterr)
{
    struct transport_thread *c = calloc(1, sizeof *c);
    if (c == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the endpoint %s", config->name);
    c->results = results;
    c->config = *config;
    c->room = SUBMIT_MAX;
    ASSERT(pthread_mutex_init(&c->lock, NULL) == 0);
    int rc = wake_open(&c->wake_fd, reterr);
    if (rc == PR_OK) {
        c->config.wake_fd = c->wake_fd;
        rc = thread_start(&c->thread, THREAD_STACK_SEND, config->name, transport_thread_run, c, reterr);
        if (rc != PR_OK)
            wake_close(c->wake_fd);
    }
    if (rc != PR_OK) {
        pthread_mutex_destroy(&c->lock);
        free(c);
        return rc;
    }
    *ret_transport_thread = c;
    return PR_OK;
}

bool transport_thread_give(struct transport_thread *c, const struct delivery *const *list, size_t count)
{
    ASSERT(pthread_mutex_lock(&c->lock) == 0);
    bool was_empty = c->given.count == 0;
    bool fits = backlog_add(&c->given, list, count);
    ASSERT(pthread_mutex_unlock(&c->lock) == 0);
    if (fits && was_empty) /* otherwise the box loop was woken already and has not taken them yet */
        wake_send(c->wake_fd);
    return fits;
}

void transport_thread_recall(struct transport_thread *c, enum recall recall)
{
    ASSERT(pthread_mutex_lock(&c->lock) == 0);
    c->quit |= recall == RECALL_QUIT;
    c->cancel = true;
    c->recalled = c->given.count;
    ASSERT(pthread_mutex_unlock(&c->lock) == 0);
    wake_send(c->wake_fd);
}

bool transport_thread_is_over(struct transport_thread *c)
{
    ASSERT(pthread_mutex_lock(&c->lock) == 0);
    bool over = c->over;
    ASSERT(pthread_mutex_unlock(&c->lock) == 0);
    return over;
}

void transport_thread_free(struct transport_thread *c)
{
    if (c == NULL)
        return;
    transport_thread_recall(c, RECALL_QUIT);
    ASSERT(pthread_join(c->thread, NULL) == 0);
    wake_close(c->wake_fd);
    pthread_mutex_destroy(&c->lock);
    free(c->given.entries);
    free(c->waiting.entries);
    free(c);
}
