/* amqp: a consumer of a queue of AMQP 0-9-1; a batch is acknowledged (basic.ack, multiple) when it is stored.
 *
 *   amqp://user:password@host:5672/VHOST?queue=orders        amqps:// the same with TLS
 *
 * The broker sends at most a batch ahead (prefetch).  Unacknowledged messages go back into the queue when the
 * connection ends.  The queue must exist: a reader does not decide its length, or where its dead letters go.
 *
 *    connected --> start --> tune --> open-ok --> channel.open-ok --> qos-ok --> consume-ok: up */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "source/broker/amqp_properties.h"
#include "source/broker/broker.h"
#include "source/broker/event_prefix.h"
#include "source/broker/talk.h"
#include "transport/broker/amqp_greeting.h"

#define RABBIT_PORT 5672
#define RABBIT_TLS_PORT 5671

struct amqp_source {
    struct broker *broker;
    struct talk talk;
    struct frame_reader *reader;
    struct arena scratch; /* one message */
    pr_slice queue, vhost;
    struct amqp_terms terms;
    uint64_t tag; /* the last one received; 0: none is unacknowledged */
    bool is_up;

    /* A message that has not arrived completely: */
    bool is_delivered, has_header;
    uint64_t next_tag;
    pr_slice key;
    struct amqp_properties properties;
    struct buf body;    /* its first bytes */
    uint64_t body_size; /* of all that came */
};

/* ---- The url ------------------------------------------------------------------------------------------ */

static const char *const params[] = { "queue", "plain", WIRE_PARAMS, NULL };

static bool has_tls(const struct endpoint_config *config)
{
    return transport_scheme(config->url).size == strlen("amqps");
}

static int wrong(const struct endpoint_config *config, const char *what, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "%s: the url is not valid: %s", endpoint_title(config).text, what);
}

static int rabbit_parse(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                        struct pr_error *reterr)
{
    bool tls = has_tls(config);
    pr_slice scheme = transport_scheme(config->url);
    if (!slice_eq_cstr(scheme, "amqp") && !slice_eq_cstr(scheme, "amqps"))
        return wrong(config, "use amqp://host/?queue=NAME, or amqps:// for TLS", reterr);
    int rc = broker_url_parse(config, tls ? RABBIT_TLS_PORT : RABBIT_PORT, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, tls, reterr);
    if (rc != PR_OK)
        return rc;
    pr_slice queue = broker_url_param(ret, "queue", "");
    if (queue.size == 0 || queue.size > FRAME_SHORT_MAX)
        return wrong(config, "it needs ?queue=NAME, with at most 255 bytes", reterr);
    if (ret->path.size > FRAME_SHORT_MAX)
        return wrong(config, "the virtual host is longer than 255 bytes", reterr);
    return PR_OK;
}

static pr_slice rabbit_address(const struct broker_url *url)
{
    return broker_url_param(url, "queue", "");
}

/* ---- Frames --------------------------------------------------------------------------------------------- */

/* The next frame other than a heartbeat; valid until the next call. */
static enum talk_end next(struct amqp_source *r, int wake_fd, int64_t deadline_us, struct amqp_frame *ret)
{
    struct pr_error why = { 0 };
    for (;;) {
        pr_slice data = talk_heard(&r->talk);
        size_t before = data.size;
        int rc = before > 0 ? frame_next(r->reader, &data, AMQP_CHANNEL, ret, &why) : FRAME_PART;
        if (rc < 0) {
            snprintf(r->talk.why, sizeof(r->talk.why), "%s:%u: %.300s", r->talk.wire.host, r->talk.wire.port, why.text);
            talk_drop(&r->talk);
            return TALK_LOST;
        }
        r->talk.used += before - data.size; /* they may contain frames */
        if (rc == FRAME_WHOLE && ret->type != AMQP_FRAME_HEARTBEAT)
            return TALK_BYTES;
        if (rc == FRAME_WHOLE)
            continue;
        talk_understood(&r->talk, 0);
        enum talk_end end = deadline_us > 0 ? talk_wait(&r->talk, wake_fd, deadline_us) : talk_look(&r->talk);
        if (end != TALK_BYTES)
            return end;
    }
}

