#include "cli/command/replay.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/output/table.h"
#include "ops/replay/replay.h"

#define BAR_WIDTH 30

static void sleep_until(int64_t us)
{
    int64_t left;

    while ((left = us - clock_mono_us(clock_system())) > 0) {
        const struct timespec span = { .tv_sec = left / PR_SECONDS(1), .tv_nsec = left % PR_SECONDS(1) * 1000 };

        (void)nanosleep(&span, NULL); /* when woken early it checks the clock */
    }
}

/* "[#####.....] 51 of 100 dead letters"; without a bar if the total is only a lower bound. */
static void show_progress(struct cli *cli, const struct replay *r, uint64_t total)
{
    char bar[BAR_WIDTH + 4] = "";
    uint64_t done = r->sum.changed + r->sum.refused;

    if (total > 0 && total <= COUNT_EXACT_MAX) {
        size_t filled = done < total ? (size_t)(done * BAR_WIDTH / total) : BAR_WIDTH;

        memset(bar + 1, '.', BAR_WIDTH);
        memset(bar + 1, '#', filled);
        bar[0] = '[';
        memcpy(bar + 1 + BAR_WIDTH, "] ", 3);
    }
    fprintf(stderr, "\r%s%" PRIu64 " of %s%s\x1b[K", bar, done,
            count_words(&cli->arena, total, "dead letter", "dead letters"),
            r->state == REPLAY_WATCH ? ": waiting for the canaries to arrive" : "");
}

static int read_options(struct cli *cli, struct replay *r)
{
    const char *rate = cli->flags.values[FLAG_RATE], *wait = cli->flags.values[FLAG_FOR];
    uint64_t canary = 0;
    int code = cli_number(cli, FLAG_CANARY, REPLAY_CANARY_MAX, &canary);

    if (code != EXIT_DONE)
        return code;
    if (canary == 0 && flag_given(&cli->flags, FLAG_CANARY))
        return cli_usage(cli, "--canary: 0 is not possible; give 1 or more, or omit it");
    r->canary = (size_t)canary;
    if (rate != NULL && !replay_rate_parse(slice_from(rate), &r->rate))
        return cli_usage(cli, "--rate: \"%s\" is not a rate; use a value such as 100/s", rate);
    if (wait != NULL && duration_parse(slice_from(wait), &r->canary_wait_us) != PR_OK)
        return cli_usage(cli, "--for: \"%s\" is not a duration; use 30s or 5m", wait);
    return EXIT_DONE;
}

static uint64_t count_all(struct cli *cli, const struct replay *r)
{
    struct query count = { .kind = QUERY_DEAD_COUNT, .filter = r->order.filter, .replayable = true };
    struct query_reply counted;
    struct pr_error err;

    return store_query(&cli->store, &count, &cli->arena, &counted, &err) == PR_OK ? counted.total : 0;
}

int replay_check(struct cli *cli)
{
    struct replay options = { .canary = 0 };

    return read_options(cli, &options);
}

int replay_run(struct cli *cli, const struct admin *admin, struct admin_reply *reply)
{
    struct replay r = { .order = *admin, .canary_wait_us = REPLAY_CANARY_WAIT_US };
    struct pr_error err;
    bool shows = isatty(STDERR_FILENO) && !cli->json;
    int code = read_options(cli, &r);

    if (code != EXIT_DONE)
        return code;
    replay_begin(&r);
    uint64_t total = shows ? count_all(cli, &r) : 0;
    while (code == EXIT_DONE && !replay_has_ended(&r)) {
        int64_t next_us = 0;

        if (replay_step(&r, &cli->store, clock_mono_us(clock_system()), &next_us, &err) != PR_OK)
            code = cli_fault(&err);
        if (shows)
            show_progress(cli, &r, total);
        if (code == EXIT_DONE && !replay_has_ended(&r))
            sleep_until(next_us);
    }
    if (shows)
        fprintf(stderr, "\n");
    if (r.state == REPLAY_FAILED) {
        cli_say("%s", r.why);
        code = EXIT_FAILED;
    }
    *reply = r.sum;
    replay_fini(&r);
    return code;
}
