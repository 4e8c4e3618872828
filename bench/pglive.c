/* Life with PostgreSQL: from a commit to the handler, and the cost of daemon and server together while idle. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "bench.h"
#include "daemon.h"
#include "latency.h"
#include "pgbare.h"
#include "postgres.h"
#include "report.h"
#include "sleeping.h"

#define P50_AT_MOST_MS 0.6
#define P99_AT_MOST_MS 2.0
#define LOG_P50_AT_MOST_MS 5.0 /* when the server's log is the source */
#define LOG_P99_AT_MOST_MS 25.0
#define IDLE_QUERIES_AT_MOST 1.0 /* a second */
#define IDLE_CPU_AT_MOST 1.0     /* per cent of one core, daemon and server together */
#define START_TIMEOUT_S 20
#define SETTLE_S 6       /* until looks are as far apart as they get */
#define LEASE_ROUND_S 5  /* a lease is renewed that often ... */
#define PURGE_ROUND_S 60 /* ... and what is over is looked for */

/* ---- Latency --------------------------------------------------------------------------------------- */

static void *sender_open(const char *database)
{
    PGconn *pg = pgbare_open(database);
    pgbare_run(pg, "PREPARE send (bytea) AS INSERT INTO outbox (type, payload_bytes) VALUES ('bench.latency', $1)");
    return pg;
}

static void sender_insert(void *self, const void *payload, size_t size)
{
    PGconn *pg = self;
    const char *values[] = { payload };
    const int lengths[] = { (int)size }, formats[] = { 1 };
    PGresult *result = PQexecPrepared(pg, "send", 1, values, lengths, formats, 0);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        die("the producer: %s", PQerrorMessage(pg));
    PQclear(result);
}

static void sender_close(void *self)
{
    pgbare_close(self);
}

const struct latency_sender latency_postgres_sender = { sender_open, sender_insert, sender_close };

void pg_measure_latency(const struct bench *b)
{
    pgbare_create("latency");
    latency_measure(b, &(struct latency_run){
                           .sender = &latency_postgres_sender,
                           .place = "latency",
                           .url = pgbare_url("latency"),
                           .names = { "postgres_latency_p50", "postgres_latency_p99",
                                      "postgres_latency_with_insert_p50", "postgres_latency_with_insert_p99" },
                           .p50_at_most_ms = P50_AT_MOST_MS,
                           .p99_at_most_ms = P99_AT_MOST_MS,
                       });
    pgbare_remove("latency");
}

/* ---- Latency by the log ------------------------------------------------------------------------------ */

static void *emitter_open(const char *database)
{
    PGconn *pg = pgbare_open(database);
    pgbare_run(pg, "PREPARE emit (bytea) AS SELECT pg_logical_emit_message(true, 'bench', json_build_object('type',"
                   " 'bench.latency', 'payload_base64', encode($1, 'base64'))::text)");
    return pg;
}

