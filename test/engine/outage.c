/* Protecting endpoints: outages, breakers, one bad message among many. */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "base/util.h"

static const struct breaker_setting usual = {
    .enabled = true, .after = 5, .open_us = PR_SECONDS(5), .cap_us = PR_MINUTES(5)
};

#define CROWD 10000

static struct {
    bool down;
    size_t sends, dead, cycles;
    int64_t second; /* of the last send while down */
    unsigned this_second, most_in_a_second;
    pr_slice bad_type; /* only this type fails */
} outage;

static void judge(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    bool bad = outage.down && (outage.bad_type.size == 0 || slice_eq(outage.bad_type, d->message->type));
    (void)endpoint;
    *f = (struct fate){ .outcome = SEND_OK, .arrives = true, .answer_us = PR_MILLISECONDS(1) };
    outage.sends++;
    if (!bad)
        return;
    *f = (struct fate){ .outcome = SEND_FAILED,
                        .reason = PR_REASON_TRANSPORT_UNAVAILABLE,
                        .answer_us = PR_MILLISECONDS(1) };
    outage.this_second = w->mono_us / PR_SECONDS(1) == outage.second ? outage.this_second + 1 : 1;
    outage.second = w->mono_us / PR_SECONDS(1);
    outage.most_in_a_second =
        outage.this_second > outage.most_in_a_second ? outage.this_second : outage.most_in_a_second;
}

static void watch(struct world *w, struct instance *in, const struct cycle *cycle, const struct cycle_reply *reply)
{
    (void)w;
    (void)in;
    (void)reply;
    outage.cycles++;
    for (size_t i = 0; i < cycle->verdict_count; i++)
        outage.dead += cycle->verdicts[i].kind == VERDICT_DEAD_LETTER;
}

static void open_quietly(struct stage *s)
{
    memset(&outage, 0, sizeof(outage));
    s->scenario.check = false;
    stage_open(s);
    s->w.quiet = true;
    s->w.judge = judge;
    s->w.watch = watch;
}

static pr_id send_type(struct stage *s, unsigned type, const char *stream)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.type = scenario_type(type);
    p->m.stream = pr_str(stream);
    p->m.payload = PR_STR("x");
    parcel_seal(&s->w, p);
    CHECK_EQ(world_store(&s->w, &p, 1), PR_OK);
    return p->m.id;
}

static void send_large(struct stage *s)
{
    struct parcel *p = world_parcel(&s->w);
    p->m.type = scenario_type(0);
    p->m.payload = PR_STR("more than ten bytes");
    parcel_seal(&s->w, p);
    CHECK_EQ(world_store(&s->w, &p, 1), PR_OK);
}

static void send_crowd(struct stage *s)
{
    struct parcel *batch[100];
    for (int i = 0; i < CROWD / 100; i++) {
        for (int k = 0; k < 100; k++) {
            batch[k] = world_parcel(&s->w);
            batch[k]->m.type = scenario_type((unsigned)k);
            batch[k]->m.stream = k % 2 == 0 ? slice_dup(&s->w.arena, pr_str(STREAM(k))) : (pr_slice){ NULL, 0 };
            batch[k]->m.payload = PR_STR("x");
            parcel_seal(&s->w, batch[k]);
        }
        CHECK_EQ(world_store(&s->w, batch, 100), PR_OK);
    }
}

static uint64_t listed(struct stage *s, enum query_kind kind)
{
    struct query query = { .kind = kind,
                           .brief = true,
                           .filter = { .box = PR_STR("outbox"), .state = -1, .limit = 100000 } };
    struct query_reply reply;
    CHECK_EQ(store_query(&s->w.store, &query, &s->w.arena, &reply, NULL), PR_OK);
    return reply.listed_count;
}

static uint64_t left(struct stage *s, uint64_t *ret_dead)
{
    *ret_dead = listed(s, QUERY_DEAD);
    return listed(s, QUERY_MESSAGES);
}

