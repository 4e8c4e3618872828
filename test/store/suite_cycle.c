/* The cycle itself: whole or not at all, once, with an answer to each verdict. */
#include "suite.h"

#include <string.h>

STORE_TEST(the_first_cycle_joins_and_tells_epoch_time_and_lanes)
{
    struct worker *w = suite_worker(s, "outbox");
    const struct cycle_reply *r = CYCLE(w);
    CHECK_EQ(r->now_us, s->wall_us);
    CHECK(r->epoch > 0);
    CHECK(!r->replayed);
    CHECK_EQ(r->lanes_owned, LANES_ALL);
    CHECK_EQ(r->lanes_asked, 0);
    CHECK_EQ(r->row_count, 0);
    CHECK(r->endpoints_known);
    CHECK_EQ(r->notice_count, 0);
}

STORE_TEST(an_empty_cycle_renews_the_lease) /* B5 */
{
    struct worker *a = suite_join(s, "outbox");
    struct worker *b = suite_worker(s, "outbox");
    /* Six leases long, and never silent for as long as one. */
    for (int i = 0; i < 15; i++) {
        suite_advance(s, SUITE_LEASE_US * 2 / 5);
        CHECK_OK(CYCLE_TRY(a), &a->error);
    }
    CYCLE(b);
    CHECK_EQ(b->lanes, 0);
    CHECK_EQ(CYCLE(a)->lanes_owned, LANES_ALL);
}

STORE_TEST(a_forced_write_renews_at_once) /* B5 */
{
    struct worker *a = suite_join(s, "outbox");
    struct worker *b = suite_worker(s, "outbox");
    suite_advance(s, PR_MILLISECONDS(10));
    CYCLE(a, .force_write = true);
    suite_advance(s, SUITE_LEASE_US - PR_MILLISECONDS(5));
    CYCLE(b);
    CHECK_EQ(b->lanes, 0);
    CHECK_OK(CYCLE_TRY(a), &a->error);
}

/* Everything that one cycle can do, prepared. */
struct everything {
    pr_id done, failed, returned, abandoned, released, discarded, expired, dead, parked, held, split;
    pr_id effect;
    pr_slice destinations[2];
    struct verdict verdicts[11];
    struct receipt_entry receipt[9];
    struct pr_message message;
    struct effect effects[1];
    struct tally tally;
};

static void everything_prepare(struct suite *s, struct worker *w, struct everything *e)
{
    *e = (struct everything){ 0 };
    pr_id *const ids[] = { &e->done,    &e->failed, &e->returned, &e->abandoned, &e->released, &e->discarded,
                           &e->expired, &e->dead,   &e->parked,   &e->held,      &e->split };
    static const enum verdict_kind kinds[] = { VERDICT_COMPLETE, VERDICT_FAIL,    VERDICT_RETURN, VERDICT_ABANDON,
                                               VERDICT_RELEASE,  VERDICT_DISCARD, VERDICT_EXPIRE, VERDICT_DEAD_LETTER,
                                               VERDICT_PARK,     VERDICT_HOLD,    VERDICT_SPLIT };
    for (size_t i = 0; i < ARRAY_LENGTH(ids); i++) {
        *ids[i] = SEND(s, "outbox", .id = suite_id(100 + (unsigned)i));
        bool handed_out = i < ARRAY_LENGTH(e->receipt);
        e->verdicts[i] = (struct verdict){
            .kind = kinds[i],
            .row = suite_get(s, *ids[i])->row,
            .id = *ids[i],
            .number = handed_out ? 1 : 0,
        };
        if (handed_out)
            e->receipt[i] = (struct receipt_entry){ .row = e->verdicts[i].row, .number = 1 };
    }
    e->verdicts[1].reason = PR_REASON_TIMEOUT_EXCEEDED;
    e->verdicts[1].delay_us = PR_SECONDS(5);
    e->verdicts[3].delay_us = PR_SECONDS(6);
    e->verdicts[7].cause = PR_REASON_REJECTED;
    e->verdicts[9].held_by = PR_STR("key");
    e->destinations[0] = PR_STR("a");
    e->destinations[1] = PR_STR("b");
    e->verdicts[10].destinations = e->destinations;
    e->verdicts[10].destination_count = 2;
    e->effect = suite_id(200);
    e->message = (struct pr_message){ .id = e->effect, .type = PR_STR("effect") };
    e->effects[0] = (struct effect){ .verdict = 0, .box = PR_STR("ledger"), .message = &e->message };
    e->tally = (struct tally){ .endpoint = PR_STR("a"), .sent = 1 };
    CYCLE(w, .receipt = e->receipt, .receipt_count = ARRAY_LENGTH(e->receipt));
}

