/* transport_thread.h - the thread that carries messages of one box to one endpoint.
 *
 * It owns the endpoint's transport and opens it for the first delivery.  Deliveries come in order through a queue,
 * results go back through the box's struct results: exactly one for each delivery, whatever happens.
 *
 * Rules:
 *   C1  Nothing is submitted after its start_before_us, or after it waited here too long: it is RETURNED.
 *   C2  Recalled deliveries that were not submitted are RETURNED.
 *   C3  A delivery is not touched any more once its result was put. */
#ifndef RUNTIME_THREADS_TRANSPORT_THREAD_H
#define RUNTIME_THREADS_TRANSPORT_THREAD_H

#include "core/delivery.h"
#include "runtime/threads/results.h"
#include "transport/transport.h"

struct transport_thread;

/* Starts the thread.  config and results are borrowed until free.  Fault PR_ENOMEM, PR_EIO. */
PR_MUST_CHECK int transport_thread_new(const struct endpoint_config *config, struct results *results,
                                       struct transport_thread **ret_transport_thread, struct pr_error *reterr);

/* The list is copied, the deliveries are borrowed until their results.  False: no memory, nothing was taken. */
PR_MUST_CHECK bool transport_thread_give(struct transport_thread *c, const struct delivery *const *list, size_t count);

enum recall {
    RECALL_CANCEL, /* return what has not started, then continue (a lost lease, a closed endpoint) */
    RECALL_QUIT,   /* return everything from now on, and end when nothing is out any more */
};
void transport_thread_recall(struct transport_thread *c, enum recall recall);

/* The thread was asked to quit, and has: free will not wait. */
bool transport_thread_is_over(struct transport_thread *c);

/* Waits for the thread: after RECALL_QUIT until everything out has ended. */
void transport_thread_free(struct transport_thread *c);

#endif
