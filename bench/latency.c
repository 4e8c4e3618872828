/* From a commit in another process to the handler's call.
 *
 * The producer is a process of its own that knows nothing of Postrider: a plain INSERT, a
 * hundred times a second.  It notes in shared memory when each COMMIT returned. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bare.h"
#include "base/error.h"
#include "bench.h"
#include "report.h"

#define PER_SECOND 100
#define COUNT_MAX 10000
#define P50_AT_MOST_MS 3.0
#define P99_AT_MOST_MS 20.0
#define ARRIVAL_TIMEOUT_S 10

struct board { /* shared by the two processes */
    bool go;
    size_t count;
    double begun[COUNT_MAX], committed[COUNT_MAX], handled[COUNT_MAX];
    size_t handled_count;
};

static void sleep_until(double seconds)
{
    struct timespec t = { .tv_sec = (time_t)seconds,
                          .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

static void await_go(const struct board *board)
{
    while (!__atomic_load_n(&board->go, __ATOMIC_ACQUIRE))
        sleep_until(seconds_now() + 0.001);
}

static void produce(const char *path, struct board *board)
{
    sqlite3_stmt *insert;
    await_go(board);
    sqlite3 *db = bare_open(path, 1000);
    if (sqlite3_prepare_v2(db, "INSERT INTO outbox (type, payload) VALUES ('bench.latency', ?1)", -1, &insert,
                           NULL) != SQLITE_OK)
        die("the producer: %s", sqlite3_errmsg(db));
    double start = seconds_now();
    for (size_t i = 0; i < board->count; i++) {
        sleep_until(start + (double)i / PER_SECOND);
        sqlite3_bind_blob(insert, 1, &i, sizeof i, SQLITE_STATIC);
        board->begun[i] = seconds_now();
        if (sqlite3_step(insert) != SQLITE_DONE || sqlite3_reset(insert) != SQLITE_OK)
            die("the producer: %s", sqlite3_errmsg(db));
        board->committed[i] = seconds_now();
    }
    sqlite3_finalize(insert);
    bare_close(db);
}

static int handle(struct pr_context *context, const struct pr_message *message, void *user)
{
    struct board *board = user;
    size_t i;
    double now = seconds_now();
    (void)context;
    if (message->payload.size != sizeof i)
        die("a message arrived damaged");
    memcpy(&i, message->payload.data, sizeof i);
    if (board->handled[i] == 0) {
        board->handled[i] = now;
        __atomic_add_fetch(&board->handled_count, 1, __ATOMIC_RELEASE);
    }
    return PR_OK;
}

static struct pr_engine *start_engine(const char *path, struct board *board)
{
    char config[1024];
    struct pr_error error;
    snprintf(config, sizeof config,
             "store: \"sqlite:%s\"\nendpoints: {here: {url: \"handler:here\"}}\nroutes: [{to: here}]\nlog: "
             "{level: error}\n",
             path);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL || pr_engine_handle_named(engine, "here", handle, board) < 0 ||
        pr_engine_start(engine, &error) < 0)
        die("%s", error.text);
    return engine;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report_latency(const struct board *board)
{
    double *after = malloc(2 * board->count * sizeof *after), *whole = after + board->count;
    if (after == NULL)
        die("no memory");
    for (size_t i = 0; i < board->count; i++) {
        /* The handler may be called before the producer is scheduled again. */
        after[i] =
            board->handled[i] > board->committed[i] ? (board->handled[i] - board->committed[i]) * 1e3 : 0;
        whole[i] = (board->handled[i] - board->begun[i]) * 1e3;
    }
    qsort(after, board->count, sizeof *after, by_value);
    qsort(whole, board->count, sizeof *whole, by_value);
    size_t p50 = board->count / 2, p99 = board->count * 99 / 100;
    report_value("latency_p50", after[p50], "ms", BOUND_AT_MOST, P50_AT_MOST_MS);
    report_value("latency_p99", after[p99], "ms", BOUND_AT_MOST, P99_AT_MOST_MS);
    report_value("latency_with_insert_p50", whole[p50], "ms", BOUND_NONE, 0);
    report_value("latency_with_insert_p99", whole[p99], "ms", BOUND_NONE, 0);
    free(after);
}

void bench_latency(const struct bench *b)
{
    const char *path = bench_path(b, "latency.db");
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        die("no memory");
    board->count = min_size(b->latency_s * PER_SECOND, COUNT_MAX);
    progress(b, "latency: %zu messages, %d a second", board->count, PER_SECOND);
    bare_create(path);

    pid_t pid = fork(); /* before the engine has threads */
    if (pid < 0)
        die("cannot fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        produce(path, board);
        _exit(0);
    }
    struct pr_engine *engine = start_engine(path, board);
    struct pr_error error;
    int status;
    if (pr_engine_drain(engine, PR_SECONDS(10), &error) != PR_OK)
        die("the engine does not come to rest");
    __atomic_store_n(&board->go, true, __ATOMIC_RELEASE);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die("the producer failed");
    double deadline = seconds_now() + ARRIVAL_TIMEOUT_S;
    while (__atomic_load_n(&board->handled_count, __ATOMIC_ACQUIRE) < board->count && seconds_now() < deadline)
        sleep_until(seconds_now() + 0.001);
    if (board->handled_count < board->count)
        die("only %zu of %zu messages arrived", board->handled_count, board->count);
    if (pr_engine_stop(engine, PR_SECONDS(10)) != PR_OK)
        die("the engine did not stop");
    pr_engine_free(engine);
    report_latency(board);
    munmap(board, sizeof *board);
    bare_remove(path);
}
