/* handler: the destination is a C function of this program.
 *
 * A few threads run it, one delivery each; a watchdog checks deadlines.  A handler that exceeds its deadline is asked
 * to stop (pr_should_stop()).  If it does not stop within the grace time, the process ends: a thread cannot be killed
 * safely, and the hand-out counts, because its receipt is on disk.
 *
 *    waiting --> running --> done --> free
 *        '---(cancel)--------^
 *
 * With isolation: process each thread has a process in which the function runs (process/helper.h): a crash or a hang
 * affects no other message.
 *
 *   H1  A job is in exactly one list, and only moves under the lock.
 *   H2  job->context belongs to the thread that runs it; its stop flags are atomic. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/delivery.h"
#include "transport/handler_context.h"
#include "transport/process/helper.h"

#define HANDLER_CONCURRENCY 4
#define HANDLER_CONCURRENCY_MAX 1024 /* threads */
#define HANDLER_WAITING_PER_THREAD 1 /* so that no thread is idle while results travel */
#define HANDLER_GRACE_MIN_US PR_SECONDS(1)
#define HANDLER_EXIT_CODE 70 /* EX_SOFTWARE: the supervisor restarts the process */

struct handler_job {
    struct list_node node;
    const struct delivery *delivery;
    int64_t taken_us;
    int64_t deadline_us; /* the delivery's, extended by the time that it waited here for a thread */
    int64_t timeout_us;  /* of this message; 0: the endpoint's */
    struct handler_stop stop;
    struct pr_context context;
    int64_t asked_us; /* when the watchdog found it late; 0: it is not */
    struct delivery_result result;
};

struct handler {
    const struct endpoint_config *config;
    const struct clock *clock;
    struct handler_job *jobs;
    struct list free, waiting, running, done;

    pthread_mutex_t lock;
    pthread_cond_t work;  /* a job waits, or the transport closes */
    size_t idle;          /* threads that wait for work ... */
    bool calling;         /* ... one of which was woken and has not looked yet */
    pthread_cond_t watch; /* a job must be checked earlier, or the transport closes */
    int64_t watch_us;     /* when the watchdog checks next */
    bool closing;

    pthread_t *threads;
    struct helper *helpers; /* one for each thread; NULL: the functions run in the threads themselves */
    size_t helper_count;
    atomic_size_t begun; /* threads that have taken their number */
    size_t thread_count;
    pthread_t watchdog;
    bool has_watchdog;
    int done_fd;  /* eventfd: a job is done */
    bool is_open; /* everything above is initialised */
};

static int handler_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    if (config->handler == NULL)
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: no function is registered for %s: call pr_engine_handle_named() before the "
                         "engine starts, or change the endpoint's url",
                         config->name, config->url);
    if (config->concurrency > HANDLER_CONCURRENCY_MAX)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: a handler can run on at most %d threads", config->name,
                         HANDLER_CONCURRENCY_MAX);
    return PR_OK;
}

/* ---- Running ---------------------------------------------------------------------------- */

static void finish(struct handler *h, struct handler_job *job)
{
    uint64_t one = 1;
    if (list_is_empty(&h->done) && write(h->done_fd, &one, sizeof(one)) < 0)
        ASSERT(errno == EAGAIN); /* it is readable already */
    list_push_back(&h->done, &job->node);
}

/* While such a transaction is open, SQLite lets no other connection write, so no lease can be renewed. */
static void warn_if_long(const struct handler *h, const struct handler_job *job)
{
    int64_t completed_us = job->context.completed_us, took_us = time_sub(clock_mono_us(h->clock), completed_us);
    if (completed_us == 0 || h->config->lease_us == 0 || took_us < h->config->lease_us / 3)
        return;
    log_emit(h->config->log, LOG_WARN, "long_transaction", LOG_STR("endpoint", h->config->name),
             LOG_SLICE("type", job->delivery->message->type), LOG_DURATION("after_complete", took_us),
             LOG_DURATION("lease", h->config->lease_us),
             LOG_STR("next", "commit soon after pr_complete: others wait for this transaction"));
}

