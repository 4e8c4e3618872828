/* The scan against a model of PostgreSQL's transactions. */
#include "engine/scan.h"

#include "check.h"
#include "server.h"

#if defined(__SANITIZE_ADDRESS__) /* where each takes four times as long */
#define SEEDS 1000
#else
#define SEEDS 4000
#endif
#define NO_LIMIT SERVER_ROWS_MAX

static struct server server; /* too large for a stack */

static const struct scan_limits small = { .stretch = 12, .aside = 4 };

struct outcome {
    uint64_t missing, twice, late;
    size_t aside_max;
};

static struct outcome run(uint64_t seed, enum reader_mistake mistake)
{
    struct reader r;
    struct outcome outcome = { 0 };

    server_init(&server, seed);
    reader_init(&r, &server, &small);
    r.mistake = mistake;
    unsigned steps = 1 + (unsigned)random_below(&server.random, 12);
    size_t page = 1 + random_below(&server.random, 6);
    double cut = random_double(&server.random), lose = random_below(&server.random, 2) * 0.2;
    for (int round = 0; round < 40; round++) {
        server_busy(&server, (unsigned)random_below(&server.random, 20));
        bool is_cut = random_chance(&server.random, cut);
        reader_round(&r, is_cut ? page : NO_LIMIT, steps, lose);
        if (random_chance(&server.random, 0.03))
            server_end_all(&server);
        if (scan_aside_count(r.scan) > outcome.aside_max)
            outcome.aside_max = scan_aside_count(r.scan);
    }
    server_end_all(&server);
    reader_round(&r, NO_LIMIT, 0, 0);
    outcome.missing = reader_missing(&r);
    outcome.twice = r.twice;
    outcome.late = r.late;
    reader_fini(&r);
    return outcome;
}

/* B1 B10 T7: commits out of order, rollbacks, transactions that stay open, pages that are cut,
 * answers that get lost. */
TEST(every_committed_row_is_read_exactly_once)
{
    size_t aside_max = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct outcome outcome = run(seed, MISTAKE_NONE);
        if (outcome.missing + outcome.twice + outcome.late > 0)
            check_fail(__FILE__, __LINE__, "seed %ju: %ju missing, %ju twice, %ju late", (uintmax_t)seed,
                       (uintmax_t)outcome.missing, (uintmax_t)outcome.twice, (uintmax_t)outcome.late);
        aside_max = outcome.aside_max > aside_max ? outcome.aside_max : aside_max;
    }
    CHECK_EQ(aside_max, small.aside); /* so the limit was met, too */
}

/* The model must be able to tell. */
static void check_loses(enum reader_mistake mistake)
{
    uint64_t seeds = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        seeds += run(seed, mistake).missing > 0;
    CHECK(seeds > 0);
}

/* S1: what the order of the two statements is for. */
TEST(a_snapshot_taken_before_the_sequence_loses_rows)
{
    check_loses(MISTAKE_SNAPSHOT_FIRST);
}

/* S1: all that began before the sequence was read are known, but not all that began before the snapshot. */
TEST(xids_counted_before_the_snapshot_lose_rows)
{
    check_loses(MISTAKE_XMAX_FIRST);
}

/* S2: a floor one too high. */
TEST(a_last_value_one_too_high_loses_rows)
{
    check_loses(MISTAKE_LAST_TOO_HIGH);
}

/* Insert one row and commit it. */
static void send(unsigned lane)
{
    struct server_tx *tx = server_begin(&server);
    server_draw_xid(&server, tx);
    server_insert(&server, tx, lane);
    server_end(&server, tx, true);
}

