/* Reading: fresh rows once, due rows in time, and again on request. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

/* ---- Fresh rows ------------------------------------------------------------------- */

STORE_TEST(the_fresh_scan_reads_every_row_once) /* T7 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox"), b = SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 100)->row_count, 2);
    CHECK(w->reply->fresh_end);
    CHECK(reply_find(w->reply, a) != NULL);
    CHECK(reply_find(w->reply, b) != NULL);
    CHECK_EQ(CYCLE(w, .fresh_rows = 100)->row_count, 0);
    pr_id c = SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 100)->row_count, 1);
    CHECK(reply_find(w->reply, c) != NULL);
}

STORE_TEST(the_fresh_scan_keeps_the_order_of_a_stream)
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 0; i < 30; i++)
        SEND(s, "outbox", .id = suite_id(i + 1), .stream = i % 3 == 0 ? PR_STR("x") : PR_STR("y"));
    int64_t last[2] = { 0, 0 };
    size_t count = 0;
    while (count < 30) {
        const struct cycle_reply *r = CYCLE(w, .fresh_rows = 4);
        CHECK(r->row_count > 0);
        for (size_t i = 0; i < r->row_count; i++) {
            int64_t *before = &last[slice_eq_cstr(r->rows[i].m.stream, "y")];
            CHECK(r->rows[i].m.seq > *before);
            *before = r->rows[i].m.seq;
        }
        count += r->row_count;
    }
    CHECK_EQ(CYCLE(w, .fresh_rows = 4)->row_count, 0);
}

STORE_TEST(the_fresh_scan_stops_at_its_limit_of_rows_and_goes_on_from_there)
{
    struct worker *w = suite_join(s, "outbox");
    for (int i = 0; i < 5; i++)
        SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 2)->row_count, 2);
    CHECK(!w->reply->fresh_end);
    CHECK_EQ(CYCLE(w, .fresh_rows = 2)->row_count, 2);
    CHECK(!w->reply->fresh_end);
    CHECK_EQ(CYCLE(w, .fresh_rows = 2)->row_count, 1);
    CHECK(w->reply->fresh_end);
}

STORE_TEST(the_fresh_scan_stops_at_its_limit_of_bytes_but_reads_at_least_one_row)
{
    struct worker *w = suite_join(s, "outbox");
    static char payload[1000];
    for (int i = 0; i < 6; i++)
        SEND(s, "outbox", .payload = PR_BYTES(payload, sizeof(payload)));
    CHECK_EQ(CYCLE(w, .fresh_rows = 100, .fresh_bytes = 1)->row_count, 1);
    CHECK(!w->reply->fresh_end);
    size_t count = CYCLE(w, .fresh_rows = 100, .fresh_bytes = 2500)->row_count;
    CHECK(count >= 2 && count <= 3);
    CHECK(!w->reply->fresh_end);
    CHECK_EQ(CYCLE(w, .fresh_rows = 100)->row_count, 5 - count);
}

/* ---- What is left out ---------------------------------------------------------------- */

static const struct fresh_skip skips[] = { { .destination = { "x", 1 } },
                                           { .type = { "a", 1 } },
                                           { .type = { "b", 1 } } };
#define SKIPS .skips = skips, .skip_count = ARRAY_LENGTH(skips)