/* connection.close and channel.close: code, text, ... */
static int closed(struct amqp_source *r, const struct amqp_frame *f, struct pr_error *reterr)
{
    struct cursor c = { { f->payload.data + 4, f->payload.size - 4 }, false };
    unsigned code = (unsigned)cursor_number(&c, 2);
    pr_slice text = amqp_take_short(&c);
    return talk_fault(&r->talk, reterr, "%.*s (%u)%s", SLICE_ARGS(text), code,
                      code == AMQP_ACCESS_REFUSED && !r->is_up ? ": " BROKER_LOGIN_ADVICE
                      : code == AMQP_NOT_FOUND                 ? ": create the queue, or check queue in its url"
                                                               : "");
}

static int expect(struct amqp_source *r, int wake_fd, amqp_method_number_t wanted, struct amqp_frame *ret,
                  struct pr_error *reterr)
{
    amqp_method_number_t method = 0;
    enum talk_end end = next(r, wake_fd, clock_mono_us(clock_system()) + TALK_GREETING_US, ret);
    if (end != TALK_BYTES)
        return talk_ended(&r->talk, end, reterr);
    if (ret->type != AMQP_FRAME_METHOD || !frame_method(ret, &method))
        return talk_fault(&r->talk, reterr, "an unexpected frame");
    if (method == AMQP_CONNECTION_CLOSE_METHOD || method == AMQP_CHANNEL_CLOSE_METHOD)
        return closed(r, ret, reterr);
    return method == wanted ? PR_OK : talk_fault(&r->talk, reterr, "an unexpected answer");
}

/* ---- The connection --------------------------------------------------------------------------------------- */

static int tune(struct amqp_source *r, const struct amqp_frame *f, struct pr_error *reterr)
{
    struct cursor c = { { f->payload.data + 4, f->payload.size - 4 }, false };
    struct pr_error why = { 0 };
    (void)cursor_number(&c, 2); /* channels: one is needed */
    uint32_t frame_max = (uint32_t)cursor_number(&c, 4);
    uint16_t heartbeat_s = (uint16_t)cursor_number(&c, 2);
    if (c.bad || amqp_put_tune_ok(&r->talk.out, frame_max, heartbeat_s, r->vhost, &r->terms, &why) != PR_OK)
        return talk_fault(&r->talk, reterr, "%s", c.bad ? "a connection.tune that is too short" : why.text);
    return PR_OK;
}

static int consume(struct amqp_source *r, int wake_fd, struct pr_error *reterr)
{
    struct amqp_frame f;
    amqp_channel_open_t open = { .out_of_band = amqp_empty_bytes };
    amqp_basic_qos_t qos = { .prefetch_count = (uint16_t)min_size(r->broker->intake.capacity, UINT16_MAX) };
    amqp_basic_consume_t start = { .queue = frame_bytes(r->queue), .consumer_tag = amqp_cstring_bytes("postrider") };
    frame_put_method(&r->talk.out, AMQP_CHANNEL, AMQP_CHANNEL_OPEN_METHOD, &open);
    int rc = expect(r, wake_fd, AMQP_CHANNEL_OPEN_OK_METHOD, &f, reterr);
    if (rc != PR_OK)
        return rc;
    frame_put_method(&r->talk.out, AMQP_CHANNEL, AMQP_BASIC_QOS_METHOD, &qos);
    rc = expect(r, wake_fd, AMQP_BASIC_QOS_OK_METHOD, &f, reterr);
    if (rc != PR_OK)
        return rc;
    frame_put_method(&r->talk.out, AMQP_CHANNEL, AMQP_BASIC_CONSUME_METHOD, &start);
    return expect(r, wake_fd, AMQP_BASIC_CONSUME_OK_METHOD, &f, reterr);
}

static int greet(struct amqp_source *r, int wake_fd, struct pr_error *reterr)
{
    struct amqp_frame f;
    frame_put_greeting(&r->talk.out);
    int rc = expect(r, wake_fd, AMQP_CONNECTION_START_METHOD, &f, reterr);
    if (rc != PR_OK)
        return rc;
    arena_reset(&r->scratch);
    if (amqp_put_start_ok(&r->talk.out, &r->broker->url, r->broker->config.name, &r->scratch) != PR_OK)
        return talk_fault(&r->talk, reterr, "out of memory");
    rc = expect(r, wake_fd, AMQP_CONNECTION_TUNE_METHOD, &f, reterr);
    if (rc == PR_OK)
        rc = tune(r, &f, reterr);
    if (rc == PR_OK)
        rc = expect(r, wake_fd, AMQP_CONNECTION_OPEN_OK_METHOD, &f, reterr);
    return rc == PR_OK ? consume(r, wake_fd, reterr) : rc;
}

