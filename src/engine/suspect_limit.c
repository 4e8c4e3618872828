#include "engine/suspect_limit.h"

#include "base/error.h"

/* One word, so that engines on different threads need no lock: 40 bits for all suspects, 8 for each of the levels that
 * are limited (to 64, 8 and 1). */
#define COUNT_BITS 40
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

static const uint64_t suspect_limit_max[SUSPICION_MAX + 1] = { UINT64_MAX, UINT64_MAX, 64, 8, 1 };

static unsigned level_shift(unsigned level)
{
    return COUNT_BITS + 8 * (level - 2);
}

uint64_t suspect_limit_seat(unsigned level)
{
    return 1 + (level >= 2 ? UINT64_C(1) << level_shift(level) : 0);
}

static uint64_t suspect_limit_limit(uint64_t out, unsigned level)
{
    for (unsigned i = SUSPICION_MAX; i >= 2; i--)
        if (i <= level || (out >> level_shift(i) & 0xff) != 0)
            return suspect_limit_max[i > level ? i : level];
    return UINT64_MAX;
}

static bool has_room(const struct suspect_limit *c, uint64_t out, unsigned level)
{
    return (level >= 2 || atomic_load(&c->waiting) == 0) && (out & COUNT_MASK) < suspect_limit_limit(out, level);
}

bool suspect_limit_allows(const struct suspect_limit *c, unsigned level)
{
    return has_room(c, atomic_load(&c->out), level);
}

bool suspect_limit_enter(struct suspect_limit *c, unsigned level)
{
    uint64_t out = atomic_load(&c->out);

    do {
        if (!has_room(c, out, level))
            return false;
    } while (!atomic_compare_exchange_weak(&c->out, &out, out + suspect_limit_seat(level)));
    return true;
}

void suspect_limit_leave(struct suspect_limit *c, unsigned level)
{
    uint64_t before = atomic_fetch_sub(&c->out, suspect_limit_seat(level));
    ASSERT((before & COUNT_MASK) > 0);
}

void suspect_limit_leave_all(struct suspect_limit *c, uint64_t seats)
{
    uint64_t before = atomic_fetch_sub(&c->out, seats);
    ASSERT((before & COUNT_MASK) >= (seats & COUNT_MASK));
}

void suspect_limit_wait(struct suspect_limit *c)
{
    atomic_fetch_add(&c->waiting, 1);
}

void suspect_limit_wait_over(struct suspect_limit *c)
{
    unsigned before = atomic_fetch_sub(&c->waiting, 1);
    ASSERT(before > 0);
}
