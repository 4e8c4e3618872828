/* More than fits waits for one endpoint while the others continue: messages to several endpoints are one row for each,
 * and those of the one that takes nothing must cost neither memory nor time. */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/slice.h"

#define WINDOW 500
#define BATCH 100
#define CROWD 20000
#define STREAMS 5000

static bool down;
static int refused; /* attempts while it is down */

/* The second endpoint takes nothing while it is down. */
static void judge(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    struct stage *s = w->user;

    (void)d;
    *f = (struct fate){ .outcome = SEND_OK, .arrives = true, .answer_us = PR_MILLISECONDS(1) };
    if (!down || endpoint != 1) {
        s->count++;
        return;
    }
    *f = (struct fate){ .outcome = SEND_FAILED,
                        .reason = PR_REASON_TRANSPORT_UNAVAILABLE,
                        .answer_us = PR_MILLISECONDS(1) };
    refused++;
}

static void route_to_both(struct stage *s)
{
    s->scenario.routes[0].to_count = 2;
    s->scenario.route_to[0][0] = 0;
    s->scenario.route_to[0][1] = 1;
}

static void open_small(struct stage *s)
{
    stage_set(s);
    s->scenario.engine.window_count = WINDOW;
    s->scenario.engine.batch = BATCH;
    s->scenario.check = false;
    stage_endpoint(s, ORDERING_FIFO)->breaker =
        (struct breaker_setting){ .enabled = true, .after = 3, .open_us = PR_SECONDS(30), .cap_us = PR_MINUTES(5) };
    route_to_both(s);
    stage_open(s);
    s->w.quiet = true;
    s->w.judge = judge;
    down = true;
}

/* A quarter of them without a stream. */
static void send_crowd(struct stage *s)
{
    char name[16];

    for (int i = 0; i < CROWD; i++) {
        snprintf(name, sizeof(name), "s%d", i % STREAMS);
        world_send(&s->w, i % 4 == 3 ? "" : name, "ok");
    }
}

/* Nothing but what is in the window, and what failed when the endpoint went down. */
static void check_memory(const struct stage *s)
{
    CHECK(s->w.instances[0].window_count <= WINDOW + 3 * BATCH);
    CHECK(s->w.instances[0].places <= 2 * (WINDOW + 3 * BATCH));
    CHECK(s->w.instances[0].window_count > 0);
}

static void live_through(bool paused)
{
    struct stage s;
    uint64_t read;

    open_small(&s);
    if (paused)
        world_pause(&s.w, 1, PR_NEVER);
    send_crowd(&s);
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(s.count, CROWD); /* the other one has all */
    check_memory(&s);
    CHECK(s.w.rows_read < CROWD + CROWD / 2); /* what waits is not read again and again */

    read = s.w.rows_read;
    stage_run(&s, PR_MINUTES(10));
    CHECK(s.w.rows_read - read < 1000);

    instance_crash(&s.w, &s.w.instances[0]); /* nor by one who begins anew */
    s.w.instances[0].places = s.w.instances[0].window_count = 0;
    read = s.w.rows_read;
    stage_run(&s, PR_MINUTES(10));
    CHECK(s.w.rows_read - read < 1000 + 10 * WINDOW);
    check_memory(&s);

    down = false;
    world_resume(&s.w, 1);
    stage_run(&s, PR_MINUTES(10));
    CHECK_EQ(s.count, 2 * CROWD);
    CHECK(s.w.rows_read < 3 * CROWD);
    check_memory(&s);
    stage_close(&s);
}

TEST(what_waits_for_a_paused_endpoint_takes_neither_memory_nor_time) /* B16, B63 */
{
    live_through(true);
}

TEST(what_waits_for_an_endpoint_that_is_down_takes_neither_memory_nor_time) /* B16, B72 */
{
    live_through(false);
}

/* ---- In order ------------------------------------------------------------------------------------------- */

/* First sends of a stream to this endpoint, in the order in which they were stored. */
static size_t check_order(const struct stage *s, unsigned endpoint, const pr_id *ids, size_t count)
{
    size_t sends = 0, next[10] = { 0 };

    for (size_t i = 0; i < s->count; i++) {
        const struct note *note = &s->diary[i];
        size_t stream, n;
        if (note->endpoint != endpoint)
            continue;
        stream = (size_t)(note->stream.data[3] - '0');
        for (n = next[stream]; n < count && !(n % 10 == stream && pr_id_equal(ids[n], note->id)); n++)
            CHECK(endpoint != 1 || n % 10 != stream); /* nobody was left out before it */
        CHECK(n < count);
        next[stream] = n + 1;
        sends++;
    }
    return sends;
}

