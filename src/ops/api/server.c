#include "ops/api/server.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "ops/api/events.h"
#include "ops/api/api.h"
#include "ops/api/gate.h"
#include "ops/watch/metrics.h"
#include "ops/replay/pace.h"
#include "ops/replay/replays.h"
#include "base/address.h"
#include "runtime/threads/thread.h"

#define BACKLOG 256
#define EVENT_CLIENTS_MAX 16         /* clients of /v1/events: they must not occupy all connections */
#define SILENCE_SECONDS 10           /* between two pieces of a body or of an answer; the gate limits the total */
#define CONNECTION_BYTES (64u << 10) /* memory: HEAD_BYTES_MAX, and the library's copies of it */
#define BODY_EXTRA (1u << 20)        /* in addition to the payload: escapes, headers, a batch of small messages */
#define REFUSED_BODY_MAX 65536       /* of a refused request: a larger body is not read to its end */
#define WHO_MAX 100
#define EVENTS_BLOCK 4096
#define EVENTS_SEND_BUFFER (64 << 10) /* the system's default is megabytes, and a slow client would be noticed late */
#define CSP "default-src 'self'"

/* A copy of configured values, since requests also arrive during a reload. */
struct secrets {
    char *token, *viewer_token;
    char **hosts;
    size_t host_count;
};

struct server {
    struct runtime *rt;
    struct log *log;
    struct metrics *metrics;
    struct replays *replays;
    struct paces *paces;
    struct MHD_Daemon *daemon;
    struct gate *gate;
    unsigned port;
    struct address address;
    pthread_rwlock_t lock; /* guards: */
    struct secrets secrets;
    size_t body_max;
    atomic_bool stopping;
    atomic_int event_clients;
};

struct request {
    struct api x;
    struct buf body;
    char *url;    /* as received */
    bool refused; /* x has the answer; the body is only drained */
    bool has_token;
    const char *allow;
};

/* ---- Secrets ----------------------------------------------------------------------------------- */

static void secret_free(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

static void secrets_fini(struct secrets *s)
{
    secret_free(s->token);
    secret_free(s->viewer_token);
    for (size_t i = 0; i < s->host_count; i++)
        free(s->hosts[i]);
    free(s->hosts);
}

static int secrets_init(struct secrets *s, const struct config *config, struct pr_error *reterr)
{
    *s = (struct secrets){ .token = strdup(config->http_token),
                           .viewer_token = strdup(config->http_viewer_token),
                           .hosts = calloc(config->http_host_count + 1, sizeof s->hosts[0]) };
    bool ok = s->token != NULL && s->viewer_token != NULL && s->hosts != NULL;
    for (; ok && s->host_count < config->http_host_count; s->host_count += ok) {
        s->hosts[s->host_count] = strdup(config->http_hosts[s->host_count]);
        ok = s->hosts[s->host_count] != NULL;
    }
    if (ok)
        return PR_OK;
    secrets_fini(s);
    return error_set(reterr, PR_ENOMEM, "out of memory for http");
}

/* ---- What came ----------------------------------------------------------------------------------- */

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static int fd_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

static enum MHD_Result collect_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct api *x = arg;
    bool wanted =
        strncasecmp(name, "ce-", 3) == 0 || strcasecmp(name, "traceparent") == 0 || strcasecmp(name, "tracestate") == 0;
    if (wanted && value != NULL && x->input.header_count < API_HEADERS_MAX)
        x->headers[x->input.header_count++] = (struct decode_header){ slice_from(name), slice_from(value) };
    return MHD_YES;
}

static void refuse(struct request *r, unsigned status, const char *code, const char *hint, const char *message)
{
    api_error(&r->x, status, code, hint, "%s", message);
    r->refused = true;
}

/* Headers that a page of another origin cannot send by itself. */
static bool cannot_be_forged(struct request *r, struct MHD_Connection *connection)
{
    const char *ours = header(connection, GUARD_HEADER);
    if (ours != NULL && strcmp(ours, "1") == 0)
        return true;
    return r->x.route->body == BODY_MESSAGES &&
           (header(connection, "ce-specversion") != NULL ||
            media_type_is(r->x.input.content_type, "application/cloudevents+json") ||
            media_type_is(r->x.input.content_type, "application/cloudevents-batch+json"));
}

static uint64_t body_bytes(struct MHD_Connection *connection)
{
    const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH); /* the gate has let it pass: a number */
    return length != NULL ? strtoull(length, NULL, 10) : 0;
}

