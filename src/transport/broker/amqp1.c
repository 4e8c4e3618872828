/* amqp1: AMQP 1.0, as spoken by Azure Service Bus, Artemis and RabbitMQ.
 *
 *   amqp1://user:password@host:5672/ADDRESS?tls=true
 *
 * Everything happens in the caller's thread: proton implements the protocol and has no socket (session.h has it).  Each
 * address has a link of its own.  A message is sent unsettled when its link has credit, and answered by a disposition;
 * its tag is its number in the pipeline.
 *
 *   A1  Proton accepts a message at once and cannot give it back.  So it gets one only while the wire takes everything
 *       that it
 *       has to write, and a message that may not start any more and is not written by then costs the connection.
 *   A2  This side only sends.  A connection on which the broker opens a session or a link of its own, and could send
 *       endlessly, is
 *       closed. */
#include <proton/condition.h>
#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/event.h>
#include <proton/link.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/broker/amqp1_gate.h"
#include "transport/broker/amqp1_message.h"
#include "transport/broker/session.h"
#include "transport/template.h"

#define QPID_PORT 5672
#define QPID_TLS_PORT 5671
#define QPID_IDLE_MS 30000 /* a peer that is silent for this time counts as gone */
#define QPID_LINKS_MAX 64  /* addresses at once; an idle link makes room */
#define QPID_ADDRESS_MAX 1024

struct qpid_link {
    char address[QPID_ADDRESS_MAX];
    pn_link_t *sender;  /* NULL: refused */
    bool open;          /* attached on the broker's side, too */
    int64_t give_up_us; /* not open: deadline; refused: no new attempt before */
    size_t out;         /* messages that are not answered */
    int reason;         /* refused: why */
    char code[RESULT_CODE_SIZE], text[256];
};

struct qpid {
    struct broker_session session; /* its pipeline contains no bytes */
    struct arena scratch;          /* memory for one message */
    struct buf address, bytes;
    enum envelope envelope;

    pn_connection_driver_t driver;
    bool has_driver;
    pn_session_t *channel;
    struct qpid_link links[QPID_LINKS_MAX];
    size_t link_count;
    struct inbox inbox; /* empty without a connection */
    enum amqp1_stage stage;
    uint64_t link_names; /* counter for link names on this connection */
    int64_t tick_us;     /* when proton needs a tick; 0: never */
    uint64_t flushed;    /* messages with smaller numbers are completely written (A1) */
    size_t given;        /* bytes given to proton since everything was written */
};

/* ---- The url -------------------------------------------------------------------------------------------------- */

static const char *const params[] = { "tls", "vhost", "plain", WIRE_PARAMS, NULL };

static bool has_tls(const struct broker_url *url)
{
    return slice_eq_cstr(broker_url_param(url, "tls", "false"), "true");
}

static int qpid_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                    struct pr_error *reterr)
{
    bool tls = false;
    int rc = broker_url_parse(config, 0, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_bool(config, ret, "tls", false, &tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, tls, reterr);
    if (rc == PR_OK)
        rc = template_check(config->name, "the address", ret->path, reterr);
    if (rc == PR_OK && (ret->path.size == 0 || ret->path.size >= QPID_ADDRESS_MAX))
        rc = error_set(reterr, PR_ECONFIG,
                       "endpoint %s: the url is not valid: it needs the address of a queue or topic after the host",
                       config->name);
    if (rc == PR_OK)
        rc = envelope_check(config, reterr);
    if (rc == PR_OK && ret->port == 0)
        ret->port = tls ? QPID_TLS_PORT : QPID_PORT;
    return rc == PR_OK ? pipeline_check(config, reterr) : rc;
}

static int qpid_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    return session_check(qpid_url, config, reterr);
}

/* ---- Reasons ---------------------------------------------------------------------------------------------------- */