static void call(struct handler *h, struct handler_job *job, const struct pr_message *message)
{
    context_init(&job->context, job->delivery, h->config, h->clock, job->deadline_us, &job->stop);
    int returned = h->config->handler(&job->context, message, h->config->handler_user);
    warn_if_long(h, job);
    context_finish(&job->context, returned, &job->result);
}

static int64_t grace_us(const struct handler *h, const struct handler_job *job)
{
    return max64((job->timeout_us > 0 ? job->timeout_us : h->config->timeout_us) / 2, HANDLER_GRACE_MIN_US);
}

/* With the lock held; releases it while the handler runs. */
static void run(struct handler *h, struct helper *helper, struct handler_job *job)
{
    const struct delivery *d = job->delivery;
    int64_t now_us = clock_mono_us(h->clock);
    if (!delivery_may_start(d, now_us)) {
        result_returned(&job->result, d->token);
        finish(h, job);
        return;
    }
    job->asked_us = 0;
    job->timeout_us = message_timeout_us(h->config, d->message);
    job->deadline_us =
        job->timeout_us > 0 ? time_add(now_us, job->timeout_us) : time_add(d->deadline_us, now_us - job->taken_us);
    list_push_back(&h->running, &job->node);
    if (job->deadline_us < h->watch_us)
        pthread_cond_signal(&h->watch);
    pthread_mutex_unlock(&h->lock);

    struct pr_message message = *d->message;
    message.attempts = d->attempt; /* the stored value counts hand-outs before this one */
    if (helper != NULL)
        helper_run(helper, d, &message, job->deadline_us, grace_us(h, job), &job->stop.cancelled, &job->result);
    else
        call(h, job, &message);

    pthread_mutex_lock(&h->lock);
    list_remove(&job->node);
    finish(h, job);
}

static void wait_on(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t us)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t end_ns = end.tv_nsec + us % 1000000 * 1000;
    end.tv_sec += us / 1000000 + end_ns / 1000000000;
    end.tv_nsec = end_ns % 1000000000;
    pthread_cond_timedwait(condition, lock, &end);
}

/* Wakes one thread, which wakes the next when it has taken a job and there are more.  Jobs that end at once are done by
 * one thread, which is cheaper than to wake many that find nothing.  With helpers everyone is woken for each job: the one
 * woken may have to pause, and would leave the job to nobody. */
static void call_thread(struct handler *h)
{
    if (list_is_empty(&h->waiting) || h->idle == 0)
        return;
    if (h->helpers != NULL) {
        pthread_cond_broadcast(&h->work);
    } else if (!h->calling) {
        h->calling = true;
        pthread_cond_signal(&h->work);
    }
}

static void wait_for_work(struct handler *h, int64_t pause_us)
{
    h->idle++;
    if (pause_us == 0)
        pthread_cond_wait(&h->work, &h->lock);
    else
        wait_on(&h->work, &h->lock, pause_us);
    h->idle--;
    h->calling = false;
}

