/* host.h - is a host this machine?  Decided by its address, never by a prefix of its name: 127.evil.example is a
 * foreign host. */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <postrider.h>

/* True for "localhost", 127.0.0.0/8, ::1 with or without brackets, and 127.0.0.0/8 as IPv4-mapped IPv6 addresses. */
bool host_is_loopback(pr_slice host);

#endif
