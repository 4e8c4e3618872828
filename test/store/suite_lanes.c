/* Instances, leases and lanes; burying the dead. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/story.h"

/* T4: no lane has two owners. */
static uint64_t lanes_owned_together(struct suite *s)
{
    uint64_t all = 0;
    for (size_t i = 0; i < s->worker_count; i++) {
        CHECK_EQ(all & s->workers[i].lanes, 0);
        all |= s->workers[i].lanes;
    }
    return all;
}

static int lanes_of(const struct worker *w)
{
    return (int)lanes_count(w->lanes);
}

static void check_even_shares(struct suite *s, size_t living)
{
    CHECK_EQ(lanes_owned_together(s), LANES_ALL);
    int share = LANE_COUNT / (int)living;
    for (size_t i = 0; i < s->worker_count; i++)
        if (s->workers[i].open)
            CHECK(lanes_of(&s->workers[i]) >= share - 1 && lanes_of(&s->workers[i]) <= share + 1);
}

STORE_TEST(one_instance_owns_all_lanes) /* B20 */
{
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(w->lanes, LANES_ALL);
    CHECK_EQ(w->reply->lanes_asked, 0);
}

STORE_TEST(lanes_are_shared_evenly_however_many_join) /* B20 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    for (size_t n = 1; n <= 7; n++) {
        suite_join(s, "outbox");
        suite_settle_lanes(s);
        check_even_shares(s, n);
    }
}

STORE_TEST(who_joins_steals_nothing) /* B21, T4 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "outbox");
    struct worker *b = suite_join(s, "outbox");
    CHECK_EQ(b->lanes, 0);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(CYCLE(b)->lanes_owned, 0);
        CHECK_EQ(CYCLE(a)->lanes_owned, LANES_ALL);
    }
    uint64_t asked = a->reply->lanes_asked;
    CHECK_EQ(__builtin_popcountll(asked), 32);

    /* What is in flight stays; what is given goes over, and only that. */
    uint64_t given = asked & (asked - 1);
    CHECK_EQ(CYCLE(a, .lanes_give = given)->lanes_owned, LANES_ALL & ~given);
    CHECK_EQ(CYCLE(b)->lanes_owned, given);
    CHECK_EQ(lanes_owned_together(s), LANES_ALL);
    CHECK_EQ(CYCLE(a)->lanes_asked, asked & ~given);
}

STORE_TEST(lanes_that_are_not_owned_cannot_be_given) /* T4 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "outbox"), *b = suite_join(s, "outbox");
    suite_settle_lanes(s);
    uint64_t of_b = b->lanes;
    CYCLE(a, .lanes_give = of_b);
    CHECK_EQ(CYCLE(b)->lanes_owned, of_b);
}

STORE_TEST(who_leaves_hands_its_lanes_over_at_once) /* B20 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "outbox"), *b = suite_join(s, "outbox");
    suite_settle_lanes(s);
    CYCLE(a, .leave = true);
    CHECK_EQ(CYCLE(b)->lanes_owned, LANES_ALL);
    CHECK_EQ(suite_query(s, QUERY_INSTANCES, FILTER())->instance_count, 1);
}

STORE_TEST(who_has_left_is_gone) /* B14 T3 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    struct verdict v = VERDICT_OF(c, .kind = VERDICT_RETURN);
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .closed = &c.cycle, .closed_count = 1, .leave = true);
    CHECK_EQ(suite_query(s, QUERY_INSTANCES, FILTER())->instance_count, 0);
    CHECK_EQ(suite_get(s, id)->m.attempts, 0); /* B14: nothing is counted */
    CHECK_EQ(CYCLE_TRY(w), PR_ELEASE);
    worker_renew_identity(w);
    CHECK_EQ(CYCLE(w)->lanes_owned, LANES_ALL);
}

