/* drain.h - an engine in this process, with a stopwatch.
 *
 * Its endpoint "sink" is the null transport; "poison" fails every message, five times each. */
#ifndef BENCH_DRAIN_H
#define BENCH_DRAIN_H

#include "bench.h"

/* Started; ended by drain_stop(). */
struct pr_engine *drain_start(const char *url);
/* With another endpoint as "sink", as it stands in the configuration: "{url: ...}". */
struct pr_engine *drain_start_at(const char *url, const char *sink);
/* Such a one: a handler that fails each message of the type "bench.flaky" once. */
#define DRAIN_FLAKY "{url: \"handler:flaky\", retry: [20ms], breaker: off}"
/* The setting `ended` of engines that are started from now on; NULL: the default. */
void drain_set_ended(const char *span);
void drain_stop(struct pr_engine *engine);
/* Until nothing is left to do now. */
void drain_wait(struct pr_engine *engine);

/* How many it has sent. */
uint64_t drain_sent(struct pr_engine *engine);
/* The time when the counter next reaches at_least, and what it then says: it moves in steps, so both are
 * taken right after one. */
uint64_t drain_sent_at(struct pr_engine *engine, uint64_t at_least, double *ret_seconds);
/* Messages a second from the first one after `sent` to the count-th; all of them must be there. */
double drain_next_rate(struct pr_engine *engine, uint64_t sent, size_t count);

/* From start to empty. */
double drain_seconds(const char *url);
/* Of the first so many in a larger backlog, without the start. */
double drain_part_rate(const char *url, size_t count);

#endif
