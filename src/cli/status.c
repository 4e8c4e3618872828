/* One screen, from the store alone: so it is right whether the daemon runs or not. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/endpoint.h"

#define OLDEST_WARN_US PR_MINUTES(5) /* a ready message that waits longer tells of trouble */
#define IN_FLIGHT_PAGE 100           /* payloads come along, so pages are small */

struct status {
    struct query_reply boxes, endpoints, instances;
    size_t *in_flight; /* per endpoint */
    struct wal_report *slots;
    size_t slot_count;
    struct checks checks;
};

static int ask(struct cli *cli, enum query_kind kind, struct query_reply *ret)
{
    struct query query = { .kind = kind, .filter.state = -1 };
    struct pr_error err;

    return store_query(&cli->store, &query, &cli->arena, ret, &err) == PR_OK ? EXIT_DONE : cli_fault(&err);
}

/* ---- What is in flight, by endpoint ---- */

static void tally(struct status *s, const struct query_reply *page)
{
    for (size_t i = 0; i < page->listed_count; i++) {
        const struct listed *l = &page->listed[i];
        pr_slice name = l->endpoint.size > 0 ? l->endpoint : l->m.destination;

        for (size_t j = 0; j < s->endpoints.endpoint_count; j++)
            s->in_flight[j] += slice_eq(s->endpoints.endpoints[j].name, name);
    }
}

static int count_in_flight(struct cli *cli, struct status *s, pr_slice box)
{
    struct query query = { .kind = QUERY_MESSAGES,
                           .filter = { .box = box, .state = STATE_IN_FLIGHT, .limit = IN_FLIGHT_PAGE } };
    struct query_reply page;
    struct pr_error err;
    struct arena arena;
    int code = EXIT_DONE;

    arena_init(&arena, 65536);
    for (size_t seen = 0; seen < COUNT_EXACT_MAX; seen += page.listed_count) {
        if (store_query(&cli->store, &query, &arena, &page, &err) != PR_OK) {
            code = cli_fault(&err);
            break;
        }
        tally(s, &page);
        if (!page.more || page.listed_count == 0)
            break;
        query.filter.after = page.listed[page.listed_count - 1].row;
        arena_reset(&arena);
    }
    arena_fini(&arena);
    return code;
}

/* ---- Checks ---- */

static bool box_has_instance(const struct status *s, pr_slice box)
{
    for (size_t i = 0; i < s->instances.instance_count; i++)
        if (slice_eq(s->instances.instances[i].box, box) && s->instances.instances[i].lease_left_us > 0)
            return true;
    return false;
}

static void check_box(struct cli *cli, struct status *s, const struct box_counts *b)
{
    uint64_t waits = b->ready + b->delayed + b->retrying + b->held;
    int64_t age = b->oldest_us != 0 ? s->boxes.now_us - b->oldest_us : 0;

    if (waits > 0 && !box_has_instance(s, b->name))
        checks_add(&s->checks, "instance", CHECK_WARN, "%s in %.*s and nobody delivers: start postrider run",
                   count_words(&cli->arena, waits, "message waits", "messages wait"), SLICE_ARGS(b->name));
    if (age > OLDEST_WARN_US)
        checks_add(&s->checks, "age", CHECK_WARN,
                   "the oldest ready message in %.*s waits since %s: postrider list --box %.*s --limit 1",
                   SLICE_ARGS(b->name), span_words(&cli->arena, age), SLICE_ARGS(b->name));
    if (b->dead > 0)
        checks_add(&s->checks, "dead", CHECK_WARN, "%s from %.*s: postrider dead list --box %.*s",
                   count_words(&cli->arena, b->dead, "dead letter", "dead letters"), SLICE_ARGS(b->name),
                   SLICE_ARGS(b->name));
}

