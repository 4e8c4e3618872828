/* One screen, from the store alone: so it is correct whether or not the daemon runs. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/command/endpoint.h"
#include "ops/status.h"
#include "ops/watch/watch.h"

static void print_json(const struct status *s)
{
    struct json_line line;
    struct json_writer *w = line_begin(&line);

    status_json(w, s);
    line_end(&line);
}

/* ---- Tables ---- */

static void add_count(struct table *t, uint64_t count, bool partial, enum color color)
{
    if (count > COUNT_EXACT_MAX)
        table_add(t, color, PR_STR("10,000+"));
    else
        table_addf(t, count > 0 ? color : COLOR_DIM, "%" PRIu64 "%s", count, partial && count > 0 ? "+" : "");
}

static void print_boxes(struct cli *cli, const struct status *s)
{
    struct table t;

    table_init(&t, &cli->arena, "BOX|>READY|>IN-FLIGHT|>DELAYED|>RETRYING|>HELD|>PARKED|>PAUSED|>DEAD|>OLDEST");
    for (size_t i = 0; i < s->boxes.box_count; i++) {
        const struct box_counts *b = &s->boxes.boxes[i];

        table_add(&t, COLOR_NONE, b->name);
        add_count(&t, b->ready, b->partial, COLOR_NONE);
        add_count(&t, b->in_flight, false, COLOR_GREEN);
        add_count(&t, b->delayed, b->partial, COLOR_NONE);
        add_count(&t, b->retrying, b->partial, COLOR_YELLOW);
        add_count(&t, b->held, b->partial, COLOR_YELLOW);
        add_count(&t, b->parked, b->partial, COLOR_YELLOW);
        add_count(&t, b->paused, b->partial, COLOR_YELLOW);
        add_count(&t, b->dead, false, COLOR_RED);
        table_add(&t, COLOR_NONE,
                  slice_from(b->oldest_us != 0 ? span_short(&cli->arena, s->boxes.now_us - b->oldest_us) : "-"));
    }
    table_print(&t, stdout, 0, cli->color);
}

static void print_endpoints(struct cli *cli, const struct status *s)
{
    struct table t;

    if (s->endpoints.endpoint_count == 0)
        return;
    table_init(&t, &cli->arena, "ENDPOINT|STATE|>SENT|>FAILED|>DIED|>IN-FLIGHT|WHY");
    for (size_t i = 0; i < s->endpoints.endpoint_count; i++) {
        const struct endpoint_state *e = &s->endpoints.endpoints[i];
        struct endpoint_condition condition = endpoint_condition(&s->endpoints, e);

        if (e->name.size > 0) {
            table_add(&t, COLOR_NONE, e->name);
            condition_add(cli, &t, &condition, s->endpoints.now_us);
        } else { /* messages that died before they were routed */
            table_add(&t, COLOR_NONE, PR_STR("(not routed)"));
            table_add(&t, COLOR_DIM, PR_STR("-"));
        }
        table_addf(&t, COLOR_NONE, "%" PRIu64, e->sent);
        table_addf(&t, e->failed > 0 ? COLOR_YELLOW : COLOR_DIM, "%" PRIu64, e->failed);
        table_addf(&t, e->dead > 0 ? COLOR_RED : COLOR_DIM, "%" PRIu64, e->dead);
        table_addf(&t, COLOR_NONE, "%zu", s->in_flight[i]);
        table_add(&t, COLOR_DIM, slice_from(condition_why(&cli->arena, &condition, e)));
    }
    printf("\n");
    table_print(&t, stdout, terminal_width(stdout), cli->color);
}

static void print_instances(struct cli *cli, const struct status *s)
{
    struct table t;

    if (s->instances.instance_count == 0)
        return;
    table_init(&t, &cli->arena, "INSTANCE|BOX|>LANES|>IN-FLIGHT|>LEASE|>UP|VERSION");
    for (size_t i = 0; i < s->instances.instance_count; i++) {
        const struct instance_info *n = &s->instances.instances[i];

        table_add(&t, COLOR_NONE, n->name);
        table_add(&t, COLOR_NONE, n->box);
        table_addf(&t, n->lanes > 0 ? COLOR_NONE : COLOR_DIM, n->lanes > 0 ? "%d" : "standby", n->lanes);
        table_addf(&t, COLOR_NONE, "%" PRIu64, n->in_flight);
        table_add(&t, n->lease_left_us > 0 ? COLOR_NONE : COLOR_RED,
                  slice_from(n->lease_left_us > 0 ? span_short(&cli->arena, n->lease_left_us) : "over"));
        table_add(&t, COLOR_NONE, slice_from(span_short(&cli->arena, s->instances.now_us - n->started_us)));
        table_add(&t, COLOR_NONE, n->version);
    }
    printf("\n");
    table_print(&t, stdout, 0, cli->color);
}

