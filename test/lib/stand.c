#include "stand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_US PR_SECONDS(90)
#define SQL_MAX 1024

static char text[65536]; /* of the latest answer */

PGconn *stand_pg(const struct stand *s)
{
    char sql[128];
    PGconn *pg = PQconnectdb(getenv("POSTRIDER_TEST_PG"));
    CHECK_EQ(PQstatus(pg), CONNECTION_OK);
    snprintf(sql, sizeof sql, "SET client_min_messages = warning; SET search_path = %s, public", s->schema);
    PQclear(PQexec(pg, sql));
    return pg;
}

sqlite3 *stand_sqlite(const struct stand *s)
{
    return place_open(&s->place);
}

/* The schema of the last stand, as init made it: for the next one, see test/postgres/schemas.sql. */
static char spare[64];

void stand_init(struct stand *s)
{
    static unsigned number;
    const char *server = getenv("POSTRIDER_TEST_PG");
    char sql[128];
    struct pr_error error;
    memset(s, 0, sizeof *s);
    if (server == NULL) {
        place_init(&s->place);
        snprintf(s->url, sizeof s->url, "%s", s->place.url);
        return;
    }
    bool is_new = spare[0] == '\0';
    if (is_new)
        snprintf(spare, sizeof spare, "stand_%ld_%u", (long)getpid(), ++number);
    snprintf(s->schema, sizeof s->schema, "%s", spare);
    spare[0] = '\0';
    snprintf(s->url, sizeof s->url, "%s%cschema=%s", server, strchr(server, '?') != NULL ? '&' : '?', s->schema);
    if (is_new)
        CHECK_OK(pr_store_init(s->url, &error), &error);
    s->pg = stand_pg(s);
    snprintf(sql, sizeof sql, "SELECT test_schemas.keep('%s')", s->schema);
    if (is_new)
        stand_do(s, sql);
}

void stand_fini(struct stand *s)
{
    char sql[192];
    pr_sender_close(s->sender);
    if (s->pg == NULL) {
        place_fini(&s->place);
        return;
    }
    snprintf(sql, sizeof sql, "SELECT test_schemas.alone() AND test_schemas.emptied('%s')", s->schema);
    PGresult *r = PQexec(s->pg, sql); /* fails when somebody still has a table */
    bool is_clean = PQresultStatus(r) == PGRES_TUPLES_OK && strcmp(PQgetvalue(r, 0, 0), "t") == 0;
    PQclear(r);
    if (is_clean) {
        snprintf(spare, sizeof spare, "%s", s->schema);
    } else if (getenv("POSTRIDER_TEST_PG_FOLDER") == NULL) { /* or the whole server goes soon */
        snprintf(sql, sizeof sql, "DROP SCHEMA %s, %s_clean CASCADE", s->schema, s->schema);
        stand_do(s, sql);
    }
    PQfinish(s->pg);
}

/* With the name of a table of ours. */
static const char *complete(const struct stand *s, const char *sql, char ret[SQL_MAX])
{
    static const struct {
        const char *mark, *table;
    } tables[] = { { "{dead}", "dead_letter" }, { "{instance}", "instance" }, { "{session}", "flow_session" } };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const char *mark = strstr(sql, tables[i].mark);
        if (mark == NULL)
            continue;
        snprintf(ret, SQL_MAX, "%.*s%s%s%s", (int)(mark - sql), sql, s->pg != NULL ? "" : "postrider_", tables[i].table,
                 mark + strlen(tables[i].mark));
        return ret;
    }
    return sql;
}

const char *stand_text(struct stand *s, const char *written)
{
    char room[SQL_MAX];
    const char *sql = complete(s, written, room);
    text[0] = '\0';
    if (s->pg != NULL) {
        PGresult *r = PQexec(s->pg, sql);
        if (PQresultStatus(r) != PGRES_TUPLES_OK)
            check_fail(__FILE__, __LINE__, "%s: %s", sql, PQerrorMessage(s->pg));
        if (PQntuples(r) > 0)
            snprintf(text, sizeof text, "%s", PQgetvalue(r, 0, 0));
        PQclear(r);
        return text;
    }
    sqlite3 *db = stand_sqlite(s);
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(db));
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != NULL)
        snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return text;
}

int64_t stand_int(struct stand *s, const char *sql)
{
    return strtoll(stand_text(s, sql), NULL, 10);
}

struct tx tx_begin(const struct stand *s)
{
    struct tx tx = { 0 };
    if (s->pg != NULL)
        tx.pg = stand_pg(s);
    else
        tx.db = stand_sqlite(s);
    CHECK_EQ(tx_do(&tx, tx.pg != NULL ? "BEGIN" : "BEGIN IMMEDIATE"), PR_OK);
    return tx;
}

int tx_do(struct tx *tx, const char *sql)
{
    if (tx->pg == NULL)
        return sqlite3_exec(tx->db, sql, NULL, NULL, NULL) == SQLITE_OK ? PR_OK : PR_EBUSY;
    PGresult *r = PQexec(tx->pg, sql);
    bool done = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    PQclear(r);
    return done ? PR_OK : PR_EBUSY;
}

int tx_complete(struct tx *tx, struct pr_context *context, struct pr_error *error)
{
    return tx->pg != NULL ? pr_complete_pg(context, tx->pg, error) : pr_complete_sqlite(context, tx->db, error);
}

void tx_close(struct tx *tx)
{
    if (tx->pg != NULL)
        PQfinish(tx->pg);
    else
        sqlite3_close(tx->db);
}

void stand_do(struct stand *s, const char *sql)
{
    if (s->pg == NULL) {
        place_do(&s->place, sql);
        return;
    }
    PGresult *r = PQexec(s->pg, sql);
    bool done = PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    PQclear(r);
    if (!done)
        check_fail(__FILE__, __LINE__, "%s: %s", sql, PQerrorMessage(s->pg));
}

void stand_wait(struct stand *s, const char *sql, int64_t wanted)
{
    int64_t deadline_us = test_now_us() + WAIT_US, got;
    while ((got = stand_int(s, sql)) != wanted) {
        if (test_now_us() > deadline_us)
            check_fail(__FILE__, __LINE__, "%s is %lld after 90 s, not %lld", sql, (long long)got, (long long)wanted);
        test_pause();
    }
}

/* On PostgreSQL it stays open: a connection costs the server more than many messages. */
void stand_send(struct stand *s, const char *box, const char *type, const char *stream, int count)
{
    struct pr_error error;
    if (s->pg == NULL) {
        place_send(&s->place, box, type, stream, count);
        return;
    }
    if (s->sender == NULL)
        CHECK_OK(pr_sender_open(s->url, &s->sender, &error), &error);
    sender_send(s->sender, box, type, stream, count);
}

struct pr_engine *stand_engine(const struct stand *s, const char *more)
{
    char config[4096];
    struct pr_error error;
    snprintf(config, sizeof config, "store: \"%s\"\n%s", s->url, more);
    struct pr_engine *engine = pr_engine_new(config, &error);
    if (engine == NULL)
        check_fail(__FILE__, __LINE__, "%s", error.text);
    return engine;
}

void stand_start(struct pr_engine *engine)
{
    struct pr_error error;
    CHECK_OK(pr_engine_start(engine, &error), &error);
}

void stand_drain(struct pr_engine *engine)
{
    struct pr_error error;
    CHECK_OK(pr_engine_drain(engine, WAIT_US, &error), &error);
}
