/* Storing: ids, duplicates, content, boxes. */
#include "suite.h"

#include <string.h>

STORE_TEST(a_message_that_was_stored_is_read_with_all_its_fields)
{
    struct worker *w = suite_join(s, "outbox");
    struct pr_message m = {
        .id = suite_id(1),
        .type = PR_STR("order.created"),
        .stream = PR_STR("order-1"),
        .destination = PR_STR("orders"),
        .source = PR_STR("/shop"),
        .subject = PR_STR("sub"),
        .content_type = PR_STR("text/plain"),
        .headers = PR_STR("{\"a\":1}"),
        .payload = PR_STR("hello"),
        .correlation_id = PR_STR("corr"),
        .causation_id = PR_STR("caus"),
        .traceparent = PR_STR("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        .tracestate = PR_STR("k=v"),
        .expires_us = SUITE_START_US + PR_SECONDS(60),
        .event = true,
    };
    CHECK_OK(suite_offer(s, "outbox", m), &s->error);

    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10);
    CHECK_EQ(r->row_count, 1);
    const struct row *row = &r->rows[0];
    CHECK(pr_id_equal(row->m.id, m.id));
    CHECK_SLICE(row->m.type, m.type);
    CHECK_SLICE(row->m.stream, m.stream);
    CHECK_SLICE(row->m.destination, m.destination);
    CHECK_SLICE(row->m.source, m.source);
    CHECK_SLICE(row->m.subject, m.subject);
    CHECK_SLICE(row->m.content_type, m.content_type);
    CHECK_SLICE(row->m.headers, m.headers);
    CHECK_SLICE(row->m.payload, m.payload);
    CHECK_SLICE(row->m.correlation_id, m.correlation_id);
    CHECK_SLICE(row->m.causation_id, m.causation_id);
    CHECK_SLICE(row->m.traceparent, m.traceparent);
    CHECK_SLICE(row->m.tracestate, m.tracestate);
    CHECK_EQ(row->m.due_us, 0);
    CHECK_EQ(row->m.expires_us, m.expires_us);
    CHECK(row->m.event);
    CHECK_EQ(row->m.created_us, SUITE_START_US);
    CHECK(row->m.seq > 0);
    CHECK_EQ(row->m.status, PR_STATUS_STORED | PR_STATUS_EVENT_STORED);
    CHECK_EQ(row->m.attempts, 0);
    CHECK_EQ(row->m.failures, 0);
    CHECK_EQ(row->m.reason, 0);
    CHECK_EQ(row->m.failed_us, 0);
    CHECK_SLICE(row->m.held_by, "");
    CHECK(!row->m.released);
    CHECK(row->row > 0);
    CHECK_EQ(row->lane, lane_of(m.stream, m.id));
    CHECK_EQ(row->from, ROW_FRESH);
    CHECK(row->bad == NULL);
}

STORE_TEST(what_a_sender_writes_into_our_part_of_the_message_is_ignored)
{
    pr_id id = SEND(s, "outbox", .seq = 77, .status = PR_STATUS_FAILED, .attempts = 9, .failures = 9,
                    .reason = PR_REASON_TIMEOUT_EXCEEDED, .error = PR_STR("x"), .held_by = PR_STR("k"),
                    .released = true, .failed_us = 5, .created_us = 5);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->m.status, PR_STATUS_STORED);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.failures, 0);
    CHECK_EQ(l->m.reason, 0);
    CHECK_SLICE(l->m.error, "");
    CHECK_SLICE(l->m.held_by, "");
    CHECK(!l->m.released);
    CHECK_EQ(l->m.failed_us, 0);
    CHECK_EQ(l->m.created_us, SUITE_START_US);
}

