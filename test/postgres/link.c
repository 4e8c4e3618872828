/* A connection by itself: what it prepares. */
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
