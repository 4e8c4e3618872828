/* mqtt: each message is published with MQTT 5, QoS 1: the broker acknowledges each, with a reason.
 *
 *   mqtt://user:password@host:1883/orders/{type}?retain=true        mqtts:// the same with TLS
 *
 * libmosquitto works in the caller's thread.  It would queue and send again by itself; we keep both from it.
 *
 *    waiting --> out (given to the library, which writes it at once) --> acknowledged --> result
 *
 *   M1  The library gets no message while it has bytes to write, and no more than the broker takes at once:
 *       what it has is on the wire, save the rest of one packet.  cancel() need not ask it for anything back.
 *   M2  A connection has a client of its own.  When it is lost the client goes with all that it would send again.
 *   M3  One that was given up at its deadline keeps its place until its answer comes or the connection ends. */
#include <errno.h>
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/broker/broker_url.h"
#include "transport/cloudevents.h"
#include "transport/delivery.h"
#include "transport/envelope.h"
#include "transport/broker/mqtt_reason.h"
#include "transport/own_headers.h"
#include "transport/broker/reconnect.h"
#include "transport/result_ring.h"
#include "transport/template.h"

#define MQTT_PORT 1883
#define MQTTS_PORT 8883
#define MQTT_CONCURRENCY 1000
#define MQTT_CONCURRENCY_MAX 65535    /* as many packet identifiers there are */
#define MQTT_CONNECT_US PR_SECONDS(5) /* for the connection, TLS and the greeting */
#define MQTT_KEEPALIVE_S 60
#define MQTT_TICK_US PR_SECONDS(10) /* how long a poll may leave the library alone, for its pings */
#define MQTT_NAME_MAX 65535         /* of topics and properties: so it is in the protocol */

enum mqtt_state { MQTT_DOWN, MQTT_CONNECTING, MQTT_UP };

struct mqtt_out {
    const struct delivery *delivery; /* NULL: it has its result */
    int id;                          /* of its packet; 0: answered */
};

struct mqtt {
    const struct endpoint_config *config;
    const struct clock *clock;
    struct arena arena;   /* the url */
    struct arena scratch; /* one message */
    struct broker_url url;
    enum envelope envelope;
    bool tls, retain;
    struct buf topic, json;

    enum mqtt_state state;
    struct mosquitto *client; /* NULL when down */
    bool lost;                /* the client is to go: why says the reason */
    struct reconnect reconnect;
    int64_t give_up_us; /* connecting: until then */
    int why_reason;
    char why_code[RESULT_CODE_SIZE], why[MQTT_TEXT_SIZE];

    struct delivery_queue waiting;
    struct mqtt_out *out; /* a ring, in the order of sending, which is mostly that of the answers */
    size_t capacity, out_first, out_count;
    size_t window;    /* so many may be out at this broker */
    size_t awaited;   /* of those out: they have no result yet */
    int64_t check_us; /* while something is out: none of it is late before */
    struct result_ring done;
};

/* ---- The url ---------------------------------------------------------------------------------------- */

static const char *const plain_params[] = { "retain", "client", "plain", NULL };
static const char *const tls_params[] = { "retain", "client", "ca", "cert", "certkey", NULL };

static bool is_tls(const struct endpoint_config *config)
{
    return transport_scheme(config->url).size == strlen("mqtts");
}

static int mqtt_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret, bool *ret_retain,
                    struct pr_error *reterr)
{
    bool tls = is_tls(config);
    int rc =
        broker_url_parse(config, tls ? MQTTS_PORT : MQTT_PORT, tls ? tls_params : plain_params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_bool(config, ret, "retain", false, ret_retain, reterr);
    if (rc == PR_OK && ret->path.size == 0)
        rc = error_set(reterr, PR_ECONFIG,
                       "endpoint %s: the url has no topic: write %s://host/TOPIC, such as orders/{type}", config->name,
                       ret->scheme.data);
    if (rc == PR_OK)
        rc = template_check(config->name, "the topic", ret->path, reterr);
    if (rc == PR_OK && mosquitto_pub_topic_check2(ret->path.data, ret->path.size) != MOSQ_ERR_SUCCESS)
        rc = error_set(reterr, PR_ECONFIG, "endpoint %s: a topic to publish to has no + and no #", config->name);
    if (rc == PR_OK)
        rc = envelope_check(config, reterr);
    if (rc == PR_OK && config->concurrency > MQTT_CONCURRENCY_MAX)
        rc =
            error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency is at most %d", config->name, MQTT_CONCURRENCY_MAX);
    return rc;
}

static int mqtt_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    struct arena arena;
    struct broker_url url;
    bool retain;
    arena_init(&arena, 1024);
    int rc = mqtt_url(config, &arena, &url, &retain, reterr);
    arena_fini(&arena);
    return rc;
}

