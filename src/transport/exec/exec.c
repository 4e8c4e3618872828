/* exec: a program handles the message.
 *
 *   exec:PROGRAM ARGUMENTS              one run for each message: the payload is its standard input, the
 *                                       CloudEvents attributes are CE_ID, CE_TYPE ... in its environment,
 *                                       its exit code is the answer
 *   exec:PROGRAM ARGUMENTS?mode=lines   it keeps running: a JSON line for each message, and a line answers it
 *
 * No shell reads the words.  Each worker has one program and one message at a time, so a program that crashes or hangs
 * costs exactly the message in its hands.
 *
 *   idle --> (ready -->) working --> dying --> idle
 *
 *   X1  A worker has a delivery exactly while it is working.
 *   X2  A program that was started is reaped: in poll, or in close at the latest. */
#include "transport/exec/exec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"
#include "transport/delivery.h"
#include "transport/envelope.h"

#define EXEC_CONCURRENCY 4
#define EXEC_CONCURRENCY_MAX 1024         /* processes */
#define EXEC_QUEUE 32                     /* messages that wait here in addition to those that programs have */
#define EXEC_GATHER 16                    /* results that are returned together while others wait ... */
#define EXEC_GATHER_US PR_MILLISECONDS(1) /* ... or as many as there are after this time */
#define EXEC_EVENTS_MAX 64                /* that are taken at a time */
#define EXEC_WOKEN UINT32_MAX             /* a wake-up by the caller, not a worker's event */

enum { FD_END, FD_OUT, FD_ERR, FD_IN, EXEC_FDS }; /* descriptors of each worker to wait for */

enum worker_state {
    WORKER_IDLE,  /* no program */
    WORKER_READY, /* lines: the program waits for a message */
    WORKER_WORKING,
    WORKER_DYING, /* killed, not yet reaped */
};

struct worker {
    enum worker_state state;
    struct child child;
    const struct delivery *delivery;
    bool ready[EXEC_FDS]; /* it has ended; there is something to read; it accepts more */
    bool awaits_room;     /* waits until it accepts more */
    struct buf line;      /* its input ... */
    size_t written;
    struct buf answer; /* ... and output */
};

struct exec {
    const struct endpoint_config *config;
    const struct clock *clock;
    enum envelope envelope;
    bool lines;
    struct arena arena; /* of words */
    struct arena scratch;
    char *words[EXEC_WORDS_MAX + 1];
    struct worker *workers;
    size_t worker_count;
    struct leftovers leftovers;
    int epoll; /* watches the output of each program, so that quiet ones cost nothing */
    struct delivery_queue waiting;
    int64_t *waits_since_us; /* when each waiting delivery came, by its place in the ring */
    struct delivery_result *done;
    size_t done_count, taken_count, capacity; /* of results: of all that was taken */
};

/* ---- Life and death ------------------------------------------------------------------------------ */

static int exec_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    char *words[EXEC_WORDS_MAX + 1];
    struct arena arena;
    bool lines = false;

    arena_init(&arena, 1024);
    int rc = exec_words(config, &arena, words, &lines, reterr);
    arena_fini(&arena);
    if (rc == PR_OK)
        rc = envelope_check(config, reterr);
    if (rc == PR_OK && lines && config->envelope != NULL && strcmp(config->envelope, "raw") == 0)
        rc = error_set(reterr, PR_ECONFIG,
                       "endpoint %s: mode=lines sends structured messages; envelope raw needs mode=message",
                       config->name);
    if (rc == PR_OK && config->concurrency > EXEC_CONCURRENCY_MAX)
        rc = error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency can be at most %d", config->name,
                       EXEC_CONCURRENCY_MAX);
    return rc;
}

/* With SIGCHLD ignored the system forgets how a program ended before it can be asked. */
static bool ends_are_forgotten(void)
{
    struct sigaction action;
    return sigaction(SIGCHLD, NULL, &action) == 0 &&
           (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0);
}