TEST(an_outage_of_a_day_with_ten_thousand_waiting_kills_nobody) /* B72 */
{
    struct stage s;
    uint64_t dead = 0;
    stage_set(&s);
    s.scenario.endpoints[0].breaker = usual;
    open_quietly(&s);
    outage.down = true;
    send_crowd(&s);
    stage_run(&s, PR_SECONDS(10)); /* it opens */
    size_t burst = outage.sends;
    outage.most_in_a_second = 0;
    stage_run(&s, PR_MINUTES(24 * 60));
    CHECK(outage.most_in_a_second <= 1);
    CHECK(outage.sends - burst < 24 * 60 * 60); /* a probe a second would be too many already */
    CHECK(outage.sends - burst > 100);          /* and it did look */
    CHECK_EQ(left(&s, &dead), CROWD);
    CHECK_EQ(dead, 0);
    outage.down = false;
    stage_run(&s, PR_MINUTES(30));
    CHECK_EQ(left(&s, &dead), 0);
    CHECK_EQ(dead, 0);
    CHECK_EQ(outage.dead, 0);
    stage_close(&s);
}

static int busy_once(struct world *w, struct instance *in, const struct cycle *cycle)
{
    static uint64_t refused;
    (void)w;
    (void)in;
    if (cycle->verdict_count == 0 || refused == cycle->number)
        return 0;
    refused = cycle->number;
    return PR_EBUSY; /* so that the other results come in before anything is stored */
}

TEST(the_burst_that_opens_the_breaker_is_not_counted) /* B72 */
{
    struct stage s;
    struct parcel *batch[5];
    stage_set(&s);
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].policy.retry.blame =
        BLAME_ALWAYS; /* by default faults of an endpoint are not counted at all */
    open_quietly(&s);
    outage.down = true;
    for (int i = 0; i < 5; i++) {
        batch[i] = world_parcel(&s.w);
        batch[i]->m.type = scenario_type(0);
        batch[i]->m.payload = PR_STR("x");
        parcel_seal(&s.w, batch[i]);
    }
    s.w.disturb = busy_once;
    CHECK_EQ(world_store(&s.w, batch, 5), PR_OK);
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(outage.sends, 5); /* all were out when the fifth failure opened it */
    int failures = 0;
    for (int i = 0; i < 5; i++)
        failures += stage_look(&s, batch[i]->m.id).m.failures;
    CHECK(failures <= 2); /* what was in the cycle already, but not the others of the burst */
    stage_close(&s);
}

TEST(one_message_that_always_fails_does_not_open_the_breaker_for_the_others)
{
    struct stage s;
    struct endpoint_view view;
    stage_set(&s);
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].policy.retry =
        (struct retry_setting){ .base_us = PR_SECONDS(1), .factor = 1 }; /* for ever */
    open_quietly(&s);
    outage.down = true;
    outage.bad_type = scenario_type(5);
    pr_id bad = send_type(&s, 5, "bad");
    for (int i = 0; i < 100; i++) {
        stage_run(&s, PR_SECONDS(10));
        engine_endpoint(s.w.instances[0].engine, 0, &view);
        CHECK_EQ(view.breaker, BREAKER_CLOSED);
    }
    pr_id good = send_type(&s, 0, "good");
    stage_run(&s, PR_SECONDS(1));
    CHECK(stage_done(&s, good));
    CHECK(!stage_done(&s, bad));
    stage_close(&s);
}

TEST(a_breaker_for_each_type_lets_the_other_types_go_on) /* B73 */
{
    struct stage s;
    struct endpoint_view view;
    pr_id bad[40], good[40];
    stage_set(&s);
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].breaker.per_type = true;
    s.scenario.check = true;
    open_quietly(&s);
    s.scenario.check = true;
    outage.down = true;
    outage.bad_type = scenario_type(1);
    for (int i = 0; i < 40; i++)
        bad[i] = send_type(&s, 1, i % 2 == 0 ? STREAM(i) : "");
    stage_run(&s, PR_SECONDS(3));
    engine_endpoint(s.w.instances[0].engine, 0, &view);
    CHECK_EQ(view.breaker, BREAKER_OPEN);
    for (int i = 0; i < 40; i++)
        good[i] = send_type(&s, 2, i % 2 == 0 ? STREAM(100 + i) : "");
    stage_run(&s, PR_SECONDS(1));
    for (int i = 0; i < 40; i++)
        CHECK(stage_done(&s, good[i]));
    stage_run(&s, PR_MINUTES(60 * 24)); /* and of the others nobody dies */
    outage.down = false;
    stage_run(&s, PR_MINUTES(20));
    for (int i = 0; i < 40; i++)
        CHECK(stage_done(&s, bad[i]));
    CHECK_EQ(outage.dead, 0);
    stage_close(&s);
}

