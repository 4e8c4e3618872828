/* Lanes. */
#include "core/lane.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

static const pr_id id_1 = { { 0x01, 0x90, 0xab, 0xcd, 0xef, 0x01, 0x72, 0x34, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45,
                              0x67 } };
static const pr_id id_0 = { { 0 } };

/* Stores keep lane numbers: these values hold for ever.  They are what PostgreSQL answers to
 * hashtext(stream) & 63, or uuid_hash(id) & 63. */
TEST(lanes_are_what_they_have_always_been)
{
    CHECK_EQ(lane_of(PR_STR("order-1"), id_0), 11);
    CHECK_EQ(lane_of(PR_STR("a"), id_0), 49);
    CHECK_EQ(lane_of(PR_STR("Stra\xc3\x9f"
                            "e"),
                     id_0),
             49);
    CHECK_EQ(lane_of(PR_STR(""), id_1), 18);
    CHECK_EQ(lane_of(PR_STR(""), id_0), 19);
    CHECK_EQ(lane_of(PR_STR("twelve bytes"), id_0), 29);
    CHECK_EQ(lane_of(PR_STR("a stream of bytes that is long"), id_0), 17);
}

TEST(a_stream_decides_the_lane_whatever_the_id)
{
    CHECK_EQ(lane_of(PR_STR("order-1"), id_0), lane_of(PR_STR("order-1"), id_1));
}

TEST(streams_spread_over_all_lanes_evenly)
{
    int counts[LANE_COUNT] = { 0 };
    for (int i = 0; i < LANE_COUNT * 100; i++) {
        char text[32];
        int size = snprintf(text, sizeof(text), "account-%d", i);
        unsigned lane = lane_of(PR_BYTES(text, (size_t)size), id_0);
        CHECK(lane < LANE_COUNT);
        counts[lane]++;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        CHECK(counts[lane] > 50 && counts[lane] < 150);
}

TEST(ids_made_in_a_row_spread_over_all_lanes_evenly)
{
    int counts[LANE_COUNT] = { 0 };
    for (int i = 0; i < LANE_COUNT * 100; i++) {
        pr_id id;
        pr_id_new(&id);
        counts[lane_of((pr_slice){ NULL, 0 }, id)]++;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        CHECK(counts[lane] > 40 && counts[lane] < 160);
}

TEST(each_lane_has_its_bit)
{
    uint64_t all = 0;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
        CHECK_EQ(all & lane_bit(lane), 0);
        all |= lane_bit(lane);
    }
    CHECK_EQ(all, LANES_ALL);
}
