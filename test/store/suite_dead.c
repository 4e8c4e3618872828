/* Dead letters: the move, what they keep, and the way back. */
#include "suite.h"

#include <string.h>

STORE_TEST(a_dead_letter_holds_the_message_byte_for_byte_and_why_it_died) /* B41, B80, B81 */
{
    struct worker *w = suite_join(s, "outbox");
    static const char bytes[] = "\x00\x01\xff payload";
    struct pr_message m = {
        .id = suite_id(1),
        .type = PR_STR("order.created"),
        .stream = PR_STR("order-1"),
        .destination = PR_STR("orders"),
        .source = PR_STR("/shop"),
        .subject = PR_STR("sub"),
        .content_type = PR_STR("application/octet-stream"),
        .headers = PR_STR("{\"h\": \"with  spaces\"}"),
        .payload = PR_BYTES(bytes, sizeof(bytes)),
        .correlation_id = PR_STR("corr"),
        .causation_id = PR_STR("caus"),
        .traceparent = PR_STR("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        .tracestate = PR_STR("k=v"),
        .expires_us = SUITE_START_US + PR_SECONDS(6000),
        .event = true,
    };
    CHECK_OK(suite_offer(s, "outbox", m), &s->error);
    int64_t seq = suite_get(s, m.id)->m.seq;
    CHECK_EQ(VERDICT(w, worker_claim(w, m.id), .kind = VERDICT_FAIL, .reason = PR_REASON_TIMEOUT_EXCEEDED,
                     .code = PR_STR("c1"), .error = PR_STR("first"), .story = PR_STR("[1]")),
             PR_OK);
    int64_t failed_us = s->wall_us;
    CHECK_EQ(VERDICT(w, worker_claim(w, m.id), .kind = VERDICT_ABANDON), PR_OK);
    struct claim c = worker_claim(w, m.id);
    CHECK_EQ(c.number, 3);
    suite_advance(s, PR_SECONDS(2));
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_DEAD_LETTER, .reason = PR_REASON_REJECTED, .code = PR_STR("c2"),
                     .error = PR_STR("last"), .cause = PR_REASON_POISON_MESSAGE, .counted = true,
                     .rule = PR_STR("too often"), .limit = 2, .endpoint = PR_STR("orders"),
                     .fingerprint = "00112233aabbccdd", .story = PR_STR("[1,2]"), .bits = PR_STATUS_EVENT_STORED),
             PR_OK);

    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 0);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 1);
    const struct listed *l = suite_get(s, m.id);
    CHECK_EQ(l->state, STATE_DEAD);
    CHECK(l->bad == NULL);
    CHECK_SLICE(l->box, "outbox");
    CHECK_SLICE(l->m.type, m.type);
    CHECK_SLICE(l->m.stream, m.stream);
    CHECK_SLICE(l->m.destination, m.destination);
    CHECK_SLICE(l->m.source, m.source);
    CHECK_SLICE(l->m.subject, m.subject);
    CHECK_SLICE(l->m.content_type, m.content_type);
    CHECK_SLICE(l->m.headers, m.headers);
    CHECK_SLICE(l->m.payload, m.payload);
    CHECK_SLICE(l->m.correlation_id, m.correlation_id);
    CHECK_SLICE(l->m.causation_id, m.causation_id);
    CHECK_SLICE(l->m.traceparent, m.traceparent);
    CHECK_SLICE(l->m.tracestate, m.tracestate);
    CHECK_EQ(l->m.expires_us, m.expires_us);
    CHECK(l->m.event);
    CHECK_EQ(l->m.seq, seq);
    CHECK_EQ(l->m.created_us, SUITE_START_US);
    CHECK_EQ(l->m.attempts, 3);
    CHECK_EQ(l->m.failures, 2);
    CHECK_EQ(l->m.reason, PR_REASON_REJECTED); /* D6: beside the cause */
    CHECK_SLICE(l->m.code, "c2");
    CHECK_SLICE(l->m.error, "last");
    CHECK_EQ(l->cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(l->limit, 2);
    CHECK_SLICE(l->rule, "too often");
    CHECK_SLICE(l->endpoint, "orders");
    CHECK_SLICE(l->fingerprint, "00112233aabbccdd");
    CHECK_SLICE(l->m.story, "[1,2]");
    CHECK((l->m.status & PR_STATUS_EVENT_STORED) != 0 && (l->m.status & PR_STATUS_FAILED) != 0);
    CHECK_EQ(l->died_us, s->wall_us);
    CHECK_EQ(l->m.failed_us, failed_us + PR_SECONDS(2));
}

