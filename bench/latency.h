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

struct latency_run {
    const struct latency_sender *sender;
    const char *place;    /* for the sender */
    const char *url;      /* of the store */
    const char *sources;  /* lines of the config; NULL: none */
    const char *names[4]; /* of the measurements: p50, p99; with the INSERT: p50, p99 */
    double p50_at_most_ms, p99_at_most_ms;
};

void latency_measure(const struct bench *b, const struct latency_run *run);

#endif
