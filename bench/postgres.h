/* postgres.h - the parts of bench_postgres() that are in other files. */
#ifndef BENCH_POSTGRES_H
#define BENCH_POSTGRES_H

#include <libpq-fe.h>

#include "bench.h"

/* postgres.c: what went into the server's log between two places, without images of whole pages, when pg_wal_inspect() was called;
 * only from version 15 on. */
void pg_wal_inspect(void);
void pg_wal_place(PGconn *pg, char ret[64]);
double pg_wal_bytes(PGconn *pg, const char *from, const char *to);

/* pglive.c */
void pg_measure_latency(const struct bench *b);
void pg_measure_idle(const struct bench *b);

/* pginsert.c */
void pg_measure_insert(const struct bench *b);

/* pgburden.c; those who want it find the backlog in a database of that name. */
void pg_measure_depth(const struct bench *b);
void pg_measure_stuck(const struct bench *b);
void pg_measure_two(const struct bench *b);
void pg_measure_killed(const struct bench *b);
void pg_measure_senders(const struct bench *b);

/* pglog.c */
void pg_measure_log(const struct bench *b);

#endif