STORE_TEST(new_rows_that_nobody_has_room_for_are_left_out_and_the_reply_says_where) /* T7, B77 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id left[3], told[5];
    SEND(s, "outbox", .type = PR_STR("a"));
    CHECK_EQ(CYCLE(w, .fresh_rows = 1, .fresh_bytes = SIZE_MAX)->row_count, 1); /* how large rows are is known now */
    left[0] = SEND(s, "outbox", .type = PR_STR("a"));
    told[0] = SEND(s, "outbox", .type = PR_STR("a"), .destination = PR_STR("y"));
    told[1] = SEND(s, "outbox", .type = PR_STR("a"),
                   .headers = PR_STR("{\"postrider-reply\":\"00000000-0000-7000-8000-000000000001\"}"));
    left[1] = SEND(s, "outbox", .type = PR_STR("b"), .headers = PR_STR("{\"h\":\"1\"}"));
    told[2] = SEND(s, "outbox", .type = PR_STR("x"));
    told[3] = SEND(s, "outbox", .type = PR_STR("ab"));
    left[2] = SEND(s, "outbox", .type = PR_STR("c"), .destination = PR_STR("x"));
    told[4] = SEND(s, "outbox", .type = PR_STR("c"));
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 100, .fresh_bytes = SIZE_MAX, SKIPS);
    CHECK(r->fresh_end);
    CHECK(r->skipped.from_seq < r->skipped.to_seq);
    CHECK_EQ(r->row_count, ARRAY_LENGTH(told));
    int64_t from_seq = r->skipped.from_seq, to_seq = r->skipped.to_seq;
    for (size_t i = 0; i < ARRAY_LENGTH(told); i++) {
        const struct row *row = reply_find(r, told[i]);
        CHECK(row != NULL);
        CHECK(r->passed != NULL && r->passed[row->lane] >= row->m.seq);
    }
    int64_t passed[LANE_COUNT];
    memcpy(passed, r->passed, sizeof(passed));
    r = CYCLE(w, .fresh_rows = 100, .fresh_bytes = SIZE_MAX, SKIPS);
    CHECK_EQ(r->row_count, 0);
    CHECK_EQ(r->skipped.from_seq, r->skipped.to_seq); /* each once */
    r = CYCLE(w, .reread = { .rows = 100, .from_seq = from_seq, .to_seq = to_seq });
    for (size_t i = 0; i < ARRAY_LENGTH(left); i++) {
        const struct row *row = reply_find(r, left[i]);
        CHECK(row != NULL);
        CHECK(row->m.seq >= from_seq && row->m.seq < to_seq && passed[row->lane] >= row->m.seq);
    }
}

STORE_TEST(where_much_is_left_out_what_is_told_comes_in_order_and_nothing_is_forgotten) /* T7 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id told[40];
    bool seen[40] = { false };
    size_t count = 0;
    int64_t from_seq = INT64_MAX, to_seq = 0;
    for (size_t i = 0; i < 400; i++) {
        pr_id id = SEND(s, "outbox", .type = i % 10 == 9 ? PR_STR("c") : PR_STR("a"), .stream = PR_STR("s"));
        if (i % 10 == 9)
            told[i / 10] = id;
    }
    CYCLE(w, .fresh_rows = 1, .fresh_bytes = SIZE_MAX);
    for (int cycles = 0; count < 40 && cycles < 400; cycles++) {
        const struct cycle_reply *r = CYCLE(w, .fresh_rows = 3, .fresh_bytes = SIZE_MAX, SKIPS);
        CHECK(r->row_count <= 3);
        for (size_t i = 0; i < r->row_count; i++)
            seen[count] = count < 40 && pr_id_equal(r->rows[i].m.id, told[count]), count++;
        if (r->skipped.from_seq < r->skipped.to_seq) {
            from_seq = min64(from_seq, r->skipped.from_seq);
            to_seq = max64(to_seq, r->skipped.to_seq);
        }
    }
    CHECK_EQ(count, 40);
    for (size_t i = 0; i < 40; i++)
        CHECK(seen[i]);
    const struct cycle_reply *r = CYCLE(w, .reread = { .rows = 1000, .from_seq = from_seq, .to_seq = to_seq });
    size_t left = 0;
    for (size_t i = 0; i < r->row_count; i++)
        left += slice_eq_cstr(r->rows[i].m.type, "a");
    CHECK_EQ(left, 359); /* the first was read before */
}

/* ---- Large payloads --------------------------------------------------------------- */

#define LARGE (5 << 20) /* several pieces of a server's answer */

/* Ends inside a character wherever it is cut. */
static pr_slice large_payload(bool text)
{
    static char bytes[LARGE];
    for (size_t i = 0; i < LARGE; i += 2)
        memcpy(bytes + i, text ? "\xc3\xbc" : "\x00\xff", 2);
    bytes[0] = 'a', bytes[LARGE - 1] = 'z', bytes[1] = 'b', bytes[LARGE - 2] = 'y';
    return PR_BYTES(bytes, LARGE);
}