TEST(a_stream_waits_behind_its_first_message_when_only_that_types_breaker_is_open) /* B50, B73 */
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].breaker.per_type = true;
    open_quietly(&s);
    outage.down = true;
    outage.bad_type = scenario_type(1);
    for (int i = 0; i < 10; i++)
        send_type(&s, 1, "");
    stage_run(&s, PR_SECONDS(3));
    pr_id first = send_type(&s, 1, "a"), second = send_type(&s, 2, "a");
    stage_run(&s, PR_SECONDS(30));
    CHECK(!stage_done(&s, second));
    outage.down = false;
    stage_run(&s, PR_MINUTES(10));
    CHECK(stage_done(&s, first) && stage_done(&s, second));
    stage_close(&s);
}

/* They wait in the transport, one begins every 10 ms. */
static void judge_waiting(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    judge(w, d, endpoint, f);
    f->start_us = PR_MILLISECONDS(10) * (int64_t)(outage.sends % 80);
}

TEST(what_is_ahead_is_called_back_when_the_breaker_of_its_type_opens) /* B72, B73 */
{
    struct stage s;
    pr_id bad[40], good[40];
    unsigned starts = 0;
    stage_set(&s);
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].breaker.per_type = true;
    s.scenario.endpoints[0].ahead = true;
    open_quietly(&s);
    s.w.judge = judge_waiting;
    outage.down = true;
    outage.bad_type = scenario_type(1);
    for (int i = 0; i < 40; i++) {
        bad[i] = send_type(&s, 1, "");
        good[i] = send_type(&s, 2, "");
    }
    stage_run(&s, PR_SECONDS(4)); /* it is open for five */
    for (int i = 0; i < 40; i++) {
        starts += world_find(&s.w, bad[i])->starts;
        CHECK(stage_done(&s, good[i]));
        CHECK_EQ(world_find(&s.w, good[i])->starts, 1);
    }
    CHECK(starts >= 5 && starts <= 6);
    CHECK_EQ(s.w.instances[0].recalls[0], 1);
    stage_close(&s);
}

/* Streams have both types in turn: order holds while the one waits and the other goes on. */
TEST(an_open_type_takes_no_room_from_the_others) /* B73, B50 */
{
    enum { BAD = 1000, GOOD = 300, MIXED = 50 };
    static pr_id bad[BAD], good[GOOD], first[MIXED], second[MIXED];
    struct stage s;
    uint64_t dead = 0;
    stage_set(&s);
    s.scenario.engine.window_count = 200;
    s.scenario.engine.batch = 50;
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].breaker.per_type = true;
    open_quietly(&s);
    outage.down = true;
    outage.bad_type = scenario_type(1);
    for (int i = 0; i < BAD; i++)
        bad[i] = send_type(&s, 1, i % 2 == 0 ? STREAM(i / 4) : "");
    stage_run(&s, PR_SECONDS(2)); /* it is open, and fills what it may have */
    for (int i = 0; i < MIXED; i++) {
        first[i] = send_type(&s, 1, STREAM(800 + i));
        second[i] = send_type(&s, 2, STREAM(800 + i));
    }
    for (int i = 0; i < GOOD; i++)
        good[i] = send_type(&s, 2, i % 2 == 0 ? STREAM(300 + i) : "");
    stage_run(&s, PR_SECONDS(3));
    for (int i = 0; i < GOOD; i++)
        CHECK(stage_done(&s, good[i]));
    outage.cycles = 0;
    stage_run(&s, PR_MINUTES(10));
    CHECK(outage.cycles < 10 * 60 * 20); /* waiting is not working */
    for (int i = 0; i < MIXED; i++)
        CHECK(!stage_done(&s, first[i]) && !stage_done(&s, second[i]));
    outage.down = false;
    stage_run(&s, PR_MINUTES(20));
    for (int i = 0; i < BAD; i++)
        CHECK(stage_done(&s, bad[i]));
    for (int i = 0; i < MIXED; i++)
        CHECK(stage_done(&s, first[i]) && stage_done(&s, second[i]));
    CHECK_EQ(left(&s, &dead), 0);
    CHECK_EQ(outage.dead, 0);
    stage_close(&s);
}