STORE_TEST(the_lanes_of_a_dead_instance_are_free_when_its_lease_ends_and_not_before) /* B22, B24 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "outbox"), *b = suite_join(s, "outbox");
    suite_settle_lanes(s);
    CYCLE(b, .force_write = true);
    CYCLE(a, .force_write = true);
    uint64_t of_b = b->lanes;
    worker_vanish(a);
    suite_advance(s, SUITE_LEASE_US - PR_MILLISECONDS(1));
    CHECK_EQ(CYCLE(b, .force_write = true)->lanes_owned, of_b);
    suite_advance(s, PR_MILLISECONDS(2));
    CYCLE(b);
    CHECK_EQ(CYCLE(b)->lanes_owned, LANES_ALL);
    CHECK_EQ(suite_query(s, QUERY_INSTANCES, FILTER())->instance_count, 1);
}

STORE_TEST(who_joins_after_the_lease_of_a_dead_instance_gets_everything) /* B24 */
{
    struct worker *a = suite_join(s, "outbox");
    worker_vanish(a);
    suite_advance(s, SUITE_LEASE_US + PR_MILLISECONDS(1));
    CHECK_EQ(suite_join(s, "outbox")->lanes, LANES_ALL);
}

STORE_TEST(one_instance_works_and_another_stands_by_until_it_leaves) /* B24 */
{
    suite_cannot(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "outbox"), *b = suite_join(s, "outbox");
    SEND(s, "outbox");
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(CYCLE(b, .fresh_rows = 10)->lanes_owned, 0);
        CHECK_EQ(b->reply->row_count, 0);
        CHECK_EQ(CYCLE(a)->lanes_owned, LANES_ALL);
        CHECK_EQ(a->reply->lanes_asked, 0);
    }
    CYCLE(a, .leave = true);
    CHECK_EQ(CYCLE(b, .fresh_rows = 10)->lanes_owned, LANES_ALL);
    if (b->reply->row_count == 0)
        CYCLE(b, .fresh_rows = 10);
    CHECK_EQ(b->reply->row_count, 1);
}

STORE_TEST(who_stands_by_takes_over_at_once_when_the_worker_is_gone) /* B24 */
{
    suite_cannot(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "outbox"), *b = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_claim(a, id);
    CHECK_EQ(CYCLE(b)->lanes_owned, 0);
    worker_vanish(a);
    CYCLE(b);
    CHECK_EQ(CYCLE(b)->lanes_owned, LANES_ALL);
    CHECK_EQ(suite_get(s, id)->m.attempts, 1);
    CHECK_EQ(suite_query(s, QUERY_INSTANCES, FILTER())->instance_count, 1);
}

/* ---- The fence -------------------------------------------------------------------- */

STORE_TEST(an_instance_whose_lease_was_taken_changes_nothing) /* B23, T3 */
{
    struct worker *a = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), other = SEND(s, "outbox");
    struct claim c = worker_claim(a, id);
    struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    struct receipt_entry entry = { suite_get(s, other)->row, 1 };
    struct pr_message m = { .id = suite_id(5), .type = PR_STR("t") };
    struct effect effect = { .verdict = EFFECT_ALWAYS, .box = PR_STR("outbox"), .message = &m };
    struct tally tally = { .endpoint = PR_STR("e"), .sent = 1 };

    suite_advance(s, SUITE_LEASE_US + PR_SECONDS(1)); /* SIGSTOP */
    struct worker *b = suite_worker(s, "outbox");
    CYCLE(b);
    CYCLE(b);
    CHECK_EQ(CYCLE(b)->lanes_owned, LANES_ALL);

    CHECK_EQ(CYCLE_TRY(a, .verdicts = &v, .verdict_count = 1, .receipt = &entry, .receipt_count = 1, .effects = &effect,
                       .effect_count = 1, .tallies = &tally, .tally_count = 1, .closed = &c.cycle, .closed_count = 1),
             PR_ELEASE); /* SIGCONT */
    CHECK(a->error.text[0] != '\0');
    CHECK_EQ(suite_get(s, id)->m.attempts, 1); /* buried */
    CHECK_EQ(suite_get(s, other)->state, STATE_READY);
    CHECK(suite_find(s, m.id) == NULL);
    CHECK(suite_endpoint(s, "e") == NULL || suite_endpoint(s, "e")->sent == 0);
    CHECK_EQ(CYCLE(b)->lanes_owned, LANES_ALL);
    CHECK_EQ(CYCLE_TRY(a), PR_ELEASE);
}

