/* Sending and draining, against bare SQLite.  Both sides take turns. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "bare.h"
#include "base/error.h"
#include "bench.h"
#include "drain.h"
#include "report.h"

#define SEND_AT_LEAST 0.70
#define DRAIN_AT_LEAST 0.50
#define ENDED_AT_LEAST 0.95
#define ENDED_ROUNDS 7
#define STREAMS 20000

/* ---- Sending --------------------------------------------------------------------------- */

static char payload[BENCH_PAYLOAD];

static void make_batch(struct pr_message ret[BENCH_BATCH])
{
    for (size_t i = 0; i < BENCH_BATCH; i++)
        ret[i] = (struct pr_message){
            .type = PR_STR("bench.message"),
            .destination = PR_STR("sink"),
            .payload = PR_BYTES(payload, sizeof payload),
        };
}

static double sender_rate(struct pr_sender *sender, size_t count)
{
    struct pr_message batch[BENCH_BATCH];
    struct pr_error error;
    double begin = seconds_now();
    for (size_t done = 0; done < count; done += BENCH_BATCH) {
        make_batch(batch);
        if (pr_sender_send_many(sender, NULL, batch, BENCH_BATCH, NULL, NULL, &error) < 0)
            die("%s", error.text);
    }
    return (double)count / (seconds_now() - begin);
}

static double unit_rate(sqlite3 *db, size_t count)
{
    struct pr_message batch[BENCH_BATCH];
    struct pr_error error;
    pr_id id;
    struct pr_unit *unit = pr_unit_new();
    if (unit == NULL)
        die("no memory");
    double begin = seconds_now();
    for (size_t done = 0; done < count; done += BENCH_BATCH) {
        make_batch(batch);
        for (size_t i = 0; i < BENCH_BATCH; i++)
            if (pr_unit_add(unit, NULL, &batch[i], &id, &error) < 0)
                die("%s", error.text);
        bare_run(db, "BEGIN IMMEDIATE");
        if (pr_unit_store_sqlite(unit, db, &error) < 0)
            die("%s", error.text);
        bare_run(db, "COMMIT");
    }
    double rate = (double)count / (seconds_now() - begin);
    pr_unit_free(unit);
    return rate;
}

static double single_rate(sqlite3 *db, size_t count)
{
    struct pr_message batch[BENCH_BATCH];
    struct pr_error error;
    pr_id id;
    double begin = seconds_now();
    for (size_t done = 0; done < count; done += BENCH_BATCH) {
        make_batch(batch);
        bare_run(db, "BEGIN IMMEDIATE");
        for (size_t i = 0; i < BENCH_BATCH; i++)
            if (pr_send_sqlite(db, &batch[i], &id, &error) < 0)
                die("%s", error.text);
        bare_run(db, "COMMIT");
    }
    return (double)count / (seconds_now() - begin);
}

/* The same through a handle that keeps its statement. */
static double prepared_rate(sqlite3 *db, size_t count)
{
    struct pr_message batch[BENCH_BATCH];
    struct pr_sqlite_sender *sender;
    struct pr_error error;
    if (pr_sqlite_sender_new(db, NULL, &sender, &error) < 0)
        die("%s", error.text);
    double begin = seconds_now();
    for (size_t done = 0; done < count; done += BENCH_BATCH) {
        make_batch(batch);
        bare_run(db, "BEGIN IMMEDIATE");
        for (size_t i = 0; i < BENCH_BATCH; i++)
            if (pr_sqlite_sender_send(sender, &batch[i], NULL, &error) < 0)
                die("%s", error.text);
        bare_run(db, "COMMIT");
    }
    double rate = (double)count / (seconds_now() - begin);
    pr_sqlite_sender_free(sender);
    return rate;
}