static void emitter_emit(void *self, const void *payload, size_t size)
{
    PGconn *pg = self;
    const char *values[] = { payload };
    const int lengths[] = { (int)size }, formats[] = { 1 };
    PGresult *result = PQexecPrepared(pg, "emit", 1, values, lengths, formats, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        die("the producer: %s", PQerrorMessage(pg));
    PQclear(result);
}

void bench_wal(const struct bench *b)
{
    static const char sources[] = "sources: [{wal: bench, box: outbox}]\n";
    static const struct latency_sender emitter = { emitter_open, emitter_emit, sender_close };
    pgbare_create("log");
    latency_measure(b, &(struct latency_run){
                           .sender = &latency_postgres_sender,
                           .place = "log",
                           .url = pgbare_url("log"),
                           .sources = sources,
                           .names = { "wal_insert_latency_p50", "wal_insert_latency_p99",
                                      "wal_insert_latency_with_insert_p50", "wal_insert_latency_with_insert_p99" },
                           .p50_at_most_ms = LOG_P50_AT_MOST_MS,
                           .p99_at_most_ms = LOG_P99_AT_MOST_MS,
                       });
    latency_measure(b, &(struct latency_run){
                           .sender = &emitter,
                           .place = "log",
                           .url = pgbare_url("log"),
                           .sources = sources,
                           .names = { "wal_emit_latency_p50", "wal_emit_latency_p99", "wal_emit_latency_with_emit_p50",
                                      "wal_emit_latency_with_emit_p99" },
                           .p50_at_most_ms = LOG_P50_AT_MOST_MS,
                           .p99_at_most_ms = LOG_P99_AT_MOST_MS,
                       });
    PGconn *pg = pgbare_open("log");
    pgbare_run(pg, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active");
    pgbare_close(pg);
    pgbare_remove("log");
}

/* ---- Idle ------------------------------------------------------------------------------------------ */

static void pause_seconds(size_t seconds)
{
    nanosleep(&(struct timespec){ .tv_sec = (time_t)seconds }, NULL);
}

static int parent_of(const char *pid)
{
    char name[300];
    int parent = 0;
    snprintf(name, sizeof name, "/proc/%s/stat", pid);
    FILE *file = fopen(name, "r");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1)
        parent = 0;
    fclose(file);
    return parent;
}

static int server_pid(PGconn *pg)
{
    return (int)pgbare_number(pg, "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int");
}

/* All processes of the server.  What comes and goes meanwhile (a worker of autovacuum) is left out. */
static double server_cpu_seconds(int server)
{
    double seconds = daemon_cpu_seconds(server);
    struct dirent *entry;
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        die("cannot read /proc");
    while ((entry = readdir(dir)) != NULL)
        if (parent_of(entry->d_name) == server)
            seconds += daemon_cpu_seconds((pid_t)strtol(entry->d_name, NULL, 10));
    closedir(dir);
    return seconds;
}

/* The server writes down every statement of the daemon; how many so far? */
static double logged_statements(void)
{
    char path[512], line[4096];
    const char *folder = getenv("POSTRIDER_TEST_PG_FOLDER");
    double count = 0;
    snprintf(path, sizeof path, "%s/server.log", folder != NULL ? folder : "");
    FILE *file = fopen(path, "r");
    if (file == NULL)
        die("cannot read the server's log %s", path);
    while (fgets(line, sizeof line, file) != NULL)
        count += strncmp(line, "postrider:", 10) == 0 &&
                 (strstr(line, "LOG:  execute ") != NULL || strstr(line, "LOG:  statement: ") != NULL);
    fclose(file);
    return count;
}

static void log_statements(PGconn *pg, bool on)
{
    pgbare_run(pg, on ? "ALTER SYSTEM SET log_statement = 'all'" : "ALTER SYSTEM RESET log_statement");
    pgbare_run(pg, on ? "ALTER SYSTEM SET log_line_prefix = '%a:'" : "ALTER SYSTEM RESET log_line_prefix");
    pgbare_run(pg, "SELECT pg_reload_conf()");
}

static void await_daemon(PGconn *pg)
{
    double deadline = seconds_now() + START_TIMEOUT_S;
    while (pgbare_number(pg, "SELECT count(*) FROM lane WHERE box = 'outbox'") < 64) {
        if (seconds_now() > deadline)
            die("the daemon does not come up");
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
}

/* ---- The server, watched ------------------------------------------------------------------------------ */

struct server_watch {
    PGconn *pg;
    int pid;
    double cpu_seconds, statements; /* at the mark */
};

static void watch_begin(struct server_watch *w, const char *database)
{
    *w = (struct server_watch){ .pg = pgbare_open(database) };
    w->pid = server_pid(w->pg);
    log_statements(w->pg, true); /* costs the server next to nothing */
}

static void watch_mark(void *watch)
{
    struct server_watch *w = watch;
    pgbare_run(w->pg, "VACUUM ANALYZE"); /* what was stored before leaves the server work for later */
    pgbare_run(w->pg, "CHECKPOINT");
    w->cpu_seconds = server_cpu_seconds(w->pid);
    w->statements = logged_statements();
}

static void watch_read(void *watch, double *ret_cpu_seconds, double *ret_statements)
{
    const struct server_watch *w = watch;
    *ret_cpu_seconds = server_cpu_seconds(w->pid) - w->cpu_seconds;
    *ret_statements = logged_statements() - w->statements;
}

static void watch_end(struct server_watch *w)
{
    log_statements(w->pg, false);
    pgbare_close(w->pg);
}

void sleeping_postgres(const struct bench *b)
{
    struct server_watch w;
    pgbare_create("sleeping");
    watch_begin(&w, "sleeping");
    sleeping_measure(b, &(struct sleeping_place){ .name = "postgres",
                                                  .url = pgbare_url("sleeping"),
                                                  .memory_at_most_mb = 1,
                                                  .mark = watch_mark,
                                                  .read = watch_read,
                                                  .server = &w });
    watch_end(&w);
    pgbare_remove("sleeping");
}

void pg_measure_idle(const struct bench *b)
{
    size_t watch_s = b->quick ? LEASE_ROUND_S : PURGE_ROUND_S;
    struct server_watch w;
    double server_cpu, statements;
    pgbare_create("idle");
    progress(b, "idle: watching daemon and server for %zu s", watch_s);
    pid_t daemon = daemon_start(b, pgbare_url("idle"), DAEMON_LEASE_S);
    watch_begin(&w, "idle");
    await_daemon(w.pg);
    pause_seconds(SETTLE_S);
    double begin = seconds_now(), cpu = daemon_cpu_seconds(daemon);
    watch_mark(&w);
    pause_seconds(watch_s);
    cpu = daemon_cpu_seconds(daemon) - cpu;
    watch_read(&w, &server_cpu, &statements);
    double seconds = seconds_now() - begin;
    watch_end(&w);
    daemon_stop(daemon);
    pgbare_remove("idle");
    report_value("postgres_idle_queries", statements / seconds, "1/s", BOUND_AT_MOST, IDLE_QUERIES_AT_MOST);
    report_value("postgres_idle_cpu", (cpu + server_cpu) / seconds * 100, "% of a core", BOUND_AT_MOST,
                 IDLE_CPU_AT_MOST);
    report_value("postgres_idle_cpu_of_server", server_cpu / seconds * 100, "% of a core", BOUND_NONE, 0);
}