STORE_TEST(one_that_failed_before_it_was_stored_is_stored_as_failed_and_the_others_are_not) /* B30 */
{
    struct worker *w = suite_join(s, "outbox");
    struct pr_message m[2] = { { .id = suite_id(1),
                                 .type = PR_STR("t"),
                                 .stream = PR_STR("a"),
                                 .destination = PR_STR("e"),
                                 .due_us = SUITE_START_US + PR_SECONDS(5),
                                 .status = PR_STATUS_EVENT_STORED | PR_STATUS_FAILED,
                                 .attempts = 2,
                                 .failures = 2,
                                 .reason = PR_REASON_REJECTED,
                                 .code = PR_STR("c"),
                                 .error = PR_STR("no"),
                                 .failed_us = SUITE_START_US - 1,
                                 .story = PR_STR("[{\"attempt\":2}]") },
                               { .id = suite_id(2), .type = PR_STR("t"), .attempts = 7, .failures = 7 } };
    int answers[2];
    for (int again = 0; again < 2; again++) {
        CHECK_OK(store_enqueue_failed(&s->store, PR_STR("outbox"), m, 2, SUITE_PAYLOAD_MAX, NULL, answers, &s->error),
                 &s->error);
        CHECK_EQ(answers[0], again ? PR_DUPLICATE : PR_OK);
        CHECK_EQ(answers[1], again ? PR_DUPLICATE : PR_OK);
        const struct listed *l = suite_get(s, suite_id(1));
        CHECK_EQ(l->m.status, PR_STATUS_STORED | PR_STATUS_EVENT_STORED | PR_STATUS_FAILED);
        CHECK_EQ(l->m.attempts, 2);
        CHECK_EQ(l->m.failures, 2);
        CHECK_EQ(l->m.reason, PR_REASON_REJECTED);
        CHECK_SLICE(l->m.code, "c");
        CHECK_SLICE(l->m.error, "no");
        CHECK_EQ(l->m.failed_us, SUITE_START_US - 1);
        CHECK_SLICE(l->m.story, "[{\"attempt\":2}]");
        CHECK_EQ(l->state, STATE_RETRYING);
        CHECK_EQ(suite_get(s, suite_id(2))->m.failures, 0);
        CYCLE(w);
        CHECK_EQ(w->reply->notice_count, !again);
        if (!again) {
            CHECK_EQ(w->reply->notices[0].kind, NOTICE_FAILED);
            CHECK_EQ(w->reply->notices[0].row, l->row);
            CHECK_EQ(w->reply->notices[0].seq, l->m.seq);
            CHECK_SLICE(w->reply->notices[0].stream, "a");
            CHECK_SLICE(w->reply->notices[0].endpoint, "e");
        }
        m[0].failures = 4; /* a duplicate changes nothing */
    }
    CHECK(reply_find(CYCLE(w, .heads = { .rows = 10, .lanes = LANES_ALL }), suite_id(1)) !=
          NULL); /* its stream waits for it */
    suite_advance(s, PR_SECONDS(5));
    CHECK(reply_find(CYCLE(w, .due.rows = 10), suite_id(1)) != NULL);
    CHECK_EQ(worker_claim(w, suite_id(1)).number, 3);
}

