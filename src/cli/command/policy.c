/* policy check, policy explain: what rules will do, and what they never will.  Both use the engine's own code (B71). */
#include "cli/command/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/output/table.h"
#include "ops/explain/words.h"
#include "policy/check.h"
#include "policy/explain.h"
#include "runtime/config/config_suggest.h"

/* ---- Words ---- */

static const char *clean(struct cli *cli, pr_slice text)
{
    return text_clean_copy(&cli->arena, text);
}

const struct config_endpoint *policy_endpoint(struct cli *cli, const char *name, int *ret_code)
{
    struct suggestion near = { 0 };
    const struct config *config = cli->config;

    *ret_code = EXIT_DONE;
    for (size_t i = 0; i < config->endpoint_count; i++) {
        if (strcmp(config->endpoints[i].name, name) == 0)
            return &config->endpoints[i];
        suggest_try(&near, slice_from(name), config->endpoints[i].name);
    }
    if (near.best != NULL)
        cli_say("the configuration has no endpoint \"%s\"; did you mean %s?", name, near.best);
    else
        cli_say("the configuration has no endpoint \"%s\"; postrider endpoints lists all of them", name);
    *ret_code = EXIT_NOT_FOUND;
    return NULL;
}

/* ---- explain ---- */

static int number_flag(struct cli *cli, enum flag flag, int64_t max, int64_t *ret)
{
    const char *text = cli->flags.values[flag];
    char *end;

    if (text == NULL)
        return EXIT_DONE;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || n < 1 || n > max)
        return cli_usage(cli, "--%s: \"%s\" is not a number from 1 to %" PRId64, flag_infos[flag].word, text, max);
    *ret = n;
    return EXIT_DONE;
}

static int span_flag(struct cli *cli, enum flag flag, int64_t *ret)
{
    const char *text = cli->flags.values[flag];

    if (text != NULL && duration_parse(slice_from(text), ret) != PR_OK)
        return cli_usage(cli, "--%s: \"%s\" is not a duration; use a value such as 30s, 5m or 24h",
                         flag_infos[flag].word, text);
    return EXIT_DONE;
}

static int size_flag(struct cli *cli, enum flag flag, int64_t *ret)
{
    const char *text = cli->flags.values[flag];

    if (text != NULL && (size_parse(slice_from(text), ret) != PR_OK || *ret > PR_PAYLOAD_MAX))
        return cli_usage(cli, "--%s: \"%s\" is not a size; use a value such as 64KiB", flag_infos[flag].word, text);
    return EXIT_DONE;
}

static int reason_flag(struct cli *cli, int *ret)
{
    struct suggestion near = { 0 };
    const char *text = cli->flags.values[FLAG_REASON];

    *ret = text != NULL ? (int)reason_parse(slice_from(text)) : PR_REASON_UNKNOWN;
    if (*ret != PR_REASON_NONE)
        return EXIT_DONE;
    for (int i = 1; i <= PR_REASON_UNKNOWN; i++)
        if (reason_is_known(i))
            suggest_try(&near, slice_from(text), pr_reason_name(i));
    return near.best != NULL ? cli_usage(cli, "--reason: unknown reason \"%s\"; did you mean %s?", text, near.best)
                             : cli_usage(cli, "--reason: unknown reason \"%s\"; for example timeout_exceeded", text);
}

/* The failure that the flags describe. */
struct asked {
    struct pr_message message;
    struct failure failure;
};

static int read_asked(struct cli *cli, struct asked *a)
{
    int64_t failures = 1, size = 0, retry_after_us = 0;
    int reason, code = reason_flag(cli, &reason);

    *a = (struct asked){ 0 };
    if (code == EXIT_DONE)
        code = number_flag(cli, FLAG_FAILURES, 1000000, &failures);
    if (code == EXIT_DONE)
        code = size_flag(cli, FLAG_SIZE, &size);
    if (code == EXIT_DONE)
        code = span_flag(cli, FLAG_AGE, &a->failure.age_us);
    if (code == EXIT_DONE)
        code = span_flag(cli, FLAG_RETRY_AFTER, &retry_after_us);
    a->message.type = slice_from(cli->flags.values[FLAG_TYPE]);
    a->message.stream = slice_from(cli->flags.values[FLAG_STREAM]);
    a->message.payload.size = (size_t)size; /* only its size is used */
    a->failure.message = &a->message;
    a->failure.reason = reason;
    a->failure.code = slice_from(cli->flags.values[FLAG_CODE]);
    a->failure.error = slice_from(cli->flags.values[FLAG_ERROR]);
    a->failure.failures = (int)failures;
    a->failure.retry_after_us = retry_after_us;
    a->failure.unsent = flag_given(&cli->flags, FLAG_UNSENT);
    return code;
}

