/* Poison, errors as JSON, messages that cannot be decoded, retries of activities. */
#include "stand.h"

#include <math.h>
#include <string.h>

#include "base/slice.h"
#include "core/message.h"
#include "flow/activity.h"
#include "flow/flow_id.h"

static int worker(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    struct pr_task_error why;
    pr_task task = pr_activity(f, "explode", input);
    (void)pr_child_with(f, "kid", input, &(struct pr_child_options){ .id = "k" });
    int rc = pr_result(f, task, ret_output, NULL);
    if (rc == PR_FAILED && pr_task_error(f, task, &why) == PR_OK && why.category == PR_CATEGORY_POISON)
        return pr_call(f, "compensate", why.message, ret_output);
    return rc;
}

/* ---- Activities ------------------------------------------------------------------------------------------ */

TEST(a_poisoned_activity_reaches_its_flow_as_a_failed_result) /* B143, B145 */
{
    struct stand *s = stand_new(worker);
    struct pr_message m;
    struct pr_error error;
    struct activity_dead dead = { .end = ACTIVITY_POISONED, .count = 6, .limit = 5 };
    stand_start(s, "x");
    struct pr_message explode = s->activities[0];
    CHECK_OK(flow_on_activity_dead(&explode, &dead, &s->kept, &m, &error), &error);
    CHECK_SLICE(m.stream, "f");
    CHECK_SLICE(m.type, "result");
    CHECK(pr_id_equal(m.id, flow_result_id(s->row.execution, 1)));
    stand_queue_raw(s, &m);
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK_SLICE(s->activities[1].type, "compensate");
    CHECK_SLICE(s->activities[1].payload, "poison: activity explode#1 exceeded 6 attempts (max 5)");
    stand_free(s);
}

TEST(an_error_of_poison_has_all_that_is_known_and_survives_json) /* B143 */
{
    struct arena arena;
    struct pr_error error;
    struct flow_error back;
    const struct pr_message m = { .id = { { 7 } },
                                  .type = PR_STR("charge"),
                                  .stream = PR_STR("s"),
                                  .headers = PR_STR("{\"flow\":\"order-7\"}"),
                                  .payload = PR_STR("\xff\0x"),
                                  .attempts = 6 };
    struct flow_error e = { .kind = FLOW_POISON_ACTIVITY,
                            .count = 6,
                            .limit = 5,
                            .flow = PR_STR("order-7"),
                            .execution = { { 1, 2 } },
                            .name = PR_STR("charge"),
                            .number = 3 };
    arena_init(&arena, 4096);
    CHECK_EQ(flow_poison(&e, &m, &arena), PR_OK);
    pr_slice json = flow_error_encode(&e, &arena);
    CHECK(slice_is_json_object(json));
    CHECK_OK(flow_error_decode(json, &arena, &back, &error), &error);
    CHECK_EQ(back.category, PR_CATEGORY_POISON);
    CHECK_STR(pr_category_name(back.category), "poison");
    CHECK(!back.retryable && back.kind == FLOW_POISON_ACTIVITY);
    CHECK(back.count == 6 && back.limit == 5 && back.number == 3);
    CHECK(pr_id_equal(back.execution, e.execution));
    CHECK_SLICE(back.flow, "order-7");
    CHECK_SLICE(back.name, "charge");
    CHECK_SLICE(back.message, "poison: activity charge#3 exceeded 6 attempts (max 5)");
    CHECK_SLICE(back.content,
                "{\"id\":\"07000000-0000-0000-0000-000000000000\",\"type\":\"charge\",\"stream\":\"s\",\"headers\":"
                "{\"flow\":\"order-7\"},\"payload_base64\":\"/wB4\",\"attempts\":6,\"failures\":0,\"created\":0}");
    CHECK_SLICE(flow_error_encode(&back, &arena), json);
    arena_fini(&arena);
}

