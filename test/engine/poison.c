/* Poison: hand-outs without an outcome. */
#include "stage.h"

#include "base/slice.h"

TEST(a_message_that_kills_its_process_is_sent_five_times_and_dead_at_the_sixth_hand_out) /* B40, B41, B45 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id guilty = world_send(&s.w, "a", "crash");
    stage_run(&s, PR_MINUTES(10));
    CHECK_EQ(stage_sends(&s, guilty), 5);
    struct listed dead = stage_look(&s, guilty);
    CHECK_EQ(dead.state, STATE_DEAD);
    CHECK_EQ(dead.cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(dead.m.attempts, 6);
    CHECK_EQ(dead.m.failures, 0);
    CHECK_EQ(dead.limit, 5);
    CHECK_SLICE(dead.m.payload, "crash");
    CHECK_SLICE(dead.rule, "poison");
    stage_run(&s, PR_MINUTES(60)); /* never again */
    CHECK_EQ(stage_sends(&s, guilty), 5);
    stage_close(&s);
}

TEST(one_that_kills_among_a_thousand_good_ones_is_the_only_one_to_die) /* B42, B46 */
{
    struct stage s;
    pr_id good[1000];
    stage_set(&s);
    s.scenario.check = false;
    stage_open(&s);
    pr_id guilty = { { 0 } };
    for (int i = 0; i < 1000; i++) {
        if (i == 500)
            guilty = world_send(&s.w, "", "crash");
        good[i] = world_send(&s.w, i % 3 == 0 ? STREAM(i % 50) : "", "slow:5");
    }
    stage_run(&s, PR_MINUTES(30));
    for (int i = 0; i < 1000; i++) {
        CHECK(world_deliveries(&s.w, good[i]) > 0);
        CHECK_EQ(world_state(&s.w, good[i], (pr_slice){ 0 }), STATE_GONE);
    }
    CHECK_EQ(stage_look(&s, guilty).state, STATE_DEAD);
    CHECK_EQ(stage_sends(&s, guilty), 5);
    stage_close(&s);
}

/* When the last of 5,000 good messages was sent, each of which takes 5 ms; the poison is sent first, so
 * that all of its attempts fall into that time. */
static int64_t drained_us(const char *poison, int *ret_attempts)
{
    struct stage s;
    stage_set(&s);
    s.scenario.check = false;
    s.scenario.endpoints[0].policy.retry = (struct retry_setting){
        .base_us = PR_MILLISECONDS(5), .factor = 1, .cap_us = PR_MILLISECONDS(5), .failures = 5
    };
    stage_open(&s);
    pr_id guilty = poison != NULL ? world_send(&s.w, "poison", poison) : (pr_id){ { 0 } };
    int64_t last = 0;
    for (int i = 0; i < 5000; i++)
        world_send(&s.w, STREAM(i % 100), "slow:5");
    stage_run(&s, PR_MINUTES(1));
    for (size_t i = 0; i < s.count; i++)
        if (!slice_eq_cstr(s.diary[i].stream, "poison") && s.diary[i].at_us > last)
            last = s.diary[i].at_us;
    if (ret_attempts != NULL) {
        CHECK_EQ(stage_look(&s, guilty).state, STATE_DEAD);
        *ret_attempts = stage_look(&s, guilty).m.attempts;
    }
    stage_close(&s);
    return last;
}

TEST(a_message_that_always_fails_takes_no_throughput_from_the_others) /* B43; the bench measures it in real time */
{
    int attempts = 0;
    int64_t without = drained_us(NULL, NULL), with = drained_us("fail", &attempts);
    CHECK_EQ(attempts, 5);
    CHECK(without > PR_MILLISECONDS(200)); /* 50 after one another in each stream */
    CHECK(with <= without + without / 50);
}

TEST(suspects_go_out_in_shrinking_company) /* B42 */
{
    struct suspect_limit c = { 0 };
    for (int i = 0; i < 100; i++)
        CHECK(suspect_limit_enter(&c, 1)); /* no limit at 1 */
    CHECK(!suspect_limit_enter(&c, 2));
    for (int i = 0; i < 100; i++)
        suspect_limit_leave(&c, 1);
    for (int i = 0; i < 64; i++)
        CHECK(suspect_limit_enter(&c, 2));
    CHECK(!suspect_limit_enter(&c, 0)); /* how many suspects are out at once is limited */
    for (int i = 0; i < 57; i++)
        suspect_limit_leave(&c, 2);
    CHECK(suspect_limit_enter(&c, 3));
    CHECK(!suspect_limit_enter(&c, 3));
    for (int i = 0; i < 7; i++)
        suspect_limit_leave(&c, 2);
    suspect_limit_leave(&c, 3);
    CHECK(suspect_limit_enter(&c, 4));
    CHECK(!suspect_limit_enter(&c, 0));
    suspect_limit_leave(&c, 4);
    suspect_limit_wait(&c);
    CHECK(!suspect_limit_enter(&c, 0)); /* a suspect goes first */
    CHECK(suspect_limit_enter(&c, 4));
    suspect_limit_wait_over(&c);
}

TEST(a_stop_hands_back_and_counts_nothing_a_crash_counts_one) /* B14, B44, B46 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id out = world_send(&s.w, "a", "slow:19000"), waiting = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_MILLISECONDS(100));
    CHECK_EQ(stage_sends(&s, out), 1);
    instance_crash(&s.w, &s.w.instances[0]);
    instance_start(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_SECONDS(16)); /* the lease of the dead one ends */
    CHECK_EQ(stage_look(&s, out).m.attempts, 1);
    CHECK_EQ(stage_look(&s, waiting).m.attempts, 0); /* it was merely read */
    stage_run(&s, PR_SECONDS(30));
    CHECK(stage_done(&s, out));
    CHECK(stage_done(&s, waiting));
    stage_close(&s);
}

/* "back" is handed back by its worker after a moment, the other one is out for long. */
static void release_after_a_moment(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    (void)w, (void)endpoint;
    *f = (struct fate){ .outcome = SEND_OK, .arrives = true, .answer_us = PR_MINUTES(10) };
    if (slice_eq_cstr(d->message->payload, "back"))
        *f = (struct fate){ .outcome = SEND_RELEASED, .answer_us = PR_MILLISECONDS(200) };
}

TEST(a_message_that_was_released_is_not_counted_when_its_instance_dies_with_others_of_its_receipt) /* B41, B55 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    s.w.judge = release_after_a_moment;
    world_pause(&s.w, 0, PR_NEVER);
    pr_id back = world_send(&s.w, "", "back"), stays = world_send(&s.w, "", "stays");
    world_run_for(&s.w, PR_SECONDS(1));
    world_resume(&s.w, 0); /* both are on one receipt */
    world_run_for(&s.w, PR_MILLISECONDS(100));
    world_pause(&s.w, 0, PR_NEVER);
    world_run_for(&s.w, PR_SECONDS(1));
    instance_crash(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(stage_look(&s, stays).m.attempts, 1);
    CHECK_EQ(stage_look(&s, back).m.attempts, 0);
    stage_close(&s);
}
