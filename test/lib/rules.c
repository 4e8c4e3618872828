/* Rules in C, functions that they call, pauses by the program, and endpoints that send inline. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "place.h"

#define WAIT_US PR_SECONDS(20)

/* A handler that fails as often as it is told. */
struct box_loop {
    atomic_int calls, fail;
    enum pr_reason reason;
    int reached;      /* before it fails */
    pthread_t thread; /* that called it last */
    char headers[512];
};

static int handle(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct box_loop *d = user;
    d->calls++;
    d->thread = pthread_self();
    snprintf(d->headers, sizeof d->headers, "%.*s", (int)m->headers.size, m->headers.size > 0 ? m->headers.data : "");
    if (d->fail > 0) {
        d->fail--;
        pr_reached(context, d->reached);
        return pr_fail(context, d->reason, "the desk said no");
    }
    return PR_OK;
}

static struct pr_engine *make(const struct place *p, const char *more, struct box_loop *orders, struct box_loop *alerts)
{
    char config[2048];
    struct pr_error error;
    snprintf(config, sizeof config,
             "store: \"%s\"\n"
             "endpoints:\n"
             "  orders: {url: \"handler:orders\", %sretry: {base: 1h, jitter: 0}%s}\n"
             "  alerts: {url: \"handler:alerts\"}\n",
             p->url, strstr(more, "breaker:") == NULL ? "breaker: off, " : "", more);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL)
        check_fail(__FILE__, __LINE__, "%s", error.text);
    CHECK_EQ(pr_engine_handle_named(engine, "orders", handle, orders), PR_OK);
    CHECK_EQ(pr_engine_handle_named(engine, "alerts", handle, alerts), PR_OK);
    return engine;
}

static void begin(struct pr_engine *engine)
{
    struct pr_error error;
    CHECK_OK(pr_engine_start(engine, &error), &error);
}

static void add(struct pr_engine *engine, const char *endpoint, struct pr_rule *rule)
{
    struct pr_error error;
    CHECK_OK(pr_engine_rule(engine, endpoint, rule, &error), &error);
}

static enum pr_sent send_message(struct pr_engine *engine, const char *to, const char *stream, int want)
{
    struct pr_message m = {
        .type = PR_STR("order.created"), .destination = pr_str(to), .stream = pr_str(stream), .payload = PR_STR("{}")
    };
    struct pr_error error;
    enum pr_sent sent;
    pr_id id;
    int rc = pr_engine_send(engine, NULL, &m, &id, &sent, &error);
    if (rc != want)
        check_fail(__FILE__, __LINE__, "pr_engine_send: %d %s", rc, rc < 0 ? error.text : "");
    return sent;
}

static void drain(struct pr_engine *engine)
{
    struct pr_error error;
    CHECK_OK(pr_engine_drain(engine, WAIT_US, &error), &error);
}

/* ---- Rules ------------------------------------------------------------------------------------- */

