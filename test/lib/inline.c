/* Endpoints that send inline: their messages have the same fate as with the engine. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "handlers.h"

TEST(an_inline_endpoint_is_sent_to_before_the_call_returns)
{
    struct place p;
    struct test_handler orders = { 0 }, alerts = { 0 };
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
    struct test_handler orders = { .fail = 1, .reason = PR_REASON_DEPENDENCY_FAILURE }, alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(&p, ", mode: inline, rules: [{then: {retry: [1h]}}]", &orders, &alerts);
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_STORED);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_STORED); /* it must not overtake */
    place_do(&p, "UPDATE outbox SET due_at = NULL WHERE failures = 1");
    place_wait(&p, "SELECT count(*) FROM outbox", 0);
    CHECK_EQ(orders.calls, 3);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_DELIVERED);
    pr_engine_free(engine);
    place_fini(&p);
}

TEST(what_failed_inline_is_stored_as_a_failure_and_its_stream_waits_for_it) /* B30, B37, B51 */
{
    struct place p;
    struct test_handler orders = { .fail = 1,
                                   .reason = PR_REASON_DEPENDENCY_FAILURE,
                                   .reached = PR_STATUS_EVENT_STORED },
                        alerts = { 0 };
    place_init(&p);
    struct pr_engine *engine = make(&p, ", mode: inline", &orders, &alerts); /* again in five minutes */
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_STORED);
    CHECK_EQ(
        place_int(
            &p,
            "SELECT count(*) FROM outbox WHERE attempts = 1 AND failures = 1 AND failure_reason = 6 AND status = 32771"
            " AND error = 'the handler said no' AND failed_at > 0 AND due_at >= failed_at + 300000000"
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
    struct test_handler orders = { .fail = 100, .reason = PR_REASON_REJECTED }, alerts = { 0 };
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
    struct test_handler orders = { .fail = 100, .reason = PR_REASON_REJECTED }, alerts = { 0 };
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
    struct test_handler orders = { .reason = PR_REASON_REJECTED }, alerts = { 0 };
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
    struct test_handler orders = { 0 }, alerts = { 0 };
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
    struct test_handler orders = { .reason = PR_REASON_DEPENDENCY_FAILURE }, alerts = { 0 };
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
    struct test_handler orders = { .fail = 1, .reason = PR_REASON_REJECTED }, alerts = { 0 };
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

/* ---- As the engine does it -------------------------------------------------------------------------------- */

/* One message is sent inline, and one by the engine, since it is in the box.  Both fail as the handler says. */
static void fail_both_ways(struct place *p, const char *rules, struct test_handler *orders, enum pr_sent want_sent)
{
    struct test_handler alerts = { 0 };
    char more[1024];
    struct pr_error error;
    enum pr_sent sent;
    struct pr_message m = { .type = PR_STR("t"), .destination = PR_STR("orders"), .payload = PR_STR("{}") };
    snprintf(more, sizeof more, ", mode: inline, %s", rules);
    struct pr_engine *engine = make(p, more, orders, &alerts);
    begin(engine);
    CHECK_OK(pr_engine_send(engine, NULL, &m, NULL, &sent, &error), &error);
    CHECK_EQ(sent, want_sent);
    int calls = orders->calls;
    place_do(p, "INSERT INTO outbox (type, destination, payload) VALUES ('t', 'orders', '{}')");
    int64_t deadline = test_now_us() + WAIT_US;
    while (orders->calls < 2 * calls && test_now_us() < deadline)
        test_pause();
    drain(engine);
    pr_engine_free(engine);
    CHECK_EQ(orders->calls, 2 * calls);
}

#define STORY_STEPS                                                                                                    \
    "(SELECT group_concat(coalesce(value ->> 'step', '') || (value ->> 'attempt') || coalesce(value ->> 'rule', ''))"  \
    " FROM json_each(story))"
#define FAILURE_COLUMNS "status, attempts, failures, failure_reason, code, error, " STORY_STEPS

TEST(a_dead_letter_of_an_inline_send_is_like_the_engine_s) /* B30 */
{
    struct place p;
    struct test_handler orders = { .fail = 100, .reason = PR_REASON_REJECTED, .reached = PR_STATUS_EVENT_STORED };
    place_init(&p);
    fail_both_ways(&p, "rules: [{name: r, then: [{retry_now: 2}, dead_letter]}]", &orders, PR_SENT_DEAD);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_audit"), 0); /* a rule is nobody */
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_dead_letter WHERE cause = 7 AND failure_reason = 10 AND"
                           " limit_reached = 3 AND rule = 'r' AND note IS NULL"),
             2);
    CHECK_EQ(place_int(&p,
                       "SELECT count(*) FROM (SELECT DISTINCT endpoint, fingerprint, due_at IS NULL, " FAILURE_COLUMNS
                       " FROM postrider_dead_letter)"),
             1);
    place_fini(&p);
}

