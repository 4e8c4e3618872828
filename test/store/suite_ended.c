/* The ledger of ended messages: when, where, by whom and at which attempt a message ended that is gone. */
#include <string.h>

#include "core/id.h"
#include "suite.h"

#define DAY_US PR_SECONDS(86400)

static const struct query_reply *ask(struct suite *s, pr_id id, size_t look_max)
{
    struct query_reply *reply = arena_zalloc(&s->arena, sizeof(*reply));
    struct query query = { .kind = QUERY_ID,
                           .filter = FILTER(.ids = &id, .id_count = 1, .look_max = look_max),
                           .ended = true };
    CHECK(reply != NULL);
    CHECK_OK(store_query(&s->store, &query, &s->arena, reply, &s->error), &s->error);
    return reply;
}

/* The one end of it. */
static const struct listed *end_of(struct suite *s, pr_id id)
{
    const struct query_reply *r = ask(s, id, 0);
    CHECK_EQ(r->listed_count, 1);
    CHECK(pr_id_equal(r->listed[0].m.id, id));
    CHECK(r->listed[0].ended != 0);
    CHECK_EQ(r->ended_from_us, 0);
    return &r->listed[0];
}

static void check_end(struct suite *s, pr_id id, enum ended_as as, const char *endpoint, int attempt, const char *by)
{
    const struct listed *l = end_of(s, id);
    CHECK_EQ(l->ended, as);
    CHECK_EQ(l->state, as == ENDED_DELIVERED ? STATE_DONE : STATE_GONE);
    CHECK_SLICE(l->endpoint, endpoint);
    CHECK_EQ(l->m.attempts, attempt);
    CHECK_SLICE(l->instance, by);
    CHECK_SLICE(l->box, "outbox");
}

static bool is_in_ledger(struct suite *s, pr_id id)
{
    const struct query_reply *r = ask(s, id, 0);
    for (size_t i = 0; i < r->listed_count; i++)
        if (r->listed[i].ended != 0)
            return true;
    return false;
}

/* An id that tells no time: a UUIDv4 with this number. */
static pr_id plain_id(unsigned number)
{
    pr_id id = suite_id(number);
    id.bytes[6] = (uint8_t)(0x40 | (id.bytes[6] & 0x0f));
    return id;
}

STORE_TEST(what_was_delivered_is_known_with_when_where_by_whom_and_at_which_attempt) /* B89 */
{
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("e")), other = SEND(s, "outbox", .destination = PR_STR("e"));
    worker_fail(w, id, 0);
    struct claim claim = worker_claim(w, id);
    suite_advance(s, PR_SECONDS(5));
    CHECK_EQ(VERDICT(w, claim, .kind = VERDICT_COMPLETE, .endpoint = PR_STR("e")), PR_OK);

    check_end(s, id, ENDED_DELIVERED, "e", 2, w->name);
    CHECK_EQ(end_of(s, id)->died_us, s->wall_us);
    CHECK(suite_find(s, id) == NULL); /* whoever does not ask for the ledger is not told */
    CHECK(!is_in_ledger(s, other));
    CHECK_EQ(ask(s, suite_id(4711), 0)->listed_count, 0);
}

STORE_TEST(what_was_discarded_or_expired_is_known_and_what_failed_died_or_moved_is_not) /* B89 */
{
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    pr_id discarded = SEND(s, "outbox", .stream = PR_STR("a")), expired = SEND(s, "outbox", .stream = PR_STR("b"));
    pr_id moved = SEND(s, "outbox", .stream = PR_STR("c")), failed = SEND(s, "outbox", .stream = PR_STR("d"));
    pr_id dead = SEND(s, "outbox", .stream = PR_STR("f"));
    CHECK_EQ(VERDICT(w, worker_claim(w, discarded), .kind = VERDICT_DISCARD, .endpoint = PR_STR("e")), PR_OK);
    CHECK_EQ(VERDICT(w, suite_seen(s, expired), .kind = VERDICT_EXPIRE, .attempts = 3, .endpoint = PR_STR("e")), PR_OK);
    CHECK_EQ(VERDICT(w, worker_claim(w, moved), .kind = VERDICT_DISCARD, .moved_to = PR_STR("dlq")), PR_OK);
    worker_fail(w, failed, 0);
    worker_kill(w, dead);

    check_end(s, discarded, ENDED_DISCARDED, "e", 1, w->name);
    check_end(s, expired, ENDED_EXPIRED, "e", 3, w->name);
    CHECK(!is_in_ledger(s, moved));
    CHECK(!is_in_ledger(s, failed));
    CHECK(!is_in_ledger(s, dead));
}

