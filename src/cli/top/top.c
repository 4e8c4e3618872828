/* top: the loop between a person, a terminal and a store.  What is shown and what keys mean is decided in top_ui.c and
 * top_layout.c; this file only waits and dispatches. */
#include "cli/top/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/top/top_job.h"
#include "cli/remote.h"
#include "cli/top/terminal.h"

#define EVERY_USUAL_US PR_SECONDS(1)
#define EVERY_MIN_US PR_MILLISECONDS(100)
#define EVERY_MAX_US PR_SECONDS(3600)
#define AGAIN_US PR_SECONDS(1) /* shortest pause after a fault */
#define SLOW_US PR_SECONDS(1)  /* a store that takes longer is slow */
#define TICK_US PR_SECONDS(1)  /* update interval of the clock in the header */
#define PLAIN_WIDTH 100        /* columns, if the width is unknown */
#define TOKEN_MAX 2048

struct top {
    struct cli *cli;
    const struct config *config; /* for the views; NULL: the API knows the endpoints */
    const char *source;          /* shown */
    int64_t every_us;
    struct ui ui;
    struct top_view *view;  /* the latest facts */
    struct top_view *base;  /* older facts, for rates when the latest are too fresh */
    struct top_view *spare; /* memory for the next view */
    struct top_job job;
    struct order order; /* as it was confirmed */
    bool order_waits, open_waits;
    int64_t next_look_us, began_us; /* monotonic; of the running job */
    char *text;                     /* of the opened item */
};

static int64_t mono_us(void)
{
    return clock_mono_us(clock_system());
}

/* ---- Where the facts come from ---- */

/* Without the user, the password and the options of a URL. */
static const char *shown_source(struct cli *cli, const char *url)
{
    const char *slashes = strstr(url, "://");
    size_t scheme = slashes != NULL ? (size_t)(slashes + 3 - url) : 0;
    const char *rest = url + scheme;
    const char *at = scheme > 0 ? memrchr(rest, '@', strcspn(rest, "/?")) : NULL;

    rest = at != NULL ? at + 1 : rest;
    pr_slice text = arena_printf(&cli->arena, "%.*s%.*s", (int)scheme, url, (int)strcspn(rest, "?"), rest);
    ASSERT(text.data != NULL);
    return text.data;
}

static int read_token(struct cli *cli, char ret[TOKEN_MAX])
{
    const char *path = cli->flags.values[FLAG_TOKEN_FILE];

    (void)snprintf(ret, TOKEN_MAX, "%s", cli->config->http_token);
    if (path == NULL)
        return EXIT_DONE;
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(ret, TOKEN_MAX, file) == NULL) {
        cli_say("--token-file %s: %s", path, file == NULL ? strerror(errno) : "it is empty");
        if (file != NULL)
            (void)fclose(file);
        return EXIT_FAILED;
    }
    (void)fclose(file);
    ret[strcspn(ret, "\r\n")] = '\0';
    return EXIT_DONE;
}

static int open_remote(struct top *t, const char *url)
{
    struct cli *cli = t->cli;
    struct pr_error err;
    char token[TOKEN_MAX];

    if (flag_given(&cli->flags, FLAG_STORE))
        return cli_usage(cli, "--url and --store cannot be combined");
    int code = cli_load_config(cli);
    if (code == EXIT_DONE)
        code = read_token(cli, token);
    if (code != EXIT_DONE)
        return code;
    int rc = remote_open(&(struct remote_options){ url, token }, &cli->store, &err);
    explicit_bzero(token, sizeof(token));
    t->source = shown_source(cli, url);
    return rc == PR_OK ? EXIT_DONE : cli_fault(&err);
}

static int open_source(struct top *t)
{
    const char *url = t->cli->flags.values[FLAG_URL];

    if (url != NULL)
        return open_remote(t, url);
    if (flag_given(&t->cli->flags, FLAG_TOKEN_FILE))
        return cli_usage(t->cli, "--token-file needs --url");
    int code = cli_open_store(t->cli);
    if (code == EXIT_DONE) {
        t->config = t->cli->config;
        t->source = shown_source(t->cli, t->cli->config->store);
    }
    return code;
}

/* ---- Jobs ---- */

/* A look that follows an order comes early: a difference over milliseconds gives no useful rate. */
static bool is_fresh(const struct top *t)
{
    return mono_us() - t->view->mono_us < t->every_us / 2 && t->base->mono_us != 0;
}

static void prepare(struct top *t, enum top_job_kind kind)
{
    const struct top_view *before = kind == TOP_JOB_LOOK && is_fresh(t) ? t->base : t->view;

    t->job = (struct top_job){ .kind = kind,
                               .cli = t->cli,
                               .config = t->config,
                               .by = t->job.by,
                               .order = t->order,
                               .id = t->ui.opened,
                               .pane = t->ui.pane,
                               .before = before->mono_us != 0 ? before : NULL,
                               .view = t->spare };
    memcpy(t->job.name, t->ui.opened_name, sizeof(t->job.name));
}

