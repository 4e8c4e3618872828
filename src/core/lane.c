/* The hash is Bob Jenkins's lookup3 with the constants of PostgreSQL's hashtext() and uuid_hash(), so that a generated
 * column there computes the same lane for applications that INSERT. */
#include "core/lane.h"

#define HASH_START (0x9e3779b9u + 3923095u)

struct hash_state {
    uint32_t a, b, c;
};

static uint32_t rotate(uint32_t x, unsigned bits)
{
    return (x << bits) | (x >> (32 - bits));
}

static void hash_mix(struct hash_state *h)
{
    h->a -= h->c;
    h->a ^= rotate(h->c, 4);
    h->c += h->b;
    h->b -= h->a;
    h->b ^= rotate(h->a, 6);
    h->a += h->c;
    h->c -= h->b;
    h->c ^= rotate(h->b, 8);
    h->b += h->a;
    h->a -= h->c;
    h->a ^= rotate(h->c, 16);
    h->c += h->b;
    h->b -= h->a;
    h->b ^= rotate(h->a, 19);
    h->a += h->c;
    h->c -= h->b;
    h->c ^= rotate(h->b, 4);
    h->b += h->a;
}

static uint32_t hash_final(struct hash_state *h)
{
    h->c ^= h->b;
    h->c -= rotate(h->b, 14);
    h->a ^= h->c;
    h->a -= rotate(h->c, 11);
    h->b ^= h->a;
    h->b -= rotate(h->a, 25);
    h->c ^= h->b;
    h->c -= rotate(h->b, 16);
    h->a ^= h->c;
    h->a -= rotate(h->c, 4);
    h->b ^= h->a;
    h->b -= rotate(h->a, 14);
    h->c ^= h->b;
    h->c -= rotate(h->b, 24);
    return h->c;
}

/* Up to four bytes, little-endian. */
static uint32_t word(const uint8_t *bytes, size_t size)
{
    uint32_t value = 0;
    for (size_t i = 0; i < size && i < 4; i++)
        value |= (uint32_t)bytes[i] << (8 * i);
    return value;
}

static uint32_t lane_hash(const void *data, size_t size)
{
    const uint8_t *at = data;
    uint32_t start = HASH_START + (uint32_t)size;
    struct hash_state h = { start, start, start };

    for (; size >= 12; at += 12, size -= 12) {
        h.a += word(at, 4);
        h.b += word(at + 4, 4);
        h.c += word(at + 8, 4);
        hash_mix(&h);
    }
    h.a += word(at, size);
    if (size > 4)
        h.b += word(at + 4, size - 4);
    if (size > 8)
        h.c += word(at + 8, size - 8) << 8; /* the lowest byte is reserved for the length */
    return hash_final(&h);
}

unsigned lane_of(pr_slice stream, pr_id id)
{
    uint32_t hash = stream.size > 0 ? lane_hash(stream.data, stream.size) : lane_hash(id.bytes, sizeof(id.bytes));
    return hash % LANE_COUNT;
}

unsigned lanes_share(size_t count, size_t older)
{
    return (unsigned)(LANE_COUNT / count + (older < LANE_COUNT % count));
}

unsigned lanes_count(uint64_t lanes)
{
    return (unsigned)__builtin_popcountll(lanes);
}

uint64_t lanes_above(uint64_t owned, uint64_t kept, unsigned share)
{
    uint64_t mine = owned & kept;

    for (unsigned i = 0; i < LANE_COUNT && lanes_count(mine) < share; i++)
        mine |= owned & lane_bit(i);
    return owned & ~mine;
}