static bool has_delay(const struct decision *d)
{
    return d->step == STEP_RETRY || d->step == STEP_RETRY_NOW || d->step == STEP_POSTPONE;
}

static void json_delay(struct json_writer *w, const char *key, const struct decision *d)
{
    const int64_t pause_us = d->step == STEP_PAUSE && d->by != NULL ? d->by->pause_us : PR_NEVER;

    json_put_span(w, key, has_delay(d) ? d->delay_us : pause_us);
}

static void json_side_actions(struct json_writer *w, const struct decision *d)
{
    const struct rule_step *s = d->by;

    if (s != NULL && s->to.size > 0)
        json_put_slice(w, "to", s->to);
    if (s != NULL && s->pause_us != 0)
        json_put_span(w, "pause_seconds", s->pause_us);
    if (s != NULL && s->raise != NULL)
        json_put_slice(w, "raise", s->raise->type);
    if (s != NULL && s->call.size > 0)
        json_put_slice(w, "call", s->call);
}

void policy_json_decision(struct json_writer *w, const struct decision *d)
{
    json_put_slice(w, "rule", d->rule);
    json_key(w, "step");
    if (d->matched != NULL)
        json_uint(w, d->index + 1);
    else
        json_cstr(w, NULL);
    json_put_cstr(w, "action", step_name(d->step));
    json_delay(w, "delay_seconds", d);
    json_side_actions(w, d);
}

static void explain_json(const struct asked *a, const struct explanation *x)
{
    struct json_line line;
    struct json_writer *w = line_begin(&line);

    json_begin_object(w);
    policy_json_decision(w, &x->lines[0].decision);
    json_key(w, "schedule");
    json_begin_array(w);
    for (size_t i = 0; i < x->line_count; i++) {
        const struct explain_line *l = &x->lines[i];

        json_begin_object(w);
        json_put_int(w, "failure", l->failure);
        json_put_cstr(w, "action", step_name(l->decision.step));
        json_delay(w, "after_seconds", &l->decision);
        json_put_span(w, "at_seconds", l->at_us);
        json_put_slice(w, "rule", l->decision.rule);
        json_end_object(w);
    }
    json_end_array(w);
    json_put_bool(w, "endless", x->goes_on);
    json_put_cstr(w, "fault", fault_name(failure_fault(&a->failure)));
    json_put_bool(w, "needs_evidence", x->needs_evidence);
    json_put_span(w, "given_up_seconds", x->gives_up ? x->given_up_us : PR_NEVER);
    json_end_object(w);
    line_end(&line);
}

/* Who is at fault, if that matters. */
static void explain_fault(struct cli *cli, const struct config_endpoint *e, const struct failure *f)
{
    if (e->retry.blame != BLAME_EVIDENCE) {
        printf("Every failure counts, no matter who is at fault.\n");
        return;
    }
    switch (failure_fault(f)) {
    case FAULT_ENDPOINT:
        printf("The endpoint is at fault: nothing was sent, or it refused the login. The message is postponed, not "
               "counted.\n");
        break;
    case FAULT_CONTENT:
        printf("The content is at fault: the message becomes a dead letter after a few attempts, without further "
               "evidence.\n");
        break;
    case FAULT_NOBODY:
        printf("Nobody knows whose fault it is: the message is blamed when its tries are used up and endpoint %s took "
               "another\nmessage of its type since its previous failure.\n",
               clean(cli, slice_from(e->name)));
    }
}

