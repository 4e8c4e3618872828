/* Rules at work: what follows a failure, including side actions and restarts. */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "base/util.h"
#include "policy/raised.h"

/* ---- A stage with rules ------------------------------------------------------------------- */

/* Sends to e0 fail while this says so; set before each test. */
static struct {
    int reason; /* 0: the payload decides */
    int left;   /* so many sends fail */
    int64_t retry_after_us;
    bool disable;
    unsigned endpoint;
} trouble;

static void (*stage_decides)(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f);

static void judge(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    stage_decides(w, d, endpoint, f);
    if (trouble.reason == 0 || endpoint != trouble.endpoint || trouble.left <= 0)
        return;
    trouble.left--;
    *f = (struct fate){ .outcome = SEND_FAILED,
                        .reason = trouble.reason,
                        .answer_us = PR_MILLISECONDS(1),
                        .retry_after_us = trouble.retry_after_us,
                        .disable = trouble.disable };
}

static struct rule rules[4];

static void rule_set(struct stage *s, size_t i, const char *name, struct matcher when, const struct rule_step *steps,
                     size_t count)
{
    rules[i] = (struct rule){ .name = pr_str(name), .when = when, .steps = steps, .step_count = count };
    for (size_t k = 0; k < s->scenario.engine.endpoint_count; k++) {
        s->scenario.endpoints[k].policy.global = rules;
        s->scenario.endpoints[k].policy.global_count = i + 1;
    }
}

#define ALL ((struct matcher){ .kind = MATCH_ALL })
#define REASON(number) ((struct matcher){ .kind = MATCH_REASON, .mask = matcher_reason_bit(number) })
#define SIZE(from, to) ((struct matcher){ .kind = MATCH_SIZE, .min = (from), .max = (to) })
#define RULE(s, i, when, steps) rule_set((s), (i), "r" #i, (when), (steps), ARRAY_LENGTH(steps))

static void set(struct stage *s, int reason, int left)
{
    stage_set(s);
    memset(&trouble, 0, sizeof(trouble));
    trouble.reason = reason;
    trouble.left = left;
}

static void begin(struct stage *s)
{
    stage_open(s);
    stage_decides = s->w.judge;
    s->w.judge = judge;
}

static const struct endpoint_state *endpoint(struct stage *s, const char *name)
{
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply reply;
    CHECK_EQ(store_query(&s->w.store, &query, &s->w.arena, &reply, NULL), PR_OK);
    for (size_t i = 0; i < reply.endpoint_count; i++)
        if (slice_eq_cstr(reply.endpoints[i].name, name))
            return &reply.endpoints[i];
    return NULL;
}

/* The messages that rules made, in the order in which they were stored. */
static const struct parcel *made(struct stage *s, unsigned n)
{
    for (uint32_t i = 0; i < s->w.parcel_count; i++)
        if (s->w.parcels[i]->stored &&
            (message_was_raised(&s->w.parcels[i]->m) || message_was_moved(&s->w.parcels[i]->m)) && n-- == 0)
            return s->w.parcels[i];
    return NULL;
}

static struct engine_counts counts(struct stage *s)
{
    struct engine_counts c;
    engine_counts(s->w.instances[0].engine, &c);
    return c;
}

static const int64_t two_delays[] = { PR_SECONDS(5), PR_SECONDS(30) };
static const struct raise alarm = { .type = PR_STR("sending.failed"),
                                    .to = PR_STR("e1"),
                                    .stream = PR_STR("about {endpoint}"),
                                    .payload = PR_STR("{\"of\":\"{id}\",\"why\":\"{reason}\",\"n\":{failures}}") };

/* ---- Steps ------------------------------------------------------------------------------------ */

