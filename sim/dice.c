/* See dice.h. */
#include "dice.h"

#include "base/hash.h"
#include "base/slice.h"

static const char *const names[DIE_COUNT] = {
#define X(name) #name,
    DICE(X)
#undef X
};

void die_init(struct random *r, uint64_t seed, const char *purpose)
{
    random_init(r, hash_slice(hash_u64(seed), slice_from(purpose)));
}

void dice_init(struct random dice[DIE_COUNT], uint64_t seed)
{
    for (int i = 0; i < DIE_COUNT; i++)
        die_init(&dice[i], seed, names[i]);
}
