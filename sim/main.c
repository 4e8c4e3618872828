/* postrider-sim: runs many small lives of the engine, each determined by one seed.
 *
 *     postrider-sim --seeds 10000          run seeds 1..10000, those that ever failed first
 *     postrider-sim --seeds 1700 --today 300   ... and 300 that were never run before today
 *     postrider-sim --seed 42 --trace      run one again and show what happens
 *     postrider-sim --hash-check 200       the same seed twice gives the same history */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/util.h"
#include "life.h"

#define JOBS_MAX 64
#define SEED_SECONDS_MAX 120 /* of processor time: a run that takes longer hangs, however busy the machine is */
#define SQLITE_EVERY 20      /* one seed in this number runs on SQLite: it is several times slower */
#define CHECK_EVERY 16       /* one seed in this number walks the engine's invariants after each step */
#define KNOWN_MAX 1000       /* seeds that ever failed */
#define FAILURES_MAX 20      /* then a worker stops */

enum store_choice { STORE_BOTH, STORE_MEMORY, STORE_SQLITE };

struct options {
    uint64_t from, count;
    uint64_t today, today_count; /* more seeds, which begin with the date */
    bool one, trace, check_all;
    bool hash_check;
    enum store_choice store;
    unsigned messages;
    int64_t safety_us;
    unsigned jobs;
    const char *known;
    const char *life; /* only of this kind; NULL: of each whose turn it is */
};

/* A seed that once failed, and on which store. */
struct known {
    uint64_t seed;
    enum store_choice store;
};

/* What a worker reports to its parent, in shared memory. */
struct progress {
    uint64_t seed; /* being lived; 0: none */
    size_t kind;
    enum store_choice store;
    uint64_t seeds, messages, sends, crashes, cycles, events, failed;
    double simulated_us;
};

static const char usage[] = "usage: postrider-sim [options]\n"
                            "  --seeds N           live seeds 1..N (default 100)\n"
                            "  --from S            begin with seed S; today: with the date\n"
                            "  --today N           live N seeds more, which begin with the date\n"
                            "  --seed S            live one seed and print its hash\n"
                            "  --trace             print every event of it\n"
                            "  --hash-check N      live N seeds twice and compare their histories\n"
                            "  --store WHICH       memory, sqlite or both (default: both, by seed)\n"
                            "  --messages N        per seed (default: drawn)\n"
                            "  --minutes N         of faults per seed, in simulated time (default: drawn)\n"
                            "  --check             walk the engine's invariants after every step, in every seed\n"
                            "  --life KIND         only lives of this kind; unknown: lists them\n"
                            "  --jobs N            processes at once (default 2)\n"
                            "  --known FILE        seeds to live first; \"-\": none\n";

/* ---- One life --------------------------------------------------------------------------------- */

static bool seed_is_sqlite(const struct options *o, uint64_t seed)
{
    return o->store == STORE_BOTH ? seed % SQLITE_EVERY == 0 : o->store == STORE_SQLITE;
}

static const char *store_word(const struct options *o)
{
    return o->store == STORE_BOTH ? "" : o->store == STORE_SQLITE ? " --store sqlite" : " --store memory";
}

static void print_repeat(const struct options *o, uint64_t seed, const char *life)
{
    printf("  repeat: ./dev sim --seed %" PRIu64 "%s", seed, store_word(o));
    if (life != NULL)
        printf(" --life %s", life);
    if (o->messages != 0)
        printf(" --messages %u", o->messages);
    if (o->safety_us != 0)
        printf(" --minutes %" PRId64, o->safety_us / PR_MINUTES(1));
    printf("\n");
    fflush(stdout);
}

/* Kills this process with SIGPROF; 0: cancels that. */
static void watchdog(int seconds)
{
    const struct itimerval after = { .it_value.tv_sec = seconds };
    if (setitimer(ITIMER_PROF, &after, NULL) != 0)
        perror("postrider-sim: setitimer");
}

struct life_kind {
    const char *name;
    unsigned every;
    bool (*live)(const struct life *life, struct life_counts *counts, struct breach *ret);
};

