/* address.h - listen addresses: "127.0.0.1:8026", "[::1]:0", "localhost:8026", "unix:/run/postrider.sock". */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <netinet/in.h>
#include <postrider.h>
#include <sys/socket.h>
#include <sys/un.h>

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un path;
    };
    socklen_t size;
    bool local; /* loopback or a Unix socket: not reachable from other machines */
};

/* key is the configuration key: error texts begin with it.  Fault PR_ECONFIG. */
PR_MUST_CHECK int address_parse(const char *key, const char *text, struct address *ret, struct pr_error *reterr);
/* Open a non-blocking listening socket; *ret_port is 0 for a Unix socket.  Fault PR_EIO. */
PR_MUST_CHECK int address_listen(const char *key, const char *text, const struct address *address, int backlog,
                                 int *ret_fd, unsigned *ret_port, struct pr_error *reterr);

#endif