TEST(a_row_that_commits_late_is_found) /* B10 */
{
    struct reader r;
    server_init(&server, 1);
    reader_init(&r, &server, NULL);
    struct server_tx *late = server_begin(&server);
    server_draw_xid(&server, late);
    server_insert(&server, late, 0);
    send(0);
    reader_round(&r, NO_LIMIT, 0, 0);
    CHECK_EQ(server.rows[0].reads, 0);
    CHECK_EQ(server.rows[1].reads, 1); /* B11: nobody waits for it */

    server_end(&server, late, true);
    reader_round(&r, NO_LIMIT, 0, 0);
    CHECK_EQ(server.rows[0].reads, 1);
    CHECK_EQ(server.rows[1].reads, 1);
    reader_fini(&r);
}

/* S4: the cost of an open transaction does not grow with what happens meanwhile. */
TEST(rows_looked_at_stay_proportional_while_a_transaction_stays_open) /* B11 */
{
    const struct scan_limits limits = { .stretch = 100, .aside = 4 };
    const unsigned rows = 20000;
    struct reader r;

    server_init(&server, 1);
    reader_init(&r, &server, &limits);
    struct server_tx *forgotten = server_begin(&server);
    server_draw_xid(&server, forgotten);
    server_insert(&server, forgotten, 1);
    for (unsigned i = 0; i < rows / 50; i++) {
        struct server_tx *slow = server_begin(&server); /* ends after the round has seen it run */
        server_draw_xid(&server, slow);
        for (unsigned j = 0; j < 49; j++)
            send(j % SERVER_LANES);
        server_insert(&server, slow, 0);
        reader_round(&r, NO_LIMIT, 0, 0);
        server_end(&server, slow, true);
    }
    reader_round(&r, NO_LIMIT, 0, 0);
    CHECK_EQ(reader_missing(&r), 0);
    CHECK(r.looked_at < 5 * rows);
    CHECK_EQ(scan_aside_count(r.scan), 1);
    CHECK(scan_floor(r.scan) > rows - 500);

    uint64_t before = r.looked_at;
    server_end(&server, forgotten, true);
    reader_round(&r, NO_LIMIT, 0, 0);
    CHECK_EQ(server.rows[0].reads, 1);
    CHECK(r.looked_at - before <= rows); /* its stretch, once */
    before = r.looked_at;
    reader_round(&r, NO_LIMIT, 0, 0);
    reader_round(&r, NO_LIMIT, 0, 0);
    CHECK_EQ(r.looked_at, before);
    CHECK_EQ(scan_aside_count(r.scan), 0);
    CHECK_EQ(r.twice, 0);
    reader_fini(&r);
}

TEST(more_long_transactions_than_can_be_set_aside_lose_nothing)
{
    const struct scan_limits limits = { .stretch = 10, .aside = 2 };
    struct reader r;
    server_init(&server, 1);
    reader_init(&r, &server, &limits);
    struct server_tx *open[5];
    for (size_t i = 0; i < 5; i++) {
        open[i] = server_begin(&server);
        server_draw_xid(&server, open[i]);
        server_insert(&server, open[i], 0);
    }
    for (int i = 0; i < 500; i++) {
        send((unsigned)i % SERVER_LANES);
        reader_round(&r, NO_LIMIT, 0, 0);
        CHECK(scan_aside_count(r.scan) <= 2);
        if (i >= 250 && i < 255)
            server_end(&server, open[i - 250], true);
    }
    CHECK_EQ(reader_missing(&r), 0);
    CHECK_EQ(r.twice, 0);
    CHECK(scan_floor(r.scan) > 490);
    reader_fini(&r);
}

/* S3: the saved snapshot must not move before the whole stretch was read. */
TEST(a_late_pass_that_is_cut_is_finished_as_of_its_own_snapshot)
{
    struct reader r;
    server_init(&server, 1);
    reader_init(&r, &server, NULL);
    struct server_tx *first = server_begin(&server), *second = server_begin(&server);
    server_draw_xid(&server, first);
    server_draw_xid(&server, second);
    for (int i = 0; i < 5; i++) {
        server_insert(&server, first, 0);
        server_insert(&server, second, 0);
    }
    send(0);
    reader_round(&r, NO_LIMIT, 0, 0);
    server_end(&server, first, true);
    reader_round(&r, 2, 0, 0);         /* two of five */
    server_end(&server, second, true); /* below and above the place where it was cut */
    for (int i = 0; i < 5; i++)
        reader_round(&r, 2, 0, 0);
    CHECK_EQ(reader_missing(&r), 0);
    CHECK_EQ(r.twice, 0);
    reader_fini(&r);
}

