#include "core/id.h"

#include <openssl/evp.h>
#include <string.h>
#include <pthread.h>
#include <time.h>

#include "base/error.h"
#include "base/random.h"

void id_make(int64_t unix_ms, const uint8_t random[10], pr_id *ret_id)
{
    uint8_t *b = ret_id->bytes;

    for (int i = 0; i < 6; i++)
        b[i] = (uint8_t)(unix_ms >> (40 - 8 * i));
    memcpy(b + 6, random, 10);
    b[6] = (uint8_t)(0x70 | (b[6] & 0x0f)); /* version 7 */
    b[8] = (uint8_t)(0x80 | (b[8] & 0x3f)); /* the RFC's variant */
}

/* The first 16 bytes of the digest of three parts, as a UUID of this version. */
static void digest_id(const EVP_MD *kind, const pr_slice parts[3], unsigned version, pr_id *ret_id)
{
    uint8_t hash[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = context != NULL && EVP_DigestInit_ex(context, kind, NULL) == 1;

    for (int i = 0; done && i < 3; i++)
        done = EVP_DigestUpdate(context, parts[i].data, parts[i].size) == 1;
    /* fails only without memory, or without this digest */
    ASSERT(done && EVP_DigestFinal_ex(context, hash, NULL) == 1);
    EVP_MD_CTX_free(context);
    memcpy(ret_id->bytes, hash, sizeof(ret_id->bytes));
    ret_id->bytes[6] = (uint8_t)(version << 4 | (hash[6] & 0x0f));
    ret_id->bytes[8] = (uint8_t)(0x80 | (hash[8] & 0x3f)); /* the RFC's variant */
}

void id_from_name(pr_id space, pr_slice name, pr_id *ret_id)
{
    const pr_slice parts[3] = { { (const char *)space.bytes, sizeof(space.bytes) }, name, { NULL, 0 } };
    digest_id(EVP_sha1(), parts, 5, ret_id);
}

void id_from_event(pr_slice source, pr_slice id, pr_id *ret_id)
{
    const pr_slice parts[3] = { source, { "\n", 1 }, id };
    digest_id(EVP_sha256(), parts, 8, ret_id);
}

void id_from_position(pr_slice source, pr_slice position, pr_id *ret_id)
{
    const pr_slice parts[3] = { source, { "\0", 1 }, position };
    digest_id(EVP_sha256(), parts, 8, ret_id);
}

/* Random bytes are fetched in blocks: one system call per id would cost more than the id. */
static void take_random(uint8_t ret[10])
{
    static _Thread_local uint8_t pool[1000];
    static _Thread_local size_t left;

    if (left < 10) {
        int rc = random_bytes_os(pool, sizeof(pool));
        ASSERT(rc == 0); /* without randomness ids could repeat, so the process must not continue */
        left = sizeof(pool);
    }
    left -= 10;
    memcpy(ret, pool + left, 10);
    memset(pool + left, 0, 10);
}

/* The ids of one process ascend also within a millisecond: the 12 bits behind the version are a counter. */
PR_API void pr_id_new(pr_id *ret_id)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int64_t last_ms;
    static unsigned counter;
    struct timespec now;
    uint8_t random[10];

    take_random(random);
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;

    pthread_mutex_lock(&lock);
    if (ms > last_ms) {
        last_ms = ms;
        counter = (unsigned)(random[0] << 8 | random[1]) & 0x3ff; /* leave room to count upwards */
    } else if (++counter > 0xfff) {
        last_ms++;
        counter = 0;
    }
    ms = last_ms;
    random[0] = (uint8_t)(counter >> 8);
    random[1] = (uint8_t)counter;
    pthread_mutex_unlock(&lock);

    id_make(ms, random, ret_id);
}

PR_API void pr_id_format(pr_id id, char ret_text[PR_ID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    char *p = ret_text;

    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = digits[id.bytes[i] >> 4];
        *p++ = digits[id.bytes[i] & 15];
    }
    *p = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

PR_API int pr_id_parse(pr_slice text, pr_id *ret_id)
{
    pr_id id;
    size_t at = 0;

    if (text.size != PR_ID_TEXT_SIZE - 1)
        return PR_EINVAL;
    for (int i = 0; i < 16; i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && text.data[at++] != '-')
            return PR_EINVAL;
        int high = hex_digit(text.data[at++]);
        int low = hex_digit(text.data[at++]);
        if (high < 0 || low < 0)
            return PR_EINVAL;
        id.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *ret_id = id;
    return PR_OK;
}

int id_from_stored(pr_slice stored, pr_id *ret_id)
{
    if (stored.size == sizeof(ret_id->bytes)) {
        memcpy(ret_id->bytes, stored.data, sizeof(ret_id->bytes));
        return PR_OK;
    }
    return pr_id_parse(stored, ret_id);
}

PR_API bool pr_id_is_zero(pr_id id)
{
    return pr_id_equal(id, (pr_id){ { 0 } });
}

PR_API bool pr_id_equal(pr_id a, pr_id b)
{
    return memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}
