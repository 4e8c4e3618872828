/* report.h - measurements: one JSON line each, and a table at the end. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <math.h>
#include <stdbool.h>

enum bound { BOUND_NONE, BOUND_AT_LEAST, BOUND_AT_MOST };

struct measurement {
    const char *name;
    double      value;
    const char *unit;
    double      reference; /* NAN: none */
    double      ratio;     /* NAN: value / reference */
    enum bound  bound;     /* on the ratio when there is a reference, on the value otherwise */
    double      target;
};

#define NO_REFERENCE NAN

/* Prints its line at once. */
void report_add(const struct measurement *m);
/* The table; returns how many targets were missed. */
int report_end(bool table);

#endif
