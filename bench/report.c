#include "report.h"

#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "bench.h"

#define MEASUREMENTS_MAX 512
#define LINE_MAX_BYTES 4096

struct measurement {
    const char *name;
    double value;
    const char *unit;
    double reference; /* NAN: none */
    double ratio;     /* to the reference */
    enum bound bound;
    double target;
};

static struct measurement all[MEASUREMENTS_MAX];
static size_t all_count;

static double compared(const struct measurement *m)
{
    return isnan(m->reference) ? m->value : m->ratio;
}

static bool passed(const struct measurement *m)
{
    switch (m->bound) {
    case BOUND_NONE: return true;
    case BOUND_AT_LEAST: return compared(m) >= m->target;
    case BOUND_AT_MOST: return compared(m) <= m->target;
    }
    return false;
}

static void print_line(const struct measurement *m)
{
    struct buf line;
    struct json_writer w;
    buf_init(&line, LINE_MAX_BYTES);
    json_init(&w, &line);
    json_begin_object(&w);
    json_key(&w, "name");
    json_cstr(&w, m->name);
    json_key(&w, "value");
    json_double(&w, m->value);
    json_key(&w, "unit");
    json_cstr(&w, m->unit);
    json_key(&w, "reference");
    json_double(&w, m->reference); /* not a number: null */
    json_key(&w, "ratio");
    json_double(&w, m->ratio);
    json_key(&w, "target");
    json_double(&w, m->bound != BOUND_NONE ? m->target : NAN);
    json_key(&w, "bound");
    json_cstr(&w, m->bound == BOUND_AT_LEAST ? "at_least" : m->bound == BOUND_AT_MOST ? "at_most" : NULL);
    json_key(&w, "pass");
    if (m->bound == BOUND_NONE)
        json_cstr(&w, NULL);
    else
        json_bool(&w, passed(m));
    json_end_object(&w);
    ASSERT(buf_failed(&line) == 0);
    printf("%s\n", line.data);
    fflush(stdout);
    buf_fini(&line);
}

static void report(const struct measurement *m)
{
    ASSERT(all_count < MEASUREMENTS_MAX);
    all[all_count] = *m;
    print_line(&all[all_count++]);
}

void report_value(const char *name, double value, const char *unit, enum bound bound, double target)
{
    report(&(struct measurement){ name, value, unit, NAN, NAN, bound, target });
}

void report_turns(const char *name, const double *values, const double *references, size_t count, const char *unit,
                  enum bound bound, double target)
{
    double ratios[BENCH_ROUNDS_MAX];
    ASSERT(count <= BENCH_ROUNDS_MAX);
    for (size_t i = 0; i < count; i++)
        ratios[i] = values[i] / references[i];
    report(&(struct measurement){ name, median(values, count), unit, median(references, count), median(ratios, count),
                                  bound, target });
}

static void print_row(const struct measurement *m)
{
    char reference[32] = "", ratio[32] = "", target[32] = "";
    if (!isnan(m->reference)) {
        snprintf(reference, sizeof reference, "%.6g", m->reference);
        snprintf(ratio, sizeof ratio, "%.3f", m->ratio);
    }
    if (m->bound != BOUND_NONE)
        snprintf(target, sizeof target, "%s %g", m->bound == BOUND_AT_LEAST ? ">=" : "<=", m->target);
    fprintf(stderr, "%-34s %10.6g %-11s %10s %7s %9s  %s\n", m->name, m->value, m->unit, reference, ratio, target,
            m->bound == BOUND_NONE ? ""
            : passed(m)            ? "ok"
                                   : "MISSED");
}

int report_end(bool table)
{
    int missed = 0;
    if (table)
        fprintf(stderr, "\n%-34s %10s %-11s %10s %7s %9s\n", "measurement", "value", "unit", "reference", "ratio",
                "target");
    for (size_t i = 0; i < all_count; i++) {
        if (table)
            print_row(&all[i]);
        missed += !passed(&all[i]);
    }
    return missed;
}
