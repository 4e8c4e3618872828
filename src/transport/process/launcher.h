/* launcher.h - a process that forks the processes in which handlers run (isolation: process).
 *
 * A process with threads cannot fork and then run arbitrary code: a lock that another thread held stays held.  So the
 * launcher is forked when the engine starts, before it has threads; it has none itself, and forks a helper (helper.h)
 * whenever it is asked to.  Handlers see the program's memory as of that time.
 *
 *     program ---- fork, at start ----> launcher ---- fork, when asked to ----> helper
 *        '---------------------- socket pair, shared memory --------------------'
 *
 * The launcher ends when the program closes its end or dies, and its helpers die with it.  A launcher that dies itself
 * (it is killed, or memory is short) cannot be forked again by a program that has threads by then.  So there are two
 * from the start: one forks helpers, and each can replace the other.
 *
 * Descriptors that are closed by exec() are closed in them, too: otherwise those of another engine would stay open
 * there. */
#ifndef TRANSPORT_PROCESS_LAUNCHER_H
#define TRANSPORT_PROCESS_LAUNCHER_H

#include <sys/types.h>

#include <postrider.h>

struct launcher;

struct launcher_child {
    pid_t pid;           /* 0: none */
    unsigned generation; /* of the process that forked it, which it dies with */
};

/* Forks now.  Fault PR_EIO, PR_ENOMEM. */
PR_MUST_CHECK int launcher_start(struct launcher **ret, struct pr_error *reterr);
void launcher_free(struct launcher *n); /* NULL is fine */

/* Forks a helper that runs this function; it gets copies of both descriptors.  From any thread. */
PR_MUST_CHECK int launcher_fork(struct launcher *n, pr_handler handler, void *user, int socket_fd, int memory_fd,
                                struct launcher_child *ret, struct pr_error *reterr);
/* Kills the helper, and returns how it ended, as wait(2) does.  -1: unknown. */
int launcher_end(struct launcher *n, struct launcher_child child);

#endif
