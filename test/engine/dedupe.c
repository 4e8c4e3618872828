/* A box with dedupe: of the rows of one message at one endpoint one is on its way at a time, and one is handled (core/mark.h). */
#include "stage.h"

#include "base/slice.h"

static void stage_open_once(struct stage *s)
{
    s->scenario.engine.dedupe_us = PR_MINUTES(60);
    stage_open(s);
}

/* The sums of all engines that run. */
static struct engine_counts all_counts(const struct stage *s)
{
    struct engine_counts sum = { 0 }, one;
    for (unsigned i = 0; i < s->scenario.instances; i++) {
        engine_counts(s->w.instances[i].engine, &one);
        sum.sent += one.sent;
        sum.duplicates += one.duplicates;
        sum.window_count += one.window_count;
    }
    return sum;
}

static bool is_gone(struct stage *s, pr_id id)
{
    return world_state(&s->w, id, (pr_slice){ NULL, 0 }) == STATE_GONE;
}

TEST(of_two_rows_of_one_message_the_second_waits_for_the_first_and_is_not_sent) /* B90 */
{
    struct stage s;
    stage_set(&s);
    stage_open_once(&s);
    pr_id id = world_send(&s.w, "a", "slow:500"), other;
    world_send_again(&s.w, id, "e0", "b", "slow:500");
    other = world_send(&s.w, "b", "ok"); /* behind it in its stream */
    stage_run(&s, PR_MILLISECONDS(400));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK_EQ(stage_sends(&s, other), 0);
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK(is_gone(&s, id));
    CHECK(stage_done(&s, other));
    CHECK_EQ(all_counts(&s).sent, 2);
    CHECK_EQ(all_counts(&s).duplicates, 1);
    CHECK_EQ(all_counts(&s).window_count, 0);
    stage_close(&s);
}

TEST(when_the_first_row_of_a_message_fails_the_second_goes_and_the_retry_is_a_duplicate) /* B90 */
{
    struct stage s;
    stage_set(&s);
    stage_open_once(&s);
    pr_id id = world_send(&s.w, "", "fail:1");
    world_send_again(&s.w, id, "e0", "", "ok");
    stage_run(&s, PR_SECONDS(10)); /* the retry would be after a second */
    CHECK_EQ(stage_sends(&s, id), 2);
    CHECK(is_gone(&s, id));
    CHECK_EQ(all_counts(&s).sent, 1);
    CHECK_EQ(all_counts(&s).duplicates, 1);
    stage_close(&s);
}

TEST(what_was_handled_before_is_on_a_receipt_and_not_sent) /* B90 */
{
    struct stage s;
    stage_set(&s);
    stage_open_once(&s);
    pr_id id = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK(stage_done(&s, id));
    world_send_again(&s.w, id, "e0", "a", "ok"); /* by a plain INSERT: nobody looked */
    pr_id follower = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK(is_gone(&s, id));
    CHECK(stage_done(&s, follower));
    CHECK_EQ(all_counts(&s).duplicates, 1);
    stage_close(&s);
}

TEST(a_message_that_has_a_dead_letter_is_not_sent_and_its_replay_is) /* B90 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].policy.retry.failures = 1;
    stage_open_once(&s);
    pr_id id = world_send(&s.w, "", "fail:1");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_look(&s, id).state, STATE_DEAD);
    world_send_again(&s.w, id, "e0", "", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK_EQ(stage_look(&s, id).state, STATE_DEAD); /* and nothing else is there */
    CHECK_EQ(all_counts(&s).duplicates, 1);
    world_find(&s.w, id)->m.payload = PR_STR("ok"); /* what is wrong with it was found */
    CHECK_EQ(stage_admin(&s, ADMIN_DEAD_REPLAY, id).changed, 1);
    stage_run(&s, PR_SECONDS(5));
    CHECK_EQ(stage_sends(&s, id), 2);
    stage_close(&s);
}

