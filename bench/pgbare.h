/* pgbare.h - PostgreSQL without Postrider, on the very tables that Postrider makes.
 *
 * Every measurement has a database of its own, on the server that POSTRIDER_TEST_PG names.  A backlog
 * is made once and copied file by file, so that both sides find the same pages. */
#ifndef BENCH_PGBARE_H
#define BENCH_PGBARE_H

#include <libpq-fe.h>
#include <stdatomic.h>

#include "bench.h"

/* ---- Databases --------------------------------------------------------------------------------- */

/* Of a database on the server; borrowed until the fourth call from now. */
const char *pgbare_url(const char *database);
/* A new database with Postrider's tables; one of that name is removed. */
void pgbare_create(const char *database);
/* Nobody may be connected to `from`. */
void pgbare_copy(const char *from, const char *to);
void pgbare_remove(const char *database);

PGconn *pgbare_open(const char *database);
void pgbare_close(PGconn *pg);
void pgbare_run(PGconn *pg, const char *sql);
double pgbare_number(PGconn *pg, const char *sql);
/* The result, if it is none of a failure; owned by the caller. */
PGresult *pgbare_must(PGconn *pg, PGresult *result);
/* A statement on one connection, parsed and planned once. */
void pgbare_prepare(PGconn *pg, const char *name, const char *sql);

/* Microseconds of the processor that the server's process for this connection has used; it must be on this machine. */
double pgbare_server_us(PGconn *pg);

/* ---- Messages ------------------------------------------------------------------------------------ */

/* To the endpoint "sink" or, with streams, to streams in turn; in one transaction. */
void pgbare_insert(PGconn *pg, size_t count, size_t streams);
/* As fast as can be, without durability; afterwards all of it is on disk, and looked through once. */
void pgbare_fill(const char *database, size_t count);
void pgbare_set_durable(bool durable);
/* As an application sends: so many messages in transactions of `batch`.  Messages a second. */
double pgbare_send_rate(PGconn *pg, size_t count, size_t batch);

/* The columns of a message that has failed once, what they become, and how it is found when its time has come. */
#define PGBARE_FATE "status, attempts, failures, failure_reason, failed_at, due_at, error, story"
#define PGBARE_FATE_FAILED                                                                                             \
    "1 | 32768, 1, 1, 1, now(), now() + interval '20 milliseconds', 'it said no',"                                     \
    " '[{\"at\":\"2026-01-01T00:00:00Z\",\"step\":\"retry\",\"reason\":\"timeout\",\"attempt\":1}]'::json"
#define PGBARE_DUE                                                                                                     \
    "SELECT b.id, b.lane, b.seq, b.destination, b.stream, b.type, b.payload FROM outbox b WHERE b.due_at <= now()"     \
    " AND b.held_by IS NULL ORDER BY b.due_at, b.seq, coalesce(b.row_id, b.seq) LIMIT 1000"
/* Messages of this type fail at their first attempt. */
#define PGBARE_FLAKY "bench.flaky"

/* What a relay cannot do without: read 64 lanes by key, delete what the last read returned, insert one
 * receipt; one transaction, one round trip.  What fails is updated, and read again by its time.  Messages a second. */
double pgbare_drain_rate(PGconn *pg, size_t count);
/* The same, as long as it is wanted and there are messages.  Messages a second. */
double pgbare_drain_while(PGconn *pg, const atomic_bool *wanted);

/* ---- A queue as it is often written -------------------------------------------------------------- */

/* Rows are leased by an UPDATE, and deleted when they are done. */
void pgbare_lease_create(PGconn *pg);
/* So many messages in and out.  Messages a second. */
double pgbare_lease_rate(PGconn *pg, size_t count);

#endif