/* The endpoint's own fault is no count of the message, but a failure all the same. */
STORE_TEST(one_that_was_put_off_before_it_was_stored_is_stored_so_and_its_stream_waits) /* B51, B75 */
{
    struct worker *w = suite_join(s, "outbox");
    const struct pr_message m = { .id = suite_id(1),
                                  .type = PR_STR("t"),
                                  .stream = PR_STR("a"),
                                  .destination = PR_STR("e"),
                                  .due_us = SUITE_START_US + PR_SECONDS(5),
                                  .status = PR_STATUS_FAILED,
                                  .reason = PR_REASON_TRANSPORT_UNAVAILABLE,
                                  .error = PR_STR("down"),
                                  .failed_us = SUITE_START_US - 1 };
    CHECK_OK(store_enqueue_failed(&s->store, PR_STR("outbox"), &m, 1, SUITE_PAYLOAD_MAX, NULL, NULL, &s->error),
             &s->error);
    const struct listed *l = suite_get(s, suite_id(1));
    CHECK_EQ(l->m.status, PR_STATUS_STORED | PR_STATUS_FAILED);
    CHECK_EQ(l->m.failures, 0);
    CHECK_EQ(l->m.reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK_SLICE(l->m.error, "down");
    CYCLE(w);
    CHECK_EQ(w->reply->notice_count, 1);
    CHECK_EQ(w->reply->notices[0].kind, NOTICE_FAILED);
    CHECK(reply_find(CYCLE(w, .heads = { .rows = 10, .lanes = LANES_ALL }), suite_id(1)) != NULL);
}

STORE_TEST(a_missing_id_is_made_and_told)
{
    struct pr_message m[2] = { { .type = PR_STR("t") }, { .type = PR_STR("t") } };
    pr_id ids[2];
    CHECK_OK(store_enqueue(&s->store, PR_STR("outbox"), m, 2, SUITE_PAYLOAD_MAX, ids, NULL, &s->error), &s->error);
    CHECK(!pr_id_is_zero(ids[0]));
    CHECK(!pr_id_equal(ids[0], ids[1]));
    suite_get(s, ids[0]);
    suite_get(s, ids[1]);
}

STORE_TEST(seqs_ascend_in_the_order_of_storing)
{
    int64_t last = 0;
    for (unsigned i = 1; i <= 20; i++) {
        int64_t seq = suite_get(s, SEND(s, "outbox", .id = suite_id(i)))->m.seq;
        CHECK(seq > last);
        last = seq;
    }
}

STORE_TEST(the_same_id_again_is_a_duplicate_and_changes_nothing) /* B2 */
{
    pr_id id = suite_id(1);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .payload = PR_STR("first")), PR_OK);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .payload = PR_STR("second")), PR_DUPLICATE);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 1);
    CHECK_SLICE(suite_get(s, id)->m.payload, "first");
}

STORE_TEST(the_same_id_twice_in_one_call_is_a_duplicate_of_itself) /* B2 */
{
    pr_id id = suite_id(1), other = suite_id(2);
    struct pr_message m[3] = { { .id = id, .type = PR_STR("t") },
                               { .id = id, .type = PR_STR("u") },
                               { .id = other, .type = PR_STR("t") } };
    pr_id ids[3];
    int answers[3] = { -1, -1, -1 };
    CHECK_OK(store_enqueue(&s->store, PR_STR("outbox"), m, 3, SUITE_PAYLOAD_MAX, ids, answers, &s->error), &s->error);
    CHECK_EQ(answers[0], PR_OK);
    CHECK_EQ(answers[1], PR_DUPLICATE);
    CHECK_EQ(answers[2], PR_OK);
    CHECK_SLICE(suite_get(s, id)->m.type, "t");
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 2);
}

STORE_TEST(the_same_id_for_another_destination_is_no_duplicate) /* B2 */
{
    pr_id id = suite_id(1);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("a")), PR_OK);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("b")), PR_OK);
    CHECK_EQ(OFFER(s, "outbox", .id = id), PR_OK);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("b")), PR_DUPLICATE);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 3);
}

STORE_TEST(an_id_among_the_dead_letters_is_a_duplicate_for_its_destination) /* B2 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("a"));
    worker_kill(w, id);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("a")), PR_DUPLICATE);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 0);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("b")), PR_OK);
    CHECK_EQ(OFFER(s, "ledger", .id = id, .destination = PR_STR("a")), PR_OK);
}

STORE_TEST(an_id_that_is_done_may_be_sent_again)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE), PR_OK);
    CHECK_EQ(OFFER(s, "outbox", .id = id), PR_OK);
}

STORE_TEST(equal_content_with_different_ids_is_stored_twice) /* B3 */
{
    struct worker *w = suite_join(s, "outbox");
    SEND(s, "outbox", .stream = PR_STR("a"), .payload = PR_STR("same"));
    SEND(s, "outbox", .stream = PR_STR("a"), .payload = PR_STR("same"));
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 2);
}

