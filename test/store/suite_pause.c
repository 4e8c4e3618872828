/* Pauses in a cycle: by a rule, or by the endpoint itself. */
#include "suite.h"

#define PAUSE(name, us)                                                                                                \
    ((struct pause){ .endpoint = PR_STR(name), .for_us = (us), .by = PR_STR("rule r"), .why = PR_STR("no") })

STORE_TEST(a_pause_in_a_cycle_is_stored_and_told_to_its_own_instance) /* B63 */
{
    struct worker *w = suite_join(s, "outbox");
    struct pause p = PAUSE("e", PR_SECONDS(60));
    const struct cycle_reply *r = CYCLE(w, .pauses = &p, .pause_count = 1);

    CHECK(r->endpoints_known);
    CHECK_EQ(r->endpoint_count, 1);
    CHECK_EQ(r->endpoints[0].paused_until_us, s->wall_us + PR_SECONDS(60));
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, s->wall_us + PR_SECONDS(60));
    CHECK_SLICE(suite_endpoint(s, "e")->by, "rule r");
    CHECK_SLICE(suite_endpoint(s, "e")->why, "no");
}

STORE_TEST(a_pause_in_a_cycle_is_told_to_other_boxes) /* B63 */
{
    struct worker *w = suite_join(s, "outbox"), *other = suite_join(s, "ledger");
    struct pause p = PAUSE("e", PR_NEVER);

    CYCLE(w, .pauses = &p, .pause_count = 1);
    const struct cycle_reply *r = CYCLE(other);
    CHECK(r->endpoints_known);
    CHECK_EQ(r->endpoints[0].paused_until_us, PR_NEVER);
}

STORE_TEST(of_two_pauses_in_cycles_the_later_end_wins) /* B63 */
{
    struct worker *w = suite_join(s, "outbox");
    int64_t until = s->wall_us + PR_SECONDS(60);
    struct pause both[] = { PAUSE("e", PR_SECONDS(60)), PAUSE("e", PR_SECONDS(10)) };

    CYCLE(w, .pauses = both, .pause_count = 2);
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, until);
    suite_advance(s, PR_SECONDS(30));
    CYCLE(w, .pauses = &both[1], .pause_count = 1);
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, until);
    suite_advance(s, PR_SECONDS(31)); /* it is over: now a short one counts */
    CYCLE(w, .pauses = &both[1], .pause_count = 1);
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, s->wall_us + PR_SECONDS(10));
}

STORE_TEST(a_person_ends_the_pause_of_a_rule) /* B63 */
{
    struct worker *w = suite_join(s, "outbox");
    struct pause p = PAUSE("e", PR_NEVER);

    CYCLE(w, .pauses = &p, .pause_count = 1);
    CHECK_EQ(ADMIN(s, ADMIN_RESUME, FILTER(.endpoint = PR_STR("e"))).changed, 1);
    CHECK_EQ(CYCLE(w)->endpoints[0].paused_until_us, 0);
}

STORE_TEST(a_pause_in_a_cycle_that_is_sent_again_counts_once_from_the_first_time) /* B7, B63 */
{
    struct worker *w = suite_join(s, "outbox");
    struct pause p = PAUSE("e", PR_SECONDS(60));
    int64_t until = s->wall_us + PR_SECONDS(60);

    CYCLE(w, .pauses = &p, .pause_count = 1);
    suite_advance(s, PR_SECONDS(5));
    w->number--;
    const struct cycle_reply *r = CYCLE(w, .pauses = &p, .pause_count = 1);
    CHECK(r->replayed);
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, until);
}

STORE_TEST(a_pause_of_a_cycle_survives_a_reopen) /* B63 */
{
    suite_needs(s, STORE_CAN_LAST);
    struct pause p = PAUSE("e", PR_NEVER);

    CYCLE(suite_join(s, "outbox"), .pauses = &p, .pause_count = 1);
    suite_reopen(s);
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, PR_NEVER);
}
