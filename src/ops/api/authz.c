#include "ops/api/authz.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/slice.h"

#define HOST_MAX 253 /* bytes of a name */

static bool is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    size_t length = strlen(host);
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        char inside[HOST_MAX + 1];
        memcpy(inside, host + 1, length - 2);
        inside[length - 2] = '\0';
        return inet_pton(AF_INET6, inside, bytes) == 1;
    }
    return inet_pton(AF_INET, host, bytes) == 1;
}

bool authz_host_is_known(const struct authz *authz, const char *host)
{
    char name[HOST_MAX + 1];
    if (authz->by_file || host == NULL) /* every browser sends one; probes with HTTP/1.0 may not */
        return true;
    const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    size_t length = colon != NULL && (bracket == NULL || colon > bracket) ? (size_t)(colon - host) : strlen(host);
    if (length == 0 || length > HOST_MAX ||
        (host[length] == ':' && strspn(host + length + 1, "0123456789") != strlen(host + length + 1)))
        return false;
    memcpy(name, host, length);
    name[length] = '\0';
    if (strcasecmp(name, "localhost") == 0 || is_address(name))
        return true;
    for (size_t i = 0; i < authz->host_count; i++)
        if (strcasecmp(name, authz->hosts[i]) == 0)
            return true;
    return false;
}

bool authz_is_cross_site(const char *fetch_site, const char *origin, const char *host)
{
    if (fetch_site != NULL && strcasecmp(fetch_site, "same-origin") != 0 && strcasecmp(fetch_site, "none") != 0)
        return true; /* same-site includes another port of this machine */
    if (origin == NULL)
        return false;
    const char *authority = strstr(origin, "://");
    return authority == NULL || host == NULL || strcasecmp(authority + 3, host) != 0; /* "null" has no host */
}

enum role authz_role(const struct authz *authz, const char *authorization)
{
    if (authz->token[0] == '\0' && authz->viewer_token[0] == '\0')
        return ROLE_OPERATOR;
    if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
        return ROLE_NONE;
    pr_slice given = slice_trim(slice_from(authorization + 7));
    bool operates = slice_is_secret(slice_from(authz->token), given);
    bool views = slice_is_secret(slice_from(authz->viewer_token), given);
    return operates ? ROLE_OPERATOR : views ? ROLE_VIEWER : ROLE_NONE;
}
