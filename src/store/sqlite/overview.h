/* overview.h - questions whose answer is not a list of rows: groups of dead letters, streams in
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

PR_MUST_CHECK int overview_groups(const struct overview *o);
PR_MUST_CHECK int overview_streams(const struct overview *o);
PR_MUST_CHECK int overview_audit(const struct overview *o);

#endif
