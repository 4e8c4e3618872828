#include "transport/broker/nats_creds.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define SEED_BYTES 36 /* a prefix of 2, the key of 32, a checksum of 2 */
#define KEY_BYTES 32
#define SIGNATURE_BYTES 64
#define PREFIX_SEED (18 << 3) /* 'S' */

/* ---- A seed ------------------------------------------------------------------------------------------- */

/* RFC 4648 base32 without padding; returns the number of bytes, 0: invalid. */
static size_t base32_decode(pr_slice text, uint8_t *ret, size_t max)
{
    uint32_t bits = 0;
    unsigned held = 0;
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        int value = c >= 'A' && c <= 'Z' ? c - 'A' : c >= '2' && c <= '7' ? c - '2' + 26 : -1;
        if (value < 0)
            return 0;
        bits = bits << 5 | (uint32_t)value;
        held += 5;
        if (held < 8)
            continue;
        if (size == max)
            return 0;
        held -= 8;
        ret[size++] = (uint8_t)(bits >> held);
    }
    return size;
}

/* CRC-16 of XMODEM, as in nkeys. */
static uint16_t checksum(const uint8_t *data, size_t size)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc = (uint16_t)(crc ^ (uint16_t)(data[i] << 8));
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

static bool is_seed(const uint8_t raw[SEED_BYTES], size_t size)
{
    return size == SEED_BYTES && (raw[0] & 0xf8) == PREFIX_SEED &&
           checksum(raw, SEED_BYTES - 2) == (uint16_t)(raw[SEED_BYTES - 2] | raw[SEED_BYTES - 1] << 8);
}

static bool sign(const uint8_t *key, pr_slice text, uint8_t ret[SIGNATURE_BYTES])
{
    size_t size = SIGNATURE_BYTES;
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, key, KEY_BYTES);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = pkey != NULL && context != NULL && EVP_DigestSignInit(context, NULL, NULL, NULL, pkey) == 1 &&
                EVP_DigestSign(context, ret, &size, (const unsigned char *)text.data, text.size) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(pkey);
    return good;
}

/* base64url without padding. */
static void put_signature(struct buf *b, const uint8_t signature[SIGNATURE_BYTES])
{
    size_t begin = b->size;
    base64_encode(b, (pr_slice){ (const char *)signature, SIGNATURE_BYTES });
    if (buf_failed(b) != 0)
        return;
    while (b->size > begin && b->data[b->size - 1] == '=')
        buf_truncate(b, b->size - 1);
    for (size_t i = begin; i < b->size; i++)
        b->data[i] = b->data[i] == '+' ? '-' : b->data[i] == '/' ? '_' : b->data[i];
}

int nats_seed_sign(pr_slice seed, pr_slice nonce, struct buf *ret, struct pr_error *reterr)
{
    uint8_t raw[SEED_BYTES], signature[SIGNATURE_BYTES];
    int rc = PR_OK;
    if (!is_seed(raw, base32_decode(seed, raw, sizeof(raw))))
        rc = error_set(reterr, PR_EINVAL, "its seed is damaged");
    else if (!sign(raw + 2, nonce, signature))
        rc = error_set(reterr, PR_EINVAL, "its seed cannot sign");
    else
        put_signature(ret, signature);
    OPENSSL_cleanse(raw, sizeof(raw));
    return rc != PR_OK ? rc : buf_failed(ret);
}

/* ---- A file -------------------------------------------------------------------------------------------- */

/* The line after "-----BEGIN ... WHAT-----". */
static pr_slice find_part(pr_slice text, const char *what)
{
    bool inside = false;
    while (text.size > 0) {
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end != NULL ? (size_t)(end - text.data) + 1 : text.size;
        pr_slice line = slice_trim((pr_slice){ text.data, size });
        text = (pr_slice){ text.data + size, text.size - size };
        if (inside && line.size > 0)
            return line;
        inside = inside || (slice_starts_with(line, PR_STR("-----BEGIN")) && slice_contains(line, pr_str(what)));
    }
    return PR_STR("");
}

static int read_file(const char *file, char *ret, size_t max, size_t *ret_size, struct pr_error *reterr)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = 1;
    *ret_size = 0;
    while (fd >= 0 && got > 0 && *ret_size < max) {
        got = read(fd, ret + *ret_size, max - *ret_size);
        *ret_size += got > 0 ? (size_t)got : 0;
    }
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (fd < 0 || got < 0)
        return error_set(reterr, PR_EINVAL, "%s cannot be read: %s", file, strerror(error));
    return *ret_size < max ? PR_OK : error_set(reterr, PR_EINVAL, "%s is larger than %zu bytes", file, max);
}

int nats_creds_sign(const char *file, pr_slice nonce, struct buf *ret_jwt, struct buf *ret_signature,
                    struct pr_error *reterr)
{
    char text[NATS_CREDS_MAX];
    size_t size;
    int rc = read_file(file, text, sizeof(text), &size, reterr);
    pr_slice all = { text, rc == PR_OK ? size : 0 };
    pr_slice jwt = find_part(all, "JWT"), seed = find_part(all, "SEED");
    if (rc == PR_OK && (jwt.size == 0 || seed.size == 0))
        rc = error_set(reterr, PR_EINVAL, "%s has no %s", file, jwt.size == 0 ? "JWT" : "seed");
    if (rc == PR_OK) {
        buf_add_slice(ret_jwt, jwt);
        rc = buf_failed(ret_jwt) != 0 ? buf_failed(ret_jwt) : nats_seed_sign(seed, nonce, ret_signature, reterr);
    }
    OPENSSL_cleanse(text, sizeof(text));
    return rc;
}