STORE_TEST(who_lost_its_lease_joins_again_as_another_instance) /* B23 */
{
    struct worker *a = suite_join(s, "outbox");
    int64_t epoch = a->epoch;
    suite_advance(s, SUITE_LEASE_US + PR_SECONDS(1));
    struct worker *b = suite_worker(s, "outbox");
    CYCLE(b);
    CYCLE(b);
    CHECK_EQ(CYCLE_TRY(a), PR_ELEASE);
    worker_renew_identity(a);
    CHECK_OK(CYCLE_TRY(a), &a->error);
    CHECK(a->epoch > epoch);
    CYCLE(b);
    lanes_owned_together(s);
}

STORE_TEST(an_instance_that_never_joined_has_no_lease) /* T3 */
{
    struct worker *w = suite_worker(s, "outbox");
    w->epoch = 7;
    w->number = 3;
    CHECK_EQ(CYCLE_TRY(w), PR_ELEASE);
}

STORE_TEST(an_old_epoch_is_fenced_off) /* B8, T3 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    w->epoch--;
    if (w->epoch == 0)
        w->epoch = INT64_MAX; /* 0 would be a join */
    CHECK_EQ(CYCLE_TRY(w, .verdicts = &v, .verdict_count = 1), PR_ELEASE);
    suite_get(s, id);
}

STORE_TEST(jumps_of_the_wall_clock_cost_no_lease) /* B25 */
{
    struct worker *a = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(a, id);
    static const int64_t jumps[] = { 3600, -7200, 10LL * 365 * 86400, -20LL * 365 * 86400, 86400 };
    struct worker *b = suite_worker(s, "outbox");
    CYCLE(b);
    for (size_t i = 0; i < ARRAY_LENGTH(jumps); i++) {
        s->wall_us += PR_SECONDS(jumps[i]);
        suite_advance(s, PR_SECONDS(1));
        CHECK_EQ(CYCLE(b, .force_write = true)->lanes_owned, 0);
        CHECK_OK(CYCLE_TRY(a, .force_write = true), &a->error);
        CHECK_EQ(a->reply->now_us, s->wall_us);
        CHECK_EQ(a->lanes, LANES_ALL);
    }
    CHECK_EQ(VERDICT(a, c, .kind = VERDICT_COMPLETE), PR_OK);
}

STORE_TEST(due_times_follow_the_wall_clock_where_it_jumps) /* B25 */
{
    struct worker *w = suite_join(s, "outbox");
    SEND(s, "outbox", .due_us = SUITE_START_US + PR_SECONDS(3600));
    s->wall_us += PR_SECONDS(3600);
    CHECK_EQ(CYCLE(w, .due.rows = 10)->row_count, 1);
    s->wall_us -= PR_SECONDS(1);
    CHECK_EQ(CYCLE(w, .due.rows = 10)->row_count, 0);
}

/* ---- Burying ---------------------------------------------------------------------- */

/* a is dead; b takes over. */
static struct worker *bury(struct suite *s, struct worker *a)
{
    worker_vanish(a);
    suite_advance(s, SUITE_LEASE_US + PR_MILLISECONDS(1));
    struct worker *b = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(b)->lanes_owned, LANES_ALL);
    return b;
}

