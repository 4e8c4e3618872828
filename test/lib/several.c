/* Several handlers of one message, effects other than messages, and workers that use the settings of an endpoint. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "stand.h"

struct counter {
    atomic_int calls;
    int fail; /* so many times */
    enum pr_reason reason;
    bool release;
};

static int count_calls(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct counter *c = user;
    (void)m;
    if (++c->calls > c->fail)
        return PR_OK;
    if (c->release)
        pr_release_followers(context);
    return pr_fail(context, c->reason, "not yet");
}

TEST(handlers_of_one_message_succeed_and_fail_independently) /* B92 */
{
    struct stand s;
    struct counter mail = { 0 }, bill = { .fail = 2, .reason = PR_REASON_DEPENDENCY_FAILURE },
                   never = { .fail = 1000, .reason = PR_REASON_VALIDATION_FAILURE }, other = { 0 };
    stand_init(&s);
    struct pr_engine *engine = stand_engine(&s, "endpoints:\n"
                                                "  bills: {url: \"handler:bill\", retry: [1ms, 1ms, 1ms]}\n"
                                                "  nevers: {url: \"handler:never\", retry: [1ms]}\n");
    CHECK_EQ(pr_engine_subscribe(engine, "inbox", "mail", "order.*", count_calls, &mail), PR_OK);
    CHECK_EQ(pr_engine_subscribe(engine, "inbox", "bill", "order.placed", count_calls, &bill), PR_OK);
    CHECK_EQ(pr_engine_subscribe(engine, "inbox", "never", "*", count_calls, &never), PR_OK);
    CHECK_EQ(pr_engine_subscribe(engine, "inbox", "other", "payment.*", count_calls, &other), PR_OK);
    CHECK_EQ(pr_engine_subscribe(engine, "inbox", "mail", "x", count_calls, &mail), PR_EINVAL); /* once per name */
    CHECK_EQ(pr_engine_subscribe(engine, "inbox", "a/b", "x", count_calls, &mail), PR_EINVAL);
    stand_send(&s, "inbox", "order.placed", "s1", 1);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM {dead} WHERE destination = 'nevers'", 1);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    CHECK_EQ(mail.calls, 1);
    CHECK_EQ(bill.calls, 3);
    CHECK_EQ(never.calls, 2);
    CHECK_EQ(other.calls, 0);
    pr_engine_free(engine);
    stand_fini(&s);
}

/* ---- Effects ------------------------------------------------------------------------------------- */

static int append_and_set(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct counter *c = user;
    struct pr_error error;
    c->calls++;
    struct pr_message event = { .type = PR_STR("booked"), .stream = PR_STR("account-7"), .payload = m->payload };
    CHECK_OK(pr_effect_append(context, &event, PR_ANY_VERSION, &error), &error);
    CHECK_OK(pr_effect_append(context, &event, PR_ANY_VERSION, &error), &error);
    CHECK_OK(pr_effect_set(context, PR_STR("totals"), PR_STR("account-7"), m->payload, &error), &error);
    CHECK_EQ(pr_effect_append(context, &(struct pr_message){ .type = PR_STR("t") }, 0, &error), PR_EINVAL);
    CHECK_EQ(pr_effect_set(context, PR_STR(""), PR_STR("n"), PR_STR(""), &error), PR_EINVAL);
    return m->attempts == 1 ? pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "not yet") : PR_OK;
}

TEST(events_and_values_are_stored_with_the_verdict_only) /* B93 */
{
    struct stand s;
    struct counter c = { 0 };
    stand_init(&s);
    struct pr_engine *engine = stand_engine(&s, "endpoints: {book: {url: \"handler:book\", retry: [1ms]}}\n"
                                                "routes: [{box: inbox, to: book}]\n");
    CHECK_EQ(pr_engine_handle_named(engine, "book", append_and_set, &c), PR_OK);
    stand_send(&s, "inbox", "t", "s1", 3);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    CHECK_EQ(c.calls, 6);
    CHECK_EQ(stand_int(&s, s.pg != NULL ? "SELECT max(version) FROM event WHERE stream = 'account-7'"
                                        : "SELECT max(version) FROM postrider_event WHERE stream = 'account-7'"),
             6);
    CHECK_STR(stand_text(&s, s.pg != NULL ? "SELECT convert_from(value, 'UTF8') FROM flow_state"
                                          : "SELECT CAST(value AS TEXT) FROM postrider_flow_state"),
              "3");
    pr_engine_free(engine);
    stand_fini(&s);
}

/* ---- Followers ------------------------------------------------------------------------------------ */

