/* Where new rows were seen, so that they can be deleted without a walk through the key.
 *
 * It is a guess: a row that was updated since lies elsewhere, and what is in its old place may be
 * another one.  So whoever uses it compares, and has the key as well.  Rows fall into slots by
 * their places, which follow each other; a later one takes the slot of an earlier one. */
#include <stdlib.h>
#include <string.h>

#include "store/postgres/postgres.h"

#define SEEN_SLOTS 32768 /* a few windows of the default size: half a megabyte, when there is something to do */

static struct seen_slot *slot_of(const struct seen *seen, int64_t handle)
{
    return &seen->slots[(handle >> HANDLE_LANE_BITS) & (SEEN_SLOTS - 1)];
}

/* Without memory they are found by key. */
void pg_seen_note(struct seen *seen, int64_t handle, struct tid tid)
{
    if (seen->slots == NULL)
        seen->slots = calloc(SEEN_SLOTS, sizeof(seen->slots[0]));
    if (seen->slots != NULL)
        *slot_of(seen, handle) = (struct seen_slot){ .handle = handle, .tid = tid };
}

bool pg_seen_find(const struct seen *seen, int64_t handle, struct tid *ret)
{
    if (seen->slots == NULL || slot_of(seen, handle)->handle != handle)
        return false;
    *ret = slot_of(seen, handle)->tid;
    return true;
}

void pg_seen_forget(struct seen *seen)
{
    free(seen->slots);
    seen->slots = NULL;
}
