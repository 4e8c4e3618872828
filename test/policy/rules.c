/* Rules: which one decides, what it matches, and that explaining is deciding. */
#include "check.h"

#include <limits.h>
#include <string.h>

#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "policy/check.h"
#include "policy/decide.h"
#include "policy/explain.h"

static const struct retry_setting doubling = {
    .base_us = PR_SECONDS(1), .factor = 2, .cap_us = PR_SECONDS(300), .failures = 5
};
static const struct rule_step park[] = { { .step = STEP_PARK } }, discard[] = { { .step = STEP_DISCARD } };

static struct pr_message message = { .type = PR_STR("order.created"),
                                     .stream = PR_STR("order-7"),
                                     .payload = { "", 1000 } };

static struct failure usual(void)
{
    return (struct failure){ .message = &message,
                             .endpoint = PR_STR("orders"),
                             .reason = PR_REASON_REJECTED,
                             .code = PR_STR("550"),
                             .error = PR_STR("Message size too large"),
                             .failures = 2,
                             .age_us = PR_SECONDS(90) };
}

#define RULE(title, matcher, list)                                                                                     \
    {                                                                                                                  \
        .name = PR_STR(title), .when = (matcher), .steps = (list), .step_count = ARRAY_LENGTH(list)                    \
    }
#define ANY ((struct matcher){ .kind = MATCH_ALL })
#define REASON(n) ((struct matcher){ .kind = MATCH_REASON, .mask = matcher_reason_bit(n) })
#define TEXT(k, text)                                                                                                  \
    ((struct matcher){ .kind = (k), .texts = &(const pr_slice){ (text), sizeof(text) - 1 }, .text_count = 1 })
#define RANGE(k, low, high) ((struct matcher){ .kind = (k), .min = (low), .max = (high) })
#define GROUP(k, ...)                                                                                                  \
    ((struct matcher){ .kind = (k),                                                                                    \
                       .parts = (const struct matcher[]){ __VA_ARGS__ },                                               \
                       .part_count = sizeof((const struct matcher[]){ __VA_ARGS__ }) / sizeof(struct matcher) })

static bool matches(struct matcher m)
{
    struct failure f = usual();
    return matcher_matches(&m, &f);
}

/* ---- Which rule ------------------------------------------------------------------------------ */

TEST(the_endpoints_rules_come_first_and_the_first_match_wins) /* B60 */
{
    const struct rule own[] = { RULE("own other", REASON(PR_REASON_EXPIRED), discard),
                                RULE("own", REASON(PR_REASON_REJECTED), park), RULE("own too late", ANY, discard) };
    const struct rule global[] = { RULE("global", ANY, discard) };
    struct policy policy = { .own = own, .own_count = 3, .global = global, .global_count = 1, .retry = doubling };
    struct failure f = usual();
    struct decision d;
    policy_decide(&policy, &f, 0, &d);
    CHECK_SLICE(d.rule, "own");
    CHECK_EQ(d.step, STEP_PARK);
    policy.own_count = 1;
    policy_decide(&policy, &f, 0, &d);
    CHECK_SLICE(d.rule, "global");
    policy.global_count = 0;
    policy_decide(&policy, &f, 0, &d); /* D8 */
    CHECK_SLICE(d.rule, "retry");
    CHECK_EQ(d.delay_us, PR_SECONDS(4));
    CHECK(d.matched == NULL);
}

