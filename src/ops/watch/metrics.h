/* metrics.h - /metrics: the Prometheus text format.
 *
 * Counters and histograms belong to this process, since its start or its last reload.  Gauges of boxes are the store's,
 * so all instances report the same: counts are exact up to 10,000, and read once in METRICS_FRESH_US however often they
 * are scraped; postrider_counts_age_seconds is their age. */
#ifndef OPS_WATCH_METRICS_H
#define OPS_WATCH_METRICS_H

#include "base/buf.h"
#include "runtime/runtime.h"

#define METRICS_FRESH_US PR_SECONDS(2)

struct metrics;

struct metrics *metrics_new(void); /* NULL: no memory */
void metrics_free(struct metrics *m);

/* Errors stick in the buf. */
void metrics_write(struct metrics *m, struct runtime *rt, const struct runtime_inside *in, struct buf *b);

#endif
