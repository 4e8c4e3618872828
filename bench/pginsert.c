/* The cost of the box for senders: INSERTs into it and into tables without Postrider, in turns.
 *
 * The bare table has the same columns and nothing else.  The keyed one is an outbox as people write it themselves: a
 * number as its key, an id, a time.  All three get the same statement, prepared once by each client. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "bare.h"
#include "bench.h"
#include "pgbare.h"
#include "postgres.h"
#include "report.h"

#define INSERT_AT_LEAST 0.75
#define CLIENTS 8
#define TURN_SECONDS 0.5
#define BATCH_COUNT 500 /* messages in a transaction of one client */

enum { BOX, BARE, KEYED, TABLES };
static const char *const tables[TABLES] = { "outbox", "public.bare", "public.keyed" };

static const char MAKE_TABLES[] =
    "CREATE TABLE public.bare AS TABLE outbox WITH NO DATA; CREATE TABLE public.keyed AS TABLE outbox WITH NO DATA;"
    "ALTER TABLE public.keyed ALTER seq SET NOT NULL, ALTER seq ADD GENERATED ALWAYS AS IDENTITY, ADD PRIMARY KEY "
    "(seq),"
    " ALTER id SET DEFAULT gen_random_uuid(), ALTER created_at SET DEFAULT now()";

struct client {
    PGconn *pg;
    pthread_t thread;
    const char *table;
    size_t each; /* messages in a transaction */
    size_t count;
    double until;
};

static void client_open(struct client *c)
{
    char sql[256];
    c->pg = pgbare_open("insert");
    for (int i = 0; i < TABLES; i++) {
        snprintf(
            sql, sizeof sql,
            "PREPARE \"%s\" (text) AS INSERT INTO %s (destination, type, payload) VALUES ('sink', 'bench.message', $1)",
            tables[i], tables[i]);
        pgbare_run(c->pg, sql);
    }
}

static char payload[BENCH_PAYLOAD + 1]; /* a text */

static void client_send(struct client *c)
{
    const char *values[] = { payload };
    PGresult *result = PQexecPrepared(c->pg, c->table, 1, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        die("INSERT into %s: %s", c->table, PQerrorMessage(c->pg));
    PQclear(result);
    c->count++;
}

static void *client_run(void *arg)
{
    struct client *c = arg;
    for (c->count = 0; seconds_now() < c->until;) {
        if (c->each > 1)
            pgbare_run(c->pg, "BEGIN");
        for (size_t i = 0; i < c->each; i++)
            client_send(c);
        if (c->each > 1)
            pgbare_run(c->pg, "COMMIT");
    }
    return NULL;
}

/* Messages a second. */
static double turn(struct client *clients, size_t client_count, size_t each, const char *table)
{
    double begin = seconds_now();
    size_t count = 0;
    for (size_t i = 0; i < client_count; i++) {
        struct client *c = &clients[i];
        c->table = table;
        c->each = each;
        c->until = begin + TURN_SECONDS;
        if (pthread_create(&c->thread, NULL, client_run, c) != 0)
            die("cannot make a thread");
    }
    for (size_t i = 0; i < client_count; i++) {
        pthread_join(clients[i].thread, NULL);
        count += clients[i].count;
    }
    return (double)count / (seconds_now() - begin);
}

static void compare(const struct bench *b, const char *const names[2], struct client *clients, size_t client_count,
                    size_t each)
{
    double rates[TABLES][BENCH_ROUNDS_MAX];
    size_t rounds = b->quick ? 5 : 21;
    for (size_t i = 0; i < rounds; i++) {
        for (size_t k = 0; k < TABLES; k++) { /* none always comes first */
            size_t which = (i + k) % TABLES;
            rates[which][i] = turn(clients, client_count, each, tables[which]);
        }
        progress(b, "%s %zu/%zu: box %.0f/s, bare %.0f/s, keyed %.0f/s", names[0], i + 1, rounds, rates[BOX][i],
                 rates[BARE][i], rates[KEYED][i]);
    }
    report_turns(names[0], rates[BOX], rates[BARE], rounds, "messages/s", BOUND_AT_LEAST, INSERT_AT_LEAST);
    report_turns(names[1], rates[BOX], rates[KEYED], rounds, "messages/s", BOUND_NONE, 0);
}

void pg_measure_insert(const struct bench *b)
{
    struct client clients[CLIENTS];
    bare_payload(payload);
    pgbare_create("insert");
    PGconn *pg = pgbare_open("insert");
    pgbare_run(pg, MAKE_TABLES);
    pgbare_close(pg);
    for (size_t i = 0; i < CLIENTS; i++)
        client_open(&clients[i]);
    compare(b, (const char *const[]){ "postgres_insert_one_each", "postgres_insert_one_each_of_keyed" }, clients,
            CLIENTS, 1);
    compare(b, (const char *const[]){ "postgres_insert_many", "postgres_insert_many_of_keyed" }, clients, 1,
            BATCH_COUNT);
    for (size_t i = 0; i < CLIENTS; i++)
        pgbare_close(clients[i].pg);
    pgbare_remove("insert");
}