static const struct life_kind kinds[] = {
#define X(name, every, text) { #name, every, name##_life },
    LIVES(X)
#undef X
};

/* Is it this kind's turn? */
static bool is_lived(const struct options *o, const struct life_kind *kind, uint64_t seed)
{
    return o->life != NULL ? strcmp(o->life, kind->name) == 0 : seed % kind->every == 0;
}

static bool live_kind(const struct options *o, const struct life_kind *kind, uint64_t seed, struct progress *p,
                      uint64_t *hash)
{
    struct life_counts counts = { 0 };
    struct breach breach;
    const struct life life = { .seed = seed,
                               .sqlite = seed_is_sqlite(o, seed),
                               .check = o->check_all || seed % CHECK_EVERY == 0,
                               .messages = o->messages,
                               .safety_us = o->safety_us,
                               .trace = o->trace ? stdout : NULL };
    bool good = kind->live(&life, &counts, &breach);
    if (!good) {
        printf("FAILED seed %" PRIu64 ", %s: %s: %s\n", seed, kind->name, breach.invariant, breach.text);
        print_repeat(o, seed, kind->name);
    }
    *hash = *hash * 31 + counts.hash;
    p->messages += counts.messages;
    p->sends += counts.sends;
    p->crashes += counts.crashes;
    p->cycles += counts.cycles;
    p->events += counts.events;
    p->simulated_us += counts.simulated_us;
    return good;
}

/* true: no breach. */
static bool live(const struct options *o, uint64_t seed, struct progress *p, uint64_t *ret_hash)
{
    bool good = true;
    *ret_hash = 0;
    p->seed = seed;
    watchdog(SEED_SECONDS_MAX);
    for (size_t i = 0; good && i < ARRAY_LENGTH(kinds); i++) {
        p->kind = i;
        if (is_lived(o, &kinds[i], seed))
            good = live_kind(o, &kinds[i], seed, p, ret_hash);
    }
    p->seeds++;
    p->failed += !good;
    watchdog(0);
    p->seed = 0;
    return good;
}

static bool live_twice(const struct options *o, uint64_t seed, struct progress *p)
{
    uint64_t first, second;
    bool good = live(o, seed, p, &first) && live(o, seed, p, &second);
    if (good && first != second) {
        printf("FAILED seed %" PRIu64 ": the same seed gave two histories, %016" PRIx64 " and %016" PRIx64 "\n", seed,
               first, second);
        print_repeat(o, seed, o->life);
        p->failed++;
        return false;
    }
    return good;
}

/* ---- Many lives --------------------------------------------------------------------------------- */

static void worker(const struct options *o, const struct known *known, size_t known_count, unsigned job,
                   struct progress *p)
{
    uint64_t total = known_count + o->count + o->today_count, hash;
    for (uint64_t i = job; i < total && p->failed < FAILURES_MAX; i += o->jobs) {
        struct options mine = *o;
        uint64_t seed = i < known_count              ? known[i].seed
                        : i < known_count + o->count ? o->from + (i - known_count)
                                                     : o->today + (i - known_count - o->count);
        if (i < known_count && o->store == STORE_BOTH)
            mine.store = known[i].store;
        p->store = mine.store;
        if (o->hash_check)
            live_twice(&mine, seed, p);
        else
            live(&mine, seed, p, &hash);
    }
}

static void add_up(const struct progress *jobs, unsigned count, struct progress *ret)
{
    *ret = (struct progress){ 0 };
    for (unsigned i = 0; i < count; i++) {
        ret->seeds += jobs[i].seeds;
        ret->messages += jobs[i].messages;
        ret->sends += jobs[i].sends;
        ret->crashes += jobs[i].crashes;
        ret->cycles += jobs[i].cycles;
        ret->events += jobs[i].events;
        ret->failed += jobs[i].failed;
        ret->simulated_us += jobs[i].simulated_us;
    }
}

