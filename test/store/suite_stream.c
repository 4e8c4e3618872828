/* Streams: held rows, heads, release. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

static void hold(struct worker *w, pr_id id, const char *key)
{
    CHECK_EQ(VERDICT(w, suite_seen(w->suite, id), .kind = VERDICT_HOLD, .held_by = pr_str(key)), PR_OK);
}

/* ---- Held rows -------------------------------------------------------------------- */

STORE_TEST(a_held_row_waits_and_is_counted_as_held)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("a"));
    hold(w, id, "key");
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->state, STATE_HELD);
    CHECK_SLICE(l->m.held_by, "key");
    CHECK_EQ(l->m.attempts, 0); /* not a hand-out */
    CHECK_EQ(suite_box(s, "outbox")->held, 1);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10, .restart_lanes = LANES_ALL)->row_count, 0);
}

STORE_TEST(held_rows_are_read_by_key_in_the_order_of_places_from_a_cursor)
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 6; i > 0; i--) /* held in another order than stored */
        SEND(s, "outbox", .id = suite_id(7 - i));
    for (unsigned i = 6; i > 0; i--)
        hold(w, suite_id(i), i == 3 ? "other" : "key");

    struct held_read read = { .key = PR_STR("key"), .rows = 2 };
    static const unsigned expected[] = { 1, 2, 4, 5, 6 };
    for (size_t seen = 0; seen < 5;) {
        const struct cycle_reply *r = CYCLE(w, .held = &read, .held_count = 1);
        CHECK(r->row_count > 0 && r->row_count <= 2);
        for (size_t i = 0; i < r->row_count; i++) {
            CHECK(pr_id_equal(r->rows[i].m.id, suite_id(expected[seen++])));
            CHECK_EQ(r->rows[i].from, ROW_HELD);
            read.after_seq = r->rows[i].m.seq;
            read.after_row = r->rows[i].row;
        }
        CHECK_EQ(r->held_end[0], seen == 5);
    }
}

STORE_TEST(several_held_reads_in_one_cycle_each_have_their_own_end)
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 1; i <= 5; i++) {
        SEND(s, "outbox", .id = suite_id(i));
        hold(w, suite_id(i), i <= 3 ? "a" : "b");
    }
    struct held_read reads[] = { { .key = PR_STR("a"), .rows = 2 },
                                 { .key = PR_STR("nobody"), .rows = 2 },
                                 { .key = PR_STR("b"), .rows = 10 } };
    const struct cycle_reply *r = CYCLE(w, .held = reads, .held_count = 3);
    CHECK_EQ(r->row_count, 4);
    CHECK(pr_id_equal(r->rows[0].m.id, suite_id(1)));
    CHECK(pr_id_equal(r->rows[1].m.id, suite_id(2)));
    CHECK(pr_id_equal(r->rows[2].m.id, suite_id(4)));
    CHECK(pr_id_equal(r->rows[3].m.id, suite_id(5)));
    CHECK(!r->held_end[0]);
    CHECK(r->held_end[1]);
    CHECK(r->held_end[2]);
}

