#include "pgbare.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgarray.h"

#define FILL_BATCH 100000
#define LANES 64
#define LANE_ROWS 16 /* of each lane in one read: 64 * 16 is about a batch of the engine */
#define ROWS_MAX (LANES * LANE_ROWS)
#define LEASE_BATCH 100

/* ---- Databases --------------------------------------------------------------------------------- */

static const char *server_url(void)
{
    const char *url = getenv("POSTRIDER_TEST_PG");
    if (url == NULL || strstr(url, "/postgres?") == NULL)
        die("there is no server to measure: ./dev bench postgres starts one");
    return url;
}

const char *pgbare_url(const char *database)
{
    static char urls[4][512];
    static int turn;
    const char *url = server_url(), *name = strstr(url, "/postgres?");
    char *made = urls[turn++ % 4];
    snprintf(made, sizeof urls[0], "%.*s/%s%s", (int)(name - url), url, database, name + strlen("/postgres"));
    return made;
}

PGconn *pgbare_open(const char *database)
{
    PGconn *pg = PQconnectdb(pgbare_url(database));
    if (PQstatus(pg) != CONNECTION_OK)
        die("bare PostgreSQL: %s", PQerrorMessage(pg));
    pgbare_run(pg, "SET search_path = postrider, pg_catalog; SET client_min_messages = warning");
    return pg;
}

void pgbare_close(PGconn *pg)
{
    PQfinish(pg);
}

PGresult *pgbare_must(PGconn *pg, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        die("bare PostgreSQL: %s", PQerrorMessage(pg));
    return result;
}

void pgbare_run(PGconn *pg, const char *sql)
{
    PQclear(pgbare_must(pg, PQexec(pg, sql)));
}

double pgbare_number(PGconn *pg, const char *sql)
{
    PGresult *result = pgbare_must(pg, PQexec(pg, sql));
    double number = strtod(PQgetvalue(result, 0, 0), NULL);
    PQclear(result);
    return number;
}

double pgbare_server_us(PGconn *pg)
{
    char path[64], stat[512] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", PQbackendPID(pg));
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(stat, sizeof stat, file) == NULL || strrchr(stat, ')') == NULL ||
        sscanf(strrchr(stat, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        die("cannot read %s", path);
    fclose(file);
    return 1e6 * (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void server_run(const char *format, ...) PR_PRINTF(1, 2);
static void server_run(const char *format, ...)
{
    char sql[512];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    PGconn *pg = pgbare_open("postgres");
    pgbare_run(pg, sql);
    pgbare_close(pg);
}

void pgbare_remove(const char *database)
{
    server_run("DROP DATABASE IF EXISTS %s WITH (FORCE)", database);
}

void pgbare_create(const char *database)
{
    struct pr_error error;
    pgbare_remove(database);
    server_run("CREATE DATABASE %s", database);
    if (pr_store_init(pgbare_url(database), &error) < 0)
        die("%s", error.text);
}

void pgbare_copy(const char *from, const char *to)
{
    PGconn *pg = pgbare_open("postgres");
    bool by_file = PQserverVersion(pg) >= 150000; /* as older ones always do */
    pgbare_close(pg);
    pgbare_remove(to);
    server_run("CREATE DATABASE %s TEMPLATE %s%s", to, from, by_file ? " STRATEGY file_copy" : "");
}

/* ---- Messages ------------------------------------------------------------------------------------ */

void pgbare_prepare(PGconn *pg, const char *name, const char *sql)
{
    PQclear(pgbare_must(pg, PQprepare(pg, name, sql, 0, NULL)));
}

static void run_with_count(PGconn *pg, const char *name, size_t count)
{
    char text[32];
    const char *values[] = { text };
    snprintf(text, sizeof text, "%zu", count);
    PQclear(pgbare_must(pg, PQexecPrepared(pg, name, 1, values, NULL, NULL, 0)));
}

void pgbare_insert(PGconn *pg, size_t count, size_t streams)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "INSERT INTO outbox (destination, type, stream, payload) SELECT 'sink', 'bench.message',"
             " CASE WHEN %zu > 0 THEN 'stream-' || n %% greatest(%zu, 1) END, repeat('x', %d)"
             " FROM generate_series(1, %zu) n",
             streams, streams, BENCH_PAYLOAD, count);
    pgbare_run(pg, sql);
}

void pgbare_set_durable(bool durable)
{
    const char *value = durable ? "on" : "off";
    server_run("ALTER SYSTEM SET fsync = %s", value);
    server_run("ALTER SYSTEM SET full_page_writes = %s", value);
    server_run("SELECT pg_reload_conf()");
}

void pgbare_fill(const char *database, size_t count)
{
    pgbare_create(database);
    pgbare_set_durable(false);
    PGconn *pg = pgbare_open(database);
    for (size_t done = 0; done < count; done += FILL_BATCH)
        pgbare_insert(pg, min_size(FILL_BATCH, count - done), 0);
    pgbare_set_durable(true);
    pgbare_run(pg, "VACUUM ANALYZE outbox");
    pgbare_run(pg, "CHECKPOINT");
    pgbare_close(pg);
}

double pgbare_send_rate(PGconn *pg, size_t count, size_t batch)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "INSERT INTO outbox (destination, type, payload) SELECT 'sink', 'bench.message',"
             " repeat('x', %d) FROM generate_series(1, $1::int)",
             BENCH_PAYLOAD);
    PQclear(PQexec(pg, "DEALLOCATE ALL"));
    pgbare_prepare(pg, "send", sql);
    double begin = seconds_now();
    for (size_t done = 0; done < count; done += batch)
        run_with_count(pg, "send", min_size(batch, count - done));
    return (double)count / (seconds_now() - begin);
}

