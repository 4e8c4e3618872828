/* url.h - showing URLs without their secrets, and percent-decoding. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include "base/buf.h"

struct arena;

/* Add the URL with *** in place of everything that may be a secret: passwords, a user without a password (a token in
 * NATS), both parts in the URL of a webhook, and values of the query except those known to be harmless. */
void url_add_shown(struct buf *b, const char *url);
/* Does the URL contain a password? */
bool url_has_password(const char *url);

/* The value of a hexadecimal digit; -1: not a digit. */
int hex_value(char c);
/* Decode %41, and + as a space when plus is set.  Fault PR_EINVAL: a % without two digits, a NUL.  PR_ENOMEM. */
PR_MUST_CHECK int url_decode(pr_slice text, bool plus, struct arena *arena, pr_slice *ret);

#endif
