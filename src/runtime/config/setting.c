#include "runtime/config/setting.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "policy/check.h"

#define ARENA_BLOCK 4096
#define WARNING_MAX 4096
#define FLOW_ENDPOINTS 2
/* Defaults for an endpoint that the configuration does not name: as if it had no options. */
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

/* The rules of the configuration, then the program's, for an endpoint or (NULL) for all. */
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

/* Checks that need all endpoints and functions. */
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

/* isolation: process, with a concurrency of one by default. */
static int isolate(const struct config_endpoint *c, const struct program *program, struct endpoint_config *t,
                   struct pr_error *reterr)
{
    if (!c->isolation)
        return PR_OK;
    if (t->handler == NULL || c->mode)
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: isolation: process needs a url handler:NAME, and mode durable", c->name);
    if (program->launcher == NULL)
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: isolation: process needs a restart, since no endpoint had it at the start",
                         c->name);
    t->launcher = program->launcher;
    t->concurrency = t->concurrency > 0 ? t->concurrency : 1;
    return PR_OK;
}

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
    int rc = isolate(c, program, t, reterr);
    if (rc == PR_OK)
        rc = transport_check(t, reterr);
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
        .ahead = (promises & (TRANSPORT_ASKED | TRANSPORT_LOCAL)) == 0,
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

/* The endpoint for a glob: the configured one with the url "handler:GLOB", or a new one. */
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

/* Handlers by type are overrides, or routes in addition to the configured ones. */
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

static int add_route(struct setting *s, const struct config *config, const struct config_route *c, struct route *list,
                     size_t *count, struct pr_error *reterr)
{
    unsigned *to = arena_alloc_array(&s->arena, c->to_count, sizeof *to);
    if (to == NULL)
        return no_memory(reterr);
    for (size_t k = 0; k < c->to_count; k++) {
        const struct config_endpoint *e = config_find_endpoint(config, slice_from(c->to[k]));
        ASSERT(e != NULL); /* the configuration was checked */
        to[k] = (unsigned)(e - config->endpoints);
    }
    list[(*count)++] = (struct route){ .box = slice_from(c->box),
                                       .type = slice_from(c->type),
                                       .source = slice_from(c->source),
                                       .stream = slice_from(c->stream),
                                       .headers = c->headers,
                                       .header_count = c->header_count,
                                       .to = to,
                                       .to_count = c->to_count };
    return PR_OK;
}

static bool is_of_activities(const struct config *config, const struct config_route *c)
{
    const struct config_box *box = config_find_box(config, slice_from(c->box));
    return box != NULL && box->kind == BOX_ACTIVITIES;
}

static int add_routes(struct setting *s, const struct config *config, struct pr_error *reterr)
{
    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *c = &config->routes[i];
        int rc = is_of_activities(config, c) ? PR_OK : add_route(s, config, c, s->routes, &s->route_count, reterr);
        if (rc < 0)
            return rc;
    }
    return PR_OK;
}

/* Allocates the endpoints of a setting. */
static bool make_room(struct setting *s, size_t count)
{
    s->endpoints = arena_alloc_array(&s->arena, count, sizeof s->endpoints[0]);
    s->transports = arena_alloc_array(&s->arena, count, sizeof s->transports[0]);
    s->is_inline = arena_alloc_array(&s->arena, count, sizeof s->is_inline[0]);
    s->digests = arena_alloc_array(&s->arena, count, sizeof s->digests[0]);
    s->listed = arena_alloc_array(&s->arena, count, sizeof s->listed[0]);
    return s->endpoints != NULL && s->transports != NULL && s->is_inline != NULL && s->digests != NULL &&
           s->listed != NULL;
}

static void list_endpoints(struct setting *s)
{
    s->listed_count = 0;
    for (size_t i = 0; i < s->endpoint_count; i++)
        if (!s->endpoints[i].gone)
            s->listed[s->listed_count++] = i;
}

/* ---- Flows ------------------------------------------------------------------------------------- */

/* A failure of an activity is retried as its own policy says, and never blamed on the endpoint. */
static const struct retry_setting as_said = { .factor = 1, .blame = BLAME_ALWAYS };

