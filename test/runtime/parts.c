/* The parts of the runtime, each alone: incidents, settings, transport threads. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "runtime/effects.h"
#include "runtime/threads/inline_results.h"
#include "runtime/threads/transport_thread.h"
#include "runtime/incident.h"
#include "runtime/program.h"
#include "runtime/config/setting.h"
#include "runtime/threads/thread.h"

/* ---- Incidents --------------------------------------------------------------------------- */

TEST(incidents_tell_step_and_next_time)
{
    static struct incident_ring failures, deaths;
    struct incident list[INCIDENTS_MAX];
    struct verdict v = { .kind = VERDICT_FAIL,
                         .number = 2,
                         .reason = PR_REASON_TIMEOUT_EXCEEDED,
                         .endpoint = PR_STR("orders"),
                         .error = PR_STR("late"),
                         .rule = PR_STR("retry"),
                         .delay_us = PR_SECONDS(4) };
    CHECK(incident_note(&failures, &deaths, &v, PR_SECONDS(100), 0));
    v.kind = VERDICT_DEAD_LETTER;
    CHECK(incident_note(&failures, &deaths, &v, PR_SECONDS(101), 1));
    v.kind = VERDICT_COMPLETE;
    CHECK(!incident_note(&failures, &deaths, &v, PR_SECONDS(102), 2));

    CHECK_EQ(incident_list(&failures, list, INCIDENTS_MAX), 2);
    CHECK_STR(list[0].step, "dead_letter"); /* the newest first */
    CHECK_EQ(list[0].next_us, 0);
    CHECK_STR(list[1].step, "retry");
    CHECK_EQ(list[1].next_us, PR_SECONDS(104));
    CHECK_STR(list[1].endpoint, "orders");
    CHECK_STR(list[1].error, "late");
    CHECK_EQ(list[1].attempt, 2);
    CHECK_EQ(incident_list(&deaths, list, INCIDENTS_MAX), 1);
    CHECK_STR(list[0].step, "dead_letter");
}

TEST(incidents_forget_the_oldest)
{
    static struct incident_ring failures, deaths;
    struct incident list[INCIDENTS_MAX];
    for (int i = 0; i < INCIDENTS_MAX + 5; i++) {
        struct verdict v = { .kind = VERDICT_PARK, .reason = PR_REASON_DESTINATION_MISSING, .number = i };
        CHECK(incident_note(&failures, &deaths, &v, i, (uint64_t)i));
    }
    CHECK_EQ(incident_list(&failures, list, INCIDENTS_MAX), INCIDENTS_MAX);
    CHECK_EQ(list[0].attempt, INCIDENTS_MAX + 4);
    CHECK_EQ(list[INCIDENTS_MAX - 1].attempt, 5);
    CHECK_EQ(incident_list(&failures, list, 3), 3);
}

/* ---- Calls --------------------------------------------------------------------------------- */

static int fail_or_decide(struct pr_context *context, const struct pr_failure *failure, void *user)
{
    struct pr_message m = { .type = PR_STR("alarm") };

    CHECK_EQ(failure->failures, 3);
    CHECK_EQ(pr_effect_send(context, &m), PR_OK);
    pr_decide(context, PR_STEP_DISCARD, 0);
    return user != NULL ? pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "the judge is ill") : PR_OK;
}

static void keep_line(void *arg, const char *line, size_t size)
{
    snprintf(arg, 1024, "%.*s", (int)size, line);
}

