/* Splitting: one row becomes one per destination. */
#include <string.h>

#include "core/ended.h"
#include "suite.h"

STORE_TEST(a_split_row_becomes_one_row_per_destination_and_each_lives_on_its_own) /* B17 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("st"), .payload = PR_STR("p"), .headers = PR_STR("{\"a\":1}"));
    int64_t seq = suite_get(s, id)->m.seq;
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 }, { "c", 1 } };
    suite_advance(s, PR_SECONDS(1));
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 3), PR_OK);
    uint64_t rows[3];
    memcpy(rows, w->reply->split_rows, sizeof(rows));
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 3);

    /* The rows told are good for the next cycle, without being read. */
    struct receipt_entry entries[] = { { rows[0], 1 }, { rows[1], 1 } };
    CYCLE(w, .receipt = entries, .receipt_count = 2);
    struct verdict v[] = {
        { .kind = VERDICT_COMPLETE, .row = rows[0], .id = id, .number = 1 },
        { .kind = VERDICT_FAIL, .row = rows[1], .id = id, .number = 1, .reason = PR_REASON_REJECTED, .delay_us = 7 },
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
    CHECK_EQ(c->m.due_us, 0);
    CHECK_EQ(c->m.created_us, SUITE_START_US);
    CHECK_SLICE(c->m.payload, "p");
    CHECK_SLICE(c->m.headers, "{\"a\":1}");
    CHECK_SLICE(c->m.stream, "st");
    CHECK_SLICE(c->m.held_by, "c/");
    CHECK_EQ(c->m.held_for, PR_HELD_FOR_ENDPOINT);

    /* It waits for its endpoint; b failed, and has a time. */
    struct held_read read = { .key = PR_STR("c/"), .rows = 10 };
    CHECK_EQ(CYCLE(w, .due.rows = 10, .fresh_rows = 10, .restart_lanes = LANES_ALL)->row_count, 0);
    CHECK_EQ(CYCLE(w, .held = &read, .held_count = 1)->row_count, 1);
    CHECK_SLICE(w->reply->rows[0].m.destination, "c");
    CHECK_SLICE(suite_get_to(s, id, "b")->m.held_by, "");
}

static void split_to(struct worker *w, pr_id id, const char *to, const char *holder)
{
    const pr_slice destination = pr_str(to);
    const struct part_holder by = { pr_str(holder), PR_HELD_FOR_STREAM };
    CHECK_EQ(VERDICT(w, suite_seen(w->suite, id), .kind = VERDICT_SPLIT, .destinations = &destination, .holders = &by,
                     .destination_count = 1),
             PR_OK);
}

static uint64_t duplicates_of(struct suite *s, const char *endpoint)
{
    const struct endpoint_state *e = suite_endpoint(s, endpoint);
    return e != NULL ? e->duplicates : 0;
}

/* How often does the ledger say that a duplicate of it for this endpoint has ended? */
static size_t ended_as_duplicate(struct suite *s, pr_id id, const char *endpoint)
{
    const struct query query = { .kind = QUERY_ID, .filter = FILTER(.ids = &id, .id_count = 1), .ended = true };
    struct query_reply *r = arena_zalloc(&s->arena, sizeof(*r));
    size_t count = 0;
    CHECK(r != NULL);
    CHECK_OK(store_query(&s->store, &query, &s->arena, r, &s->error), &s->error);
    for (size_t i = 0; i < r->listed_count; i++)
        count += r->listed[i].ended == ENDED_DUPLICATE && slice_eq_cstr(r->listed[i].endpoint, endpoint);
    return count;
}

/* What the routes give to several endpoints can be sent again while its parts are there: then they are stored once. */
STORE_TEST(parts_that_a_split_leaves_out_are_counted_as_duplicates_and_in_the_ledger) /* B17, B66 */
{
    struct worker *w = suite_join(s, "outbox");
    const pr_id id = suite_id(5);
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 }, { "c", 1 } };
    SEND(s, "outbox", .id = id);
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2), PR_OK);
    CHECK_EQ(duplicates_of(s, "a"), 0);
    struct claim a = worker_claim_to(w, id, "a");
    CHECK_EQ(VERDICT(w, a, .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED, .endpoint = PR_STR("a")), PR_OK);

    SEND(s, "outbox", .id = id);
    const struct verdict v = {
        .kind = VERDICT_SPLIT, .row = suite_get_to(s, id, "")->row, .id = id, .destinations = to, .destination_count = 3
    };
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .retention.ended_us = PR_SECONDS(3600));
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EQ(w->reply->split_rows[0], 0); /* a dead letter */
    CHECK_EQ(w->reply->split_rows[1], 0); /* waits */
    CHECK(w->reply->split_rows[2] != 0);
    CHECK_EQ(duplicates_of(s, "a"), 1);
    CHECK_EQ(duplicates_of(s, "b"), 1);
    CHECK_EQ(duplicates_of(s, "c"), 0);
    CHECK_EQ(ended_as_duplicate(s, id, "a"), 1);
    CHECK_EQ(ended_as_duplicate(s, id, "b"), 1);
    CHECK_EQ(ended_as_duplicate(s, id, "c"), 0);
}

