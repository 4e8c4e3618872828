/* http: messages that other programs POST: CloudEvents in binary, structured and batch mode, Standard Webhooks, or any
 * body.
 *
 *   http://127.0.0.1:8090/hooks/orders
 *
 * A request is answered 202 when all its messages are committed.  If the answer is lost, its sender sends it again with
 * the same id (of the CloudEvent, webhook-id, Idempotency-Key), and it is stored once.  TLS is left to a proxy. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "source/broker/broker.h"
#include "source/http/door.h"
#include "transport/cloudevents.h"
#include "transport/http/signature.h"

#define TOLERANCE_DEFAULT_US PR_SECONDS(300)

struct http_source {
    struct broker *broker;
    struct door *door;
    struct arena elements; /* of a batch that is taken in parts */
    struct door_request *current;
    pr_slice *list; /* its messages; NULL: a single one */
    size_t count, taken;
    struct taken_request {
        struct door_request *request;
        size_t count;
    } * done; /* completely in the batch */
    size_t done_count, capacity;
    pr_slice path; /* with its slash */
};

/* ---- The url ------------------------------------------------------------------------------------------ */

static const char *const params[] = { NULL };

static int http_parse(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                      struct pr_error *reterr)
{
    if (!slice_eq_cstr(transport_scheme(config->url), "http"))
        return error_set(reterr, PR_ECONFIG,
                         "%s: the url is not valid: use http://ADDRESS:PORT/PATH; TLS needs a proxy before it",
                         endpoint_title(config).text);
    int rc = broker_url_parse(config, 0, params, arena, ret, reterr);
    if (rc != PR_OK)
        return rc;
    if (ret->port == 0 || ret->path.size == 0 || ret->user.size > 0)
        return error_set(reterr, PR_ECONFIG, "%s: the url is not valid: it needs a port and a path, and no login",
                         endpoint_title(config).text);
    return PR_OK;
}

static const char *listen_text(const struct broker_url *url, struct arena *arena)
{
    bool is_v6 = memchr(url->host.data, ':', url->host.size) != NULL && url->host.data[0] != '[';
    return arena_printf(arena, is_v6 ? "[%.*s]:%u" : "%.*s:%u", SLICE_ARGS(url->host), url->port).data;
}

static pr_slice http_address(const struct broker_url *url)
{
    return url->path;
}

