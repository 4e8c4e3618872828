#include "runtime/config/setting.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "policy/check.h"

#define ARENA_BLOCK 4096
#define WARNING_MAX 4096
/* Of an endpoint that the config does not name: as if it stood there without options. */
#define DEFAULT_MAX_ATTEMPTS 5
#define DEFAULT_TIMEOUT_US PR_SECONDS(20)

static int no_memory(struct pr_error *reterr)
{
    return error_set(reterr, PR_ENOMEM, "out of memory for the configuration");
}

static const struct handler_entry *find_handler(const struct program *program, const char *url)
{
    if (strncmp(url, "handler:", strlen("handler:")) != 0)
        return NULL;
    for (size_t i = 0; i < program->handler_count; i++)
        if (strcmp(program->handlers[i].name, url + strlen("handler:")) == 0)
            return &program->handlers[i];
    return NULL;
}

/* ---- Rules ------------------------------------------------------------------------------- */

static bool is_for(const struct rule_entry *entry, const char *endpoint)
{
    return endpoint == NULL ? entry->endpoint == NULL
                            : entry->endpoint != NULL && strcmp(entry->endpoint, endpoint) == 0;
}

/* The config's rules, then the program's, for an endpoint or (NULL) for all. */
static int join_rules(struct setting *s, const struct rule *rules, size_t count, const struct program *program,
                      const char *endpoint, const struct rule **ret, size_t *ret_count, struct pr_error *reterr)
{
    struct rule *all;
    size_t n = count;

    for (size_t i = 0; i < program->rule_count; i++)
        n += is_for(&program->rules[i], endpoint);
    all = arena_alloc_array(&s->arena, n, sizeof(*all));
    if (all == NULL)
        return no_memory(reterr);
    if (count > 0)
        memcpy(all, rules, count * sizeof(*all));
    n = count;
    for (size_t i = 0; i < program->rule_count; i++)
        if (is_for(&program->rules[i], endpoint))
            all[n++] = *program->rules[i].rule;
    *ret = all;
    *ret_count = n;
    return PR_OK;
}

static bool is_endpoint(const struct setting *s, pr_slice name)
{
    for (size_t i = 0; i < s->endpoint_count; i++)
        if (slice_eq(s->endpoints[i].name, name))
            return true;
    return false;
}

static int check_step(const struct setting *s, const struct program *program, const struct rule *rule,
                      const struct rule_step *step, struct pr_error *reterr)
{
    if (step->call.size > 0 && program_find_call(program, step->call) == NULL)
        return error_set(reterr, PR_ECONFIG,
                         "%.*s%srule %.*s calls \"%.*s\", which is not registered; such rules need a program that "
                         "calls pr_engine_call()",
                         SLICE_ARGS(step->place), step->place.size > 0 ? ": " : "", SLICE_ARGS(rule->name),
                         SLICE_ARGS(step->call));
    if (step->to.size > 0 && !is_endpoint(s, step->to))
        return error_set(reterr, PR_ECONFIG, "rule %.*s: dead_letter: unknown endpoint \"%.*s\"",
                         SLICE_ARGS(rule->name), SLICE_ARGS(step->to));
    if (step->raise != NULL && step->raise->to.size > 0 && !is_endpoint(s, step->raise->to))
        return error_set(reterr, PR_ECONFIG, "rule %.*s: raise: unknown endpoint \"%.*s\"", SLICE_ARGS(rule->name),
                         SLICE_ARGS(step->raise->to));
    return PR_OK;
}

static int check_list(const struct setting *s, const struct program *program, const struct rule *rules, size_t count,
                      struct pr_error *reterr)
{
    int rc = PR_OK;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; rc == PR_OK && k < rules[i].step_count; k++)
            rc = check_step(s, program, &rules[i], &rules[i].steps[k], reterr);
    return rc;
}

/* What can be known only when all endpoints and functions are there. */
static int check_rules(const struct setting *s, const struct program *program, struct pr_error *reterr)
{
    int rc = check_list(s, program, s->global, s->global_count, reterr);

    for (size_t i = 0; rc == PR_OK && i < s->endpoint_count; i++)
        rc = check_list(s, program, s->endpoints[i].policy.own, s->endpoints[i].policy.own_count, reterr);
    for (size_t i = 0; rc == PR_OK && i < program->rule_count; i++)
        if (program->rules[i].endpoint != NULL && !is_endpoint(s, slice_from(program->rules[i].endpoint)))
            rc = error_set(reterr, PR_ECONFIG, "rule %.*s: unknown endpoint \"%s\"",
                           SLICE_ARGS(program->rules[i].rule->name), program->rules[i].endpoint);
    return rc;
}

/* ---- Endpoints ----------------------------------------------------------------------------- */

