#include "transport/process/helper.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/delivery.h"
#include "transport/process/parcel.h"

#define PAUSE_FIRST_US PR_MILLISECONDS(100)
#define PAUSE_LAST_US PR_SECONDS(30)
#define LOOK_MS 50       /* how often to check whether the engine stops */
#define WRITE_SECONDS 10 /* for a message, to a helper that reads; and for the rest of a result, from one that writes */
#define PARCEL_MAX ((size_t)1 << 31)

/* ---- In the helper -------------------------------------------------------------------------------------- */

static void run_job(const struct parcel_job *job, pr_handler handler, void *user, struct handler_stop *stop,
                    struct delivery_result *ret)
{
    struct pr_context context;
    /* The settings that a handler's context reads.  The slices end with a NUL: parcels keep them so. */
    const struct endpoint_config config = { .name = job->name.data,
                                            .box = job->box.data,
                                            .store_url = job->has_store ? job->store_url.data : NULL,
                                            .timeout_us = job->timeout_us,
                                            .keep_us = job->keep_us,
                                            .dedupe_us = job->dedupe_us,
                                            .lease_us = job->lease_us,
                                            .wake_fd = -1 };
    context_init(&context, &job->delivery, &config, clock_system(), job->deadline_us, stop);
    context_finish(&context, handler(&context, &job->message, user), ret);
    fflush(NULL);
}

