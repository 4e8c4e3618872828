/* amqp: each message is one basic.publish with publisher confirms, many of them on the wire at once.
 *
 *   amqp://user:password@host:5672/VHOST?exchange=orders&key={type}
 *
 * Everything happens in the caller's thread.  librabbitmq would block, so it only encodes and decodes the content of
 * frames; session.h moves the bytes.
 *
 *   Q1  A confirm names a delivery tag: messages are counted from 1 in each channel.  Confirms come in any
 *       order, and one may stand for all before it.
 *   Q2  A message that cannot be routed comes back (basic.return) before it is confirmed, identified by its message id.
 *   Q3  A broker that closes the channel does not say because of which message.  If one is out it is that one.  If
 *       several are, the outcome of each is unknown, none is blamed, and all are suspects: next time each of
 *       them goes alone.
 *   Q4  A table (stages) says what may come when.  Anything else ends the connection before it has any effect:
 *       so nothing is answered twice, and no answer waits for a broker that does not read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/broker/amqp_greeting.h"
#include "transport/broker/session.h"
#include "transport/template.h"

#define RABBIT_PORT 5672
#define RABBIT_TLS_PORT 5671
#define RABBIT_READ_SIZE 65536

/* Q4: the step of the greeting that is awaited. */
enum stage { STAGE_START, STAGE_TUNE, STAGE_OPEN, STAGE_CHANNEL, STAGE_EXCHANGE, STAGE_SELECT, STAGE_READY };

struct amqp_transport {
    struct broker_session session;
    struct arena scratch; /* one message */
    struct buf json, key;
    struct frame_message form; /* what all messages have in common */
    pr_slice key_template, vhost;

    struct frame_reader *reader; /* NULL: no connection */
    amqp_pool_t pool;            /* memory of librabbitmq for one method */
    enum stage stage;
    int64_t heartbeat_us;     /* 0: none */
    int64_t read_us, sent_us; /* when something last came and went */
    uint64_t channel_base;    /* number in the pipeline of delivery tag 0 */
    pr_id *suspects;          /* Q3: a ring as large as the pipeline's */
    size_t suspect_first, suspect_count;
    bool alone;             /* the message that is out is a suspect */
    bool returning;         /* the header of a returned message is still to come */
    uint64_t returned_left; /* bytes of its body that are still to come */
    unsigned returned_code;
    char returned_text[256];
    char blocked[256]; /* why the broker currently blocks publishing; empty: it does not */
};

/* ---- The url ----------------------------------------------------------------------------------------- */

static const char *const params[] = { "exchange", "key", "mandatory", "plain", WIRE_PARAMS, NULL };

static bool has_tls(const struct endpoint_config *config)
{
    return transport_scheme(config->url).size == 5; /* amqps */
}

static int rabbit_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                      struct pr_error *reterr)
{
    bool tls = has_tls(config), mandatory;
    int rc = broker_url_parse(config, tls ? RABBIT_TLS_PORT : RABBIT_PORT, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_bool(config, ret, "mandatory", true, &mandatory, reterr);
    if (rc == PR_OK)
        rc = template_check(config->name, "key", broker_url_param(ret, "key", ""), reterr);
    if (rc != PR_OK)
        return rc;
    pr_slice exchange = broker_url_param(ret, "exchange", "");
    if (exchange.size == 0 && broker_url_param(ret, "key", "").size == 0)
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: the url has no destination: add ?exchange=NAME, or ?key=QUEUE", config->name);
    if (!template_is_fixed(exchange) || exchange.size > FRAME_SHORT_MAX)
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: exchange is a name of at most %d bytes; placeholders belong into key",
                         config->name, FRAME_SHORT_MAX);
    if (ret->path.size > FRAME_SHORT_MAX)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: the virtual host is longer than %d bytes", config->name,
                         FRAME_SHORT_MAX);
    rc = envelope_check(config, reterr);
    return rc == PR_OK ? pipeline_check(config, reterr) : rc;
}

static int rabbit_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    return session_check(rabbit_url, config, reterr);
}

/* ---- Reasons ------------------------------------------------------------------------------------------ */

