/* See scenario.h. */
#include "scenario.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/mark.h"
#include "dice.h"

#define RENEWALS_MAX 300  /* leases in a run: the rest of an idle simulated day teaches nothing */
#define FAILURES_MAX 2000 /* of a message that is tried for ever: nor does the rest of these */

static const char *const types[SIM_TYPES] = { "t0.a", "t0.b", "t1.a", "t1.b", "t2.a", "t2.b" };
static const char *const sources[SIM_SOURCES] = { "", "shop/a", "shop/b", "plant" };
static const char *const headers[SIM_HEADERS] = { "", "{\"k\":\"v\"}", "{\"K\":\"v1\",\"n\":\"2\"}", "{\"n\":\"1\"}" };
static const char *const type_globs[] = { "", "t0.*", "t1.*", "*.a", "t2.b", "*" };
static const char *const endpoint_names[SIM_ENDPOINTS_MAX] = {
    "e0",  "e1",  "e2",  "e3",  "e4",  "e5",  "e6",  "e7",  "e8",  "e9",
    "e10", "e11", "e12", "e13", "e14", "e15", "e16", "e17", "e18", "e19",
};

static const char *const other_names[SIM_ENDPOINTS_MAX] = {
    "f0",  "f1",  "f2",  "f3",  "f4",  "f5",  "f6",  "f7",  "f8",  "f9",
    "f10", "f11", "f12", "f13", "f14", "f15", "f16", "f17", "f18", "f19",
};

pr_slice scenario_type(unsigned type)
{
    return slice_from(types[type % SIM_TYPES]);
}

pr_slice scenario_endpoint(unsigned index)
{
    return slice_from(endpoint_names[index]);
}

pr_slice scenario_source(unsigned source)
{
    return slice_from(sources[source % SIM_SOURCES]);
}

pr_slice scenario_headers(unsigned which)
{
    return slice_from(headers[which % SIM_HEADERS]);
}

static void scenario_link(struct scenario *s)
{
    s->engine.endpoints = s->endpoints;
    s->engine.routes = s->routes;
    s->engine.overrides = s->overrides;
}

void scenario_calm(struct scenario *s)
{
    *s = (struct scenario){
        .engine = { .box = PR_STR("outbox"),
                    .name = PR_STR("sim"),
                    .lease_us = PR_SECONDS(15),
                    .batch = 1000,
                    .window_count = 10000,
                    .window_bytes = 64 << 20,
                    .payload_max = 1 << 20,
                    .retention = { .ended_us = PR_SECONDS(86400) * 36500 }, /* clocks jump: nothing goes by its age */
                    .poll_us = PR_MILLISECONDS(200),
                    .endpoint_count = 1,
                    .route_count = 1 },
        .instances = 1,
        .payload_max = 256,
    };
    s->endpoints[0] = (struct endpoint_setting){
        .name = scenario_endpoint(0),
        .ordering = ORDERING_FIFO,
        .max_attempts = 5,
        .timeout_us = PR_SECONDS(20),
        .policy.retry = { .base_us = PR_SECONDS(1), .factor = 2, .cap_us = PR_SECONDS(300), .failures = 5 },
    };
    s->routes[0] = (struct route){ .to = s->route_to[0], .to_count = 1 };
    scenario_link(s);
}

/* ---- Drawing ------------------------------------------------------------------------- */

static int64_t draw_log(struct random *r, int64_t low, int64_t high)
{
    return (int64_t)((double)low * pow((double)high / (double)low, random_double(r)));
}

/* Mostly small numbers, sometimes the largest. */
static unsigned draw_few(struct random *r, unsigned max)
{
    return random_chance(r, 0.1) ? max : (unsigned)draw_log(r, 1, (int64_t)max + 1);
}

/* A die of its own for each of many. */
static void die_init_at(struct random *r, uint64_t seed, const char *purpose, unsigned index)
{
    die_init(r, hash_u64(seed) + index, purpose);
}