/* Somebody else ended it, or somebody began to count anew: the ledger must not say that this verdict did. */
STORE_TEST(only_verdicts_that_were_applied_are_in_the_ledger) /* B89 */
{
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    pr_id ids[4];
    struct verdict verdicts[4];
    for (size_t i = 0; i < 4; i++)
        ids[i] = SEND(s, "outbox", .destination = PR_STR("e"));
    for (size_t i = 0; i < 4; i++) {
        struct claim claim = worker_claim(w, ids[i]);
        verdicts[i] = VERDICT_OF(claim, .kind = i == 2 ? VERDICT_DISCARD : VERDICT_COMPLETE, .endpoint = PR_STR("e"));
    }
    ADMIN_ID(s, ADMIN_DISCARD, ids[1], .by = PR_STR("ann"));
    verdicts[2].number += 5;         /* stale */
    verdicts[3].id = suite_id(4711); /* that row has another id */
    CYCLE(w, .verdicts = verdicts, .verdict_count = 4);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EQ(w->reply->answers[1], PR_UNKNOWN);
    CHECK_EQ(w->reply->answers[2], PR_STALE);
    CHECK_EQ(w->reply->answers[3], PR_UNKNOWN);

    check_end(s, ids[0], ENDED_DELIVERED, "e", 1, w->name);
    check_end(s, ids[1], ENDED_BY_PERSON, "e", 0, "ann");
    CHECK(!is_in_ledger(s, ids[2]));
    CHECK(!is_in_ledger(s, ids[3]));
    CHECK(!is_in_ledger(s, suite_id(4711)));
}

/* A backlog is drained in the shortest way that a store has; what a person takes out of it meanwhile stays theirs. */
STORE_TEST(a_backlog_is_in_the_ledger_message_by_message) /* B89 */
{
    enum { ALL = 300, STEP = 25 };
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    pr_id ids[ALL];
    struct verdict verdicts[STEP];
    size_t count = 0, ended = 0, taken = 0;
    for (size_t i = 0; i < ALL; i++)
        ids[i] = SEND(s, "outbox", .destination = PR_STR("e"));
    for (int steps = 0; ended + taken < ALL && steps < 10 * ALL; steps++) {
        CYCLE(w, .verdicts = verdicts, .verdict_count = count, .fresh_rows = STEP);
        for (size_t i = 0; i < count; i++)
            ended += w->reply->answers[i] == PR_OK;
        count = w->reply->row_count;
        for (size_t i = 0; i < count; i++)
            verdicts[i] = (struct verdict){ .kind = VERDICT_COMPLETE,
                                            .row = w->reply->rows[i].row,
                                            .id = w->reply->rows[i].m.id,
                                            .number = 1,
                                            .endpoint = PR_STR("e") };
        if (steps % 4 == 3 && count > 0)
            taken += ADMIN_ID(s, ADMIN_DISCARD, verdicts[count / 2].id, .by = PR_STR("ann")).changed;
    }
    CHECK(taken > 0);
    CHECK_EQ(ended + taken, ALL);
    size_t delivered = 0, discarded = 0;
    for (size_t i = 0; i < ALL; i++) {
        const struct listed *l = end_of(s, ids[i]);
        delivered += l->ended == ENDED_DELIVERED && slice_eq(l->instance, pr_str(w->name)) && l->m.attempts == 1;
        discarded += l->ended == ENDED_BY_PERSON && slice_eq(l->instance, PR_STR("ann"));
    }
    CHECK_EQ(delivered, ended);
    CHECK_EQ(discarded, taken);
}

STORE_TEST(a_cycle_that_is_asked_again_is_in_the_ledger_once) /* B89 */
{
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("e"));
    struct claim claim = worker_claim(w, id);
    struct verdict verdict = VERDICT_OF(claim, .kind = VERDICT_COMPLETE, .endpoint = PR_STR("e"));
    CYCLE(w, .verdicts = &verdict, .verdict_count = 1);
    w->number--;
    CYCLE(w, .verdicts = &verdict, .verdict_count = 1);
    CHECK(w->reply->replayed);
    check_end(s, id, ENDED_DELIVERED, "e", 1, w->name);
}

