/* hash.h - hashes that are the same everywhere and for ever.
 *
 * Lane numbers are computed from them and stored in databases: changing one bit of a
 * result breaks the order of messages in stores that exist.  Golden values in the tests
 * guard that.  Not for secrets, not against attackers who choose the keys.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <postrider.h>

uint64_t hash_bytes(uint64_t seed, const void *data, size_t size);
uint64_t hash_slice(uint64_t seed, pr_slice s);

/* A bijection with good avalanche. */
uint64_t hash_u64(uint64_t value);

#endif