static void *worker_main(void *arg)
{
    struct handler *h = arg;
    struct helper *helper = h->helpers != NULL ? &h->helpers[atomic_fetch_add(&h->begun, 1)] : NULL;
    pthread_mutex_lock(&h->lock);
    while (!h->closing) {
        int64_t now_us = clock_mono_us(h->clock), pause_us = helper != NULL ? helper_pause(helper, now_us) : 0;
        struct list_node *node = pause_us == 0 ? list_pop_front(&h->waiting) : NULL;
        if (node == NULL) {
            wait_for_work(h, pause_us);
            continue;
        }
        if (helper == NULL)
            call_thread(h);
        run(h, helper, LIST_ENTRY(node, struct handler_job, node));
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- The watchdog ------------------------------------------------------------------------- */

_Noreturn static void end_process(const struct handler *h, const struct handler_job *job, int64_t late_us)
{
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(job->delivery->message->id, id);
    const char *advice = "the handler must return soon after pr_should_stop() is true, or the endpoint's timeout is "
                         "too short; the process exits, and the attempt counts";
    if (log_is_enabled(h->config->log, LOG_ERROR))
        log_emit(h->config->log, LOG_ERROR, "handler_overran", LOG_STR("endpoint", h->config->name), LOG_STR("id", id),
                 LOG_SLICE("type", job->delivery->message->type), LOG_INT("attempt", job->delivery->attempt),
                 LOG_DURATION("late", late_us), LOG_STR("advice", advice));
    else
        dprintf(STDERR_FILENO, "postrider: endpoint %s: handler_overran: message %s: %s\n", h->config->name, id,
                advice);
    _exit(HANDLER_EXIT_CODE);
}

/* When this job must be checked again.  The grace time begins when the job is found to be late, not at the deadline:
 * after a suspend of the machine handlers get a chance. */
static int64_t watch(struct handler *h, struct handler_job *job, int64_t now_us)
{
    if (h->helpers != NULL)
        return INT64_MAX; /* the thread that waits for the helper checks the time, too */
    if (now_us < job->deadline_us)
        return job->deadline_us;
    if (job->asked_us == 0)
        job->asked_us = now_us;
    int64_t end_us = time_add(job->asked_us, grace_us(h, job));
    if (now_us >= end_us)
        end_process(h, job, time_sub(now_us, job->deadline_us));
    return end_us;
}

static void wait_for_watch(struct handler *h, int64_t now_us)
{
    if (h->watch_us == INT64_MAX)
        pthread_cond_wait(&h->watch, &h->lock);
    else
        wait_on(&h->watch, &h->lock, max64(time_sub(h->watch_us, now_us), 0));
}

/* Runs until the last job has returned, also while closing. */
static void *watchdog_main(void *arg)
{
    struct handler *h = arg;
    pthread_mutex_lock(&h->lock);
    while (!h->closing || !list_is_empty(&h->running)) {
        int64_t now_us = clock_mono_us(h->clock);
        h->watch_us = INT64_MAX;
        list_foreach(node, &h->running)
            h->watch_us = min64(h->watch_us, watch(h, LIST_ENTRY(node, struct handler_job, node), now_us));
        wait_for_watch(h, now_us);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static int init_sync(struct handler *h, struct pr_error *reterr)
{
    pthread_condattr_t attr;
    h->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->done_fd < 0)
        return error_set(reterr, PR_EIO, "endpoint %s: eventfd: %s", h->config->name, strerrordesc_np(errno));
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&h->work, &attr);
    pthread_cond_init(&h->watch, &attr);
    pthread_condattr_destroy(&attr);
    h->is_open = true;
    return PR_OK;
}

static int start_threads(struct handler *h, size_t count, struct pr_error *reterr)
{
    int error = pthread_create(&h->watchdog, NULL, watchdog_main, h);
    h->has_watchdog = error == 0;
    while (error == 0 && h->thread_count < count) {
        error = pthread_create(&h->threads[h->thread_count], NULL, worker_main, h);
        h->thread_count += error == 0;
    }
    return error == 0 ? PR_OK
                      : error_set(reterr, PR_ENOMEM, "endpoint %s: cannot start a thread: %s: lower its concurrency",
                                  h->config->name, strerrordesc_np(error));
}

static int init_helpers(struct handler *h, size_t count, struct pr_error *reterr)
{
    int rc = PR_OK;
    h->helpers = calloc(count, sizeof(*h->helpers));
    if (h->helpers == NULL)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory", h->config->name);
    for (; rc == PR_OK && h->helper_count < count; h->helper_count++)
        rc = helper_init(&h->helpers[h->helper_count], h->config, h->clock, reterr);
    return rc;
}

static int handler_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct handler *h = self;
    size_t threads = config->concurrency != 0 ? config->concurrency : HANDLER_CONCURRENCY;
    size_t capacity = threads * (1 + HANDLER_WAITING_PER_THREAD);

    h->config = config;
    h->clock = config_clock(config);
    h->watch_us = INT64_MAX;
    list_init(&h->free);
    list_init(&h->waiting);
    list_init(&h->running);
    list_init(&h->done);
    h->jobs = calloc(capacity, sizeof(*h->jobs));
    h->threads = calloc(threads, sizeof(*h->threads));
    if (h->jobs == NULL || h->threads == NULL)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory", config->name);
    for (size_t i = 0; i < capacity; i++)
        list_push_back(&h->free, &h->jobs[i].node);

    int rc = config->launcher != NULL ? init_helpers(h, threads, reterr) : PR_OK;
    if (rc == PR_OK)
        rc = init_sync(h, reterr);
    return rc == PR_OK ? start_threads(h, threads, reterr) : rc;
}

static void handler_cancel(void *self);

/* Waits for running handlers; the watchdog ensures that this ends. */
static void handler_close(void *self)
{
    struct handler *h = self;
    if (h->is_open) {
        handler_cancel(h);
        pthread_mutex_lock(&h->lock);
        h->closing = true;
        pthread_cond_broadcast(&h->work);
        pthread_mutex_unlock(&h->lock);
        for (size_t i = 0; i < h->thread_count; i++)
            pthread_join(h->threads[i], NULL);
        pthread_mutex_lock(&h->lock);
        pthread_cond_signal(&h->watch);
        pthread_mutex_unlock(&h->lock);
        if (h->has_watchdog)
            pthread_join(h->watchdog, NULL);
        list_foreach(node, &h->done)
            delivery_result_fini(&LIST_ENTRY(node, struct handler_job, node)->result);
        pthread_cond_destroy(&h->watch);
        pthread_cond_destroy(&h->work);
        pthread_mutex_destroy(&h->lock);
        close(h->done_fd);
    }
    for (size_t i = 0; i < h->helper_count; i++)
        helper_fini(&h->helpers[i]);
    free(h->helpers);
    free(h->jobs);
    free(h->threads);
}

/* ---- The caller's side ----------------------------------------------------------------------- */

static size_t handler_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct handler *h = self;
    int64_t now_us = clock_mono_us(h->clock);
    size_t taken = 0;
    struct list_node *node;

    pthread_mutex_lock(&h->lock);
    while (taken < count && (node = list_pop_front(&h->free)) != NULL) {
        struct handler_job *job = LIST_ENTRY(node, struct handler_job, node);
        job->delivery = list[taken++];
        job->taken_us = now_us;
        atomic_store(&job->stop.cancelled, false);
        list_push_back(&h->waiting, node);
        call_thread(h);
    }
    pthread_mutex_unlock(&h->lock);
    return taken;
}

