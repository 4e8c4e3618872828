#include "runtime/threads/wal_thread.h"

#include <stdlib.h>

#include "base/error.h"
#include "runtime/threads/thread.h"

struct wal_thread {
    struct store_wal wal;
    pthread_t thread;
    int stop_fd;
};

static void *run(void *arg)
{
    struct wal_thread *t = arg;
    store_wal_run(&t->wal, t->stop_fd);
    return NULL;
}

static void wal_thread_free(struct wal_thread *t)
{
    store_wal_close(&t->wal);
    wake_close(t->stop_fd);
    free(t);
}

int wal_thread_start(struct store *store, const struct wal_setting *setting, struct wal_thread **ret,
                     struct pr_error *reterr)
{
    struct wal_thread *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for the log");
    t->stop_fd = -1;
    int rc = wake_open(&t->stop_fd, reterr);
    if (rc == PR_OK)
        rc = store_wal_open(store, setting, &t->wal, reterr);
    if (rc == PR_OK)
        rc = thread_start(&t->thread, THREAD_STACK_SEND, "wal", run, t, reterr); /* TLS runs in it */
    if (rc == PR_OK)
        *ret = t;
    else
        wal_thread_free(t);
    return rc;
}

void wal_thread_stop(struct wal_thread *t)
{
    if (t == NULL)
        return;
    wake_send(t->stop_fd);
    ASSERT(pthread_join(t->thread, NULL) == 0);
    wal_thread_free(t);
}
