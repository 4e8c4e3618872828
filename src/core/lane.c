#include "core/lane.h"

#include "base/hash.h"

#define LANE_SEED 0x6c616e65u /* fixed for ever: see hash.h */

unsigned lane_of(pr_slice stream, pr_id id)
{
    uint64_t hash = stream.size > 0 ? hash_slice(LANE_SEED, stream)
                                    : hash_bytes(LANE_SEED, id.bytes, sizeof(id.bytes));
    return (unsigned)(hash % LANE_COUNT);
}
