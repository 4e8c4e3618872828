/* endpoints list, pause, resume. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/command/endpoint.h"
#include "cli/command/policy.h"
#include "ops/replay/pace.h"
#include "ops/reply.h"

#define LOOK_MAX_US PR_MINUTES(60)

static int ask(struct cli *cli, struct query_reply *ret)
{
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct pr_error err;

    return store_query(&cli->store, &query, &cli->arena, ret, &err) == PR_OK ? EXIT_DONE : cli_fault(&err);
}

static const struct endpoint_state *find(const struct query_reply *reply, const char *name)
{
    for (size_t i = 0; i < reply->endpoint_count; i++)
        if (slice_eq_cstr(reply->endpoints[i].name, name))
            return &reply->endpoints[i];
    return NULL;
}

/* ---- endpoints list ---- */

/* An endpoint of the configuration, of the store, or of both. */
struct entry {
    pr_slice name;
    const struct config_endpoint *config; /* NULL: not in the configuration */
    struct endpoint_state state;
    struct pace rate; /* with --for */
};

/* Reads the totals of the store twice, --for apart, for the rates.  Without --for it does not wait. */
static int look_twice(struct cli *cli, struct query_reply *reply, struct pace **ret)
{
    const char *text = cli->flags.values[FLAG_FOR];
    int64_t for_us;
    int code = ask(cli, reply);

    *ret = NULL;
    if (text == NULL || code != EXIT_DONE)
        return code;
    if (duration_parse(slice_from(text), &for_us) != PR_OK || for_us <= 0 || for_us > LOOK_MAX_US)
        return cli_usage(cli, "--for: \"%s\" is not a duration of up to 1h; use 5s or 1m", text);
    const struct timespec span = { .tv_sec = for_us / PR_SECONDS(1), .tv_nsec = for_us % PR_SECONDS(1) * 1000 };
    struct paces *rates = paces_new();
    struct pace *list = arena_alloc_array(&cli->arena, reply->endpoint_count, sizeof(*list));
    ASSERT(rates != NULL && list != NULL);
    paces_look(rates, reply, list);
    (void)nanosleep(&span, NULL); /* when woken early the shorter span is used, and shown */
    code = ask(cli, reply);
    list = arena_alloc_array(&cli->arena, reply->endpoint_count, sizeof(*list));
    ASSERT(list != NULL);
    if (code == EXIT_DONE)
        paces_look(rates, reply, list);
    paces_free(rates);
    *ret = list;
    return code;
}

static size_t collect(struct cli *cli, const struct query_reply *reply, const struct pace *rates, struct entry *ret)
{
    const struct config *config = cli->config;
    size_t n = 0;

    for (size_t i = 0; i < config->endpoint_count; i++) {
        const struct endpoint_state *state = find(reply, config->endpoints[i].name);

        ret[n] = (struct entry){ .name = slice_from(config->endpoints[i].name), .config = &config->endpoints[i] };
        if (state != NULL)
            ret[n].state = *state;
        if (state != NULL && rates != NULL)
            ret[n].rate = rates[state - reply->endpoints];
        if (state == NULL)
            ret[n].state.name = ret[n].name;
        n++;
    }
    for (size_t i = 0; i < reply->endpoint_count; i++)
        if (config_find_endpoint(config, reply->endpoints[i].name) == NULL)
            ret[n++] = (struct entry){ reply->endpoints[i].name, NULL, reply->endpoints[i],
                                       rates != NULL ? rates[i] : (struct pace){ .over_us = 0 } };
    return n;
}

static void print_json(struct cli *cli, const struct query_reply *reply, const struct entry *e)
{
    struct json_line line;
    struct json_writer *w = line_begin(&line);

    json_begin_object(w);
    json_put_slice(w, "name", e->name);
    condition_json(w, &cli->arena, reply, &e->state);
    json_put_bool(w, "configured", e->config != NULL);
    json_put_uint(w, "rules", e->config != NULL ? e->config->rule_count : 0);
    reply_write(w, REPLY_ENDPOINT, &e->state);
    pace_json(w, &e->rate);
    json_end_object(w);
    line_end(&line);
}

/* The endpoint is active; what was its last failure? */
static pr_slice last_words(struct cli *cli, const struct endpoint_state *e, int64_t now_us)
{
    if (e->last_failed_us == 0)
        return (pr_slice){ NULL, 0 };
    return arena_printf(
        &cli->arena, "last failure %s ago: %s%s%.*s%s%s%.*s", span_short(&cli->arena, now_us - e->last_failed_us),
        e->last_reason != PR_REASON_NONE ? pr_reason_name(e->last_reason) : "failed", e->last_code.size > 0 ? " (" : "",
        SLICE_ARGS(e->last_code), e->last_code.size > 0 ? ")" : "", e->last_error.size > 0 ? ": " : "",
        (int)min_size(e->last_error.size, 500), e->last_error.size > 0 ? e->last_error.data : "");
}

