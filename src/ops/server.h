/* server.h - HTTP: the operators' plane on http.listen.
 *
 * A thread per connection (a question to the store may take a while, and must not hold up the others), few
 * connections, short timeouts, a limit on every size.  What may come in decides guard.h, what it is route.h. */
#ifndef OPS_SERVER_H
#define OPS_SERVER_H

#include "runtime/runtime.h"

/* For runtime_options. */
extern const struct runtime_front ops_front;

#endif