STORE_TEST(burying_counts_what_is_on_open_receipts_and_nothing_else) /* B22, B46, T6 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id in_flight = SEND(s, "outbox"), read = SEND(s, "outbox"), held = SEND(s, "outbox");
    pr_id delayed = SEND(s, "outbox", .due_us = SUITE_START_US + PR_SECONDS(900));
    pr_id done = SEND(s, "outbox"), failed = SEND(s, "outbox");
    CYCLE(w, .fresh_rows = 100);
    CHECK_EQ(VERDICT(w, suite_seen(s, held), .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);

    struct receipt_entry entries[] = { { suite_get(s, in_flight)->row, 1 },
                                       { suite_get(s, done)->row, 1 },
                                       { suite_get(s, failed)->row, 1 } };
    CYCLE(w, .receipt = entries, .receipt_count = 3);
    /* The receipt stays open: two of its messages are judged, the third is still on its way. */
    struct verdict v[] = {
        { .kind = VERDICT_COMPLETE, .row = entries[1].row, .id = done, .number = 1 },
        { .kind = VERDICT_FAIL, .row = entries[2].row, .id = failed, .number = 1, .reason = PR_REASON_UNKNOWN },
    };
    CYCLE(w, .verdicts = v, .verdict_count = 2);
    bury(s, w);

    CHECK_EQ(suite_get(s, in_flight)->m.attempts, 1);
    CHECK_EQ(suite_get(s, in_flight)->m.failures, 0);
    CHECK_EQ(suite_get(s, failed)->m.attempts, 1); /* it had it already */
    CHECK_EQ(suite_get(s, failed)->m.failures, 1);
    CHECK_EQ(suite_get(s, read)->m.attempts, 0);
    CHECK_EQ(suite_get(s, held)->m.attempts, 0);
    CHECK_EQ(suite_get(s, delayed)->m.attempts, 0);
    CHECK(suite_find(s, done) == NULL);
    CHECK_EQ(suite_get(s, in_flight)->state, STATE_READY); /* the receipts are gone */
}

STORE_TEST(burying_does_not_count_what_was_returned_and_counts_what_was_carried_over_once) /* B44, B46 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id returned = SEND(s, "outbox"), carried = SEND(s, "outbox");
    struct receipt_entry entries[] = { { suite_get(s, returned)->row, 1 }, { suite_get(s, carried)->row, 1 } };
    uint64_t first = w->number;
    CYCLE(w, .receipt = entries, .receipt_count = 2);
    struct verdict v = { .kind = VERDICT_RETURN, .row = entries[0].row, .id = returned, .number = 1 };
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .closed = &first, .closed_count = 1, .receipt = &entries[1],
          .receipt_count = 1);
    bury(s, w);
    CHECK_EQ(suite_get(s, returned)->m.attempts, 0);
    CHECK_EQ(suite_get(s, carried)->m.attempts, 1);
}

STORE_TEST(burying_twice_counts_once) /* B46, T6 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_claim(w, id);
    struct worker *b = bury(s, w);
    CYCLE(b);
    struct worker *c = bury(s, b);
    CYCLE(c);
    CHECK_EQ(suite_get(s, id)->m.attempts, 1);
}

STORE_TEST(the_story_says_of_each_hand_out_without_an_outcome_when_it_was_and_who_had_it) /* B47, T6 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("billing")), judged = SEND(s, "outbox");
    char expected[512] = "[", at[TIME_TEXT_SIZE];
    worker_fail(w, judged, 0);
    for (int attempt = 1; attempt <= 3; attempt++) {
        size_t used = strlen(expected);
        worker_claim(w, id);
        time_format_rfc3339(s->wall_us, at);
        snprintf(expected + used, sizeof(expected) - used,
                 "%s{\"at\":\"%s\",\"attempt\":%d,\"endpoint\":\"billing\",\"instance\":\"%s\",\"step\":\"lost\"}",
                 attempt > 1 ? "," : "", at, attempt, w->name);
        if (attempt == 2)
            CYCLE(w, .leave = true); /* an open receipt of one that leaves is counted in the same way */
        w = bury(s, w);
    }
    strcat(expected, "]");
    CHECK_SLICE(suite_get(s, id)->m.story, expected);
    CHECK_EQ(story_count_lost(suite_get(s, judged)->m.story, NULL), 0);
}

