/* host.h - is it this machine?  Judged by its address, never by how its name begins: 127.evil.example is far away. */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <postrider.h>

/* "localhost", 127.0.0.0/8, ::1 with or without brackets, and 127.0.0.0/8 as IPv6 says it. */
bool host_is_loopback(pr_slice host);

#endif
