/* Checks that concern several options, or the machine: paths, boxes, tables, routes. */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/address.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/config/config_notes.h"
#include "runtime/config/config_suggest.h"
#include "store/store.h"

static const struct node *node_of(const struct config *config, const void *field)
{
    const struct config_note *note = config_note_find(config, field);

    return note != NULL ? note->node : NULL;
}

/* ---- Paths are relative to the file that names them ---- */

static bool is_from_file(const struct config *config, const void *field)
{
    const struct config_note *note = config_note_find(config, field);

    return note != NULL && note->origin == ORIGIN_FILE;
}

/* Makes the path that begins `at` bytes into the text absolute.  Fault PR_ENOMEM. */
static int resolve(const struct config_reader *reader, const char **field, size_t at)
{
    pr_slice directory = reader->source->directory;
    const char *path = *field + at;

    if (directory.size == 0 || path[0] == '\0' || path[0] == '/' || path[0] == '?' || path[0] == ':' ||
        !is_from_file(reader->config, field))
        return PR_OK;
    *field = arena_printf(&reader->config->arena, "%.*s%.*s/%s", (int)at, *field, SLICE_ARGS(directory), path).data;
    return *field != NULL ? PR_OK : error_set(reader->reterr, PR_ENOMEM, "out of memory");
}

static int resolve_url(const struct config_reader *reader, const char **url, const char *prefix)
{
    return strncmp(*url, prefix, strlen(prefix)) == 0 ? resolve(reader, url, strlen(prefix)) : PR_OK;
}

/* A program without a slash is searched in PATH. */
static int resolve_program(const struct config_reader *reader, const char **url)
{
    return strncmp(*url, "exec:./", 7) == 0 || strncmp(*url, "exec:../", 8) == 0 ? resolve(reader, url, 5) : PR_OK;
}

int config_resolve_paths(const struct config_reader *reader)
{
    struct config *config = reader->config;
    int r = resolve_url(reader, &config->store, "sqlite:");

    if (r == PR_OK)
        r = resolve_url(reader, &config->http_listen, "unix:");
    for (size_t i = 0; r == PR_OK && i < config->endpoint_count; i++) {
        struct config_endpoint *e = &config->endpoints[i];
        const char **const files[] = { &e->ca, &e->cert, &e->key };

        r = resolve_url(reader, &e->url, "file:");
        if (r == PR_OK)
            r = resolve_program(reader, &e->url);
        for (size_t k = 0; r == PR_OK && k < ARRAY_LENGTH(files); k++)
            r = resolve(reader, files[k], 0);
    }
    return r;
}

/* ---- Checks ---- */

int config_check_store(const char *url, struct pr_error *reterr)
{
    pr_slice scheme = transport_scheme(url);
    bool postgres = slice_eq_cstr(scheme, "postgres") || slice_eq_cstr(scheme, "postgresql");

    if (postgres && !store_is_built_in(url))
        return error_set(reterr, PR_ECONFIG, "store: this build has no PostgreSQL support; use sqlite:FILE");
    if (postgres)
        return PR_OK;
    if (!slice_eq_cstr(scheme, "sqlite") && !slice_eq_cstr(scheme, "memory"))
        return error_set(reterr, PR_ECONFIG,
                         "store: unknown kind of store; use sqlite:FILE or postgres://USER@HOST/DATABASE");
    if (slice_eq_cstr(scheme, "sqlite") && (url[scheme.size + 1] == '\0' || url[scheme.size + 1] == '?'))
        return error_set(reterr, PR_ECONFIG, "store: the file name is missing; use sqlite:FILE");
    return PR_OK;
}

#define TOKEN_MIN 16 /* characters: tokens that people invent are shorter */

