#include "runtime/setting.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define ARENA_BLOCK 4096
/* Of an endpoint that the config does not name: as if it stood there without options. */
#define DEFAULT_MAX_ATTEMPTS 5
#define DEFAULT_TIMEOUT_US PR_SECONDS(20)

static int no_memory(struct pr_error *reterr)
{
    return error_set(reterr, PR_ENOMEM, "no memory for the configuration");
}

static const struct handler_entry *find_handler(const struct handler_entry *handlers, size_t count,
                                                const char *url)
{
    if (strncmp(url, "handler:", strlen("handler:")) != 0)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strcmp(handlers[i].text, url + strlen("handler:")) == 0)
            return &handlers[i];
    return NULL;
}

/* How many the engine hands out at once: what the transport really starts. */
static unsigned concurrency(const struct config_endpoint *c)
{
    if (c->concurrency > 0)
        return (unsigned)c->concurrency;
    return transport_find(transport_scheme(c->url))->concurrency;
}

static int add_endpoint(struct setting *s, const struct config_endpoint *c, const struct handler_entry *handler,
                        struct log *log, struct pr_error *reterr)
{
    ASSERT(s->endpoint_count < ENDPOINTS_MAX);
    struct endpoint_config *t = &s->transports[s->endpoint_count];
    config_endpoint_for_transport(c, t);
    t->handler = handler != NULL ? handler->handler : NULL;
    t->handler_user = handler != NULL ? handler->user : NULL;
    t->clock = clock_system();
    t->log = log;
    t->wake_fd = -1;
    int rc = transport_check(t, reterr);
    if (rc < 0)
        return rc;

    s->endpoints[s->endpoint_count++] = (struct endpoint_setting){
        .name = slice_from(c->name),
        .ordering = c->ordering,
        .max_attempts = c->max_attempts,
        .policy = { .retry = c->retry },
        .breaker = c->breaker,
        .timeout_us = c->timeout_us,
        .concurrency = concurrency(c),
    };
    return PR_OK;
}

static int add_config_endpoints(struct setting *s, const struct config *config,
                                const struct handler_entry *handlers, size_t handler_count,
                                struct log *log, struct pr_error *reterr)
{
    for (size_t i = 0; i < config->endpoint_count; i++) {
        const struct config_endpoint *c = &config->endpoints[i];
        const struct handler_entry   *handler = find_handler(handlers, handler_count, c->url);
        if (handler == NULL && strncmp(c->url, "handler:", strlen("handler:")) == 0)
            return error_set(reterr, PR_ECONFIG,
                             "endpoint %s: no handler \"%s\" is registered; such endpoints need a program that "
                             "calls pr_engine_handle_named()",
                             c->name, c->url + strlen("handler:"));
        int rc = add_endpoint(s, c, handler, log, reterr);
        if (rc < 0)
            return rc;
    }
    return PR_OK;
}

/* The endpoint for a glob: the configured one with the url "handler:GLOB", or one of our own. */
static int endpoint_for_glob(struct setting *s, const struct config *config, const struct handler_entry *h,
                             struct log *log, unsigned *ret_index, struct pr_error *reterr)
{
    pr_slice url = arena_printf(&s->arena, "handler:%s", h->text);
    if (url.data == NULL)
        return no_memory(reterr);
    for (size_t i = 0; i < config->endpoint_count; i++) {
        if (strcmp(config->endpoints[i].url, url.data) == 0) {
            *ret_index = (unsigned)i;
            return PR_OK;
        }
    }
    const struct config_endpoint own = {
        .name = url.data, /* a name that no configured endpoint can have */
        .url = url.data,
        .source = "postrider",
        .envelope = "binary",
        .preset = "",
        .ordering = ORDERING_FIFO,
        .timeout_us = DEFAULT_TIMEOUT_US,
        .max_attempts = DEFAULT_MAX_ATTEMPTS,
        .retry = retry_default,
        .breaker = breaker_default,
    };
    *ret_index = (unsigned)s->endpoint_count;
    return add_endpoint(s, &own, h, log, reterr);
}

static int add_overrides(struct setting *s, const struct config *config, const struct handler_entry *handlers,
                         size_t handler_count, struct log *log, struct pr_error *reterr)
{
    for (size_t i = 0; i < handler_count; i++) {
        if (!handlers[i].by_type)
            continue;
        unsigned *to = arena_alloc(&s->arena, sizeof *to);
        if (to == NULL)
            return no_memory(reterr);
        int rc = endpoint_for_glob(s, config, &handlers[i], log, to, reterr);
        if (rc < 0)
            return rc;
        s->overrides[s->override_count++] =
            (struct route){ .type = slice_from(handlers[i].text), .to = to, .to_count = 1 };
    }
    return PR_OK;
}

static int add_routes(struct setting *s, const struct config *config, struct pr_error *reterr)
{
    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *c = &config->routes[i];
        unsigned *to = arena_alloc_array(&s->arena, c->to_count, sizeof *to);
        if (to == NULL)
            return no_memory(reterr);
        for (size_t k = 0; k < c->to_count; k++) {
            const struct config_endpoint *e = config_find_endpoint(config, slice_from(c->to[k]));
            ASSERT(e != NULL); /* the config was checked */
            to[k] = (unsigned)(e - config->endpoints);
        }
        s->routes[s->route_count++] = (struct route){ .type = slice_from(c->type),
                                                      .source = slice_from(c->source),
                                                      .stream = slice_from(c->stream),
                                                      .to = to,
                                                      .to_count = c->to_count };
    }
    return PR_OK;
}

int setting_init(struct setting *s, const struct config *config, const struct handler_entry *handlers,
                 size_t handler_count, struct log *log, struct pr_error *reterr)
{
    *s = (struct setting){ 0 };
    arena_init(&s->arena, ARENA_BLOCK);
    size_t endpoints_max = config->endpoint_count + handler_count;
    if (endpoints_max > ENDPOINTS_MAX)
        return error_set(reterr, PR_ECONFIG, "%zu endpoints and handlers: at most %d are possible", endpoints_max,
                         ENDPOINTS_MAX);
    s->endpoints = arena_alloc_array(&s->arena, endpoints_max, sizeof s->endpoints[0]);
    s->transports = arena_alloc_array(&s->arena, endpoints_max, sizeof s->transports[0]);
    s->routes = arena_alloc_array(&s->arena, config->route_count, sizeof s->routes[0]);
    s->overrides = arena_alloc_array(&s->arena, handler_count, sizeof s->overrides[0]);
    if (s->endpoints == NULL || s->transports == NULL || s->routes == NULL || s->overrides == NULL)
        return no_memory(reterr);

    int rc = add_config_endpoints(s, config, handlers, handler_count, log, reterr);
    if (rc == PR_OK)
        rc = add_overrides(s, config, handlers, handler_count, log, reterr);
    if (rc == PR_OK)
        rc = add_routes(s, config, reterr);
    return rc;
}

void setting_fini(struct setting *s)
{
    arena_fini(&s->arena);
    *s = (struct setting){ 0 };
}