TEST(poison_and_configuration_are_never_retryable_whatever_the_json_says) /* B143 */
{
    struct arena arena;
    struct pr_error error;
    struct flow_error e;
    arena_init(&arena, 4096);
    static const struct {
        const char *category;
        bool retryable;
    } cases[] = {
        { "poison", false }, { "configuration", false }, { "infrastructure", true }, { "application", true }
    };
    for (size_t i = 0; i < 4; i++) {
        pr_slice json =
            arena_printf(&arena, "{\"category\":\"%s\",\"message\":\"m\",\"retryable\":true}", cases[i].category);
        CHECK_OK(flow_error_decode(json, &arena, &e, &error), &error);
        CHECK_EQ(e.retryable, cases[i].retryable);
        CHECK_STR(pr_category_name(e.category), cases[i].category);
    }
    CHECK_EQ(flow_error_decode(PR_STR("{\"category\":\"bad luck\"}"), &arena, &e, &error), PR_EINVAL);
    CHECK_EQ(flow_error_decode(PR_STR("{}"), &arena, &e, &error), PR_EINVAL);
    CHECK_EQ(flow_error_decode(PR_STR("no"), &arena, &e, &error), PR_EINVAL);
    CHECK_EQ(flow_error_read(PR_STR("just a text"), &arena, &e), PR_OK);
    CHECK_EQ(e.category, PR_CATEGORY_APPLICATION);
    CHECK_SLICE(e.message, "just a text");
    arena_fini(&arena);
}

TEST(an_activity_that_expires_or_is_discarded_or_fails_for_good_tells_its_flow) /* B106, B145 */
{
    static const struct {
        struct activity_dead dead;
        const char *error;
    } cases[] = { { { .end = ACTIVITY_EXPIRED }, "activity explode was not started in time" },
                  { { .end = ACTIVITY_DISCARDED }, "activity explode was discarded" },
                  { { .end = ACTIVITY_FAILED, .error = PR_STR("no route") }, "no route" },
                  { { .end = ACTIVITY_FAILED }, "the activity failed" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stand *s = stand_new(worker);
        struct pr_message m;
        struct pr_error error;
        stand_start(s, "x");
        struct pr_message explode = s->activities[0];
        CHECK_OK(flow_on_activity_dead(&explode, &cases[i].dead, &s->kept, &m, &error), &error);
        stand_queue_raw(s, &m);
        stand_run(s);
        CHECK_EQ(s->row.state, FLOW_FAILED);
        CHECK_STR(stand_error(s), cases[i].error);
        CHECK_EQ(stand_category(s), PR_CATEGORY_APPLICATION);
        stand_free(s);
    }
}

/* ---- Flows -------------------------------------------------------------------------------------------------- */

static void check_poisoned(struct stand *s)
{
    struct flow_error e;
    struct pr_error error;
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_OK(flow_error_decode(s->row.error, &s->turn, &e, &error), &error);
    CHECK(e.kind == FLOW_POISON_FLOW && e.count == 6 && e.limit == 5);
    CHECK_SLICE(e.message, "poison: flow f exceeded 6 attempts (max 5)");
    CHECK_SLICE(e.flow, "f");
    CHECK(pr_id_equal(e.execution, s->row.execution));
    CHECK(strstr(stand_text(e.content), "\"type\":\"") != NULL);
}

static int never_run(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)f, (void)input, (void)ret_output;
    check_fail(__FILE__, __LINE__, "the code of a poisoned flow was run");
}

TEST(a_poisoned_flow_fails_without_running_tells_its_parent_and_leaves_nothing_open) /* B144 */
{
    struct stand *s = stand_new(worker);
    struct turn_message m = stand_named(s, TURN_START, "test", "x");
    m.parent = PR_STR("p");
    m.parent_execution = (pr_id){ { 9 } };
    m.parent_task = 4;
    stand_queue(s, &m);
    stand_run(s);
    s->code.function = never_run;
    s->dead = (struct flow_dead){ .category = PR_CATEGORY_POISON, .count = 6, .limit = 5 };
    stand_event(s, "bomb", "x");
    check_poisoned(s);
    CHECK_EQ(s->activity_count, 0);
    CHECK_EQ(s->other_count, 3); /* start of the child, its cancel, and word to the parent */
    CHECK_SLICE(s->others[1].type, "cancel");
    CHECK_SLICE(s->others[2].type, "child");
    CHECK_SLICE(s->others[2].stream, "p");
    CHECK_SLICE(s->others[2].payload, stand_text(s->row.error));
    CHECK_STR(stand_events(s, 4), "failed");
    stand_free(s);
}

TEST(a_flow_whose_very_first_message_is_poison_exists_as_failed) /* B144 */
{
    struct stand *s = stand_new(never_run);
    s->dead = (struct flow_dead){ .category = PR_CATEGORY_POISON, .count = 6, .limit = 5 };
    stand_start(s, "boom");
    check_poisoned(s);
    CHECK_SLICE(s->row.name, "test");
    CHECK_SLICE(s->row.input, "boom");
    CHECK_STR(stand_events(s, 1), "started test, failed");
    stand_free(s);
}