static void everything_is_as_before(struct suite *s, const struct everything *e)
{
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"))), ARRAY_LENGTH(e->verdicts));
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 0);
    CHECK(suite_find(s, e->effect) == NULL);
    CHECK(suite_endpoint(s, "a") == NULL || suite_endpoint(s, "a")->sent == 0);
    for (size_t i = 0; i < ARRAY_LENGTH(e->verdicts); i++) {
        const struct listed *l = suite_get(s, e->verdicts[i].id);
        CHECK_EQ(l->m.attempts, 0);
        CHECK_EQ(l->m.failures, 0);
        CHECK_EQ(l->m.due_us, 0);
        CHECK_SLICE(l->m.held_by, "");
        CHECK_EQ(l->m.status, PR_STATUS_STORED);
    }
}

STORE_TEST(one_cycle_does_everything_at_once) /* B6 */
{
    struct worker *w = suite_join(s, "outbox");
    struct everything e;
    everything_prepare(s, w, &e);
    pr_id claimed = SEND(s, "outbox", .id = suite_id(300));
    struct receipt_entry entry = { .row = suite_get(s, claimed)->row, .number = 1 };
    uint64_t closed = w->number - 1;

    const struct cycle_reply *r =
        CYCLE(w, .verdicts = e.verdicts, .verdict_count = ARRAY_LENGTH(e.verdicts), .effects = e.effects,
              .effect_count = 1, .receipt = &entry, .receipt_count = 1, .closed = &closed, .closed_count = 1,
              .tallies = &e.tally, .tally_count = 1, .fresh_rows = 100, .due.rows = 100);
    for (size_t i = 0; i < ARRAY_LENGTH(e.verdicts); i++)
        CHECK_EQ(r->answers[i], PR_OK);
    CHECK(r->split_rows[0] > 0);
    CHECK(r->split_rows[1] > 0);
    /* The reads see the changes: returned and claimed are fresh, released is due, the parts are held. */
    CHECK(reply_find(r, claimed) != NULL);
    CHECK_EQ(reply_count(r, ROW_DUE), 1);
    CHECK(reply_find(r, e.held) == NULL);
    CHECK(reply_find(r, e.done) == NULL);

    CHECK(suite_find(s, e.done) == NULL);
    CHECK_EQ(suite_get(s, e.failed)->m.failures, 1);
    CHECK_EQ(suite_get(s, e.returned)->m.attempts, 0);
    CHECK_EQ(suite_get(s, e.abandoned)->m.attempts, 1);
    CHECK(suite_get(s, e.released)->m.released);
    CHECK(suite_find(s, e.discarded) == NULL);
    CHECK(suite_find(s, e.expired) == NULL);
    CHECK_EQ(suite_get(s, e.dead)->state, STATE_DEAD);
    CHECK_EQ(suite_get(s, e.parked)->state, STATE_PARKED);
    CHECK_EQ(suite_get(s, e.held)->state, STATE_HELD);
    suite_get_to(s, e.split, "a");
    suite_get_to(s, e.split, "b");
    CHECK_EQ(suite_get(s, claimed)->state, STATE_IN_FLIGHT);
    CHECK_SLICE(suite_get(s, e.effect)->box, "ledger");
    CHECK_EQ(suite_endpoint(s, "a")->sent, 1);
}

STORE_TEST(a_cycle_with_a_part_that_cannot_be_done_changes_nothing_at_all) /* B6, T1 */
{
    struct worker *w = suite_join(s, "outbox");
    struct everything e;
    everything_prepare(s, w, &e);
    uint64_t closed = w->number - 1;
    struct effect effects[2] = { e.effects[0], e.effects[0] };
    effects[1].box = PR_STR("nowhere"); /* the part that cannot be done comes last */

    CHECK(CYCLE_TRY(w, .verdicts = e.verdicts, .verdict_count = ARRAY_LENGTH(e.verdicts), .effects = effects,
                    .effect_count = 2, .closed = &closed, .closed_count = 1, .tallies = &e.tally,
                    .tally_count = 1) < 0);
    everything_is_as_before(s, &e);

    /* It used up nothing: the same number without the bad part lands. */
    CYCLE(w, .verdicts = e.verdicts, .verdict_count = ARRAY_LENGTH(e.verdicts), .effects = effects, .effect_count = 1);
    CHECK(!w->reply->replayed);
    CHECK(suite_find(s, e.done) == NULL);
    CHECK_EQ(suite_get(s, e.failed)->m.failures, 1);
}

