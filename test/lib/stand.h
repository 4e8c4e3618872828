/* stand.h - a store of a test's own, of either kind, and the test's own connection to it.
 *
 * An SQLite file, or where POSTRIDER_TEST_PG names a server (test/postgres/cluster.sh) a schema of its own there.  SQL is
 * written once: tables of boxes have no schema before them, and of our own tables one can be named: "{dead}", "{instance}", "{session}". */
#ifndef TEST_STAND_H
#define TEST_STAND_H

#include <libpq-fe.h>

#include "place.h"

struct stand {
    struct place place;       /* SQLite */
    PGconn *pg;               /* NULL: SQLite */
    struct pr_sender *sender; /* of stand_send(); NULL: not open */
    char schema[64];
    char url[512];
};

void stand_init(struct stand *s);
void stand_fini(struct stand *s);

/* For another thread: a connection as the application has it.  Close it with PQfinish() or sqlite3_close(). */
PGconn *stand_pg(const struct stand *s);
sqlite3 *stand_sqlite(const struct stand *s);

/* A transaction of the application's own, over such a connection. */
struct tx {
    sqlite3 *db; /* or: */
    PGconn *pg;
};
struct tx tx_begin(const struct stand *s);
int tx_do(struct tx *tx, const char *sql);                                          /* PR_OK or PR_EBUSY */
int tx_complete(struct tx *tx, struct pr_context *context, struct pr_error *error); /* pr_complete_...() */
void tx_close(struct tx *tx);

void stand_do(struct stand *s, const char *sql);
int64_t stand_int(struct stand *s, const char *sql);
/* The first column of the first row; "" when it is NULL or there is none. */
const char *stand_text(struct stand *s, const char *sql);
/* Wait until the query gives the number; the test fails after 90 s. */
void stand_wait(struct stand *s, const char *sql, int64_t wanted);

/* Messages with the payloads "1" .. "count". */
void stand_send(struct stand *s, const char *box, const char *type, const char *stream, int count);
/* more: YAML behind the store. */
struct pr_engine *stand_engine(const struct stand *s, const char *more);
void stand_start(struct pr_engine *engine);
void stand_drain(struct pr_engine *engine);

#endif
