/* amqp1: a receiver of AMQP 1.0, as spoken by Azure Service Bus, Artemis and RabbitMQ; a message is accepted and
 * settled when it is stored.
 *
 *   amqp1://user:password@host:5672/ADDRESS?tls=true
 *
 * Proton implements the protocol and has no socket (talk.h has it).  It gets complete frames that have passed the gate,
 * one at a time, and the bytes of a message are taken from it as they arrive: so it never holds more than a few frames.
 * The broker sends at most a batch ahead (credit); unsettled messages go back when the connection ends. */
#include <proton/condition.h>
#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/event.h>
#include <proton/link.h>
#include <proton/message.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "source/broker/amqp1_received.h"
#include "source/broker/broker.h"
#include "source/broker/talk.h"
#include "transport/broker/amqp1_gate.h"

#define AMQP1_PORT 5672
#define AMQP1_TLS_PORT 5671
#define IDLE_MS 30000 /* a peer that is silent for this time counts as gone */
#define SESSION_BYTES (16 * AMQP1_FRAME_MAX)

struct amqp1_source {
    struct broker *broker;
    struct talk talk;
    struct arena scratch; /* one message */
    pn_message_t *reader;
    pn_connection_driver_t driver;
    bool has_driver;
    enum amqp1_stage stage;
    pn_link_t *link;
    bool is_attached;
    struct buf body;          /* first bytes of a delivery that has not arrived completely */
    uint64_t body_size;       /* ... and how many have arrived */
    pn_delivery_t **received; /* complete, and not settled */
    size_t received_count, capacity;
    char why[400]; /* why the broker, or proton, ended the connection; empty: it has not */
};

/* ---- The url ------------------------------------------------------------------------------------------ */

static const char *const params[] = { "tls", "vhost", "plain", WIRE_PARAMS, NULL };

static bool has_tls(const struct broker_url *url)
{
    return slice_eq_cstr(broker_url_param(url, "tls", "false"), "true");
}

