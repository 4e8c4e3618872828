/* worker.c - an engine whose single handler does what the type of a message says. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "runtime/program.h"
#include "runtime/runtime.h"

#include "digest.h"
#include "program.h"

struct worker {
    const char *dir;
    int history;
    atomic_long signal_in; /* calls until it sends itself a signal; 0: never */
    int signal;
};

static void pause_a_moment(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* ---- What a type means ---------------------------------------------------------------------- */

/* Returns when DIR/open-ATTEMPT is there, or gives up when it is asked to. */
static int wait_for_gate(struct worker *w, struct pr_context *context, const struct pr_message *m)
{
    char name[32];
    snprintf(name, sizeof name, "open-%d", m->attempts);
    while (!file_exists(w->dir, name)) {
        if (pr_should_stop(context))
            return pr_fail(context, PR_REASON_UNKNOWN, "asked to stop");
        pause_a_moment();
    }
    return PR_OK;
}

/* The same, but asks nobody whether to stop: it is done when the gate is open. */
static int wait_deaf(struct worker *w, struct pr_context *context, const struct pr_message *m)
{
    (void)context;
    (void)m;
    while (!file_exists(w->dir, "open-deaf"))
        pause_a_moment();
    return PR_OK;
}

static int fail_behind_gate(struct worker *w, struct pr_context *context, const struct pr_message *m)
{
    int rc = wait_for_gate(w, context, m);
    return rc == PR_OK && m->attempts == 1 ? pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "too late to matter") : rc;
}

static int flaky(struct worker *w, struct pr_context *context, const struct pr_message *m)
{
    (void)w;
    return m->failures == 0 ? pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "not yet") : PR_OK;
}

static int doomed(struct worker *w, struct pr_context *context, const struct pr_message *m)
{
    (void)w;
    (void)m;
    return pr_fail(context, PR_REASON_VALIDATION_FAILURE, "never");
}

static int crash(struct worker *w, struct pr_context *context, const struct pr_message *m)
{
    (void)w;
    (void)context;
    (void)m;
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
    return PR_OK;
}

static int loop(struct worker *w, struct pr_context *context, const struct pr_message *m)
{
    (void)w;
    (void)context;
    while (m != NULL) /* it always is: for ever */
        pause_a_moment();
    return PR_OK;
}

static int do_nothing(struct worker *w, struct pr_context *context, const struct pr_message *m)
{
    (void)w;
    (void)context;
    (void)m;
    return PR_OK;
}

static const struct {
    const char *type;
    int (*act)(struct worker *w, struct pr_context *context, const struct pr_message *m);
} acts[] = {
    { "ok", do_nothing },
    { "flaky", flaky },
    { "doomed", doomed },
    { "crash", crash },
    { "loop", loop },
    { "gate", wait_for_gate },
    { "gate-fail", fail_behind_gate },
    { "deaf", wait_deaf },
};

static int act(struct worker *w, struct pr_context *context, const struct pr_message *m)
{
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (slice_eq_cstr(m->type, acts[i].type))
            return acts[i].act(w, context, m);
    return pr_fail(context, PR_REASON_UNKNOWN, "no such type");
}

/* ---- The handler ------------------------------------------------------------------------------ */

static int handle(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct worker *w = user;
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(m->id, id);
    if (atomic_load(&w->signal_in) > 0 && atomic_fetch_sub(&w->signal_in, 1) == 1)
        kill(getpid(), w->signal);
    FAILPOINT("handler.before");
    record(w->history, "S %s %.*s %lld %d %d %016llx %d\n", id, m->stream.size > 0 ? (int)m->stream.size : 1,
           m->stream.size > 0 ? m->stream.data : "-", (long long)m->seq, m->attempts, m->failures,
           (unsigned long long)digest(m->payload.data, m->payload.size), (int)getpid());
    FAILPOINT("handler.inside");
    int rc = act(w, context, m);
    record(w->history, "E %s %d %s %d\n", id, m->attempts, rc == PR_OK ? "ok" : "failed", (int)getpid());
    FAILPOINT("handler.after");
    return rc;
}

/* ---- The process ---------------------------------------------------------------------------------- */

/* anew: as if something had changed that needs all of it stopped and started. */
static void reload(struct runtime *rt, const char *path, bool anew)
{
    struct config *config = NULL;
    struct pr_error error;
    int rc = config_load_file(path, &config, &error);
    if (rc == PR_OK && anew)
        config->rest_digest++;
    if (rc == PR_OK && runtime_reload(rt, config, &error) == PR_OK)
        return;
    fprintf(stderr, "reload: %s\n", error.text);
    config_free(config);
}

/* Until SIGTERM: 0; until a fault: 1. */
static int serve(struct runtime *rt, int signals, const char *config_path)
{
    struct pollfd fds[] = { { .fd = signals, .events = POLLIN }, { .fd = runtime_fault_fd(rt), .events = POLLIN } };
    struct signalfd_siginfo info;
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return 1;
        if (fds[1].revents != 0)
            return 1;
        if (read(signals, &info, sizeof info) != (ssize_t)sizeof info)
            continue;
        if (info.ssi_signo == SIGTERM)
            return 0;
        reload(rt, config_path, info.ssi_signo == SIGUSR1);
    }
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    return sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_CLOEXEC) : -1;
}

static long environment_number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* The runtime, started; NULL: the log says why not. */
static struct runtime *start(struct worker *w, struct log *log, const char *config_path)
{
    struct config *config = NULL;
    struct runtime *rt = NULL;
    struct pr_error error = { 0 };
    if (config_load_file(config_path, &config, &error) == PR_OK)
        rt = runtime_new(config, &(struct runtime_options){ .log = log, .migrate = true }, &error);
    if (rt != NULL &&
        program_add_handler(runtime_program(rt), (pr_slice){ NULL, 0 }, PR_STR("*"), handle, w) == PR_OK &&
        runtime_start(rt, &error) == PR_OK)
        return rt;
    log_emit(log, LOG_ERROR, "worker_failed", LOG_STR("error", error.text));
    if (rt == NULL)
        config_free(config);
    runtime_free(rt);
    return NULL;
}

int work(const char *dir)
{
    struct worker w = { .dir = dir,
                        .history = record_open(dir, "history"),
                        .signal = (int)environment_number("FAULTS_SIGNAL") };
    int log_fd = record_open(dir, "log"), signals = open_signals();
    struct log log = { .level = LOG_INFO, .clock = clock_system(), .write = log_write_fd, .arg = &log_fd };
    char path[512];
    atomic_store(&w.signal_in, environment_number("FAULTS_AFTER"));
    snprintf(path, sizeof path, "%s/config.yaml", dir);

    struct runtime *rt = start(&w, &log, path);
    if (rt == NULL)
        return 3;
    int code = serve(rt, signals, path);
    if (runtime_stop(rt, runtime_config(rt)->stop_timeout_us) == PR_TIMEOUT)
        _exit(4); /* a handler still runs */
    runtime_free(rt);
    close(w.history);
    close(log_fd);
    close(signals);
    return code;
}
