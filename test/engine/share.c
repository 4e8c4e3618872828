/* Limits of an endpoint hold over all engines of a process.  Each sentence is measured twice: with shared limits, and
 * with engines that have their own, where it must be broken: otherwise nothing was measured. */
#include "stage.h"

#include "base/util.h"
#include "core/lane.h"

static int ill; /* the endpoint, of ill_judge(): the reason; 0: it is well */

static void ill_judge(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    struct stage *s = w->user;

    (void)d;
    (void)endpoint;
    s->count++;
    f->answer_us = PR_MILLISECONDS(1);
    if (ill == 0)
        return;
    f->outcome = SEND_FAILED;
    f->reason = ill;
    f->arrives = false;
}

static void two_engines(struct stage *s, bool shared)
{
    stage_set(s);
    s->scenario.instances = 2;
    s->scenario.limits_shared = shared;
    s->scenario.endpoints[0].concurrency_shared = true;
}

static void send_many(struct stage *s, int count, const char *payload)
{
    for (int i = 0; i < count; i++)
        world_send(&s->w, STREAM(i), payload);
}

/* Both have their part of the lanes, and nothing is out. */
static void settle(struct stage *s)
{
    stage_run(s, PR_SECONDS(60));
    for (unsigned i = 0; i < 2; i++)
        CHECK(engine_lanes(s->w.instances[i].engine) != 0);
}

static uint64_t sent_by(const struct stage *s, unsigned instance)
{
    struct engine_counts counts;
    engine_counts(s->w.instances[instance].engine, &counts);
    return counts.sent;
}

/* The most sends that began within a time. */
static size_t most_within(const struct stage *s, int64_t us)
{
    size_t most = 0;
    for (size_t i = 0, k = 0; i < s->count; i++) {
        while (s->diary[i].at_us - s->diary[k].at_us >= us)
            k++;
        most = max_size(most, i - k + 1);
    }
    return most;
}

static size_t sends_in_a_second(bool shared)
{
    struct stage s;

    two_engines(&s, shared);
    s.scenario.endpoints[0].rate = (struct rate_setting){ 100, PR_SECONDS(1) };
    stage_open(&s);
    settle(&s);
    send_many(&s, 600, "ok");
    stage_run(&s, PR_SECONDS(4));
    size_t most = most_within(&s, PR_SECONDS(1));
    if (shared) { /* and nothing of it is lost: neither waits for what the other does not use */
        CHECK(s.count >= 380);
        CHECK(sent_by(&s, 0) >= 100 && sent_by(&s, 1) >= 100);
    }
    stage_run(&s, PR_SECONDS(4));
    CHECK_EQ(s.count, 600);
    stage_close(&s);
    return most;
}

TEST(a_rate_holds_over_all_engines_of_a_process)
{
    CHECK(sends_in_a_second(true) <= 110); /* and a burst */
    CHECK(sends_in_a_second(false) >= 190);
}

static size_t sends_at_once(bool shared, unsigned concurrency)
{
    struct stage s;

    two_engines(&s, shared);
    s.scenario.endpoints[0].concurrency = concurrency;
    stage_open(&s);
    settle(&s);
    send_many(&s, 400, "slow:50");
    stage_run(&s, PR_SECONDS(2));
    if (shared) { /* all of it is used, and both get their part */
        CHECK(s.count >= concurrency * 36);
        CHECK(sent_by(&s, 0) >= s.count / 4 && sent_by(&s, 1) >= s.count / 4);
    }
    size_t most = most_within(&s, PR_MILLISECONDS(50));
    stage_close(&s);
    return most;
}

TEST(a_concurrency_holds_over_all_engines_of_a_process)
{
    static const unsigned concurrencies[] = { 1, 2, 5, 8 };

    for (size_t i = 0; i < ARRAY_LENGTH(concurrencies); i++) {
        CHECK(sends_at_once(true, concurrencies[i]) <= concurrencies[i]);
        CHECK(sends_at_once(false, concurrencies[i]) == 2 * concurrencies[i]);
    }
}

TEST(an_engine_that_is_alone_has_the_whole_concurrency)
{
    struct stage s;

    two_engines(&s, true);
    s.scenario.endpoints[0].concurrency = 4;
    stage_open(&s);
    settle(&s);
    uint64_t lanes = engine_lanes(s.w.instances[0].engine);
    for (int i = 0, sent = 0; sent < 40; i++)
        if ((lanes >> lane_of(pr_str(STREAM(i)), (pr_id){ { 0 } }) & 1) != 0) {
            world_send(&s.w, STREAM(i), "slow:50");
            sent++;
        }
    stage_run(&s, PR_MILLISECONDS(600));
    CHECK_EQ(most_within(&s, PR_MILLISECONDS(50)), 4);
    CHECK_EQ(sent_by(&s, 0), 40);
    stage_close(&s);
}

