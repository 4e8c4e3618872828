/* Runs: messages that wait in a stream of a box of turns go out together; dead ones are handed out once more; deleted
 * ones are reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "base/time.h"
#include "check.h"
#include "engine/engine.h"
#include "store/store.h"

#define AT_ONCE 64

struct play {
    int64_t now_us;
    struct clock clock;
    struct store store;
    struct store_session session;
    struct endpoint_setting endpoint;
    struct route route;
    struct engine_setting setting;
    struct engine *engine;
    struct arena arena;
    const struct delivery *out[AT_ONCE];
    size_t most_effects, cycles; /* of one cycle; all of them */
};

static int64_t play_now(void *arg)
{
    return ((struct play *)arg)->now_us;
}

static void play_begin(struct play *p, uint8_t instance)
{
    p->setting.instance = (pr_id){ { instance } };
    CHECK_EQ(store_session_open(&p->store, p->setting.box, &p->session, NULL), PR_OK);
    p->engine = engine_new(&p->setting, NULL);
    CHECK(p->engine != NULL);
}

static void play_open(struct play *p, const char *box, enum box_kind kind)
{
    static const unsigned to[] = { 0 };

    *p = (struct play){
        .now_us = PR_SECONDS(1700000000),
        .clock = { play_now, play_now, p },
        .endpoint = { .name = PR_STR("flows"),
                      .max_attempts = 5,
                      .timeout_us = PR_SECONDS(600),
                      .policy.retry = { .base_us = PR_SECONDS(1), .factor = 1, .failures = 2, .blame = BLAME_ALWAYS } },
        .route = { .box = pr_str(box), .to = to, .to_count = 1 }
    };
    const struct store_options options = { .url = "memory:", .clock = &p->clock };
    p->setting = (struct engine_setting){
        .box = pr_str(box),
        .kind = kind,
        .name = PR_STR("play"),
        .lease_us = PR_SECONDS(15),
        .batch = 1000,
        .window_count = 10000,
        .window_bytes = 64 << 20,
        .payload_max = 4 << 20,
        .poll_us = PR_SECONDS(1),
        .endpoints = &p->endpoint,
        .endpoint_count = 1,
        .routes = &p->route,
        .route_count = 1,
    };
    arena_init(&p->arena, 65536);
    CHECK_EQ(store_open(&options, &p->store, NULL), PR_OK);
    CHECK_EQ(store_migrate(&p->store, NULL, 0, NULL), PR_OK);
    play_begin(p, 1);
}

/* As a crash would. */
static void play_end(struct play *p)
{
    engine_free(p->engine);
    store_session_close(&p->session);
}

static void play_close(struct play *p)
{
    play_end(p);
    store_close(&p->store);
    arena_fini(&p->arena);
}

static pr_id play_send(struct play *p, const char *stream, pr_slice payload)
{
    struct pr_message m = { .type = PR_STR("event"), .stream = pr_str(stream), .payload = payload };
    pr_id id;
    CHECK_EQ(store_enqueue(&p->store, p->setting.box, &m, 1, PR_PAYLOAD_MAX, &id, NULL, NULL), PR_OK);
    return id;
}

/* Cycles until there is nothing to do right now, then all that may go out. */
static size_t play_turn(struct play *p)
{
    const struct cycle *cycle;
    const struct cycle_reply *reply;

    for (int i = 0; i < 200 && engine_plan(p->engine, p->now_us, i == 0, &cycle); i++) {
        size_t guarded = 0;
        for (size_t k = 0; k < cycle->effect_count; k++)
            guarded += cycle->effects[k].verdict != EFFECT_ALWAYS;
        p->most_effects = guarded > p->most_effects ? guarded : p->most_effects;
        p->cycles++;
        CHECK_EQ(store_cycle(&p->session, cycle, &reply, NULL), PR_OK);
        engine_absorb(p->engine, p->now_us, p->now_us, reply);
        engine_check(p->engine);
    }
    size_t count = engine_take(p->engine, p->now_us, 0, p->out, AT_ONCE);
    engine_check(p->engine);
    return count;
}