/* ---- Why it is down ------------------------------------------------------------------------------------ */

static void set_why(struct mqtt *q, int reason, const char *code, const char *text)
{
    q->why_reason = reason;
    snprintf(q->why_code, sizeof(q->why_code), "%s", code);
    snprintf(q->why, sizeof(q->why), "%.200s:%u: %.250s", q->url.host.data, q->url.port, text);
    q->lost = true;
}

static void set_why_code(struct mqtt *q, int code)
{
    char text[MQTT_TEXT_SIZE];
    const struct mqtt_reason *r = mqtt_reason_find(code);
    mqtt_reason_describe(r, code, text);
    set_why(q, r->reason, r->name, text);
}

/* From a call of the library that failed. */
static void set_why_error(struct mqtt *q, int rc)
{
    int error = errno;
    if (q->lost)
        return; /* a callback knew more */
    if (rc == MOSQ_ERR_TLS)
        set_why(q, PR_REASON_TRANSPORT_UNAVAILABLE, "tls", "TLS failed: " BROKER_CERT_ADVICE);
    else if (rc == MOSQ_ERR_EAI)
        set_why(q, PR_REASON_TRANSPORT_UNAVAILABLE, "lookup", "no such host: " BROKER_HOST_ADVICE);
    else if (q->tls && q->state != MQTT_UP && broker_url_tls(q->config, &q->url).cert.size == 0 &&
             (rc == MOSQ_ERR_CONN_LOST || (rc == MOSQ_ERR_ERRNO && error == EPROTO))) /* what TLS leads to */
        set_why(q, PR_REASON_TRANSPORT_UNAVAILABLE, "tls", BROKER_TLS_NO_CERT);
    else
        set_why(q, PR_REASON_TRANSPORT_UNAVAILABLE, "",
                rc == MOSQ_ERR_ERRNO && error != 0 ? strerror(error) : mosquitto_strerror(rc));
}

/* ---- Out -------------------------------------------------------------------------------------------------- */

static struct mqtt_out *out_at(struct mqtt *q, size_t index)
{
    ASSERT(index < q->out_count);
    return &q->out[(q->out_first + index) % q->capacity];
}

/* It gets its result: its delivery, NULL: it had one. */
static const struct delivery *out_end(struct mqtt *q, struct mqtt_out *o)
{
    const struct delivery *d = o->delivery;
    q->awaited -= d != NULL;
    o->delivery = NULL;
    return d;
}

static void out_add(struct mqtt *q, const struct delivery *d, int id)
{
    q->check_us = q->out_count > 0 ? min64(q->check_us, d->deadline_us) : d->deadline_us;
    q->out_count++;
    q->awaited++;
    *out_at(q, q->out_count - 1) = (struct mqtt_out){ .delivery = d, .id = id };
}

static void out_drop_answered(struct mqtt *q)
{
    for (; q->out_count > 0 && out_at(q, 0)->id == 0; q->out_count--)
        q->out_first = (q->out_first + 1) % q->capacity;
}

static void add_why(struct mqtt *q, const struct delivery *d, enum send_outcome outcome)
{
    result_failed(result_ring_add(&q->done), d->token, outcome, q->why_reason, q->why_code, slice_from(q->why));
}

/* M2: everything out may have arrived. */
static void mqtt_drop(struct mqtt *q)
{
    for (size_t i = 0; i < q->out_count; i++) {
        const struct delivery *d = out_end(q, out_at(q, i));
        if (d != NULL)
            result_failed(result_ring_add(&q->done), d->token, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE,
                          q->why_code, slice_from(q->why));
    }
    q->out_count = 0;
    mosquitto_destroy(q->client);
    q->client = NULL;
    q->lost = false;
    q->state = MQTT_DOWN;
}

