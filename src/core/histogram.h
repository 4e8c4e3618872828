/* Histograms of durations: counts by upper bound, the form that monitoring systems use. */
#ifndef CORE_HISTOGRAM_H
#define CORE_HISTOGRAM_H

#include <postrider.h>

/* Upper bounds in microseconds: from a single commit to a minute. */
#define HISTOGRAM_BOUNDS(X)                                                                                            \
    X(1000)                                                                                                            \
    X(5000) X(10000) X(25000) X(50000) X(100000) X(250000) X(500000) X(1000000) X(5000000) X(20000000) X(60000000)

#define X(bound) +1
enum { HISTOGRAM_BUCKETS = 0 HISTOGRAM_BOUNDS(X) };
#undef X

struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS + 1]; /* not cumulative; the last one counts what exceeds every bound */
    uint64_t count;
    int64_t sum_us;
};

extern const int64_t histogram_bounds_us[HISTOGRAM_BUCKETS];

void histogram_add(struct histogram *h, int64_t us); /* negative durations count as 0 */
void histogram_merge(struct histogram *h, const struct histogram *other);

#endif