STORE_TEST(parts_that_wait_for_their_endpoint_are_one_key_in_order_over_all_lanes) /* B16, B50 */
{
    struct worker *w = suite_join(s, "outbox");
    enum { COUNT = 100 };
    for (unsigned i = 0; i < COUNT; i++)
        SEND(s, "outbox", .id = suite_id(i + 1), .stream = pr_str(i % 3 == 0 ? "x" : i % 3 == 1 ? "y" : ""));
    for (unsigned i = COUNT; i > 0; i--)
        split_to(w, suite_id(i), "a", "");

    /* Nobody else meets them: they are not fresh, due, or in anybody's way. */
    CHECK_EQ(CYCLE(w, .due.rows = 10, .fresh_rows = 10, .restart_lanes = LANES_ALL,
                   .heads = { .rows = 10, .lanes = LANES_ALL })
                 ->row_count,
             0);
    CHECK_EQ(w->reply->next_due_us, PR_NEVER);
    CHECK_EQ(CYCLE(w, .held_keys = { .rows = 10, .lanes = LANES_ALL })->held_key_count, 1);
    CHECK_SLICE(w->reply->held_keys[0], "a/");
    struct held_read read = { .key = PR_STR("a/"), .rows = 7 };
    size_t count = 0;
    do {
        const struct cycle_reply *r = CYCLE(w, .held = &read, .held_count = 1);
        for (size_t i = 0; i < r->row_count; i++) {
            CHECK(pr_id_equal(r->rows[i].m.id, suite_id((unsigned)++count)));
            read.after_seq = r->rows[i].m.seq;
            read.after_row = r->rows[i].row;
        }
    } while (!w->reply->held_end[0]);
    CHECK_EQ(count, COUNT);
}

STORE_TEST(the_key_of_an_endpoint_is_told_whatever_lane_is_asked_for) /* B16 */
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 0; i < 40; i++) {
        SEND(s, "outbox", .id = suite_id(i + 1));
        split_to(w, suite_id(i + 1), "a", "");
    }
    for (unsigned i = 0; i < 40; i++) {
        uint64_t lane = lane_bit(lane_of(PR_STR(""), suite_id(i + 1)));
        CHECK_EQ(CYCLE(w, .held_keys = { .rows = 10, .lanes = lane })->held_key_count, 1);
    }
}

STORE_TEST(parts_that_wait_for_their_endpoint_are_ready_to_people_and_those_behind_others_are_held) /* B16 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id one = SEND(s, "outbox", .stream = PR_STR("st")), two = SEND(s, "outbox", .stream = PR_STR("st/"));
    split_to(w, one, "a", "");
    split_to(w, two, "a", "a/st/");
    CHECK_SLICE(suite_get(s, one)->m.held_by, "a/");
    CHECK_EQ(suite_get(s, one)->state, STATE_READY);
    CHECK_EQ(suite_get(s, two)->state, STATE_HELD);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.state = STATE_HELD)), 1);
    CHECK_EQ(suite_box(s, "outbox")->held, 1);
    CHECK_EQ(suite_box(s, "outbox")->ready, 1);
    CHECK_EQ(ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("a")), .until_us = PR_NEVER).changed, 1);
    CHECK_EQ(suite_get(s, one)->state, STATE_PAUSED);
    /* Nobody failed in its stream: there is nothing to release it from. */
    CHECK_EQ(ADMIN(s, ADMIN_RELEASE, FILTER(.stream = PR_STR("st"))).changed, 0);
    CHECK_EQ(ADMIN(s, ADMIN_RELEASE, FILTER(.stream = PR_STR("st/"))).changed, 1);
}

STORE_TEST(a_part_that_waits_for_its_endpoint_behind_a_failed_head_can_be_released_with_its_stream) /* B55 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id head = SEND(s, "outbox", .stream = PR_STR("st"), .destination = PR_STR("a"));
    pr_id part = SEND(s, "outbox", .stream = PR_STR("st"));
    CHECK_EQ(VERDICT(w, worker_claim(w, head), .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED,
                     .delay_us = PR_SECONDS(60)),
             PR_OK);
    split_to(w, part, "a", "");
    CHECK_EQ(ADMIN(s, ADMIN_RELEASE, FILTER(.stream = PR_STR("st"))).changed, 1);
    CHECK(suite_get(s, part)->m.released);
    CHECK_SLICE(suite_get(s, part)->m.held_by, "");
    CHECK_EQ(CYCLE(w, .due.rows = 10)->row_count, 1);
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

STORE_TEST(the_parts_of_a_delayed_row_have_no_time_to_wait_for) /* B17, B56 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .due_us = SUITE_START_US + 50);
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 } };
    suite_advance(s, 60);
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2), PR_OK);
    CHECK_EQ(suite_get_to(s, id, "a")->m.due_us, 0);
    CHECK_EQ(suite_get_to(s, id, "b")->m.due_us, 0);
    CHECK_EQ(suite_get_to(s, id, "b")->state, STATE_READY);
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

STORE_TEST(a_split_makes_nothing_for_a_destination_where_its_id_is_dead) /* B2, B17 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = suite_id(1);
    SEND(s, "outbox", .id = id, .destination = PR_STR("a"), .payload = PR_STR("first"));
    worker_kill(w, id);
    SEND(s, "outbox", .id = id, .payload = PR_STR("second"));
    struct claim c = { .row = suite_get_to(s, id, "")->row, .id = id };
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 } };
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2), PR_OK);
    CHECK_EQ(w->reply->split_rows[0], 0);
    CHECK_EQ(w->reply->split_rows[1], suite_get_to(s, id, "b")->row);
    CHECK_EQ(suite_get_to(s, id, "a")->state, STATE_DEAD);
    CHECK_SLICE(suite_get_to(s, id, "a")->m.payload, "first");
    CHECK_EQ(suite_query(s, QUERY_ID, FILTER(.ids = &id, .id_count = 1))->listed_count, 2);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id).changed, 1); /* nothing stands in its way */
}