/* ---- What the library tells -------------------------------------------------------------------------------- */

static void on_connect(struct mosquitto *client, void *self, int code, int flags, const mosquitto_property *properties)
{
    struct mqtt *q = self;
    uint16_t maximum;
    (void)client;
    (void)flags;
    /* A broker of the time before answers with a small number of its own. */
    if (code != 0 && code < MQTT_FAILED)
        code = code == 1   ? MQTT_RC_UNSUPPORTED_PROTOCOL_VERSION
               : code == 3 ? MQTT_RC_SERVER_UNAVAILABLE
                           : MQTT_RC_NOT_AUTHORIZED;
    if (code != 0) {
        set_why_code(q, code);
        return;
    }
    q->state = MQTT_UP;
    q->window = q->capacity;
    if (mosquitto_property_read_int16(properties, MQTT_PROP_RECEIVE_MAXIMUM, &maximum, false) != NULL)
        q->window = min_size(q->window, maximum);
}

static void on_disconnect(struct mosquitto *client, void *self, int code, const mosquitto_property *properties)
{
    struct mqtt *q = self;
    (void)client;
    (void)properties;
    if (code >= MQTT_FAILED)
        set_why_code(q, code);
}

static void on_publish(struct mosquitto *client, void *self, int id, int code, const mosquitto_property *properties)
{
    struct mqtt *q = self;
    size_t i = 0;
    (void)client;
    (void)properties;
    while (i < q->out_count && out_at(q, i)->id != id)
        i++;
    if (i == q->out_count)
        return; /* nobody's */
    const struct delivery *d = out_end(q, out_at(q, i));
    out_at(q, i)->id = 0;
    out_drop_answered(q);
    reconnect_worked(&q->reconnect);
    if (d == NULL)
        return;               /* M3 */
    if (code < MQTT_FAILED) { /* 16 says that nobody has subscribed */
        result_ok(result_ring_add(&q->done), d->token);
        return;
    }
    char text[MQTT_TEXT_SIZE];
    const struct mqtt_reason *r = mqtt_reason_find(code);
    mqtt_reason_describe(r, code, text);
    result_failed(result_ring_add(&q->done), d->token, SEND_FAILED, r->reason, r->name, slice_from(text));
}

/* ---- The connection -------------------------------------------------------------------------------------------- */

static void library_init(void)
{
    (void)mosquitto_lib_init(); /* it cannot fail but on Windows */
}

static int client_secure(struct mqtt *q, struct mosquitto *client)
{
    struct broker_tls files = broker_url_tls(q->config, &q->url);
    if (!q->tls)
        return MOSQ_ERR_SUCCESS;
    int rc = files.ca.size == 0 ? mosquitto_int_option(client, MOSQ_OPT_TLS_USE_OS_CERTS, 1) : MOSQ_ERR_SUCCESS;
    if (rc == MOSQ_ERR_SUCCESS && (files.ca.size > 0 || files.cert.size > 0))
        rc = mosquitto_tls_set(
            client, files.ca.size > 0 ? files.ca.data : NULL, files.ca.size > 0 ? NULL : "/etc/ssl/certs",
            files.cert.size > 0 ? files.cert.data : NULL, files.cert.size > 0 ? files.key.data : NULL, NULL);
    return rc == MOSQ_ERR_SUCCESS ? mosquitto_tls_opts_set(client, 1, NULL, NULL) : rc;
}

