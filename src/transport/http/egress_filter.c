#include "transport/http/egress_filter.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

/* Non-public networks, from the IANA registries of special-purpose addresses.  The first match gives the word. */
static const struct special {
    uint8_t address[16];
    unsigned prefix;
    bool v6;
    const char *name;
} specials[] = {
    { { 0 }, 8, false, "this network" },
    { { 10 }, 8, false, "private" },
    { { 100, 64 }, 10, false, "carrier-grade NAT" },
    { { 127 }, 8, false, "loopback" },
    { { 169, 254 }, 16, false, "link-local" },
    { { 172, 16 }, 12, false, "private" },
    { { 192, 0, 0 }, 24, false, "protocol assignments" },
    { { 192, 0, 2 }, 24, false, "documentation" },
    { { 192, 88, 99 }, 24, false, "6to4 relay" },
    { { 192, 168 }, 16, false, "private" },
    { { 198, 18 }, 15, false, "benchmarking" },
    { { 198, 51, 100 }, 24, false, "documentation" },
    { { 203, 0, 113 }, 24, false, "documentation" },
    { { 224 }, 4, false, "multicast" },
    { { 255, 255, 255, 255 }, 32, false, "broadcast" },
    { { 240 }, 4, false, "reserved" },

    { { 0 }, 128, true, "unspecified" },
    { { [15] = 1 }, 128, true, "loopback" },
    { { 0 }, 96, true, "IPv4-compatible" },
    { { [10] = 0xff, [11] = 0xff }, 96, true, "IPv4-mapped" },
    { { [8] = 0xff, [9] = 0xff }, 96, true, "IPv4-translated" },
    { { 0x00, 0x64, 0xff, 0x9b }, 96, true, "NAT64" },
    { { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, true, "NAT64" },
    { { 0x01, 0x00 }, 64, true, "discard-only" },
    { { 0x20, 0x01, 0x00, 0x00 }, 32, true, "Teredo" },
    { { 0x20, 0x01, 0x00, 0x02 }, 48, true, "benchmarking" },
    { { 0x20, 0x01, 0x00 }, 23, true, "protocol assignments" },
    { { 0x20, 0x01, 0x0d, 0xb8 }, 32, true, "documentation" },
    { { 0x20, 0x02 }, 16, true, "6to4" },
    { { 0x3f, 0xff, 0x00 }, 20, true, "documentation" },
    { { 0xfc }, 7, true, "private" },
    { { 0xfe, 0x80 }, 10, true, "link-local" },
    { { 0xfe, 0xc0 }, 10, true, "site-local" },
    { { 0xff }, 8, true, "multicast" },
};

/* All public IPv6 addresses are in 2000::/3, except the ones above. */
static const uint8_t global_unicast[16] = { 0x20 };

static bool prefix_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned bytes = bits / 8, rest = bits % 8;
    if (memcmp(a, b, bytes) != 0)
        return false;
    uint8_t mask = (uint8_t)(0xff00u >> rest);
    return rest == 0 || ((a[bytes] ^ b[bytes]) & mask) == 0;
}

/* The bytes of an internet address, or NULL for another family. */
static const uint8_t *address_bytes(const struct sockaddr *address, bool *ret_v6)
{
    *ret_v6 = address->sa_family == AF_INET6;
    if (address->sa_family == AF_INET)
        return (const uint8_t *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
    if (address->sa_family == AF_INET6)
        return ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr;
    return NULL;
}

bool egress_contains(const struct network *networks, size_t count, const struct sockaddr *address)
{
    bool v6;
    const uint8_t *bytes = address_bytes(address, &v6);
    if (bytes == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (networks[i].v6 == v6 && prefix_equal(networks[i].address, bytes, networks[i].prefix))
            return true;
    return false;
}

const char *egress_special(const struct sockaddr *address)
{
    bool v6;
    const uint8_t *bytes = address_bytes(address, &v6);
    if (bytes == NULL)
        return "not an internet address";
    for (size_t i = 0; i < ARRAY_LENGTH(specials); i++)
        if (specials[i].v6 == v6 && prefix_equal(specials[i].address, bytes, specials[i].prefix))
            return specials[i].name;
    if (v6 && !prefix_equal(global_unicast, bytes, 3))
        return "not assigned to the public";
    return NULL;
}

void egress_format(const struct sockaddr *address, char ret_text[NETGUARD_TEXT_SIZE])
{
    bool v6;
    const uint8_t *bytes = address_bytes(address, &v6);
    if (bytes == NULL || inet_ntop(v6 ? AF_INET6 : AF_INET, bytes, ret_text, NETGUARD_TEXT_SIZE) == NULL)
        snprintf(ret_text, NETGUARD_TEXT_SIZE, "address of family %d", address->sa_family);
}

/* "0" to "128", at most max. */
static bool parse_prefix(pr_slice text, unsigned max, unsigned *ret)
{
    unsigned value = 0;
    if (text.size == 0 || text.size > 3 || (text.size > 1 && text.data[0] == '0'))
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text.data[i] - '0');
    }
    *ret = value;
    return value <= max;
}

static void clear_host_bits(struct network *n)
{
    for (unsigned i = 0; i < sizeof(n->address); i++) {
        unsigned keep = i * 8 >= n->prefix ? 0 : n->prefix - i * 8;
        if (keep < 8)
            n->address[i] &= (uint8_t)(0xff00u >> keep);
    }
}

int egress_parse(pr_slice text, struct network *ret, struct pr_error *reterr)
{
    const char *slash = text.size > 0 ? memchr(text.data, '/', text.size) : NULL;
    size_t size = slash != NULL ? (size_t)(slash - text.data) : text.size;
    char address[NETGUARD_TEXT_SIZE];
    struct network network = { .v6 = text.size > 0 && memchr(text.data, ':', size) != NULL };
    unsigned bits = network.v6 ? 128 : 32;

    if (size >= sizeof(address) || size == 0 || memchr(text.data, '\0', size) != NULL)
        return error_set(reterr, PR_EINVAL, "not a network such as 10.0.0.0/8 or fd00::/8");
    memcpy(address, text.data, size);
    address[size] = '\0';
    if (inet_pton(network.v6 ? AF_INET6 : AF_INET, address, network.address) != 1)
        return error_set(reterr, PR_EINVAL, "\"%s\" is not an address: write a network such as 10.0.0.0/8 or fd00::/8",
                         address);
    network.prefix = bits;
    if (slash != NULL && !parse_prefix((pr_slice){ slash + 1, text.size - size - 1 }, bits, &network.prefix))
        return error_set(reterr, PR_EINVAL, "the prefix of %s must be a number from 0 to %u", address, bits);

    struct network clean = network;
    clear_host_bits(&clean);
    if (memcmp(clean.address, network.address, sizeof(clean.address)) != 0) {
        char right[NETGUARD_TEXT_SIZE];
        inet_ntop(network.v6 ? AF_INET6 : AF_INET, clean.address, right, sizeof(right));
        return error_set(reterr, PR_EINVAL, "%s/%u has bits after its prefix: did you mean %s/%u, or %s alone?",
                         address, network.prefix, right, network.prefix, address);
    }
    *ret = network;
    return PR_OK;
}
