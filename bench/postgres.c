/* Draining, against a bare loop of libpq; and with another connection that holds an old snapshot.
 * Both sides take turns. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bench.h"
#include "drain.h"
#include "pgbare.h"
#include "postgres.h"
#include "report.h"

#define DRAIN_AT_LEAST 0.70
#define WAL_AT_MOST 250.0
#define HELD_AT_LEAST 0.90
#define ENDED_AT_LEAST 0.95
#define ENDED_ROUNDS 7
#define FLOW_PIECES 20 /* with and without the snapshot in turn */
#define FLOW_BATCH 100 /* messages in a transaction of the application */
#define LEASE_SHARE 10 /* of the messages: the known-bad queue takes long for more */

/* ---- Draining -------------------------------------------------------------------------------- */

static double bare_round(const struct bench *b)
{
    pgbare_copy("backlog", "run");
    PGconn *pg = pgbare_open("run");
    double rate = pgbare_drain_rate(pg, b->messages);
    pgbare_close(pg);
    return rate;
}

double pg_wal_bytes(PGconn *pg, const char *from, const char *to)
{
    char sql[512];
    snprintf(sql, sizeof sql, "SELECT sum(record_size) FROM pg_get_wal_stats('%s', '%s')", from, to);
    return pgbare_number(pg, sql);
}

