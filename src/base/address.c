#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define PORT_MAX 65535
#define UNIX_PREFIX "unix:"
#define UNIX_UMASK 0177 /* owner only; directories and groups decide who else gets access */

static int refused(const char *key, const char *text, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "%s: \"%s\" is not an address and port; use a value such as 127.0.0.1:8026",
                     key, text);
}

static bool parse_port(const char *text, uint16_t *ret_port)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || port > PORT_MAX)
        return false;
    *ret_port = (uint16_t)port;
    return true;
}

static int parse_path(const char *key, const char *text, struct address *ret, struct pr_error *reterr)
{
    const char *path = text + strlen(UNIX_PREFIX);
    if (path[0] == '\0' || strlen(path) >= sizeof ret->path.sun_path)
        return error_set(reterr, PR_ECONFIG, "%s: the socket path is missing or longer than %zu bytes", key,
                         sizeof ret->path.sun_path - 1);
    ret->path.sun_family = AF_UNIX;
    memcpy(ret->path.sun_path, path, strlen(path) + 1);
    ret->size = sizeof ret->path;
    ret->local = true;
    return PR_OK;
}

static int parse_v6(const char *key, const char *text, char *host, uint16_t port, struct address *ret,
                    struct pr_error *reterr)
{
    host[strlen(host) - 1] = '\0';
    ret->v6.sin6_family = AF_INET6;
    ret->v6.sin6_port = htons(port);
    if (inet_pton(AF_INET6, host + 1, &ret->v6.sin6_addr) != 1)
        return refused(key, text, reterr);
    ret->size = sizeof ret->v6;
    ret->local = IN6_IS_ADDR_LOOPBACK(&ret->v6.sin6_addr);
    return PR_OK;
}

int address_parse(const char *key, const char *text, struct address *ret, struct pr_error *reterr)
{
    char host[INET6_ADDRSTRLEN + 2]; /* with brackets */
    const char *colon = strrchr(text, ':');
    uint16_t port;

    memset(ret, 0, sizeof *ret);
    if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        return parse_path(key, text, ret, reterr);
    if (colon == NULL || (size_t)(colon - text) >= sizeof host || !parse_port(colon + 1, &port))
        return refused(key, text, reterr);
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    size_t length = strlen(host);
    if (length > 2 && host[0] == '[' && host[length - 1] == ']')
        return parse_v6(key, text, host, port, ret, reterr);
    ret->v4.sin_family = AF_INET;
    ret->v4.sin_port = htons(port);
    if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &ret->v4.sin_addr) != 1)
        return refused(key, text, reterr);
    ret->size = sizeof ret->v4;
    ret->local = ntohl(ret->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return PR_OK;
}

/* Remove a socket file on which nothing listens: a process that died left it behind. */
static void remove_left_behind(const struct address *address)
{
    struct stat info;
    if (lstat(address->path.sun_path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, &address->any, address->size) < 0 && errno == ECONNREFUSED)
        unlink(address->path.sun_path);
    close(fd);
}

static int bind_it(int fd, const struct address *address)
{
    if (address->any.sa_family != AF_UNIX)
        return bind(fd, &address->any, address->size);
    remove_left_behind(address);
    int rc = bind(fd, &address->any, address->size);
    return rc == 0 ? chmod(address->path.sun_path, 0777 & ~UNIX_UMASK) : rc;
}

int address_listen(const char *key, const char *text, const struct address *address, int backlog, int *ret_fd,
                   unsigned *ret_port, struct pr_error *reterr)
{
    int one = 1;
    struct address bound = { .size = 0 };
    socklen_t bound_size = sizeof bound.path;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 || bind_it(fd, address) < 0 ||
        listen(fd, backlog) < 0 || getsockname(fd, &bound.any, &bound_size) < 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return error_set(reterr, PR_EIO, "%s: %s: %s; is another instance running?", key, text, strerror(error));
    }
    *ret_fd = fd;
    *ret_port = bound.any.sa_family == AF_INET    ? ntohs(bound.v4.sin_port)
                : bound.any.sa_family == AF_INET6 ? ntohs(bound.v6.sin6_port)
                                                  : 0;
    return PR_OK;
}
