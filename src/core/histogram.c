#include "core/histogram.h"

#define X(bound) bound,
const int64_t histogram_bounds_us[HISTOGRAM_BUCKETS] = { HISTOGRAM_BOUNDS(X) };
#undef X

void histogram_add(struct histogram *h, int64_t us)
{
    size_t i = 0;
    us = us > 0 ? us : 0;
    while (i < HISTOGRAM_BUCKETS && us > histogram_bounds_us[i])
        i++;
    h->buckets[i]++;
    h->count++;
    h->sum_us += us;
}

void histogram_merge(struct histogram *h, const struct histogram *other)
{
    for (size_t i = 0; i <= HISTOGRAM_BUCKETS; i++)
        h->buckets[i] += other->buckets[i];
    h->count += other->count;
    h->sum_us += other->sum_us;
}