static void print_flows(struct cli *cli, const struct status *s)
{
    const uint64_t *n = s->flows.flow_states;
    struct table t;

    if (n[FLOW_RUNNING] + n[FLOW_COMPLETED] + n[FLOW_FAILED] + n[FLOW_CANCELLED] == 0)
        return;
    table_init(&t, &cli->arena, "FLOWS|>RUNNING|>COMPLETED|>FAILED|>CANCELLED");
    table_add(&t, COLOR_NONE, PR_STR(""));
    add_count(&t, n[FLOW_RUNNING], false, COLOR_BLUE);
    add_count(&t, n[FLOW_COMPLETED], false, COLOR_GREEN);
    add_count(&t, n[FLOW_FAILED], false, COLOR_RED);
    add_count(&t, n[FLOW_CANCELLED], false, COLOR_YELLOW);
    printf("\n");
    table_print(&t, stdout, 0, cli->color);
}

static void print_subscriptions(struct cli *cli, const struct status *s)
{
    struct table t;

    if (s->subscriptions.subscription_count == 0)
        return;
    table_init(&t, &cli->arena, "SUBSCRIPTION|>POSITION|>LAG|HELD BY");
    for (size_t i = 0; i < s->subscriptions.subscription_count; i++) {
        const struct subscription_info *n = &s->subscriptions.subscriptions[i];

        table_add(&t, COLOR_NONE, n->name);
        table_addf(&t, COLOR_NONE, "%" PRIu64, n->position);
        table_addf(&t, n->lag > 0 ? COLOR_YELLOW : COLOR_DIM, "%" PRIu64, n->lag);
        table_add(&t, COLOR_DIM, subscription_is_held(n, s->subscriptions.now_us) ? n->holder : PR_STR("nobody"));
    }
    printf("\n");
    table_print(&t, stdout, terminal_width(stdout), cli->color);
}

static void print_slots(struct cli *cli, const struct status *s)
{
    struct table t;

    if (s->slot_count == 0)
        return;
    table_init(&t, &cli->arena, "SLOT|STATE|>LAG (BYTES)");
    for (size_t i = 0; i < s->slot_count; i++) {
        const struct wal_report *r = &s->slots[i];

        table_add(&t, COLOR_NONE, r->slot);
        if (!r->there)
            table_add(&t, COLOR_RED, PR_STR("missing"));
        else
            table_add(&t, r->active ? COLOR_GREEN : COLOR_YELLOW, r->active ? PR_STR("active") : PR_STR("inactive"));
        table_addf(&t, COLOR_NONE, "%" PRId64, r->lag);
    }
    printf("\n");
    table_print(&t, stdout, 0, cli->color);
}

static void print_people(struct cli *cli, const struct status *s)
{
    enum check_state health = checks_health(&s->checks);
    const enum color color = health == CHECK_FINE ? COLOR_GREEN : health == CHECK_WARN ? COLOR_YELLOW : COLOR_RED;

    printf("health: %s%s%s\n", color_on(color, cli->color), check_state_name(health), color_off(color, cli->color));
    checks_print(&s->checks, true, cli->color);
    printf("\n");
    print_boxes(cli, s);
    print_endpoints(cli, s);
    print_flows(cli, s);
    print_instances(cli, s);
    print_subscriptions(cli, s);
    print_slots(cli, s);
}

/* The store cannot be reached: this is an answer, too. */
static int print_unreachable(struct cli *cli, int code)
{
    struct status s = { .checks.arena = &cli->arena };

    if (code != EXIT_STORE || !cli->json)
        return code;
    checks_add(&s.checks, "store", CHECK_ERROR, "it cannot be read; run postrider doctor");
    print_json(&s);
    return code;
}

int run_status(struct cli *cli)
{
    struct status s = { .store = &cli->store, .checks.arena = &cli->arena };
    struct pr_error err;
    int code = cli_open_store(cli);

    s.config = cli->config;
    if (code == EXIT_DONE)
        checks_add_sources(&s.checks, cli, CHECK_WARN);
    if (code == EXIT_DONE && status_collect(&s, &err) != PR_OK)
        code = cli_fault(&err);
    if (code != EXIT_DONE)
        return print_unreachable(cli, code);
    if (cli->json)
        print_json(&s);
    else
        print_people(cli, &s);
    return checks_health(&s.checks) == CHECK_ERROR ? EXIT_UNHEALTHY : EXIT_DONE;
}