static void draw_endpoint(struct scenario *s, unsigned index)
{
    struct endpoint_setting *e = &s->endpoints[index];
    struct random die, *r = &die;

    die_init_at(r, s->seed, "endpoint", index);
    *e = (struct endpoint_setting){
        .name = scenario_endpoint(index),
        .ordering = (enum ordering)(random_chance(r, 0.4) ? 0 : random_below(r, 4)),
        .max_attempts = (int)random_between(r, 1, 6),
        .timeout_us = draw_log(r, PR_SECONDS(1), PR_MINUTES(5)),
        .concurrency = random_chance(r, 0.5) ? 0 : draw_few(r, 8),
        .payload_max = random_chance(r, 0.1) ? s->payload_max / 2 : 0,
    };
    e->ahead = e->concurrency % 2 == 1;
    struct retry_setting *retry = &e->policy.retry;
    if (random_chance(r, 0.3)) {
        retry->delay_count = (size_t)random_between(r, 1, 4);
        for (size_t i = 0; i < retry->delay_count; i++)
            s->delays[index][i] = random_chance(r, 0.2) ? 0 : draw_log(r, PR_MILLISECONDS(10), PR_MINUTES(10));
        retry->delays = s->delays[index];
    } else {
        retry->base_us = draw_log(r, PR_MILLISECONDS(10), PR_MINUTES(1));
        retry->factor = 1 + 3 * random_double(r);
        retry->cap_us = random_chance(r, 0.8) ? draw_log(r, PR_SECONDS(1), PR_MINUTES(30)) : PR_MINUTES(60);
        retry->failures = random_chance(r, 0.1) ? 0 : (int)random_between(r, 1, 8);
    }
    if (retry->failures == 0 && retry->delay_count == 0)
        retry->cap_us = max64(retry->cap_us, s->safety_us / FAILURES_MAX);
    if (e->payload_max > 0) /* too large for ever: a stream of them must not take for ever, too */
        *retry = (struct retry_setting){
            .base_us = PR_MILLISECONDS(10), .factor = 2, .cap_us = PR_SECONDS(1), .failures = 3
        };
    retry->jitter = random_chance(r, 0.5) ? 0 : random_double(r) * 0.5;
    e->breaker = (struct breaker_setting){
        .enabled = random_chance(r, 0.5),
        .after = (int)random_between(r, 1, 6),
        .open_us = draw_log(r, PR_MILLISECONDS(100), PR_MINUTES(1)),
        .cap_us = draw_log(r, PR_MINUTES(1), PR_MINUTES(10)),
        .per_type = random_chance(r, 0.3),
    };
    /* From its own dice: what else is drawn stays the same. */
    die_init_at(r, s->seed, "blame", index);
    if (random_chance(r, 0.4))
        retry->blame = BLAME_EVIDENCE;
    die_init_at(r, s->seed, "share", index);
    if (random_chance(r, 0.3)) {
        e->breaker.share = 0.1 + 0.8 * random_double(r);
        e->breaker.window_us = draw_log(r, PR_SECONDS(1), PR_MINUTES(10));
        e->breaker.least = (int)random_between(r, 1, 20);
    }
    die_init_at(r, s->seed, "room", index);
    s->room[index] = random_chance(r, 0.8) ? 0 : draw_few(r, 8);
}

/* Further conditions besides the type: most routes have none. */
static void draw_route_more(struct scenario *s, unsigned index, struct route *route)
{
    static const char *const source_globs[] = { "shop/*", "plant", "*b" };
    static const struct route_header by[] = { { PR_STR("k"), PR_STR("v*") }, { PR_STR("N"), PR_STR("2") } };
    struct random r;

    die_init_at(&r, s->seed, "route by", index);
    if (random_chance(&r, 0.15))
        route->source = slice_from(source_globs[random_below(&r, ARRAY_LENGTH(source_globs))]);
    if (random_chance(&r, 0.1))
        route->stream = PR_STR("s*1");
    if (!random_chance(&r, 0.15))
        return;
    s->route_headers[index] = by[random_below(&r, ARRAY_LENGTH(by))];
    route->headers = &s->route_headers[index];
    route->header_count = 1;
}