STORE_TEST(a_large_payload_is_loaded_when_its_row_is_about_to_be_sent)
{
    for (int text = 0; text <= 1; text++) {
        struct worker *w = suite_join(s, "outbox");
        pr_slice payload = large_payload(text != 0);
        pr_id id = suite_id((unsigned)text + 1), other = suite_id(7);
        struct pr_message m = { .id = id, .type = PR_STR("t"), .payload = payload };
        struct pr_error error;
        CHECK_OK(store_enqueue(&s->store, PR_STR("outbox"), &m, 1, LARGE, NULL, NULL, &error), &error);
        const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10, .payload_max = 1000);
        CHECK_EQ(r->row_count, 1);
        CHECK_EQ(r->rows[0].over, LARGE);
        CHECK_EQ(r->rows[0].m.payload.size, 0);
        uint64_t row = r->rows[0].row;
        struct row_name loads[] = { { row, other }, { row, id }, { row + 64, id } };
        r = CYCLE(w, .loads = loads, .load_count = 3);
        CHECK_EQ(r->loaded_count, 3);
        CHECK(r->loaded[0].data == NULL); /* another message */
        CHECK_EQ(r->loaded[1].size, LARGE);
        CHECK(memcmp(r->loaded[1].data, payload.data, LARGE) == 0);
        CHECK(r->loaded[2].data == NULL); /* no such row */
        VERDICT(w, suite_seen(s, id), .kind = VERDICT_COMPLETE);
        CHECK(CYCLE(w, .loads = loads + 1, .load_count = 1)->loaded[0].data == NULL);
        CYCLE(w, .leave = true);
    }
}

STORE_TEST(a_payload_that_was_repaired_by_hand_is_loaded_as_it_is_now)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .payload = PR_STR("{\"n\":1}"));
    uint64_t row = CYCLE(w, .fresh_rows = 10, .payload_max = 1)->rows[0].row;
    suite_repair(s, id, "{}");
    const struct cycle_reply *r = CYCLE(w, .loads = &(struct row_name){ row, id }, .load_count = 1);
    CHECK_SLICE(r->loaded[0], "{}");
}

STORE_TEST(nothing_is_read_that_was_not_asked_for)
{
    struct worker *w = suite_join(s, "outbox");
    SEND(s, "outbox");
    SEND(s, "outbox", .due_us = SUITE_START_US);
    CHECK_EQ(CYCLE(w)->row_count, 0);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
    CHECK_EQ(CYCLE(w, .due.rows = 10)->row_count, 1);
}

STORE_TEST(reading_changes_nothing) /* T8 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CYCLE(w, .fresh_rows = 10, .due.rows = 10);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->state, STATE_READY);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.due_us, 0);
}

STORE_TEST(a_restarted_lane_is_read_again_from_its_beginning)
{
    struct worker *w = suite_join(s, "outbox");
    pr_slice here = suite_stream_in_lane(s, 3), there = suite_stream_in_lane(s, 4);
    pr_id a = SEND(s, "outbox", .stream = here), b = SEND(s, "outbox", .stream = there);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 2);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .restart_lanes = lane_bit(3))->row_count, 1);
    CHECK(reply_find(w->reply, a) != NULL);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .restart_lanes = lane_bit(4))->row_count, 1);
    CHECK(reply_find(w->reply, b) != NULL);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .restart_lanes = LANES_ALL)->row_count, 2);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 0);
}

STORE_TEST(a_new_instance_reads_everything_again)
{
    struct worker *w = suite_join(s, "outbox");
    SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
    CYCLE(w, .leave = true);
    worker_renew_identity(w);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
}

STORE_TEST(held_and_due_rows_are_not_read_as_fresh)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id held = SEND(s, "outbox"), failed = SEND(s, "outbox");
    SEND(s, "outbox", .due_us = SUITE_START_US - 5);
    SEND(s, "outbox", .due_us = PR_NEVER);
    CHECK_EQ(VERDICT(w, suite_seen(s, held), .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);
    worker_fail(w, failed, 0);
    CHECK_EQ(CYCLE(w, .fresh_rows = 100, .restart_lanes = LANES_ALL)->row_count, 0);
    CHECK(w->reply->fresh_end);
}

/* ---- Transactions of senders ------------------------------------------------------ */