static bool does_activities(const struct config *config)
{
    for (size_t i = 0; i < config->route_count; i++)
        if (is_of_activities(config, &config->routes[i]))
            return true;
    return false;
}

/* An activity goes to one endpoint: that of the first matching route.  An activity with a tag matches only routes that
 * name the tag; claimers name their tags with each claim. */
static int add_activity_routes(struct setting *s, const struct config *config, struct pr_error *reterr)
{
    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *c = &config->routes[i];
        if (!is_of_activities(config, c))
            continue;
        int rc = add_route(s, config, c, s->overrides, &s->override_count, reterr);
        if (rc < 0)
            return rc;
        struct route *route = &s->overrides[s->override_count - 1];
        route->untagged = !s->endpoints[route->to[0]].asked;
        for (size_t k = 0; k < c->header_count; k++)
            route->untagged &= !slice_eq_cstr(c->headers[k].name, "tag");
    }
    return PR_OK;
}

static int add_flow_endpoint(struct setting *s, const struct config *config, struct flows *flows, enum box_kind kind,
                             const struct config_endpoint *c, pr_handler handler, struct log *log,
                             struct pr_error *reterr)
{
    const struct handler_entry entry = { .handler = handler, .user = flows };
    static const struct program none; /* no rules of the program */
    unsigned *to = arena_alloc(&s->arena, sizeof *to);

    if (to == NULL)
        return no_memory(reterr);
    *to = (unsigned)s->endpoint_count;
    int rc = add_endpoint(s, c, &entry, &none, log, reterr);
    if (rc < 0)
        return rc;
    s->endpoints[*to].policy = (struct policy){ .retry = as_said };
    s->endpoints[*to].overrides_only = true; /* who may send into another box may not tell flows anything */
    for (size_t i = 0; i < config->box_count; i++)
        if (config->boxes[i].kind == kind)
            s->overrides[s->override_count++] =
                (struct route){ .box = slice_from(config->boxes[i].name), .to = to, .to_count = 1 };
    return PR_OK;
}

static int add_flow_endpoints(struct setting *s, const struct config *config, const struct program *program,
                              struct flows *flows, struct log *log, struct pr_error *reterr)
{
    const struct config_flows *f = &config->flows;
    struct config_endpoint own = {
        .name = FLOW_TURNS_ENDPOINT,
        .url = "handler:" FLOW_TURNS_ENDPOINT,
        .source = "postrider",
        .envelope = "binary",
        .preset = "",
        .ordering = ORDERING_FIFO,
        .timeout_us = f->turn_timeout_us,
        .max_attempts = f->max_attempts,
        .concurrency = f->turns,
        .retry = as_said,
    };
    int rc = PR_OK;

    if (flows != NULL && program->flows.count > 0)
        rc = add_flow_endpoint(s, config, flows, BOX_TURNS, &own, flow_run_turn, log, reterr);
    if (rc == PR_OK)
        rc = add_activity_routes(s, config, reterr);
    if (rc < 0 || flows == NULL || (program->activity_count == 0 && !does_activities(config)))
        return rc; /* activities without a route go to the functions; unknown ones wait there */
    own.name = FLOW_ACTIVITIES_ENDPOINT;
    own.url = "handler:" FLOW_ACTIVITIES_ENDPOINT;
    own.timeout_us = f->activity_timeout_us;
    own.concurrency = f->activities;
    return add_flow_endpoint(s, config, flows, BOX_ACTIVITIES, &own, flow_run_activity, log, reterr);
}

int setting_init(struct setting *s, const struct config *config, const struct program *program, struct flows *flows,
                 struct log *log, struct pr_error *reterr)
{
    size_t handler_count = program->handler_count;