static void draw_route(struct scenario *s, struct random *r, struct route *route, unsigned *to, size_t to_max)
{
    size_t endpoints = s->engine.endpoint_count;

    *route = (struct route){ .type = slice_from(type_globs[random_below(r, ARRAY_LENGTH(type_globs))]), .to = to };
    size_t want = 1 + (random_chance(r, 0.4) ? random_below(r, min_size(endpoints, to_max)) : 0);
    while (route->to_count < want) { /* distinct, in any order */
        unsigned endpoint = (unsigned)random_below(r, endpoints);
        bool there = false;
        for (size_t i = 0; i < route->to_count; i++)
            there = there || to[i] == endpoint;
        if (!there)
            to[route->to_count++] = endpoint;
    }
}

static void draw_routes(struct scenario *s)
{
    struct engine_setting *e = &s->engine;
    struct random r;

    die_init(&r, s->seed, "routes");
    e->route_count = random_below(&r, SIM_ROUTES_MAX + 1);
    e->override_count = random_chance(&r, 0.1);
    for (unsigned i = 0; i < e->route_count; i++) {
        die_init_at(&r, s->seed, "route", i);
        draw_route(s, &r, &s->routes[i], s->route_to[i], SIM_ENDPOINTS_MAX);
        draw_route_more(s, i, &s->routes[i]);
    }
    die_init(&r, s->seed, "override");
    if (e->override_count > 0)
        draw_route(s, &r, &s->overrides[0], s->override_to, 1);
    if (e->override_count > 0)
        draw_route_more(s, SIM_ROUTES_MAX, &s->overrides[0]);
}

static void draw_engine(struct scenario *s)
{
    struct engine_setting *e = &s->engine;
    struct random die, *r = &die;
    /* The longer the run the slower its clockwork: the number of idle cycles is bounded. */
    int64_t lease_min_us = max64(PR_SECONDS(1), s->safety_us / RENEWALS_MAX);

    die_init(r, s->seed, "engine");
    e->lease_us = draw_log(r, lease_min_us, lease_min_us * 20);
    e->poll_us = draw_log(r, e->lease_us / 5, e->lease_us);
    e->batch = (size_t)draw_log(r, 1, 100);
    e->window_count = e->batch + (size_t)draw_log(r, 1, 200);
    e->window_bytes = (size_t)draw_log(r, 2000, 1000000);
    e->keep_us = random_chance(r, 0.2) ? PR_MINUTES(10) : 0;
    e->payload_max = 1 << 16;
    e->endpoint_count = draw_few(r, SIM_ENDPOINTS_MAX);
    for (unsigned i = 0; i < e->endpoint_count; i++)
        draw_endpoint(s, i);
    draw_routes(s);
}

/* ---- Faults: a die for each, and all are off in half of the seeds ------------------------------- */

static double draw_rate(const struct scenario *s, const char *fault, double max)
{
    struct random r;
    die_init(&r, s->seed, fault);
    return random_chance(&r, 0.5) ? 0 : max * (random_chance(&r, 0.2) ? 1 : random_double(&r));
}

/* A mean interval such that the fault happens up to `times` times in the run; 0: off. */
static int64_t draw_every(const struct scenario *s, const char *fault, double times)
{
    struct random r;
    die_init(&r, s->seed, fault);
    return random_chance(&r, 0.5) ? 0 : (int64_t)((double)s->safety_us / (times * (0.2 + 0.8 * random_double(&r))));
}

static bool any_blames_by_evidence(const struct scenario *s)
{
    for (size_t i = 0; i < s->engine.endpoint_count; i++)
        if (s->endpoints[i].policy.retry.blame == BLAME_EVIDENCE)
            return true;
    return false;
}

