/* exec.h - the parts of the exec transport.
 *
 *   exec.c         the transport: workers, each with one program and one message at a time
 *   exec_words.c   url -> program and arguments
 *   exec_input.c   message -> environment and standard input
 *   exec_child.c   a running program: its start, its end, and its output
 *   exec_answer.c  exit code, signal or line -> result */
#ifndef TRANSPORT_EXEC_EXEC_H
#define TRANSPORT_EXEC_EXEC_H

#include <signal.h>
#include <sys/types.h>

#include "base/buf.h"
#include "transport/envelope.h"
#include "transport/transport.h"

#define EXEC_TAIL 500         /* the last bytes of its output, which become part of the error */
#define EXEC_ANSWER_MAX 65536 /* bytes of an answer line */

/* ---- The url ---- */

#define EXEC_WORDS_MAX 64 /* program and arguments */

/* In the arena; ends with NULL.  PR_OK, PR_ENOMEM, or PR_ECONFIG with what is wrong. */
PR_MUST_CHECK int exec_words(const struct endpoint_config *config, struct arena *arena, char *words[EXEC_WORDS_MAX + 1],
                             bool *ret_lines, struct pr_error *reterr);

/* ---- What it is given ---- */

/* This process's environment without Postrider's own variables, and variables of the message (NULL: none), in the
 * arena.  NULL: no memory. */
char **exec_environment(struct arena *arena, const struct endpoint_config *config, enum envelope envelope,
                        const struct pr_message *m);
/* A file in memory, which a program may read or ignore.  -1: see errno. */
int exec_input(struct buf *scratch, enum envelope envelope, const char *source, const struct pr_message *m);

/* ---- A program ---- */

struct child {
    pid_t pid; /* also its process group; 0: none */
    int pidfd; /* readable when it has ended */
    int in;    /* lines: a socket; -1: none */
    int out;   /* its output; -1: closed */
    int err;   /* lines: its standard error */
    char tail[EXEC_TAIL];
    size_t tail_size;
};

void child_init(struct child *c); /* no process yet */
/* stdin_fd >= 0: its standard input, which remains the caller's; both outputs are read through `out`.  -1: lines.
 * Returns 0 or an errno. */
int child_spawn(struct child *c, char *const *argv, char *const *environment, int stdin_fd);
/* Kills it at once, with all processes that it started and that did not leave its group.  It must still be reaped. */
void child_kill(struct child *c);
/* True: it has ended, see *ret, and its remaining output was read as by child_read().  wait: block until then. */
bool child_reap(struct child *c, bool wait, struct buf *line, siginfo_t *ret);
/* Reads available output: into the tail, and into line unless it is NULL. */
void child_read(struct child *c, int *fd, struct buf *line);

/* Processes that programs started and left behind.  Process 1 of a container becomes their parent, and nobody else can wait
 * for them when they end: they would stay as zombies.  Everywhere else a group whose program was reaped has no child of ours. */
#define LEFTOVERS_MAX 64
struct leftovers {
    pid_t groups[LEFTOVERS_MAX];
    size_t count;
};
void leftovers_note(struct leftovers *o, pid_t group); /* of a program that was reaped */
void leftovers_reap(struct leftovers *o);

/* ---- What it means ---- */

/* The result from the end of a program that got one message. */
void exec_judge_end(const struct child *c, const siginfo_t *how, uint64_t token, struct delivery_result *ret);
/* A program in mode lines ended, or closed its output, while it had this message. */
void exec_judge_lost(const struct child *c, const siginfo_t *how, uint64_t token, struct delivery_result *ret);
/* The result from an answer line.  False: not a valid answer, so the program's state is unknown. */
bool exec_judge_line(pr_slice line, const struct delivery *d, struct delivery_result *ret);
/* It could not be started. */
void exec_judge_spawn(const char *program, int fault, uint64_t token, struct delivery_result *ret);
/* It did not end in time. */
void exec_judge_late(const struct child *c, uint64_t token, struct delivery_result *ret);

#endif