static size_t run_length(const struct delivery *d)
{
    size_t count = 0;
    for (; d != NULL; d = d->run_next)
        count++;
    return count;
}

/* The first turn of a flow whose id is the stream; or another one that saw `expected` events. */
static struct send_effect *turn_effect(const struct delivery *d, int64_t expected)
{
    struct send_effect *e = calloc(1, sizeof(*e) + sizeof(struct flow_row));
    struct flow_row *row = (struct flow_row *)(e + 1);
    pr_id execution = { { 9 } };
    *row = (struct flow_row){ .id = d->message->stream, .execution = execution, .next = expected + 1, .state = 1 };
    e->effect = (struct effect){ .kind = EFFECT_FLOW,
                                 .flow = row,
                                 .id = expected > 0 ? execution : (pr_id){ { 0 } },
                                 .expected = expected,
                                 .takes_verdict = true };
    return e;
}

static void play_answer(struct play *p, const struct delivery *d, enum send_outcome outcome,
                        struct send_effect *effects)
{
    struct delivery_result result = { .token = d->token, .outcome = outcome, .effects = effects };
    result.reason = outcome == SEND_FAILED ? PR_REASON_HANDLER_EXCEPTION : 0;
    engine_result(p->engine, p->now_us, &result);
    effects_free(effects);
    engine_check(p->engine);
}

static struct listed play_look(struct play *p, pr_id id)
{
    struct query query = { .kind = QUERY_ID, .filter = { .ids = &id, .id_count = 1, .state = -1 } };
    struct query_reply reply;
    CHECK_EQ(store_query(&p->store, &query, &p->arena, &reply, NULL), PR_OK);
    return reply.listed_count > 0 ? reply.listed[0] : (struct listed){ .state = STATE_GONE };
}

static bool flow_is_there(struct play *p, const char *id)
{
    struct query query = { .kind = QUERY_FLOW, .flow.id = pr_str(id), .brief = true };
    struct query_reply reply;
    CHECK_EQ(store_query(&p->store, &query, &p->arena, &reply, NULL), PR_OK);
    return reply.flow_count > 0;
}

TEST(a_run_is_all_that_waits_in_a_stream_and_what_comes_meanwhile_waits) /* B120, B121 */
{
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    pr_id a[] = { play_send(&p, "a", PR_STR("1")), play_send(&p, "a", PR_STR("2")) };
    play_send(&p, "b", PR_STR("x"));
    pr_id third = play_send(&p, "a", PR_STR("3"));
    CHECK_EQ(play_turn(&p), 2);
    const struct delivery *run = p.out[0];
    CHECK_EQ(run_length(run), 3);
    CHECK(pr_id_equal(run->message->id, a[0]));
    CHECK(pr_id_equal(run->run_next->message->id, a[1]));
    CHECK(pr_id_equal(run->run_next->run_next->message->id, third));
    CHECK_EQ(run->run_next->attempt, 1);
    CHECK_EQ(run_length(p.out[1]), 1);
    pr_id later = play_send(&p, "a", PR_STR("4"));
    CHECK_EQ(play_turn(&p), 0); /* one turn of a flow at a time */
    play_answer(&p, run, SEND_OK, turn_effect(run, 0));
    CHECK_EQ(engine_take(p.engine, p.now_us, 0, p.out, AT_ONCE),
             0); /* its verdict can be refused: the answer frees it */
    CHECK_EQ(play_turn(&p), 1);
    CHECK(pr_id_equal(p.out[0]->message->id, later));
    CHECK(flow_is_there(&p, "a"));
    CHECK_EQ(play_look(&p, a[0]).state, STATE_GONE);
    CHECK_EQ(play_look(&p, third).state, STATE_GONE);
    play_close(&p);
}

