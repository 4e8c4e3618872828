#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"
#include "transport/exec/exec.h"

#define CHILD_READ_SIZE 4096
#define CHILD_READS_MAX 64 /* at a time: endless output must not block this thread */

void child_init(struct child *c)
{
    *c = (struct child){ .pidfd = -1, .in = -1, .out = -1, .err = -1 };
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_all(struct child *c)
{
    close_fd(&c->pidfd);
    close_fd(&c->in);
    close_fd(&c->out);
    close_fd(&c->err);
}

/* Its own group, default actions for all signals, and no inherited descriptor except these three. */
static int spawn(pid_t *ret_pid, char *const *argv, char *const *environment, const int fds[3])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int rc;

    sigemptyset(&none);
    sigfillset(&all);
    if ((rc = posix_spawn_file_actions_init(&actions)) != 0)
        return rc;
    if ((rc = posix_spawnattr_init(&attributes)) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return rc;
    }
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (rc == 0)
        rc = posix_spawnattr_setflags(&attributes,
                                      POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(&attributes, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(&attributes, &all);
    if (rc == 0)
        rc = posix_spawnp(ret_pid, argv[0], &actions, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static int no_waiting(int fd)
{
    return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
}

/* theirs: the three descriptors of the program; for those that are -1 on entry both ends are made. */
static int make_ends(struct child *c, int theirs[3])
{
    int pair[2];
    bool lines = theirs[0] < 0;

    /* A socket, so that writing to a program that is gone is an error and not a signal. */
    if (lines && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return errno;
    if (lines) {
        c->in = pair[0];
        theirs[0] = pair[1];
    }
    if (pipe2(pair, O_CLOEXEC) < 0)
        return errno;
    c->out = pair[0];
    theirs[1] = pair[1];
    theirs[2] = lines ? -1 : pair[1];
    if (lines) {
        if (pipe2(pair, O_CLOEXEC) < 0)
            return errno;
        c->err = pair[0];
        theirs[2] = pair[1];
    }
    int rc = no_waiting(c->out);
    if (rc == 0 && lines)
        rc = no_waiting(c->err);
    return rc != 0 || !lines ? rc : no_waiting(c->in);
}

int child_spawn(struct child *c, char *const *argv, char *const *environment, int stdin_fd)
{
    int theirs[3] = { stdin_fd, -1, -1 };
    siginfo_t how;

    child_init(c);
    int rc = make_ends(c, theirs);
    if (rc == 0)
        rc = spawn(&c->pid, argv, environment, theirs);
    if (stdin_fd < 0)
        close_fd(&theirs[0]);
    if (theirs[2] != theirs[1])
        close_fd(&theirs[2]);
    close_fd(&theirs[1]);
    if (rc == 0 && (c->pidfd = pidfd_open(c->pid, 0)) < 0) {
        rc = errno;
        kill(-c->pid, SIGKILL); /* not reaped yet: the number is still its own */
        (void)waitid(P_PID, (id_t)c->pid, &how, WEXITED);
    }
    if (rc != 0) {
        close_all(c);
        child_init(c);
    }
    return rc;
}

void child_kill(struct child *c)
{
    if (c->pid != 0)
        kill(-c->pid, SIGKILL); /* not reaped yet: the number is still its own */
    close_fd(&c->in);
    close_fd(&c->out);
    close_fd(&c->err);
}

bool child_reap(struct child *c, bool wait, struct buf *line, siginfo_t *ret)
{
    ASSERT(c->pid != 0);
    ret->si_pid = 0;
    int rc;
    do
        rc = waitid(P_PIDFD, (id_t)c->pidfd, ret, WEXITED | (wait ? 0 : WNOHANG));
    while (rc < 0 && errno == EINTR);
    if (rc == 0 && ret->si_pid == 0)
        return false;
    if (rc < 0) { /* SIGCHLD is ignored, and the system has reaped it: how it ended is unknown */
        ret->si_code = CLD_KILLED;
        ret->si_status = 0;
    }
    child_read(c, &c->out, line);
    child_read(c, &c->err, NULL);
    close_all(c);
    c->pid = 0;
    return true;
}

static void tail_add(struct child *c, const char *data, size_t size)
{
    if (size >= sizeof(c->tail)) {
        memcpy(c->tail, data + size - sizeof(c->tail), sizeof(c->tail));
        c->tail_size = sizeof(c->tail);
        return;
    }
    size_t keep = min_size(c->tail_size, sizeof(c->tail) - size);
    memmove(c->tail, c->tail + c->tail_size - keep, keep);
    memcpy(c->tail + keep, data, size);
    c->tail_size = keep + size;
}

void child_read(struct child *c, int *fd, struct buf *line)
{
    char chunk[CHILD_READ_SIZE];

    for (int i = 0; *fd >= 0 && i < CHILD_READS_MAX; i++) {
        ssize_t n = read(*fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close_fd(fd);
            return;
        }
        if (line != NULL)
            buf_add(line, chunk, (size_t)n);
        else
            tail_add(c, chunk, (size_t)n);
        if ((size_t)n < sizeof(chunk))
            return; /* that was all for now */
    }
}

/* ---- What programs leave behind -------------------------------------------------------------------- */

/* False: processes of the group are our children, and still run. */
static bool group_has_ended(pid_t group)
{
    pid_t pid;
    while ((pid = waitpid(-group, NULL, WNOHANG)) > 0)
        ;
    return pid < 0;
}

void leftovers_note(struct leftovers *o, pid_t group)
{
    if (group_has_ended(group))
        return;
    if (o->count == LEFTOVERS_MAX) /* the oldest group does not end */
        memmove(o->groups, o->groups + 1, --o->count * sizeof(o->groups[0]));
    o->groups[o->count++] = group;
}

void leftovers_reap(struct leftovers *o)
{
    size_t left = 0;
    for (size_t i = 0; i < o->count; i++)
        if (!group_has_ended(o->groups[i]))
            o->groups[left++] = o->groups[i];
    o->count = left;
}