static void take_look(struct top *t)
{
    struct top_job *e = &t->job;

    if (e->rc != PR_OK) { /* the previous facts stay on the screen */
        (void)snprintf(t->ui.trouble, sizeof(t->ui.trouble), "no answer, retrying: %s", e->error.text);
        t->next_look_us = mono_us() + max64(t->every_us, AGAIN_US);
        return;
    }
    bool keep_base = e->before != NULL && e->before == t->base;
    t->spare = keep_base ? t->view : t->base;
    t->base = keep_base ? t->base : t->view;
    t->view = e->view;
    t->ui.trouble[0] = '\0';
    t->next_look_us = max64(t->view->mono_us + t->every_us, mono_us());
    ui_settle(&t->ui, t->view);
}

static void take_text(struct top *t)
{
    struct top_job *e = &t->job;

    if (t->open_waits)
        return; /* another item was opened meanwhile */
    if (e->rc != PR_OK)
        ui_say(&t->ui, true, "%s", e->error.text);
    free(t->text);
    t->text = e->text;
    e->text = NULL;
    t->ui.text = e->rc == PR_OK ? t->text : "It cannot be read right now.";
}

static void take_result(struct top *t)
{
    struct top_job *e = &t->job;

    switch (e->kind) {
    case TOP_JOB_LOOK: take_look(t); break;
    case TOP_JOB_OPEN:
        take_text(t);
        free(e->text);
        e->text = NULL;
        break;
    default:
        t->ui.trouble[0] = '\0'; /* the store has answered */
        ui_say(&t->ui, e->rc != PR_OK, "%s", e->rc != PR_OK ? e->error.text : e->said);
        t->next_look_us = 0; /* show the effect */
        t->open_waits = t->ui.mode == MODE_OPENED;
    }
}

/* Starts the most urgent job, if none is running. */
static void begin_errand(struct top *t, struct runner *runner)
{
    enum top_job_kind kind = t->order_waits ? TOP_JOB_ORDER : t->open_waits ? TOP_JOB_OPEN : TOP_JOB_LOOK;

    if (runner_is_busy(runner) || (kind == TOP_JOB_LOOK && mono_us() < t->next_look_us))
        return;
    if (kind == TOP_JOB_ORDER)
        t->order_waits = false;
    else if (kind == TOP_JOB_OPEN)
        t->open_waits = false;
    prepare(t, kind);
    t->began_us = mono_us();
    runner_begin(runner, &t->job);
}

/* Old facts must not look fresh. */
static void see_slowness(struct top *t, const struct runner *runner)
{
    int64_t waited_us = mono_us() - t->began_us;

    if (runner_is_busy(runner) && waited_us > SLOW_US)
        (void)snprintf(t->ui.trouble, sizeof(t->ui.trouble), "no answer for %d s, still waiting",
                       (int)(waited_us / PR_SECONDS(1)));
}

/* ---- On a terminal ---- */

static int show(struct top *t, size_t *ret_page)
{
    struct top_frame frame = { .view = t->view, .source = t->source, .now_us = clock_wall_us(clock_system()) };
    struct screen s;
    size_t width, height;

    terminal_size(&width, &height);
    *ret_page = height > 8 ? (height - 6) / 2 : 1;
    if (screen_init(&s, width, height) != PR_OK)
        return EXIT_FAILED;
    top_draw(&s, &frame, &t->ui);
    terminal_show(&s);
    screen_fini(&s);
    return EXIT_DONE;
}

static void take_order(struct top *t)
{
    if (t->order_waits) {
        ui_say(&t->ui, true, "the previous change is not finished: nothing was changed");
        return;
    }
    t->order = t->ui.order;
    t->order_waits = true;
}

/* False: quit. */
static bool take_keys(struct top *t, size_t page)
{
    int32_t key;

    for (;;) {
        if (terminal_key(&key) != PR_OK)
            return false;
        if (key == KEY_NONE)
            return true;
        switch (ui_key(&t->ui, t->view, key, page)) {
        case UI_QUIT: return false;
        case UI_ORDER: take_order(t); break;
        case UI_OPEN: t->open_waits = true; break;
        case UI_STOP: terminal_stop(); break;
        default: break;
        }
    }
}

/* False: a signal ends the program. */
static bool take_signals(void)
{
    for (int number = terminal_next_signal(); number != 0; number = terminal_next_signal())
        if (number != SIGWINCH)
            return false; /* SIGWINCH: the next picture asks for the size */
    return true;
}

static int wait_ms(const struct top *t, const struct runner *runner)
{
    int64_t us = runner_is_busy(runner) ? TICK_US : min64(TICK_US, t->next_look_us - mono_us());

    return us > 0 ? (int)(us / 1000) + 1 : 0;
}

