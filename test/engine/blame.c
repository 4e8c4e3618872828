/* Who is at fault: outages kill no message, and a bad message among good ones is dead within minutes. */
#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "base/util.h"
#include "core/lane.h"
#include "stage.h"

#define HOUR PR_MINUTES(60)
#define DAY PR_MINUTES(24 * 60)

/* What the receiver does now. */
static struct {
    bool unreachable, unknown_to_it; /* nothing goes out; 401 */
    bool all_fail;                   /* every message of type 0 gets 500, the others do not */
    pr_id bad;                       /* gets 500 always */
    pr_id refused;                   /* gets 422 always */
    size_t sends, told, asked, dead;
    int64_t told_us; /* when the store was told of a delivery last */
    bool told_too_often;
    int64_t takes_us; /* what it gets and takes; 0: a millisecond */
} now;

static void refuse(struct fate *f, int reason, const char *code, bool unsent)
{
    *f = (struct fate){ .outcome = SEND_FAILED, .reason = reason, .code = code, .unsent = unsent, .answer_us = 1000 };
}

static void judge(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    (void)w;
    (void)endpoint;
    now.sends++;
    *f = (struct fate){ .outcome = SEND_OK,
                        .arrives = true,
                        .answer_us = now.takes_us != 0 ? now.takes_us : PR_MILLISECONDS(1) };
    if (now.unreachable)
        refuse(f, PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_COULDNT_CONNECT", true);
    else if (now.unknown_to_it)
        refuse(f, PR_REASON_UNAUTHORIZED, "401", false);
    else if (pr_id_equal(now.refused, d->message->id))
        refuse(f, PR_REASON_VALIDATION_FAILURE, "422", false);
    else if (pr_id_equal(now.bad, d->message->id) || (now.all_fail && slice_eq(d->message->type, scenario_type(0))))
        refuse(f, PR_REASON_DEPENDENCY_FAILURE, "500", false);
}

static void watch(struct world *w, struct instance *in, const struct cycle *cycle, const struct cycle_reply *reply)
{
    (void)in;
    (void)reply;
    for (size_t i = 0; i < cycle->verdict_count; i++)
        now.dead += cycle->verdicts[i].kind == VERDICT_DEAD_LETTER;
    now.asked += cycle->evidence_count;
    if (cycle->delivered_count == 0)
        return;
    now.told_too_often |= now.told > 0 && w->mono_us - now.told_us < PR_MINUTES(1);
    now.told_us = w->mono_us;
    now.told += cycle->delivered_count;
}

static void begin(struct stage *s, unsigned instances, bool breaker)
{
    memset(&now, 0, sizeof(now));
    stage_set(s);
    s->scenario.endpoints[0].policy.retry = retry_default;
    s->scenario.endpoints[0].breaker = breaker_default;
    s->scenario.endpoints[0].breaker.enabled = breaker;
    s->scenario.instances = instances;
    s->scenario.check = false;
    stage_open(s);
    s->w.quiet = true;
    s->w.judge = judge;
    s->w.watch = watch;
    stage_run(s, PR_SECONDS(1));
}

static pr_id send_to(struct stage *s, unsigned type, const char *stream)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.type = scenario_type(type);
    p->m.stream = pr_str(stream);
    p->m.payload = PR_STR("x");
    parcel_seal(&s->w, p);
    CHECK_EQ(world_store(&s->w, &p, 1), PR_OK);
    return p->m.id;
}

/* ---- The endpoint's own faults -------------------------------------------------------------- */