TEST(a_lane_that_is_started_again_is_read_from_its_beginning) /* S5 */
{
    struct reader r;
    server_init(&server, 1);
    reader_init(&r, &server, NULL);
    for (unsigned i = 0; i < 40; i++)
        send(i % SERVER_LANES);
    reader_round(&r, NO_LIMIT, 0, 0);
    for (int i = 0; i < 40; i++)
        server.rows[i].deleted = false;
    scan_stop(r.scan, 1);
    CHECK(!scan_is_started(r.scan, 1));
    scan_start(r.scan, 1);
    reader_round(&r, NO_LIMIT, 0, 0);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(server.rows[i].reads, server.rows[i].lane == 1 ? 2 : 1);
    reader_fini(&r);
}

TEST(a_sequence_that_went_back_starts_everything_anew) /* S5 */
{
    struct reader r;
    server_init(&server, 1);
    reader_init(&r, &server, NULL);
    for (unsigned i = 0; i < 40; i++)
        send(i % SERVER_LANES);
    reader_round(&r, NO_LIMIT, 0, 0);

    server_init(&server, 1); /* restored from an old backup */
    for (unsigned i = 0; i < 20; i++)
        send(i % SERVER_LANES);
    reader_round(&r, NO_LIMIT, 0, 0);
    CHECK_EQ(reader_missing(&r), 0);
    reader_fini(&r);
}

/* S5, B28: a crash loses the last commits, and others draw their xids and seqs before the next round.  The scan cannot see
 * that by its numbers: whoever knows of the new connection tells it. */
static uint64_t missing_after_loss(uint64_t seed, bool told)
{
    struct reader r;
    server_init(&server, seed);
    reader_init(&r, &server, NULL);
    server_busy(&server, 300);
    reader_round(&r, NO_LIMIT, 0, 0);
    uint64_t xid = server.next_xid;
    int64_t last = server.last;
    server_busy(&server, 200);
    reader_round(&r, NO_LIMIT, 0, 0);
    server_lose(&server, xid, last);
    server_busy(&server, 400);
    if (told)
        scan_forget(r.scan);
    for (int64_t i = 0; i < last && told; i++)
        server.rows[i].deleted = server.rows[i].reads > 0; /* those were sent */
    server_end_all(&server);
    reader_round(&r, NO_LIMIT, 0, 0);
    uint64_t missing = reader_missing(&r);
    reader_fini(&r);
    return missing;
}

TEST(what_takes_the_places_of_lost_commits_is_read_when_the_scan_is_told) /* S5, B28 */
{
    uint64_t untold = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        CHECK_EQ(missing_after_loss(seed, true), 0);
        untold += missing_after_loss(seed, false);
    }
    CHECK(untold > 0); /* so the model can show the mistake */
}

TEST(visible_is_what_had_ended_when_the_snapshot_was_taken)
{
    const uint64_t xip[] = { 10, 12, 15 };
    const struct snapshot s = { .xmin = 10, .xmax = 16, .xip = xip, .xip_count = 3 };
    CHECK(scan_visible(&s, 9));
    CHECK(!scan_visible(&s, 10));
    CHECK(scan_visible(&s, 11));
    CHECK(!scan_visible(&s, 12));
    CHECK(scan_visible(&s, 14));
    CHECK(!scan_visible(&s, 15));
    CHECK(!scan_visible(&s, 16));
    CHECK(!scan_visible(&s, 17));
}
