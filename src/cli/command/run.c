/* Deliver until told to stop. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "ops/api/http_front.h"
#include "runtime/threads/crash.h"
#include "runtime/runtime.h"

struct daemon {
    struct cli *cli;
    struct runtime *rt;
    struct log log;
    int log_fd;
    int signals;
};

/* SIGHUP: a wrong file is told, and the old configuration goes on (B203). */
static void reload(struct daemon *d)
{
    const struct config *old = runtime_config(d->rt);
    struct config *config = NULL;
    struct pr_error err;
    int r;

    if (!d->cli->config_from_file) {
        log_emit(&d->log, LOG_WARN, "reload_ignored", LOG_STR("why", "no configuration file"));
        return;
    }
    r = config_load_file(old->file, &config, &err);
    if (r == PR_OK && flag_given(&d->cli->flags, FLAG_STORE))
        r = config_set_store(config, d->cli->flags.values[FLAG_STORE], &err);
    if (r == PR_OK)
        r = runtime_reload(d->rt, config, &err);
    if (r == PR_OK) {
        log_emit(&d->log, LOG_INFO, "reloaded", LOG_STR("file", runtime_config(d->rt)->file));
        return;
    }
    config_free(config);
    log_emit(&d->log, LOG_ERROR, "reload_failed", LOG_STR("error", err.text),
             LOG_STR("next", "keeping the previous configuration"));
}

/* Until a signal or a fault: EXIT_DONE, or the fault's. */
static int serve(struct daemon *d)
{
    struct pollfd fds[] = { { .fd = d->signals, .events = POLLIN },
                            { .fd = runtime_fault_fd(d->rt), .events = POLLIN } };
    struct pr_error err;

    for (;;) {
        struct signalfd_siginfo signal_info;

        if (poll(fds, 2, -1) < 0) {
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
        if (read(d->signals, &signal_info, sizeof(signal_info)) != (ssize_t)sizeof(signal_info))
            continue;
        if (signal_info.ssi_signo != SIGHUP) {
            log_emit(&d->log, LOG_INFO, "stopping", LOG_STR("signal", strsignal((int)signal_info.ssi_signo)));
            return EXIT_DONE;
        }
        reload(d);
    }
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static int deliver(struct daemon *d)
{
    struct pr_error err;

    if (runtime_start(d->rt, &err) != PR_OK)
        return cli_fault(&err);
    if (runtime_http_port(d->rt) != 0)
        printf("http %u\n", runtime_http_port(d->rt));
    (void)fflush(stdout); /* somebody may wait for the port */
    int code = serve(d);
    if (runtime_stop(d->rt, runtime_config(d->rt)->stop_timeout_us) == PR_TIMEOUT) {
        /* A handler still runs; runtime_free() would wait for it. */
        char text[160];

        (void)snprintf(text, sizeof(text),
                       "deliveries still running after %.3gs were abandoned; each counts as one attempt",
                       (double)runtime_config(d->rt)->stop_timeout_us / 1e6);
        log_emit(&d->log, LOG_WARN, "stop_timeout", LOG_STR("next", text));
        _exit(code);
    }
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
    d.signals = open_signals();
    if (d.signals < 0) {
        cli_say("signalfd: %s", strerror(errno));
        return EXIT_FAILED;
    }
    d.rt = runtime_new(cli->config, &(struct runtime_options){ .log = &d.log, .front = &ops_http_front }, &err);
    if (d.rt == NULL) {
        code = cli_fault(&err);
    } else {
        cli->config = NULL; /* the runtime's now */
        code = deliver(&d);
        runtime_free(d.rt);
    }
    (void)close(d.signals);
    return code;
}
