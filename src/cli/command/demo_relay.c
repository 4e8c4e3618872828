/* The process that delivers.  It runs the same engine as `postrider run`, with C functions as endpoints; one of them
 * kills it on purpose. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/command/demo.h"
#include "runtime/program.h"
#include "runtime/runtime.h"

#define TELL_EVERY_MS 100

struct relay_demo {
    int fd;
    int64_t start_us;
    uint64_t shown_number; /* of the last failure that was reported */
};

static void tell(const struct relay_demo *d, const char *format, ...) PR_PRINTF(2, 3);

/* Each line is one write: lines of several threads do not mix. */
static void tell(const struct relay_demo *d, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    size_t size = (size_t)n < sizeof(line) - 1 ? (size_t)n : sizeof(line) - 2;
    for (size_t i = 0; i < size; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[size] = '\n';
    if (write(d->fd, line, size + 1) < 0)
        return; /* the reader is gone: a signal will follow */
}

/* Takes as long as real work would. */
static void work(int milliseconds)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = milliseconds * 1000000L }, NULL);
}

static void tell_sent(const struct relay_demo *d, const char *endpoint, const struct pr_message *m)
{
    tell(d, "sent\t%s\t%.*s\t%.*s\t%d", endpoint, SLICE_ARGS(m->type), SLICE_ARGS(m->stream), m->attempts);
}

static int take_order(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)context;
    work(8);
    tell_sent(user, "orders", m);
    return PR_OK;
}

static int take_invoice(struct pr_context *context, const struct pr_message *m, void *user)
{
    const struct relay_demo *d = user;
    double second = demo_round_seconds(d->start_us, clock_wall_us(clock_system()));

    work(15);
    if (slice_contains(m->payload, PR_STR("\"customer\":null")))
        return pr_fail(context, PR_REASON_VALIDATION_FAILURE, "the invoice names no customer");
    if (second >= DEMO_OUTAGE_FROM && second < DEMO_OUTAGE_TO)
        return pr_fail(context, PR_REASON_TRANSPORT_UNAVAILABLE, "connection refused");
    /* By id and attempt, so that a retry can succeed after a failure. */
    if ((unsigned)(m->id.bytes[15] + 83 * m->failures) % 4 == 0)
        return pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "the ledger answered 503");
    tell_sent(d, "billing", m);
    return PR_OK;
}

static int take_report(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)context;
    work(20);
    if (slice_contains(m->payload, PR_STR("\"pages\":-1"))) {
        tell(user, "crash\t%.*s\t%d", SLICE_ARGS(m->type), m->attempts);
        (void)kill(getpid(), SIGKILL); /* like a segfault or the OOM killer */
    }
    tell_sent(user, "reports", m);
    return PR_OK;
}

/* Times are short, so that a visitor sees their effect. */
static const char relay_config[] =
    "store: %s\n"
    "instance: demo\n"
    "lease: 2s\n"
    "boxes: {outbox: {keep: 1h}}\n" /* so that they can be counted, and looked at afterwards */
    "endpoints:\n"
    "  orders: {url: 'handler:orders'}\n"
    "  billing:\n"
    "    url: handler:billing\n"
    "    retry: {base: 300ms, factor: 2, cap: 5s, failures: 4, jitter: 0.1}\n"
    "    breaker: {after: 3, open: 1s, cap: 2s}\n"
    "  reports: {url: 'handler:reports', max_attempts: 5}\n"
    "routes:\n"
    "  - {type: 'order.*', to: orders}\n"
    "  - {type: 'invoice.*', to: billing}\n"
    "  - {type: 'report.*', to: reports}\n"
    "log: {level: none}\n";

static void tell_failure(const struct relay_demo *d, const struct incident *f)
{
    int64_t wait_ms = f->next_us > f->at_us ? (f->next_us - f->at_us) / 1000 : 0;

    tell(d, "failed\t%s\t%d\t%s\t%s\t%lld\t%s", f->endpoint, f->attempt, pr_reason_name(f->reason), f->step,
         (long long)wait_ms, f->error);
}

static void tell_status(struct relay_demo *d, struct runtime *rt, struct arena *arena)
{
    static const char *const breakers[] = { "closed", "open", "half-open" };
    struct runtime_status status;

    arena_reset(arena);
    if (runtime_status(rt, arena, &status) != PR_OK)
        return;
    for (size_t i = 0; i < status.endpoint_count; i++)
        tell(d, "endpoint\t%s\t%s\t%zu\t%zu", status.endpoints[i].name, breakers[status.endpoints[i].breaker],
             status.endpoints[i].waiting, status.endpoints[i].out);
    for (size_t i = status.failure_count; i > 0; i--) {
        const struct incident *f = &status.failures[i - 1];

        if (f->number <= d->shown_number)
            continue;
        d->shown_number = f->number;
        tell_failure(d, f);
    }
}

static int serve(struct relay_demo *d, struct runtime *rt, int signals)
{
    struct pollfd fds[] = { { .fd = signals, .events = POLLIN }, { .fd = runtime_fault_fd(rt), .events = POLLIN } };
    struct arena arena;
    struct pr_error err;
    int code = EXIT_DONE;

    arena_init(&arena, 65536);
    while (fds[0].revents == 0 && code == EXIT_DONE) {
        if (poll(fds, 2, TELL_EVERY_MS) < 0 && errno != EINTR)
            code = EXIT_FAILED;
        if (fds[1].revents != 0 && runtime_fault(rt, &err) != PR_OK)
            code = cli_fault(&err);
        tell_status(d, rt, &arena);
    }
    arena_fini(&arena);
    return code;
}

static struct runtime *make_runtime(struct cli *cli, struct relay_demo *d, struct pr_error *err)
{
    pr_slice text = arena_printf(&cli->arena, relay_config, cli->flags.values[FLAG_STORE]);
    struct config *config = NULL;
    struct runtime *rt = NULL;

    if (config_load_text(text, "demo", &config, err) != PR_OK)
        return NULL;
    rt = runtime_new(config, &(struct runtime_options){ 0 }, err);
    if (rt == NULL) {
        config_free(config);
        return NULL;
    }
    if (program_add_named_handler(runtime_program(rt), PR_STR("orders"), take_order, d) == PR_OK &&
        program_add_named_handler(runtime_program(rt), PR_STR("billing"), take_invoice, d) == PR_OK &&
        program_add_named_handler(runtime_program(rt), PR_STR("reports"), take_report, d) == PR_OK &&
        runtime_start(rt, err) == PR_OK)
        return rt;
    runtime_free(rt);
    return NULL;
}

int demo_relay(struct cli *cli, const char *where)
{
    struct relay_demo d = { 0 };
    long long start;
    sigset_t set;
    struct pr_error err = { 0 };

    if (cli->flags.values[FLAG_STORE] == NULL || sscanf(where, "%d:%lld", &d.fd, &start) != 2)
        return EXIT_USAGE;
    d.start_us = start;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return EXIT_FAILED;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return EXIT_FAILED;
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0)
        return EXIT_FAILED;
    runtime_tune_process();
    struct runtime *rt = make_runtime(cli, &d, &err);
    int code = rt != NULL ? serve(&d, rt, signals) : cli_fault(&err);
    if (rt != NULL && runtime_stop(rt, PR_SECONDS(3)) == PR_TIMEOUT)
        _exit(code);
    runtime_free(rt);
    (void)close(signals);
    return code;
}
