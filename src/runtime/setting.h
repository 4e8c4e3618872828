/* setting.h - from the configuration and the registered handlers to what engines and transports
 * want to know: the endpoints with one numbering for all boxes, the routes, the overrides. */
#ifndef RUNTIME_SETTING_H
#define RUNTIME_SETTING_H

#include "base/arena.h"
#include "engine/engine.h"
#include "runtime/config.h"
#include "transport/transport.h"

#define HANDLERS_MAX 256

/* A C function of the program. */
struct handler_entry {
    bool        by_type; /* text is a glob of types; otherwise the NAME of "handler:NAME" */
    const char *text;
    pr_handler  handler;
    void       *user;
};

struct setting {
    struct endpoint_setting *endpoints;  /* for the engines ... */
    struct endpoint_config  *transports; /* ... and for the couriers, by the same index */
    size_t                   endpoint_count;
    struct route            *routes, *overrides;
    size_t                   route_count, override_count;
    struct arena             arena;
};

/* Checks every endpoint without connecting.  config and handlers are borrowed until fini.
 * Fault PR_ECONFIG, PR_ENOMEM; fini is safe after it. */
PR_MUST_CHECK int setting_init(struct setting *s, const struct config *config,
                               const struct handler_entry *handlers, size_t handler_count,
                               struct log *log, struct pr_error *reterr);
void setting_fini(struct setting *s);

#endif