static void check_change(struct request *r, struct MHD_Connection *connection)
{
    if (r->x.route->method[0] == 'G')
        return;
    if (!cannot_be_forged(r, connection))
        refuse(r, MHD_HTTP_FORBIDDEN, "header_missing", "send " GUARD_HEADER ": 1",
               "changes need the header " GUARD_HEADER ", which web pages cannot send");
    else if (r->x.route->body == BODY_JSON && !media_type_is(r->x.input.content_type, "application/json"))
        refuse(r, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "unsupported", "send Content-Type: application/json",
               "changes must be JSON");
    else if (body_bytes(connection) > r->body.max)
        refuse(r, MHD_HTTP_CONTENT_TOO_LARGE, "too_large", "raise limits.payload, or send a reference to the data",
               "the body is too large");
}

static enum MHD_Result count_host(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    (void)value;
    *(size_t *)arg += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    return MHD_YES;
}

/* Authenticates the request, and checks its host and origin. */
static void admit(struct server *s, struct request *r, struct MHD_Connection *connection)
{
    ASSERT(pthread_rwlock_rdlock(&s->lock) == 0);
    const struct authz authz = { s->secrets.token, s->secrets.viewer_token, (const char *const *)s->secrets.hosts,
                                 s->secrets.host_count, s->address.any.sa_family == AF_UNIX };
    size_t hosts = 0; /* with two Host headers, a proxy may have checked the other one */
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_host, &hosts);
    bool known = hosts <= 1 && authz_host_is_known(&authz, header(connection, MHD_HTTP_HEADER_HOST));
    r->x.role = authz_role(&authz, header(connection, MHD_HTTP_HEADER_AUTHORIZATION));
    r->has_token = header(connection, MHD_HTTP_HEADER_AUTHORIZATION) != NULL;
    buf_init(&r->body, s->body_max);
    ASSERT(pthread_rwlock_unlock(&s->lock) == 0);
    if (!known)
        refuse(r, MHD_HTTP_FORBIDDEN, "bad_host", "add the name under http.hosts in the configuration",
               "requests with this host name are not allowed");
    else if (authz_is_cross_site(header(connection, "Sec-Fetch-Site"), header(connection, MHD_HTTP_HEADER_ORIGIN),
                                 header(connection, MHD_HTTP_HEADER_HOST)))
        refuse(r, MHD_HTTP_FORBIDDEN, "cross_site", "use a program, or open the address directly",
               "requests from pages of another origin are not allowed");
}

static void check_role(struct request *r)
{
    if (r->x.role == ROLE_NONE && r->x.route->role != ROLE_NONE && r->has_token)
        refuse(r, MHD_HTTP_UNAUTHORIZED, "token_wrong", "use http.token or http.viewer_token of the configuration",
               "this token is not valid");
    else if (r->x.role == ROLE_NONE && r->x.route->role != ROLE_NONE)
        refuse(r, MHD_HTTP_UNAUTHORIZED, "token_missing", "send Authorization: Bearer TOKEN", "a token is required");
    else if (r->x.role < r->x.route->role)
        refuse(r, MHD_HTTP_FORBIDDEN, "viewer", "use the operator's token", "this token is read-only");
}

static void find_route(struct request *r, const char *method)
{
    struct api *x = &r->x;
    struct pr_error error;
    pr_slice url = slice_from(r->url), part;
    const char *mark = memchr(url.data, '?', url.size);
    pr_slice path = { url.data, mark != NULL ? (size_t)(mark - url.data) : url.size };
    pr_slice query = mark != NULL ? (pr_slice){ mark + 1, url.size - path.size - 1 } : (pr_slice){ NULL, 0 };

    enum route_found found = route_find(method, path, &x->route, &part, &r->allow);
    if (found == ROUTE_NO_PATH)
        refuse(r, MHD_HTTP_NOT_FOUND, "not_found", "see GET /openapi.json", "unknown path");
    else if (found == ROUTE_NO_METHOD)
        refuse(r, MHD_HTTP_METHOD_NOT_ALLOWED, "method", r->allow, "the path does not support this method");
    if (found != ROUTE_FOUND)
        return;
    int rc = url_decode(part, false, &x->arena, &x->part);
    if (rc < 0 || !utf8_valid(x->part))
        rc = error_set(&error, rc == PR_ENOMEM ? rc : PR_EINVAL, "the path is not URL-encoded UTF-8");
    else
        rc = params_parse(query, &x->arena, &x->params, &error);
    if (rc == PR_OK)
        rc = params_check(&x->params, x->route->params, &error);
    if (rc < 0) {
        api_fault(x, &error);
        r->refused = true;
    }
}

