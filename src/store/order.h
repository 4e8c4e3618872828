/* order.h - what every store must know of a person's order before it changes anything: which rows the order applies to,
 * which it refuses, and which instances get notices. */
#ifndef STORE_ORDER_H
#define STORE_ORDER_H

#include "store/store.h"

/* The part of the order that concerns rows. */
struct row_order order_of_admin(const struct admin *admin);

static inline bool order_is_by_id(const struct admin *admin)
{
    return admin->filter.id_count > 0;
}
/* A release of a stream's followers: held rows, and rows behind a failed or parked head of the same stream and
 * destination. */
bool order_is_by_stream(const struct admin *admin);

/* What the order does with a row that its ids or its filter found.  edited_as: of a dead letter. */
enum order_takes { ORDER_SKIPS, ORDER_REFUSES, ORDER_TAKES };
enum order_takes order_takes(const struct admin *admin, const struct pr_message *m, pr_id edited_as);

/* Fault PR_EINVAL: the order is for one row, and more than one was found. */
PR_MUST_CHECK int order_check_matched(const struct admin *admin, uint64_t matched, struct pr_error *reterr);

/* PAUSE and RESUME of an endpoint that is paused until current_us (0: not paused): the new end of the pause; 0: not
 * paused any more; -1: nothing changes. */
int64_t order_pause_us(const struct admin *admin, int64_t current_us, int64_t now_us);

#define NOTICES_EACH_MAX 1000 /* for more rows than this there is one notice: read everything again */
/* Do instances get a notice for each of the changed rows, or one notice to read everything again? */
bool order_notices_each(const struct admin *admin, size_t changed);
/* Can the order do without notices? */
static inline bool order_is_silent(const struct admin *admin)
{
    return admin->kind == ADMIN_DEAD_NOTE;
}

#endif