STORE_TEST(what_is_kept_is_not_in_the_ledger_but_what_a_box_that_keeps_discards_is) /* B89 */
{
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    pr_id kept = SEND(s, "outbox"), discarded = SEND(s, "outbox");
    struct claim first = worker_claim(w, kept), second = worker_claim(w, discarded);
    struct verdict verdicts[] = { VERDICT_OF(first, .kind = VERDICT_COMPLETE, .endpoint = PR_STR("e")),
                                  VERDICT_OF(second, .kind = VERDICT_DISCARD, .endpoint = PR_STR("e")) };
    CYCLE(w, .verdicts = verdicts, .verdict_count = 2, .keep_us = PR_MINUTES(5));
    const struct query_reply *r = ask(s, kept, 0);
    CHECK_EQ(r->listed_count, 1);
    CHECK_EQ(r->listed[0].state, STATE_DONE);
    CHECK_EQ(r->listed[0].ended, 0);
    check_end(s, discarded, ENDED_DISCARDED, "e", 1, w->name);
}

STORE_TEST(a_ledger_that_is_turned_off_is_not_written_and_forgets_what_was_in_it) /* B89 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id before = SEND(s, "outbox"), after = SEND(s, "outbox");
    s->ended_us = DAY_US;
    VERDICT(w, worker_claim(w, before), .kind = VERDICT_COMPLETE);
    CHECK(is_in_ledger(s, before));
    s->ended_us = 0;
    VERDICT(w, worker_claim(w, after), .kind = VERDICT_COMPLETE);
    CHECK(!is_in_ledger(s, after));
    for (int i = 0; i < 10; i++) {
        suite_advance(s, PR_SECONDS(2));
        CYCLE(w, .force_write = true);
    }
    CHECK(!is_in_ledger(s, before));
}

STORE_TEST(each_part_of_a_message_to_several_has_its_own_end) /* B89 */
{
    static const pr_slice to[] = { { "e", 1 }, { "f", 1 } };
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_SPLIT, .destinations = to, .destination_count = 2), PR_OK);
    CHECK(!is_in_ledger(s, id));
    CHECK_EQ(VERDICT(w, worker_claim_to(w, id, "e"), .kind = VERDICT_COMPLETE, .endpoint = to[0]), PR_OK);
    const struct query_reply *r = ask(s, id, 0);
    CHECK_EQ(r->listed_count, 2);
    CHECK_EQ(r->listed[0].ended, 0); /* what is still there comes first */
    CHECK_SLICE(r->listed[1].endpoint, "e");
    suite_advance(s, PR_SECONDS(1));
    CHECK_EQ(VERDICT(w, worker_claim_to(w, id, "f"), .kind = VERDICT_DISCARD, .endpoint = to[1]), PR_OK);
    r = ask(s, id, 0);
    CHECK_EQ(r->listed_count, 2);
    CHECK_SLICE(r->listed[0].endpoint, "f"); /* the latest first */
    CHECK_EQ(r->listed[0].ended, ENDED_DISCARDED);
    CHECK_SLICE(r->listed[1].endpoint, "e");
    CHECK_EQ(r->listed[1].ended, ENDED_DELIVERED);
}

STORE_TEST(what_a_person_discards_is_in_the_ledger_with_who_it_was) /* B89 */
{
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    pr_id waiting = SEND(s, "outbox", .destination = PR_STR("e"));
    pr_id dead = SEND(s, "outbox", .destination = PR_STR("f")), stays = SEND(s, "outbox", .destination = PR_STR("g"));
    worker_fail(w, waiting, PR_MINUTES(5));
    worker_kill(w, dead);
    ADMIN_ID(s, ADMIN_DISCARD, waiting, .by = PR_STR("ann"), .dry_run = true);
    CHECK(!is_in_ledger(s, waiting));
    ADMIN_ID(s, ADMIN_DISCARD, waiting, .by = PR_STR("ann"));
    ADMIN(s, ADMIN_DEAD_DISCARD, FILTER(.endpoint = PR_STR("f")), .by = PR_STR("bob"));
    ADMIN_ID(s, ADMIN_PARK, stays, .by = PR_STR("ann"));
    check_end(s, waiting, ENDED_BY_PERSON, "e", 1, "ann");
    check_end(s, dead, ENDED_BY_PERSON, "f", 1, "bob");
    CHECK(!is_in_ledger(s, stays));
}

STORE_TEST(many_that_a_person_discards_are_all_in_the_ledger) /* B89 */
{
    enum { ALL = 130 };
    s->ended_us = DAY_US;
    pr_id ids[ALL];
    for (size_t i = 0; i < ALL; i++)
        ids[i] = SEND(s, "outbox", .destination = PR_STR("e"), .stream = i % 2 == 0 ? PR_STR("a") : PR_STR(""));
    CHECK_EQ(ADMIN(s, ADMIN_DISCARD, FILTER(.box = PR_STR("outbox")), .by = PR_STR("ann")).changed, ALL);
    for (size_t i = 0; i < ALL; i++)
        check_end(s, ids[i], ENDED_BY_PERSON, "e", 0, "ann");
}

