/* A box as a log (logbox.h) compared with the bare loop of today's box and with the engine, in turns: draining with
 * failures, with senders, with an old snapshot; and first of all, does it lose anything? */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "drain.h"
#include "logbox.h"
#include "pgbare.h"
#include "postgres.h"
#include "report.h"

#define FILL_BATCH 100000
#define SENDERS 4
#define SEND_S 1.0
#define FLOW_PIECES 10
#define FLOW_BATCH 100

static void sleep_s(double seconds)
{
    nanosleep(
        &(struct timespec){ .tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds)) },
        NULL);
}

/* ---- Does it lose anything? ------------------------------------------------------------------------ */

#define CHECK_SHIFT 10 /* so that the ring turns many times */
#define CHECK_SENDERS 6
#define CHECK_S 6.0
#define CHECK_SEQ_MAX 1000000
#define CHECK_DEATHS_MAX 200 /* messages in one life, at most */

struct check {
    atomic_bool wanted;
    unsigned char committed[CHECK_SEQ_MAX], delivered[CHECK_SEQ_MAX];
    size_t left; /* messages until this process dies */
};

static struct check check;

static bool check_deliver(void *user, int64_t seq)
{
    struct check *c = user;
    if (seq >= CHECK_SEQ_MAX)
        die("the check has drawn %d places", CHECK_SEQ_MAX);
    c->delivered[seq]++;
    return c->left == 0 || --c->left > 0;
}

/* A few messages in a transaction that dawdles, and sometimes is rolled back. */
static void check_send(struct check *c, PGconn *pg, unsigned *seed, double open_s)
{
    int64_t seqs[8];
    size_t count = 1 + (size_t)rand_r(seed) % ARRAY_LENGTH(seqs);
    pgbare_run(pg, "BEGIN");
    for (size_t i = 0; i < count; i++) {
        seqs[i] = (int64_t)pgbare_number(pg, rand_r(seed) % 20 == 0
                                                 ? "INSERT INTO log (destination, type, payload)"
                                                   " VALUES ('sink', '" PGBARE_FLAKY "', 'x') RETURNING seq"
                                                 : "INSERT INTO log (destination, type, payload)"
                                                   " VALUES ('sink', 'bench.message', 'x') RETURNING seq");
        if (rand_r(seed) % 8 == 0)
            sleep_s(open_s);
    }
    bool commits = rand_r(seed) % 10 != 0;
    pgbare_run(pg, commits ? "COMMIT" : "ROLLBACK");
    for (size_t i = 0; commits && i < count; i++)
        c->committed[seqs[i]] = 1;
}

static void *check_sender(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    PGconn *pg = pgbare_open("run");
    while (atomic_load(&check.wanted))
        check_send(&check, pg, &seed, seed % CHECK_SENDERS == 0 ? 0.5 : 0.01);
    pgbare_close(pg);
    return NULL;
}

/* A process that goes on where the last one died. */
static void check_live(struct check *c, double seconds, size_t left, size_t *truncated)
{
    struct log_drainer *d = logbox_open("run", check_deliver, c);
    double end = seconds_now() + seconds;
    c->left = left;
    while (seconds_now() < end && logbox_cycle(d))
        ;
    *truncated += logbox_truncated(d);
    logbox_close(d);
}

static void check_report(const struct check *c, size_t lives, size_t truncated)
{
    size_t messages = 0, lost = 0, strange = 0, repeated = 0;
    for (size_t i = 0; i < CHECK_SEQ_MAX; i++) {
        messages += c->committed[i];
        lost += c->committed[i] && c->delivered[i] == 0;
        strange += !c->committed[i] && c->delivered[i] > 0;
        repeated += c->delivered[i] > 1 ? c->delivered[i] - 1u : 0;
    }
    report_value("log_check_messages", (double)messages, "messages", BOUND_NONE, 0);
    report_value("log_check_deaths", (double)lives, "processes", BOUND_NONE, 0);
    report_value("log_check_truncated", (double)truncated, "segments", BOUND_AT_LEAST, 1);
    report_value("log_check_lost", (double)lost, "messages", BOUND_AT_MOST, 0);
    report_value("log_check_rolled_back", (double)strange, "messages", BOUND_AT_MOST, 0);
    report_value("log_check_repeated", (double)repeated, "messages", BOUND_NONE, 0);
}

