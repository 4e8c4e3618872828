/* A connection alone: which statements it prepares. */
#include <stdio.h>

#include "store/postgres/link/link.h"
#include "store/suite.h"
#include "store/suite_postgres.h"

static int ask(struct link *link, int number, struct pr_error *reterr)
{
    char text[32];
    PGresult *result = NULL;
    struct args args = { .count = 0 };
    snprintf(text, sizeof(text), "SELECT %d", number);
    link_add_text(link, text, &args, &result);
    int rc = link_run(link, reterr);
    link_forget(link);
    return rc;
}

/* Texts take each other's places.  A batch that failed has not deallocated what it should have. */
STORE_TEST(what_a_failed_batch_did_not_deallocate_is_prepared_anew_all_the_same)
{
    struct conninfo conninfo;
    struct pr_error error;
    struct args args = { .count = 0 };
    CHECK_OK(pg_conninfo_parse(s->url, &conninfo, &error), &error);
    struct link *link = link_new(&conninfo, LINK_PEOPLE, NULL);
    CHECK(link != NULL);
    CHECK_OK(link_ensure(link, &error), &error);
    for (int i = 0; i < LINK_TEXTS; i++)
        CHECK_OK(ask(link, i, &error), &error);
    link_add_text(link, "SELECT 1 / 0", &args, NULL); /* where the first one was */
    CHECK(link_run(link, &error) < 0);
    link_rollback(link);
    link_add(link, "SELECT 1 / 0", (pr_slice){ 0 }, NULL, NULL);
    CHECK(ask(link, LINK_TEXTS, &error) < 0); /* it was to take the place of the second */
    for (int i = 0; i < LINK_TEXTS; i++)
        CHECK_OK(ask(link, i, &error), &error);
    CHECK(!link->pooled);
    link_free(link);
    pg_conninfo_fini(&conninfo);
}

STORE_TEST(a_read_that_was_left_and_failed_leaves_no_transaction_behind)
{
    struct conninfo conninfo;
    struct pr_error error = { 0 };
    PGresult *left = NULL, *next = NULL;
    CHECK_OK(pg_conninfo_parse(s->url, &conninfo, &error), &error);
    struct link *link = link_new(&conninfo, LINK_RELAY, NULL);
    CHECK_OK(link_ensure(link, &error), &error);
    link->pooled = true;
    link_add_begin(link);
    link_add(link, "SELECT 1 / 0", (pr_slice){ 0 }, NULL, &left);
    link_add_commit(link);
    CHECK_OK(link_leave(link, &error), &error);
    link_add_begin(link);
    link_add(link, "SELECT 1", (pr_slice){ 0 }, NULL, &next);
    link_add_commit(link);
    CHECK_OK(link_run(link, &error), &error);
    CHECK(left == NULL && next != NULL && !link->in_tx);
    link_free(link);
    pg_conninfo_fini(&conninfo);
}

/* The server answers such a COMMIT without a fault. */
STORE_TEST(a_commit_that_the_server_answers_with_a_rollback_has_failed) /* B6 */
{
    struct conninfo conninfo;
    struct pr_error error = { 0 };
    CHECK_OK(pg_conninfo_parse(s->url, &conninfo, &error), &error);
    struct link *link = link_new(&conninfo, LINK_RELAY, NULL);
    CHECK_OK(link_ensure(link, &error), &error);
    link_add_begin(link);
    link_add(link, "SELECT 1 / 0", (pr_slice){ 0 }, NULL, NULL);
    CHECK(link_run(link, &error) < 0);
    link_add_commit(link);
    CHECK_EQ(link_run(link, &error), PR_ESTORE);
    CHECK(!link->in_tx);
    link_free(link);
    pg_conninfo_fini(&conninfo);
}

/* Each trial is undone, those that fail do not end the others, and what the batch itself does stays. */
STORE_TEST(what_is_tried_is_undone_and_its_faults_are_its_own)
{
    struct conninfo conninfo;
    struct pr_error error = { 0 };
    PGresult *rows = NULL, *timeout = NULL;
    char states[3][SQL_STATE_SIZE];
    static const char *const tried[] = { "INSERT INTO tried VALUES (1)", "SELECT 1 / 0",
                                         "INSERT INTO tried VALUES (2)" };
    CHECK_OK(pg_conninfo_parse(s->url, &conninfo, &error), &error);
    struct link *link = link_new(&conninfo, LINK_RELAY, NULL);
    CHECK_OK(link_ensure(link, &error), &error);
    CHECK_OK(link_script(link, "CREATE TEMPORARY TABLE tried (n int)", &error), &error);
    link_add_begin(link);
    link_add(link, "INSERT INTO tried VALUES (7)", (pr_slice){ 0 }, NULL, NULL);
    link_trials_begin(link);
    for (size_t i = 0; i < 3; i++) {
        link_trial_begin(link, states[i]);
        link_add(link, tried[i], (pr_slice){ 0 }, NULL, &rows);
        link_trial_end(link);
    }
    link_trials_end(link);
    CHECK_OK(link_run(link, &error), &error);
    CHECK(rows == NULL);
    CHECK_STR(states[0], "");
    CHECK_STR(states[1], "22012");
    CHECK_STR(states[2], "");
    link_add(link, "SELECT sum(n)::int FROM tried", (pr_slice){ 0 }, NULL, &rows);
    link_add(link, "SELECT (current_setting('lock_timeout') = '" TRIAL_LOCK_TIMEOUT "')::int", (pr_slice){ 0 }, NULL,
             &timeout);
    link_add_commit(link);
    CHECK_OK(link_run(link, &error), &error);
    CHECK_EQ(field_int(rows, 0, 0), 7);
    CHECK_EQ(field_int(timeout, 0, 0), 0);
    link_free(link);
    pg_conninfo_fini(&conninfo);
}
