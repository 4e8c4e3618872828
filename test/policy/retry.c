/* When to try again, held to the three published schedules. */
#include "check.h"
#include "policy/policy.h"

#include <limits.h>

static const int64_t table[] = { PR_SECONDS(10), PR_SECONDS(60), PR_MINUTES(5) };

static const struct retry_setting doubling = {
    .base_us = PR_SECONDS(1), .factor = 2, .cap_us = PR_SECONDS(300), .failures = 5
};
static const struct retry_setting half_minutes = { .base_us = PR_SECONDS(30), .factor = 2, .failures = 10 };
static const struct retry_setting listed = { .delays = table, .delay_count = 3 };

TEST(a_second_doubled_gives_2_4_8_16_and_dies_at_the_fifth) /* B33 */
{
    CHECK_EQ(retry_delay_us(&doubling, 1, 0), PR_SECONDS(2));
    CHECK_EQ(retry_delay_us(&doubling, 2, 0), PR_SECONDS(4));
    CHECK_EQ(retry_delay_us(&doubling, 3, 0), PR_SECONDS(8));
    CHECK_EQ(retry_delay_us(&doubling, 4, 0), PR_SECONDS(16));
    CHECK_EQ(retry_delay_us(&doubling, 5, 0), -1);
}

TEST(half_a_minute_doubled_gives_1_2_4_8_16_minutes_and_dies_at_the_tenth) /* B33 */
{
    for (int n = 1; n < 10; n++)
        CHECK_EQ(retry_delay_us(&half_minutes, n, 0), PR_MINUTES(1) << (n - 1));
    CHECK_EQ(retry_delay_us(&half_minutes, 10, 0), -1);
}

TEST(a_table_is_followed_and_its_end_is_death) /* B33 */
{
    CHECK_EQ(retry_delay_us(&listed, 1, 0), PR_SECONDS(10));
    CHECK_EQ(retry_delay_us(&listed, 2, 0), PR_SECONDS(60));
    CHECK_EQ(retry_delay_us(&listed, 3, 0), PR_MINUTES(5));
    CHECK_EQ(retry_delay_us(&listed, 4, 0), -1);
}

TEST(no_count_overflows_and_the_cap_holds) /* B34 */
{
    struct retry_setting endless = doubling, uncapped = doubling;
    endless.failures = 0;
    uncapped.failures = 0;
    uncapped.cap_us = 0;
    for (int n = 9; n < 2000; n++)
        CHECK_EQ(retry_delay_us(&endless, n, 0), PR_SECONDS(300));
    CHECK_EQ(retry_delay_us(&endless, INT_MAX, 0), PR_SECONDS(300));
    CHECK_EQ(retry_delay_us(&uncapped, INT_MAX, 0), RETRY_DELAY_MAX_US);
}

TEST(jitter_only_lengthens)
{
    struct retry_setting s = doubling;
    s.jitter = 0.1;
    CHECK_EQ(retry_delay_us(&s, 1, 0), PR_SECONDS(2));
    int64_t most = retry_delay_us(&s, 1, 0.999999);
    CHECK(most > PR_SECONDS(2) && most < PR_SECONDS(2) + PR_MILLISECONDS(200));
}

TEST(retries_that_ran_out_are_poison_and_name_their_limit) /* B33, D6 */
{
    struct policy policy = { .retry = doubling };
    struct pr_message message = { .type = PR_STR("t") };
    struct failure failure = { .message = &message, .reason = PR_REASON_REJECTED, .failures = 5 };
    struct decision d;

    policy_decide(&policy, &failure, 0, &d);
    CHECK_EQ(d.step, STEP_DEAD_LETTER);
    CHECK_EQ(d.cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(d.limit, 5);
}

TEST(what_the_other_side_asks_for_lengthens_the_wait_and_never_shortens_it) /* B74 */
{
    struct policy policy = { .retry = doubling };
    struct pr_message message = { .type = PR_STR("t") };
    struct failure failure = {
        .message = &message, .reason = PR_REASON_RATE_LIMITED, .failures = 1, .retry_after_us = PR_SECONDS(60)
    };
    struct decision d;

    policy_decide(&policy, &failure, 0, &d);
    CHECK_EQ(d.delay_us, PR_SECONDS(60));
    failure.retry_after_us = PR_MILLISECONDS(1);
    policy_decide(&policy, &failure, 0, &d);
    CHECK_EQ(d.delay_us, PR_SECONDS(2));
}
