/* Cases that the simulator rarely draws: ends that meet faults, ids that come again, and engines that share a
 * process. */
#include "stage.h"

#include "base/slice.h"
#include "engine/suspect_limit.h"

/* The store does not take the first cycle that would start something, and the engine is told to
 * stop before it can ask again. */
static int stop_in_a_busy_moment(struct world *w, struct instance *in, const struct cycle *cycle)
{
    if (cycle->receipt_count == 0 || in->stopping)
        return PR_OK;
    w->disturb = NULL;
    return PR_EBUSY;
}

TEST(a_stop_hands_back_what_was_chosen_for_a_cycle_that_the_store_did_not_take) /* B14 */
{
    struct stage s;
    stage_set(&s);
    stage_open(&s);
    s.w.disturb = stop_in_a_busy_moment;
    pr_id id = world_send(&s.w, "a", "ok");
    while (s.w.disturb != NULL && world_next(&s.w, s.w.mono_us + PR_SECONDS(10)))
        ;
    CHECK(s.w.disturb == NULL);
    int64_t began_us = s.w.mono_us;
    stage_stop(&s);
    CHECK(s.w.mono_us - began_us < PR_SECONDS(1)); /* nothing is out: there is nothing to wait for */
    CHECK_EQ(stage_sends(&s, id), 0);
    CHECK_EQ(stage_look(&s, id).m.attempts, 0);
    stage_close(&s);
}

TEST(an_id_that_an_endpoint_has_already_holds_up_nobody_when_it_is_sent_anew) /* B2, B17, B52 */
{
    struct stage s;
    stage_set(&s);
    stage_endpoint(&s, ORDERING_FIFO);
    s.scenario.routes[0].to_count = 2;
    s.scenario.route_to[0][0] = 0;
    s.scenario.route_to[0][1] = 1;
    stage_open(&s);
    world_pause(&s.w, 1, PR_NEVER);
    pr_id id = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(world_state(&s.w, id, PR_STR("e0")), STATE_GONE);

    struct pr_message again = world_find(&s.w, id)->m; /* '' is free again, e1 is not */
    int answer;
    again.seq = 0;
    CHECK_EQ(store_enqueue(&s.w.store, PR_STR("outbox"), &again, 1, PR_PAYLOAD_MAX, NULL, &answer, NULL), PR_OK);
    CHECK_EQ(answer, PR_OK);
    world_announce(&s.w);
    stage_run(&s, PR_SECONDS(1));
    world_resume(&s.w, 1);
    pr_id later = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(60));
    CHECK(stage_done(&s, id));
    CHECK(stage_done(&s, later));
    stage_close(&s);
}

/* An engine that is driven by hand, on a store of its own. */
struct hand {
    struct store store;
    struct store_session session;
    struct endpoint_setting endpoint;
    struct engine *engine;
    int64_t now_us;
    bool woken;
};

static void hand_wake(void *arg)
{
    struct hand *h = arg;
    h->woken = true;
}

static void hand_open(struct hand *h, struct limits *limits)
{
    static const unsigned to[] = { 0 };
    static const struct route route = { .to = to, .to_count = 1 };
    const struct store_options options = { .url = "memory:" };

    *h = (struct hand){ .endpoint = { .name = PR_STR("e0"), .max_attempts = 100, .timeout_us = PR_SECONDS(10) } };
    const struct engine_setting setting = {
        .box = PR_STR("outbox"),
        .name = PR_STR("hand"),
        .instance = { { 1 } },
        .lease_us = PR_SECONDS(60),
        .batch = 10,
        .window_count = 100,
        .window_bytes = 1 << 20,
        .payload_max = 1000,
        .poll_us = PR_SECONDS(1),
        .limits = limits,
        .wake = hand_wake,
        .wake_arg = h,
        .endpoints = &h->endpoint,
        .endpoint_count = 1,
        .routes = &route,
        .route_count = 1,
    };
    CHECK_EQ(store_open(&options, &h->store, NULL), PR_OK);
    CHECK_EQ(store_migrate(&h->store, NULL, 0, NULL), PR_OK);
    CHECK_EQ(store_session_open(&h->store, PR_STR("outbox"), &h->session, NULL), PR_OK);
    h->engine = engine_new(&setting, NULL);
    CHECK(h->engine != NULL);
}

static void hand_close(struct hand *h)
{
    engine_free(h->engine);
    store_session_close(&h->session);
    store_close(&h->store);
}

