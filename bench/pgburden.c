/* Burdens that must not slow it down: a deep backlog, streams stuck behind failed heads, a second instance, one that
 * dies; and the cost of draining for senders at the same time. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/error.h"
#include "bench.h"
#include "daemon.h"
#include "drain.h"
#include "pgbare.h"
#include "postgres.h"
#include "report.h"

#define MORE 20000    /* may be sent until the engine has stopped */
#define SHALLOW 40000 /* the first are sent before the stopwatch runs; 10,000 or more are left at its end */
#define DEEP_AT_MOST 1.15
#define STUCK 100000
#define STUCK_AT_MOST 1.05
#define SENDERS_AT_LEAST 0.90     /* of what a bare loop leaves them, which drains the same rows */
#define DRAIN_BESIDE_AT_LEAST 1.0 /* of what that loop drains */
#define SEND_SECONDS 1.0
#define SEND_CHUNK 50
#define SENDERS_BACKLOG 400000 /* more than is drained in that time: who has nothing left to do is nobody's burden */
#define LEASE_S 5              /* as short as people have it: the daemon's own is 15 s */
#define KILLED_AT_MOST (LEASE_S + 2.0)
#define KILLED_MESSAGES 6400
#define SHARE_TIMEOUT_S 30

/* ---- Depth ------------------------------------------------------------------------------------- */

/* Microseconds per message, of the first so many in a backlog. */
static double part_round(const char *database, size_t count)
{
    return 1e6 / drain_part_rate(pgbare_url(database), count);
}

/* The daemon's most, while it drains what is left. */
static double deep_memory(const struct bench *b)
{
    pid_t pid = daemon_start(b, pgbare_url("deep"), DAEMON_LEASE_S);
    nanosleep(&(struct timespec){ .tv_sec = b->quick ? 1 : 5 }, NULL);
    double peak = daemon_memory_mb(pid, "VmHWM");
    daemon_stop(pid);
    return peak;
}

void pg_measure_depth(const struct bench *b)
{
    double deep[BENCH_ROUNDS_MAX], shallow[BENCH_ROUNDS_MAX];
    size_t rounds = b->rounds + (b->quick ? 0 : 2), waiting = b->pg_deep, spare = rounds * (b->part + MORE);

    progress(b, "making a backlog of %zu messages", waiting);
    pgbare_fill("shallow", b->part + SHALLOW);
    pgbare_fill("deep", waiting + spare);
    for (size_t i = 0; i < rounds; i++) {
        pgbare_copy("shallow", "run");
        shallow[i] = part_round("run", b->part);
        deep[i] = part_round("deep", b->part);
        progress(b, "depth %zu/%zu: %.2f us with %zu waiting, %.2f us with few", i + 1, rounds, deep[i], waiting,
                 shallow[i]);
    }
    double peak = deep_memory(b);
    pgbare_remove("deep");
    pgbare_remove("shallow");
    pgbare_remove("run");
    report_value("postgres_deep_memory_peak", peak, "MB", BOUND_AT_MOST, DEEP_MB_AT_MOST);
    report_turns("postgres_deep", deep, shallow, rounds, "us/message", BOUND_AT_MOST, DEEP_AT_MOST);
}

/* ---- Stuck streams --------------------------------------------------------------------------------- */

/* Failed heads that come back in an hour, as the engine writes them. */
static const char FAILED_HEADS[] = "INSERT INTO outbox (destination, stream, type, payload, status, attempts, "
                                   "failures, failure_reason, failed_at,"
                                   " due_at) SELECT 'sink', 'stream-' || n, 'bench.message', '', 1 | 32768, 1, "
                                   "1, 1, now(), now() + interval '1 hour'"
                                   " FROM generate_series(0, 1) n";

/* Microseconds per message, from the first one sent to the last. */
static double pair_round(struct pr_engine *engine, PGconn *pg, size_t count)
{
    uint64_t sent = drain_sent(engine);
    pgbare_insert(pg, count, 0);
    return 1e6 / drain_next_rate(engine, sent, count);
}