static int loop(struct top *t, struct runner *runner)
{
    struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                            { .fd = terminal_signals(), .events = POLLIN },
                            { .fd = runner_fd(runner), .events = POLLIN } };

    for (;;) {
        size_t page;

        begin_errand(t, runner);
        see_slowness(t, runner);
        if (show(t, &page) != EXIT_DONE)
            return EXIT_FAILED;
        if (poll(fds, ARRAY_LENGTH(fds), wait_ms(t, runner)) < 0 && errno != EINTR)
            return EXIT_FAILED;
        if ((fds[1].revents & POLLIN) != 0 && !take_signals())
            return EXIT_DONE;
        if ((fds[0].revents & (POLLHUP | POLLERR)) != 0 || !take_keys(t, page))
            return EXIT_DONE;
        if (runner_done(runner) != NULL)
            take_result(t);
    }
}

static int run_live(struct top *t)
{
    struct runner *runner;
    struct pr_error err;

    if (runner_new(&runner, &err) != PR_OK)
        return cli_fault(&err);
    int code = terminal_open(t->cli->color, &err) == PR_OK ? loop(t, runner) : cli_fault(&err);
    terminal_close();
    if (!runner_free(runner))
        _exit(code); /* the store does not answer, and its work cannot be cancelled */
    return code;
}

/* ---- Once ---- */

static size_t plain_width(void)
{
    const char *columns = getenv("COLUMNS");
    size_t width = terminal_width(stdout);

    if (width == 0 && columns != NULL)
        width = strtoul(columns, NULL, 10);
    return width >= 20 ? width : PLAIN_WIDTH;
}

static int print_plain(struct top *t)
{
    struct top_frame frame = {
        .view = t->view, .source = t->source, .now_us = clock_wall_us(clock_system()), .plain = true
    };
    struct screen s;
    size_t blank = 0;

    if (screen_init(&s, plain_width(), top_plain_height(t->view)) != PR_OK)
        return EXIT_FAILED;
    top_draw(&s, &frame, &t->ui);
    for (size_t row = 0; row < s.height; row++) {
        struct buf line;

        buf_init(&line, SCREEN_SIDE_MAX * sizeof(struct cell));
        screen_row_text(&s, row, &line);
        blank = line.size == 0 ? blank + 1 : blank;
        for (; line.size > 0 && blank > 0; blank--)
            (void)putchar('\n');
        if (line.size > 0)
            cli_print(&line);
        buf_fini(&line);
    }
    screen_fini(&s);
    return EXIT_DONE;
}

/* Rates need two looks. */
static int run_once(struct top *t)
{
    struct timespec span = { .tv_sec = t->every_us / PR_SECONDS(1), .tv_nsec = t->every_us % PR_SECONDS(1) * 1000 };
    struct buf line;

    while (nanosleep(&span, &span) != 0 && errno == EINTR)
        continue;
    prepare(t, TOP_JOB_LOOK);
    top_job_run(&t->job);
    if (t->job.rc != PR_OK)
        return cli_fault(&t->job.error);
    take_look(t);
    if (!t->cli->json)
        return print_plain(t);
    buf_init(&line, OUTPUT_MAX);
    view_json(t->view, &line);
    cli_print(&line);
    buf_fini(&line);
    return EXIT_DONE;
}

/* ---- The command ---- */

static int read_every(struct top *t)
{
    const char *text = t->cli->flags.values[FLAG_EVERY];

    t->every_us = EVERY_USUAL_US;
    if (text == NULL || (duration_parse(slice_from(text), &t->every_us) == PR_OK && t->every_us >= EVERY_MIN_US &&
                         t->every_us <= EVERY_MAX_US))
        return EXIT_DONE;
    return cli_usage(t->cli, "--every: \"%s\" is not a duration from 100ms to 1h", text);
}

static int run(struct top *t)
{
    bool once =
        t->cli->json || flag_given(&t->cli->flags, FLAG_ONCE) || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);

    /* The first look happens before the terminal changes: an unreachable store is reported as by every command. */
    prepare(t, TOP_JOB_LOOK);
    top_job_run(&t->job);
    if (t->job.rc != PR_OK)
        return cli_fault(&t->job.error);
    take_look(t);
    return once ? run_once(t) : run_live(t);
}

int run_top(struct cli *cli)
{
    struct top t = { .cli = cli, .view = view_new(), .base = view_new(), .spare = view_new() };
    int code = EXIT_FAILED;

    if (t.view != NULL && t.base != NULL && t.spare != NULL) {
        code = read_every(&t);
        if (code == EXIT_DONE)
            code = open_source(&t);
        t.job.by = cli_user(cli);
        if (code == EXIT_DONE)
            code = run(&t);
    } else {
        cli_say("out of memory for the view");
    }
    view_free(t.view);
    view_free(t.base);
    view_free(t.spare);
    free(t.text);
    free(t.job.text); /* it arrived when it was no longer needed */
    return code;
}