STORE_TEST(the_same_cycle_number_again_changes_nothing) /* B7, T2 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), other = SEND(s, "outbox"), third = SEND(s, "outbox");
    struct claim c = worker_claim(w, id), seen = suite_seen(s, third);
    struct verdict v[] = {
        VERDICT_OF(c, .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN, .delay_us = 5),
        VERDICT_OF(seen, .kind = VERDICT_ABANDON,
                   .delay_us = 7), /* nothing about the row keeps it from being applied twice */
    };
    struct tally tally = { .endpoint = PR_STR("e"), .failed = 1 };
    struct pr_message message = { .id = suite_id(9), .type = PR_STR("t") };
    struct effect effect = { .verdict = 0, .box = PR_STR("ledger"), .message = &message };
    struct receipt_entry entry = { .row = suite_get(s, other)->row, .number = 1 };
    const struct cycle cycle = {
        .verdicts = v,
        .verdict_count = 2,
        .tallies = &tally,
        .tally_count = 1,
        .effects = &effect,
        .effect_count = 1,
        .receipt = &entry,
        .receipt_count = 1,
        .closed = &c.cycle,
        .closed_count = 1,
    };
    worker_cycle(w, &cycle);
    CHECK(!w->reply->replayed);
    uint64_t lanes = w->lanes;
    int64_t epoch = w->epoch;

    suite_advance(s, PR_SECONDS(1));
    w->number--;
    worker_cycle(w, &cycle);
    CHECK(w->reply->replayed);
    CHECK_EQ(w->lanes, lanes);
    CHECK_EQ(w->epoch, epoch);
    CHECK_EQ(suite_get(s, id)->m.failures, 1);
    CHECK_EQ(suite_get(s, id)->m.attempts, 1);
    CHECK_EQ(suite_get(s, id)->m.due_us, SUITE_START_US + 5);
    CHECK_EQ(suite_get(s, third)->m.due_us, SUITE_START_US + 7);
    CHECK_EQ(suite_endpoint(s, "e")->failed, 1);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger"))), 1);
    CHECK_EQ(suite_get(s, other)->state, STATE_IN_FLIGHT);

    worker_cycle(w, &(struct cycle){ 0 });
    CHECK(!w->reply->replayed);
}

STORE_TEST(a_cycle_that_is_sent_again_reads_what_its_lost_answer_had_read) /* B7, T7 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox", .stream = PR_STR("s")), b = SEND(s, "outbox", .stream = PR_STR("s"));
    CHECK(reply_find(CYCLE(w, .fresh_rows = 1), a) != NULL);
    CHECK(reply_find(CYCLE(w, .fresh_rows = 1), b) != NULL);
    w->number--; /* that answer was lost */
    pr_id c = SEND(s, "outbox", .stream = PR_STR("s"));
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10);
    CHECK(r->replayed);
    CHECK_EQ(r->row_count, 2);
    CHECK(reply_find(r, b) != NULL);
    CHECK(reply_find(r, c) != NULL);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 0);
}

STORE_TEST(joining_again_with_the_same_number_is_the_same_join) /* B7 */
{
    struct worker *w = suite_join(s, "outbox");
    int64_t epoch = w->epoch;
    w->number = 1;
    w->epoch = 0;
    CYCLE(w);
    CHECK(w->reply->replayed);
    CHECK_EQ(w->epoch, epoch);
    CHECK_EQ(w->lanes, LANES_ALL);
    CHECK_EQ(suite_query(s, QUERY_INSTANCES, FILTER())->instance_count, 1);
}