STORE_TEST(a_story_of_lost_hand_outs_has_the_latest_lines_behind_what_was_told_before) /* B47 */
{
    enum { BEFORE = STORY_LINES_MAX - 2 };
    int lines;
    char story[2048] = "[";
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    for (int i = 1; i <= BEFORE; i++)
        snprintf(story + strlen(story), sizeof(story) - strlen(story),
                 "%s{\"at\":\"2024-01-01T00:00:00Z\",\"attempt\":%d,\"step\":\"retry\"}", i > 1 ? "," : "", i);
    strcat(story, "]");
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN, .story = pr_str(story)),
             PR_OK);
    for (int i = 1; i <= 4; i++) {
        worker_claim(w, id);
        w = bury(s, w);
        CHECK_EQ(story_count_lost(suite_get(s, id)->m.story, &lines), i);
        CHECK_EQ(lines, i < 2 ? BEFORE + 1 : STORY_LINES_MAX);
    }
    CHECK_EQ(suite_get(s, id)->m.attempts, 5);
}

STORE_TEST(burying_never_lowers_what_was_counted) /* T6 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim first = worker_claim(w, id);
    struct verdict v = VERDICT_OF(first, .kind = VERDICT_ABANDON);
    CYCLE(w, .verdicts = &v, .verdict_count = 1); /* its receipt stays open */
    worker_fail(w, id, 0);
    CHECK_EQ(suite_get(s, id)->m.attempts, 2);
    bury(s, w);
    CHECK_EQ(suite_get(s, id)->m.attempts, 2);
}

STORE_TEST(a_retry_by_hand_makes_open_receipts_forget_the_row) /* B40, T6 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id first = SEND(s, "outbox"), second = SEND(s, "outbox"), judged = SEND(s, "outbox"), other = SEND(s, "outbox");
    worker_fail(w, second, 0);
    worker_claim(w, first);
    worker_claim(w, second);
    worker_claim(w, other);
    struct verdict v = VERDICT_OF(worker_claim(w, judged), .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED);
    CYCLE(w, .verdicts = &v, .verdict_count = 1); /* its receipt stays open */
    pr_id *const retried[] = { &first, &second, &judged };
    for (size_t i = 0; i < 3; i++)
        ADMIN_ID(s, ADMIN_RETRY, *retried[i]);
    struct worker *b = bury(s, w);
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ(suite_get(s, *retried[i])->m.attempts, 0);
    CHECK_EQ(suite_get(s, other)->m.attempts, 1);

    /* What is announced after it counts. */
    CHECK_EQ(worker_claim(b, second).number, 1);
    bury(s, b);
    CHECK_EQ(suite_get(s, second)->m.attempts, 1);
}

STORE_TEST(an_old_number_on_a_receipt_counts_nothing_after_a_retry_by_hand) /* B40, T6 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_fail(w, id, 0);
    struct claim old = worker_claim(w, id);
    ADMIN_ID(s, ADMIN_RETRY, id);
    /* Its owner carries it over before it hears of the retry. */
    struct receipt_entry entry = { old.row, old.number };
    CYCLE(w, .receipt = &entry, .receipt_count = 1);
    CHECK_EQ(VERDICT(w, old, .kind = VERDICT_DISCARD), PR_STALE);
    CHECK_EQ(VERDICT(w, old, .kind = VERDICT_FAIL), PR_STALE);
    bury(s, w);
    CHECK_EQ(suite_get(s, id)->m.attempts, 0);
}

STORE_TEST(the_receipts_of_a_buried_instance_are_gone) /* T6 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_claim(w, id);
    bury(s, w);
    ADMIN_ID(s, ADMIN_RETRY, id); /* the counters say nothing about the old receipt any more */
    CHECK_EQ(suite_get(s, id)->state, STATE_READY);
    CHECK_EQ(suite_box(s, "outbox")->in_flight, 0);
}