static void begin(struct server *s, struct request *r, struct MHD_Connection *connection, const char *method)
{
    struct api *x = &r->x;
    const char *type = header(connection, MHD_HTTP_HEADER_CONTENT_TYPE), *who = header(connection, "X-Postrider-User");
    api_init(x);
    x->rt = s->rt;
    x->fd = fd_of(connection);
    x->gate = s->gate;
    x->metrics = s->metrics;
    x->replays = s->replays;
    x->paces = s->paces;
    x->input.content_type = slice_from(type);
    x->who = who != NULL && utf8_valid(slice_from(who)) && strlen(who) <= WHO_MAX && who[0] != '\0'
                 ? arena_printf(&x->arena, "%s (http)", who)
                 : PR_STR("http");
    admit(s, r, connection);
    if (!r->refused)
        find_route(r, method);
    if (!r->refused)
        check_role(r);
    if (!r->refused)
        check_change(r, connection);
    x->input.headers = x->headers;
    x->input.prefix = "ce-";
    x->input.is_percent_encoded = true;
    if (!r->refused && x->route->body == BODY_MESSAGES)
        MHD_get_connection_values(connection, MHD_HEADER_KIND, collect_header, x);
}

/* ---- The answer ------------------------------------------------------------------------------------ */

static enum MHD_Result send_response(struct MHD_Connection *connection, struct request *r,
                                     struct MHD_Response *response, const char *content_type)
{
    if (response == NULL)
        return MHD_NO;
    const struct {
        const char *name, *value;
    } headers[] = {
        { MHD_HTTP_HEADER_CONTENT_TYPE, content_type },
        { MHD_HTTP_HEADER_CACHE_CONTROL, "no-store" },
        { MHD_HTTP_HEADER_CONNECTION, "close" }, /* see gate.h */
        { "Content-Security-Policy", CSP },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { MHD_HTTP_HEADER_ALLOW, r->allow },
        { MHD_HTTP_HEADER_WWW_AUTHENTICATE, r->x.status == MHD_HTTP_UNAUTHORIZED ? "Bearer" : NULL },
    };
    enum MHD_Result result = MHD_YES;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (headers[i].value != NULL && result == MHD_YES)
            result = MHD_add_response_header(response, headers[i].name, headers[i].value);
    if (result == MHD_YES)
        result = MHD_queue_response(connection, r->x.status, response);
    MHD_destroy_response(response);
    return result;
}

static void undo(struct api *x)
{
    if (x->unsent != NULL)
        x->unsent(x);
    x->unsent = NULL;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct request *r)
{
    struct api *x = &r->x;
    if (buf_failed(&x->out)) {
        undo(x);
        api_error(x, 503, "no_memory", "request less: limit=10", "the answer is too large");
    }
    buf_add_cstr(&x->out, x->out.size > 0 && x->out.data[x->out.size - 1] == '\n' ? "" : "\n");
    pr_slice out = buf_slice(&x->out);
    return send_response(connection, r,
                         MHD_create_response_from_buffer(out.size, (void *)(uintptr_t)out.data, MHD_RESPMEM_MUST_COPY),
                         x->content_type);
}

/* The body of a change; an empty one counts as an empty object. */
static bool take_json(struct request *r)
{
    struct api *x = &r->x;
    json_error_t where;
    pr_slice body = slice_trim(buf_slice(&r->body));
    if (!json_is_shallow(body)) {
        api_error(x, 400, "invalid", "", "the body is nested more than %d levels deep", DECODE_DEPTH_MAX);
        return false;
    }
    x->json = body.size > 0 ? json_loadb(body.data, body.size, JSON_REJECT_DUPLICATES, &where) : json_object();
    if (json_is_object(x->json))
        return body_check(x);
    api_error(x, 400, "invalid", "", "the body must be a JSON object%s%.200s", x->json == NULL ? ": " : "",
              x->json == NULL ? where.text : "");
    return false;
}

static void answer(struct request *r)
{
    struct api *x = &r->x;
    struct pr_error error;
    if (buf_failed(&r->body)) {
        api_error(x, 413, "too_large", "raise limits.payload, or send a reference to the data",
                  "the body is too large");
        return;
    }
    x->input.body = buf_slice(&r->body);
    if (x->route->body == BODY_JSON && !take_json(r))
        return;
    if (x->route->role == ROLE_NONE || x->route->waits) { /* health: also while it does not run */
        x->route->answer(x);
        return;
    }
    if (runtime_enter(x->rt, &x->in, &error) != PR_OK) {
        api_error(x, 503, "not_running", "try again soon", "%s", error.text);
        return;
    }
    x->input.now_us = api_now(x);
    x->route->answer(x);
    runtime_leave(x->rt);
}