static void draw_faults(const struct scenario *s, struct faults *f)
{
    struct random r;
    *f = (struct faults){
        .commit_error = draw_rate(s, "commit error", 0.2),
        .commit_unknown = draw_rate(s, "commit unknown", 0.2),
        .commit_late = draw_rate(s, "commit late", 0.1),
        .scan_anew = draw_rate(s, "scan anew", 0.2),
        .crash_in_cycle = draw_rate(s, "crash in cycle", 0.02),
        .crash_every_us = draw_every(s, "crash", 16),
        .freeze_every_us = draw_every(s, "freeze", 6),
        .stop_every_us = draw_every(s, "stop", 6),
        .retune_every_us = draw_every(s, "retune", 10),
        .step_every_us = draw_every(s, "clock step", 4),
        .poison = draw_rate(s, "poison", 0.02),
        .bad = draw_rate(s, "bad", 0.05),
        .send_fail = draw_rate(s, "send fails", 0.4),
        .send_reject = draw_rate(s, "send rejected", 0.1),
        .answer_lost = draw_rate(s, "answer lost", 0.1),
        .answer_late = draw_rate(s, "answer late", 0.1),
        .duplicate = draw_rate(s, "duplicate", 0.1),
        .outage_every_us = draw_every(s, "outage", 5),
        .rollback = draw_rate(s, "rollback", 0.3),
        .lost = draw_rate(s, "lost commit", 0.1),
        .late = draw_rate(s, "late commit", 0.4),
        .send_again = draw_rate(s, "send again", 0.4),
        .order_again = draw_rate(s, "order again", 0.5),
        .undecodable = draw_rate(s, "undecodable", 0.05),
        .wake_lost = draw_rate(s, "wake lost", 1),
        .operator_every_us = draw_every(s, "operator", 20),
        .edit_every_us = draw_every(s, "edit", 20),
        .export_every_us = draw_every(s, "export", 20),
        .share_every_us = draw_every(s, "both", 20),
        .slow = draw_rate(s, "slow", 1) > 0,
    };
    die_init(&r, s->seed, "asks");
    f->ask_every_us = random_chance(&r, 0.15) ? draw_every(s, "ask", 30) : 0;
    die_init(&r, s->seed, "row held");
    f->row_held = s->sqlite || random_chance(&r, 0.6) ? 0 : 0.5 * random_double(&r);
    /* A decision that waits for its row can be one of other routes, or of other evidence, which the checkers do not know. */
    if (f->retune_every_us > 0 || any_blames_by_evidence(s))
        f->row_held = 0;
    f->row_held_us = f->row_held > 0 ? draw_log(&r, PR_MILLISECONDS(2), PR_SECONDS(5)) : 0;
    f->export_every_us = s->sqlite ? f->export_every_us : 0; /* the memory store imports nothing */
    die_init(&r, s->seed, "drift");
    f->drift = random_chance(&r, 0.5) ? 0 : (random_double(&r) - 0.5) * 0.02;
    die_init(&r, s->seed, "perfect");
    if (random_chance(&r, 0.05)) /* and some worlds are perfect: nothing may ever go twice */
        *f = (struct faults){ .wake_lost = f->wake_lost };
}

/* Many messages to several endpoints, one of which is always down: much more waits for it than fits into a window. */
static void draw_blackout(struct scenario *s)
{
    struct engine_setting *e = &s->engine;
    struct random r;
    unsigned to;

    die_init(&r, s->seed, "blackout");
    if (!random_chance(&r, 0.1))
        return;
    for (; e->endpoint_count < 2; e->endpoint_count++)
        draw_endpoint(s, (unsigned)e->endpoint_count);
    e->route_count = max_size(e->route_count, 1);
    s->routes[0] = (struct route){ .to = s->route_to[0], .to_count = min_size(e->endpoint_count, 4) };
    for (unsigned i = 0; i < s->routes[0].to_count; i++)
        s->route_to[0][i] = i;
    to = (unsigned)random_below(&r, s->routes[0].to_count);
    s->blackout = to + 1;
    s->blackout_paused = random_chance(&r, 0.5);
    s->endpoints[to].breaker.enabled = true;
    s->endpoints[to].breaker.per_type = false;
    e->batch = (size_t)random_between(&r, 1, 4);
    e->window_count = 1;
    s->messages *= 3;
    s->streams = SIM_STREAMS_MAX;
    s->to_endpoint *= 0.3;
}