STORE_TEST(a_row_that_commits_late_with_a_lower_seq_is_read) /* B10 */
{
    suite_needs(s, STORE_CAN_COMMIT_LATE);
    struct worker *w = suite_join(s, "outbox");
    struct pr_message m = { .id = suite_id(1), .type = PR_STR("t"), .stream = PR_STR("a") };
    void *tx = suite_tx_begin(s);
    s->kind->tx_add(s, tx, "outbox", &m);
    pr_id later = SEND(s, "outbox", .stream = PR_STR("a"));

    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
    CHECK(reply_find(w->reply, later) != NULL);
    int64_t later_seq = reply_find(w->reply, later)->m.seq;
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 0);

    s->kind->tx_end(s, tx, true);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
    CHECK(reply_find(w->reply, m.id) != NULL);
    CHECK(reply_find(w->reply, m.id)->m.seq < later_seq);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 0);
}

STORE_TEST(an_open_transaction_delays_only_its_own_rows) /* B11 */
{
    suite_needs(s, STORE_CAN_COMMIT_LATE);
    struct worker *w = suite_join(s, "outbox");
    struct pr_message m = { .id = suite_id(1), .type = PR_STR("t") };
    void *tx = suite_tx_begin(s);
    s->kind->tx_add(s, tx, "outbox", &m);
    for (int i = 0; i < 50; i++) {
        pr_id id = SEND(s, "outbox");
        suite_advance(s, PR_SECONDS(1));
        CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
        CHECK(reply_find(w->reply, id) != NULL);
    }
    s->kind->tx_end(s, tx, true);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
}

STORE_TEST(a_row_whose_transaction_commits_is_read_then_and_not_before) /* B1 */
{
    struct worker *w = suite_join(s, "outbox");
    struct pr_message m = { .id = suite_id(1), .type = PR_STR("t") };
    void *tx = suite_tx_begin(s);
    s->kind->tx_add(s, tx, "outbox", &m);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 0);
    s->kind->tx_end(s, tx, true);
    CHECK(reply_find(CYCLE(w, .fresh_rows = 10), m.id) != NULL);
}

STORE_TEST(a_row_whose_transaction_rolls_back_is_never_read) /* B1 */
{
    struct worker *w = suite_join(s, "outbox");
    struct pr_message m = { .id = suite_id(1), .type = PR_STR("t") };
    void *tx = suite_tx_begin(s);
    s->kind->tx_add(s, tx, "outbox", &m);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 0);
    s->kind->tx_end(s, tx, false);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .restart_lanes = LANES_ALL)->row_count, 0);
    CHECK(suite_find(s, m.id) == NULL);
    CHECK_EQ(OFFER(s, "outbox", .id = m.id), PR_OK);
}

STORE_TEST(late_commits_are_read_exactly_once_whatever_their_order) /* B10, T7 */
{
    suite_needs(s, STORE_CAN_COMMIT_LATE);
    struct worker *w = suite_join(s, "outbox");
    void *tx[8];
    size_t seen = 0;
    for (unsigned i = 0; i < 8; i++) {
        struct pr_message m = { .id = suite_id(i + 1), .type = PR_STR("t") };
        tx[i] = suite_tx_begin(s);
        s->kind->tx_add(s, tx[i], "outbox", &m);
    }
    static const unsigned order[] = { 5, 0, 7, 2, 6, 1, 4, 3 };
    for (size_t i = 0; i < 8; i++) {
        s->kind->tx_end(s, tx[order[i]], true);
        const struct cycle_reply *r = CYCLE(w, .fresh_rows = 100);
        CHECK_EQ(r->row_count, 1);
        CHECK(pr_id_equal(r->rows[0].m.id, suite_id(order[i] + 1)));
        seen++;
    }
    CHECK_EQ(seen, 8);
    CHECK_EQ(CYCLE(w, .fresh_rows = 100)->row_count, 0);
}

/* ---- Due rows --------------------------------------------------------------------- */