static int check_token(const struct config_reader *reader, const char *const *field, const char *key)
{
    if ((*field)[0] == '\0')
        return PR_OK;
    const struct node *node = node_of(reader->config, field);
    for (const char *c = *field; *c != '\0'; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return config_fail(reader, node, "http.%s: only printable characters without spaces are allowed", key);
    if (strlen(*field) < TOKEN_MIN)
        return config_fail(reader, node, "http.%s: needs at least %d characters; create one with: openssl rand -hex 32",
                           key, TOKEN_MIN);
    return PR_OK;
}

/* Operators can do anything, so the API without tokens is limited to loopback. */
static int check_listen(const struct config_reader *reader)
{
    const struct config *config = reader->config;
    const struct node *node = node_of(config, &config->http_listen);
    struct pr_error err;
    struct address address;
    int rc = check_token(reader, &config->http_token, "token");

    if (rc == PR_OK)
        rc = check_token(reader, &config->http_viewer_token, "viewer_token");
    if (rc != PR_OK || config->http_listen[0] == '\0')
        return rc;
    if (config->http_token[0] != '\0' && strcmp(config->http_token, config->http_viewer_token) == 0)
        return config_fail(reader, node_of(config, &config->http_viewer_token),
                           "http.viewer_token: must differ from http.token");
    if (address_parse("http.listen", config->http_listen, &address, &err) != PR_OK)
        return config_fail(reader, node, "%s", err.text);
    if (!address.local && config->http_token[0] == '\0' && config->http_viewer_token[0] == '\0')
        return config_fail(reader, node, "http.listen: %s is not a loopback address; other addresses need http.token",
                           config->http_listen);
    return PR_OK;
}

/* Handlers are registered after the configuration was loaded; the start checks them. */
static int registered_later(struct pr_context *context, const struct pr_message *message, void *user)
{
    (void)context, (void)message, (void)user;
    ASSERT(!"only there to be not NULL");
    return PR_FAILED;
}

/* "console" is short for "console:", which YAML would take for a key. */
static int complete_url(const struct config_reader *reader, struct config_endpoint *endpoint)
{
    if (transport_find(slice_from(endpoint->url)) == NULL)
        return PR_OK;
    endpoint->url = arena_printf(&reader->config->arena, "%s:", endpoint->url).data;
    return endpoint->url != NULL ? PR_OK : error_set(reader->reterr, PR_ENOMEM, "out of memory");
}

/* An endpoint with the url box:NAME: the box must exist, and this process must serve it. */
static int check_local(const struct config_reader *reader, const struct config_endpoint *endpoint)
{
    const struct config *config = reader->config;
    pr_slice box = transport_box(endpoint->url);
    struct suggestion near = { 0 };

    if (box.size == 0)
        return PR_OK;
    if (endpoint->mode)
        return config_fail(reader, node_of(config, &endpoint->mode),
                           "endpoint %s: delivery into a box needs mode: durable", endpoint->name);
    if (config_find_box(config, box) != NULL)
        return PR_OK;
    for (size_t i = 0; i < config->box_count; i++)
        suggest_try(&near, box, config->boxes[i].name);
    return near.best != NULL
               ? config_fail(reader, node_of(config, &endpoint->url),
                             "endpoint %s: unknown box \"%.*s\"; did you mean %s?", endpoint->name, SLICE_ARGS(box),
                             near.best)
               : config_fail(reader, node_of(config, &endpoint->url),
                             "endpoint %s: unknown box \"%.*s\"; add it under boxes", endpoint->name, SLICE_ARGS(box));
}

static int check_endpoints(const struct config_reader *reader)
{
    for (size_t i = 0; i < reader->config->endpoint_count; i++) {
        struct config_endpoint *endpoint = &reader->config->endpoints[i];
        struct endpoint_config for_transport;
        struct pr_error why;

        if (complete_url(reader, endpoint) != PR_OK)
            return PR_ENOMEM;
        config_endpoint_for_transport(endpoint, &for_transport);
        for_transport.handler = registered_later;
        if (transport_check(&for_transport, &why) != PR_OK)
            return config_fail(reader, node_of(reader->config, &endpoint->url), "%s", why.text);
        if (endpoint->mode && endpoint->rate.count > 0)
            return config_fail(reader, node_of(reader->config, &endpoint->rate),
                               "endpoint %s: a rate needs mode durable, because excess messages wait in the store",
                               endpoint->name);
        int r = check_local(reader, endpoint);
        if (r != PR_OK)
            return r;
    }
    return PR_OK;
}

static int check_watch(const struct config_reader *reader)
{
    const struct config_watch *watch = &reader->config->watch;

    if (watch->raise_to[0] != '\0' && config_find_endpoint(reader->config, slice_from(watch->raise_to)) == NULL)
        return config_fail(reader, node_of(reader->config, &watch->raise_to), "watch.raise.to: unknown endpoint \"%s\"",
                           watch->raise_to);
    if (watch->raise_to[0] != '\0' && watch->raise_type[0] == '\0')
        return config_fail(reader, node_of(reader->config, &watch->raise_to), "watch.raise: needs a type");
    return PR_OK;
}

static int check_patterns(const struct config_reader *reader, const struct config_route *route, size_t number)
{
    const struct {
        const char *name;
        const char *const *text;
    } patterns[] = { { "type", &route->type }, { "source", &route->source }, { "stream", &route->stream } };
    struct pr_error why;

    for (size_t i = 0; i < ARRAY_LENGTH(patterns); i++)
        if (glob_check(slice_from(*patterns[i].text), &why) != PR_OK)
            return config_fail(reader, node_of(reader->config, patterns[i].text), "routes[%zu].%s: %s", number,
                               patterns[i].name, why.text);
    for (size_t i = 0; i < route->header_count; i++)
        if (glob_check(route->headers[i].glob, &why) != PR_OK)
            return config_fail(reader, node_of(reader->config, &route->headers), "routes[%zu].header: %s", number,
                               why.text);
    return PR_OK;
}

int config_check_box(const struct config_reader *reader, const char *const *box, const char *list, size_t number)
{
    const struct config *config = reader->config;
    const struct node *node = node_of(config, box);
    struct suggestion near = { 0 };

    const struct config_box *known = config_find_box(config, slice_from(*box));
    if (known != NULL && box_is_of_flows(known->kind))
        return config_fail(reader, node, "%s[%zu].box: only flows use \"%s\", which is a box of the kind %s", list,
                           number, *box, known->kind == BOX_TURNS ? "turns" : "activities");
    if (known != NULL)
        return PR_OK;
    for (size_t i = 0; i < config->box_count; i++)
        suggest_try(&near, slice_from(*box), config->boxes[i].name);
    return near.best != NULL
               ? config_fail(reader, node, "%s[%zu].box: unknown box \"%s\"; did you mean %s?", list, number, *box,
                             near.best)
               : config_fail(reader, node, "%s[%zu].box: unknown box \"%s\"; add it under boxes", list, number, *box);
}

/* Messages that this route sends into a box would match the route again there, and loop forever. */
static int check_round(const struct config_reader *reader, const struct config_route *route, size_t number,
                       const struct config_endpoint *to, const struct node *node)
{
    pr_slice into = transport_box(to->url);

    if (into.size == 0 || !config_takes_box(reader->config, route->box, into))
        return PR_OK;
    return config_fail(
        reader, node,
        "routes[%zu].to: %s delivers into the box %.*s, whose messages this route takes, too: they would "
        "loop forever; give the route another box, as in {box: %s, to: %s}",
        number, to->name, SLICE_ARGS(into), slice_eq_cstr(into, "outbox") ? "inbox" : "outbox", to->name);
}

static bool takes_activities(const struct config *config, const struct config_route *route)
{
    const struct config_box *box = config_find_box(config, slice_from(route->box));

    return box != NULL && box->kind == BOX_ACTIVITIES;
}

/* An activity runs at one endpoint, and the flow gets its answer. */
static int check_activity_route(const struct config_reader *reader, const struct config_route *route, size_t number)
{
    const struct node *node = node_of(reader->config, &route->to);

    if (route->to_count != 1)
        return config_fail(reader, node, "routes[%zu].to: an activity is done once; name one endpoint", number);
    const struct config_endpoint *to = config_find_endpoint(reader->config, slice_from(route->to[0]));
    if (to == NULL)
        return PR_OK; /* another check reports it */
    pr_slice scheme = transport_scheme(to->url);
    bool answers = slice_eq_cstr(scheme, "http") || slice_eq_cstr(scheme, "https") || slice_eq_cstr(scheme, "pull");
    if (!answers)
        return config_fail(reader, node,
                           "routes[%zu].to: an activity needs an answer, which %s cannot give; use a url that begins "
                           "with http:, https: or pull:",
                           number, to->name);
    if (strcmp(to->envelope, "batch") == 0)
        return config_fail(reader, node, "routes[%zu].to: %s has envelope: batch, but each activity has its own answer",
                           number, to->name);
    return PR_OK;
}

static int check_routes(const struct config_reader *reader)
{
    const struct config *config = reader->config;

    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *route = &config->routes[i];
        int r = check_patterns(reader, route, i);

        if (r == PR_OK && route->box[0] != '\0')
            r = takes_activities(config, route) ? check_activity_route(reader, route, i)
                                                : config_check_box(reader, &route->box, "routes", i);

        if (r != PR_OK)
            return r;
        const struct node *node = node_of(config, &route->to);

        if (node->kind == NODE_LIST)
            node = node->first;
        for (size_t j = 0; j < route->to_count; j++, node = node->next) {
            struct suggestion near = { 0 };

            const struct config_endpoint *to = config_find_endpoint(config, slice_from(route->to[j]));
            if (to != NULL) {
                r = check_round(reader, route, i, to, node);
                if (r != PR_OK)
                    return r;
                continue;
            }
            for (size_t k = 0; k < config->endpoint_count; k++)
                suggest_try(&near, slice_from(route->to[j]), config->endpoints[k].name);
            return near.best != NULL
                       ? config_fail(reader, node, "routes[%zu].to: unknown endpoint \"%s\"; did you mean %s?", i,
                                     route->to[j], near.best)
                       : config_fail(reader, node, "routes[%zu].to: unknown endpoint \"%s\"; add it under endpoints", i,
                                     route->to[j]);
        }
    }
    return PR_OK;
}