TEST(what_an_inline_send_parks_is_like_the_engine_s) /* B62 */
{
    struct place p;
    struct test_handler orders = { .fail = 100, .reason = PR_REASON_REJECTED, .reached = PR_STATUS_EVENT_STORED };
    place_init(&p);
    fail_both_ways(&p, "rules: [{name: r, then: [{retry_now: 1}, park]}]", &orders, PR_SENT_STORED);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox WHERE due_at = 9223372036854775807"), 2);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM (SELECT DISTINCT parked_by, " FAILURE_COLUMNS " FROM outbox)"), 1);
    place_fini(&p);
}

TEST(what_an_endpoint_s_own_fault_put_off_is_stored_as_that_and_its_stream_waits) /* B51, B75 */
{
    struct place p;
    char config[512], folder[256];
    struct pr_error error;
    place_init(&p);
    snprintf(folder, sizeof folder, "%s/folder", p.dir);
    snprintf(config, sizeof config,
             "store: \"%s\"\nendpoints:\n  orders: {url: \"file:%s/file\", mode: inline, breaker: off}\n", p.url,
             folder);
    CHECK_EQ(mkdir(folder, 0755), 0);
    struct pr_engine *engine = pr_engine_new(config, &error);
    CHECK(engine != NULL);
    begin(engine);
    CHECK_EQ(rmdir(folder), 0);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_STORED);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox WHERE attempts = 0 AND failures = 0 AND status = 32769 AND"
                           " failure_reason = 1 AND error LIKE '%folder%' AND failed_at > 0 AND due_at > failed_at AND"
                           " story LIKE '%\"step\":\"postpone\"%'"),
             1);
    CHECK_EQ(send_message(engine, "orders", "s", PR_OK), PR_SENT_STORED);
    place_wait(&p, "SELECT count(*) FROM outbox WHERE held_by = 'orders/s'", 1);
    pr_engine_free(engine);
    place_fini(&p);
}

/* ---- What a called function is told and says --------------------------------------------------------------- */

struct judged {
    atomic_int calls;
    int64_t age_us, delay_us;
    enum pr_step step;
};

static int judge(struct pr_context *context, const struct pr_failure *f, void *user)
{
    struct judged *j = user;
    j->calls++;
    j->age_us = f->age_us;
    pr_decide(context, j->step, j->delay_us);
    return PR_OK;
}

static int fail_later(struct pr_context *context, const struct pr_message *m, void *user)
{
    atomic_int *calls = user;
    (void)m;
    (*calls)++;
    int64_t began = test_now_us();
    while (test_now_us() < began + 2000)
        ;
    return *calls == 1 ? pr_fail(context, PR_REASON_REJECTED, "no") : PR_OK;
}

