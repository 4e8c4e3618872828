/* postgres.h - the parts of bench_postgres() that are in other files. */
#ifndef BENCH_POSTGRES_H
#define BENCH_POSTGRES_H

#include "bench.h"

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

#endif