STORE_TEST(held_rows_of_one_place_are_read_in_row_order_from_a_cursor) /* B17 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 }, { "c", 1 } };
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 3), PR_OK);
    for (size_t i = 0; i < 3; i++) {
        struct claim c = { .row = suite_get_to(s, id, to[i].data)->row, .id = id };
        CHECK_EQ(VERDICT(w, c, .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);
    }
    struct held_read read = { .key = PR_STR("k"), .rows = 1 };
    for (size_t i = 0; i < 3; i++) {
        const struct cycle_reply *r = CYCLE(w, .held = &read, .held_count = 1);
        CHECK_EQ(r->row_count, 1);
        CHECK(r->rows[0].row > read.after_row);
        read.after_seq = r->rows[0].m.seq;
        read.after_row = r->rows[0].row;
    }
    CHECK_EQ(CYCLE(w, .held = &read, .held_count = 1)->row_count, 0);
    CHECK(w->reply->held_end[0]);
}

STORE_TEST(the_keys_of_held_rows_are_told_once_each_ascending_in_pages)
{
    struct worker *w = suite_join(s, "outbox");
    static const char *const keys[] = { "m", "a", "z", "m", "b", "a" };
    for (unsigned i = 0; i < 6; i++) {
        SEND(s, "outbox", .id = suite_id(i + 1));
        hold(w, suite_id(i + 1), keys[i]);
    }
    const struct cycle_reply *r = CYCLE(w, .held_keys = { .rows = 10, .lanes = LANES_ALL });
    CHECK_EQ(r->held_key_count, 4);
    CHECK_SLICE(r->held_keys[0], "a");
    CHECK_SLICE(r->held_keys[1], "b");
    CHECK_SLICE(r->held_keys[2], "m");
    CHECK_SLICE(r->held_keys[3], "z");
    CHECK(r->held_keys_end);

    r = CYCLE(w, .held_keys = { .rows = 2, .lanes = LANES_ALL });
    CHECK_EQ(r->held_key_count, 2);
    CHECK(!r->held_keys_end);
    r = CYCLE(w, .held_keys = { .rows = 10, .lanes = LANES_ALL, .after = PR_STR("b") });
    CHECK_EQ(r->held_key_count, 2);
    CHECK_SLICE(r->held_keys[0], "m");
    CHECK(r->held_keys_end);
}

STORE_TEST(held_keys_are_those_of_the_lanes_asked_for)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox", .stream = suite_stream_in_lane(s, 1));
    pr_id b = SEND(s, "outbox", .stream = suite_stream_in_lane(s, 2));
    hold(w, a, "one");
    hold(w, b, "two");
    const struct cycle_reply *r = CYCLE(w, .held_keys = { .rows = 10, .lanes = lane_bit(2) });
    CHECK_EQ(r->held_key_count, 1);
    CHECK_SLICE(r->held_keys[0], "two");
}

STORE_TEST(a_held_row_can_be_handed_out_and_judged)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    hold(w, id, "k");
    struct claim c = worker_claim(w, id);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE), PR_OK);
    CHECK(suite_find(s, id) == NULL);
    CHECK_EQ(CYCLE(w, .held_keys = { .rows = 10, .lanes = LANES_ALL })->held_key_count, 0);
}

/* What is held comes back without being asked for its time: one that is parked must not. */
STORE_TEST(a_row_that_was_released_or_parked_meanwhile_is_not_held_again) /* B55 */
{
    static const enum admin_kind kinds[] = { ADMIN_RELEASE, ADMIN_PARK };
    struct worker *w = suite_join(s, "outbox");
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        pr_id id = SEND(s, "outbox", .stream = PR_STR("a"));
        struct claim seen = suite_seen(s, id);
        CHECK_EQ(ADMIN_ID(s, kinds[i], id).changed, 1);
        CHECK_EQ(VERDICT(w, seen, .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_STALE);
        CHECK_SLICE(suite_get(s, id)->m.held_by, "");
    }
}