TEST(a_rule_made_in_c_does_what_one_in_the_config_does) /* B62, B64 */
{
    struct place p;
    struct box_loop orders = { .fail = 100, .reason = PR_REASON_REJECTED }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(&p, "", &orders, &alerts);
    struct pr_rule *rule = pr_rule_new("broker says no");
    pr_rule_when_reason(rule, PR_REASON_REJECTED);
    pr_rule_or(rule);
    pr_rule_when_error(rule, "said no");
    pr_rule_when_code(rule, "5*");
    pr_rule_end(rule);
    pr_rule_not(rule);
    pr_rule_when_type(rule, "invoice.*");
    pr_rule_when_stream(rule, "x");
    pr_rule_end(rule);
    pr_rule_retry_now(rule, 2);
    pr_rule_retry(rule, (int64_t[]){ 0, PR_MILLISECONDS(1) }, 2);
    pr_rule_dead_letter(rule, NULL);
    pr_rule_raise(rule, &(struct pr_raise){ .type = "sending.failed", .to = "alerts" });
    add(engine, "orders", rule);
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_STORED);
    place_wait(&p, "SELECT count(*) FROM postrider_dead_letter", 1);
    drain(engine);
    CHECK_EQ(orders.calls, 5);
    CHECK_EQ(alerts.calls, 1);
    CHECK(strstr(alerts.headers, "\"postrider-raised\":\"broker says no\"") != NULL);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_dead_letter WHERE rule = 'broker says no' AND failures = 5"),
             1);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(a_payload_over_the_limit_is_too_large_and_the_rules_are_asked) /* B9, B69 */
{
    struct place p;
    struct box_loop orders = { 0 }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(&p,
                                    ", rules: [{name: large, when: {reason: message_too_large}, then: {dead_letter: "
                                    "{}, raise: {type: t, to: alerts}}}]",
                                    &orders, &alerts);
    begin(engine);
    place_do(&p, "INSERT INTO outbox (type, destination, payload) VALUES ('t', 'orders', zeroblob(2097152)),"
                 " ('t', 'orders', printf('%.*c', 1048577, 'x')), ('t', 'orders', 'small')");
    place_wait(
        &p, "SELECT count(*) FROM postrider_dead_letter WHERE cause = 8 AND failure_reason = 8 AND rule = 'large'", 2);
    drain(engine);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_dead_letter WHERE length(payload) = 2097152 AND"
                           " error LIKE 'the payload has 2097152 bytes, limits.payload is 1048576%'"),
             1);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_dead_letter WHERE length(payload) = 1048577 AND error LIKE "
                           "'%1048577 bytes%'"),
             1);
    CHECK_EQ(orders.calls, 1);
    CHECK_EQ(alerts.calls, 2);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(a_rule_of_the_config_comes_before_one_in_c) /* B60 */
{
    struct place p;
    struct box_loop orders = { .fail = 1, .reason = PR_REASON_REJECTED }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine =
        make(&p, ", rules: [{name: mine, when: {reason: rejected}, then: park}]", &orders, &alerts);
    struct pr_rule *rule = pr_rule_new("theirs");
    pr_rule_discard(rule);
    add(engine, "orders", rule);
    begin(engine);
    send_message(engine, "orders", "", PR_OK);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE due_at = 9223372036854775807", 1);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(mistakes_in_a_rule_are_told_when_it_is_taken)
{
    struct place p;
    struct box_loop orders = { 0 }, alerts = { 0 };
    struct pr_error error;
    place_init(&p);
    struct pr_engine *engine = make(&p, "", &orders, &alerts);

    struct pr_rule *rule = pr_rule_new("empty");
    CHECK_EQ(pr_engine_rule(engine, NULL, rule, &error), PR_EINVAL);
    CHECK_STR(error.text, "a rule needs 1 to 32 steps");
    pr_rule_free(rule);

    rule = pr_rule_new("late");
    pr_rule_retry(rule, (int64_t[]){ -1 }, 1);
    CHECK_EQ(pr_engine_rule(engine, NULL, rule, &error), PR_EINVAL);
    CHECK_STR(error.text, "a delay must not be negative");
    pr_rule_free(rule);

    rule = pr_rule_new("open");
    pr_rule_or(rule);
    pr_rule_park(rule);
    CHECK_EQ(pr_engine_rule(engine, NULL, rule, &error), PR_EINVAL);
    CHECK_STR(error.text, "rule open: and, or, not need a pr_rule_end()");
    pr_rule_free(rule);

    rule = pr_rule_new("class");
    pr_rule_when_class(rule, "bad");
    pr_rule_when_class(rule, "worse");
    pr_rule_park(rule);
    CHECK_EQ(pr_engine_rule(engine, NULL, rule, &error), PR_EINVAL);
    CHECK_STR(error.text, "rule class: a class must be transient, permanent or unknown");
    pr_rule_free(rule);

    /* What can only be known at the start. */
    rule = pr_rule_new("nobody");
    pr_rule_call(rule, "nobody");
    add(engine, NULL, rule);
    CHECK_EQ(pr_engine_start(engine, &error), PR_ECONFIG);
    CHECK_STR(
        error.text,
        "rule nobody calls \"nobody\", which is not registered; such rules need a program that calls pr_engine_call()");
    pr_engine_free(engine);

    engine = make(&p, "", &orders, &alerts);
    rule = pr_rule_new("nowhere");
    pr_rule_park(rule);
    pr_rule_raise(rule, &(struct pr_raise){ .type = "t", .to = "nowhere" });
    add(engine, "orders", rule);
    CHECK_EQ(pr_engine_start(engine, &error), PR_ECONFIG);
    CHECK_STR(error.text, "rule nowhere: raise: unknown endpoint \"nowhere\"");
    pr_engine_free(engine);

    engine = make(&p, "", &orders, &alerts);
    rule = pr_rule_new("elsewhere");
    pr_rule_park(rule);
    add(engine, "elsewhere", rule);
    CHECK_EQ(pr_engine_start(engine, &error), PR_ECONFIG);
    CHECK_STR(error.text, "rule elsewhere: unknown endpoint \"elsewhere\"");
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(a_call_in_the_config_that_nobody_registered_is_refused_with_its_place)
{
    struct place p;
    struct box_loop orders = { 0 }, alerts = { 0 };
    struct pr_error error;
    place_init(&p);
    struct pr_engine *engine = make(&p, ", rules: [{name: r, then: {call: f}}]", &orders, &alerts);
    CHECK_EQ(pr_engine_start(engine, &error), PR_ECONFIG);
    CHECK_STR(error.text, "config:3:110: endpoints.orders.rules[0].then.call: rule r calls \"f\", which is not "
                          "registered; such rules need a program that calls pr_engine_call()");
    pr_engine_free(engine);
    place_fini(&p);
}

/* ---- Calls --------------------------------------------------------------------------------------- */

struct judge {
    atomic_int calls;
    bool fails;
};

static int decide(struct pr_context *context, const struct pr_failure *f, void *user)
{
    struct judge *j = user;
    struct pr_message m = { .type = PR_STR("called"), .destination = PR_STR("alerts") };
    j->calls++;
    CHECK_EQ(f->reason, PR_REASON_VALIDATION_FAILURE);
    CHECK_EQ(pr_effect_send(context, &m), PR_OK);
    if (j->fails)
        return pr_fail(context, PR_REASON_UNKNOWN, "I do not know");
    if (f->failures >= 3)
        pr_decide(context, PR_STEP_DISCARD, 0);
    else
        pr_decide(context, PR_STEP_RETRY, PR_MILLISECONDS(1));
    return PR_OK;
}

TEST(a_called_function_decides_and_its_messages_are_stored) /* B65 */
{
    struct place p;
    struct box_loop orders = { .fail = 100, .reason = PR_REASON_VALIDATION_FAILURE }, alerts = { 0 };
    struct judge judge = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(&p, ", rules: [{name: r, then: [{call: f}, park]}]", &orders, &alerts);
    CHECK_EQ(pr_engine_call(engine, "f", decide, &judge), PR_OK);
    CHECK_EQ(pr_engine_call(engine, "f", decide, &judge), PR_EINVAL); /* twice */
    begin(engine);
    send_message(engine, "orders", "", PR_OK);
    place_wait(&p, "SELECT coalesce(sum(discarded), 0) FROM postrider_endpoint WHERE name = 'orders'", 1);
    drain(engine);
    CHECK_EQ(orders.calls, 3);
    CHECK_EQ(judge.calls, 3);
    CHECK_EQ(alerts.calls, 3);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(a_function_that_fails_leaves_it_to_the_next_step_and_sends_nothing) /* B65 */
{
    struct place p;
    struct box_loop orders = { .fail = 1, .reason = PR_REASON_VALIDATION_FAILURE }, alerts = { 0 };
    struct judge judge = { .fails = true };
    place_init(&p);
    struct pr_engine *engine = make(&p, ", rules: [{name: r, then: [{call: f}, park]}]", &orders, &alerts);
    CHECK_EQ(pr_engine_call(engine, "f", decide, &judge), PR_OK);
    begin(engine);
    send_message(engine, "orders", "", PR_OK);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE due_at = 9223372036854775807", 1);
    drain(engine);
    CHECK_EQ(alerts.calls, 0);
    pr_engine_free(engine);
    place_fini(&p);
}

/* ---- Pauses ----------------------------------------------------------------------------------------- */

TEST(the_program_pauses_and_resumes_an_endpoint_also_over_a_restart) /* B63 */
{
    struct place p;
    struct box_loop orders = { 0 }, alerts = { 0 };
    struct pr_error error;
    place_init(&p);
    struct pr_engine *engine = make(&p, "", &orders, &alerts);
    begin(engine);
    CHECK_EQ(pr_engine_pause(engine, "nobody", PR_NEVER, NULL, &error), PR_ENOTFOUND);
    CHECK_OK(pr_engine_pause(engine, "orders", PR_NEVER, "tests", &error), &error);
    pr_engine_free(engine);

    engine = make(&p, "", &orders, &alerts);
    begin(engine);
    send_message(engine, "orders", "", PR_OK);
    send_message(engine, "alerts", "", PR_OK);
    while (alerts.calls == 0)
        test_pause();
    CHECK_EQ(orders.calls, 0);
    CHECK_OK(pr_engine_resume(engine, "orders", &error), &error);
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    CHECK_EQ(orders.calls, 1);
    pr_engine_free(engine);
    place_fini(&p);
}

/* ---- Inline ------------------------------------------------------------------------------------------- */

TEST(an_inline_endpoint_is_sent_to_before_the_call_returns)
{
    struct place p;
    struct box_loop orders = { 0 }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(&p, ", mode: inline", &orders, &alerts);
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_DELIVERED);
    CHECK_EQ(orders.calls, 1);
    CHECK_EQ(send_message(engine, "alerts", "s", PR_OK), PR_SENT_STORED);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox WHERE destination = 'orders'"), 0);
    struct pr_engine_counts counts;
    pr_engine_counts(engine, &counts);
    CHECK(counts.sent >= 1);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(what_an_inline_endpoint_does_not_take_is_stored_and_delivered_later)
{
    struct place p;
    struct box_loop orders = { .fail = 1, .reason = PR_REASON_DEPENDENCY_FAILURE }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(&p, ", mode: inline, rules: [{then: {retry: [20ms]}}]", &orders, &alerts);
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_STORED);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_STORED); /* it must not overtake */
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    CHECK_EQ(orders.calls, 3);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_DELIVERED);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(what_failed_inline_is_stored_as_a_failure_and_its_stream_waits_for_it) /* B30, B37, B51 */
{
    struct place p;
    struct box_loop orders = { .fail = 1, .reason = PR_REASON_DEPENDENCY_FAILURE, .reached = PR_STATUS_EVENT_STORED },
                    alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(&p, ", mode: inline", &orders, &alerts); /* again in five minutes */
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_STORED);
    CHECK_EQ(
        place_int(
            &p,
            "SELECT count(*) FROM outbox WHERE attempts = 1 AND failures = 1 AND failure_reason = 6 AND status = 32771"
            " AND error = 'the desk said no' AND failed_at > 0 AND due_at >= failed_at + 300000000"
            " AND story LIKE '%\"endpoint\":\"orders\"%\"step\":\"retry\"%'"),
        1);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_STORED);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE held_by = 'orders/s'", 1);
    drain(engine);
    CHECK_EQ(orders.calls, 1);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(steps_go_on_where_they_were_when_what_failed_inline_was_stored) /* B62 */
{
    struct place p;
    struct box_loop orders = { .fail = 100, .reason = PR_REASON_REJECTED }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine =
        make(&p, ", mode: inline, rules: [{name: r, then: [{retry_now: 2}, {retry: [10ms, 10ms]}, dead_letter]}]",
             &orders, &alerts);
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_STORED); /* after three */
    place_wait(
        &p, "SELECT count(*) FROM postrider_dead_letter WHERE failures = 5 AND attempts = 5 AND limit_reached = 5", 1);
    drain(engine);
    CHECK_EQ(orders.calls, 5);
    CHECK_EQ(place_int(&p, "SELECT json_array_length(story) FROM postrider_dead_letter"), 5);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(a_pause_puts_back_what_it_was_about_also_inline) /* B63 */
{
    struct place p;
    struct box_loop orders = { .fail = 100, .reason = PR_REASON_REJECTED }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(
        &p, ", mode: inline, rules: [{name: r, then: [{retry_now: 1}, {pause: until_resumed}]}]", &orders, &alerts);
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_STORED);
    CHECK_EQ(orders.calls, 2);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox WHERE failures = 1 AND attempts = 1"),
             1); /* the second is not counted */
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(an_inline_endpoint_follows_its_rules) /* B62, B64, B66 */
{
    struct place p;
    struct box_loop orders = { .reason = PR_REASON_REJECTED }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine =
        make(&p,
             ", mode: inline, max_payload: 100B, rules: ["
             "{name: large, when: {reason: message_too_large}, then: {dead_letter: {}, raise: {type: t, to: alerts}}},"
             "{name: no, when: {reason: rejected}, then: [{retry_now: 2}, discard]},"
             "{name: move, when: {reason: unauthorized}, then: {dead_letter: {to: alerts}}},"
             "{name: wait, when: {reason: rate_limited}, then: {pause: until_resumed}}]",
             &orders, &alerts);
    begin(engine);
    orders.fail = 2;
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_DELIVERED); /* at the third attempt */
    CHECK_EQ(orders.calls, 3);
    orders.fail = 3;
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_DISCARDED);
    CHECK_EQ(orders.calls, 6);

    char big[200];
    struct pr_error error;
    enum pr_sent sent;
    memset(big, 'x', sizeof big);
    struct pr_message m = { .type = PR_STR("t"), .destination = PR_STR("orders"), .payload = { big, sizeof big } };
    CHECK_OK(pr_engine_send(engine, NULL, &m, NULL, &sent, &error), &error);
    CHECK_EQ(sent, PR_SENT_DEAD);
    CHECK_EQ(orders.calls, 6);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_dead_letter WHERE cause = 8 AND length(payload) = 200"), 1);

    orders.reason = PR_REASON_UNAUTHORIZED;
    orders.fail = 1;
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_DEAD);
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    CHECK_EQ(alerts.calls, 2); /* what was raised, and what was moved */

    orders.reason = PR_REASON_RATE_LIMITED;
    orders.fail = 1;
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_STORED);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_endpoint WHERE name = 'orders' AND paused_by = 'rule wait'"),
             1);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(an_inline_endpoint_that_is_paused_is_not_sent_to) /* B63 */
{
    struct place p;
    struct box_loop orders = { 0 }, alerts = { 0 };
    struct pr_error error;
    place_init(&p);
    struct pr_engine *engine = make(&p, ", mode: inline", &orders, &alerts);
    begin(engine);
    CHECK_OK(pr_engine_pause(engine, "orders", PR_NEVER, "tests", &error), &error);
    int64_t deadline = test_now_us() + WAIT_US;
    /* The engine hears of it with its next look at the store. */
    enum pr_sent sent = PR_SENT_DELIVERED;
    while (sent == PR_SENT_DELIVERED && test_now_us() < deadline)
        sent = send_message(engine, "orders", "", PR_OK);
    CHECK_EQ(sent, PR_SENT_STORED);
    int calls = orders.calls;
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_STORED);
    CHECK_EQ(orders.calls, calls);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(inline_sends_open_the_breaker_and_are_in_the_stored_totals) /* B73 */
{
    struct place p;
    struct box_loop orders = { .reason = PR_REASON_DEPENDENCY_FAILURE }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(&p,
                                    ", mode: inline, max_payload: 100B, breaker: {after: 3, open: 1h, cap: 1h}, "
                                    "rules: [{when: {reason: message_too_large}, then: discard}]",
                                    &orders, &alerts);
    begin(engine);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_DELIVERED);
    place_wait(&p, "SELECT coalesce(max(sent), 0) FROM postrider_endpoint WHERE name = 'orders'", 10);

    char big[200] = "";
    struct pr_error error;
    enum pr_sent sent;
    struct pr_message m = { .type = PR_STR("t"), .destination = PR_STR("orders"), .payload = { big, sizeof big } };
    int calls;
    int64_t deadline = test_now_us() + WAIT_US;
    orders.fail = 1000000;
    do { /* what is too large and was not sent does not help the endpoint */
        calls = orders.calls;
        CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_STORED);
        CHECK_OK(pr_engine_send(engine, NULL, &m, NULL, &sent, &error), &error);
        CHECK(test_now_us() < deadline);
    } while (orders.calls != calls);
    CHECK(calls >= 10 + 3);
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_STORED);
    CHECK_EQ(orders.calls, calls);
    place_wait(&p, "SELECT failed - discarded FROM postrider_endpoint WHERE name = 'orders'", calls - 10);
    CHECK(place_int(&p, "SELECT discarded FROM postrider_endpoint WHERE name = 'orders'") > 0);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(an_id_that_is_stored_is_a_duplicate_also_inline) /* B2 */
{
    struct place p;
    struct box_loop orders = { .fail = 1, .reason = PR_REASON_REJECTED }, alerts = { 0 };
    struct pr_error error;
    enum pr_sent sent;
    place_init(&p);
    struct pr_engine *engine = make(&p, ", mode: inline, rules: [{then: park}]", &orders, &alerts);
    begin(engine);
    struct pr_message m = { .id = { .bytes = { 1, 2, 3 } }, .type = PR_STR("t"), .destination = PR_STR("orders") };
    CHECK_EQ(pr_engine_send(engine, NULL, &m, NULL, &sent, &error), PR_OK);
    CHECK_EQ(sent, PR_SENT_STORED);
    CHECK_EQ(pr_engine_send(engine, NULL, &m, NULL, &sent, &error), PR_DUPLICATE);
    CHECK_EQ(orders.calls, 1);
    CHECK_EQ(pr_engine_send(engine, "nobox", &m, NULL, &sent, &error), PR_ENOTFOUND);
    m.type = PR_STR("");
    CHECK_EQ(pr_engine_send(engine, NULL, &m, NULL, &sent, &error), PR_EINVAL);
    pr_engine_free(engine);
    place_fini(&p);
}