TEST(steps_follow_the_failures_also_over_crashes_in_between) /* B62 */
{
    static const struct rule_step steps[] = {
        { .step = STEP_RETRY_NOW, .times = 3 },
        { .step = STEP_RETRY, .retry = { .delays = two_delays, .delay_count = 2 } },
        { .step = STEP_DEAD_LETTER },
    };
    static const int64_t waits[] = { 0, 0, 0, 5, 30 };
    struct stage s;
    set(&s, PR_REASON_REJECTED, 100);
    RULE(&s, 0, REASON(PR_REASON_REJECTED), steps);
    begin(&s);
    pr_id id = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(2)); /* four sends, and it waits for 5 s */
    CHECK_EQ(stage_sends(&s, id), 4);
    instance_crash(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_SECONDS(40));
    instance_crash(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_MINUTES(5));
    CHECK_EQ(stage_sends(&s, id), 6);
    for (unsigned n = 0; n < 5; n++) {
        int64_t waited = stage_send(&s, id, n + 2)->at_us - stage_send(&s, id, n + 1)->at_us;
        CHECK(waited >= PR_SECONDS(waits[n]) &&
              waited < PR_SECONDS(waits[n]) + PR_SECONDS(20)); /* a lease must end first */
    }
    struct listed dead = stage_look(&s, id);
    CHECK_EQ(dead.state, STATE_DEAD);
    CHECK_EQ(dead.m.failures, 6);
    CHECK_EQ(dead.cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(dead.limit, 6);
    CHECK_EQ(dead.m.reason, PR_REASON_REJECTED);
    CHECK_SLICE(dead.rule, "r0");
    CHECK(slice_contains(dead.m.story, PR_STR("\"rule\":\"r0\",\"step\":\"retry_now\"")));
    stage_close(&s);
}

TEST(a_rule_that_runs_out_of_steps_makes_a_dead_letter) /* D8 */
{
    static const struct rule_step steps[] = { { .step = STEP_RETRY_NOW, .times = 2 } };
    struct stage s;
    set(&s, PR_REASON_REJECTED, 100);
    RULE(&s, 0, REASON(PR_REASON_REJECTED), steps);
    begin(&s);
    pr_id id = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(stage_sends(&s, id), 3);
    CHECK_EQ(stage_look(&s, id).state, STATE_DEAD);
    CHECK_EQ(stage_look(&s, id).limit, 3);
    stage_close(&s);
}

TEST(a_discarded_message_is_gone_and_counted) /* B66 */
{
    static const struct rule_step steps[] = { { .step = STEP_DISCARD } };
    struct stage s;
    set(&s, PR_REASON_VALIDATION_FAILURE, 1);
    RULE(&s, 0, ALL, steps);
    begin(&s);
    pr_id id = world_send(&s.w, "a", "ok"), next = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(world_state(&s.w, id, (pr_slice){ 0 }), STATE_GONE);
    CHECK_EQ(world_deliveries(&s.w, id), 0);
    CHECK(stage_done(&s, next)); /* its stream goes on */
    CHECK_EQ(counts(&s).discarded, 1);
    stage_run(&s, s.scenario.engine.lease_us);
    CHECK_EQ(endpoint(&s, "e0")->discarded, 1);
    CHECK_EQ(endpoint(&s, "e0")->failed, 1);
    stage_close(&s);
}

TEST(a_parked_message_waits_for_a_person_and_its_stream_goes_on)
{
    static const struct rule_step steps[] = { { .step = STEP_PARK } };
    struct stage s;
    set(&s, PR_REASON_UNAUTHORIZED, 1);
    RULE(&s, 0, ALL, steps);
    begin(&s);
    pr_id id = world_send(&s.w, "a", "ok"), next = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_MINUTES(60));
    CHECK_EQ(stage_look(&s, id).state, STATE_PARKED);
    CHECK_EQ(stage_look(&s, id).m.failures, 1);
    CHECK(stage_done(&s, next));
    stage_admin(&s, ADMIN_RETRY, id);
    stage_run(&s, PR_SECONDS(1));
    CHECK(stage_done(&s, id));
    stage_close(&s);
}

