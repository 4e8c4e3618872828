#include "cli/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/table.h"

#define STEP_ROWS 10000  /* in one transaction */
#define RATE_MAX 1000000 /* in a second */
#define CANARY_MAX 1000
#define CANARY_WAIT_US PR_SECONDS(60)
#define LOOK_EVERY_US PR_MILLISECONDS(100)

struct replay {
    struct cli *cli;
    struct admin order;
    struct admin_reply *sum;
    uint64_t rate;  /* 0: as fast as it goes */
    uint64_t total; /* of the dead letters that are meant, for the bar */
    int64_t began_us;
    bool shows;
};

static int64_t mono_us(void)
{
    return clock_mono_us(clock_system());
}

static void sleep_us(int64_t us)
{
    const struct timespec span = { .tv_sec = us / PR_SECONDS(1), .tv_nsec = us % PR_SECONDS(1) * 1000 };
    if (us > 0)
        (void)nanosleep(&span, NULL); /* woken early: the caller looks at the clock */
}

static void show_progress(const struct replay *r)
{
    if (r->shows)
        fprintf(stderr, "\r%" PRIu64 " of %s replayed ", r->sum->changed,
                count_words(&r->cli->arena, r->total, "dead letter", "dead letters"));
}

/* One transaction. */
static int step(struct replay *r, struct admin *order)
{
    struct admin_reply reply;
    struct pr_error err;
    if (store_admin(&r->cli->store, order, &reply, &err) != PR_OK)
        return cli_fault(&err);
    r->sum->matched += reply.matched;
    r->sum->changed += reply.changed;
    r->sum->refused += reply.refused;
    r->sum->more = reply.more;
    r->sum->last_row = reply.last_row;
    show_progress(r);
    return EXIT_DONE;
}

/* Everything behind order.filter.after, a second's worth at a time where there is a rate. */
static int replay_rest(struct replay *r)
{
    int code;
    r->order.filter.limit = r->rate > 0 ? min_size(r->rate, STEP_ROWS) : STEP_ROWS;
    r->began_us = mono_us();
    uint64_t before = r->sum->changed;
    do {
        code = step(r, &r->order);
        r->order.filter.after = r->sum->last_row;
        if (r->rate > 0 && code == EXIT_DONE && r->sum->more)
            sleep_us(r->began_us + (int64_t)((r->sum->changed - before) * PR_SECONDS(1) / r->rate) - mono_us());
    } while (code == EXIT_DONE && r->sum->more);
    return code;
}

/* ---- The canary ---- */

enum fate { FATE_WAITS, FATE_PASSED, FATE_FAILED };

static int fate_of(struct replay *r, pr_id id, enum fate *ret)
{
    struct arena arena;
    struct query query = { .kind = QUERY_ID, .filter = { .state = -1, .ids = &id, .id_count = 1 } };
    struct query_reply reply;
    struct pr_error err;
    arena_init(&arena, 4096);
    int rc = store_query(&r->cli->store, &query, &arena, &reply, &err);
    *ret = FATE_PASSED; /* gone, or done */
    for (size_t i = 0; rc == PR_OK && i < reply.listed_count; i++) {
        const struct listed *l = &reply.listed[i];
        if (l->state == STATE_DEAD || (l->state != STATE_DONE && l->m.failures > 0))
            *ret = FATE_FAILED;
        else if (l->state != STATE_DONE && *ret == FATE_PASSED)
            *ret = FATE_WAITS;
    }
    arena_fini(&arena);
    return rc == PR_OK ? EXIT_DONE : cli_fault(&err);
}