static void add_row(struct cli *cli, struct table *t, const struct query_reply *reply, const struct entry *e,
                    bool rates)
{
    struct endpoint_condition s = endpoint_condition(reply, &e->state);

    table_add(t, COLOR_NONE, e->name);
    if (e->config == NULL && s.until_us == 0)
        table_add(t, COLOR_DIM, PR_STR("not configured"));
    else
        condition_add(cli, t, &s, reply->now_us);
    table_addf(t, COLOR_NONE, "%" PRIu64, e->state.sent);
    table_addf(t, e->state.failed > 0 ? COLOR_YELLOW : COLOR_DIM, "%" PRIu64, e->state.failed);
    table_addf(t, e->state.dead > 0 ? COLOR_RED : COLOR_DIM, "%" PRIu64, e->state.dead);
    if (rates) {
        table_addf(t, COLOR_BOLD, "%.1f", e->rate.sent);
        table_addf(t, e->rate.failed > 0 ? COLOR_YELLOW : COLOR_DIM, "%.1f", e->rate.failed);
    }
    table_addf(t, COLOR_DIM, "%zu", e->config != NULL ? e->config->rule_count : 0);
    const char *why = condition_why(&cli->arena, &s, &e->state);

    table_add(t, COLOR_DIM, why[0] != '\0' ? slice_from(why) : last_words(cli, &e->state, reply->now_us));
}

int run_endpoints(struct cli *cli)
{
    struct query_reply reply;
    struct table t;
    struct pace *rates = NULL;
    int code = cli_open_store(cli);

    if (code == EXIT_DONE)
        code = look_twice(cli, &reply, &rates);
    if (code != EXIT_DONE)
        return code;
    struct entry *entries =
        arena_alloc_array(&cli->arena, cli->config->endpoint_count + reply.endpoint_count, sizeof(*entries));
    ASSERT(entries != NULL);
    size_t count = collect(cli, &reply, rates, entries);
    table_init(&t, &cli->arena,
               rates != NULL ? "ENDPOINT|STATE|>SENT|>FAILED|>DIED|>SENT/S|>FAILED/S|>RULES|WHY"
                             : "ENDPOINT|STATE|>SENT|>FAILED|>DIED|>RULES|WHY");
    for (size_t i = 0; i < count; i++) {
        if (cli->json)
            print_json(cli, &reply, &entries[i]);
        else
            add_row(cli, &t, &reply, &entries[i], rates != NULL);
    }
    if (!cli->json && count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    if (!cli->json && count == 0)
        cli_say("no endpoints: add some to the configuration");
    return EXIT_DONE;
}

/* ---- pause, resume ---- */

/* With a configuration, an unknown name is reported as a mistake. */
static int check_name(struct cli *cli, const char *name)
{
    struct query_reply reply;
    int code = ask(cli, &reply);

    if (code != EXIT_DONE || find(&reply, name) != NULL || !cli->config_from_file)
        return code;
    (void)policy_endpoint(cli, name, &code);
    return code;
}

static int read_for(struct cli *cli, int64_t now_us, int64_t *ret_until_us)
{
    const char *text = cli->flags.values[FLAG_FOR];
    int64_t for_us = 0;

    *ret_until_us = PR_NEVER;
    if (text == NULL)
        return EXIT_DONE;
    if (duration_parse(slice_from(text), &for_us) != PR_OK || for_us <= 0)
        return cli_usage(cli, "--for: \"%s\" is not a duration; use a value such as 30s, 5m or 24h", text);
    *ret_until_us = time_add(now_us, for_us);
    return EXIT_DONE;
}

static void report(struct cli *cli, const struct admin *a, const struct admin_reply *r)
{
    bool pause = a->kind == ADMIN_PAUSE;
    struct json_line line;

    if (!cli->json) {
        if (r->changed == 0)
            printf("%s\n", pause ? "it is already paused for longer" : "it was not paused");
        else if (pause && a->until_us == PR_NEVER)
            printf("paused until resumed\n");
        else if (pause)
            printf("paused until %s\n", time_words(&cli->arena, a->until_us));
        else
            printf("resumed\n");
        return;
    }
    struct json_writer *w = line_begin(&line);
    json_begin_object(w);
    json_put_cstr(w, "action", pause ? "pause" : "resume");
    json_put_slice(w, "endpoint", a->filter.endpoint);
    json_put_uint(w, "changed", r->changed);
    json_key(w, "until");
    if (pause && a->until_us != PR_NEVER)
        json_time(w, a->until_us);
    else
        json_cstr(w, NULL);
    json_end_object(w);
    line_end(&line);
}

int run_pause(struct cli *cli)
{
    bool pause = strcmp(cli->command->name, "pause") == 0;
    struct admin admin = { .kind = pause ? ADMIN_PAUSE : ADMIN_RESUME };
    struct admin_reply reply;
    struct pr_error err;
    int code = cli_open_store(cli);

    if (code == EXIT_DONE)
        code = check_name(cli, cli->args[0]);
    if (code == EXIT_DONE && pause)
        code = read_for(cli, store_time(&cli->store), &admin.until_us);
    if (code != EXIT_DONE)
        return code;
    admin.filter = (struct filter){ .endpoint = slice_from(cli->args[0]), .state = -1 };
    admin.by = cli_user(cli);
    admin.why = slice_from(cli->flags.values[FLAG_WHY]);
    if (store_admin(&cli->store, &admin, &reply, &err) != PR_OK)
        return cli_fault(&err);
    report(cli, &admin, &reply);
    return EXIT_DONE;
}