TEST(a_called_function_that_fails_is_logged_and_what_it_said_does_not_count) /* B65 */
{
    static struct program program;
    char line[1024] = "", id[PR_ID_TEXT_SIZE];
    struct log log = { .level = LOG_INFO, .write = keep_line, .arg = line };
    struct caller caller = { .program = &program, .log = &log };
    struct pr_message m = { .type = PR_STR("t") };
    const struct failure f = {
        .message = &m, .endpoint = PR_STR("orders"), .reason = PR_REASON_REJECTED, .failures = 3
    };
    struct call_answer answer = { 0 };

    pr_id_new(&m.id);
    pr_id_format(m.id, id);
    program.calls[0] = (struct call_entry){ "f", fail_or_decide, &program };
    program.call_count = 1;
    CHECK_EQ(program_call(&caller, PR_STR("f"), &f, PR_STR("r"), &answer), PR_FAILED);
    CHECK(!answer.decided && answer.effects == NULL);
    CHECK(strstr(line, "event=call_failed call=f rule=r") != NULL);
    CHECK(strstr(line, id) != NULL);
    CHECK(strstr(line, "endpoint=orders reason=dependency_failure error=\"the judge is ill\"") != NULL);

    line[0] = '\0';
    program.calls[0].user = NULL;
    CHECK_EQ(program_call(&caller, PR_STR("f"), &f, PR_STR("r"), &answer), PR_OK);
    CHECK(answer.decided && answer.effects != NULL);
    CHECK_EQ(answer.step, STEP_DISCARD);
    CHECK_STR(line, "");
    free(answer.effects); /* one block each */
}

/* ---- Settings ------------------------------------------------------------------------------ */

static int nothing(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)context, (void)message, (void)user;
    return PR_OK;
}

static struct config *load(const char *text)
{
    struct config *config;
    struct pr_error error;
    CHECK_OK(config_load_text(pr_str(text), "test", &config, &error), &error);
    return config;
}

TEST(setting_numbers_endpoints_routes_and_handlers)
{
    struct config *config = load("endpoints:\n"
                                 "  a: {url: \"null:\", ordering: strict, max_attempts: 3}\n"
                                 "  b: {url: \"handler:order.*\", retry: [1s]}\n"
                                 "routes: [{type: \"x.*\", to: [b, a]}]\n");
    static const struct program program = {
        .handlers = { { "order.*", "order.*", "", nothing, NULL },
                      { "mail.*", "mail.*", "", nothing, NULL },
                      { "inbox/mail.*", "mail.*", "inbox", nothing, NULL } },
        .handler_count = 3,
    };
    struct setting s;
    struct pr_error error;
    CHECK_OK(setting_init(&s, config, &program, NULL, NULL, &error), &error);

    CHECK_EQ(s.endpoint_count, 4);
    CHECK_SLICE(s.endpoints[0].name, "a");
    CHECK_EQ(s.endpoints[0].ordering, ORDERING_STRICT);
    CHECK_EQ(s.endpoints[0].max_attempts, 3);
    CHECK(s.endpoints[0].concurrency > 0); /* the transport's own */
    CHECK_EQ(s.override_count, 3);
    CHECK_EQ(s.overrides[0].to[0], 1); /* the configured endpoint for this glob */
    CHECK_EQ(s.endpoints[1].policy.retry.delay_count, 1);
    CHECK_EQ(s.overrides[1].to[0], 2); /* one of its own, with the defaults */
    CHECK_EQ(s.endpoints[2].policy.retry.failures, retry_default.failures);
    CHECK_EQ(s.overrides[2].to[0], 3); /* another for the same glob in another box */
    CHECK_SLICE(s.endpoints[3].name, "handler:inbox/mail.*");
    CHECK_SLICE(s.overrides[2].box, "inbox");
    CHECK_SLICE(s.overrides[2].type, "mail.*");
    CHECK_EQ(s.route_count, 1);
    CHECK_EQ(s.routes[0].to_count, 2);
    CHECK_EQ(s.routes[0].to[0], 1);
    CHECK_EQ(s.routes[0].to[1], 0);
    setting_fini(&s);
    config_free(config);
}

TEST(setting_refuses_a_handler_of_a_box_that_is_not_there)
{
    struct config *config = load("store: \"memory:\"\n");
    static const struct program program = { .handlers = { { "nowhere/t", "t", "nowhere", nothing, NULL } },
                                            .handler_count = 1 };
    struct setting s;
    struct pr_error error;
    CHECK_EQ(setting_init(&s, config, &program, NULL, NULL, &error), PR_ECONFIG);
    CHECK_STR(error.text, "handler \"t\": unknown box \"nowhere\"; add it under boxes");
    setting_fini(&s);
    config_free(config);
}