/* PR_OK, PR_ECONFIG, PR_ENOMEM. */
static int client_new(struct mqtt *q, struct mosquitto **ret, struct pr_error *reterr)
{
    pr_slice id = broker_url_param(&q->url, "client", "");
    struct mosquitto *client = mosquitto_new(id.size > 0 ? id.data : NULL, true, q);
    if (client == NULL)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: no memory for a client", q->config->name);
    int rc = mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
    if (rc == MOSQ_ERR_SUCCESS)
        rc = mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1);
    if (rc == MOSQ_ERR_SUCCESS)
        rc = mosquitto_int_option(client, MOSQ_OPT_SEND_MAXIMUM, MQTT_CONCURRENCY_MAX);
    if (rc == MOSQ_ERR_SUCCESS && q->url.user.size > 0)
        rc =
            mosquitto_username_pw_set(client, q->url.user.data, q->url.password.size > 0 ? q->url.password.data : NULL);
    if (rc == MOSQ_ERR_SUCCESS)
        rc = client_secure(q, client);
    if (rc != MOSQ_ERR_SUCCESS) {
        mosquitto_destroy(client);
        return error_set(reterr, PR_ECONFIG, "endpoint %s: %s: look at ca, cert and certkey in the url, each a file",
                         q->config->name, mosquitto_strerror(rc));
    }
    mosquitto_connect_v5_callback_set(client, on_connect);
    mosquitto_disconnect_v5_callback_set(client, on_disconnect);
    mosquitto_publish_v5_callback_set(client, on_publish);
    *ret = client;
    return PR_OK;
}

static void mqtt_connect(struct mqtt *q, int64_t now_us)
{
    struct pr_error error;
    reconnect_tried(&q->reconnect, now_us);
    if (client_new(q, &q->client, &error) != PR_OK) {
        set_why(q, PR_REASON_TRANSPORT_UNAVAILABLE, "", error.text);
        q->lost = false;
        return;
    }
    q->state = MQTT_CONNECTING;
    q->give_up_us = now_us + MQTT_CONNECT_US;
    int rc = mosquitto_connect_async(q->client, q->url.host.data, (int)q->url.port, MQTT_KEEPALIVE_S);
    if (rc != MOSQ_ERR_SUCCESS)
        set_why_error(q, rc);
}

/* ---- One message ------------------------------------------------------------------------------------------------- */

static bool is_attribute(const struct cloudevent *event, pr_slice name)
{
    for (size_t i = 0; i < event->count; i++)
        if (slice_eq_cstr(name, event->attributes[i].name))
            return true;
    return slice_eq_cstr(name, "datacontenttype");
}

/* The value ends with a NUL, or gets one. */
static int add_pair(struct mqtt *q, mosquitto_property **list, const char *name, pr_slice value)
{
    pr_slice text = slice_dup(&q->scratch, value);
    if (text.data != NULL && memchr(text.data, '\0', text.size) != NULL)
        return MOSQ_ERR_MALFORMED_UTF8;
    return text.data != NULL ? mosquitto_property_add_string_pair(list, MQTT_PROP_USER_PROPERTY, name, text.data)
                             : MOSQ_ERR_NOMEM;
}

static int add_content_type(struct mqtt *q, mosquitto_property **list, pr_slice type)
{
    pr_slice text = slice_dup(&q->scratch, type);
    return text.data != NULL ? mosquitto_property_add_string(list, MQTT_PROP_CONTENT_TYPE, text.data) : MOSQ_ERR_NOMEM;
}

/* A result of the library's. */
static int add_properties(struct mqtt *q, const struct pr_message *m, const struct own_header *own, size_t own_count,
                          mosquitto_property **list)
{
    struct cloudevent event = { 0 };
    int rc = MOSQ_ERR_SUCCESS;
    if (q->envelope == ENVELOPE_BINARY)
        cloudevent_init(&event, m, q->config->source);
    for (size_t i = 0; rc == MOSQ_ERR_SUCCESS && i < event.count; i++)
        rc = add_pair(q, list, event.attributes[i].name, event.attributes[i].value);
    if (rc == MOSQ_ERR_SUCCESS && q->envelope != ENVELOPE_RAW)
        rc = add_content_type(
            q, list, q->envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE) : cloudevent_content_type(m));
    for (size_t i = 0; rc == MOSQ_ERR_SUCCESS && i < own_count; i++)
        if (own[i].name.size > 0 && !is_attribute(&event, own[i].name))
            rc = add_pair(q, list, own[i].name.data, own[i].value);
    return rc;
}

