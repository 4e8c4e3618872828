/* Streams: order, failed heads, held followers. */
#include "stage.h"

#include "base/slice.h"

/* In the diary, is every first send of a stream later than the first sends before it? */
static void check_order(struct stage *s, const pr_id *ids, size_t count)
{
    for (size_t i = 1; i < count; i++)
        CHECK(stage_first_us(s, ids[i - 1]) <= stage_first_us(s, ids[i]));
}

TEST(a_stream_goes_one_at_a_time_and_in_order_over_all_instances) /* B50, B26 */
{
    struct stage s;
    pr_id ids[20][10];
    stage_set(&s);
    s.scenario.instances = 3;
    stage_open(&s);
    stage_run(&s, PR_SECONDS(20)); /* let the lanes spread */
    for (int n = 0; n < 10; n++)
        for (int k = 0; k < 20; k++)
            ids[k][n] = world_send(&s.w, STREAM(k), "slow:30");
    stage_run(&s, PR_SECONDS(60));
    for (int k = 0; k < 20; k++)
        for (int n = 0; n < 10; n++) {
            CHECK(stage_done(&s, ids[k][n]));
            CHECK_EQ(stage_sends(&s, ids[k][n]), 1);
            if (n > 0) /* the one before had its answer: nothing overlaps */
                CHECK(stage_first_us(&s, ids[k][n]) >= stage_first_us(&s, ids[k][n - 1]) + PR_MILLISECONDS(30));
        }
    stage_close(&s);
}

TEST(followers_wait_while_the_head_waits_for_its_retry_and_other_streams_do_not) /* B51 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id head = world_send(&s.w, "a", "fail:2"), follower = world_send(&s.w, "a", "ok"),
          other = world_send(&s.w, "b", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK(stage_done(&s, other));
    CHECK_EQ(stage_sends(&s, follower), 0);
    CHECK_EQ(stage_look(&s, follower).state, STATE_HELD);
    stage_run(&s, PR_SECONDS(10)); /* retries after 2 and 4 s */
    CHECK(stage_done(&s, head));
    CHECK(stage_done(&s, follower));
    CHECK(stage_send(&s, head, 3)->at_us < stage_first_us(&s, follower));
    stage_close(&s);
}

TEST(when_the_head_is_dead_or_discarded_the_followers_go_on_in_order) /* B52 */
{
    struct stage s;
    pr_id followers[5];
    stage_set(&s);
    stage_open(&s);
    pr_id head = world_send(&s.w, "a", "fail");
    for (int i = 0; i < 5; i++)
        followers[i] = world_send(&s.w, "a", i == 2 ? "fail" : "ok");
    stage_run(&s, PR_SECONDS(29)); /* 2 + 4 + 8 + 16 = 30: not yet */
    CHECK_EQ(stage_sends(&s, followers[0]), 0);
    stage_run(&s, PR_SECONDS(2));
    CHECK_EQ(world_state(&s.w, head, (pr_slice){ 0 }), STATE_DEAD);
    CHECK(stage_done(&s, followers[1]));
    stage_admin(&s, ADMIN_DISCARD, followers[2]);
    stage_run(&s, PR_SECONDS(1));
    CHECK(stage_done(&s, followers[4]));
    check_order(&s, followers, 5);
    stage_close(&s);
}

TEST(strict_followers_wait_behind_a_dead_head_until_it_is_replayed_and_it_goes_first) /* B53, B59 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].ordering = ORDERING_STRICT;
    s.scenario.endpoints[0].policy.retry.failures = 1;
    stage_open(&s);
    pr_id head = world_send(&s.w, "a", "fail:1"), follower = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(world_state(&s.w, head, (pr_slice){ 0 }), STATE_DEAD);
    CHECK_EQ(stage_sends(&s, follower), 0);

    instance_crash(&s.w, &s.w.instances[0]); /* also over a restart */
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(stage_sends(&s, follower), 0);

    world_find(&s.w, head)->m.payload = PR_STR("ok");
    s.scenario.endpoints[0].policy.retry.failures = 5;
    CHECK_EQ(stage_admin(&s, ADMIN_DEAD_REPLAY, head).changed, 1);
    stage_run(&s, PR_SECONDS(60));
    CHECK(stage_done(&s, head));
    CHECK(stage_done(&s, follower));
    CHECK(stage_send(&s, head, (unsigned)stage_sends(&s, head))->at_us < stage_first_us(&s, follower));
    stage_close(&s);
}