/* ---- Events ------------------------------------------------------------------------------------------ */

struct event_client {
    struct server *server;
    struct events *events;
};

static ssize_t read_events(void *arg, uint64_t at, char *ret, size_t max)
{
    (void)at;
    ssize_t count = events_read(((struct event_client *)arg)->events, ret, max);
    return count == EVENTS_END ? (ssize_t)MHD_CONTENT_READER_END_OF_STREAM : count;
}

static void end_event_client(void *arg)
{
    struct event_client *l = arg;
    events_free(l->events);
    atomic_fetch_sub(&l->server->event_clients, 1);
    free(l);
}

static void shrink_send_buffer(struct MHD_Connection *connection)
{
    int size = EVENTS_SEND_BUFFER;
    (void)setsockopt(fd_of(connection), SOL_SOCKET, SO_SNDBUF, &size, sizeof size); /* if it fails, more is buffered */
}

static enum MHD_Result send_events(struct server *s, struct request *r, struct MHD_Connection *connection)
{
    struct event_client *l = calloc(1, sizeof *l);
    struct pr_error error = { 0 };
    bool room = atomic_fetch_add(&s->event_clients, 1) < EVENT_CLIENTS_MAX;
    int rc = l == NULL ? error_set(&error, PR_ENOMEM, "out of memory for a client") : PR_OK;
    if (rc == PR_OK && room)
        rc = events_new(runtime_feed(s->rt), &r->x.params, &s->stopping, &l->events, &error);
    if (rc < 0 || !room) {
        atomic_fetch_sub(&s->event_clients, 1);
        free(l);
        if (!room)
            api_error(&r->x, 503, "too_many", "try again later", "%d event clients are connected already",
                      EVENT_CLIENTS_MAX);
        else
            api_fault(&r->x, &error);
        return send_answer(connection, r);
    }
    l->server = s;
    gate_is_endless(s->gate, fd_of(connection));
    shrink_send_buffer(connection);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENTS_BLOCK, read_events, l, end_event_client);
    if (response == NULL)
        end_event_client(l);
    return send_response(connection, r, response, "text/event-stream");
}

/* ---- What the HTTP library calls ---------------------------------------------------------------------- */

static void *on_url(void *arg, const char *uri, struct MHD_Connection *connection)
{
    (void)arg, (void)connection;
    struct request *r = calloc(1, sizeof *r);
    if (r != NULL)
        r->url = strdup(uri);
    if (r == NULL || r->url == NULL) {
        free(r);
        return NULL;
    }
    buf_init(&r->body, 0);
    return r;
}

/* The path stays encoded: it is split before it is decoded. */
static size_t do_not_unescape(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg, (void)connection;
    return strlen(text);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state)
{
    (void)url, (void)version;
    struct server *s = arg;
    struct request *r = *state;
    if (r == NULL)
        return MHD_NO;               /* no memory */
    if (r->x.content_type == NULL) { /* the first call: headers only */
        begin(s, r, connection, method);
        if (r->refused)
            gate_request_is_refused(s->gate, fd_of(connection));
        bool is_large = body_bytes(connection) > REFUSED_BODY_MAX;
        return r->refused && is_large ? send_answer(connection, r) : MHD_YES;
    }
    if (*upload_size > 0) {
        if (!r->refused && r->x.route->body != BODY_NONE)
            buf_add(&r->body, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    gate_request_is_read(s->gate, fd_of(connection));
    if (r->refused)
        return send_answer(connection, r);
    if (r->x.route->kind == ROUTE_EVENTS)
        return send_events(s, r, connection);
    answer(r);
    return send_answer(connection, r);
}

static void on_end(void *arg, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    (void)arg, (void)connection;
    struct request *r = *state;
    if (r == NULL)
        return;
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        undo(&r->x);
    if (r->x.content_type != NULL)
        api_fini(&r->x);
    buf_fini(&r->body);
    free(r->url);
    free(r);
    *state = NULL;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)state;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED)
        gate_connection_ends(((struct server *)arg)->gate, fd_of(connection));
}

static bool take_connection(void *arg, int fd, const struct sockaddr *address, socklen_t size)
{
    return MHD_add_connection(((struct server *)arg)->daemon, fd, address, size) == MHD_YES;
}

