/* nats_creds.h - a file of credentials: a JWT with our identity, and the seed of the key that proves it. */
#ifndef TRANSPORT_BROKER_NATS_CREDS_H
#define TRANSPORT_BROKER_NATS_CREDS_H

#include "base/buf.h"

#define NATS_CREDS_MAX 65536 /* bytes of a file */

/* Signs the server's nonce with an nkey seed ("SU..."); the signature is in base64url.  PR_OK, PR_EINVAL, PR_ENOMEM. */
PR_MUST_CHECK int nats_seed_sign(pr_slice seed, pr_slice nonce, struct buf *ret, struct pr_error *reterr);

/* Reads the file each time, since credentials are renewed.  PR_OK, PR_EINVAL (*reterr has the reason, without any
 * content of the file), PR_ENOMEM. */
PR_MUST_CHECK int nats_creds_sign(const char *file, pr_slice nonce, struct buf *ret_jwt, struct buf *ret_signature,
                                  struct pr_error *reterr);

#endif
