/* watch.h - waiters for a flow in this process, which are woken when the flow has made progress.
 *
 * A waiter and the engine that runs the flow need not know each other: they meet by the flow's id.  Two stores may have
 * flows with the same id, so a waiter looks at its own store when it is woken. */
#ifndef RUNTIME_FLOW_WATCH_H
#define RUNTIME_FLOW_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include <postrider.h>

#include "base/list.h"

struct flow_watch {
    struct list_node node;
    uint64_t flow;        /* a hash */
    int64_t after_number; /* of the custom status; negative: waits only for the end of the flow */
    pthread_cond_t told;
    bool moved;
    atomic_bool is_here; /* its turns run in this process */
};

/* Waits for the end of the flow, or for a custom status with a greater number than this one. */
void flow_watch_begin(struct flow_watch *w, pr_slice flow, int64_t after_number);
/* Waits until that has happened since the latest call (true), or the time is over. */
bool flow_watch_wait(struct flow_watch *w, int64_t timeout_us);
void flow_watch_end(struct flow_watch *w);

/* A turn of this flow was committed: wakes its waiters.  status_number is that of its custom status; 0: it has none. */
void flow_watch_tell(pr_slice flow, bool has_ended, int64_t status_number);
/* This process begins (1) or ends (-1) to run turns, and to report them. */
void flow_watch_teller(int more);
bool flow_watch_is_told(void); /* Does anything in this process report turns? */

/* This process is about to store the start of this flow. */
void flow_watch_start(pr_slice flow);
/* Call it after flow_watch_begin().  True if this process started the flow and runs turns, and if no turn has reported its
 * end or a custom status: then its row need not be read yet.  Only the latest starts are remembered. */
bool flow_watch_is_new(const struct flow_watch *w);

#endif