static void explain_breaker(const struct config_endpoint *e, const struct failure *f, bool plainly)
{
    const struct breaker_setting *b = &e->breaker;
    bool counts = plainly ? reason_class(f->reason) == CLASS_TRANSIENT : failure_fault(f) != FAULT_CONTENT;

    if (!b->enabled || !counts || b->share > 0)
        return;
    printf("\nBreaker: %d in a row%s open it for %s; then failures are not counted until a probe succeeds.\n", b->after,
           plainly ? ", of different messages," : "",
           b->per_type && failure_fault(f) != FAULT_ENDPOINT ? "this message type" : "the endpoint");
}

static void explain_unproven(struct cli *cli, const struct config_endpoint *e, const struct explanation *x)
{
    if (!x->needs_evidence)
        return;
    printf("\nThe last line needs evidence. Without it: %s, and so on", decision_words(&cli->arena, &x->unproven));
    if (x->gives_up)
        printf("; no more retries after %s (failure %d)", span_words(&cli->arena, e->retry.give_up_us), x->given_up);
    printf(".\n");
}

static void explain_people(struct cli *cli, const struct config_endpoint *e, const struct failure *f,
                           const struct explanation *x)
{
    const struct decision *d = &x->lines[0].decision;
    struct table t;

    if (d->matched == NULL) {
        printf("No rule matches: the endpoint's retry setting decides.\n");
        explain_fault(cli, e, f);
    } else if (d->index < d->matched->step_count)
        printf("Rule \"%s\", step %zu of %zu: %s.\n", clean(cli, d->rule), d->index + 1, d->matched->step_count,
               decision_words(&cli->arena, d));
    else
        printf("Rule \"%s\", which has no steps left: %s.\n", clean(cli, d->rule), decision_words(&cli->arena, d));
    printf("\n");
    table_init(&t, &cli->arena, ">FAILURE|>AT|WHAT FOLLOWS|BY");
    for (size_t i = 0; i < x->line_count; i++) {
        const struct explain_line *l = &x->lines[i];

        table_addf(&t, COLOR_NONE, "%d", l->failure);
        table_addf(&t, COLOR_DIM, "+%s", span_words(&cli->arena, l->at_us));
        table_add(&t, step_is_end(l->decision.step) ? COLOR_RED : COLOR_NONE,
                  slice_from(decision_words(&cli->arena, &l->decision)));
        table_add(&t, COLOR_DIM, l->decision.rule);
    }
    table_print(&t, stdout, 0, cli->color);
    if (x->endless)
        printf("\n"
               "And so on, forever: the failure is not counted.\n");
    else if (x->goes_on)
        printf("\nAnd so on.\n");
    explain_unproven(cli, e, x);
    explain_breaker(e, f, d->matched != NULL || e->retry.blame == BLAME_ALWAYS);
}

int run_policy_explain(struct cli *cli)
{
    const struct config_endpoint *endpoint = NULL;
    struct asked asked;
    struct policy policy;
    struct explanation *x = arena_alloc(&cli->arena, sizeof(*x));
    int code = cli_load_config(cli);

    ASSERT(x != NULL);
    if (code == EXIT_DONE)
        code = read_asked(cli, &asked);
    if (code == EXIT_DONE && !flag_given(&cli->flags, FLAG_ENDPOINT))
        code = cli_usage(cli, "policy explain needs --endpoint NAME");
    if (code == EXIT_DONE)
        endpoint = policy_endpoint(cli, cli->flags.values[FLAG_ENDPOINT], &code);
    if (endpoint == NULL)
        return code;
    asked.failure.endpoint = slice_from(endpoint->name);
    config_endpoint_policy(cli->config, endpoint, &policy);
    policy_explain(&policy, &endpoint->breaker, &asked.failure, x);
    if (cli->json)
        explain_json(&asked, x);
    else
        explain_people(cli, endpoint, &asked.failure, x);
    return EXIT_DONE;
}

/* ---- check ---- */

struct findings {
    struct cli *cli;
    struct json_writer *w; /* NULL: for people */
    size_t count;
};