/* One type of messages after the other cannot be sent, and there is little room; in half of these worlds messages go to
 * both endpoints. */
static void crowd(struct scenario *s)
{
    struct random r;

    die_init(&r, s->seed, "crowded");
    s->crowded = random_chance(&r, 0.08);
    if (!s->crowded)
        return;
    s->engine.batch = (size_t)random_between(&r, 1, 8);
    s->engine.window_count = s->engine.batch + (size_t)random_between(&r, 4, 40);
    s->engine.window_bytes = 1000000;
    s->engine.endpoint_count = min_size(s->engine.endpoint_count, 2);
    s->engine.override_count = 0;
    s->engine.route_count = random_chance(&r, 0.5) ? 0 : 1;
    s->routes[0] = (struct route){ .to = s->route_to[0], .to_count = s->engine.endpoint_count };
    for (unsigned i = 0; i < s->routes[0].to_count; i++)
        s->route_to[0][i] = i;
    s->instances = min_size(s->instances, 2);
    s->messages *= 3;
    s->no_stream = 0.3;
    s->to_endpoint = s->engine.route_count == 0 ? 0.95 : 0.3;
    s->to_nowhere = 0;
    for (size_t i = 0; i < s->engine.endpoint_count; i++)
        s->endpoints[i].breaker = (struct breaker_setting){
            .enabled = true,
            .per_type = true,
            .after = (int)random_between(&r, 1, 3),
            .open_us = draw_log(&r, PR_SECONDS(1), PR_MINUTES(1)),
            .cap_us = PR_MINUTES(5),
        };
    s->faults.outage_every_us = s->safety_us / 10;
}

/* Slow enough that messages wait for it, and fast enough that all of them can go in a part of the time. */
static void draw_rates(struct scenario *s)
{
    int64_t longest_us = s->safety_us / 8 / ((int64_t)s->messages + 1);
    struct random r;

    die_init(&r, s->seed, "rates");
    if (!random_chance(&r, 0.2))
        return;
    for (unsigned i = 0; i < s->engine.endpoint_count; i++) {
        die_init_at(&r, s->seed, "rate", i);
        if (!random_chance(&r, 0.5))
            continue;
        int64_t count = draw_few(&r, 50), each_us = draw_log(&r, 10, max64(longest_us, 20));
        s->endpoints[i].rate =
            (struct rate_setting){ .count = count, .period_us = min64(count * each_us, RATE_PERIOD_MAX_US) };
    }
}

/* Then their concurrency is one, too. */
static void draw_limits(struct scenario *s)
{
    struct random r;

    die_init(&r, s->seed, "limits");
    s->limits_shared = s->instances > 1 && random_chance(&r, 0.3);
    for (unsigned i = 0; i < s->engine.endpoint_count; i++)
        s->endpoints[i].concurrency_shared = s->limits_shared && random_chance(&r, 0.7);
}

static void draw_senders(struct scenario *s)
{
    struct random r;

    die_init(&r, s->seed, "senders");
    s->producers = (unsigned)random_between(&r, 1, SIM_PRODUCERS_MAX);
    s->streams = draw_few(&r, SIM_STREAMS_MAX);
    unsigned messages = (unsigned)random_between(&r, 20, 200);
    s->messages = s->messages != 0 ? s->messages : messages;
    s->no_stream = random_chance(&r, 0.5) ? 0 : random_double(&r) * 0.5;
    s->to_endpoint = s->engine.route_count == 0 ? 0.9 : random_double(&r);
    s->to_nowhere = random_chance(&r, 0.5) ? 0 : 0.05;
    s->delay_max_us = s->safety_us / 2;
    s->expire_max_us = s->safety_us / 4;
    die_init(&r, s->seed, "delays");
    s->delayed = random_chance(&r, 0.5) ? 0 : random_double(&r) * 0.3;
    die_init(&r, s->seed, "expiry");
    s->expiring = random_chance(&r, 0.5) ? 0 : random_double(&r) * 0.3;
    die_init(&r, s->seed, "inline");
    s->inlined = random_chance(&r, 0.9) ? 0 : random_double(&r) * 0.3;
    die_init(&r, s->seed, "effects");
    s->with_effect = random_chance(&r, 0.7) ? 0 : random_double(&r) * 0.2;
}