/* Parked because nobody knows where they go: only a person can change that. */
static int check_destinations(struct cli *cli, struct status *s, const struct box_counts *b)
{
    struct query query = {
        .kind = QUERY_MESSAGES,
        .filter = { .box = b->name, .state = STATE_PARKED, .reason = PR_REASON_DESTINATION_MISSING, .limit = 1 }
    };
    struct query_reply reply;
    struct pr_error err;

    if (b->parked == 0)
        return EXIT_DONE;
    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return cli_fault(&err);
    if (reply.listed_count > 0 && reply.listed[0].m.destination.size > 0)
        checks_add(&s->checks, "destination", CHECK_WARN,
                   "messages in %.*s are parked: no endpoint \"%.*s\" (and maybe others); add it to the "
                   "configuration: postrider list --box %.*s --reason destination_missing",
                   SLICE_ARGS(b->name), SLICE_ARGS(reply.listed[0].m.destination), SLICE_ARGS(b->name));
    else if (reply.listed_count > 0)
        checks_add(&s->checks, "destination", CHECK_WARN,
                   "messages in %.*s are parked: no route matches \"%.*s\" (and maybe others); add one to the "
                   "configuration: postrider list --box %.*s --reason destination_missing",
                   SLICE_ARGS(b->name), SLICE_ARGS(reply.listed[0].m.type), SLICE_ARGS(b->name));
    return EXIT_DONE;
}

static int check_all(struct cli *cli, struct status *s)
{
    int code = EXIT_DONE;

    s->checks.arena = &cli->arena;
    checks_add(&s->checks, "store", CHECK_FINE, "reachable, its tables are right");
    checks_add_sources(&s->checks, cli, CHECK_WARN);
    for (size_t i = 0; i < s->boxes.box_count && code == EXIT_DONE; i++) {
        check_box(cli, s, &s->boxes.boxes[i]);
        code = check_destinations(cli, s, &s->boxes.boxes[i]);
    }
    (void)endpoints_check(&s->checks, &s->endpoints);
    checks_add_wal(&s->checks, cli, &s->slots, &s->slot_count);
    return code;
}

static int collect(struct cli *cli, struct status *s)
{
    int code = ask(cli, QUERY_BOXES, &s->boxes);

    if (code == EXIT_DONE)
        code = ask(cli, QUERY_ENDPOINTS, &s->endpoints);
    if (code == EXIT_DONE)
        code = ask(cli, QUERY_INSTANCES, &s->instances);
    if (code != EXIT_DONE)
        return code;
    s->in_flight = arena_alloc_array(&cli->arena, s->endpoints.endpoint_count, sizeof(*s->in_flight));
    ASSERT(s->in_flight != NULL);
    for (size_t i = 0; i < s->boxes.box_count && code == EXIT_DONE; i++)
        if (s->boxes.boxes[i].in_flight > 0)
            code = count_in_flight(cli, s, s->boxes.boxes[i].name);
    return code != EXIT_DONE ? code : check_all(cli, s);
}

/* ---- JSON ---- */

static void json_count(struct json_writer *w, const char *key, uint64_t value)
{
    json_key(w, key);
    json_uint(w, value);
}

static void json_boxes(struct json_writer *w, const struct status *s)
{
    json_key(w, "boxes");
    json_begin_array(w);
    for (size_t i = 0; i < s->boxes.box_count; i++) {
        const struct box_counts *b = &s->boxes.boxes[i];

        json_begin_object(w);
        json_key(w, "name");
        json_slice(w, b->name);
        json_count(w, "ready", b->ready);
        json_count(w, "in_flight", b->in_flight);
        json_count(w, "delayed", b->delayed);
        json_count(w, "retrying", b->retrying);
        json_count(w, "held", b->held);
        json_count(w, "parked", b->parked);
        json_count(w, "paused", b->paused);
        json_count(w, "dead", b->dead);
        json_count(w, "done", b->done);
        json_key(w, "oldest_age_seconds");
        json_double(w, b->oldest_us != 0 ? (double)max64(s->boxes.now_us - b->oldest_us, 0) / 1e6 : 0);
        json_end_object(w);
    }
    json_end_array(w);
}

