/* pr_send_pg() and pr_unit_store_pg(): messages in the caller's own transaction. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static char schema[64], box[80];
static PGconn *pg;

static void run(const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    if (!done)
        check_fail(__FILE__, __LINE__, "%s: %s", sql, PQerrorMessage(pg));
}

static int count_rows(void)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s.outbox", schema);
    PGresult *result = PQexec(pg, sql);
    CHECK_EQ(PQresultStatus(result), PGRES_TUPLES_OK);
    int count = atoi(PQgetvalue(result, 0, 0));
    PQclear(result);
    return count;
}

static void begin(void)
{
    static unsigned number;
    struct pr_error error;
    char url[512], sql[128];
    const char *server = getenv("POSTRIDER_TEST_PG");
    if (server == NULL)
        SKIP("POSTRIDER_TEST_PG names no server");
    snprintf(schema, sizeof(schema), "send_%ld_%u", (long)getpid(), ++number);
    snprintf(box, sizeof(box), "%s.outbox", schema);
    snprintf(url, sizeof(url), "%s%cschema=%s", server, strchr(server, '?') != NULL ? '&' : '?', schema);
    CHECK_OK(pr_store_init(url, &error), &error);
    pg = PQconnectdb(server);
    CHECK_EQ(PQstatus(pg), CONNECTION_OK);
    snprintf(sql, sizeof(sql), "SET client_min_messages = warning");
    run(sql);
}

static void end(void)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "DROP SCHEMA %s CASCADE", schema);
    run(sql);
    PQfinish(pg);
}

TEST(a_message_is_stored_when_the_callers_transaction_commits_and_only_then) /* B1 */
{
    struct pr_error error;
    struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("p"), .stream = PR_STR("s") };
    pr_id id;
    begin();
    run("BEGIN");
    CHECK_OK(pr_send_pg_box(pg, box, &m, &id, &error), &error);
    CHECK(!pr_id_is_zero(id));
    run("ROLLBACK");
    CHECK_EQ(count_rows(), 0);
    run("BEGIN");
    CHECK_OK(pr_send_pg_box(pg, box, &m, &id, &error), &error);
    run("COMMIT");
    CHECK_EQ(count_rows(), 1);
    CHECK_OK(pr_send_pg_box(pg, box, &m, NULL, &error), &error); /* without a transaction: one of its own */
    CHECK_EQ(count_rows(), 2);
    end();
}

TEST(the_same_id_again_is_a_duplicate) /* B2 */
{
    struct pr_error error;
    struct pr_message m = { .type = PR_STR("t") };
    begin();
    pr_id_new(&m.id);
    CHECK_EQ(pr_send_pg_box(pg, box, &m, NULL, &error), PR_OK);
    CHECK_EQ(pr_send_pg_box(pg, box, &m, NULL, &error), PR_DUPLICATE);
    CHECK_EQ(count_rows(), 1);
    end();
}

static long long prepared_count(void)
{
    PGresult *result = PQexec(pg, "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'postrider_sender%'");
    long long count = atoll(PQgetvalue(result, 0, 0));
    PQclear(result);
    return count;
}

TEST(a_handle_keeps_its_statement_and_sends_in_whatever_transaction_is_open) /* B1, B2 */
{
    struct pr_error error;
    struct pr_pg_sender *sender;
    struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("p") };
    begin();
    CHECK_OK(pr_pg_sender_new(pg, box, &sender, &error), &error);
    for (int i = 0; i < 8; i++) {
        run("BEGIN");
        CHECK_OK(pr_pg_sender_send(sender, &m, NULL, &error), &error);
        run(i % 2 == 0 ? "COMMIT" : "ROLLBACK");
    }
    CHECK_EQ(count_rows(), 4);
    CHECK_EQ(prepared_count(), 1);
    pr_id_new(&m.id);
    CHECK_EQ(pr_pg_sender_send(sender, &m, NULL, &error), PR_OK);
    CHECK_EQ(pr_pg_sender_send(sender, &m, NULL, &error), PR_DUPLICATE);
    CHECK_EQ(pr_pg_sender_send(sender, &(struct pr_message){ .payload = PR_STR("p") }, NULL, &error), PR_EINVAL);
    CHECK_EQ(count_rows(), 5);
    pr_pg_sender_free(sender);
    CHECK_EQ(prepared_count(), 0);
    end();
}

