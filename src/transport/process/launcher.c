#include "transport/process/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"
#include "transport/process/helper.h"

#define DESCRIPTORS_MAX 1048576 /* descriptors looked at, at the start */

/* One of the two processes.  The first forks helpers; the other one replaces the first when that has died. */
struct launcher_process {
    int fd; /* -1: there is none */
    pid_t pid, parent;
};

struct launcher {
    pthread_mutex_t lock; /* one request at a time */
    struct launcher_process processes[2];
    unsigned generation; /* how often the first has died */
};

/* A request; function and user are the same in every forked process. */
struct launch_request {
    enum { LAUNCH_HELPER, LAUNCH_SPARE, LAUNCH_WAIT } kind;
    pid_t pid; /* WAIT: for this process */
    pr_handler handler;
    void *user;
};

struct answer {
    pid_t pid; /* -errno: failed */
    int status;
};

/* ---- In the launcher ------------------------------------------------------------------------------------ */

/* False: the other side is gone. */
static bool take_request(int fd, struct launch_request *ret, int fds[2])
{
    char room[CMSG_SPACE(2 * sizeof(int))];
    struct iovec bytes = { ret, sizeof(*ret) };
    struct msghdr m = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
    ssize_t got;
    do
        got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    fds[0] = fds[1] = -1;
    if (got == (ssize_t)sizeof(*ret) && c != NULL && c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
        memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
    return got == (ssize_t)sizeof(*ret);
}

static pid_t make_helper(int fd, const struct launch_request *request, const int fds[2])
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid >= 0 ? pid : -errno;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    close(fd);
    helper_main(fds[0], fds[1], request->handler, request->user);
}

_Noreturn static void launcher_main(int fd);

/* It may outlive this process: that is its purpose. */
static pid_t make_spare(int fd, const int fds[2])
{
    pid_t pid = fork();
    if (pid != 0)
        return pid >= 0 ? pid : -errno;
    close(fd);
    close(fds[1]);
    launcher_main(fds[0]);
}

_Noreturn static void launcher_main(int fd)
{
    struct launch_request request;
    int fds[2];
    /* They are meant for the program, which ends this process when it ends itself. */
    static const int not_ours[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    for (size_t i = 0; i < ARRAY_LENGTH(not_ours); i++)
        signal(not_ours[i], SIG_IGN);
    /* A crash must be a death, whatever the program does about its own: some handlers jump back into code that does not
     * run here. */
    static const int deaths[] = { SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    for (size_t i = 0; i < ARRAY_LENGTH(deaths); i++)
        signal(deaths[i], SIG_DFL);
    while (take_request(fd, &request, fds)) {
        struct answer answer = { .status = 0 };
        switch (request.kind) {
        case LAUNCH_HELPER: answer.pid = make_helper(fd, &request, fds); break;
        case LAUNCH_SPARE: answer.pid = make_spare(fd, fds); break;
        case LAUNCH_WAIT:
            while ((answer.pid = waitpid(request.pid, &answer.status, 0)) < 0 && errno == EINTR)
                ;
        }
        for (size_t i = 0; i < 2; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer))
            break;
    }
    _exit(0);
}

/* Like exec(): another engine's connections, locks and sockets would stay open here after it has closed them. */
static void close_others(int ours)
{
    struct rlimit limit = { .rlim_cur = 0 };
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int count = (int)min64((int64_t)min_size(limit.rlim_cur, INT64_MAX), DESCRIPTORS_MAX);
    for (int fd = STDERR_FILENO + 1; fd < count; fd++) {
        int flags = fd != ours ? fcntl(fd, F_GETFD) : -1;
        if (flags >= 0 && (flags & FD_CLOEXEC) != 0)
            close(fd);
    }
}

/* ---- In the program --------------------------------------------------------------------------------------- */

static int process_start(struct launcher_process *t, struct pr_error *reterr)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error_set(reterr, PR_EIO, "isolation: process: socketpair: %s", strerror(errno));
    fflush(NULL); /* otherwise it would be written twice */
    pid_t pid = fork();
    if (pid == 0) {
        close_others(ends[1]);
        launcher_main(ends[1]);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return error_set(reterr, PR_EIO, "isolation: process: fork: %s; check the limit of processes", strerror(error));
    }
    *t = (struct launcher_process){ .fd = ends[0], .pid = pid, .parent = getpid() };
    return PR_OK;
}

int launcher_start(struct launcher **ret, struct pr_error *reterr)
{
    struct launcher *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for processes of handlers");
    ASSERT(pthread_mutex_init(&n->lock, NULL) == 0);
    n->processes[0].fd = n->processes[1].fd = -1;
    int rc = process_start(&n->processes[0], reterr);
    if (rc == PR_OK)
        rc = process_start(&n->processes[1], reterr);
    if (rc == PR_OK)
        *ret = n;
    else
        launcher_free(n);
    return rc;
}

