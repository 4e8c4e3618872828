/* crash.h - when the process dies by a fault, the log says in which thread.
 *
 * A broker's client library, a driver or a handler in C can crash.  Then there is no time for more than one line,
 * written with write() alone: which endpoint's thread it was, and that its deliveries count as handed out.  After the
 * line the signal takes its usual effect: the process ends, with a core where cores are enabled. */
#ifndef RUNTIME_THREADS_CRASH_H
#define RUNTIME_THREADS_CRASH_H

#include <postrider.h>

#include "base/log.h"

#define CRASH_STACK_SIZE (32u << 10) /* bytes: for the line when the thread's own stack is full */

/* A thread that sends to this endpoint, until crash_thread_end(); name is borrowed.  `stack` belongs to the caller, who
 * provides it at the beginning of the thread. */
struct crash_thread {
    char stack[CRASH_STACK_SIZE];
};
void crash_thread_begin(struct crash_thread *t, const char *endpoint);
void crash_thread_end(void);

/* From now on faults of this process are reported to fd.  For Postrider's own programs: a library must not take over
 * signals of its host.  Signals that already have a handler (a sanitizer) are left alone. */
void crash_report_to(int fd, enum log_format format);

#endif
