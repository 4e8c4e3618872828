/* mqtt: each message is published with MQTT 5, QoS 1: the broker acknowledges each, with a reason.
 *
 *   mqtt://user:password@host:1883/orders/{type}?retain=true        mqtts:// the same with TLS
 *
 * Everything happens in the caller's thread (session.h).  Nothing is resent automatically: a session starts clean.
 *
 *   M1  A message's packet identifier is its number in the pipeline, counted from 1 to 65535 and then from 1 again.  No
 *       more
 *       messages are out, so that no two have the same.
 *   M2  No more are out than the broker accepts at once (its receive maximum), and none is larger than its limit. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"
#include "transport/envelope.h"
#include "transport/broker/mqtt_packet.h"
#include "transport/broker/mqtt_reason.h"
#include "transport/own_headers.h"
#include "transport/broker/session.h"
#include "transport/template.h"

#define MQTT_PORT 1883
#define MQTTS_PORT 8883
#define MQTT_CONCURRENCY_MAX 65535 /* the number of packet identifiers */
#define MQTT_KEEPALIVE_S 60
#define MQTT_PROPERTIES_MAX (8u << 20) /* bytes of one message's */

struct mqtt_transport {
    struct broker_session session;
    struct arena scratch; /* one message */
    struct buf topic, properties, json;
    enum envelope envelope;
    bool retain;

    struct inbox inbox;       /* empty without a connection */
    struct mqtt_answer terms; /* the broker's limits, from CONNACK */
    int64_t keepalive_us;     /* 0: not agreed yet, or the broker needs none */
    int64_t read_us, sent_us; /* when something was last read and sent */
    bool pinged;              /* a ping was sent since something was last read */
};

/* ---- The url ---------------------------------------------------------------------------------------- */

static const char *const plain_params[] = { "retain", "client", "plain", NULL };
static const char *const tls_params[] = { "retain", "client", WIRE_PARAMS, NULL };

static bool has_tls(const struct endpoint_config *config)
{
    return transport_scheme(config->url).size == strlen("mqtts");
}

static int check_strings(const struct endpoint_config *config, const struct broker_url *url, struct pr_error *reterr)
{
    const struct {
        const char *name;
        pr_slice value;
    } strings[] = { { "user", url->user },
                    { "password", url->password },
                    { "client", broker_url_param(url, "client", "") } };
    for (size_t i = 0; i < ARRAY_LENGTH(strings); i++)
        if (!mqtt_is_string(strings[i].value))
            return error_set(reterr, PR_ECONFIG,
                             "endpoint %s: %s in the url is not an MQTT string: use UTF-8 without control characters",
                             config->name, strings[i].name);
    return PR_OK;
}

static int mqtt_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                    struct pr_error *reterr)
{
    bool tls = has_tls(config), retain;
    int rc =
        broker_url_parse(config, tls ? MQTTS_PORT : MQTT_PORT, tls ? tls_params : plain_params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_bool(config, ret, "retain", false, &retain, reterr);
    if (rc == PR_OK && ret->path.size == 0)
        rc = error_set(reterr, PR_ECONFIG,
                       "endpoint %s: the url has no topic: use %s://host/TOPIC, for example orders/{type}",
                       config->name, ret->scheme.data);
    if (rc == PR_OK)
        rc = template_check(config->name, "the topic", ret->path, reterr);
    if (rc == PR_OK && !mqtt_is_topic(ret->path))
        rc = error_set(reterr, PR_ECONFIG, "endpoint %s: the topic must not contain + or #", config->name);
    if (rc == PR_OK)
        rc = check_strings(config, ret, reterr);
    if (rc == PR_OK)
        rc = envelope_check(config, reterr);
    if (rc == PR_OK && config->concurrency > MQTT_CONCURRENCY_MAX)
        rc = error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency can be at most %d", config->name,
                       MQTT_CONCURRENCY_MAX);
    return rc;
}

