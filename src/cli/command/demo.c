#include "cli/command/demo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/command/message.h"

#define DEMO_FILE "postrider-demo.db"
#define RELAY_FD 3 /* the pipe's descriptor in the other process */
#define DRAW_EVERY_US 200000
#define SEND_EVERY_US 110000
#define STOP_WITHIN_US PR_SECONDS(5)

double demo_round_seconds(int64_t start_us, int64_t now_us)
{
    return (double)((now_us - start_us) % PR_SECONDS(DEMO_ROUND_SECONDS)) / 1e6;
}

/* ---- The file ---- */

static void remove_old(const char *path)
{
    static const char *const ends[] = { "", "-wal", "-shm", "-outbox.lock", "-inbox.lock" };
    char name[4096];

    for (size_t i = 0; i < ARRAY_LENGTH(ends); i++) {
        (void)snprintf(name, sizeof(name), "%s%s", path, ends[i]);
        (void)unlink(name); /* some of them may not exist */
    }
}

/* The demo's own store, created again each time; or the one that --store names, which must not exist. */
static int choose_file(struct demo *d)
{
    struct cli *cli = d->cli;

    if (flag_given(&cli->flags, FLAG_STORE)) {
        d->path = cli_store_path(cli);
        if (d->path[0] == '\0')
            return cli_usage(cli, "the demo needs an SQLite file: --store sqlite:FILE");
        if (access(d->path, F_OK) == 0) {
            cli_say("%s already exists; the demo needs a new file", d->path);
            return EXIT_FAILED;
        }
        return EXIT_DONE;
    }
    const char *tmp = getenv("TMPDIR");
    d->path = access(".", W_OK) == 0
                  ? DEMO_FILE
                  : arena_printf(&cli->arena, "%s/" DEMO_FILE, tmp != NULL && tmp[0] == '/' ? tmp : "/tmp").data;
    remove_old(d->path);
    return EXIT_DONE;
}

static int open_store(struct demo *d)
{
    struct pr_error err;
    pr_slice url = arena_printf(&d->cli->arena, "sqlite:%s", d->path);

    ASSERT(url.data != NULL);
    if (store_open(&(struct store_options){ .url = url.data, .payload_max = 65536 }, &d->cli->store, &err) == PR_OK &&
        store_migrate(&d->cli->store, NULL, 0, &err) == PR_OK)
        return EXIT_DONE;
    (void)cli_fault(&err);
    return EXIT_STORE;
}

/* ---- The other process ---- */

static int start_relay(struct demo *d)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int fds[2], pid = 0;
    char where[64], store[4200];
    char *argv[] = {
        (char[]){ "postrider" }, (char[]){ "demo" }, (char[]){ "--relay" }, where, (char[]){ "--store" }, store, NULL
    };

    (void)snprintf(where, sizeof(where), "%d:%lld", RELAY_FD, (long long)d->start_us);
    (void)snprintf(store, sizeof(store), "sqlite:%s", d->path);
    if (pipe2(fds, O_CLOEXEC) != 0)
        return errno;
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], RELAY_FD);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    /* so that Ctrl-C only reaches this process, which then stops the other */
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int failed = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    (void)close(fds[1]);
    if (failed != 0) {
        (void)close(fds[0]);
        return failed;
    }
    if (d->pipe_fd >= 0)
        (void)close(d->pipe_fd);
    d->pipe_fd = fds[0];
    d->input_size = 0;
    d->relay = pid;
    return 0;
}

static struct demo_endpoint *find_endpoint(struct demo *d, const char *name)
{
    for (size_t i = 0; i < DEMO_ENDPOINTS; i++)
        if (strcmp(d->endpoints[i].name, name) == 0)
            return &d->endpoints[i];
    return NULL;
}

static void hear_failure(struct demo *d, char *const *f, size_t count)
{
    char wait[64] = "";

    if (count < 7)
        return;
    if (strcmp(f[4], "retry") == 0)
        (void)snprintf(wait, sizeof(wait), "again in %.1fs", atof(f[5]) / 1000);
    demo_ring_add(&d->failed, d->now_us, "%-8s try %s  %s; %s [%s]", f[1], f[2], f[6],
                  wait[0] != '\0' ? wait : "no more retries", f[3]);
}

