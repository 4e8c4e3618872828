/* report.h - measurements: one JSON line each, and a table at the end.
 *
 * A measurement has a value of its own, or is compared with a reference.  Where the two sides
 * took turns the ratio is the median of the ratios of each turn: what was going on elsewhere in
 * the machine slowed both. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* On the ratio when there is a reference, on the value otherwise. */
enum bound { BOUND_NONE, BOUND_AT_LEAST, BOUND_AT_MOST };

/* Each prints its line at once. */
void report_value(const char *name, double value, const char *unit, enum bound bound, double target);
void report_turns(const char *name, const double *values, const double *references, size_t count, const char *unit,
                  enum bound bound, double target);
/* The table; returns how many targets were missed. */
int report_end(bool table);

#endif