/* The cycle that reads new rows announces them, also while others are out; nothing of a stream that is out goes with it. */
TEST(new_rows_of_flows_are_announced_by_the_cycle_that_reads_them) /* B11, B121 */
{
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    CHECK_EQ(play_turn(&p), 0);
    play_send(&p, "a", PR_STR("1"));
    play_send(&p, "a", PR_STR("2"));
    size_t before = p.cycles;
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(p.cycles - before, 1);
    const struct delivery *run = p.out[0];
    CHECK_EQ(run_length(run), 2);
    play_send(&p, "b", PR_STR("x"));
    before = p.cycles;
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(p.cycles - before, 1);
    pr_id later = play_send(&p, "a", PR_STR("3")), c = play_send(&p, "c", PR_STR("x"));
    before = p.cycles;
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(p.cycles - before, 2);
    CHECK(pr_id_equal(p.out[0]->message->id, c));
    play_answer(&p, run, SEND_OK, turn_effect(run, 0));
    CHECK_EQ(play_turn(&p), 1);
    CHECK(pr_id_equal(p.out[0]->message->id, later));
    CHECK_EQ(p.out[0]->attempt, 1);
    play_close(&p);
}

TEST(a_run_has_at_most_256_messages_and_4_mib_and_at_least_one) /* B121 */
{
    static char large[3 << 20];
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    for (int i = 0; i < 300; i++)
        play_send(&p, "a", PR_STR("x"));
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 256);
    play_answer(&p, p.out[0], SEND_OK, NULL);
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 44);
    play_answer(&p, p.out[0], SEND_OK, NULL);
    for (int i = 0; i < 2; i++)
        play_send(&p, "b", PR_BYTES(large, sizeof(large)));
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 1);
    play_close(&p);
}

TEST(a_box_of_another_kind_hands_out_one_message_of_a_stream)
{
    struct play p;
    play_open(&p, "outbox", BOX_OUTBOX);
    for (int i = 0; i < 3; i++)
        play_send(&p, "a", PR_STR("x"));
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 1);
    play_close(&p);
}

TEST(a_refused_run_comes_back_uncounted_and_as_a_whole) /* B123, B124 */
{
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    pr_id ids[] = { play_send(&p, "a", PR_STR("1")), play_send(&p, "a", PR_STR("2")) };
    CHECK_EQ(play_turn(&p), 1);
    play_answer(&p, p.out[0], SEND_OK, turn_effect(p.out[0], 7)); /* there is no such flow */
    CHECK_EQ(play_turn(&p), 0);
    p.now_us += PR_MILLISECONDS(50);
    CHECK_EQ(play_turn(&p), 0);
    p.now_us += PR_SECONDS(2);
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 2);
    CHECK_EQ(p.out[0]->attempt, 1);
    CHECK_EQ(p.out[0]->run_next->attempt, 1);
    play_answer(&p, p.out[0], SEND_OK, turn_effect(p.out[0], 0));
    play_turn(&p);
    CHECK_EQ(play_look(&p, ids[0]).state, STATE_GONE);
    CHECK_EQ(play_look(&p, ids[1]).state, STATE_GONE);
    play_close(&p);
}

TEST(a_run_that_is_returned_or_postponed_is_counted_for_nobody) /* B149 */
{
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    for (int i = 0; i < 3; i++)
        play_send(&p, "a", PR_STR("x"));
    CHECK_EQ(play_turn(&p), 1);
    play_answer(&p, p.out[0], SEND_RETURNED, NULL);
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 3);
    play_answer(&p, p.out[0], SEND_POSTPONED, NULL);
    CHECK_EQ(play_turn(&p), 0);
    p.now_us += PR_SECONDS(2);
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 3);
    for (const struct delivery *d = p.out[0]; d != NULL; d = d->run_next)
        CHECK_EQ(d->attempt, 1);
    play_close(&p);
}