/* Few of the open type, but each with a long tail of others behind it. */
TEST(what_stands_behind_an_open_type_takes_no_room_from_the_others) /* B73, B50 */
{
    enum { STREAMS = 20, TAIL = 30, GOOD = 200 };
    static pr_id good[GOOD], tail[STREAMS][TAIL];
    struct stage s;
    uint64_t dead = 0;
    stage_set(&s);
    s.scenario.engine.window_count = 200;
    s.scenario.engine.batch = 50;
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].breaker.per_type = true;
    s.scenario.check = true;
    open_quietly(&s);
    outage.down = true;
    outage.bad_type = scenario_type(1);
    for (int i = 0; i < STREAMS; i++)
        send_type(&s, 1, STREAM(i));
    for (int k = 0; k < TAIL; k++)
        for (int i = 0; i < STREAMS; i++)
            tail[i][k] = send_type(&s, 2, STREAM(i));
    for (int i = 0; i < GOOD; i++)
        good[i] = send_type(&s, 2, i % 2 == 0 ? STREAM(300 + i) : "");
    stage_run(&s, PR_SECONDS(5));
    for (int i = 0; i < GOOD; i++)
        CHECK(stage_done(&s, good[i]));
    outage.cycles = 0;
    stage_run(&s, PR_MINUTES(10));
    CHECK(outage.cycles < 10 * 60 * 20);
    outage.down = false;
    stage_run(&s, PR_MINUTES(20));
    for (int i = 0; i < STREAMS; i++)
        for (int k = 0; k < TAIL; k++) {
            CHECK(stage_done(&s, tail[i][k]));
            CHECK(k == 0 || stage_first_us(&s, tail[i][k - 1]) <= stage_first_us(&s, tail[i][k]));
        }
    CHECK_EQ(left(&s, &dead), 0);
    CHECK_EQ(outage.dead, 0);
    stage_close(&s);
}

/* What waits in memory for its breaker can end otherwise: then others of its type are the probes. */
TEST(an_open_type_finds_a_probe_when_those_in_memory_are_gone) /* B72 */
{
    enum { BAD = 400 };
    static pr_id bad[BAD];
    struct stage s;
    stage_set(&s);
    s.scenario.engine.window_count = 100;
    s.scenario.engine.batch = 20;
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].breaker.per_type = true;
    open_quietly(&s);
    outage.down = true;
    outage.bad_type = scenario_type(1);
    for (int i = 0; i < BAD; i++)
        bad[i] = send_type(&s, 1, "");
    stage_run(&s, PR_MINUTES(1));
    for (int i = 0; i < BAD / 2; i++) /* far more than are in memory */
        (void)stage_admin(&s, ADMIN_DISCARD, bad[i]);
    outage.down = false;
    stage_run(&s, PR_MINUTES(20));
    for (int i = BAD / 2; i < BAD; i++)
        CHECK(stage_done(&s, bad[i]));
    stage_close(&s);
}

/* B73, a message that never went out says nothing about the endpoint. */
static void judge_unsent(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    judge(w, d, endpoint, f);
    if (slice_eq(d->message->type, scenario_type(3)))
        *f = (struct fate){
            .outcome = SEND_FAILED, .reason = PR_REASON_SERIALIZATION_ERROR, .unsent = true, .answer_us = 1
        };
}