static double real_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_seconds(int who)
{
    struct rusage used;
    getrusage(who, &used);
    return (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec / 1e6 + (double)used.ru_stime.tv_sec +
           (double)used.ru_stime.tv_usec / 1e6;
}

#define YEAR_US (365.25 * 86400 * 1e6)

static void print_summary(const struct progress *sum, double seconds, double cpu)
{
    printf("{\"seeds\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"sends\":%" PRIu64
           ",\"crashes\":%" PRIu64 ",\"cycles\":%" PRIu64 ",\"events\":%" PRIu64
           ",\"simulated_years\":%.2f,\"seconds\":%.1f,"
           "\"messages_per_second_per_core\":%.0f}\n",
           sum->seeds, sum->failed, sum->messages, sum->sends, sum->crashes, sum->cycles, sum->events,
           sum->simulated_us / YEAR_US, seconds, cpu > 0 ? (double)sum->messages / cpu : 0);
}

static void show_progress(const struct progress *jobs, const struct options *o, size_t known_count)
{
    struct progress sum;
    if (!isatty(STDERR_FILENO))
        return;
    add_up(jobs, o->jobs, &sum);
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " messages, %" PRIu64 " crashes ", sum.seeds,
            o->count + o->today_count + known_count, sum.messages, sum.crashes);
}

/* A worker that died: the engine or the simulator asserted, crashed, or hung in this seed. */
static void report_death(const struct options *o, struct progress *p, int status)
{
    struct options mine = *o;
    mine.store = p->store;
    p->failed++;
    if (p->seed == 0)
        return;
    printf("FAILED seed %" PRIu64 ": %s\n", p->seed,
           WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF ? "it hangs" : "the process died (see above)");
    print_repeat(&mine, p->seed, kinds[p->kind].name);
}

static int live_many(const struct options *o, const struct known *known, size_t known_count)
{
    double started = real_seconds(), cpu_before = cpu_seconds(RUSAGE_CHILDREN);
    struct progress *jobs =
        mmap(NULL, o->jobs * sizeof(*jobs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[JOBS_MAX];
    if (jobs == MAP_FAILED) {
        perror("postrider-sim: mmap");
        return 1;
    }
    fflush(NULL);
    for (unsigned i = 0; i < o->jobs; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            perror("postrider-sim: fork");
            return 1;
        }
        if (pids[i] == 0) {
            worker(o, known, known_count, i, &jobs[i]);
            fflush(NULL);
            _exit(0);
        }
    }
    for (unsigned left = o->jobs; left > 0;) {
        int status;
        pid_t pid = waitpid(-1, &status, isatty(STDERR_FILENO) ? WNOHANG : 0);
        if (pid < 0 && errno != EINTR)
            break;
        if (pid <= 0) {
            show_progress(jobs, o, known_count);
            nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
            continue;
        }
        left--;
        for (unsigned i = 0; i < o->jobs; i++)
            if (pids[i] == pid && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
                report_death(o, &jobs[i], status);
    }
    struct progress sum;
    add_up(jobs, o->jobs, &sum);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    print_summary(&sum, real_seconds() - started, cpu_seconds(RUSAGE_CHILDREN) - cpu_before);
    munmap(jobs, o->jobs * sizeof(*jobs));
    return sum.failed == 0 ? 0 : 1;
}

/* ---- The command line ------------------------------------------------------------------------------ */

/* Lines: a seed, its store, and what it found. */
static size_t read_known(const char *path, struct known *ret, size_t max)
{
    FILE *file = strcmp(path, "-") == 0 ? NULL : fopen(path, "r");
    char line[512], store[16];
    size_t count = 0;
    while (file != NULL && count < max && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "%" SCNu64 " %15s", &ret[count].seed, store) == 2) {
            ret[count].store = strcmp(store, "sqlite") == 0 ? STORE_SQLITE : STORE_MEMORY;
            count++;
        }
    if (file != NULL)
        fclose(file);
    return count;
}

static uint64_t number(const char *text, const char *option)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        fprintf(stderr, "postrider-sim: --%s wants a number, not \"%s\"\n", option, text);
        exit(2);
    }
    return value;
}