STORE_TEST(a_verdict_for_an_unknown_row_is_answered_and_the_rest_lands) /* B8 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox"), b = SEND(s, "outbox"), d = SEND(s, "outbox");
    struct claim ca = worker_claim(w, a), cb = worker_claim(w, b), cd = worker_claim(w, d);
    struct verdict v[] = {
        VERDICT_OF(ca, .kind = VERDICT_COMPLETE),
        VERDICT_OF(ca, .kind = VERDICT_COMPLETE, .row = ca.row + 1000),
        VERDICT_OF(cb, .kind = VERDICT_DISCARD, .id = suite_id(77)), /* the row is there, the id is another */
        VERDICT_OF(cb, .kind = VERDICT_FAIL, .row = 0, .reason = PR_REASON_UNKNOWN),
        VERDICT_OF(cd, .kind = VERDICT_COMPLETE, .id = suite_id(78)),
    };
    CYCLE(w, .verdicts = v, .verdict_count = ARRAY_LENGTH(v));
    CHECK_EQ(w->reply->answers[0], PR_OK);
    for (size_t i = 1; i < ARRAY_LENGTH(v); i++)
        CHECK_EQ(w->reply->answers[i], PR_UNKNOWN);
    CHECK(suite_find(s, a) == NULL);
    CHECK_EQ(suite_get(s, b)->m.attempts, 0);
    CHECK_EQ(suite_get(s, d)->m.attempts, 0);
}

/* In ranges, in single rows, in any order: only what has a good verdict goes, and its neighbours stay. */
STORE_TEST(many_rows_end_in_one_cycle_and_those_between_them_stay) /* B8, B35 */
{
    enum { ROWS = 60 };
    static const struct {
        unsigned every; /* so many rows lie between two that end */
        bool backwards;
    } table[] = { { 1, false }, { 1, true }, { 2, false }, { 9, true } };
    struct worker *w = suite_join(s, "outbox");
    for (size_t n = 0; n < ARRAY_LENGTH(table); n++) {
        pr_id ids[ROWS];
        struct verdict v[ROWS];
        bool ends[ROWS] = { false };
        size_t count = 0;
        for (size_t i = 0; i < ROWS; i++)
            ids[i] = SEND(s, "outbox");
        for (size_t k = 0; k < ROWS; k++) {
            size_t i = table[n].backwards ? ROWS - 1 - k : k;
            if (i % table[n].every != 0)
                continue;
            ends[i] = i != 18 && i != 36;
            v[count] = VERDICT_OF(worker_claim(w, ids[i]), .kind = VERDICT_COMPLETE);
            if (i == 18)
                v[count].id = suite_id(77); /* the row is there, the id is another */
            count++;
        }
        VERDICT(w, worker_claim(w, ids[36]), .kind = VERDICT_COMPLETE); /* gone already */
        CYCLE(w, .verdicts = v, .verdict_count = count);
        for (size_t i = 0; i < ROWS; i++)
            CHECK_EQ(suite_find(s, ids[i]) == NULL, ends[i] || i == 36);
        for (size_t k = 0; k < count; k++) {
            bool good = !pr_id_equal(v[k].id, suite_id(77)) && !pr_id_equal(v[k].id, ids[36]);
            CHECK_EQ(w->reply->answers[k], good ? PR_OK : PR_UNKNOWN);
        }
    }
}

STORE_TEST(verdicts_of_one_cycle_are_applied_in_their_order)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox"), b = SEND(s, "outbox"), c = SEND(s, "outbox");
    struct claim ca = worker_claim(w, a), cb = worker_claim(w, b), cc = worker_claim(w, c);
    struct verdict v[] = {
        VERDICT_OF(ca, .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED, .delay_us = 5),
        VERDICT_OF(ca, .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN, .delay_us = 9),
        VERDICT_OF(cb, .kind = VERDICT_COMPLETE),
        VERDICT_OF(cb, .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED),
        VERDICT_OF(cc, .kind = VERDICT_HOLD, .held_by = PR_STR("k")),
        VERDICT_OF(cc, .kind = VERDICT_RELEASE),
        VERDICT_OF(cc, .kind = VERDICT_HOLD, .held_by = PR_STR("k")),
    };
    static const int expected[] = { PR_OK, PR_STALE, PR_OK, PR_UNKNOWN, PR_OK, PR_OK, PR_STALE };
    CYCLE(w, .verdicts = v, .verdict_count = ARRAY_LENGTH(v));
    for (size_t i = 0; i < ARRAY_LENGTH(v); i++)
        CHECK_EQ(w->reply->answers[i], expected[i]);
    CHECK_EQ(suite_get(s, a)->m.due_us, s->wall_us + 5);
    CHECK(suite_find(s, b) == NULL);
    CHECK_SLICE(suite_get(s, c)->m.held_by, "");
}

