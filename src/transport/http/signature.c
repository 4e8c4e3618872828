#include "transport/http/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/params.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/slice.h"

#define SECRET_PREFIX "whsec_"
#define SHA256_BYTES 32

static EVP_MAC_CTX *key_new(pr_slice key)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                  OSSL_PARAM_construct_end() };
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac); /* NULL for NULL */

    EVP_MAC_free(mac);
    if (context != NULL && EVP_MAC_init(context, (const unsigned char *)key.data, key.size, params) != 1) {
        EVP_MAC_CTX_free(context);
        return NULL;
    }
    return context;
}

static int add_key(struct signer *s, const char *endpoint, const char *secret, struct pr_error *reterr)
{
    pr_slice text = slice_trim(slice_from(secret)), prefix = PR_STR(SECRET_PREFIX);
    struct buf key;
    int rc = PR_OK;

    if (slice_starts_with(text, prefix))
        text = (pr_slice){ text.data + prefix.size, text.size - prefix.size };
    buf_init(&key, SIGN_KEY_MAX);
    if (base64_decode(&key, text) != PR_OK || buf_failed(&key) || key.size < SIGN_KEY_MIN)
        rc = error_set(reterr, PR_ECONFIG,
                       "endpoint %s: sign: a secret is " SECRET_PREFIX
                       " and %d to %d bytes in base64, number %zu is not; "
                       "to make one: echo " SECRET_PREFIX "$(openssl rand -base64 32)",
                       endpoint, SIGN_KEY_MIN, SIGN_KEY_MAX, s->count + 1);
    else if ((s->keys[s->count] = key_new(buf_slice(&key))) != NULL)
        s->count++;
    else
        rc = error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory for a key", endpoint);
    if (key.data != NULL)
        explicit_bzero(key.data, key.size);
    buf_fini(&key);
    return rc;
}

int signer_init(struct signer *s, const char *endpoint, const char *const *secrets, size_t count,
                struct pr_error *reterr)
{
    int rc = PR_OK;

    *s = (struct signer){ 0 };
    if (count > SIGN_KEYS_MAX)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: sign: at most %d secrets", endpoint, SIGN_KEYS_MAX);
    for (size_t i = 0; rc == PR_OK && i < count; i++)
        rc = add_key(s, endpoint, secrets[i], reterr);
    return rc;
}

void signer_fini(struct signer *s)
{
    for (size_t i = 0; i < s->count; i++)
        EVP_MAC_CTX_free(s->keys[i]); /* it cleanses them */
    *s = (struct signer){ 0 };
}

static bool update(EVP_MAC_CTX *context, pr_slice bytes)
{
    return EVP_MAC_update(context, (const unsigned char *)bytes.data, bytes.size) == 1;
}

static bool digest_of(EVP_MAC_CTX *key, pr_slice id, pr_slice stamp, pr_slice body, unsigned char ret[SHA256_BYTES])
{
    EVP_MAC_CTX *context = EVP_MAC_CTX_dup(key);
    size_t size = 0;
    bool good = context != NULL && update(context, id) && update(context, stamp) && update(context, body) &&
                EVP_MAC_final(context, ret, &size, SHA256_BYTES) == 1 && size == SHA256_BYTES;

    EVP_MAC_CTX_free(context);
    return good;
}

int signer_sign(const struct signer *s, pr_slice id, int64_t timestamp_s, pr_slice body, struct buf *ret)
{
    unsigned char digest[SHA256_BYTES];
    char stamp[32];
    int size = snprintf(stamp, sizeof(stamp), ".%" PRId64 ".", timestamp_s);

    for (size_t i = 0; i < s->count; i++) {
        if (!digest_of(s->keys[i], id, (pr_slice){ stamp, (size_t)size }, body, digest))
            return PR_ENOMEM;
        buf_add_cstr(ret, i > 0 ? " v1," : "v1,");
        base64_encode(ret, (pr_slice){ (const char *)digest, sizeof(digest) });
    }
    return buf_failed(ret) ? PR_ENOMEM : PR_OK;
}