static int reason_of(unsigned code, pr_slice text)
{
    switch (code) {
    case AMQP_CONTENT_TOO_LARGE: return PR_REASON_MESSAGE_TOO_LARGE;
    case AMQP_PRECONDITION_FAILED:
        return slice_contains(text, PR_STR("message size")) ? PR_REASON_MESSAGE_TOO_LARGE : PR_REASON_REJECTED;
    case AMQP_NO_ROUTE:
    case AMQP_NOT_FOUND:
    case AMQP_INVALID_PATH: return PR_REASON_DESTINATION_MISSING;
    case AMQP_NOT_ALLOWED: /* a virtual host that does not exist, or is not allowed */
        return slice_contains(text, PR_STR("not found")) ? PR_REASON_DESTINATION_MISSING : PR_REASON_UNAUTHORIZED;
    case AMQP_ACCESS_REFUSED: return PR_REASON_UNAUTHORIZED;
    case AMQP_NO_CONSUMERS:
    case AMQP_CONNECTION_FORCED:
    case AMQP_RESOURCE_LOCKED:
    case AMQP_RESOURCE_ERROR:
    case AMQP_INTERNAL_ERROR: return PR_REASON_TRANSPORT_UNAVAILABLE;
    default: return PR_REASON_REJECTED;
    }
}

static pr_slice slice_of(amqp_bytes_t bytes)
{
    return (pr_slice){ bytes.bytes, bytes.len };
}

/* ---- The connection ------------------------------------------------------------------------------------- */

static void rabbit_drop(void *self)
{
    struct amqp_transport *r = self;
    free(r->reader);
    r->reader = NULL;
    r->stage = STAGE_START;
    r->blocked[0] = '\0';
    r->returning = false;
    r->returned_left = 0;
    r->heartbeat_us = 0;
}

static void rabbit_failed(struct amqp_transport *r, const char *what)
{
    session_failed(&r->session, PR_REASON_TRANSPORT_UNAVAILABLE, "", what);
}

static void rabbit_greet(void *self)
{
    struct amqp_transport *r = self;
    r->reader = calloc(1, sizeof(*r->reader));
    r->read_us = r->sent_us = clock_mono_us(r->session.clock);
    frame_put_greeting(&r->session.pipeline.bytes);
    if (r->reader == NULL)
        rabbit_failed(r, "out of memory");
}

static void put(struct amqp_transport *r, amqp_channel_t channel, amqp_method_number_t method, void *fields)
{
    frame_put_method(&r->session.pipeline.bytes, channel, method, fields);
    if (buf_failed(&r->session.pipeline.bytes) != 0)
        rabbit_failed(r, "out of memory");
}

/* ---- Greetings: each answer brings the next step ---------------------------------------------------------- */

static void put_start_ok(struct amqp_transport *r)
{
    arena_reset(&r->scratch);
    if (amqp_put_start_ok(&r->session.pipeline.bytes, &r->session.url, r->session.config->name, &r->scratch) != PR_OK)
        rabbit_failed(r, "out of memory");
}

static void put_tune_ok(struct amqp_transport *r, const amqp_connection_tune_t *tune)
{
    struct pr_error error = { 0 };
    struct amqp_terms terms;
    struct buf *bytes = &r->session.pipeline.bytes;
    if (amqp_put_tune_ok(bytes, tune->frame_max, tune->heartbeat, r->vhost, &terms, &error) != PR_OK) {
        rabbit_failed(r, error.text);
        return;
    }
    r->form.frame_max = terms.frame_max;
    r->heartbeat_us = terms.heartbeat_us;
    if (buf_failed(bytes) != 0)
        rabbit_failed(r, "out of memory");
}

static void put_channel_open(struct amqp_transport *r)
{
    amqp_channel_open_t open = { .out_of_band = amqp_empty_bytes };
    put(r, AMQP_CHANNEL, AMQP_CHANNEL_OPEN_METHOD, &open);
}

static void put_confirm_select(struct amqp_transport *r)
{
    amqp_confirm_select_t select = { .nowait = 0 };
    put(r, AMQP_CHANNEL, AMQP_CONFIRM_SELECT_METHOD, &select);
}

/* Does the exchange exist?  Better known before a message is lost to a closed channel. */
static void put_exchange_check(struct amqp_transport *r)
{
    amqp_exchange_declare_t declare = { .exchange = frame_bytes(r->form.exchange),
                                        .type = amqp_cstring_bytes("direct"),
                                        .passive = 1 };
    put(r, AMQP_CHANNEL, AMQP_EXCHANGE_DECLARE_METHOD, &declare);
}

