/* url.h - URLs with secrets in them, for people. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include "base/buf.h"

/* The URL with *** for what may be a secret: passwords, a user without one (NATS calls a token so), both parts of a
 * webhook's, and the values of a query, but those that are known to be none. */
void url_add_shown(struct buf *b, const char *url);
/* Is there a password in it? */
bool url_has_password(const char *url);

#endif