TEST(after_two_hand_outs_without_an_outcome_each_message_of_a_run_goes_alone) /* B140, B141 */
{
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    pr_id ids[] = { play_send(&p, "a", PR_STR("1")), play_send(&p, "a", PR_STR("2")) };
    for (int i = 1; i <= 2; i++) {
        CHECK_EQ(play_turn(&p), 1);
        CHECK_EQ(run_length(p.out[0]), 2);
        CHECK_EQ(p.out[0]->run_next->attempt, i);
        play_end(&p); /* it dies with the run */
        p.now_us += PR_SECONDS(60);
        play_begin(&p, (uint8_t)(i + 1));
    }
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 1);
    CHECK(pr_id_equal(p.out[0]->message->id, ids[0]));
    CHECK_EQ(p.out[0]->attempt, 3);
    play_answer(&p, p.out[0], SEND_OK, turn_effect(p.out[0], 0));
    CHECK_EQ(play_turn(&p), 1);
    CHECK(pr_id_equal(p.out[0]->message->id, ids[1]));
    CHECK_EQ(p.out[0]->attempt, 3);
    play_close(&p);
}

TEST(poison_is_given_once_more_as_dead_and_becomes_a_dead_letter_with_what_follows) /* B142, B144, B146 */
{
    struct play p;
    struct engine_counts counts;
    play_open(&p, "turns", BOX_TURNS);
    pr_id id = play_send(&p, "a", PR_STR("crash"));
    for (int i = 1; i <= 5; i++) {
        CHECK_EQ(play_turn(&p), 1);
        CHECK(p.out[0]->dead == NULL); /* exactly at the limit it still runs */
        CHECK_EQ(p.out[0]->attempt, i);
        play_answer(&p, p.out[0], SEND_ABANDONED, NULL);
        p.now_us += PR_SECONDS(1);
    }
    play_send(&p, "a", PR_STR("behind it"));
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 1);
    CHECK(p.out[0]->dead != NULL);
    CHECK_EQ(p.out[0]->dead->cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(p.out[0]->dead->limit, 5);
    CHECK_EQ(p.out[0]->dead->attempts, 5);
    play_answer(&p, p.out[0], SEND_FAILED, NULL); /* whoever has it cannot say what follows: again, later */
    CHECK_EQ(play_turn(&p), 0);
    p.now_us += PR_SECONDS(2);
    CHECK_EQ(play_turn(&p), 1);
    CHECK(p.out[0]->dead != NULL);
    play_answer(&p, p.out[0], SEND_OK, turn_effect(p.out[0], 0));
    CHECK_EQ(play_turn(&p), 1); /* the stream goes on */
    CHECK(p.out[0]->dead == NULL);
    struct listed dead = play_look(&p, id);
    CHECK_EQ(dead.state, STATE_DEAD);
    CHECK_EQ(dead.cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(dead.m.attempts, 6);
    CHECK(flow_is_there(&p, "a"));
    engine_counts(p.engine, &counts);
    CHECK_EQ(counts.poison, 1);
    CHECK_EQ(counts.dead, 1);
    play_close(&p);
}

TEST(of_a_run_only_the_message_that_is_at_fault_is_blamed) /* B132, B141 */
{
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    play_send(&p, "a", PR_STR("1"));
    pr_id bad = play_send(&p, "a", PR_STR("bad"));
    play_send(&p, "a", PR_STR("3"));
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 3);
    const struct delivery_result blame = { .token = p.out[0]->token,
                                           .outcome = SEND_FAILED,
                                           .reason = PR_REASON_POISON_MESSAGE,
                                           .blamed = p.out[0]->run_next->token };
    engine_result(p.engine, p.now_us, &blame);
    engine_check(p.engine);
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 1);
    CHECK(p.out[0]->dead == NULL);
    CHECK_EQ(p.out[0]->attempt, 1); /* as if it had never gone out */
    play_answer(&p, p.out[0], SEND_OK, turn_effect(p.out[0], 0));
    CHECK_EQ(play_turn(&p), 1);
    CHECK(pr_id_equal(p.out[0]->message->id, bad));
    CHECK(p.out[0]->dead != NULL);
    CHECK_EQ(p.out[0]->dead->cause, PR_REASON_POISON_MESSAGE);
    play_answer(&p, p.out[0], SEND_OK, NULL);
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(p.out[0]->attempt, 1);
    CHECK_EQ(play_look(&p, bad).state, STATE_DEAD);
    play_close(&p);
}

