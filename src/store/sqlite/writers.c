#include "store/sqlite/writers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "base/list.h"
#include "base/time.h"
#include "base/util.h"

struct writers {
    struct list_node node;
    struct file_name file;
    size_t users;
    bool writing;
    struct list waiting; /* struct writer */
};

struct writer {
    struct list_node node; /* linked: it waits */
    pthread_cond_t woken;
};

/* One lock for all files: it is held for a few instructions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list files = { .head = { &files.head, &files.head } };

static struct writers *find(struct file_name file)
{
    list_foreach(node, &files) {
        struct writers *w = LIST_ENTRY(node, struct writers, node);
        if (w->file.device == file.device && w->file.number == file.number)
            return w;
    }
    return NULL;
}

struct writers *writers_join(struct file_name file)
{
    ASSERT(pthread_mutex_lock(&lock) == 0);
    struct writers *w = find(file);
    if (w == NULL && (w = calloc(1, sizeof(*w))) != NULL) {
        w->file = file;
        list_init(&w->waiting);
        list_push_back(&files, &w->node);
    }
    if (w != NULL)
        w->users++;
    ASSERT(pthread_mutex_unlock(&lock) == 0);
    return w;
}

void writers_leave(struct writers *w)
{
    if (w == NULL)
        return;
    ASSERT(pthread_mutex_lock(&lock) == 0);
    bool last = --w->users == 0;
    if (last)
        list_remove(&w->node);
    ASSERT(pthread_mutex_unlock(&lock) == 0);
    if (last)
        free(w);
}

static void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/* With the lock held.  Who is taken out of the list has the turn. */
static bool wait_for_turn(struct writers *w, int64_t timeout_us)
{
    struct writer me = { .node = { NULL, NULL } };
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t us = time_add(until.tv_nsec / 1000, timeout_us);
    until.tv_sec += us / PR_SECONDS(1);
    until.tv_nsec = us % PR_SECONDS(1) * 1000;
    cond_init(&me.woken);
    list_push_back(&w->waiting, &me.node);
    while (list_is_linked(&me.node) && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&me.woken, &lock, &until);
    bool mine = !list_is_linked(&me.node);
    if (!mine)
        list_remove(&me.node);
    pthread_cond_destroy(&me.woken);
    return mine;
}

bool writers_begin(struct writers *w, int64_t timeout_us)
{
    bool mine = true;
    ASSERT(pthread_mutex_lock(&lock) == 0);
    if (w->writing)
        mine = wait_for_turn(w, timeout_us);
    else
        w->writing = true;
    ASSERT(pthread_mutex_unlock(&lock) == 0);
    return mine;
}

void writers_end(struct writers *w)
{
    ASSERT(pthread_mutex_lock(&lock) == 0);
    struct list_node *next = list_pop_front(&w->waiting);
    w->writing = next != NULL;
    if (next != NULL)
        pthread_cond_signal(&LIST_ENTRY(next, struct writer, node)->woken);
    ASSERT(pthread_mutex_unlock(&lock) == 0);
}

size_t writers_waiting(struct writers *w)
{
    size_t count = 0;
    ASSERT(pthread_mutex_lock(&lock) == 0);
    list_foreach(node, &w->waiting)
        count++;
    ASSERT(pthread_mutex_unlock(&lock) == 0);
    return count;
}