/* Failures in a row until it opens, and from then on probes. */
static size_t sends_of_an_outage(bool shared, int reason, int64_t us)
{
    struct stage s;

    ill = reason;
    two_engines(&s, shared);
    s.scenario.endpoints[0].concurrency = 1;
    s.scenario.endpoints[0].breaker = (struct breaker_setting){
        .enabled = true, .after = 6, .open_us = PR_SECONDS(5), .cap_us = PR_SECONDS(5), .per_type = true
    };
    stage_open(&s);
    settle(&s);
    s.w.judge = ill_judge;
    send_many(&s, 100, "ok");
    stage_run(&s, us);
    size_t sends = s.count;
    ill = 0;
    stage_run(&s, PR_SECONDS(5)); /* one probe closes it for both: nobody waits for his next look */
    CHECK_EQ(sent_by(&s, 0) + sent_by(&s, 1), 100);
    for (unsigned i = 0; i < 2; i++) {
        struct endpoint_view view;
        engine_endpoint(s.w.instances[i].engine, 0, &view);
        CHECK_EQ(view.breaker, BREAKER_CLOSED);
    }
    stage_close(&s);
    return sends;
}

TEST(failures_in_a_row_are_those_of_all_engines_and_one_of_them_probes)
{
    /* The breaker of the endpoint, and that of a type. */
    static const int reasons[] = { PR_REASON_TRANSPORT_UNAVAILABLE, PR_REASON_TIMEOUT_EXCEEDED };

    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++) {
        CHECK_EQ(sends_of_an_outage(true, reasons[i], PR_SECONDS(1)), 6);
        CHECK_EQ(sends_of_an_outage(false, reasons[i], PR_SECONDS(1)), 12);
        CHECK_EQ(sends_of_an_outage(true, reasons[i], PR_SECONDS(18)), 6 + 3);
        CHECK_EQ(sends_of_an_outage(false, reasons[i], PR_SECONDS(18)), 12 + 6);
    }
}

/* Both tell the store of it, each for itself. */
TEST(every_engine_knows_and_tells_that_a_breaker_is_open)
{
    struct stage s;
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply reply;

    ill = PR_REASON_TRANSPORT_UNAVAILABLE;
    two_engines(&s, true);
    s.scenario.endpoints[0].breaker =
        (struct breaker_setting){ .enabled = true, .after = 3, .open_us = PR_SECONDS(5), .cap_us = PR_SECONDS(5) };
    stage_open(&s);
    settle(&s);
    s.w.judge = ill_judge;
    send_many(&s, 20, "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(store_query(&s.w.store, &query, &s.w.arena, &reply, NULL), PR_OK);
    CHECK_EQ(reply.breaker_count, 2);
    for (size_t i = 0; i < 2; i++)
        CHECK_EQ(reply.breakers[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    ill = 0;
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(store_query(&s.w.store, &query, &s.w.arena, &reply, NULL), PR_OK);
    CHECK_EQ(reply.breaker_count, 0);
    stage_close(&s);
}

static size_t most_in_memory(bool shared)
{
    struct stage s;
    size_t most = 0;

    two_engines(&s, shared);
    s.scenario.engine.window_count = 200;
    s.scenario.endpoints[0].concurrency = 2;
    stage_open(&s);
    settle(&s);
    send_many(&s, 900, "slow:5");
    for (int i = 0; i < 400; i++) {
        struct engine_counts a, b;
        stage_run(&s, PR_MILLISECONDS(5));
        engine_counts(s.w.instances[0].engine, &a);
        engine_counts(s.w.instances[1].engine, &b);
        most = max_size(most, a.window_count + b.window_count);
    }
    stage_run(&s, PR_SECONDS(5));
    CHECK_EQ(s.count, 900);
    stage_close(&s);
    return most;
}

TEST(messages_in_memory_are_limited_over_all_engines)
{
    size_t own = most_in_memory(false), shared = most_in_memory(true);
    CHECK(shared <= 200);
    CHECK(shared >= 100);
    CHECK(own >= 190);
}

/* ---- The line, by hand ------------------------------------------------------------------------ */

static void count_wakes(void *arg)
{
    ++*(int *)arg;
}

TEST(who_is_first_in_line_and_does_not_come_holds_others_up_for_a_turn_only)
{
    const struct endpoint_setting s = { .concurrency = 1, .concurrency_shared = true };
    struct limits *limits = limits_new(&(struct limits_setting){ .engines = 3, .endpoint_count = 1 });
    struct endpoint_limits *l = &limits->endpoints[0];
    int wakes[3] = { 0 };
    struct limits_use use[3];
    for (int i = 0; i < 3; i++)
        use[i] = (struct limits_use){ .look_us = PR_NEVER, .wake = count_wakes, .wake_arg = &wakes[i] };

    CHECK(limits_may_take(l, &use[0], &s, 1000));
    limits_taken(l, &use[0], &s);
    CHECK(!limits_may_take(l, &use[1], &s, 1000));
    CHECK(!limits_may_take(l, &use[2], &s, 1000));
    limits_settle(l, &use[0], 0, 0);
    CHECK(wakes[1] == 1 && wakes[2] == 0);         /* the first in line */
    CHECK(!limits_may_take(l, &use[0], &s, 2000)); /* who had it comes after those who wait */
    CHECK(!limits_may_take(l, &use[2], &s, 2000));
    CHECK_EQ(limits_next_us(l, &use[2], &s, 2000), 2000 + LIMITS_TURN_US);
    CHECK(limits_may_take(l, &use[2], &s, 2000 + LIMITS_TURN_US));
    CHECK(limits_may_take(l, &use[1], &s, 2000 + LIMITS_TURN_US)); /* it comes after all */
    limits_wait_over(l, &use[1]);                                  /* ... with nothing to send */
    CHECK_EQ(wakes[2], 1);
    limits_wait_over(l, &use[2]);
    CHECK_EQ(wakes[0], 1);
    limits_free(limits);
}
