/* nats_creds.h - a file of credentials: a JWT that says who we are, and the seed of a key that proves it. */
#ifndef TRANSPORT_BROKER_NATS_CREDS_H
#define TRANSPORT_BROKER_NATS_CREDS_H

#include "base/buf.h"

#define NATS_CREDS_MAX 65536 /* bytes of a file */

/* Signs with an nkey seed ("SU...") what the server gave; the signature in base64url.  PR_OK, PR_EINVAL, PR_ENOMEM. */
PR_MUST_CHECK int nats_seed_sign(pr_slice seed, pr_slice nonce, struct buf *ret, struct pr_error *reterr);

/* Reads the file anew each time, since credentials are renewed.  PR_OK, PR_EINVAL (*reterr says why, and tells nothing of
 * what is in it), PR_ENOMEM. */
PR_MUST_CHECK int nats_creds_sign(const char *file, pr_slice nonce, struct buf *ret_jwt, struct buf *ret_signature,
                                  struct pr_error *reterr);

#endif