/* Names in a database may be case-insensitive. */
static int check_tables(const struct config_reader *reader)
{
    const struct config *config = reader->config;

    for (size_t i = 0; i < config->box_count; i++) {
        const struct config_box *box = &config->boxes[i];

        if (box->table[0] == '\0')
            continue;
        if (!option_is_box_table(slice_from(box->table)))
            return config_fail(
                reader, node_of(config, &box->table),
                "boxes.%s.table: \"%s\" is not a valid table; use letters, digits and _, at most 63, not "
                "starting with a digit or postrider_, and not a name that Postrider uses itself",
                box->name, box->table);
        for (size_t k = 0; k < config->box_count; k++)
            if (k != i && strcasecmp(config_box_table(&config->boxes[k]), box->table) == 0)
                return config_fail(reader, node_of(config, &box->table),
                                   "boxes.%s.table: \"%s\" is already the table of the box %s; name another", box->name,
                                   box->table, config->boxes[k].name);
    }
    return PR_OK;
}

static bool is_routed(const struct config *config, const struct config_box *box)
{
    for (size_t k = 0; k < config->route_count; k++)
        if (strcmp(config->routes[k].box, box->name) == 0)
            return true;
    return false;
}

/* An unused box has no thread and no session, and `status` does not show it while it is empty. */
static void note_used_boxes(struct config *config, const struct node *named)
{
    for (size_t i = 0; i < config->box_count; i++) {
        struct config_box *box = &config->boxes[i];

        box->used = strcmp(box->name, "outbox") == 0 || node_find(named, box->name) != NULL ||
                    config_note_find(config, &box->keep_us) != NULL;
        box->used |= is_routed(config, box);
        for (size_t k = 0; k < config->source_count; k++)
            box->used |= strcmp(config->sources[k].box, box->name) == 0;
        for (size_t k = 0; k < config->schedule_count; k++)
            box->used |= strcmp(config->schedules[k].box, box->name) == 0;
        for (size_t k = 0; k < config->endpoint_count; k++)
            box->used |= slice_eq_cstr(transport_box(config->endpoints[k].url), box->name);
        if (box_is_of_flows(box->kind))
            box->used = is_routed(config, box); /* otherwise programs that run flows serve it */
    }
}