/* Ids that tell no time share a bucket, and of that only so much is looked at. */
STORE_TEST(ids_without_a_time_are_found_and_it_is_told_how_far_was_looked) /* B89 */
{
    enum { ALL = 5 };
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 0; i < ALL; i++) {
        SEND(s, "outbox", .id = plain_id(i));
        VERDICT(w, worker_claim(w, plain_id(i)), .kind = VERDICT_COMPLETE, .endpoint = PR_STR("e"));
        suite_advance(s, PR_SECONDS(1));
    }
    for (unsigned i = 0; i < ALL; i++)
        check_end(s, plain_id(i), ENDED_DELIVERED, "e", 1, w->name);
    suite_needs_database(s);
    const struct query_reply *r = ask(s, plain_id(0), 2);
    CHECK_EQ(r->listed_count, 0);
    CHECK_EQ(r->ended_from_us, end_of(s, plain_id(ALL - 2))->died_us);
    r = ask(s, plain_id(ALL - 1), 2);
    CHECK_EQ(r->listed_count, 1);
    CHECK_EQ(ask(s, plain_id(0), 100)->ended_from_us, 0); /* all of it */
}

/* Rows are for groups, not for messages; and one id is not found where the bytes of two happen to hold it. */
STORE_TEST(those_that_end_in_one_cycle_share_a_row_for_each_minute_of_their_ids) /* B89 */
{
    enum { ALL = 40 };
    (void)suite_table_count(s, "ended"); /* or this is no test */
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    struct verdict verdicts[ALL];
    pr_id ids[ALL];
    for (unsigned i = 0; i < ALL; i++) {
        const uint8_t random[10] = { [9] = (uint8_t)i };
        id_make(INT64_C(1700000040000) + (i % 4) * 60000, random, &ids[i]);
        SEND(s, "outbox", .id = ids[i]);
        struct claim claim = worker_claim(w, ids[i]);
        verdicts[i] = VERDICT_OF(claim, .kind = VERDICT_COMPLETE, .endpoint = PR_STR("e"));
    }
    CYCLE(w, .verdicts = verdicts, .verdict_count = ALL);
    CHECK_EQ(suite_table_count(s, "ended"), 4);
    for (unsigned i = 0; i < ALL; i++)
        check_end(s, ids[i], ENDED_DELIVERED, "e", 1, w->name);

    pr_id across;
    memcpy(across.bytes, ids[0].bytes + 8, 8);
    memcpy(across.bytes + 8, ids[4].bytes, 8);
    CHECK(!is_in_ledger(s, across));
}

STORE_TEST(the_ledger_is_removed_by_its_age_in_pieces_also_while_nothing_happens) /* B89 */
{
    enum { ALL = 450 };
    (void)suite_table_count(s, "ended");
    s->ended_us = DAY_US;
    struct worker *w = suite_join(s, "outbox");
    struct verdict verdicts[ALL];
    pr_id ids[ALL];
    for (unsigned i = 0; i < ALL; i++) {
        const uint8_t random[10] = { [9] = (uint8_t)i };
        id_make(INT64_C(1700000040000) + i * INT64_C(60000), random, &ids[i]);
        SEND(s, "outbox", .id = ids[i]);
    }
    CYCLE(w, .fresh_rows = ALL);
    CHECK_EQ(w->reply->row_count, ALL);
    for (unsigned i = 0; i < ALL; i++)
        verdicts[i] =
            (struct verdict){ .kind = VERDICT_COMPLETE, .row = w->reply->rows[i].row, .id = w->reply->rows[i].m.id };
    CYCLE(w, .verdicts = verdicts, .verdict_count = ALL);
    CHECK_EQ(suite_table_count(s, "ended"), ALL);

    suite_advance(s, PR_SECONDS(30));
    worker_renew_identity(w);
    CYCLE(w);
    suite_advance(s, PR_SECONDS(15));
    worker_renew_identity(w);
    CYCLE(w);
    CHECK_EQ(suite_table_count(s, "ended"), ALL); /* their time is not over */

    s->wall_us += DAY_US;
    int64_t left = ALL;
    for (int looks = 0; left > 0 && looks < 100; looks++) {
        suite_advance(s, PR_SECONDS(2));
        CYCLE(w);
        int64_t now_left = suite_table_count(s, "ended");
        CHECK(left - now_left <= 200);
        left = now_left;
    }
    CHECK_EQ(left, 0);
    CHECK(!is_in_ledger(s, ids[0]));
}