/* ---- Answers ------------------------------------------------------------------------------------------------ */

static pr_id *suspect_find(struct amqp_transport *r, const struct delivery *d)
{
    for (size_t i = 0; i < r->suspect_count; i++) {
        pr_id *id = &r->suspects[(r->suspect_first + i) % r->session.pipeline.capacity];
        if (pr_id_equal(*id, d->message->id))
            return id;
    }
    return NULL;
}

/* The oldest suspect makes room. */
static void suspect_add(struct amqp_transport *r, const struct delivery *d)
{
    size_t capacity = r->session.pipeline.capacity;
    if (suspect_find(r, d) != NULL)
        return;
    if (r->suspect_count == capacity)
        r->suspect_first = (r->suspect_first + 1) % capacity;
    else
        r->suspect_count++;
    r->suspects[(r->suspect_first + r->suspect_count - 1) % capacity] = d->message->id;
}

/* Its outcome is known. */
static void suspect_clear(struct amqp_transport *r, const struct delivery *d)
{
    pr_id *id = d != NULL ? suspect_find(r, d) : NULL;
    if (id != NULL) {
        *id = r->suspects[r->suspect_first];
        r->suspect_first = (r->suspect_first + 1) % r->session.pipeline.capacity;
        r->suspect_count--;
    }
}

static void answered(struct amqp_transport *r, uint64_t number, bool good)
{
    const struct delivery *d = pipeline_answer(&r->session.pipeline, number);
    reconnect_worked(&r->session.reconnect);
    suspect_clear(r, d);
    if (d != NULL && good)
        result_ok(pipeline_result(&r->session.pipeline), d->token);
    else if (d != NULL)
        result_failed(pipeline_result(&r->session.pipeline), d->token, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE,
                      "basic.nack",
                      PR_STR("the broker refused it: a queue is full (overflow=reject-publish) or broken"));
}

/* Q1 */
static void take_confirm(struct amqp_transport *r, uint64_t tag, bool multiple, bool good)
{
    struct pipeline *p = &r->session.pipeline;
    uint64_t number = r->channel_base + tag;
    if (tag == 0 ? !multiple : number >= p->first_number + p->out_count) {
        rabbit_failed(r, "it confirms a message that was not sent");
        return;
    }
    if (tag == 0)
        number = p->first_number + p->out_count - 1;
    for (uint64_t n = p->first_number; multiple && n < number; n++)
        if (n >= p->first_number && !pipeline_at(p, (size_t)(n - p->first_number))->answered)
            answered(r, n, good);
    answered(r, number, good);
}

/* Q2: the result of the message; the confirm that follows finds nothing waiting. */
static void take_returned_header(struct amqp_transport *r, const struct amqp_frame *frame)
{
    struct pipeline *p = &r->session.pipeline;
    pr_slice message_id;
    pr_id id;
    r->returning = false;
    if (!frame_header(frame, &r->returned_left, &message_id)) {
        rabbit_failed(r, "the header of what came back is too short");
        return;
    }
    if (r->returned_left > ENVELOPE_JSON_MAX) {
        rabbit_failed(r, "what came back is larger than any message");
        return;
    }
    if (pr_id_parse(message_id, &id) != PR_OK)
        return;
    for (size_t i = 0; i < p->out_count; i++) {
        struct pipeline_out *o = pipeline_at(p, i);
        if (o->delivery == NULL || !pr_id_equal(o->delivery->message->id, id))
            continue;
        char code[RESULT_CODE_SIZE];
        suspect_clear(r, o->delivery);
        snprintf(code, sizeof(code), "%u", r->returned_code);
        result_failed(pipeline_result(p), pipeline_end(o)->token, SEND_FAILED,
                      reason_of(r->returned_code, pr_str(r->returned_text)), code, pr_str(r->returned_text));
        return;
    }
}