/* Cycles until there is nothing to do right now. */
static void hand_turn(struct hand *h)
{
    const struct cycle *cycle;
    const struct cycle_reply *reply;

    for (int i = 0; i < 100 && engine_plan(h->engine, h->now_us, i == 0, &cycle); i++) {
        CHECK_EQ(store_cycle(&h->session, cycle, &reply, NULL), PR_OK);
        engine_absorb(h->engine, h->now_us, h->now_us, reply);
        engine_check(h->engine);
    }
}

/* It has a message that may only go alone, while another box has something out. */
static struct limits *hand_with_suspect(struct hand *h)
{
    struct limits *limits = limits_new(
        &(struct limits_setting){ .engines = 2, .endpoint_count = 1, .window_count = 100, .window_bytes = 1 << 20 });
    const struct delivery *d;

    CHECK(limits != NULL);
    hand_open(h, limits);
    struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("x") };
    CHECK_EQ(store_enqueue(&h->store, PR_STR("outbox"), &m, 1, PR_PAYLOAD_MAX, NULL, NULL, NULL), PR_OK);
    for (int i = 0; i < SUSPICION_MAX; i++) {
        hand_turn(h);
        CHECK_EQ(engine_take(h->engine, h->now_us, 0, &d, 1), 1);
        if (i == SUSPICION_MAX - 1)
            CHECK(suspect_limit_enter(&limits->suspects, 0)); /* another box has something out now */
        CHECK_EQ(engine_judge(h->engine, h->now_us,
                              &(struct pr_verdict){ .claim = d->token, .kind = PR_VERDICT_ABANDON }, NULL),
                 PR_OK);
        h->now_us += PR_SECONDS(2);
    }
    hand_turn(h);
    CHECK_EQ(engine_take(h->engine, h->now_us, 0, &d, 1), 0); /* it goes alone, or not at all */
    return limits;
}

TEST(a_suspect_of_one_box_is_let_go_first_by_the_others) /* B42 */
{
    struct hand h;
    struct limits *limits = hand_with_suspect(&h);
    struct suspect_limit *c = &limits->suspects;
    const struct delivery *d;

    CHECK(!suspect_limit_enter(c, 0)); /* the other box must not go on and on */
    CHECK(!h.woken);
    limits_suspect_leave(limits, 0);
    CHECK(h.woken);
    hand_turn(&h);
    CHECK_EQ(engine_take(h.engine, h.now_us, 0, &d, 1), 1);
    CHECK_EQ(
        engine_judge(h.engine, h.now_us, &(struct pr_verdict){ .claim = d->token, .kind = PR_VERDICT_COMPLETE }, NULL),
        PR_OK);
    hand_turn(&h);
    CHECK(suspect_limit_enter(c, 0));
    suspect_limit_leave(c, 0);
    hand_close(&h);
    limits_free(limits);
}

TEST(a_suspect_whose_store_is_out_of_reach_holds_no_other_box_up) /* B42 */
{
    struct hand h;
    struct limits *limits = hand_with_suspect(&h);
    struct suspect_limit *c = &limits->suspects;
    const struct cycle *cycle;
    const struct cycle_reply *reply;

    CHECK(!suspect_limit_enter(c, 0));
    h.now_us += PR_SECONDS(20); /* its lease is to be renewed, and cannot be */
    CHECK(engine_plan(h.engine, h.now_us, false, &cycle));
    CHECK(!suspect_limit_enter(c, 0));
    engine_cycle_failed(h.engine, h.now_us, PR_ESTORE);
    CHECK(suspect_limit_enter(c, 0));
    limits_suspect_leave(limits, 0);
    h.now_us += PR_SECONDS(5);
    CHECK(engine_plan(h.engine, h.now_us, false, &cycle));
    CHECK_EQ(store_cycle(&h.session, cycle, &reply, NULL), PR_OK);
    engine_absorb(h.engine, h.now_us, h.now_us, reply);
    hand_turn(&h);
    CHECK(!suspect_limit_enter(c, 0)); /* it can go again, and is the first */
    limits_suspect_leave(limits, 0);
    hand_close(&h);
    limits_free(limits);
}

/* Another engine of the process, on another store, with a message that nobody suspects. */
static void hand_with_message(struct hand *h, struct limits *limits, int64_t now_us)
{
    struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("x") };

    hand_open(h, limits);
    h->now_us = now_us;
    CHECK_EQ(store_enqueue(&h->store, PR_STR("outbox"), &m, 1, PR_PAYLOAD_MAX, NULL, NULL, NULL), PR_OK);
}

