#include "runtime/threads/results.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "runtime/threads/thread.h"
#include "transport/transport.h"

void results_init(struct results *results, int wake_fd)
{
    *results = (struct results){ .wake_fd = wake_fd };
    ASSERT(pthread_mutex_init(&results->lock, NULL) == 0);
}

void results_fini(struct results *results)
{
    for (size_t i = 0; i < results->list.count; i++)
        delivery_result_fini(&results->list.entries[i]);
    free(results->list.entries);
    pthread_mutex_destroy(&results->lock);
}

static bool result_list_reserve(struct result_list *list, size_t count)
{
    if (count <= list->capacity)
        return true;
    size_t capacity = max_size(count, list->capacity * 2);
    void *entries = reallocarray(list->entries, capacity, sizeof list->entries[0]);
    if (entries == NULL)
        return false;
    list->entries = entries;
    list->capacity = capacity;
    return true;
}

bool results_put(struct results *results, const struct delivery_result *entries, size_t count)
{
    struct result_list *list = &results->list;
    ASSERT(pthread_mutex_lock(&results->lock) == 0);
    bool was_empty = list->count == 0;
    bool fits = result_list_reserve(list, list->count + count);
    if (fits) {
        memcpy(list->entries + list->count, entries, count * sizeof entries[0]);
        list->count += count;
    }
    ASSERT(pthread_mutex_unlock(&results->lock) == 0);
    if (fits && was_empty) /* otherwise the box loop was woken already and has not taken them yet */
        wake_send(results->wake_fd);
    return fits;
}

void results_take(struct results *results, struct result_list *list)
{
    ASSERT(list->count == 0);
    ASSERT(pthread_mutex_lock(&results->lock) == 0);
    struct result_list taken = results->list;
    results->list = *list;
    ASSERT(pthread_mutex_unlock(&results->lock) == 0);
    *list = taken;
}
