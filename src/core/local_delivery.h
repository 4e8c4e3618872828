/* Local delivery: sending to an endpoint with the url "box:NAME" inserts the message into another box, in the
 * transaction that completes it here.
 *
 * It keeps its id, type, stream, headers, payload and everything else that its sender set, except its destination,
 * because the routes of the other box decide there, and its due time, which has passed.  A header lists the boxes that
 * it came through, the latest last; a message that would return to one of them would circulate forever, so it is
 * refused. */
#ifndef CORE_LOCAL_DELIVERY_H
#define CORE_LOCAL_DELIVERY_H

#include "core/delivery.h"

#define HEADER_FROM "postrider-from"

/* Would storing this message of box `from` in box `into` return it to a box that it has been in? */
bool local_is_loop(const struct pr_message *m, pr_slice from, pr_slice into);

/* The effect that stores the message there.  Apart from the headers its texts are those of m, which must live as long.
 * Fault PR_ENOMEM; PR_ETOOBIG: the headers have no room for the list of boxes, without which a loop would not be
 * detected. */
PR_MUST_CHECK int local_effect(const struct pr_message *m, pr_slice from, pr_slice into, struct send_effect **ret);

#endif
