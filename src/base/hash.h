/* hash.h - hashes that never change, on any machine or version.
 *
 * Lane numbers are computed from them and stored in databases: one changed bit would break the order of messages in
 * existing stores.  Golden values in the tests guard against that.  Not for secrets; not safe against attackers who
 * choose the keys. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <postrider.h>

uint64_t hash_bytes(uint64_t seed, const void *data, size_t size);
uint64_t hash_slice(uint64_t seed, pr_slice s);

/* A bijection with good avalanche. */
uint64_t hash_u64(uint64_t value);

#endif
