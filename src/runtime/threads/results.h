/* results.h - results of deliveries, on their way from the transport threads to their box.
 *
 * Many threads put, one takes; whole lists move under one lock. */
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
    int wake_fd; /* borrowed: signalled when something is put */
};

void results_init(struct results *results, int wake_fd); /* allocates nothing yet */
void results_fini(struct results *results);              /* frees what was not taken */

/* Hands over error and effects of all entries.  False: no memory, nothing happened. */
bool results_put(struct results *results, const struct delivery_result *entries, size_t count);

/* Moves everything that was put into the caller's list, swapping their memory.  The list must be empty. */
void results_take(struct results *results, struct result_list *list);

#endif
