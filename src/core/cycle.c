#include "core/cycle.h"

#include <stdlib.h>

#include "base/slice.h"
#include "core/request.h"

bool fresh_is_skipped(const struct fresh_skip *skips, size_t count, const struct pr_message *m)
{
    for (size_t i = 0; i < count; i++) {
        if (!slice_eq(skips[i].destination, m->destination))
            continue;
        if (m->destination.size > 0 ||
            (slice_eq(skips[i].type, m->type) && !slice_contains(m->headers, PR_STR(HEADER_REPLY))))
            return true;
    }
    return false;
}

void cycle_reply_free_loaded(struct cycle_reply *reply)
{
    for (size_t i = 0; i < reply->loaded_count; i++)
        free((void *)(uintptr_t)reply->loaded[i].data);
    reply->loaded = NULL;
    reply->loaded_count = 0;
}
