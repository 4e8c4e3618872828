/* The time of each step of one message, from its INSERT to the commit of its verdict.
 *
 * The engine runs in this process with fail points (base/failpoint.h): here they record the time instead of failing.
 * Messages come as in latency.c, a hundred a second, so nothing else happens at the same time.  bench/timeline.py draws
 * the results. */
#include <sched.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bare.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "bench.h"
#include "latency.h"
#ifdef BENCH_POSTGRES
#include "pgbare.h"
#endif
#include "report.h"

#define PASSES_MAX 500000
#define LINE_MAX_BYTES 4096

/* ---- What was passed ------------------------------------------------------------------------ */

static struct pass {
    const char *point;
    double at;
} passes[PASSES_MAX];
static atomic_size_t pass_count;

void failpoint(const char *name)
{
    double now = seconds_now();
    size_t i = atomic_fetch_add(&pass_count, 1);
    if (i < PASSES_MAX)
        passes[i] = (struct pass){ name, now };
}

/* The first time in a span, or the last one; 0: never. */
static double passed(const char *point, double from, double until, bool last)
{
    double found = 0;
    size_t count = min_size(atomic_load(&pass_count), PASSES_MAX);
    for (size_t i = 0; i < count; i++)
        if (passes[i].at >= from && passes[i].at <= until && strcmp(passes[i].point, point) == 0 &&
            (!(found > 0) || (last ? passes[i].at > found : passes[i].at < found)))
            found = passes[i].at;
    return found;
}

/* ---- The way of each message -------------------------------------------------------------------- */

enum hop { COMMITTED, WOKEN, READ, ANNOUNCED, HANDLED, JUDGED, ENDED, HOPS };
static const char *const hop_names[HOPS] = { "committed", "woken", "read", "announced", "handled", "judged", "ended" };

/* Times since the INSERT began.  False: something is not as with most of them, such as a cycle that renews a lease. */
static bool follow(const struct latency_board *board, size_t i, double ret[HOPS])
{
    double begun = board->begun[i], handled = board->handled[i];
    double until = i + 1 < board->count ? board->begun[i + 1] : handled + 1;
    double at[HOPS] = { [COMMITTED] = board->committed[i], [HANDLED] = handled };
    at[WOKEN] = passed("runtime.before_cycle", begun, handled, false);
    at[READ] = passed("store.cycle.after_commit", begun, handled, false);
    at[ANNOUNCED] = passed("store.cycle.after_commit", begun, handled, true); /* READ, where one cycle does both */
    at[JUDGED] = passed("runtime.before_cycle", handled, until, false);
    at[ENDED] = passed("store.cycle.after_commit", at[JUDGED], until, false);
    for (int hop = 0; hop < HOPS; hop++) {
        if (!(at[hop] > 0))
            return false;
        ret[hop] = (at[hop] - begun) * 1e3;
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The name lives until the table is printed. */
static const char *name_of(const struct latency_run *run, int hop, const char *share)
{
    char *name = malloc(64);
    if (name == NULL)
        die("no memory");
    snprintf(name, 64, "timeline_%s_%s_%s", run->names[0], hop_names[hop], share);
    return name;
}

static void report_timeline(const struct latency_run *run, const struct latency_board *board)
{
    static double times[HOPS][LATENCY_COUNT_MAX];
    size_t count = 0;
    for (size_t i = 0; i < board->count; i++) {
        double one[HOPS];
        if (!follow(board, i, one))
            continue;
        for (int hop = 0; hop < HOPS; hop++)
            times[hop][count] = one[hop];
        count++;
    }
    if (count < board->count / 2)
        die("only %zu of %zu messages passed all steps: ./dev bench timeline builds the program that notes them", count,
            board->count);
    for (int hop = 0; hop < HOPS; hop++) {
        qsort(times[hop], count, sizeof times[hop][0], by_value);
        report_value(name_of(run, hop, "p10"), times[hop][count / 10], "ms", BOUND_NONE, 0);
        report_value(name_of(run, hop, "p50"), times[hop][count / 2], "ms", BOUND_NONE, 0);
        report_value(name_of(run, hop, "p90"), times[hop][count * 9 / 10], "ms", BOUND_NONE, 0);
    }
}

/* ---- Where it was measured ------------------------------------------------------------------------ */

static void processor(char ret[128])
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(ret, 128, "unknown processor");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "model name : %127[^\n]", ret) == 1)
            break;
    if (file != NULL)
        fclose(file);
}

/* What repeats it, as far as this program knows. */
static void command_line(const struct bench *b, char ret[64])
{
    struct sched_param priority = { .sched_priority = 0 };
    (void)sched_getparam(0, &priority);
    snprintf(ret, 64, "%s./dev bench timeline%s", priority.sched_priority > 0 ? "chrt -r 5 " : "",
             b->quick ? " --quick" : "");
}

static void print_machine(const struct bench *b, const char *postgres)
{
    struct buf line;
    struct json_writer w;
    struct utsname system;
    char cpu[128], date[16], command[64];
    double load = 0;
    time_t now = time(NULL);
    struct tm day;
    processor(cpu);
    command_line(b, command);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &day));
    (void)getloadavg(&load, 1);
    if (uname(&system) != 0)
        die("uname fails");
    buf_init(&line, LINE_MAX_BYTES);
    json_init(&w, &line);
    json_begin_object(&w);
    json_key(&w, "machine");
    json_begin_object(&w);
    json_key(&w, "processor");
    json_cstr(&w, cpu);
    json_key(&w, "cores");
    json_int(&w, sysconf(_SC_NPROCESSORS_ONLN));
    json_key(&w, "kernel");
    json_cstr(&w, system.release);
    json_key(&w, "load");
    json_double(&w, load);
    json_key(&w, "date");
    json_cstr(&w, date);
    json_key(&w, "sqlite");
    json_cstr(&w, sqlite3_libversion());
    json_key(&w, "postgresql");
    json_cstr(&w, postgres);
    json_key(&w, "messages");
    json_int(&w, (int64_t)b->latency_s * 100);
    json_key(&w, "command");
    json_cstr(&w, command);
    json_end_object(&w);
    json_end_object(&w);
    printf("%s\n", line.data);
    buf_fini(&line);
}

/* ---- Both stores ------------------------------------------------------------------------------------ */

static void measure(const struct bench *b, const char *name, const struct latency_sender *sender, const char *place,
                    const char *url)
{
    atomic_store(&pass_count, 0);
    progress(b, "timeline on %s", name);
    latency_measure(b,
                    &(struct latency_run){
                        .sender = sender, .place = place, .url = url, .names = { name }, .report = report_timeline });
}

#ifdef BENCH_POSTGRES
static void server_version(char ret[64])
{
    PGconn *pg = pgbare_open("postgres");
    snprintf(ret, 64, "%s", PQparameterStatus(pg, "server_version"));
    pgbare_close(pg);
}
#endif

void bench_timeline(const struct bench *b)
{
    const char *path = bench_path(b, "timeline.db");
    char version[64] = "";
#ifdef BENCH_POSTGRES
    server_version(version);
#endif
    print_machine(b, version);
    bare_create(path);
    measure(b, "sqlite", &latency_sqlite_sender, path, bare_url(path));
    bare_remove(path);
#ifdef BENCH_POSTGRES
    pgbare_create("timeline");
    measure(b, "postgres", &latency_postgres_sender, "timeline", pgbare_url("timeline"));
    pgbare_remove("timeline");
#endif
}
