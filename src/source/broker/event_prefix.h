/* event_prefix.h - the binding of AMQP writes cloudEvents:id, or cloudEvents_id where a colon is not possible; bridges
 * between versions of AMQP keep either form. */
#ifndef SOURCE_BROKER_EVENT_PREFIX_H
#define SOURCE_BROKER_EVENT_PREFIX_H

#include <string.h>
#include <strings.h>

#include "base/arena.h"

#define EVENT_PREFIX "cloudEvents_"

/* The name with EVENT_PREFIX if it is an attribute's; no data: out of memory. */
static inline pr_slice event_prefix_same(struct arena *arena, pr_slice name)
{
    size_t size = strlen(EVENT_PREFIX) - 1;
    if (name.size <= size || name.data[size] != ':' || strncasecmp(name.data, EVENT_PREFIX, size) != 0)
        return name;
    return arena_printf(arena, EVENT_PREFIX "%.*s", (int)(name.size - size - 1), name.data + size + 1);
}

#endif
