/* random.h - deterministic random numbers: the same seed gives the same run.
 *
 * Not for secrets: use random_bytes_os() for those. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <postrider.h>

struct random {
    uint64_t state[4];
};

void random_init(struct random *r, uint64_t seed); /* every seed is valid */
uint64_t random_u64(struct random *r);
uint64_t random_below(struct random *r, uint64_t limit);             /* 0 .. limit - 1, without bias; limit > 0 */
int64_t random_between(struct random *r, int64_t low, int64_t high); /* both bounds included */
double random_double(struct random *r);                              /* 0 <= x < 1 */
bool random_chance(struct random *r, double p);                      /* p <= 0: never; p >= 1: always */

/* Random bytes from the operating system.  May block early at boot.  Fault PR_EIO: the bytes are undefined. */
PR_MUST_CHECK int random_bytes_os(void *ret_bytes, size_t size);

#endif