void pg_wal_place(PGconn *pg, char ret[64])
{
    PGresult *result = PQexec(pg, "SELECT pg_current_wal_flush_lsn()");
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        die("bare PostgreSQL: %s", PQerrorMessage(pg));
    snprintf(ret, 64, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
}

static double engine_round(const struct bench *b, double *ret_wal)
{
    char from[64], to[64];
    pgbare_copy("backlog", "run");
    PGconn *pg = pgbare_open("postgres");
    pg_wal_place(pg, from);
    double rate = (double)b->messages / drain_seconds(pgbare_url("run"));
    pg_wal_place(pg, to);
    *ret_wal = PQserverVersion(pg) >= 150000 ? pg_wal_bytes(pg, from, to) / (double)b->messages : 0;
    pgbare_close(pg);
    return rate;
}

void pg_wal_inspect(void)
{
    PGconn *pg = pgbare_open("postgres");
    if (PQserverVersion(pg) >= 150000)
        pgbare_run(pg, "CREATE EXTENSION IF NOT EXISTS pg_walinspect");
    pgbare_close(pg);
}

static void measure_draining(const struct bench *b)
{
    double bare[BENCH_ROUNDS_MAX], engine[BENCH_ROUNDS_MAX], wal[BENCH_ROUNDS_MAX];
    pg_wal_inspect();
    for (size_t i = 0; i < b->rounds; i++) {
        bare[i] = bare_round(b);
        engine[i] = engine_round(b, &wal[i]);
        progress(b, "drain %zu/%zu: bare %.0f/s, engine %.0f/s, %.0f bytes of WAL", i + 1, b->rounds, bare[i],
                 engine[i], wal[i]);
    }
    pgbare_remove("run");
    report_value("postgres_bare", median(bare, b->rounds), "messages/s", BOUND_NONE, 0);
    report_turns("postgres_drain", engine, bare, b->rounds, "messages/s", BOUND_AT_LEAST, DRAIN_AT_LEAST);
    if (wal[0] > 0)
        report_value("postgres_wal", median(wal, b->rounds), "B/message", BOUND_AT_MOST, WAL_AT_MOST);
}

/* ---- The ledger of what has ended ---------------------------------------------------------------- */

static void measure_ended(const struct bench *b)
{
    double with[BENCH_ROUNDS_MAX], without[BENCH_ROUNDS_MAX], wal;
    size_t rounds = b->quick ? 2 : ENDED_ROUNDS;
    pg_wal_inspect();
    for (size_t turn = 0; turn < 2 * rounds; turn++) {
        size_t i = turn / 2;
        bool is_with = (turn % 2 == 0) != (i % 2 == 0); /* neither side always comes first */
        double *rate = is_with ? &with[i] : &without[i];
        drain_set_ended(is_with ? "24h" : "0s");
        *rate = engine_round(b, &wal);
        progress(b, "ledger %zu/%zu: %s %.0f/s, %.0f bytes of WAL", i + 1, rounds, is_with ? "with" : "without", *rate,
                 wal);
    }
    drain_set_ended(NULL);
    pgbare_remove("run");
    report_turns("postgres_drain_with_ledger", with, without, rounds, "messages/s", BOUND_AT_LEAST, ENDED_AT_LEAST);
}

/* ---- An old snapshot ----------------------------------------------------------------------------- */

/* Begin a transaction that will see today's rows for ever. */
static PGconn *snapshot_hold(const char *database)
{
    PGconn *pg = pgbare_open(database);
    pgbare_run(pg, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    pgbare_run(pg, "SELECT count(*) FROM pg_class");
    return pg;
}

struct flow {
    const char *database;
    size_t count;
};

static void *flow_send(void *arg)
{
    const struct flow *flow = arg;
    PGconn *pg = pgbare_open(flow->database);
    pgbare_send_rate(pg, flow->count, FLOW_BATCH);
    pgbare_close(pg);
    return NULL;
}

/* Seconds from the first INSERT to the last message sent. */
static double flow_piece(struct pr_engine *engine, const char *database, size_t count)
{
    struct flow flow = { database, count };
    pthread_t sender;
    uint64_t sent = drain_sent(engine);
    double begin = seconds_now(), end;
    if (pthread_create(&sender, NULL, flow_send, &flow) != 0)
        die("cannot make a thread");
    drain_sent_at(engine, sent + count, &end);
    pthread_join(sender, NULL);
    return end - begin;
}

static double sum(const double *values, size_t count)
{
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += values[i];
    return total;
}

static void measure_flow(const struct bench *b)
{
    double with[FLOW_PIECES], without[FLOW_PIECES];
    size_t count = b->messages / FLOW_PIECES;
    pgbare_create("held");
    pgbare_create("free");
    struct pr_engine *held_engine = drain_start(pgbare_url("held"));
    struct pr_engine *free_engine = drain_start(pgbare_url("free"));
    drain_wait(held_engine);
    drain_wait(free_engine);
    PGconn *holder = snapshot_hold("held");
    for (size_t i = 0; i < FLOW_PIECES; i++) {
        for (size_t turn = 0; turn < 2; turn++) /* neither side always comes first */
            if (turn == i % 2)
                with[i] = flow_piece(held_engine, "held", count);
            else
                without[i] = flow_piece(free_engine, "free", count);
        progress(b, "flow %zu/%d: %.0f/s with an old snapshot, %.0f/s without", i + 1, FLOW_PIECES,
                 (double)count / with[i], (double)count / without[i]);
    }
    drain_stop(held_engine);
    drain_stop(free_engine);
    pgbare_close(holder);
    pgbare_remove("held");
    pgbare_remove("free");

    size_t last = FLOW_PIECES / 4, first = FLOW_PIECES - last;
    double rate = (double)b->messages / sum(with, FLOW_PIECES),
           reference = (double)b->messages / sum(without, FLOW_PIECES);
    report_turns("postgres_flow_held_snapshot", &rate, &reference, 1, "messages/s", BOUND_AT_LEAST, HELD_AT_LEAST);
    rate = (double)(count * last) / sum(with + first, last);
    reference = (double)(count * last) / sum(without + first, last);
    report_turns("postgres_flow_held_snapshot_last", &rate, &reference, 1, "messages/s", BOUND_NONE, 0);
}

/* The known-bad example: what happens to a queue that leases rows by UPDATE. */
static void measure_lease_queue(const struct bench *b)
{
    double with, without;
    size_t count = b->messages / LEASE_SHARE;
    pgbare_create("held");
    PGconn *pg = pgbare_open("held");
    pgbare_lease_create(pg);
    without = pgbare_lease_rate(pg, count);
    PGconn *holder = snapshot_hold("held");
    with = pgbare_lease_rate(pg, count);
    progress(b, "a queue with leases by UPDATE: %.0f/s with an old snapshot, %.0f/s without", with, without);
    pgbare_close(holder);
    pgbare_close(pg);
    pgbare_remove("held");
    report_turns("lease_queue_held_snapshot", &with, &without, 1, "messages/s", BOUND_NONE, 0);
}

/* ---- All of it ----------------------------------------------------------------------------------- */

static const struct part {
    const char *name;
    void (*measure)(const struct bench *b);
    bool uses_backlog; /* a database of that name, with all messages */
    bool when_named;   /* not in the default run */
} parts[] = {
    { "latency", pg_measure_latency, false, false }, { "idle", pg_measure_idle, false, false },
    { "insert", pg_measure_insert, false, false },   { "drain", measure_draining, true, false },
    { "ended", measure_ended, true, false },         { "instances", pg_measure_two, true, false },
    { "senders", pg_measure_senders, true, false },  { "killed", pg_measure_killed, false, false },
    { "depth", pg_measure_depth, false, false },     { "stuck", pg_measure_stuck, false, false },
    { "flow", measure_flow, false, false },          { "lease", measure_lease_queue, false, false },
    { "log", pg_measure_log, false, true },
};

static bool part_is_wanted(const struct bench *b, const struct part *part)
{
    return b->only == NULL ? !part->when_named : strcmp(b->only, part->name) == 0;
}

void bench_postgres(const struct bench *all)
{
    struct bench quick = *all;
    quick.rounds = 2;
    quick.pair_rounds = 3;
    const struct bench *b = all->quick ? &quick : all;
    bool has_backlog = false, found = false;
    for (const struct part *part = parts; part < parts + ARRAY_LENGTH(parts); part++) {
        if (!part_is_wanted(b, part))
            continue;
        found = true;
        if (part->uses_backlog && !has_backlog) {
            progress(b, "making a backlog of %zu messages", b->messages);
            pgbare_fill("backlog", b->messages);
        } else if (has_backlog && !part->uses_backlog) {
            pgbare_remove("backlog");
        }
        has_backlog = part->uses_backlog;
        part->measure(b);
    }
    if (!found)
        die("there is no part \"%s\": see --help", b->only);
}