/* Closed descriptors are removed automatically. */
static int watch(const struct exec *x, int fd, uint32_t events, uint32_t what)
{
    struct epoll_event event = { .events = events, .data.u32 = what };
    return epoll_ctl(x->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

static uint32_t inline_results_of(const struct exec *x, const struct worker *w, size_t which)
{
    return (uint32_t)((size_t)(w - x->workers) * EXEC_FDS + which);
}

static int exec_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct exec *x = self;
    size_t count = config->concurrency != 0 ? config->concurrency : EXEC_CONCURRENCY;

    x->config = config;
    x->clock = config_clock(config);
    x->epoll = -1;
    arena_init(&x->arena, 1024);
    arena_init(&x->scratch, 4096);
    (void)envelope_parse(config->envelope, &x->envelope); /* exec_check() has */
    int rc = exec_words(config, &x->arena, x->words, &x->lines, reterr);
    if (rc != PR_OK)
        return rc;
    if (ends_are_forgotten())
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: this process ignores SIGCHLD, so the exit codes of programs would be lost",
                         config->name);
    x->capacity = count + EXEC_QUEUE;
    x->workers = calloc(count, sizeof(*x->workers));
    x->done = calloc(x->capacity, sizeof(*x->done));
    x->waits_since_us = calloc(x->capacity, sizeof(*x->waits_since_us));
    if (x->workers == NULL || x->done == NULL || x->waits_since_us == NULL)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory for %zu programs", config->name, count);
    for (; x->worker_count < count; x->worker_count++) {
        struct worker *w = &x->workers[x->worker_count];
        child_init(&w->child);
        buf_init(&w->line, ENVELOPE_JSON_MAX);
        buf_init(&w->answer, EXEC_ANSWER_MAX);
    }
    x->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (x->epoll < 0 || (config->wake_fd >= 0 && watch(x, config->wake_fd, EPOLLIN, EXEC_WOKEN) != 0))
        return error_set(reterr, PR_EIO, "endpoint %s: cannot wait for programs: %s", config->name,
                         strerrordesc_np(errno));
    return delivery_queue_init(&x->waiting, x->capacity, reterr);
}

static void exec_close(void *self)
{
    struct exec *x = self;
    siginfo_t how;

    if (x->config == NULL)
        return;
    for (size_t i = 0; i < x->worker_count; i++) {
        struct worker *w = &x->workers[i];
        child_kill(&w->child);
        if (w->child.pid != 0)
            (void)child_reap(&w->child, true, NULL, &how); /* X2 */
        buf_fini(&w->line);
        buf_fini(&w->answer);
    }
    while (x->done_count > 0)
        delivery_result_fini(&x->done[--x->done_count]);
    delivery_queue_fini(&x->waiting);
    arena_fini(&x->arena);
    arena_fini(&x->scratch);
    if (x->epoll >= 0)
        close(x->epoll);
    free(x->workers);
    free(x->done);
    free(x->waits_since_us);
}

static size_t exec_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct exec *x = self;
    int64_t now_us = clock_mono_us(x->clock);
    size_t behind = x->waiting.first + x->waiting.count;
    size_t taken = delivery_queue_push(&x->waiting, list, min_size(count, x->capacity - x->taken_count));
    for (size_t i = 0; i < taken; i++)
        x->waits_since_us[(behind + i) % x->capacity] = now_us;
    x->taken_count += taken;
    return taken;
}

static void exec_cancel(void *self)
{
    struct exec *x = self;
    delivery_queue_cancel(&x->waiting);
}

/* ---- A message begins ------------------------------------------------------------------------------------ */

static struct delivery_result *done_add(struct exec *x)
{
    ASSERT(x->done_count < x->capacity);
    return &x->done[x->done_count++];
}

/* Starts a program, and watches its output.  Returns 0 or an errno. */
static int spawn(struct exec *x, struct worker *w, char *const *environment, int stdin_fd)
{
    siginfo_t how;
    int rc = child_spawn(&w->child, x->words, environment, stdin_fd);
    if (rc != 0)
        return rc;
    const int fds[EXEC_FDS] = { [FD_END] = w->child.pidfd,
                                [FD_OUT] = w->child.out,
                                [FD_ERR] = w->child.err,
                                [FD_IN] = -1 /* only while there is no room */ };
    for (size_t i = 0; i < EXEC_FDS && rc == 0; i++)
        if (fds[i] >= 0)
            rc = watch(x, fds[i], EPOLLIN, inline_results_of(x, w, i));
    w->awaits_room = false;
    if (rc != 0) {
        child_kill(&w->child);
        (void)child_reap(&w->child, true, NULL, &how);
    }
    return rc;
}

static int start_program(struct exec *x, struct worker *w, const struct delivery *d)
{
    char **environment = exec_environment(&x->scratch, x->config, x->envelope, d->message);
    int fd = environment != NULL ? exec_input(&w->line, x->envelope, x->config->source, d->message) : -1;
    int rc = environment == NULL ? ENOMEM : fd < 0 ? errno : spawn(x, w, environment, fd);

    if (fd >= 0)
        close(fd);
    return rc;
}

