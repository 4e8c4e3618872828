/* States. */
#include "core/state.h"

#include <string.h>

#include "check.h"

TEST(states_have_the_words_that_people_know)
{
    static const char *const names[] = { "ready",  "in-flight", "delayed", "retrying", "held",
                                         "parked", "paused",    "dead",    "done",     "gone" };
    CHECK_EQ(sizeof(names) / sizeof(names[0]), STATE_COUNT);
    for (int i = 0; i < STATE_COUNT; i++) {
        CHECK_STR(state_name((enum state)i), names[i]);
        CHECK_EQ(state_parse(pr_str(names[i])), i);
    }
    CHECK_EQ(state_parse(PR_STR("Ready")), STATE_COUNT);
    CHECK_EQ(state_parse(PR_STR("")), STATE_COUNT);
}

TEST(from_every_state_a_way_leads_to_the_end_and_none_leads_out_of_it)
{
    for (int from = 0; from < STATE_COUNT; from++) {
        CHECK(!state_may_become(STATE_GONE, (enum state)from));
        /* Walk: what can be reached from here. */
        unsigned reached = 1u << from;
        for (int round = 0; round < STATE_COUNT; round++)
            for (int a = 0; a < STATE_COUNT; a++)
                for (int b = 0; b < STATE_COUNT; b++)
                    if ((reached & 1u << a) != 0 && state_may_become((enum state)a, (enum state)b))
                        reached |= 1u << b;
        CHECK((reached & 1u << STATE_GONE) != 0);
    }
}

TEST(only_what_is_in_flight_can_be_done) /* I5 */
{
    for (int from = 0; from < STATE_COUNT; from++)
        CHECK_EQ(state_may_become((enum state)from, STATE_DONE), from == STATE_IN_FLIGHT);
    CHECK(!state_may_become(STATE_DEAD, STATE_IN_FLIGHT)); /* a dead letter comes back first */
    CHECK(state_may_become(STATE_DEAD, STATE_READY));
    CHECK(!state_may_become(STATE_DELAYED, STATE_IN_FLIGHT)); /* never early */
    CHECK(!state_may_become(STATE_PARKED, STATE_IN_FLIGHT));
}

TEST(the_state_of_a_row_follows_from_what_is_stored)
{
    const int64_t now = 1000;
    struct pr_message fresh = { 0 };
    struct pr_message parked = { .due_us = PR_NEVER, .status = PR_STATUS_FAILED, .held_by = PR_STR("k") };
    struct pr_message held = { .held_by = PR_STR("k") };
    struct pr_message delayed = { .due_us = 1001 };
    struct pr_message failed = { .due_us = 1001, .status = PR_STATUS_FAILED, .attempts = 1 };
    struct pr_message abandoned = { .due_us = 1001, .attempts = 1 };
    struct pr_message due = { .due_us = 1000, .status = PR_STATUS_FAILED, .attempts = 1 };
    CHECK_EQ(state_of_row(&fresh, now), STATE_READY);
    CHECK_EQ(state_of_row(&parked, now), STATE_PARKED);
    CHECK_EQ(state_of_row(&held, now), STATE_HELD);
    CHECK_EQ(state_of_row(&delayed, now), STATE_DELAYED);
    CHECK_EQ(state_of_row(&delayed, now + 1), STATE_READY);
    CHECK_EQ(state_of_row(&failed, now), STATE_RETRYING);
    CHECK_EQ(state_of_row(&abandoned, now), STATE_RETRYING);
    CHECK_EQ(state_of_row(&due, now), STATE_READY);
}
