/* Local delivery: an endpoint with the url "box:NAME" is an insert into another box, in the transaction that completes the
 * message here.
 *
 * It goes on as the message that it is: id, type, stream, headers, payload and all the rest that its sender gave it.  Only
 * its destination is left behind, since the routes of the other box decide there, and its due time, which has come.  A header
 * names the boxes that it came through, the latest last; a message that comes back to one of them would go round for ever,
 * so it is refused. */
#ifndef CORE_LOCAL_DELIVERY_H
#define CORE_LOCAL_DELIVERY_H

#include "core/delivery.h"

#define HEADER_FROM "postrider-from"

/* Was this message in the box before, or is it there now? */
bool local_is_loop(const struct pr_message *m, pr_slice from, pr_slice into);

/* The effect that stores it there; but for its headers its texts are those of m, which must live as long.
 * Fault PR_ENOMEM; PR_ETOOBIG: its headers have no room for one more, and without it nobody would see that it goes round. */
PR_MUST_CHECK int local_effect(const struct pr_message *m, pr_slice from, pr_slice into, struct send_effect **ret);

#endif
