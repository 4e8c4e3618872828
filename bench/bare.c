#include "bare.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"

#define FILL_BATCH 100000

static const char INSERT[] = "INSERT INTO outbox (id, destination, type, stream, created_at, payload)"
                             " VALUES (?1, 'sink', 'bench.message', ?2, ?3, ?4)";

/* ---- Databases ------------------------------------------------------------------------ */

static void must(sqlite3 *db, int rc)
{
    if (rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE)
        die("bare SQLite: %s", sqlite3_errmsg(db));
}

void bare_run(sqlite3 *db, const char *sql)
{
    must(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    must(db, sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL));
    return statement;
}

int64_t bare_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = prepare(db, sql);
    must(db, sqlite3_step(statement));
    int64_t number = sqlite3_column_int64(statement, 0);
    must(db, sqlite3_finalize(statement));
    return number;
}

static void step_once(sqlite3 *db, sqlite3_stmt *statement)
{
    must(db, sqlite3_step(statement));
    must(db, sqlite3_reset(statement));
}

const char *bare_url(const char *path)
{
    static char urls[4][512];
    static int turn;
    char *url = urls[turn++ % 4];
    snprintf(url, sizeof urls[0], "sqlite:%s", path);
    return url;
}

void bare_create(const char *path)
{
    struct pr_error error;
    bare_remove(path);
    if (pr_store_init(bare_url(path), &error) < 0)
        die("%s", error.text);
}

/* Everything else, too, is as a store's connection has it. */
sqlite3 *bare_open(const char *path, int checkpoint_pages)
{
    sqlite3 *db;
    char sql[64];
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        die("cannot open %s", path);
    sqlite3_busy_timeout(db, 10000);
    bare_run(db, "PRAGMA journal_mode = wal; PRAGMA synchronous = full; PRAGMA cache_size = -16384;"
                 "PRAGMA secure_delete = off");
    snprintf(sql, sizeof sql, "PRAGMA wal_autocheckpoint = %d", checkpoint_pages);
    bare_run(db, sql);
    return db;
}

void bare_close(sqlite3 *db)
{
    must(db, sqlite3_close(db));
}

void bare_remove(const char *path)
{
    static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };
    char name[512];
    for (size_t i = 0; i < ARRAY_LENGTH(suffixes); i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

/* Written back before anybody starts a stopwatch. */
static void sync_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        die("cannot sync %s", path);
    close(fd);
}

void bare_copy(const char *from, const char *to)
{
    bare_remove(to);
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (in < 0 || out < 0)
        die("cannot copy %s to %s", from, to);
    ssize_t copied;
    while ((copied = copy_file_range(in, NULL, out, NULL, (size_t)1 << 30, 0)) > 0)
        ;
    if (copied < 0 || fsync(out) != 0)
        die("cannot copy %s to %s", from, to);
    close(in);
    close(out);
}

/* ---- Inserting ------------------------------------------------------------------------- */

struct inserter {
    sqlite3 *db;
    sqlite3_stmt *statement;
    size_t streams, done;
    char payload[BENCH_PAYLOAD];
};

/* JSON, as most payloads are. */
void bare_payload(char ret[BENCH_PAYLOAD])
{
    static const char begin[] = "{\"x\":\"", end[] = "\"}";
    memset(ret, 'x', BENCH_PAYLOAD);
    memcpy(ret, begin, sizeof begin - 1);
    memcpy(ret + BENCH_PAYLOAD - (sizeof end - 1), end, sizeof end - 1);
}

static void inserter_open(struct inserter *in, sqlite3 *db, size_t streams)
{
    *in = (struct inserter){ .db = db, .statement = prepare(db, INSERT), .streams = streams };
    bare_payload(in->payload);
}

static void inserter_add(struct inserter *in, size_t count)
{
    pr_id id;
    char stream[32];
    for (size_t i = 0; i < count; i++) {
        pr_id_new(&id);
        must(in->db, sqlite3_bind_blob(in->statement, 1, id.bytes, sizeof id.bytes, SQLITE_STATIC));
        if (in->streams > 0) {
            snprintf(stream, sizeof stream, "stream-%zu", in->done % in->streams);
            must(in->db, sqlite3_bind_text(in->statement, 2, stream, -1, SQLITE_STATIC));
        }
        must(in->db, sqlite3_bind_int64(in->statement, 3, clock_wall_us(clock_system())));
        must(in->db, sqlite3_bind_blob(in->statement, 4, in->payload, sizeof in->payload, SQLITE_STATIC));
        step_once(in->db, in->statement);
        in->done++;
    }
}

