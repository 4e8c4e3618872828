/* setting.h - from the configuration and the registered handlers to the settings of engines and transports: the
 * endpoints with one numbering for all boxes, the routes, the overrides. */
#ifndef RUNTIME_CONFIG_SETTING_H
#define RUNTIME_CONFIG_SETTING_H

#include "base/arena.h"
#include "engine/engine.h"
#include "runtime/config/config.h"
#include "runtime/flow/flows.h"
#include "runtime/program.h"
#include "transport/transport.h"

struct setting {
    struct endpoint_setting *endpoints; /* for the engines ... */
    struct endpoint_config *transports; /* ... and for the transport threads, by the same index */
    size_t endpoint_count;
    size_t *listed; /* by the same index: those in the configuration, without removed ones */
    size_t listed_count;
    size_t batch;
    struct retention retention;
    struct route *routes, *overrides;
    size_t route_count, override_count;
    bool *is_inline;   /* by the same index: mode: inline */
    uint64_t *digests; /* by the same index: see struct config_endpoint */
    uint64_t routes_digest;
    const struct rule *global; /* of the config, then of the program */
    size_t global_count;
    struct arena arena;
};

/* Checks every endpoint without connecting.  config, program and flows (NULL: none are run) are borrowed until fini.
 * Fault PR_ECONFIG, PR_ENOMEM; fini is safe after it. */
PR_MUST_CHECK int setting_init(struct setting *s, const struct config *config, const struct program *program,
                               struct flows *flows, struct log *log, struct pr_error *reterr);
/* Gives the endpoints the numbers that they have in another setting, and new ones the next numbers, so that running
 * engines may switch to it (engine_retune).  Endpoints that only the other setting has are marked as gone, and borrow
 * from it.  Outcome PR_STALE: engines cannot switch, since an endpoint has another ordering, or is inline; or since
 * there are more than ENDPOINTS_SPARE new ones, counted from the first setting.  Fault PR_ENOMEM. */
PR_MUST_CHECK int setting_follow(struct setting *s, const struct setting *old, size_t first_count);
/* Logs a warning for each rule that does not do what its author intends. */
void setting_warn(const struct setting *s, const struct config *config, struct log *log);
void setting_fini(struct setting *s);

#endif
