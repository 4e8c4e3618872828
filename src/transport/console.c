/* console: one line on the standard output for each message: id, type, stream, size, and the payload when it is
 * readable.  For trying things out.
 *
 * A line is written by one write() after poll() reported room, and is never longer than what a pipe takes at once, so a
 * reader that has stopped reading cannot block the thread. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "base/util.h"
#include "transport/delivery.h"

#define CONSOLE_CONCURRENCY 64
#define CONSOLE_LINE_MAX PIPE_BUF
#define CONSOLE_PAYLOAD_MAX 512 /* bytes of the payload that are shown; type and stream fit as well */

struct console {
    const struct endpoint_config *config;
    struct delivery_queue waiting;
    struct buf line;
    bool head_waits; /* there was no room for the first one's line */
};

static int console_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct console *c = self;
    c->config = config;
    buf_init(&c->line, CONSOLE_LINE_MAX);
    return delivery_queue_init(&c->waiting, config->concurrency != 0 ? config->concurrency : CONSOLE_CONCURRENCY,
                               reterr);
}

static void console_close(void *self)
{
    struct console *c = self;
    delivery_queue_fini(&c->waiting);
    buf_fini(&c->line);
}

static size_t console_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct console *c = self;
    return delivery_queue_push(&c->waiting, list, count);
}

static bool is_control(int32_t codepoint)
{
    return codepoint < 0x20 || (codepoint >= 0x7f && codepoint < 0xa0);
}

static bool is_line_break_or_tab(int32_t codepoint)
{
    return codepoint == '\n' || codepoint == '\r' || codepoint == '\t';
}

static bool is_readable(pr_slice text)
{
    while (text.size > 0) {
        int32_t codepoint;
        size_t size = utf8_next(text, &codepoint);
        if (codepoint < 0 || (is_control(codepoint) && !is_line_break_or_tab(codepoint)))
            return false;
        text = (pr_slice){ text.data + size, text.size - size };
    }
    return true;
}

/* Nothing in a message may control the terminal or start a new line. */
static void add_text(struct buf *b, pr_slice text)
{
    while (text.size > 0) {
        int32_t codepoint;
        size_t size = utf8_next(text, &codepoint);
        if (is_line_break_or_tab(codepoint))
            buf_add_char(b, ' ');
        else if (codepoint < 0 || is_control(codepoint))
            buf_add_cstr(b, "\xef\xbf\xbd"); /* U+FFFD */
        else
            buf_add(b, text.data, size);
        text = (pr_slice){ text.data + size, text.size - size };
    }
}

static void add_line(struct buf *b, const struct pr_message *m)
{
    char id[PR_ID_TEXT_SIZE];
    pr_slice shown = utf8_cut_bytes(m->payload, CONSOLE_PAYLOAD_MAX);

    pr_id_format(m->id, id);
    buf_add_cstr(b, id);
    buf_add_char(b, ' ');
    add_text(b, m->type);
    buf_add_char(b, ' ');
    add_text(b, m->stream.size > 0 ? m->stream : PR_STR("-"));
    buf_addf(b, " %zu", m->payload.size);
    if (is_readable(shown) && shown.size > 0) {
        buf_add_char(b, ' ');
        add_text(b, shown);
        if (shown.size < m->payload.size)
            buf_add_cstr(b, "...");
    }
    buf_add_char(b, '\n');
}

/* Like write(), but a reader that is gone is an error and not a signal that kills the process. */
static ssize_t write_without_signal(int fd, const char *data, size_t size)
{
    sigset_t pipe_set, old_set, pending;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old_set);

    ssize_t n = write(fd, data, size);
    int error = errno;

    if (n < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE)) {
        const struct timespec at_once = { 0 };
        while (sigtimedwait(&pipe_set, NULL, &at_once) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &old_set, NULL);
    errno = error;
    return n;
}

/* 0, or an errno. */
static int write_all(int fd, pr_slice text)
{
    while (text.size > 0) {
        ssize_t n = write_without_signal(fd, text.data, text.size);
        if (n < 0 && errno != EINTR)
            return errno;
        size_t written = n > 0 ? (size_t)n : 0;
        text = (pr_slice){ text.data + written, text.size - written };
    }
    return 0;
}

static void send_line(struct console *c, const struct delivery *d, struct delivery_result *ret)
{
    buf_reset(&c->line);
    add_line(&c->line, d->message);
    int error = buf_failed(&c->line) ? ENOMEM : write_all(STDOUT_FILENO, buf_slice(&c->line));
    if (error == 0) {
        result_ok(ret, d->token);
        return;
    }
    char text[128];
    const char *name = strerrorname_np(error);
    snprintf(text, sizeof(text), "standard output: %s", strerrordesc_np(error));
    result_unsent(ret, d->token, PR_REASON_TRANSPORT_UNAVAILABLE, name != NULL ? name : "", pr_str(text));
}

/* True: the first delivery has its result, and is out of the queue. */
static bool console_next(struct console *c, struct delivery_result *ret, int64_t deadline_us)
{
    const struct clock *clock = config_clock(c->config);
    bool may_start;
    const struct delivery *d = delivery_queue_peek(&c->waiting, clock_mono_us(clock), &may_start);

    if (may_start) {
        c->head_waits =
            !wait_until(STDOUT_FILENO, POLLOUT, c->config->wake_fd, clock, min64(deadline_us, d->deadline_us));
        if (c->head_waits)
            return false;
        send_line(c, d, ret);
    } else if (c->head_waits && c->waiting.cancelled == 0 && clock_mono_us(clock) >= d->deadline_us) {
        result_unsent(ret, d->token, PR_REASON_TIMEOUT_EXCEEDED, "", PR_STR("standard output: no reader"));
    } else {
        result_returned(ret, d->token);
    }
    c->head_waits = false;
    delivery_queue_drop(&c->waiting);
    return true;
}

static size_t console_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct console *c = self;
    size_t count = 0;

    if (c->waiting.count == 0)
        wait_until(-1, 0, c->config->wake_fd, config_clock(c->config), deadline_us);
    /* Available results are not held back by a line that has no room. */
    while (count < max && c->waiting.count > 0 && console_next(c, &ret[count], count > 0 ? 0 : deadline_us))
        count++;
    return count;
}

static void console_cancel(void *self)
{
    struct console *c = self;
    delivery_queue_cancel(&c->waiting);
}

const struct transport_ops transport_console = {
    .scheme = "console",
    .size = sizeof(struct console),
    .promises = TRANSPORT_ORDERED | TRANSPORT_LOSSY,
    .concurrency = CONSOLE_CONCURRENCY,
    .open = console_open,
    .close = console_close,
    .submit = console_submit,
    .poll = console_poll,
    .cancel = console_cancel,
};
