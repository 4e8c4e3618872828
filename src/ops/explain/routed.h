/* Messages that only a route sends to a paused endpoint.  The store counts without the routes, and takes them for ready. */
#ifndef OPS_EXPLAIN_ROUTED_H
#define OPS_EXPLAIN_ROUTED_H

#include "runtime/config/config.h"
#include "store/store.h"

/* Count them as paused, in what QUERY_BOXES answered; endpoints: what QUERY_ENDPOINTS did.  *ret_unknown, where it is asked
 * for: a box has too many rows to look at, and its counts are not exact. */
int boxes_see_routes(struct store *store, const struct config *config, const struct query_reply *endpoints,
                     struct query_reply *boxes, bool *ret_unknown, struct pr_error *reterr);

#endif
