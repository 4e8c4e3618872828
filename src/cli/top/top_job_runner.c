/* The thread that runs jobs. */
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "cli/top/top_job.h"
#include "cli/top/terminal.h"
#include "runtime/threads/thread.h"

#define LAST_WAIT_SECONDS 1 /* a person who quits does not wait longer for a store that does not answer */

enum top_job_state { TOP_JOB_EMPTY, TOP_JOB_BEGUN, TOP_JOB_DONE };

struct runner {
    struct monitor monitor;
    pthread_t thread;
    int fd;
    enum top_job_state place; /* guarded by the monitor's lock */
    struct top_job *job;
    bool stop;
};

static void *run(void *arg)
{
    struct runner *r = arg;

    terminal_watch_thread();
    monitor_lock(&r->monitor);
    while (!r->stop) {
        if (r->place != TOP_JOB_BEGUN) {
            monitor_wait(&r->monitor, PR_SECONDS(60));
            continue;
        }
        monitor_unlock(&r->monitor);
        top_job_run(r->job);
        monitor_lock(&r->monitor);
        r->place = TOP_JOB_DONE;
        wake_send(r->fd);
    }
    monitor_unlock(&r->monitor);
    return NULL;
}

static void discard(struct runner *r)
{
    wake_close(r->fd);
    monitor_fini(&r->monitor);
    free(r);
}

int runner_new(struct runner **ret, struct pr_error *reterr)
{
    struct runner *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the view");
    int rc = monitor_init(&r->monitor, reterr);
    if (rc != PR_OK) {
        free(r);
        return rc;
    }
    r->fd = -1;
    rc = wake_open(&r->fd, reterr);
    if (rc == PR_OK)
        rc = thread_start(&r->thread, THREAD_STACK_SEND, "top", run, r, reterr);
    if (rc != PR_OK) {
        discard(r);
        return rc;
    }
    *ret = r;
    return PR_OK;
}

bool runner_free(struct runner *r)
{
    struct timespec end;

    monitor_lock(&r->monitor);
    r->stop = true;
    monitor_notify(&r->monitor);
    monitor_unlock(&r->monitor);
    if (clock_gettime(CLOCK_REALTIME, &end) != 0)
        return false;
    end.tv_sec += LAST_WAIT_SECONDS;
    if (pthread_timedjoin_np(r->thread, NULL, &end) != 0)
        return false;
    discard(r);
    return true;
}

int runner_fd(const struct runner *r)
{
    return r->fd;
}

bool runner_is_busy(const struct runner *r)
{
    return r->job != NULL; /* only written by the caller's thread */
}

void runner_begin(struct runner *r, struct top_job *e)
{
    ASSERT(!runner_is_busy(r));
    monitor_lock(&r->monitor);
    r->job = e;
    r->place = TOP_JOB_BEGUN;
    monitor_notify(&r->monitor);
    monitor_unlock(&r->monitor);
}

struct top_job *runner_done(struct runner *r)
{
    struct top_job *e = NULL;

    monitor_lock(&r->monitor);
    if (r->place == TOP_JOB_DONE) {
        wake_clear(r->fd);
        e = r->job;
        r->job = NULL;
        r->place = TOP_JOB_EMPTY;
    }
    monitor_unlock(&r->monitor);
    return e;
}