static int mqtt_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    return session_check(mqtt_url, config, reterr);
}

/* ---- The connection -------------------------------------------------------------------------------------- */

static void mqtt_drop(void *self)
{
    struct mqtt_transport *q = self;
    q->inbox.size = 0;
    q->keepalive_us = 0;
    q->pinged = false;
}

static void mqtt_failed(struct mqtt_transport *q, const char *what)
{
    session_failed(&q->session, PR_REASON_TRANSPORT_UNAVAILABLE, "", what);
}

/* Fails with one of its reason codes. */
static void mqtt_refused(struct mqtt_transport *q, int code)
{
    char text[MQTT_TEXT_SIZE];
    const struct mqtt_reason *r = mqtt_reason_find(code);
    mqtt_reason_describe(r, code, text);
    session_failed(&q->session, r->reason, r->name, text);
}

static void mqtt_greet(void *self)
{
    struct mqtt_transport *q = self;
    const struct broker_url *url = &q->session.url;
    struct mqtt_login login = { .client = broker_url_param(url, "client", ""),
                                .user = url->user,
                                .password = url->password,
                                .keepalive_s = MQTT_KEEPALIVE_S };
    q->read_us = q->sent_us = clock_mono_us(q->session.clock);
    mqtt_put_connect(&q->session.pipeline.bytes, &login);
    if (buf_failed(&q->session.pipeline.bytes) != 0)
        mqtt_failed(q, "out of memory");
}

/* ---- Answers ------------------------------------------------------------------------------------------------ */

/* A broker of an older version answers with a small number of its own. */
static int code_of_connack(uint8_t code)
{
    if (code == 0 || code >= MQTT_FAILED)
        return code;
    return code == 1 ? MQTT_CODE_VERSION : code == 3 ? MQTT_CODE_UNAVAILABLE : MQTT_CODE_NOT_AUTHORIZED;
}

static void take_connack(struct mqtt_transport *q, const struct mqtt_answer *answer)
{
    int code = code_of_connack(answer->code);
    if (code != 0) {
        mqtt_refused(q, code);
    } else if (!answer->takes_qos1) {
        mqtt_refused(q, MQTT_CODE_QOS);
    } else if (q->retain && !answer->takes_retain) {
        mqtt_refused(q, MQTT_CODE_RETAIN);
    } else {
        q->terms = *answer;
        q->keepalive_us = PR_SECONDS(1) * (answer->keepalive_s > 0 ? answer->keepalive_s : MQTT_KEEPALIVE_S);
        q->session.state = SESSION_UP;
    }
}

/* M1 */
static uint16_t id_of(uint64_t number)
{
    return (uint16_t)(1 + (number - 1) % MQTT_CONCURRENCY_MAX);
}

static uint64_t number_of(const struct pipeline *p, uint16_t id)
{
    return p->first_number + (id + (uint64_t)MQTT_CONCURRENCY_MAX - id_of(p->first_number)) % MQTT_CONCURRENCY_MAX;
}

/* An answer that nothing waits for any more is ignored. */
static void take_puback(struct mqtt_transport *q, const struct mqtt_answer *answer)
{
    struct pipeline *p = &q->session.pipeline;
    const struct delivery *d = pipeline_answer(p, number_of(p, answer->id));
    reconnect_worked(&q->session.reconnect);
    if (d == NULL)
        return;
    if (answer->code < MQTT_FAILED) { /* 16 means: no subscribers */
        result_ok(pipeline_result(p), d->token);
        return;
    }
    char text[MQTT_TEXT_SIZE];
    const struct mqtt_reason *r = mqtt_reason_find(answer->code);
    mqtt_reason_describe(r, answer->code, text);
    result_failed(pipeline_result(p), d->token, SEND_FAILED, r->reason, r->name, slice_from(text));
}