STORE_TEST(every_death_with_it_in_hand_is_one_attempt_more) /* B40, B46 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    for (int i = 1; i <= 5; i++) {
        struct claim c = worker_claim(w, id);
        CHECK_EQ(c.number, i);
        w = bury(s, w);
        CHECK_EQ(suite_get(s, id)->m.attempts, i);
    }
    CHECK_EQ(suite_get(s, id)->m.failures, 0);
}

STORE_TEST(an_instance_that_buries_reads_what_the_dead_one_had) /* B22 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id claimed = SEND(s, "outbox"), read = SEND(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    worker_claim(w, claimed);
    struct worker *b = bury(s, w);
    CYCLE(b, .fresh_rows = 10);
    CHECK(reply_find(b->reply, claimed) != NULL);
    CHECK(reply_find(b->reply, read) != NULL);
    CHECK_EQ(reply_find(b->reply, claimed)->m.attempts, 1);
}

STORE_TEST(a_reply_tells_how_much_of_the_lease_is_left)
{
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(w->reply->lease_left_us, SUITE_LEASE_US);
    suite_advance(s, PR_MILLISECONDS(1));
    CHECK_EQ(CYCLE(w, .force_write = true)->lease_left_us, SUITE_LEASE_US);
    suite_advance(s, PR_MILLISECONDS(1));
    int64_t left = CYCLE(w)->lease_left_us; /* renewed or not */
    CHECK(left == SUITE_LEASE_US || left == SUITE_LEASE_US - PR_MILLISECONDS(1));
    struct worker *b = suite_join(s, "outbox");
    CHECK_EQ(b->reply->lease_left_us, SUITE_LEASE_US);
}

STORE_TEST(instances_are_listed_with_their_lease_and_lanes)
{
    struct worker *w = suite_join(s, "outbox");
    suite_advance(s, PR_SECONDS(1));
    CYCLE(w, .force_write = true);
    suite_advance(s, PR_SECONDS(2));
    const struct query_reply *r = suite_query(s, QUERY_INSTANCES, FILTER());
    CHECK_EQ(r->instance_count, 1);
    CHECK_SLICE(r->instances[0].name, w->name);
    CHECK_SLICE(r->instances[0].box, "outbox");
    CHECK(pr_id_equal(r->instances[0].id, w->id));
    CHECK_EQ(r->instances[0].epoch, w->epoch);
    CHECK_EQ(r->instances[0].lanes, LANE_COUNT);
    CHECK_EQ(r->instances[0].lease_left_us, SUITE_LEASE_US - PR_SECONDS(2));
    CHECK_EQ(r->instances[0].started_us, SUITE_START_US);
}

/* ---- Sharing and reading ---------------------------------------------------------- */

STORE_TEST(two_instances_read_disjoint_rows_and_all_of_them) /* B20, B26 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "outbox"), *b = suite_join(s, "outbox");
    suite_settle_lanes(s);
    for (unsigned i = 1; i <= 200; i++)
        SEND(s, "outbox", .id = suite_id(i), .due_us = i % 4 == 0 ? SUITE_START_US : 0);
    size_t count = CYCLE(a, .fresh_rows = 1000, .due.rows = 1000)->row_count;
    for (size_t i = 0; i < count; i++)
        CHECK((a->lanes & lane_bit(a->reply->rows[i].lane)) != 0);
    const struct cycle_reply *r = CYCLE(b, .fresh_rows = 1000, .due.rows = 1000);
    for (size_t i = 0; i < r->row_count; i++)
        CHECK((b->lanes & lane_bit(r->rows[i].lane)) != 0);
    CHECK_EQ(count + r->row_count, 200);
    CHECK(count > 50 && r->row_count > 50);
}

STORE_TEST(a_lane_that_came_over_is_read_from_its_beginning) /* T7 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "outbox");
    for (unsigned i = 1; i <= 64; i++)
        SEND(s, "outbox", .id = suite_id(i), .stream = suite_stream_in_lane(s, i - 1));
    CHECK_EQ(CYCLE(a, .fresh_rows = 1000)->row_count, 64);
    struct worker *b = suite_join(s, "outbox");
    uint64_t asked = CYCLE(a)->lanes_asked;
    CYCLE(a, .lanes_give = asked);
    CYCLE(b);
    CYCLE(b, .fresh_rows = 1000);
    CHECK_EQ(b->reply->row_count, 32);
    CHECK_EQ(CYCLE(a, .fresh_rows = 1000)->row_count, 0);
    CHECK_EQ(CYCLE(b, .fresh_rows = 1000)->row_count, 0);
    CYCLE(b, .leave = true);
    CYCLE(a);
    CHECK_EQ(CYCLE(a, .fresh_rows = 1000)->row_count, 32);
}
