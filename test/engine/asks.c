/* Receivers that ask for messages of some types: types that no receiver asks for, or whose receivers are slow, delay no
 * others. */
#include "stage.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define WINDOW 400

static void asks_open(struct stage *s)
{
    stage_set(s);
    s->scenario.engine.window_count = WINDOW;
    stage_open(s);
    stage_run(s, PR_SECONDS(1));
}

static void ask(struct stage *s, const struct ask *asks, size_t count)
{
    struct instance *in = &s->w.instances[0];
    engine_set_asks(in->engine, 0, asks, count);
    instance_wake(in, s->w.mono_us);
}

static struct ask types(const char *types, size_t room)
{
    return (struct ask){ .types = slice_from(types), .present = true, .room = room };
}

static pr_id send_type(struct stage *s, unsigned type, const char *stream, const char *payload)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.type = scenario_type(type);
    p->m.stream = slice_from(stream);
    p->m.payload = pr_str(payload);
    parcel_seal(&s->w, p);
    CHECK_EQ(world_store(&s->w, &p, 1), PR_OK);
    return p->m.id;
}

static size_t sent_of(const struct stage *s, const pr_id *ids, size_t count)
{
    size_t sent = 0;
    for (size_t i = 0; i < count; i++)
        sent += stage_sends(s, ids[i]) > 0;
    return sent;
}

static size_t window_count(const struct stage *s)
{
    struct engine_counts counts;
    engine_counts(s->w.instances[0].engine, &counts);
    return counts.window_count;
}