static int reason_of(const char *condition)
{
    static const struct {
        const char *name;
        int reason;
    } known[] = {
        { "amqp:not-found", PR_REASON_DESTINATION_MISSING },
        { "amqp:resource-deleted", PR_REASON_DESTINATION_MISSING },
        { "amqp:unauthorized-access", PR_REASON_UNAUTHORIZED },
        { "amqp:not-allowed", PR_REASON_UNAUTHORIZED },
        { "amqp:link:message-size-exceeded", PR_REASON_MESSAGE_TOO_LARGE },
        { "amqp:decode-error", PR_REASON_SERIALIZATION_ERROR },
        { "amqp:invalid-field", PR_REASON_SERIALIZATION_ERROR },
        { "amqp:resource-limit-exceeded", PR_REASON_RATE_LIMITED },
        { "amqp:link:transfer-limit-exceeded", PR_REASON_RATE_LIMITED },
        { "com.microsoft:server-busy", PR_REASON_RATE_LIMITED },
        { "com.microsoft:argument-error", PR_REASON_VALIDATION_FAILURE },
        { "amqp:precondition-failed", PR_REASON_REJECTED },
        { "amqp:not-implemented", PR_REASON_REJECTED },
        { "amqp:illegal-state", PR_REASON_REJECTED },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
        if (strcmp(condition, known[i].name) == 0)
            return known[i].reason;
    return PR_REASON_TRANSPORT_UNAVAILABLE; /* amqp:internal-error, amqp:connection:forced, com.microsoft:timeout ... */
}

/* ---- The connection ------------------------------------------------------------------------------------------------ */

static void qpid_drop(void *self)
{
    struct qpid *q = self;
    if (q->has_driver)
        pn_connection_driver_destroy(&q->driver);
    q->has_driver = false;
    q->link_count = 0;
    q->link_names = 0;
    q->inbox.size = 0;
    q->stage = AMQP1_SASL_HEADER;
    q->given = 0;
    q->tick_us = 0;
}

static void qpid_failed(struct qpid *q, int reason, const char *code, const char *what)
{
    session_failed(&q->session, reason, code, what);
}

/* The wire is open: proton begins. */
static void qpid_greet(void *self)
{
    struct qpid *q = self;
    if (pn_connection_driver_init(&q->driver, NULL, NULL) != 0) {
        qpid_failed(q, PR_REASON_TRANSPORT_UNAVAILABLE, "", "out of memory");
        return;
    }
    pn_connection_t *connection = q->driver.connection;
    q->has_driver = true;
    pn_connection_set_container(connection, q->session.config->name);
    pn_connection_set_hostname(connection, broker_url_param(&q->session.url, "vhost", q->session.url.host.data).data);
    if (q->session.url.user.size > 0) {
        pn_connection_set_user(connection, q->session.url.user.data);
        pn_connection_set_password(connection, q->session.url.password.data);
    }
    pn_sasl_t *sasl = pn_sasl(q->driver.transport);
    pn_sasl_allowed_mechs(sasl, q->session.url.user.size > 0 ? "PLAIN" : "ANONYMOUS EXTERNAL");
    pn_sasl_set_allow_insecure_mechs(sasl, true); /* the url was checked; TLS is below proton */
    pn_transport_set_idle_timeout(q->driver.transport, QPID_IDLE_MS);
    pn_transport_set_max_frame(q->driver.transport, AMQP1_FRAME_MAX);
    pn_transport_set_channel_max(q->driver.transport, 0); /* one session */
    (void)pn_connection_driver_bind(&q->driver);          /* includes the login; before proton reads anything */
    pn_connection_open(connection);
    q->channel = pn_session(connection);
    pn_session_open(q->channel);
}

/* ---- Links ------------------------------------------------------------------------------------------------------------ */

static struct qpid_link *link_find(struct qpid *q, const char *address)
{
    for (size_t i = 0; i < q->link_count; i++)
        if (strcmp(q->links[i].address, address) == 0)
            return &q->links[i];
    return NULL;
}

static struct qpid_link *link_of(struct qpid *q, const pn_link_t *sender)
{
    for (size_t i = 0; i < q->link_count; i++)
        if (q->links[i].sender == sender)
            return &q->links[i];
    return NULL;
}

/* Room for one more link, made by dropping an idle one if needed; NULL: all are busy. */
static struct qpid_link *link_room(struct qpid *q)
{
    if (q->link_count < QPID_LINKS_MAX)
        return &q->links[q->link_count++];
    for (size_t i = 0; i < q->link_count; i++)
        if (q->links[i].out == 0) {
            if (q->links[i].sender != NULL)
                pn_link_close(q->links[i].sender);
            return &q->links[i];
        }
    return NULL;
}

/* l: a refused link that is tried again, or NULL for a new one. */
static struct qpid_link *link_open(struct qpid *q, struct qpid_link *l, const char *address, int64_t now_us)
{
    char name[32];
    if (l == NULL)
        l = link_room(q);
    if (l == NULL)
        return NULL;
    *l = (struct qpid_link){ .give_up_us = now_us + SESSION_GREETING_US };
    snprintf(l->address, sizeof(l->address), "%s", address);
    snprintf(name, sizeof(name), "postrider-%llu", (unsigned long long)++q->link_names);
    l->sender = pn_sender(q->channel, name);
    pn_terminus_set_address(pn_link_target(l->sender), address);
    pn_terminus_set_address(pn_link_source(l->sender), q->session.config->name);
    pn_link_set_snd_settle_mode(l->sender, PN_SND_UNSETTLED);
    pn_link_open(l->sender);
    return l;
}

static void condition_of(pn_condition_t *condition, char code[RESULT_CODE_SIZE], char *text, size_t size,
                         const char *otherwise)
{
    const char *name = pn_condition_is_set(condition) ? pn_condition_get_name(condition) : NULL;
    const char *words = pn_condition_is_set(condition) ? pn_condition_get_description(condition) : NULL;
    snprintf(code, RESULT_CODE_SIZE, "%s", name != NULL ? name : "");
    snprintf(text, size, "%s", words != NULL ? words : name != NULL ? name : otherwise);
}

/* Its messages that are out get no answer any more. */
static void link_refused(struct qpid *q, struct qpid_link *l, int64_t now_us)
{
    condition_of(pn_link_remote_condition(l->sender), l->code, l->text, sizeof(l->text), "the broker closed the link");
    l->reason = reason_of(l->code);
    if (l->out > 0) { /* rare; which of them are affected is not worth tracking */
        qpid_failed(q, l->reason, l->code, l->text);
        return;
    }
    pn_link_close(l->sender);
    l->sender = NULL;
    l->open = false;
    l->give_up_us = now_us + RECONNECT_EVERY_US;
}

/* ---- Answers ------------------------------------------------------------------------------------------------------------ */

static void take_disposition(struct qpid *q, const struct delivery *d, pn_delivery_t *delivery)
{
    struct delivery_result *result = pipeline_result(&q->session.pipeline);
    pn_disposition_t *remote = pn_delivery_remote(delivery);
    char code[RESULT_CODE_SIZE], text[512];
    condition_of(pn_disposition_condition(remote), code, text, sizeof(text), "the broker rejected it");
    switch (pn_delivery_remote_state(delivery)) {
    case PN_ACCEPTED: result_ok(result, d->token); break;
    case PN_REJECTED:
        result_failed(result, d->token, SEND_FAILED, code[0] != '\0' ? reason_of(code) : PR_REASON_REJECTED,
                      code[0] != '\0' ? code : "rejected", pr_str(text));
        break;
    case PN_RELEASED:
        result_failed(result, d->token, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE, "released",
                      PR_STR("the broker released it: no queue can receive it now"));
        break;
    case PN_MODIFIED:
        result_failed(result, d->token, SEND_FAILED,
                      pn_disposition_is_undeliverable(remote) ? PR_REASON_REJECTED : PR_REASON_TRANSPORT_UNAVAILABLE,
                      "modified", PR_STR("the broker could not deliver it"));
        break;
    default:
        result_failed(result, d->token, SEND_UNKNOWN, PR_REASON_UNKNOWN, "",
                      PR_STR("the broker settled it without an outcome"));
    }
}

static void take_delivery(struct qpid *q, pn_delivery_t *delivery)
{
    uint64_t state = pn_delivery_remote_state(delivery);
    if ((state == 0 || state == PN_RECEIVED) && !pn_delivery_settled(delivery))
        return; /* not the end yet */
    uint64_t number = (uint64_t)(uintptr_t)pn_delivery_get_context(delivery);
    struct qpid_link *l = link_of(q, pn_delivery_link(delivery));
    const struct delivery *d = pipeline_answer(&q->session.pipeline, number);
    if (l != NULL)
        l->out -= l->out > 0;
    reconnect_worked(&q->session.reconnect);
    if (d != NULL)
        take_disposition(q, d, delivery);
    pn_delivery_settle(delivery);
}

static void take_transport_error(struct qpid *q)
{
    char code[RESULT_CODE_SIZE], text[400];
    pn_sasl_outcome_t outcome = pn_sasl_outcome(pn_sasl(q->driver.transport));
    condition_of(pn_transport_condition(q->driver.transport), code, text, sizeof(text), "the connection failed");
    bool refused = outcome == PN_SASL_AUTH || outcome == PN_SASL_PERM;
    qpid_failed(q, refused ? PR_REASON_UNAUTHORIZED : PR_REASON_TRANSPORT_UNAVAILABLE, code, text);
}

/* RabbitMQ does not announce the size limit of its links, and ends the session when a message exceeds it: blame the
 * only one that is out. */
static void blame_for_size(struct qpid *q, const char *code, const char *text)
{
    struct pipeline *p = &q->session.pipeline;
    bool size = strcmp(code, "amqp:precondition-failed") == 0 && strstr(text, "message size") != NULL;
    const struct delivery *d = size && p->out_count == 1 ? pipeline_answer(p, p->first_number) : NULL;
    if (d != NULL)
        result_failed(pipeline_result(p), d->token, SEND_FAILED, PR_REASON_MESSAGE_TOO_LARGE, code, pr_str(text));
}

static void take_close(struct qpid *q, pn_condition_t *condition)
{
    char code[RESULT_CODE_SIZE], text[400];
    condition_of(condition, code, text, sizeof(text), "the broker closed the connection");
    blame_for_size(q, code, text);
    qpid_failed(q, reason_of(code), code, text);
}

static void take_event(struct qpid *q, pn_event_t *event, int64_t now_us)
{
    struct qpid_link *l;
    switch (pn_event_type(event)) {
    case PN_CONNECTION_REMOTE_OPEN: q->session.state = SESSION_UP; break;
    case PN_SESSION_REMOTE_OPEN:
        if (pn_event_session(event) != q->channel)
            qpid_failed(q, PR_REASON_TRANSPORT_UNAVAILABLE, "", "an unexpected session"); /* A2 */
        break;
    case PN_LINK_REMOTE_OPEN: /* a link without a target is about to be refused */
        l = link_of(q, pn_event_link(event));
        if (pn_link_is_receiver(pn_event_link(event)))
            qpid_failed(q, PR_REASON_TRANSPORT_UNAVAILABLE, "", "an unexpected link"); /* A2 */
        else if (l != NULL)
            l->open = pn_terminus_get_type(pn_link_remote_target(l->sender)) != PN_UNSPECIFIED;
        break;
    case PN_LINK_REMOTE_DETACH:
    case PN_LINK_REMOTE_CLOSE:
        l = link_of(q, pn_event_link(event));
        if (l != NULL)
            link_refused(q, l, now_us);
        break;
    case PN_DELIVERY: take_delivery(q, pn_event_delivery(event)); break;
    case PN_SESSION_REMOTE_CLOSE: take_close(q, pn_session_remote_condition(pn_event_session(event))); break;
    case PN_CONNECTION_REMOTE_CLOSE: take_close(q, pn_connection_remote_condition(q->driver.connection)); break;
    case PN_TRANSPORT_ERROR: take_transport_error(q); break;
    default: break;
    }
}

static void take_events(struct qpid *q, int64_t now_us)
{
    pn_event_t *event;
    while (q->has_driver && (event = pn_connection_driver_next_event(&q->driver)) != NULL)
        take_event(q, event, now_us);
}

/* ---- Bytes -------------------------------------------------------------------------------------------------------------- */

/* Gives proton bytes that have passed the gate.  False: proton reads no more. */
static bool give_proton(struct qpid *q, pr_slice bytes, int64_t now_us)
{
    while (bytes.size > 0 && q->has_driver) {
        pn_rwbytes_t room = pn_connection_driver_read_buffer(&q->driver);
        size_t taken = min_size(room.size, bytes.size);
        if (taken == 0)
            return false;
        memcpy(room.start, bytes.data, taken);
        pn_connection_driver_read_done(&q->driver, taken);
        bytes = (pr_slice){ bytes.data + taken, bytes.size - taken };
        take_events(q, now_us);
    }
    return true;
}

/* All complete frames. */
static void take_frames(struct qpid *q, int64_t now_us)
{
    struct pr_error error = { 0 };
    size_t used = 0;
    ssize_t size = 1;
    while (size > 0 && q->has_driver) {
        size = amqp1_gate_pass(&q->stage, AMQP1_SENDS, inbox_bytes(&q->inbox, used), &error);
        if (size > 0 && !give_proton(q, (pr_slice){ q->inbox.bytes + used, (size_t)size }, now_us))
            take_transport_error(q);
        used += size > 0 ? (size_t)size : 0;
    }
    if (size < 0)
        qpid_failed(q, PR_REASON_TRANSPORT_UNAVAILABLE, "", error.text);
    if (q->has_driver)
        inbox_drop(&q->inbox, used);
}

static void qpid_read(void *self, int64_t now_us)
{
    struct qpid *q = self;
    size_t got;
    while ((got = session_read(&q->session, inbox_room(&q->inbox), inbox_room_size(&q->inbox))) > 0) {
        q->inbox.size += got;
        take_frames(q, now_us);
    }
}

/* True: everything is written. */
static bool qpid_write(struct qpid *q, int64_t now_us)
{
    while (q->has_driver) {
        take_events(q, now_us); /* events produce bytes */
        pn_bytes_t bytes = q->has_driver ? pn_connection_driver_write_buffer(&q->driver) : pn_bytes(0, NULL);
        if (!q->has_driver || (bytes.size == 0 && q->session.wire.held_size == 0))
            break;
        ssize_t sent = wire_write(&q->session.wire, bytes.start, bytes.size);
        if (sent < 0) {
            session_wire_lost(&q->session);
            return true;
        }
        if (sent == 0 && (bytes.size > 0 || q->session.wire.held_size > 0))
            return false;
        pn_connection_driver_write_done(&q->driver, (size_t)sent);
    }
    q->flushed = q->session.pipeline.first_number + q->session.pipeline.out_count;
    q->given = 0;
    return true;
}

/* ---- Sending ------------------------------------------------------------------------------------------------------------- */

/* Fails it without sending. */
static void qpid_refuse(struct qpid *q, const struct delivery *d, int reason, const char *code, const char *text)
{
    delivery_queue_drop(&q->session.pipeline.waiting);
    result_unsent(pipeline_result(&q->session.pipeline), d->token, reason, code, pr_str(text));
}

static void send_bytes(struct qpid *q, struct qpid_link *l)
{
    uint64_t number = pipeline_began(&q->session.pipeline, 0);
    pn_delivery_t *delivery = pn_delivery(l->sender, pn_dtag((const char *)&number, sizeof(number)));
    pn_delivery_set_context(delivery, (void *)(uintptr_t)number);
    pn_link_send(l->sender, q->bytes.data, q->bytes.size);
    pn_link_advance(l->sender);
    l->out++;
    q->given += q->bytes.size;
}

/* False: it has to wait for its link. */
static bool qpid_begin(struct qpid *q, const struct delivery *d, int64_t now_us)
{
    struct pr_error error = { 0 };
    buf_reset(&q->address);
    template_fill(&q->address, q->session.url.path, d->message);
    if (buf_failed(&q->address) != 0 || q->address.size == 0 || strlen(q->address.data) != q->address.size) {
        qpid_refuse(q, d, PR_REASON_VALIDATION_FAILURE, "", "the message does not make a valid address");
        return true;
    }
    struct qpid_link *l = link_find(q, q->address.data);
    if (l != NULL && l->sender == NULL && now_us < l->give_up_us) {
        delivery_queue_drop(&q->session.pipeline.waiting);
        result_failed(pipeline_result(&q->session.pipeline), d->token, SEND_FAILED, l->reason, l->code,
                      pr_str(l->text));
        return true;
    }
    if (l == NULL || l->sender == NULL)
        l = link_open(q, l, q->address.data, now_us);
    if (l == NULL || !l->open || pn_link_credit(l->sender) <= 0)
        return false;

    arena_reset(&q->scratch);
    int rc = amqp1_message_encode(d->message, q->session.config->source, q->envelope, &q->scratch, &q->bytes, &error);
    uint64_t max = pn_link_remote_max_message_size(l->sender);
    if (rc == PR_EINVAL) {
        qpid_refuse(q, d, PR_REASON_VALIDATION_FAILURE, "", error.text);
    } else if (rc != PR_OK) {
        delivery_queue_drop(&q->session.pipeline.waiting);
        result_returned(pipeline_result(&q->session.pipeline), d->token); /* no memory: later */
    } else if (max > 0 && q->bytes.size > max) {
        qpid_refuse(q, d, PR_REASON_MESSAGE_TOO_LARGE, "amqp:link:message-size-exceeded",
                    "the message is larger than the link's max-message-size");
    } else {
        send_bytes(q, l);
    }
    return true;
}

/* A1 */
static void qpid_start_waiting(struct qpid *q, int64_t now_us)
{
    const struct delivery *d;
    bool flows = true;
    while (flows && (d = pipeline_next(&q->session.pipeline, now_us)) != NULL && q->session.state == SESSION_UP) {
        if (q->given >= PIPELINE_BUFFERED_MAX)
            flows = qpid_write(q, now_us) && q->session.state == SESSION_UP;
        else
            flows = qpid_begin(q, d, now_us);
    }
}

static void qpid_send(void *self, int64_t now_us)
{
    struct qpid *q = self;
    if (qpid_write(q, now_us)) {
        qpid_start_waiting(q, now_us);
        (void)qpid_write(q, now_us);
    }
}

static bool qpid_has_bytes(void *self)
{
    struct qpid *q = self;
    return q->has_driver && pn_connection_driver_write_buffer(&q->driver).size > 0;
}

/* ---- Deadlines ------------------------------------------------------------------------------------------------------------ */

/* When the first unwritten message may not start any more, or a link was not answered in time (A1). */
static int64_t stuck_us(struct qpid *q)
{
    struct pipeline *p = &q->session.pipeline;
    int64_t next_us = PR_NEVER;
    for (size_t i = 0; i < p->out_count; i++) {
        const struct delivery *d = pipeline_at(p, i)->delivery;
        if (d != NULL && p->first_number + i >= q->flushed)
            next_us = min64(next_us, min64(d->start_before_us, d->deadline_us));
    }
    for (size_t i = 0; i < q->link_count; i++)
        if (q->links[i].sender != NULL && !q->links[i].open)
            next_us = min64(next_us, q->links[i].give_up_us);
    return next_us;
}

static void qpid_expire(void *self, int64_t now_us)
{
    struct qpid *q = self;
    if (now_us >= stuck_us(q))
        qpid_failed(q, PR_REASON_TRANSPORT_UNAVAILABLE, "", "no answer in time");
    else if (q->has_driver)
        q->tick_us = pn_transport_tick(q->driver.transport, now_us / PR_MILLISECONDS(1) + 1) * PR_MILLISECONDS(1);
}

static int64_t qpid_next_us(void *self)
{
    struct qpid *q = self;
    int64_t next_us = stuck_us(q);
    return q->tick_us > 0 ? min64(next_us, q->tick_us) : next_us;
}

/* ---- The transport ----------------------------------------------------------------------------------------------------------- */

static const struct session_ops qpid_session = {
    .greet = qpid_greet,
    .drop = qpid_drop,
    .read = qpid_read,
    .send = qpid_send,
    .has_bytes = qpid_has_bytes,
    .expire = qpid_expire,
    .next_us = qpid_next_us,
};

static int qpid_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct qpid *q = self;
    arena_init(&q->scratch, 4096);
    buf_init(&q->address, QPID_ADDRESS_MAX - 1);
    buf_init(&q->bytes, ENVELOPE_JSON_MAX);
    int rc = session_init(&q->session, &qpid_session, q, qpid_url, config, reterr);
    if (rc != PR_OK)
        return rc;
    (void)envelope_parse(config->envelope, &q->envelope); /* qpid_url() has */
    return session_open(&q->session, has_tls(&q->session.url), reterr);
}

/* Closes properly when that costs nothing. */
static void qpid_say_goodbye(struct qpid *q)
{
    if (q->session.state != SESSION_UP)
        return;
    pn_connection_close(q->driver.connection);
    (void)qpid_write(q, clock_mono_us(q->session.clock));
}

static void qpid_close(void *self)
{
    struct qpid *q = self;
    qpid_say_goodbye(q);
    session_fini(&q->session);
    buf_fini(&q->address);
    buf_fini(&q->bytes);
    arena_fini(&q->scratch);
}

/* A1: proton cannot give back unwritten messages. */
static void qpid_cancel(void *self)
{
    struct qpid *q = self;
    session_cancel(q);
    if (q->session.pipeline.out_count > 0 &&
        q->flushed < q->session.pipeline.first_number + q->session.pipeline.out_count)
        qpid_failed(q, PR_REASON_TRANSPORT_UNAVAILABLE, "", "cancelled on a wire that was full");
}

_Static_assert(offsetof(struct qpid, session) == 0, "session_submit() takes it for its session");
const struct transport_ops transport_amqp1 = SESSION_TRANSPORT("amqp1", qpid, qpid, qpid_cancel);
