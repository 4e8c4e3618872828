/* thread.h - a thread of ours, and what wakes it. */
#ifndef RUNTIME_THREADS_THREAD_H
#define RUNTIME_THREADS_THREAD_H

#include <postrider.h>
#include <pthread.h>

#define THREAD_STACK_LOOP (256u << 10) /* our own code: SQLite needs the most, about 60 KiB */
#define THREAD_STACK_SEND                                                                                              \
    (1024u << 10) /* users' handlers and TLS run there, and what the HTTP API is asked; untouched pages cost nothing */

/* All signals but those of faults are blocked in it: they belong to the program.  name: at most 15 characters are
 * shown.  Fault PR_ENOMEM. */
PR_MUST_CHECK int thread_start(pthread_t *ret_thread, size_t stack_bytes, const char *name, void *(*run)(void *arg),
                               void *arg, struct pr_error *reterr);

/* An eventfd: send any number of times, and poll() finds it readable until it is cleared.
 * Fault PR_EIO. */
PR_MUST_CHECK int wake_open(int *ret_fd, struct pr_error *reterr);
void wake_close(int fd); /* -1 is fine */
void wake_send(int fd);
void wake_clear(int fd);
/* Until it is readable; timeout_us < 0: without end.  May return early. */
void wake_wait(int fd, int64_t timeout_us);

/* Mutex and condition with a steady clock. */
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