/* With and without streams. */
static void backlog_is_in_nobodys_way(bool ordered)
{
    struct stage s;
    pr_id wanted[50];

    asks_open(&s);
    const struct ask asks[] = { { .present = false }, types("t1.*\n", 3) },
                     both[] = { asks[0], asks[1], types("t0.*\n", 3) };
    ask(&s, asks, 2);
    for (int i = 0; i < 2000; i++)
        send_type(&s, 0, ordered ? STREAM(i % 500) : "", "ok");
    for (int i = 0; i < 50; i++)
        wanted[i] = send_type(&s, 2, ordered ? STREAM(500 + i) : "", "ok");
    stage_run(&s, PR_SECONDS(20));
    CHECK_EQ(sent_of(&s, wanted, 50), 50);
    CHECK_EQ(s.count, 50);
    CHECK(window_count(&s) <= 64);
    pr_id later = send_type(&s, 2, "", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK(stage_done(&s, later));
    ask(&s, both, 3); /* now somebody comes for the others */
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(s.count, 2051);
    stage_close(&s);
}

TEST(what_nobody_asks_for_is_in_nobodys_way) /* B98 */
{
    backlog_is_in_nobodys_way(false);
    backlog_is_in_nobodys_way(true);
}

TEST(what_came_before_anybody_asked_for_types_is_in_nobodys_way) /* B98 */
{
    for (int ordered = 0; ordered < 2; ordered++) {
        struct stage s;
        pr_id wanted[20];

        asks_open(&s);
        const struct ask asks[] = { { .present = false }, types("t1.*\n", 3), types("t0.*\n", 3) };
        ask(&s, asks, 1);
        for (int i = 0; i < 2000; i++)
            send_type(&s, 0, ordered ? STREAM(i % 100) : "", "ok");
        for (int i = 0; i < 20; i++)
            wanted[i] = send_type(&s, 2, ordered ? STREAM(500 + i) : "", "ok");
        stage_run(&s, PR_SECONDS(5));
        CHECK_EQ(s.count, 0);
        CHECK(window_count(&s) > WINDOW / 3);
        ask(&s, asks, 2);
        stage_run(&s, PR_SECONDS(20));
        CHECK_EQ(sent_of(&s, wanted, 20), 20);
        CHECK_EQ(s.count, 20);
        ask(&s, asks, 3);
        stage_run(&s, PR_SECONDS(60));
        CHECK_EQ(s.count, 2020);
        stage_close(&s);
    }
}

TEST(a_slow_worker_with_a_backlog_keeps_nobody_waiting_who_asks_for_other_types) /* B98 */
{
    struct stage s;
    pr_id quick[300];

    asks_open(&s);
    const struct ask asks[] = { { .present = false }, types("t0.*\n", 1), types("t1.*\n", 5) };
    ask(&s, asks, 3);
    for (int i = 0; i < 3000; i++) {
        send_type(&s, 0, "", "slow:1000");
        if (i % 10 == 0)
            quick[i / 10] = send_type(&s, 2, "", "ok");
    }
    stage_run(&s, PR_SECONDS(20));
    CHECK_EQ(sent_of(&s, quick, 300), 300);
    CHECK(s.count - 300 >= 18 && s.count - 300 <= 22); /* the slow one, one after the other */
    stage_close(&s);
}

TEST(types_that_are_asked_for_differently_keep_the_order_of_their_stream) /* B98, B50 */
{
    struct stage s;
    pr_id ids[100];

    asks_open(&s);
    const struct ask one[] = { { .present = false }, types("t1.*\n", 5) };
    const struct ask two[] = { { .present = false }, one[1], types("t0.*\n", 5) };
    ask(&s, one, 2);
    for (int i = 0; i < 100; i++)
        ids[i] = send_type(&s, i % 3 == 0 ? 0 : 2, "s", "ok");
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(s.count, 0); /* the first one is nobody's, and the others stand behind it */
    ask(&s, two, 3);
    stage_run(&s, PR_SECONDS(30));
    CHECK_EQ(s.count, 100);
    for (size_t i = 0; i < 100; i++)
        CHECK(pr_id_equal(s.diary[i].id, ids[i]));
    stage_close(&s);
}

TEST(who_asks_for_all_types_gets_all_beside_others) /* B98 */
{
    struct stage s;

    asks_open(&s);
    const struct ask asks[] = { types("", 2), types("t1.*\n", 2) };
    ask(&s, asks, 2);
    for (int i = 0; i < 500; i++)
        send_type(&s, i % 2 == 0 ? 0 : 2, i % 3 == 0 ? STREAM(i % 20) : "", "ok");
    stage_run(&s, PR_SECONDS(20));
    CHECK_EQ(s.count, 500);
    stage_close(&s);
}

TEST(what_is_asked_for_by_type_goes_to_whoever_takes_it) /* B98 */
{
    struct stage s;

    asks_open(&s);
    const struct ask asks[] = { { .present = false }, types("t0.a\n", 3), types("t1.*\n", 2), types("*.a\n", 2) };
    ask(&s, asks, 4);
    for (int i = 0; i < 60; i++)
        send_type(&s, (unsigned)i % 4, "", "slow:60000");
    stage_run(&s, PR_SECONDS(2));
    size_t by_type[2] = { 0 };
    for (size_t i = 0; i < s.count; i++)
        by_type[stage_look(&s, s.diary[i].id).m.type.data[1] == '1']++;
    CHECK_EQ(s.count, 7); /* as many as are asked for */
    CHECK(by_type[0] >= 3 && by_type[1] >= 2);
    stage_close(&s);
}

/* Who takes all types can have the next message, whatever it is. */
TEST(what_few_ask_for_goes_to_them_and_leaves_room_where_all_types_are_taken) /* B98 */
{
    struct stage s;

    asks_open(&s);
    const struct ask asks[] = { types("", 1), types("t1.*\n", 1) };
    ask(&s, asks, 2);
    pr_id few = send_type(&s, 2, "", "slow:60000");
    stage_run(&s, PR_SECONDS(1));
    pr_id other = send_type(&s, 0, "", "slow:60000");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, few), 1);
    CHECK_EQ(stage_sends(&s, other), 1);
    stage_close(&s);
}

/* What is out at a slow worker blocks its streams; who stands behind it there must not fill the share of others. */
TEST(what_stands_behind_others_in_its_stream_takes_no_room_from_its_type) /* B98 */
{
    struct stage s;
    pr_id loose[20];

    asks_open(&s);
    const struct ask asks[] = { { .present = false }, types("t0.*\n", 200), types("t1.*\n", 5) };
    ask(&s, asks, 3);
    for (int i = 0; i < 64; i++)
        send_type(&s, 0, STREAM(i), "slow:19000");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(s.count, 64);
    for (int i = 0; i < 64; i++)
        send_type(&s, 2, STREAM(i), "ok");
    for (int i = 0; i < 20; i++)
        loose[i] = send_type(&s, 2, "", "ok");
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(sent_of(&s, loose, 20), 20);
    stage_run(&s, PR_MINUTES(5));
    CHECK_EQ(s.count, 148);
    stage_close(&s);
}

