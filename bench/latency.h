/* latency.h - from a commit in another process to the handler's call. */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include "bench.h"

/* Whoever sends: it knows nothing of Postrider. */
struct latency_sender {
    void *(*open)(const char *place);
    /* A message of the type "bench.latency" with this payload, committed on return. */
    void (*insert)(void *self, const void *payload, size_t size);
    void (*close)(void *self);
};

#define LATENCY_COUNT_MAX 10000

/* What the two processes have noted, each on the same clock. */
struct latency_board {
    bool go;
    size_t count;
    double begun[LATENCY_COUNT_MAX], committed[LATENCY_COUNT_MAX], handled[LATENCY_COUNT_MAX];
    size_t handled_count;
};

struct latency_run {
    const struct latency_sender *sender;
    const char *place;    /* for the sender */
    const char *url;      /* of the store */
    const char *sources;  /* lines of the config; NULL: none */
    const char *names[4]; /* of the measurements: p50, p99; with the INSERT: p50, p99 */
    double p50_at_most_ms, p99_at_most_ms;
    /* In the place of these; NULL: they are reported. */
    void (*report)(const struct latency_run *run, const struct latency_board *board);
};

extern const struct latency_sender latency_sqlite_sender;
#ifdef BENCH_POSTGRES
extern const struct latency_sender latency_postgres_sender; /* its place is a database of pgbare.h */
#endif

void latency_measure(const struct bench *b, const struct latency_run *run);

#endif
