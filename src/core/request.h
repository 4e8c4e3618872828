/* request.h - a request, which is a message that waits for a reply, and the reply.
 *
 * A request is an ordinary message with the header "postrider-reply-to"; its reply is found by its id.  The reply is a
 * row with the destination "reply:", which no endpoint gets: it stays in its box until somebody reads it, and is
 * deleted REPLY_KEEP_US after it was stored.  Its id is derived from the request's id, so there is only one reply; its
 * correlation id is the request's id as text.
 *
 * A reply from elsewhere (a broker, another store) has the header "postrider-reply"; the owner of its lane replaces it
 * by the row that is waited for. */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include <postrider.h>

#include "base/buf.h"

#define REPLY_DESTINATION "reply:"
#define HEADER_REPLY_TO "postrider-reply-to" /* of a request: an endpoint, or "" for the store that it is in */
#define HEADER_REPLY "postrider-reply"       /* of a reply on its way to another store: the id of its request */
#define REPLY_KEEP_US (PR_SECONDS(1) * 86400)

/* The id of the one reply to this request. */
void reply_id(pr_id request, pr_id *ret);

/* The value of a header that is a string without escapes, as a slice of headers; data NULL: not present. */
pr_slice header_find(pr_slice headers, const char *name);

/* Is it a reply, either the row that is waited for or one on its way? */
bool reply_is_row(const struct pr_message *m);
/* The id of its request; false: it names none. */
bool reply_request(const struct pr_message *m, pr_id *ret);
/* The row that is waited for, made from a reply to this request; text: room for the request's id. */
struct pr_message reply_row(const struct pr_message *reply, pr_id request, char text[PR_ID_TEXT_SIZE]);

#endif