static void measure_check(const struct bench *b)
{
    pthread_t threads[CHECK_SENDERS];
    size_t lives = 0, truncated = 0;
    unsigned seed = 1;
    pgbare_create("run");
    PGconn *pg = pgbare_open("run");
    logbox_create(pg, CHECK_SHIFT, false);
    progress(b, "senders whose transactions end in any order, and processes that die");
    atomic_store(&check.wanted, true);
    for (uintptr_t i = 0; i < CHECK_SENDERS; i++)
        if (pthread_create(&threads[i], NULL, check_sender, (void *)i) != 0)
            die("cannot make a thread");
    for (double end = seconds_now() + CHECK_S; seconds_now() < end; lives++)
        check_live(&check, CHECK_S, 1 + (size_t)rand_r(&seed) % CHECK_DEATHS_MAX, &truncated);
    atomic_store(&check.wanted, false);
    for (size_t i = 0; i < CHECK_SENDERS; i++)
        pthread_join(threads[i], NULL);
    check_live(&check, 2, 0, &truncated);
    if (pgbare_number(pg, "SELECT count(*) FROM outbox") > 0)
        die("something is left aside");
    pgbare_close(pg);
    pgbare_remove("run");
    check_report(&check, lives, truncated);
}

/* ---- Draining ---------------------------------------------------------------------------------------- */

static void insert(PGconn *pg, const char *table, size_t count, size_t flaky_every)
{
    char sql[512];
    snprintf(
        sql, sizeof sql,
        "INSERT INTO %s (destination, type, payload) SELECT 'sink', CASE WHEN %zu > 0 AND n %% greatest(%zu, 1) = 0"
        " THEN '" PGBARE_FLAKY "' ELSE 'bench.message' END, repeat('x', %d) FROM generate_series(1, %zu) n",
        table, flaky_every, flaky_every, BENCH_PAYLOAD, count);
    pgbare_run(pg, sql);
}

/* A backlog of which every n-th message fails once, in today's box or in a log. */
static void fill(const char *database, const char *table, size_t count, size_t flaky_every)
{
    char sql[64];
    pgbare_create(database);
    pgbare_set_durable(false);
    PGconn *pg = pgbare_open(database);
    logbox_create(pg, LOG_SHIFT, false);
    for (size_t done = 0; done < count; done += FILL_BATCH)
        insert(pg, table, min_size(FILL_BATCH, count - done), flaky_every);
    pgbare_set_durable(true);
    snprintf(sql, sizeof sql, "VACUUM ANALYZE %s", table);
    pgbare_run(pg, sql);
    pgbare_run(pg, "CHECKPOINT");
    pgbare_close(pg);
}

struct turn {
    double rate, server_us, wal; /* of a message */
};

static double wal_since(PGconn *pg, const char *from)
{
    char to[64];
    if (PQserverVersion(pg) < 150000)
        return 0;
    pg_wal_place(pg, to);
    return pg_wal_bytes(pg, from, to);
}

static struct turn bare_turn(const struct bench *b, PGconn *wal)
{
    char from[64];
    pgbare_copy("backlog", "run");
    PGconn *pg = pgbare_open("run");
    pg_wal_place(wal, from);
    struct turn turn = { .rate = pgbare_drain_rate(pg, b->messages) };
    turn.server_us = pgbare_server_us(pg) / (double)b->messages;
    turn.wal = wal_since(wal, from) / (double)b->messages;
    pgbare_close(pg);
    return turn;
}

static struct turn log_turn(const struct bench *b, PGconn *wal)
{
    char from[64];
    pgbare_copy("logged", "run");
    pg_wal_place(wal, from);
    struct log_drainer *d = logbox_open("run", NULL, NULL);
    struct turn turn = { .rate = logbox_drain_rate(d, b->messages) };
    turn.server_us = logbox_server_us(d) / (double)b->messages;
    turn.wal = wal_since(wal, from) / (double)b->messages;
    logbox_close(d);
    return turn;
}

static double engine_turn(const struct bench *b, bool fails)
{
    double begin, end;
    pgbare_copy("backlog", "run");
    begin = seconds_now();
    struct pr_engine *engine = drain_start_at(pgbare_url("run"), fails ? DRAIN_FLAKY : "{url: \"null:\"}");
    drain_sent_at(engine, b->messages, &end); /* also those that come back */
    drain_stop(engine);
    return (double)b->messages / (end - begin);
}