static void survive_an_hour(bool unreachable, bool breaker)
{
    struct stage s;
    pr_id ids[4];
    struct listed head;

    begin(&s, 1, breaker);
    now.unreachable = unreachable;
    now.unknown_to_it = !unreachable;
    for (size_t i = 0; i < 4; i++)
        ids[i] = send_to(&s, 0, "one");
    stage_run(&s, HOUR);
    head = stage_look(&s, ids[0]);
    CHECK_EQ(head.m.failures, 0);
    CHECK_EQ(head.m.attempts, 0);
    CHECK_EQ(head.m.reason, unreachable ? PR_REASON_TRANSPORT_UNAVAILABLE : PR_REASON_UNAUTHORIZED);
    CHECK(head.m.failed_us > 0);
    CHECK_SLICE(head.m.code, unreachable ? "CURLE_COULDNT_CONNECT" : "401");
    CHECK(slice_contains(head.m.story, PR_STR("\"step\":\"postpone\"")));
    CHECK(now.sends < 60); /* the pauses grow, also without a breaker */
    for (size_t i = 1; i < 4; i++)
        CHECK_EQ(world_deliveries(&s.w, ids[i]), 0); /* they wait behind the first */
    now.unreachable = now.unknown_to_it = false;
    stage_run(&s, PR_MINUTES(6));
    for (size_t i = 0; i < 4; i++)
        CHECK(stage_done(&s, ids[i]));
    CHECK_EQ(now.dead, 0);
    stage_close(&s);
}

TEST(an_endpoint_that_is_down_for_an_hour_gets_all_in_order_when_it_is_back) /* B75 */
{
    survive_an_hour(true, true);
}

TEST(wrong_credentials_for_an_hour_kill_nobody) /* B75 */
{
    survive_an_hour(false, true);
}

TEST(without_a_breaker_the_endpoint_s_faults_are_postponed_for_longer_and_longer) /* B75 */
{
    survive_an_hour(true, false);
    survive_an_hour(false, false);
}

/* Nobody else of its type gets through before: a refusal of the content needs no evidence. */
TEST(a_permanent_refusal_blocks_its_stream_for_its_few_tries_only) /* B76 */
{
    struct stage s;
    begin(&s, 1, true);
    now.refused = send_to(&s, 0, "a");
    pr_id behind = send_to(&s, 0, "a"), elsewhere = send_to(&s, 0, "b");
    stage_run(&s, PR_MILLISECONDS(500));
    CHECK(stage_done(&s, elsewhere));
    CHECK(!stage_done(&s, behind));
    stage_run(&s, PR_SECONDS(15));
    CHECK_EQ(now.sends, 5); /* three tries, and one for each of the others */
    CHECK_EQ(now.dead, 1);
    CHECK(stage_done(&s, behind));
    stage_close(&s);
}

TEST(a_day_of_refused_connections_uses_up_nobody_s_failures) /* B72 */
{
    struct stage s;
    struct engine_counts counts;

    begin(&s, 1, true);
    now.unreachable = true;
    for (int i = 0; i < 2000; i++)
        send_to(&s, (unsigned)i % 3, STREAM(i % 200));
    stage_run(&s, DAY);
    CHECK_EQ(now.dead, 0);
    CHECK(now.sends < 550); /* what was out at once, and a probe every five minutes */
    now.unreachable = false;
    stage_run(&s, PR_MINUTES(10));
    engine_counts(s.w.instances[0].engine, &counts);
    CHECK_EQ(counts.sent, 2000);
    CHECK_EQ(now.dead, 0);
    stage_close(&s);
}

/* ---- One bad message among good ones -------------------------------------------------------------- */

/* A stream whose lane this instance has. */
static void find_stream(const struct stage *s, unsigned instance, unsigned from, char ret_name[16])
{
    for (unsigned i = from;; i++) {
        snprintf(ret_name, 16, "t%u", i % 100000);
        if (engine_lanes(s->w.instances[instance].engine) & lane_bit(lane_of(pr_str(ret_name), (pr_id){ { 0 } })))
            return;
    }
}

/* Good ones of its type arrive beside it for ten minutes. */
static void send_good_ones(struct stage *s, unsigned instance, int seconds_apart, bool restarts)
{
    char stream[16];

    for (int t = 0; t < 600; t += seconds_apart) {
        if (restarts)
            snprintf(stream, sizeof(stream), "t%d", t);
        else
            find_stream(s, instance, (unsigned)t + 1000, stream);
        send_to(s, 0, stream);
        stage_run(s, PR_SECONDS(seconds_apart));
        if (restarts && t / 60 != (t + seconds_apart) / 60)
            instance_crash(&s->w, &s->w.instances[0]);
    }
}

