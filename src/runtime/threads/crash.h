/* crash.h - when the process dies by a fault, the log says in which thread.
 *
 * A broker's client library, a driver or a handler in C can crash.  Then there is no time for more than one line, which is
 * written by nothing but write(): which endpoint's thread it was, and that what was out there counts as handed out.  After
 * the line the signal does what it always does: the process ends, with a core where cores are kept. */
#ifndef RUNTIME_THREADS_CRASH_H
#define RUNTIME_THREADS_CRASH_H

#include <postrider.h>

#include "base/log.h"

#define CRASH_STACK_SIZE (32u << 10) /* bytes: for the line when the thread's own stack is full */

/* A thread that sends for this endpoint, named until crash_thread_end(); name is borrowed.  `stack` belongs to the caller,
 * who has it at the beginning of the thread. */
struct crash_thread {
    char stack[CRASH_STACK_SIZE];
};
void crash_thread_begin(struct crash_thread *t, const char *endpoint);
void crash_thread_end(void);

/* From now on faults of this process are told there.  For programs of ours: a library does not take its host's signals.
 * Signals that somebody handles already (a sanitizer) are left to him. */
void crash_report_to(int fd, enum log_format format);

#endif