/* Handles a line of the relay; unknown lines are ignored. */
static void hear(struct demo *d, char *text)
{
    char *fields[8], *rest = text;
    size_t count = 0;

    while (count < ARRAY_LENGTH(fields) && (fields[count] = strsep(&rest, "\t")) != NULL)
        count++;
    if (count == 5 && strcmp(fields[0], "sent") == 0) {
        demo_ring_add(&d->sent, d->now_us, "%-8s %-16s %-12s%s%s", fields[1], fields[2], fields[3],
                      strcmp(fields[4], "1") != 0 ? " try " : "", strcmp(fields[4], "1") != 0 ? fields[4] : "");
    } else if (count == 5 && strcmp(fields[0], "endpoint") == 0) {
        struct demo_endpoint *e = find_endpoint(d, fields[1]);

        if (e == NULL)
            return;
        (void)snprintf(e->breaker, sizeof(e->breaker), "%s", fields[2]);
        e->waiting = (unsigned)atoi(fields[3]);
        e->out = (unsigned)atoi(fields[4]);
    } else if (count == 3 && strcmp(fields[0], "crash") == 0) {
        demo_ring_add(&d->failed, d->now_us, "reports  try %s  %s killed the process", fields[2], fields[1]);
    } else if (strcmp(fields[0], "failed") == 0) {
        hear_failure(d, fields, count);
    }
}

static void listen_to_relay(struct demo *d)
{
    for (;;) {
        ssize_t n = read(d->pipe_fd, d->input + d->input_size, sizeof(d->input) - d->input_size - 1);
        char *start = d->input, *end;

        if (n <= 0)
            return;
        d->input_size += (size_t)n;
        d->input[d->input_size] = '\0';
        while ((end = strchr(start, '\n')) != NULL) {
            *end = '\0';
            hear(d, start);
            start = end + 1;
        }
        d->input_size -= (size_t)(start - d->input);
        memmove(d->input, start, d->input_size);
        if (d->input_size == sizeof(d->input) - 1)
            d->input_size = 0; /* no line is that long */
    }
}

/* If the relay has ended, restarts it as a supervisor would. */
static int watch_relay(struct demo *d)
{
    int status, code = EXIT_DONE;

    if (d->relay == 0 || waitpid(d->relay, &status, WNOHANG) != d->relay)
        return EXIT_DONE;
    listen_to_relay(d);
    d->relay = 0;
    for (size_t i = 0; i < DEMO_ENDPOINTS; i++)
        d->endpoints[i].breaker[0] = '\0';
    if (d->stopping)
        return EXIT_DONE;
    if (!WIFSIGNALED(status)) {
        cli_say("the delivering process exited with code %d", WEXITSTATUS(status));
        return EXIT_FAILED;
    }
    d->crashes++;
    int failed = start_relay(d);
    if (failed != 0) {
        cli_say("cannot start the delivering process: %s", strerror(failed));
        code = EXIT_FAILED;
    }
    return code;
}

static void stop_relay(struct demo *d)
{
    int64_t until = clock_mono_us(clock_system()) + STOP_WITHIN_US;

    d->stopping = true;
    if (d->relay != 0)
        (void)kill(d->relay, SIGTERM);
    while (d->relay != 0 && clock_mono_us(clock_system()) < until) {
        struct pollfd fd = { .fd = d->pipe_fd, .events = POLLIN };

        (void)poll(&fd, 1, 20);
        listen_to_relay(d);
        (void)watch_relay(d);
    }
    if (d->relay != 0) {
        (void)kill(d->relay, SIGKILL);
        (void)waitpid(d->relay, NULL, 0);
        d->relay = 0;
    }
}

/* ---- Traffic ---- */

static int send_one(struct demo *d, const char *type, const char *stream, const char *payload)
{
    struct pr_message m = { .type = slice_from(type),
                            .stream = slice_from(stream),
                            .payload = slice_from(payload),
                            .content_type = PR_STR("application/json") };
    struct pr_error err;
    pr_id id;

    if (store_enqueue(&d->cli->store, PR_STR("outbox"), &m, 1, 65536, &id, NULL, &err) != PR_OK)
        return cli_fault(&err);
    d->stored++;
    return EXIT_DONE;
}

