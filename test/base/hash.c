#include "base/hash.h"

#include <string.h>

#include "base/util.h"
#include "check.h"

/* Lane numbers in existing databases depend on these.  Do not correct the test. */
TEST(hash_gives_its_golden_values)
{
    CHECK(hash_bytes(0, "", 0) == UINT64_C(0x3da4588b8c08334f));
    CHECK(hash_bytes(1, "", 0) == UINT64_C(0xfae0ab38d5f5fb36));
    CHECK(hash_bytes(0, "a", 1) == UINT64_C(0xa63560afe175b68c));
    CHECK(hash_bytes(0, "orders", 6) == UINT64_C(0x44966b91babf3de7));
    CHECK(hash_bytes(0, "customer-4711", 13) == UINT64_C(0xd3694b119da2aac8));
    CHECK(hash_bytes(0, "0123456789abcdef", 16) == UINT64_C(0x7d990530349f03aa));
    CHECK(hash_u64(0) == UINT64_C(0x0000000000000000));
    CHECK(hash_u64(1) == UINT64_C(0x4179b061e0c0e0d0));
}

TEST(hash_does_not_depend_on_alignment)
{
    char place[64];
    uint64_t expected = hash_slice(5, PR_STR("customer-4711/orders"));
    for (size_t offset = 0; offset < 16; offset++) {
        memset(place, (int)offset, sizeof(place));
        memcpy(place + offset, "customer-4711/orders", 20);
        CHECK(hash_bytes(5, place + offset, 20) == expected);
    }
}

TEST(hash_tells_lengths_of_zeroes_apart)
{
    const char zeroes[40] = { 0 };
    for (size_t i = 0; i <= sizeof(zeroes); i++)
        for (size_t j = 0; j < i; j++)
            CHECK(hash_bytes(0, zeroes, i) != hash_bytes(0, zeroes, j));
}

/* Flipping any bit of the input flips each bit of the output about half the time. */
TEST(hash_has_good_avalanche)
{
    enum { SIZE = 19, ROUNDS = 400 };
    static int flips[SIZE * 8][64];
    memset(flips, 0, sizeof(flips));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        unsigned char data[SIZE];
        for (size_t i = 0; i < SIZE; i++)
            data[i] = (unsigned char)(hash_u64(round * SIZE + i) >> 13);
        uint64_t before = hash_bytes(0, data, SIZE);
        for (size_t bit = 0; bit < SIZE * 8; bit++) {
            data[bit / 8] ^= (unsigned char)(1u << bit % 8);
            uint64_t changed = before ^ hash_bytes(0, data, SIZE);
            data[bit / 8] ^= (unsigned char)(1u << bit % 8);
            for (int out = 0; out < 64; out++)
                flips[bit][out] += (int)(changed >> out & 1);
        }
    }
    for (size_t bit = 0; bit < SIZE * 8; bit++)
        for (int out = 0; out < 64; out++)
            CHECK(flips[bit][out] > ROUNDS * 3 / 10 && flips[bit][out] < ROUNDS * 7 / 10);
}

TEST(hash_spreads_similar_names_evenly_over_lanes)
{
    int lanes[64] = { 0 };
    for (int i = 0; i < 64000; i++) {
        char text[] = "customer-00000";
        for (int digit = 13, rest = i; digit > 8; digit--, rest /= 10)
            text[digit] = (char)('0' + rest % 10);
        lanes[hash_bytes(0, text, 14) % 64]++;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(lanes); i++)
        CHECK(lanes[i] > 850 && lanes[i] < 1150);
}

TEST(hash_depends_on_the_seed)
{
    CHECK(hash_slice(0, PR_STR("a")) != hash_slice(1, PR_STR("a")));
    CHECK(hash_slice(0, (pr_slice){ NULL, 0 }) == hash_slice(0, PR_STR("")));
}