TEST(setting_refuses_a_handler_that_nobody_registered)
{
    struct config *config = load("endpoints: {a: {url: \"handler:shop\"}}\n");
    static const struct program empty;
    struct setting s;
    struct pr_error error;
    CHECK_EQ(setting_init(&s, config, &empty, NULL, NULL, &error), PR_ECONFIG);
    CHECK(strstr(error.text, "shop") != NULL && strstr(error.text, "endpoint a") != NULL);
    setting_fini(&s);
    config_free(config);
}

/* ---- Transport threads --------------------------------------------------------------------------- */

#define DELIVERIES 1000

struct harness {
    struct results results;
    int wake_fd;
    struct transport_thread *transport_thread;
    struct pr_message message;
    struct delivery deliveries[DELIVERIES];
    const struct delivery *list[DELIVERIES];
    int outcomes[DELIVERIES]; /* -1: none yet */
    struct clock clock;
    atomic_int block, inside;
};

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

static int wait_inside(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)message;
    struct harness *h = user;
    h->inside++;
    while (h->block > 0 && !pr_should_stop(context))
        wake_wait(-1, 1000);
    return h->block > 0 ? PR_FAILED : PR_OK;
}

/* A clock that holds up whoever asks it while `block` is set: the thread itself, and not its transport. */
static int64_t blocking_mono(void *arg)
{
    struct harness *h = arg;
    while (h->block > 0) {
        h->inside = 1;
        wake_wait(-1, 1000);
    }
    return now_us();
}

static struct harness *harness_make(const char *url, unsigned concurrency, bool blocking)
{
    struct harness *h = calloc(1, sizeof *h);
    h->clock =
        blocking ? (struct clock){ .wall_us = blocking_mono, .mono_us = blocking_mono, .arg = h } : *clock_system();
    struct pr_error error;
    CHECK_OK(wake_open(&h->wake_fd, &error), &error);
    results_init(&h->results, h->wake_fd);
    const struct endpoint_config config = { .name = "test",
                                            .url = url,
                                            .source = "",
                                            .envelope = "binary",
                                            .timeout_us = PR_SECONDS(60),
                                            .concurrency = concurrency,
                                            .handler = wait_inside,
                                            .handler_user = h,
                                            .clock = &h->clock,
                                            .wake_fd = -1 };
    h->message = (struct pr_message){ .type = PR_STR("t") };
    for (size_t i = 0; i < DELIVERIES; i++) {
        h->deliveries[i] = (struct delivery){ .message = &h->message,
                                              .token = i,
                                              .attempt = 1,
                                              .deadline_us = now_us() + PR_SECONDS(60),
                                              .start_before_us = now_us() + PR_SECONDS(60) };
        h->list[i] = &h->deliveries[i];
        h->outcomes[i] = -1;
    }
    CHECK_OK(transport_thread_new(&config, &h->results, &h->transport_thread, &error), &error);
    return h;
}

static struct harness *harness_new(const char *url, unsigned concurrency)
{
    return harness_make(url, concurrency, false);
}

/* Take results until there are so many of this outcome; each delivery has one at most. */
static void harness_wait(struct harness *h, enum send_outcome outcome, size_t wanted)
{
    struct result_list list = { 0 };
    int64_t deadline_us = now_us() + PR_SECONDS(90);
    for (;;) {
        size_t count = 0;
        wake_clear(h->wake_fd);
        results_take(&h->results, &list);
        for (size_t i = 0; i < list.count; i++) {
            CHECK_EQ(h->outcomes[list.entries[i].token], -1); /* exactly one */
            h->outcomes[list.entries[i].token] = (int)list.entries[i].outcome;
            delivery_result_fini(&list.entries[i]);
        }
        list.count = 0;
        for (size_t i = 0; i < DELIVERIES; i++)
            count += h->outcomes[i] == (int)outcome;
        if (count >= wanted) {
            CHECK_EQ(count, wanted);
            break;
        }
        if (now_us() > deadline_us)
            check_fail(__FILE__, __LINE__, "%zu results after 90 s, not %zu", count, wanted);
        wake_wait(h->wake_fd, PR_MILLISECONDS(100));
    }
    free(list.entries);
}

static void harness_free(struct harness *h)
{
    h->block = 0;
    transport_thread_free(h->transport_thread);
    results_fini(&h->results);
    wake_close(h->wake_fd);
    free(h);
}