static int add_endpoint(struct setting *s, const struct config_endpoint *c, const struct handler_entry *handler,
                        const struct program *program, struct log *log, struct pr_error *reterr)
{
    struct policy policy = { .global = s->global, .global_count = s->global_count, .retry = c->retry };

    ASSERT(s->endpoint_count < ENDPOINTS_MAX);
    struct endpoint_config *t = &s->transports[s->endpoint_count];
    config_endpoint_for_transport(c, t);
    t->handler = handler != NULL ? handler->handler : NULL;
    t->handler_user = handler != NULL ? handler->user : NULL;
    t->clock = clock_system();
    t->log = log;
    t->wake_fd = -1;
    int rc = transport_check(t, reterr);
    if (rc == PR_OK)
        rc = join_rules(s, c->rules, c->rule_count, program, c->name, &policy.own, &policy.own_count, reterr);
    if (rc < 0)
        return rc;

    const unsigned promises = transport_find(transport_scheme(t->url))->promises;
    s->is_inline[s->endpoint_count] = c->mode;
    s->digests[s->endpoint_count] = c->digest;
    s->endpoints[s->endpoint_count++] = (struct endpoint_setting){
        .name = slice_from(c->name),
        .ordering = c->ordering,
        .max_attempts = c->max_attempts,
        .policy = policy,
        .breaker = c->breaker,
        .rate = c->rate,
        .payload_max = (size_t)c->payload_max,
        .timeout_us = c->timeout_us,
        .concurrency = (unsigned)transport_capacity(t),
        .concurrency_shared = t->concurrency > 0,
        .ahead = (promises & (TRANSPORT_INSIDE | TRANSPORT_ASKED | TRANSPORT_LOCAL)) == 0,
        .asked = (promises & TRANSPORT_ASKED) != 0,
        .into_box = transport_box(t->url),
    };
    return PR_OK;
}

static int add_config_endpoints(struct setting *s, const struct config *config, const struct program *program,
                                struct log *log, struct pr_error *reterr)
{
    for (size_t i = 0; i < config->endpoint_count; i++) {
        const struct config_endpoint *c = &config->endpoints[i];
        const struct handler_entry *handler = find_handler(program, c->url);
        if (handler == NULL && strncmp(c->url, "handler:", strlen("handler:")) == 0)
            return error_set(reterr, PR_ECONFIG,
                             "endpoint %s: handler \"%s\" is not registered; such endpoints need a program that calls "
                             "pr_engine_handle_named()",
                             c->name, c->url + strlen("handler:"));
        int rc = add_endpoint(s, c, handler, program, log, reterr);
        if (rc < 0)
            return rc;
    }
    return PR_OK;
}

/* The endpoint for a glob: the configured one with the url "handler:GLOB", or one of our own. */
static int endpoint_for_glob(struct setting *s, const struct config *config, const struct program *program,
                             const struct handler_entry *h, struct log *log, unsigned *ret_index,
                             struct pr_error *reterr)
{
    pr_slice url = arena_printf(&s->arena, "handler:%s", h->name);
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
    return add_endpoint(s, &own, h, program, log, reterr);
}

/* Handlers by type are overrides, or routes beside those of the config. */
static int add_typed_handlers(struct setting *s, const struct config *config, const struct program *program,
                              struct log *log, struct pr_error *reterr)
{
    for (size_t i = 0; i < program->handler_count; i++) {
        const struct handler_entry *h = &program->handlers[i];
        if (h->type == NULL)
            continue;
        if (h->box[0] != '\0' && config_find_box(config, slice_from(h->box)) == NULL)
            return error_set(reterr, PR_ECONFIG, "handler \"%s\": unknown box \"%s\"; add it under boxes", h->type,
                             h->box);
        unsigned *to = arena_alloc(&s->arena, sizeof *to);
        if (to == NULL)
            return no_memory(reterr);
        int rc = endpoint_for_glob(s, config, program, h, log, to, reterr);
        if (rc < 0)
            return rc;
        const struct route route = { .box = slice_from(h->box), .type = slice_from(h->type), .to = to, .to_count = 1 };
        if (h->beside)
            s->routes[s->route_count++] = route;
        else
            s->overrides[s->override_count++] = route;
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
        s->routes[s->route_count++] = (struct route){ .box = slice_from(c->box),
                                                      .type = slice_from(c->type),
                                                      .source = slice_from(c->source),
                                                      .stream = slice_from(c->stream),
                                                      .headers = c->headers,
                                                      .header_count = c->header_count,
                                                      .to = to,
                                                      .to_count = c->to_count };
    }
    return PR_OK;
}

int setting_init(struct setting *s, const struct config *config, const struct program *program, struct log *log,
                 struct pr_error *reterr)
{
    size_t handler_count = program->handler_count;

