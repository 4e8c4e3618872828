/* helper.h - the process in which a handler runs, one message at a time; and its protocol with the program.
 *
 *   program: message, endpoint settings for the handler  -->  helper: runs it  -->  result with its effects
 *
 *   X1  A helper that dies (a signal, exit()) is a failure of the message that it had, and of no other:
 *       handler_exception.
 *   X2  One that exceeds its deadline is asked to stop (pr_should_stop()), and killed after the grace time:
 *       timeout_exceeded.
 *   X3  It is restarted with the next message, after a pause that grows with each consecutive death. */
#ifndef TRANSPORT_PROCESS_HELPER_H
#define TRANSPORT_PROCESS_HELPER_H

#include <sys/types.h>

#include "base/buf.h"
#include "transport/handler_context.h"
#include "transport/process/launcher.h"

struct helper {
    const struct endpoint_config *config;
    const struct clock *clock;
    struct launcher_child process; /* pid 0: not running */
    int fd, memory_fd;
    struct handler_stop *stop; /* in shared memory */
    struct buf parcel;
    int64_t pause_us, not_before_us; /* X3 */
};

PR_MUST_CHECK int helper_init(struct helper *p, const struct endpoint_config *config, const struct clock *clock,
                              struct pr_error *reterr);
void helper_fini(struct helper *p); /* safe on a zeroed one; ends the process */

/* How long to wait before it may be started. */
int64_t helper_pause(const struct helper *p, int64_t now_us);
/* Runs the handler for a delivery.  cancelled: the engine stops. */
void helper_run(struct helper *p, const struct delivery *d, const struct pr_message *message, int64_t deadline_us,
                int64_t grace_us, const atomic_bool *cancelled, struct delivery_result *ret);

/* In the helper itself (launcher.c). */
_Noreturn void helper_main(int fd, int memory_fd, pr_handler handler, void *user);

#endif