/* ---- Start and stop -------------------------------------------------------------------------------------- */

static size_t body_max_of(const struct config *config)
{
    return (size_t)config->payload_max * 2 + BODY_EXTRA; /* base64 and JSON make it larger */
}

static void server_free(struct server *s)
{
    secrets_fini(&s->secrets);
    replays_free(s->replays);
    paces_free(s->paces);
    metrics_free(s->metrics);
    pthread_rwlock_destroy(&s->lock);
    free(s);
}

static int daemon_start(struct server *s, struct pr_error *reterr)
{
    s->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_NO_LISTEN_SOCKET, 0,
        NULL, NULL, on_request, s, MHD_OPTION_CONNECTION_LIMIT, (unsigned)(2 * GATE_PLACES_MAX),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_THREAD_STACK_SIZE, (size_t)THREAD_STACK_SEND, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_URI_LOG_CALLBACK, on_url, s, MHD_OPTION_UNESCAPE_CALLBACK, do_not_unescape, s,
        MHD_OPTION_NOTIFY_COMPLETED, on_end, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_END);
    return s->daemon != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "http.listen: cannot start the server");
}

static int server_listen(struct server *s, const char *listen, struct pr_error *reterr)
{
    struct gate_options options = { .take = take_connection, .arg = s };
    int rc = address_listen("http.listen", listen, &s->address, BACKLOG, &options.listen_fd, &s->port, reterr);
    if (rc < 0)
        return rc;
    rc = daemon_start(s, reterr);
    if (rc == PR_OK)
        rc = gate_start(&options, &s->gate, reterr);
    if (rc == PR_OK)
        return PR_OK;
    if (s->daemon != NULL)
        MHD_stop_daemon(s->daemon);
    close(options.listen_fd);
    return rc;
}

int http_server_start(struct runtime *rt, const struct config *config, struct log *log, struct server **ret,
                      struct pr_error *reterr)
{
    struct address address;
    int rc = address_parse("http.listen", config->http_listen, &address, reterr);
    if (rc == PR_OK && !address.local && config->http_token[0] == '\0' && config->http_viewer_token[0] == '\0')
        rc = error_set(reterr, PR_ECONFIG, "http.listen: %s is not a loopback address; other addresses need http.token",
                       config->http_listen);
    if (rc < 0)
        return rc;
    struct server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for http");
    *s = (struct server){ .rt = rt,
                          .log = log,
                          .address = address,
                          .body_max = body_max_of(config),
                          .metrics = metrics_new(),
                          .replays = replays_new(rt),
                          .paces = paces_new() };
    ASSERT(pthread_rwlock_init(&s->lock, NULL) == 0);
    rc = s->metrics != NULL && s->replays != NULL && s->paces != NULL
             ? secrets_init(&s->secrets, config, reterr)
             : error_set(reterr, PR_ENOMEM, "out of memory for http");
    if (rc == PR_OK)
        rc = server_listen(s, config->http_listen, reterr);
    if (rc < 0) {
        server_free(s);
        return rc;
    }
    log_emit(log, LOG_INFO, "http_listening", LOG_STR("listen", config->http_listen), LOG_INT("port", s->port));
    if (address.any.sa_family != AF_UNIX && config->http_token[0] == '\0' && config->http_viewer_token[0] == '\0')
        log_emit(log, LOG_INFO, "http_without_token",
                 LOG_STR("next", "every local user can change everything; set http.token, or listen on unix:PATH"));
    *ret = s;
    return PR_OK;
}

int server_retune(struct server *s, const struct config *config, struct pr_error *reterr)
{
    struct secrets secrets;
    int rc = secrets_init(&secrets, config, reterr);
    if (rc < 0)
        return rc;
    ASSERT(pthread_rwlock_wrlock(&s->lock) == 0);
    struct secrets old = s->secrets;
    s->secrets = secrets;
    s->body_max = body_max_of(config);
    ASSERT(pthread_rwlock_unlock(&s->lock) == 0);
    secrets_fini(&old);
    return PR_OK;
}

void http_server_stop(struct server *s)
{
    atomic_store(&s->stopping, true);
    feed_shake(runtime_feed(s->rt));
    gate_shut(s->gate);
    MHD_stop_daemon(s->daemon);
    gate_free(s->gate);
    if (s->address.any.sa_family == AF_UNIX)
        unlink(s->address.path.sun_path);
    server_free(s);
}

unsigned server_port(const struct server *s)
{
    return s->port;
}