static void take_return(struct amqp_transport *r, const amqp_basic_return_t *method)
{
    r->returned_code = method->reply_code;
    r->returning = true;
    snprintf(r->returned_text, sizeof(r->returned_text),
             "%.*s: no queue receives the key \"%.*s\" at the exchange \"%.*s\"; bind one, or set mandatory=false",
             (int)min_size(method->reply_text.len, 64), (char *)method->reply_text.bytes,
             (int)min_size(method->routing_key.len, 64), (char *)method->routing_key.bytes,
             (int)min_size(method->exchange.len, 64), (char *)method->exchange.bytes);
}

/* Q3: the connection stays, unless nothing was out: then the close is not about a message. */
static void take_channel_close(struct amqp_transport *r, unsigned reply_code, pr_slice reply)
{
    struct pipeline *p = &r->session.pipeline;
    char code[RESULT_CODE_SIZE], text[512];
    amqp_channel_close_ok_t close_ok = { 0 };
    int reason = reason_of(reply_code, reply);
    snprintf(code, sizeof(code), "%u", reply_code);
    if (reply.size == 0)
        reply = PR_STR("the broker closed the channel");
    snprintf(text, sizeof(text), "%.*s", (int)min_size(reply.size, sizeof(text) - 1), reply.data);
    if (r->session.state != SESSION_UP) {
        session_lost(&r->session, reason, code, text);
        return;
    }
    pipeline_cut(p);
    size_t out = 0;
    for (size_t i = 0; i < p->out_count; i++)
        out += !pipeline_at(p, i)->answered;
    if (out == 0) {
        session_failed(&r->session, PR_REASON_TRANSPORT_UNAVAILABLE, code, "it closed a channel without a message");
        return;
    }
    while (p->out_count > 0) {
        const struct delivery *d = pipeline_answer(p, p->first_number);
        if (d == NULL)
            continue;
        if (out > 1)
            suspect_add(r, d);
        else
            suspect_clear(r, d);
        result_failed(pipeline_result(p), d->token, out > 1 ? SEND_UNKNOWN : SEND_FAILED,
                      out > 1 ? PR_REASON_TRANSPORT_UNAVAILABLE : reason, code, pr_str(text));
    }
    r->returning = false;
    r->session.state = SESSION_GREETING;
    session_begin_greeting(&r->session, clock_mono_us(r->session.clock));
    r->stage = STAGE_CHANNEL;
    put(r, AMQP_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &close_ok);
    put_channel_open(r);
}

static void take_connection_close(struct amqp_transport *r, const amqp_connection_close_t *close)
{
    char code[RESULT_CODE_SIZE], text[512];
    snprintf(code, sizeof(code), "%u", close->reply_code);
    snprintf(text, sizeof(text), "%s:%u: %.*s", r->session.url.host.data, r->session.url.port,
             (int)min_size(close->reply_text.len, 400), (char *)close->reply_text.bytes);
    session_lost(&r->session, reason_of(close->reply_code, slice_of(close->reply_text)), code, text);
}

static void take_blocked(struct amqp_transport *r, const amqp_connection_blocked_t *blocked)
{
    snprintf(r->blocked, sizeof(r->blocked), "the broker accepts no messages now: %.*s",
             (int)min_size(blocked->reason.len, 200), (char *)blocked->reason.bytes);
}

static void take_select_ok(struct amqp_transport *r)
{
    r->session.state = SESSION_UP;
    r->channel_base = r->session.pipeline.first_number + r->session.pipeline.out_count - 1;
}

/* Q4 */
static const struct stage_row {
    amqp_method_number_t method; /* the only method that continues the greeting */
    uint16_t channel;            /* on this channel */
} stages[] = {
    [STAGE_START] = { AMQP_CONNECTION_START_METHOD, 0 },
    [STAGE_TUNE] = { AMQP_CONNECTION_TUNE_METHOD, 0 },
    [STAGE_OPEN] = { AMQP_CONNECTION_OPEN_OK_METHOD, 0 },
    [STAGE_CHANNEL] = { AMQP_CHANNEL_OPEN_OK_METHOD, AMQP_CHANNEL },
    [STAGE_EXCHANGE] = { AMQP_EXCHANGE_DECLARE_OK_METHOD, AMQP_CHANNEL },
    [STAGE_SELECT] = { AMQP_CONFIRM_SELECT_OK_METHOD, AMQP_CHANNEL },
    [STAGE_READY] = { 0, 0 }, /* the greeting is over */
};

