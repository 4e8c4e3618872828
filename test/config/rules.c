/* Rules in the configuration: their result, and errors with their position (B203). */
#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "check.h"
#include "policy/policy.h"
#include "runtime/config/config.h"

#define ENDPOINTS "endpoints: {orders: {url: 'null:'}, audit: {url: 'null:'}}\n"

static struct config *load(const char *text)
{
    struct config *config = NULL;
    struct pr_error err = { 0 };
    CHECK_OK(config_load_text(pr_str(text), "t.yaml", &config, &err), &err);
    return config;
}

/* rules is one rule, from line 3 on. */
static void refuses(const char *file, int line, const char *rule, const char *want)
{
    struct config *config = NULL;
    struct pr_error err = { 0 };
    char text[1024];
    snprintf(text, sizeof(text), ENDPOINTS "rules:\n  - %s\n", rule);
    if (config_load_text(pr_str(text), "t.yaml", &config, &err) == PR_OK)
        check_fail(file, line, "accepted: %s", rule);
    check_str(file, line, rule, err.text, want);
    CHECK_EQ(err.code, PR_ECONFIG);
}

#define REFUSES(rule, want) refuses(__FILE__, __LINE__, (rule), (want))

static struct decision decide(const struct config *config, const struct failure *failure)
{
    struct policy policy;
    struct decision d;
    config_endpoint_policy(config, config_find_endpoint(config, failure->endpoint), &policy);
    policy_decide(&policy, failure, 0, &d);
    return d;
}

TEST(the_documented_example_does_what_it_says) /* B60, B62 */
{
    struct config *config = load("endpoints:\n"
                                 "  orders:\n"
                                 "    url: 'null:'\n"
                                 "    rules:\n"
                                 "      - {name: too big, when: {reason: message_too_large}, then: dead_letter}\n"
                                 "  audit: {url: 'null:'}\n"
                                 "rules:\n"
                                 "  - name: broker says no\n"
                                 "    when: {reason: [rejected, unauthorized], endpoint: orders}\n"
                                 "    then: [{retry_now: 3}, {retry: [5s, 30s]}, {dead_letter: {}, pause: 5m, raise: "
                                 "{type: sending.failed, to: audit}}]\n");
    struct pr_message m = { .type = PR_STR("t") };
    struct failure f = { .message = &m, .endpoint = PR_STR("orders"), .reason = PR_REASON_REJECTED };
    const struct {
        enum step step;
        int64_t delay_us;
    } want[] = {
        { STEP_RETRY_NOW, 0 },         { STEP_RETRY_NOW, 0 },          { STEP_RETRY_NOW, 0 },
        { STEP_RETRY, PR_SECONDS(5) }, { STEP_RETRY, PR_SECONDS(30) }, { STEP_DEAD_LETTER, 0 },
    };
    for (size_t i = 0; i < 6; i++) {
        f.failures = (int)i + 1;
        struct decision d = decide(config, &f);
        CHECK_EQ(d.step, want[i].step);
        CHECK_EQ(d.delay_us, want[i].delay_us);
        CHECK_SLICE(d.rule, "broker says no");
    }
    struct decision d = decide(config, &f);
    CHECK_EQ(d.by->pause_us, PR_MINUTES(5));
    CHECK_SLICE(d.by->raise->type, "sending.failed");
    CHECK_SLICE(d.by->raise->to, "audit");
    f.reason = PR_REASON_MESSAGE_TOO_LARGE;
    f.failures = 1;
    CHECK_SLICE(decide(config, &f).rule, "too big");
    CHECK_EQ(decide(config, &f).cause, PR_REASON_MESSAGE_TOO_LARGE);
    f.reason = PR_REASON_VALIDATION_FAILURE;
    CHECK_SLICE(decide(config, &f).rule, "retry");
    config_free(config);
}

TEST(every_matcher_and_step_can_be_written)
{
    struct config *config =
        load(ENDPOINTS "rules:\n"
                       "  - when:\n"
                       "      class: [transient, unknown]\n"
                       "      code: '5*'\n"
                       "      error: {contains: [gone, away], glob: '*!'}\n"
                       "      type: 'order.*'\n"
                       "      stream: 's-?'\n"
                       "      size: {min: 1KiB, max: 1MiB}\n"
                       "      age: {max: 1h}\n"
                       "      failures: {min: 1, max: 9}\n"
                       "      or: [{reason: timeout_exceeded}, {and: [{endpoint: orders}, {not: {code: '501'}}]}]\n"
                       "    then:\n"
                       "      - {retry: {base: 1s, factor: 3, cap: 1m, failures: 3, jitter: 0}, call: tell}\n"
                       "      - {retry: 7s}\n"
                       "      - {call: f}\n"
                       "      - {park: {}, pause: until_resumed}\n");
    struct pr_message m = { .type = PR_STR("order.x"), .stream = PR_STR("s-1"), .payload = { "", 2048 } };
    struct failure f = { .message = &m,
                         .endpoint = PR_STR("orders"),
                         .reason = PR_REASON_DEPENDENCY_FAILURE,
                         .code = PR_STR("500"),
                         .error = PR_STR("gone!"),
                         .failures = 2 };
    CHECK_EQ(decide(config, &f).delay_us, PR_SECONDS(9));
    CHECK_SLICE(decide(config, &f).rule, "rule 1");
    CHECK_SLICE(decide(config, &f).by->call, "tell");
    f.failures = 3;
    CHECK_EQ(decide(config, &f).delay_us, PR_SECONDS(7));
    f.failures = 4;
    CHECK_EQ(decide(config, &f).step, STEP_CALL);
    CHECK(slice_contains(decide(config, &f).by->place, PR_STR("t.yaml:16:")));
    f.code = PR_STR("501");
    CHECK_SLICE(decide(config, &f).rule, "retry");
    config_free(config);
}