/* The body, and the topic in q->topic. */
static int make_body(struct mqtt *q, const struct pr_message *m, pr_slice *ret_body)
{
    buf_reset(&q->topic);
    template_fill(&q->topic, q->url.path, m);
    *ret_body = m->payload;
    if (q->envelope == ENVELOPE_STRUCTURED) {
        buf_reset(&q->json);
        cloudevent_write_json(&q->json, m, q->config->source);
        *ret_body = buf_slice(&q->json);
    }
    return buf_failed(&q->topic) != 0 ? buf_failed(&q->topic) : buf_failed(&q->json);
}

static void refuse(struct mqtt *q, const struct delivery *d, int reason, const char *code, const char *text)
{
    result_failed(result_ring_add(&q->done), d->token, SEND_FAILED, reason, code, slice_from(text));
}

/* What the library does not take, it has not sent. */
static void refused_by_library(struct mqtt *q, const struct delivery *d, int rc)
{
    switch (rc) {
    case MOSQ_ERR_OVERSIZE_PACKET:
    case MOSQ_ERR_PAYLOAD_SIZE:
        refuse(q, d, PR_REASON_MESSAGE_TOO_LARGE, "packet_too_large",
               "the message is larger than what the broker said it takes (max_packet_size)");
        break;
    case MOSQ_ERR_INVAL:
    case MOSQ_ERR_MALFORMED_UTF8:
    case MOSQ_ERR_MALFORMED_PACKET:
        refuse(q, d, PR_REASON_SERIALIZATION_ERROR, "",
               "MQTT cannot carry it: a topic has no + and #, names and texts have no control characters, and "
               "none "
               "is over 65535 bytes");
        break;
    case MOSQ_ERR_QOS_NOT_SUPPORTED:
        refuse(q, d, PR_REASON_REJECTED, "qos_not_supported", "the broker must take QoS 1");
        break;
    case MOSQ_ERR_RETAIN_NOT_SUPPORTED:
        refuse(q, d, PR_REASON_REJECTED, "retain_not_supported", "take retain out of the endpoint's url");
        break;
    default: result_returned(result_ring_add(&q->done), d->token); /* no memory: later, then */
    }
}

static void mqtt_begin(struct mqtt *q, const struct delivery *d)
{
    struct pr_error fault = { 0 };
    struct own_header *own;
    size_t own_count;
    pr_slice body = { NULL, 0 };
    mosquitto_property *list = NULL;
    int id = 0;

    arena_reset(&q->scratch);
    int rc = own_headers_read(d->message, &q->scratch, &own, &own_count, &fault);
    if (rc == PR_EINVAL) {
        refuse(q, d, PR_REASON_SERIALIZATION_ERROR, "", fault.text);
        return;
    }
    if (rc == PR_OK)
        rc = make_body(q, d->message, &body);
    rc = rc == PR_ETOOBIG ? MOSQ_ERR_INVAL
         : rc != PR_OK    ? MOSQ_ERR_NOMEM
                          : add_properties(q, d->message, own, own_count, &list);
    if (rc == MOSQ_ERR_SUCCESS)
        rc = mosquitto_publish_v5(q->client, &id, buf_slice(&q->topic).data, (int)min_size(body.size, INT32_MAX),
                                  body.data, 1, q->retain, list);
    mosquitto_property_free_all(&list);
    /* It keeps a message that it could not write because the connection is gone: on the wire, for us. */
    bool kept = rc == MOSQ_ERR_SUCCESS || rc == MOSQ_ERR_NO_CONN || rc == MOSQ_ERR_CONN_LOST || rc == MOSQ_ERR_ERRNO ||
                rc == MOSQ_ERR_TLS;
    if (!kept) {
        refused_by_library(q, d, rc);
        return;
    }
    out_add(q, d, id);
    if (rc != MOSQ_ERR_SUCCESS)
        set_why_error(q, rc);
}

/* What is written while it is on leaves together when it goes off: one segment for the broker to wake up for, instead of
 * one for each message.  Refused, it only costs speed. */
