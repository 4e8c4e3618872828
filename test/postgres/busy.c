/* Another open transaction holds rows: nothing waits for them (e.g. a handler that completes its message in its own
 * transaction, or a person at a prompt). */
#include "store/suite.h"
#include "store/suite_postgres.h"

#include <stdio.h>

#include "store/sql.h"

/* An open transaction that holds the row of this id. */
static PGconn *hold_row(pr_id id)
{
    char text[PR_ID_TEXT_SIZE], sql[256];
    PGconn *pg = suite_pg_connect();
    pr_id_format(id, text);
    snprintf(sql, sizeof(sql), "SELECT FROM %s.outbox WHERE id = '%s' FOR UPDATE", suite_pg_schema(), text);
    suite_pg_do(pg, "BEGIN");
    PGresult *r = PQexec(pg, sql);
    CHECK_EQ(PQntuples(r), 1);
    PQclear(r);
    return pg;
}

static void let_go(PGconn *pg)
{
    suite_pg_do(pg, "ROLLBACK");
    PQfinish(pg);
}

static int64_t rows_in_the_box(struct sql *sql)
{
    struct rows rows;
    CHECK_OK(sql_run_text(sql, "SELECT count(*) FROM {box}", PR_STR("outbox"), NULL, 0, &rows), sql->reterr);
    CHECK_EQ(rows_step(&rows), STEP_ROW);
    int64_t count = row_number(&rows, 0);
    rows_end(&rows);
    return count;
}

STORE_TEST(a_question_of_several_statements_sees_one_moment) /* B201 */
{
    struct sql sql = { .reterr = &s->error };
    SEND(s, "outbox", .type = PR_STR("a"));
    CHECK_OK(sql_begin(&sql, &s->store, SQL_LOOK), &s->error);
    CHECK_EQ(rows_in_the_box(&sql), 1);
    SEND(s, "outbox", .type = PR_STR("b"));
    CHECK_EQ(rows_in_the_box(&sql), 1);
    sql_end(&sql);
    CHECK_OK(sql_begin(&sql, &s->store, SQL_LOOK), &s->error);
    CHECK_EQ(rows_in_the_box(&sql), 2);
    sql_end(&sql);
}

STORE_TEST(a_verdict_on_a_row_that_somebody_holds_is_answered_busy_and_the_rest_lands)
{
    static const enum verdict_kind kinds[] = { VERDICT_FAIL,        VERDICT_POSTPONE, VERDICT_DISCARD,
                                               VERDICT_DEAD_LETTER, VERDICT_HOLD,     VERDICT_RELEASE };
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 0; i < ARRAY_LENGTH(kinds); i++) {
        pr_id held = SEND(s, "outbox", .id = suite_id(2 * i + 1)), other = SEND(s, "outbox", .id = suite_id(2 * i + 2));
        struct claim a = worker_claim(w, held), b = worker_claim(w, other);
        PGconn *pg = hold_row(held);
        const struct verdict v[] = {
            VERDICT_OF(a, .kind = kinds[i], .held_by = PR_STR("k"), .cause = PR_REASON_REJECTED),
            VERDICT_OF(b, .kind = kinds[i], .held_by = PR_STR("k"), .cause = PR_REASON_REJECTED),
        };
        CYCLE(w, .verdicts = v, .verdict_count = 2);
        CHECK_EQ(w->reply->answers[0], ANSWER_BUSY);
        CHECK_EQ(w->reply->answers[1], PR_OK);
        CHECK_EQ(suite_get(s, held)->m.status, PR_STATUS_STORED);
        let_go(pg);
        CYCLE(w, .verdicts = v, .verdict_count = 1);
        CHECK_EQ(w->reply->answers[0], PR_OK);
    }
}

STORE_TEST(a_completion_of_a_row_that_somebody_holds_is_busy_and_lands_later)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id held = SEND(s, "outbox"), other = SEND(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    struct claim a = worker_claim(w, held), b = worker_claim(w, other);
    PGconn *pg = hold_row(held);
    const struct verdict v[] = { VERDICT_OF(a, .kind = VERDICT_COMPLETE), VERDICT_OF(b, .kind = VERDICT_COMPLETE) };
    CYCLE(w, .verdicts = v, .verdict_count = 2,
          .lease_us = PR_MILLISECONDS(600)); /* it waits for a third of it, once */
    CHECK_EQ(w->reply->answers[0], ANSWER_BUSY);
    CHECK_EQ(w->reply->answers[1], PR_OK);
    CHECK(suite_find(s, other) == NULL);
    let_go(pg);
    CYCLE(w, .verdicts = v, .verdict_count = 1);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK(suite_find(s, held) == NULL);
}

STORE_TEST(an_order_does_not_wait_for_a_row_that_somebody_holds)
{
    pr_id held = SEND(s, "outbox", .type = PR_STR("x")), other = SEND(s, "outbox", .type = PR_STR("x"));
    pr_id both[] = { held, other };
    PGconn *pg = hold_row(held);
    struct admin_reply r = ADMIN(s, ADMIN_PARK, FILTER(.ids = both, .id_count = 2));
    CHECK_EQ(r.changed, 1);
    CHECK_EQ(r.busy, 1);
    CHECK_EQ(r.refused, 1);
    CHECK_EQ(r.missing, 0);
    let_go(pg);
    CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, held).changed, 1);
}

STORE_TEST(an_order_by_filter_passes_over_rows_that_somebody_holds_for_long_and_counts_them)
{
    pr_id ids[5];
    for (unsigned i = 0; i < ARRAY_LENGTH(ids); i++)
        ids[i] = SEND(s, "outbox", .type = PR_STR("x"), .id = suite_id(i + 1));
    PGconn *pg = hold_row(ids[1]);
    struct admin_reply r = ADMIN(s, ADMIN_PARK, FILTER(.type = PR_STR("x"), .limit = 3));
    CHECK_EQ(r.changed, 2);
    CHECK_EQ(r.busy, 1);
    CHECK_EQ(r.matched, 3);
    CHECK_EQ(r.refused, 1);
    CHECK(r.more);
    r = ADMIN(s, ADMIN_DISCARD, FILTER(.type = PR_STR("x")));
    CHECK_EQ(r.changed, 4);
    CHECK_EQ(r.busy, 1);
    let_go(pg);
    CHECK_EQ(ADMIN(s, ADMIN_DISCARD, FILTER(.type = PR_STR("x"))).changed, 1);
}

STORE_TEST(who_buries_an_instance_leaves_a_row_uncounted_that_somebody_holds)
{
    struct worker *a = suite_join(s, "outbox");
    pr_id held = SEND(s, "outbox"), other = SEND(s, "outbox");
    worker_claim(a, held);
    worker_claim(a, other);
    PGconn *pg = hold_row(held);
    suite_advance(s, PR_SECONDS(3600));
    struct worker *b = suite_join(s, "outbox");
    CHECK_EQ(b->lanes, LANES_ALL);
    CHECK_EQ(suite_get(s, held)->m.attempts, 0);
    CHECK_EQ(suite_get(s, other)->m.attempts, 1);
    let_go(pg);
}
