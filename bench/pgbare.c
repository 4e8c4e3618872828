#include "pgbare.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The result is owned by the caller. */
static PGresult *must(PGconn *pg, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        die("bare PostgreSQL: %s", PQerrorMessage(pg));
    return result;
}

void pgbare_run(PGconn *pg, const char *sql)
{
    PQclear(must(pg, PQexec(pg, sql)));
}

double pgbare_number(PGconn *pg, const char *sql)
{
    PGresult *result = must(pg, PQexec(pg, sql));
    double number = strtod(PQgetvalue(result, 0, 0), NULL);
    PQclear(result);
    return number;
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

/* A statement on one connection, parsed and planned once. */
static void prepare(PGconn *pg, const char *name, const char *sql)
{
    PQclear(must(pg, PQprepare(pg, name, sql, 0, NULL)));
}

static void run_with_count(PGconn *pg, const char *name, size_t count)
{
    char text[32];
    const char *values[] = { text };
    snprintf(text, sizeof text, "%zu", count);
    PQclear(must(pg, PQexecPrepared(pg, name, 1, values, NULL, NULL, 0)));
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
    prepare(pg, "send", sql);
    double begin = seconds_now();
    for (size_t done = 0; done < count; done += batch)
        run_with_count(pg, "send", min_size(batch, count - done));
    return (double)count / (seconds_now() - begin);
}

/* ---- Draining ------------------------------------------------------------------------------------ */

/* A one-dimensional array in PostgreSQL's binary form. */
struct array {
    char bytes[20 + ROWS_MAX * 20];
    int size, count;
};

static void array_begin(struct array *a, uint32_t element)
{
    const uint32_t head[] = { htonl(1), 0, htonl(element), 0, htonl(1) };
    memcpy(a->bytes, head, sizeof head);
    a->size = sizeof head;
    a->count = 0;
}

static void array_add(struct array *a, const void *bytes, int size)
{
    uint32_t length = htonl((uint32_t)size), count = htonl((uint32_t)++a->count);
    memcpy(a->bytes + a->size, &length, 4);
    memcpy(a->bytes + a->size + 4, bytes, (size_t)size);
    memcpy(a->bytes + 12, &count, 4);
    a->size += 4 + size;
}

static void array_add_i64(struct array *a, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);
    array_add(a, &wire, 8);
}

enum { OID_BYTEA = 17, OID_INT8 = 20, OID_INT4 = 23, OID_UUID = 2950 };

struct drainer {
    PGconn *pg;
    int64_t after[LANES]; /* the last seq that was read of each lane */
    struct array ids;     /* read last time, not deleted yet */
    struct array rows, numbers, positions;
    char sink[BENCH_PAYLOAD];
};

static const char READ[] =
    "SELECT f.* FROM unnest($1::bigint[]) WITH ORDINALITY AS l(seq, n) CROSS JOIN LATERAL"
    " (SELECT b.id, b.lane, b.seq, b.destination, b.stream, b.type, b.payload FROM outbox b WHERE b.lane = l.n "
    "- 1"
    " AND b.seq > l.seq AND b.due_at IS NULL AND b.held_by IS NULL ORDER BY b.seq LIMIT 16) f";
static const char DELETE[] = "DELETE FROM outbox WHERE id = ANY ($1::uuid[])";
static const char RECEIPT[] = "INSERT INTO claim (instance, cycle, box, at, rows, numbers)"
                              " VALUES ('00000000-0000-0000-0000-000000000001', $1::bigint, 'outbox', now(), $2, $3)";

static void send_step(PGconn *pg, const char *name, int count, const char *const *values, const int *lengths)
{
    static const int formats[] = { 1, 1, 1 };
    if (!PQsendQueryPrepared(pg, name, count, values, lengths, formats, 1))
        die("bare PostgreSQL: %s", PQerrorMessage(pg));
}

static void send_batch(struct drainer *d)
{
    static uint64_t cycles; /* receipts have keys of their own */
    int64_t cycle = (int64_t)htobe64(++cycles);
    array_begin(&d->positions, OID_INT8);
    for (int lane = 0; lane < LANES; lane++)
        array_add_i64(&d->positions, d->after[lane]);
    const char *receipt[] = { (const char *)&cycle, d->rows.bytes, d->numbers.bytes };
    send_step(d->pg, "begin", 0, NULL, NULL);
    send_step(d->pg, "read", 1, (const char *[]){ d->positions.bytes }, &d->positions.size);
    send_step(d->pg, "delete", 1, (const char *[]){ d->ids.bytes }, &d->ids.size);
    send_step(d->pg, "receipt", 3, receipt, (const int[]){ 8, d->rows.size, d->numbers.size });
    send_step(d->pg, "commit", 0, NULL, NULL);
    if (!PQpipelineSync(d->pg))
        die("bare PostgreSQL: %s", PQerrorMessage(d->pg));
}

