/* From the box to the endpoint: times, ends, routes, memory. */
#include "stage.h"

#include "base/slice.h"

static pr_id send_at(struct stage *s, int64_t due_us, int64_t expires_us, const char *payload)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.type = scenario_type(0);
    p->m.payload = pr_str(payload);
    p->m.due_us = due_us;
    p->m.expires_us = expires_us;
    p->delayed = due_us != 0;
    parcel_seal(&s->w, p);
    CHECK_EQ(world_store(&s->w, &p, 1), PR_OK);
    return p->m.id;
}

TEST(a_delayed_message_goes_out_when_it_is_due_by_the_stores_clock) /* B12, B25 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id id = send_at(&s, world_wall_us(&s.w) + PR_MINUTES(10), 0, "ok");
    stage_run(&s, PR_MINUTES(10) - PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, id), 0);
    stage_run(&s, PR_SECONDS(1) + s.scenario.engine.poll_us);
    CHECK_EQ(stage_sends(&s, id), 1);
    pr_id later = send_at(&s, world_wall_us(&s.w) + PR_MINUTES(60), 0, "ok");
    stage_run(&s, PR_MINUTES(1));
    world_step_clock(&s.w, PR_MINUTES(60)); /* somebody sets the clock forward: it is due */
    stage_run(&s, s.scenario.engine.lease_us);
    CHECK_EQ(stage_sends(&s, later), 1);
    stage_close(&s);
}

TEST(an_expired_message_is_not_sent_and_is_counted) /* B13 */
{
    struct stage s;
    struct engine_counts counts;
    stage_set(&s);
    stage_open(&s);
    pr_id late = send_at(&s, 0, world_wall_us(&s.w) - 1, "ok"),
          fine = send_at(&s, 0, world_wall_us(&s.w) + PR_MINUTES(1), "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, late), 0);
    CHECK_EQ(world_state(&s.w, late, (pr_slice){ 0 }), STATE_GONE);
    CHECK(stage_done(&s, fine));
    engine_counts(s.w.instances[0].engine, &counts);
    CHECK_EQ(counts.expired, 1);
    stage_close(&s);
}

TEST(a_stop_finishes_what_is_out_and_hands_back_the_rest_uncounted) /* B14 */
{
    struct stage s;
    pr_id ids[40];
    stage_set(&s);
    s.scenario.endpoints[0].concurrency = 8;
    stage_open(&s);
    for (int i = 0; i < 40; i++)
        ids[i] = world_send(&s.w, "", "slow:2000");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(s.count, 8);
    stage_stop(&s);
    CHECK(s.w.mono_us < PR_SECONDS(4)); /* within its limit */
    CHECK_EQ(s.count, 8);
    int gone = 0;
    for (int i = 0; i < 40; i++) {
        if (world_state(&s.w, ids[i], (pr_slice){ 0 }) == STATE_GONE)
            gone++;
        else
            CHECK_EQ(stage_look(&s, ids[i]).m.attempts, 0);
    }
    CHECK_EQ(gone, 8);
    stage_close(&s);
}

/* How many cycles it takes to send what an endpoint takes two of at once, and ends quickly. */
static uint64_t cycles_needed(bool ahead)
{
    struct stage s;
    struct engine_counts counts;
    stage_set(&s);
    s.scenario.endpoints[0].concurrency = 2;
    s.scenario.endpoints[0].ahead = ahead;
    stage_open(&s);
    s.w.cycle_us = PR_MILLISECONDS(5);
    for (int i = 0; i < 1000; i++)
        world_send(&s.w, "", "ok");
    stage_run(&s, PR_MINUTES(10));
    CHECK_EQ(s.count, 1000);
    engine_counts(s.w.instances[0].engine, &counts);
    stage_close(&s);
    return counts.cycles;
}

TEST(what_an_endpoint_ends_during_a_cycle_is_handed_out_before)
{
    CHECK(cycles_needed(true) * 3 < cycles_needed(false) * 2);
}

/* One batch is handled while the next one is announced. */
TEST(a_fast_endpoint_fills_whole_cycles)
{
    enum { BATCH = 50, MESSAGES = 4000 };
    struct stage s;
    struct engine_counts counts;
    stage_set(&s);
    s.scenario.engine.batch = BATCH;
    s.scenario.endpoints[0].concurrency = 8;
    s.scenario.endpoints[0].ahead = true;
    stage_open(&s);
    s.w.cycle_us = PR_MILLISECONDS(50);
    for (int i = 0; i < MESSAGES; i++)
        world_send(&s.w, "", "ok");
    stage_run(&s, PR_MINUTES(10));
    CHECK_EQ(s.count, MESSAGES);
    engine_counts(s.w.instances[0].engine, &counts);
    CHECK(counts.cycles < 3 * MESSAGES / BATCH); /* with one batch ahead there are more */
    stage_close(&s);
}

/* What is out will be gone soon: it does not count as work that is left. */
TEST(a_fast_endpoint_fills_whole_cycles_also_with_what_was_passed_over) /* B77 */
{
    enum { BATCH = 100, MESSAGES = 8000 };
    struct stage s;
    struct engine_counts before, after;
    stage_set(&s);
    s.scenario.engine.batch = BATCH;
    s.scenario.engine.window_count = 10 * BATCH;
    s.scenario.endpoints[0].concurrency = BATCH;
    s.scenario.endpoints[0].ahead = true;
    stage_endpoint(&s, ORDERING_FIFO);
    stage_open(&s);
    s.w.cycle_us = PR_MILLISECONDS(50);
    world_pause(&s.w, 0, PR_NEVER);
    for (int i = 0; i < MESSAGES; i++)
        world_send(&s.w, "", "ok");
    stage_run(&s, PR_SECONDS(5)); /* most of them find no room */
    CHECK_EQ(s.count, 0);
    world_resume(&s.w, 0);
    engine_counts(s.w.instances[0].engine, &before);
    while (s.count < MESSAGES)
        stage_run(&s, PR_MILLISECONDS(50));
    engine_counts(s.w.instances[0].engine, &after);
    CHECK(after.cycles - before.cycles < 3 * MESSAGES / BATCH / 2);
    stage_close(&s);
}

TEST(who_ends_nothing_gets_nothing_ahead)
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].concurrency = 8;
    s.scenario.endpoints[0].ahead = true;
    stage_open(&s);
    for (int i = 0; i < 40; i++)
        world_send(&s.w, "", "slow:2000");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(s.count, 8);
    stage_close(&s);
}