/* By chance or by a pooler one may find the statement of another: their names must differ, also between processes. */
TEST(two_handles_have_statements_of_their_own)
{
    struct pr_error error;
    struct pr_pg_sender *senders[2];
    struct pr_message m = { .type = PR_STR("t") };
    begin();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(pr_pg_sender_new(pg, box, &senders[i], &error), &error);
        CHECK_OK(pr_pg_sender_send(senders[i], &m, NULL, &error), &error);
    }
    PGresult *result = PQexec(pg, "SELECT count(DISTINCT name), min(length(name)), bool_or(name ~ 'sender_[0-9]{1,3}$')"
                                  " FROM pg_prepared_statements WHERE name LIKE 'postrider_sender%'");
    CHECK_STR(PQgetvalue(result, 0, 0), "2");
    CHECK_STR(PQgetvalue(result, 0, 1), "33"); /* 64 random bits */
    CHECK_STR(PQgetvalue(result, 0, 2), "f");
    PQclear(result);
    for (int i = 0; i < 2; i++)
        pr_pg_sender_free(senders[i]);
    end();
}

TEST(a_handle_survives_a_reset_and_a_discard)
{
    struct pr_error error;
    struct pr_pg_sender *sender;
    struct pr_message m = { .type = PR_STR("t") };
    begin();
    CHECK_OK(pr_pg_sender_new(pg, box, &sender, &error), &error);
    CHECK_OK(pr_pg_sender_send(sender, &m, NULL, &error), &error);
    PQreset(pg);
    CHECK_OK(pr_pg_sender_send(sender, &m, NULL, &error), &error);
    run("DISCARD ALL");
    CHECK(pr_pg_sender_send(sender, &m, NULL, &error) < 0);
    CHECK_OK(pr_pg_sender_send(sender, &m, NULL, &error), &error);
    CHECK_EQ(count_rows(), 3);
    pr_pg_sender_free(sender);
    CHECK_OK(pr_pg_sender_new(pg, "nowhere.outbox", &sender, &error), &error);
    CHECK_EQ(pr_pg_sender_send(sender, &m, NULL, &error), PR_ESCHEMA);
    pr_pg_sender_free(sender);
    end();
}

TEST(a_plain_insert_of_the_same_id_gets_the_databases_own_error) /* B2 */
{
    char sql[256];
    begin();
    for (int i = 0; i < 2; i++) {
        snprintf(sql, sizeof(sql),
                 "INSERT INTO %s.outbox (id, type) VALUES ('0190163d-8694-739b-aea5-966c26f8ad91', 't')", schema);
        PGresult *result = PQexec(pg, sql);
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        CHECK_STR(state != NULL ? state : "", i == 0 ? "" : "23505");
        PQclear(result);
    }
    CHECK_EQ(count_rows(), 1);
    end();
}

