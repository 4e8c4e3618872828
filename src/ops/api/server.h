/* server.h - HTTP: the API on http.listen.
 *
 * A thread per connection (a question to the store may take a while, and must not delay others), few connections, short
 * timeouts, a limit on every size.  gate.h decides whether a connection gets a thread, authz.h whether a request is
 * allowed, and route.h finds its function. */
#ifndef OPS_API_SERVER_H
#define OPS_API_SERVER_H

#include "runtime/runtime.h"

struct server;

PR_MUST_CHECK int http_server_start(struct runtime *rt, const struct config *config, struct log *log,
                                    struct server **ret, struct pr_error *reterr);
/* Another configuration with the same http.listen applies from now on. */
PR_MUST_CHECK int server_retune(struct server *s, const struct config *config, struct pr_error *reterr);
void http_server_stop(struct server *s);
unsigned server_port(const struct server *s);

#endif
