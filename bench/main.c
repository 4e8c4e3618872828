/* postrider-bench: see the usage below. */
#include "bench.h"

#include <errno.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "listing.h"
#include "report.h"
#include "sleeping.h"

#define SERVERS_PARENT "/dev/shm"
#define SERVERS_BYTES ((uint64_t)1 << 30) /* what a server keeps of one turn, and some to spare */
#define DEEP_SPARE 10                     /* a tenth more than is told, since draining spends some */

static const char usage[] =
    "usage: postrider-bench [sqlite|latency|idle|postgres|wal|transports|listings|flow|events|inbox|timeline|all] "
    "[--messages "
    "N] "
    "[--only "
    "PART] "
    "[--quick] "
    "[--json] "
    "[--dir DIR]\n"
    "\n"
    "  sqlite        sending and draining against bare SQLite, and what burdens cost\n"
    "  latency       from a commit in another process to a handler\n"
    "  idle          the daemon's memory and processor time\n"
    "  postgres      all of it on PostgreSQL, on the server that ./dev bench postgres starts\n"
    "  wal           latency when PostgreSQL's log is the source; ./dev bench wal starts a server for it\n"
    "  transports    each transport against a raw producer, on real servers that it starts\n"
    "  listings      every listing with ten times --messages waiting and as many dead letters, on SQLite and "
    "PostgreSQL\n"
    "  flow          flows a second with a fan-out of five activities and with one, and a step of a chain, on SQLite "
    "and "
    "PostgreSQL\n"
    "  events        events beside plain messages, and a projection, on SQLite and PostgreSQL\n"
    "  inbox         handling through the C API, with dedupe, by HTTP push and pull, on SQLite and PostgreSQL\n"
    "  timeline      when one message passes which step from its INSERT to its verdict, for a picture: ./dev bench "
    "timeline\n"
    "  --messages N  size of the backlog (1000000, at least 100000); the deep one has five times as many,\n"
    "                on PostgreSQL ten times\n"
    "  --only PART   of sqlite: send, insert, drain or ended; of postgres: latency, idle, insert, drain, ended, "
    "instances, senders, killed,\n                depth, stuck, flow, lease or log (a box as a log: only when it is "
    "named);\n"
    "                of inbox: handle, push or pull;\n"
    "                of flow: fan_out, one, chain or sleeping;\n"
    "                of transports: kafka, amqp, amqp1, nats, redis, mqtt, http, http_50ms, file or exec\n"
    "  --quick       everything smaller: less than a minute, and less to be trusted\n"
    "  --json        results only, no progress and no table\n"
    "  --dir DIR     where the databases are made (TMPDIR, /var/tmp): a real disk, not tmpfs\n"
    "\n"
    "Results are JSON lines on stdout.  Exit: 0, 1 when a target was missed, 2 when it could not run.\n";

/* ---- Helpers -------------------------------------------------------------------------------- */

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("postrider-bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(2);
}