static void hand_complete(struct hand *h, const struct delivery *d)
{
    CHECK_EQ(engine_judge(h->engine, h->now_us, &(struct pr_verdict){ .claim = d->token, .kind = PR_VERDICT_COMPLETE },
                          NULL),
             PR_OK);
    hand_turn(h);
}

TEST(a_suspect_that_was_chosen_holds_other_boxes_up_for_a_turn_while_its_store_does_not_answer) /* B42 */
{
    struct hand h, other;
    struct limits *limits = hand_with_suspect(&h);
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    const struct delivery *d, *late;

    limits_suspect_leave(limits, 0);
    CHECK(engine_plan(h.engine, h.now_us, true, &cycle)); /* the suspect is chosen, and its receipt on the way */
    CHECK_EQ(cycle->receipt_count, 1);
    hand_with_message(&other, limits, h.now_us);
    hand_turn(&other);
    CHECK_EQ(engine_take(other.engine, other.now_us, 0, &d, 1), 0); /* it goes alone */
    CHECK_EQ(engine_next_us(other.engine, other.now_us), h.now_us + LIMITS_SEAT_US);
    other.now_us += LIMITS_SEAT_US;
    hand_turn(&other);
    CHECK_EQ(engine_take(other.engine, other.now_us, 0, &d, 1), 1);

    h.now_us = other.now_us;
    CHECK_EQ(store_cycle(&h.session, cycle, &reply, NULL), PR_OK); /* it lands after all */
    engine_absorb(h.engine, h.now_us, h.now_us, reply);
    hand_turn(&h);
    CHECK_EQ(engine_take(h.engine, h.now_us, 0, &late, 1), 0); /* not together with another one */
    hand_complete(&other, d);
    hand_turn(&h);
    CHECK_EQ(engine_take(h.engine, h.now_us, 0, &late, 1), 1);
    CHECK_EQ(late->attempt, SUSPICION_MAX + 1); /* what did not go is not counted */
    hand_complete(&h, late);
    CHECK_EQ(atomic_load(&limits->suspects.out), 0);
    CHECK_EQ(atomic_load(&limits->suspects.waiting), 0);
    hand_close(&other);
    hand_close(&h);
    limits_free(limits);
}

/* If the process died of another message before the verdict is stored, the suspect would be suspected once more. */
TEST(a_suspect_keeps_others_away_until_its_verdict_is_stored) /* B42 */
{
    for (int is_late = 0; is_late < 2; is_late++) {
        struct hand h, other;
        struct limits *limits = hand_with_suspect(&h);
        const struct cycle *cycle;
        const struct cycle_reply *reply;
        const struct delivery *d, *next;

        limits_suspect_leave(limits, 0);
        hand_turn(&h);
        CHECK_EQ(engine_take(h.engine, h.now_us, 0, &d, 1), 1);
        hand_with_message(&other, limits, h.now_us);
        CHECK_EQ(engine_judge(h.engine, h.now_us,
                              &(struct pr_verdict){ .claim = d->token, .kind = PR_VERDICT_COMPLETE }, NULL),
                 PR_OK);
        hand_turn(&other);
        CHECK_EQ(engine_take(other.engine, other.now_us, 0, &next, 1), 0);
        CHECK(engine_plan(h.engine, h.now_us, true, &cycle));
        CHECK_EQ(cycle->verdict_count, 1);
        hand_turn(&other);
        CHECK_EQ(engine_take(other.engine, other.now_us, 0, &next, 1), 0);
        CHECK_EQ(engine_next_us(other.engine, other.now_us), h.now_us + LIMITS_SEAT_US); /* not for ever */
        if (is_late) {
            other.now_us += LIMITS_SEAT_US;
            hand_turn(&other);
            CHECK_EQ(engine_take(other.engine, other.now_us, 0, &next, 1), 1);
        }
        CHECK_EQ(store_cycle(&h.session, cycle, &reply, NULL), PR_OK);
        engine_absorb(h.engine, h.now_us, h.now_us, reply);
        if (!is_late) {
            hand_turn(&other);
            CHECK_EQ(engine_take(other.engine, other.now_us, 0, &next, 1), 1);
        }
        hand_complete(&other, next);
        CHECK_EQ(atomic_load(&limits->suspects.out), 0);
        CHECK_EQ(atomic_load(&limits->suspects.waiting), 0);
        hand_close(&other);
        hand_close(&h);
        limits_free(limits);
    }
}