TEST(a_message_that_comes_again_as_its_doer_says_is_counted_and_asks_no_rule) /* B106 */
{
    struct play p;
    play_open(&p, "activities", BOX_ACTIVITIES);
    pr_id id = play_send(&p, "", PR_STR("x"));
    for (int i = 1; i <= 7; i++) { /* its endpoint would give up after two */
        CHECK_EQ(play_turn(&p), 1);
        CHECK_EQ(p.out[0]->attempt, i);
        CHECK(engine_message(p.engine, p.out[0]->token) == p.out[0]->message);
        const uint64_t token = p.out[0]->token;
        char error[] = "not yet";
        const struct delivery_result again = { .token = token,
                                               .outcome = SEND_AGAIN,
                                               .reason = PR_REASON_HANDLER_EXCEPTION,
                                               .error = error,
                                               .retry_after_us = PR_SECONDS(3) };
        engine_result(p.engine, p.now_us, &again);
        CHECK(engine_message(p.engine, token) == NULL);
        CHECK_EQ(play_turn(&p), 0);
        CHECK_EQ(play_look(&p, id).m.failures, i);
        p.now_us += PR_SECONDS(3);
    }
    play_close(&p);
}

TEST(what_nobody_will_get_does_not_wait_until_somebody_asks) /* B106, B142 */
{
    struct play p;
    play_open(&p, "activities", BOX_ACTIVITIES);
    pr_id id = play_send(&p, "", PR_STR("x"));
    for (int i = 1; i <= 5; i++) {
        CHECK_EQ(play_turn(&p), 1);
        play_answer(&p, p.out[0], SEND_ABANDONED, NULL);
        p.now_us += PR_SECONDS(1);
    }
    engine_set_asks(p.engine, 0, &(struct ask){ .present = true }, 1);
    CHECK_EQ(play_turn(&p), 0);
    CHECK_EQ(play_look(&p, id).state, STATE_DEAD);
    play_send(&p, "", PR_STR("y"));
    CHECK_EQ(play_turn(&p), 0); /* this one waits until somebody asks */
    engine_set_asks(p.engine, 0, &(struct ask){ .present = true, .room = 1 }, 1);
    CHECK_EQ(play_turn(&p), 1);
    play_close(&p);
}

TEST(a_run_whose_retries_are_used_up_is_given_as_dead_too)
{
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    pr_id ids[] = { play_send(&p, "a", PR_STR("1")), play_send(&p, "a", PR_STR("2")) };
    CHECK_EQ(play_turn(&p), 1);
    play_answer(&p, p.out[0], SEND_FAILED, NULL);
    play_turn(&p);
    CHECK_EQ(play_look(&p, ids[1]).m.failures, 1); /* each is counted */
    p.now_us += PR_SECONDS(2);
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 2);
    CHECK_EQ(p.out[0]->run_next->attempt, 2);
    play_answer(&p, p.out[0], SEND_FAILED, NULL);
    CHECK_EQ(play_turn(&p), 1);
    CHECK(p.out[0]->dead != NULL);
    CHECK(pr_id_equal(p.out[0]->message->id, ids[0]));
    CHECK_EQ(p.out[0]->dead->failures, 2);
    play_answer(&p, p.out[0], SEND_OK, NULL);
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(play_look(&p, ids[0]).state, STATE_DEAD);
    CHECK_EQ(play_look(&p, ids[0]).m.failures, 2);
    CHECK(pr_id_equal(p.out[0]->message->id, ids[1])); /* what was with it was not guilty */
    CHECK(p.out[0]->dead == NULL);
    play_close(&p);
}