static const struct failing {
    size_t every;
    const char *bare, *log, *log_by_engine, *server, *wal;
} failings[] = {
    { 0, "log_bare", "log_drain", "log_drain_by_engine", "log_server_cpu", "log_wal" },
    { 1000, "log_bare_1_of_1000_fails", "log_drain_1_of_1000_fails", "log_drain_by_engine_1_of_1000_fails",
      "log_server_cpu_1_of_1000_fails", "log_wal_1_of_1000_fails" },
    { 20, "log_bare_1_of_20_fails", "log_drain_1_of_20_fails", "log_drain_by_engine_1_of_20_fails",
      "log_server_cpu_1_of_20_fails", "log_wal_1_of_20_fails" },
};

static void measure_failing(const struct bench *b, const struct failing *f)
{
    double rate[3][BENCH_ROUNDS_MAX], cpu[2][BENCH_ROUNDS_MAX], wal[2][BENCH_ROUNDS_MAX];
    progress(b, "making backlogs of %zu messages, of which one in %zu fails", b->messages, f->every);
    fill("backlog", "outbox", b->messages, f->every);
    fill("logged", "log", b->messages, f->every);
    PGconn *pg = pgbare_open("postgres");
    for (size_t i = 0; i < b->rounds; i++) {
        struct turn bare = bare_turn(b, pg), log = log_turn(b, pg);
        rate[0][i] = bare.rate;
        rate[1][i] = log.rate;
        rate[2][i] = engine_turn(b, f->every > 0);
        cpu[0][i] = bare.server_us;
        cpu[1][i] = log.server_us;
        wal[0][i] = bare.wal;
        wal[1][i] = log.wal;
        progress(b, "log %zu/%zu: bare %.0f/s (%.2f us, %.0f B of WAL), log %.0f/s (%.2f us, %.0f B), engine %.0f/s",
                 i + 1, b->rounds, bare.rate, bare.server_us, bare.wal, log.rate, log.server_us, log.wal, rate[2][i]);
    }
    pgbare_close(pg);
    report_value(f->bare, median(rate[0], b->rounds), "messages/s", BOUND_NONE, 0);
    report_turns(f->log, rate[1], rate[0], b->rounds, "messages/s", BOUND_NONE, 0);
    report_turns(f->log_by_engine, rate[1], rate[2], b->rounds, "messages/s", BOUND_NONE, 0);
    report_turns(f->server, cpu[1], cpu[0], b->rounds, "us/message", BOUND_NONE, 0);
    report_turns(f->wal, wal[1], wal[0], b->rounds, "B/message", BOUND_NONE, 0);
}

/* ---- Senders --------------------------------------------------------------------------------------------- */

struct log_sending {
    const char *database, *table;
    atomic_bool wanted;
    double rates[SENDERS];
    pthread_t threads[SENDERS];
};

struct log_sender {
    struct log_sending *sending;
    size_t number;
};

/* Transactions of one message each. */
static void *send_until(void *arg)
{
    struct log_sender sender = *(struct log_sender *)arg;
    struct log_sending *s = sender.sending;
    char sql[256], payload[BENCH_PAYLOAD + 1];
    size_t count = 0;
    free(arg);
    memset(payload, 'x', BENCH_PAYLOAD);
    payload[BENCH_PAYLOAD] = '\0';
    PGconn *pg = pgbare_open(s->database);
    snprintf(sql, sizeof sql, "INSERT INTO %s (destination, type, payload) VALUES ('sink', 'bench.message', $1)",
             s->table);
    pgbare_prepare(pg, "send", sql);
    double begin = seconds_now();
    for (; atomic_load(&s->wanted); count++)
        PQclear(pgbare_must(pg, PQexecPrepared(pg, "send", 1, (const char *[]){ payload }, NULL, NULL, 0)));
    s->rates[sender.number] = (double)count / (seconds_now() - begin);
    pgbare_close(pg);
    return NULL;
}

static void sending_begin(struct log_sending *s, const char *database, const char *table)
{
    s->database = database;
    s->table = table;
    atomic_store(&s->wanted, true);
    for (size_t i = 0; i < SENDERS; i++) {
        struct log_sender *sender = calloc(1, sizeof *sender);
        if (sender == NULL)
            die("out of memory");
        *sender = (struct log_sender){ s, i };
        if (pthread_create(&s->threads[i], NULL, send_until, sender) != 0)
            die("cannot make a thread");
    }
}

static double sending_end(struct log_sending *s)
{
    double rate = 0;
    atomic_store(&s->wanted, false);
    for (size_t i = 0; i < SENDERS; i++) {
        pthread_join(s->threads[i], NULL);
        rate += s->rates[i];
    }
    return rate;
}

