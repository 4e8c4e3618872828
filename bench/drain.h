/* drain.h - an engine in this process, with a stopwatch.
 *
 * Its endpoint "sink" is the null transport; "poison" fails every message, five times each. */
#ifndef BENCH_DRAIN_H
#define BENCH_DRAIN_H

#include "bench.h"

/* Started; ended by drain_stop(). */
struct pr_engine *drain_start(const char *path);
void drain_stop(struct pr_engine *engine);
/* Until nothing is left to do now. */
void drain_wait(struct pr_engine *engine);

/* From start to empty. */
double drain_seconds(const char *path);
/* Of the first so many in a larger backlog, without the start. */
double drain_part_rate(const char *path, size_t count);

#endif