TEST(unknown_matchers_and_steps_are_refused_with_the_nearest)
{
    REFUSES("{when: {reson: rejected}, then: park}",
            "t.yaml:3:13: rules[0].when.reson: unknown key; did you mean reason?");
    REFUSES("{when: {reason: rejectd}, then: park}",
            "t.yaml:3:21: rules[0].when.reason: unknown value \"rejectd\"; did you mean rejected?");
    REFUSES("{when: {class: transiant}, then: park}",
            "t.yaml:3:20: rules[0].when.class: unknown value \"transiant\"; did you mean transient?");
    REFUSES("{then: {retri: [5s]}}", "t.yaml:3:13: rules[0].then.retri: unknown key; did you mean retry?");
    REFUSES("{then: dead_leter}", "t.yaml:3:12: rules[0].then: unknown step \"dead_leter\"; did you mean dead_letter?");
    REFUSES("{then: [park, zzz]}", "t.yaml:3:19: rules[0].then[1]: unknown step \"zzz\"; use dead_letter, discard, "
                                   "park, or a map such as {retry: [5s, 30s]}");
    REFUSES("{then: {pause: forever}}",
            "t.yaml:3:20: rules[0].then.pause: \"forever\" is not a duration; use a value such as "
            "200ms, 30s, 5m, 24h, 7d, or until_resumed");
    REFUSES("{name: x}", "t.yaml:3:5: rules[0]: then is missing");
    REFUSES("{then: {raise: {type: x}}}",
            "t.yaml:3:12: rules[0].then: no action for the message; add retry, dead_letter, discard, park or pause");
    REFUSES("{then: {retry: [5s], discard: {}}}",
            "t.yaml:3:26: rules[0].then.discard: cannot be combined with retry; make a list of two steps");
}

TEST(impossible_values_are_refused)
{
    REFUSES("{then: {retry: [-5s]}}",
            "t.yaml:3:21: rules[0].then.retry: \"-5s\" is not a duration; use a value such as 200ms, 30s, 5m, 24h, 7d");
    REFUSES("{then: {retry: [366d]}}", "t.yaml:3:21: rules[0].then.retry: 366d is not between 0s and 365d");
    REFUSES("{then: {retry: {base: 400d}}}", "t.yaml:3:27: rules[0].then.retry.base: 400d is not between 0s and 365d");
    REFUSES("{then: {pause: 400d}}", "t.yaml:3:20: rules[0].then.pause: 400d is not between 1us and 365d");
    REFUSES("{then: {retry_now: 0}}", "t.yaml:3:24: rules[0].then.retry_now: 0 is not between 1 and 100");
    REFUSES("{when: {failures: {min: 3, max: 2}}, then: park}",
            "t.yaml:3:23: rules[0].when.failures: min is greater than max");
    REFUSES("{when: {size: 5}, then: park}", "t.yaml:3:19: rules[0].when.size: needs a map such as {min: 1, max: 3}");
    REFUSES("{when: {or: []}, then: park}", "t.yaml:3:17: rules[0].when.or: needs a list of 1 to 64 matchers");
    REFUSES(
        "{when: {not: {not: {not: {not: {not: {not: {not: {not: {not: {code: x}}}}}}}}}}, then: park}",
        "t.yaml:3:66: rules[0].when.not.not.not.not.not.not.not.not.not: and, or, not can be nested at most 8 deep");
}

TEST(endpoints_that_are_not_there_are_refused)
{
    REFUSES("{then: {park: {}, raise: {type: t, to: adit}}}",
            "t.yaml:3:44: rules[0].then.raise.to: unknown endpoint \"adit\"; did you mean audit?");
    REFUSES("{then: {dead_letter: {to: nowhere}}}",
            "t.yaml:3:31: rules[0].then.dead_letter.to: unknown endpoint \"nowhere\"; add it under endpoints");
    REFUSES("{then: {park: {}, raise: {to: audit}}}",
            "t.yaml:3:30: rules[0].then.raise: needs a map with a type, such as {type: sending.failed, to: alerts}");
}

TEST(an_endpoints_rule_may_name_one_that_is_written_later)
{
    struct config *config = load("endpoints:\n"
                                 "  a: {url: 'null:', rules: [{then: {dead_letter: {to: z}}}]}\n"
                                 "  z: {url: 'null:'}\n");
    CHECK_SLICE(config->endpoints[0].rules[0].steps[0].to, "z");
    CHECK_EQ(config_rule_line(config, &config->endpoints[0].rules[0]), 2);
    config_free(config);
}

TEST(config_show_prints_rules_that_can_be_read_again)
{
    struct config *config =
        load(ENDPOINTS "rules:\n  - {name: 'a: b', when: {error: 'x, y'}, then: [{retry: [5s]}, park]}\n");
    struct buf text;
    buf_init(&text, 1 << 20);
    config_show(config, &text);
    CHECK(slice_contains(buf_slice(&text),
                         PR_STR("- {name: \"a: b\", when: {error: \"x, y\"}, then: [{retry: [5s]}, park]} # line 3")));
    struct config *again = load(buf_slice(&text).data);
    CHECK_SLICE(again->rules[0].name, "a: b");
    config_free(again);
    config_free(config);
    buf_fini(&text);
}