/* ---- Draining ------------------------------------------------------------------------------------ */

#define STEPS_MAX 8

struct drainer {
    PGconn *pg;
    int64_t after[LANES]; /* the last seq that was read of each lane */
    struct pg_array ids;  /* read last time, not deleted yet */
    struct pg_array failed;
    struct pg_array rows, numbers, positions;
    size_t waiting; /* failed, and not read again yet */
    const char *steps[STEPS_MAX];
    int step_count;
    char sink[BENCH_PAYLOAD];
};

static const char READ[] =
    "SELECT f.* FROM unnest($1::bigint[]) WITH ORDINALITY AS l(seq, n) CROSS JOIN LATERAL"
    " (SELECT b.id, b.lane, b.seq, b.destination, b.stream, b.type, b.payload FROM outbox b WHERE b.lane = l.n "
    "- 1"
    " AND b.seq > l.seq AND b.due_at IS NULL AND b.held_by IS NULL ORDER BY b.seq LIMIT 16) f";
static const char DELETE[] = "DELETE FROM outbox WHERE id = ANY ($1::uuid[])";
static const char FAIL[] =
    "UPDATE outbox SET (" PGBARE_FATE ") = (SELECT " PGBARE_FATE_FAILED ") WHERE id = ANY ($1::uuid[])";
static const char RECEIPT[] = "INSERT INTO claim (instance, cycle, box, at, rows, numbers)"
                              " VALUES ('00000000-0000-0000-0000-000000000001', $1::bigint, 'outbox', now(), $2, $3)";

static void send_step(struct drainer *d, const char *name, int count, const char *const *values, const int *lengths)
{
    static const int formats[] = { 1, 1, 1 };
    if (!PQsendQueryPrepared(d->pg, name, count, values, lengths, formats, 1))
        die("bare PostgreSQL: %s", PQerrorMessage(d->pg));
    d->steps[d->step_count++] = name;
}

static void send_batch(struct drainer *d)
{
    static uint64_t cycles; /* receipts have keys of their own */
    int64_t cycle = (int64_t)htobe64(++cycles);
    pg_array_begin(&d->positions, OID_INT8);
    for (int lane = 0; lane < LANES; lane++)
        pg_array_add_i64(&d->positions, d->after[lane]);
    const char *receipt[] = { (const char *)&cycle, d->rows.bytes, d->numbers.bytes };
    d->step_count = 0;
    send_step(d, "begin", 0, NULL, NULL);
    send_step(d, "read", 1, (const char *[]){ d->positions.bytes }, &d->positions.size);
    send_step(d, "delete", 1, (const char *[]){ d->ids.bytes }, &d->ids.size);
    if (d->failed.count > 0)
        send_step(d, "fail", 1, (const char *[]){ d->failed.bytes }, &d->failed.size);
    d->waiting += (size_t)d->failed.count;
    if (d->waiting > 0)
        send_step(d, "due", 0, NULL, NULL);
    send_step(d, "receipt", 3, receipt, (const int[]){ 8, d->rows.size, d->numbers.size });
    send_step(d, "commit", 0, NULL, NULL);
    if (!PQpipelineSync(d->pg))
        die("bare PostgreSQL: %s", PQerrorMessage(d->pg));
}

static void forget_rows(struct drainer *d)
{
    pg_array_begin(&d->ids, OID_UUID);
    pg_array_begin(&d->failed, OID_UUID);
    pg_array_begin(&d->rows, OID_INT8);
    pg_array_begin(&d->numbers, OID_INT4);
}

/* What was read is noted: to be deleted or to fail and, on a receipt, to be known. */
static size_t take_rows(struct drainer *d, const PGresult *r, bool fresh)
{
    static const uint32_t one = 0x01000000;
    int count = PQntuples(r);
    for (int i = 0; i < count; i++) {
        uint16_t lane;
        uint64_t seq;
        memcpy(&lane, PQgetvalue(r, i, 1), 2);
        memcpy(&seq, PQgetvalue(r, i, 2), 8);
        if (fresh)
            d->after[ntohs(lane)] = (int64_t)be64toh(seq);
        bool fails = fresh && strcmp(PQgetvalue(r, i, 5), PGBARE_FLAKY) == 0;
        pg_array_add(fails ? &d->failed : &d->ids, PQgetvalue(r, i, 0), 16);
        pg_array_add_i64(&d->rows, (int64_t)be64toh(seq));
        pg_array_add(&d->numbers, &one, 4);
        memcpy(d->sink, PQgetvalue(r, i, 6), min_size((size_t)PQgetlength(r, i, 6), sizeof d->sink));
    }
    return (size_t)count;
}

