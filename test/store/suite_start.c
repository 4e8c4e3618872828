/* New rows that the cycle which reads them puts on its receipt (cycle.start_fresh). */
#include "suite.h"

/* A worker that has read rows before: a store may look more closely at the first ones. */
static struct worker *start_worker(struct suite *s)
{
    struct worker *w = suite_join(s, "outbox");
    SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .fresh_bytes = 1 << 20)->row_count, 1);
    SEND(s, "outbox");
    if (CYCLE(w, .fresh_rows = 10, .fresh_bytes = 1 << 20, .start_fresh = 4)->started == STARTED_NONE)
        SKIP("this store starts nothing by itself");
    return w;
}

static const struct cycle_reply *start(struct worker *w, size_t count)
{
    return CYCLE(w, .fresh_rows = 10, .fresh_bytes = 1 << 20, .start_fresh = count);
}

static bool is_out(struct suite *s, pr_id id)
{
    return suite_get(s, id)->state == STATE_IN_FLIGHT;
}

STORE_TEST(what_comes_is_started_by_the_cycle_that_reads_it) /* B11 */
{
    struct worker *w = start_worker(s);
    pr_id a = SEND(s, "outbox", .stream = PR_STR("a")), b = SEND(s, "outbox");
    const struct cycle_reply *r = start(w, 2);
    uint64_t number = w->number - 1;
    CHECK_EQ(r->started, STARTED_ALL);
    CHECK_EQ(r->row_count, 2);
    CHECK(is_out(s, a) && is_out(s, b));
    CYCLE(w, .closed = &number, .closed_count = 1);
    CHECK(!is_out(s, a) && !is_out(s, b));
    CHECK_EQ(start(w, 2)->started, STARTED_NONE); /* there is nothing new */
}

STORE_TEST(what_was_started_counts_when_its_instance_dies) /* B22, T6 */
{
    struct worker *w = start_worker(s);
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(start(w, 4)->started, STARTED_ALL);
    worker_vanish(w);
    suite_advance(s, 2 * SUITE_LEASE_US);
    suite_join(s, "outbox");
    CHECK_EQ(suite_get(s, id)->m.attempts, 1);
}

STORE_TEST(more_than_may_be_started_are_only_read) /* B11 */
{
    struct worker *w = start_worker(s);
    pr_id first = SEND(s, "outbox");
    SEND(s, "outbox");
    CHECK_EQ(start(w, 1)->started, STARTED_NONE);
    CHECK_EQ(w->reply->row_count, 2);
    CHECK(!is_out(s, first));
}

STORE_TEST(two_of_one_stream_are_not_started_together) /* B50 */
{
    struct worker *w = start_worker(s);
    pr_id first = SEND(s, "outbox", .stream = PR_STR("a"));
    SEND(s, "outbox", .stream = PR_STR("a"));
    CHECK_EQ(start(w, 4)->started, STARTED_NONE);
    CHECK_EQ(w->reply->row_count, 2);
    CHECK(!is_out(s, first));
}

/* It was handed out when an instance died: it may be what it died of. */
STORE_TEST(what_was_handed_out_before_is_not_started_with_others) /* B22 */
{
    struct worker *w = start_worker(s);
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(start(w, 4)->started, STARTED_ALL);
    worker_vanish(w);
    suite_advance(s, 2 * SUITE_LEASE_US);
    struct worker *next = suite_join(s, "outbox");
    CHECK_EQ(start(next, 9)->started, STARTED_NONE);
    CHECK_EQ(reply_find(next->reply, id)->m.attempts, 1);
    CHECK(!is_out(s, id));
}

/* Nobody knows what the lost answer said; what it put on a receipt is closed, and read again. */
STORE_TEST(asked_again_it_says_that_there_may_be_a_receipt) /* B7, T2 */
{
    struct worker *w = start_worker(s);
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(start(w, 4)->started, STARTED_ALL);
    w->number--;
    const struct cycle_reply *r = start(w, 4);
    uint64_t number = w->number - 1;
    CHECK(r->replayed);
    CHECK_EQ(r->started, STARTED_UNKNOWN);
    CHECK(reply_find(r, id) != NULL);
    CHECK(is_out(s, id));
    CYCLE(w, .closed = &number, .closed_count = 1);
    CHECK(!is_out(s, id));
    CHECK_EQ(suite_get(s, id)->m.attempts, 0);
}

/* Where the rows of a stream go out as one run. */
STORE_TEST(two_of_one_stream_are_started_together_in_runs) /* B121 */
{
    struct worker *w = start_worker(s);
    pr_id first = SEND(s, "outbox", .stream = PR_STR("a")), second = SEND(s, "outbox", .stream = PR_STR("a"));
    const struct cycle_reply *r =
        CYCLE(w, .fresh_rows = 10, .fresh_bytes = 1 << 20, .start_fresh = 4, .start_runs = true);
    CHECK_EQ(r->started, STARTED_ALL);
    CHECK_EQ(r->row_count, 2);
    CHECK(is_out(s, first) && is_out(s, second));
}

STORE_TEST(nothing_is_started_when_a_stream_is_excluded) /* B50 */
{
    static const pr_slice known[] = { PR_STR("a"), PR_STR("b") };
    struct worker *w = start_worker(s);
    pr_id excluded = SEND(s, "outbox", .stream = PR_STR("b"));
    const struct cycle_reply *r =
        CYCLE(w, .fresh_rows = 10, .fresh_bytes = 1 << 20, .start_fresh = 4, .start_not = known, .start_not_count = 2);
    CHECK_EQ(r->started, STARTED_NONE);
    CHECK_EQ(r->row_count, 1);
    CHECK(!is_out(s, excluded));
    pr_id other = SEND(s, "outbox", .stream = PR_STR("c")), loose = SEND(s, "outbox");
    r = CYCLE(w, .fresh_rows = 10, .fresh_bytes = 1 << 20, .start_fresh = 4, .start_not = known, .start_not_count = 2);
    CHECK_EQ(r->started, STARTED_ALL);
    CHECK(is_out(s, other) && is_out(s, loose));
}

/* What it starts stays out when later cycles change something, until its number is closed. */
STORE_TEST(a_cycle_with_verdicts_starts_what_it_reads) /* B11, T6 */
{
    struct worker *w = start_worker(s);
    pr_id done = SEND(s, "outbox");
    CHECK_EQ(start(w, 4)->started, STARTED_ALL);
    const struct verdict v = {
        .kind = VERDICT_COMPLETE, .row = reply_find(w->reply, done)->row, .id = done, .number = 1
    };
    uint64_t numbers[] = { w->number - 1, 0 };
    pr_id next = SEND(s, "outbox");
    const struct cycle_reply *r = CYCLE(w, .verdicts = &v, .verdict_count = 1, .closed = numbers, .closed_count = 1,
                                        .fresh_rows = 10, .fresh_bytes = 1 << 20, .start_fresh = 4);
    CHECK_EQ(r->answers[0], PR_OK);
    CHECK_EQ(r->started, STARTED_ALL);
    numbers[1] = w->number - 1;
    CHECK(is_out(s, next));
    const struct tally tally = { .endpoint = PR_STR("a"), .sent = 1 };
    for (int i = 0; i < 2; i++)
        CYCLE(w, .tallies = &tally, .tally_count = 1);
    CHECK(is_out(s, next));
    CYCLE(w, .closed = &numbers[1], .closed_count = 1);
    CHECK(!is_out(s, next));
}