TEST(a_function_that_says_again_at_once_has_no_delay_also_inline) /* B65 */
{
    struct place p;
    atomic_int calls = 0;
    struct judged judged = { .step = PR_STEP_RETRY_NOW, .delay_us = PR_MINUTES(60) };
    struct pr_error error;
    char config[512];
    place_init(&p);
    snprintf(config, sizeof config,
             "store: \"%s\"\nendpoints:\n  orders: {url: \"handler:orders\", mode: inline, rules: [{name: young, when: "
             "{age: {max: 1ms}}, then: park}, {then: {call: f}}]}\n",
             p.url);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL)
        check_fail(__FILE__, __LINE__, "%s", error.text);
    CHECK_EQ(pr_engine_handle_named(engine, "orders", fail_later, &calls), PR_OK);
    CHECK_EQ(pr_engine_call(engine, "f", judge, &judged), PR_OK);
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_DELIVERED);
    CHECK_EQ(calls, 2);
    CHECK_EQ(judged.calls, 1);
    CHECK(judged.age_us >= 2000); /* rules about the age see it, too */
    pr_engine_free(engine);
    place_fini(&p);
}

static int send_nowhere(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct pr_error error;
    (void)m;
    (void)user;
    struct pr_message more = { .type = PR_STR("t"), .payload = PR_STR("{}") };
    CHECK_OK(pr_effect_send_box(context, "nobox", &more, &error), &error);
    return PR_OK;
}

TEST(a_message_to_an_unknown_box_is_its_handler_s_failure_also_inline)
{
    struct place p;
    struct pr_error error;
    char config[512];
    place_init(&p);
    snprintf(config, sizeof config,
             "store: \"%s\"\nendpoints:\n  orders: {url: \"handler:orders\", mode: inline, rules: [{then: park}]}\n",
             p.url);
    struct pr_engine *engine = pr_engine_new(config, &error);
    CHECK(engine != NULL);
    CHECK_EQ(pr_engine_handle_named(engine, "orders", send_nowhere, NULL), PR_OK);
    begin(engine);
    CHECK_EQ(send_message(engine, "orders", "", PR_OK), PR_SENT_STORED);
    CHECK_EQ(
        place_int(&p, "SELECT count(*) FROM outbox WHERE code = 'box_unknown' AND error LIKE '%unknown box nobox%'"),
        1);
    pr_engine_free(engine);
    place_fini(&p);
}

/* ---- Evidence ------------------------------------------------------------------------------------------------ */

/* The function of its rule is called between two attempts of a bad message, and has a good one delivered. */
struct receiver {
    struct pr_engine *engine;
    int bad;
};

static int receive(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct receiver *r = user;
    if (m->stream.size == 0)
        return PR_OK;
    return pr_fail(context, r->bad++ == 0 ? PR_REASON_REJECTED : PR_REASON_DEPENDENCY_FAILURE, "no");
}

static int send_good_one(struct pr_context *context, const struct pr_failure *f, void *user)
{
    struct receiver *r = user;
    (void)context;
    (void)f;
    CHECK_EQ(send_message(r->engine, "orders", "", PR_OK), PR_SENT_DELIVERED);
    return PR_OK;
}

TEST(a_message_that_fails_while_others_of_its_type_are_delivered_inline_is_blamed_for_it) /* B78 */
{
    struct place p;
    struct receiver receiver = { 0 };
    struct pr_error error;
    char config[1024];
    place_init(&p);
    snprintf(config, sizeof config,
             "store: \"%s\"\nendpoints:\n"
             "  orders: {url: \"handler:orders\", mode: inline, breaker: off, retry: {failures: 2, blame: evidence},\n"
             "    rules: [{name: r, when: {reason: rejected}, then: [{retry_now: 1, call: good}, park]}]}\n",
             p.url);
    receiver.engine = pr_engine_new(config, &error);
    if (receiver.engine == NULL)
        check_fail(__FILE__, __LINE__, "%s", error.text);
    CHECK_EQ(pr_engine_handle_named(receiver.engine, "orders", receive, &receiver), PR_OK);
    CHECK_EQ(pr_engine_call(receiver.engine, "good", send_good_one, &receiver), PR_OK);
    begin(receiver.engine);
    CHECK_EQ(send_message(receiver.engine, "orders", "bad", PR_OK), PR_SENT_DEAD);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_dead_letter WHERE cause = 7 AND failure_reason = 6 AND"
                           " rule = 'retry' AND limit_reached = 2 AND failures = 2"),
             1);
    pr_engine_free(receiver.engine);
    place_fini(&p);
}
