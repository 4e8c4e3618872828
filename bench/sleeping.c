/* See sleeping.h.  Each program is a process of its own, forked from one that has done nothing yet. */
#include "sleeping.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <postrider_flow.h>

#include "daemon.h"
#include "report.h"

#define SLEEPERS 100000
#define SLEEPERS_QUICK 10000
#define STARTERS 8
#define SETTLE_S 6             /* until looks are as far apart as they get, and what has ended is purged */
#define WATCH_S 60             /* a purge is in it; quick: a renewal of the lease */
#define CPU_AT_MOST 0.1        /* per cent of a core more */
#define STATEMENTS_AT_MOST 0.1 /* a second more */
#define ASLEEP_TIMEOUT_S 600

static struct {
    _Atomic size_t count;
} * asleep; /* in memory that all processes share */

static int sleeper(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task timer = pr_timer(f, PR_MINUTES(60) * 24 * 365);
    (void)input;
    if (!pr_is_replaying(f))
        atomic_fetch_add(&asleep->count, 1);
    return pr_result(f, timer, ret_output, NULL);
}

/* ---- Processes ------------------------------------------------------------------------------------- */

struct host {
    pid_t pid;
    int stop; /* closed: it stops */
};

static void be_host(const char *url, int stop)
{
    char config[2048], byte;
    struct pr_error error;
    snprintf(config, sizeof config, "store: \"%s\"\nlog: {level: error}\n", url);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL || pr_engine_flow(engine, "sleeper", NULL, sleeper, NULL) != PR_OK ||
        pr_engine_start(engine, &error) != PR_OK)
        die("flows that sleep: %s", error.text);
    while (read(stop, &byte, 1) > 0)
        ;
    pr_engine_stop(engine, PR_SECONDS(10));
    pr_engine_free(engine);
    _exit(0);
}

static struct host host_start(const char *url)
{
    int ends[2];
    struct host h;
    if (pipe(ends) < 0 || (h.pid = fork()) < 0)
        die("cannot begin a process");
    if (h.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        be_host(url, ends[0]);
    }
    close(ends[0]);
    h.stop = ends[1];
    return h;
}

static void await_end(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die("a process of flows that sleep did not end well: status %d", status);
}

static void host_stop(const struct host *h)
{
    close(h->stop);
    await_end(h->pid);
}

/* ---- Putting flows to sleep -------------------------------------------------------------------------- */

struct starter {
    struct pr_flow_client *client;
    size_t count;
};

static void *starter_main(void *arg)
{
    const struct starter *s = arg;
    const struct pr_flow_start start = { .name = "sleeper", .input = PR_STR("until next year") };
    struct pr_error error;
    for (size_t i = 0; i < s->count; i++)
        if (pr_flow_start(s->client, &start, NULL, &error) != PR_OK)
            die("a flow cannot be started: %s", error.text);
    return NULL;
}

static void be_starter(const char *url, size_t count)
{
    pthread_t threads[STARTERS];
    struct starter s = { .count = count / STARTERS };
    struct pr_error error;
    if (pr_flow_client_open(url, &s.client, &error) != PR_OK)
        die("%s", error.text);
    for (size_t i = 0; i < STARTERS; i++)
        if (pthread_create(&threads[i], NULL, starter_main, &s) != 0)
            die("cannot start a thread");
    for (size_t i = 0; i < STARTERS; i++)
        pthread_join(threads[i], NULL);
    pr_flow_client_close(s.client);
    _exit(0);
}

static void pause_seconds(size_t seconds)
{
    nanosleep(&(struct timespec){ .tv_sec = (time_t)seconds }, NULL);
}

static void put_to_sleep(const char *url, size_t count)
{
    double deadline = seconds_now() + ASLEEP_TIMEOUT_S;
    struct host h = host_start(url);
    pause_seconds(1); /* it makes the tables */
    pid_t starter = fork();
    if (starter < 0)
        die("cannot begin a process");
    if (starter == 0)
        be_starter(url, count);
    await_end(starter);
    while (atomic_load(&asleep->count) < count) {
        if (seconds_now() > deadline)
            die("only %zu of %zu flows sleep", atomic_load(&asleep->count), count);
        pause_seconds(1);
    }
    host_stop(&h);
}

/* ---- Measuring ---------------------------------------------------------------------------------------- */

struct idleness {
    double memory_mb, cpu_percent, statements; /* a second */
};

static struct idleness watch(const struct bench *b, const struct sleeping_place *place)
{
    struct idleness i = { 0 };
    double server_cpu = 0, statements = 0;
    struct host h = host_start(place->url);
    pause_seconds(SETTLE_S);
    if (place->mark != NULL)
        place->mark(place->server);
    double begin = seconds_now(), cpu = daemon_cpu_seconds(h.pid);
    pause_seconds(b->quick ? WATCH_S / 10 : WATCH_S);
    cpu = daemon_cpu_seconds(h.pid) - cpu;
    if (place->read != NULL)
        place->read(place->server, &server_cpu, &statements);
    double seconds = seconds_now() - begin;
    i.memory_mb = daemon_memory_mb(h.pid, "VmRSS");
    i.cpu_percent = (cpu + server_cpu) / seconds * 100;
    i.statements = statements / seconds;
    host_stop(&h);
    return i;
}

static void report(const char *store, const char *what, double value, double without, const char *unit, double most)
{
    char *names[3] = { NULL };
    const char *const formats[] = { "flow_%s_sleeping_%s", "flow_%s_without_sleeping_%s", "flow_%s_sleeping_%s_more" };
    for (size_t i = 0; i < 3; i++)
        if (asprintf(&names[i], formats[i], store, what) < 0) /* the report keeps them until the end */
            die("out of memory");
    report_value(names[0], value, unit, BOUND_NONE, 0);
    report_value(names[1], without, unit, BOUND_NONE, 0);
    report_value(names[2], value - without, unit, BOUND_AT_MOST, most);
}

void sleeping_measure(const struct bench *b, const struct sleeping_place *place)
{
    size_t count = b->quick ? SLEEPERS_QUICK : SLEEPERS;
    asleep = mmap(NULL, sizeof *asleep, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (asleep == MAP_FAILED)
        die("out of memory");
    progress(b, "a program without flows on %s", place->name);
    struct idleness without = watch(b, place);
    progress(b, "%zu flows go to sleep", count);
    put_to_sleep(place->url, count);
    progress(b, "the same program with them");
    struct idleness with = watch(b, place);
    munmap(asleep, sizeof *asleep);
    report(place->name, "memory", with.memory_mb, without.memory_mb, "MB", place->memory_at_most_mb);
    report(place->name, "cpu", with.cpu_percent, without.cpu_percent, "% of a core", CPU_AT_MOST);
    if (place->read != NULL)
        report(place->name, "statements", with.statements, without.statements, "1/s", STATEMENTS_AT_MOST);
}
