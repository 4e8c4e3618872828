/* nats_greeting.h - the beginning of a connection to NATS: the server's INFO, and CONNECT. */
#ifndef TRANSPORT_BROKER_NATS_GREETING_H
#define TRANSPORT_BROKER_NATS_GREETING_H

#include "base/buf.h"
#include "transport/broker/broker_url.h"

struct nats_info {
    int64_t payload_max;
    char nonce[128]; /* to be signed; empty: no signature needed */
};

/* NULL, or why the server cannot be used; tls: TLS is required. */
const char *nats_info_read(pr_slice json, bool tls, struct nats_info *ret);

/* CONNECT, with user, token or credentials of the url.  PR_OK, PR_ENOMEM (also in the buffer), or PR_EINVAL: the file
 * of credentials is invalid. */
PR_MUST_CHECK int nats_put_connect(struct buf *b, const struct broker_url *url, const char *name, bool tls,
                                   const char *nonce, struct pr_error *reterr);

/* Is it an authentication or authorization error? */
bool nats_error_is_login(const char *text);

#endif
