/* signature.h - Standard Webhooks 1.0: the receiver can verify the sender of a request, its integrity and its age.
 *
 *   webhook-signature = "v1," base64(HMAC-SHA256(key, id "." timestamp "." body)), one for each key
 *
 * During a key change there are several signatures: the receiver accepts any that it can verify. */
#ifndef TRANSPORT_HTTP_SIGNATURE_H
#define TRANSPORT_HTTP_SIGNATURE_H

#include <openssl/evp.h>

#include "base/buf.h"

#define SIGN_KEYS_MAX 8
#define SIGN_KEY_MIN 24 /* bytes: minimum of the specification */
#define SIGN_KEY_MAX 64

struct signer {
    EVP_MAC_CTX *keys[SIGN_KEYS_MAX]; /* initialised with the keys */
    size_t count;
};

/* Secrets are "whsec_" and base64, or base64 alone.  whose: "endpoint billing: sign", the beginning of error texts.
 * PR_OK; PR_ECONFIG with what is wrong, never with the secret; PR_ENOMEM.  Call signer_fini() even after a fault. */
PR_MUST_CHECK int signer_init(struct signer *s, const char *whose, const char *const *secrets, size_t count,
                              struct pr_error *reterr);
void signer_fini(struct signer *s); /* wipes the keys; safe on a zeroed one */

/* Adds the value of the header webhook-signature.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int signer_sign(const struct signer *s, pr_slice id, int64_t timestamp_s, pr_slice body, struct buf *ret);

/* Does one of the signatures in the header ("v1,... v1,...") match one of the keys?  stamp: as the sender wrote it,
 * seconds since 1970; if it differs from now_us by more than tolerance_us, the request is too old, or a clock is
 * wrong. */
enum signature_found { SIGNATURE_GOOD, SIGNATURE_WRONG, SIGNATURE_STALE };
enum signature_found signer_verify(const struct signer *s, pr_slice id, pr_slice stamp, pr_slice body, pr_slice header,
                                   int64_t now_us, int64_t tolerance_us);

#endif
