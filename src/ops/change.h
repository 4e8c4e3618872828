/* change.h - changes of many messages, in steps.
 *
 * In one transaction a hundred thousand rows would be locked for half a minute, and the instance that delivers would
 * wait for them until its lease is over.  So an order by filter is carried out in steps, each with its own entry in the
 * audit; the answer sums them up. */
#ifndef OPS_CHANGE_H
#define OPS_CHANGE_H

#include "store/store.h"

/* Like store_admin().  After a fault *ret_reply has the changes before it. */
PR_MUST_CHECK int change_run(struct store *store, const struct admin *admin, struct admin_reply *ret_reply,
                             struct pr_error *reterr);

/* Would the corrected message be valid?  Fault PR_EINVAL, PR_ETOOBIG. */
PR_MUST_CHECK int change_check_edit(const struct dead_edit *edit, size_t payload_max, struct pr_error *reterr);

#endif