STORE_TEST(a_delayed_row_is_not_read_before_its_time) /* B12 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .due_us = SUITE_START_US + PR_SECONDS(5));
    CHECK_EQ(suite_get(s, id)->state, STATE_DELAYED);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 0);
    CHECK_EQ(w->reply->next_due_us, SUITE_START_US + PR_SECONDS(5));
    suite_advance(s, PR_SECONDS(5) - 1);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 0);
    suite_advance(s, 1);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 1);
    CHECK(pr_id_equal(w->reply->rows[0].m.id, id));
    CHECK_EQ(w->reply->rows[0].from, ROW_DUE);
    CHECK_EQ(w->reply->rows[0].m.due_us, SUITE_START_US + PR_SECONDS(5));
    CHECK(w->reply->due_end);
    CHECK_EQ(w->reply->next_due_us, PR_NEVER);
}

STORE_TEST(due_rows_come_by_due_time_and_then_by_place) /* B12 */
{
    struct worker *w = suite_join(s, "outbox");
    static const int64_t dues[] = { 30, 10, 20, 10, 30, 20 };
    static const unsigned expected[] = { 1, 3, 2, 5, 0, 4 };
    for (unsigned i = 0; i < 6; i++)
        SEND(s, "outbox", .id = suite_id(i + 1), .due_us = SUITE_START_US - 100 + dues[i]);
    const struct cycle_reply *r = CYCLE(w, .due.rows = 10);
    CHECK_EQ(r->row_count, 6);
    for (size_t i = 0; i < 6; i++)
        CHECK(pr_id_equal(r->rows[i].m.id, suite_id(expected[i] + 1)));
}

/* Page through everything due, by n; the number of rows. */
static size_t read_due_by(struct worker *w, size_t page, pr_id *ids, size_t max)
{
    size_t count = 0;
    int64_t due = 0, seq = 0;
    uint64_t row = 0;
    for (size_t turns = 0; turns < max + 2; turns++) {
        const struct cycle_reply *r =
            CYCLE(w, .due = { .rows = page, .after_due_us = due, .after_seq = seq, .after_row = row });
        CHECK(r->row_count <= page);
        for (size_t i = 0; i < r->row_count; i++) {
            CHECK(count < max);
            ids[count++] = r->rows[i].m.id;
            due = r->rows[i].m.due_us;
            seq = r->rows[i].m.seq;
            row = r->rows[i].row;
        }
        if (r->due_end)
            return count;
        CHECK_EQ(r->row_count, page);
    }
    check_fail(__FILE__, __LINE__, "the due read does not end");
}

STORE_TEST(due_rows_of_one_time_are_paged_without_loss_or_repetition) /* B12 */
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 0; i < 23; i++)
        SEND(s, "outbox", .id = suite_id(i + 1), .due_us = SUITE_START_US - (i < 11 ? 7 : 3));
    for (size_t page = 1; page <= 24; page += 3) {
        pr_id ids[30];
        CHECK_EQ(read_due_by(w, page, ids, 30), 23);
        for (unsigned i = 0; i < 23; i++)
            CHECK(pr_id_equal(ids[i], suite_id(i + 1)));
    }
}

STORE_TEST(replayed_rows_of_one_time_are_paged_without_loss_although_their_places_are_old) /* B12, B59 */
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 0; i < 9; i++) {
        SEND(s, "outbox", .id = suite_id(i + 1));
        worker_kill(w, suite_id(i + 1));
    }
    for (unsigned i = 9; i > 0; i--) /* the latest comes back first */
        CHECK_EQ(ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.ids = (pr_id[]){ suite_id(i) }, .id_count = 1)).changed, 1);
    for (size_t page = 1; page <= 4; page++) {
        pr_id ids[10];
        CHECK_EQ(read_due_by(w, page, ids, 10), 9);
        for (unsigned i = 0; i < 9; i++)
            for (unsigned k = 0; k < i; k++)
                CHECK(!pr_id_equal(ids[i], ids[k]));
    }
}

