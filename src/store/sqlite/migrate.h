/* migrate.h - the numbered .sql files, built in (tools/embed.py), and how they are run. */
#ifndef STORE_SQLITE_MIGRATE_H
#define STORE_SQLITE_MIGRATE_H

#include <stddef.h>
#include <stdint.h>

/* A file is one string, however long. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

struct migration {
    int number;
    const char *name;
    const char *sql;
};

extern const struct migration sqlite_migrations[];
extern const size_t sqlite_migrations_count;

struct conn;
struct pr_error;

/* Before every table, index, trigger and view but the boxes. */
#define OUR_PREFIX "postrider_"

/* Statement by statement, so that a test can end it between any two. */
int script_run(struct conn *conn, const char *sql, struct pr_error *reterr);

/* rename.c: stores of before version 11 have their tables under bare names. */
/* Outcome PR_UNKNOWN: there is no such store. */
int rename_version(struct conn *conn, int64_t *ret_version, struct pr_error *reterr);
/* To the names of today, when they are not; inside the transaction of the migration. */
int rename_old(struct conn *conn, struct pr_error *reterr);

#endif