/* The awaited method has arrived: takes the next step. */
static void greet_on(struct amqp_transport *r, const void *fields)
{
    bool has_exchange = r->form.exchange.size > 0;
    enum stage done = r->stage;
    r->stage = done == STAGE_CHANNEL && !has_exchange ? STAGE_SELECT : (enum stage)(done + 1);
    switch (done) {
    case STAGE_START: put_start_ok(r); break;
    case STAGE_TUNE: put_tune_ok(r, fields); break;
    case STAGE_OPEN: put_channel_open(r); break;
    case STAGE_CHANNEL:
        if (has_exchange)
            put_exchange_check(r);
        else
            put_confirm_select(r);
        break;
    case STAGE_EXCHANGE: put_confirm_select(r); break;
    default: take_select_ok(r); break;
    }
}

/* Unsolicited methods: from which stage on, and on which channel. */
static const struct unasked {
    amqp_method_number_t method;
    enum stage from;
    uint16_t channel;
} unasked[] = {
    { AMQP_CONNECTION_CLOSE_METHOD, STAGE_START, 0 },        { AMQP_CONNECTION_BLOCKED_METHOD, STAGE_OPEN, 0 },
    { AMQP_CONNECTION_UNBLOCKED_METHOD, STAGE_OPEN, 0 },     { AMQP_CHANNEL_CLOSE_METHOD, STAGE_CHANNEL, AMQP_CHANNEL },
    { AMQP_BASIC_ACK_METHOD, STAGE_READY, AMQP_CHANNEL },    { AMQP_BASIC_NACK_METHOD, STAGE_READY, AMQP_CHANNEL },
    { AMQP_BASIC_RETURN_METHOD, STAGE_READY, AMQP_CHANNEL },
};

static bool may_come(const struct amqp_transport *r, amqp_method_number_t method, uint16_t channel)
{
    if (r->returning || r->returned_left > 0) /* a message must be complete before another frame of its channel */
        return channel == 0 && method == AMQP_CONNECTION_CLOSE_METHOD;
    if (r->stage != STAGE_READY && stages[r->stage].method == method)
        return stages[r->stage].channel == channel;
    for (size_t i = 0; i < ARRAY_LENGTH(unasked); i++)
        if (unasked[i].method == method)
            return r->stage >= unasked[i].from && unasked[i].channel == channel;
    return false;
}

static void take_unasked(struct amqp_transport *r, amqp_method_number_t method, const void *fields)
{
    const amqp_channel_close_t *channel_close = fields;
    const amqp_basic_ack_t *ack = fields;
    const amqp_basic_nack_t *nack = fields;
    switch (method) {
    case AMQP_BASIC_ACK_METHOD: take_confirm(r, ack->delivery_tag, ack->multiple, true); break;
    case AMQP_BASIC_NACK_METHOD: take_confirm(r, nack->delivery_tag, nack->multiple, false); break;
    case AMQP_BASIC_RETURN_METHOD: take_return(r, fields); break;
    case AMQP_CHANNEL_CLOSE_METHOD:
        take_channel_close(r, channel_close->reply_code, slice_of(channel_close->reply_text));
        break;
    case AMQP_CONNECTION_BLOCKED_METHOD: take_blocked(r, fields); break;
    case AMQP_CONNECTION_UNBLOCKED_METHOD: r->blocked[0] = '\0'; break;
    default: take_connection_close(r, fields); break;
    }
}

static void out_of_order(struct amqp_transport *r, const char *what, unsigned number)
{
    char text[128];
    snprintf(text, sizeof(text), "%s %u out of order, at stage %d of the greeting", what, number, (int)r->stage);
    rabbit_failed(r, text);
}