    *s = (struct setting){ 0 };
    arena_init(&s->arena, ARENA_BLOCK);
    size_t endpoints_max = config->endpoint_count + handler_count;
    if (endpoints_max > ENDPOINTS_MAX)
        return error_set(reterr, PR_ECONFIG, "%zu endpoints and handlers: at most %d are allowed", endpoints_max,
                         ENDPOINTS_MAX);
    s->endpoints = arena_alloc_array(&s->arena, endpoints_max, sizeof s->endpoints[0]);
    s->transports = arena_alloc_array(&s->arena, endpoints_max, sizeof s->transports[0]);
    s->routes = arena_alloc_array(&s->arena, config->route_count + handler_count, sizeof s->routes[0]);
    s->overrides = arena_alloc_array(&s->arena, handler_count, sizeof s->overrides[0]);
    s->is_inline = arena_alloc_array(&s->arena, endpoints_max, sizeof s->is_inline[0]);
    s->digests = arena_alloc_array(&s->arena, endpoints_max, sizeof s->digests[0]);
    s->routes_digest = config->routes_digest;
    if (s->digests == NULL || s->is_inline == NULL || s->endpoints == NULL || s->transports == NULL ||
        s->routes == NULL || s->overrides == NULL)
        return no_memory(reterr);

    int rc = join_rules(s, config->rules, config->rule_count, program, NULL, &s->global, &s->global_count, reterr);
    if (rc == PR_OK)
        rc = add_config_endpoints(s, config, program, log, reterr);
    if (rc == PR_OK)
        rc = add_typed_handlers(s, config, program, log, reterr);
    if (rc == PR_OK)
        rc = add_routes(s, config, reterr);
    return rc == PR_OK ? check_rules(s, program, reterr) : rc;
}

/* ---- Following another setting ------------------------------------------------------------- */

static size_t find_endpoint(const struct setting *s, pr_slice name)
{
    size_t i = 0;
    while (i < s->endpoint_count && !slice_eq(s->endpoints[i].name, name))
        i++;
    return i;
}

static bool may_follow(const struct setting *s, const struct setting *old, size_t first_count)
{
    for (size_t i = 0; i < s->endpoint_count; i++)
        if (s->is_inline[i])
            return false;
    for (size_t i = 0; i < old->endpoint_count; i++) {
        size_t at = find_endpoint(s, old->endpoints[i].name);
        if (old->is_inline[i] || at == s->endpoint_count || s->endpoints[at].ordering != old->endpoints[i].ordering)
            return false;
    }
    return s->endpoint_count <= first_count + ENDPOINTS_SPARE;
}

static void swap_endpoints(struct setting *s, size_t a, size_t b)
{
    struct endpoint_setting endpoint = s->endpoints[a];
    struct endpoint_config transport = s->transports[a];
    uint64_t digest = s->digests[a];

    s->endpoints[a] = s->endpoints[b];
    s->transports[a] = s->transports[b];
    s->digests[a] = s->digests[b];
    s->endpoints[b] = endpoint;
    s->transports[b] = transport;
    s->digests[b] = digest;
}

static void swap_targets(struct route *routes, size_t count, unsigned a, unsigned b)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < routes[i].to_count; k++) {
            unsigned *to = (unsigned *)(uintptr_t)&routes[i].to[k]; /* ours, from the arena */
            *to = *to == a ? b : *to == b ? a : *to;
        }
}

bool setting_follow(struct setting *s, const struct setting *old, size_t first_count)
{
    if (!may_follow(s, old, first_count))
        return false;
    for (unsigned i = 0; i < old->endpoint_count; i++) {
        unsigned at = (unsigned)find_endpoint(s, old->endpoints[i].name);
        if (at == i)
            continue;
        swap_endpoints(s, i, at);
        swap_targets(s->routes, s->route_count, i, at);
        swap_targets(s->overrides, s->override_count, i, at);
    }
    return true;
}

struct warning {
    const struct config *config;
    struct log *log;
};

static void warn(void *arg, const struct finding *f)
{
    const struct warning *w = arg;
    int line = config_rule_line(w->config, f->rule);
    struct pr_error place;
    struct buf text;

    buf_init(&text, WARNING_MAX);
    finding_describe(f, &text);
    error_set(&place, 0, "%s:%d", w->config->file, line); /* a rule of the program has no line */
    log_emit(w->log, LOG_WARN, "rule_warning", LOG_STR("at", line > 0 ? place.text : "program"),
             LOG_SLICE("rule", f->rule->name), LOG_SLICE("endpoint", f->endpoint), LOG_SLICE("it", buf_slice(&text)));
    buf_fini(&text);
}

void setting_warn(const struct setting *s, const struct config *config, struct log *log)
{
    struct warning w = { config, log };
    struct checked_endpoint list[ENDPOINTS_MAX];

    for (size_t i = 0; i < s->endpoint_count; i++)
        list[i] = (struct checked_endpoint){ s->endpoints[i].name, &s->endpoints[i].policy };
    policy_check(list, s->endpoint_count, s->global, s->global_count, warn, &w);
}

void setting_fini(struct setting *s)
{
    arena_fini(&s->arena);
    *s = (struct setting){ 0 };
}