void pg_measure_stuck(const struct bench *b)
{
    double with[BENCH_ROUNDS_MAX], without[BENCH_ROUNDS_MAX];
    pgbare_create("stuck");
    pgbare_create("clean");
    PGconn *stuck_pg = pgbare_open("stuck"), *clean_pg = pgbare_open("clean");
    pgbare_run(stuck_pg, FAILED_HEADS);
    pgbare_insert(stuck_pg, STUCK, 2);
    struct pr_engine *stuck = drain_start(pgbare_url("stuck")), *clean = drain_start(pgbare_url("clean"));
    drain_wait(stuck); /* what is stuck was met once */
    drain_wait(clean);
    for (size_t i = 0; i < b->pair_rounds; i++) {
        for (size_t turn = 0; turn < 2; turn++) /* neither side always comes first */
            if (turn == i % 2)
                with[i] = pair_round(stuck, stuck_pg, b->pair_count);
            else
                without[i] = pair_round(clean, clean_pg, b->pair_count);
        progress(b, "stuck %zu/%zu: %.2f us with, %.2f us without", i + 1, b->pair_rounds, with[i], without[i]);
    }
    drain_stop(stuck);
    drain_stop(clean);
    double held = pgbare_number(stuck_pg, "SELECT count(*) FROM outbox WHERE held_by IS NOT NULL");
    pgbare_close(stuck_pg);
    pgbare_close(clean_pg);
    pgbare_remove("stuck");
    pgbare_remove("clean");
    if (held != STUCK)
        die("%.0f of %d messages are stuck", held, STUCK);
    report_turns("postgres_stuck_streams", with, without, b->pair_rounds, "us/message", BOUND_AT_MOST, STUCK_AT_MOST);
}

/* ---- Instances --------------------------------------------------------------------------------------- */

static double instances_round(const struct bench *b, size_t count)
{
    struct pr_engine *engines[2];
    pgbare_copy("backlog", "run");
    double begin = seconds_now();
    for (size_t i = 0; i < count; i++)
        engines[i] = drain_start(pgbare_url("run"));
    for (size_t i = 0; i < count; i++)
        drain_wait(engines[i]);
    double seconds = seconds_now() - begin;
    for (size_t i = 0; i < count; i++)
        drain_stop(engines[i]);
    PGconn *pg = pgbare_open("run");
    if (pgbare_number(pg, "SELECT count(*) FROM outbox") > 0)
        die("%zu instances have left something", count);
    pgbare_close(pg);
    return (double)b->messages / seconds;
}

void pg_measure_two(const struct bench *b)
{
    double one[BENCH_ROUNDS_MAX], two[BENCH_ROUNDS_MAX];
    for (size_t i = 0; i < b->rounds; i++) {
        one[i] = instances_round(b, 1);
        two[i] = instances_round(b, 2);
        progress(b, "instances %zu/%zu: one %.0f/s, two %.0f/s", i + 1, b->rounds, one[i], two[i]);
    }
    pgbare_remove("run");
    report_turns("postgres_two_instances", two, one, b->rounds, "messages/s", BOUND_AT_LEAST, 1.0);
}

