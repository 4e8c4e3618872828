/* Two instances of a box of activities with different abilities: which lanes each has. */
#include <stdio.h>
#include <stdlib.h>

#include "base/slice.h"
#include "base/time.h"
#include "check.h"
#include "core/lane.h"
#include "core/offer.h"
#include "engine/engine.h"
#include "store/store.h"

#define AT_ONCE 16

struct actor {
    struct store_session session;
    struct engine_setting setting;
    struct engine *engine;
    const struct delivery *out[AT_ONCE];
    size_t out_count;
    const char *offer;
    unsigned done, lacked; /* messages */
};

struct pair {
    int64_t now_us;
    struct clock clock;
    struct store store;
    struct endpoint_setting endpoint;
    struct route route;
    struct actor actors[2];
    uint8_t sent;
    bool slow;    /* what has the type "slow" is not answered */
    bool failing; /* all fail, and are to come again in ten minutes */
};

static int64_t pair_now(void *arg)
{
    return ((struct pair *)arg)->now_us;
}

static void actor_open(struct pair *p, struct actor *a, uint8_t number, const char *offer)
{
    a->offer = offer;
    a->setting = (struct engine_setting){
        .box = PR_STR("activities"),
        .kind = BOX_ACTIVITIES,
        .name = PR_STR("actor"),
        .instance = { { number } },
        .lease_us = PR_SECONDS(15),
        .batch = 100,
        .window_count = 1000,
        .window_bytes = 1 << 20,
        .payload_max = 4096,
        .poll_us = PR_MILLISECONDS(200),
        .endpoints = &p->endpoint,
        .endpoint_count = 1,
        .routes = &p->route,
        .route_count = 1,
        .offer = pr_str(offer),
    };
    CHECK_EQ(store_session_open(&p->store, a->setting.box, &a->session, NULL), PR_OK);
    a->engine = engine_new(&a->setting, NULL);
    CHECK(a->engine != NULL);
}

static void pair_run(struct pair *p, int64_t us);

/* Each has half of the lanes, where they can be shared. */
static void pair_open(struct pair *p, const char *url, const char *first, const char *second)
{
    static const unsigned to[] = { 0 };
    *p = (struct pair){ .now_us = PR_SECONDS(1700000000), .clock = { pair_now, pair_now, p } };
    p->endpoint =
        (struct endpoint_setting){ .name = PR_STR("functions"), .max_attempts = 5, .timeout_us = PR_SECONDS(600) };
    p->route = (struct route){ .box = PR_STR("activities"), .to = to, .to_count = 1 };
    const struct store_options options = { .url = url, .clock = &p->clock };
    CHECK_EQ(store_open(&options, &p->store, NULL), PR_OK);
    CHECK_EQ(store_migrate(&p->store, NULL, 0, NULL), PR_OK);
    actor_open(p, &p->actors[0], 1, first);
    if (second != NULL)
        actor_open(p, &p->actors[1], 2, second);
    pair_run(p, PR_SECONDS(2));
}

static void pair_close(struct pair *p)
{
    for (size_t i = 0; i < 2; i++) {
        engine_free(p->actors[i].engine);
        store_session_close(&p->actors[i].session);
    }
    store_close(&p->store);
}

/* The payload is the name of the activity that it needs. */
static void answer(struct pair *p, struct actor *a, const struct delivery *d)
{
    struct delivery_result result = { .token = d->token, .need = need_of_activity(d->message->payload, PR_STR("")) };
    bool has = offer_has(pr_str(a->offer), pr_str(result.need));
    result.outcome = has ? SEND_OK : SEND_POSTPONED;
    result.retry_after_us = PR_SECONDS(1);
    if (has && p->failing) {
        result.outcome = SEND_AGAIN;
        result.retry_after_us = PR_SECONDS(600);
    }
    a->done += has;
    a->lacked += !has;
    engine_result(a->engine, p->now_us, &result);
    free(result.need);
}

static void actor_step(struct pair *p, struct actor *a)
{
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    size_t kept = 0;
    for (size_t i = 0; i < a->out_count; i++) {
        if (p->slow && slice_eq_cstr(a->out[i]->message->type, "slow"))
            a->out[kept++] = a->out[i];
        else
            answer(p, a, a->out[i]);
    }
    a->out_count = kept;
    if (engine_plan(a->engine, p->now_us, true, &cycle)) {
        CHECK_EQ(store_cycle(&a->session, cycle, &reply, NULL), PR_OK);
        engine_absorb(a->engine, p->now_us, p->now_us, reply);
    }
    a->out_count += engine_take(a->engine, p->now_us, 0, a->out + a->out_count, AT_ONCE - a->out_count);
    engine_check(a->engine);
}

