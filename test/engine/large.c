/* Large payloads: they are loaded before they are sent, and few are in memory at once. */
#include "stage.h"

#include "engine/limits.h"

TEST(payloads_that_are_loaded_late_arrive_in_order_and_whole)
{
    struct stage s;
    pr_id last = { 0 };
    stage_set(&s);
    s.scenario.engine.late_bytes = 2; /* "ok" is not, the others are */
    stage_open(&s);
    for (int i = 0; i < 60; i++)
        last = world_send(&s.w, i % 3 == 0 ? "" : STREAM(i % 4), i % 5 == 0 ? "ok" : i % 5 == 1 ? "fail:2" : "slow:30");
    stage_run(&s, PR_MINUTES(10));
    CHECK(stage_done(&s, last));
    size_t failures = 0;
    for (size_t i = 0; i < s.count; i++)
        failures += s.diary[i].attempt > 1;
    CHECK_EQ(failures, 2 * 60 / 5); /* their payloads say that they fail twice: they came each time */
    CHECK_EQ(s.count, 60 + failures);
    stage_close(&s);
}

TEST(large_payloads_share_the_room_and_one_of_any_size_always_goes)
{
    const struct limits_setting setting = {
        .engines = 1, .endpoint_count = 2, .window_count = 100, .window_bytes = 1000
    };
    struct limits *l = limits_new(&setting);
    const char *a = "a", *b = "b";
    CHECK(limits_may_load(l, a, 5000, 900, true, 1)); /* larger than all the room */
    CHECK(!limits_may_load(l, b, 10, 0, true, 1));
    limits_unload(l, 5000);
    CHECK(limits_may_load(l, b, 400, 100, true, 2));
    CHECK(limits_may_load(l, a, 400, 100, true, 2));
    CHECK(!limits_may_load(l, a, 400, 100, true, 2)); /* what is in the window counts, too */
    limits_unload(l, 400);
    limits_unload(l, 400);
    limits_free(l);
}

TEST(a_payload_that_needs_all_the_room_is_not_overtaken_for_ever_by_smaller_ones)
{
    const struct limits_setting setting = {
        .engines = 1, .endpoint_count = 2, .window_count = 100, .window_bytes = 1000
    };
    struct limits *l = limits_new(&setting);
    const char *a = "a", *b = "b";
    CHECK(limits_may_load(l, a, 300, 0, true, 1));
    CHECK(!limits_may_load(l, b, 900, 0, true, 2)); /* it waits ... */
    CHECK(!limits_may_load(l, a, 300, 0, true, 3)); /* ... and others leave it the room */
    limits_unload(l, 300);
    CHECK(limits_may_load(l, b, 900, 0, true, 4));
    CHECK(!limits_may_load(l, a, 300, 0, false, 5));
    limits_unload(l, 900);
    CHECK(!limits_may_load(l, b, 900, 0, true, 6));                /* a waits, too */
    CHECK(limits_may_load(l, b, 900, 0, true, 6 + PR_SECONDS(1))); /* ... but does not come back: it was paused, say */
    limits_unload(l, 900);
    limits_free(l);
}
