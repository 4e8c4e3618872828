/* Limits of an endpoint: messages above its rate wait, without effect on others.  Routes by header. */
#include "stage.h"

#include "base/slice.h"
#include "base/util.h"

/* Sends to an endpoint in [from, to), since the world began. */
static size_t sends_between(const struct stage *s, unsigned endpoint, int64_t from_us, int64_t to_us)
{
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        count += s->diary[i].endpoint == endpoint && s->diary[i].at_us >= from_us && s->diary[i].at_us < to_us;
    return count;
}

TEST(what_is_over_the_rate_waits_and_is_not_counted)
{
    struct stage s;
    pr_id last = { 0 };
    stage_set(&s);
    s.scenario.endpoints[0].rate = (struct rate_setting){ 50, PR_SECONDS(1) };
    stage_endpoint(&s, ORDERING_FIFO)->rate = (struct rate_setting){ 0 };
    stage_open(&s);
    for (int i = 0; i < 300; i++)
        last = world_send_to(&s.w, "e0", i % 3 == 0 ? STREAM(i % 100) : "", "ok");
    for (int i = 0; i < 100; i++)
        world_send_to(&s.w, "e1", "", "ok");
    stage_run(&s, PR_SECONDS(2));
    int64_t first_us = s.diary[0].at_us;
    CHECK(sends_between(&s, 0, first_us, first_us + PR_SECONDS(1)) <= 55);
    CHECK(sends_between(&s, 0, first_us, first_us + PR_SECONDS(1)) >= 50);
    CHECK_EQ(sends_between(&s, 1, 0, first_us + PR_SECONDS(1)), 100);
    struct listed waiting = stage_look(&s, last);
    CHECK_EQ(waiting.m.attempts, 0);
    CHECK_EQ(waiting.m.failures, 0);
    stage_run(&s, PR_SECONDS(5));
    CHECK(stage_done(&s, last));
    CHECK_EQ(sends_between(&s, 0, 0, PR_NEVER), 300); /* each once */
    for (int64_t at_us = first_us; at_us < first_us + PR_SECONDS(6); at_us += PR_MILLISECONDS(100))
        CHECK(sends_between(&s, 0, at_us, at_us + PR_SECONDS(1)) <= 55);
    stage_close(&s);
}

/* No more than a burst and what comes in meanwhile, wherever one looks. */
static bool keeps_rate(const struct stage *s, int64_t per_second)
{
    for (size_t i = 0; i < s->count; i++)
        for (int64_t us = 1; us <= PR_SECONDS(10); us *= 10) {
            int64_t most = per_second / 10 + us * per_second / PR_SECONDS(1);
            if (sends_between(s, 0, s->diary[i].at_us, s->diary[i].at_us + us) > (size_t)most)
                return false;
        }
    return true;
}

TEST(a_store_that_stood_still_lets_no_more_than_a_burst_go)
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].rate = (struct rate_setting){ 100, PR_SECONDS(1) };
    stage_open(&s);
    for (int i = 0; i < 400; i++)
        world_send(&s.w, i % 3 == 0 ? STREAM(i % 50) : "", "ok");
    for (int i = 0; i < 5; i++) {
        s.w.cycle_us = PR_MILLISECONDS(1);
        stage_run(&s, PR_MILLISECONDS(500));
        s.w.cycle_us = PR_MILLISECONDS(700) * (i + 1);
        stage_run(&s, PR_MILLISECONDS(500));
    }
    s.w.cycle_us = PR_MILLISECONDS(1);
    stage_run(&s, PR_SECONDS(10));
    CHECK_EQ(s.count, 400);
    CHECK(keeps_rate(&s, 100));
    stage_close(&s);
}

TEST(a_cycle_costs_a_rate_nothing_when_it_is_short)
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].rate = (struct rate_setting){ 100, PR_SECONDS(1) };
    s.scenario.endpoints[0].concurrency = 2;
    s.scenario.endpoints[0].ahead = true;
    stage_open(&s);
    s.w.cycle_us = PR_MILLISECONDS(20);
    for (int i = 0; i < 1000; i++)
        world_send(&s.w, "", "ok");
    stage_run(&s, PR_SECONDS(5));
    CHECK(s.count >= 490);
    CHECK(keeps_rate(&s, 100));
    stage_close(&s);
}

TEST(a_retry_counts_against_the_rate)
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].rate = (struct rate_setting){ 1, PR_SECONDS(1) };
    stage_open(&s);
    for (int i = 0; i < 5; i++)
        world_send(&s.w, "", "fail:1");
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(s.count, 10);
    for (size_t i = 1; i < s.count; i++)
        CHECK(s.diary[i].at_us - s.diary[i - 1].at_us >= PR_MILLISECONDS(999));
    stage_close(&s);
}

/* A token is there long before: it must not hide when the breaker opens the way. */
TEST(an_endpoint_with_a_rate_is_probed_when_its_breaker_says)
{
    struct stage s;
    stage_set(&s);
    s.scenario.endpoints[0].rate = (struct rate_setting){ 100, PR_SECONDS(1) };
    s.scenario.endpoints[0].concurrency = 1;
    s.scenario.endpoints[0].breaker =
        (struct breaker_setting){ .enabled = true, .after = 3, .open_us = PR_SECONDS(1), .cap_us = PR_SECONDS(1) };
    stage_open(&s);
    for (int i = 0; i < 10; i++)
        world_send(&s.w, "", "down");
    stage_run(&s, PR_SECONDS(3));
    CHECK(s.count >= 5);
    CHECK(s.diary[3].at_us - s.diary[2].at_us < PR_MILLISECONDS(1100));
    CHECK(s.diary[4].at_us - s.diary[3].at_us < PR_MILLISECONDS(1100));
    stage_close(&s);
}