static size_t take_done(struct handler *h, struct delivery_result *ret, size_t max)
{
    size_t count = 0;
    struct list_node *node;
    uint64_t value;

    pthread_mutex_lock(&h->lock);
    while (count < max && (node = list_pop_front(&h->done)) != NULL) {
        ret[count++] = LIST_ENTRY(node, struct handler_job, node)->result;
        list_push_back(&h->free, node);
    }
    if (list_is_empty(&h->done) && read(h->done_fd, &value, sizeof(value)) < 0)
        ASSERT(errno == EAGAIN || errno == EINTR);
    pthread_mutex_unlock(&h->lock);
    return count;
}

static size_t handler_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct handler *h = self;
    size_t count = take_done(h, ret, max);
    if (count == 0 && wait_until(h->done_fd, POLLIN, h->config->wake_fd, h->clock, deadline_us))
        count = take_done(h, ret, max);
    return count;
}

static void handler_cancel(void *self)
{
    struct handler *h = self;
    struct list_node *node;

    pthread_mutex_lock(&h->lock);
    while ((node = list_pop_front(&h->waiting)) != NULL) {
        struct handler_job *job = LIST_ENTRY(node, struct handler_job, node);
        result_returned(&job->result, job->delivery->token);
        finish(h, job);
    }
    list_foreach(running, &h->running)
        atomic_store(&LIST_ENTRY(running, struct handler_job, node)->stop.cancelled, true);
    pthread_mutex_unlock(&h->lock);
}

const struct transport_ops transport_handler = {
    .scheme = "handler",
    .size = sizeof(struct handler),
    .concurrency = HANDLER_CONCURRENCY * (1 + HANDLER_WAITING_PER_THREAD),
    .check = handler_check,
    .open = handler_open,
    .close = handler_close,
    .submit = handler_submit,
    .poll = handler_poll,
    .cancel = handler_cancel,
};
