/* Delivers until a signal stops it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "cli/cli.h"
#include "ops/api/http_front.h"
#include "runtime/threads/crash.h"
#include "runtime/threads/thread.h"
#include "runtime/runtime.h"

struct daemon {
    struct cli *cli;
    struct runtime *rt;
    struct log log;
    int log_fd;
    int signals;
    const char *file; /* of the configuration */

    /* A reload has a thread of its own, so that signals are handled meanwhile. */
    pthread_t reloader;
    bool reloads, again;
    int reloaded; /* a wake_fd: the reload has ended */
};

/* SIGHUP: an invalid file is reported, and the previous configuration stays in force (B203). */
static void reload(struct daemon *d)
{
    struct config *config = NULL;
    struct pr_error err;
    int r = config_load_file(d->file, &config, &err);

    if (r == PR_OK && flag_given(&d->cli->flags, FLAG_STORE))
        r = config_set_store(config, d->cli->flags.values[FLAG_STORE], &err);
    enum log_level level = r == PR_OK ? config->log_level : LOG_NONE;
    if (r == PR_OK)
        r = runtime_reload(d->rt, config, &err);
    if (r == PR_OK) {
        log_set_level(&d->log, level);
        log_emit(&d->log, LOG_INFO, "reloaded", LOG_STR("file", d->file));
        return;
    }
    config_free(config);
    log_emit(&d->log, LOG_ERROR, "reload_failed", LOG_STR("error", err.text),
             LOG_STR("next", "keeping the previous configuration"));
}

static void *reload_thread(void *arg)
{
    struct daemon *d = arg;

    reload(d);
    wake_send(d->reloaded);
    return NULL;
}

/* Signals are handled meanwhile; a SIGHUP causes one more reload after this one. */
static void begin_reload(struct daemon *d)
{
    struct pr_error err;

    if (!d->cli->config_from_file) {
        log_emit(&d->log, LOG_WARN, "reload_ignored", LOG_STR("why", "no configuration file"));
        return;
    }
    d->again = d->reloads;
    if (d->reloads)
        return;
    log_emit(&d->log, LOG_INFO, "reloading", LOG_STR("file", d->file));
    d->reloads = thread_start(&d->reloader, THREAD_STACK_LOOP, "reload", reload_thread, d, &err) == PR_OK;
    if (!d->reloads)
        log_emit(&d->log, LOG_ERROR, "reload_failed", LOG_STR("error", err.text));
}

static void end_reload(struct daemon *d)
{
    if (!d->reloads)
        return;
    ASSERT(pthread_join(d->reloader, NULL) == 0);
    wake_clear(d->reloaded);
    d->reloads = false;
}

/* Runs until a signal or a fault: EXIT_DONE, or the fault's code. */
static int serve(struct daemon *d)
{
    struct pollfd fds[] = { { .fd = d->signals, .events = POLLIN },
                            { .fd = runtime_fault_fd(d->rt), .events = POLLIN },
                            { .fd = d->reloaded, .events = POLLIN } };
    struct pr_error err;

    for (;;) {
        struct signalfd_siginfo signal_info;

        if (poll(fds, ARRAY_LENGTH(fds), -1) < 0) {
            if (errno == EINTR)
                continue;
            cli_say("poll: %s", strerror(errno));
            return EXIT_FAILED;
        }
        if (fds[1].revents != 0) {
            if (runtime_fault(d->rt, &err) != PR_OK)
                return cli_fault(&err);
            return EXIT_FAILED;
        }
        if (fds[2].revents != 0) {
            end_reload(d);
            if (d->again)
                begin_reload(d);
        }
        if (fds[0].revents == 0 || read(d->signals, &signal_info, sizeof(signal_info)) != (ssize_t)sizeof(signal_info))
            continue;
        if (signal_info.ssi_signo != SIGHUP) {
            log_emit(&d->log, LOG_INFO, "stopping", LOG_STR("signal", strsignal((int)signal_info.ssi_signo)));
            return EXIT_DONE;
        }
        begin_reload(d);
    }
}

/* The second signal ends the process now: messages being delivered count as an attempt, as after a crash. */
static void on_second_signal(int number)
{
    static const char line[] = "stopped at once: deliveries that were under way count as one attempt each\n";

    (void)number;
    if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
        _exit(EXIT_FAILED);
    _exit(EXIT_FAILED);
}

static void hear_second_signal(void)
{
    struct sigaction action = { .sa_handler = on_second_signal };
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int deliver(struct daemon *d)
{
    struct pr_error err;

    if (runtime_start(d->rt, &err) != PR_OK)
        return cli_fault(&err);
    if (runtime_http_port(d->rt) != 0)
        printf("http %u\n", runtime_http_port(d->rt));
    (void)fflush(stdout); /* a program may wait for the port */
    int code = serve(d);
    hear_second_signal();
    if (runtime_stop(d->rt, runtime_config(d->rt)->stop_timeout_us) == PR_TIMEOUT) {
        /* A handler is still running; runtime_free() would wait for it. */
        char text[160];

        (void)snprintf(text, sizeof(text),
                       "deliveries still running after %.3gs were abandoned; each counts as one attempt",
                       (double)runtime_config(d->rt)->stop_timeout_us / 1e6);
        log_emit(&d->log, LOG_WARN, "stop_timeout", LOG_STR("next", text));
        _exit(code);
    }
    end_reload(d);
    log_emit(&d->log, LOG_INFO, "stopped");
    return code;
}

static void warn_of_rights(const struct daemon *d, const struct config *config)
{
    if (geteuid() == 0)
        log_emit(&d->log, LOG_WARN, "running_as_root",
                 LOG_STR("next", "use a dedicated user: Postrider only needs access to its files"));
    if (config->open_secret_file[0] != '\0')
        log_emit(&d->log, LOG_WARN, "secret_is_readable", LOG_STR("file", config->open_secret_file),
                 LOG_STR("next", "every user of this machine can read it; run chmod 0600 on it"));
}

int run_run(struct cli *cli)
{
    struct daemon d = { .cli = cli, .log_fd = STDERR_FILENO };
    struct pr_error err;
    int code = cli_load_config(cli);

    if (code != EXIT_DONE)
        return code;
    if (!cli->config_from_file) {
        cli_say("no configuration, so nothing can be delivered: create one with postrider config init, or name one "
                "with -c FILE");
        return EXIT_CONFIG;
    }
    if (cli->config->endpoint_count == 0)
        cli_say("%s has no endpoints: messages will be parked", cli->config->file);
    runtime_tune_process();
    d.log = (struct log){ .level = cli->config->log_level,
                          .format = cli->config->log_format,
                          .clock = clock_system(),
                          .write = log_write_fd,
                          .arg = &d.log_fd };
    warn_of_rights(&d, cli->config);
    crash_report_to(d.log_fd, d.log.format);
    d.signals = cli_signals();
    d.reloaded = -1;
    d.file = slice_dup(&cli->arena, slice_from(cli->config->file)).data;
    if (d.signals < 0 || d.file == NULL) {
        cli_say("signalfd: %s", strerror(errno));
        return EXIT_FAILED;
    }
    if (wake_open(&d.reloaded, &err) < 0)
        return cli_fault(&err);
    d.rt = runtime_new(cli->config, &(struct runtime_options){ .log = &d.log, .front = &ops_http_front }, &err);
    if (d.rt == NULL) {
        code = cli_fault(&err);
    } else {
        cli->config = NULL; /* owned by the runtime now */
        code = deliver(&d);
        runtime_free(d.rt);
    }
    wake_close(d.reloaded);
    (void)close(d.signals);
    return code;
}