    *s = (struct setting){ 0 };
    arena_init(&s->arena, ARENA_BLOCK);
    size_t endpoints_max = config->endpoint_count + handler_count + FLOW_ENDPOINTS;
    if (endpoints_max > ENDPOINTS_MAX)
        return error_set(reterr, PR_ECONFIG, "%zu endpoints and handlers: at most %d are allowed", endpoints_max,
                         ENDPOINTS_MAX);
    bool fits = make_room(s, endpoints_max);
    s->routes = arena_alloc_array(&s->arena, config->route_count + handler_count, sizeof s->routes[0]);
    s->overrides =
        arena_alloc_array(&s->arena, handler_count + config->box_count + config->route_count, sizeof s->overrides[0]);
    s->batch = (size_t)config->batch;
    s->retention = config->retention;
    s->routes_digest = config->routes_digest;
    if (!fits || s->routes == NULL || s->overrides == NULL)
        return no_memory(reterr);

    int rc = join_rules(s, config->rules, config->rule_count, program, NULL, &s->global, &s->global_count, reterr);
    if (rc == PR_OK)
        rc = add_config_endpoints(s, config, program, log, reterr);
    if (rc == PR_OK)
        rc = add_typed_handlers(s, config, program, log, reterr);
    if (rc == PR_OK)
        rc = add_flow_endpoints(s, config, program, flows, log, reterr);
    list_endpoints(s);
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

/* Including removed ones; 0: engines cannot switch to this setting. */
static size_t count_followed(const struct setting *s, const struct setting *old, size_t first_count)
{
    size_t count = old->endpoint_count;

    for (size_t i = 0; i < s->endpoint_count; i++) {
        size_t at = find_endpoint(old, s->endpoints[i].name);
        if (s->is_inline[i] || (at < old->endpoint_count && s->endpoints[i].ordering != old->endpoints[at].ordering))
            return 0;
        count += at == old->endpoint_count;
    }
    for (size_t i = 0; i < old->endpoint_count; i++)
        if (old->is_inline[i])
            return 0;
    return count <= first_count + ENDPOINTS_SPARE && count <= ENDPOINTS_MAX ? count : 0;
}

static void renumber_routes(struct route *routes, size_t count, const unsigned *numbers)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < routes[i].to_count; k++) {
            unsigned *to = (unsigned *)(uintptr_t)&routes[i].to[k]; /* in this setting's own arena */
            *to = numbers[*to];
        }
}

static void copy_endpoint(struct setting *s, size_t to, const struct setting *from, size_t at)
{
    s->endpoints[to] = from->endpoints[at];
    s->transports[to] = from->transports[at];
    s->digests[to] = from->digests[at];
    s->is_inline[to] = from->is_inline[at];
}

int setting_follow(struct setting *s, const struct setting *old, size_t first_count)
{
    const struct setting own = *s;
    size_t count = count_followed(s, old, first_count), next = old->endpoint_count;
    unsigned *numbers = arena_alloc_array(&s->arena, own.endpoint_count + 1, sizeof *numbers);

    if (count == 0 && (own.endpoint_count > 0 || old->endpoint_count > 0))
        return PR_STALE;
    if (numbers == NULL || !make_room(s, count + 1))
        return PR_ENOMEM;
    for (size_t i = 0; i < old->endpoint_count; i++) {
        copy_endpoint(s, i, old, i);
        s->endpoints[i].gone = true;
        s->digests[i] = 0;
    }
    for (size_t i = 0; i < own.endpoint_count; i++) {
        size_t at = find_endpoint(old, own.endpoints[i].name);
        numbers[i] = (unsigned)(at < old->endpoint_count ? at : next++);
        copy_endpoint(s, numbers[i], &own, i);
    }
    s->endpoint_count = count;
    list_endpoints(s);
    renumber_routes(s->routes, s->route_count, numbers);
    renumber_routes(s->overrides, s->override_count, numbers);
    return PR_OK;
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

    for (size_t i = 0; i < s->listed_count; i++)
        list[i] = (struct checked_endpoint){ s->endpoints[s->listed[i]].name, &s->endpoints[s->listed[i]].policy };
    policy_check(list, s->listed_count, s->global, s->global_count, warn, &w);
}

void setting_fini(struct setting *s)
{
    arena_fini(&s->arena);
    *s = (struct setting){ 0 };
}