TEST(a_parent_whose_start_meets_a_poisoned_flow_is_told_that_it_cannot_have_it) /* B103, B144 */
{
    struct stand *s = stand_new(worker);
    stand_start(s, "x");
    struct turn_message start = stand_named(s, TURN_START, "test", "mine");
    start.parent = PR_STR("mother");
    start.parent_execution.bytes[0] = 1;
    start.parent_task = 1;
    s->other_count = 0;
    s->dead = (struct flow_dead){ .category = PR_CATEGORY_POISON, .count = 6, .limit = 5 };
    stand_queue(s, &start);
    stand_run(s);
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_EQ(s->other_count, 2); /* its own child is cancelled */
    CHECK_SLICE(s->others[1].stream, "mother");
    CHECK_SLICE(s->others[1].type, "child");
    stand_free(s);
}

TEST(a_poisoned_flow_without_a_history_is_ended_by_what_its_row_says) /* B144 */
{
    struct stand *s = stand_new(worker);
    stand_start(s, "x");
    s->code.function = never_run;
    s->dead = (struct flow_dead){ .category = PR_CATEGORY_POISON, .count = 6, .limit = 5 };
    flow_history_fini(&s->history);
    s->unchecked = true;
    struct turn_message m = stand_named(s, TURN_EVENT, "bomb", "x");
    struct pr_message made;
    struct pr_error error;
    CHECK_EQ(turn_message_make(&m, (pr_id){ { 1 } }, &s->kept, &made), PR_OK);
    const struct pr_message *run[] = { &made };
    struct flow_turn_in in = { .flow = PR_STR("f"),
                               .row = &s->row,
                               .messages = run,
                               .count = 1,
                               .dead = &s->dead,
                               .now_us = s->now_us,
                               .turns_box = PR_STR("turns"),
                               .activities_box = PR_STR("activities"),
                               .arena = &s->turn };
    CHECK_OK(flow_turn(&in, &s->out, &error), &error);
    CHECK_EQ(s->out.row->state, FLOW_FAILED);
    CHECK_EQ(s->out.row->next, s->row.next + 1);
    CHECK_EQ(stand_effects(s, EFFECT_DELETE), 4);
    stand_free(s);
}

TEST(poison_for_a_flow_that_is_not_there_or_has_ended_is_a_dead_letter_and_nothing_else) /* B144, B132 */
{
    struct stand *s = stand_new(never_run);
    s->dead = (struct flow_dead){ .category = PR_CATEGORY_POISON, .count = 6, .limit = 5 };
    struct turn_message m = stand_named(s, TURN_CANCEL, NULL, "x");
    stand_queue(s, &m);
    stand_run(s);
    CHECK(s->out.kind == FLOW_TURN_NOTHING && s->out.effect_count == 0 && !s->has_row);
    stand_start(s, "x");
    stand_event(s, "again", "x");
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    stand_free(s);
}

/* ---- Messages that cannot be read --------------------------------------------------------------------------------- */

