/* egress_filter.h - the addresses that webhooks may be sent to.
 *
 * A url in a configuration or a name in DNS must not reach internal services: cloud metadata, a local admin port, a
 * printer.  So the address is checked after it was resolved, when the socket is opened.  Public addresses are allowed,
 * all others only if the endpoint's allow_networks contains them. */
#ifndef TRANSPORT_HTTP_EGRESS_FILTER_H
#define TRANSPORT_HTTP_EGRESS_FILTER_H

#include <sys/socket.h>

#include "transport/transport.h"

#define NETGUARD_TEXT_SIZE 64 /* an address as text, with its NUL */

/* "10.0.0.0/8", "fd00::/8", or a single address.  Bits after the prefix must be zero.  Fault PR_EINVAL with what is
 * wrong; *ret is unchanged. */
PR_MUST_CHECK int egress_parse(pr_slice text, struct network *ret, struct pr_error *reterr);

/* Is the address in one of the networks?  An IPv4 network contains no IPv6 addresses, not even IPv4-mapped ones. */
bool egress_contains(const struct network *networks, size_t count, const struct sockaddr *address);

/* Why the address is not public ("loopback"), or NULL if it is. */
const char *egress_special(const struct sockaddr *address);

/* The address without its port. */
void egress_format(const struct sockaddr *address, char ret_text[NETGUARD_TEXT_SIZE]);

#endif