STORE_TEST(poison_keeps_the_last_real_failure_and_counts_no_other) /* B41, D6 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_fail(w, id, 0);
    struct listed before = *suite_get(s, id);
    suite_advance(s, PR_SECONDS(1));
    CHECK_EQ(
        VERDICT(w, worker_claim(w, id), .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_POISON_MESSAGE, .limit = 5),
        PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(l->m.attempts, 2);
    CHECK_EQ(l->m.failures, 1);
    CHECK_EQ(l->m.reason, before.m.reason);
    CHECK_SLICE(l->m.error, before.m.error);
    CHECK_EQ(l->m.failed_us, before.m.failed_us);
    CHECK_EQ(l->limit, 5);
}

STORE_TEST(a_row_that_was_merely_read_can_die_without_an_attempt)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_MESSAGE_TOO_LARGE,
                     .reason = PR_REASON_MESSAGE_TOO_LARGE),
             PR_OK);
    CHECK_EQ(suite_get(s, id)->m.attempts, 0);
    CHECK_EQ(suite_get(s, id)->m.failures, 0);
    CHECK_EQ(suite_get(s, id)->state, STATE_DEAD);
}

STORE_TEST(dead_letters_are_counted_in_their_box)
{
    struct worker *w = suite_join(s, "outbox"), *ledger = suite_join(s, "ledger");
    worker_kill(w, SEND(s, "outbox"));
    worker_kill(w, SEND(s, "outbox"));
    worker_kill(ledger, SEND(s, "ledger"));
    CHECK_EQ(suite_box(s, "outbox")->dead, 2);
    CHECK_EQ(suite_box(s, "ledger")->dead, 1);
    CHECK_EQ(suite_box(s, "inbox")->dead, 0);
    CHECK_EQ(suite_box(s, "outbox")->ready, 0);
}

STORE_TEST(a_replayed_dead_letter_goes_back_to_its_place_and_begins_a_new_life) /* B59, B83 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("a"), .destination = PR_STR("d"), .payload = PR_STR("p"));
    pr_id follower = SEND(s, "outbox", .stream = PR_STR("a"), .destination = PR_STR("d"));
    int64_t seq = suite_get(s, id)->m.seq;
    worker_fail(w, id, 0);
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED,
                     .reason = PR_REASON_REJECTED, .counted = true, .story = PR_STR("[{\"step\":\"dead_letter\"}]")),
             PR_OK);
    suite_advance(s, PR_SECONDS(5));

    struct admin_reply r = ADMIN_ID(s, ADMIN_DEAD_REPLAY, id, .by = PR_STR("ann"), .why = PR_STR("fixed"));
    CHECK_EQ(r.matched, 1);
    CHECK_EQ(r.changed, 1);
    CHECK_EQ(r.refused, 0);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 0);
    const struct listed *l = suite_get(s, id);
    CHECK_SLICE(l->box, "outbox");
    CHECK_EQ(l->m.seq, seq);
    CHECK(l->m.seq < suite_get(s, follower)->m.seq);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.failures, 0);
    CHECK_EQ(l->m.created_us, SUITE_START_US);
    CHECK_SLICE(l->m.payload, "p");
    CHECK(slice_contains(l->m.story, PR_STR("dead_letter"))); /* the story keeps the old */
    CHECK(message_blocks_stream(&l->m));                      /* its followers wait for it */
    CHECK(reply_find(CYCLE(w, .due.rows = 10), id) != NULL);
    struct claim c = worker_claim(w, id);
    CHECK_EQ(c.number, 1);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE), PR_OK);
}

