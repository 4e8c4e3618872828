/* mqtt: a subscription of MQTT 5, QoS 1, in a persistent session; a message is acknowledged (PUBACK) when it is stored.
 *
 *   mqtt://user:password@host:1883/orders/+?client=NAME&expiry=7d        mqtts:// the same with TLS
 *
 * Unacknowledged messages come again with the next connection.  The broker sends at most a batch ahead (receive
 * maximum).  Messages of QoS 0 are stored, too, but are never redelivered. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/util.h"
#include "source/broker/broker.h"
#include "source/broker/talk.h"
#include "transport/broker/mqtt_packet.h"
#include "transport/broker/mqtt_reason.h"

#define MQTT_PORT 1883
#define MQTTS_PORT 8883
#define MQTT_KEEPALIVE_S 60
#define MQTT_SUBSCRIPTION 1 /* the identifier of the only SUBSCRIBE */

struct mqtt_source {
    struct broker *broker;
    struct talk talk;
    struct arena scratch; /* one message */
    pr_slice client, filter;
    uint32_t expiry_s;
    uint16_t *acks; /* unacknowledged packets */
    size_t ack_count, ack_capacity;
    int64_t keepalive_us;
    bool is_up;
};

/* ---- The url ------------------------------------------------------------------------------------------ */

static const char *const plain_params[] = { "client", "expiry", "plain", NULL };
static const char *const tls_params[] = { "client", "expiry", WIRE_PARAMS, NULL };

static bool has_tls(const struct endpoint_config *config)
{
    return transport_scheme(config->url).size == strlen("mqtts");
}

static int wrong(const struct endpoint_config *config, const char *what, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "%s: the url is not valid: %s", endpoint_title(config).text, what);
}

static bool expiry_of(const struct broker_url *url, int64_t *ret_us)
{
    return duration_parse(broker_url_param(url, "expiry", "7d"), ret_us) == PR_OK && *ret_us >= PR_SECONDS(1) &&
           *ret_us < PR_SECONDS(1) * UINT32_MAX;
}

static int mqtt_parse(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                      struct pr_error *reterr)
{
    bool tls = has_tls(config);
    int64_t expiry_us;
    pr_slice scheme = transport_scheme(config->url);
    if (!slice_eq_cstr(scheme, "mqtt") && !slice_eq_cstr(scheme, "mqtts"))
        return wrong(config, "use mqtt://host/TOPIC, or mqtts:// for TLS", reterr);
    int rc =
        broker_url_parse(config, tls ? MQTTS_PORT : MQTT_PORT, tls ? tls_params : plain_params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, tls, reterr);
    if (rc != PR_OK)
        return rc;
    if (ret->path.size == 0)
        return wrong(config, "it has no topic: use mqtt://host/TOPIC; a filter such as orders/+ or orders/%23 will do",
                     reterr);
    if (!mqtt_is_string(ret->path) || !mqtt_is_string(ret->user) || !mqtt_is_string(ret->password) ||
        !mqtt_is_string(broker_url_param(ret, "client", "")))
        return wrong(config, "use UTF-8 without control characters", reterr);
    if (!expiry_of(ret, &expiry_us))
        return wrong(config, "expiry must be a duration such as 7d", reterr);
    return PR_OK;
}

static pr_slice mqtt_address(const struct broker_url *url)
{
    return url->path;
}

/* ---- The connection ------------------------------------------------------------------------------------- */

static int refused(struct mqtt_source *q, int code, struct pr_error *reterr)
{
    char text[MQTT_TEXT_SIZE];
    mqtt_reason_describe(mqtt_reason_find(code), code, text);
    return talk_fault(&q->talk, reterr, "%.350s", text);
}

