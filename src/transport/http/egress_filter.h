/* egress_filter.h - which addresses may a webhook go to?
 *
 * A url in a config file or a name in DNS must not reach what is only meant for the inside:
 * cloud metadata, the admin port next door, a printer.  So the address is judged, after it
 * was resolved, by whoever opens the socket.  Public addresses are fine, all others only
 * when the endpoint's allow_networks has them. */
#ifndef TRANSPORT_HTTP_EGRESS_FILTER_H
#define TRANSPORT_HTTP_EGRESS_FILTER_H

#include <sys/socket.h>

#include "transport/transport.h"

#define NETGUARD_TEXT_SIZE 64 /* an address as text, with its NUL */

/* "10.0.0.0/8", "fd00::/8", or a single address.  Bits behind the prefix must be zero.
 * Fault PR_EINVAL with what is wrong; *ret untouched. */
PR_MUST_CHECK int egress_parse(pr_slice text, struct network *ret, struct pr_error *reterr);

/* Is the address in one of the networks?  An IPv4 network has no IPv6 addresses in it, not
 * even those that IPv4 addresses are mapped to. */
bool egress_contains(const struct network *networks, size_t count, const struct sockaddr *address);

/* Why the address is not a public one ("loopback"), or NULL when it is. */
const char *egress_special(const struct sockaddr *address);

/* The address without its port. */
void egress_format(const struct sockaddr *address, char ret_text[NETGUARD_TEXT_SIZE]);

#endif