/* The settings of pr_worker's engine: every message goes to the worker; no breaker, and enough time. */
static void draw_worker(struct scenario *s)
{
    struct random r;

    die_init(&r, s->seed, "worker");
    s->worker = s->blackout == 0 && !s->crowded && random_chance(&r, 0.08);
    if (!s->worker)
        return;
    s->engine.endpoint_count = 1;
    s->engine.route_count = 0;
    s->engine.override_count = 1;
    s->override_to[0] = 0;
    s->overrides[0] = (struct route){ .to = s->override_to, .to_count = 1 };
    s->endpoints[0].breaker.enabled = false;
    s->endpoints[0].policy.retry.blame = BLAME_ALWAYS;
    s->endpoints[0].timeout_us = PR_MINUTES(30);
    s->to_nowhere = 0;
}

/* A box that handles each id once, and senders that send some of them again: only in worlds where no order is by id,
 * which would include all rows of it. */
static void draw_dedupe(struct scenario *s)
{
    struct random r;

    die_init(&r, s->seed, "dedupe");
    const struct faults *f = &s->faults;
    if (f->operator_every_us + f->edit_every_us + f->export_every_us + f->share_every_us > 0)
        return;
    s->copied = 0.1 + 0.5 * random_double(&r);
    s->engine.dedupe_us = PR_SECONDS(86400) * 36500;
    if (s->faults.step_every_us == 0 && random_chance(&r, 0.5))
        s->engine.dedupe_us = draw_log(&r, PR_MINUTES(1), s->safety_us);
}

/* In half of the worlds some payloads, or nearly all, are loaded only before they are sent. */
static void draw_late(struct scenario *s)
{
    struct random r;
    die_init(&r, s->seed, "late");
    s->engine.late_bytes = random_chance(&r, 0.5) ? (size_t)draw_log(&r, 1, (int64_t)s->payload_max) : 0;
}

void scenario_draw(struct scenario *s, uint64_t seed, bool sqlite, unsigned messages, int64_t safety_us)
{
    struct random r;
    scenario_calm(s);
    die_init(&r, seed, "world");
    s->seed = seed;
    s->sqlite = sqlite;
    s->messages = messages;
    s->safety_us = draw_log(&r, PR_MINUTES(10), PR_MINUTES(10 * 24 * 60));
    if (safety_us != 0)
        s->safety_us = safety_us;
    s->payload_max = (size_t)draw_log(&r, 16, 2000);
    s->instances = (unsigned)random_between(&r, 1, SIM_INSTANCES_MAX);
    draw_engine(s);
    scenario_link(s);
    draw_senders(s);
    draw_faults(s, &s->faults);
    draw_blackout(s);
    if (s->blackout == 0)
        crowd(s);
    draw_worker(s);
    draw_rates(s);
    draw_limits(s);
    draw_dedupe(s);
    draw_late(s);
    rules_draw(s);
    configs_draw(s);
}

void scenario_move_into(struct scenario *s, pr_slice box, enum box_kind kind)
{
    s->engine.box = box;
    s->engine.kind = kind;
    for (unsigned i = 0; i < SIM_ENDPOINTS_MAX; i++)
        s->endpoints[i].name = slice_from(other_names[i]);
    for (unsigned i = 0; i < SIM_ROUTES_MAX; i++)
        s->routes[i].box = box;
    s->overrides[0].box = box;
    rules_link(s);
}

/* ---- Facts about it ----------------------------------------------------------------------- */

