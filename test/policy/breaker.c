/* The breaker: opens for an outage; for one bad message only where nothing else ends its tries. */
#include "check.h"
#include "policy/breaker.h"

static const struct breaker_setting setting = {
    .enabled = true, .after = 3, .open_us = PR_SECONDS(5), .cap_us = PR_SECONDS(12)
};

static void open_it(struct breaker *b, int64_t now_us)
{
    for (uint64_t m = 1; m <= 3; m++)
        breaker_failed(b, &setting, m, WEIGHS_ONCE, 0, now_us);
    CHECK_EQ(b->state, BREAKER_OPEN);
}

TEST(different_messages_in_a_row_open_it) /* B73 */
{
    struct breaker b = { 0 };
    CHECK(!breaker_failed(&b, &setting, 1, WEIGHS_ONCE, 0, 0));
    CHECK(!breaker_failed(&b, &setting, 2, WEIGHS_ONCE, 0, 0));
    CHECK(breaker_failed(&b, &setting, 3, WEIGHS_ONCE, 0, 0)); /* this one is not the message's fault */
    CHECK_EQ(b.state, BREAKER_OPEN);
    CHECK(!breaker_allows(&b, &setting, PR_SECONDS(5) - 1));
    CHECK(breaker_allows(&b, &setting, PR_SECONDS(5)));
}

TEST(one_message_that_always_fails_does_not_open_it_where_its_failures_are_counted)
{
    struct breaker b = { 0 };
    for (int i = 0; i < 1000; i++)
        CHECK(!breaker_failed(&b, &setting, 7, WEIGHS_ONCE, 0, i));
    CHECK_EQ(b.state, BREAKER_CLOSED);
}

TEST(failures_in_a_row_open_it_whoever_s_they_are) /* B73 */
{
    struct breaker b = { 0 };
    CHECK(!breaker_failed(&b, &setting, 7, WEIGHS_ALWAYS, 0, 0));
    CHECK(!breaker_failed(&b, &setting, 7, WEIGHS_ALWAYS, 0, 0));
    CHECK(breaker_failed(&b, &setting, 7, WEIGHS_ALWAYS, 0, 0));
    CHECK_EQ(b.state, BREAKER_OPEN);
}

TEST(a_success_in_between_starts_the_count_anew) /* B73 */
{
    struct breaker b = { 0 };
    breaker_failed(&b, &setting, 1, WEIGHS_ONCE, 0, 0);
    breaker_failed(&b, &setting, 2, WEIGHS_ONCE, 0, 0);
    breaker_succeeded(&b, &setting, 9, 0);
    CHECK(!breaker_failed(&b, &setting, 3, WEIGHS_ONCE, 0, 0));
    CHECK_EQ(b.state, BREAKER_CLOSED);
}

TEST(permanent_failures_do_not_open_it)
{
    struct breaker b = { 0 };
    for (uint64_t m = 1; m < 100; m++)
        CHECK(!breaker_failed(&b, &setting, m, WEIGHS_NOTHING, 0, 0));
    CHECK_EQ(b.state, BREAKER_CLOSED);
}

TEST(one_probe_goes_out_when_half_open_and_its_success_closes) /* B73 */
{
    struct breaker b = { 0 };
    open_it(&b, 0);
    CHECK(breaker_allows(&b, &setting, PR_SECONDS(5)));
    breaker_started(&b, 42);
    CHECK(!breaker_allows(&b, &setting, PR_SECONDS(5)));
    breaker_succeeded(&b, &setting, 42, PR_SECONDS(5));
    CHECK_EQ(b.state, BREAKER_CLOSED);
    CHECK(breaker_allows(&b, &setting, PR_SECONDS(5)));
}

TEST(a_failed_probe_is_not_counted_and_the_open_time_grows_to_its_cap) /* B72, B73 */
{
    struct breaker b = { 0 };
    int64_t now = 0, expected[] = { PR_SECONDS(5), PR_SECONDS(10), PR_SECONDS(12), PR_SECONDS(12) };
    open_it(&b, now);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(b.until_us - now, expected[i]);
        now = b.until_us;
        CHECK(breaker_allows(&b, &setting, now));
        breaker_started(&b, 50 + (uint64_t)i);
        CHECK(breaker_failed(&b, &setting, 50 + (uint64_t)i, WEIGHS_ONCE, 0, now));
        CHECK_EQ(b.state, BREAKER_OPEN);
    }
}

TEST(a_probe_that_fails_for_its_own_reasons_closes_it_and_counts)
{
    struct breaker b = { 0 };
    open_it(&b, 0);
    breaker_allows(&b, &setting, PR_SECONDS(5));
    breaker_started(&b, 42);
    CHECK(!breaker_failed(&b, &setting, 42, WEIGHS_NOTHING, 0, PR_SECONDS(5)));
    CHECK_EQ(b.state, BREAKER_CLOSED);
}

