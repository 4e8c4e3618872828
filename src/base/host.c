#include "base/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

bool host_is_loopback(pr_slice host)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    struct in6_addr v6;
    if (host.size >= 2 && host.data[0] == '[' && host.data[host.size - 1] == ']')
        host = (pr_slice){ host.data + 1, host.size - 2 };
    if (host.size == 0 || host.size >= sizeof text || memchr(host.data, '\0', host.size) != NULL)
        return false;
    memcpy(text, host.data, host.size);
    text[host.size] = '\0';
    if (inet_pton(AF_INET, text, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, text, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
    return strcasecmp(text, "localhost") == 0;
}