STORE_TEST(a_replayed_message_is_released_as_it_was_and_nobody_waits_for_it_again)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("s"));
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);
    CHECK_EQ(ADMIN_ID(s, ADMIN_RELEASE, id).changed, 1);
    worker_kill(w, id);
    CHECK(suite_get(s, id)->m.released);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id).changed, 1);
    const struct listed *l = suite_get(s, id);
    CHECK(l->m.released);
    CHECK(!message_blocks_stream(&l->m));
    CHECK_EQ(l->m.due_us, s->wall_us);
    CHECK_EQ(l->m.status, PR_STATUS_STORED | PR_STATUS_FAILED);
}

STORE_TEST(a_replay_of_an_id_that_was_sent_anew_is_refused_and_says_so) /* B2 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = suite_id(1), other = suite_id(2);
    SEND(s, "outbox", .id = id, .payload = PR_STR("old"));
    SEND(s, "outbox", .id = other);
    worker_kill(w, id);
    worker_kill(w, other);
    suite_plant(s, "outbox", &(struct plant){ .id = PR_BYTES((char *)id.bytes, 16), .type = "t", .payload = "new" });

    pr_id both[] = { id, other };
    struct admin_reply r = ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.ids = both, .id_count = 2));
    CHECK_EQ(r.matched, 2);
    CHECK_EQ(r.changed, 1);
    CHECK_EQ(r.refused, 1);
    const struct query_reply *dead = suite_query(s, QUERY_DEAD, FILTER());
    CHECK_EQ(dead->listed_count, 1);
    CHECK_SLICE(dead->listed[0].m.payload, "old");
    const struct query_reply *live = suite_query(s, QUERY_MESSAGES, FILTER(.ids = &id, .id_count = 1));
    CHECK_EQ(live->listed_count, 1);
    CHECK_SLICE(live->listed[0].m.payload, "new");
}

STORE_TEST(replay_by_filter_with_a_dry_run_first) /* B83 */
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 1; i <= 6; i++) {
        SEND(s, "outbox", .id = suite_id(i), .type = i % 2 == 0 ? PR_STR("even") : PR_STR("odd"));
        worker_kill(w, suite_id(i));
    }
    struct admin_reply dry = ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.type = PR_STR("ev*")), .dry_run = true);
    CHECK_EQ(dry.matched, 3);
    CHECK_EQ(dry.changed, 3);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 6);
    struct admin_reply r = ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.type = PR_STR("ev*")));
    CHECK_EQ(r.changed, 3);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 3);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.type = PR_STR("even"))), 3);
}

STORE_TEST(one_unreadable_dead_letter_costs_only_itself) /* B87 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id good = SEND(s, "outbox", .type = PR_STR("x"), .payload = PR_STR("good"));
    suite_plant(s, "outbox", &(struct plant){ .id = PR_STR("short"), .type = "x", .payload = "bad" });
    pr_id after = SEND(s, "outbox", .type = PR_STR("x"));
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10);
    CHECK_EQ(r->row_count, 3);
    struct verdict v[3];
    for (size_t i = 0; i < 3; i++)
        v[i] = (struct verdict){ .kind = VERDICT_DEAD_LETTER,
                                 .row = r->rows[i].row,
                                 .id = r->rows[i].m.id,
                                 .cause = PR_REASON_SERIALIZATION_ERROR };
    r = CYCLE(w, .verdicts = v, .verdict_count = 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ(r->answers[i], PR_OK);

    const struct query_reply *dead = suite_query(s, QUERY_DEAD, FILTER(.box = PR_STR("outbox")));
    CHECK_EQ(dead->listed_count, 3);
    CHECK(dead->listed[0].bad == NULL);
    CHECK(dead->listed[1].bad != NULL);
    CHECK_SLICE(dead->listed[1].m.payload, "bad");
    CHECK(dead->listed[2].bad == NULL);
    CHECK_SLICE(suite_get(s, good)->m.payload, "good");

    /* It does not keep the others from coming back. */
    struct admin_reply replay = ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.type = PR_STR("x")));
    CHECK_EQ(replay.matched, 3);
    CHECK(replay.changed >= 2);
    CHECK(suite_get(s, good)->state != STATE_DEAD);
    CHECK(suite_get(s, after)->state != STATE_DEAD);
}

