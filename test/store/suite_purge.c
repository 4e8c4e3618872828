/* Removal by age: checked with SQL, since no listing shows expired data. */
#include "suite.h"

#define MANY 2500 /* more than two pieces of any store */

/* So many messages, delivered and kept for a minute. */
static void deliver_and_keep(struct suite *s, struct worker *w, size_t count)
{
    struct pr_message *messages = arena_alloc_array(&s->arena, count, sizeof(messages[0]));
    struct verdict *verdicts = arena_alloc_array(&s->arena, count, sizeof(verdicts[0]));
    pr_id *ids = arena_alloc_array(&s->arena, count, sizeof(ids[0]));
    for (size_t i = 0; i < count; i++) {
        messages[i] = (struct pr_message){ .type = PR_STR("t") };
        ids[i] = (pr_id){ { 0 } };
    }
    CHECK_OK(store_enqueue(&s->store, PR_STR("outbox"), messages, count, SUITE_PAYLOAD_MAX, ids, NULL, &s->error),
             &s->error);
    size_t kept = 0;
    while (kept < count) {
        const struct cycle_reply *r = CYCLE(w, .fresh_rows = count, .fresh_bytes = 1 << 24);
        for (size_t i = 0; i < r->row_count; i++)
            verdicts[i] = (struct verdict){ .kind = VERDICT_COMPLETE, .row = r->rows[i].row, .id = r->rows[i].m.id };
        CHECK(r->row_count > 0);
        kept += r->row_count;
        CYCLE(w, .verdicts = verdicts, .verdict_count = r->row_count, .keep_us = PR_MINUTES(1));
    }
}

/* Idle cycles, as of a relay that has nothing to do. */
static void idle_for(struct worker *w, int64_t us, struct retention retention)
{
    for (int64_t at_us = 0; at_us < us; at_us += PR_SECONDS(2)) {
        suite_advance(w->suite, PR_SECONDS(2));
        CYCLE(w, .retention = retention);
    }
}

STORE_TEST(what_is_over_is_removed_in_pieces_by_a_store_that_is_idle)
{
    (void)suite_table_count(s, "done"); /* or this is no test */
    struct worker *w = suite_join(s, "outbox");
    struct evidence pair = { .endpoint = PR_STR("e"), .type = PR_STR("t") };
    deliver_and_keep(s, w, MANY);
    CYCLE(w, .delivered = &pair, .delivered_count = 1);
    static const pr_slice names[] = { { "e", 1 }, { "f", 1 }, { "g", 1 } };
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = names[i]), .until_us = PR_NEVER);
    idle_for(w, PR_SECONDS(30), (struct retention){ 0 });
    CHECK_EQ(suite_table_count(s, "done"), MANY); /* its time is not over */
    CHECK_EQ(suite_table_count(s, "evidence"), 1);
    int64_t notices = suite_table_count(s, "control");
    CHECK(notices >= 3);

    /* A week later, and nobody works: each look takes a piece. */
    s->wall_us += PR_SECONDS(86400) * 8;
    suite_advance(s, PR_MINUTES(61));
    if (s->kind->age_notices != NULL)
        s->kind->age_notices(s);
    worker_renew_identity(w);
    CYCLE(w);
    int64_t before = suite_table_count(s, "done"), looks = 0;
    for (int rounds = 0; before > 0 && rounds < 100; rounds++) {
        idle_for(w, PR_SECONDS(2), (struct retention){ 0 });
        int64_t left = suite_table_count(s, "done");
        CHECK(before - left <= 1000);
        looks += left < before;
        before = left;
    }
    CHECK(looks >= 2);
    CHECK_EQ(suite_table_count(s, "done"), 0);
    idle_for(w, PR_SECONDS(20), (struct retention){ 0 });
    CHECK_EQ(suite_table_count(s, "evidence"), 0);
    CHECK(suite_table_count(s, "control") <= 1); /* the last one may tell where they are */
    CHECK_EQ(suite_table_count(s, "claim"), 0);
}

STORE_TEST(dead_letters_and_the_audit_go_when_they_are_told_to) /* B86 */
{
    (void)suite_table_count(s, "audit");
    const struct retention hour = { .dead_us = PR_MINUTES(60), .audit_us = PR_MINUTES(60) };
    struct worker *w = suite_join(s, "outbox"), *other = suite_join(s, "inbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("a"), .destination = PR_STR("e"));
    int64_t seq = suite_get(s, id)->m.seq;
    worker_kill(w, id);
    ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("x")), .until_us = PR_NEVER, .by = PR_STR("ann"));
    CHECK_EQ(suite_table_count(s, "audit"), 1);
    idle_for(w, PR_SECONDS(30), hour);
    suite_get(s, id);
    CHECK_EQ(suite_table_count(s, "audit"), 1);

    /* Any relay of the store removes them; who works the box hears that nothing is in its stream's way any more. */
    s->wall_us += PR_MINUTES(60);
    bool told = false;
    for (int i = 0; i < 10; i++) {
        suite_advance(s, PR_SECONDS(2));
        CYCLE(other, .retention = hour);
        const struct cycle_reply *r = CYCLE(w);
        for (size_t k = 0; k < r->notice_count; k++)
            told |= r->notices[k].kind == NOTICE_GONE && r->notices[k].seq == seq &&
                    slice_eq(r->notices[k].stream, PR_STR("a")) && slice_eq(r->notices[k].endpoint, PR_STR("e"));
    }
    CHECK(told);
    CHECK_EQ(suite_table_count(s, "dead_letter"), 0);
    CHECK_EQ(suite_table_count(s, "audit"), 0);
}