static void write_line(struct worker *w)
{
    while (w->child.in >= 0 && w->written < w->line.size) {
        ssize_t n = send(w->child.in, w->line.data + w->written, w->line.size - w->written, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return; /* later; or it is gone, which shows up otherwise */
        w->written += (size_t)n;
    }
}

static int start_line(struct exec *x, struct worker *w, const struct delivery *d)
{
    int rc = 0;
    if (w->state == WORKER_IDLE) {
        char **environment = exec_environment(&x->scratch, x->config, x->envelope, NULL);
        rc = environment == NULL ? ENOMEM : spawn(x, w, environment, -1);
        buf_reset(&w->answer);
    }
    if (rc != 0)
        return rc;
    w->state = WORKER_READY;
    buf_reset(&w->line);
    cloudevent_write_line(&w->line, d->message, x->config->source);
    w->written = 0;
    w->child.tail_size = 0;
    if (buf_failed(&w->line))
        return ENOMEM;
    write_line(w);
    return 0;
}

static void start(struct exec *x, struct worker *w, const struct delivery *d)
{
    arena_reset(&x->scratch);
    int rc = x->lines ? start_line(x, w, d) : start_program(x, w, d);
    if (rc == 0) {
        w->state = WORKER_WORKING;
        w->delivery = d;
    } else {
        exec_judge_spawn(x->words[0], rc, d->token, done_add(x));
    }
}

/* A worker with a running program is preferred. */
static struct worker *find_worker(struct exec *x)
{
    struct worker *found = NULL;
    for (size_t i = 0; i < x->worker_count; i++) {
        struct worker *w = &x->workers[i];
        if (w->state == WORKER_READY)
            return w;
        if (w->state == WORKER_IDLE && found == NULL)
            found = w;
    }
    return found;
}

static void start_waiting(struct exec *x, int64_t now_us)
{
    const struct delivery *d;
    bool may_start;
    while ((d = delivery_queue_peek(&x->waiting, now_us, &may_start)) != NULL) {
        may_start = may_start && !delivery_has_waited(x->waits_since_us[x->waiting.first], x->config, now_us);
        struct worker *w = may_start ? find_worker(x) : NULL;
        if (may_start && w == NULL)
            return;
        delivery_queue_drop(&x->waiting);
        if (may_start)
            start(x, w, d);
        else
            result_returned(done_add(x), d->token);
    }
}

/* ---- ... and ends ------------------------------------------------------------------------------------------- */

static void kill_worker(struct worker *w)
{
    child_kill(&w->child);
    w->delivery = NULL;
    w->state = WORKER_DYING;
}

/* Its answer line is there.  Any further output was not requested. */
static void take_answer(struct exec *x, struct worker *w)
{
    const char *end = w->answer.size > 0 ? memchr(w->answer.data, '\n', w->answer.size) : NULL;
    size_t size = end != NULL ? (size_t)(end - w->answer.data) : w->answer.size;
    bool talks = end == NULL || size + 1 < w->answer.size || w->written < w->line.size;

    if (end == NULL && !buf_failed(&w->answer))
        return;
    bool good = exec_judge_line((pr_slice){ w->answer.data, size }, w->delivery, done_add(x)) && !talks;
    buf_reset(&w->answer);
    if (good) {
        w->delivery = NULL;
        w->state = WORKER_READY;
    } else {
        kill_worker(w);
    }
}

static void listen_to(struct exec *x, struct worker *w)
{
    if (w->ready[FD_ERR])
        child_read(&w->child, &w->child.err, NULL);
    if (w->ready[FD_OUT])
        child_read(&w->child, &w->child.out, x->lines ? &w->answer : NULL);
    if (!x->lines)
        return;
    if (w->ready[FD_IN])
        write_line(w);
    if (w->state == WORKER_WORKING)
        take_answer(x, w);
    else if (w->state == WORKER_READY && w->answer.size > 0)
        kill_worker(w); /* the pairing of lines is lost: the next answer could be another's */
}

static void see_end(struct exec *x, struct worker *w, int64_t now_us)
{
    siginfo_t how;
    pid_t group = w->child.pid;
    if (w->state == WORKER_IDLE)
        return;
    if (w->ready[FD_END] && child_reap(&w->child, false, x->lines ? &w->answer : NULL, &how)) {
        if (w->state == WORKER_WORKING && x->lines)
            take_answer(x, w); /* its last line */
        if (w->state == WORKER_WORKING && x->lines)
            exec_judge_lost(&w->child, &how, w->delivery->token, done_add(x));
        else if (w->state == WORKER_WORKING)
            exec_judge_end(&w->child, &how, w->delivery->token, done_add(x));
        w->delivery = NULL;
        w->state = WORKER_IDLE;
        leftovers_note(&x->leftovers, group);
    } else if (w->state == WORKER_WORKING && now_us >= w->delivery->deadline_us) {
        exec_judge_late(&w->child, w->delivery->token, done_add(x));
        kill_worker(w);
    } else if (x->lines && (w->state == WORKER_WORKING || w->state == WORKER_READY) && w->child.out < 0) {
        kill(-w->child.pid, SIGKILL); /* it cannot answer any more; how it ended shows up next time */
    }
}

static void work(struct exec *x)
{
    int64_t now_us = clock_mono_us(x->clock);
    leftovers_reap(&x->leftovers);
    for (size_t i = 0; i < x->worker_count; i++) {
        struct worker *w = &x->workers[i];
        if (w->state == WORKER_WORKING || w->state == WORKER_READY)
            listen_to(x, w);
        see_end(x, w, now_us);
        memset(w->ready, 0, sizeof(w->ready));
    }
    start_waiting(x, now_us);
}

/* A line is rarely longer than its socket accepts at once. */
static void watch_room(struct exec *x, struct worker *w)
{
    bool awaits = w->child.in >= 0 && w->written < w->line.size;
    if (awaits == w->awaits_room || w->child.in < 0)
        return;
    if (!awaits)
        (void)epoll_ctl(x->epoll, EPOLL_CTL_DEL, w->child.in, NULL); /* it is registered */
    w->awaits_room =
        awaits && watch(x, w->child.in, EPOLLOUT, inline_results_of(x, w, FD_IN)) == 0; /* otherwise next time */
}

/* True: the caller wants its thread back. */
static bool wait_for_events(struct exec *x, int64_t deadline_us)
{
    struct epoll_event events[EXEC_EVENTS_MAX];
    bool woken = false;
    for (size_t i = 0; i < x->worker_count; i++) {
        struct worker *w = &x->workers[i];
        watch_room(x, w);
        if (w->state == WORKER_WORKING)
            deadline_us = min64(deadline_us, w->delivery->deadline_us);
    }
    int64_t left_us = max64(time_sub(deadline_us, clock_mono_us(x->clock)), 0);
    int left_ms = (int)min64(left_us / 1000 + (left_us % 1000 != 0), INT_MAX);
    int count = epoll_wait(x->epoll, events, EXEC_EVENTS_MAX, left_ms);
    for (int i = 0; i < count; i++) {
        uint32_t what = events[i].data.u32;
        woken = woken || what == EXEC_WOKEN;
        if (what != EXEC_WOKEN)
            x->workers[what / EXEC_FDS].ready[what % EXEC_FDS] = true;
    }
    return woken;
}

static size_t take_done(struct exec *x, struct delivery_result *ret, size_t max)
{
    size_t count = min_size(max, x->done_count);
    memcpy(ret, x->done, count * sizeof(*ret));
    memmove(x->done, x->done + count, (x->done_count - count) * sizeof(*ret));
    x->done_count -= count;
    x->taken_count -= count;
    return count;
}

static bool may_gather(const struct exec *x)
{
    return x->waiting.count > x->waiting.cancelled && x->done_count < EXEC_GATHER;
}

static size_t exec_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct exec *x = self;
    bool woken = wait_for_events(x, 0);
    for (;;) {
        work(x);
        int64_t now_us = clock_mono_us(x->clock);
        if (x->done_count > 0)
            deadline_us = min64(deadline_us, now_us + EXEC_GATHER_US);
        if (woken || now_us >= deadline_us || (x->done_count > 0 && !may_gather(x)))
            return take_done(x, ret, max);
        woken = wait_for_events(x, deadline_us);
    }
}

const struct transport_ops transport_exec = {
    .scheme = "exec",
    .size = sizeof(struct exec),
    .concurrency = EXEC_CONCURRENCY,
    .check = exec_check,
    .open = exec_open,
    .close = exec_close,
    .submit = exec_submit,
    .poll = exec_poll,
    .cancel = exec_cancel,
};
