#include "runtime/feed.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "base/util.h"
#include "runtime/threads/thread.h"

struct feed {
    struct monitor monitor; /* guards: */
    struct happening *ring; /* FEED_MAX entries, or NULL: there was never a listener */
    uint64_t count;         /* number of entries ever put */
    uint64_t shakes;
    atomic_int listeners;
};

const char *happening_name(enum happening_kind kind)
{
    static const char *const names[] = { "sent",    "failed",    "dead",    "parked",  "discarded",
                                         "expired", "duplicate", "changed", "endpoint" };
    ASSERT((size_t)kind < ARRAY_LENGTH(names));
    return names[kind];
}

void happening_text(char *ret, size_t size, pr_slice text)
{
    snprintf(ret, size, "%.*s", SLICE_ARGS(utf8_cut_bytes(text, size - 1)));
}

struct feed *feed_new(void)
{
    struct feed *f = calloc(1, sizeof *f);
    if (f == NULL || monitor_init(&f->monitor, NULL) < 0) {
        free(f);
        return NULL;
    }
    return f;
}

void feed_free(struct feed *f)
{
    if (f == NULL)
        return;
    ASSERT(atomic_load(&f->listeners) == 0);
    monitor_fini(&f->monitor);
    free(f->ring);
    free(f);
}

bool feed_is_heard(const struct feed *f)
{
    return f != NULL && atomic_load_explicit(&f->listeners, memory_order_relaxed) > 0;
}

void feed_put(struct feed *f, const struct happening *what)
{
    if (!feed_is_heard(f))
        return;
    monitor_lock(&f->monitor);
    if (f->ring != NULL) {
        struct happening *h = &f->ring[f->count % FEED_MAX];
        *h = *what;
        h->number = ++f->count;
        monitor_notify(&f->monitor);
    }
    monitor_unlock(&f->monitor);
}

int feed_join(struct feed *f, uint64_t *ret_next)
{
    monitor_lock(&f->monitor);
    if (f->ring == NULL)
        f->ring = calloc(FEED_MAX, sizeof f->ring[0]);
    int rc = f->ring != NULL ? PR_OK : PR_ENOMEM;
    if (rc == PR_OK) {
        *ret_next = f->count;
        atomic_fetch_add(&f->listeners, 1);
    }
    monitor_unlock(&f->monitor);
    return rc;
}

void feed_leave(struct feed *f)
{
    ASSERT(atomic_fetch_sub(&f->listeners, 1) > 0);
}

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

int feed_read(struct feed *f, uint64_t *next, struct happening *ret, size_t max, size_t *ret_count, int64_t timeout_us)
{
    int64_t deadline_us = time_add(now_us(), timeout_us);
    size_t count = 0;
    monitor_lock(&f->monitor);
    uint64_t shakes = f->shakes;
    while (f->shakes == shakes && f->count == *next && now_us() < deadline_us)
        monitor_wait(&f->monitor, time_sub(deadline_us, now_us()));
    int rc = f->count == *next ? PR_TIMEOUT : PR_OK;
    if (rc == PR_OK && f->count - *next > FEED_MAX) {
        *next = f->count;
        rc = PR_STALE;
    }
    for (; rc == PR_OK && count < max && *next < f->count; ++*next)
        ret[count++] = f->ring[*next % FEED_MAX];
    monitor_unlock(&f->monitor);
    *ret_count = count;
    return rc;
}

void feed_shake(struct feed *f)
{
    monitor_lock(&f->monitor);
    f->shakes++;
    monitor_notify(&f->monitor);
    monitor_unlock(&f->monitor);
}
