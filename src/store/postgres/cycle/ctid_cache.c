/* The places (ctids) at which new rows were seen, so that they can be deleted without a search in the key.
 *
 * An entry is a guess: a row that was updated since lies elsewhere, and another row may be in its old place.  So
 * statements compare the row, and can fall back to the key.  Rows are assigned to slots by their seqs, which are
 * consecutive; a later row replaces an earlier one. */
#include <stdlib.h>
#include <string.h>

#include "store/postgres/postgres.h"

#define SEEN_SLOTS 32768 /* a few windows of the default size: 1.3 megabytes, allocated when first needed */

static struct ctid_slot *slot_of(const struct ctid_cache *cache, int64_t handle)
{
    return &cache->slots[(handle >> HANDLE_LANE_BITS) & (SEEN_SLOTS - 1)];
}

/* Without memory rows are found by key. */
void pg_ctid_cache_note(struct ctid_cache *cache, const struct ctid_slot *slot)
{
    if (cache->slots == NULL)
        cache->slots = calloc(SEEN_SLOTS, sizeof(cache->slots[0]));
    if (cache->slots != NULL)
        *slot_of(cache, slot->handle) = *slot;
}

const struct ctid_slot *pg_ctid_cache_find(const struct ctid_cache *cache, int64_t handle)
{
    if (cache->slots == NULL || slot_of(cache, handle)->handle != handle)
        return NULL;
    return slot_of(cache, handle);
}

void pg_ctid_cache_forget_row(struct ctid_cache *cache, int64_t handle)
{
    if (cache->slots != NULL && slot_of(cache, handle)->handle == handle)
        slot_of(cache, handle)->handle = 0;
}

void pg_ctid_cache_forget(struct ctid_cache *cache)
{
    free(cache->slots);
    cache->slots = NULL;
}
