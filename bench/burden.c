/* Burdens that must not slow down other messages: a deep backlog, streams stuck behind failed heads, poison.  With and
 * without the burden, in turns. */
#include <stdio.h>

#include "bare.h"
#include "base/error.h"
#include "base/time.h"
#include "bench.h"
#include "drain.h"
#include "report.h"

#define SMALL 10000
#define SHALLOW 40000 /* the first are sent before the stopwatch runs; 10,000 or more are left at its end */
#define DEEP_AT_MOST 1.15
#define STUCK 100000
#define STUCK_AT_MOST 1.05
#define POISON_AT_MOST 1.05

/* ---- Depth ------------------------------------------------------------------------------ */

/* Microseconds per message: of the first so many in a large backlog. */
static double part_round(const char *path, size_t count)
{
    return 1e6 / drain_part_rate(bare_url(path), count);
}

/* The same until few are left. */
static double shallow_round(const struct bench *b)
{
    bare_copy(bench_path(b, "shallow.db"), bench_path(b, "run.db"));
    return part_round(bench_path(b, "run.db"), b->part);
}

/* All of a small backlog, so with the empty cycles at both ends; starting is not draining. */
static double small_round(const struct bench *b)
{
    bare_copy(bench_path(b, "empty.db"), bench_path(b, "run.db"));
    double start = drain_seconds(bare_url(bench_path(b, "run.db")));
    bare_copy(bench_path(b, "small.db"), bench_path(b, "run.db"));
    return (drain_seconds(bare_url(bench_path(b, "run.db"))) - start) / SMALL * 1e6;
}

static void measure_depth(const struct bench *b)
{
    double deep[BENCH_ROUNDS_MAX], shallow[BENCH_ROUNDS_MAX], small[BENCH_ROUNDS_MAX];
    size_t rounds = b->rounds + 2;

    progress(b, "making a backlog of %zu messages", b->deep);
    bare_fill(bench_path(b, "deep.db"), &(struct stock){ .count = b->deep });
    bare_fill(bench_path(b, "shallow.db"), &(struct stock){ .count = b->part + SHALLOW });
    bare_fill(bench_path(b, "small.db"), &(struct stock){ .count = SMALL });
    bare_create(bench_path(b, "empty.db"));
    for (size_t i = 0; i < rounds; i++) {
        deep[i] = part_round(bench_path(b, "deep.db"), b->part);
        shallow[i] = shallow_round(b);
        small[i] = small_round(b);
        progress(b, "depth %zu/%zu: %.2f us with %zu waiting, %.2f us with few, %.2f us for %d in all", i + 1, rounds,
                 deep[i], b->deep, shallow[i], small[i], SMALL);
    }
    bare_remove(bench_path(b, "shallow.db"));
    bare_remove(bench_path(b, "small.db"));
    bare_remove(bench_path(b, "empty.db"));
    bare_remove(bench_path(b, "run.db"));

    report_value("drain_small", median(small, rounds), "us/message", BOUND_NONE, 0);
    report_turns("drain_deep", deep, shallow, rounds, "us/message", BOUND_AT_MOST, DEEP_AT_MOST);
}

/* ---- Stuck streams and poison -------------------------------------------------------------- */

/* Two engines at work, each on its own file; only one of the files has the burden. */
struct pair {
    const char *with, *without;
};

static void pair_create(const struct pair *pair)
{
    bare_create(pair->with);
    bare_create(pair->without);
}

static void pair_remove(const struct pair *pair)
{
    bare_remove(pair->with);
    bare_remove(pair->without);
}

/* Microseconds per message, from the commit of all of them to the last one sent.
 *
 * What SQLite writes when it deletes depends on how pages are cut where the rows begin: up to a
 * tenth of everything, by chance, and for good.  So on both sides one more message is parked in
 * front of each round, and chance is drawn anew. */
static double pair_round(struct pr_engine *engine, sqlite3 *db, size_t count)
{
    bare_run(db, "INSERT INTO outbox (destination, type, payload, due_at)"
                 " VALUES ('sink', 'bench.parked', zeroblob(abs(random() % 1500)), 9223372036854775807)");
    bare_insert(db, &(struct stock){ .count = count });
    double begin = seconds_now();
    drain_wait(engine);
    return (seconds_now() - begin) / (double)count * 1e6;
}