/* Headers of this world are objects of short texts, as in the table above. */
static bool header_matches(const struct route_header *header, pr_slice text)
{
    for (size_t i = 0; i + header->name.size + 4 < text.size; i++) {
        pr_slice name = { text.data + i + 1, header->name.size };
        size_t from = i + name.size + 4, to = from;
        if (text.data[i] != '"' || strncasecmp(name.data, header->name.data, name.size) != 0 ||
            memcmp(text.data + from - 3, "\":\"", 3) != 0)
            continue;
        while (to < text.size && text.data[to] != '"')
            to++;
        return slice_glob(header->glob, (pr_slice){ text.data + from, to - from });
    }
    return false;
}

static bool route_matches(const struct route *route, const struct pr_message *m)
{
    for (size_t i = 0; i < route->header_count; i++)
        if (!header_matches(&route->headers[i], m->headers))
            return false;
    return (slice_is_empty(route->type) || slice_glob(route->type, m->type)) &&
           (slice_is_empty(route->source) || slice_glob(route->source, m->source)) &&
           (slice_is_empty(route->stream) || slice_glob(route->stream, m->stream));
}

size_t scenario_targets_in(const struct scenario *s, unsigned config, const struct pr_message *m,
                           unsigned ret[SIM_ENDPOINTS_MAX])
{
    struct engine_setting engine = s->engine;
    bool wanted[SIM_ENDPOINTS_MAX] = { false };
    bool overridden = false;
    config_routes(s, config, &engine);
    for (size_t i = 0; i < engine.override_count && !overridden; i++)
        if ((overridden = route_matches(&engine.overrides[i], m)))
            wanted[engine.overrides[i].to[0]] = true;
    for (unsigned i = 0; i < engine.endpoint_count && !overridden && !slice_is_empty(m->destination); i++)
        wanted[i] = config_has(s, config, i) && slice_eq(s->endpoints[i].name, m->destination);
    for (size_t i = 0; i < engine.route_count && !overridden && slice_is_empty(m->destination); i++)
        if (route_matches(&engine.routes[i], m))
            for (size_t k = 0; k < engine.routes[i].to_count; k++)
                wanted[engine.routes[i].to[k]] = true;
    size_t count = 0;
    for (unsigned i = 0; i < s->engine.endpoint_count; i++)
        if (wanted[i])
            ret[count++] = i;
    return count;
}

size_t scenario_targets(const struct scenario *s, const struct pr_message *m, unsigned ret[SIM_ENDPOINTS_MAX])
{
    return scenario_targets_in(s, 0, m, ret);
}

bool scenario_is_whole(const struct scenario *s, const struct pr_message *m)
{
    unsigned targets[SIM_ENDPOINTS_MAX];
    return scenario_targets(s, m, targets) == 1 && (!s->other.drawn || scenario_targets_in(s, 1, m, targets) <= 1);
}

pr_slice scenario_handler(const struct scenario *s, const struct pr_message *m)
{
    unsigned targets[SIM_ENDPOINTS_MAX];
    size_t count = scenario_targets(s, m, targets);
    return mark_handler(m->destination, count == 1 ? s->endpoints[targets[0]].name : (pr_slice){ NULL, 0 });
}

int64_t scenario_longest_wait_us(const struct scenario *s)
{
    int64_t longest = 0;
    for (size_t i = 0; i < s->engine.endpoint_count; i++) {
        const struct endpoint_setting *e = &s->endpoints[i];
        int64_t wait = e->policy.retry.cap_us;
        for (size_t k = 0; k < e->policy.retry.delay_count; k++)
            wait = max64(wait, e->policy.retry.delays[k]);
        for (size_t k = 0; k < s->rule_count; k++)
            for (size_t n = 0; n < s->rules[k].step_count; n++)
                wait = max64(wait, max64(s->rules[k].steps[n].pause_us, PR_MINUTES(5)));
        int64_t pace = e->rate.count > 0 ? e->rate.period_us / e->rate.count + 1 : 0;
        longest = max64(longest, wait + wait / 2 + (e->breaker.enabled ? e->breaker.cap_us : 0) + e->timeout_us + pace);
    }
    return longest;
}
