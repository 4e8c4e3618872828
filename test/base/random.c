#include "base/random.h"

#include <string.h>

#include "check.h"

TEST(random_repeats_itself_for_the_same_seed)
{
    struct random a, b, c;
    random_init(&a, 42);
    random_init(&b, 42);
    random_init(&c, 43);
    bool different = false;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = random_u64(&a);
        CHECK(value == random_u64(&b));
        different |= value != random_u64(&c);
    }
    CHECK(different);
}

/* Seeds are written into bug reports: they must mean the same next year. */
TEST(random_gives_the_golden_values_of_seed_zero)
{
    struct random r;
    random_init(&r, 0);
    CHECK(random_u64(&r) == UINT64_C(0x99ec5f36cb75f2b4));
    CHECK(random_u64(&r) == UINT64_C(0xbf6e1f784956452a));
    CHECK(random_u64(&r) == UINT64_C(0x1a5f849d4933e6e0));
}

TEST(random_below_is_even_and_stays_below)
{
    struct random r;
    random_init(&r, 7);
    int counts[10] = { 0 };
    for (int i = 0; i < 100000; i++)
        counts[random_below(&r, 10)]++;
    for (int i = 0; i < 10; i++)
        CHECK(counts[i] > 9500 && counts[i] < 10500);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(random_below(&r, 1), 0);
        CHECK(random_below(&r, UINT64_MAX) < UINT64_MAX);
        CHECK(random_below(&r, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
    }
}

TEST(random_between_reaches_both_ends)
{
    struct random r;
    random_init(&r, 7);
    bool low = false, high = false;
    for (int i = 0; i < 1000; i++) {
        int64_t value = random_between(&r, -3, 3);
        CHECK(value >= -3 && value <= 3);
        low |= value == -3;
        high |= value == 3;
        (void)random_between(&r, INT64_MIN, INT64_MAX);
        CHECK_EQ(random_between(&r, INT64_MAX, INT64_MAX), INT64_MAX);
    }
    CHECK(low && high);
}

TEST(random_chance_keeps_its_promises)
{
    struct random r;
    random_init(&r, 7);
    int hits = 0;
    for (int i = 0; i < 10000; i++) {
        CHECK(!random_chance(&r, 0.0));
        CHECK(!random_chance(&r, -1.0));
        CHECK(random_chance(&r, 1.0));
        double value = random_double(&r);
        CHECK(value >= 0.0 && value < 1.0);
        hits += random_chance(&r, 0.25);
    }
    CHECK(hits > 2300 && hits < 2700);
}

TEST(random_bytes_os_fills_everything_and_differs)
{
    unsigned char a[1000] = { 0 }, b[1000] = { 0 };
    CHECK_EQ(random_bytes_os(a, sizeof(a)), PR_OK);
    CHECK_EQ(random_bytes_os(b, sizeof(b)), PR_OK);
    CHECK(memcmp(a, b, sizeof(a)) != 0);
    bool end_touched = false;
    for (size_t i = sizeof(a) - 16; i < sizeof(a); i++)
        end_touched |= a[i] != 0;
    CHECK(end_touched);
    CHECK_EQ(random_bytes_os(NULL, 0), PR_OK);
}
