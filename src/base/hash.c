/* Words are read as little-endian on every machine.  Each word is mixed into the running state by a bijection, so two
 * texts of equal length that differ in one word never collide. */
#include "base/hash.h"

#include <endian.h>
#include <string.h>

#define HASH_K1 UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio */
#define HASH_K2 UINT64_C(0xd6e8feb86659fd93)

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

/* The same for eight bytes, as one load: compilers do not make one of the loop. */
static uint64_t read_eight(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return le64toh(word);
}

static uint64_t read_word(const uint8_t *bytes, size_t size)
{
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

uint64_t hash_u64(uint64_t value)
{
    value ^= value >> 32;
    value *= HASH_K2;
    value ^= value >> 32;
    value *= HASH_K2;
    value ^= value >> 32;
    return value;
}

uint64_t hash_bytes(uint64_t seed, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    size_t left = size;
    uint64_t state = hash_u64(seed + HASH_K1) ^ ((uint64_t)size * HASH_K1);

    for (; left >= 8; bytes += 8, left -= 8)
        state = rotate_left(state ^ (read_eight(bytes) * HASH_K1), 29) * HASH_K2 + HASH_K1;
    if (left > 0)
        state = rotate_left(state ^ (read_word(bytes, left) * HASH_K1), 29) * HASH_K2 + HASH_K1;
    return hash_u64(state);
}

uint64_t hash_slice(uint64_t seed, pr_slice s)
{
    return hash_bytes(seed, s.data, s.size);
}
