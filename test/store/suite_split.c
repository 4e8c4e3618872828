/* Splitting: one row becomes one per destination. */
#include "suite.h"

#include <string.h>

STORE_TEST(a_split_row_becomes_one_row_per_destination_and_each_lives_on_its_own) /* B17 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id =
        SEND(s, "outbox", .stream = PR_STR("st"), .payload = PR_STR("p"), .headers = PR_STR("{\"a\":1}"));
    int64_t seq = suite_get(s, id)->m.seq;
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 }, { "c", 1 } };
    suite_advance(s, PR_SECONDS(1));
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 3),
             PR_OK);
    uint64_t rows[3];
    memcpy(rows, w->reply->split_rows, sizeof(rows));
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 3);

    /* The rows told are good for the next cycle, without being read. */
    struct receipt_entry entries[] = { { rows[0], 1 }, { rows[1], 1 } };
    CYCLE(w, .receipt = entries, .receipt_count = 2);
    struct verdict v[] = {
        { .kind = VERDICT_COMPLETE, .row = rows[0], .id = id, .number = 1 },
        { .kind = VERDICT_FAIL,
          .row = rows[1],
          .id = id,
          .number = 1,
          .reason = PR_REASON_REJECTED,
          .delay_us = 7 },
    };
    CYCLE(w, .verdicts = v, .verdict_count = 2);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EQ(w->reply->answers[1], PR_OK);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 2);

    const struct listed *b = suite_get_to(s, id, "b"), *c = suite_get_to(s, id, "c");
    CHECK_EQ(b->m.failures, 1);
    CHECK_EQ(b->row, rows[1]);
    CHECK_EQ(c->row, rows[2]);
    CHECK_EQ(c->m.failures, 0);
    CHECK_EQ(c->m.attempts, 0);
    CHECK_EQ(c->m.seq, seq);
    CHECK_EQ(c->m.due_us, c->m.created_us);
    CHECK_EQ(c->m.created_us, SUITE_START_US);
    CHECK_SLICE(c->m.payload, "p");
    CHECK_SLICE(c->m.headers, "{\"a\":1}");
    CHECK_SLICE(c->m.stream, "st");
    CHECK(message_blocks_stream(&c->m)); /* it keeps its place over a restart */

    /* It comes by its due time; b has another. */
    CHECK_EQ(CYCLE(w, .due.rows = 10, .fresh_rows = 10, .restart_lanes = LANES_ALL)->row_count, 1);
    CHECK_SLICE(w->reply->rows[0].m.destination, "c");
}

STORE_TEST(the_parts_of_a_released_row_are_released) /* B17, B55 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("st"));
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 } };
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_RELEASE), PR_OK);
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2), PR_OK);
    CHECK(suite_get_to(s, id, "a")->m.released);
    CHECK(suite_get_to(s, id, "b")->m.released);
}

STORE_TEST(a_split_of_a_delayed_row_keeps_its_time) /* B17 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .due_us = SUITE_START_US + 50);
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 } };
    suite_advance(s, 60);
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2),
             PR_OK);
    CHECK_EQ(suite_get_to(s, id, "a")->m.due_us, SUITE_START_US + 50);
    CHECK_EQ(suite_get_to(s, id, "b")->m.due_us, SUITE_START_US + 50);
}

STORE_TEST(split_rows_are_told_in_the_order_of_verdicts_with_zero_for_what_was_not_applied)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id one = SEND(s, "outbox"), two = SEND(s, "outbox");
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 } };
    struct claim c1 = suite_seen(s, one), c2 = suite_seen(s, two);
    struct verdict v[] = {
        VERDICT_OF(c1, .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 1),
        VERDICT_OF(c1, .kind = VERDICT_SPLIT, .row = 9999, .destinations = to, .destination_count = 2),
        VERDICT_OF(c2, .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2),
    };
    CYCLE(w, .verdicts = v, .verdict_count = 3);
    uint64_t rows[5];
    memcpy(rows, w->reply->split_rows, sizeof(rows));
    CHECK_EQ(rows[0], suite_get_to(s, one, "a")->row);
    CHECK_EQ(rows[1], 0);
    CHECK_EQ(rows[2], 0);
    CHECK_EQ(rows[3], suite_get_to(s, two, "a")->row);
    CHECK_EQ(rows[4], suite_get_to(s, two, "b")->row);
}

STORE_TEST(a_split_leaves_alone_what_is_there_for_a_destination_already) /* B2, B17 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = suite_id(1);
    SEND(s, "outbox", .id = id, .destination = PR_STR("a"), .payload = PR_STR("first"));
    SEND(s, "outbox", .id = id, .payload = PR_STR("second"));
    struct claim c = { .row = suite_get_to(s, id, "")->row, .id = id };
    uint64_t there = suite_get_to(s, id, "a")->row;
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 } };
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2), PR_OK);
    CHECK_EQ(w->reply->split_rows[0], 0);
    CHECK_EQ(w->reply->split_rows[1], suite_get_to(s, id, "b")->row);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 2);
    CHECK_EQ(suite_get_to(s, id, "a")->row, there);
    CHECK_SLICE(suite_get_to(s, id, "a")->m.payload, "first");
}
