/* The PostgreSQL store under test: each test in a schema as init leaves it, on the server that
 * POSTRIDER_TEST_PG names (test/postgres/cluster.sh starts one).
 *
 * Making the tables takes longer than most tests.  So a schema is emptied and used again, unless
 * the test has changed its tables (test/postgres/schemas.sql). */
#include "suite_postgres.h"

#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TX_MAX 64

static char schema[64];
static bool schema_is_ours;     /* it is as init made it: the next test has it, too */
static PGconn *open_tx[TX_MAX]; /* so that a failed test leaves none behind */

static const char *server_url(void)
{
    const char *url = getenv("POSTRIDER_TEST_PG");
    if (url == NULL)
        SKIP("POSTRIDER_TEST_PG names no server");
    return url;
}

const char *suite_pg_schema(void)
{
    return schema;
}

PGconn *suite_pg_connect(void)
{
    PGconn *pg = PQconnectdb(server_url());
    if (PQstatus(pg) != CONNECTION_OK)
        check_fail(__FILE__, __LINE__, "%s", PQerrorMessage(pg));
    return pg;
}

static PGresult *run(PGconn *pg, const char *sql)
{
    char text[1024];
    snprintf(text, sizeof(text), sql, schema, schema, schema);
    PGresult *result = PQexec(pg, text);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", text, PQerrorMessage(pg));
    return result;
}

void suite_pg_do(PGconn *pg, const char *sql)
{
    PQclear(run(pg, sql));
}

long long suite_pg_number(PGconn *pg, const char *sql)
{
    PGresult *result = run(pg, sql);
    CHECK(PQntuples(result) > 0);
    long long number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return number;
}

/* A function of test/postgres/schemas.sql; false: it failed, or said so.  Its connection stays, until the server hangs up. */
static bool schema_call(const char *function)
{
    static PGconn *keeper;
    char sql[256];
    snprintf(sql, sizeof(sql), "SELECT test_schemas.%s('%s')", function, schema);
    PGresult *result = keeper != NULL ? PQexec(keeper, sql) : NULL;
    if (PQstatus(keeper) != CONNECTION_OK) {
        PQclear(result);
        PQfinish(keeper);
        keeper = PQconnectdb(server_url());
        result = PQexec(keeper, sql);
    }
    bool done = PQresultStatus(result) == PGRES_TUPLES_OK && strcmp(PQgetvalue(result, 0, 0), "f") != 0;
    PQclear(result);
    return done;
}

static void postgres_prepare(struct suite *s)
{
    static unsigned count;
    const char *url = server_url();
    bool again = schema_is_ours;
    if (!again)
        snprintf(schema, sizeof(schema), "suite_%ld_%u", (long)getpid(), ++count);
    snprintf(s->url, sizeof(s->url), "%s%cschema=%s", url, strchr(url, '?') != NULL ? '&' : '?', schema);
    schema_is_ours = false; /* until this test has ended well */
    if (!again) {
        suite_open_store(s);
        store_close(&s->store);
        memset(&s->store, 0, sizeof(s->store));
        if (!schema_call("keep"))
            check_fail(__FILE__, __LINE__, "the tables of %s cannot be copied", schema);
    }
}

static void postgres_finish(struct suite *s)
{
    (void)s;
    for (size_t i = 0; i < TX_MAX; i++) {
        if (open_tx[i] != NULL)
            PQfinish(open_tx[i]);
        open_tx[i] = NULL;
    }
}

static void postgres_destroy(struct suite *s)
{
    (void)s;
    char sql[256];
    schema_is_ours = schema_call("emptied");
    if (schema_is_ours || getenv("POSTRIDER_TEST_PG_FOLDER") != NULL)
        return; /* what is left goes with the whole server */
    snprintf(sql, sizeof(sql), "SET client_min_messages = warning; DROP SCHEMA IF EXISTS %s, %s_clean CASCADE", schema,
             schema);
    PGconn *pg = suite_pg_connect();
    PQclear(PQexec(pg, sql));
    PQfinish(pg);
}

static char *text_of(pr_slice text)
{
    return text.size > 0 ? strndup(text.data, text.size) : NULL;
}

/* As an application does that knows nothing of us: a plain INSERT of what is given.  What the
 * columns do not take (an id that is none, headers that are no JSON) becomes another defect; what a new row may not have
 * (016_text.sql) is of a row from another time. */
