/* Lanes: 64 hash buckets of streams.  An instance leases lanes, never single rows. */
#ifndef CORE_LANE_H
#define CORE_LANE_H

#include <postrider.h>

#define LANE_COUNT 64
#define LANES_ALL UINT64_MAX

/* The lane of a stream, or of the id when there is no stream.  This mapping never changes: stores depend on it. */
unsigned lane_of(pr_slice stream, pr_id id);

static inline uint64_t lane_bit(unsigned lane)
{
    return UINT64_C(1) << lane;
}

/* The share of an instance among `count` instances (itself included), `older` of which joined before it.  Shares differ
 * by one at most, and older instances have the larger ones, so that a new instance moves as few lanes as possible. */
unsigned lanes_share(size_t count, size_t older);
unsigned lanes_count(uint64_t lanes);
/* The lanes of an instance above its share, which others should have: never one in `kept`, otherwise the highest ones,
 * so that they remain the same until they are handed back. */
uint64_t lanes_above(uint64_t owned, uint64_t kept, unsigned share);

#endif