STORE_TEST(every_byte_value_arrives_unchanged) /* B4 */
{
    struct worker *w = suite_join(s, "outbox");
    char bytes[512];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    SEND(s, "outbox", .payload = PR_BYTES(bytes, sizeof(bytes)));
    CHECK_SLICE(CYCLE(w, .fresh_rows = 1)->rows[0].m.payload, PR_BYTES(bytes, sizeof(bytes)));
}

STORE_TEST(an_empty_payload_is_a_payload) /* B4 */
{
    struct worker *w = suite_join(s, "outbox");
    SEND(s, "outbox", .payload = PR_STR(""));
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 1);
    CHECK_EQ(r->row_count, 1);
    CHECK_EQ(r->rows[0].m.payload.size, 0);
    CHECK(r->rows[0].bad == NULL);
}

STORE_TEST(the_largest_payload_arrives_and_one_byte_more_is_refused) /* B4 */
{
    struct worker *w = suite_join(s, "outbox");
    char *bytes = arena_alloc(&s->arena, SUITE_PAYLOAD_MAX + 1);
    CHECK(bytes != NULL);
    memset(bytes, 0xff, SUITE_PAYLOAD_MAX + 1);
    CHECK_EQ(OFFER(s, "outbox", .payload = PR_BYTES(bytes, SUITE_PAYLOAD_MAX + 1)), PR_ETOOBIG);
    CHECK(strlen(s->error.text) > 0);
    CHECK_EQ(OFFER(s, "outbox", .payload = PR_BYTES(bytes, SUITE_PAYLOAD_MAX)), PR_OK);
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10);
    CHECK_EQ(r->row_count, 1);
    CHECK_SLICE(r->rows[0].m.payload, PR_BYTES(bytes, SUITE_PAYLOAD_MAX));
}

STORE_TEST(one_message_that_is_refused_keeps_the_whole_call_from_being_stored)
{
    struct pr_message m[2] = { { .type = PR_STR("t") }, { .type = PR_STR("") } };
    pr_id ids[2];
    CHECK_EQ(store_enqueue(&s->store, PR_STR("outbox"), m, 2, SUITE_PAYLOAD_MAX, ids, NULL, &s->error), PR_EINVAL);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 0);
}

STORE_TEST(a_box_that_is_not_there_is_a_fault_with_its_name)
{
    CHECK(OFFER(s, "nowhere") < 0);
    CHECK(strstr(s->error.text, "nowhere") != NULL);
}

STORE_TEST(boxes_do_not_see_each_other) /* B15 */
{
    struct worker *outbox = suite_join(s, "outbox");
    struct worker *ledger = suite_join(s, "ledger");
    pr_id a = suite_id(1);
    SEND(s, "outbox", .id = a, .payload = PR_STR("out"));
    SEND(s, "ledger", .id = a, .payload = PR_STR("led"));
    SEND(s, "ledger", .id = suite_id(2));

    CHECK_EQ(outbox->lanes, LANES_ALL);
    CHECK_EQ(ledger->lanes, LANES_ALL);
    CHECK_EQ(CYCLE(outbox, .fresh_rows = 10)->row_count, 1);
    CHECK_SLICE(reply_find(outbox->reply, a)->m.payload, "out");
    CHECK_EQ(CYCLE(ledger, .fresh_rows = 10)->row_count, 2);
    CHECK_SLICE(reply_find(ledger->reply, a)->m.payload, "led");

    const struct row *row = reply_find(outbox->reply, a);
    struct claim c = { .row = row->row, .id = a };
    CHECK_EQ(VERDICT(outbox, c, .kind = VERDICT_DISCARD), PR_OK);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"))), 0);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger"))), 2);
}

