#include "runtime/threads/inline_results.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "runtime/threads/thread.h"

int inline_results_init(struct inline_results *results, size_t endpoint_count, int wake_fd)
{
    *results = (struct inline_results){ .endpoint_count = endpoint_count, .wake_fd = wake_fd };
    ASSERT(pthread_mutex_init(&results->lock, NULL) == 0);
    results->entries = calloc(INLINE_RESULTS_MAX, sizeof results->entries[0]);
    results->uncounted = calloc(endpoint_count + 1, sizeof results->uncounted[0]);
    return results->entries != NULL && results->uncounted != NULL ? PR_OK : PR_ENOMEM;
}

static void free_type(struct engine_inline_result *n)
{
    free((void *)(uintptr_t)n->type.data);
}

void inline_results_fini(struct inline_results *results)
{
    for (size_t i = 0; i < results->count; i++)
        free_type(&results->entries[i]);
    free(results->entries);
    free(results->uncounted);
}

static void add(struct engine_inline_result *to, const struct engine_inline_result *n)
{
    to->sent += n->sent;
    to->failed += n->failed;
    to->dead += n->dead;
    to->discarded += n->discarded;
    to->at_us = n->at_us;
}

/* Are both plain successes? */
static bool is_more_of(const struct engine_inline_result *last, const struct engine_inline_result *n)
{
    return last->endpoint == n->endpoint && last->sent > 0 && n->sent > 0 && last->failed == 0 && n->failed == 0 &&
           slice_eq(last->type, n->type);
}

static bool append(struct inline_results *results, const struct engine_inline_result *n)
{
    char *type = results->count < INLINE_RESULTS_MAX ? malloc(n->type.size + 1) : NULL;
    if (type == NULL)
        return false;
    if (n->type.size > 0)
        memcpy(type, n->type.data, n->type.size);
    results->entries[results->count] = *n;
    results->entries[results->count].type = (pr_slice){ type, n->type.size };
    results->count++;
    return true;
}

void inline_results_put(struct inline_results *results, const struct engine_inline_result *n)
{
    ASSERT(n->endpoint < results->endpoint_count);
    ASSERT(pthread_mutex_lock(&results->lock) == 0);
    bool was_empty = results->count == 0;
    if (!was_empty && is_more_of(&results->entries[results->count - 1], n))
        add(&results->entries[results->count - 1], n);
    else if (!append(results, n))
        add(&results->uncounted[n->endpoint], n);
    ASSERT(pthread_mutex_unlock(&results->lock) == 0);
    if (was_empty)
        wake_send(results->wake_fd);
}

void inline_results_pass_on(struct inline_results *results, struct engine *engine, int64_t now_us)
{
    ASSERT(pthread_mutex_lock(&results->lock) == 0);
    for (size_t i = 0; i < results->count; i++) {
        engine_inline_result_absorb(engine, now_us, &results->entries[i]);
        free_type(&results->entries[i]);
    }
    for (size_t i = 0; results->count > 0 && i < results->endpoint_count; i++) {
        results->uncounted[i].endpoint = (unsigned)i;
        engine_inline_result_absorb(engine, now_us, &results->uncounted[i]);
        results->uncounted[i] = (struct engine_inline_result){ 0 };
    }
    results->count = 0;
    ASSERT(pthread_mutex_unlock(&results->lock) == 0);
}
