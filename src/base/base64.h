/* base64.h - RFC 4648, the standard alphabet, with padding. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <postrider.h>

struct buf;

void base64_encode(struct buf *b, pr_slice data); /* errors stick in the buf */

/* Strict: no white space, padding required, unused bits zero.  Fault PR_EINVAL: nothing was added.  When the buf has no
 * room, its error is set. */
PR_MUST_CHECK int base64_decode(struct buf *b, pr_slice text);

#endif