/* On SQLite these boxes have no triggers that store events and schedules (085_flow_boxes_box.sql). */
static int check_kind(const struct config_reader *reader, const struct config_box *box)
{
    bool turns = strcmp(box->name, "turns") == 0, activities = strcmp(box->name, "activities") == 0;

    if ((!turns || box->kind == BOX_TURNS) && (!activities || box->kind == BOX_ACTIVITIES))
        return PR_OK;
    return config_fail(reader, node_of(reader->config, &box->kind),
                       "boxes.%s.kind: this box is for flows, so its kind is %s; use another name for yours", box->name,
                       box->name);
}

/* Each turn and each activity is a message of its own, which arrives once: its id ensures that. */
static int check_kinds(const struct config_reader *reader)
{
    const struct config *config = reader->config;

    for (size_t i = 0; i < config->box_count; i++) {
        const struct config_box *box = &config->boxes[i];
        int rc = check_kind(reader, box);

        if (rc != PR_OK)
            return rc;
        if (box_is_of_flows(box->kind) && box->dedupe_us > 0)
            return config_fail(reader, node_of(config, &box->dedupe_us),
                               "boxes.%s.dedupe: not supported for boxes of flows; remove it", box->name);
    }
    for (size_t i = 0; i < config->endpoint_count; i++) {
        const struct config_box *into = config_find_box(config, transport_box(config->endpoints[i].url));
        if (into != NULL && box_is_of_flows(into->kind))
            return config_fail(reader, node_of(config, &config->endpoints[i].url),
                               "endpoints.%s.url: only flows use \"%s\"; deliver into another box",
                               config->endpoints[i].name, into->name);
    }
    return PR_OK;
}

