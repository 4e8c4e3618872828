/* flow_order.h - orders about flows, in the transaction that order.c has begun. */
#ifndef STORE_PEOPLE_FLOW_ORDER_H
#define STORE_PEOPLE_FLOW_ORDER_H

#include "store/sql.h"
#include "store/store.h"

/* FLOW_DELETE and FLOW_PRUNE.  The arena is for what it takes. */
PR_MUST_CHECK int flow_order_run(struct sql *sql, const struct admin *admin, struct arena *arena,
                                 struct admin_reply *reply);

/* What the flow of an activity is told, which a person ends with DISCARD or DEAD_ADD; *ret and its texts are in the arena.
 * Outcome PR_UNKNOWN: it is another order, or no activity.  Fault PR_ENOMEM. */
PR_MUST_CHECK int flow_order_result(const struct admin *admin, const struct pr_message *m, struct arena *arena,
                                    struct pr_message *ret);
/* The box that it is told in. */
pr_slice flow_order_turns(const struct admin *admin);

#endif