static void tell(struct findings *all, const char *kind, const struct rule *rule, pr_slice endpoint, pr_slice text)
{
    struct cli *cli = all->cli;
    int line = config_rule_line(cli->config, rule);

    if (all->w == NULL) {
        printf("%s:%d: rule \"%s\"%s%s %.*s\n", cli->config->file, line, clean(cli, rule->name),
               endpoint.size > 0 ? " of endpoint " : "", clean(cli, endpoint), SLICE_ARGS(text));
        return;
    }
    json_begin_object(all->w);
    json_put_cstr(all->w, "kind", kind);
    json_put_slice(all->w, "rule", rule->name);
    json_put_cstr(all->w, "endpoint", endpoint.size > 0 ? clean(cli, endpoint) : NULL);
    json_put_int(all->w, "line", line);
    json_put_slice(all->w, "text", text);
    json_end_object(all->w);
}

static void print_finding(void *arg, const struct finding *f)
{
    struct findings *all = arg;
    struct buf text;

    all->count++;
    buf_init(&text, OUTPUT_MAX);
    finding_describe(f, &text);
    tell(all, finding_kind_name(f->kind), f->rule, f->endpoint, buf_slice(&text));
    buf_fini(&text);
}

/* Valid in a program that registers the function, so it does not count as an error; but this program has none. */
static void tell_calls(struct findings *all, const struct rule *rules, size_t count, pr_slice endpoint)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < rules[i].step_count; k++) {
            pr_slice function = rules[i].steps[k].call;

            if (function.size > 0)
                tell(all, "call", &rules[i], endpoint,
                     arena_printf(&all->cli->arena,
                                  "calls %s(): postrider run refuses it; only a program that registers the function "
                                  "with pr_engine_call() can use it",
                                  clean(all->cli, function)));
        }
}

static void find_all(struct findings *all)
{
    const struct config *config = all->cli->config;
    struct policy *policies = arena_alloc_array(&all->cli->arena, config->endpoint_count, sizeof(*policies));
    struct checked_endpoint *list = arena_alloc_array(&all->cli->arena, config->endpoint_count, sizeof(*list));

    ASSERT(policies != NULL && list != NULL);
    for (size_t i = 0; i < config->endpoint_count; i++) {
        config_endpoint_policy(config, &config->endpoints[i], &policies[i]);
        list[i] = (struct checked_endpoint){ slice_from(config->endpoints[i].name), &policies[i] };
    }
    policy_check(list, config->endpoint_count, config->rules, config->rule_count, print_finding, all);
    for (size_t i = 0; i < config->endpoint_count; i++)
        tell_calls(all, config->endpoints[i].rules, config->endpoints[i].rule_count,
                   slice_from(config->endpoints[i].name));
    tell_calls(all, config->rules, config->rule_count, (pr_slice){ NULL, 0 });
}

size_t policy_print_findings(struct cli *cli)
{
    struct findings all = { .cli = cli };

    find_all(&all);
    return all.count;
}

static size_t count_rules(const struct config *config)
{
    size_t count = config->rule_count;

    for (size_t i = 0; i < config->endpoint_count; i++)
        count += config->endpoints[i].rule_count;
    return count;
}

static size_t check_json(struct cli *cli)
{
    struct json_line line;
    struct json_writer *w = line_begin(&line);
    struct findings all = { .cli = cli, .w = w };

    json_begin_object(w);
    json_put_cstr(w, "file", cli->config->file);
    json_put_uint(w, "rules", count_rules(cli->config));
    json_key(w, "findings");
    json_begin_array(w);
    find_all(&all);
    json_end_array(w);
    json_put_bool(w, "ok", all.count == 0);
    json_end_object(w);
    line_end(&line);
    return all.count;
}

int run_policy_check(struct cli *cli)
{
    int code = EXIT_DONE;

    if (cli->arg_count == 1 && flag_given(&cli->flags, FLAG_CONFIG))
        return cli_usage(cli, "the file was given twice");
    if (cli->arg_count == 1)
        cli->flags.values[FLAG_CONFIG] = cli->args[0];
    code = cli_load_config(cli);
    if (code != EXIT_DONE)
        return code;
    size_t found = cli->json ? check_json(cli) : policy_print_findings(cli);
    if (!cli->json && found == 0)
        printf("%s, no problems found\n", count_words(&cli->arena, count_rules(cli->config), "rule", "rules"));
    return found == 0 ? EXIT_DONE : EXIT_FAILED;
}
