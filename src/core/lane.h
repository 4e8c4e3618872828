/* Lanes: 64 hash buckets of streams.  An instance leases lanes, never single rows. */
#ifndef CORE_LANE_H
#define CORE_LANE_H

#include <postrider.h>

#define LANE_COUNT 64
#define LANES_ALL UINT64_MAX

/* The lane of a stream, or of the id when there is no stream.  Never changes: stores keep it. */
unsigned lane_of(pr_slice stream, pr_id id);

static inline uint64_t lane_bit(unsigned lane)
{
    return UINT64_C(1) << lane;
}

#endif