static int send_sample(struct demo *d)
{
    static const char *const steps[] = { "order.created", "order.paid", "order.packed", "order.shipped" };
    uint64_t dice = random_below(&d->random, 100);
    char stream[32], payload[96];

    if (dice < 55) {
        (void)snprintf(stream, sizeof(stream), "order-%d", (int)random_between(&d->random, 1, 30));
        (void)snprintf(payload, sizeof(payload), "{\"total\":%d}", (int)random_between(&d->random, 5, 500));
        return send_one(d, steps[random_below(&d->random, ARRAY_LENGTH(steps))], stream, payload);
    }
    if (dice < 93) {
        int customer = (int)random_between(&d->random, 1, 20);

        (void)snprintf(stream, sizeof(stream), "customer-%d", customer);
        (void)snprintf(payload, sizeof(payload), "{\"customer\":%d,\"amount\":%d}", customer,
                       (int)random_between(&d->random, 5, 500));
        return send_one(d, "invoice.created", stream, payload);
    }
    (void)snprintf(payload, sizeof(payload), "{\"pages\":%d}", (int)random_between(&d->random, 1, 40));
    return send_one(d, "report.build", "", payload);
}

/* Was this moment of a round between the last look and now? */
static bool passed(const struct demo *d, int64_t before_us, int moment)
{
    double before = demo_round_seconds(d->start_us, before_us), now = demo_round_seconds(d->start_us, d->now_us);

    return now >= moment && (before < moment || before > now);
}

static int send_special(struct demo *d, int64_t before_us)
{
    int code = EXIT_DONE;

    if (passed(d, before_us, DEMO_BAD_AT)) {
        code = send_one(d, "invoice.created", "customer-99", "{\"customer\":null,\"amount\":12}");
        for (int i = 0; i < 3 && code == EXIT_DONE; i++)
            code = send_one(d, "invoice.created", "customer-99", "{\"customer\":99,\"amount\":7}");
    }
    if (code == EXIT_DONE && passed(d, before_us, DEMO_CRASH_AT))
        code = send_one(d, "report.build", "", "{\"pages\":-1}");
    return code;
}

/* Describes what there is to see now. */
static void narrate(struct demo *d)
{
    double second = demo_round_seconds(d->start_us, d->now_us);
    const char *text = "Orders flow. The ledger behind billing fails now and then; Postrider retries.";

    if (second >= DEMO_BAD_AT && second < DEMO_CRASH_AT)
        text = "customer-99 sent an invoice that can never be delivered; its followers are held.";
    else if (second >= DEMO_CRASH_AT && second < DEMO_CRASH_AT + 4)
        text = "One report kills the whole process again and again, until it is quarantined.";
    else if (second >= DEMO_OUTAGE_FROM && second < DEMO_OUTAGE_TO)
        text = "billing is down: the circuit breaker opens, messages wait, no failures are counted.";
    else if (second >= DEMO_OUTAGE_TO && second < DEMO_OUTAGE_TO + 4)
        text = "billing is back: the waiting messages go out, in order.";
    (void)snprintf(d->now_text, sizeof(d->now_text), "%s", text);
}

/* ---- What the store says ---- */

static void look_at_dead(struct demo *d, struct arena *arena)
{
    struct query query = { .kind = QUERY_DEAD, .filter = { .state = -1, .limit = 1000 } };
    struct query_reply reply;
    struct pr_error err;

    if (store_query(&d->cli->store, &query, arena, &reply, &err) != PR_OK)
        return;
    d->dead = (struct demo_ring){ 0 };
    for (size_t i = 0; i < reply.listed_count; i++) {
        const struct listed *l = &reply.listed[i];

        if (message_was_poison(l))
            demo_ring_add(&d->dead, l->died_us, "%-8.*s %.*s: killed the process %d times", SLICE_ARGS(l->endpoint),
                          SLICE_ARGS(l->m.type), message_unexplained(&l->m) - 1);
        else
            demo_ring_add(&d->dead, l->died_us, "%-8.*s %.*s: %.*s, %d times", SLICE_ARGS(l->endpoint),
                          SLICE_ARGS(l->m.type), SLICE_ARGS(l->m.error), l->m.failures);
    }
}