TEST(a_run_that_is_out_when_the_engine_gives_up_is_abandoned_as_a_whole)
{
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    pr_id ids[] = { play_send(&p, "a", PR_STR("1")), play_send(&p, "a", PR_STR("2")) };
    CHECK_EQ(play_turn(&p), 1);
    const struct delivery *run = p.out[0];
    engine_stop(p.engine, p.now_us);
    engine_give_up(p.engine, p.now_us);
    engine_check(p.engine);
    CHECK_SLICE(run->run_next->message->payload, "2"); /* whoever has it still reads it */
    CHECK_EQ(play_turn(&p), 0);
    CHECK(engine_stopped(p.engine));
    CHECK_EQ(play_look(&p, ids[0]).m.attempts, 1);
    CHECK_EQ(play_look(&p, ids[1]).m.attempts, 1);
    play_answer(&p, run, SEND_OK, NULL); /* too late */
    play_close(&p);
}

TEST(a_run_that_is_out_when_the_lease_is_lost_stays_readable_and_its_result_is_ignored) /* B123 */
{
    struct play p;
    play_open(&p, "turns", BOX_TURNS);
    play_send(&p, "a", PR_STR("1"));
    pr_id second = play_send(&p, "a", PR_STR("2"));
    CHECK_EQ(play_turn(&p), 1);
    const struct delivery *run = p.out[0];
    const struct cycle *cycle;
    p.now_us += PR_SECONDS(10);
    CHECK(engine_plan(p.engine, p.now_us, true, &cycle));
    engine_cycle_failed(p.engine, p.now_us, PR_ELEASE);
    engine_check(p.engine);
    CHECK_SLICE(run->run_next->message->payload, "2");
    play_answer(&p, run, SEND_OK, NULL);
    CHECK_EQ(play_look(&p, second).state, STATE_IN_FLIGHT);
    play_close(&p);
}

TEST(a_message_of_a_run_that_has_not_begun_can_be_discarded)
{
    struct play p;
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    play_open(&p, "turns", BOX_TURNS);
    pr_id ids[] = { play_send(&p, "a", PR_STR("1")), play_send(&p, "a", PR_STR("2")), play_send(&p, "a", PR_STR("3")) };
    for (int i = 0; i < 100 && engine_plan(p.engine, p.now_us, i == 0, &cycle); i++) {
        CHECK_EQ(store_cycle(&p.session, cycle, &reply, NULL), PR_OK);
        engine_absorb(p.engine, p.now_us, p.now_us, reply); /* the run is ready */
    }
    struct admin discard = { .kind = ADMIN_DISCARD, .filter = { .ids = &ids[1], .id_count = 1, .state = -1 } };
    struct admin_reply done;
    CHECK_EQ(store_admin(&p.store, &discard, &done, NULL), PR_OK);
    p.now_us += PR_SECONDS(6); /* the next renewal hears of it */
    CHECK_EQ(play_turn(&p), 1);
    CHECK_EQ(run_length(p.out[0]), 2);
    CHECK(pr_id_equal(p.out[0]->run_next->message->id, ids[2]));
    play_close(&p);
}

TEST(a_cycle_takes_turns_until_it_has_5000_effects)
{
    struct play p;
    char stream[8];
    play_open(&p, "turns", BOX_TURNS);
    for (int i = 0; i < 12; i++) {
        snprintf(stream, sizeof(stream), "f%d", i);
        play_send(&p, stream, PR_STR("x"));
    }
    CHECK_EQ(play_turn(&p), 12);
    for (int i = 0; i < 12; i++) {
        struct send_effect *effects = turn_effect(p.out[i], 0);
        for (int k = 0; k < (i == 0 ? 6000 : 1000); k++) {
            struct send_effect *one = calloc(1, sizeof(*one));
            one->effect = (struct effect){ .kind = EFFECT_STATE, .key = PR_STR("f"), .name = PR_STR("k") };
            one->next = effects->next;
            effects->next = one;
        }
        play_answer(&p, p.out[i], SEND_OK, effects);
    }
    p.most_effects = 0;
    play_turn(&p);
    CHECK_EQ(p.most_effects, 6001); /* one alone may have more, and the others go four at a time */
    CHECK(flow_is_there(&p, "f0"));
    CHECK(flow_is_there(&p, "f11"));
    play_close(&p);
}

