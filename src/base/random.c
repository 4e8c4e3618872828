/* xoshiro256** by Blackman and Vigna, seeded by splitmix64. */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/error.h"

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void random_init(struct random *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->state[i] = splitmix(&seed);
}

uint64_t random_u64(struct random *r)
{
    uint64_t *s = r->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t random_below(struct random *r, uint64_t limit)
{
    ASSERT(limit > 0);
    /* Drop the first 2^64 mod limit values, so that every remainder is equally likely. */
    uint64_t first = (UINT64_MAX - limit + 1) % limit;
    uint64_t value;
    do
        value = random_u64(r);
    while (value < first);
    return value % limit;
}

int64_t random_between(struct random *r, int64_t low, int64_t high)
{
    ASSERT(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low;
    uint64_t offset = span == UINT64_MAX ? random_u64(r) : random_below(r, span + 1);
    return (int64_t)((uint64_t)low + offset);
}

double random_double(struct random *r)
{
    return (double)(random_u64(r) >> 11) * 0x1.0p-53;
}

bool random_chance(struct random *r, double p)
{
    return random_double(r) < p;
}

int random_bytes_os(void *ret_bytes, size_t size)
{
    char *bytes = ret_bytes;
    while (size > 0) {
        ssize_t got = getrandom(bytes, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return PR_EIO;
        bytes += got;
        size -= (size_t)got;
    }
    return PR_OK;
}