static enum store_choice store_choice(const char *text)
{
    if (strcmp(text, "both") == 0)
        return STORE_BOTH;
    if (strcmp(text, "memory") == 0)
        return STORE_MEMORY;
    if (strcmp(text, "sqlite") == 0)
        return STORE_SQLITE;
    fprintf(stderr, "postrider-sim: --store is memory, sqlite or both, not \"%s\"\n", text);
    exit(2);
}

static const char *life_named(const char *text)
{
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++)
        if (strcmp(kinds[i].name, text) == 0)
            return text;
    fprintf(stderr, "postrider-sim: --life \"%s\" is unknown; these are there:", text);
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++)
        fprintf(stderr, " %s", kinds[i].name);
    fputs("\n", stderr);
    exit(2);
}

/* 20260131 begins with seed 2026013100000: other lives each day, and the summary names the first. */
static uint64_t seed_of_today(void)
{
    time_t now = time(NULL);
    struct tm day;
    gmtime_r(&now, &day);
    uint64_t date = (uint64_t)(day.tm_year + 1900) * 10000 + (uint64_t)(day.tm_mon + 1) * 100 + (uint64_t)day.tm_mday;
    return date * 100000;
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        { "seeds", 1, NULL, 'n' }, { "from", 1, NULL, 'f' },     { "today", 1, NULL, 'd' },
        { "seed", 1, NULL, 's' },  { "trace", 0, NULL, 't' },    { "hash-check", 1, NULL, 'h' },
        { "store", 1, NULL, 'b' }, { "messages", 1, NULL, 'm' }, { "minutes", 1, NULL, 'u' },
        { "jobs", 1, NULL, 'j' },  { "known", 1, NULL, 'k' },    { "check", 0, NULL, 'c' },
        { "life", 1, NULL, 'l' },  { "help", 0, NULL, '?' },     { 0 },
    };
    int c, index;
    while ((c = getopt_long(argc, argv, "", longs, &index)) != -1) {
        switch (c) {
        case 'n': o->count = number(optarg, "seeds"); break;
        case 'f': o->from = strcmp(optarg, "today") == 0 ? seed_of_today() : number(optarg, "from"); break;
        case 'd':
            o->today = seed_of_today();
            o->today_count = number(optarg, "today");
            break;
        case 's':
            o->one = true;
            o->from = number(optarg, "seed");
            break;
        case 't': o->trace = true; break;
        case 'c': o->check_all = true; break;
        case 'h':
            o->hash_check = true;
            o->count = number(optarg, "hash-check");
            break;
        case 'b': o->store = store_choice(optarg); break;
        case 'm': o->messages = (unsigned)number(optarg, "messages"); break;
        case 'u': o->safety_us = PR_MINUTES(number(optarg, "minutes")); break;
        case 'j': o->jobs = (unsigned)number(optarg, "jobs"); break;
        case 'k': o->known = optarg; break;
        case 'l': o->life = life_named(optarg); break;
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind < argc || o->jobs == 0 || o->jobs > JOBS_MAX) {
        fputs(usage, stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options o = { .from = 1, .count = 100, .jobs = 2, .known = SIM_SEEDS_FILE };
    struct known known[KNOWN_MAX];
    if (sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) != SQLITE_OK ||
        sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) != SQLITE_OK)
        fputs("postrider-sim: SQLite counts and locks, and will be slower\n", stderr);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a worker that dies must not swallow what it said */
    parse(argc, argv, &o);
    if (o.one) {
        struct progress p = { 0 };
        uint64_t hash;
        bool good = live(&o, o.from, &p, &hash);
        printf("seed %" PRIu64 ": %s, %" PRIu64 " messages, %" PRIu64 " crashes, hash %016" PRIx64 "\n", o.from,
               good ? "good" : "broken", p.messages, p.crashes, hash);
        return good ? 0 : 1;
    }
    return live_many(&o, known, read_known(o.known, known, KNOWN_MAX));
}
