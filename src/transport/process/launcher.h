/* launcher.h - a process that makes the processes in which handlers run (isolation: process).
 *
 * A process with threads cannot fork and then run just any code: a lock that another thread held stays held.  So the launcher is
 * forked when the engine starts, before it has threads; it has none itself, and forks a helper (helper.h) whenever it is
 * asked to.  What the program had in memory by then is what handlers find there.
 *
 *     program ---- fork, at start ----> launcher ---- fork, when asked to ----> helper
 *        '---------------------- socket pair, shared memory --------------------'
 *
 * The launcher ends when the program closes its end or dies, and its helpers die with it.  A launcher that dies itself (somebody kills
 * it, memory is short) cannot be forked again by a program that has threads by now.  So there are two from the start: one makes
 * helpers, and either makes a new one in the place of the other.
 *
 * Descriptors that close on exec() are closed in them, too: those of another engine would stay open there. */
#ifndef TRANSPORT_PROCESS_LAUNCHER_H
#define TRANSPORT_PROCESS_LAUNCHER_H

#include <sys/types.h>

#include <postrider.h>

struct launcher;

struct launcher_child {
    pid_t pid;           /* 0: none */
    unsigned generation; /* of the process that made it: with that one it is gone */
};

/* Forks now.  Fault PR_EIO, PR_ENOMEM. */
PR_MUST_CHECK int launcher_start(struct launcher **ret, struct pr_error *reterr);
void launcher_free(struct launcher *n); /* NULL is fine */

/* A helper that runs this function; both descriptors are its own from then on, and stay ours, too.  From any thread. */
PR_MUST_CHECK int launcher_fork(struct launcher *n, pr_handler handler, void *user, int socket_fd, int memory_fd,
                                struct launcher_child *ret, struct pr_error *reterr);
/* Kills the helper where it lives, and says how it ended, as wait(2) does.  -1: nobody knows. */
int launcher_end(struct launcher *n, struct launcher_child child);

#endif