STORE_TEST(every_verdict_for_a_row_that_is_gone_is_unknown) /* B8 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    static const pr_slice to[] = { { "a", 1 } };
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE), PR_OK);
    for (int kind = VERDICT_COMPLETE; kind <= VERDICT_SPLIT; kind++)
        CHECK_EQ(VERDICT(w, c, .kind = (enum verdict_kind)kind, .held_by = PR_STR("k"), .destinations = to,
                         .destination_count = kind == VERDICT_SPLIT, .cause = PR_REASON_REJECTED),
                 PR_UNKNOWN);
    CHECK(suite_find(s, id) == NULL);
}

STORE_TEST(a_failure_that_was_judged_meanwhile_is_stale) /* B8 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_TIMEOUT_EXCEEDED, .delay_us = 5), PR_OK);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED, .delay_us = 9), PR_STALE);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_ABANDON, .delay_us = 9), PR_STALE);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_PARK, .reason = PR_REASON_REJECTED), PR_STALE);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->m.failures, 1);
    CHECK_EQ(l->m.attempts, 1);
    CHECK_EQ(l->m.reason, PR_REASON_TIMEOUT_EXCEEDED);
    CHECK_EQ(l->m.due_us, s->wall_us + 5);
}

STORE_TEST(asking_for_a_row_changes_nothing_and_tells_whether_it_is_as_it_was_handed_out) /* B8 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_ASK), PR_OK);
    CHECK_EQ(suite_get(s, id)->m.attempts, 0);
    CHECK_EQ(suite_get(s, id)->m.due_us, 0);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED, .delay_us = 9), PR_OK);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_ASK), PR_STALE);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE, .fenced = true), PR_STALE);
    CHECK_EQ(suite_get(s, id)->m.attempts, 1);
    c.number = 2;
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE, .fenced = true), PR_OK);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_ASK), PR_UNKNOWN);
}

STORE_TEST(a_failure_that_may_be_passed_holds_up_nobody) /* B55 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("s"));
    struct claim c = worker_claim(w, id);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED, .delay_us = 9, .passable = true), PR_OK);
    const struct listed *l = suite_get(s, id);
    CHECK(l->m.released);
    CHECK_EQ(l->m.failures, 1);
    CHECK(!message_blocks_stream(&l->m));
}

STORE_TEST(a_verdict_for_a_row_in_a_lane_of_another_is_stale) /* B8, T4 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *a = suite_join(s, "outbox"), *b = suite_join(s, "outbox");
    suite_settle_lanes(s);
    unsigned lane = (unsigned)__builtin_ctzll(b->lanes);
    pr_id id = SEND(s, "outbox", .stream = suite_stream_in_lane(s, lane));
    struct claim c = suite_seen(s, id);
    c.number = 1;
    CHECK_EQ(VERDICT(a, c, .kind = VERDICT_COMPLETE), PR_STALE);
    CHECK_EQ(VERDICT(a, c, .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN), PR_STALE);
    CHECK_EQ(VERDICT(a, c, .kind = VERDICT_DISCARD), PR_STALE);
    CHECK_EQ(suite_get(s, id)->m.attempts, 0);
    CHECK_EQ(VERDICT(b, c, .kind = VERDICT_COMPLETE), PR_OK);
}

/* ---- Effects ---------------------------------------------------------------------- */

