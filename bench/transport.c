/* Each transport compared with a raw producer: from a box in SQLite to a real server.
 *
 * The attainable speed is the slower of two: the raw producer, and the store drained to nowhere.  The three take
 * turns. */
#include <stdlib.h>
#include <string.h>

#include "bare.h"
#include "carrier.h"
#include "drain.h"
#include "report.h"

#define TRANSPORT_AT_LEAST 0.80
#define SLOW_HTTP_AT_LEAST 1000.0 /* messages a second, each answered after 50 ms */
#define MORE_ROUNDS 4         /* than elsewhere: several processes share the processors, and turns differ by a fifth */
#define QUICK_SHARE 4         /* of the messages */
#define STORE_MESSAGES 200000 /* so many go nowhere, from a backlog of their own */
#define STORE_BACKLOG "store.db"
#define BACKLOG "transport.db"
#define BOX "run.db"

static const struct carrier *const carriers[] = {
    &carrier_file,  &carrier_exec,
#ifdef BENCH_REDIS
    &carrier_redis,
#endif
#ifdef BENCH_NATS
    &carrier_nats,
#endif
#ifdef POSTRIDER_KAFKA
    &carrier_kafka,
#endif
#ifdef BENCH_MQTT
    &carrier_mqtt,
#endif
#ifdef POSTRIDER_AMQP
    &carrier_amqp,
#ifdef POSTRIDER_AMQP1
    &carrier_amqp1,
#endif
#endif
    &carrier_http,
};

static size_t turn_messages(const struct bench *b, size_t messages)
{
    return b->quick ? messages / QUICK_SHARE : messages;
}

/* From its first message to its last, without what it costs to begin. */
static double engine_rate(const struct bench *b, const char *backlog, const char *sink, size_t count)
{
    bare_copy(bench_path(b, backlog), bench_path(b, BOX));
    struct pr_engine *engine = drain_start_at(bare_url(bench_path(b, BOX)), sink);
    double rate = drain_next_rate(engine, 0, count);
    drain_stop(engine);
    return rate;
}

enum side { SIDE_STORE, SIDE_RAW, SIDE_ENGINE, SIDES };

static double side_rate(const struct carrier *c, struct site *site, enum side side, size_t count)
{
    if (side == SIDE_STORE)
        return engine_rate(site->bench, STORE_BACKLOG, "{url: \"null:\"}", turn_messages(site->bench, STORE_MESSAGES));
    double rate = side == SIDE_RAW ? c->raw_rate(site, count) : engine_rate(site->bench, BACKLOG, site->sink, count);
    if (c->clear != NULL)
        c->clear(site);
    return rate;
}

static void measure(const struct bench *b, const struct carrier *c, struct site *site)
{
    double raw[BENCH_ROUNDS_MAX], engine[BENCH_ROUNDS_MAX], reachable[BENCH_ROUNDS_MAX];
    size_t count = turn_messages(b, c->messages), rounds = b->rounds + (b->quick ? 0 : MORE_ROUNDS);
    bare_fill(bench_path(b, BACKLOG), &(struct stock){ .count = count });
    for (size_t i = 0; i < rounds; i++) {
        double rates[SIDES];
        for (size_t turn = 0; turn < SIDES; turn++) { /* nobody always comes behind the same one */
            size_t side = (i + turn) % SIDES;
            rates[side] = side_rate(c, site, side, count);
        }
        raw[i] = rates[SIDE_RAW];
        engine[i] = rates[SIDE_ENGINE];
        reachable[i] = rates[SIDE_RAW] < rates[SIDE_STORE] ? rates[SIDE_RAW] : rates[SIDE_STORE];
        progress(b, "%s %zu/%zu: raw %.0f/s, store %.0f/s, engine %.0f/s", c->name, i + 1, rounds, raw[i],
                 rates[SIDE_STORE], engine[i]);
    }
    report_value(c->raw_name, median(raw, rounds), "messages/s", BOUND_NONE, 0);
    report_turns(c->name, engine, reachable, rounds, "messages/s", BOUND_AT_LEAST, TRANSPORT_AT_LEAST);
}

/* Distinct streams, and a receiver that takes its time. */
static void measure_slow(const struct bench *b, const struct carrier *c, struct site *site)
{
    double rates[BENCH_ROUNDS_MAX];
    size_t count = turn_messages(b, c->messages);
    bare_fill(bench_path(b, BACKLOG), &(struct stock){ .count = count, .streams = count });
    for (size_t i = 0; i < b->rounds; i++) {
        rates[i] = engine_rate(b, BACKLOG, site->sink, count);
        progress(b, "%s %zu/%zu: engine %.0f/s", c->name, i + 1, b->rounds, rates[i]);
    }
    report_value(c->name, median(rates, b->rounds), "messages/s", BOUND_AT_LEAST, SLOW_HTTP_AT_LEAST);
}

static void visit(const struct bench *b, const struct carrier *c,
                  void (*measure_it)(const struct bench *b, const struct carrier *c, struct site *site))
{
    struct site site = { .bench = b };
    if (b->only != NULL && strcmp(b->only, c->name + strlen("transport_")) != 0)
        return;
    const char *why = c->open(&site);
    if (why != NULL) {
        progress(b, "%s is left out: %s", c->name, why);
        return;
    }
    measure_it(b, c, &site);
    c->close(&site);
}

void bench_transports(const struct bench *b)
{
    setenv("TMPDIR", b->servers, 1);
    bare_fill(bench_path(b, STORE_BACKLOG), &(struct stock){ .count = turn_messages(b, STORE_MESSAGES) });
    for (size_t i = 0; i < ARRAY_LENGTH(carriers); i++)
        visit(b, carriers[i], measure);
    visit(b, &carrier_http_slow, measure_slow);
    bare_remove(bench_path(b, STORE_BACKLOG));
    bare_remove(bench_path(b, BACKLOG));
    bare_remove(bench_path(b, BOX));
}
