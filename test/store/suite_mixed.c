/* Cases that work alone, in combination: times at the edge of the valid range, ends that meet operators, ids that come
 * again while others of them are kept. */
#include "suite.h"

#include <string.h>

/* ---- Times ------------------------------------------------------------------------- */

STORE_TEST(times_at_the_edges_of_what_can_be_written_are_taken_and_harm_nobody) /* B12, B13, B34 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id early = SEND(s, "outbox", .due_us = TIME_MIN_US, .expires_us = TIME_MAX_US);
    pr_id late = SEND(s, "outbox", .due_us = TIME_MAX_US, .expires_us = PR_NEVER);
    pr_id over = SEND(s, "outbox", .expires_us = TIME_MIN_US);
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10, .due.rows = 10);
    CHECK(reply_find(r, early) != NULL);
    CHECK(reply_find(r, late) == NULL);
    CHECK(reply_find(r, over) != NULL);
    CHECK(message_is_expired(&reply_find(r, over)->m, s->wall_us));
    CHECK(!message_is_expired(&reply_find(r, early)->m, s->wall_us));
    CHECK(!message_is_expired(&suite_get(s, late)->m, s->wall_us + PR_SECONDS(86400) * 365 * 1000));

    struct claim c = worker_claim(w, early);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN, .delay_us = PR_NEVER - 1), PR_OK);
    CHECK(suite_get(s, early)->m.due_us >= TIME_MAX_US);
    CHECK_EQ(VERDICT(w, worker_claim(w, early), .kind = VERDICT_ABANDON, .delay_us = PR_NEVER - 1), PR_OK);
    struct pause pause = { .endpoint = PR_STR("e"), .for_us = PR_NEVER - 1 };
    CYCLE(w, .pauses = &pause, .pause_count = 1);
    CHECK(suite_endpoint(s, "e")->paused_until_us > s->wall_us + PR_SECONDS(86400) * 365 * 1000);
    struct claim done = worker_claim(w, over);
    struct verdict v = VERDICT_OF(done, .kind = VERDICT_COMPLETE);
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .closed = &done.cycle, .closed_count = 1, .keep_us = PR_NEVER - 1);
    CHECK_EQ(suite_get(s, over)->state, STATE_DONE);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10, .restart_lanes = LANES_ALL)->row_count, 0);
}

STORE_TEST(a_clock_before_the_beginning_of_time_is_survived) /* B25 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), failed = SEND(s, "outbox");
    s->wall_us = PR_SECONDS(5); /* a machine without a battery */
    pr_id fresh = SEND(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 3);
    worker_fail(w, failed, PR_SECONDS(1));
    CHECK_EQ(suite_get(s, failed)->m.due_us, PR_SECONDS(6));
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_COMPLETE), PR_OK);
    CHECK_EQ(VERDICT(w, worker_claim(w, fresh), .kind = VERDICT_COMPLETE), PR_OK);
    s->wall_us = SUITE_START_US;
    CHECK(reply_find(CYCLE(w, .due.rows = 10), failed) != NULL);
}

/* ---- What is kept -------------------------------------------------------------------- */

STORE_TEST(an_id_may_come_again_and_again_where_what_is_done_is_kept) /* B2 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = suite_id(1);
    for (int i = 0; i < 3; i++) {
        SEND(s, "outbox", .id = id, .payload = PR_BYTES("012" + i, 1));
        struct claim c = worker_claim_to(w, id, "");
        struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
        CYCLE(w, .verdicts = &v, .verdict_count = 1, .closed = &c.cycle, .closed_count = 1, .keep_us = PR_SECONDS(60));
        CHECK_EQ(w->reply->answers[0], PR_OK);
    }
    CHECK_EQ(suite_query(s, QUERY_ID, FILTER(.ids = &id, .id_count = 1))->listed_count, 3);
    CHECK_EQ(suite_box(s, "outbox")->done, 3);
    SEND(s, "outbox", .id = id); /* what is kept is no duplicate, and no delivery */
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, id).changed, 1);
    CHECK_EQ(suite_box(s, "outbox")->done, 3);
}

STORE_TEST(a_cycle_that_keeps_and_is_sent_again_keeps_once) /* B7 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    struct tally t = { .endpoint = PR_STR("e"), .sent = 1 };
    for (int i = 0; i < 3; i++) {
        CYCLE(w, .verdicts = &v, .verdict_count = 1, .tallies = &t, .tally_count = 1, .keep_us = PR_SECONDS(60));
        CHECK_EQ(w->reply->replayed, i > 0);
        w->number--;
    }
    w->number++;
    CHECK_EQ(suite_box(s, "outbox")->done, 1);
    CHECK_EQ(suite_endpoint(s, "e")->sent, 1);
}

/* ---- People and what is in flight --------------------------------------------------------- */

