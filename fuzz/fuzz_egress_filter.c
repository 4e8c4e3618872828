/* Networks in the configuration, and addresses that are compared with them. */
#include <netinet/in.h>

#include "transport/http/egress_filter.h"

#include "fuzz.h"

static void judge(const struct network *network, const struct sockaddr *address)
{
    char text[NETGUARD_TEXT_SIZE];
    egress_format(address, text);
    FUZZ_CHECK(memchr(text, '\0', sizeof text) != NULL);
    (void)egress_special(address);
    if (network->prefix == 0 && network->v6 == (address->sa_family == AF_INET6))
        FUZZ_CHECK(egress_contains(network, 1, address));
    (void)egress_contains(network, 1, address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    pr_slice text = input_line(&in), rest = input_rest(&in);
    struct network network = { .prefix = 0 };
    struct pr_error error = { 0 };
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    if (egress_parse(text, &network, &error) != PR_OK)
        FUZZ_CHECK(error.text[0] != '\0' && network.prefix == 0);
    else
        FUZZ_CHECK(network.prefix <= (network.v6 ? 128u : 32u));
    if (rest.size >= sizeof v4.sin_addr)
        memcpy(&v4.sin_addr, rest.data, sizeof v4.sin_addr);
    if (rest.size >= sizeof v6.sin6_addr)
        memcpy(&v6.sin6_addr, rest.data, sizeof v6.sin6_addr);
    judge(&network, (const struct sockaddr *)&v4);
    judge(&network, (const struct sockaddr *)&v6);
    return 0;
}