static void mqtt_cork(struct mqtt *q, int on)
{
    (void)setsockopt(mosquitto_socket(q->client), IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
}

static size_t mqtt_room(struct mqtt *q)
{
    bool ready = q->state == MQTT_UP && !q->lost && !mosquitto_want_write(q->client); /* M1 */
    return ready && q->out_count < q->window ? q->window - q->out_count : 0;
}

/* While the connection is down everything that waits fails at once, with the reason why. */
static void mqtt_start_waiting(struct mqtt *q, int64_t now_us)
{
    const struct delivery *d;
    bool may_start, several = q->waiting.count > 1 && mqtt_room(q) > 1;
    if (several)
        mqtt_cork(q, 1);
    while ((d = delivery_queue_peek(&q->waiting, now_us, &may_start)) != NULL) {
        if (may_start && q->state != MQTT_DOWN && mqtt_room(q) == 0)
            break;
        bool late = q->state == MQTT_CONNECTING && q->waiting.cancelled == 0 && now_us >= d->deadline_us &&
                    now_us < d->start_before_us && d->deadline_us > q->give_up_us - MQTT_CONNECT_US; /* the broker is */
        delivery_queue_drop(&q->waiting);
        if (late)
            refuse(q, d, PR_REASON_TRANSPORT_UNAVAILABLE, "", "no connection in time");
        else if (!may_start)
            result_returned(result_ring_add(&q->done), d->token);
        else if (q->state == MQTT_DOWN)
            add_why(q, d, SEND_FAILED);
        else
            mqtt_begin(q, d);
    }
    if (several)
        mqtt_cork(q, 0);
}

/* ---- Deadlines ------------------------------------------------------------------------------------------------------ */

/* Looks at everything that is out, so not with every poll. */
static void give_up_late(struct mqtt *q, int64_t now_us)
{
    q->check_us = PR_NEVER;
    for (size_t i = 0; i < q->out_count; i++) {
        struct mqtt_out *o = out_at(q, i);
        if (o->delivery != NULL && now_us >= o->delivery->deadline_us)
            result_failed(result_ring_add(&q->done), out_end(q, o)->token, SEND_UNKNOWN, PR_REASON_TIMEOUT_EXCEEDED, "",
                          PR_STR("no answer in time"));
        if (o->delivery != NULL)
            q->check_us = min64(q->check_us, o->delivery->deadline_us);
    }
}

/* A connection that owes answers which nobody awaits any more is not worth keeping. */
static void mqtt_expire(struct mqtt *q, int64_t now_us)
{
    if (q->out_count > 0 && now_us >= q->check_us)
        give_up_late(q, now_us);
    if (q->client != NULL && !q->lost &&
        ((q->out_count > 0 && q->awaited == 0) || (q->state == MQTT_CONNECTING && now_us >= q->give_up_us)))
        set_why(q, PR_REASON_TRANSPORT_UNAVAILABLE, "", "no answer in time");
}

static int64_t mqtt_next_us(const struct mqtt *q, int64_t now_us)
{
    int64_t next_us = q->state == MQTT_CONNECTING ? q->give_up_us : PR_NEVER;
    if (q->state == MQTT_UP)
        next_us = now_us + MQTT_TICK_US;
    if (q->out_count > 0)
        next_us = min64(next_us, q->check_us);
    if (q->waiting.count > 0) {
        const struct delivery *d = q->waiting.ring[q->waiting.first];
        next_us = min64(next_us, min64(d->deadline_us, d->start_before_us));
    }
    return next_us;
}

/* ---- The transport ----------------------------------------------------------------------------------------------------- */

static int mqtt_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct mqtt *q = self;
    struct mosquitto *trial = NULL;
    pthread_once(&once, library_init);
    q->config = config;
    q->clock = config_clock(config);
    q->capacity = config->concurrency != 0 ? config->concurrency : MQTT_CONCURRENCY;
    q->tls = is_tls(config);
    q->why_reason = PR_REASON_TRANSPORT_UNAVAILABLE;
    arena_init(&q->arena, 1024);
    arena_init(&q->scratch, 4096);
    buf_init(&q->topic, MQTT_NAME_MAX);
    buf_init(&q->json, ENVELOPE_JSON_MAX);
    int rc = mqtt_url(config, &q->arena, &q->url, &q->retain, reterr);
    (void)envelope_parse(config->envelope, &q->envelope); /* mqtt_url() has */
    q->out = calloc(q->capacity, sizeof(*q->out));
    if (rc == PR_OK && q->out == NULL)
        rc = error_set(reterr, PR_ENOMEM, "endpoint %s: no memory for %zu messages", config->name, q->capacity);
    if (rc == PR_OK)
        rc = delivery_queue_init(&q->waiting, q->capacity, reterr);
    if (rc == PR_OK)
        rc = result_ring_init(&q->done, q->capacity, reterr);
    if (rc == PR_OK)
        rc = client_new(q, &trial, reterr); /* are the files there? */
    mosquitto_destroy(trial);
    return rc;
}