static void json_endpoints(struct json_writer *w, struct arena *arena, const struct status *s)
{
    json_key(w, "endpoints");
    json_begin_array(w);
    for (size_t i = 0; i < s->endpoints.endpoint_count; i++) {
        const struct endpoint_state *e = &s->endpoints.endpoints[i];

        json_begin_object(w);
        json_key(w, "name");
        json_slice(w, e->name);
        standing_json(w, arena, &s->endpoints, e);
        json_count(w, "sent", e->sent);
        json_count(w, "failed", e->failed);
        json_count(w, "dead", e->dead);
        json_count(w, "discarded", e->discarded);
        json_count(w, "expired", e->expired);
        json_count(w, "in_flight", s->in_flight[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void json_instances(struct json_writer *w, const struct status *s)
{
    json_key(w, "instances");
    json_begin_array(w);
    for (size_t i = 0; i < s->instances.instance_count; i++) {
        const struct instance_info *n = &s->instances.instances[i];
        char id[PR_ID_TEXT_SIZE];

        pr_id_format(n->id, id);
        json_begin_object(w);
        json_key(w, "id");
        json_cstr(w, id);
        json_key(w, "name");
        json_slice(w, n->name);
        json_key(w, "box");
        json_slice(w, n->box);
        json_key(w, "version");
        json_slice(w, n->version);
        json_key(w, "epoch");
        json_int(w, n->epoch);
        json_key(w, "lanes");
        json_int(w, n->lanes);
        json_count(w, "in_flight", n->in_flight);
        json_key(w, "lease_left_seconds");
        json_double(w, (double)n->lease_left_us / 1e6);
        json_key(w, "started_at");
        json_time(w, n->started_us);
        json_end_object(w);
    }
    json_end_array(w);
}

static void json_slots(struct json_writer *w, const struct status *s)
{
    json_key(w, "slots");
    json_begin_array(w);
    for (size_t i = 0; i < s->slot_count; i++) {
        const struct wal_report *r = &s->slots[i];

        json_begin_object(w);
        json_key(w, "name");
        json_slice(w, r->slot);
        json_key(w, "there");
        json_bool(w, r->there);
        json_key(w, "active");
        json_bool(w, r->active);
        json_key(w, "lag_bytes");
        json_int(w, r->lag);
        json_end_object(w);
    }
    json_end_array(w);
}

static void print_json(struct cli *cli, const struct status *s)
{
    struct json_writer w;
    struct buf line;

    buf_init(&line, OUTPUT_MAX);
    json_init(&w, &line);
    json_begin_object(&w);
    json_key(&w, "health");
    json_cstr(&w, check_state_name(checks_health(&s->checks)));
    checks_json(&s->checks, &w);
    json_boxes(&w, s);
    json_endpoints(&w, &cli->arena, s);
    json_instances(&w, s);
    json_slots(&w, s);
    json_end_object(&w);
    cli_print(&line);
    buf_fini(&line);
}

/* ---- Tables ---- */

static void add_count(struct table *t, uint64_t count, enum color color)
{
    if (count > COUNT_EXACT_MAX)
        table_add(t, color, PR_STR("10,000+"));
    else
        table_addf(t, count > 0 ? color : COLOR_DIM, "%" PRIu64, count);
}

static void print_boxes(struct cli *cli, const struct status *s)
{
    struct table t;

    table_init(&t, &cli->arena, "BOX|>READY|>IN-FLIGHT|>DELAYED|>RETRYING|>HELD|>PARKED|>PAUSED|>DEAD|>OLDEST");
    for (size_t i = 0; i < s->boxes.box_count; i++) {
        const struct box_counts *b = &s->boxes.boxes[i];

        table_add(&t, COLOR_NONE, b->name);
        add_count(&t, b->ready, COLOR_NONE);
        add_count(&t, b->in_flight, COLOR_GREEN);
        add_count(&t, b->delayed, COLOR_NONE);
        add_count(&t, b->retrying, COLOR_YELLOW);
        add_count(&t, b->held, COLOR_YELLOW);
        add_count(&t, b->parked, COLOR_YELLOW);
        add_count(&t, b->paused, COLOR_YELLOW);
        add_count(&t, b->dead, COLOR_RED);
        table_add(
            &t, COLOR_NONE,
            slice_from(b->oldest_us != 0 ? span_short(&cli->arena, s->boxes.now_us - b->oldest_us) : "-"));
    }
    table_print(&t, stdout, 0, cli->color);
}

static void print_endpoints(struct cli *cli, const struct status *s)
{
    struct table t;

    if (s->endpoints.endpoint_count == 0)
        return;
    table_init(&t, &cli->arena, "ENDPOINT|STATE|>SENT|>FAILED|>DEAD|>IN-FLIGHT|WHY");
    for (size_t i = 0; i < s->endpoints.endpoint_count; i++) {
        const struct endpoint_state *e = &s->endpoints.endpoints[i];
        struct standing standing = endpoint_standing(&s->endpoints, e);

        table_add(&t, COLOR_NONE,
                  e->name.size > 0 ? e->name : PR_STR("(none)")); /* dead before they were routed */
        standing_add(cli, &t, &standing, s->endpoints.now_us);
        table_addf(&t, COLOR_NONE, "%" PRIu64, e->sent);
        table_addf(&t, e->failed > 0 ? COLOR_YELLOW : COLOR_DIM, "%" PRIu64, e->failed);
        table_addf(&t, e->dead > 0 ? COLOR_RED : COLOR_DIM, "%" PRIu64, e->dead);
        table_addf(&t, COLOR_NONE, "%zu", s->in_flight[i]);
        table_add(&t, COLOR_DIM, slice_from(standing_why(&cli->arena, &standing, e)));
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
        table_addf(&t, COLOR_NONE, "%d", n->lanes);
        table_addf(&t, COLOR_NONE, "%" PRIu64, n->in_flight);
        table_add(&t, n->lease_left_us > 0 ? COLOR_NONE : COLOR_RED,
                  slice_from(n->lease_left_us > 0 ? span_short(&cli->arena, n->lease_left_us) : "over"));
        table_add(&t, COLOR_NONE, slice_from(span_short(&cli->arena, s->instances.now_us - n->started_us)));
        table_add(&t, COLOR_NONE, n->version);
    }
    printf("\n");
    table_print(&t, stdout, 0, cli->color);
}

static void print_slots(struct cli *cli, const struct status *s)
{
    struct table t;

    if (s->slot_count == 0)
        return;
    table_init(&t, &cli->arena, "SLOT|STATE|>LAG");
    for (size_t i = 0; i < s->slot_count; i++) {
        const struct wal_report *r = &s->slots[i];

        table_add(&t, COLOR_NONE, r->slot);
        if (!r->there)
            table_add(&t, COLOR_RED, PR_STR("not there"));
        else
            table_add(&t, r->active ? COLOR_GREEN : COLOR_YELLOW, r->active ? PR_STR("read") : PR_STR("waits"));
        table_addf(&t, COLOR_NONE, "%" PRId64, r->lag);
    }
    printf("\n");
    table_print(&t, stdout, 0, cli->color);
}

static void print_people(struct cli *cli, const struct status *s)
{
    enum check_state health = checks_health(&s->checks);
    const enum color color = health == CHECK_FINE   ? COLOR_GREEN
                             : health == CHECK_WARN ? COLOR_YELLOW
                                                    : COLOR_RED;

    printf("health: %s%s%s\n", color_on(color, cli->color), check_state_name(health),
           color_off(color, cli->color));
    checks_print(&s->checks, true, cli->color);
    printf("\n");
    print_boxes(cli, s);
    print_endpoints(cli, s);
    print_instances(cli, s);
    print_slots(cli, s);
}

/* The store cannot be asked: that is an answer, too. */
static int print_unreachable(struct cli *cli, int code)
{
    struct status s = { .checks.arena = &cli->arena };

    if (code != EXIT_STORE || !cli->json)
        return code;
    checks_add(&s.checks, "store", CHECK_ERROR, "it cannot be read: look at it with postrider doctor");
    print_json(cli, &s);
    return code;
}

int run_status(struct cli *cli)
{
    struct status s = { 0 };
    int code = cli_open_store(cli);

    if (code == EXIT_DONE)
        code = collect(cli, &s);
    if (code != EXIT_DONE)
        return print_unreachable(cli, code);
    if (cli->json)
        print_json(cli, &s);
    else
        print_people(cli, &s);
    return checks_health(&s.checks) == CHECK_ERROR ? EXIT_UNHEALTHY : EXIT_DONE;
}
