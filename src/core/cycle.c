#include "core/cycle.h"

#include <stdlib.h>

void cycle_reply_free_loaded(struct cycle_reply *reply)
{
    for (size_t i = 0; i < reply->loaded_count; i++)
        free((void *)(uintptr_t)reply->loaded[i].data);
    reply->loaded = NULL;
    reply->loaded_count = 0;
}
