/* thread.h - what Postrider's threads share. */
#ifndef RUNTIME_THREADS_THREAD_H
#define RUNTIME_THREADS_THREAD_H

#include "base/thread.h"

/* A mutex and a condition with a monotonic clock. */
struct monitor {
    pthread_mutex_t lock;
    pthread_cond_t rung;
};
PR_MUST_CHECK int monitor_init(struct monitor *monitor, struct pr_error *reterr);
void monitor_fini(struct monitor *monitor);
void monitor_lock(struct monitor *monitor);
void monitor_unlock(struct monitor *monitor);
void monitor_notify(struct monitor *monitor); /* locked or not */
/* Locked by the caller; at most timeout_us.  May return early. */
void monitor_wait(struct monitor *monitor, int64_t timeout_us);

#endif