static int connect_now(struct amqp_source *r, int wake_fd, struct pr_error *reterr)
{
    r->reader->size = 0;
    r->is_delivered = r->has_header = false;
    r->tag = 0;
    enum talk_end end = talk_connect(&r->talk, wake_fd);
    int rc = end == TALK_BYTES ? greet(r, wake_fd, reterr) : talk_ended(&r->talk, end, reterr);
    r->is_up = rc == PR_OK;
    return rc;
}

static void rabbit_drop(void *self)
{
    struct amqp_source *r = self;
    amqp_connection_close_t close = { .reply_code = AMQP_REPLY_SUCCESS, .reply_text = amqp_cstring_bytes("closed") };
    if (r->is_up && talk_is_open(&r->talk)) { /* brokers log a complaint about clients that just disconnect */
        frame_put_method(&r->talk.out, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
        talk_leave(&r->talk);
    }
    talk_drop(&r->talk);
    r->is_up = false;
    r->tag = 0;
}

/* ---- Messages ------------------------------------------------------------------------------------------------ */

/* basic.deliver: consumer, tag, again, exchange, key. */
static int take_deliver(struct amqp_source *r, const struct amqp_frame *f, struct pr_error *reterr)
{
    struct cursor c = { { f->payload.data + 4, f->payload.size - 4 }, false };
    arena_reset(&r->scratch);
    (void)amqp_take_short(&c);
    r->next_tag = cursor_number(&c, 8);
    (void)cursor_number(&c, 1);
    (void)amqp_take_short(&c);
    r->key = slice_dup(&r->scratch, amqp_take_short(&c));
    r->is_delivered = true;
    r->has_header = false;
    buf_reset(&r->body);
    return c.bad || r->key.data == NULL ? talk_fault(&r->talk, reterr, "a basic.deliver that is too short") : PR_OK;
}

static int take_method(struct amqp_source *r, const struct amqp_frame *f, struct pr_error *reterr)
{
    amqp_method_number_t method = 0;
    if (!frame_method(f, &method))
        return talk_fault(&r->talk, reterr, "a method that is too short");
    switch (method) {
    case AMQP_BASIC_DELIVER_METHOD:
        if (!r->is_delivered)
            return take_deliver(r, f, reterr);
        break;
    case AMQP_CONNECTION_CLOSE_METHOD:
    case AMQP_CHANNEL_CLOSE_METHOD: return closed(r, f, reterr);
    case AMQP_BASIC_CANCEL_METHOD: return talk_fault(&r->talk, reterr, "the queue was deleted or is not available");
    case AMQP_CONNECTION_BLOCKED_METHOD:
    case AMQP_CONNECTION_UNBLOCKED_METHOD: return PR_OK; /* only relevant to publishers */
    default: break;
    }
    return talk_fault(&r->talk, reterr, "an unexpected method");
}

static int take_header(struct amqp_source *r, const struct amqp_frame *f, struct pr_error *reterr)
{
    pr_slice payload = slice_dup(&r->scratch, f->payload);
    int rc = payload.data != NULL ? amqp_properties_read(payload, &r->scratch, &r->properties) : PR_ENOMEM;
    if (rc != PR_OK)
        return talk_fault(&r->talk, reterr, rc == PR_ENOMEM ? "out of memory" : "the header of a message is malformed");
    r->has_header = true;
    r->body_size = 0;
    return PR_OK;
}

static int take_whole(struct amqp_source *r, struct intake *in, struct pr_error *reterr)
{
    const struct amqp_properties *p = &r->properties;
    struct received m = { .prefix = EVENT_PREFIX,
                          .content_type = p->content_type,
                          .headers = p->headers,
                          .header_count = p->header_count,
                          .body = buf_slice(&r->body),
                          .missing = r->body_size - r->body.size,
                          .id = p->message_id,
                          .correlation_id = p->correlation_id,
                          .type = p->type.size > 0  ? p->type
                                  : r->key.size > 0 ? r->key
                                                    : r->queue };
    r->is_delivered = r->has_header = false;
    r->tag = r->next_tag;
    return intake_add(in, &m, reterr);
}

static void take_body(struct amqp_source *r, pr_slice bytes)
{
    r->body_size += bytes.size;
    buf_add(&r->body, bytes.data, min_size(bytes.size, r->body.max - r->body.size));
}

static int take_frame(struct amqp_source *r, struct intake *in, const struct amqp_frame *f, struct pr_error *reterr)
{
    int rc = PR_OK;
    if (f->type == AMQP_FRAME_METHOD)
        return take_method(r, f, reterr);
    if (!r->is_delivered || (f->type == AMQP_FRAME_HEADER) == r->has_header)
        return talk_fault(&r->talk, reterr, "an unexpected part of a message");
    if (f->type == AMQP_FRAME_HEADER)
        rc = take_header(r, f, reterr);
    else
        take_body(r, f->payload);
    if (rc == PR_OK && (buf_failed(&r->body) != 0 || r->body_size > r->properties.body_size))
        return talk_fault(&r->talk, reterr, "a message that is longer than announced, or than the memory allows");
    return rc == PR_OK && r->body_size == r->properties.body_size ? take_whole(r, in, reterr) : rc;
}

static int keep_alive(struct amqp_source *r, struct pr_error *reterr)
{
    int64_t now_us = clock_mono_us(clock_system()), beat_us = r->terms.heartbeat_us;
    if (beat_us > 0 && now_us - r->talk.heard_us > 2 * beat_us)
        return talk_fault(&r->talk, reterr, "no heartbeat");
    if (beat_us > 0 && now_us - r->talk.said_us > beat_us / 2)
        frame_put_heartbeat(&r->talk.out);
    return PR_OK;
}

static int rabbit_receive(void *self, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    struct amqp_source *r = self;
    struct amqp_frame f;
    int64_t until_us = clock_mono_us(clock_system()) + BROKER_WAIT_US;
    int rc = r->is_up ? keep_alive(r, reterr) : connect_now(r, wake_fd, reterr);
    while (rc == PR_OK && !intake_is_full(in)) {
        bool is_waiting = intake_size(in) == 0 && !r->is_delivered;
        if (r->is_delivered) /* a long one may take longer, as long as bytes arrive */
            until_us = clock_mono_us(clock_system()) + BROKER_WAIT_US;
        enum talk_end end = next(r, wake_fd, intake_size(in) == 0 ? until_us : 0, &f);
        if (end == TALK_TIMEOUT && (is_waiting || intake_size(in) > 0))
            return PR_OK;
        rc = end == TALK_BYTES ? take_frame(r, in, &f, reterr) : talk_ended(&r->talk, end, reterr);
    }
    return rc;
}

static int rabbit_acknowledge(void *self, struct pr_error *reterr)
{
    struct amqp_source *r = self;
    amqp_basic_ack_t ack = { .delivery_tag = r->tag, .multiple = 1 };
    if (r->tag == 0) /* which would mean all */
        return PR_OK;
    frame_put_method(&r->talk.out, AMQP_CHANNEL, AMQP_BASIC_ACK_METHOD, &ack);
    r->tag = 0;
    return talk_say(&r->talk) ? PR_OK : error_set(reterr, PR_EIO, "%s", r->talk.why);
}

/* ---- The source --------------------------------------------------------------------------------------------------- */

static int rabbit_open(void *self, struct broker *broker, struct pr_error *reterr)
{
    struct amqp_source *r = self;
    r->broker = broker;
    r->queue = broker_url_param(&broker->url, "queue", "");
    r->vhost = broker->url.path.size > 0 ? broker->url.path : PR_STR("/");
    arena_init(&r->scratch, 4096);
    buf_init(&r->body, broker_message_max(broker));
    r->reader = calloc(1, sizeof(*r->reader));
    if (r->reader == NULL)
        return error_set(reterr, PR_ENOMEM, "source %s: out of memory", broker->config.name);
    return talk_init(&r->talk, &broker->config, &broker->url, has_tls(&broker->config), broker_message_max(broker),
                     reterr);
}

static void rabbit_close(void *self)
{
    struct amqp_source *r = self;
    talk_fini(&r->talk);
    free(r->reader);
    if (r->broker == NULL)
        return;
    buf_fini(&r->body);
    arena_fini(&r->scratch);
}

static const struct broker_ops rabbit_broker = {
    .kind = "amqp",
    .size = sizeof(struct amqp_source),
    .parse = rabbit_parse,
    .address = rabbit_address,
    .open = rabbit_open,
    .close = rabbit_close,
    .receive = rabbit_receive,
    .acknowledge = rabbit_acknowledge,
    .drop = rabbit_drop,
};

static int rabbit_source_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    return broker_open(source, &rabbit_broker, ret_self, reterr);
}

const struct source_ops source_amqp = {
    .broker = &rabbit_broker, .open = rabbit_source_open, .run = broker_run, .close = broker_close
};
