/* views.h - the views that people SELECT from, and the replacing of names in scripts. */
#ifndef STORE_POSTGRES_VIEWS_H
#define STORE_POSTGRES_VIEWS_H

#include <libpq-fe.h>

#include "base/buf.h"

/* Attempts since the latest delivery of endpoint n.name, from its row e and the sums t of its tallies. */
#define PG_FAILED_IN_ROW(tally)                                                                                        \
    "greatest(0, CASE WHEN t.sent_at IS NULL THEN coalesce(e.failed_in_row, 0) ELSE 0 END"                             \
    " + coalesce((SELECT sum(x.failed) FROM " tally " x WHERE x.endpoint = n.name AND x.sent <= 0"                     \
    " AND (t.sent_at IS NULL OR x.failed_at > t.sent_at)), 0))"

struct pg_box {
    pr_slice name, table;
};

/* Replaces {schema} and {box} by the bare names: scripts quote them themselves.  After a double quote {box} is the
 * box's table. */
void pg_script_expand(struct buf *b, const char *sql, pr_slice schema, struct pg_box box);
/* A script that drops all views and creates them again; boxes: a result with their names and tables. */
void pg_views_write(struct buf *b, pr_slice schema, const PGresult *boxes);

#endif