/* Nobody can keep two owners from sending at once: the mark decides whose end counts. */
TEST(of_two_instances_that_send_one_message_at_once_one_completes_it) /* B90 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.instances = 2;
    stage_open_once(&s);
    stage_run(&s, PR_SECONDS(40)); /* let the lanes spread */
    size_t both = 0;
    for (int i = 0; i < 20; i++) {
        pr_id id = world_send(&s.w, STREAM(i), "slow:300");
        world_send_again(&s.w, id, "e0", STREAM(100 + i), "slow:300");
        stage_run(&s, PR_SECONDS(3));
        both += stage_sends(&s, id) == 2;
        CHECK(is_gone(&s, id));
    }
    CHECK(both > 0); /* some were in lanes of both */
    CHECK_EQ(all_counts(&s).sent, 20);
    CHECK_EQ(all_counts(&s).duplicates, 20);
    stage_close(&s);
}

TEST(a_row_that_waits_for_another_of_its_message_goes_with_its_lane_and_with_an_order) /* B90 */
{
    struct stage s;
    stage_set(&s);
    stage_open_once(&s);
    pr_id id = world_send(&s.w, "a", "slow:5000");
    world_send_again(&s.w, id, "e0", "b", "ok");
    stage_run(&s, PR_SECONDS(1));
    pr_id other = world_send(&s.w, "b", "ok");
    CHECK_EQ(stage_admin_stream(&s, ADMIN_RETRY, "b").changed, 2); /* its rows are read anew */
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, id), 1);
    instance_crash(&s.w, &s.w.instances[0]); /* and started again: the first comes back, too */
    stage_run(&s, PR_MINUTES(1));
    CHECK(is_gone(&s, id));
    CHECK(stage_done(&s, other));
    CHECK_EQ(all_counts(&s).sent + all_counts(&s).duplicates, 3);
    stage_close(&s);
}

/* As a worker takes a whole box, and a handler all messages of a type: two recipients, and each has its message. */
TEST(rows_of_one_message_that_an_override_sends_to_one_endpoint_are_handled_for_each_destination) /* B92 */
{
    struct stage s;
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    s.scenario.override_to[0] = 0;
    s.scenario.overrides[0] = (struct route){ .to = s.scenario.override_to, .to_count = 1 };
    s.scenario.engine.override_count = 1;
    stage_open_once(&s);
    pr_id id = world_send(&s.w, "a", "slow:500"); /* of e0, by the override */
    world_send_again(&s.w, id, "e1", "b", "slow:500");
    stage_run(&s, PR_MILLISECONDS(400));
    CHECK_EQ(stage_sends(&s, id), 2); /* neither waits for the other */
    stage_run(&s, PR_SECONDS(2));
    CHECK(is_gone(&s, id));
    CHECK_EQ(all_counts(&s).sent, 2);
    CHECK_EQ(all_counts(&s).duplicates, 0);
    stage_close(&s);
}

TEST(what_moved_to_another_endpoint_and_comes_again_is_a_duplicate) /* B90 */
{
    static const struct rule_step steps[] = { { .step = STEP_DEAD_LETTER, .to = PR_STR("e1") } };
    static const struct rule rule = {
        .name = PR_STR("r"), .when = { .kind = MATCH_ALL }, .steps = steps, .step_count = 1
    };
    struct stage s;
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    s.scenario.endpoints[0].policy.own = &rule;
    s.scenario.endpoints[0].policy.own_count = 1;
    stage_open_once(&s);
    pr_id id = world_send_to(&s.w, "e0", "a", "fail:1");
    stage_run(&s, PR_MINUTES(1));
    CHECK(is_gone(&s, id));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK_EQ(all_counts(&s).sent, 1); /* what took its place, at e1 */
    world_send_again(&s.w, id, "e0", "b", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK_EQ(all_counts(&s).duplicates, 1);
    stage_close(&s);
}