TEST(each_matcher_matches_as_written) /* B61 */
{
    CHECK(matches(ANY));
    CHECK(matches(REASON(PR_REASON_REJECTED)) && !matches(REASON(PR_REASON_UNKNOWN)) &&
          !matches(REASON(PR_REASON_RATE_LIMITED)));
    CHECK(matches((struct matcher){ .kind = MATCH_CLASS, .mask = 1u << 1 }) &&
          !matches((struct matcher){ .kind = MATCH_CLASS, .mask = 1u << 0 }));
    CHECK(matches(TEXT(MATCH_CODE, "5?0")) && matches(TEXT(MATCH_CODE, "550")) && !matches(TEXT(MATCH_CODE, "55")));
    CHECK(matches(TEXT(MATCH_TYPE, "order.*")) && !matches(TEXT(MATCH_TYPE, "Order.*")) &&
          !matches(TEXT(MATCH_TYPE, "order")));
    CHECK(matches(TEXT(MATCH_ENDPOINT, "orders")) && !matches(TEXT(MATCH_ENDPOINT, "order")));
    CHECK(matches(TEXT(MATCH_STREAM, "*-7")) && !matches(TEXT(MATCH_STREAM, "*-8")));
    CHECK(matches(TEXT(MATCH_CONTAINS, "size too")) && !matches(TEXT(MATCH_CONTAINS, "Size too")));
    CHECK(matches(TEXT(MATCH_ERROR, "*too large")) && !matches(TEXT(MATCH_ERROR, "too large")));
    CHECK(matches(RANGE(MATCH_SIZE, 1000, 1000)) && !matches(RANGE(MATCH_SIZE, 1001, 2000)) &&
          !matches(RANGE(MATCH_SIZE, 0, 999)));
    CHECK(matches(RANGE(MATCH_AGE, PR_SECONDS(90), PR_SECONDS(90))) && !matches(RANGE(MATCH_AGE, 0, PR_SECONDS(89))));
    CHECK(matches(RANGE(MATCH_FAILURES, 1, 2)) && !matches(RANGE(MATCH_FAILURES, 3, 9)));
}

TEST(matchers_combine_with_and_or_not) /* B61 */
{
    CHECK(matches(GROUP(MATCH_ALL, REASON(PR_REASON_REJECTED), TEXT(MATCH_CODE, "550"))));
    CHECK(!matches(GROUP(MATCH_ALL, REASON(PR_REASON_REJECTED), TEXT(MATCH_CODE, "551"))));
    CHECK(matches(GROUP(MATCH_ANY, REASON(PR_REASON_EXPIRED), TEXT(MATCH_CODE, "550"))));
    CHECK(!matches(GROUP(MATCH_ANY, REASON(PR_REASON_EXPIRED), TEXT(MATCH_CODE, "551"))));
    CHECK(matches(GROUP(MATCH_NOT, REASON(PR_REASON_EXPIRED))));
    CHECK(!matches(GROUP(MATCH_NOT, GROUP(MATCH_ANY, REASON(PR_REASON_REJECTED), REASON(PR_REASON_EXPIRED)))));
    const pr_slice two[] = { PR_STR("x*"), PR_STR("5*") };
    CHECK(matches((struct matcher){ .kind = MATCH_CODE, .texts = two, .text_count = 2 }));
    CHECK(matches((struct matcher){ .kind = MATCH_REASON, .mask = matcher_reason_bit(99) | matcher_reason_bit(10) }));
}

TEST(no_glob_takes_long) /* a text of the largest size against globs that are made to be slow */
{
    static char text[4 * PR_ERROR_MAX];
    char glob[MATCHER_TEXT_MAX];
    struct failure f = usual();
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < sizeof(glob); i++)
        glob[i] = i % 2 == 0 ? '*' : 'a';
    glob[sizeof(glob) - 2] = 'b';
    f.error = (pr_slice){ text, sizeof(text) };
    struct matcher m = { .kind = MATCH_ERROR, .texts = &(pr_slice){ glob, sizeof(glob) }, .text_count = 1 };
    int64_t began = clock_mono_us(clock_system());
    for (int i = 0; i < 10; i++)
        CHECK(!matcher_matches(&m, &f));
    memset(glob, 'a', sizeof(glob));
    glob[0] = '*';
    glob[sizeof(glob) - 1] = 'b';
    for (int i = 0; i < 10; i++)
        CHECK(!matcher_matches(&m, &f));
    CHECK(clock_mono_us(clock_system()) - began < PR_SECONDS(2));
}

/* ---- Steps ----------------------------------------------------------------------------------------- */

static const int64_t delays[] = { PR_SECONDS(5), PR_SECONDS(30) };

TEST(a_formula_in_a_rule_begins_anew_and_ends_before_its_last_failure) /* B62 */
{
    const struct rule_step steps[] = { { .step = STEP_RETRY_NOW, .times = 2 },
                                       { .step = STEP_RETRY, .retry = doubling },
                                       { .step = STEP_DISCARD } };
    const struct rule rule[] = { RULE("r", ANY, steps) };
    struct policy policy = { .global = rule, .global_count = 1 };
    const int64_t want[] = { 0, 0, 2, 4, 8, 16, -1 };
    for (int n = 1; n <= 7; n++) {
        struct failure f = usual();
        struct decision d;
        f.failures = n;
        policy_decide(&policy, &f, 0, &d);
        CHECK_EQ(d.step, want[n - 1] < 0 ? STEP_DISCARD : n <= 2 ? STEP_RETRY_NOW : STEP_RETRY);
        CHECK_EQ(d.delay_us, want[n - 1] < 0 ? 0 : PR_SECONDS(want[n - 1]));
    }
}

