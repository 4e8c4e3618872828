/* Failing and retrying. */
#include "stage.h"

#include "base/slice.h"

TEST(a_failing_message_is_sent_after_2_4_8_and_16_seconds_and_dies_at_the_fifth_failure) /* B33, B30 */
{
    static const int64_t waits[] = { 2, 4, 8, 16 };
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id id = world_send(&s.w, "a", "fail");
    stage_run(&s, PR_MINUTES(10));
    CHECK_EQ(stage_sends(&s, id), 5);
    for (unsigned n = 0; n < 4; n++) {
        int64_t waited = stage_send(&s, id, n + 2)->at_us - stage_send(&s, id, n + 1)->at_us;
        CHECK(waited >= PR_SECONDS(waits[n]) && waited < PR_SECONDS(waits[n]) + PR_MILLISECONDS(250));
    }
    struct listed dead = stage_look(&s, id);
    CHECK_EQ(dead.state, STATE_DEAD);
    CHECK_EQ(dead.m.failures, 5);
    CHECK_EQ(dead.cause, PR_REASON_POISON_MESSAGE);       /* the retries ran out, */
    CHECK_EQ(dead.m.reason, PR_REASON_HANDLER_EXCEPTION); /* and the real failure stays beside it */
    CHECK((dead.m.status & PR_STATUS_FAILED) != 0);
    stage_close(&s);
}

TEST(a_failed_message_is_not_handed_out_before_its_time_also_not_by_another_or_after_a_restart) /* B32 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.instances = 2;
    s.scenario.endpoints[0].policy.retry =
        (struct retry_setting){ .base_us = PR_MINUTES(10), .factor = 1, .failures = 5 };
    stage_open(&s);
    pr_id id = world_send(&s.w, "a", "fail:1");
    stage_run(&s, PR_SECONDS(30));
    CHECK_EQ(stage_sends(&s, id), 1);
    instance_crash(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_MINUTES(4));
    instance_crash(&s.w, &s.w.instances[1]);
    stage_run(&s, PR_MINUTES(5));
    CHECK_EQ(stage_sends(&s, id), 1);
    stage_run(&s, PR_MINUTES(2));
    CHECK_EQ(stage_sends(&s, id), 2);
    CHECK(stage_send(&s, id, 2)->at_us - stage_send(&s, id, 1)->at_us >= PR_MINUTES(10));
    stage_close(&s);
}

TEST(one_failing_message_costs_its_neighbours_nothing) /* B35 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    struct parcel *batch[10];
    for (int i = 0; i < 10; i++) {
        batch[i] = world_parcel(&s.w);
        batch[i]->m.type = scenario_type(0);
        batch[i]->m.payload = pr_str(i == 4 ? "fail" : "ok");
        parcel_seal(&s.w, batch[i]);
    }
    CHECK_EQ(world_store(&s.w, batch, 10), PR_OK);
    stage_run(&s, PR_MILLISECONDS(10));
    CHECK_EQ(s.count, 10); /* each was sent once, */
    for (int i = 0; i < 10; i++)
        CHECK_EQ(stage_done(&s, batch[i]->m.id), i != 4); /* and only the failing one is left */
    CHECK_EQ(stage_look(&s, batch[4]->m.id).m.failures, 1);
    stage_close(&s);
}

TEST(a_full_batch_of_failing_messages_does_not_hold_up_healthy_ones_behind_it) /* B36 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.engine.batch = 20;
    s.scenario.engine.window_count = 100;
    stage_open(&s);
    for (int i = 0; i < 300; i++)
        world_send(&s.w, "", "fail");
    pr_id healthy = world_send(&s.w, "", "ok");
    stage_run(&s, PR_SECONDS(2));
    CHECK(stage_done(&s, healthy));
    stage_close(&s);
}

TEST(bits_reached_before_a_failure_stay_and_the_retry_sees_them) /* B37 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id id = world_send(&s.w, "a", "event");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_look(&s, id).m.status, PR_STATUS_STORED | PR_STATUS_EVENT_STORED | PR_STATUS_FAILED);
    stage_run(&s, PR_SECONDS(5));
    CHECK(stage_done(&s, id));
    CHECK_EQ(stage_sends(&s, id), 2);
    CHECK((stage_send(&s, id, 2)->status & PR_STATUS_EVENT_STORED) != 0);
    stage_close(&s);
}

static int faults_left;

static int disturb_some(struct world *w, struct instance *in, const struct cycle *cycle)
{
    static const int faults[] = { PR_EBUSY, PR_ESTORE, PR_EUNCERTAIN, PR_EFULL };
    (void)w;
    (void)in;
    if (cycle->verdict_count + cycle->receipt_count == 0 || faults_left == 0)
        return 0;
    return faults[faults_left-- % 4];
}

TEST(trouble_with_the_store_is_not_a_failure_of_the_message) /* B38, B27 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    faults_left = 12;
    s.w.disturb = disturb_some;
    pr_id id = world_send(&s.w, "a", "fail:1");
    stage_run(&s, PR_SECONDS(20));
    CHECK_EQ(faults_left, 0);
    CHECK(stage_done(&s, id));
    CHECK_EQ(stage_sends(&s, id), 2); /* one real failure, and it was counted once */
    CHECK_EQ(stage_send(&s, id, 2)->attempt, 2);
    stage_close(&s);
}

TEST(an_outage_uses_up_nobodys_failures_and_one_probe_goes_out_at_a_time) /* B72, B73 */
{
    struct stage s;
    pr_id ids[50];
    stage_set(&s);
    s.scenario.endpoints[0].breaker =
        (struct breaker_setting){ .enabled = true, .after = 5, .open_us = PR_SECONDS(5), .cap_us = PR_SECONDS(60) };
    stage_open(&s);
    s.w.receivers[0].down = true;
    for (int i = 0; i < 50; i++)
        ids[i] = world_send(&s.w, "", "down");
    stage_run(&s, PR_MINUTES(60 * 24));
    for (int i = 0; i < 50; i++) {
        CHECK(world_state(&s.w, ids[i], (pr_slice){ 0 }) != STATE_DEAD);
        CHECK(stage_look(&s, ids[i]).m.failures <= 1);
    }
    CHECK(s.count < 50 + 24 * 60 + 60); /* about a probe a minute */
    stage_close(&s);
}