STORE_TEST(the_next_due_time_leaves_out_what_is_due_parked_or_held) /* B12 */
{
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(w, .due.rows = 1)->next_due_us, PR_NEVER);
    SEND(s, "outbox", .due_us = SUITE_START_US - 1);
    SEND(s, "outbox", .due_us = PR_NEVER);
    pr_id held = SEND(s, "outbox", .due_us = SUITE_START_US + 3);
    CHECK_EQ(VERDICT(w, suite_seen(s, held), .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);
    CHECK_EQ(CYCLE(w, .due.rows = 1)->next_due_us, PR_NEVER);
    SEND(s, "outbox", .due_us = SUITE_START_US + 9);
    SEND(s, "outbox", .due_us = SUITE_START_US + 5);
    CHECK_EQ(CYCLE(w, .due.rows = 1)->next_due_us, SUITE_START_US + 5);
}

STORE_TEST(parked_rows_are_never_due)
{
    struct worker *w = suite_join(s, "outbox");
    SEND(s, "outbox", .due_us = PR_NEVER);
    suite_advance(s, PR_SECONDS(1) * 3600 * 24 * 365 * 100);
    worker_renew_identity(w);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 0);
}

/* ---- Reading again ---------------------------------------------------------------- */

STORE_TEST(a_stretch_of_places_is_read_again) /* reread */
{
    struct worker *w = suite_join(s, "outbox");
    int64_t seq[8];
    for (unsigned i = 0; i < 8; i++)
        seq[i] = suite_get(s, SEND(s, "outbox", .id = suite_id(i + 1)))->m.seq;
    CYCLE(w, .fresh_rows = 100);
    CHECK_EQ(VERDICT(w, suite_seen(s, suite_id(4)), .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);
    worker_fail(w, suite_id(5), 0);

    /* 2, 3 and 6: 4 is held, 5 has a due time, 7 is behind the end. */
    const struct cycle_reply *r = CYCLE(w, .reread = { .rows = 10, .from_seq = seq[1], .to_seq = seq[6] });
    CHECK_EQ(r->row_count, 3);
    CHECK(pr_id_equal(r->rows[0].m.id, suite_id(2)));
    CHECK(pr_id_equal(r->rows[1].m.id, suite_id(3)));
    CHECK(pr_id_equal(r->rows[2].m.id, suite_id(6)));
    CHECK_EQ(r->rows[0].from, ROW_REREAD);
    CHECK(r->reread_end);

    r = CYCLE(w, .reread = { .rows = 1, .from_seq = seq[1], .to_seq = seq[6] });
    CHECK_EQ(r->row_count, 1);
    CHECK(!r->reread_end);
    int64_t from = r->rows[0].m.seq;
    uint64_t after = r->rows[0].row;
    r = CYCLE(w, .reread = { .rows = 10, .from_seq = from, .to_seq = seq[6], .after_row = after });
    CHECK_EQ(r->row_count, 2);
    CHECK(pr_id_equal(r->rows[0].m.id, suite_id(3)));
    CHECK(r->reread_end);
    /* The fresh scan does not notice. */
    CHECK_EQ(CYCLE(w, .fresh_rows = 100)->row_count, 0);
}

STORE_TEST(an_empty_stretch_is_at_its_end)
{
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(w, .reread = { .rows = 10, .from_seq = 1, .to_seq = 1000 })->row_count, 0);
    CHECK(w->reply->reread_end);
}

STORE_TEST(a_plain_insert_of_type_and_payload_is_a_message)
{
    struct worker *w = suite_join(s, "outbox");
    suite_plant(s, "outbox", &(struct plant){ .type = "order.created", .payload = "{}" });
    suite_plant(s, "outbox", &(struct plant){ .type = "order.created", .payload = "{}" });
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10);
    CHECK_EQ(r->row_count, 2);
    CHECK(!pr_id_equal(r->rows[0].m.id, r->rows[1].m.id));
    for (size_t i = 0; i < 2; i++) {
        CHECK(r->rows[i].bad == NULL);
        CHECK_EQ(r->rows[i].m.id.bytes[6] >> 4, 7);
        CHECK_EQ(r->rows[i].m.id.bytes[8] >> 6, 2);
        CHECK_SLICE(r->rows[i].m.payload, "{}");
        CHECK_EQ(r->rows[i].m.status, PR_STATUS_STORED);
        CHECK(r->rows[i].m.created_us > SUITE_START_US - PR_SECONDS(1));
    }
}

/* ---- Rows that cannot be decoded -------------------------------------------------- */