TEST(strict_followers_go_on_when_the_dead_head_is_discarded) /* B53 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].ordering = ORDERING_STRICT;
    s.scenario.endpoints[0].policy.retry.failures = 1;
    stage_open(&s);
    pr_id head = world_send(&s.w, "a", "fail"), follower = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(stage_sends(&s, follower), 0);
    CHECK_EQ(stage_admin(&s, ADMIN_DEAD_DISCARD, head).changed, 1);
    stage_run(&s, PR_SECONDS(10));
    CHECK(stage_done(&s, follower));
    stage_close(&s);
}

TEST(available_followers_go_on_at_once_and_the_head_retries_on_its_own) /* B54 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].ordering = ORDERING_AVAILABLE;
    stage_open(&s);
    pr_id head = world_send(&s.w, "a", "fail:1"), follower = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK(stage_done(&s, follower));
    CHECK_EQ(world_state(&s.w, head, (pr_slice){ 0 }), STATE_RETRYING);
    stage_run(&s, PR_SECONDS(2));
    CHECK(stage_done(&s, head));
    stage_close(&s);
}

TEST(released_followers_overtake_and_the_head_keeps_its_schedule) /* B55 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id head = world_send(&s.w, "a", "fail:1"), one = world_send(&s.w, "a", "ok"), two = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    int64_t due_us = stage_look(&s, head).m.due_us;
    CHECK_EQ(stage_admin_stream(&s, ADMIN_RELEASE, "a").changed, 2);
    stage_run(&s, PR_MILLISECONDS(500));
    CHECK(stage_done(&s, one));
    CHECK(stage_done(&s, two));
    CHECK(stage_first_us(&s, one) < stage_first_us(&s, two));
    CHECK_EQ(stage_look(&s, head).m.due_us, due_us);
    CHECK_EQ(stage_look(&s, head).m.failures, 1);
    stage_run(&s, PR_SECONDS(2));
    CHECK(stage_done(&s, head));
    stage_close(&s);
}

TEST(a_message_delayed_by_its_sender_does_not_block_its_stream) /* B56 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    struct parcel *late = world_parcel(&s.w);
    late->m.type = scenario_type(0);
    late->m.stream = PR_STR("a");
    late->m.due_us = world_wall_us(&s.w) + PR_SECONDS(60);
    late->delayed = true;
    parcel_seal(&s.w, late);
    CHECK_EQ(world_store(&s.w, &late, 1), PR_OK);
    pr_id next = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK(stage_done(&s, next));
    stage_run(&s, PR_SECONDS(60));
    CHECK(stage_done(&s, late->m.id));
    stage_close(&s);
}

/* Somebody tried to send it before it was stored. */
static pr_id store_failed(struct stage *s, const char *stream, int64_t due_us)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.type = scenario_type(0);
    p->m.destination = PR_STR("e0");
    p->m.stream = pr_str(stream);
    p->m.payload = PR_STR("ok");
    p->m.due_us = due_us;
    parcel_seal(&s->w, p);
    struct pr_message failed = p->m;
    failed.status = PR_STATUS_FAILED;
    failed.attempts = failed.failures = 2;
    failed.reason = PR_REASON_REJECTED;
    CHECK_EQ(store_enqueue_failed(&s->w.store, PR_STR("outbox"), &failed, 1, PR_PAYLOAD_MAX, NULL, NULL, NULL), PR_OK);
    parcel_stored(&s->w, p);
    return p->m.id;
}