/* The next packet; valid until the next call. */
static enum talk_end next(struct mqtt_source *q, int wake_fd, int64_t deadline_us, struct mqtt_arrival *ret)
{
    struct pr_error why = { 0 };
    for (;;) {
        ssize_t size = mqtt_arrival_read(talk_heard(&q->talk), broker_message_max(q->broker), ret, &why);
        if (size < 0) {
            snprintf(q->talk.why, sizeof(q->talk.why), "%s:%u: %.300s", q->talk.wire.host, q->talk.wire.port, why.text);
            talk_drop(&q->talk);
            return TALK_LOST;
        }
        if (size > 0 && (ret->missing == 0 || talk_cut(&q->talk, (size_t)size, ret->missing))) {
            q->talk.used += (size_t)size; /* its bytes stay in place */
            return TALK_BYTES;
        }
        talk_understood(&q->talk, 0);
        enum talk_end end = deadline_us > 0 ? talk_wait(&q->talk, wake_fd, deadline_us) : talk_look(&q->talk);
        if (end != TALK_BYTES)
            return end;
    }
}

/* Subscribes at once; an existing session begins to send even before. */
static int connect_now(struct mqtt_source *q, int wake_fd, struct pr_error *reterr)
{
    struct mqtt_arrival a;
    const struct mqtt_login login = { .client = q->client,
                                      .user = q->broker->url.user,
                                      .password = q->broker->url.password,
                                      .keepalive_s = MQTT_KEEPALIVE_S,
                                      .expiry_s = q->expiry_s,
                                      .receive_max = (uint16_t)q->ack_capacity };
    enum talk_end end = talk_connect(&q->talk, wake_fd);
    if (end == TALK_BYTES) {
        mqtt_put_connect(&q->talk.out, &login);
        end = next(q, wake_fd, clock_mono_us(clock_system()) + TALK_GREETING_US, &a);
    }
    if (end != TALK_BYTES)
        return talk_ended(&q->talk, end, reterr);
    if (a.answer.kind != MQTT_CONNACK)
        return talk_fault(&q->talk, reterr, "its first packet is not a CONNACK");
    if (a.answer.code != 0)
        return refused(q, a.answer.code, reterr);
    q->keepalive_us = PR_SECONDS(1) * (a.answer.keepalive_s > 0 ? a.answer.keepalive_s : MQTT_KEEPALIVE_S);
    mqtt_put_subscribe(&q->talk.out, MQTT_SUBSCRIPTION, q->filter);
    q->is_up = true;
    return PR_OK;
}

static void mqtt_drop(void *self)
{
    struct mqtt_source *q = self;
    if (q->is_up && talk_is_open(&q->talk)) {
        mqtt_put_disconnect(&q->talk.out);
        talk_leave(&q->talk);
    }
    talk_drop(&q->talk);
    q->is_up = false;
    q->ack_count = 0;
}

/* ---- Messages ---------------------------------------------------------------------------------------------- */