TEST(poison_is_never_retried_by_a_rule_but_may_raise) /* B45, B40 */
{
    static const struct rule_step retry[] = { { .step = STEP_RETRY_NOW, .times = 100 } };
    static const struct rule_step tell[] = { { .step = STEP_DEAD_LETTER, .raise = &alarm } };
    struct stage s;
    set(&s, 0, 0);
    stage_endpoint(&s, ORDERING_FIFO);
    RULE(&s, 0, REASON(PR_REASON_POISON_MESSAGE), tell);
    RULE(&s, 1, ALL, retry);
    begin(&s);
    pr_id id = world_send_to(&s.w, "e0", "a", "crash");
    stage_run(&s, PR_MINUTES(10));
    CHECK_EQ(stage_sends(&s, id), 5);
    CHECK_EQ(stage_look(&s, id).state, STATE_DEAD);
    CHECK_EQ(stage_look(&s, id).cause, PR_REASON_POISON_MESSAGE);
    CHECK(made(&s, 0) != NULL && made(&s, 1) == NULL);
    stage_close(&s);
}

/* ---- Pause ---------------------------------------------------------------------------------------- */

TEST(a_pause_stops_sending_puts_its_trigger_back_and_counts_nothing) /* B63, B44 */
{
    static const struct rule_step steps[] = { { .step = STEP_PAUSE, .pause_us = PR_MINUTES(5) } };
    struct stage s;
    pr_id ids[20];
    set(&s, 0, 0);
    RULE(&s, 0, REASON(PR_REASON_RATE_LIMITED), steps);
    begin(&s);
    pr_id slow = world_send(&s.w, "", "slow:3000");
    stage_run(&s, PR_SECONDS(1));
    trouble.reason = PR_REASON_RATE_LIMITED;
    trouble.left = 1;
    pr_id trigger = world_send(&s.w, "", "ok");
    stage_run(&s, PR_SECONDS(1));
    for (int i = 0; i < 20; i++)
        ids[i] = world_send(&s.w, i % 2 == 0 ? "a" : "", "ok");
    stage_run(&s, PR_MINUTES(4));
    CHECK(stage_done(&s, slow)); /* what was in flight ended */
    CHECK_EQ(stage_sends(&s, trigger), 1);
    CHECK_EQ(stage_look(&s, trigger).m.attempts, 0);
    CHECK_EQ(stage_look(&s, trigger).m.failures, 0);
    CHECK_EQ(stage_look(&s, ids[0]).m.attempts, 0);
    CHECK_EQ(s.count, 2);
    CHECK_SLICE(endpoint(&s, "e0")->by, "rule r0");
    stage_run(&s, PR_MINUTES(2));
    CHECK(stage_done(&s, trigger));
    for (int i = 0; i < 20; i++)
        CHECK(stage_done(&s, ids[i]));
    stage_close(&s);
}

/* It is put back uncounted, and was sent all the same. */
TEST(what_a_pause_puts_back_has_used_the_rate)
{
    static const struct rule_step steps[] = { { .step = STEP_PAUSE, .pause_us = PR_SECONDS(1) } };
    struct stage s;
    set(&s, PR_REASON_RATE_LIMITED, 2);
    s.scenario.endpoints[0].rate = (struct rate_setting){ 1, PR_MINUTES(1) };
    RULE(&s, 0, REASON(PR_REASON_RATE_LIMITED), steps);
    begin(&s);
    pr_id id = world_send(&s.w, "", "ok");
    stage_run(&s, PR_MINUTES(5));
    CHECK(stage_done(&s, id));
    CHECK_EQ(s.count, 3);
    for (size_t i = 1; i < s.count; i++)
        CHECK(s.diary[i].at_us - s.diary[i - 1].at_us >= PR_SECONDS(59));
    stage_close(&s);
}

TEST(a_pause_holds_from_the_moment_it_is_decided) /* B63 */
{
    static const struct rule_step steps[] = { { .step = STEP_PARK, .pause_us = PR_MINUTES(5) } };
    struct stage s;
    set(&s, PR_REASON_REJECTED, 1);
    s.scenario.endpoints[0].concurrency = 1;
    RULE(&s, 0, ALL, steps);
    begin(&s);
    for (int i = 0; i < 10; i++)
        world_send(&s.w, "", "ok");
    stage_run(&s, PR_MINUTES(4)); /* the next one could have gone out in the cycle that stores the pause */
    CHECK_EQ(s.count, 1);
    stage_run(&s, PR_MINUTES(2));
    CHECK_EQ(s.count, 10);
    stage_close(&s);
}