/* Until all have arrived, one has failed, or the time is over. */
static int canary_wait(struct replay *r, const pr_id *ids, size_t count, int64_t wait_us)
{
    int64_t end_us = mono_us() + wait_us;
    char id[PR_ID_TEXT_SIZE];
    for (size_t i = 0; i < count;) {
        enum fate fate;
        int code = fate_of(r, ids[i], &fate);
        if (code != EXIT_DONE)
            return code;
        pr_id_format(ids[i], id);
        if (fate == FATE_FAILED) {
            cli_say("the canary %s failed again: the others were left where they are; postrider why %s", id,
                    id);
            return EXIT_FAILED;
        }
        if (fate == FATE_WAITS && mono_us() >= end_us) {
            cli_say("the canary %s has not arrived within %s: the others were left where they are; postrider "
                    "why %s",
                    id, span_words(&r->cli->arena, wait_us), id);
            return EXIT_FAILED;
        }
        if (fate == FATE_WAITS)
            sleep_us(LOOK_EVERY_US);
        i += fate == FATE_PASSED;
    }
    return EXIT_DONE;
}

static int canary_run(struct replay *r, size_t count, int64_t wait_us)
{
    struct query query = { .kind = QUERY_DEAD, .filter = r->order.filter };
    struct query_reply found;
    struct pr_error err;
    query.filter.limit = count;
    if (store_query(&r->cli->store, &query, &r->cli->arena, &found, &err) != PR_OK)
        return cli_fault(&err);
    pr_id *ids = arena_alloc_array(&r->cli->arena, found.listed_count, sizeof(*ids));
    size_t n = 0;
    ASSERT(ids != NULL);
    for (size_t i = 0; i < found.listed_count; i++)
        if (pr_id_is_zero(found.listed[i].edited_as))
            ids[n++] = found.listed[i].m.id;
    if (n == 0)
        return EXIT_DONE;
    struct admin first = r->order;
    first.filter = (struct filter){ .state = -1, .ids = ids, .id_count = n };
    uint64_t refused = r->sum->refused;
    int code = step(r, &first);
    if (code == EXIT_DONE && r->sum->refused > refused) {
        cli_say("a canary cannot go: its id was sent anew; replay by another filter");
        return EXIT_FAILED;
    }
    return code == EXIT_DONE ? canary_wait(r, ids, n, wait_us) : code;
}

/* ---- The whole ---- */

/* "100/s", or "100". */
static int read_rate(struct cli *cli, uint64_t *ret)
{
    const char *text = cli->flags.values[FLAG_RATE];
    char *end;
    *ret = 0;
    if (text == NULL)
        return EXIT_DONE;
    unsigned long long rate = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || (strcmp(end, "/s") != 0 && *end != '\0') || rate == 0 ||
        rate > RATE_MAX)
        return cli_usage(cli, "--rate: \"%s\" is not like 100/s", text);
    *ret = rate;
    return EXIT_DONE;
}

int replay_run(struct cli *cli, const struct admin *admin, struct admin_reply *reply)
{
    struct replay r = {
        .cli = cli, .order = *admin, .sum = reply, .shows = isatty(STDERR_FILENO) && !cli->json
    };
    struct query count = { .kind = QUERY_DEAD_COUNT };
    struct query_reply counted;
    struct pr_error err;
    uint64_t canary = 0;
    int64_t wait_us = CANARY_WAIT_US;
    int code = read_rate(cli, &r.rate);

    if (code == EXIT_DONE)
        code = cli_number(cli, FLAG_CANARY, CANARY_MAX, &canary);
    if (code == EXIT_DONE && flag_given(&cli->flags, FLAG_FOR) &&
        duration_parse(slice_from(cli->flags.values[FLAG_FOR]), &wait_us) != PR_OK)
        code = cli_usage(cli, "--for: \"%s\" is not a duration; write 30s or 5m", cli->flags.values[FLAG_FOR]);
    if (code != EXIT_DONE)
        return code;
    /* What dies again meanwhile is not meant: it would go round for ever. */
    if (r.order.filter.until_us == 0)
        r.order.filter.until_us = store_time(&cli->store) + 1;
    count.filter = r.order.filter;
    if (r.shows && store_query(&cli->store, &count, &cli->arena, &counted, &err) == PR_OK)
        r.total = counted.total;
    if (canary > 0)
        code = canary_run(&r, (size_t)canary, wait_us);
    if (code == EXIT_DONE)
        code = replay_rest(&r);
    if (r.shows)
        fprintf(stderr, "\n");
    return code;
}
