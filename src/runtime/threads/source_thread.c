#include "runtime/threads/source_thread.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/time.h"
#include "runtime/threads/thread.h"

#define SOURCE_FAILS_US PR_SECONDS(3)

struct source_thread {
    struct source source;
    const struct source_threads *owner; /* the one that closes it */
    int wake_fd;
    pthread_t thread;
    bool runs;
};

struct source_threads {
    struct source_thread **list; /* open sources */
    size_t count;
};

static void *run(void *arg)
{
    struct source_thread *t = arg;
    source_run(&t->source, t->wake_fd);
    return NULL;
}

static int open_one(const struct config *config, size_t index, struct store *store, struct log *log,
                    struct source_thread **ret, struct pr_error *reterr)
{
    struct source_thread *one = calloc(1, sizeof *one);
    if (one == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a source");
    one->source = (struct source){
        .config = &config->sources[index],
        .store = store,
        .log = log,
        .poll_min_us = config->poll_min_us,
        .instance = config->instance,
        .batch = (size_t)config->batch,
        .payload_max = (size_t)config->payload_max,
        .waiting_max = (uint64_t)config->waiting_max,
    };
    one->wake_fd = -1;
    int rc = wake_open(&one->wake_fd, reterr);
    if (rc == PR_OK)
        rc = source_open(&one->source, reterr);
    if (rc == PR_OK)
        *ret = one;
    else {
        wake_close(one->wake_fd);
        free(one);
    }
    return rc;
}

static struct source_thread *find_same(const struct source_threads *t, const struct source_config *config)
{
    for (size_t i = 0; t != NULL && i < t->count; i++) {
        struct source_thread *one = t->list[i];
        if (one->runs && one->source.config->kind == config->kind && one->source.config->digest == config->digest)
            return one;
    }
    return NULL;
}

/* Sources that old has stay open, and remain old's. */
static int open_all(struct source_threads *t, const struct source_threads *old, const struct config *config,
                    struct store *store, struct log *log, struct pr_error *reterr)
{
    t->list = calloc(config->source_count + 1, sizeof(struct source_thread *));
    if (t->list == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu sources", config->source_count);
    int rc = PR_OK;
    for (; rc == PR_OK && t->count < config->source_count; t->count += rc == PR_OK) {
        struct source_thread **one = &t->list[t->count];
        *one = find_same(old, &config->sources[t->count]);
        if (*one != NULL)
            continue;
        rc = open_one(config, t->count, store, log, one, reterr);
        if (rc == PR_OK)
            (*one)->owner = t;
    }
    return rc;
}

int source_threads_new(const struct source_threads *old, const struct config *config, struct store *store,
                       struct log *log, struct source_threads **ret, struct pr_error *reterr)
{
    struct source_threads *t = calloc(1, sizeof *t);
    if (t == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for sources");
    int rc = open_all(t, old, config, store, log, reterr);
    if (rc == PR_OK)
        *ret = t;
    else
        source_threads_free(t);
    return rc;
}

static int start_one(struct source_thread *one, struct pr_error *reterr)
{
    int rc = thread_start(&one->thread, THREAD_STACK_SEND, "source", run, one, reterr); /* TLS runs in it */
    one->runs = rc == PR_OK;
    return rc;
}

int source_threads_start(struct source_threads *t, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (size_t i = 0; rc == PR_OK && i < t->count; i++)
        rc = start_one(t->list[i], reterr);
    return rc;
}

void source_threads_follow(struct source_threads *t, struct source_threads *old, const struct config *config)
{
    struct pr_error error;
    for (size_t i = 0; i < t->count; i++) {
        t->list[i]->owner = t;
        t->list[i]->source.waiting_max = (uint64_t)config->waiting_max;
    }
    source_threads_stop(old);
    source_threads_join(old);
    for (size_t i = 0; i < t->count; i++) /* a source without a thread is in trouble, and the next reload tries again */
        if (!t->list[i]->runs && start_one(t->list[i], &error) < 0)
            (void)source_trouble(&t->list[i]->source, &error);
}

void source_threads_stop(struct source_threads *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i]->owner == t)
            wake_send(t->list[i]->wake_fd);
}

void source_threads_join(struct source_threads *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct source_thread *one = t->list[i];
        if (one->owner != t)
            continue;
        if (one->runs)
            ASSERT(pthread_join(one->thread, NULL) == 0);
        one->runs = false;
    }
}

static void free_one(struct source_thread *one)
{
    source_close(&one->source);
    wake_close(one->wake_fd);
    free(one);
}

void source_threads_free(struct source_threads *t)
{
    if (t == NULL)
        return;
    source_threads_stop(t);
    source_threads_join(t);
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i]->owner == t)
            free_one(t->list[i]);
    free(t->list);
    free(t);
}

size_t source_threads_count(const struct source_threads *t)
{
    return t->count;
}

void source_threads_status(struct source_threads *t, size_t index, struct source_status *ret)
{
    ASSERT(index < t->count);
    source_status_get(&t->list[index]->source, ret);
}

/* ---- For people ---------------------------------------------------------------------------- */

bool source_is_failing(const struct source_status *status)
{
    return status->trouble.code != PR_OK && clock_mono_us(clock_system()) - status->trouble_us >= SOURCE_FAILS_US;
}

void source_describe(const struct source_status *status, struct buf *ret)
{
    size_t before = ret->size;
    buf_addf(ret, "source %s: %s%s", status->name, status->trouble.text,
             status->at_broker ? "; it is tried again and nothing is lost: check that the broker runs, and the "
                                 "address and credentials under sources"
                               : "");
    for (size_t i = before; i < ret->size; i++)
        if (ret->data[i] == '\n')
            ret->data[i] = ' ';
}

void source_threads_describe(struct source_threads *t, struct buf *ret)
{
    struct source_status status;
    for (size_t i = 0; i < t->count; i++) {
        source_status_get(&t->list[i]->source, &status);
        if (!source_is_failing(&status) || ret->size + sizeof(status.trouble.text) > SOURCES_TEXT_MAX)
            continue;
        if (ret->size > 0)
            buf_add_char(ret, '\n');
        source_describe(&status, ret);
    }
}