TEST(a_bad_message_among_good_ones_of_its_type_is_dead_within_ten_minutes) /* B78 */
{
    struct stage s;
    struct listed letter;

    begin(&s, 1, true);
    now.bad = send_to(&s, 0, "bad");
    pr_id behind = send_to(&s, 0, "bad");
    send_good_ones(&s, 0, 6, false);
    letter = stage_look(&s, now.bad);
    CHECK_EQ(letter.state, STATE_DEAD);
    CHECK_EQ(letter.cause, PR_REASON_POISON_MESSAGE); /* D6 */
    CHECK_EQ(letter.m.reason, PR_REASON_DEPENDENCY_FAILURE);
    CHECK_EQ(letter.m.failures, 8);
    CHECK(stage_done(&s, behind)); /* its stream is free */
    CHECK_EQ(now.dead, 1);
    stage_close(&s);
}

TEST(what_others_of_the_process_delivered_is_evidence_too) /* B78 */
{
    struct stage s;
    struct listed letter;

    begin(&s, 1, true);
    struct instance *in = &s.w.instances[0];
    now.bad = send_to(&s, 0, "bad");
    for (int t = 0; t < 600; t += 6) {
        const struct engine_inline_result sent = { .type = scenario_type(0),
                                                   .at_us = store_time(&s.w.store),
                                                   .sent = 1,
                                                   .asked = true,
                                                   .message = (uint64_t)t + 1 };
        engine_inline_result_absorb(in->engine, s.w.mono_us + in->offset_us, &sent);
        stage_run(&s, PR_SECONDS(6));
    }
    letter = stage_look(&s, now.bad);
    CHECK_EQ(letter.state, STATE_DEAD);
    CHECK_EQ(letter.m.failures, 8);
    CHECK(now.told >= 9 && now.told <= 11); /* the store hears of it, once a minute */
    CHECK(!now.told_too_often);
    stage_close(&s);
}

TEST(a_bad_message_is_blamed_over_restarts) /* B78 */
{
    struct stage s;

    begin(&s, 1, true);
    now.bad = send_to(&s, 0, "bad");
    send_good_ones(&s, 0, 6, true);
    CHECK_EQ(stage_look(&s, now.bad).state, STATE_DEAD);
    CHECK_EQ(now.dead, 1);
    stage_close(&s);
}

TEST(a_bad_message_is_blamed_by_what_another_instance_delivers) /* B78 */
{
    struct stage s;
    char stream[16];

    begin(&s, 2, true);
    stage_run(&s, PR_MINUTES(1)); /* both have their lanes */
    CHECK(engine_lanes(s.w.instances[0].engine) != 0);
    find_stream(&s, 1, 0, stream);
    now.bad = send_to(&s, 0, stream);
    send_good_ones(&s, 0, 6, false); /* of the other one's */
    CHECK_EQ(stage_look(&s, now.bad).state, STATE_DEAD);
    CHECK_EQ(now.dead, 1);
    stage_close(&s);
}

TEST(a_bad_message_alone_is_tried_for_three_days_and_delivered_when_the_receiver_works) /* B78 */
{
    for (int breaker = 0; breaker < 2; breaker++) {
        struct stage s;

        begin(&s, 1, breaker == 1);
        pr_id id = now.bad = send_to(&s, 0, "bad");
        stage_run(&s, 3 * DAY - HOUR);
        CHECK_EQ(now.dead, 0);
        CHECK(now.sends > 300); /* every ten minutes at least */
        now.bad = (pr_id){ { 0 } };
        stage_run(&s, PR_MINUTES(11));
        CHECK(stage_done(&s, id));
        stage_close(&s);
    }
}

TEST(a_bad_message_alone_is_given_up_after_three_days) /* B78 */
{
    for (int breaker = 0; breaker < 2; breaker++) {
        struct stage s;

        begin(&s, 1, breaker == 1);
        now.bad = send_to(&s, 0, "bad");
        pr_id behind = send_to(&s, 0, "bad");
        stage_run(&s, 3 * DAY + HOUR);
        CHECK_EQ(stage_look(&s, now.bad).state, STATE_DEAD);
        CHECK_EQ(now.dead, 1);
        CHECK(stage_done(&s, behind));
        stage_close(&s);
    }
}

