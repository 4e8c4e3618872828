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

static int add_key(struct signer *s, const char *whose, const char *secret, struct pr_error *reterr)
{
    pr_slice text = slice_trim(slice_from(secret)), prefix = PR_STR(SECRET_PREFIX);
    struct buf key;
    int rc = PR_OK;

    if (slice_starts_with(text, prefix))
        text = (pr_slice){ text.data + prefix.size, text.size - prefix.size };
    buf_init(&key, SIGN_KEY_MAX);
    if (base64_decode(&key, text) != PR_OK || buf_failed(&key) || key.size < SIGN_KEY_MIN)
        rc = error_set(reterr, PR_ECONFIG,
                       "%s: a secret is " SECRET_PREFIX " and %d to %d bytes in base64, number %zu is not; "
                       "to make one: echo " SECRET_PREFIX "$(openssl rand -base64 32)",
                       whose, SIGN_KEY_MIN, SIGN_KEY_MAX, s->count + 1);
    else if ((s->keys[s->count] = key_new(buf_slice(&key))) != NULL)
        s->count++;
    else
        rc = error_set(reterr, PR_ENOMEM, "%s: out of memory for a key", whose);
    if (key.data != NULL)
        explicit_bzero(key.data, key.size);
    buf_fini(&key);
    return rc;
}

int signer_init(struct signer *s, const char *whose, const char *const *secrets, size_t count, struct pr_error *reterr)
{
    int rc = PR_OK;

    *s = (struct signer){ 0 };
    if (count > SIGN_KEYS_MAX)
        return error_set(reterr, PR_ECONFIG, "%s: at most %d secrets", whose, SIGN_KEYS_MAX);
    for (size_t i = 0; rc == PR_OK && i < count; i++)
        rc = add_key(s, whose, secrets[i], reterr);
    return rc;
}

void signer_fini(struct signer *s)
{
    for (size_t i = 0; i < s->count; i++)
        EVP_MAC_CTX_free(s->keys[i]); /* wipes them */
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

/* ---- The other side ---------------------------------------------------------------------------------- */

/* What each key makes of the request, once: a body is large, and a stranger can write many signatures beside it. */
struct digests {
    unsigned char list[SIGN_KEYS_MAX][SHA256_BYTES];
    size_t count;
};

static void digests_make(const struct signer *s, pr_slice id, pr_slice stamp, pr_slice body, struct digests *ret)
{
    ret->count = 0;
    for (size_t i = 0; i < s->count; i++)
        ret->count += digest_of(s->keys[i], id, stamp, body, ret->list[ret->count]);
}

static bool is_one_of(const struct digests *d, pr_slice signature)
{
    struct buf given;
    bool good = false;
    buf_init(&given, SHA256_BYTES);
    bool is_base64 = base64_decode(&given, signature) == PR_OK;
    for (size_t i = 0; i < d->count && is_base64; i++)
        good |= slice_is_secret((pr_slice){ (const char *)d->list[i], SHA256_BYTES }, buf_slice(&given));
    buf_fini(&given);
    return good;
}

static bool is_by_any(const struct signer *s, pr_slice id, pr_slice stamp, pr_slice body, pr_slice header)
{
    struct digests digests;
    bool good = false;
    digests_make(s, id, stamp, body, &digests);
    for (size_t tries = 0; header.size > 0 && !good && tries < (size_t)SIGN_KEYS_MAX * SIGN_KEYS_MAX; tries++) {
        const char *space = memchr(header.data, ' ', header.size);
        pr_slice one = { header.data, space != NULL ? (size_t)(space - header.data) : header.size };
        header = slice_trim((pr_slice){ header.data + one.size, header.size - one.size });
        if (slice_starts_with(one, PR_STR("v1,"))) /* else: another version's */
            good = is_one_of(&digests, (pr_slice){ one.data + 3, one.size - 3 });
    }
    return good;
}

enum signature_found signer_verify(const struct signer *s, pr_slice id, pr_slice stamp, pr_slice body, pr_slice header,
                                   int64_t now_us, int64_t tolerance_us)
{
    char dotted[32];
    int64_t stamp_s = 0;
    if (stamp.size == 0 || stamp.size > 15 || id.size == 0)
        return SIGNATURE_WRONG;
    for (size_t i = 0; i < stamp.size; i++) {
        if (stamp.data[i] < '0' || stamp.data[i] > '9')
            return SIGNATURE_WRONG;
        stamp_s = stamp_s * 10 + (stamp.data[i] - '0');
    }
    int size = snprintf(dotted, sizeof(dotted), ".%.*s.", (int)stamp.size, stamp.data);
    if (!is_by_any(s, id, (pr_slice){ dotted, (size_t)size }, body, header))
        return SIGNATURE_WRONG;
    int64_t apart_s = stamp_s - now_us / PR_SECONDS(1), most_s = tolerance_us / PR_SECONDS(1);
    return apart_s > most_s || -apart_s > most_s ? SIGNATURE_STALE : SIGNATURE_GOOD;
}