TEST(what_was_not_sent_neither_ends_a_row_of_failures_nor_closes_the_breaker) /* B69, B73 */
{
    struct stage s;
    struct endpoint_view view;
    stage_set(&s);
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].payload_max = 10;
    open_quietly(&s);
    s.w.judge = judge_unsent;
    outage.down = true;
    outage.bad_type = scenario_type(1);
    for (int i = 0; i < 5; i++) {
        send_type(&s, 1, "");
        stage_run(&s, PR_MILLISECONDS(20));
        send_type(&s, 3, ""); /* the transport cannot write it */
        stage_run(&s, PR_MILLISECONDS(20));
        send_large(&s); /* over the limit */
        stage_run(&s, PR_MILLISECONDS(20));
        engine_endpoint(s.w.instances[0].engine, 0, &view);
        CHECK_EQ(view.breaker, i < 4 ? BREAKER_CLOSED : BREAKER_OPEN);
    }
    for (int i = 0; i < 20; i++)
        send_type(&s, 3, "");
    stage_run(&s, PR_SECONDS(4)); /* probes that are not sent do not close it */
    size_t sends = outage.sends;
    CHECK_EQ(view.breaker, BREAKER_OPEN);
    stage_run(&s, PR_MINUTES(1));
    engine_endpoint(s.w.instances[0].engine, 0, &view);
    CHECK(view.breaker != BREAKER_CLOSED);
    CHECK(outage.sends > sends);
    outage.down = false;
    stage_run(&s, PR_MINUTES(20));
    engine_endpoint(s.w.instances[0].engine, 0, &view);
    CHECK_EQ(view.breaker, BREAKER_CLOSED);
    stage_close(&s);
}

TEST(a_share_of_failures_opens_the_breaker) /* B73 */
{
    struct stage s;
    struct endpoint_view view;
    stage_set(&s);
    s.scenario.endpoints[0].breaker = usual;
    s.scenario.endpoints[0].breaker.share = 0.5;
    s.scenario.endpoints[0].breaker.window_us = PR_SECONDS(30);
    s.scenario.endpoints[0].breaker.least = 20;
    open_quietly(&s);
    for (int i = 0; i < 10; i++)
        send_type(&s, 0, "");
    stage_run(&s, PR_SECONDS(1));
    outage.down = true;
    for (int i = 0; i < 9; i++)
        send_type(&s, 1, "");
    stage_run(&s, PR_MILLISECONDS(100));
    engine_endpoint(s.w.instances[0].engine, 0, &view);
    CHECK_EQ(view.breaker, BREAKER_CLOSED);
    send_type(&s, 1, "");
    stage_run(&s, PR_MILLISECONDS(100));
    engine_endpoint(s.w.instances[0].engine, 0, &view);
    CHECK_EQ(view.breaker, BREAKER_OPEN);
    stage_close(&s);
}

TEST(what_others_send_counts_for_the_breaker_and_the_totals) /* B73 */
{
    struct stage s;
    struct endpoint_view view;
    struct engine_inline_result failed = { .failed = 1, .asked = true, .weight = WEIGHS_ONCE, .message = 1 };
    stage_set(&s);
    s.scenario.endpoints[0].breaker = usual;
    open_quietly(&s);
    stage_run(&s, PR_SECONDS(1));
    struct engine *e = s.w.instances[0].engine;
    for (int i = 0; i < 4; i++, failed.message++)
        engine_inline_result_absorb(e, s.w.mono_us, &failed);
    engine_inline_result_absorb(
        e, s.w.mono_us, &(struct engine_inline_result){ .sent = 3, .asked = true, .message = 9 }); /* begins anew */
    for (int i = 0; i < 4; i++, failed.message++)
        engine_inline_result_absorb(e, s.w.mono_us, &failed);
    engine_inline_result_absorb(
        e, s.w.mono_us,
        &(struct engine_inline_result){ .failed = 1, .dead = 1, .message = 99 }); /* was not sent at all */
    engine_endpoint(e, 0, &view);
    CHECK_EQ(view.breaker, BREAKER_CLOSED);
    engine_inline_result_absorb(e, s.w.mono_us, &failed);
    engine_endpoint(e, 0, &view);
    CHECK_EQ(view.breaker, BREAKER_OPEN);
    CHECK(view.sent == 3 && view.failed == 10);

    stage_run(&s, PR_SECONDS(10)); /* nobody wakes an engine in this world */
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply reply;
    CHECK_EQ(store_query(&s.w.store, &query, &s.w.arena, &reply, NULL), PR_OK);
    CHECK_EQ(reply.endpoint_count, 1);
    CHECK_EQ(reply.endpoints[0].sent, 3);
    CHECK_EQ(reply.endpoints[0].failed, 10);
    CHECK_EQ(reply.endpoints[0].dead, 1);
    stage_close(&s);
}