_Noreturn void helper_main(int fd, int memory_fd, pr_handler handler, void *user)
{
    struct handler_stop *stop = mmap(NULL, sizeof(*stop), PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    struct buf parcel;
    buf_init(&parcel, PARCEL_MAX);
    while (stop != MAP_FAILED && parcel_receive(fd, &parcel)) {
        struct parcel_job job;
        struct delivery_result result;
        if (!parcel_read_job(&parcel, &job))
            break;
        run_job(&job, handler, user, stop, &result);
        parcel_write_result(&parcel, &result);
        delivery_result_fini(&result);
        if (!parcel_send(fd, &parcel))
            break;
    }
    _exit(0);
}

/* ---- In the program ---------------------------------------------------------------------------------------- */

int helper_init(struct helper *p, const struct endpoint_config *config, const struct clock *clock,
                struct pr_error *reterr)
{
    *p = (struct helper){ .config = config, .clock = clock, .fd = -1, .memory_fd = -1 };
    buf_init(&p->parcel, PARCEL_MAX);
    p->memory_fd = memfd_create("postrider-handler", MFD_CLOEXEC);
    if (p->memory_fd < 0 || ftruncate(p->memory_fd, sizeof(*p->stop)) != 0)
        return error_set(reterr, PR_EIO, "endpoint %s: memory for its process: %s", config->name, strerror(errno));
    p->stop = mmap(NULL, sizeof(*p->stop), PROT_READ | PROT_WRITE, MAP_SHARED, p->memory_fd, 0);
    if (p->stop == MAP_FAILED) {
        p->stop = NULL;
        return error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory", config->name);
    }
    return PR_OK;
}

/* How it ended: by itself, or by being killed now. */
static int end_process(struct helper *p)
{
    int status = -1;
    if (p->process.pid > 0)
        status = launcher_end(p->config->launcher, p->process);
    if (p->fd >= 0)
        close(p->fd);
    p->process.pid = 0;
    p->fd = -1;
    return status;
}

void helper_fini(struct helper *p)
{
    if (p->config == NULL)
        return;
    (void)end_process(p);
    if (p->stop != NULL)
        munmap(p->stop, sizeof(*p->stop));
    if (p->memory_fd >= 0)
        close(p->memory_fd);
    buf_fini(&p->parcel);
}

int64_t helper_pause(const struct helper *p, int64_t now_us)
{
    return p->process.pid > 0 ? 0 : max64(p->not_before_us - now_us, 0);
}

static int start_process(struct helper *p, struct pr_error *reterr)
{
    int ends[2];
    const struct timeval patience = { .tv_sec = WRITE_SECONDS };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return error_set(reterr, PR_EIO, "socketpair: %s", strerror(errno));
    int rc = launcher_fork(p->config->launcher, p->config->handler, p->config->handler_user, ends[1], p->memory_fd,
                           &p->process, reterr);
    close(ends[1]);
    if (rc != PR_OK) {
        close(ends[0]);
        return rc;
    }
    (void)setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    (void)setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    p->fd = ends[0];
    return PR_OK;
}

/* X3 */
static void lengthen_pause(struct helper *p)
{
    p->pause_us = min64(max64(2 * p->pause_us, PAUSE_FIRST_US), PAUSE_LAST_US);
    p->not_before_us = clock_mono_us(p->clock) + p->pause_us;
}

static void describe_end(int status, char code[RESULT_CODE_SIZE], char *text, size_t size)
{
    if (status >= 0 && WIFSIGNALED(status)) {
        snprintf(code, RESULT_CODE_SIZE, "signal %d", WTERMSIG(status));
        snprintf(text, size, "the handler's process was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else if (status >= 0) {
        snprintf(code, RESULT_CODE_SIZE, "exit %d", WEXITSTATUS(status));
        snprintf(text, size, "the handler's process ended by itself, with exit code %d", WEXITSTATUS(status));
    } else {
        snprintf(code, RESULT_CODE_SIZE, "gone");
        snprintf(text, size, "the handler's process is gone");
    }
}

static void log_death(const struct helper *p, const char *code, pr_slice type, int64_t attempt)
{
    log_emit(p->config->log, LOG_ERROR, "handler_died", LOG_STR("endpoint", p->config->name), LOG_STR("code", code),
             LOG_SLICE("type", type), LOG_INT("attempt", attempt));
}

/* X1 */
static void fail_by_death(struct helper *p, const struct delivery *d, struct delivery_result *ret)
{
    char code[RESULT_CODE_SIZE], text[200];
    describe_end(end_process(p), code, text, sizeof(text));
    result_failed(ret, d->token, SEND_FAILED, PR_REASON_HANDLER_EXCEPTION, code, slice_from(text));
    log_death(p, code, d->message->type, d->attempt);
    lengthen_pause(p);
}

/* X1: it has no message, so any output now is its end, or was not requested. */
static void bury_idle(struct helper *p)
{
    char code[RESULT_CODE_SIZE], text[200];
    struct pollfd says = { .fd = p->fd, .events = POLLIN };
    if (p->process.pid == 0 || poll(&says, 1, 0) <= 0)
        return;
    describe_end(end_process(p), code, text, sizeof(text));
    log_death(p, code, PR_STR(""), 0);
}

/* X2 */
static void fail_by_deadline(struct helper *p, const struct delivery *d, struct delivery_result *ret)
{
    (void)end_process(p);
    result_failed(ret, d->token, SEND_FAILED, PR_REASON_TIMEOUT_EXCEEDED, "killed",
                  PR_STR("the handler did not return after pr_should_stop() was true; its process was killed"));
    log_emit(p->config->log, LOG_ERROR, "handler_overran", LOG_STR("endpoint", p->config->name),
             LOG_SLICE("type", d->message->type), LOG_INT("attempt", d->attempt));
    lengthen_pause(p);
}

static bool send_job(struct helper *p, const struct delivery *d, const struct pr_message *message, int64_t deadline_us)
{
    const struct endpoint_config *c = p->config;
    const struct parcel_job job = { .delivery = *d,
                                    .message = *message,
                                    .deadline_us = deadline_us,
                                    .timeout_us = c->timeout_us,
                                    .keep_us = c->keep_us,
                                    .dedupe_us = c->dedupe_us,
                                    .lease_us = c->lease_us,
                                    .name = slice_from(c->name),
                                    .box = slice_from(c->box),
                                    .store_url = slice_from(c->store_url),
                                    .has_store = c->store_url != NULL };
    parcel_write_job(&p->parcel, &job);
    return parcel_send(p->fd, &p->parcel);
}

/* True: there is something to read, or the end.  False: end_us has passed. */
static bool wait_for_answer(struct helper *p, int64_t end_us, const atomic_bool *cancelled)
{
    struct pollfd ready = { .fd = p->fd, .events = POLLIN };
    for (;;) {
        if (poll(&ready, 1, LOOK_MS) > 0)
            return true;
        if (atomic_load(cancelled))
            atomic_store(&p->stop->cancelled, true);
        if (clock_mono_us(p->clock) >= end_us)
            return false;
    }
}

void helper_run(struct helper *p, const struct delivery *d, const struct pr_message *message, int64_t deadline_us,
                int64_t grace_us, const atomic_bool *cancelled, struct delivery_result *ret)
{
    struct pr_error error = { 0 };
    bury_idle(p);
    if (p->process.pid == 0 && start_process(p, &error) != PR_OK) {
        lengthen_pause(p);
        result_unsent(ret, d->token, PR_REASON_TRANSPORT_UNAVAILABLE, "", slice_from(error.text));
        return;
    }
    atomic_store(&p->stop->cancelled, atomic_load(cancelled));
    if (!send_job(p, d, message, deadline_us)) {
        fail_by_death(p, d, ret);
        return;
    }
    if (!wait_for_answer(p, time_add(deadline_us, grace_us), cancelled)) {
        fail_by_deadline(p, d, ret);
        return;
    }
    if (!parcel_receive(p->fd, &p->parcel) || !parcel_read_result(&p->parcel, ret)) {
        fail_by_death(p, d, ret);
        return;
    }
    ret->token = d->token;
    p->pause_us = 0;
}
