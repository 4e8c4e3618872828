/* overview.h - questions whose answer is not a list of rows: counts, groups of dead letters, streams in
 * trouble, what people did.  Asked in the transaction of query.c. */
#ifndef STORE_SQLITE_OVERVIEW_H
#define STORE_SQLITE_OVERVIEW_H

#include "store/sqlite/listing.h"

struct overview {
    struct conn *conn;
    struct arena *arena;
    const struct surroundings *s;
    const struct query *query;
    struct query_reply *reply;
    struct pr_error *reterr;
};

PR_MUST_CHECK int overview_boxes(const struct overview *o);
/* How many are on receipts and have no verdict, wherever they stand among the rows; of a box, or (not NULL) of an instance. */
uint64_t flights_count(struct conn *conn, const struct surroundings *s, pr_slice box, const pr_id *instance);
PR_MUST_CHECK int overview_groups(const struct overview *o);
PR_MUST_CHECK int overview_streams(const struct overview *o);
PR_MUST_CHECK int overview_audit(const struct overview *o);

#endif
