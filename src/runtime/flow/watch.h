/* watch.h - waiters for a flow in this process, which are woken when the flow has made progress.
 *
 * A waiter and the engine that runs the flow need not know each other: they meet by the flow's id.  Two stores may have
 * flows with the same id, so a waiter looks at its own store when it is woken. */
#ifndef RUNTIME_FLOW_WATCH_H
#define RUNTIME_FLOW_WATCH_H

#include <pthread.h>

#include <postrider.h>

#include "base/list.h"

struct flow_watch {
    struct list_node node;
    uint64_t flow; /* a hash */
    pthread_cond_t told;
    bool moved;
};

void flow_watch_begin(struct flow_watch *w, pr_slice flow);
/* Waits until the flow has made progress since the latest call (true), or the time is over. */
bool flow_watch_wait(struct flow_watch *w, int64_t timeout_us);
void flow_watch_end(struct flow_watch *w);

/* A turn of this flow was committed: wakes its waiters. */
void flow_watch_tell(pr_slice flow);
/* This process begins (1) or ends (-1) to run turns, and to report them. */
void flow_watch_teller(int more);
bool flow_watch_is_told(void); /* Does anything in this process report turns? */

#endif