TEST(a_stream_also_waits_for_one_that_failed_before_it_was_stored) /* B51, B53, B54 */
{
    static const enum ordering orderings[] = { ORDERING_FIFO, ORDERING_STRICT, ORDERING_AVAILABLE };
    struct stage s;
    for (int i = 0; i < 6; i++) {
        bool parked = i >= 3,
             waits = orderings[i % 3] == ORDERING_STRICT || (orderings[i % 3] == ORDERING_FIFO && !parked);
        stage_set(&s);
        s.scenario.endpoints[0].ordering = orderings[i % 3];
        s.scenario.instances = 2;
        stage_open(&s);
        stage_run(&s, PR_SECONDS(20)); /* whoever has the lane has read it */
        pr_id before = world_send(&s.w, "a", "slow:100");
        stage_run(&s, PR_MILLISECONDS(50));
        pr_id head = store_failed(&s, "a", parked ? PR_NEVER : world_wall_us(&s.w) + PR_SECONDS(5)),
              next = world_send(&s.w, "a", "ok");
        stage_run(&s, PR_SECONDS(1));
        CHECK(stage_done(&s, before));
        CHECK_EQ(stage_done(&s, next), !waits);
        if (parked)
            stage_admin(&s, ADMIN_RETRY, head);
        stage_run(&s, PR_SECONDS(10));
        CHECK(stage_done(&s, head));
        CHECK(stage_done(&s, next));
        CHECK(!waits || stage_first_us(&s, head) < stage_first_us(&s, next));
        if (!parked)
            CHECK_EQ(stage_send(&s, head, 1)->attempt, 3);
        stage_close(&s);
    }
}

static bool notice_is_late;

/* On a server a cycle may read a row that was stored after it had looked for notices. */
static void watch_notices(struct world *w, struct instance *in, const struct cycle *cycle,
                          const struct cycle_reply *reply)
{
    struct cycle_reply *r = (struct cycle_reply *)(uintptr_t)reply;
    (void)w;
    (void)in;
    if (!notice_is_late || r->notice_count == 0)
        return;
    notice_is_late = false;
    r->notice_count = 0;
    r->notice_last = cycle->notice_after;
    if (r->started == STARTED_ALL)
        r->started = STARTED_UNKNOWN; /* a store that overlooks a notice starts nothing */
}

TEST(who_hears_late_of_one_that_failed_hands_back_what_it_has_announced) /* B51 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    notice_is_late = true;
    s.w.watch = watch_notices;
    pr_id head = store_failed(&s, "a", world_wall_us(&s.w) + PR_SECONDS(5)), next = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK(!notice_is_late);
    CHECK_EQ(stage_sends(&s, next), 0);
    CHECK_EQ(stage_look(&s, next).m.attempts, 0);
    stage_run(&s, PR_SECONDS(10));
    CHECK(stage_first_us(&s, head) < stage_first_us(&s, next));
    stage_close(&s);
}

TEST(one_busy_stream_cannot_starve_the_others) /* B58 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.engine.window_count = 200;
    s.scenario.engine.batch = 50;
    s.scenario.check = false;
    stage_open(&s);
    pr_id busy[2000];
    for (int i = 0; i < 2000; i++)
        busy[i] = world_send(&s.w, "busy", "ok");
    pr_id other = world_send(&s.w, "other", "ok");
    stage_run(&s, PR_SECONDS(60));
    CHECK(stage_done(&s, other));
    size_t before = 0;
    while (!pr_id_equal(s.diary[before].id, other))
        before++;
    CHECK(before < 400); /* it stood behind 2,000 */
    CHECK_EQ(s.count, 2001);
    for (size_t i = 0, n = 0; i < s.count; i++) /* and the busy one kept its order */
        if (i != before)
            CHECK(pr_id_equal(s.diary[i].id, busy[n++]));
    stage_close(&s);
}

TEST(what_is_stuck_behind_failed_heads_is_not_read_again_and_again) /* B57 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].policy.retry =
        (struct retry_setting){ .base_us = PR_MINUTES(60), .factor = 1, .failures = 5 };
    s.scenario.check = false;
    stage_open(&s);
    for (int i = 0; i < 3000; i++)
        world_send(&s.w, i % 2 == 0 ? "stuck-1" : "stuck-2", i < 2 ? "fail" : "ok");
    stage_run(&s, PR_SECONDS(30));
    uint64_t read_before = s.w.rows_read;
    for (int i = 0; i < 1000; i++)
        world_send(&s.w, STREAM(i), "ok");
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(s.count, 1002);
    CHECK(s.w.rows_read - read_before < 1100); /* not 4,000 and more */
    stage_close(&s);
}