TEST(whoever_runs_an_activity_is_told_that_it_was_cancelled) /* B129, B130 */
{
    struct play p;
    uint64_t tokens[4];
    const struct cycle *cycle;
    play_open(&p, "activities", BOX_ACTIVITIES);
    pr_id gone = play_send(&p, "", PR_STR("1"));
    play_send(&p, "", PR_STR("2"));
    CHECK_EQ(play_turn(&p), 2);
    const struct delivery *running = pr_id_equal(p.out[0]->message->id, gone) ? p.out[0] : p.out[1];
    struct admin discard = { .kind = ADMIN_DISCARD, .filter = { .ids = &gone, .id_count = 1, .state = -1 } };
    struct admin_reply done;
    CHECK_EQ(store_admin(&p.store, &discard, &done, NULL), PR_OK);
    CHECK_EQ(engine_gone(p.engine, tokens, 4), 0);
    p.now_us += PR_SECONDS(6);
    CHECK(engine_plan(p.engine, p.now_us, true, &cycle)); /* the renewal */
    CHECK_EQ(cycle->alive_count, 2);
    engine_cycle_failed(p.engine, p.now_us, PR_ESTORE);
    CHECK_EQ(engine_gone(p.engine, tokens, 4), 0); /* it failed: that says nothing of any row */
    p.now_us += PR_SECONDS(1);
    play_turn(&p);
    CHECK_EQ(engine_gone(p.engine, tokens, 4), 1);
    CHECK_EQ(tokens[0], running->token);
    CHECK_EQ(engine_gone(p.engine, tokens, 4), 0); /* once */
    play_answer(&p, running, SEND_OK, NULL);       /* its late result is dropped */
    play_turn(&p);
    play_close(&p);
}

static const struct delivery *out_in_stream(const struct play *p, size_t count, const char *stream)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq_cstr(p->out[i]->message->stream, stream))
            return p->out[i];
    return NULL;
}

TEST(what_waits_behind_a_failed_row_goes_on_when_a_flow_has_cancelled_that_row) /* B114, B128 */
{
    struct play p;
    play_open(&p, "activities", BOX_ACTIVITIES);
    pr_id head = play_send(&p, "session", PR_STR("1"));
    pr_id follower = play_send(&p, "session", PR_STR("2"));
    play_send(&p, "", PR_STR("cancels it"));
    size_t count = play_turn(&p);
    const struct delivery *first = out_in_stream(&p, count, "session"), *canceller = out_in_stream(&p, count, "");
    CHECK(count == 2 && first != NULL && canceller != NULL && pr_id_equal(first->message->id, head));
    const struct delivery_result again = { .token = first->token,
                                           .outcome = SEND_AGAIN,
                                           .reason = PR_REASON_HANDLER_EXCEPTION,
                                           .retry_after_us = PR_SECONDS(3) };
    engine_result(p.engine, p.now_us, &again);
    CHECK_EQ(play_turn(&p), 0);
    struct send_effect *cancel = calloc(1, sizeof(*cancel));
    CHECK(cancel != NULL);
    cancel->effect = (struct effect){ .kind = EFFECT_DELETE, .id = head };
    cancel->box = cancel->effect.box = p.setting.box;
    play_answer(&p, canceller, SEND_OK, cancel);
    CHECK_EQ(play_turn(&p), 0);
    CHECK_EQ(play_look(&p, head).state, STATE_GONE);
    for (int second = 0; second < 20 && (count = play_turn(&p)) == 0; second++)
        p.now_us += PR_SECONDS(1);
    CHECK_EQ(count, 1);
    CHECK(pr_id_equal(p.out[0]->message->id, follower));
    play_close(&p);
}