/* Some go to both endpoints, some only to the one that is paused: all of a stream in one order. */
TEST(parts_and_whole_messages_of_a_stream_stay_in_order_behind_an_endpoint_that_is_behind) /* B50, B51 */
{
    static pr_id ids[1200];
    struct stage s;

    for (int crash = 0; crash < 2; crash++) {
        stage_set(&s);
        s.scenario.engine.window_count = 100;
        s.scenario.engine.batch = 20;
        s.scenario.instances = crash ? 2 : 1; /* and lanes change hands */
        stage_endpoint(&s, ORDERING_FIFO);
        route_to_both(&s);
        stage_open(&s);
        for (int i = 0; i < 1200; i++) {
            if (i == 200)
                world_pause(&s.w, 1, PR_NEVER);
            ids[i] =
                i % 3 == 0 ? world_send_to(&s.w, "e1", STREAM(i % 10), "ok") : world_send(&s.w, STREAM(i % 10), "ok");
            if (i % 50 == 0)
                stage_run(&s, PR_MILLISECONDS(20));
            if (crash && i % 300 == 299)
                instance_crash(&s.w, &s.w.instances[i / 300 % 2]);
        }
        stage_run(&s, PR_SECONDS(20));
        world_resume(&s.w, 1);
        stage_run(&s, PR_SECONDS(60));
        CHECK(check_order(&s, 1, ids, 1200) >= 1200);
        CHECK(check_order(&s, 0, ids, 1200) >= 800);
        stage_close(&s);
    }
}

/* Its followers are held by the stream, wherever they come from, and others go on. */
TEST(parts_behind_a_failed_head_wait_in_the_store_and_go_on_in_order) /* B51, B52, B57 */
{
    struct stage s;
    pr_id ids[300];

    stage_set(&s);
    s.scenario.engine.window_count = 100;
    s.scenario.engine.batch = 20;
    stage_endpoint(&s, ORDERING_FIFO);
    route_to_both(&s);
    stage_open(&s);
    s.scenario.endpoints[0].policy.retry = s.scenario.endpoints[1].policy.retry =
        (struct retry_setting){ .base_us = PR_MINUTES(10), .factor = 1, .cap_us = PR_MINUTES(10), .failures = 5 };
    ids[0] = world_send(&s.w, "x", "fail:1");
    for (int i = 1; i < 300; i++)
        ids[i] = world_send(&s.w, i % 2 == 0 ? "x" : STREAM(i), "ok");
    stage_run(&s, PR_SECONDS(20));
    CHECK_EQ(s.count, 2 + 300);
    CHECK(s.w.instances[0].places < 300);
    CHECK_EQ(world_state(&s.w, ids[2], PR_STR("e1")), STATE_HELD);
    stage_run(&s, PR_MINUTES(15));
    CHECK_EQ(s.count, 2 + 600);
    for (int i = 4; i < 300; i += 2)
        CHECK(stage_first_us(&s, ids[i - 2]) < stage_first_us(&s, ids[i]));
    stage_close(&s);
}

/* ---- An endpoint that fails at once -------------------------------------------------------------------------- */

#define STORM 20000
#define HEALTHY 32

/* It always has a little room, since what fails leaves at once and comes back: it must not set the pace of the scan. */
TEST(what_fails_at_once_and_has_no_breaker_does_not_hold_up_a_healthy_endpoint) /* B77 */
{
    struct stage s;
    pr_id ids[HEALTHY];

    stage_set(&s);
    s.scenario.engine.window_count = WINDOW;
    s.scenario.engine.batch = BATCH;
    s.scenario.check = false;
    stage_endpoint(&s, ORDERING_FIFO)->breaker = (struct breaker_setting){ .enabled = false };
    s.scenario.endpoints[1].concurrency = 10;
    s.scenario.endpoints[1].policy.retry =
        (struct retry_setting){ .base_us = PR_SECONDS(1), .factor = 2, .failures = 100 };
    stage_open(&s);
    s.w.quiet = true;
    s.w.judge = judge;
    s.w.cycle_us = PR_MILLISECONDS(2);
    down = true;
    for (int i = 0; i < STORM; i++)
        world_send_to(&s.w, "e1", "", "ok");
    for (int i = 0; i < HEALTHY; i++)
        ids[i] = world_send_to(&s.w, "e0", "", "ok");
    stage_run(&s, PR_SECONDS(2)); /* all of the storm is read once */
    for (int i = 0; i < HEALTHY; i++)
        CHECK(stage_done(&s, ids[i]));

    for (int i = 0; i < HEALTHY; i++)
        ids[i] = world_send_to(&s.w, "e0", "", "ok");
    stage_run(&s, PR_SECONDS(1));
    for (int i = 0; i < HEALTHY; i++)
        CHECK(stage_done(&s, ids[i]));
    stage_close(&s);
}

#define LONG_STORM 100000