TEST(a_message_that_cannot_be_decoded_is_named_and_the_others_of_the_run_go_on) /* B132, B143 */
{
    static const struct {
        const char *type, *headers, *why;
    } cases[] = {
        { "nonsense", "{}", "message nonsense of flow f: flows have no messages of this type" },
        { "result", "", "message result of flow f: its headers need \"execution\" and \"task\"" },
        { "result", "{\"execution\":\"no\",\"task\":1}", "message result of flow f: \"execution\" is not a UUID" },
        { "timer", "{\"execution\":5}", "message timer of flow f: \"execution\" has an invalid value" },
        { "timer", "{\"task\":-1,\"execution\":\"01890a5d-ac96-774b-bcce-b302099a8057\"}",
          "message timer of flow f: its headers need \"execution\" and \"task\"" },
        { "event", "{\"name\":\"\"}", "message event of flow f: its headers need \"name\", 1 to 255 bytes" },
        { "mail", "[]", "message mail of flow f: not a JSON object" },
        { "start", "{\"name\":\"x\",\"parent\":\"p\"}",
          "message start of flow f: \"parent\" needs \"parent_execution\" and \"parent_task\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stand *s = stand_new(worker);
        struct flow_error e;
        struct pr_error error;
        struct pr_message bad = { .id = { { 5 } },
                                  .type = slice_from(cases[i].type),
                                  .stream = PR_STR("f"),
                                  .headers = slice_from(cases[i].headers),
                                  .attempts = 2 };
        stand_queue_raw(s, &bad);
        stand_start(s, "x");
        CHECK_EQ(s->row.state, FLOW_RUNNING);
        CHECK_EQ(s->out.bad_count, 1);
        CHECK_EQ(s->out.bad[0].index, 0);
        CHECK_SLICE(s->out.bad[0].why, cases[i].why);
        CHECK_OK(flow_error_decode(s->out.bad[0].error, &s->turn, &e, &error), &error);
        CHECK(e.category == PR_CATEGORY_POISON && e.kind == FLOW_POISON_UNDECODABLE);
        stand_free(s);
    }
}

TEST(messages_of_activities_that_cannot_be_read_are_refused_with_a_reason) /* B132 */
{
    static const char *const headers[] = {
        "",
        "{}",
        "{\"flow\":\"f\",\"execution\":\"01890a5d-ac96-774b-bcce-b302099a8057\"}",
        "{\"flow\":\"f\",\"task\":1,\"execution\":\"x\"}",
        "{\"flow\":\"f\",\"task\":1,\"execution\":\"01890a5d-ac96-774b-bcce-b302099a8057\",\"retry_backoff\":9}",
        "{\"flow\":\"f\",\"task\":1,\"execution\":\"01890a5d-ac96-774b-bcce-b302099a8057\",\"retry_tries\":-2}",
        "{\"flow\":\"f\",\"task\":1,\"execution\":\"01890a5d-ac96-774b-bcce-b302099a8057\",\"timeout_us\":-2}",
    };
    struct arena arena;
    arena_init(&arena, 4096);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        struct activity_message a;
        struct pr_message m = { .type = PR_STR("x"), .headers = slice_from(headers[i]) }, out;
        struct pr_error error = { .code = 0 };
        CHECK_EQ(activity_message_read(&m, &arena, &a, &error), PR_EINVAL);
        CHECK(error.text[0] != '\0');
        CHECK_EQ(flow_on_activity_dead(&m, &(struct activity_dead){ .end = ACTIVITY_EXPIRED }, &arena, &out, &error),
                 PR_EINVAL);
    }
    arena_fini(&arena);
}

/* ---- Retries ----------------------------------------------------------------------------------------------------------- */

static int64_t delay(struct pr_retry retry, int failures)
{
    struct flow_error e = { .category = PR_CATEGORY_APPLICATION, .retryable = true };
    return flow_activity_retry(&retry, failures, &e, 0);
}

TEST(retries_are_fixed_linear_or_exponential_and_have_an_end_and_a_cap) /* B106 */
{
    struct pr_retry none = { .tries = 0 }, once = { .tries = 1 }, at_once = { .tries = 3, .first_us = 50 },
                    fixed = { .tries = 4, .backoff = PR_BACKOFF_FIXED, .first_us = 100 },
                    linear = { .tries = 9, .backoff = PR_BACKOFF_LINEAR, .first_us = 100, .max_us = 250 },
                    twice = { .tries = 2000, .backoff = PR_BACKOFF_EXPONENTIAL, .first_us = 100 },
                    thrice = { .tries = 9,
                               .backoff = PR_BACKOFF_EXPONENTIAL,
                               .first_us = 100,
                               .factor = 3,
                               .max_us = 500 },
                    flat = { .tries = 9, .backoff = PR_BACKOFF_EXPONENTIAL, .first_us = 100, .factor = 1 };
    CHECK_EQ(delay(none, 1), -1);
    CHECK_EQ(delay(once, 1), -1);
    CHECK_EQ(delay(at_once, 1), 0);
    CHECK_EQ(delay(at_once, 2), 0);
    CHECK_EQ(delay(at_once, 3), -1);
    CHECK_EQ(delay(fixed, 1), 100);
    CHECK_EQ(delay(fixed, 3), 100);
    CHECK_EQ(delay(fixed, 4), -1);
    CHECK_EQ(delay(linear, 1), 100);
    CHECK_EQ(delay(linear, 2), 200);
    CHECK_EQ(delay(linear, 3), 250);
    CHECK_EQ(delay(twice, 1), 100);
    CHECK_EQ(delay(twice, 2), 200);
    CHECK_EQ(delay(twice, 5), 1600);
    CHECK(delay(twice, 1999) > 0); /* no overflow */
    CHECK_EQ(delay(thrice, 2), 300);
    CHECK_EQ(delay(thrice, 3), 500);
    CHECK_EQ(delay(flat, 7), 100);
}

TEST(jitter_lengthens_but_not_over_the_cap_and_what_is_not_retryable_is_not_retried) /* B106 */
{
    struct pr_retry r = { .tries = 3, .backoff = PR_BACKOFF_FIXED, .first_us = 1000, .jitter = 0.5, .max_us = 1200 };
    struct flow_error e = { .category = PR_CATEGORY_APPLICATION, .retryable = true };
    CHECK_EQ(flow_activity_retry(&r, 1, &e, 0), 1000);
    CHECK_EQ(flow_activity_retry(&r, 1, &e, 0.2), 1100);
    CHECK_EQ(flow_activity_retry(&r, 1, &e, 0.99), 1200);
    e.retryable = false;
    CHECK_EQ(flow_activity_retry(&r, 1, &e, 0), -1);
}

