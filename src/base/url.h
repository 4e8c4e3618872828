/* url.h - URLs with secrets in them, for people; and what is percent-encoded. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include "base/buf.h"

struct arena;

/* The URL with *** for what may be a secret: passwords, a user without one (NATS calls a token so), both parts of a
 * webhook's, and the values of a query, but those that are known to be none. */
void url_add_shown(struct buf *b, const char *url);
/* Is there a password in it? */
bool url_has_password(const char *url);

/* Of a hexadecimal digit; -1: it is none. */
int hex_value(char c);
/* %41 and + become what they stand for.  Fault PR_EINVAL: a % without two digits, a NUL.  PR_ENOMEM. */
PR_MUST_CHECK int url_decode(pr_slice text, bool plus, struct arena *arena, pr_slice *ret);

#endif
