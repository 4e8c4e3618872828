/* Messages that are routed to a paused endpoint.  The store counts without the routes, and considers them ready. */
#ifndef OPS_EXPLAIN_ROUTED_H
#define OPS_EXPLAIN_ROUTED_H

#include "runtime/config/config.h"
#include "store/store.h"

/* Counts them as paused, in the reply of QUERY_BOXES; endpoints: the reply of QUERY_ENDPOINTS.  *ret_unknown (may be
 * NULL): a box has too many rows to look at, and its counts are not exact. */
int boxes_see_routes(struct store *store, const struct config *config, const struct query_reply *endpoints,
                     struct query_reply *boxes, bool *ret_unknown, struct pr_error *reterr);

#endif
