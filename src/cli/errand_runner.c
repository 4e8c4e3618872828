/* The thread that runs errands. */
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "cli/errand.h"
#include "cli/terminal.h"
#include "runtime/thread.h"

#define LAST_WAIT_SECONDS 1 /* a person who quits does not wait longer for a store that does not answer */

enum place { PLACE_EMPTY, PLACE_BEGUN, PLACE_DONE };

struct runner {
    struct bell bell;
    pthread_t thread;
    int fd;
    enum place place; /* these three under the bell's lock */
    struct errand *errand;
    bool stop;
};

static void *run(void *arg)
{
    struct runner *r = arg;

    terminal_watch_thread();
    bell_lock(&r->bell);
    while (!r->stop) {
        if (r->place != PLACE_BEGUN) {
            bell_wait(&r->bell, PR_SECONDS(60));
            continue;
        }
        bell_unlock(&r->bell);
        errand_run(r->errand);
        bell_lock(&r->bell);
        r->place = PLACE_DONE;
        wake_send(r->fd);
    }
    bell_unlock(&r->bell);
    return NULL;
}

static void discard(struct runner *r)
{
    wake_close(r->fd);
    bell_fini(&r->bell);
    free(r);
}

int runner_new(struct runner **ret, struct pr_error *reterr)
{
    struct runner *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for the view");
    int rc = bell_init(&r->bell, reterr);
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

    bell_lock(&r->bell);
    r->stop = true;
    bell_ring(&r->bell);
    bell_unlock(&r->bell);
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
    return r->errand != NULL; /* written by the caller's thread only */
}

void runner_begin(struct runner *r, struct errand *e)
{
    ASSERT(!runner_is_busy(r));
    bell_lock(&r->bell);
    r->errand = e;
    r->place = PLACE_BEGUN;
    bell_ring(&r->bell);
    bell_unlock(&r->bell);
}

struct errand *runner_done(struct runner *r)
{
    struct errand *e = NULL;

    bell_lock(&r->bell);
    if (r->place == PLACE_DONE) {
        wake_clear(r->fd);
        e = r->errand;
        r->errand = NULL;
        r->place = PLACE_EMPTY;
    }
    bell_unlock(&r->bell);
    return e;
}