static void measure_sending(const struct bench *b)
{
    double bare[BENCH_ROUNDS_MAX], sender[BENCH_ROUNDS_MAX], unit[BENCH_ROUNDS_MAX], single[BENCH_ROUNDS_MAX];
    double prepared[BENCH_ROUNDS_MAX];
    size_t rounds = b->rounds * 5, count = b->messages / 50;
    struct pr_error error;
    struct pr_sender *sending;
    char url[512];

    bare_create(bench_path(b, "insert.db"));
    bare_create(bench_path(b, "send.db"));
    bare_create(bench_path(b, "unit.db"));
    sqlite3 *insert_db = bare_open(bench_path(b, "insert.db"), SENDER_CHECKPOINT_PAGES);
    sqlite3 *unit_db = bare_open(bench_path(b, "unit.db"), SENDER_CHECKPOINT_PAGES);
    snprintf(url, sizeof url, "sqlite:%s", bench_path(b, "send.db"));
    if (pr_sender_open(url, &sending, &error) < 0)
        die("%s", error.text);
    for (size_t i = 0; i < rounds; i++) {
        bare[i] = bare_insert_rate(insert_db, count);
        sender[i] = sender_rate(sending, count);
        unit[i] = unit_rate(unit_db, count);
        single[i] = single_rate(unit_db, min_size(count, 2 * BENCH_BATCH));
        prepared[i] = prepared_rate(unit_db, count);
        progress(b, "send %zu/%zu: bare insert %.0f/s, sender %.0f/s, unit %.0f/s, single %.0f/s, prepared %.0f/s",
                 i + 1, rounds, bare[i], sender[i], unit[i], single[i], prepared[i]);
    }
    pr_sender_close(sending);
    bare_close(insert_db);
    bare_close(unit_db);
    bare_remove(bench_path(b, "insert.db"));
    bare_remove(bench_path(b, "send.db"));
    bare_remove(bench_path(b, "unit.db"));

    report_value("bare_insert", median(bare, rounds), "messages/s", BOUND_NONE, 0);
    report_turns("send_many", sender, bare, rounds, "messages/s", BOUND_AT_LEAST, SEND_AT_LEAST);
    report_turns("send_unit", unit, bare, rounds, "messages/s", BOUND_NONE, 0);
    report_turns("send_in_transaction", single, bare, rounds, "messages/s", BOUND_NONE, 0);
    report_turns("send_prepared", prepared, bare, rounds, "messages/s", BOUND_AT_LEAST, SEND_AT_LEAST);
}

/* ---- The box beside a table with the same columns and nothing else ------------------------------- */

static double plain_rate(sqlite3 *db, const char *table, size_t count, size_t each)
{
    char sql[128];
    sqlite3_stmt *insert;
    snprintf(sql, sizeof sql, "INSERT INTO %s (destination, type, payload) VALUES ('sink', 'bench.message', ?1)",
             table);
    if (sqlite3_prepare_v2(db, sql, -1, &insert, NULL) != SQLITE_OK)
        die("%s", sqlite3_errmsg(db));
    sqlite3_bind_text(insert, 1, payload, sizeof payload, SQLITE_STATIC);
    double begin = seconds_now();
    for (size_t done = 0; done < count; done += each) {
        bare_run(db, "BEGIN IMMEDIATE");
        for (size_t i = 0; i < each; i++)
            if (sqlite3_step(insert) != SQLITE_DONE || sqlite3_reset(insert) != SQLITE_OK)
                die("%s", sqlite3_errmsg(db));
        bare_run(db, "COMMIT");
    }
    double rate = (double)count / (seconds_now() - begin);
    sqlite3_finalize(insert);
    return rate;
}

static void measure_box(const struct bench *b)
{
    double box[2][BENCH_ROUNDS_MAX], bare[2][BENCH_ROUNDS_MAX];
    static const size_t each[] = { 1, BENCH_BATCH };
    const size_t rounds = b->rounds * 5, counts[] = { b->messages / 500, b->messages / 50 };
    bare_payload(payload);
    bare_create(bench_path(b, "box.db"));
    sqlite3 *db = bare_open(bench_path(b, "box.db"), SENDER_CHECKPOINT_PAGES);
    bare_run(db, "CREATE TABLE bare AS SELECT * FROM outbox WHERE 0");
    for (size_t i = 0; i < rounds; i++) {
        for (size_t k = 0; k < ARRAY_LENGTH(each); k++) {
            box[k][i] = plain_rate(db, "outbox", counts[k], each[k]);
            bare[k][i] = plain_rate(db, "bare", counts[k], each[k]);
        }
        progress(b, "box %zu/%zu: one each %.0f/s, bare %.0f/s; many %.0f/s, bare %.0f/s", i + 1, rounds, box[0][i],
                 bare[0][i], box[1][i], bare[1][i]);
    }
    bare_close(db);
    bare_remove(bench_path(b, "box.db"));
    report_turns("box_insert_one_each", box[0], bare[0], rounds, "messages/s", BOUND_NONE, 0);
    report_turns("box_insert_many", box[1], bare[1], rounds, "messages/s", BOUND_NONE, 0);
}

/* ---- Draining -------------------------------------------------------------------------- */

static double bare_round(const struct bench *b, double (*rate)(sqlite3 *db, size_t count))
{
    bare_copy(bench_path(b, "backlog.db"), bench_path(b, "run.db"));
    sqlite3 *db = bare_open(bench_path(b, "run.db"), ENGINE_CHECKPOINT_PAGES);
    double result = rate(db, b->messages);
    bare_close(db);
    return result;
}