/* What was read is noted: to be deleted and, on a receipt, to be known. */
static size_t take_rows(struct drainer *d, const PGresult *r)
{
    static const uint32_t one = 0x01000000;
    int count = PQntuples(r);
    array_begin(&d->ids, OID_UUID);
    array_begin(&d->rows, OID_INT8);
    array_begin(&d->numbers, OID_INT4);
    for (int i = 0; i < count; i++) {
        uint16_t lane;
        uint64_t seq;
        memcpy(&lane, PQgetvalue(r, i, 1), 2);
        memcpy(&seq, PQgetvalue(r, i, 2), 8);
        d->after[ntohs(lane)] = (int64_t)be64toh(seq);
        array_add(&d->ids, PQgetvalue(r, i, 0), 16);
        array_add_i64(&d->rows, (int64_t)be64toh(seq));
        array_add(&d->numbers, &one, 4);
        memcpy(d->sink, PQgetvalue(r, i, 6), min_size((size_t)PQgetlength(r, i, 6), sizeof d->sink));
    }
    return (size_t)count;
}

/* One transaction; how many were read. */
static size_t drain_batch(struct drainer *d)
{
    size_t count = 0;
    send_batch(d);
    for (int step = 0; step < 5; step++) {
        PGresult *result = must(d->pg, PQgetResult(d->pg));
        if (step == 1)
            count = take_rows(d, result);
        PQclear(result);
        PQclear(PQgetResult(d->pg)); /* the end of the step */
    }
    PQclear(PQgetResult(d->pg)); /* the end of the batch */
    return count;
}

static void drain_begin(struct drainer *d, PGconn *pg)
{
    *d = (struct drainer){ .pg = pg };
    array_begin(&d->ids, OID_UUID);
    array_begin(&d->rows, OID_INT8);
    array_begin(&d->numbers, OID_INT4);
    pgbare_run(pg, "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan");
    prepare(pg, "begin", "BEGIN");
    prepare(pg, "read", READ);
    prepare(pg, "delete", DELETE);
    prepare(pg, "receipt", RECEIPT);
    prepare(pg, "commit", "COMMIT");
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
    while (batch > 0);
    double seconds = seconds_now() - begin;
    PQexitPipelineMode(pg);
    if (done < count || pgbare_number(pg, "SELECT count(*) FROM outbox") > 0)
        die("bare PostgreSQL found only %zu of %zu messages", done, count);
    return (double)done / seconds;
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
    PGresult *leased = must(pg, PQexecPrepared(pg, "lease", 1, (const char *[]){ count }, NULL, NULL, 0));
    for (int i = 0; i < PQntuples(leased); i++)
        size += (size_t)snprintf(ids + size, sizeof ids - size, "%s%s", i > 0 ? "," : "", PQgetvalue(leased, i, 0));
    snprintf(ids + size, sizeof ids - size, "}");
    PQclear(leased);
    PQclear(must(pg, PQexecPrepared(pg, "delete", 1, (const char *[]){ ids }, NULL, NULL, 0)));
}

double pgbare_lease_rate(PGconn *pg, size_t count)
{
    char insert[256];
    snprintf(insert, sizeof insert,
             "INSERT INTO public.queue (payload) SELECT convert_to(repeat('x', %d), 'UTF8') FROM"
             " generate_series(1, $1::int)",
             BENCH_PAYLOAD);
    PQclear(PQexec(pg, "DEALLOCATE ALL"));
    prepare(pg, "insert", insert);
    prepare(pg, "lease",
            "UPDATE public.queue SET leased_until = now() + interval '1 minute' WHERE id IN"
            " (SELECT id FROM public.queue WHERE leased_until IS NULL ORDER BY id LIMIT $1"
            " FOR UPDATE SKIP LOCKED) RETURNING id, payload");
    prepare(pg, "delete", "DELETE FROM public.queue WHERE id = ANY ($1::bigint[])");
    double begin = seconds_now();
    for (size_t done = 0; done < count; done += LEASE_BATCH) {
        run_with_count(pg, "insert", LEASE_BATCH);
        lease_batch(pg);
    }
    return (double)count / (seconds_now() - begin);
}