/* What it costs with and without, in microseconds per message; again (may be NULL) renews the
 * burden before each of its turns. */
static void pair_measure(const struct bench *b, const char *name, const struct pair *pair, const char *again,
                         double at_most)
{
    double with[BENCH_ROUNDS_MAX], without[BENCH_ROUNDS_MAX];
    sqlite3 *with_db = bare_open(pair->with, 0), *without_db = bare_open(pair->without, 0);
    struct pr_engine *with_engine = drain_start(bare_url(pair->with));
    struct pr_engine *without_engine = drain_start(bare_url(pair->without));
    size_t rounds = b->pair_rounds;

    drain_wait(with_engine); /* what is stuck was met once */
    drain_wait(without_engine);
    for (size_t turn = 0; turn < 2 * rounds; turn++) {
        size_t i = turn / 2;
        if ((turn % 2 == 0) == (i % 2 == 0)) { /* neither side always comes first */
            without[i] = pair_round(without_engine, without_db, b->pair_count);
        } else {
            if (again != NULL)
                bare_run(with_db, again);
            with[i] = pair_round(with_engine, with_db, b->pair_count);
        }
        if (turn % 2 == 1)
            progress(b, "%s %zu/%zu: %.2f us with, %.2f us without", name, i + 1, rounds, with[i], without[i]);
    }
    drain_stop(with_engine);
    drain_stop(without_engine);
    bare_close(with_db);
    bare_close(without_db);
    report_turns(name, with, without, rounds, "us/message", BOUND_AT_MOST, at_most);
}

/* Failed heads that come back in an hour, as the engine writes them. */
static void add_failed_heads(sqlite3 *db)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "INSERT INTO outbox (destination, stream, type, payload, status, attempts, failures, failure_reason,"
             " failed_at, due_at) SELECT 'sink', 'stream-' || value, 'bench.message', x'00', 1 | 32768, 1, 1, 1, "
             "now,"
             " now + 3600000000 FROM (SELECT value, %lld AS now FROM json_each('[0, 1]'))",
             (long long)clock_wall_us(clock_system()));
    bare_run(db, sql);
}

static void measure_stuck(const struct bench *b)
{
    struct pair pair = { bench_path(b, "with.db"), bench_path(b, "without.db") };
    pair_create(&pair);
    sqlite3 *db = bare_open(pair.with, 0);
    add_failed_heads(db);
    bare_insert(db, &(struct stock){ .count = STUCK, .streams = 2 });
    bare_close(db);
    pair_measure(b, "drain_with_stuck_streams", &pair, NULL, STUCK_AT_MOST);

    db = bare_open(pair.with, 0);
    int64_t stuck = bare_number(db, "SELECT count(*) FROM outbox WHERE held_by IS NOT NULL");
    int64_t left = bare_number(db, "SELECT count(*) FROM outbox WHERE type <> 'bench.parked'");
    bare_close(db);
    pair_remove(&pair);
    if (stuck != STUCK || left != STUCK + 2)
        die("%lld of %d messages are stuck, %lld are left", (long long)stuck, STUCK, (long long)left);
}

/* One message that fails until it is dead, one that seems to have killed four processes and so
 * goes out alone, and one that goes out no more. */
static void measure_poison(const struct bench *b)
{
    static const char poison[] = "INSERT INTO outbox (destination, type, payload, attempts) VALUES"
                                 " ('poison', 'bench.poison', x'00', 0), ('sink', 'bench.message', x'00', 4),"
                                 " ('sink', 'bench.message', x'00', 5)";
    struct pair pair = { bench_path(b, "with.db"), bench_path(b, "without.db") };
    pair_create(&pair);
    pair_measure(b, "drain_with_poison", &pair, poison, POISON_AT_MOST);

    sqlite3 *db = bare_open(pair.with, 0);
    if (bare_number(db, "SELECT count(*) FROM postrider_dead_letter") == 0)
        die("no poison message has died");
    bare_close(db);
    pair_remove(&pair);
}

void bench_burden(const struct bench *b)
{
    measure_depth(b);
    measure_stuck(b);
    measure_poison(b);
}