/* The first packet must be CONNACK, and no later one may be. */
static void take_answer(struct mqtt_transport *q, const struct mqtt_answer *answer)
{
    bool greeting = q->session.state == SESSION_GREETING;
    if (answer->kind == MQTT_DISCONNECT)
        mqtt_refused(q, answer->code);
    else if (greeting != (answer->kind == MQTT_CONNACK))
        mqtt_failed(q, greeting ? "its first packet is not a CONNACK" : "a second CONNACK");
    else if (greeting)
        take_connack(q, answer);
    else if (answer->kind == MQTT_PUBACK)
        take_puback(q, answer);
}

/* All complete packets. */
static void take_answers(struct mqtt_transport *q)
{
    struct pr_error error = { 0 };
    struct mqtt_answer answer;
    size_t used = 0;
    ssize_t size = 1;
    while (size > 0 && q->inbox.size > 0) { /* emptied when the connection is dropped */
        size = mqtt_answer_read(inbox_bytes(&q->inbox, used), &answer, &error);
        used += size > 0 ? (size_t)size : 0;
        if (size > 0)
            take_answer(q, &answer);
    }
    if (size < 0)
        mqtt_failed(q, error.text);
    if (q->inbox.size > 0)
        inbox_drop(&q->inbox, used);
}

static void mqtt_read(void *self, int64_t now_us)
{
    struct mqtt_transport *q = self;
    size_t got;
    while ((got = session_read(&q->session, inbox_room(&q->inbox), inbox_room_size(&q->inbox))) > 0) {
        q->inbox.size += got;
        q->read_us = now_us;
        q->pinged = false;
        take_answers(q);
    }
}

/* ---- One message ------------------------------------------------------------------------------------------------- */

static const struct cloudevent_attribute *find_attribute(const struct cloudevent *event, pr_slice name)
{
    for (size_t i = 0; i < event->count; i++)
        if (slice_eq_cstr(name, event->attributes[i].name))
            return &event->attributes[i];
    return NULL;
}

static bool add_property(struct mqtt_transport *q, pr_slice name, pr_slice value)
{
    if (!mqtt_is_string(name) || !mqtt_is_string(value))
        return false;
    mqtt_put_user_property(&q->properties, name, value);
    return true;
}

/* Attributes are user properties like a message's own headers, without a prefix. */
static bool add_own(struct mqtt_transport *q, const struct cloudevent *event, const struct own_header *own,
                    struct pr_error *reterr)
{
    const struct cloudevent_attribute *attribute = find_attribute(event, own->name);
    if (attribute != NULL && slice_eq(attribute->value, own->value))
        return true;
    if (attribute == NULL && !(event->count > 0 && slice_eq_cstr(own->name, "datacontenttype")) &&
        add_property(q, own->name, own->value) && own->name.size > 0)
        return true;
    error_set(
        reterr, PR_EINVAL,
        "the message's header \"%.*s\" cannot be sent over MQTT: its name is that of a CloudEvents attribute, or it is "
        "not valid UTF-8 of at most 65,535 bytes without control characters",
        (int)min_size(own->name.size, 100), own->name.data);
    return false;
}

/* False: MQTT cannot carry one of them. */
static bool add_properties(struct mqtt_transport *q, const struct pr_message *m, const struct own_header *own,
                           size_t own_count, struct pr_error *reterr)
{
    struct cloudevent event = { 0 };
    pr_slice type = q->envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE) : cloudevent_content_type(m);
    bool good = true;
    buf_reset(&q->properties);
    if (q->envelope == ENVELOPE_BINARY)
        cloudevent_init(&event, m, q->session.config->source);
    for (size_t i = 0; good && i < event.count; i++)
        good = add_property(q, slice_from(event.attributes[i].name), event.attributes[i].value);
    if (q->envelope != ENVELOPE_RAW) {
        good = good && mqtt_is_string(type);
        mqtt_put_content_type(&q->properties, type);
    }
    for (size_t i = 0; good && i < own_count; i++)
        good = add_own(q, &event, &own[i], reterr);
    return good;
}