/* A row that is told takes a place in a reply: so many of them would be 250 looks.  By its destination, and by its type. */
TEST(a_backlog_without_room_is_left_out_of_what_is_told) /* B77, T7 */
{
    for (int by_type = 0; by_type < 2; by_type++) {
        struct stage s;
        struct engine_counts before, after;

        stage_set(&s);
        s.scenario.engine.window_count = WINDOW;
        s.scenario.engine.batch = BATCH;
        s.scenario.check = false;
        stage_endpoint(&s, ORDERING_FIFO)->breaker = (struct breaker_setting){ .enabled = false };
        s.scenario.endpoints[1].policy.retry =
            (struct retry_setting){ .base_us = PR_MINUTES(10), .factor = 1, .failures = 100 };
        s.scenario.route_to[0][0] = 1;
        stage_open(&s);
        s.w.quiet = true;
        s.w.judge = judge;
        s.w.cycle_us = PR_MILLISECONDS(2);
        down = true;
        for (int i = 0; i < LONG_STORM; i++)
            world_send_to(&s.w, by_type ? "" : "e1", "", "ok");
        pr_id healthy = world_send_to(&s.w, "e0", "", "ok");
        engine_counts(s.w.instances[0].engine, &before);
        while (!stage_done(&s, healthy))
            stage_run(&s, PR_MILLISECONDS(50));
        engine_counts(s.w.instances[0].engine, &after);
        CHECK(after.cycles - before.cycles < 200);
        CHECK(s.w.mono_us < PR_SECONDS(1));
        down = false; /* and nothing that was left out is forgotten */
        stage_run(&s, PR_MINUTES(30));
        CHECK_EQ(s.count, LONG_STORM + 1);
        stage_close(&s);
    }
}

static pr_id send_from(struct stage *s, const char *destination, unsigned type, unsigned source)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.destination = slice_from(destination);
    p->m.type = scenario_type(type);
    p->m.source = scenario_source(source);
    p->m.payload = PR_STR("ok");
    parcel_seal(&s->w, p);
    CHECK_EQ(world_store(&s->w, &p, 1), PR_OK);
    return p->m.id;
}

/* What a backlog has the store leave out must not be what goes to another endpoint: by the source of the message, or by an
 * override. */
TEST(what_is_left_out_for_one_endpoint_is_nothing_that_goes_to_another) /* B77, T7 */
{
    for (int by_override = 0; by_override < 2; by_override++) {
        struct stage s;

        stage_set(&s);
        s.scenario.engine.window_count = WINDOW;
        s.scenario.engine.batch = BATCH;
        s.scenario.check = false;
        stage_endpoint(&s, ORDERING_FIFO)->breaker = (struct breaker_setting){ .enabled = false };
        s.scenario.endpoints[1].policy.retry =
            (struct retry_setting){ .base_us = PR_MINUTES(10), .factor = 1, .failures = 100 };
        s.scenario.engine.route_count = 2; /* types are all the same, and sources say where */
        s.scenario.routes[0] =
            (struct route){ .source = PR_STR("shop/*"), .to = s.scenario.route_to[0], .to_count = 1 };
        s.scenario.routes[1] = (struct route){ .source = PR_STR("plant"), .to = s.scenario.route_to[1], .to_count = 1 };
        s.scenario.route_to[0][0] = 1;
        s.scenario.engine.override_count = (size_t)by_override;
        s.scenario.overrides[0] = (struct route){ .type = PR_STR("t1.*"), .to = s.scenario.override_to, .to_count = 1 };
        stage_open(&s);
        s.w.quiet = true;
        s.w.judge = judge;
        s.w.cycle_us = PR_MILLISECONDS(2);
        down = true;
        refused = 0;
        for (int i = 0; i < CROWD; i++)
            send_from(&s, by_override ? "e1" : "", 0, 1);
        stage_run(&s, PR_MILLISECONDS(50));
        pr_id other = by_override ? send_from(&s, "e1", 2, 1) : send_from(&s, "", 0, 3);
        stage_run(&s, PR_MILLISECONDS(200));
        CHECK(refused < CROWD / 2); /* the others still wait */
        CHECK(stage_done(&s, other));
        stage_close(&s);
    }
}

/* ---- An endpoint that is gone ------------------------------------------------------------------------------ */

TEST(what_was_held_for_an_endpoint_that_is_gone_is_parked_soon_also_for_many_streams) /* B18 */
{
    struct stage s;
    char name[16];
    pr_id ids[900];

    stage_set(&s);
    s.scenario.check = false;
    stage_endpoint(&s, ORDERING_FIFO);
    s.scenario.endpoints[1].policy.retry =
        (struct retry_setting){ .base_us = PR_MINUTES(1), .factor = 1, .failures = 2 };
    stage_open(&s);
    for (int i = 0; i < 900; i++) { /* heads that fail, and two followers each */
        snprintf(name, sizeof(name), "s%d", i % 300);
        ids[i] = world_send_to(&s.w, "e1", name, i < 300 ? "fail" : "ok");
    }
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(world_state(&s.w, ids[899], PR_STR("e1")), STATE_HELD);
    stage_stop(&s);
    s.scenario.engine.endpoint_count = 1;
    instance_start(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_SECONDS(2)); /* and not a key per look */
    for (int i = 300; i < 900; i++)
        CHECK_EQ(world_state(&s.w, ids[i], PR_STR("e1")), STATE_PARKED);

    stage_stop(&s);
    s.scenario.engine.endpoint_count = 2; /* it is there again */
    instance_start(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_MINUTES(5));
    for (int i = 300; i < 900; i++)
        CHECK(stage_done(&s, ids[i]));
    stage_close(&s);
}