/* Until the query says so. */
static void await_number(PGconn *pg, const char *sql, double number, double timeout_s)
{
    double deadline = seconds_now() + timeout_s;
    while (pgbare_number(pg, sql) != number) {
        if (seconds_now() > deadline)
            die("still not %.0f after %.0f s: %s", number, timeout_s, sql);
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
}

/* Three daemons share the lanes, one is killed: how long until messages in all lanes go out again? */
void pg_measure_killed(const struct bench *b)
{
    pid_t pids[3];
    pgbare_create("killed");
    PGconn *pg = pgbare_open("killed");
    for (size_t i = 0; i < ARRAY_LENGTH(pids); i++)
        pids[i] = daemon_start(b, pgbare_url("killed"), LEASE_S);
    await_number(pg, "SELECT count(*) FROM lane WHERE box = 'outbox'", 64, SHARE_TIMEOUT_S);
    await_number(pg, "SELECT count(*) FROM instance WHERE box = 'outbox' AND bit_count(lanes::bit(64)) > 20", 3,
                 SHARE_TIMEOUT_S);
    kill(pids[0], SIGKILL);
    double begin = seconds_now();
    waitpid(pids[0], NULL, 0);
    pgbare_insert(pg, KILLED_MESSAGES, 0);
    await_number(pg, "SELECT count(*) FROM outbox", 0, 2 * KILLED_AT_MOST + SHARE_TIMEOUT_S);
    double seconds = seconds_now() - begin;
    daemon_stop(pids[1]);
    daemon_stop(pids[2]);
    pgbare_close(pg);
    pgbare_remove("killed");
    report_value("postgres_instance_killed", seconds, "s", BOUND_AT_MOST, KILLED_AT_MOST);
}

/* ---- Senders -------------------------------------------------------------------------------------------- */

/* Transactions of one message each, for a while. */
static double send_round(PGconn *pg)
{
    size_t count = 0;
    double seconds = 0; /* of sending: a stall weighs what it lasts */
    do {
        seconds += SEND_CHUNK / pgbare_send_rate(pg, SEND_CHUNK, 1);
        count += SEND_CHUNK;
    } while (seconds < SEND_SECONDS);
    return (double)count / seconds;
}

static size_t backlog_count(PGconn *pg)
{
    return (size_t)pgbare_number(pg, "SELECT count(*) FROM outbox");
}

/* All must find as much, right behind a checkpoint, and nobody may come to the end of it while senders are measured. */
static void backlog_fill(PGconn *pg)
{
    size_t count = backlog_count(pg);
    if (count < SENDERS_BACKLOG)
        pgbare_insert(pg, SENDERS_BACKLOG - count, 0);
    pgbare_run(pg, "CHECKPOINT");
}

static void backlog_check(PGconn *pg)
{
    if (backlog_count(pg) < BENCH_BATCH)
        die("the backlog was drained before the senders were measured");
}

/* And how much the relay drained beside it, a second; at_most: what it may, 0: no limit. */
static double send_beside_relay(PGconn *pg, double at_most, double *ret_drained)
{
    char sink[64];
    double begin, end;
    snprintf(sink, sizeof sink, at_most > 0 ? "{url: \"null:\", rate: %.0f/s}" : "{url: \"null:\"}", at_most);
    struct pr_engine *engine = drain_start_at(pgbare_url("run"), sink);
    uint64_t first = drain_sent_at(engine, 1, &begin);
    double rate = send_round(pg);
    uint64_t last = drain_sent_at(engine, first, &end);
    drain_stop(engine);
    *ret_drained = (double)(last - first) / (end - begin);
    backlog_check(pg);
    return rate;
}

static atomic_bool bare_wanted;

struct bare_loop {
    PGconn *pg;
    double rate;
};

static void *bare_drain(void *arg)
{
    struct bare_loop *loop = arg;
    loop->rate = pgbare_drain_while(loop->pg, &bare_wanted);
    return NULL;
}

/* What a loop costs them that does nothing but read and delete, and how much it drains meanwhile: the measure. */
static double send_beside_bare(PGconn *pg, double *ret_drained)
{
    pthread_t thread;
    struct bare_loop loop = { .pg = pgbare_open("run") };
    atomic_store(&bare_wanted, true);
    if (pthread_create(&thread, NULL, bare_drain, &loop) != 0)
        die("cannot make a thread");
    double rate = send_round(pg);
    atomic_store(&bare_wanted, false);
    pthread_join(thread, NULL);
    pgbare_close(loop.pg);
    *ret_drained = loop.rate;
    backlog_check(pg);
    return rate;
}

void pg_measure_senders(const struct bench *b)
{
    double alone[BENCH_ROUNDS_MAX], bare[BENCH_ROUNDS_MAX], relay[BENCH_ROUNDS_MAX], equal[BENCH_ROUNDS_MAX];
    double bare_drained[BENCH_ROUNDS_MAX], relay_drained[BENCH_ROUNDS_MAX], equal_drained[BENCH_ROUNDS_MAX];
    size_t rounds = b->quick ? 3 : 7;
    pgbare_copy("backlog", "run");
    PGconn *pg = pgbare_open("run");
    for (size_t i = 0; i < rounds; i++) {
        backlog_fill(pg);
        alone[i] = send_round(pg);
        backlog_fill(pg);
        bare[i] = send_beside_bare(pg, &bare_drained[i]);
        backlog_fill(pg);
        relay[i] = send_beside_relay(pg, 0, &relay_drained[i]);
        backlog_fill(pg);
        equal[i] = send_beside_relay(pg, bare_drained[i], &equal_drained[i]);
        progress(b,
                 "senders %zu/%zu: %.0f/s alone, %.0f/s beside a bare loop (drained %.0f/s), %.0f/s beside a relay "
                 "(%.0f/s), %.0f/s beside one that drains no more than the loop (%.0f/s)",
                 i + 1, rounds, alone[i], bare[i], bare_drained[i], relay[i], relay_drained[i], equal[i],
                 equal_drained[i]);
    }
    pgbare_close(pg);
    pgbare_remove("run");
    report_turns("postgres_send_beside_bare", bare, alone, rounds, "messages/s", BOUND_NONE, 0);
    report_turns("postgres_send_while_draining", relay, bare, rounds, "messages/s", BOUND_AT_LEAST, SENDERS_AT_LEAST);
    report_turns("postgres_drain_beside_sender", relay_drained, bare_drained, rounds, "messages/s", BOUND_AT_LEAST,
                 DRAIN_BESIDE_AT_LEAST);
    report_turns("postgres_send_while_draining_equal", equal, bare, rounds, "messages/s", BOUND_NONE, 0);
    report_turns("postgres_drain_equal_beside_sender", equal_drained, bare_drained, rounds, "messages/s", BOUND_NONE,
                 0);
}