/* PR_OK, PR_ENOMEM, or PR_EINVAL: MQTT cannot carry it. */
static int make_packet(struct mqtt_transport *q, const struct pr_message *m, struct mqtt_publish *ret,
                       struct pr_error *reterr)
{
    struct own_header *own;
    size_t own_count;
    arena_reset(&q->scratch);
    int rc = own_headers_read(m, &q->scratch, &own, &own_count, reterr);
    if (rc != PR_OK)
        return rc;
    buf_reset(&q->topic);
    template_fill(&q->topic, q->session.url.path, m);
    error_clear(reterr);
    bool good = add_properties(q, m, own, own_count, reterr);
    ret->body = m->payload;
    if (q->envelope == ENVELOPE_STRUCTURED) {
        buf_reset(&q->json);
        cloudevent_write_json(&q->json, m, q->session.config->source);
        ret->body = buf_slice(&q->json);
        if (buf_failed(&q->json) != 0)
            return PR_ENOMEM;
    }
    if (buf_failed(&q->topic) == PR_ENOMEM || buf_failed(&q->properties) == PR_ENOMEM)
        return PR_ENOMEM;
    ret->topic = buf_slice(&q->topic);
    ret->properties = buf_slice(&q->properties);
    if (!good && reterr->code != PR_OK) /* about one of its headers */
        return PR_EINVAL;
    if (!good || buf_failed(&q->topic) != 0 || buf_failed(&q->properties) != 0 || !mqtt_is_topic(ret->topic))
        return error_set(reterr, PR_EINVAL,
                         "MQTT cannot carry it: topics have no + or #, texts have no control characters, and none is "
                         "longer than 65535 bytes");
    if (ret->topic.data[0] == '$' && q->session.url.path.data[0] != '$') /* $CONTROL/...: orders to the broker */
        return error_set(reterr, PR_EINVAL, "the message does not make a valid topic: \"%.100s\" belongs to the broker",
                         q->topic.data);
    return PR_OK;
}

/* Fails it without sending. */
static void mqtt_refuse(struct mqtt_transport *q, const struct delivery *d, int reason, const char *code,
                        const char *text)
{
    delivery_queue_drop(&q->session.pipeline.waiting);
    result_unsent(pipeline_result(&q->session.pipeline), d->token, reason, code, pr_str(text));
}

/* Puts its bytes into the buffer, or gives it its result. */
static void mqtt_begin(struct mqtt_transport *q, const struct delivery *d)
{
    struct pipeline *p = &q->session.pipeline;
    struct mqtt_publish publish = { .id = id_of(p->first_number + p->out_count), .retain = q->retain };
    struct pr_error error = { 0 };
    size_t before = p->bytes.size;
    int rc = make_packet(q, d->message, &publish, &error);
    size_t size = rc == PR_OK ? mqtt_publish_size(&publish) : 0;

    if (rc == PR_EINVAL) {
        mqtt_refuse(q, d, PR_REASON_VALIDATION_FAILURE, "", error.text);
        return;
    }
    if (rc == PR_OK && (size == 0 || (q->terms.packet_max > 0 && size > q->terms.packet_max))) {
        mqtt_refuse(q, d, PR_REASON_MESSAGE_TOO_LARGE, "packet_too_large",
                    "the message is larger than the broker accepts (max_packet_size)");
        return;
    }
    if (rc == PR_OK)
        mqtt_put_publish(&p->bytes, &publish);
    if (rc == PR_OK && buf_failed(&p->bytes) == 0) {
        pipeline_began(p, before);
        return;
    }
    buf_truncate(&p->bytes, before);
    delivery_queue_drop(&p->waiting);
    result_returned(pipeline_result(p), d->token); /* no memory: later */
}

/* ---- Sending ------------------------------------------------------------------------------------------------------ */

