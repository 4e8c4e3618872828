/* Which addresses a webhook may go to: the tables, without a socket. */
#include "transport/http/egress_filter.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "base/slice.h"
#include "base/util.h"
#include "check.h"

static void parse_address(const char *text, struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
    memset(ret, 0, sizeof(*ret));
    ret->ss_family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
    CHECK_EQ(
        inet_pton(ret->ss_family, text, ret->ss_family == AF_INET6 ? (void *)&v6->sin6_addr : (void *)&v4->sin_addr),
        1);
}

static const char *special(const char *text)
{
    struct sockaddr_storage address;
    parse_address(text, &address);
    return egress_special((struct sockaddr *)&address);
}

static bool contains(const char *network, const char *text)
{
    struct sockaddr_storage address;
    struct network parsed;
    struct pr_error error;
    CHECK_OK(egress_parse(slice_from(network), &parsed, &error), &error);
    parse_address(text, &address);
    return egress_contains(&parsed, 1, (struct sockaddr *)&address);
}

/* The first and the last address of each range, and its neighbours. */
TEST(egress_denies_what_is_not_public)
{
    static const struct {
        const char *address, *why;
    } table[] = {
        { "0.0.0.0", "this network" },
        { "0.255.255.255", "this network" },
        { "10.0.0.0", "private" },
        { "10.255.255.255", "private" },
        { "100.64.0.0", "carrier-grade NAT" },
        { "100.127.255.255", "carrier-grade NAT" },
        { "127.0.0.1", "loopback" },
        { "127.255.255.255", "loopback" },
        { "169.254.169.254", "link-local" },
        { "169.254.0.0", "link-local" },
        { "172.16.0.0", "private" },
        { "172.31.255.255", "private" },
        { "192.0.0.8", "protocol assignments" },
        { "192.0.2.1", "documentation" },
        { "192.88.99.1", "6to4 relay" },
        { "192.168.0.0", "private" },
        { "192.168.255.255", "private" },
        { "198.18.0.0", "benchmarking" },
        { "198.19.255.255", "benchmarking" },
        { "198.51.100.7", "documentation" },
        { "203.0.113.7", "documentation" },
        { "224.0.0.1", "multicast" },
        { "239.255.255.255", "multicast" },
        { "240.0.0.1", "reserved" },
        { "255.255.255.255", "broadcast" },
        { "::", "unspecified" },
        { "::1", "loopback" },
        { "::7f00:1", "IPv4-compatible" },
        { "::ffff:127.0.0.1", "IPv4-mapped" },
        { "::ffff:8.8.8.8", "IPv4-mapped" },
        { "::ffff:0:127.0.0.1", "IPv4-translated" },
        { "64:ff9b::7f00:1", "NAT64" },
        { "64:ff9b:1::a00:1", "NAT64" },
        { "100::1", "discard-only" },
        { "2001::1", "Teredo" },
        { "2001:2::1", "benchmarking" },
        { "2001:1ff::1", "protocol assignments" },
        { "2001:db8::1", "documentation" },
        { "2002:7f00:1::", "6to4" },
        { "3fff::1", "documentation" },
        { "3fff:fff::1", "documentation" },
        { "fc00::1", "private" },
        { "fdff::1", "private" },
        { "fe80::1", "link-local" },
        { "febf::1", "link-local" },
        { "fec0::1", "site-local" },
        { "ff02::1", "multicast" },
        { "5f00::1", "not assigned to the public" },
        { "1::1", "not assigned to the public" },
        { "4000::1", "not assigned to the public" },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++)
        CHECK_STR(special(table[i].address), table[i].why);
}

TEST(egress_lets_the_public_pass)
{
    static const char *const addresses[] = {
        "1.1.1.1",         "8.8.8.8",     "9.255.255.255",   "11.0.0.0",    "100.63.255.255",       "100.128.0.0",
        "126.255.255.255", "128.0.0.0",   "169.253.255.255", "169.255.0.0", "172.15.255.255",       "172.32.0.0",
        "192.0.1.0",       "192.0.3.0",   "192.167.255.255", "192.169.0.0", "198.17.255.255",       "198.20.0.0",
        "203.0.112.255",   "203.0.114.0", "223.255.255.255", "2001:200::1", "2001:4860:4860::8888", "2001:db7::1",
        "2001:db9::1",     "2003::1",     "2606:4700::1111", "3ffe::1",     "3fff:1000::1",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(addresses); i++)
        CHECK_STR(special(addresses[i]), NULL);
}

TEST(egress_denies_what_is_no_internet_address)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char text[NETGUARD_TEXT_SIZE];
    struct network everything = { .prefix = 0 };
    CHECK(egress_special((struct sockaddr *)&address) != NULL);
    CHECK(!egress_contains(&everything, 1, (struct sockaddr *)&address));
    egress_format((struct sockaddr *)&address, text);
    CHECK(text[0] != '\0');
}

TEST(egress_finds_addresses_in_networks)
{
    CHECK(contains("127.0.0.0/8", "127.1.2.3"));
    CHECK(!contains("127.0.0.0/8", "128.0.0.0"));
    CHECK(contains("10.1.2.3", "10.1.2.3"));
    CHECK(!contains("10.1.2.3", "10.1.2.4"));
    CHECK(contains("10.0.0.0/31", "10.0.0.1"));
    CHECK(!contains("10.0.0.0/31", "10.0.0.2"));
    CHECK(contains("0.0.0.0/0", "255.255.255.255"));
    CHECK(contains("172.16.0.0/12", "172.31.0.1"));
    CHECK(!contains("172.16.0.0/12", "172.32.0.1"));
    CHECK(contains("fd00::/8", "fdff::1"));
    CHECK(contains("::1", "::1"));
    CHECK(!contains("::1", "::2"));
    CHECK(contains("::/0", "fe80::1"));
    /* One family never stands for the other. */
    CHECK(!contains("0.0.0.0/0", "::1"));
    CHECK(!contains("::/0", "127.0.0.1"));
    CHECK(!contains("127.0.0.0/8", "::ffff:127.0.0.1"));
    CHECK(contains("::ffff:0:0/96", "::ffff:127.0.0.1"));
}

TEST(egress_refuses_networks_that_are_wrong)
{
    static const char *const texts[] = {
        "",
        "/",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/08",
        "10.0.0.0/8x",
        "10.0.0.0/8/8",
        "10.0.0/8",
        "10.0.0.0.0/8",
        "256.0.0.0/8",
        "localhost",
        "10.0.0.1/8",
        "fd00::1/8",
        "fd00::/129",
        "fd00:::/8",
        "::1%lo",
        " 10.0.0.0/8",
        "10.0.0.0/4294967304",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    };
    struct network untouched = { .prefix = 99 };
    struct pr_error error;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        error = (struct pr_error){ 0 };
        CHECK_EQ(egress_parse(slice_from(texts[i]), &untouched, &error), PR_EINVAL);
        CHECK(error.text[0] != '\0');
    }
    CHECK_EQ(egress_parse(PR_STR("10.0.0.0\0/8"), &untouched, &error), PR_EINVAL);
    CHECK_EQ(untouched.prefix, 99);
    CHECK_EQ(egress_parse(PR_STR("10.0.0.1/8"), &untouched, &error), PR_EINVAL);
    CHECK(strstr(error.text, "10.0.0.0/8") != NULL); /* says what may have been meant */
}