/* An engine that reads it, finds no endpoint for it and is slow to say so: it would come back with the endpoint. */
STORE_TEST(a_row_that_a_person_parked_meanwhile_is_not_parked_for_want_of_an_endpoint) /* B18 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim seen = suite_seen(s, id);
    CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, id).changed, 1);
    CHECK_EQ(VERDICT(w, seen, .kind = VERDICT_PARK, .number = 0, .reason = PR_REASON_DESTINATION_MISSING), PR_STALE);
    CHECK_EQ(suite_get(s, id)->m.reason, PR_REASON_NONE);
    CHECK_EQ(suite_get(s, id)->m.due_us, PR_NEVER);
}

/* An engine reads what waits for its endpoint, finds it there, and is slow to say so. */
STORE_TEST(a_row_that_a_person_parked_meanwhile_does_not_come_back_with_its_endpoint) /* B18 */
{
    static const char routes[] =
        "[{\"at\":\"2024-01-31T12:00:00Z\",\"attempt\":0,\"reason\":\"destination_missing\",\"step\":\"park\"}]";
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 0; i < 2; i++) {
        pr_id id = SEND(s, "outbox");
        struct claim seen = suite_seen(s, id);
        CHECK_EQ(VERDICT(w, seen, .kind = VERDICT_PARK, .number = 0, .reason = PR_REASON_DESTINATION_MISSING,
                         .story = slice_from(routes)),
                 PR_OK);
        if (i == 1)
            CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, id).changed, 1);
        CHECK_EQ(VERDICT(w, seen, .kind = VERDICT_ABANDON, .number = 0, .story = PR_STR("[]")),
                 i == 0 ? PR_OK : PR_STALE);
        CHECK_EQ(suite_get(s, id)->m.due_us == PR_NEVER, i == 1);
    }
}

/* ---- Heads ------------------------------------------------------------------------ */

STORE_TEST(heads_are_rows_that_came_back_and_parked_ones_without_payload) /* B56 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id fresh = SEND(s, "outbox", .stream = PR_STR("a"));
    pr_id failed = SEND(s, "outbox", .stream = PR_STR("b"), .payload = PR_STR("much"));
    pr_id parked = SEND(s, "outbox", .stream = PR_STR("c"), .due_us = PR_NEVER);
    pr_id delayed = SEND(s, "outbox", .stream = PR_STR("d"), .due_us = SUITE_START_US + PR_SECONDS(9)); /* B56 */
    pr_id released = SEND(s, "outbox", .stream = PR_STR("e"));
    pr_id abandoned = SEND(s, "outbox", .stream = PR_STR("f"));
    worker_fail(w, failed, PR_SECONDS(5));
    worker_fail(w, released, PR_SECONDS(5));
    CHECK_EQ(VERDICT(w, worker_claim(w, released), .kind = VERDICT_RELEASE), PR_OK);
    CHECK_EQ(VERDICT(w, worker_claim(w, abandoned), .kind = VERDICT_ABANDON, .delay_us = PR_SECONDS(5)), PR_OK);

    const struct cycle_reply *r = CYCLE(w, .heads = { .rows = 10, .lanes = LANES_ALL });
    CHECK_EQ(r->row_count, 3);
    CHECK(reply_find(r, abandoned) != NULL);
    CHECK(r->heads_end);
    CHECK(reply_find(r, fresh) == NULL);
    CHECK(reply_find(r, delayed) == NULL);
    CHECK(reply_find(r, released) == NULL);
    const struct row *head = reply_find(r, failed);
    CHECK(head != NULL && reply_find(r, parked) != NULL);
    CHECK_EQ(head->from, ROW_HEAD);
    CHECK(!head->dead);
    CHECK_SLICE(head->m.stream, "b");
    CHECK_EQ(head->m.due_us, s->wall_us + PR_SECONDS(5));
    CHECK_EQ(head->m.payload.size, 0);
}

STORE_TEST(heads_are_paged_in_row_order)
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 1; i <= 7; i++) {
        SEND(s, "outbox", .id = suite_id(i));
        if (i % 2 == 0)
            worker_fail(w, suite_id(i), PR_SECONDS(100 - i));
        else
            CHECK_EQ(VERDICT(w, suite_seen(s, suite_id(i)), .kind = VERDICT_PARK), PR_OK);
    }
    uint64_t after = 0;
    for (size_t seen = 0; seen < 7;) {
        const struct cycle_reply *r = CYCLE(w, .heads = { .rows = 3, .lanes = LANES_ALL, .after_row = after });
        CHECK(r->row_count > 0 && r->row_count <= 3);
        for (size_t i = 0; i < r->row_count; i++) {
            CHECK(r->rows[i].row > after);
            after = r->rows[i].row;
        }
        seen += r->row_count;
        CHECK_EQ(r->heads_end, seen == 7);
    }
}