/* Somebody's open transaction is in the way of its verdict, for as long as it likes. */
TEST(a_suspect_whose_verdict_is_held_up_holds_no_other_box_up) /* B42 */
{
    struct hand h, other;
    struct limits *limits = hand_with_suspect(&h);
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    const struct delivery *d, *next;
    int busy = ANSWER_BUSY;

    limits_suspect_leave(limits, 0);
    hand_turn(&h);
    CHECK_EQ(engine_take(h.engine, h.now_us, 0, &d, 1), 1);
    CHECK_EQ(
        engine_judge(h.engine, h.now_us, &(struct pr_verdict){ .claim = d->token, .kind = PR_VERDICT_COMPLETE }, NULL),
        PR_OK);
    CHECK(engine_plan(h.engine, h.now_us, true, &cycle));
    CHECK_EQ(cycle->verdict_count, 1);
    struct cycle without = *cycle; /* the store leaves it out */
    without.verdicts = NULL;
    without.verdict_count = 0;
    CHECK_EQ(store_cycle(&h.session, &without, &reply, NULL), PR_OK);
    struct cycle_reply said = *reply;
    said.answers = &busy;
    engine_absorb(h.engine, h.now_us, h.now_us, &said);
    hand_with_message(&other, limits, h.now_us);
    hand_turn(&other);
    CHECK_EQ(engine_take(other.engine, other.now_us, 0, &next, 1), 1);
    hand_complete(&other, next);
    h.now_us += PR_SECONDS(2);
    hand_turn(&h); /* and it is stored in the end */
    CHECK_EQ(atomic_load(&limits->suspects.out), 0);
    CHECK_EQ(atomic_load(&limits->suspects.waiting), 0);
    hand_close(&other);
    hand_close(&h);
    limits_free(limits);
}

/* Its engine is gone with what was chosen, before and after others have taken its seat. */
TEST(seats_are_given_back_once_whoever_takes_them) /* B42 */
{
    for (int is_late = 0; is_late < 2; is_late++) {
        struct hand h, other;
        struct limits *limits = hand_with_suspect(&h);
        const struct cycle *cycle;
        const struct delivery *d;

        limits_suspect_leave(limits, 0);
        CHECK(engine_plan(h.engine, h.now_us, true, &cycle));
        hand_with_message(&other, limits, h.now_us + is_late * LIMITS_SEAT_US);
        hand_turn(&other);
        CHECK_EQ(engine_take(other.engine, other.now_us, 0, &d, 1), (size_t)is_late);
        engine_cycle_failed(h.engine, other.now_us, PR_ELEASE);
        hand_turn(&other);
        CHECK_EQ(engine_take(other.engine, other.now_us, 0, &d, 1), (size_t)!is_late);
        CHECK_EQ(atomic_load(&limits->suspects.out), 1);
        hand_complete(&other, d);
        CHECK_EQ(atomic_load(&limits->suspects.out), 0);
        hand_close(&other);
        hand_close(&h);
        limits_free(limits);
    }
}

TEST(one_cycle_empties_a_full_window_and_fills_it_again) /* B16 */
{
    struct hand h;
    const struct delivery *d[100];
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    struct engine_counts counts;
    struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("x") };

    hand_open(&h, NULL);
    for (int i = 0; i < 300; i++)
        CHECK_EQ(store_enqueue(&h.store, PR_STR("outbox"), &m, 1, PR_PAYLOAD_MAX, NULL, NULL, NULL), PR_OK);
    hand_turn(&h);
    size_t out = engine_take(h.engine, h.now_us, 0, d, 100);
    CHECK(out >= 20);
    CHECK(!engine_plan(h.engine, h.now_us, false, &cycle)); /* the endpoint has its share */
    engine_counts(h.engine, &counts);
    size_t full = counts.window_count;
    for (int i = 0; i < 7; i++)
        CHECK_EQ(engine_judge(h.engine, h.now_us,
                              &(struct pr_verdict){ .claim = d[i]->token, .kind = PR_VERDICT_COMPLETE }, NULL),
                 PR_OK);
    CHECK(engine_plan(h.engine, h.now_us, false, &cycle));
    CHECK_EQ(cycle->verdict_count, 7);
    CHECK_EQ(cycle->fresh_rows, 7);
    CHECK_EQ(store_cycle(&h.session, cycle, &reply, NULL), PR_OK);
    engine_absorb(h.engine, h.now_us, h.now_us, reply);
    engine_check(h.engine);
    engine_counts(h.engine, &counts);
    CHECK_EQ(counts.window_count, full);
    hand_close(&h);
}