static void mqtt_send(void *self, int64_t now_us)
{
    struct mqtt_transport *q = self;
    struct pipeline *p = &q->session.pipeline;
    const struct delivery *d;
    while (q->session.state == SESSION_UP && pipeline_unwritten(p) < PIPELINE_BUFFERED_MAX &&
           p->out_count < q->terms.receive_max && (d = pipeline_next(p, now_us)) != NULL) /* M2 */
        mqtt_begin(q, d);
    if (q->keepalive_us > 0 && p->bytes.size == 0 && !q->pinged &&
        now_us - min64(q->sent_us, q->read_us) >= q->keepalive_us / 2) {
        mqtt_put_ping(&p->bytes);
        q->pinged = true;
    }
    if (pipeline_unwritten(p) > 0)
        q->sent_us = now_us;
    if (!pipeline_write(p, &q->session.wire))
        session_wire_lost(&q->session);
}

static bool mqtt_has_bytes(void *self)
{
    struct mqtt_transport *q = self;
    return pipeline_unwritten(&q->session.pipeline) > 0;
}

/* A ping is answered at once; a broker that is silent for half a keepalive after it counts as gone. */
static void mqtt_expire(void *self, int64_t now_us)
{
    struct mqtt_transport *q = self;
    if (q->keepalive_us > 0 && q->pinged && now_us - q->read_us >= q->keepalive_us + q->keepalive_us / 2)
        mqtt_failed(q, "it does not answer a ping");
}

static int64_t mqtt_next_us(void *self)
{
    struct mqtt_transport *q = self;
    if (q->keepalive_us == 0)
        return PR_NEVER;
    return q->pinged ? q->read_us + q->keepalive_us + q->keepalive_us / 2
                     : min64(q->sent_us, q->read_us) + q->keepalive_us / 2;
}

/* ---- The transport ------------------------------------------------------------------------------------------------- */

static const struct session_ops mqtt_session = {
    .greet = mqtt_greet,
    .drop = mqtt_drop,
    .read = mqtt_read,
    .send = mqtt_send,
    .has_bytes = mqtt_has_bytes,
    .expire = mqtt_expire,
    .next_us = mqtt_next_us,
};

static int mqtt_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct mqtt_transport *q = self;
    arena_init(&q->scratch, 4096);
    buf_init(&q->topic, MQTT_STRING_MAX);
    buf_init(&q->properties, MQTT_PROPERTIES_MAX);
    buf_init(&q->json, ENVELOPE_JSON_MAX);
    int rc = session_init(&q->session, &mqtt_session, q, mqtt_url, config, reterr);
    if (rc != PR_OK)
        return rc;
    (void)envelope_parse(config->envelope, &q->envelope); /* mqtt_url() has checked both */
    rc = broker_url_bool(config, &q->session.url, "retain", false, &q->retain, reterr);
    return rc == PR_OK ? session_open(&q->session, has_tls(config), reterr) : rc;
}

/* Disconnects properly when that costs nothing: otherwise the broker treats it as a loss. */
static void mqtt_say_goodbye(struct mqtt_transport *q)
{
    if (q->session.state != SESSION_UP || q->session.pipeline.bytes.size > 0)
        return;
    mqtt_put_disconnect(&q->session.pipeline.bytes);
    (void)!pipeline_write(&q->session.pipeline, &q->session.wire);
}

static void mqtt_close(void *self)
{
    struct mqtt_transport *q = self;
    mqtt_say_goodbye(q);
    session_fini(&q->session);
    buf_fini(&q->topic);
    buf_fini(&q->properties);
    buf_fini(&q->json);
    arena_fini(&q->scratch);
}

_Static_assert(offsetof(struct mqtt_transport, session) == 0, "session_submit() takes it for its session");
const struct transport_ops transport_mqtt = SESSION_TRANSPORT("mqtt", mqtt_transport, mqtt, session_cancel);
const struct transport_ops transport_mqtts = SESSION_TRANSPORT("mqtts", mqtt_transport, mqtt, session_cancel);