TEST(transport_thread_brings_one_result_for_each_delivery)
{
    struct harness *h = harness_new("null:", 0);
    for (size_t i = 0; i < DELIVERIES; i += 100)
        CHECK(transport_thread_give(h->transport_thread, h->list + i, 100));
    harness_wait(h, SEND_OK, DELIVERIES);
    harness_free(h);
}

/* A pause after each of them would take ten seconds. */
TEST(transport_thread_does_not_pause_while_others_wait_for_room)
{
    struct harness *h = harness_new("null:", 1);
    int64_t begin_us = now_us();
    CHECK(transport_thread_give(h->transport_thread, h->list, DELIVERIES));
    harness_wait(h, SEND_OK, DELIVERIES);
    CHECK(now_us() - begin_us < PR_SECONDS(5));
    harness_free(h);
}

TEST(transport_thread_starts_nothing_after_the_lease)
{
    struct harness *h = harness_new("null:", 0);
    for (size_t i = 0; i < 10; i += 2)
        h->deliveries[i].start_before_us = now_us() - 1;
    CHECK(transport_thread_give(h->transport_thread, h->list, 10));
    harness_wait(h, SEND_OK, 5);
    harness_wait(h, SEND_RETURNED, 5);
    for (size_t i = 0; i < 10; i++)
        CHECK_EQ(h->outcomes[i], i % 2 == 0 ? SEND_RETURNED : SEND_OK);
    harness_free(h);
}

/* Its answer would come too late, and that would be called a failure of the endpoint. */
TEST(transport_thread_does_not_start_what_has_little_of_its_time_left)
{
    struct harness *h = harness_new("null:", 0);
    for (size_t i = 0; i < 10; i += 2)
        h->deliveries[i].deadline_us = now_us() + PR_SECONDS(30); /* of 60 */
    CHECK(transport_thread_give(h->transport_thread, h->list, 10));
    harness_wait(h, SEND_OK, 5);
    harness_wait(h, SEND_RETURNED, 5);
    for (size_t i = 0; i < 10; i++)
        CHECK_EQ(h->outcomes[i], i % 2 == 0 ? SEND_RETURNED : SEND_OK);
    harness_free(h);
}

TEST(transport_thread_returns_what_is_recalled_and_then_goes_on)
{
    struct harness *h = harness_new("handler:x", 1);
    h->block = 1;
    CHECK(transport_thread_give(h->transport_thread, h->list, 100));
    while (h->inside == 0)
        wake_wait(-1, 1000);
    transport_thread_recall(h->transport_thread, RECALL_CANCEL);
    harness_wait(h, SEND_RETURNED, 100); /* the one inside was asked to stop, and did */
    CHECK_EQ(h->inside, 1);

    h->block = 0;
    CHECK(transport_thread_give(h->transport_thread, h->list + 100, 50));
    harness_wait(h, SEND_OK, 50);
    harness_free(h);
}

TEST(transport_thread_returns_what_was_given_before_a_recall_though_it_had_not_come_by_for_it)
{
    struct harness *h = harness_make("null:", 0, true);
    h->block = 1;
    CHECK(transport_thread_give(h->transport_thread, h->list, 10));
    while (h->inside == 0) /* it has fetched those, and looks at the clock */
        wake_wait(-1, 1000);
    CHECK(transport_thread_give(h->transport_thread, h->list + 10, 50));
    transport_thread_recall(h->transport_thread, RECALL_CANCEL);
    CHECK(transport_thread_give(h->transport_thread, h->list + 60, 20)); /* after it: it is not about these */
    h->block = 0;
    harness_wait(h, SEND_RETURNED, 50);
    harness_wait(h, SEND_OK, 30);
    for (size_t i = 0; i < 80; i++)
        CHECK_EQ(h->outcomes[i], i >= 10 && i < 60 ? SEND_RETURNED : SEND_OK);
    harness_free(h);
}

