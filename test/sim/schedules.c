/* Lives of a schedule, and that their checker finds planted bugs. */
#include "schedules.h"

#include "base/zone.h"
#include "check.h"

static bool found_within(enum schedule_bug bug, uint64_t seeds, struct breach *ret)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct schedule_life_counts counts = { 0 };
        if (!schedules_live(seed, false, bug, &counts, ret))
            return true;
    }
    return false;
}

TEST(a_schedule_lives_through_changes_of_the_clock_crashes_and_deploys) /* B99 B210 B211 B212 */
{
    struct breach breach;
    struct schedule_life_counts counts = { 0 };
    for (uint64_t seed = 1; seed <= 6; seed++)
        if (!schedules_live(seed, seed == 6, SCHEDULE_BUG_NONE, &counts, &breach))
            check_fail(__FILE__, __LINE__, "seed %d: %s", (int)seed, breach.text);
    CHECK(counts.fired > 100 && counts.crashes > 100 && counts.deploys > 10 && counts.overtaken > 0 &&
          counts.steps > 0);
}

TEST(the_same_seed_is_the_same_life_of_a_schedule)
{
    struct breach breach;
    struct schedule_life_counts first = { 0 }, second = { 0 };
    CHECK(schedules_live(3, false, SCHEDULE_BUG_NONE, &first, &breach));
    CHECK(schedules_live(3, false, SCHEDULE_BUG_NONE, &second, &breach));
    CHECK_EQ(first.hash, second.hash);
}

TEST(a_message_of_a_schedule_that_is_stored_twice_is_found) /* B99 */
{
    struct breach breach;
    CHECK(found_within(SCHEDULE_BUG_TWICE, 3, &breach));
    CHECK_STR(breach.invariant, "I39");
}

TEST(a_message_of_a_schedule_that_is_lost_is_found) /* B99 */
{
    struct breach breach;
    CHECK(found_within(SCHEDULE_BUG_LOST, 6, &breach));
    CHECK_STR(breach.invariant, "I39");
}

TEST(a_configuration_of_an_earlier_start_that_is_stored_late_is_found) /* B212 */
{
    struct breach breach;
    CHECK(found_within(SCHEDULE_BUG_LATE, 6, &breach));
    CHECK_STR(breach.invariant, "I39");
}

TEST(times_of_another_zone_are_found) /* B211 */
{
    struct breach breach;
    struct pr_error error;
    const struct zone *zone;
    if (zone_find(pr_str("Europe/Berlin"), &zone, &error) != PR_OK)
        SKIP("the time zone files of this system are not installed");
    CHECK(found_within(SCHEDULE_BUG_ZONE, 6, &breach));
}