static double engine_round(const struct bench *b, const char *backlog)
{
    bare_copy(bench_path(b, backlog), bench_path(b, "run.db"));
    return (double)b->messages / drain_seconds(bare_url(bench_path(b, "run.db")));
}

static void measure_draining(const struct bench *b)
{
    double bare[BENCH_ROUNDS_MAX], range[BENCH_ROUNDS_MAX], engine[BENCH_ROUNDS_MAX], streams[BENCH_ROUNDS_MAX];

    progress(b, "making backlogs of %zu messages", b->messages);
    bare_fill(bench_path(b, "backlog.db"), &(struct stock){ .count = b->messages });
    bare_fill(bench_path(b, "streams.db"), &(struct stock){ .count = b->messages, .streams = STREAMS });
    for (size_t i = 0; i < b->rounds; i++) {
        bare[i] = bare_round(b, bare_drain_rate);
        engine[i] = engine_round(b, "backlog.db");
        range[i] = bare_round(b, bare_drain_range_rate);
        streams[i] = engine_round(b, "streams.db");
        progress(b, "drain %zu/%zu: bare %.0f/s (by range %.0f/s), engine %.0f/s, with streams %.0f/s", i + 1,
                 b->rounds, bare[i], range[i], engine[i], streams[i]);
    }
    bare_remove(bench_path(b, "backlog.db"));
    bare_remove(bench_path(b, "streams.db"));
    bare_remove(bench_path(b, "run.db"));

    report_value("bare_read_and_delete", median(bare, b->rounds), "messages/s", BOUND_NONE, 0);
    report_value("bare_read_and_delete_by_range", median(range, b->rounds), "messages/s", BOUND_NONE, 0);
    report_turns("drain", engine, bare, b->rounds, "messages/s", BOUND_AT_LEAST, DRAIN_AT_LEAST);
    report_turns("drain_streams", streams, bare, b->rounds, "messages/s", BOUND_NONE, 0);
}

/* ---- The ledger of what has ended ------------------------------------------------------- */

/* Of one side: how fast, and what it took of the processor, which others on the machine disturb less. */
struct ended_side {
    double rate[BENCH_ROUNDS_MAX], cpu_us[BENCH_ROUNDS_MAX];
};

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void ended_round(const struct bench *b, const char *ended, struct ended_side *side, size_t i)
{
    bare_copy(bench_path(b, "backlog.db"), bench_path(b, "run.db"));
    drain_set_ended(ended);
    double cpu = cpu_seconds();
    side->rate[i] = (double)b->messages / drain_seconds(bare_url(bench_path(b, "run.db")));
    side->cpu_us[i] = (cpu_seconds() - cpu) / (double)b->messages * 1e6;
    drain_set_ended(NULL);
}

static void measure_ended(const struct bench *b)
{
    static struct ended_side with, without;
    size_t rounds = b->quick ? 3 : ENDED_ROUNDS;

    progress(b, "making a backlog of %zu messages", b->messages);
    bare_fill(bench_path(b, "backlog.db"), &(struct stock){ .count = b->messages });
    for (size_t turn = 0; turn < 2 * rounds; turn++) {
        size_t i = turn / 2;
        if ((turn % 2 == 0) == (i % 2 == 0)) /* neither side always comes first */
            ended_round(b, "0s", &without, i);
        else
            ended_round(b, "24h", &with, i);
        if (turn % 2 == 1)
            progress(b, "ledger %zu/%zu: with %.0f/s and %.2f us of the processor, without %.0f/s and %.2f us", i + 1,
                     rounds, with.rate[i], with.cpu_us[i], without.rate[i], without.cpu_us[i]);
    }
    bare_remove(bench_path(b, "backlog.db"));
    bare_remove(bench_path(b, "run.db"));
    report_turns("drain_with_ledger", with.rate, without.rate, rounds, "messages/s", BOUND_AT_LEAST, ENDED_AT_LEAST);
    report_turns("drain_with_ledger_cpu", with.cpu_us, without.cpu_us, rounds, "us/message", BOUND_AT_MOST,
                 1 / ENDED_AT_LEAST);
}

void bench_sqlite(const struct bench *b)
{
    static const struct {
        const char *name;
        void (*measure)(const struct bench *b);
    } parts[] = { { "send", measure_sending },
                  { "insert", measure_box },
                  { "drain", measure_draining },
                  { "ended", measure_ended } };
    bool found = false;
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        if (b->only != NULL && strcmp(b->only, parts[i].name) != 0)
            continue;
        found = true;
        parts[i].measure(b);
    }
    if (!found)
        die("there is no part \"%s\": see --help", b->only);
}