/* The first message is refused while the receipt of the second is on its way to the store. */
static uint64_t refused_token;

static void judge_refused(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    judge(w, d, endpoint, f);
    if (refused_token == 0)
        *f = (struct fate){ .outcome = SEND_FAILED, .reason = PR_REASON_REJECTED, .answer_us = PR_MINUTES(60) };
    refused_token = refused_token == 0 ? d->token : refused_token;
}

static void watch_receipt(struct world *w, struct instance *in, const struct cycle *cycle,
                          const struct cycle_reply *reply)
{
    const struct delivery_result refused = { .token = refused_token,
                                             .outcome = SEND_FAILED,
                                             .reason = PR_REASON_REJECTED };
    (void)w;
    (void)reply;
    if (cycle->receipt_count > 0 && refused_token != 0)
        engine_result(in->engine, instance_now(in), &refused);
}

TEST(a_pause_also_holds_what_the_store_confirms_before_it_knows_of_it) /* B63 */
{
    static const struct rule_step steps[] = { { .step = STEP_PARK, .pause_us = PR_MINUTES(5) } };
    struct stage s;
    set(&s, 0, 0);
    RULE(&s, 0, REASON(PR_REASON_REJECTED), steps);
    begin(&s);
    refused_token = 0;
    s.w.judge = judge_refused;
    s.w.watch = watch_receipt;
    world_send(&s.w, "", "ok");
    stage_run(&s, PR_SECONDS(1));
    pr_id second = world_send(&s.w, "", "ok");
    stage_run(&s, PR_MINUTES(4));
    CHECK_EQ(stage_sends(&s, second), 0);
    CHECK_EQ(stage_look(&s, second).m.attempts, 0);
    stage_run(&s, PR_MINUTES(2));
    CHECK(stage_done(&s, second));
    stage_close(&s);
}

TEST(a_pause_survives_crashes_and_a_person_can_resume_earlier) /* B63 */
{
    static const struct rule_step steps[] = { { .step = STEP_RETRY_NOW, .times = 5, .pause_us = PR_MINUTES(60) } };
    struct stage s;
    set(&s, PR_REASON_REJECTED, 1);
    RULE(&s, 0, ALL, steps);
    begin(&s);
    pr_id id = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(10));
    instance_crash(&s.w, &s.w.instances[0]);
    stage_run(&s, PR_MINUTES(10));
    CHECK_EQ(stage_sends(&s, id), 1);
    CHECK_EQ(stage_look(&s, id).m.failures, 1); /* retry_now counts, and the pause keeps it */
    world_resume(&s.w, 0);
    stage_run(&s, PR_SECONDS(1));
    CHECK(stage_done(&s, id));
    stage_close(&s);
}

TEST(overlapping_pauses_end_at_the_later_time) /* B63 */
{
    static const struct rule_step steps[] = { { .step = STEP_PAUSE, .pause_us = PR_MINUTES(5) } };
    struct stage s;
    set(&s, PR_REASON_REJECTED, 1);
    RULE(&s, 0, ALL, steps);
    begin(&s);
    pr_id id = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    world_pause(&s.w, 0, world_wall_us(&s.w) + PR_MINUTES(10));
    world_pause(&s.w, 0, world_wall_us(&s.w) + PR_MINUTES(2)); /* shorter: changes nothing */
    stage_run(&s, PR_MINUTES(9));
    CHECK_EQ(stage_sends(&s, id), 1);
    stage_run(&s, PR_MINUTES(2));
    CHECK(stage_done(&s, id));
    stage_close(&s);
}

static void judge_both_at_once(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    static const int reasons[] = { PR_REASON_RATE_LIMITED, PR_REASON_REJECTED };
    stage_decides(w, d, endpoint, f);
    *f =
        (struct fate){ .outcome = SEND_FAILED, .reason = reasons[trouble.left++ % 2], .answer_us = PR_MILLISECONDS(1) };
}

