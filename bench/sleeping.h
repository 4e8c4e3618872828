/* sleeping.h - the cost of sleeping flows: memory, processor time and statements of a program that has many of them,
 * compared with the same program without any. */
#ifndef BENCH_SLEEPING_H
#define BENCH_SLEEPING_H

#include "bench.h"

struct sleeping_place {
    const char *name;         /* of the store, in each measurement's name */
    const char *url;          /* of a new one */
    double memory_at_most_mb; /* more than without sleeping flows */
    /* What the server did since the mark; NULL: there is none. */
    void (*mark)(void *server);
    void (*read)(void *server, double *ret_cpu_seconds, double *ret_statements);
    void *server;
};

void sleeping_measure(const struct bench *b, const struct sleeping_place *place);
/* On the server of POSTRIDER_TEST_PG. */
void sleeping_postgres(const struct bench *b);

#endif
