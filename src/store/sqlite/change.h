/* change.h - applying a change (core/change.h) to a row of a box or to a dead letter. */
#ifndef STORE_SQLITE_CHANGE_H
#define STORE_SQLITE_CHANGE_H

#include "core/change.h"
#include "store/sqlite/conn.h"

/* Box, connection and time of changes. */
struct changing {
    struct conn *conn;
    pr_slice box;
    int64_t now_us, keep_us;
    struct pr_error *reterr;
};

/* PR_OK, PR_UNKNOWN, PR_STALE: the answer; or a fault.  split_rows: room for the destinations. */
PR_MUST_CHECK int box_change(const struct changing *w, const struct change *c, uint64_t *split_rows);
/* For a dead letter that exists.  *ret_row: the row of the box that it became, or 0.  order: for FATE_COPIED. */
PR_MUST_CHECK int dead_change(const struct changing *w, const struct change *c, const struct row_order *order,
                              uint64_t *ret_row);

#endif