TEST(a_run_whose_effects_the_database_refuses_fails_and_what_was_with_its_first_message_comes_again)
{
    struct play p;
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    play_open(&p, "turns", BOX_TURNS);
    pr_id ids[] = { play_send(&p, "a", PR_STR("1")), play_send(&p, "a", PR_STR("2")) };
    play_send(&p, "b", PR_STR("x"));
    CHECK_EQ(play_turn(&p), 2);
    for (int i = 0; i < 2; i++)
        play_answer(&p, p.out[i], SEND_OK, turn_effect(p.out[i], 0));
    for (int refusals = 0; refusals < 2; refusals++) { /* of both, then of the first alone */
        CHECK(engine_plan(p.engine, p.now_us, false, &cycle));
        CHECK_EQ(cycle->verdict_count, refusals == 0 ? 3 : 2);
        CHECK(engine_cycle_refused(p.engine, p.now_us, "no"));
        engine_check(p.engine);
    }
    CHECK(engine_plan(p.engine, p.now_us, false, &cycle));
    CHECK_EQ(cycle->verdict_count, 0);
    CHECK_EQ(store_cycle(&p.session, cycle, &reply, NULL), PR_OK);
    engine_absorb(p.engine, p.now_us, p.now_us, reply);
    engine_check(p.engine);
    CHECK_EQ(play_turn(&p), 0); /* its failure is committed, and the other waits behind it */
    CHECK_EQ(play_look(&p, ids[0]).m.failures, 1);
    CHECK_EQ(play_look(&p, ids[1]).m.attempts, 0);
    CHECK(flow_is_there(&p, "b"));
    p.now_us += PR_SECONDS(2);
    CHECK_EQ(play_turn(&p), 1);
    CHECK(pr_id_equal(p.out[0]->message->id, ids[0]));
    play_answer(&p, p.out[0], SEND_OK, turn_effect(p.out[0], 0));
    CHECK_EQ(play_turn(&p), 1);
    CHECK(pr_id_equal(p.out[0]->message->id, ids[1]));
    CHECK_EQ(p.out[0]->attempt, 1);
    play_close(&p);
}

static struct send_effect *tell_flow(void *arg, const struct pr_message *message, const struct verdict *why)
{
    struct send_effect *e = calloc(1, sizeof(*e));
    (void)arg;
    e->box = PR_STR("turns");
    e->message =
        (struct pr_message){ .id = { { 77 } },
                             .type = PR_STR("result"),
                             .stream = PR_STR("flow"),
                             .payload = why->cause == PR_REASON_POISON_MESSAGE ? PR_STR("poison") : PR_STR("?") };
    CHECK_SLICE(message->payload, "charge");
    return e;
}

TEST(the_flow_of_an_activity_that_dies_is_told_in_the_same_transaction) /* B145, B146 */
{
    struct play p;
    play_open(&p, "activities", BOX_ACTIVITIES);
    play_end(&p);
    p.setting.on_dead = tell_flow;
    play_begin(&p, 2);
    pr_id id = play_send(&p, "", PR_STR("charge"));
    for (int i = 1; i <= 5; i++) {
        CHECK_EQ(play_turn(&p), 1);
        play_answer(&p, p.out[0], SEND_ABANDONED, NULL);
        p.now_us += PR_SECONDS(1);
    }
    CHECK_EQ(play_turn(&p), 0);
    CHECK_EQ(play_look(&p, id).state, STATE_DEAD);
    CHECK_SLICE(play_look(&p, (pr_id){ { 77 } }).m.payload, "poison");
    play_close(&p);
}
