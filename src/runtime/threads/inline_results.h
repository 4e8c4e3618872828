/* inline_results.h - results of inline sends, on their way from the callers' threads to the engine of their box.
 *
 * Many threads put, one takes.  Consecutive successes become one entry, so that a fast sender does not fill the list;
 * when it is full further results are only counted, and the breaker does not get them. */
#ifndef RUNTIME_THREADS_INLINE_RESULTS_H
#define RUNTIME_THREADS_INLINE_RESULTS_H

#include <pthread.h>

#include "engine/engine.h"

#define INLINE_RESULTS_MAX 4096

struct inline_results {
    pthread_mutex_t lock;
    struct engine_inline_result *entries;
    size_t count;
    struct engine_inline_result *uncounted; /* by endpoint: results without an entry */
    size_t endpoint_count;
    int wake_fd; /* borrowed: signalled when there is something */
};

/* PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int inline_results_init(struct inline_results *results, size_t endpoint_count, int wake_fd);
void inline_results_fini(struct inline_results *results); /* safe on a zeroed one */
void inline_results_put(struct inline_results *results, const struct engine_inline_result *one); /* copies the type */
/* Passes everything on to the engine. */
void inline_results_pass_on(struct inline_results *results, struct engine *engine, int64_t now_us);

#endif