static void raw_insert(PGconn *pg, const char *box, const struct plant *plant)
{
    char sql[512], id[PR_ID_TEXT_SIZE] = "";
    bool bad_id = plant->id.size != 0 && plant->id.size != sizeof(pr_id);
    if (plant->id.size == sizeof(pr_id))
        pr_id_format(*(const pr_id *)(const void *)plant->id.data, id);
    size_t headers = plant->headers != NULL ? strlen(plant->headers) : 0;
    bool object = headers > 1 && plant->headers[0] == '{' && plant->headers[headers - 1] == '}';
    bool old = (plant->type != NULL && plant->type[0] == '\0') || (plant->headers != NULL && !object);
    snprintf(sql, sizeof(sql),
             "INSERT INTO %s.%s (%s%stype, destination, stream, headers, payload, subject, event)"
             " VALUES (%s%s$2, coalesce($3, ''), $4, CASE WHEN left($5, 1) = '[' OR right($5, 1) = '}' THEN $5::json"
             " ELSE to_json($5) END, $6, $7, %s)",
             schema, box, old ? "xid, " : "", id[0] != '\0' ? "id, " : "", old ? "'3'::xid8, " : "",
             id[0] != '\0' ? "$1::uuid, " : "", plant->event ? "true" : "false");
    const char *values[] = {
        id[0] != '\0' ? id : NULL, plant->type, plant->destination, plant->stream, plant->headers, plant->payload,
        bad_id ? "\001" : NULL
    };
    const Oid types[] = { 25, 25, 25, 25, 25, 25, 25 };
    PGresult *result = PQexecParams(pg, sql, 7, types, values, NULL, NULL, 0);
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    if (!done)
        check_fail(__FILE__, __LINE__, "%s", PQerrorMessage(pg));
}

static void postgres_plant(struct suite *s, const char *box, const struct plant *plant)
{
    (void)s;
    PGconn *pg = suite_pg_connect();
    raw_insert(pg, suite_table(box), plant);
    PQfinish(pg);
}

static void postgres_repair(struct suite *s, pr_id id, const char *payload)
{
    (void)s;
    char sql[256], text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    snprintf(sql, sizeof(sql), "UPDATE %%s.%s SET payload = '%s' WHERE id = '%s'", suite_table("outbox"), payload,
             text);
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, sql);
    PQfinish(pg);
}

static int64_t postgres_count(struct suite *s, const char *table)
{
    (void)s;
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %%s.%s", table);
    PGconn *pg = suite_pg_connect();
    int64_t count = suite_pg_number(pg, sql);
    PQfinish(pg);
    return count;
}

static void postgres_age_notices(struct suite *s)
{
    (void)s;
    PGconn *pg = suite_pg_connect();
    suite_pg_do(pg, "UPDATE %s.control SET at = at - interval '2 hours'");
    PQfinish(pg);
}

static void *postgres_begin(struct suite *s)
{
    (void)s;
    for (size_t i = 0; i < TX_MAX; i++)
        if (open_tx[i] == NULL) {
            open_tx[i] = suite_pg_connect();
            suite_pg_do(open_tx[i], "BEGIN");
            return &open_tx[i];
        }
    check_fail(__FILE__, __LINE__, "too many transactions");
}

static void postgres_add(struct suite *s, void *tx, const char *box, const struct pr_message *message)
{
    (void)s;
    char *type = text_of(message->type), *stream = text_of(message->stream);
    struct plant plant = {
        .id = PR_BYTES((const char *)message->id.bytes, 16), .type = type, .stream = stream, .event = message->event
    };
    raw_insert(*(PGconn **)tx, suite_table(box), &plant);
    free(type);
    free(stream);
}

static void postgres_end(struct suite *s, void *tx, bool commit)
{
    (void)s;
    PGconn **slot = tx;
    suite_pg_do(*slot, commit ? "COMMIT" : "ROLLBACK");
    PQfinish(*slot);
    *slot = NULL;
}

static void postgres_effects(struct suite *s, struct buf *ret)
{
    (void)s;
    static const char *const queries[] = {
        "SELECT concat_ws(' ', 'event', stream, version, type, convert_from(payload, 'UTF8')) FROM %s.event",
        "SELECT concat_ws(' ', 'history', execution, first, count, events) FROM %s.flow_history",
        "SELECT concat_ws(' ', 'state', flow, key, convert_from(value, 'UTF8')) FROM %s.flow_state",
        "SELECT concat_ws(' ', 'seen', box, handler) FROM %s.seen",
    };
    PGconn *pg = suite_pg_connect();
    for (size_t i = 0; i < ARRAY_LENGTH(queries); i++) {
        PGresult *r = run(pg, queries[i]);
        for (int k = 0; k < PQntuples(r); k++)
            buf_addf(ret, "%s\n", PQgetvalue(r, k, 0));
        PQclear(r);
    }
    PQfinish(pg);
}

const struct suite_kind suite_postgres = {
    .name = "postgres",
    .ops = &store_postgres,
    .prepare = postgres_prepare,
    .finish = postgres_finish,
    .destroy = postgres_destroy,
    .plant = postgres_plant,
    .repair = postgres_repair,
    .count = postgres_count,
    .age_notices = postgres_age_notices,
    .effects = postgres_effects,
    .tx_begin = postgres_begin,
    .tx_add = postgres_add,
    .tx_end = postgres_end,
};