TEST(while_a_whole_type_fails_none_of_it_is_blamed_though_other_types_get_through) /* B78 */
{
    struct stage s;
    pr_id ids[20];
    struct engine_counts counts;

    begin(&s, 1, true);
    now.all_fail = true;
    for (size_t i = 0; i < 20; i++)
        ids[i] = send_to(&s, 0, STREAM((int)i));
    for (int t = 0; t < 240; t++) {
        send_to(&s, 1, "other");
        stage_run(&s, PR_MINUTES(1));
    }
    CHECK_EQ(now.dead, 0);
    engine_counts(s.w.instances[0].engine, &counts);
    CHECK_EQ(counts.sent, 240); /* the others went on */
    now.all_fail = false;
    stage_run(&s, PR_MINUTES(11));
    for (size_t i = 0; i < 20; i++)
        CHECK(stage_done(&s, ids[i]));
    CHECK_EQ(now.dead, 0);
    stage_close(&s);
}

/* ---- Evidence --------------------------------------------------------------------------------------------- */

TEST(the_store_is_told_of_deliveries_once_a_minute_and_asked_only_for_what_has_failed)
{
    struct stage s;

    begin(&s, 1, true);
    for (int t = 0; t < 600; t++) {
        send_to(&s, 0, "");
        stage_run(&s, PR_SECONDS(1));
    }
    CHECK(now.told >= 9 && now.told <= 11);
    CHECK(!now.told_too_often);
    CHECK_EQ(now.asked, 0);
    now.bad = send_to(&s, 0, "bad");
    stage_run(&s, PR_SECONDS(10)); /* nobody else: it fails at 0, 2 and 6 s */
    CHECK_EQ(now.asked, 2);
    stage_close(&s);
}

TEST(beyond_so_many_types_there_is_the_evidence_of_the_endpoint)
{
    struct stage s;
    static char names[1100][20];

    begin(&s, 1, true);
    for (int i = 0; i < 1100; i++) {
        struct parcel *p = world_parcel(&s.w);
        snprintf(names[i], sizeof(names[i]), "type%d", i);
        p->m.type = pr_str(names[i]);
        p->m.payload = PR_STR("x");
        parcel_seal(&s.w, p);
        CHECK_EQ(world_store(&s.w, &p, 1), PR_OK);
        if (i % 100 == 0)
            stage_run(&s, PR_SECONDS(1));
    }
    stage_run(&s, PR_SECONDS(10));
    CHECK(now.told >= 1024 && now.told <= 1025);
    stage_close(&s);
}

static int lose_first_answers(struct world *w, struct instance *in, const struct cycle *cycle)
{
    static uint64_t last;
    (void)w;
    (void)in;
    if (cycle->verdict_count == 0 || cycle->number == last)
        return 0;
    last = cycle->number;
    return PR_EUNCERTAIN;
}

/* The store's clock is slower than the engine's, which has guessed it for a second when the cycle is asked again. */
TEST(a_delivery_before_the_failure_proves_nothing_though_its_answer_was_lost) /* B73 */
{
    struct stage s;

    begin(&s, 1, false);
    s.scenario.faults.drift = -0.01;
    s.scenario.endpoints[0].concurrency = 1;
    s.scenario.endpoints[0].policy.retry = (struct retry_setting){
        .base_us = PR_SECONDS(10), .factor = 1, .cap_us = PR_SECONDS(10), .failures = 2, .blame = BLAME_EVIDENCE
    };
    s.w.disturb = lose_first_answers;
    now.takes_us = PR_SECONDS(1);
    send_to(&s, 0, "");
    now.bad = send_to(&s, 0, "");
    stage_run(&s, PR_MINUTES(1));
    CHECK(now.sends > 2);
    CHECK_EQ(now.dead, 0);
    stage_close(&s);
}