/* The table of server properties in connection.start is not needed, and skipped. */
static void take_method(struct amqp_transport *r, const struct amqp_frame *frame)
{
    amqp_method_number_t method;
    void *fields = NULL;
    if (!frame_method(frame, &method)) {
        rabbit_failed(r, "a method that is too short");
        return;
    }
    if (!may_come(r, method, frame->channel)) {
        out_of_order(r, amqp_method_name(method) != NULL ? amqp_method_name(method) : "method", method & 0xffff);
        return;
    }
    amqp_bytes_t rest = frame_bytes((pr_slice){ frame->payload.data + 4, frame->payload.size - 4 });
    int rc = r->stage == STAGE_START && method == AMQP_CONNECTION_START_METHOD
                 ? 0
                 : amqp_decode_method(method, &r->pool, rest, &fields);
    if (rc < 0)
        rabbit_failed(r, amqp_error_string2(rc));
    else if (r->stage != STAGE_READY && stages[r->stage].method == method)
        greet_on(r, fields);
    else
        take_unasked(r, method, fields);
    recycle_amqp_pool(&r->pool);
}

/* Only the header of a returned message is of interest. */
static void take_body(struct amqp_transport *r, const struct amqp_frame *frame)
{
    if (frame->payload.size == 0 || frame->payload.size > r->returned_left)
        out_of_order(r, "body", frame->channel);
    else
        r->returned_left -= frame->payload.size;
}

static void take_frame(struct amqp_transport *r, const struct amqp_frame *frame)
{
    if (frame->type == AMQP_FRAME_METHOD)
        take_method(r, frame);
    else if (frame->type == AMQP_FRAME_HEADER && r->returning && frame->channel == AMQP_CHANNEL)
        take_returned_header(r, frame);
    else if (frame->type == AMQP_FRAME_BODY && frame->channel == AMQP_CHANNEL)
        take_body(r, frame);
    else if (frame->type != AMQP_FRAME_HEARTBEAT)
        out_of_order(r, "frame", frame->type);
}

static void take_bytes(struct amqp_transport *r, pr_slice bytes)
{
    struct pr_error error = { 0 };
    struct amqp_frame frame;
    int rc = FRAME_PART;
    while (r->reader != NULL && (rc = frame_next(r->reader, &bytes, r->stage >= STAGE_CHANNEL ? AMQP_CHANNEL : 0,
                                                 &frame, &error)) == FRAME_WHOLE)
        take_frame(r, &frame);
    if (rc < 0)
        rabbit_failed(r, error.text);
}

static void rabbit_read(void *self, int64_t now_us)
{
    struct amqp_transport *r = self;
    char chunk[RABBIT_READ_SIZE];
    size_t got;
    while ((got = session_read(&r->session, chunk, sizeof(chunk))) > 0) {
        r->read_us = now_us;
        take_bytes(r, (pr_slice){ chunk, got });
    }
}

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

/* Puts its bytes into the buffer, or gives it its result. */
static void rabbit_begin(struct amqp_transport *r, const struct delivery *d)
{
    struct pipeline *p = &r->session.pipeline;
    struct pr_error error = { 0 };
    size_t before = p->bytes.size;

    arena_reset(&r->scratch);
    buf_reset(&r->key);
    template_fill(&r->key, r->key_template, d->message);
    r->form.message = d->message;
    r->form.key = buf_slice(&r->key);
    int rc = buf_failed(&r->key) != 0
                 ? buf_failed(&r->key)
                 : frame_put_message(&p->bytes, AMQP_CHANNEL, &r->form, &r->scratch, &r->json, &error);
    if (rc == PR_OK) {
        pipeline_began(p, before);
        return;
    }
    delivery_queue_drop(&p->waiting);
    if (rc == PR_EINVAL)
        result_unsent(pipeline_result(p), d->token, PR_REASON_VALIDATION_FAILURE, "", pr_str(error.text));
    else
        result_returned(pipeline_result(p), d->token); /* no memory: later */
}

/* Q3 */
static bool rabbit_may_begin(struct amqp_transport *r, const struct delivery *d)
{
    bool nobody_out = r->session.pipeline.out_count == 0;
    bool suspect = r->suspect_count > 0 && suspect_find(r, d) != NULL;
    if (nobody_out)
        r->alone = suspect;
    return nobody_out || (!suspect && !r->alone);
}