TEST(a_probe_that_came_back_unsent_leaves_room_for_another)
{
    struct breaker b = { 0 };
    open_it(&b, 0);
    breaker_allows(&b, &setting, PR_SECONDS(5));
    breaker_started(&b, 42);
    breaker_returned(&b, 42);
    CHECK(breaker_allows(&b, &setting, PR_SECONDS(5)));
}

TEST(what_was_sent_before_it_opened_is_the_same_outage)
{
    struct breaker b = { 0 };
    open_it(&b, 0);
    CHECK(breaker_failed(&b, &setting, 77, WEIGHS_ONCE, 0, 1));
    CHECK_EQ(b.until_us, PR_SECONDS(5));
}

TEST(retry_after_lengthens_the_open_time) /* B74 */
{
    struct breaker b = { 0 };
    breaker_failed(&b, &setting, 1, WEIGHS_ONCE, 0, 0);
    breaker_failed(&b, &setting, 2, WEIGHS_ONCE, 0, 0);
    breaker_failed(&b, &setting, 3, WEIGHS_ONCE, PR_SECONDS(90), 0);
    CHECK_EQ(b.until_us, PR_SECONDS(90));
}

static const struct breaker_setting by_share = { .enabled = true,
                                                 .after = 5,
                                                 .open_us = PR_SECONDS(5),
                                                 .cap_us = PR_SECONDS(12),
                                                 .share = 0.5,
                                                 .window_us = PR_SECONDS(10),
                                                 .least = 10 };

TEST(half_of_a_window_that_fails_opens_it) /* B73 */
{
    struct breaker b = { 0 };
    for (uint64_t m = 1; m <= 5; m++)
        breaker_succeeded(&b, &by_share, m, PR_SECONDS(1));
    for (uint64_t m = 11; m <= 14; m++)
        CHECK(!breaker_failed(&b, &by_share, m, WEIGHS_ONCE, 0, PR_SECONDS(2)));
    CHECK_EQ(b.state, BREAKER_CLOSED); /* 4 of 9: too few were sent */
    CHECK(breaker_failed(&b, &by_share, 15, WEIGHS_ONCE, 0, PR_SECONDS(2)));
    CHECK_EQ(b.state, BREAKER_OPEN);
}

TEST(what_left_the_window_does_not_count) /* B73 */
{
    struct breaker b = { 0 };
    for (uint64_t m = 11; m <= 19; m++)
        CHECK(!breaker_failed(&b, &by_share, m, WEIGHS_ONCE, 0, PR_SECONDS(1)));
    for (uint64_t m = 21; m <= 29; m++)
        CHECK(!breaker_failed(&b, &by_share, m, WEIGHS_ONCE, 0, PR_SECONDS(30)));
    CHECK_EQ(b.state, BREAKER_CLOSED);
}

TEST(one_message_alone_does_not_open_it_by_its_share_either)
{
    struct breaker b = { 0 };
    for (int i = 0; i < 1000; i++)
        CHECK(!breaker_failed(&b, &by_share, 7, WEIGHS_ONCE, 0, PR_MILLISECONDS(i)));
    CHECK_EQ(b.state, BREAKER_CLOSED);
}

TEST(a_breaker_that_has_forgotten_everything_is_fresh)
{
    struct breaker b = { 0 };
    CHECK(breaker_is_fresh(&b));
    breaker_failed(&b, &setting, 1, WEIGHS_ONCE, 0, 0);
    CHECK(!breaker_is_fresh(&b));
    breaker_succeeded(&b, &setting, 2, 0);
    CHECK(breaker_is_fresh(&b));
}

/* B75: who meets the endpoint's own faults is put off as long as a breaker would be open, all of a round together. */
TEST(a_setback_grows_by_rounds_to_the_breaker_s_cap)
{
    struct setback b = { 0 };
    CHECK_EQ(setback_failed(&b, &setting, PR_SECONDS(100)), PR_SECONDS(5));
    CHECK_EQ(setback_failed(&b, &setting, PR_SECONDS(101)), PR_SECONDS(4)); /* comes back with the first */
    CHECK_EQ(setback_failed(&b, &setting, PR_SECONDS(105)), PR_SECONDS(10));
    CHECK_EQ(setback_failed(&b, &setting, PR_SECONDS(115)), PR_SECONDS(12));
    CHECK_EQ(setback_failed(&b, &setting, PR_SECONDS(127)), PR_SECONDS(12));
}