struct log_beside {
    double sent, drained;
};

static struct log_beside send_alone(const char *database, const char *table)
{
    struct log_sending s;
    sending_begin(&s, database, table);
    sleep_s(SEND_S);
    return (struct log_beside){ .sent = sending_end(&s) };
}

static atomic_bool drain_wanted;

static void *stop_draining(void *arg)
{
    (void)arg;
    sleep_s(SEND_S);
    atomic_store(&drain_wanted, false);
    return NULL;
}

/* The loop of today's box, or that of the log. */
static struct log_beside send_beside_loop(const char *database, const char *table)
{
    struct log_sending s;
    struct log_beside result;
    pthread_t timer;
    bool is_log = strcmp(table, "log") == 0;
    struct log_drainer *d = is_log ? logbox_open(database, NULL, NULL) : NULL;
    PGconn *pg = is_log ? NULL : pgbare_open(database);
    atomic_store(&drain_wanted, true);
    sending_begin(&s, database, table);
    if (pthread_create(&timer, NULL, stop_draining, NULL) != 0)
        die("cannot make a thread");
    result.drained = is_log ? logbox_drain_while(d, &drain_wanted) : pgbare_drain_while(pg, &drain_wanted);
    result.sent = sending_end(&s);
    pthread_join(timer, NULL);
    if (is_log)
        logbox_close(d);
    else
        pgbare_close(pg);
    return result;
}

static struct log_beside send_beside_engine(const char *database)
{
    struct log_sending s;
    struct log_beside result;
    struct pr_engine *engine = drain_start(pgbare_url(database));
    double begin, end;
    uint64_t first = drain_sent_at(engine, 1, &begin);
    sending_begin(&s, database, "outbox");
    sleep_s(SEND_S);
    uint64_t last = drain_sent_at(engine, first, &end);
    result.sent = sending_end(&s);
    result.drained = (double)(last - first) / (end - begin);
    drain_stop(engine);
    return result;
}

/* More than is drained in that time. */
static void backlog_again(PGconn *pg, const char *table, size_t count)
{
    char sql[64];
    insert(pg, table, count, 0);
    snprintf(sql, sizeof sql, "VACUUM %s", table);
    pgbare_run(pg, sql);
}

enum { BOX_ALONE, LOG_ALONE, KEY_ALONE, BOX_LOOP, LOG_LOOP, BOX_ENGINE, SENDINGS };

static void measure_log_senders(const struct bench *b)
{
    static const size_t box_backlog = 300000, log_backlog = 600000;
    double sent[SENDINGS][BENCH_ROUNDS_MAX], drained[SENDINGS][BENCH_ROUNDS_MAX];
    size_t rounds = b->quick ? 3 : 7;
    pgbare_create("run");
    pgbare_create("keyed");
    PGconn *pg = pgbare_open("run"), *keyed = pgbare_open("keyed");
    logbox_create(pg, LOG_SHIFT, false);
    logbox_create(keyed, LOG_SHIFT, true);
    for (size_t i = 0; i < rounds; i++) {
        struct log_beside r[SENDINGS];
        backlog_again(pg, "outbox", box_backlog);
        r[BOX_ALONE] = send_alone("run", "outbox");
        r[LOG_ALONE] = send_alone("run", "log");
        r[KEY_ALONE] = send_alone("keyed", "log");
        r[BOX_LOOP] = send_beside_loop("run", "outbox");
        backlog_again(pg, "log", log_backlog);
        r[LOG_LOOP] = send_beside_loop("run", "log");
        backlog_again(pg, "outbox", box_backlog);
        r[BOX_ENGINE] = send_beside_engine("run");
        for (size_t k = 0; k < SENDINGS; k++) {
            sent[k][i] = r[k].sent;
            drained[k][i] = r[k].drained;
        }
        progress(
            b,
            "senders %zu/%zu: alone box %.0f/s, log %.0f/s, log with key %.0f/s; beside its loop box %.0f/s (drained"
            " %.0f/s), log %.0f/s (%.0f/s); beside the engine %.0f/s (%.0f/s)",
            i + 1, rounds, r[BOX_ALONE].sent, r[LOG_ALONE].sent, r[KEY_ALONE].sent, r[BOX_LOOP].sent,
            r[BOX_LOOP].drained, r[LOG_LOOP].sent, r[LOG_LOOP].drained, r[BOX_ENGINE].sent, r[BOX_ENGINE].drained);
    }
    pgbare_close(pg);
    pgbare_close(keyed);
    pgbare_remove("run");
    pgbare_remove("keyed");
    report_turns("log_send", sent[LOG_ALONE], sent[BOX_ALONE], rounds, "messages/s", BOUND_NONE, 0);
    report_turns("log_send_with_key", sent[KEY_ALONE], sent[BOX_ALONE], rounds, "messages/s", BOUND_NONE, 0);
    report_turns("log_send_beside_loop", sent[LOG_LOOP], sent[BOX_LOOP], rounds, "messages/s", BOUND_NONE, 0);
    report_turns("log_drain_beside_senders", drained[LOG_LOOP], drained[BOX_LOOP], rounds, "messages/s", BOUND_NONE, 0);
    report_turns("log_send_by_engine", sent[LOG_LOOP], sent[BOX_ENGINE], rounds, "messages/s", BOUND_NONE, 0);
    report_turns("log_drain_beside_senders_by_engine", drained[LOG_LOOP], drained[BOX_ENGINE], rounds, "messages/s",
                 BOUND_NONE, 0);
}