int config_check(const struct config_reader *reader)
{
    const struct config *config = reader->config;
    struct pr_error why;
    int r;

    if (config_check_store(config->store, &why) != PR_OK)
        return config_fail(reader, node_of(config, &config->store), "%s", why.text);
    if (config->poll_min_us > config->poll_max_us) {
        const struct node *node = node_of(config, &config->poll_min_us);
        return config_fail(reader, node != NULL ? node : node_of(config, &config->poll_max_us),
                           "poll: min is longer than max");
    }
    if (config->in_flight_bytes_max < config->payload_max) {
        const struct node *node = node_of(config, &config->payload_max);
        return config_fail(reader, node != NULL ? node : node_of(config, &config->in_flight_bytes_max),
                           "limits: payload is larger than in_flight_bytes");
    }
    r = check_listen(reader);
    if (r == PR_OK)
        r = check_tables(reader);
    if (r == PR_OK)
        r = check_kinds(reader);
    if (r == PR_OK)
        r = check_endpoints(reader);
    if (r == PR_OK)
        r = check_routes(reader);
    if (r == PR_OK)
        r = check_watch(reader);
    if (r == PR_OK)
        r = config_check_sources(reader);
    if (r == PR_OK)
        r = config_check_schedules(reader);
    if (r == PR_OK)
        note_used_boxes(reader->config, node_find(reader->root, "boxes"));
    return r;
}