/* The same id, stream and endpoint in two boxes, through all that can become of it: the other one stays as it was. */
STORE_TEST(what_becomes_of_a_message_is_nothing_to_its_twin_in_another_box) /* B15 */
{
    struct worker *outbox = suite_join(s, "outbox"), *ledger = suite_join(s, "ledger");
    pr_id id = suite_id(1);
    static const char *const boxes[] = { "outbox", "ledger" };
    for (size_t i = 0; i < ARRAY_LENGTH(boxes); i++)
        SEND(s, boxes[i], .id = id, .stream = PR_STR("s"), .destination = PR_STR("e"), .payload = pr_str(boxes[i]));
    struct filter here = FILTER(.box = PR_STR("outbox"), .ids = &id, .id_count = 1);
    struct filter there = FILTER(.box = PR_STR("ledger"), .ids = &id, .id_count = 1);
    struct listed twin = suite_query(s, QUERY_MESSAGES, there)->listed[0];
    int64_t heard = CYCLE(ledger)->notice_last;

    /* An operator's orders, by id and by filter. */
    CHECK_EQ(ADMIN(s, ADMIN_PARK, here, .why = PR_STR("w")).changed, 1);
    CHECK_EQ(ADMIN(s, ADMIN_RETRY, here).changed, 1);
    CHECK_EQ(ADMIN(s, ADMIN_PARK, FILTER(.box = PR_STR("outbox"), .stream = PR_STR("s")), .why = PR_STR("w")).changed,
             1);
    CHECK_EQ(ADMIN(s, ADMIN_RETRY, FILTER(.box = PR_STR("outbox"), .type = PR_STR("t"))).changed, 1);

    /* It dies, comes back, dies again and is discarded. */
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_ADD, here, .why = PR_STR("w")).changed, 1);
    CHECK_EQ(suite_count(s, QUERY_DEAD, there), 0);
    CHECK_EQ(suite_box(s, "ledger")->dead, 0);
    CHECK_EQ(OFFER(s, "outbox", .id = id, .destination = PR_STR("e")), PR_DUPLICATE);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_REPLAY, there).changed, 0);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_REPLAY, here).changed, 1);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_ADD, here, .why = PR_STR("w")).changed, 1);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_DISCARD, there).changed, 0);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_DISCARD, FILTER(.box = PR_STR("outbox"), .type = PR_STR("t"))).changed, 1);

    CHECK_EQ(suite_count(s, QUERY_MESSAGES, here), 0);
    const struct query_reply *left = suite_query(s, QUERY_MESSAGES, there);
    CHECK_EQ(left->listed_count, 1);
    CHECK_EQ(left->listed[0].row, twin.row);
    CHECK_EQ(left->listed[0].m.seq, twin.m.seq);
    CHECK_EQ(left->listed[0].m.status, twin.m.status);
    CHECK_EQ(left->listed[0].m.due_us, twin.m.due_us);
    CHECK_SLICE(left->listed[0].m.payload, "ledger");
    CHECK_EQ(left->listed[0].m.story.size, 0);
    CHECK_EQ(CYCLE(ledger, .notice_after = heard)->notice_count, 0); /* nobody told it anything */
    CHECK_EQ(reply_count(CYCLE(ledger, .fresh_rows = 10), ROW_FRESH), 1);
    CHECK_EQ(reply_count(CYCLE(outbox, .fresh_rows = 10, .restart_lanes = LANES_ALL), ROW_FRESH), 0);
}

