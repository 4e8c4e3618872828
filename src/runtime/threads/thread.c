#include "runtime/threads/thread.h"

#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "base/util.h"

int monitor_init(struct monitor *monitor, struct pr_error *reterr)
{
    pthread_condattr_t attributes;
    int rc = pthread_condattr_init(&attributes);
    if (rc == 0) {
        ASSERT(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
        rc = pthread_cond_init(&monitor->rung, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    if (rc != 0)
        return error_set(reterr, PR_ENOMEM, "out of memory for a condition variable");
    ASSERT(pthread_mutex_init(&monitor->lock, NULL) == 0); /* cannot fail without attributes */
    return PR_OK;
}

void monitor_fini(struct monitor *monitor)
{
    pthread_cond_destroy(&monitor->rung);
    pthread_mutex_destroy(&monitor->lock);
}

void monitor_lock(struct monitor *monitor)
{
    ASSERT(pthread_mutex_lock(&monitor->lock) == 0);
}

void monitor_unlock(struct monitor *monitor)
{
    ASSERT(pthread_mutex_unlock(&monitor->lock) == 0);
}

void monitor_notify(struct monitor *monitor)
{
    pthread_cond_broadcast(&monitor->rung);
}

void monitor_wait(struct monitor *monitor, int64_t timeout_us)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t us = (int64_t)until.tv_sec * 1000000 + until.tv_nsec / 1000;
    until = timespec_from(us + min64(max64(timeout_us, 0), WAIT_MAX_US));
    int rc = pthread_cond_timedwait(&monitor->rung, &monitor->lock, &until);
    ASSERT(rc == 0 || rc == ETIMEDOUT);
}
