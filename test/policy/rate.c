/* A number of messages per time, in virtual time. */
#include <postrider.h>

#include "check.h"
#include "policy/rate.h"

/* Take whatever is allowed whenever it is; how many within so long. */
static int64_t taken_within(const struct rate_setting *s, int64_t begin_us, int64_t length_us)
{
    struct rate r = { 0 };
    int64_t now_us = begin_us, count = 0;

    for (;;) {
        for (; rate_allows(&r, s, 0, now_us); count++)
            rate_take(&r, s, now_us);
        int64_t next_us = rate_next_us(&r, s, 0);
        CHECK(next_us > now_us);
        CHECK(!rate_allows(&r, s, 0, next_us - 1));
        CHECK(rate_allows(&r, s, 0, next_us));
        if (next_us >= begin_us + length_us)
            return count;
        now_us = next_us;
    }
}

TEST(a_rate_lets_so_many_pass_and_a_small_burst_more)
{
    static const struct rate_setting settings[] = {
        { 1, PR_SECONDS(1) },       { 7, PR_SECONDS(1) },  { 100, PR_SECONDS(1) },
        { 1000000, PR_SECONDS(1) }, { 90, PR_MINUTES(1) },
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const struct rate_setting *s = &settings[i];
        int64_t burst = s->count * RATE_BURST_US / s->period_us;
        int64_t count = taken_within(s, PR_SECONDS(1000), s->period_us);
        CHECK(count >= s->count);
        CHECK(count <= s->count + (burst > 1 ? burst : 1));
    }
}

TEST(a_rate_saves_no_more_than_its_burst)
{
    const struct rate_setting s = { 100, PR_SECONDS(1) };
    struct rate r = { 0 };
    int count = 0;
    rate_take(&r, &s, 0);
    for (; rate_allows(&r, &s, 0, PR_SECONDS(86400)); count++)
        rate_take(&r, &s, PR_SECONDS(86400));
    CHECK_EQ(count, 10);
}

/* What was chosen before a stall and goes out after it counts from then on. */
TEST(after_a_stall_of_any_length_a_rate_lets_no_more_than_its_burst_pass)
{
    const struct rate_setting s = { 100, PR_SECONDS(1) };

    for (int64_t stall_us = 1; stall_us < PR_SECONDS(86400); stall_us *= 7) {
        struct rate r = { 0 };
        int64_t now_us = PR_SECONDS(50);
        size_t pledged = 0, passed = 0;
        for (; rate_allows(&r, &s, pledged, now_us); pledged++)
            ;
        CHECK_EQ(pledged, 10);
        now_us += stall_us;
        CHECK(!rate_allows(&r, &s, pledged, now_us));
        for (; pledged > 0; pledged--, passed++) {
            CHECK(!rate_allows(&r, &s, pledged, now_us));
            rate_take(&r, &s, now_us);
        }
        CHECK(!rate_allows(&r, &s, 0, now_us));
        CHECK_EQ(rate_next_us(&r, &s, 0), now_us + PR_MILLISECONDS(10));
        CHECK_EQ(rate_next_us(&r, &s, 3), now_us + PR_MILLISECONDS(40));
        for (now_us += PR_SECONDS(1); rate_allows(&r, &s, 0, now_us); passed++)
            rate_take(&r, &s, now_us);
        CHECK_EQ(passed, 20);
    }
}

TEST(a_rate_takes_back_and_stands_still_when_the_clock_goes_back)
{
    const struct rate_setting s = { 1, PR_SECONDS(1) };
    struct rate r = { 0 };
    uint32_t taken = rate_take(&r, &s, PR_SECONDS(10));
    CHECK(!rate_allows(&r, &s, 0, PR_SECONDS(5)));
    rate_give_back(&r, &s, taken);
    CHECK(rate_allows(&r, &s, 0, PR_SECONDS(10)));
    rate_give_back(&r, &s, taken); /* never more than full */
    uint32_t again = rate_take(&r, &s, PR_SECONDS(10));
    CHECK(!rate_allows(&r, &s, 0, PR_SECONDS(10)));
    CHECK_EQ(rate_next_us(&r, &s, 0), PR_SECONDS(11));
    /* What comes back when it is full anyway must not let two go at once. */
    rate_take(&r, &s, PR_SECONDS(20));
    rate_give_back(&r, &s, again);
    CHECK(!rate_allows(&r, &s, 0, PR_SECONDS(20)));
}
