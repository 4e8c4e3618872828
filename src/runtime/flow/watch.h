/* watch.h - who in this process waits for a flow, and is told when it has moved on.
 *
 * A waiter and the engine that runs the flow need not know of each other: they meet by the flow's id.  Two stores may have
 * flows of the same id, so a waiter looks at its own store when it was told. */
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
/* Until the flow has moved since the latest call (true), or the time is over. */
bool flow_watch_wait(struct flow_watch *w, int64_t timeout_us);
void flow_watch_end(struct flow_watch *w);

/* A turn of this flow was committed. */
void flow_watch_tell(pr_slice flow);
/* Somebody in this process begins (1) or ends (-1) to run turns, and tells of them. */
void flow_watch_teller(int more);
bool flow_watch_is_told(void); /* does anybody? */

#endif