/* One transaction; how many were read. */
static size_t drain_batch(struct drainer *d)
{
    size_t fresh = 0, due = 0;
    send_batch(d);
    forget_rows(d);
    for (int i = 0; i < d->step_count; i++) {
        PGresult *result = pgbare_must(d->pg, PQgetResult(d->pg));
        if (strcmp(d->steps[i], "read") == 0)
            fresh = take_rows(d, result, true);
        else if (strcmp(d->steps[i], "due") == 0)
            due = take_rows(d, result, false);
        PQclear(result);
        PQclear(PQgetResult(d->pg)); /* the end of the step */
    }
    PQclear(PQgetResult(d->pg)); /* the end of the batch */
    d->waiting -= due;
    return fresh + due;
}

static void drain_begin(struct drainer *d, PGconn *pg)
{
    *d = (struct drainer){ .pg = pg };
    forget_rows(d);
    pgbare_run(pg, "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan");
    pgbare_prepare(pg, "begin", "BEGIN");
    pgbare_prepare(pg, "read", READ);
    pgbare_prepare(pg, "delete", DELETE);
    pgbare_prepare(pg, "fail", FAIL);
    pgbare_prepare(pg, "due", PGBARE_DUE);
    pgbare_prepare(pg, "receipt", RECEIPT);
    pgbare_prepare(pg, "commit", "COMMIT");
    if (!PQenterPipelineMode(pg))
        die("bare PostgreSQL: %s", PQerrorMessage(pg));
}

double pgbare_drain_rate(PGconn *pg, size_t count)
{
    static struct drainer d;
    size_t done = 0, batch;
    drain_begin(&d, pg);
    double begin = seconds_now();
    do
        done += batch = drain_batch(&d);
    while (batch > 0 || d.waiting > 0);
    double seconds = seconds_now() - begin;
    PQexitPipelineMode(pg);
    if (done < count || pgbare_number(pg, "SELECT count(*) FROM outbox") > 0)
        die("bare PostgreSQL found only %zu of %zu messages", done, count);
    return (double)count / seconds;
}

double pgbare_drain_while(PGconn *pg, const atomic_bool *wanted)
{
    static struct drainer d;
    size_t count = 0, read = 1;
    drain_begin(&d, pg);
    double begin = seconds_now();
    while (atomic_load(wanted) && read > 0)
        count += read = drain_batch(&d);
    double seconds = seconds_now() - begin;
    drain_batch(&d); /* what was read last is deleted, too */
    PQexitPipelineMode(pg);
    return (double)count / seconds;
}

/* ---- A queue as it is often written -------------------------------------------------------------- */

void pgbare_lease_create(PGconn *pg)
{
    pgbare_run(pg, "CREATE TABLE public.queue (id bigserial PRIMARY KEY, leased_until timestamptz, payload bytea);"
                   "CREATE INDEX queue_lease ON public.queue (leased_until NULLS FIRST, id)");
}

/* Lease some, do nothing with them, delete them by their keys. */
static void lease_batch(PGconn *pg)
{
    char count[16], ids[LEASE_BATCH * 24] = "{";
    size_t size = 1;
    snprintf(count, sizeof count, "%d", LEASE_BATCH);
    PGresult *leased = pgbare_must(pg, PQexecPrepared(pg, "lease", 1, (const char *[]){ count }, NULL, NULL, 0));
    for (int i = 0; i < PQntuples(leased); i++)
        size += (size_t)snprintf(ids + size, sizeof ids - size, "%s%s", i > 0 ? "," : "", PQgetvalue(leased, i, 0));
    snprintf(ids + size, sizeof ids - size, "}");
    PQclear(leased);
    PQclear(pgbare_must(pg, PQexecPrepared(pg, "delete", 1, (const char *[]){ ids }, NULL, NULL, 0)));
}

double pgbare_lease_rate(PGconn *pg, size_t count)
{
    char insert[256];
    snprintf(insert, sizeof insert,
             "INSERT INTO public.queue (payload) SELECT convert_to(repeat('x', %d), 'UTF8') FROM"
             " generate_series(1, $1::int)",
             BENCH_PAYLOAD);
    PQclear(PQexec(pg, "DEALLOCATE ALL"));
    pgbare_prepare(pg, "insert", insert);
    pgbare_prepare(pg, "lease",
                   "UPDATE public.queue SET leased_until = now() + interval '1 minute' WHERE id IN"
                   " (SELECT id FROM public.queue WHERE leased_until IS NULL ORDER BY id LIMIT $1"
                   " FOR UPDATE SKIP LOCKED) RETURNING id, payload");
    pgbare_prepare(pg, "delete", "DELETE FROM public.queue WHERE id = ANY ($1::bigint[])");
    double begin = seconds_now();
    for (size_t done = 0; done < count; done += LEASE_BATCH) {
        run_with_count(pg, "insert", LEASE_BATCH);
        lease_batch(pg);
    }
    return (double)count / (seconds_now() - begin);
}