static void inserter_close(struct inserter *in)
{
    must(in->db, sqlite3_finalize(in->statement));
}

void bare_fill(const char *path, const struct stock *stock)
{
    struct inserter in;
    bare_create(path);
    sqlite3 *db = bare_open(path, 0);
    bare_run(db, "PRAGMA locking_mode = exclusive; PRAGMA journal_mode = off; PRAGMA synchronous = off;"
                 "PRAGMA cache_size = -262144");
    inserter_open(&in, db, stock->streams);
    while (in.done < stock->count) {
        bare_run(db, "BEGIN");
        inserter_add(&in, min_size(FILL_BATCH, stock->count - in.done));
        bare_run(db, "COMMIT");
    }
    inserter_close(&in);
    bare_run(db, "PRAGMA journal_mode = wal");
    bare_close(db);
    sync_file(path);
}

void bare_insert(sqlite3 *db, const struct stock *stock)
{
    struct inserter in;
    inserter_open(&in, db, stock->streams);
    bare_run(db, "BEGIN IMMEDIATE");
    inserter_add(&in, stock->count);
    bare_run(db, "COMMIT");
    inserter_close(&in);
}

double bare_insert_rate(sqlite3 *db, size_t count)
{
    struct inserter in;
    inserter_open(&in, db, 0);
    double begin = seconds_now();
    while (in.done < count) {
        bare_run(db, "BEGIN IMMEDIATE");
        inserter_add(&in, min_size(BENCH_BATCH, count - in.done));
        bare_run(db, "COMMIT");
    }
    double seconds = seconds_now() - begin;
    inserter_close(&in);
    return (double)count / seconds;
}

/* ---- Reading and deleting ---------------------------------------------------------------- */

struct remover {
    sqlite3 *db;
    sqlite3_stmt *select, *delete_one, *delete_range;
    bool range;
    char sink[4096];
};

/* Read up to BENCH_BATCH rows, all that a receiver would want of them, and delete them. */
static size_t remover_batch(struct remover *r)
{
    int64_t rows[BENCH_BATCH];
    size_t count = 0;
    bare_run(r->db, "BEGIN IMMEDIATE");
    while (count < BENCH_BATCH && sqlite3_step(r->select) == SQLITE_ROW) {
        rows[count++] = sqlite3_column_int64(r->select, 0);
        for (int column = 1; column <= 5; column++) {
            const void *bytes = sqlite3_column_blob(r->select, column);
            size_t size = (size_t)sqlite3_column_bytes(r->select, column);
            if (bytes != NULL)
                memcpy(r->sink, bytes, min_size(size, sizeof r->sink));
        }
    }
    must(r->db, sqlite3_reset(r->select));
    for (size_t i = 0; i < count && !r->range; i++) {
        must(r->db, sqlite3_bind_int64(r->delete_one, 1, rows[i]));
        step_once(r->db, r->delete_one);
    }
    if (r->range && count > 0) {
        must(r->db, sqlite3_bind_int64(r->delete_range, 1, rows[count - 1]));
        step_once(r->db, r->delete_range);
    }
    bare_run(r->db, "COMMIT");
    return count;
}

static double drain_rate(sqlite3 *db, size_t count, bool range)
{
    struct remover r = {
        .db = db,
        .range = range,
        .select = prepare(db, "SELECT row_id, id, destination, stream, type, payload FROM outbox"
                              " WHERE due_at IS NULL AND held_by IS NULL ORDER BY row_id LIMIT 1000"),
        .delete_one = prepare(db, "DELETE FROM outbox WHERE row_id = ?1"),
        .delete_range = prepare(db, "DELETE FROM outbox WHERE row_id <= ?1"),
    };
    size_t done = 0, batch;
    double begin = seconds_now();
    while (done < count && (batch = remover_batch(&r)) > 0)
        done += batch;
    double seconds = seconds_now() - begin;
    if (done < count)
        die("bare SQLite found only %zu of %zu messages", done, count);
    sqlite3_finalize(r.select);
    sqlite3_finalize(r.delete_one);
    sqlite3_finalize(r.delete_range);
    return (double)done / seconds;
}

double bare_drain_rate(sqlite3 *db, size_t count)
{
    return drain_rate(db, count, false);
}

double bare_drain_range_rate(sqlite3 *db, size_t count)
{
    return drain_rate(db, count, true);
}
