/* Lives of requests, and that their checker finds planted bugs. */
#include "requests.h"

#include "check.h"

static void found(enum request_bug bug, const char *invariant)
{
    struct breach breach = { 0 };
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct request_life_counts counts = { 0 };
        if (!requests_live(seed, false, bug, &counts, &breach))
            break;
    }
    CHECK(breach.invariant != NULL);
    CHECK_STR(breach.invariant, invariant);
}

TEST(requests_live_through_crashes_and_late_and_repeated_replies) /* B214 */
{
    struct breach breach;
    struct request_life_counts counts = { 0 };
    for (uint64_t seed = 1; seed <= 8; seed++)
        if (!requests_live(seed, seed >= 7, REQUEST_BUG_NONE, &counts, &breach))
            check_fail(__FILE__, __LINE__, "seed %d: %s %s", (int)seed, breach.invariant, breach.text);
    CHECK(counts.requests > 100 && counts.answers > counts.requests && counts.told > 100 && counts.crashes > 50);
}

TEST(the_same_seed_is_the_same_life_of_requests)
{
    struct breach breach;
    struct request_life_counts first = { 0 }, second = { 0 };
    CHECK(requests_live(3, false, REQUEST_BUG_NONE, &first, &breach));
    CHECK(requests_live(3, false, REQUEST_BUG_NONE, &second, &breach));
    CHECK_EQ(first.hash, second.hash);
}

TEST(a_reply_that_is_replaced_is_found) /* I45 */
{
    found(REQUEST_BUG_OTHER, "I45");
}

TEST(a_reply_that_is_removed_too_early_is_found) /* I46 */
{
    found(REQUEST_BUG_SHORT, "I46");
}

TEST(a_reply_that_is_never_removed_is_found) /* I46 */
{
    found(REQUEST_BUG_LONG, "I46");
}

TEST(a_request_whose_reply_is_lost_is_found) /* I47 */
{
    found(REQUEST_BUG_LOST, "I47");
}

TEST(a_reply_to_another_request_is_found) /* I45 */
{
    struct request_checker c;
    struct breach breach;
    request_checker_init(&c, &breach);
    unsigned one = request_answered(&c, 1, 0), two = request_answered(&c, 2, 0);
    request_told(&c, 1, one, 1);
    request_told(&c, 1, one, REPLY_KEEP_US - 1);
    request_told(&c, 1, 0, REPLY_KEEP_US); /* its day is over */
    CHECK(breach.invariant == NULL);
    request_told(&c, 1, two, REPLY_KEEP_US);
    CHECK_STR(breach.invariant, "I45");
}
