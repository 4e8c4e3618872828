#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"

#define NAME_SIZE 16 /* the kernel's limit */

int thread_start(pthread_t *ret_thread, size_t stack_bytes, const char *name, void *(*run)(void *arg), void *arg,
                 struct pr_error *reterr)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return error_set(reterr, PR_ENOMEM, "out of memory for a thread");

    /* The new thread inherits the mask, so no signal can arrive in between. */
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT }; /* the thread's own faults: see crash.h */
    sigset_t all, old;
    sigfillset(&all);
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++)
        sigdelset(&all, faults[i]);
    ASSERT(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
    int rc = pthread_attr_setstacksize(&attributes, stack_bytes);
    if (rc == 0)
        rc = pthread_create(ret_thread, &attributes, run, arg);
    ASSERT(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    pthread_attr_destroy(&attributes);
    if (rc != 0)
        return error_set(reterr, PR_ENOMEM, "cannot start the thread %s: %s; check the limit of processes", name,
                         strerror(rc));

    char text[NAME_SIZE];
    snprintf(text, sizeof text, "%s", name);
    pthread_setname_np(*ret_thread, text); /* only informational: it may fail */
    return PR_OK;
}

int wake_open(int *ret_fd, struct pr_error *reterr)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return error_set(reterr, PR_EIO, "eventfd: %s; check the limit of open files", strerror(errno));
    *ret_fd = fd;
    return PR_OK;
}

void wake_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

void wake_send(int fd)
{
    uint64_t one = 1;
    ssize_t n;
    do
        n = write(fd, &one, sizeof one);
    while (n < 0 && errno == EINTR);
    ASSERT(n == sizeof one || errno == EAGAIN); /* EAGAIN: the counter is at its maximum, so the fd is readable */
}

void wake_clear(int fd)
{
    uint64_t count;
    ssize_t n;
    do
        n = read(fd, &count, sizeof count);
    while (n < 0 && errno == EINTR);
    ASSERT(n == sizeof count || errno == EAGAIN);
}

void wake_wait(int fd, int64_t timeout_us)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    struct timespec timeout = timespec_from(min64(timeout_us, WAIT_MAX_US));
    ppoll(&p, 1, timeout_us < 0 ? NULL : &timeout, NULL); /* early returns are allowed */
}