/* Requests without authentication must come from this machine. */
static int http_check(const struct source_config *config, const struct broker_url *url, struct arena *arena,
                      struct pr_error *reterr)
{
    struct address address;
    struct signer signer;
    const char *listen = listen_text(url, arena);
    if (listen == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the url of a source");
    int rc = address_parse("source http", listen, &address, reterr);
    if (rc != PR_OK)
        return rc;
    rc = signer_init(&signer, "source http: secrets", config->http.secrets, config->http.secret_count, reterr);
    signer_fini(&signer);
    if (rc == PR_OK && !address.local && config->http.token[0] == '\0' && config->http.secret_count == 0)
        rc = error_set(reterr, PR_ECONFIG,
                       "source http: %s is not a loopback address; other addresses need token or secrets", listen);
    return rc;
}

/* ---- From requests to messages --------------------------------------------------------------------------- */

static int add_element(void *arg, pr_slice value)
{
    struct http_source *h = arg;
    if (h->count == DECODE_MESSAGES_MAX)
        return PR_ETOOBIG;
    h->list[h->count++] = value;
    return PR_OK;
}

/* Opens a request's content; if it was refused, it does not become the current one. */
static int open_request(struct http_source *h, struct door_request *request, struct pr_error *reterr)
{
    h->current = request;
    h->list = NULL;
    h->taken = 0;
    h->count = 1;
    if (!media_type_is(request->content_type, CLOUDEVENTS_BATCH_MEDIA_TYPE))
        return PR_OK;
    arena_reset(&h->elements);
    h->list = arena_alloc_array(&h->elements, DECODE_MESSAGES_MAX, sizeof(*h->list));
    if (h->list == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a batch of events");
    h->count = 0;
    int rc = json_array_walk(request->body, add_element, h);
    if (rc == PR_ETOOBIG) {
        _Static_assert(DECODE_MESSAGES_MAX == 1000, "the text says so");
        door_refused(h->door, request, 413, "a batch has at most 1000 events");
        h->current = NULL;
    } else if (rc != PR_OK) { /* the whole request becomes a dead letter */
        h->list = NULL;
        h->count = 1;
    }
    return PR_OK;
}

static int see_type(void *arg, pr_slice key, pr_slice value)
{
    if (slice_eq_cstr(key, "\"type\""))
        *(pr_slice *)arg = value;
    return PR_OK;
}

/* A standard webhook has its type in the body. */
static pr_slice type_of(struct http_source *h, const struct door_request *r)
{
    pr_slice written = PR_STR(""), type;
    if (r->is_webhook && json_object_walk(r->body, see_type, &written) == PR_OK && written.size > 0 &&
        json_string_read(written, &h->elements, &type) == PR_OK && type.size > 0)
        return type;
    return h->path;
}

static int take_message(struct http_source *h, struct intake *in, struct pr_error *reterr)
{
    const struct door_request *r = h->current;
    struct received m = { .content_type = r->content_type,
                          .body = r->body,
                          .headers = r->headers,
                          .header_count = r->header_count,
                          .prefix = "ce-",
                          .is_percent_encoded = true,
                          .id = r->id,
                          .has_signed_id = h->broker->source->config->http.secret_count > 0 };
    bool is_batch = media_type_is(r->content_type, CLOUDEVENTS_BATCH_MEDIA_TYPE);
    if (is_batch && h->list == NULL) {
        m.type = h->path;
        return intake_bury(in, &m, "a batch of events must be a JSON array", reterr);
    }
    if (h->list != NULL) {
        m.content_type = PR_STR(CLOUDEVENTS_MEDIA_TYPE);
        m.body = h->list[h->taken];
        m.header_count = 0;
        m.id = PR_STR("");
    } else {
        arena_reset(&h->elements);
        m.type = type_of(h, r);
    }
    return intake_add(in, &m, reterr);
}

/* Takes as many of its messages as fit. */
static int take_current(struct http_source *h, struct intake *in, struct pr_error *reterr)
{
    int rc = PR_OK;
    while (rc == PR_OK && h->taken < h->count && !intake_is_full(in)) {
        rc = take_message(h, in, reterr);
        h->taken += rc == PR_OK;
    }
    if (rc == PR_OK && h->taken == h->count) {
        h->done[h->done_count++] = (struct taken_request){ h->current, h->count };
        h->current = NULL;
    }
    return rc;
}

static void wait_for_requests(const struct http_source *h, int wake_fd)
{
    struct pollfd fds[] = { { .fd = door_fd(h->door), .events = POLLIN }, { .fd = wake_fd, .events = POLLIN } };
    (void)poll(fds, 2, (int)(BROKER_WAIT_US / PR_MILLISECONDS(1)));
}

static int http_receive(void *self, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    struct http_source *h = self;
    int rc = PR_OK;
    door_set_state(h->door, DOOR_OPEN);
    if (h->current == NULL)
        wait_for_requests(h, wake_fd);
    while (rc == PR_OK && !intake_is_full(in) && h->done_count < h->capacity) {
        struct door_request *next = h->current == NULL ? door_take(h->door) : NULL;
        if (next == NULL && h->current == NULL)
            break;
        if (next != NULL)
            rc = open_request(h, next, reterr);
        if (rc == PR_OK && h->current != NULL)
            rc = take_current(h, in, reterr);
    }
    return rc;
}

static int http_acknowledge(void *self, struct pr_error *reterr)
{
    struct http_source *h = self;
    (void)reterr;
    for (size_t i = 0; i < h->done_count; i++)
        door_accepted(h->door, h->done[i].request, h->done[i].count);
    h->done_count = 0;
    return PR_OK;
}

/* They cannot be stored now: their senders will send them again. */
static void http_drop(void *self)
{
    struct http_source *h = self;
    struct source_status status;
    source_status_get(h->broker->source, &status);
    unsigned code = status.is_held ? 429 : 503;
    for (size_t i = 0; i < h->done_count; i++)
        door_refused(h->door, h->done[i].request, code, "it could not be stored; send it again later");
    if (h->current != NULL)
        door_refused(h->door, h->current, code, "it could not be stored; send it again later");
    h->done_count = 0;
    h->current = NULL;
    door_set_state(h->door, status.is_held ? DOOR_FULL : DOOR_CLOSED);
}

/* ---- The source ------------------------------------------------------------------------------------------- */

static int http_open(void *self, struct broker *broker, struct pr_error *reterr)
{
    struct http_source *h = self;
    const struct source_http *settings = &broker->source->config->http;
    h->broker = broker;
    h->capacity = broker->intake.capacity;
    arena_init(&h->elements, 4096);
    h->done = arena_alloc_array(&broker->arena, h->capacity, sizeof(*h->done));
    h->path = arena_printf(&broker->arena, "/%.*s", SLICE_ARGS(broker->url.path));
    struct door_options options = {
        .name = arena_printf(&broker->arena, "source %s", broker->config.name).data,
        .listen = listen_text(&broker->url, &broker->arena),
        .path = h->path.data,
        .token = settings->token,
        .secrets = settings->secrets,
        .secret_count = settings->secret_count,
        .tolerance_us = settings->tolerance_us > 0 ? settings->tolerance_us : TOLERANCE_DEFAULT_US,
        .body_max = max_size(broker_message_max(broker), INTAKE_BYTES_MAX),
    };
    if (h->done == NULL || h->path.data == NULL || options.name == NULL || options.listen == NULL)
        return error_set(reterr, PR_ENOMEM, "source %s: out of memory", broker->config.name);
    int rc = door_open(&options, &h->door, reterr);
    if (rc == PR_OK)
        log_emit(broker->source->log, LOG_INFO, "source_listens", LOG_STR("source", broker->source->config->name),
                 LOG_STR("box", broker->source->config->box), LOG_STR("address", options.listen),
                 LOG_STR("path", options.path));
    return rc;
}

static void http_close(void *self)
{
    struct http_source *h = self;
    door_close(h->door);
    if (h->broker != NULL)
        arena_fini(&h->elements);
}

static const struct broker_ops http_broker = {
    .kind = "http",
    .size = sizeof(struct http_source),
    .parse = http_parse,
    .check = http_check,
    .address = http_address,
    .open = http_open,
    .close = http_close,
    .receive = http_receive,
    .acknowledge = http_acknowledge,
    .drop = http_drop,
};

static int http_source_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    return broker_open(source, &http_broker, ret_self, reterr);
}

const struct source_ops source_http = {
    .broker = &http_broker, .open = http_source_open, .run = broker_run, .close = broker_close
};