STORE_TEST(what_is_released_while_it_is_in_flight_ends_once_whatever_its_verdict) /* B8 */
{
    static const enum verdict_kind kinds[] = { VERDICT_COMPLETE, VERDICT_FAIL, VERDICT_ABANDON, VERDICT_RETURN,
                                               VERDICT_DEAD_LETTER };
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 0; i < ARRAY_LENGTH(kinds); i++) {
        pr_id id = SEND(s, "outbox", .id = suite_id(i + 1), .stream = PR_STR("a"));
        struct claim c = worker_claim(w, id);
        CHECK_EQ(ADMIN_ID(s, ADMIN_RELEASE, id).changed, 1);
        CHECK_EQ(VERDICT(w, c, .kind = kinds[i], .reason = kinds[i] == VERDICT_FAIL ? PR_REASON_REJECTED : 0,
                         .cause = PR_REASON_REJECTED, .delay_us = PR_SECONDS(60)),
                 PR_OK);
        const struct listed *l = suite_find(s, id);
        CHECK_EQ(l == NULL, kinds[i] == VERDICT_COMPLETE);
        if (l != NULL)
            CHECK_EQ(l->m.attempts, kinds[i] == VERDICT_RETURN ? 0 : 1);
    }
}

STORE_TEST(what_is_parked_while_it_is_in_flight_is_done_or_stays_parked_and_is_counted) /* B8, B30, D4 */
{
    static const enum verdict_kind kinds[] = { VERDICT_FAIL, VERDICT_ABANDON, VERDICT_RELEASE, VERDICT_RETURN };
    struct worker *w = suite_join(s, "outbox");
    pr_id done = SEND(s, "outbox"), killed = SEND(s, "outbox");
    struct claim c = worker_claim(w, done);
    CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, done).changed, 1);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE), PR_OK);
    CHECK(suite_find(s, done) == NULL);
    for (unsigned i = 0; i < ARRAY_LENGTH(kinds); i++) {
        pr_id id = SEND(s, "outbox", .id = suite_id(i + 1));
        c = worker_claim(w, id);
        CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, id).changed, 1);
        CHECK_EQ(VERDICT(w, c, .kind = kinds[i], .reason = kinds[i] == VERDICT_FAIL ? PR_REASON_REJECTED : 0,
                         .delay_us = PR_SECONDS(1)),
                 PR_OK);
        CHECK_EQ(suite_get(s, id)->state, STATE_PARKED);
        CHECK_EQ(suite_get(s, id)->m.failures, kinds[i] == VERDICT_FAIL);
        CHECK_EQ(suite_get(s, id)->m.attempts, kinds[i] == VERDICT_FAIL || kinds[i] == VERDICT_ABANDON);
    }
    worker_claim(w, killed);
    CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, killed).changed, 1);
    worker_vanish(w);
    suite_advance(s, SUITE_LEASE_US + PR_MILLISECONDS(1));
    w = suite_join(s, "outbox");
    CHECK_EQ(suite_get(s, killed)->m.attempts, 1);
    CHECK_EQ(suite_get(s, killed)->state, STATE_PARKED);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 0);
    CHECK_EQ(VERDICT(w, suite_seen(s, killed), .kind = VERDICT_ABANDON), PR_STALE); /* it waits for a person */
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 0);
    CHECK_EQ(ADMIN_ID(s, ADMIN_RETRY, killed).changed, 1);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10)->row_count, 1);
}

STORE_TEST(what_is_made_dead_by_hand_while_it_is_in_flight_stays_dead_and_can_be_replayed) /* B8, B88 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("a"), .payload = PR_STR("p"));
    struct claim c = worker_claim(w, id);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_ADD, id, .by = PR_STR("ann"), .why = PR_STR("no")).changed, 1);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED), PR_UNKNOWN);
    CHECK_EQ(suite_get(s, id)->state, STATE_DEAD);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id).changed, 1);
    /* The row that its sender's verdict is about is another one by now. */
    CHECK(VERDICT(w, c, .kind = VERDICT_COMPLETE) != PR_OK || suite_find(s, id) == NULL);
    if (suite_find(s, id) != NULL)
        CHECK_SLICE(suite_get(s, id)->m.payload, "p");
}

STORE_TEST(an_empty_message_goes_every_way) /* B4, B81 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .payload = PR_STR(""), .headers = PR_STR(""));
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 } };
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2), PR_OK);
    struct claim c = worker_claim_to(w, id, "a");
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_DEAD_LETTER, .cause = PR_REASON_REJECTED), PR_OK);
    CHECK_EQ(suite_get_to(s, id, "a")->m.payload.size, 0);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.ids = &id, .id_count = 1)).changed, 1);
    const struct listed *l = suite_get_to(s, id, "a");
    CHECK_EQ(l->state, STATE_READY);
    CHECK_EQ(l->m.payload.size, 0);
    CHECK_EQ(l->m.headers.size, 0);
    CHECK(l->bad == NULL);
}
