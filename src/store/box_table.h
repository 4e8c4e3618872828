/* box_table.h - checks of a table before it becomes a box, and the errors about it: the same words for every
 * database. */
#ifndef STORE_BOX_TABLE_H
#define STORE_BOX_TABLE_H

#include "store/store.h"

/* The table that a box should have; empty: the one that it has, or a table named like the box. */
pr_slice box_table(const struct store_box *box);

/* PR_OK when an existing box has the table that it should have (empty: any), else the fault: senders, grants and
 * triggers of the application depend on the table, so it must not change unnoticed. */
int box_keeps_table(pr_slice box, pr_slice has, pr_slice wanted, struct pr_error *reterr);
/* The fault of a table that belongs to another box.  or_else: another remedy, or "". */
int box_shares_table(pr_slice box, pr_slice table, pr_slice other, struct pr_error *reterr);
int box_table_is_taken(pr_slice box, const char *where, pr_slice table, const char *or_else, struct pr_error *reterr);

#endif