static void rabbit_send(void *self, int64_t now_us)
{
    struct amqp_transport *r = self;
    struct pipeline *p = &r->session.pipeline;
    const struct delivery *d;
    if (r->blocked[0] != '\0')
        pipeline_refuse(p, now_us, PR_REASON_TRANSPORT_UNAVAILABLE, "connection.blocked", r->blocked);
    while (r->session.state == SESSION_UP && pipeline_unwritten(p) < PIPELINE_BUFFERED_MAX &&
           (d = pipeline_next(p, now_us)) != NULL && rabbit_may_begin(r, d))
        rabbit_begin(r, d);
    if (r->heartbeat_us > 0 && now_us - r->sent_us >= r->heartbeat_us / 2 && p->bytes.size == 0)
        frame_put_heartbeat(&p->bytes);
    if (pipeline_unwritten(p) > 0)
        r->sent_us = now_us;
    if (!pipeline_write(p, &r->session.wire))
        session_wire_lost(&r->session);
}

static bool rabbit_has_bytes(void *self)
{
    struct amqp_transport *r = self;
    return pipeline_unwritten(&r->session.pipeline) > 0;
}

static void rabbit_expire(void *self, int64_t now_us)
{
    struct amqp_transport *r = self;
    if (r->heartbeat_us > 0 && now_us - r->read_us >= 2 * r->heartbeat_us)
        rabbit_failed(r, "no heartbeat");
}

static int64_t rabbit_next_us(void *self)
{
    struct amqp_transport *r = self;
    return r->heartbeat_us > 0 ? min64(r->sent_us + r->heartbeat_us / 2, r->read_us + 2 * r->heartbeat_us) : PR_NEVER;
}

static bool rabbit_is_held(void *self)
{
    struct amqp_transport *r = self;
    return r->blocked[0] != '\0';
}

/* ---- The transport ------------------------------------------------------------------------------------------------- */

static const struct session_ops rabbit_session = {
    .greet = rabbit_greet,
    .drop = rabbit_drop,
    .read = rabbit_read,
    .send = rabbit_send,
    .has_bytes = rabbit_has_bytes,
    .expire = rabbit_expire,
    .next_us = rabbit_next_us,
    .is_held = rabbit_is_held,
};

static int rabbit_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct amqp_transport *r = self;
    arena_init(&r->scratch, 4096);
    init_amqp_pool(&r->pool, 4096);
    buf_init(&r->json, ENVELOPE_JSON_MAX);
    buf_init(&r->key, BROKER_URL_MAX + 4096);
    int rc = session_init(&r->session, &rabbit_session, r, rabbit_url, config, reterr);
    if (rc != PR_OK)
        return rc;
    const struct broker_url *url = &r->session.url;
    r->vhost = url->path.size > 0 ? url->path : PR_STR("/");
    r->key_template = broker_url_param(url, "key", "{type}");
    r->form = (struct frame_message){ .source = config->source, .exchange = broker_url_param(url, "exchange", "") };
    (void)envelope_parse(config->envelope, &r->form.envelope); /* rabbit_url() has checked both */
    rc = broker_url_bool(config, url, "mandatory", true, &r->form.mandatory, reterr);
    if (rc == PR_OK)
        rc = session_open(&r->session, has_tls(config), reterr);
    if (rc != PR_OK)
        return rc;
    r->suspects = calloc(r->session.pipeline.capacity, sizeof(*r->suspects));
    return r->suspects != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory", config->name);
}

/* Closes properly when that costs nothing: otherwise brokers log a complaint. */
static void rabbit_say_goodbye(struct amqp_transport *r)
{
    amqp_connection_close_t close = { .reply_code = AMQP_REPLY_SUCCESS, .reply_text = amqp_cstring_bytes("closed") };
    if (r->session.state != SESSION_UP || r->session.pipeline.bytes.size > 0)
        return;
    frame_put_method(&r->session.pipeline.bytes, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
    (void)!pipeline_write(&r->session.pipeline, &r->session.wire);
}

static void rabbit_close(void *self)
{
    struct amqp_transport *r = self;
    rabbit_say_goodbye(r);
    session_fini(&r->session);
    empty_amqp_pool(&r->pool);
    free(r->suspects);
    buf_fini(&r->json);
    buf_fini(&r->key);
    arena_fini(&r->scratch);
}

_Static_assert(offsetof(struct amqp_transport, session) == 0, "session_submit() takes it for its session");
const struct transport_ops transport_amqp = SESSION_TRANSPORT("amqp", amqp_transport, rabbit, session_cancel);
const struct transport_ops transport_amqps = SESSION_TRANSPORT("amqps", amqp_transport, rabbit, session_cancel);