/* What was announced by the old rate is not taken back: it counts against the new one. */
TEST(a_rate_can_be_lowered_while_messages_are_announced)
{
    struct stage s;
    struct endpoint_setting slow;
    stage_set(&s);
    s.scenario.endpoints[0].rate = (struct rate_setting){ 100, PR_SECONDS(1) };
    stage_open(&s);
    stage_run(&s, PR_SECONDS(10));
    s.w.cycle_us = PR_MILLISECONDS(200);
    for (int i = 0; i < 40; i++)
        world_send(&s.w, "", "ok");
    struct engine_counts counts;
    do { /* until a burst is in a cycle that is under way */
        CHECK(world_next(&s.w, s.w.mono_us + PR_SECONDS(5)));
        engine_counts(s.w.instances[0].engine, &counts);
    } while (!s.w.instances[0].asking || counts.out < 5);
    size_t before = s.count;
    slow = s.scenario.endpoints[0];
    slow.rate = (struct rate_setting){ 1, PR_SECONDS(1) };
    struct engine_setting setting = s.w.instances[0].setting;
    setting.endpoints = &slow;
    CHECK_EQ(engine_retune(s.w.instances[0].engine, &setting, NULL, 0, false), PR_OK);
    stage_run(&s, PR_SECONDS(5));
    CHECK(s.count > before);       /* those that were announced */
    CHECK(s.count <= before + 13); /* ... and from then on one in a second */
    stage_run(&s, PR_SECONDS(60));
    CHECK_EQ(s.count, 40);
    stage_close(&s);
}

/* What came in from elsewhere must not follow the routes of what goes out. */
TEST(a_route_takes_messages_of_the_box_that_it_names_or_of_every_outbox)
{
    static const struct {
        const char *box;
        enum box_kind kind;
        size_t count;
        unsigned to;
    } table[] = {
        { "outbox", BOX_OUTBOX, 1, 0 },
        { "ledger", BOX_OUTBOX, 1, 0 },
        { "inbox", BOX_INBOX, 1, 1 },
        { "partners", BOX_INBOX, 0, 0 },
    };
    const unsigned zero[] = { 0 }, one[] = { 1 };
    const struct route routes[] = { { .to = zero, .to_count = 1 },
                                    { .box = PR_STR("inbox"), .to = one, .to_count = 1 } };
    const struct pr_message m = { .type = PR_STR("t") };
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        struct engine_setting setting = { .box = slice_from(table[i].box),
                                          .kind = table[i].kind,
                                          .routes = routes,
                                          .route_count = ARRAY_LENGTH(routes) };
        unsigned to[4] = { 9 };
        CHECK_EQ(engine_route(&setting, &m, to, 4), table[i].count);
        CHECK(table[i].count == 0 || to[0] == table[i].to);
        /* ... and so does a handler */
        setting = (struct engine_setting){
            .box = setting.box, .kind = setting.kind, .overrides = routes, .override_count = ARRAY_LENGTH(routes)
        };
        CHECK_EQ(engine_route(&setting, &m, to, 4), table[i].count);
        CHECK(table[i].count == 0 || to[0] == table[i].to);
    }
}

TEST(a_route_may_want_headers)
{
    static const struct {
        const char *headers;
        bool tenant, both;
    } table[] = {
        { "", false, false },
        { "{}", false, false },
        { "{\"x-tenant\":\"acme-eu\"}", true, false },
        { "{\"X-Tenant\":\"acme\"}", true, false },
        { "{\"x-tenant\":\"ac\\u006de\",\"priority\":1}", true, true },
        { "{\"x-tenant\":\"other\",\"priority\":1}", false, false },
        { "{\"x-tenant\":[\"acme\"],\"priority\":1}", false, false },
        { "{\"priority\":\"1\",\"x\":{\"x-tenant\":\"acme\"}}", false, false },
        { "{\"x-tenan\":\"acme\"}", false, false },
        { "not JSON", false, false },
    };
    const struct route_header wanted[] = { { PR_STR("x-tenant"), PR_STR("acme*") },
                                           { PR_STR("priority"), PR_STR("1") } };
    const unsigned zero[] = { 0 }, one[] = { 1 }, two[] = { 2 };
    const struct route routes[] = {
        { .to = zero, .to_count = 1 },
        { .headers = wanted, .header_count = 1, .to = one, .to_count = 1 },
        { .headers = wanted, .header_count = 2, .to = two, .to_count = 1 },
    };
    const struct engine_setting setting = { .routes = routes, .route_count = ARRAY_LENGTH(routes) };
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        struct pr_message m = { .headers = slice_from(table[i].headers) };
        unsigned to[4];
        size_t count = engine_route(&setting, &m, to, 4);
        CHECK_EQ(count, 1u + table[i].tenant + table[i].both);
        for (size_t k = 0; k < count; k++)
            CHECK_EQ(to[k], k);
    }
}