static int take_message(struct mqtt_source *q, struct intake *in, const struct mqtt_arrival *a, struct pr_error *reterr)
{
    pr_slice rest = a->properties, name, value;
    struct received m = {
        .prefix = "", .content_type = a->content_type, .body = a->body, .missing = a->missing, .type = a->topic
    };
    arena_reset(&q->scratch);
    struct decode_header *headers = arena_alloc_array(&q->scratch, rest.size / 5 + 1, sizeof(*headers));
    if (headers == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a message");
    while (mqtt_user_property(&rest, &name, &value))
        headers[m.header_count++] = (struct decode_header){ name, value };
    m.headers = headers;
    if (utf8_valid(a->correlation) && a->correlation.size <= PR_NAME_MAX)
        m.correlation_id = a->correlation;
    if (a->id != 0 && q->ack_count == q->ack_capacity)
        return talk_fault(&q->talk, reterr, "it sends more at once than the receive maximum");
    if (a->id != 0)
        q->acks[q->ack_count++] = a->id;
    return intake_add(in, &m, reterr);
}

/* S1: with QoS 0, messages under way when the connection ends would be lost. */
static int take_grant(struct mqtt_source *q, int code, struct pr_error *reterr)
{
    if (code >= MQTT_FAILED)
        return refused(q, code, reterr);
    return code > 0 ? PR_OK
                    : talk_fault(&q->talk, reterr,
                                 "it delivers only with QoS 0, so messages could be lost: allow QoS 1 there");
}

static int take_packet(struct mqtt_source *q, struct intake *in, const struct mqtt_arrival *a, struct pr_error *reterr)
{
    switch (a->answer.kind) {
    case MQTT_PUBLISH: return take_message(q, in, a, reterr);
    case MQTT_SUBACK: return take_grant(q, a->answer.code, reterr);
    case MQTT_PINGRESP: return PR_OK;
    case MQTT_DISCONNECT: return refused(q, a->answer.code, reterr);
    default: return talk_fault(&q->talk, reterr, "an unexpected packet");
    }
}

/* Something is sent at least in half of the agreed time; a broker that is silent for twice the time counts as gone. */
static int keep_alive(struct mqtt_source *q, struct pr_error *reterr)
{
    int64_t now_us = clock_mono_us(clock_system());
    if (now_us - q->talk.heard_us > 2 * q->keepalive_us)
        return talk_fault(&q->talk, reterr, "it does not answer a PINGREQ");
    if (now_us - q->talk.said_us > q->keepalive_us / 2)
        mqtt_put_ping(&q->talk.out);
    return PR_OK;
}

static int mqtt_receive(void *self, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    struct mqtt_source *q = self;
    struct mqtt_arrival a;
    int64_t until_us = clock_mono_us(clock_system()) + BROKER_WAIT_US;
    int rc = q->is_up ? keep_alive(q, reterr) : connect_now(q, wake_fd, reterr);
    while (rc == PR_OK && !intake_is_full(in) && q->ack_count < q->ack_capacity) {
        enum talk_end end = next(q, wake_fd, intake_size(in) == 0 ? until_us : 0, &a);
        if (end == TALK_TIMEOUT || (end == TALK_WOKEN && intake_size(in) > 0))
            return PR_OK;
        rc = end == TALK_BYTES ? take_packet(q, in, &a, reterr) : talk_ended(&q->talk, end, reterr);
    }
    return rc;
}

static int mqtt_acknowledge(void *self, struct pr_error *reterr)
{
    struct mqtt_source *q = self;
    for (size_t i = 0; i < q->ack_count; i++)
        mqtt_put_puback(&q->talk.out, q->acks[i]);
    q->ack_count = 0;
    return talk_say(&q->talk) ? PR_OK : error_set(reterr, PR_EIO, "%s", q->talk.why);
}

/* ---- The source ------------------------------------------------------------------------------------------------ */

/* A session belongs to its client id: the same one after every start, and another one for another filter. */
static pr_slice default_client(struct broker *broker)
{
    return arena_printf(&broker->arena, "postrider-%s-%08" PRIx32, broker->source->instance,
                        (uint32_t)hash_slice(0, broker->url.path));
}

static int mqtt_open(void *self, struct broker *broker, struct pr_error *reterr)
{
    struct mqtt_source *q = self;
    int64_t expiry_us = 0;
    q->broker = broker;
    q->filter = broker->url.path;
    q->client = broker_url_param(&broker->url, "client", "");
    q->client = q->client.size > 0 ? q->client : default_client(broker);
    (void)expiry_of(&broker->url, &expiry_us); /* mqtt_parse() has */
    q->expiry_s = (uint32_t)(expiry_us / PR_SECONDS(1));
    arena_init(&q->scratch, 4096);
    q->ack_capacity = broker->intake.capacity;
    q->acks = arena_alloc_array(&broker->arena, q->ack_capacity, sizeof(*q->acks));
    if (q->acks == NULL || q->client.data == NULL)
        return error_set(reterr, PR_ENOMEM, "source %s: out of memory", broker->config.name);
    return talk_init(&q->talk, &broker->config, &broker->url, has_tls(&broker->config), broker_message_max(broker),
                     reterr);
}

static void mqtt_close(void *self)
{
    struct mqtt_source *q = self;
    talk_fini(&q->talk);
    if (q->broker != NULL)
        arena_fini(&q->scratch);
}

static const struct broker_ops mqtt_broker = {
    .kind = "mqtt",
    .size = sizeof(struct mqtt_source),
    .parse = mqtt_parse,
    .address = mqtt_address,
    .open = mqtt_open,
    .close = mqtt_close,
    .receive = mqtt_receive,
    .acknowledge = mqtt_acknowledge,
    .drop = mqtt_drop,
};

static int mqtt_source_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    return broker_open(source, &mqtt_broker, ret_self, reterr);
}

const struct source_ops source_mqtt = {
    .broker = &mqtt_broker, .open = mqtt_source_open, .run = broker_run, .close = broker_close
};