static int bad_options(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    struct pr_activity_options o = { .retry = { .tries = 2, .factor = NAN } };
    if (input.size == 0)
        o = (struct pr_activity_options){ .tag = "" };
    return pr_result(f, pr_activity_with(f, "a", input, &o), ret_output, NULL);
}

TEST(options_that_cannot_be_are_an_error_to_the_code) /* B106 */
{
    struct stand *s = stand_new(bad_options);
    stand_start(s, "x");
    CHECK_STR(stand_error(s),
              "the retry policy of an activity needs a factor of at most 1000 and a jitter of at most 1");
    stand_free(s);
    s = stand_new(bad_options);
    stand_start(s, "");
    CHECK_STR(stand_error(s), "tag and session of an activity must have 1 to 255 bytes of text");
    stand_free(s);
}

/* ---- The function of an activity ----------------------------------------------------------------------------------------- */

static bool yes(void *arg)
{
    return *(bool *)arg;
}

TEST(an_activity_knows_whose_it_is_and_says_how_it_failed) /* B100, B106 */
{
    struct arena arena;
    struct pr_activity_context c;
    struct flow_error e;
    struct pr_message m;
    struct turn_message t;
    struct pr_error error;
    bool cancelled = false;
    struct activity_message a = { .name = PR_STR("charge"), .flow = PR_STR("f"), .execution = { { 1 } }, .task = 3 };
    arena_init(&arena, 4096);
    activity_context_init(&c, &a, 2, &arena);
    c.is_cancelled = yes;
    c.arg = &cancelled;
    CHECK_SLICE(pr_activity_info(&c)->flow, "f");
    CHECK(pr_activity_info(&c)->attempt == 2 && pr_activity_info(&c)->number == 3);
    CHECK(!pr_activity_is_cancelled(&c));
    cancelled = true;
    CHECK(pr_activity_is_cancelled(&c));
    CHECK(pr_activity_alloc(&c, 10) != NULL);

    activity_failure(&c, -5, &e);
    CHECK(e.category == PR_CATEGORY_APPLICATION && e.retryable);
    CHECK_SLICE(e.message, "the function of activity charge returned -5");
    CHECK_EQ(pr_activity_fail(&c, PR_CATEGORY_APPLICATION, false, "card %d", 7), PR_FAILED);
    activity_failure(&c, PR_FAILED, &e);
    CHECK(!e.retryable);
    CHECK_SLICE(e.message, "card 7");
    (void)pr_activity_fail(&c, PR_CATEGORY_CONFIGURATION, true, "no key"); /* trying again changes no configuration */
    activity_failure(&c, PR_FAILED, &e);
    CHECK(e.category == PR_CATEGORY_CONFIGURATION && !e.retryable);
    (void)pr_activity_fail(&c, PR_CATEGORY_POISON, true, "no"); /* nobody can claim that */
    activity_failure(&c, PR_FAILED, &e);
    CHECK_EQ(e.category, PR_CATEGORY_APPLICATION);

    CHECK_EQ(flow_activity_result(&a, PR_STR("out"), NULL, &arena, &m), PR_OK);
    CHECK_OK(turn_message_read(&m, &arena, &t, &error), &error);
    CHECK(t.kind == TURN_RESULT && !t.failed && t.task == 3);
    CHECK_SLICE(t.data, "out");
    arena_fini(&arena);
}

TEST(ids_are_the_same_for_the_same_and_different_for_others) /* B126, B131 */
{
    pr_id a = { { 1 } }, b = { { 2 } };
    CHECK(pr_id_equal(flow_start_id(PR_STR("x")), flow_start_id(PR_STR("x"))));
    CHECK(!pr_id_equal(flow_start_id(PR_STR("x")), flow_start_id(PR_STR("y"))));
    CHECK(!pr_id_equal(flow_task_id(a, 1), flow_task_id(a, 2)));
    CHECK(!pr_id_equal(flow_task_id(a, 1), flow_task_id(b, 1)));
    CHECK(!pr_id_equal(flow_task_id(a, 1), flow_result_id(a, 1)));
    CHECK_EQ(flow_task_id(a, 1).bytes[6] >> 4, 8); /* UUIDv8 */
}
