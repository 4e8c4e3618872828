/* health.h - two pages for whoever watches the process: is it alive, is it ready?
 *
 *     GET /health/live    200 or 503   the loops go round
 *     GET /health/ready   200 or 503   the store is reachable and its schema is ours; 200 and "warn" when a source is
 *                                      in trouble
 *
 * Only loopback addresses: what is open to others needs tokens. */
#ifndef RUNTIME_HEALTH_H
#define RUNTIME_HEALTH_H

#include "base/log.h"

struct health_options {
    const char *listen; /* "127.0.0.1:8026", "[::1]:0", "localhost:8026" */
    struct log *log;
    int  (*is_live)(void *arg, struct pr_error *reterr);
    int  (*is_ready)(void *arg, struct pr_error *reterr);
    void *arg;
};

struct health;

/* Is it an address that we would listen on?  Fault PR_ECONFIG. */
PR_MUST_CHECK int health_check(const char *listen, struct pr_error *reterr);

/* Fault PR_ECONFIG, PR_EIO, PR_ENOMEM. */
PR_MUST_CHECK int health_start(const struct health_options *options, struct health **ret_health,
                               struct pr_error *reterr);
void     health_stop(struct health *health); /* NULL is fine */
unsigned health_port(const struct health *health);

#endif
