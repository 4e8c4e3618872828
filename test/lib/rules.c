/* Rules in C, functions that they call, and pauses by the program. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "handlers.h"

/* ---- Rules ------------------------------------------------------------------------------------- */

TEST(a_rule_made_in_c_does_what_one_in_the_config_does) /* B62, B64 */
{
    struct place p;
    struct test_handler orders = { .fail = 100, .reason = PR_REASON_REJECTED }, alerts = { 0 };
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
    struct test_handler orders = { 0 }, alerts = { 0 };
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
                           " error LIKE 'not sent: the payload has 2097152 bytes, limits.payload is 1048576%'"),
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
    struct test_handler orders = { .fail = 1, .reason = PR_REASON_REJECTED }, alerts = { 0 };
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
    struct test_handler orders = { 0 }, alerts = { 0 };
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
    struct test_handler orders = { 0 }, alerts = { 0 };
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
    struct test_handler orders = { .fail = 100, .reason = PR_REASON_VALIDATION_FAILURE }, alerts = { 0 };
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
    struct test_handler orders = { .fail = 1, .reason = PR_REASON_VALIDATION_FAILURE }, alerts = { 0 };
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
    struct test_handler orders = { 0 }, alerts = { 0 };
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
