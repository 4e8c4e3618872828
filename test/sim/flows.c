/* Lives of flows, and that their checkers find planted bugs. */
#include "flows.h"

#include "check.h"

static const char *flows_break_on(bool sqlite, enum flows_bug bug, uint64_t seeds)
{
    struct breach breach = { .invariant = NULL };
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct life_counts counts = { 0 };
        struct flows_life_counts more = { 0 };
        if (!flows_life_with(&(struct life){ .seed = seed, .sqlite = sqlite }, bug, &counts, &more, &breach))
            return breach.invariant;
    }
    return "";
}

static const char *flows_break(enum flows_bug bug, uint64_t seeds)
{
    return flows_break_on(false, bug, seeds);
}

TEST(
    flows_live_through_crashes_clocks_and_deploys) /* I11 I48 I49 I50 I51, B103 B105 B111 B123 B128 B144 B145 B160 B161 B163 */
{
    struct breach breach;
    struct life_counts counts = { 0 };
    struct flows_life_counts more = { 0 };
    for (uint64_t seed = 1; seed <= 30; seed++)
        if (!flows_life_with(&(struct life){ .seed = seed, .check = true }, FLOWS_FINE, &counts, &more, &breach))
            check_fail(__FILE__, __LINE__, "seed %d: %s: %s", (int)seed, breach.invariant, breach.text);
    CHECK(more.flows > 300 && more.histories > more.flows && more.events > 20 * more.flows);
    CHECK(more.crashes > 300 && more.poison > 30 && more.changed > 0 && more.resumed > 10);
}

TEST(a_flow_whose_code_is_not_the_same_twice_is_found) /* I11, B160 */
{
    CHECK_STR(flows_break(FLOWS_CODE_IS_RANDOM, 5), "I11");
}

TEST(a_result_that_nobody_gave_is_found) /* I48, B163 */
{
    CHECK_STR(flows_break(FLOWS_RESULT_IS_CHANGED, 5), "I48");
}

TEST(a_fact_that_is_recorded_twice_is_found) /* I48, B161 */
{
    CHECK_STR(flows_break(FLOWS_FACT_IS_TWICE, 5), "I48");
}

TEST(a_timer_that_fires_early_is_found) /* I48, B101 */
{
    CHECK_STR(flows_break(FLOWS_TIMER_IS_EARLY, 5), "I48");
}

TEST(a_parent_that_is_told_something_else_than_its_child_gave_is_found) /* I49, B103 */
{
    CHECK_STR(flows_break(FLOWS_CHILD_LIES, 5), "I49");
}

TEST(a_child_that_does_not_hear_of_the_end_of_its_parent_is_found) /* I49, B111 */
{
    CHECK_STR(flows_break(FLOWS_CANCEL_IS_LOST, 10), "I49");
}

TEST(poison_that_is_tried_once_more_is_found) /* I50, B142 */
{
    CHECK_STR(flows_break(FLOWS_POISON_IS_LATE, 5), "I50");
}

TEST(a_key_value_that_is_lost_is_found) /* I51, B109 */
{
    CHECK_STR(flows_break(FLOWS_KEY_IS_LOST, 10), "I51");
}

TEST(a_flow_that_does_not_hear_of_its_dead_activity_is_found) /* I15, B145 */
{
    CHECK_STR(flows_break(FLOWS_DEATH_IS_UNTOLD, 10), "I15");
}

TEST(flows_that_are_deleted_and_pruned_stay_gone) /* I52 I53, B113 B131 B133 B134 */
{
    struct breach breach;
    struct life_counts counts = { 0 };
    struct flows_life_counts more = { 0 };
    for (uint64_t seed = 1; seed <= 20; seed++)
        if (!flows_life_with(&(struct life){ .seed = seed, .sqlite = true }, FLOWS_FINE, &counts, &more, &breach))
            check_fail(__FILE__, __LINE__, "seed %d: %s: %s", (int)seed, breach.invariant, breach.text);
    CHECK(more.deleted > 20 && more.pruned > 3 && more.tagged > 30);
}

TEST(a_deleted_flow_that_comes_back_is_found) /* I52, B133 */
{
    CHECK_STR(flows_break_on(true, FLOWS_DELETED_COMES_BACK, 10), "I52");
}

TEST(an_activity_that_outlives_its_deleted_flow_is_found) /* I52, B133 */
{
    CHECK_STR(flows_break_on(true, FLOWS_DELETED_STAYS, 10), "I52");
}

TEST(an_execution_too_many_that_is_pruned_is_found) /* I52, B134 */
{
    CHECK_STR(flows_break_on(true, FLOWS_PRUNE_IS_GREEDY, 10), "I52");
}

TEST(an_activity_where_its_tag_is_not_offered_is_found) /* I53, B113 */
{
    CHECK_STR(flows_break(FLOWS_TAG_IS_IGNORED, 10), "I53");
}