TEST(a_handler_that_fails_can_let_its_followers_pass) /* B55 */
{
    struct stand s;
    struct counter c = { .fail = 1, .reason = PR_REASON_DEPENDENCY_FAILURE, .release = true };
    stand_init(&s);
    struct pr_engine *engine = stand_engine(&s, "endpoints: {book: {url: \"handler:book\", retry: [1h]}}\n"
                                                "routes: [{box: inbox, to: book}]\n");
    CHECK_EQ(pr_engine_handle_named(engine, "book", count_calls, &c), PR_OK);
    stand_send(&s, "inbox", "t", "s1", 4);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM inbox", 1); /* the head waits for its hour alone */
    CHECK_EQ(c.calls, 4);
    CHECK_EQ(stand_int(&s, "SELECT failures FROM inbox"), 1);
    stand_send(&s, "inbox", "t", "s1", 1); /* nor do those wait that come later */
    stand_wait(&s, "SELECT count(*) FROM inbox", 1);
    pr_engine_free(engine);
    engine = stand_engine(&s, "endpoints: {book: {url: \"handler:book\", retry: [1h]}}\n"
                              "routes: [{box: inbox, to: book}]\n");
    CHECK_EQ(pr_engine_handle_named(engine, "book", count_calls, &c), PR_OK);
    stand_send(&s, "inbox", "t", "s1", 2);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM inbox", 1); /* also after a restart */
    CHECK_EQ(stand_int(&s, "SELECT failures FROM inbox"), 1);
    pr_engine_free(engine);
    stand_fini(&s);
}

static size_t claim_some(struct pr_worker *w, const struct pr_verdict *verdicts, size_t verdict_count,
                         struct pr_claimed *ret, size_t max)
{
    struct pr_error error;
    size_t count = 0;
    int64_t deadline_us = test_now_us() + PR_SECONDS(90);
    do {
        CHECK_OK(pr_worker_cycle(w, verdicts, verdict_count, NULL, ret, max, &count, &error), &error);
        verdict_count = 0;
        if (count == 0 && max > 0)
            pr_worker_wait(w, PR_MILLISECONDS(20));
    } while (count == 0 && max > 0 && test_now_us() < deadline_us);
    return count;
}

TEST(a_worker_that_fails_the_head_hands_its_followers_on_in_the_same_call) /* B55 */
{
    struct stand s;
    struct pr_worker *w;
    struct pr_error error;
    struct pr_claimed claimed;
    stand_init(&s);
    stand_send(&s, "inbox", "t", "s1", 2);
    CHECK_OK(pr_worker_open(&(struct pr_worker_options){ .store_url = s.url, .box = "inbox" }, &w, &error), &error);
    CHECK_EQ(claim_some(w, NULL, 0, &claimed, 1), 1);
    CHECK_EQ(claimed.message->payload.data[0], '1');
    struct pr_verdict fail = { .claim = claimed.claim,
                               .kind = PR_VERDICT_FAIL,
                               .reason = PR_REASON_DEPENDENCY_FAILURE,
                               .retry_after_us = PR_SECONDS(3600),
                               .release_followers = true };
    CHECK_EQ(claim_some(w, &fail, 1, &claimed, 1), 1);
    CHECK_EQ(claimed.message->payload.data[0], '2');
    pr_worker_close(w);
    stand_fini(&s);
}

/* ---- Workers and policy ------------------------------------------------------------------------------ */

TEST(retry_settings_and_rules_hold_for_a_worker) /* B60, B62 */
{
    static const char config[] = "endpoints:\n"
                                 "  desk: {url: 'null:', retry: [1ms, 1ms]}\n"
                                 "rules:\n"
                                 "  - {name: wrong, when: {reason: validation_failure}, then: discard}\n";
    struct stand s;
    struct pr_worker *w;
    struct pr_error error;
    struct pr_claimed claimed;
    stand_init(&s);
    struct pr_worker_options options = { .store_url = s.url, .box = "inbox", .config = config };
    CHECK_EQ(pr_worker_open(&options, &w, &error), PR_EINVAL); /* whose settings? */
    options.endpoint = "dsk";
    CHECK_EQ(pr_worker_open(&options, &w, &error), PR_ECONFIG);
    options.endpoint = "desk";
    CHECK_OK(pr_worker_open(&options, &w, &error), &error);

    stand_send(&s, "inbox", "t", "s1", 1);
    struct pr_verdict fail = { .kind = PR_VERDICT_FAIL, .reason = PR_REASON_DEPENDENCY_FAILURE };
    for (int attempt = 1; attempt <= 3; attempt++) { /* two retries, then it is dead */
        CHECK_EQ(claim_some(w, &fail, attempt > 1, &claimed, 1), 1);
        CHECK_EQ(claimed.attempt, attempt);
        fail.claim = claimed.claim;
    }
    claim_some(w, &fail, 1, &claimed, 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM {dead} WHERE endpoint = 'desk' AND failures = 3"), 1);

    stand_send(&s, "inbox", "t", "s2", 1);
    CHECK_EQ(claim_some(w, NULL, 0, &claimed, 1), 1);
    fail =
        (struct pr_verdict){ .claim = claimed.claim, .kind = PR_VERDICT_FAIL, .reason = PR_REASON_VALIDATION_FAILURE };
    claim_some(w, &fail, 1, &claimed, 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM inbox"), 0); /* by the rule */
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM {dead}"), 1);
    pr_worker_close(w);
    stand_fini(&s);
}