TEST(no_number_of_failures_breaks_it) /* B34 */
{
    const struct rule_step steps[] = { { .step = STEP_RETRY_NOW, .times = 100 },
                                       { .step = STEP_RETRY, .retry = { .delays = delays, .delay_count = 2 } },
                                       { .step = STEP_CALL, .call = PR_STR("f") },
                                       { .step = STEP_RETRY,
                                         .retry = { .base_us = 1, .factor = 100, .failures = 0 } } };
    const struct rule rule[] = { RULE("r", ANY, steps) };
    struct policy policy = { .global = rule, .global_count = 1 };
    struct failure f = usual();
    struct decision d;
    f.failures = INT_MAX;
    policy_decide(&policy, &f, 0.99, &d);
    CHECK_EQ(d.step, STEP_CALL);
    policy_decide_after(&d, &f, 0.99, &d);
    CHECK_EQ(d.step, STEP_RETRY);
    CHECK_EQ(d.delay_us, RETRY_DELAY_MAX_US);
}

TEST(poison_is_dead_whatever_a_rule_says) /* B45 */
{
    const struct rule_step again[] = { { .step = STEP_RETRY_NOW, .times = 5 } },
                           put_back[] = { { .step = STEP_PAUSE, .pause_us = 1 } },
                           ask[] = { { .step = STEP_CALL, .call = PR_STR("f") } };
    const struct rule rules[] = { RULE("a", ANY, again), RULE("b", ANY, put_back), RULE("c", ANY, ask) };
    for (size_t i = 0; i <= 3; i++) {
        struct policy policy = { .global = rules + i, .global_count = i < 3, .retry = doubling };
        struct failure f = usual();
        struct decision d;
        f.reason = PR_REASON_POISON_MESSAGE;
        f.failures = 1;
        policy_decide(&policy, &f, 0, &d);
        CHECK_EQ(d.step, STEP_DEAD_LETTER);
        CHECK_EQ(d.cause, PR_REASON_POISON_MESSAGE);
        CHECK(d.by == NULL);
    }
}

