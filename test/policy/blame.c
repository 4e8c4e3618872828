/* Who is at fault, and when a message is blamed. */
#include "check.h"
#include "policy/explain.h"

static const struct pr_message message = { .type = PR_STR("order.placed") };

static struct failure failure_of(int reason, const char *code, int failures)
{
    return (struct failure){ .message = &message, .reason = reason, .code = pr_str(code), .failures = failures };
}

static struct decision decide(const struct retry_setting *retry, const struct failure *f)
{
    struct policy policy = { .retry = *retry };
    struct decision d;
    policy_decide(&policy, f, 0, &d);
    return d;
}

static enum fault fault_of(int reason, const char *code, bool unsent)
{
    return reason_fault(reason, pr_str(code), unsent);
}

TEST(what_was_not_sent_and_who_does_not_know_us_is_the_endpoint_s_fault) /* B75 */
{
    CHECK_EQ(fault_of(PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_COULDNT_CONNECT", true), FAULT_ENDPOINT);
    CHECK_EQ(fault_of(PR_REASON_TIMEOUT_EXCEEDED, "CURLE_OPERATION_TIMEDOUT", true), FAULT_ENDPOINT);
    CHECK_EQ(fault_of(PR_REASON_UNAUTHORIZED, "401", false), FAULT_ENDPOINT);
    CHECK_EQ(fault_of(PR_REASON_UNAUTHORIZED, "407", false), FAULT_ENDPOINT);
    CHECK_EQ(fault_of(PR_REASON_UNAUTHORIZED, "403", true), FAULT_ENDPOINT); /* a broker's login */
    CHECK_EQ(fault_of(PR_REASON_UNAUTHORIZED, "WRONGPASS", false), FAULT_ENDPOINT);
}

TEST(refusals_of_the_content_are_the_message_s_fault) /* B76 */
{
    CHECK_EQ(fault_of(PR_REASON_VALIDATION_FAILURE, "400", false), FAULT_CONTENT);
    CHECK_EQ(fault_of(PR_REASON_VALIDATION_FAILURE, "422", false), FAULT_CONTENT);
    CHECK_EQ(fault_of(PR_REASON_MESSAGE_TOO_LARGE, "413", false), FAULT_CONTENT);
    CHECK_EQ(fault_of(PR_REASON_REJECTED, "415", false), FAULT_CONTENT);
    CHECK_EQ(fault_of(PR_REASON_SERIALIZATION_ERROR, "", true), FAULT_CONTENT); /* it could not be written */
    CHECK_EQ(fault_of(PR_REASON_MESSAGE_TOO_LARGE, "", true), FAULT_CONTENT);
}

TEST(every_other_answer_and_silence_is_nobody_s)
{
    static const struct {
        int reason;
        const char *code;
    } others[] = {
        { PR_REASON_UNAUTHORIZED, "403" },        { PR_REASON_DESTINATION_MISSING, "404" },
        { PR_REASON_DESTINATION_MISSING, "405" }, { PR_REASON_TIMEOUT_EXCEEDED, "408" },
        { PR_REASON_DEPENDENCY_FAILURE, "425" },  { PR_REASON_RATE_LIMITED, "429" },
        { PR_REASON_DEPENDENCY_FAILURE, "500" },  { PR_REASON_TRANSPORT_UNAVAILABLE, "503" },
        { PR_REASON_TIMEOUT_EXCEEDED, "" },       { PR_REASON_UNKNOWN, "" },
        { PR_REASON_HANDLER_EXCEPTION, "" },      { PR_REASON_REJECTED, "409" },
        { PR_REASON_UNAUTHORIZED, "" },
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK_EQ(fault_of(others[i].reason, others[i].code, false), FAULT_NOBODY);
}

TEST(the_endpoint_s_faults_are_postponed_and_never_counted) /* B72, B74, B75 */
{
    struct failure f = failure_of(PR_REASON_TRANSPORT_UNAVAILABLE, "", 1);
    f.unsent = true;
    f.postpone_us = PR_SECONDS(40);
    f.failures = 1000;
    f.proven = true;
    f.since_us = PR_SECONDS(86400) * 30;
    struct decision d = decide(&retry_default, &f);
    CHECK_EQ(d.step, STEP_POSTPONE);
    CHECK_EQ(d.delay_us, PR_SECONDS(40));
    f.retry_after_us = PR_SECONDS(90); /* B74 */
    CHECK_EQ(decide(&retry_default, &f).delay_us, PR_SECONDS(90));
}

TEST(refusals_of_the_content_end_at_the_third_within_ten_seconds) /* B76 */
{
    int64_t waited_us = 0;
    for (int n = 1; n < 3; n++) {
        struct failure f = failure_of(PR_REASON_VALIDATION_FAILURE, "422", n);
        struct decision d = decide(&retry_default, &f);
        CHECK_EQ(d.step, STEP_RETRY);
        waited_us += d.delay_us;
    }
    struct failure third = failure_of(PR_REASON_VALIDATION_FAILURE, "422", 3);
    struct decision d = decide(&retry_default, &third);
    CHECK_EQ(d.step, STEP_DEAD_LETTER);
    CHECK_EQ(d.cause, PR_REASON_POISON_MESSAGE); /* D6 */
    CHECK_EQ(d.limit, 3);
    CHECK(waited_us <= PR_SECONDS(10));
}

TEST(what_nobody_knows_is_dead_at_the_eighth_when_others_of_its_type_get_through) /* B78 */
{
    struct failure f = failure_of(PR_REASON_DEPENDENCY_FAILURE, "500", 7);
    f.proven = true;
    CHECK_EQ(decide(&retry_default, &f).step, STEP_RETRY);
    f.failures = 8;
    struct decision d = decide(&retry_default, &f);
    CHECK_EQ(d.step, STEP_DEAD_LETTER);
    CHECK_EQ(d.cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(d.limit, 8);
    CHECK(!d.gave_up);
    CHECK(retry_spent_us(&retry_default, 7) < PR_MINUTES(10)); /* the stream is free within ten minutes */
}

TEST(without_evidence_it_is_never_tried_in_a_hot_loop)
{
    static const int64_t delays[] = { PR_SECONDS(1), 0 };
    struct retry_setting setting = { .delays = delays, .delay_count = 2, .blame = BLAME_EVIDENCE };
    struct failure f = failure_of(PR_REASON_DEPENDENCY_FAILURE, "500", 2);
    CHECK_EQ(decide(&setting, &f).delay_us, 0); /* as it was asked */
    f.failures = 3;
    struct decision d = decide(&setting, &f);
    CHECK_EQ(d.step, STEP_RETRY);
    CHECK_EQ(d.delay_us, PR_SECONDS(10));
}

TEST(without_evidence_it_is_tried_on_every_ten_minutes_for_three_days) /* B78 */
{
    struct failure f = failure_of(PR_REASON_DEPENDENCY_FAILURE, "500", 8);
    int64_t at_us = retry_spent_us(&retry_default, 7);
    struct decision d = decide(&retry_default, &f);
    while (d.step == STEP_RETRY) {
        CHECK(d.delay_us <= PR_MINUTES(10));
        CHECK(f.failures < 11 || d.delay_us == PR_MINUTES(10));
        at_us += d.delay_us;
        f.since_us = d.delay_us;
        f.failures++;
        d = decide(&retry_default, &f);
    }
    CHECK_EQ(d.step, STEP_DEAD_LETTER);
    CHECK(d.gave_up);
    CHECK_EQ(d.limit, 0);
    CHECK(at_us >= PR_SECONDS(86400) * 3 && at_us < PR_SECONDS(86400) * 3 + PR_MINUTES(10));
}

TEST(the_time_behind_a_breaker_counts_for_giving_up_and_none_is_invented) /* B78 */
{
    struct policy policy = { .retry = retry_default };
    struct failure f = failure_of(PR_REASON_TRANSPORT_UNAVAILABLE, "503", 5);
    f.since_us = PR_SECONDS(86400) * 3;
    CHECK(policy_gives_up(&policy, &f));
    f.failures = 1; /* the first: however long it waited in the box */
    CHECK(!policy_gives_up(&policy, &f));
    f.failures = 5;
    f.unsent = true; /* an outage kills nobody */
    CHECK(!policy_gives_up(&policy, &f));
    f.unsent = false;
    policy.retry.give_up_us = 0;
    CHECK(!policy_gives_up(&policy, &f));
}

TEST(who_blames_always_counts_every_failure_whoever_s_fault_it_is) /* B33 */
{
    struct retry_setting plain = retry_default;
    struct failure f = failure_of(PR_REASON_TRANSPORT_UNAVAILABLE, "", 8);
    plain.blame = BLAME_ALWAYS;
    f.unsent = true;
    CHECK_EQ(decide(&plain, &f).step, STEP_DEAD_LETTER);
    f.failures = 7;
    CHECK_EQ(decide(&plain, &f).step, STEP_RETRY);
    f = failure_of(PR_REASON_VALIDATION_FAILURE, "400", 7);
    CHECK_EQ(decide(&plain, &f).step, STEP_RETRY);
}

TEST(a_rule_counts_plainly_beside_a_setting_that_needs_evidence) /* B62 */
{
    const struct rule_step steps[] = { { .step = STEP_RETRY_NOW, .times = 1 }, { .step = STEP_DEAD_LETTER } };
    const struct rule rule = { .name = PR_STR("down"),
                               .when = { .kind = MATCH_REASON,
                                         .mask = matcher_reason_bit(PR_REASON_TRANSPORT_UNAVAILABLE) },
                               .steps = steps,
                               .step_count = 2 };
    struct policy policy = { .own = &rule, .own_count = 1, .retry = retry_default };
    struct failure f = failure_of(PR_REASON_TRANSPORT_UNAVAILABLE, "", 2);
    struct decision d;
    f.unsent = true;
    CHECK(policy_counts_plainly(&policy, &f));
    policy_decide(&policy, &f, 0, &d);
    CHECK_EQ(d.step, STEP_DEAD_LETTER);
    f.reason = PR_REASON_TIMEOUT_EXCEEDED;
    CHECK(!policy_counts_plainly(&policy, &f));
}

TEST(jitter_does_not_pass_the_cap) /* B34 */
{
    CHECK_EQ(retry_again_us(&retry_default, 100, 0.99), PR_MINUTES(10));
    CHECK(retry_again_us(&retry_default, 8, 0.99) > PR_SECONDS(256));
}

TEST(no_count_makes_the_time_that_was_spent_overflow) /* B34 */
{
    CHECK_EQ(retry_spent_us(&retry_default, 0), 0);
    CHECK_EQ(retry_spent_us(&retry_default, 3), PR_SECONDS(14));
    CHECK(retry_spent_us(&retry_default, 1000000000) > PR_SECONDS(86400) * 365);
    struct retry_setting at_once = { .factor = 1 };
    CHECK_EQ(retry_spent_us(&at_once, 1000000000), 0);
}

/* ---- Explain ------------------------------------------------------------------------------------------- */

TEST(explain_tells_both_ends_of_what_nobody_knows) /* B71, B78 */
{
    struct policy policy = { .retry = retry_default };
    struct failure f = failure_of(PR_REASON_DEPENDENCY_FAILURE, "500", 1);
    static struct explanation x;
    policy_explain(&policy, &breaker_default, &f, &x);
    CHECK_EQ(x.line_count, 8);
    CHECK_EQ(x.lines[7].decision.step, STEP_DEAD_LETTER);
    CHECK(x.needs_evidence);
    CHECK_EQ(x.unproven.step, STEP_RETRY);
    CHECK(x.gives_up);
    CHECK(x.given_up_us >= PR_SECONDS(86400) * 3 && x.given_up_us < PR_SECONDS(86400) * 3 + PR_MINUTES(10));
}

TEST(explain_tells_that_the_endpoint_s_faults_have_no_end) /* B71, B75 */
{
    struct policy policy = { .retry = retry_default };
    struct failure f = failure_of(PR_REASON_TRANSPORT_UNAVAILABLE, "", 1);
    static struct explanation x;
    f.unsent = true;
    policy_explain(&policy, &breaker_default, &f, &x);
    CHECK(x.goes_on && x.endless && !x.needs_evidence);
    for (size_t i = 0; i < x.line_count; i++) {
        CHECK_EQ(x.lines[i].decision.step, STEP_POSTPONE);
        CHECK_EQ(x.lines[i].failure, 1);
    }
    CHECK_EQ(x.lines[0].decision.delay_us, PR_SECONDS(5));
    CHECK_EQ(x.lines[1].decision.delay_us, PR_SECONDS(10));
    CHECK_EQ(x.lines[x.line_count - 1].decision.delay_us, PR_MINUTES(5));
}

TEST(explain_needs_no_evidence_for_refusals_of_the_content) /* B71, B76 */
{
    struct policy policy = { .retry = retry_default };
    struct failure f = failure_of(PR_REASON_VALIDATION_FAILURE, "400", 1);
    static struct explanation x;
    policy_explain(&policy, &breaker_default, &f, &x);
    CHECK_EQ(x.line_count, 3);
    CHECK(!x.needs_evidence);
}