TEST(what_cannot_be_sent_is_refused_with_a_reason)
{
    struct pr_error error;
    struct pr_message m = { .type = PR_STR("t") }, empty = { .payload = PR_STR("p") };
    begin();
    CHECK_EQ(pr_send_pg_box(NULL, box, &m, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_send_pg_box(pg, box, NULL, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_send_pg_box(pg, box, &empty, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_send_pg_box(pg, "no box; DROP TABLE x", &m, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_send_pg_box(pg, "nowhere.outbox", &m, NULL, &error), PR_ESCHEMA);
    CHECK(strstr(error.text, "postrider init") != NULL);
    CHECK_EQ(PQenterPipelineMode(pg), 1);
    CHECK_EQ(pr_send_pg_box(pg, box, &m, NULL, &error), PR_EINVAL);
    CHECK_EQ(PQexitPipelineMode(pg), 1);
    PQclear(PQexec(pg, "BEGIN"));
    PQclear(PQexec(pg, "SELECT 1 / 0"));
    CHECK_EQ(pr_send_pg_box(pg, box, &m, NULL, &error), PR_EINVAL);
    CHECK(strstr(error.text, "roll it back") != NULL);
    run("ROLLBACK");
    end();
}

TEST(a_unit_is_stored_with_the_transaction_it_belongs_to)
{
    struct pr_error error;
    struct pr_unit *unit = pr_unit_new();
    begin();
    for (int i = 0; i < 600; i++) {
        struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("p") };
        CHECK_OK(pr_unit_add(unit, box, &m, NULL, &error), &error);
    }
    CHECK_EQ(pr_unit_add(unit, "no name.outbox", &(struct pr_message){ .type = PR_STR("t") }, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_unit_add(unit, "shop.", &(struct pr_message){ .type = PR_STR("t") }, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_unit_store_pg(unit, pg, &error), PR_EINVAL); /* no transaction */
    run("BEGIN");
    CHECK_OK(pr_unit_store_pg(unit, pg, &error), &error);
    CHECK_EQ(pr_unit_count(unit), 0);
    run("COMMIT");
    CHECK_EQ(count_rows(), 600);
    pr_unit_free(unit);
    end();
}

/* Which column has it, and is it there byte for byte? */
static char stored_as(pr_slice payload)
{
    char sql[256];
    snprintf(sql, sizeof(sql),
             "SELECT payload IS NOT NULL, textsend(payload), payload_bytes FROM %s.outbox ORDER BY seq DESC LIMIT 1",
             schema);
    PGresult *result = PQexecParams(pg, sql, 0, NULL, NULL, NULL, NULL, 1);
    CHECK_EQ(PQresultStatus(result), PGRES_TUPLES_OK);
    bool is_text = *PQgetvalue(result, 0, 0) != 0;
    int column = is_text ? 1 : 2;
    CHECK_EQ((size_t)PQgetlength(result, 0, column), payload.size);
    CHECK_EQ(memcmp(PQgetvalue(result, 0, column), payload.data, payload.size), 0);
    CHECK_EQ(PQgetisnull(result, 0, is_text ? 2 : 1), 1);
    PQclear(result);
    return is_text ? 't' : 'b';
}

static char send_as(pr_slice payload)
{
    struct pr_error error;
    struct pr_message m = { .type = PR_STR("t"), .payload = payload };
    CHECK_OK(pr_send_pg_box(pg, box, &m, NULL, &error), &error);
    return stored_as(payload);
}

TEST(a_payload_is_text_where_the_database_keeps_it_as_it_is_and_bytes_elsewhere) /* B4 */
{
    begin();
    CHECK_EQ(send_as(PR_STR("{\"path\":\"C:\\\\temp\"}")), 't');
    CHECK_EQ(send_as(PR_STR("gr\xc3\xbc\xc3\x9f")), 't');
    CHECK_EQ(send_as(PR_STR("")), 't');
    CHECK_EQ(send_as(PR_STR("\\x4142")), 'b'); /* printed bytes look like that */
    CHECK_EQ(send_as(PR_STR("gr\xfc")), 'b');
    CHECK_EQ(send_as(PR_BYTES("a\0b", 3)), 'b');
    CHECK_EQ(send_as(PR_STR("\xed\xa0\x80")), 'b'); /* a surrogate */
    end();
}

TEST(a_payload_is_not_converted_by_a_connection_in_another_encoding) /* B4 */
{
    begin();
    CHECK_EQ(PQsetClientEncoding(pg, "LATIN1"), 0);
    CHECK_EQ(send_as(PR_STR("{\"plain\":1}")), 't');
    CHECK_EQ(send_as(PR_STR("gr\xc3\xbc\xc3\x9f")), 'b');
    end();
}
