/* exec.h - the parts of the exec transport.
 *
 *   exec.c         the transport: workers, each with one program and one message at a time
 *   exec_words.c   url -> program and arguments
 *   exec_input.c   message -> environment and standard input
 *   exec_child.c   a program that runs: its beginning, its end, and what it says
 *   exec_answer.c  exit code, signal or line -> result
 */
#ifndef TRANSPORT_EXEC_EXEC_H
#define TRANSPORT_EXEC_EXEC_H

#include <signal.h>
#include <sys/types.h>

#include "base/buf.h"
#include "transport/envelope.h"
#include "transport/transport.h"

#define EXEC_TAIL 500         /* bytes of its output that become part of the error: the last ones */
#define EXEC_ANSWER_MAX 65536 /* bytes of a line that answers */

/* ---- The url ---- */

#define EXEC_WORDS_MAX 64 /* program and arguments */

/* In the arena; the last one is followed by NULL.  PR_OK, PR_ENOMEM, or PR_ECONFIG with what is wrong. */
PR_MUST_CHECK int exec_words(const struct endpoint_config *config, struct arena *arena, char *words[EXEC_WORDS_MAX + 1],
                             bool *ret_lines, struct pr_error *reterr);

/* ---- What it is given ---- */

/* Our own environment without what is ours alone, and what the message has (NULL: only the former), in the
 * arena.  NULL: no memory. */
char **exec_environment(struct arena *arena, const struct endpoint_config *config, enum envelope envelope,
                        const struct pr_message *m);
/* A file in memory: a program may read it, or not, as it likes.  -1: errno says why. */
int exec_input(struct buf *scratch, enum envelope envelope, const char *source, const struct pr_message *m);

/* ---- A program ---- */

struct child {
    pid_t pid; /* and its process group; 0: none */
    int pidfd; /* readable when it has ended */
    int in;    /* lines: a socket; -1: none */
    int out;   /* what it says; -1: it closed that */
    int err;   /* lines: the same for its standard error */
    char tail[EXEC_TAIL];
    size_t tail_size;
};

void child_init(struct child *c); /* none */
/* stdin_fd >= 0: its standard input, still the caller's; both outputs come by `out`.  -1: lines.
 * Returns 0 or an errno. */
int child_spawn(struct child *c, char *const *argv, char *const *environment, int stdin_fd);
/* At once, with all that it started and that did not leave its group.  It must still be reaped. */
void child_kill(struct child *c);
/* True: it has ended, *ret says how, and nothing of it is left but its last words, as in child_read().
 * wait: not before. */
bool child_reap(struct child *c, bool wait, struct buf *line, siginfo_t *ret);
/* Read what there is: to the end of the tail, and when line is not NULL to the end of that. */
void child_read(struct child *c, int *fd, struct buf *line);

/* ---- What it means ---- */

/* How a program for one message ended. */
void exec_judge_end(const struct child *c, const siginfo_t *how, uint64_t token, struct delivery_result *ret);
/* A program of lines ended, or stopped talking, with this message in its hands. */
void exec_judge_lost(const struct child *c, const siginfo_t *how, uint64_t token, struct delivery_result *ret);
/* Its line.  False: that is no answer, and what it does with the next message nobody knows. */
bool exec_judge_line(pr_slice line, const struct delivery *d, struct delivery_result *ret);
/* It could not be started. */
void exec_judge_spawn(const char *program, int fault, uint64_t token, struct delivery_result *ret);
/* It did not end in time. */
void exec_judge_late(const struct child *c, uint64_t token, struct delivery_result *ret);

#endif
