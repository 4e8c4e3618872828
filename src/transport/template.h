/* template.h - a name with placeholders, filled in from a message: "orders.{type}".
 *
 *   {type} {stream} {source} {subject} {destination} {id} */
#ifndef TRANSPORT_TEMPLATE_H
#define TRANSPORT_TEMPLATE_H

#include "base/buf.h"
#include "core/message.h"

/* Are its placeholders known and closed?  what names it for people ("key").  PR_OK or PR_ECONFIG. */
PR_MUST_CHECK int template_check(const char *endpoint, const char *what, pr_slice text, struct pr_error *reterr);

/* Appends to b as it is, without any escaping; the template must have passed template_check(). */
void template_fill(struct buf *b, pr_slice text, const struct pr_message *message);

/* The same inside a url: in the values all that is not unreserved (RFC 3986) becomes %XX, so a value stays
 * inside its segment; of "." and "..", too, which would walk up. */
void template_fill_url(struct buf *b, pr_slice text, const struct pr_message *message);

/* Is it the same for every message? */
bool template_is_fixed(pr_slice text);

#endif
