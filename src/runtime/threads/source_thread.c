#include "runtime/threads/source_thread.h"

#include <stdlib.h>

#include "base/error.h"
#include "runtime/threads/thread.h"

struct source_thread {
    struct source source;
    int wake_fd; /* that of all */
    pthread_t thread;
    bool runs;
};

struct source_threads {
    struct source_thread *list;
    size_t count; /* those that are open */
    int wake_fd;
};

static void *run(void *arg)
{
    struct source_thread *t = arg;
    source_run(&t->source, t->wake_fd);
    return NULL;
}

static int open_all(struct source_threads *t, const struct config *config, struct store *store, struct log *log,
                    struct pr_error *reterr)
{
    t->list = calloc(config->source_count + 1, sizeof t->list[0]);
    if (t->list == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu sources", config->source_count);
    int rc = wake_open(&t->wake_fd, reterr);
    for (; rc == PR_OK && t->count < config->source_count; t->count += rc == PR_OK) {
        struct source_thread *one = &t->list[t->count];
        one->wake_fd = t->wake_fd;
        one->source = (struct source){
            .config = &config->sources[t->count],
            .store = store,
            .log = log,
            .poll_min_us = config->poll_min_us,
            .instance = config->instance,
            .batch = (size_t)config->batch,
            .payload_max = (size_t)config->payload_max,
            .waiting_max = (uint64_t)config->waiting_max,
        };
        rc = source_open(&one->source, reterr);
    }
    return rc;
}

int source_threads_new(const struct config *config, struct store *store, struct log *log, struct source_threads **ret,
                       struct pr_error *reterr)
{
    struct source_threads *t = calloc(1, sizeof *t);
    if (t == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for sources");
    t->wake_fd = -1;
    int rc = open_all(t, config, store, log, reterr);
    if (rc == PR_OK)
        *ret = t;
    else
        source_threads_free(t);
    return rc;
}

int source_threads_start(struct source_threads *t, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (size_t i = 0; rc == PR_OK && i < t->count; i++) {
        struct source_thread *one = &t->list[i];
        rc = thread_start(&one->thread, THREAD_STACK_SEND, "source", run, one, reterr); /* TLS runs in it */
        one->runs = rc == PR_OK;
    }
    return rc;
}

void source_threads_stop(struct source_threads *t)
{
    wake_send(t->wake_fd);
}

void source_threads_join(struct source_threads *t)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->list[i].runs)
            ASSERT(pthread_join(t->list[i].thread, NULL) == 0);
        t->list[i].runs = false;
    }
}

void source_threads_free(struct source_threads *t)
{
    if (t == NULL)
        return;
    if (t->wake_fd >= 0)
        source_threads_stop(t);
    source_threads_join(t);
    for (size_t i = 0; i < t->count; i++)
        source_close(&t->list[i].source);
    wake_close(t->wake_fd);
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
    source_status_get(&t->list[index].source, ret);
}
