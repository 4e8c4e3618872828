#include "runtime/threads/inline_results.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "runtime/threads/thread.h"

int inline_results_init(struct inline_results *news, size_t endpoint_count, int wake_fd)
{
    *news = (struct inline_results){ .endpoint_count = endpoint_count, .wake_fd = wake_fd };
    ASSERT(pthread_mutex_init(&news->lock, NULL) == 0);
    news->entries = calloc(NEWS_MAX, sizeof news->entries[0]);
    news->uncounted = calloc(endpoint_count + 1, sizeof news->uncounted[0]);
    return news->entries != NULL && news->uncounted != NULL ? PR_OK : PR_ENOMEM;
}

static void free_type(struct engine_inline_result *n)
{
    free((void *)(uintptr_t)n->type.data);
}

void inline_results_fini(struct inline_results *news)
{
    for (size_t i = 0; i < news->count; i++)
        free_type(&news->entries[i]);
    free(news->entries);
    free(news->uncounted);
}

static void add(struct engine_inline_result *to, const struct engine_inline_result *n)
{
    to->sent += n->sent;
    to->failed += n->failed;
    to->dead += n->dead;
    to->discarded += n->discarded;
    to->at_us = n->at_us;
}

/* Both say nothing but that it went well. */
static bool is_more_of(const struct engine_inline_result *last, const struct engine_inline_result *n)
{
    return last->endpoint == n->endpoint && last->sent > 0 && n->sent > 0 && last->failed == 0 && n->failed == 0 &&
           slice_eq(last->type, n->type);
}

static bool append(struct inline_results *news, const struct engine_inline_result *n)
{
    char *type = news->count < NEWS_MAX ? malloc(n->type.size + 1) : NULL;
    if (type == NULL)
        return false;
    if (n->type.size > 0)
        memcpy(type, n->type.data, n->type.size);
    news->entries[news->count] = *n;
    news->entries[news->count].type = (pr_slice){ type, n->type.size };
    news->count++;
    return true;
}

void inline_results_put(struct inline_results *news, const struct engine_inline_result *n)
{
    ASSERT(n->endpoint < news->endpoint_count);
    ASSERT(pthread_mutex_lock(&news->lock) == 0);
    bool was_empty = news->count == 0;
    if (!was_empty && is_more_of(&news->entries[news->count - 1], n))
        add(&news->entries[news->count - 1], n);
    else if (!append(news, n))
        add(&news->uncounted[n->endpoint], n);
    ASSERT(pthread_mutex_unlock(&news->lock) == 0);
    if (was_empty)
        wake_send(news->wake_fd);
}

void inline_results_tell(struct inline_results *news, struct engine *engine, int64_t now_us)
{
    ASSERT(pthread_mutex_lock(&news->lock) == 0);
    for (size_t i = 0; i < news->count; i++) {
        engine_inline_result_absorb(engine, now_us, &news->entries[i]);
        free_type(&news->entries[i]);
    }
    for (size_t i = 0; news->count > 0 && i < news->endpoint_count; i++) {
        news->uncounted[i].endpoint = (unsigned)i;
        engine_inline_result_absorb(engine, now_us, &news->uncounted[i]);
        news->uncounted[i] = (struct engine_inline_result){ 0 };
    }
    news->count = 0;
    ASSERT(pthread_mutex_unlock(&news->lock) == 0);
}