TEST(transport_thread_that_quits_returns_everything_that_comes)
{
    struct harness *h = harness_new("null:", 0);
    transport_thread_recall(h->transport_thread, RECALL_QUIT);
    harness_free(h);
    h = harness_new("handler:x", 1);
    h->block = 1;
    CHECK(transport_thread_give(h->transport_thread, h->list, 10));
    while (h->inside == 0)
        wake_wait(-1, 1000);
    transport_thread_recall(h->transport_thread, RECALL_QUIT);
    harness_wait(h, SEND_RETURNED, 10);
    harness_free(h);
}

TEST(transport_thread_tells_when_the_transport_cannot_be_opened)
{
    struct harness *h = harness_new("handler:x", 100000); /* more threads than there may be */
    CHECK(transport_thread_give(h->transport_thread, h->list, 3));
    harness_wait(h, SEND_FAILED, 3);
    harness_free(h);
}

/* ---- News ---- */

TEST(inline_results_count_everything_also_when_there_are_too_many)
{
    struct endpoint_setting endpoints[2] = { { .name = PR_STR("a"), .max_attempts = 1 },
                                             { .name = PR_STR("b"), .max_attempts = 1 } };
    struct engine_setting setting = { .box = PR_STR("outbox"),
                                      .lease_us = PR_SECONDS(1),
                                      .batch = 1,
                                      .window_count = 10,
                                      .window_bytes = 1000,
                                      .poll_us = PR_SECONDS(1),
                                      .endpoints = endpoints,
                                      .endpoint_count = 2 };
    struct pr_error error;
    struct engine *engine = engine_new(&setting, &error);
    struct endpoint_view view;
    struct inline_results results;
    int wake_fd;
    CHECK(engine != NULL);
    CHECK_EQ(wake_open(&wake_fd, &error), PR_OK);
    CHECK_EQ(inline_results_init(&results, 2, wake_fd), PR_OK);
    for (uint64_t i = 0; i < 3 * INLINE_RESULTS_MAX; i++)
        inline_results_put(&results, &(struct engine_inline_result){ .endpoint = 1, .sent = 1, .message = i + 1 });
    CHECK_EQ(results.count, 1); /* successes in a row are one */
    for (uint64_t i = 0; i < INLINE_RESULTS_MAX + 10; i++)
        inline_results_put(&results, &(struct engine_inline_result){
                                         .endpoint = i % 2, .type = PR_STR("t"), .failed = 1, .message = i + 1 });
    CHECK_EQ(results.count, INLINE_RESULTS_MAX);
    inline_results_pass_on(&results, engine, 0);
    CHECK_EQ(results.count, 0);
    engine_endpoint(engine, 1, &view);
    CHECK_EQ(view.sent, 3 * INLINE_RESULTS_MAX);
    CHECK_EQ(view.failed, INLINE_RESULTS_MAX / 2 + 5);
    engine_endpoint(engine, 0, &view);
    CHECK_EQ(view.failed, INLINE_RESULTS_MAX / 2 + 5);
    inline_results_put(&results,
                       &(struct engine_inline_result){ .endpoint = 0, .type = PR_STR("t"), .failed = 1, .message = 1 });
    inline_results_fini(&results); /* also with something in it */
    wake_close(wake_fd);
    engine_free(engine);
}

/* ---- Effects ------------------------------------------------------------------------------------- */

TEST(what_only_a_cycle_can_store_is_the_failure_of_an_inline_handler)
{
    struct send_effect *effect = calloc(1, sizeof(*effect));
    CHECK(effect != NULL);
    effect->effect.kind = EFFECT_STATE;
    struct delivery_result result = {
        .token = 7, .outcome = SEND_OK, .bits = PR_STATUS_EVENT_STORED, .effects = effect
    };
    effects_check(NULL, NULL, true, &result);
    CHECK_EQ(result.outcome, SEND_FAILED);
    CHECK_EQ(result.reason, PR_REASON_HANDLER_EXCEPTION);
    CHECK_STR(result.code, "effect_inline");
    CHECK_STR(result.error, "its handler stores more than messages, which needs mode: durable");
    CHECK_EQ(result.token, 7);
    CHECK_EQ(result.bits, PR_STATUS_EVENT_STORED);
    CHECK(result.effects == NULL);
    CHECK_EQ(result.settled_as, PR_EINVAL); /* whoever said that it went well hears that it did not */
    delivery_result_fini(&result);
}