/* ---- An old snapshot ------------------------------------------------------------------------------------------ */

struct log_flow {
    const char *database;
    size_t count;
};

static void *flow_into_log(void *arg)
{
    const struct log_flow *flow = arg;
    PGconn *pg = pgbare_open(flow->database);
    for (size_t sent = 0; sent < flow->count; sent += FLOW_BATCH)
        insert(pg, "log", FLOW_BATCH, 0);
    pgbare_close(pg);
    return NULL;
}

/* Messages a second, sent and drained at the same time. */
static double log_flow_piece(struct log_drainer *d, const char *database, size_t count)
{
    struct log_flow flow = { database, count };
    pthread_t sender;
    if (pthread_create(&sender, NULL, flow_into_log, &flow) != 0)
        die("cannot make a thread");
    double rate = logbox_drain_rate(d, count);
    pthread_join(sender, NULL);
    return rate;
}

static void measure_log_held(const struct bench *b)
{
    static const char *const databases[] = { "free", "held" };
    double rate[2][FLOW_PIECES];
    size_t count = b->messages / FLOW_PIECES;
    struct log_drainer *drainers[2];
    for (size_t i = 0; i < 2; i++) {
        pgbare_create(databases[i]);
        PGconn *pg = pgbare_open(databases[i]);
        logbox_create(pg, LOG_SHIFT - 3, false); /* segments are truncated meanwhile */
        pgbare_close(pg);
        drainers[i] = logbox_open(databases[i], NULL, NULL);
    }
    PGconn *holder = pgbare_open("held");
    pgbare_run(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    pgbare_run(holder, "SELECT count(*) FROM pg_class");
    for (size_t i = 0; i < FLOW_PIECES; i++) {
        for (size_t turn = 0; turn < 2; turn++) { /* neither side always comes first */
            size_t side = (turn + i) % 2;
            rate[side][i] = log_flow_piece(drainers[side], databases[side], count);
        }
        progress(b, "log flow %zu/%d: %.0f/s with an old snapshot, %.0f/s without", i + 1, FLOW_PIECES, rate[1][i],
                 rate[0][i]);
    }
    double truncated = (double)logbox_truncated(drainers[1]);
    logbox_close(drainers[0]);
    logbox_close(drainers[1]);
    pgbare_close(holder);
    pgbare_remove("free");
    pgbare_remove("held");
    report_turns("log_flow_held_snapshot", rate[1], rate[0], FLOW_PIECES, "messages/s", BOUND_NONE, 0);
    report_value("log_flow_held_snapshot_last", rate[1][FLOW_PIECES - 1] / rate[1][0], "of the first", BOUND_NONE, 0);
    report_value("log_flow_held_truncated", truncated, "segments", BOUND_AT_LEAST, 1);
}

/* ---- All of it ---------------------------------------------------------------------------------------------------- */

void pg_measure_log(const struct bench *b)
{
    pg_wal_inspect();
    measure_check(b);
    for (size_t i = 0; i < ARRAY_LENGTH(failings); i++)
        measure_failing(b, &failings[i]);
    pgbare_remove("backlog");
    pgbare_remove("logged");
    pgbare_remove("run");
    measure_log_senders(b);
    measure_log_held(b);
}