TEST(what_dies_at_once_dies_of_its_reason_and_later_of_its_retries) /* D6 */
{
    const struct rule_step steps[] = { { .step = STEP_RETRY, .retry = { .delays = delays, .delay_count = 2 } },
                                       { .step = STEP_DEAD_LETTER } };
    const struct rule late[] = { RULE("r", ANY, steps) },
                      now[] = { { .name = PR_STR("n"), .steps = steps + 1, .step_count = 1 } };
    struct policy policy = { .global = now, .global_count = 1 };
    struct failure f = usual();
    struct decision d;
    f.failures = 7;
    policy_decide(&policy, &f, 0, &d);
    CHECK_EQ(d.cause, PR_REASON_REJECTED);
    CHECK_EQ(d.limit, 0);
    policy.global = late;
    policy_decide(&policy, &f, 0, &d);
    CHECK_EQ(d.cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(d.limit, 3);
}

TEST(a_rule_that_is_out_of_bounds_is_refused)
{
    const struct {
        struct rule_step step;
        const char *text;
    } bad[] = {
        { { .step = STEP_RETRY_NOW, .times = 0 }, "retry_now must be 1 to 100" },
        { { .step = STEP_RETRY, .retry = { .base_us = -1, .factor = 2 } }, "a delay must not be negative" },
        { { .step = STEP_RETRY, .retry = { .base_us = RETRY_DELAY_MAX_US + 1, .factor = 2 } },
          "a delay must not be longer than a year" },
        { { .step = STEP_RETRY, .retry = { .factor = 0 } }, "a factor must be between 1 and 100" },
        { { .step = STEP_PARK, .pause_us = -5 }, "a delay must not be negative" },
        { { .step = STEP_CALL }, "call needs the name of a function" },
        { { .step = STEP_PARK, .raise = &(struct raise){ .to = PR_STR("x") } },
          "raise needs a type of 1 to 255 bytes" },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct rule rule = { .name = PR_STR("r"), .steps = &bad[i].step, .step_count = 1 };
        struct pr_error err;
        CHECK_EQ(rule_check(&rule, &err), PR_EINVAL);
        CHECK_STR(err.text, bad[i].text);
    }
    struct rule nameless = { .steps = park, .step_count = 1 };
    struct pr_error err;
    CHECK_EQ(rule_check(&nameless, &err), PR_EINVAL);
}

/* ---- Explain --------------------------------------------------------------------------------------------- */

TEST(explain_says_what_the_engine_decides_failure_by_failure) /* B71 */
{
    const struct rule_step steps[] = { { .step = STEP_RETRY_NOW, .times = 3 },
                                       { .step = STEP_RETRY, .retry = { .delays = delays, .delay_count = 2 } },
                                       { .step = STEP_DEAD_LETTER, .pause_us = PR_MINUTES(5) } };
    const struct rule rules[] = { RULE("young", RANGE(MATCH_AGE, 0, PR_SECONDS(92)), steps), RULE("old", ANY, park) };
    struct policy policy = { .own = rules, .own_count = 2, .retry = doubling };
    struct failure f = usual();
    static struct explanation x;
    f.failures = 1;
    policy_explain(&policy, &breaker_default, &f, &x);
    CHECK_EQ(x.line_count, 5);
    for (size_t i = 0; i < x.line_count; i++) {
        struct failure now = f;
        struct decision d;
        now.failures = x.lines[i].failure;
        now.age_us = f.age_us + x.lines[i].at_us;
        policy_decide(&policy, &now, 0, &d);
        CHECK(memcmp(&d, &x.lines[i].decision, sizeof(d)) == 0);
    }
    CHECK_SLICE(x.lines[3].decision.rule, "young");
    CHECK_SLICE(x.lines[4].decision.rule, "old"); /* the wait of 5 s made it so */
    CHECK(!x.goes_on);
}

TEST(explain_knows_when_there_is_no_end)
{
    const struct rule_step steps[] = { { .step = STEP_PAUSE, .pause_us = PR_MINUTES(5) } };
    const struct rule rules[] = { RULE("r", ANY, steps) };
    struct policy policy = { .own = rules, .own_count = 1 };
    struct failure f = usual();
    static struct explanation x;
    policy_explain(&policy, &breaker_default, &f, &x);
    CHECK_EQ(x.line_count, 1);
    CHECK(x.goes_on && x.endless);
    policy = (struct policy){ .retry = { .base_us = 1, .factor = 1 } };
    policy_explain(&policy, &breaker_default, &f, &x);
    CHECK(x.goes_on && !x.endless);
    CHECK_EQ(x.line_count, EXPLAIN_LINES_MAX);
}

/* ---- Check ----------------------------------------------------------------------------------------------- */

static struct finding found[16];
static size_t found_count;

static void note(void *arg, const struct finding *f)
{
    (void)arg;
    CHECK(found_count < ARRAY_LENGTH(found));
    found[found_count++] = *f;
}

/* Check one endpoint "orders" with these rules of its own. */
static size_t check_rules(const struct rule *rules, size_t count)
{
    struct policy policy = { .own = rules, .own_count = count, .retry = doubling };
    struct checked_endpoint one = { PR_STR("orders"), &policy };
    found_count = 0;
    policy_check(&one, 1, NULL, 0, note, NULL);
    return found_count;
}

TEST(rules_that_can_never_match_are_found) /* B61 */
{
    const struct rule rules[] = {
        RULE("class against reason",
             GROUP(MATCH_ALL, REASON(PR_REASON_REJECTED), ((struct matcher){ .kind = MATCH_CLASS, .mask = 1 })), park),
        RULE("elsewhere", TEXT(MATCH_ENDPOINT, "billing"), park),
        RULE("failures", GROUP(MATCH_ALL, RANGE(MATCH_FAILURES, 1, 2), RANGE(MATCH_FAILURES, 5, 9)), park),
        RULE("size", GROUP(MATCH_ALL, RANGE(MATCH_SIZE, 10, 20), GROUP(MATCH_NOT, RANGE(MATCH_SIZE, 5, 30))), park),
        RULE("fine", GROUP(MATCH_ALL, RANGE(MATCH_AGE, PR_SECONDS(5), PR_SECONDS(6)), REASON(PR_REASON_REJECTED)),
             park),
    };
    CHECK_EQ(check_rules(rules, 5), 4);
    for (size_t i = 0; i < 4; i++) {
        CHECK_EQ(found[i].kind, FINDING_NEVER);
        CHECK(found[i].rule == &rules[i]);
    }
}

TEST(rules_that_are_never_reached_are_found)
{
    const struct rule rules[] = {
        RULE("orders", TEXT(MATCH_TYPE, "order.*"), park),
        RULE("transient", ((struct matcher){ .kind = MATCH_CLASS, .mask = 1 }), park),
        RULE("created", GROUP(MATCH_ALL, TEXT(MATCH_TYPE, "order.created"), REASON(PR_REASON_REJECTED)),
             park),                                                 /* behind orders */
        RULE("timeouts", REASON(PR_REASON_TIMEOUT_EXCEEDED), park), /* behind transient */
        RULE("mixed", GROUP(MATCH_ANY, TEXT(MATCH_TYPE, "order.x"), REASON(PR_REASON_RATE_LIMITED)),
             park), /* not sure: silent */
        RULE("rest", ANY, park),
        RULE("too late", REASON(PR_REASON_EXPIRED), park), /* behind rest */
    };
    CHECK_EQ(check_rules(rules, 7), 3);
    CHECK(found[0].rule == &rules[2] && found[0].kind == FINDING_UNREACHABLE && found[0].other == &rules[0]);
    CHECK(found[1].rule == &rules[3] && found[1].other == &rules[1]);
    CHECK(found[2].rule == &rules[6] && found[2].other == &rules[5]);
}

TEST(steps_that_are_never_reached_and_loops_are_found)
{
    const struct rule_step after_end[] = { { .step = STEP_PARK }, { .step = STEP_DISCARD } };
    const struct rule_step put_back[] = { { .step = STEP_PAUSE, .pause_us = 1 } };
    const struct rule_step for_ever[] = { { .step = STEP_RETRY, .retry = { .base_us = 1, .factor = 2 } } };
    const struct rule_step home[] = { { .step = STEP_DEAD_LETTER, .to = PR_STR("orders") } };
    const struct rule_step many[] = { { .step = STEP_RETRY_NOW, .times = 5 }, { .step = STEP_PARK } };
    const struct rule rules[] = {
        RULE("a", REASON(1), after_end),
        RULE("b", REASON(2), put_back),
        RULE("c", GROUP(MATCH_ALL, REASON(3), RANGE(MATCH_AGE, 0, PR_SECONDS(60))),
             put_back), /* it ends with its age */
        RULE("d", REASON(4), for_ever),
        RULE("e", REASON(5), home),
        RULE("f", GROUP(MATCH_ALL, REASON(6), RANGE(MATCH_FAILURES, 1, 3)), many),
        RULE("g", GROUP(MATCH_ALL, REASON(8), RANGE(MATCH_FAILURES, 1, 9)), for_ever),
    };
    CHECK_EQ(check_rules(rules, 7), 5);
    CHECK(found[0].rule == &rules[0] && found[0].kind == FINDING_STEP && found[0].step == 1);
    CHECK(found[1].rule == &rules[1] && found[1].kind == FINDING_ENDLESS);
    CHECK(found[2].rule == &rules[3] && found[2].kind == FINDING_ENDLESS);
    CHECK(found[3].rule == &rules[4] && found[3].kind == FINDING_ENDLESS && slice_eq_cstr(found[3].to, "orders"));
    CHECK(found[4].rule == &rules[5] && found[4].kind == FINDING_STEP);
}

TEST(a_rule_that_would_retry_poison_is_found) /* B45 */
{
    const struct rule_step again[] = { { .step = STEP_RETRY_NOW, .times = 2 }, { .step = STEP_PARK } };
    const struct rule rules[] = {
        RULE("a", REASON(PR_REASON_POISON_MESSAGE), park),
        RULE("b", GROUP(MATCH_ALL, REASON(PR_REASON_POISON_MESSAGE), TEXT(MATCH_TYPE, "order.*")), again),
        RULE("c", GROUP(MATCH_NOT, REASON(PR_REASON_POISON_MESSAGE)), again),
    };
    CHECK_EQ(check_rules(&rules[0], 1), 0);
    CHECK_EQ(check_rules(&rules[1], 2), 1);
    CHECK(found[0].rule == &rules[1] && found[0].kind == FINDING_POISON && found[0].step == 0);
    CHECK_STR(finding_kind_name(found[0].kind), "retries_poison");
}

TEST(a_circle_of_dead_letters_is_found_over_several_endpoints)
{
    const struct rule_step to_b[] = { { .step = STEP_DEAD_LETTER, .to = PR_STR("b") } },
                           to_c[] = { { .step = STEP_DEAD_LETTER, .to = PR_STR("c") } },
                           to_a[] = { { .step = STEP_DEAD_LETTER, .to = PR_STR("a") } };
    const struct rule a[] = { RULE("a", ANY, to_b) }, b[] = { RULE("b", ANY, to_c) }, c[] = { RULE("c", ANY, to_a) };
    struct policy policies[] = { { .own = a, .own_count = 1 },
                                 { .own = b, .own_count = 1 },
                                 { .own = c, .own_count = 1 } };
    struct checked_endpoint all[] = { { PR_STR("a"), &policies[0] },
                                      { PR_STR("b"), &policies[1] },
                                      { PR_STR("c"), &policies[2] } };
    found_count = 0;
    policy_check(all, 3, NULL, 0, note, NULL);
    CHECK_EQ(found_count, 3);
    policies[2].own_count = found_count = 0;
    policy_check(all, 3, NULL, 0, note, NULL);
    CHECK_EQ(found_count, 0);
}

TEST(a_global_rule_is_fine_when_one_endpoint_has_a_use_for_it)
{
    const struct rule global[] = { RULE("g", TEXT(MATCH_ENDPOINT, "b*"), park),
                                   RULE("h", TEXT(MATCH_ENDPOINT, "z"), park) };
    const struct rule own[] = { RULE("own", ANY, discard) };
    struct policy policies[] = { { .own = own, .own_count = 1, .global = global, .global_count = 2 },
                                 { .global = global, .global_count = 2 } };
    struct checked_endpoint all[] = { { PR_STR("b1"), &policies[0] }, { PR_STR("b2"), &policies[1] } };
    found_count = 0;
    policy_check(all, 2, global, 2, note, NULL);
    CHECK_EQ(found_count, 1);
    CHECK(found[0].rule == &global[1] && found[0].kind == FINDING_NEVER);
    found_count = 0;
    policy_check(all, 1, global, 1, note, NULL); /* b1 alone takes everything itself */
    CHECK_EQ(found_count, 1);
    CHECK(found[0].kind == FINDING_UNREACHABLE && found[0].other == &own[0]);
}

/* ---- What is not here -------------------------------------------------------------------------- */

static pr_id some_id(void *arg)
{
    (void)arg;
    return (pr_id){ { 1 } };
}

/* The table keeps the row with its payload; elsewhere the message would be without it. */
TEST(what_is_over_limits_payload_has_its_size_and_is_not_moved_without_its_payload)
{
    static const struct rule_step steps[] = { { .step = STEP_DEAD_LETTER, .to = PR_STR("archive") } };
    const struct rule own[] = { RULE("large", RANGE(MATCH_SIZE, 10, 100), steps) };
    const struct policy policy = { .own = own, .own_count = 1, .retry = doubling };
    const struct pr_message here = { .type = PR_STR("t"), .payload = PR_STR("0123456789") };
    const struct pr_message elsewhere = { .type = PR_STR("t") };
    for (int is_here = 0; is_here < 2; is_here++) {
        struct failure_case c = { .policy = &policy, .failure = usual(), .box = PR_STR("outbox"), .new_id = some_id };
        struct consequences follows;
        c.failure.message = is_here ? &here : &elsewhere;
        c.failure.unread = is_here ? 0 : 10;
        failure_decide(&c, &follows);
        CHECK_EQ(follows.decision.step, STEP_DEAD_LETTER);
        CHECK_SLICE(follows.decision.rule, "large");
        CHECK_EQ(follows.effects != NULL, is_here);
        CHECK_SLICE(follows.moved_to, is_here ? "archive" : "");
        consequences_fini(&follows);
    }
}
