/* signature.h - Standard Webhooks 1.0: the receiver can tell who sent a request, that it is unchanged and recent.
 *
 *   webhook-signature = "v1," base64(HMAC-SHA256(key, id "." timestamp "." body)), one for each key
 *
 * While keys are changed there are several: the receiver is content with one that it knows. */
#ifndef TRANSPORT_HTTP_SIGNATURE_H
#define TRANSPORT_HTTP_SIGNATURE_H

#include <openssl/evp.h>

#include "base/buf.h"

#define SIGN_KEYS_MAX 8
#define SIGN_KEY_MIN 24 /* bytes, as the specification wants it */
#define SIGN_KEY_MAX 64

struct signer {
    EVP_MAC_CTX *keys[SIGN_KEYS_MAX]; /* ready for the message */
    size_t count;
};

/* Secrets are "whsec_" and base64, or base64 alone.  whose: "endpoint billing: sign", before what is wrong.  PR_OK; PR_ECONFIG with what is wrong, never with the
 * secret; PR_ENOMEM.  Also after a fault: signer_fini(). */
PR_MUST_CHECK int signer_init(struct signer *s, const char *whose, const char *const *secrets, size_t count,
                              struct pr_error *reterr);
void signer_fini(struct signer *s); /* wipes them; safe on a zeroed one */

/* Adds the value of the header webhook-signature.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int signer_sign(const struct signer *s, pr_slice id, int64_t timestamp_s, pr_slice body, struct buf *ret);

/* Is one of the signatures in the header ("v1,... v1,...") by one of the keys?  stamp: as the sender wrote it, seconds since
 * 1970; more than tolerance_us from now_us it is too old, or from a clock that is wrong. */
enum signature_found { SIGNATURE_GOOD, SIGNATURE_WRONG, SIGNATURE_STALE };
enum signature_found signer_verify(const struct signer *s, pr_slice id, pr_slice stamp, pr_slice body, pr_slice header,
                                   int64_t now_us, int64_t tolerance_us);

#endif