static void pair_run(struct pair *p, int64_t us)
{
    for (int64_t until_us = p->now_us + us; p->now_us < until_us; p->now_us += PR_MILLISECONDS(10))
        for (size_t i = 0; i < 2; i++)
            if (p->actors[i].engine != NULL)
                actor_step(p, &p->actors[i]);
}

static void send(struct pair *p, const char *type, const char *stream, const char *needs)
{
    struct pr_message m = {
        .id = { { 9, ++p->sent } }, .type = pr_str(type), .stream = pr_str(stream), .payload = pr_str(needs)
    };
    CHECK_EQ(store_enqueue(&p->store, PR_STR("activities"), &m, 1, PR_PAYLOAD_MAX, NULL, NULL, NULL), PR_OK);
}

/* A lane of the first one, and streams in it. */
static unsigned first_lane(const struct pair *p)
{
    return (unsigned)__builtin_ctzll(engine_lanes(p->actors[0].engine));
}

static const char *stream_in(unsigned lane, unsigned n)
{
    static char names[4][16];
    for (unsigned i = 0;; i++) {
        snprintf(names[n], sizeof names[n], "s%u-%u", n, i);
        if (lane_of(pr_str(names[n]), (pr_id){ { 0 } }) == lane)
            return names[n];
    }
}

static bool owns(const struct pair *p, unsigned actor, unsigned lane)
{
    return (engine_lanes(p->actors[actor].engine) & lane_bit(lane)) != 0;
}

#define F "activity\tf\n"
#define G "activity\tg\n"

TEST(what_cannot_be_done_here_goes_with_its_lane_to_who_can) /* B110, B113 */
{
    struct pair p;
    pair_open(&p, "memory:", F, F G);
    unsigned lane = first_lane(&p);
    send(&p, "x", stream_in(lane, 0), "g");
    pair_run(&p, PR_MILLISECONDS(300));
    CHECK_EQ(p.actors[0].lacked, 1);
    CHECK_EQ(p.actors[1].done, 1);
    CHECK(owns(&p, 1, lane));
    pair_close(&p);
}

TEST(lanes_stay_with_who_alone_can_do_what_is_in_them_however_few_the_others_have) /* B110 */
{
    struct pair p;
    pair_open(&p, "memory:", F, F G);
    for (int round = 0; round < 3; round++) {
        for (unsigned lane = 0; lane < LANE_COUNT; lane++)
            send(&p, "x", stream_in(lane, 0), "g");
        pair_run(&p, PR_SECONDS(20));
        CHECK_EQ(engine_lanes(p.actors[1].engine), LANES_ALL);
    }
    CHECK_EQ(p.actors[0].lacked, 32);
    CHECK_EQ(p.actors[1].done, 3 * LANE_COUNT);
    pair_run(&p, PR_SECONDS(15)); /* nothing came for a while: they are shared again */
    CHECK_EQ(lanes_count(engine_lanes(p.actors[0].engine)), 32);
    pair_close(&p);
}

TEST(a_box_whose_lanes_go_together_goes_as_a_whole) /* B110 */
{
    struct pair p;
    pair_open(&p, "sqlite::memory:", F, F G);
    CHECK_EQ(engine_lanes(p.actors[0].engine), LANES_ALL);
    send(&p, "x", "a", "g");
    pair_run(&p, PR_MILLISECONDS(500));
    CHECK_EQ(p.actors[1].done, 1);
    CHECK_EQ(engine_lanes(p.actors[1].engine), LANES_ALL);
    send(&p, "x", "b", "f");
    pair_run(&p, PR_SECONDS(60));
    CHECK_EQ(p.actors[1].done, 2);
    CHECK_EQ(engine_lanes(p.actors[1].engine), LANES_ALL);
    pair_close(&p);
}

static void wander(const char *url)
{
    struct pair p;
    pair_open(&p, url, F, G);
    for (int i = 0; i < 100; i++) {
        char stream[16];
        snprintf(stream, sizeof stream, "%d", i);
        send(&p, "x", stream, i % 2 == 0 ? "f" : "g");
        pair_run(&p, PR_MILLISECONDS(100));
    }
    pair_run(&p, PR_SECONDS(3));
    CHECK_EQ(p.actors[0].done, 50);
    CHECK_EQ(p.actors[1].done, 50);
    CHECK(p.actors[0].lacked + p.actors[1].lacked <= 100); /* none of them went to and fro */
    pair_close(&p);
}

TEST(lanes_wander_between_two_that_can_do_nothing_in_common) /* B110 */
{
    wander("memory:");
    wander("sqlite::memory:");
}

