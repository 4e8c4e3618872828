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
#include "latency.h"
#include "report.h"

#define PER_SECOND 100
#define ARRIVAL_TIMEOUT_S 10

static void sleep_until(double seconds)
{
    struct timespec t = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

static void await_go(const struct latency_board *board)
{
    while (!__atomic_load_n(&board->go, __ATOMIC_ACQUIRE))
        sleep_until(seconds_now() + 0.001);
}

static void produce(const struct latency_run *run, struct latency_board *board)
{
    await_go(board);
    void *conn = run->sender->open(run->place);
    double start = seconds_now();
    for (size_t i = 0; i < board->count; i++) {
        sleep_until(start + (double)i / PER_SECOND);
        board->begun[i] = seconds_now();
        run->sender->insert(conn, &i, sizeof i);
        board->committed[i] = seconds_now();
    }
    run->sender->close(conn);
}

static int handle(struct pr_context *context, const struct pr_message *message, void *user)
{
    struct latency_board *board = user;
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

static struct pr_engine *start_engine(const struct latency_run *run, struct latency_board *board)
{
    char config[1024];
    struct pr_error error;
    snprintf(config, sizeof config,
             "store: \"%s\"\nendpoints: {here: {url: \"handler:here\"}}\nroutes: [{to: here}]\nlog: "
             "{level: error}\n%s",
             run->url, run->sources != NULL ? run->sources : "");
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

static void report_latency(const struct latency_run *run, const struct latency_board *board)
{
    double *after = malloc(2 * board->count * sizeof *after), *whole = after + board->count;
    if (after == NULL)
        die("no memory");
    for (size_t i = 0; i < board->count; i++) {
        /* The handler may be called before the producer is scheduled again. */
        after[i] = board->handled[i] > board->committed[i] ? (board->handled[i] - board->committed[i]) * 1e3 : 0;
        whole[i] = (board->handled[i] - board->begun[i]) * 1e3;
    }
    qsort(after, board->count, sizeof *after, by_value);
    qsort(whole, board->count, sizeof *whole, by_value);
    size_t p50 = board->count / 2, p99 = board->count * 99 / 100;
    report_value(run->names[0], after[p50], "ms", BOUND_AT_MOST, run->p50_at_most_ms);
    report_value(run->names[1], after[p99], "ms", BOUND_AT_MOST, run->p99_at_most_ms);
    report_value(run->names[2], whole[p50], "ms", BOUND_NONE, 0);
    report_value(run->names[3], whole[p99], "ms", BOUND_NONE, 0);
    free(after);
}

void latency_measure(const struct bench *b, const struct latency_run *run)
{
    struct latency_board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        die("no memory");
    board->count = min_size(b->latency_s * PER_SECOND, LATENCY_COUNT_MAX);
    progress(b, "latency: %zu messages, %d a second", board->count, PER_SECOND);

    pid_t pid = fork(); /* before the engine has threads */
    if (pid < 0)
        die("cannot fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        produce(run, board);
        _exit(0);
    }
    struct pr_engine *engine = start_engine(run, board);
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
    if (run->report != NULL)
        run->report(run, board);
    else
        report_latency(run, board);
    munmap(board, sizeof *board);
}

/* ---- SQLite ----------------------------------------------------------------------------------- */

struct sqlite_sender {
    sqlite3 *db;
    sqlite3_stmt *insert;
};

static void *sqlite_sender_open(const char *path)
{
    struct sqlite_sender *sender = malloc(sizeof *sender);
    if (sender == NULL)
        die("no memory");
    sender->db = bare_open(path, 1000);
    if (sqlite3_prepare_v2(sender->db, "INSERT INTO outbox (type, payload) VALUES ('bench.latency', ?1)", -1,
                           &sender->insert, NULL) != SQLITE_OK)
        die("the producer: %s", sqlite3_errmsg(sender->db));
    return sender;
}

static void sqlite_sender_insert(void *self, const void *payload, size_t size)
{
    struct sqlite_sender *sender = self;
    sqlite3_bind_blob(sender->insert, 1, payload, (int)size, SQLITE_STATIC);
    if (sqlite3_step(sender->insert) != SQLITE_DONE || sqlite3_reset(sender->insert) != SQLITE_OK)
        die("the producer: %s", sqlite3_errmsg(sender->db));
}

static void sqlite_sender_close(void *self)
{
    struct sqlite_sender *sender = self;
    sqlite3_finalize(sender->insert);
    bare_close(sender->db);
    free(sender);
}

const struct latency_sender latency_sqlite_sender = { sqlite_sender_open, sqlite_sender_insert, sqlite_sender_close };

void bench_latency(const struct bench *b)
{
    const char *path = bench_path(b, "latency.db");
    bare_create(path);
    latency_measure(b,
                    &(struct latency_run){
                        .sender = &latency_sqlite_sender,
                        .place = path,
                        .url = bare_url(path),
                        .names = { "latency_p50", "latency_p99", "latency_with_insert_p50", "latency_with_insert_p99" },
                        .p50_at_most_ms = 3.0,
                        .p99_at_most_ms = 20.0,
                    });
    bare_remove(path);
}
