#include "runtime/health.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "runtime/thread.h"

#define CONNECTIONS_MAX 32   /* probes are few and short */
#define CONNECTION_SECONDS 5
#define CONNECTION_BYTES 4096
#define BODY_MAX 4096
#define PORT_MAX 65535

struct health {
    struct health_options options;
    struct MHD_Daemon    *daemon;
    unsigned              port;
};

union address {
    struct sockaddr     any;
    struct sockaddr_in  v4;
    struct sockaddr_in6 v6;
};

/* ---- The address ------------------------------------------------------------------------- */

static int listen_fault(const char *text, const char *what, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "http.listen: %s: %s; write it as 127.0.0.1:8026", text, what);
}

static bool parse_port(const char *text, uint16_t *ret_port)
{
    char         *end;
    unsigned long port = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || port > PORT_MAX)
        return false;
    *ret_port = (uint16_t)port;
    return true;
}

static int parse_address(const char *text, union address *ret, struct pr_error *reterr)
{
    char        host[INET6_ADDRSTRLEN + 2]; /* with brackets */
    const char *colon = strrchr(text, ':');
    uint16_t    port;
    if (colon == NULL || (size_t)(colon - text) >= sizeof host || !parse_port(colon + 1, &port))
        return listen_fault(text, "is no address with a port", reterr);
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';

    *ret = (union address){ 0 };
    size_t length = strlen(host);
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons(port);
        if (inet_pton(AF_INET6, host + 1, &ret->v6.sin6_addr) != 1)
            return listen_fault(text, "is no address with a port", reterr);
        return IN6_IS_ADDR_LOOPBACK(&ret->v6.sin6_addr)
                   ? PR_OK
                   : listen_fault(text, "only loopback addresses are possible", reterr);
    }
    ret->v4.sin_family = AF_INET;
    ret->v4.sin_port = htons(port);
    if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &ret->v4.sin_addr) != 1)
        return listen_fault(text, "is no address with a port", reterr);
    return ntohl(ret->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
               ? PR_OK
               : listen_fault(text, "only loopback addresses are possible", reterr);
}

int health_check(const char *listen, struct pr_error *reterr)
{
    union address address;
    return parse_address(listen, &address, reterr);
}

static int open_socket(const char *text, const union address *address, int *ret_fd, unsigned *ret_port,
                       struct pr_error *reterr)
{
    int           one = 1;
    socklen_t     size = address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
    union address bound = { .any = { 0 } };
    socklen_t     bound_size = sizeof bound;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, &address->any, size) < 0 || listen(fd, CONNECTIONS_MAX) < 0 ||
        getsockname(fd, &bound.any, &bound_size) < 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return error_set(reterr, PR_EIO, "http.listen: %s: %s; is another instance running?", text, strerror(error));
    }
    *ret_fd = fd;
    *ret_port = ntohs(bound.any.sa_family == AF_INET ? bound.v4.sin_port : bound.v6.sin6_port);
    return PR_OK;
}

/* ---- The pages ---------------------------------------------------------------------------- */

static enum MHD_Result send_json(struct MHD_Connection *connection, unsigned status, pr_slice body)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body.size, (void *)(uintptr_t)body.data, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (result == MHD_YES)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (result == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (result == MHD_YES)
        result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_health(struct MHD_Connection *connection, int rc, const struct pr_error *error)
{
    struct buf         b;
    struct json_writer w;
    buf_init(&b, BODY_MAX);
    json_init(&w, &b);
    json_begin_object(&w);
    json_key(&w, "status");
    json_cstr(&w, rc != PR_OK ? "error" : error->text[0] != '\0' ? "warn" : "ok");
    if (error->text[0] != '\0') {
        json_key(&w, "why");
        json_cstr(&w, error->text);
    }
    json_end_object(&w);
    buf_add_char(&b, '\n');
    enum MHD_Result result =
        buf_failed(&b) ? MHD_NO
                       : send_json(connection, rc == PR_OK ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, buf_slice(&b));
    buf_fini(&b);
    return result;
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **state)
{
    (void)version, (void)upload;
    struct health  *h = arg;
    struct pr_error error = { 0 };
    if (*state == NULL) { /* the first call is about the headers only */
        *state = h;
        return MHD_YES;
    }
    if (*upload_size > 0) {
        *upload_size = 0; /* nobody reads a body here */
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return send_json(connection, MHD_HTTP_METHOD_NOT_ALLOWED, PR_STR("{\"status\":\"error\",\"why\":\"GET only\"}\n"));
    if (strcmp(url, "/health/live") == 0)
        return send_health(connection, h->options.is_live(h->options.arg, &error), &error);
    if (strcmp(url, "/health/ready") == 0)
        return send_health(connection, h->options.is_ready(h->options.arg, &error), &error);
    return send_json(connection, MHD_HTTP_NOT_FOUND,
                     PR_STR("{\"status\":\"error\",\"why\":\"there are /health/live and /health/ready\"}\n"));
}

/* ---- Start and stop ------------------------------------------------------------------------- */

int health_start(const struct health_options *options, struct health **ret_health, struct pr_error *reterr)
{
    union address address;
    int           fd = -1, rc = parse_address(options->listen, &address, reterr);
    unsigned      port = 0;
    if (rc < 0)
        return rc;
    struct health *h = calloc(1, sizeof *h);
    if (h == NULL)
        return error_set(reterr, PR_ENOMEM, "no memory for http.listen");
    h->options = *options;
    rc = open_socket(options->listen, &address, &fd, &port, reterr);
    if (rc < 0) {
        free(h);
        return rc;
    }
    h->port = port;
    h->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, answer, h,
                                 MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_SECONDS,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
                                 MHD_OPTION_THREAD_STACK_SIZE, (size_t)THREAD_STACK_LOOP, MHD_OPTION_END);
    if (h->daemon == NULL) {
        close(fd);
        free(h);
        return error_set(reterr, PR_ENOMEM, "http.listen: %s: cannot start the server", options->listen);
    }
    log_emit(options->log, LOG_INFO, "http_listening", LOG_STR("listen", options->listen), LOG_INT("port", port));
    *ret_health = h;
    return PR_OK;
}

void health_stop(struct health *health)
{
    if (health == NULL)
        return;
    MHD_stop_daemon(health->daemon);
    free(health);
}

unsigned health_port(const struct health *health)
{
    return health != NULL ? health->port : 0;
}