TEST(of_two_pauses_that_begin_together_the_later_end_wins_in_either_order) /* B63 */
{
    static const struct rule_step longer[] = { { .step = STEP_PAUSE, .pause_us = PR_MINUTES(10) } };
    static const struct rule_step shorter[] = { { .step = STEP_PAUSE, .pause_us = PR_MINUTES(5) } };
    struct stage s;
    for (int first = 0; first < 2; first++) {
        set(&s, 0, first);
        RULE(&s, 0, REASON(PR_REASON_RATE_LIMITED), longer);
        RULE(&s, 1, REASON(PR_REASON_REJECTED), shorter);
        begin(&s);
        s.w.judge = judge_both_at_once;
        struct parcel *both[] = { world_parcel(&s.w), world_parcel(&s.w) };
        for (int i = 0; i < 2; i++) {
            both[i]->m.type = scenario_type(0);
            parcel_seal(&s.w, both[i]);
        }
        CHECK_EQ(world_store(&s.w, both, 2), PR_OK);
        stage_run(&s, PR_MINUTES(9));
        CHECK_EQ(s.count, 2);
        stage_run(&s, PR_MINUTES(2));
        CHECK_EQ(s.count, 4);
        stage_close(&s);
    }
}

TEST(an_endpoint_that_says_it_is_gone_is_not_sent_to_until_a_person_says_so) /* B97 */
{
    struct stage s;
    pr_id ids[10];
    set(&s, PR_REASON_DESTINATION_MISSING, 100);
    trouble.disable = true;
    begin(&s);
    for (int i = 0; i < 10; i++)
        ids[i] = world_send(&s.w, "a", "ok");
    stage_run(&s, PR_MINUTES(24 * 60));
    CHECK_EQ(s.count, 1);
    CHECK_EQ(endpoint(&s, "e0")->paused_until_us, PR_NEVER);
    CHECK_EQ(stage_look(&s, ids[0]).m.failures, 0);
    trouble.left = 0; /* the url was corrected */
    world_resume(&s.w, 0);
    stage_run(&s, PR_SECONDS(1));
    for (int i = 0; i < 10; i++)
        CHECK(stage_done(&s, ids[i]));
    stage_close(&s);
}

/* ---- Raise and move ----------------------------------------------------------------------------------- */