STORE_TEST(heads_are_those_of_the_lanes_asked_for)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox", .stream = suite_stream_in_lane(s, 10));
    pr_id b = SEND(s, "outbox", .stream = suite_stream_in_lane(s, 11));
    worker_fail(w, a, PR_SECONDS(5));
    worker_fail(w, b, PR_SECONDS(5));
    const struct cycle_reply *r = CYCLE(w, .heads = { .rows = 10, .lanes = lane_bit(11) });
    CHECK_EQ(r->row_count, 1);
    CHECK(reply_find(r, b) != NULL);
}

STORE_TEST(dead_letters_with_a_stream_are_heads_where_streams_are_strict) /* B53 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox", .stream = PR_STR("a"), .payload = PR_STR("much"));
    pr_id b = SEND(s, "outbox", .stream = PR_STR("b"));
    pr_id streamless = SEND(s, "outbox");
    pr_id alive = SEND(s, "outbox", .stream = PR_STR("c"));
    struct worker *ledger = suite_join(s, "ledger");
    pr_id elsewhere = SEND(s, "ledger", .stream = PR_STR("a"));
    int64_t seq = suite_get(s, a)->m.seq;
    worker_kill(w, a);
    worker_kill(w, b);
    worker_kill(w, streamless);
    worker_kill(ledger, elsewhere);
    worker_fail(w, alive, PR_SECONDS(5));

    CHECK_EQ(CYCLE(w, .heads = { .rows = 10, .lanes = LANES_ALL })->row_count, 1);
    CHECK(reply_find(w->reply, alive) != NULL);

    const struct cycle_reply *r = CYCLE(w, .heads = { .rows = 10, .lanes = LANES_ALL }, .heads_dead = true);
    CHECK_EQ(r->row_count, 2);
    CHECK(r->heads_end);
    const struct row *head = reply_find(r, a);
    CHECK(head != NULL && reply_find(r, b) != NULL);
    CHECK(head->dead);
    CHECK_EQ(head->from, ROW_HEAD);
    CHECK_SLICE(head->m.stream, "a");
    CHECK_EQ(head->m.seq, seq);
    CHECK_EQ(head->m.payload.size, 0);

    /* Their cursor is their own. */
    r = CYCLE(w, .heads = { .rows = 1, .lanes = LANES_ALL }, .heads_dead = true);
    CHECK_EQ(r->row_count, 1);
    CHECK(!r->heads_end);
    uint64_t first = r->rows[0].row;
    r = CYCLE(w, .heads = { .rows = 1, .lanes = LANES_ALL, .after_row = first }, .heads_dead = true);
    CHECK_EQ(r->row_count, 1);
    CHECK(r->rows[0].row > first);
    CHECK(r->heads_end);
}

/* ---- Release ---------------------------------------------------------------------- */

