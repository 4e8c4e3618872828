/* suite_postgres.h - for tests that use the server without the store. */
#ifndef TEST_STORE_SUITE_POSTGRES_H
#define TEST_STORE_SUITE_POSTGRES_H

#include <libpq-fe.h>

const char *suite_pg_schema(void); /* of the test that runs */
PGconn *suite_pg_connect(void);    /* fails the test when it cannot */
/* A statement with %s for the schema, up to three times; fails the test when it fails. */
void suite_pg_do(PGconn *pg, const char *sql);
/* The first field of the first row, as a number. */
long long suite_pg_number(PGconn *pg, const char *sql);

#endif