static void mqtt_close(void *self)
{
    struct mqtt *q = self;
    if (q->state == MQTT_UP)
        (void)mosquitto_disconnect(q->client); /* a courtesy */
    mosquitto_destroy(q->client);
    delivery_queue_fini(&q->waiting);
    result_ring_fini(&q->done);
    buf_fini(&q->topic);
    buf_fini(&q->json);
    arena_fini(&q->arena);
    arena_fini(&q->scratch);
    free(q->out);
}

static size_t mqtt_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct mqtt *q = self;
    size_t used = q->waiting.count + q->out_count + q->done.count; /* one that was given up may count twice */
    return delivery_queue_push(&q->waiting, list, min_size(count, q->capacity - min_size(used, q->capacity)));
}

static void mqtt_exchange(struct mqtt *q)
{
    int rc = mosquitto_loop_read(q->client, 1);
    if (rc == MOSQ_ERR_SUCCESS && mosquitto_want_write(q->client))
        rc = mosquitto_loop_write(q->client, 1);
    if (rc == MOSQ_ERR_SUCCESS)
        rc = mosquitto_loop_misc(q->client);
    if (rc != MOSQ_ERR_SUCCESS)
        set_why_error(q, rc);
}

/* Everything that can be done without waiting. */
static void mqtt_work(struct mqtt *q)
{
    int64_t now_us = clock_mono_us(q->clock);
    if (q->client != NULL && !q->lost)
        mqtt_exchange(q);
    mqtt_expire(q, now_us);
    if (q->lost) {
        bool was_up = q->state == MQTT_UP;
        mqtt_drop(q);
        if (!was_up) /* now: an attempt that took long is followed by the next one at once */
            mqtt_start_waiting(q, now_us);
    }
    if (q->state == MQTT_DOWN && q->waiting.count > q->waiting.cancelled && reconnect_may(&q->reconnect, now_us))
        mqtt_connect(q, now_us);
    if (q->lost)
        mqtt_drop(q);
    mqtt_start_waiting(q, now_us);
}

/* False: neither the connection nor a deadline. */
static bool mqtt_wait(struct mqtt *q, int64_t deadline_us)
{
    int fd = q->client != NULL ? mosquitto_socket(q->client) : -1;
    short events = q->client != NULL && mosquitto_want_write(q->client) ? POLLIN | POLLOUT : POLLIN;
    int64_t until_us = min64(deadline_us, mqtt_next_us(q, clock_mono_us(q->clock)));
    return q->lost || wait_until(fd, events, q->config->wake_fd, q->clock, until_us) ||
           clock_mono_us(q->clock) >= until_us;
}

static size_t mqtt_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct mqtt *q = self;
    bool woken = false;
    for (;;) {
        mqtt_work(q);
        size_t count = result_ring_take(&q->done, ret, max);
        if (count > 0 || woken || clock_mono_us(q->clock) >= deadline_us)
            return count;
        woken = !mqtt_wait(q, deadline_us);
    }
}

/* M1 */
static void mqtt_cancel(void *self)
{
    struct mqtt *q = self;
    delivery_queue_cancel(&q->waiting);
}

#define MQTT_OPS(name)                                                                                                 \
    {                                                                                                                  \
        .scheme = (name), .size = sizeof(struct mqtt), .promises = TRANSPORT_REMOTE, .concurrency = MQTT_CONCURRENCY,  \
        .check = mqtt_check, .open = mqtt_open, .close = mqtt_close, .submit = mqtt_submit, .poll = mqtt_poll,         \
        .cancel = mqtt_cancel,                                                                                         \
    }

const struct transport_ops transport_mqtt = MQTT_OPS("mqtt");
const struct transport_ops transport_mqtts = MQTT_OPS("mqtts");