static int look(struct demo *d)
{
    struct query boxes = { .kind = QUERY_BOXES }, endpoints = { .kind = QUERY_ENDPOINTS };
    struct query_reply reply;
    struct pr_error err;
    struct arena arena;
    int code = EXIT_DONE;

    arena_init(&arena, 65536);
    if (store_query(&d->cli->store, &boxes, &arena, &reply, &err) != PR_OK)
        code = cli_fault(&err);
    for (size_t i = 0; code == EXIT_DONE && i < reply.box_count; i++)
        if (slice_eq_cstr(reply.boxes[i].name, "outbox"))
            d->counts = reply.boxes[i];
    if (code == EXIT_DONE && store_query(&d->cli->store, &endpoints, &arena, &reply, &err) != PR_OK)
        code = cli_fault(&err);
    for (size_t i = 0; code == EXIT_DONE && i < reply.endpoint_count; i++) {
        const struct endpoint_state *state = &reply.endpoints[i];
        struct demo_endpoint *e = NULL;

        for (size_t j = 0; j < DEMO_ENDPOINTS; j++)
            if (slice_eq_cstr(state->name, d->endpoints[j].name))
                e = &d->endpoints[j];
        if (e != NULL) {
            e->sent = state->sent;
            e->failed = state->failed;
            e->dead = state->dead;
        }
    }
    if (code == EXIT_DONE)
        look_at_dead(d, &arena);
    arena_fini(&arena);
    return code;
}

/* ---- The tour ---- */

static int step(struct demo *d, int64_t *next_send, int64_t *next_draw)
{
    int64_t before = d->now_us;
    int code;

    d->now_us = clock_wall_us(clock_system());
    listen_to_relay(d);
    code = watch_relay(d);
    if (code == EXIT_DONE)
        code = send_special(d, before);
    if (code == EXIT_DONE && d->now_us >= *next_send) {
        code = send_sample(d);
        *next_send = d->now_us + SEND_EVERY_US;
    }
    if (code == EXIT_DONE && d->now_us >= *next_draw) {
        *next_draw = d->now_us + DRAW_EVERY_US;
        code = look(d);
        narrate(d);
        if (code == EXIT_DONE && d->terminal)
            demo_screen_draw(d);
    }
    return code;
}

static int tour(struct demo *d, int signals)
{
    int64_t next_send = 0, next_draw = 0;
    int code = EXIT_DONE;

    while (code == EXIT_DONE) {
        struct pollfd fds[] = { { .fd = signals, .events = POLLIN }, { .fd = d->pipe_fd, .events = POLLIN } };

        if (poll(fds, 2, 20) < 0 && errno != EINTR)
            return EXIT_FAILED;
        if (fds[0].revents != 0 || (!d->terminal && d->now_us - d->start_us >= PR_SECONDS(DEMO_TOUR_SECONDS)))
            break;
        code = step(d, &next_send, &next_draw);
    }
    return code;
}

static int run_tour(struct demo *d)
{
    int signals = cli_signals(), failed;

    if (signals < 0 || (failed = start_relay(d)) != 0) {
        cli_say("cannot start the delivering process: %s", strerror(signals < 0 ? errno : failed));
        return EXIT_FAILED;
    }
    if (d->terminal)
        demo_screen_open();
    else
        fprintf(stderr, "A tour of %d seconds on %s ...\n", DEMO_TOUR_SECONDS, d->path);
    int code = tour(d, signals);
    if (d->terminal)
        demo_screen_close();
    stop_relay(d);
    (void)close(d->pipe_fd);
    (void)close(signals);
    if (code == EXIT_DONE)
        code = look(d);
    if (code == EXIT_DONE)
        demo_summary(d);
    return code;
}

int run_demo(struct cli *cli)
{
    struct demo d = {
        .cli = cli,
        .pipe_fd = -1,
        .terminal = isatty(STDOUT_FILENO) && !cli->json,
        .endpoints = { { .name = "orders", .what = "always works" },
                       { .name = "billing", .what = "fails now and then" },
                       { .name = "reports", .what = "one message kills it" } },
    };
    int code;

    if (flag_given(&cli->flags, FLAG_RELAY))
        return demo_relay(cli, cli->flags.values[FLAG_RELAY]);
    /* The configuration here is not the demo's: only --store counts. */
    cli_forget_environment();
    cli->flags.values[FLAG_CONFIG] = "/dev/null";
    code = cli_load_config(cli);
    if (code == EXIT_DONE)
        code = choose_file(&d);
    if (code == EXIT_DONE)
        code = open_store(&d);
    if (code != EXIT_DONE)
        return code;
    d.start_us = d.now_us = clock_wall_us(clock_system());
    random_init(&d.random, (uint64_t)d.start_us);
    return run_tour(&d);
}
