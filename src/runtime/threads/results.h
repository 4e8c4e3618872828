/* results.h - what became of deliveries, on its way from the transport threads to their box.
 *
 * Many put, one takes; whole lists move under one lock. */
#ifndef RUNTIME_THREADS_RESULTS_H
#define RUNTIME_THREADS_RESULTS_H

#include <pthread.h>

#include "core/delivery.h"

struct result_list {
    struct delivery_result *entries;
    size_t count, capacity;
};

struct results {
    pthread_mutex_t lock;
    struct result_list list;
    int wake_fd; /* borrowed: told when something is put */
};

void results_init(struct results *results, int wake_fd); /* takes no memory yet */
void results_fini(struct results *results);              /* what nobody took is freed */

/* Hands over error and effects of all entries.  False: no memory, nothing happened. */
bool results_put(struct results *results, const struct delivery_result *entries, size_t count);

/* Everything that was put goes into the caller's list, whose memory is used in turn.  The
 * list must be empty. */
void results_take(struct results *results, struct result_list *list);

#endif