TEST(what_nobody_can_do_moves_no_lane) /* B113 */
{
    struct pair p;
    pair_open(&p, "memory:", F, F G);
    unsigned lane = first_lane(&p);
    send(&p, "x", stream_in(lane, 0), "h");
    pair_run(&p, PR_SECONDS(10));
    CHECK(owns(&p, 0, lane));
    CHECK(p.actors[0].lacked >= 8 && p.actors[0].lacked <= 11);
    pair_close(&p);
}

TEST(a_lane_that_does_not_get_empty_is_worked_on_and_goes_later) /* B110 */
{
    struct pair p;
    pair_open(&p, "memory:", F, F G);
    unsigned lane = first_lane(&p);
    p.slow = true;
    send(&p, "slow", stream_in(lane, 0), "f"); /* it is out, and takes long */
    pair_run(&p, PR_MILLISECONDS(100));
    CHECK_EQ(p.actors[0].out_count, 1);
    send(&p, "x", stream_in(lane, 1), "g");
    pair_run(&p, PR_MILLISECONDS(100));
    send(&p, "x", stream_in(lane, 2), "f"); /* it waits, since the lane is to go ... */
    pair_run(&p, PR_MILLISECONDS(500));
    CHECK_EQ(p.actors[0].done, 0);
    pair_run(&p, PR_SECONDS(2)); /* ... but not for ever */
    CHECK_EQ(p.actors[0].done, 1);
    CHECK(owns(&p, 0, lane));
    p.slow = false;
    pair_run(&p, PR_SECONDS(7));
    CHECK_EQ(p.actors[0].done, 2);
    CHECK_EQ(p.actors[1].done, 1);
    CHECK(owns(&p, 1, lane));
    pair_close(&p);
}

/* ---- Sessions ------------------------------------------------------------------------------------- */

#define LAST_LANE (LANE_COUNT - 1) /* the first to be asked for when another joins */

TEST(a_live_session_stays_when_another_instance_joins) /* B114 */
{
    struct pair p;
    pair_open(&p, "memory:", F, NULL);
    p.slow = true;
    send(&p, "slow", stream_in(LAST_LANE, 0), "f");
    send(&p, "x", stream_in(LAST_LANE, 0), "f");
    pair_run(&p, PR_MILLISECONDS(100));
    actor_open(&p, &p.actors[1], 2, F);
    pair_run(&p, PR_SECONDS(5));
    CHECK(owns(&p, 0, LAST_LANE)); /* one of its activities is out ... */
    p.slow = false;
    for (int i = 0; i < 3; i++) { /* ... waits, or comes soon */
        pair_run(&p, PR_SECONDS(10));
        CHECK(owns(&p, 0, LAST_LANE));
        send(&p, "x", stream_in(LAST_LANE, 0), "f");
    }
    pair_run(&p, PR_MILLISECONDS(100));
    CHECK_EQ(p.actors[0].done, 5);
    CHECK_EQ(p.actors[1].done, 0);
    CHECK_EQ(lanes_count(engine_lanes(p.actors[1].engine)), 32); /* others went instead */
    pair_close(&p);
}

TEST(a_session_that_waits_for_its_next_try_stays_and_one_that_was_never_begun_does_not) /* B114 */
{
    struct pair p;
    pair_open(&p, "memory:", F, NULL);
    p.failing = true;
    send(&p, "x", stream_in(LAST_LANE, 0), "f"); /* again in ten minutes */
    send(&p, "x", stream_in(LAST_LANE - 1, 1), "h");
    pair_run(&p, PR_MILLISECONDS(100));
    p.failing = false;
    actor_open(&p, &p.actors[1], 2, F);
    pair_run(&p, PR_SECONDS(120));
    CHECK(owns(&p, 0, LAST_LANE));
    CHECK(owns(&p, 1, LAST_LANE - 1)); /* nothing of it was ever done */
    pair_run(&p, PR_SECONDS(520));
    CHECK_EQ(p.actors[0].done, 2);
    pair_close(&p);
}

TEST(what_waits_for_another_instance_waits_for_sessions_but_not_for_ever) /* B113, B114 */
{
    struct pair p;
    pair_open(&p, "memory:", F, F G);
    unsigned lane = first_lane(&p);
    send(&p, "x", stream_in(lane, 0), "f");
    pair_run(&p, PR_MILLISECONDS(100));
    send(&p, "x", stream_in(lane, 1), "g");
    for (int i = 0; i < 9; i++) { /* it is live all the time */
        pair_run(&p, PR_SECONDS(1));
        CHECK_EQ(p.actors[1].done, 0);
        send(&p, "x", stream_in(lane, 0), "f");
    }
    pair_run(&p, PR_SECONDS(2));
    CHECK_EQ(p.actors[0].done, 10);
    CHECK_EQ(p.actors[1].done, 1);
    CHECK(p.actors[0].lacked < 50);
    pair_close(&p);
}
