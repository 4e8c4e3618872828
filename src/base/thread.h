/* thread.h - starting threads, and waking them. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <postrider.h>
#include <pthread.h>
#include <time.h>

#define THREAD_STACK_LOOP (256u << 10) /* for our own code: SQLite needs the most, about 60 KiB */
/* for users' handlers, TLS and requests to the HTTP API; untouched pages cost nothing */
#define THREAD_STACK_SEND (1024u << 10)

/* All signals except those of faults are blocked in the thread: they belong to the program.  Of name at most 15
 * characters are shown.  Fault PR_ENOMEM. */
PR_MUST_CHECK int thread_start(pthread_t *ret_thread, size_t stack_bytes, const char *name, void *(*run)(void *arg),
                               void *arg, struct pr_error *reterr);

/* An eventfd: after wake_send(), any number of times, poll() reports it readable until wake_clear().  Fault PR_EIO. */
PR_MUST_CHECK int wake_open(int *ret_fd, struct pr_error *reterr);
void wake_close(int fd); /* -1 is fine */
void wake_send(int fd);
void wake_clear(int fd);
/* Wait until fd is readable; timeout_us < 0: without limit.  May return early. */
void wake_wait(int fd, int64_t timeout_us);

#define WAIT_MAX_US PR_SECONDS(3600) /* the longest single wait: a caller that waits longer is woken in between */
static inline struct timespec timespec_from(int64_t us)
{
    return (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
}

#endif