STORE_TEST(an_effect_is_stored_only_when_its_verdict_was_applied)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    struct verdict v[] = { VERDICT_OF(c, .kind = VERDICT_COMPLETE),
                           VERDICT_OF(c, .kind = VERDICT_COMPLETE, .row = c.row + 500) };
    struct pr_message m[] = { { .id = suite_id(1), .type = PR_STR("t"), .payload = PR_STR("kept") },
                              { .id = suite_id(2), .type = PR_STR("t") },
                              { .id = suite_id(3), .type = PR_STR("t") } };
    struct effect effects[] = { { .verdict = 0, .box = PR_STR("outbox"), .message = &m[0] },
                                { .verdict = 1, .box = PR_STR("outbox"), .message = &m[1] },
                                { .verdict = EFFECT_ALWAYS, .box = PR_STR("inbox"), .message = &m[2] } };
    CYCLE(w, .verdicts = v, .verdict_count = 2, .effects = effects, .effect_count = 3, .fresh_rows = 10);
    CHECK_SLICE(suite_get(s, m[0].id)->m.payload, "kept");
    CHECK(suite_find(s, m[1].id) == NULL);
    CHECK_SLICE(suite_get(s, m[2].id)->box, "inbox");
    CHECK(reply_find(w->reply, m[0].id) != NULL); /* the reads see it */
}

STORE_TEST(an_effect_with_an_id_that_is_there_changes_nothing_and_harms_nothing)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), there = SEND(s, "ledger", .payload = PR_STR("old"));
    struct claim c = worker_claim(w, id);
    struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    struct pr_message m = { .id = there, .type = PR_STR("t"), .payload = PR_STR("new") };
    struct effect effects[] = { { .verdict = 0, .box = PR_STR("ledger"), .message = &m },
                                { .verdict = 0, .box = PR_STR("inbox"), .message = &m },
                                { .verdict = 0, .box = PR_STR("inbox"), .message = &m } };
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = effects, .effect_count = 3);
    CHECK(suite_find(s, id) == NULL);
    const struct query_reply *ledger = suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("ledger")));
    CHECK_EQ(ledger->listed_count, 1);
    CHECK_SLICE(ledger->listed[0].m.payload, "old");
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("inbox"))), 1);
}

STORE_TEST(tallies_add_up_over_cycles_and_instances)
{
    struct worker *w = suite_join(s, "outbox"), *other = suite_join(s, "ledger");
    struct tally t[] = { { .endpoint = PR_STR("a"), .sent = 1, .failed = 2, .dead = 3, .discarded = 4, .expired = 5 },
                         { .endpoint = PR_STR(""), .expired = 1 } };
    CYCLE(w, .tallies = t, .tally_count = 2);
    CYCLE(w, .tallies = t, .tally_count = 1);
    CYCLE(other, .tallies = t, .tally_count = 1);
    const struct endpoint_state *e = suite_endpoint(s, "a");
    CHECK(e != NULL);
    CHECK_EQ(e->sent, 3);
    CHECK_EQ(e->failed, 6);
    CHECK_EQ(e->dead, 9);
    CHECK_EQ(e->discarded, 12);
    CHECK_EQ(e->expired, 15);
    CHECK_EQ(e->paused_until_us, 0);
    e = suite_endpoint(s, "");
    CHECK(e != NULL);
    CHECK_EQ(e->expired, 1);
}

/* ---- Receipts --------------------------------------------------------------------- */

STORE_TEST(what_is_on_an_open_receipt_is_in_flight_with_the_name_of_its_instance)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(suite_get(s, id)->state, STATE_READY);
    struct claim c = worker_claim(w, id);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->state, STATE_IN_FLIGHT);
    CHECK_SLICE(l->instance, w->name);
    CHECK_EQ(suite_box(s, "outbox")->in_flight, 1);
    CHECK_EQ(suite_box(s, "outbox")->ready, 0);
    CHECK_EQ(suite_query(s, QUERY_INSTANCES, FILTER())->instances[0].in_flight, 1);

    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_RETURN), PR_OK);
    CHECK_EQ(suite_get(s, id)->state, STATE_READY);
    CHECK_EQ(suite_query(s, QUERY_INSTANCES, FILTER())->instances[0].in_flight, 0);
}

STORE_TEST(a_receipt_that_is_carried_over_stays_and_what_is_not_on_it_any_more_does_not)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox"), b = SEND(s, "outbox");
    struct receipt_entry both[] = { { suite_get(s, a)->row, 1 }, { suite_get(s, b)->row, 1 } };
    uint64_t first = w->number;
    CYCLE(w, .receipt = both, .receipt_count = 2);
    CYCLE(w, .receipt = &both[1], .receipt_count = 1, .closed = &first, .closed_count = 1);
    CHECK_EQ(suite_get(s, a)->state, STATE_READY);
    CHECK_EQ(suite_get(s, b)->state, STATE_IN_FLIGHT);
}