void progress(const struct bench *b, const char *format, ...)
{
    va_list args;
    if (b->json_only)
        return;
    va_start(args, format);
    fputs("-- ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

const char *bench_path(const struct bench *b, const char *name)
{
    static char paths[4][512];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", b->dir, name);
    return path;
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(const double *values, size_t count)
{
    double sorted[BENCH_ROUNDS_MAX];
    if (count == 0 || count > BENCH_ROUNDS_MAX)
        die("a median of %zu values", count);
    memcpy(sorted, values, count * sizeof sorted[0]);
    qsort(sorted, count, sizeof sorted[0], by_value);
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

#ifndef BENCH_POSTGRES
void bench_postgres(const struct bench *b)
{
    (void)b;
    die("postgres is not built in: libpq was not found");
}

void bench_wal(const struct bench *b)
{
    bench_postgres(b);
}

void listing_postgres(const struct bench *b)
{
    progress(b, "postgres is not built in: libpq was not found");
}

void sleeping_postgres(const struct bench *b)
{
    listing_postgres(b);
}
#endif

/* ---- What to do ------------------------------------------------------------------------------- */

struct order {
    bool sqlite, latency, idle, postgres, wal, transports, listings, flow, events, inbox, timeline;
    const char *dir;
    size_t messages; /* 0: not said */
};

static bool order_what(struct order *o, const char *word)
{
    bool all = strcmp(word, "all") == 0;
    const struct {
        const char *word;
        bool *ret, in_all; /* what wants a server is done only when it is asked for */
    } parts[] = { { "sqlite", &o->sqlite, true },
                  { "latency", &o->latency, true },
                  { "idle", &o->idle, true },
                  { "postgres", &o->postgres, false },
                  { "wal", &o->wal, false },
                  { "listings", &o->listings, false },
                  { "transports", &o->transports, false },
                  { "flow", &o->flow, false },
                  { "inbox", &o->inbox, false },
                  { "events", &o->events, false },
                  { "timeline", &o->timeline, false } };
    bool known = all;
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        bool named = strcmp(word, parts[i].word) == 0;
        *parts[i].ret |= named || (all && parts[i].in_all);
        known |= named;
    }
    return known;
}

static bool parse_count(const char *text, size_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long n = text != NULL ? strtoull(text, &end, 10) : 0;
    if (text == NULL || errno != 0 || end == text || *end != '\0' || n < 100 * BENCH_BATCH || n > 100000000)
        return false;
    *ret = (size_t)n / (100 * BENCH_BATCH) * (100 * BENCH_BATCH); /* so that a hundredth is whole batches */
    return true;
}

static bool parse(int argc, char **argv, struct order *o, struct bench *b)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            b->quick = true;
        else if (strcmp(argv[i], "--json") == 0)
            b->json_only = true;
        else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
            o->dir = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            b->only = argv[++i];
        else if (strcmp(argv[i], "--messages") == 0 && i + 1 < argc && parse_count(argv[i + 1], &o->messages))
            i++;
        else if (!order_what(o, argv[i]))
            return false;
    }
    if (!o->inbox && !o->sqlite && !o->latency && !o->idle && !o->postgres && !o->wal && !o->transports &&
        !o->listings && !o->flow && !o->events && !o->timeline)
        o->sqlite = o->latency = o->idle = true;
    return true;
}

/* In life their disk is not ours: on one disk with the box they would slow each other down. */
static void prepare_servers(struct bench *b)
{
    struct statvfs shm;
    bool room = statvfs(SERVERS_PARENT, &shm) == 0 && (uint64_t)shm.f_bavail * shm.f_frsize >= SERVERS_BYTES;
    snprintf(b->servers, sizeof b->servers, "%.200s/postrider-bench.XXXXXX", room ? SERVERS_PARENT : b->dir);
    if (mkdtemp(b->servers) == NULL)
        die("cannot make %s: %s", b->servers, strerror(errno));
}

static void prepare(struct bench *b, const struct order *o)
{
    b->messages = o->messages > 0 ? o->messages : b->quick ? 100000 : 1000000;
    b->deep = b->messages * 5;
    b->deep += b->deep / DEEP_SPARE;
    b->pg_deep = b->quick ? b->messages * 2 : b->messages * 10;
    b->part = max_size(b->messages / 10, 50000);
    b->rounds = 3;
    b->pair_rounds = b->quick ? 7 : 31;
    b->pair_count = b->quick ? 30000 : b->messages / 10;
    b->idle_s = b->quick ? 3 : 10;
    b->latency_s = b->quick ? 3 : 10;

    const char *parent = o->dir != NULL ? o->dir : getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/var/tmp";
    snprintf(b->dir, sizeof b->dir, "%.200s/postrider-bench.XXXXXX", parent);
    if (mkdtemp(b->dir) == NULL)
        die("cannot make a directory in %s: %s", parent, strerror(errno));
    if (o->transports || o->inbox)
        prepare_servers(b);

    char self[PATH_MAX] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        die("cannot find out who I am: %s", strerror(errno));
    snprintf(b->program, sizeof b->program, "%s/../postrider", dirname(self));
}

static int run(const struct bench *b, const struct order *o)
{
    if (o->idle)
        bench_idle(b);
    if (o->latency)
        bench_latency(b);
    if (o->sqlite) {
        bench_sqlite(b);
        if (b->only == NULL)
            bench_burden(b);
    }
    if (o->idle)
        bench_memory(b);
    if (o->postgres)
        bench_postgres(b);
    if (o->wal)
        bench_wal(b);
    if (o->transports)
        bench_transports(b);
    if (o->listings)
        bench_listings(b);
    if (o->inbox)
        bench_inbox(b);
    if (o->flow)
        bench_flow(b);
    if (o->events)
        bench_events(b);
    if (o->timeline)
        bench_timeline(b);
    int missed = report_end(!b->json_only);
    if (missed > 0)
        progress(b, "%d missed", missed);
    return missed > 0;
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

static pid_t worker;

static void pass_on(int signal_number)
{
    kill(worker, signal_number);
}

/* A child does the work, so that gigabytes of databases are removed however it ends. */
int main(int argc, char **argv)
{
    struct bench b = { .rounds = 0 };
    struct order o = { .dir = NULL };
    if (!parse(argc, argv, &o, &b)) {
        fputs(usage, stderr);
        return 2;
    }
    prepare(&b, &o);

    int status = 0;
    worker = fork();
    if (worker < 0)
        die("cannot fork: %s", strerror(errno));
    if (worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(run(&b, &o));
    }
    signal(SIGINT, pass_on);
    signal(SIGTERM, pass_on);
    while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        fprintf(stderr, "postrider-bench: ended by %s\n", strsignal(WTERMSIG(status)));
    nftw(b.dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    if (b.servers[0] != '\0')
        nftw(b.servers, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
