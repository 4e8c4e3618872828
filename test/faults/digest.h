/* digest.h - FNV-1a: sufficient to compare bytes, and independent of the library. */
#ifndef TEST_FAULTS_DIGEST_H
#define TEST_FAULTS_DIGEST_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t digest(const void *data, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
