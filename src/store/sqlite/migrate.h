/* migrate.h - the numbered .sql files, which are built in (tools/embed.py), and how they run. */
#ifndef STORE_SQLITE_MIGRATE_H
#define STORE_SQLITE_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/migration.h"
#include "store/sqlite/conn.h"
#include "store/sqlite/sqlite.h"

extern const struct migration sqlite_migrations[];
extern const size_t sqlite_migrations_count;

struct pr_error;

/* Prefix of every table, index, trigger and view except the boxes. */
#define OUR_PREFIX "postrider_"

/* Runs statement by statement, so that a test can stop it between any two. */
int script_run(struct conn *conn, const char *sql, struct pr_error *reterr);

/* {box}, {table} and what else is replaced in a file.  Behind a double quote {box} is the box's table. */
void script_expand(struct buf *b, const char *sql, struct box_names names);

/* boxes.c */
struct names {
    struct {
        char box[BOX_NAME_MAX + 1], table[BOX_NAME_MAX + 1];
    } boxes[BOXES_MAX];
    size_t count;
};
struct box_names names_get(const struct names *names, size_t i);
void names_add(struct names *names, pr_slice box, pr_slice table);
int boxes_read(struct conn *conn, int64_t version, struct names *ret, struct pr_error *reterr);
/* PR_OK: the box exists, with this table (empty: any).  Outcome PR_UNKNOWN: it does not exist, and the table is
 * free. */
int names_find(const struct names *names, pr_slice box, pr_slice table, struct pr_error *reterr);
/* Can a new box have this table? */
int table_check(struct conn *conn, pr_slice box, pr_slice table, struct pr_error *reterr);

/* views.c: a script that drops all views, which people SELECT from, and makes them again. */
void views_write(struct buf *b, const struct names *names);

/* rename.c: stores before version 11 have tables without the prefix. */
/* Outcome PR_UNKNOWN: there is no such store. */
int rename_version(struct conn *conn, int64_t *ret_version, struct pr_error *reterr);
/* Renames old names, inside the transaction of the migration. */
int rename_old(struct conn *conn, struct pr_error *reterr);

#endif