TEST(a_raised_message_is_stored_with_the_verdict_and_tells_what_failed) /* B64 */
{
    static const struct rule_step steps[] = { { .step = STEP_DEAD_LETTER, .raise = &alarm } };
    struct stage s;
    char text[160], id_text[PR_ID_TEXT_SIZE];
    set(&s, PR_REASON_REJECTED, 1);
    stage_endpoint(&s, ORDERING_FIFO);
    RULE(&s, 0, REASON(PR_REASON_REJECTED), steps);
    begin(&s);
    pr_id id = world_send_to(&s.w, "e0", "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    const struct parcel *raised = made(&s, 0);
    CHECK(raised != NULL && made(&s, 1) == NULL);
    pr_id_format(id, id_text);
    snprintf(text, sizeof(text), "{\"of\":\"%s\",\"why\":\"rejected\",\"n\":1}", id_text);
    CHECK_SLICE(raised->m.payload, text);
    CHECK_SLICE(raised->m.type, "sending.failed");
    CHECK_SLICE(raised->m.stream, "about e0");
    CHECK_SLICE(raised->m.causation_id, id_text);
    CHECK(stage_done(&s, raised->m.id));
    CHECK_EQ(stage_send(&s, raised->m.id, 1)->endpoint, 1);
    stage_close(&s);
}

TEST(a_raised_message_that_fails_raises_nothing) /* B64 */
{
    static const struct raise echo = { .type = PR_STR("echo"), .to = PR_STR("e0") };
    static const struct rule_step steps[] = { { .step = STEP_RETRY_NOW, .times = 2, .raise = &echo },
                                              { .step = STEP_DEAD_LETTER, .raise = &echo } };
    struct stage s;
    set(&s, PR_REASON_REJECTED, 1000);
    RULE(&s, 0, ALL, steps);
    begin(&s);
    world_send(&s.w, "a", "ok");
    stage_run(&s, PR_MINUTES(60));
    CHECK(made(&s, 2) != NULL && made(&s, 3) == NULL); /* one for each of its own three failures */
    CHECK_EQ(s.count, 3 + 3 * 3);
    stage_close(&s);
}

static int lose_answers_with_effects(struct world *w, struct instance *in, const struct cycle *cycle)
{
    static uint64_t last;
    (void)w;
    (void)in;
    if (cycle->effect_count == 0 || cycle->number == last)
        return 0;
    last = cycle->number;
    return PR_EUNCERTAIN; /* asked again */
}

TEST(a_lost_answer_raises_once) /* B7, B64 */
{
    static const struct rule_step steps[] = { { .step = STEP_PARK, .raise = &alarm } };
    struct stage s;
    set(&s, PR_REASON_REJECTED, 1);
    stage_endpoint(&s, ORDERING_FIFO);
    RULE(&s, 0, ALL, steps);
    begin(&s);
    s.w.disturb = lose_answers_with_effects;
    pr_id id = world_send_to(&s.w, "e0", "a", "ok");
    stage_run(&s, PR_SECONDS(5));
    CHECK_EQ(stage_look(&s, id).state, STATE_PARKED);
    CHECK(made(&s, 0) != NULL && made(&s, 1) == NULL);
    stage_close(&s);
}

TEST(a_dead_letter_goes_to_another_endpoint_with_what_is_known_of_it)
{
    static const struct rule_step steps[] = { { .step = STEP_DEAD_LETTER, .to = PR_STR("e1") } };
    struct stage s;
    set(&s, PR_REASON_REJECTED, 1);
    stage_endpoint(&s, ORDERING_FIFO);
    RULE(&s, 0, ALL, steps);
    begin(&s);
    pr_id id = world_send_to(&s.w, "e0", "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(world_state(&s.w, id, (pr_slice){ 0 }), STATE_GONE); /* not in the table */
    const struct parcel *moved = made(&s, 0);
    CHECK(moved != NULL);
    CHECK(stage_done(&s, moved->m.id));
    CHECK_EQ(stage_send(&s, moved->m.id, 1)->endpoint, 1);
    CHECK_SLICE(moved->m.payload, "ok");
    CHECK(slice_contains(moved->m.headers, PR_STR("\"postrider-dead-reason\":\"rejected\"")));
    CHECK(slice_contains(moved->m.headers, PR_STR("\"postrider-dead-rule\":\"r0\"")));
    CHECK_EQ(counts(&s).dead, 1);
    CHECK_EQ(counts(&s).discarded, 0);
    stage_close(&s);
}

TEST(a_dead_letter_that_was_moved_goes_into_the_table_the_next_time)
{
    static const struct rule_step steps[] = { { .step = STEP_DEAD_LETTER, .to = PR_STR("e0") } };
    struct stage s;
    set(&s, PR_REASON_REJECTED, 1000);
    RULE(&s, 0, ALL, steps);
    begin(&s);
    world_send_to(&s.w, "e0", "a", "ok");
    stage_run(&s, PR_MINUTES(1));
    CHECK(made(&s, 0) != NULL && made(&s, 1) == NULL);
    CHECK_EQ(stage_look(&s, made(&s, 0)->m.id).state, STATE_DEAD);
    stage_close(&s);
}

/* ---- Call ------------------------------------------------------------------------------------------------- */

static struct {
    int calls, result;
    struct call_answer answer;
    bool sends;
} function;

static int call(void *arg, pr_slice name, const struct failure *f, pr_slice rule, struct call_answer *ret)
{
    (void)arg;
    CHECK_SLICE(name, "f");
    CHECK_SLICE(rule, "r0");
    CHECK(f->failures >= 1);
    function.calls++;
    *ret = function.answer;
    if (function.sends) {
        const struct raised a = {
            .failure = f, .rule = rule, .box = PR_STR("outbox"), .id = { .bytes = { 7, (uint8_t)function.calls } }
        };
        ret->effects = raised_raise(&a, &alarm);
    }
    return function.result;
}

static void set_call(struct stage *s, int reason, int left, int result, struct call_answer answer)
{
    set(s, reason, left);
    stage_endpoint(s, ORDERING_FIFO);
    function.calls = 0;
    function.result = result;
    function.answer = answer;
    function.sends = false;
    s->scenario.engine.call = call;
}

TEST(a_called_function_decides_and_may_send) /* B65 */
{
    static const struct rule_step steps[] = { { .step = STEP_CALL, .call = PR_STR("f") },
                                              { .step = STEP_DEAD_LETTER } };
    struct stage s;
    set_call(&s, PR_REASON_REJECTED, 1, PR_OK,
             (struct call_answer){ .decided = true, .step = STEP_RETRY, .delay_us = PR_SECONDS(42) });
    function.sends = true;
    RULE(&s, 0, ALL, steps);
    begin(&s);
    pr_id id = world_send_to(&s.w, "e0", "a", "ok");
    stage_run(&s, PR_MINUTES(2));
    CHECK(stage_done(&s, id));
    CHECK_EQ(function.calls, 1);
    CHECK(stage_send(&s, id, 2)->at_us - stage_send(&s, id, 1)->at_us >= PR_SECONDS(42));
    CHECK(made(&s, 0) != NULL && stage_done(&s, made(&s, 0)->m.id));
    stage_close(&s);
}

TEST(no_time_that_is_asked_for_is_longer_than_a_year) /* B34, B65, B74 */
{
    static const struct rule_step steps[] = { { .step = STEP_CALL, .call = PR_STR("f") } };
    static const enum step again[] = { STEP_RETRY, STEP_RETRY_NOW };
    struct stage s;
    for (int i = 0; i < 3; i++) {
        set_call(&s, PR_REASON_REJECTED, 1, PR_OK,
                 (struct call_answer){ .decided = true, .step = again[i % 2], .delay_us = PR_NEVER });
        trouble.retry_after_us = PR_NEVER;
        if (i < 2)
            RULE(&s, 0, ALL, steps);
        begin(&s);
        pr_id id = world_send_to(&s.w, "e0", "a", "ok");
        stage_run(&s, PR_SECONDS(1));
        CHECK_EQ(stage_look(&s, id).state, STATE_RETRYING); /* and not parked */
        CHECK_EQ((stage_look(&s, id).m.due_us - world_wall_us(&s.w)) / PR_SECONDS(86400), 364);
        stage_close(&s);
    }
}

TEST(a_call_that_fails_falls_to_the_next_step) /* B65 */
{
    static const struct rule_step steps[] = { { .step = STEP_CALL, .call = PR_STR("f") },
                                              { .step = STEP_RETRY,
                                                .retry = { .delays = two_delays, .delay_count = 2 } } };
    struct stage s;
    set_call(&s, PR_REASON_REJECTED, 100, PR_FAILED, (struct call_answer){ .decided = true, .step = STEP_DISCARD });
    function.sends = true;
    RULE(&s, 0, ALL, steps);
    begin(&s);
    pr_id id = world_send_to(&s.w, "e0", "a", "ok");
    stage_run(&s, PR_MINUTES(2));
    CHECK_EQ(function.calls, 3); /* asked each time */
    CHECK_EQ(stage_sends(&s, id), 3);
    CHECK_EQ(stage_look(&s, id).state, STATE_DEAD);
    CHECK(made(&s, 0) == NULL); /* what it sent does not count */
    stage_close(&s);
}

TEST(all_actions_of_a_step_are_taken_when_one_fails) /* B67 */
{
    static const struct rule_step steps[] = {
        { .step = STEP_PARK, .call = PR_STR("f"), .raise = &alarm, .pause_us = PR_MINUTES(5) }
    };
    struct stage s;
    set_call(&s, PR_REASON_REJECTED, 1, PR_FAILED, (struct call_answer){ 0 });
    RULE(&s, 0, ALL, steps);
    begin(&s);
    pr_id id = world_send_to(&s.w, "e0", "a", "ok");
    stage_run(&s, PR_SECONDS(1));
    CHECK_EQ(function.calls, 1);
    CHECK_EQ(stage_look(&s, id).state, STATE_PARKED);
    CHECK(made(&s, 0) != NULL);
    CHECK(endpoint(&s, "e0")->paused_until_us > world_wall_us(&s.w));
    stage_close(&s);
}

/* ---- What is known before sending, and what the other side asks for ---------------------------------------- */

TEST(what_is_too_large_is_found_before_sending_wherever_it_stands) /* B69 */
{
    static const struct rule_step steps[] = { { .step = STEP_DEAD_LETTER } };
    struct stage s;
    for (int at = 0; at < 5; at++) {
        pr_id ids[5];
        set(&s, 0, 0);
        s.scenario.endpoints[0].payload_max = 10;
        RULE(&s, 0, REASON(PR_REASON_MESSAGE_TOO_LARGE), steps);
        begin(&s);
        for (int i = 0; i < 5; i++)
            ids[i] = world_send(&s.w, "a", i == at ? "ok, but far too long" : "ok");
        stage_run(&s, PR_SECONDS(1));
        for (int i = 0; i < 5; i++)
            CHECK_EQ(stage_done(&s, ids[i]), i != at);
        CHECK_EQ(stage_sends(&s, ids[at]), 0);
        CHECK_EQ(stage_look(&s, ids[at]).state, STATE_DEAD);
        CHECK_EQ(stage_look(&s, ids[at]).cause, PR_REASON_MESSAGE_TOO_LARGE);
        stage_close(&s);
    }
}

/* A payload that is not read with its row goes with the message, or stays with it. */
TEST(what_is_too_large_for_its_endpoint_is_moved_with_its_payload_though_it_is_loaded_late)
{
    static const struct rule_step steps[] = { { .step = STEP_DEAD_LETTER, .to = PR_STR("e1") } };
    static const char *const streams[] = { "", "a" };
    struct stage s;
    for (size_t i = 0; i < ARRAY_LENGTH(streams); i++) {
        set(&s, 0, 0);
        stage_endpoint(&s, ORDERING_FIFO);
        s.scenario.endpoints[0].payload_max = 10;
        s.scenario.engine.late_bytes = 5;
        RULE(&s, 0, SIZE(15, 1000), steps);
        begin(&s);
        pr_id id = world_send_to(&s.w, "e0", streams[i], "ok, but far too long");
        stage_run(&s, PR_SECONDS(2));
        CHECK_EQ(stage_sends(&s, id), 0);
        CHECK_EQ(world_state(&s.w, id, (pr_slice){ 0 }), STATE_GONE);
        const struct parcel *moved = made(&s, 0);
        CHECK(moved != NULL);
        CHECK_SLICE(moved->m.payload, "ok, but far too long");
        CHECK(stage_done(&s, moved->m.id));
        stage_close(&s);
    }
}

TEST(a_rule_that_pauses_for_what_is_too_large_puts_it_back_unsent)
{
    static const struct rule_step steps[] = { { .step = STEP_PAUSE, .pause_us = PR_SECONDS(10) } };
    struct stage s;
    set(&s, 0, 0);
    s.scenario.endpoints[0].payload_max = 10;
    RULE(&s, 0, REASON(PR_REASON_MESSAGE_TOO_LARGE), steps);
    begin(&s);
    pr_id loose = world_send(&s.w, "", "ok, but far too long"), ordered = world_send(&s.w, "a", "ok, but far too long");
    stage_run(&s, PR_MINUTES(1));
    CHECK_EQ(s.count, 0);
    CHECK_EQ(stage_look(&s, loose).m.failures, 0);
    CHECK_EQ(stage_look(&s, ordered).m.failures, 0);
    stage_close(&s);
}

TEST(retry_after_is_honoured_whoever_decides) /* B74 */
{
    static const struct rule_step steps[] = { { .step = STEP_RETRY_NOW, .times = 3 } };
    struct stage s;
    for (int with_rule = 0; with_rule < 2; with_rule++) {
        set(&s, PR_REASON_RATE_LIMITED, 1);
        trouble.retry_after_us = PR_SECONDS(90);
        if (with_rule)
            RULE(&s, 0, ALL, steps);
        begin(&s);
        pr_id id = world_send(&s.w, "a", "ok");
        stage_run(&s, PR_MINUTES(3));
        CHECK(stage_done(&s, id));
        CHECK(stage_send(&s, id, 2)->at_us - stage_send(&s, id, 1)->at_us >= PR_SECONDS(90));
        stage_close(&s);
    }
}