STORE_TEST(a_person_makes_a_message_dead_by_hand_and_it_says_who_and_why) /* B88 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .payload = PR_STR("p")), failed = SEND(s, "outbox");
    worker_fail(w, failed, PR_SECONDS(60));
    struct admin_reply r = ADMIN_ID(s, ADMIN_DEAD_ADD, id, .by = PR_STR("ann"), .why = PR_STR("wrong customer"));
    CHECK_EQ(r.changed, 1);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->state, STATE_DEAD);
    CHECK_EQ(l->cause, PR_REASON_REJECTED);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_SLICE(l->m.payload, "p");
    CHECK_SLICE(l->rule, "ann"); /* as in why: who decided */
    CHECK(slice_contains(l->note, PR_STR("ann")));
    CHECK(slice_contains(l->note, PR_STR("wrong customer")));
    CHECK_SLICE(l->m.error, "wrong customer"); /* for listings, groups and filters */
    CHECK_EQ(l->m.reason, PR_REASON_NONE);
    CHECK_EQ(l->died_us, s->wall_us);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER(.error = PR_STR("customer"))), 1);

    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_ADD, failed, .why = PR_STR("enough")).changed, 1);
    CHECK_SLICE(suite_get(s, failed)->m.error, "too slow");
    CHECK_EQ(suite_get(s, failed)->m.failures, 1); /* what it went through stays */
    CHECK_EQ(suite_get(s, failed)->m.reason, PR_REASON_TIMEOUT_EXCEEDED);
    CHECK_EQ(suite_get(s, failed)->cause, PR_REASON_TIMEOUT_EXCEEDED);
}

STORE_TEST(dead_letters_are_discarded_by_id_and_by_filter) /* B86 */
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 1; i <= 5; i++) {
        SEND(s, "outbox", .id = suite_id(i), .type = i <= 3 ? PR_STR("a") : PR_STR("b"));
        worker_kill(w, suite_id(i));
    }
    pr_id alive = SEND(s, "outbox", .type = PR_STR("a"));
    pr_id one = suite_id(1);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_DISCARD, one).changed, 1);
    CHECK(suite_find(s, one) == NULL);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_DISCARD, FILTER(.type = PR_STR("a")), .dry_run = true).changed, 2);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 4);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_DISCARD, FILTER(.type = PR_STR("a"))).changed, 2);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 2);
    suite_get(s, alive);
    CHECK_EQ(OFFER(s, "outbox", .id = one), PR_OK); /* it is nowhere any more */
}

STORE_TEST(dead_letters_do_not_go_by_themselves) /* B86 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .expires_us = SUITE_START_US + PR_SECONDS(60));
    worker_kill(w, id);
    for (int year = 0; year < 20; year++) {
        s->wall_us += PR_SECONDS(86400) * 365; /* the lease is by another clock */
        suite_advance(s, PR_SECONDS(1));
        CYCLE(w, .fresh_rows = 10, .keep_us = PR_SECONDS(1), .force_write = true);
    }
    CHECK_EQ(suite_get(s, id)->state, STATE_DEAD);
}

STORE_TEST(a_split_delivery_dies_and_comes_back_on_its_own) /* B17, B59 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    int64_t seq = suite_get(s, id)->m.seq;
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 } };
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2), PR_OK);
    CHECK_EQ(VERDICT(w, worker_claim_to(s->workers, id, "b"), .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED),
             PR_OK);
    CHECK_EQ(suite_get_to(s, id, "b")->state, STATE_DEAD);
    CHECK(suite_get_to(s, id, "a")->state != STATE_DEAD);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id).changed, 1);
    CHECK_EQ(suite_get_to(s, id, "b")->m.seq, seq);
    CHECK(suite_get_to(s, id, "b")->state != STATE_DEAD);
}

STORE_TEST(made_dead_by_hand_it_has_the_cause_that_was_given) /* B88 */
{
    pr_id one = SEND(s, "outbox"), other = SEND(s, "outbox");
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_ADD, one, .by = PR_STR("ann"), .cause = PR_REASON_EXPIRED).changed, 1);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_ADD, other, .by = PR_STR("ann")).changed, 1);
    CHECK_EQ(suite_get(s, one)->cause, PR_REASON_EXPIRED);
    CHECK_EQ(suite_get(s, other)->cause, PR_REASON_REJECTED);
}
