#include "core/fingerprint.h"

#include <stdio.h>

#include "base/hash.h"

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
}

/* Hash the text without the parts that vary from case to case: a word with a digit in it (numbers, ids, addresses)
 * counts as '#', and so does quoted text. */
static uint64_t hash_normalised(uint64_t hash, pr_slice text)
{
    size_t i = 0;
    while (i < text.size) {
        char c = text.data[i];
        size_t start = i;
        bool varies = false;

        if (c == '"' || c == '\'' || c == '`') {
            size_t close = i + 1;
            while (close < text.size && text.data[close] != c)
                close++;
            varies = close < text.size;
            i = varies ? close + 1 : i + 1;
        } else if (is_word(c)) {
            for (; i < text.size && is_word(text.data[i]); i++)
                varies = varies || (text.data[i] >= '0' && text.data[i] <= '9');
        } else {
            i++;
        }
        hash = varies ? hash_bytes(hash, "#", 1) : hash_bytes(hash, text.data + start, i - start);
    }
    return hash;
}

void fingerprint(pr_slice endpoint, pr_slice type, int reason, pr_slice error, char ret[FINGERPRINT_SIZE])
{
    uint64_t hash = hash_slice(0, endpoint);
    hash = hash_slice(hash, type);
    hash = hash_u64(hash + (uint64_t)reason);
    hash = hash_normalised(hash, error);
    snprintf(ret, FINGERPRINT_SIZE, "%016llx", (unsigned long long)hash);
}

bool fingerprint_is_valid(pr_slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
    }
    return text.size == FINGERPRINT_SIZE - 1;
}
