/* What all shelves share, and the side of the box loops: attaching their endpoints, and deleted rows. */
#include "transport/pull/pull.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/pull/shelf.h"

int64_t pull_now_us(void)
{
    return clock_mono_us(clock_system());
}

void pull_lock(struct pull *p)
{
    ASSERT(pthread_mutex_lock(&p->lock) == 0);
}

void pull_unlock(struct pull *p)
{
    ASSERT(pthread_mutex_unlock(&p->lock) == 0);
}

void pull_ring(int fd)
{
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0)
        ASSERT(errno == EAGAIN); /* it is readable already */
}

void pull_wait(struct pull *p, int64_t until_us)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t left_us = max64(time_sub(until_us, pull_now_us()), 0);
    int64_t end_ns = end.tv_nsec + left_us % 1000000 * 1000;
    end.tv_sec += left_us / 1000000 + end_ns / 1000000000;
    end.tv_nsec = end_ns % 1000000000;
    pthread_cond_timedwait(&p->moved, &p->lock, &end);
}

int pull_new(struct pull **ret, struct pr_error *reterr)
{
    struct pull *p = calloc(1, sizeof *p);
    pthread_condattr_t attr;
    if (p == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for claims");
    if (random_bytes_os(&p->tag, sizeof p->tag) < 0) {
        free(p);
        return error_set(reterr, PR_EIO, "no random numbers from the operating system");
    }
    ASSERT(pthread_mutex_init(&p->lock, NULL) == 0);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    ASSERT(pthread_cond_init(&p->moved, &attr) == 0);
    pthread_condattr_destroy(&attr);
    list_init(&p->shelves);
    map_init(&p->claims);
    *ret = p;
    return PR_OK;
}

void pull_free(struct pull *p)
{
    if (p == NULL)
        return;
    list_foreach(node, &p->shelves)
        shelf_free(LIST_ENTRY(node, struct pull_shelf, node));
    map_fini(&p->claims);
    pthread_cond_destroy(&p->moved);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

int pull_attach(struct pull *p, pr_slice endpoint, pr_slice box, bool routed, bool tagged, int wake_fd,
                struct pr_error *reterr)
{
    pull_lock(p);
    struct pull_shelf *s = shelf_of(p, endpoint, box);
    if (s == NULL)
        s = shelf_new(p, endpoint, box);
    if (s != NULL) {
        s->attached = true;
        s->routed = routed;
        s->tagged = tagged;
        s->wake_fd = wake_fd;
    }
    pull_unlock(p);
    return s != NULL ? PR_OK
                     : error_set(reterr, PR_ENOMEM, "out of memory for the endpoint %.*s", SLICE_ARGS(endpoint));
}

void pull_interrupt(struct pull *p)
{
    pull_lock(p);
    p->stopping = true;
    pthread_cond_broadcast(&p->moved);
    pull_unlock(p);
}

void pull_detach(struct pull *p, pr_slice endpoint, pr_slice box, int wake_fd)
{
    pull_lock(p);
    struct pull_shelf *s = shelf_of(p, endpoint, box);
    if (s != NULL && s->wake_fd == wake_fd) {
        s->attached = false;
        s->wake_fd = -1;
        shelf_return_all(s, NULL);
        list_foreach(node, &s->claimed)
            claim_abandon(LIST_ENTRY(node, struct open_claim, node), "its instance stopped");
        pthread_cond_broadcast(&p->moved);
    }
    pull_unlock(p);
}

void pull_gone(struct pull *p, pr_slice box, const uint64_t *tokens, size_t count)
{
    pull_lock(p);
    list_foreach(shelf_node, &p->shelves) {
        struct pull_shelf *s = LIST_ENTRY(shelf_node, struct pull_shelf, node);
        if (!slice_eq_cstr(box, s->box))
            continue;
        list_foreach(node, &s->claimed) {
            struct open_claim *c = LIST_ENTRY(node, struct open_claim, node);
            bool gone = false;
            for (size_t i = 0; i < count; i++)
                gone |= c->delivery->token == tokens[i];
            if (gone)
                claim_abandon(c, "it was cancelled");
        }
    }
    pull_unlock(p);
}