STORE_TEST(a_release_verdict_frees_the_row_and_counts_nothing) /* B55, D3 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("a"));
    hold(w, id, "k");
    struct claim c = worker_claim(w, id);
    suite_advance(s, PR_SECONDS(1));
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_RELEASE), PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK(l->m.released);
    CHECK_SLICE(l->m.held_by, "");
    CHECK_EQ(l->m.due_us, s->wall_us);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.failures, 0);
    CHECK_EQ(l->m.status, PR_STATUS_STORED);
    CHECK(!message_blocks_stream(&l->m));
    CHECK(reply_find(CYCLE(w, .due.rows = 10), id) != NULL);
}

STORE_TEST(releasing_a_stream_frees_what_is_behind_its_failed_head_and_says_how_many) /* B55 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id head = SEND(s, "outbox", .stream = PR_STR("a"));
    pr_id held = SEND(s, "outbox", .stream = PR_STR("a"));
    pr_id fresh = SEND(s, "outbox", .stream = PR_STR("a"));
    pr_id other = SEND(s, "outbox", .stream = PR_STR("b"));
    worker_fail(w, head, PR_SECONDS(60));
    hold(w, held, "a");
    struct listed before = *suite_get(s, head);
    suite_advance(s, PR_SECONDS(1));

    struct filter stream = FILTER(.box = PR_STR("outbox"), .stream = PR_STR("a"));
    struct admin_reply dry = ADMIN(s, ADMIN_RELEASE, stream, .dry_run = true);
    CHECK_EQ(dry.changed, 2);
    CHECK(!suite_get(s, held)->m.released);

    CHECK_EQ(ADMIN(s, ADMIN_RELEASE, stream).changed, 2);
    const struct listed *l = suite_get(s, head);
    CHECK_EQ(l->m.due_us, before.m.due_us);
    CHECK_EQ(l->m.attempts, before.m.attempts);
    CHECK(!l->m.released);
    for (size_t i = 0; i < 2; i++) {
        l = suite_get(s, i == 0 ? held : fresh);
        CHECK(l->m.released);
        CHECK_SLICE(l->m.held_by, "");
        CHECK_EQ(l->m.due_us, s->wall_us);
    }
    CHECK(!suite_get(s, other)->m.released);
}

STORE_TEST(a_release_lets_the_failed_head_itself_where_it_is) /* B55 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id head = suite_send(s, "outbox", (struct pr_message){ .type = PR_STR("t"), .stream = PR_STR("a") });
    worker_fail(w, head, PR_SECONDS(60));
    struct admin_reply r = ADMIN_ID(s, ADMIN_RELEASE, head);
    CHECK(r.matched == 1 && r.changed == 0 && r.refused == 1 && r.missing == 0);
    r = ADMIN(s, ADMIN_RELEASE, FILTER(.type = PR_STR("t")));
    CHECK(r.matched == 0 && r.changed == 0 && r.refused == 0);
    CHECK_EQ(suite_get(s, head)->state, STATE_RETRYING);
    CHECK_EQ(ADMIN(s, ADMIN_RELEASE, FILTER(.type = PR_STR("t")), .dry_run = true).changed, 0);
}

STORE_TEST(releasing_a_stream_without_a_failed_head_frees_nothing) /* B55 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id first = SEND(s, "outbox", .stream = PR_STR("a"));
    pr_id failed = SEND(s, "outbox", .stream = PR_STR("b"));
    pr_id alone = SEND(s, "outbox", .stream = PR_STR("a"));
    worker_fail(w, failed, PR_SECONDS(60));
    CHECK_EQ(ADMIN(s, ADMIN_RELEASE, FILTER(.box = PR_STR("outbox"), .stream = PR_STR("a"))).changed, 0);
    CHECK(!suite_get(s, first)->m.released);
    CHECK(!suite_get(s, alone)->m.released);
}

STORE_TEST(releasing_by_id_frees_that_row_alone) /* B55 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id head = SEND(s, "outbox", .stream = PR_STR("a"));
    pr_id one = SEND(s, "outbox", .stream = PR_STR("a")), two = SEND(s, "outbox", .stream = PR_STR("a"));
    worker_fail(w, head, PR_SECONDS(60));
    hold(w, one, "a");
    hold(w, two, "a");
    struct admin_reply r = ADMIN_ID(s, ADMIN_RELEASE, two, .by = PR_STR("ann"), .why = PR_STR("late"));
    CHECK_EQ(r.matched, 1);
    CHECK_EQ(r.changed, 1);
    CHECK(suite_get(s, two)->m.released);
    CHECK(
        slice_contains(suite_get(s, two)->m.story, PR_STR("\"error\":\"late\",\"rule\":\"ann\",\"step\":\"release\"")));
    CHECK_EQ(suite_get(s, one)->state, STATE_HELD);
}