static int amqp1_parse(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                       struct pr_error *reterr)
{
    bool tls = false;
    if (!slice_eq_cstr(transport_scheme(config->url), "amqp1"))
        return error_set(reterr, PR_ECONFIG,
                         "%s: the url is not valid: use amqp1://host/ADDRESS, with ?tls=true for TLS",
                         endpoint_title(config).text);
    int rc = broker_url_parse(config, 0, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_bool(config, ret, "tls", false, &tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, tls, reterr);
    if (rc == PR_OK && ret->path.size == 0)
        rc = error_set(reterr, PR_ECONFIG, "%s: the url is not valid: it needs the address of a queue after the host",
                       endpoint_title(config).text);
    if (rc == PR_OK && ret->port == 0)
        ret->port = tls ? AMQP1_TLS_PORT : AMQP1_PORT;
    return rc;
}

static pr_slice amqp1_address(const struct broker_url *url)
{
    return url->path;
}

/* ---- What proton says ------------------------------------------------------------------------------------ */

static void ended(struct amqp1_source *r, pn_condition_t *condition, const char *otherwise)
{
    const char *name = pn_condition_is_set(condition) ? pn_condition_get_name(condition) : NULL;
    const char *words = pn_condition_is_set(condition) ? pn_condition_get_description(condition) : NULL;
    pn_sasl_outcome_t outcome = pn_sasl_outcome(pn_sasl(r->driver.transport));
    const char *advice = outcome == PN_SASL_AUTH || outcome == PN_SASL_PERM ? ": " BROKER_LOGIN_ADVICE
                         : name != NULL && strcmp(name, "amqp:not-found") == 0
                             ? ": create the queue, or check the address in its url"
                             : "";
    if (r->why[0] == '\0')
        snprintf(r->why, sizeof(r->why), "%.300s%s", words != NULL ? words : name != NULL ? name : otherwise, advice);
}

static void forget_body(struct amqp1_source *r)
{
    buf_reset(&r->body);
    r->body_size = 0;
}

/* The message is complete: its delivery is kept until it is settled. */
static int take_whole(struct amqp1_source *r, struct intake *in, pn_delivery_t *delivery, struct pr_error *reterr)
{
    struct received m;
    const char *why;
    ASSERT(r->received_count < r->capacity);
    arena_reset(&r->scratch);
    int rc = amqp1_received_read(r->reader, buf_slice(&r->body), r->body_size - r->body.size, &r->scratch, &m, &why);
    if (m.type.size == 0)
        m.type = r->broker->url.path;
    r->received[r->received_count++] = delivery;
    pn_link_advance(r->link);
    if (rc == PR_OK)
        rc = why != NULL ? intake_bury(in, &m, why, reterr) : intake_add(in, &m, reterr);
    forget_body(r);
    return rc;
}

/* Takes the available bytes of a delivery. */
static int take_delivery(struct amqp1_source *r, struct intake *in, pn_delivery_t *delivery, struct pr_error *reterr)
{
    char bytes[AMQP1_FRAME_MAX];
    ssize_t got;
    if (pn_delivery_link(delivery) != r->link || pn_link_current(r->link) != delivery)
        return PR_OK;                    /* an echo of a settled one */
    if (pn_delivery_aborted(delivery)) { /* its sender has aborted it */
        forget_body(r);
        pn_delivery_settle(delivery);
        pn_link_flow(r->link, 1);
        return PR_OK;
    }
    while ((got = pn_link_recv(r->link, bytes, sizeof(bytes))) > 0) {
        buf_add(&r->body, bytes, min_size((size_t)got, r->body.max - r->body.size));
        r->body_size += (size_t)got;
    }
    if (buf_failed(&r->body) != 0)
        return talk_fault(&r->talk, reterr, "out of memory for a message");
    return pn_delivery_partial(delivery) ? PR_OK : take_whole(r, in, delivery, reterr);
}

static int take_event(struct amqp1_source *r, struct intake *in, pn_event_t *event, struct pr_error *reterr)
{
    switch (pn_event_type(event)) {
    case PN_DELIVERY: return in != NULL ? take_delivery(r, in, pn_event_delivery(event), reterr) : PR_OK;
    case PN_SESSION_REMOTE_OPEN:
    case PN_LINK_REMOTE_OPEN:
        if (pn_event_link(event) == r->link) /* a link without a source is about to be refused */
            r->is_attached = pn_terminus_get_type(pn_link_remote_source(r->link)) != PN_UNSPECIFIED;
        else if (pn_event_link(event) != NULL || pn_event_session(event) != pn_link_session(r->link))
            snprintf(r->why, sizeof(r->why), "an unexpected session or link");
        break;
    case PN_LINK_REMOTE_DETACH:
    case PN_LINK_REMOTE_CLOSE:
        ended(r, pn_link_remote_condition(pn_event_link(event)), "the broker closed the link");
        break;
    case PN_SESSION_REMOTE_CLOSE:
        ended(r, pn_session_remote_condition(pn_event_session(event)), "the broker closed the session");
        break;
    case PN_CONNECTION_REMOTE_CLOSE:
        ended(r, pn_connection_remote_condition(r->driver.connection), "the broker closed the connection");
        break;
    case PN_TRANSPORT_ERROR: ended(r, pn_transport_condition(r->driver.transport), "the connection failed"); break;
    default: break;
    }
    return PR_OK;
}

static int take_events(struct amqp1_source *r, struct intake *in, struct pr_error *reterr)
{
    pn_event_t *event;
    int rc = PR_OK;
    while (rc == PR_OK && (event = pn_connection_driver_next_event(&r->driver)) != NULL)
        rc = take_event(r, in, event, reterr);
    if (rc == PR_OK && r->why[0] != '\0')
        rc = talk_fault(&r->talk, reterr, "%s", r->why);
    return rc;
}

/* ---- Bytes ------------------------------------------------------------------------------------------------- */

/* Sends what proton has to send; errors show up then. */
static int say(struct amqp1_source *r, struct pr_error *reterr)
{
    for (;;) {
        pn_bytes_t bytes = pn_connection_driver_write_buffer(&r->driver);
        if (bytes.size == 0)
            return take_events(r, NULL, reterr);
        buf_add(&r->talk.out, bytes.start, bytes.size);
        pn_connection_driver_write_done(&r->driver, bytes.size);
    }
}

static int give_proton(struct amqp1_source *r, struct intake *in, pr_slice bytes, struct pr_error *reterr)
{
    int rc = PR_OK;
    while (rc == PR_OK && bytes.size > 0) {
        pn_rwbytes_t room = pn_connection_driver_read_buffer(&r->driver);
        size_t taken = min_size(room.size, bytes.size);
        if (taken == 0)
            return talk_fault(&r->talk, reterr, "more bytes than were agreed");
        memcpy(room.start, bytes.data, taken);
        pn_connection_driver_read_done(&r->driver, taken);
        bytes = (pr_slice){ bytes.data + taken, bytes.size - taken };
        rc = take_events(r, in, reterr);
    }
    return rc;
}

/* Handles one complete frame in the buffer; *ret_found: there was one. */
static int take_frame(struct amqp1_source *r, struct intake *in, bool *ret_found, struct pr_error *reterr)
{
    struct pr_error why = { 0 };
    pr_slice heard = talk_heard(&r->talk);
    ssize_t size = amqp1_gate_pass(&r->stage, AMQP1_RECEIVES, heard, &why);
    *ret_found = size > 0;
    if (size < 0)
        return talk_fault(&r->talk, reterr, "%s", why.text);
    if (size == 0)
        return PR_OK;
    int rc = give_proton(r, in, (pr_slice){ heard.data, (size_t)size }, reterr);
    if (rc == PR_OK)
        talk_understood(&r->talk, (size_t)size);
    return rc;
}

/* Handles a frame that is in the buffer or arrives before the deadline; deadline 0: without waiting.  *ret_found: there
 * was one. */
static int next(struct amqp1_source *r, struct intake *in, int wake_fd, int64_t deadline_us, bool *ret_found,
                struct pr_error *reterr)
{
    for (;;) {
        int rc = take_frame(r, in, ret_found, reterr);
        if (rc != PR_OK || *ret_found)
            return rc;
        rc = say(r, reterr);
        if (rc != PR_OK)
            return rc;
        enum talk_end end = deadline_us > 0 ? talk_wait(&r->talk, wake_fd, deadline_us) : talk_look(&r->talk);
        if (end == TALK_TIMEOUT)
            return PR_OK;
        if (end != TALK_BYTES)
            return talk_ended(&r->talk, end, reterr);
    }
}

/* ---- The connection --------------------------------------------------------------------------------------- */

static void forget(struct amqp1_source *r)
{
    if (r->has_driver)
        pn_connection_driver_destroy(&r->driver);
    r->has_driver = r->is_attached = false;
    r->received_count = 0;
    r->stage = AMQP1_SASL_HEADER;
    r->why[0] = '\0';
    forget_body(r);
}

static void login(struct amqp1_source *r)
{
    const struct broker_url *url = &r->broker->url;
    pn_connection_t *connection = r->driver.connection;
    pn_connection_set_container(connection, r->broker->source->instance);
    pn_connection_set_hostname(connection, broker_url_param(url, "vhost", url->host.data).data);
    if (url->user.size > 0) {
        pn_connection_set_user(connection, url->user.data);
        pn_connection_set_password(connection, url->password.data);
    }
    pn_sasl_t *sasl = pn_sasl(r->driver.transport);
    pn_sasl_allowed_mechs(sasl, url->user.size > 0 ? "PLAIN" : "ANONYMOUS EXTERNAL");
    pn_sasl_set_allow_insecure_mechs(sasl, true); /* the url was checked; TLS is below proton */
    pn_transport_set_idle_timeout(r->driver.transport, IDLE_MS);
    pn_transport_set_max_frame(r->driver.transport, AMQP1_FRAME_MAX);
    pn_transport_set_channel_max(r->driver.transport, 0); /* one session */
}

static void attach(struct amqp1_source *r)
{
    pn_session_t *session = pn_session(r->driver.connection);
    pn_session_set_incoming_capacity(session, SESSION_BYTES);
    pn_session_open(session);
    r->link = pn_receiver(session, r->broker->config.name);
    pn_terminus_set_address(pn_link_source(r->link), r->broker->url.path.data);
    pn_terminus_set_address(pn_link_target(r->link), r->broker->config.name);
    pn_link_set_snd_settle_mode(r->link, PN_SND_UNSETTLED);
    pn_link_set_rcv_settle_mode(r->link, PN_RCV_FIRST);
    pn_link_open(r->link);
}

static int greet(struct amqp1_source *r, int wake_fd, struct pr_error *reterr)
{
    int64_t until_us = clock_mono_us(clock_system()) + TALK_GREETING_US;
    bool found = true;
    int rc = PR_OK;
    if (pn_connection_driver_init(&r->driver, NULL, NULL) != 0)
        return talk_fault(&r->talk, reterr, "out of memory");
    r->has_driver = true;
    login(r);
    (void)pn_connection_driver_bind(&r->driver); /* includes the login; before proton reads anything */
    pn_connection_open(r->driver.connection);
    attach(r);
    while (rc == PR_OK && found && !r->is_attached)
        rc = next(r, NULL, wake_fd, until_us, &found, reterr);
    return rc == PR_OK && !r->is_attached ? talk_fault(&r->talk, reterr, "no answer in time") : rc;
}

static int connect_now(struct amqp1_source *r, int wake_fd, struct pr_error *reterr)
{
    forget(r);
    enum talk_end end = talk_connect(&r->talk, wake_fd);
    return end == TALK_BYTES ? greet(r, wake_fd, reterr) : talk_ended(&r->talk, end, reterr);
}

static void amqp1_drop(void *self)
{
    struct amqp1_source *r = self;
    if (r->is_attached && talk_is_open(&r->talk)) { /* unsettled messages go back at once */
        struct pr_error nobody_asks;
        pn_connection_close(r->driver.connection);
        (void)say(r, &nobody_asks);
        talk_leave(&r->talk);
    }
    talk_drop(&r->talk);
    forget(r);
}

/* ---- Messages ------------------------------------------------------------------------------------------------ */

/* Never more than a batch, including messages on their way. */
static void give_credit(struct amqp1_source *r)
{
    int more = (int)r->capacity - (int)r->received_count - pn_link_credit(r->link) - pn_link_queued(r->link);
    if (more > (int)r->capacity / 2 || (more > 0 && pn_link_credit(r->link) == 0))
        pn_link_flow(r->link, more);
}

static int amqp1_receive(void *self, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    struct amqp1_source *r = self;
    int64_t now_us = clock_mono_us(clock_system()), until_us = now_us + BROKER_WAIT_US;
    bool found = true;
    int rc = r->is_attached ? PR_OK : connect_now(r, wake_fd, reterr);
    if (rc != PR_OK)
        return rc;
    pn_transport_tick(r->driver.transport, now_us / PR_MILLISECONDS(1) + 1);
    give_credit(r);
    while (rc == PR_OK && found && !intake_is_full(in) && r->received_count < r->capacity)
        rc = next(r, in, wake_fd, intake_size(in) == 0 ? until_us : 0, &found, reterr);
    return rc;
}

static int amqp1_acknowledge(void *self, struct pr_error *reterr)
{
    struct amqp1_source *r = self;
    if (!r->is_attached)
        return PR_OK;
    for (size_t i = 0; i < r->received_count; i++) {
        pn_delivery_update(r->received[i], PN_ACCEPTED);
        pn_delivery_settle(r->received[i]);
    }
    r->received_count = 0;
    int rc = say(r, reterr);
    if (rc != PR_OK)
        return rc;
    return talk_say(&r->talk) ? PR_OK : error_set(reterr, PR_EIO, "%s", r->talk.why);
}

/* ---- The source --------------------------------------------------------------------------------------------------- */

static int amqp1_open(void *self, struct broker *broker, struct pr_error *reterr)
{
    struct amqp1_source *r = self;
    r->broker = broker;
    r->capacity = broker->intake.capacity;
    arena_init(&r->scratch, 4096);
    buf_init(&r->body, broker_message_max(broker));
    r->reader = pn_message();
    r->received = arena_alloc_array(&broker->arena, r->capacity, sizeof(pn_delivery_t *));
    if (r->received == NULL || r->reader == NULL)
        return error_set(reterr, PR_ENOMEM, "source %s: out of memory", broker->config.name);
    return talk_init(&r->talk, &broker->config, &broker->url, has_tls(&broker->url), broker_message_max(broker),
                     reterr);
}

static void amqp1_close(void *self)
{
    struct amqp1_source *r = self;
    talk_fini(&r->talk);
    if (r->broker == NULL)
        return;
    forget(r);
    if (r->reader != NULL)
        pn_message_free(r->reader);
    buf_fini(&r->body);
    arena_fini(&r->scratch);
}

static const struct broker_ops amqp1_broker = {
    .kind = "amqp1",
    .size = sizeof(struct amqp1_source),
    .parse = amqp1_parse,
    .address = amqp1_address,
    .open = amqp1_open,
    .close = amqp1_close,
    .receive = amqp1_receive,
    .acknowledge = amqp1_acknowledge,
    .drop = amqp1_drop,
};

static int amqp1_source_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    return broker_open(source, &amqp1_broker, ret_self, reterr);
}

const struct source_ops source_amqp1 = {
    .broker = &amqp1_broker, .open = amqp1_source_open, .run = broker_run, .close = broker_close
};