STORE_TEST(rows_that_cannot_be_decoded_are_read_as_such_between_the_good_ones) /* B9 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id first = SEND(s, "outbox"), id[3] = { suite_id(1), suite_id(2), suite_id(3) };
    suite_plant(s, "outbox", &(struct plant){ .id = PR_BYTES((char *)id[0].bytes, 16), .type = "" });
    suite_plant(
        s, "outbox",
        &(struct plant){ .id = PR_BYTES((char *)id[1].bytes, 16), .type = "t", .headers = "[1]", .payload = "p" });
    suite_plant(s, "outbox",
                &(struct plant){ .id = PR_BYTES((char *)id[2].bytes, 16), .type = "t", .headers = "{\"a\":" });
    suite_plant(s, "outbox", &(struct plant){ .id = PR_STR("short"), .type = "t", .payload = "bytes" });
    pr_id last = SEND(s, "outbox");

    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 100);
    CHECK_EQ(r->row_count, 6);
    size_t bad = 0;
    for (size_t i = 0; i < r->row_count; i++)
        bad += r->rows[i].bad != NULL && r->rows[i].row > 0;
    CHECK_EQ(bad, 4);
    CHECK(reply_find(r, first) != NULL && reply_find(r, first)->bad == NULL);
    CHECK(reply_find(r, last) != NULL && reply_find(r, last)->bad == NULL);
    CHECK(reply_find(r, id[1]) != NULL && reply_find(r, id[1])->bad != NULL);
    CHECK_SLICE(reply_find(r, id[1])->m.payload, "p"); /* what could be read */
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 6);
}

STORE_TEST(a_payload_over_the_limit_is_left_where_it_is_and_its_size_is_told) /* B9 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .payload = PR_STR("0123456789")), other = SEND(s, "outbox");
    CYCLE(w, .fresh_rows = 10, .payload_max = 9);
    CHECK_EQ(reply_find(w->reply, id)->over, 10);
    CHECK(reply_find(w->reply, id)->bad == NULL);
    CHECK_EQ(reply_find(w->reply, id)->m.payload.size, 0);
    CHECK_EQ(reply_find(w->reply, other)->over, 0);
    CYCLE(w, .fresh_rows = 10, .payload_max = 10, .restart_lanes = LANES_ALL);
    CHECK_EQ(reply_find(w->reply, id)->over, 0);
    CHECK_SLICE(reply_find(w->reply, id)->m.payload, "0123456789");
}

STORE_TEST(rows_that_cannot_be_decoded_can_be_made_dead_with_their_bytes) /* B9, B87 */
{
    struct worker *w = suite_join(s, "outbox");
    suite_plant(s, "outbox", &(struct plant){ .id = PR_STR("short"), .type = "bad", .payload = "bytes" });
    suite_plant(s, "outbox", &(struct plant){ .type = "bad", .headers = "no object", .payload = "more" });
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10);
    CHECK_EQ(r->row_count, 2);
    struct verdict v[2];
    struct receipt_entry entries[2];
    for (size_t i = 0; i < 2; i++) {
        v[i] = (struct verdict){ .kind = VERDICT_DEAD_LETTER,
                                 .row = r->rows[i].row,
                                 .id = r->rows[i].m.id,
                                 .number = 1,
                                 .reason = PR_REASON_SERIALIZATION_ERROR,
                                 .cause = PR_REASON_SERIALIZATION_ERROR };
        entries[i] = (struct receipt_entry){ .row = r->rows[i].row, .number = 1 };
    }
    uint64_t receipt = w->number;
    CYCLE(w, .receipt = entries, .receipt_count = 2);
    r = CYCLE(w, .verdicts = v, .verdict_count = 2, .closed = &receipt, .closed_count = 1);
    CHECK_EQ(r->answers[0], PR_OK);
    CHECK_EQ(r->answers[1], PR_OK);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 0);

    const struct query_reply *q = suite_query(s, QUERY_DEAD, FILTER(.type = PR_STR("bad")));
    CHECK_EQ(q->listed_count, 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK(q->listed[i].bad != NULL);
        CHECK_EQ(q->listed[i].m.attempts, 1);
        CHECK(slice_eq_cstr(q->listed[i].m.payload, i == 0 ? "bytes" : "more"));
    }
}
