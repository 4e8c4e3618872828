/* overview.h - questions whose answer is not a list of rows: groups of dead letters, streams in
 * trouble, what people did.  Asked in the transaction of query.c. */
#ifndef STORE_POSTGRES_OVERVIEW_H
#define STORE_POSTGRES_OVERVIEW_H

#include "store/postgres/listing.h"

struct overview {
    struct link *link;
    struct arena *arena;
    const struct surroundings *s;
    const struct query *query;
    struct query_reply *reply;
    struct pr_error *reterr;
};

PR_MUST_CHECK int pg_overview_groups(const struct overview *o);
PR_MUST_CHECK int pg_overview_streams(const struct overview *o);
PR_MUST_CHECK int pg_overview_audit(const struct overview *o);

#endif