/* A slow endpoint always ends something between two cycles of its own; what was ahead would spend its time waiting. */
TEST(who_is_slow_gets_nothing_ahead_also_beside_one_that_is_fast)
{
    for (int beside = 0; beside < 2; beside++) {
        struct stage s;
        pr_id ids[10];
        stage_set(&s);
        s.scenario.endpoints[0].concurrency = 1;
        s.scenario.endpoints[0].ahead = true;
        struct endpoint_setting *other = stage_endpoint(&s, ORDERING_FIFO);
        other->concurrency = 4;
        other->ahead = false; /* busy all the time */
        stage_open(&s);
        s.w.cycle_us = PR_MILLISECONDS(5);
        for (int i = 0; i < 10; i++)
            ids[i] = world_send_to(&s.w, "e0", "", "slow:2000");
        for (int i = 0; i < 20000 && beside; i++)
            world_send_to(&s.w, "e1", "", "ok");
        stage_run(&s, PR_MINUTES(1));
        for (int i = 1; i < 10; i++)
            CHECK(stage_first_us(&s, ids[i]) - stage_first_us(&s, ids[i - 1]) >= PR_SECONDS(2));
        stage_close(&s);
    }
}

TEST(what_has_not_started_is_wanted_back_when_the_endpoint_is_paused_once) /* B63 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].ahead = true;
    stage_open(&s);
    world_send(&s.w, "", "slow:9000");
    stage_run(&s, PR_SECONDS(1));
    const unsigned *recalls = &s.w.instances[0].recalls[0];
    CHECK_EQ(*recalls, 0);
    world_pause(&s.w, 0, world_wall_us(&s.w) + PR_MINUTES(1));
    stage_run(&s, PR_SECONDS(2));
    CHECK_EQ(*recalls, 1);
    world_resume(&s.w, 0);
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(*recalls, 1);
    stage_close(&s);
}

TEST(the_window_is_never_exceeded_whatever_waits) /* B16 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.engine.window_count = 500;
    s.scenario.engine.batch = 100;
    s.scenario.check = false;
    stage_endpoint(&s, ORDERING_FIFO)->concurrency = 2; /* slow, and first in the box */
    stage_open(&s);
    s.w.quiet = true;
    for (int i = 0; i < 20000; i++)
        world_send_to(&s.w, i < 10000 ? "e1" : "e0", i % 4 == 0 ? STREAM(i % 100) : "", i < 10000 ? "slow:1000" : "ok");
    stage_run(&s, PR_SECONDS(120));
    CHECK(s.w.instances[0].window_count <= 500 + 64);
    size_t fast = 0;
    for (size_t i = 0; i < s.count; i++)
        fast += s.diary[i].endpoint == 0;
    CHECK_EQ(fast, 10000); /* the slow one did not take it all */
    stage_close(&s);
}

