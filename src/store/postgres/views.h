/* views.h - what people SELECT from, and the replacing of names in scripts. */
#ifndef STORE_POSTGRES_VIEWS_H
#define STORE_POSTGRES_VIEWS_H

#include <libpq-fe.h>

#include "base/buf.h"

/* {schema} and {box} become the bare names: scripts quote them themselves. */
void pg_script_expand(struct buf *b, const char *sql, pr_slice schema, pr_slice box);
/* A script that makes all views anew; boxes: a result with their names. */
void pg_views_write(struct buf *b, pr_slice schema, const PGresult *boxes);

#endif