/* Who is buried in one box, with messages in its hands, is counted nothing in another where it lives. */
STORE_TEST(a_burial_in_one_box_counts_nothing_in_another) /* B15, B46 */
{
    struct worker *outbox = suite_join(s, "outbox"), *ledger = suite_join(s, "ledger");
    pr_id id = suite_id(1);
    SEND(s, "outbox", .id = id, .payload = PR_STR("outbox"));
    SEND(s, "ledger", .id = id, .payload = PR_STR("ledger"));
    CYCLE(outbox, .fresh_rows = 10);
    CYCLE(ledger, .fresh_rows = 10);
    struct claim kept = { .row = suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger")))->listed[0].row,
                          .id = id,
                          .number = 1,
                          .cycle = ledger->number };
    struct claim lost = { .row = suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox")))->listed[0].row };
    const struct receipt_entry given = { .row = kept.row, .number = 1 }, taken = { .row = lost.row, .number = 1 };
    CYCLE(ledger, .receipt = &given, .receipt_count = 1);
    CYCLE(outbox, .receipt = &taken, .receipt_count = 1);
    worker_vanish(outbox);
    suite_advance(s, SUITE_LEASE_US / 2);
    CYCLE(ledger);
    suite_advance(s, SUITE_LEASE_US / 2 + PR_SECONDS(1));
    CYCLE(ledger);

    struct worker *heir = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(heir)->lanes_owned, LANES_ALL);
    CHECK_EQ(suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox")))->listed[0].m.attempts, 1);
    CHECK_EQ(suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger")))->listed[0].m.attempts, 0);
    CHECK_EQ(ledger->lanes, LANES_ALL);
    CHECK_EQ(VERDICT(ledger, kept, .kind = VERDICT_COMPLETE), PR_OK);
}

/* What is kept as done here goes at this box's time, and not at that of another. */
STORE_TEST(a_purge_in_one_box_leaves_what_another_keeps) /* B15 */
{
    struct worker *both[] = { suite_join(s, "outbox"), suite_join(s, "ledger") };
    static const int64_t keep_us[] = { PR_SECONDS(60), PR_SECONDS(3600) };
    pr_id id = suite_id(1);
    (void)suite_table_count(s, "done"); /* or this is no test */
    for (size_t i = 0; i < ARRAY_LENGTH(both); i++) {
        SEND(s, both[i] == both[0] ? "outbox" : "ledger", .id = id);
        struct row row = *reply_find(CYCLE(both[i], .fresh_rows = 10), id);
        const struct verdict v = { .kind = VERDICT_COMPLETE, .row = row.row, .id = id };
        CHECK_EQ(CYCLE(both[i], .verdicts = &v, .verdict_count = 1, .keep_us = keep_us[i])->answers[0], PR_OK);
    }
    CHECK_EQ(suite_table_count(s, "done"), 2);
    s->wall_us += PR_SECONDS(120);
    for (int i = 0; i < 40; i++) { /* a store that has nothing to do may look once a minute */
        suite_advance(s, PR_SECONDS(2));
        CYCLE(both[0]);
        CYCLE(both[1]);
    }
    CHECK_EQ(suite_table_count(s, "done"), 1);
    CHECK_EQ(suite_box(s, "outbox")->done, 0);
    CHECK_EQ(suite_box(s, "ledger")->done, 1);
}

STORE_TEST(a_box_that_is_made_later_works_and_keeps_the_others)
{
    pr_id id = SEND(s, "ledger");
    CHECK(OFFER(s, "later") < 0);
    static const struct store_box boxes[] = { { "later", NULL } };
    CHECK_OK(store_migrate(&s->store, boxes, 1, &s->error), &s->error);
    CHECK_OK(store_check(&s->store, &s->error), &s->error);
    CHECK_EQ(OFFER(s, "later"), PR_OK);
    suite_get(s, id);
}

STORE_TEST(migrating_twice_changes_nothing)
{
    pr_id id = SEND(s, "outbox");
    CHECK_OK(store_migrate(&s->store, NULL, 0, &s->error), &s->error);
    CHECK_OK(store_check(&s->store, &s->error), &s->error);
    suite_get(s, id);
}

STORE_TEST(what_was_stored_is_there_after_a_reopen)
{
    suite_needs(s, STORE_CAN_LAST);
    pr_id id = SEND(s, "outbox", .payload = PR_STR("kept"));
    suite_reopen(s);
    CHECK_SLICE(suite_get(s, id)->m.payload, "kept");
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 1);
}