TEST(each_delivery_of_a_message_to_several_endpoints_lives_and_dies_on_its_own) /* B17 */
{
    struct stage s;
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO)->policy.retry.failures = 1;
    s.scenario.routes[0].to_count = 2;
    s.scenario.route_to[0][0] = 0;
    s.scenario.route_to[0][1] = 1;
    stage_open(&s);
    pr_id id = world_send(&s.w, "a", "fail:1"), next = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_MILLISECONDS(500));
    CHECK_EQ(world_state(&s.w, id, PR_STR("e0")), STATE_RETRYING);
    CHECK_EQ(world_state(&s.w, id, PR_STR("e1")), STATE_DEAD);
    instance_crash(&s.w, &s.w.instances[0]); /* also over a restart */
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(world_state(&s.w, id, PR_STR("e0")), STATE_GONE);
    CHECK_EQ(world_state(&s.w, id, PR_STR("e1")), STATE_DEAD);
    CHECK_EQ(world_state(&s.w, next, (pr_slice){ 0 }), STATE_GONE);
    stage_close(&s);
}

static void split_and_count(unsigned legs, bool on_sqlite)
{
    struct stage s;
    stage_set(&s);
    s.scenario.sqlite = on_sqlite;
    for (unsigned i = 1; i < legs; i++)
        stage_endpoint(&s, ORDERING_FIFO);
    s.scenario.routes[0].to_count = legs;
    for (unsigned i = 0; i < legs; i++)
        s.scenario.route_to[0][i] = i;
    stage_open(&s);
    enum { MESSAGES = 5 };
    pr_id ids[MESSAGES];
    for (size_t i = 0; i < MESSAGES; i++)
        ids[i] = world_send(&s.w, i % 2 == 0 ? "a" : "", "ok");
    stage_run(&s, PR_SECONDS(5));
    for (size_t i = 0; i < MESSAGES; i++) {
        unsigned had[SIM_ENDPOINTS_MAX] = { 0 };
        for (size_t k = 0; k < s.count; k++)
            had[s.diary[k].endpoint] += pr_id_equal(s.diary[k].id, ids[i]);
        for (unsigned k = 0; k < legs; k++)
            if (had[k] != 1)
                check_fail(__FILE__, __LINE__, "endpoint %u of %u had message %zu %u times", k, legs, i, had[k]);
        CHECK(stage_done(&s, ids[i]));
    }
    stage_close(&s);
}

TEST(a_message_to_several_endpoints_arrives_once_at_each_of_them) /* B17 */
{
    static const unsigned legs[] = { 1, 2, 3, 4, 20 };
    for (size_t i = 0; i < ARRAY_LENGTH(legs); i++)
        for (int on_sqlite = 0; on_sqlite < 2; on_sqlite++)
            split_and_count(legs[i], on_sqlite);
}

TEST(a_message_that_goes_nowhere_is_parked_and_goes_on_when_the_config_knows_it) /* B18 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    pr_id id = world_send_to(&s.w, "e1", "a", "ok"), other = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    struct listed parked = stage_look(&s, id);
    CHECK_EQ(parked.state, STATE_PARKED);
    CHECK_EQ(parked.m.reason, PR_REASON_DESTINATION_MISSING);
    CHECK_EQ(parked.m.attempts, 0);
    CHECK(stage_done(&s, other)); /* it holds up nobody */

    stage_stop(&s);
    stage_endpoint(&s, ORDERING_FIFO); /* the config knows it now */
    instance_start(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_SECONDS(5));
    CHECK(stage_done(&s, id));
    stage_close(&s);
}

TEST(a_paused_endpoint_sends_nothing_counts_nothing_and_holds_up_nobody_else) /* B63 */
{
    struct stage s;
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    world_pause(&s.w, 0, world_wall_us(&s.w) + PR_MINUTES(5));
    pr_id paused = world_send_to(&s.w, "e0", "a", "ok"), other = world_send_to(&s.w, "e1", "a", "ok");
    stage_run(&s, PR_MINUTES(4));
    CHECK_EQ(stage_sends(&s, paused), 0);
    CHECK_EQ(stage_look(&s, paused).m.attempts, 0);
    CHECK(stage_done(&s, other));
    stage_run(&s, PR_MINUTES(2));
    CHECK(stage_done(&s, paused));
    stage_close(&s);
}