static bool send_request(int fd, const struct msghdr *m, size_t size)
{
    ssize_t sent;
    do
        sent = sendmsg(fd, m, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size;
}

/* Whatever signal interrupts: an answer that is left there would be taken for that of the next request. */
static bool take_answer(int fd, struct answer *ret)
{
    ssize_t got;
    do
        got = recv(fd, ret, sizeof(*ret), 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(*ret);
}

/* fds may be NULL.  False: it is gone. */
static bool ask(const struct launcher_process *t, struct launch_request *request, const int *fds, struct answer *ret)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = { .room = { 0 } };
    struct iovec bytes = { request, sizeof(*request) };
    struct msghdr m = { .msg_iov = &bytes, .msg_iovlen = 1 };
    if (fds != NULL) {
        m.msg_control = control.room;
        m.msg_controllen = sizeof(control.room);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS,
                               .cmsg_len = CMSG_LEN(2 * sizeof(int)) };
        memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
    }
    return t->fd >= 0 && send_request(t->fd, &m, sizeof(*request)) && take_answer(t->fd, ret);
}

/* ---- One that dies is replaced by the other ---------------------------------------------------------------- */

/* It never writes unless asked: if there is something to read, it is the end. */
static bool is_gone(const struct launcher_process *t)
{
    struct pollfd says = { .fd = t->fd, .events = POLLIN };
    return t->fd < 0 || poll(&says, 1, 0) > 0;
}

/* Ends a process, and cleans up; other: its possible parent. */
static void process_end(struct launcher_process *t, const struct launcher_process *other)
{
    struct launch_request request = { .kind = LAUNCH_WAIT, .pid = t->pid };
    struct answer answer;
    if (t->fd < 0)
        return;
    (void)shutdown(t->fd, SHUT_RDWR);
    close(t->fd);
    t->fd = -1;
    if (t->parent == getpid())
        while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    else if (t->parent == other->pid && other->fd >= 0)
        (void)ask(other, &request, NULL, &answer);
    else
        (void)waitpid(t->pid, NULL, WNOHANG); /* an orphan is our child if this is the first process of a container */
}

static void replace_spare(struct launcher *n)
{
    int ends[2];
    struct launch_request request = { .kind = LAUNCH_SPARE };
    struct answer answer;
    if (!is_gone(&n->processes[1]))
        return;
    process_end(&n->processes[1], &n->processes[0]);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return; /* with the next helper */
    const int fds[2] = { ends[1], ends[1] };
    bool made = ask(&n->processes[0], &request, fds, &answer) && answer.pid > 0;
    close(ends[1]);
    if (made)
        n->processes[1] = (struct launcher_process){ .fd = ends[0], .pid = answer.pid, .parent = n->processes[0].pid };
    else
        close(ends[0]);
}

/* False: both are gone. */
static bool look_after(struct launcher *n)
{
    if (is_gone(&n->processes[0])) {
        process_end(&n->processes[0], &n->processes[1]);
        n->processes[0] = n->processes[1];
        n->processes[1].fd = -1;
        n->generation++; /* its helpers died with it */
    }
    if (!is_gone(&n->processes[0]))
        replace_spare(n);
    return n->processes[0].fd >= 0;
}

void launcher_free(struct launcher *n)
{
    if (n == NULL)
        return;
    /* The child before its parent, which has to wait for it. */
    size_t first = n->processes[0].parent == n->processes[1].pid ? 0 : 1;
    process_end(&n->processes[first], &n->processes[1 - first]);
    process_end(&n->processes[1 - first], &n->processes[first]);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

int launcher_fork(struct launcher *n, pr_handler handler, void *user, int socket_fd, int memory_fd,
                  struct launcher_child *ret, struct pr_error *reterr)
{
    struct launch_request request = { .kind = LAUNCH_HELPER, .handler = handler, .user = user };
    struct answer answer;
    const int fds[2] = { socket_fd, memory_fd };
    ASSERT(pthread_mutex_lock(&n->lock) == 0);
    bool good = look_after(n) && (ask(&n->processes[0], &request, fds, &answer) ||
                                  (look_after(n) && ask(&n->processes[0], &request, fds, &answer)));
    unsigned generation = n->generation;
    ASSERT(pthread_mutex_unlock(&n->lock) == 0);
    if (!good)
        return error_set(reterr, PR_EIO, "the handler launcher exited: restart the program");
    if (answer.pid < 0)
        return error_set(reterr, PR_EIO, "fork: %s; check the limit of processes", strerror(-answer.pid));
    *ret = (struct launcher_child){ .pid = answer.pid, .generation = generation };
    return PR_OK;
}

int launcher_end(struct launcher *n, struct launcher_child child)
{
    struct launch_request request = { .kind = LAUNCH_WAIT, .pid = child.pid };
    struct answer answer = { .pid = 0 };
    ASSERT(pthread_mutex_lock(&n->lock) == 0);
    if (look_after(n) && child.generation == n->generation) {
        (void)kill(child.pid, SIGKILL); /* not waited for yet: the number is still its own */
        if (!ask(&n->processes[0], &request, NULL, &answer))
            answer.pid = 0;
    }
    ASSERT(pthread_mutex_unlock(&n->lock) == 0);
    return answer.pid == child.pid ? answer.status : -1;
}
