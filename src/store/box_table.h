/* box_table.h - how a table is checked before it becomes a box, and the errors about it: the same words for every database. */
#ifndef STORE_BOX_TABLE_H
#define STORE_BOX_TABLE_H

#include "store/store.h"

/* The table that a box is to have; empty: the one that it has, or one of its own name. */
pr_slice box_table(const struct store_box *box);

/* PR_OK when a box that is there has the table that it is to have (empty: any), else the fault: senders, grants and
 * triggers of the application know the table, so it does not change behind their backs. */
int box_keeps_table(pr_slice box, pr_slice has, pr_slice wanted, struct pr_error *reterr);
/* The faults of a table that cannot be one of the box.  or_else: what helps, too, or "". */
int box_shares_table(pr_slice box, pr_slice table, pr_slice other, struct pr_error *reterr);
int box_table_is_taken(pr_slice box, const char *where, pr_slice table, const char *or_else, struct pr_error *reterr);

#endif