/* The same where both came in while nobody asked for types, and only then are of two sorts. */
TEST(what_stood_behind_other_types_before_anybody_asked_takes_no_room_from_its_type) /* B98 */
{
    struct stage s;
    pr_id loose[20];

    asks_open(&s);
    const struct ask asks[] = { { .present = false }, types("t0.*\n", 0), types("t1.*\n", 5) };
    ask(&s, asks, 1);
    for (int i = 0; i < 200; i++)
        send_type(&s, i % 2 == 0 ? 0 : 2, STREAM(i / 2), "ok");
    for (int i = 0; i < 20; i++)
        loose[i] = send_type(&s, 2, "", "ok");
    stage_run(&s, PR_SECONDS(2));
    CHECK_EQ(s.count, 0);
    CHECK(window_count(&s) > WINDOW / 3);
    ask(&s, asks, 3);
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(sent_of(&s, loose, 20), 20);
    CHECK_EQ(s.count, 20);
    stage_close(&s);
}

TEST(a_small_window_has_room_for_all_that_is_asked_for) /* B98 */
{
    struct stage s;
    pr_id wanted[20];

    stage_set(&s);
    s.scenario.engine.window_count = 60;
    stage_open(&s);
    stage_run(&s, PR_SECONDS(1));
    const struct ask asks[] = { { .present = false }, types("t0.*\n", 0), types("t1.*\n", 5) };
    ask(&s, asks, 3);
    for (int i = 0; i < 300; i++)
        send_type(&s, 0, "", "ok");
    for (int i = 0; i < 20; i++)
        wanted[i] = send_type(&s, 2, "", "ok");
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(sent_of(&s, wanted, 20), 20);
    stage_close(&s);
}

/* Of half of the streams the earlier message of another type is done, and what else of that type waits, and nobody takes any
 * more, is not in their way. */
TEST(a_stream_waits_for_its_own_messages_of_another_type_only) /* B98 */
{
    struct stage s;
    pr_id late[100];

    asks_open(&s);
    const struct ask all[] = { { .present = false }, types("t0.*\n", 5), types("t1.*\n", 5) };
    const struct ask one[] = { all[0], types("t0.*\n", 0), all[2] };
    ask(&s, one, 3);
    for (int i = 0; i < 600; i++)
        send_type(&s, 0, STREAM(i), "slow:50");
    stage_run(&s, PR_SECONDS(1));
    ask(&s, all, 3);
    stage_run(&s, PR_SECONDS(3));
    ask(&s, one, 3);
    stage_run(&s, PR_SECONDS(1));
    size_t done = s.count;
    CHECK(done >= 200 && done <= 400);
    for (int i = 0; i < 50; i++) {
        late[i] = send_type(&s, 2, STREAM(100 + i), "ok");
        late[50 + i] = send_type(&s, 2, STREAM(500 + i), "ok");
    }
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(sent_of(&s, late, 50), 50);
    CHECK_EQ(sent_of(&s, late + 50, 50), 0); /* one of its stream waits before it */
    ask(&s, all, 3);
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(s.count, 700);
    stage_close(&s);
}

TEST(a_long_stream_leaves_room_for_others_of_its_type) /* B98 */
{
    struct stage s;
    pr_id wanted[50];

    asks_open(&s);
    const struct ask asks[] = { { .present = false }, types("t1.*\n", 5) };
    ask(&s, asks, 2);
    for (int i = 0; i < 300; i++)
        send_type(&s, 2, "long", "slow:10000");
    for (int i = 0; i < 50; i++)
        wanted[i] = send_type(&s, 2, i % 2 == 0 ? "" : STREAM(i), "ok");
    stage_run(&s, PR_SECONDS(9));
    CHECK_EQ(sent_of(&s, wanted, 50), 50);
    stage_close(&s);
}

/* b1 fails, b2 is held behind it, a3 waits for a worker: 200 of such streams are hidden by what waits of the other type. */
TEST(streams_that_cannot_go_on_are_in_nobodys_way) /* B98 */
{
    struct stage s;
    pr_id second[200];

    asks_open(&s);
    s.scenario.endpoints[0].policy.retry =
        (struct retry_setting){ .base_us = PR_SECONDS(5), .factor = 1, .cap_us = PR_SECONDS(5), .failures = 5 };
    const struct ask asks[] = { { .present = false }, types("t0.*\n", 0), types("t1.*\n", 50) };
    ask(&s, asks, 3);
    for (int i = 0; i < 200; i++)
        send_type(&s, 0, "", "ok");
    for (int i = 0; i < 200; i++)
        send_type(&s, 2, STREAM(i), "fail:1");
    stage_run(&s, PR_SECONDS(2));
    for (int i = 0; i < 200; i++) {
        second[i] = send_type(&s, 2, STREAM(i), "ok");
        send_type(&s, 0, STREAM(i), "ok");
    }
    stage_run(&s, PR_SECONDS(20));
    CHECK_EQ(sent_of(&s, second, 200), 200);
    stage_close(&s);
}
