/* kafka: each message is one record of a topic, its key is the stream.
 *
 *   kafka://user:password@host:9092,host2:9092/orders.{type}?tls=true&ca=/etc/ssl/kafka.pem
 *
 * librdkafka has threads and queues of its own.  It reports by events in one queue, and signals them with an eventfd;
 * everything here happens in the caller's thread.
 *
 *    waiting --> slot (in the library's queue, in flight, in its retry queue) --> result
 *
 *   K1  A slot is free again when the library has reported its message, or is gone itself: a late report
 *       meets no other delivery.  The library has a copy of the message, so that the delivery may end first.
 *   K2  A message reported as not persisted did not arrive; one that is possibly persisted is UNKNOWN.
 *   K3  Messages that must not go out any more are removed from the library's queue, which can only be purged as a
 *       whole: those that are still valid wait again.  Messages in flight are on the wire.
 *   K4  While no broker can be reached the library would keep everything.  It has KAFKA_DOUBT_US to reconnect
 *       and send messages in flight again, without duplicates; then all fail, and new ones at once for a second.
 *   K5  The library loses track of some messages: one for a partition that the brokers count but do
 *       not list outlives its timeout there.  After KAFKA_GRACE_US it is treated as if at its deadline. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"
#include "transport/delivery.h"
#include "transport/envelope.h"
#include "transport/broker/kafka_settings.h"
#include "transport/own_headers.h"
#include "transport/broker/reconnect.h"
#include "transport/result_ring.h"
#include "transport/template.h"

#define KAFKA_DOUBT_US PR_MILLISECONDS(1800) /* an attempt at once, one after a second, and their handshakes */
#define KAFKA_LOOK_US PR_MILLISECONDS(50)    /* in doubt: how often to check for a reachable broker */
#define KAFKA_GRACE_US PR_SECONDS(3)         /* the library checks for late messages every second */
#define KAFKA_TOPIC_MAX 4096                 /* brokers accept 249, and report longer ones themselves */
#define KAFKA_WHY_SIZE 512
#define LAST_PROBLEM "; the last problem was: "

enum kafka_state { KAFKA_UP, KAFKA_DOUBT, KAFKA_DOWN };

/* What happens to messages that are purged from the library's queue. */
enum kafka_purge { PURGE_AGAIN, PURGE_RETURN, PURGE_FAIL };

struct kafka_slot {
    const struct delivery *delivery; /* NULL: free, or it has its result */
    int64_t deadline_us;             /* the delivery's deadline, or an earlier one: K5 */
    bool used;
    bool in_flight; /* it was no longer in the library's queue when that was purged */
    struct kafka_slot *next_free;
};

struct kafka_transport {
    const struct endpoint_config *config;
    const struct clock *clock;
    struct arena arena;   /* the url */
    struct arena scratch; /* one message */
    struct broker_url url;
    enum envelope envelope;
    struct buf topic, json;

    rd_kafka_t *producer; /* NULL: it failed, and was not created again yet */
    struct kafka_gate *gate;
    rd_kafka_queue_t *events;
    int event_fd;
    bool broken; /* it had a fatal error and must be destroyed */
    struct reconnect remake;

    enum kafka_state state;
    bool worked;      /* a broker was reached since the last time that none was */
    int64_t doubt_us; /* in doubt until; down: at least until */
    int64_t look_us;  /* not before, for the next check for brokers */
    int why_reason;   /* of the last error that belongs to no message */
    bool trouble;     /* nothing was answered since */
    char why_code[RESULT_CODE_SIZE], why[KAFKA_WHY_SIZE];

    struct delivery_queue waiting;
    struct kafka_slot *slots, *first_free;
    size_t capacity, slots_used;
    size_t given_up;  /* of the used slots, those that have their result */
    int64_t check_us; /* no slot is late before */
    bool held;        /* the library's queue was purged: no new messages until one in flight is answered */
    struct result_ring done;
};

/* ---- Results ------------------------------------------------------------------------------------------ */

static void set_why(struct kafka_transport *k, rd_kafka_resp_err_t error, const char *text)
{
    /* The library does not always report a failed handshake as _SSL. */
    const char *advice = kafka_advice(strstr(text, "certificate") != NULL ? RD_KAFKA_RESP_ERR__SSL : error);
    k->trouble = true;
    /* About the connection, not a message: the other side does not speak Kafka. */
    k->why_reason = error == RD_KAFKA_RESP_ERR__BAD_MSG ? PR_REASON_TRANSPORT_UNAVAILABLE : kafka_reason(error);
    snprintf(k->why_code, sizeof(k->why_code), "%s", rd_kafka_err2name(error));
    snprintf(k->why, sizeof(k->why), "%s%s%s", text, advice != NULL ? ": " : "", advice != NULL ? advice : "");
}

/* The library only knows that a connection ended, and does not always report it. */
static bool learn_refusal(struct kafka_transport *k)
{
    char text[KAFKA_WHY_SIZE];
    rd_kafka_resp_err_t error =
        k->gate != NULL ? kafka_gate_why(k->gate, text, sizeof(text)) : RD_KAFKA_RESP_ERR_NO_ERROR;
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        set_why(k, error, text);
    return error != RD_KAFKA_RESP_ERR_NO_ERROR;
}

static void add_failed(struct kafka_transport *k, const struct delivery *d, enum send_outcome outcome,
                       rd_kafka_resp_err_t error)
{
    char text[KAFKA_WHY_SIZE + 64];
    const char *advice = kafka_advice(error), *between = ": ";
    if (error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT && (learn_refusal(k) || k->trouble)) {
        advice = k->why;
        between = LAST_PROBLEM;
    }
    snprintf(text, sizeof(text), "%s%s%s", rd_kafka_err2str(error), advice != NULL ? between : "",
             advice != NULL ? advice : "");
    struct delivery_result *result = result_ring_add(&k->done);
    int reason = kafka_reason(error);
    result_failed(result, d->token, outcome, reason, rd_kafka_err2name(error), slice_from(text));
    /* The library's own errors, when it is certain that nothing arrived: it had no broker to send to. */
    result->unsent = outcome == SEND_FAILED && error <= RD_KAFKA_RESP_ERR__END &&
                     (reason == PR_REASON_TRANSPORT_UNAVAILABLE || reason == PR_REASON_TIMEOUT_EXCEEDED ||
                      reason == PR_REASON_UNAUTHORIZED);
}

/* FAILED: it was not given to a broker. */
static void add_why(struct kafka_transport *k, const struct delivery *d, enum send_outcome outcome)
{
    struct delivery_result *result = result_ring_add(&k->done);
    result_failed(result, d->token, outcome, k->why_reason, k->why_code, slice_from(k->why));
    result->unsent = outcome == SEND_FAILED;
}

static void add_late(struct kafka_transport *k, const struct delivery *d, enum send_outcome outcome)
{
    char text[KAFKA_WHY_SIZE + 64];
    (void)learn_refusal(k);
    snprintf(text, sizeof(text), "no answer in time%s%s", k->trouble ? LAST_PROBLEM : "", k->trouble ? k->why : "");
    struct delivery_result *result = result_ring_add(&k->done);
    result_failed(result, d->token, outcome, PR_REASON_TIMEOUT_EXCEEDED, "", slice_from(text));
    result->unsent = outcome == SEND_FAILED;
}

/* ---- Slots ---------------------------------------------------------------------------------------------- */

static struct kafka_slot *slot_take(struct kafka_transport *k, const struct delivery *d)
{
    struct kafka_slot *slot = k->first_free;
    ASSERT(slot != NULL);
    ASSERT(!slot->used);
    k->first_free = slot->next_free;
    k->slots_used++;
    int64_t timeout_us = time_add(k->config->timeout_us, KAFKA_GRACE_US);
    int64_t deadline_us = min64(d->deadline_us, time_add(clock_mono_us(k->clock), timeout_us));
    *slot = (struct kafka_slot){ .delivery = d, .deadline_us = deadline_us, .used = true };
    k->check_us = min64(k->check_us, min64(deadline_us, d->start_before_us));
    return slot;
}

static const struct delivery *slot_free(struct kafka_transport *k, struct kafka_slot *slot)
{
    const struct delivery *d = slot->delivery;
    ASSERT(slot->used);
    k->given_up -= d == NULL;
    *slot = (struct kafka_slot){ .next_free = k->first_free };
    k->first_free = slot;
    k->slots_used--;
    return d;
}

/* It may be on the wire.  K1: the slot stays in use. */
static void slot_give_up(struct kafka_transport *k, struct kafka_slot *slot)
{
    add_late(k, slot->delivery, SEND_UNKNOWN);
    slot->delivery = NULL;
    k->given_up++;
}

/* ---- Reports of the library ------------------------------------------------------------------------------- */

static void take_purged(struct kafka_transport *k, const struct delivery *d, enum kafka_purge purge,
                        int64_t deadline_us)
{
    if (purge == PURGE_RETURN)
        result_returned(result_ring_add(&k->done), d->token);
    else if (purge == PURGE_FAIL)
        add_why(k, d, SEND_FAILED);
    else if (clock_mono_us(k->clock) >= deadline_us)
        add_late(k, d, SEND_FAILED);
    else
        ASSERT(delivery_queue_push(&k->waiting, &d, 1) == 1);
}

/* After a fatal error the library drops everything by itself, possibly before it reports the error. */
static bool has_broken(struct kafka_transport *k)
{
    char text[KAFKA_WHY_SIZE];
    rd_kafka_resp_err_t error =
        k->broken ? RD_KAFKA_RESP_ERR_NO_ERROR : rd_kafka_fatal_error(k->producer, text, sizeof(text));
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        set_why(k, error, text);
        k->broken = true;
    }
    return k->broken;
}

static void take_report(struct kafka_transport *k, const rd_kafka_message_t *report, enum kafka_purge purge)
{
    bool possibly = rd_kafka_message_status(report) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
    bool purged = report->err == RD_KAFKA_RESP_ERR__PURGE_QUEUE || report->err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
    struct kafka_slot *slot = report->_private;
    int64_t deadline_us = slot->deadline_us;
    const struct delivery *d = slot_free(k, slot);
    if (!purged)
        k->held = false;
    if (report->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        k->worked = true;
        k->trouble = false;
        k->state = KAFKA_UP;
    }
    if (d == NULL)
        return; /* K1 */
    if (report->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        result_ok(result_ring_add(&k->done), d->token);
    else if (purged && possibly)
        add_why(k, d, SEND_UNKNOWN);
    else if (purged)
        take_purged(k, d, purge == PURGE_AGAIN && has_broken(k) ? PURGE_FAIL : purge, deadline_us);
    else
        add_failed(k, d, possibly ? SEND_UNKNOWN : SEND_FAILED, report->err); /* K2 */
}

/* Is there a usable connection?  The question itself makes the library connect when it may. */
static bool brokers_are_there(struct kafka_transport *k, int64_t now_us)
{
    const struct rd_kafka_metadata *metadata = NULL;
    k->look_us = now_us + KAFKA_LOOK_US;
    rd_kafka_resp_err_t error = rd_kafka_metadata(k->producer, 0, NULL, &metadata, 0);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_metadata_destroy(metadata);
    return error != RD_KAFKA_RESP_ERR__TRANSPORT;
}

static void take_error(struct kafka_transport *k, rd_kafka_event_t *event)
{
    int64_t now_us = clock_mono_us(k->clock);
    rd_kafka_resp_err_t error = rd_kafka_event_error(event);
    if (has_broken(k))
        return;
    if (error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        if (!learn_refusal(k))
            set_why(k, error, rd_kafka_event_error_string(event));
    } else if (k->state == KAFKA_UP && !brokers_are_there(k, now_us)) {
        k->state = KAFKA_DOUBT;
        /* A broker that was never reached is not waited for. */
        k->doubt_us = k->worked ? now_us + KAFKA_DOUBT_US : now_us;
    }
}

static void take_events(struct kafka_transport *k, enum kafka_purge purge)
{
    rd_kafka_event_t *event;
    uint64_t ignored;
    if (read(k->event_fd, &ignored, sizeof(ignored)) < 0)
        ASSERT(errno == EAGAIN || errno == EINTR);
    while ((event = rd_kafka_queue_poll(k->events, 0)) != NULL) {
        const rd_kafka_message_t *report;
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
            take_error(k, event);
        while ((report = rd_kafka_event_message_next(event)) != NULL)
            take_report(k, report, purge);
        rd_kafka_event_destroy(event);
    }
}

/* K3.  The library answers when its threads have dropped everything that they had not begun to send. */
static void kafka_purge(struct kafka_transport *k, enum kafka_purge purge)
{
    rd_kafka_resp_err_t error = rd_kafka_purge(k->producer, RD_KAFKA_PURGE_F_QUEUE);
    ASSERT(error == RD_KAFKA_RESP_ERR_NO_ERROR);
    take_events(k, purge);
    for (size_t i = 0; i < k->capacity; i++)
        k->slots[i].in_flight = k->slots[i].used;
}

/* ---- The producer ------------------------------------------------------------------------------------------- */

static void producer_free(struct kafka_transport *k)
{
    if (k->events != NULL) {
        rd_kafka_queue_io_event_enable(k->events, -1, NULL, 0);
        rd_kafka_queue_destroy(k->events);
    }
    if (k->producer != NULL) {
        (void)rd_kafka_purge(k->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                              RD_KAFKA_PURGE_F_NON_BLOCKING); /* does not wait */
        kafka_gate_stop(k->gate);
        rd_kafka_destroy(k->producer);
    }
    kafka_gate_free(k->gate);
    k->gate = NULL;
    k->events = NULL;
    k->producer = NULL;
    k->broken = false;
}

static int producer_make(struct kafka_transport *k, struct pr_error *reterr)
{
    static const uint64_t one = 1;
    k->gate = kafka_gate_new(KAFKA_ANSWER_MAX, k);
    if (k->gate == NULL)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: no memory or descriptor for its connections",
                         k->config->name);
    int rc = kafka_producer_new(k->config, &k->url, k->gate, &k->producer, reterr);
    if (rc != PR_OK) {
        producer_free(k);
        return rc;
    }
    k->events = rd_kafka_queue_get_main(k->producer);
    rd_kafka_queue_io_event_enable(k->events, k->event_fd, &one, sizeof(one));
    k->state = KAFKA_UP;
    k->worked = false;
    k->held = false;
    return PR_OK;
}

/* Everything that it still had gets its result. */
static void producer_break(struct kafka_transport *k)
{
    (void)rd_kafka_purge(k->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT); /* the flags are valid */
    take_events(k, PURGE_FAIL);
    producer_free(k);
    for (size_t i = 0; i < k->capacity; i++) {
        const struct delivery *d = k->slots[i].used ? slot_free(k, &k->slots[i]) : NULL;
        if (d != NULL)
            add_why(k, d, SEND_UNKNOWN);
    }
    k->state = KAFKA_DOWN;
}

static void kafka_go_down(struct kafka_transport *k, int64_t now_us)
{
    k->state = KAFKA_DOWN;
    k->worked = false;
    k->doubt_us = now_us + RECONNECT_EVERY_US;
    if (k->why[0] == '\0')
        set_why(k, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, rd_kafka_err2str(RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN));
    kafka_purge(k, PURGE_FAIL);
}

static bool has_work(const struct kafka_transport *k)
{
    return k->waiting.count > k->waiting.cancelled;
}

/* K4 */
static void kafka_keep_producer(struct kafka_transport *k, int64_t now_us)
{
    if (k->broken)
        producer_break(k);
    if (k->producer == NULL && has_work(k) && reconnect_may(&k->remake, now_us)) {
        struct pr_error error;
        reconnect_tried(&k->remake, now_us);
        if (producer_make(k, &error) != PR_OK)
            set_why(k, RD_KAFKA_RESP_ERR__FAIL, error.text);
    }
    if (k->producer == NULL)
        return;
    if (k->state == KAFKA_DOWN && has_work(k) && now_us >= k->doubt_us) {
        k->state = KAFKA_DOUBT;
        k->doubt_us = now_us + KAFKA_DOUBT_US;
        k->look_us = now_us;
    }
    if (k->state == KAFKA_DOUBT && now_us >= k->look_us && brokers_are_there(k, now_us)) {
        k->state = KAFKA_UP;
        k->worked = true;
    }
    if (k->state == KAFKA_DOUBT && now_us >= k->doubt_us)
        kafka_go_down(k, now_us);
}

/* ---- One message ----------------------------------------------------------------------------------------------- */

static bool can_carry(pr_slice name)
{
    (void)name;
    return true;
}

static int header_add(rd_kafka_headers_t *headers, pr_slice name, pr_slice value)
{
    return rd_kafka_header_add(headers, name.data, (ssize_t)name.size, value.data != NULL ? value.data : "",
                               (ssize_t)value.size) == RD_KAFKA_RESP_ERR_NO_ERROR
               ? PR_OK
               : PR_ENOMEM;
}

static int add_attributes(struct kafka_transport *k, const struct cloudevent *event, rd_kafka_headers_t *headers)
{
    int rc = PR_OK;
    for (size_t i = 0; rc == PR_OK && i < event->count; i++) {
        pr_slice name = cloudevent_name(&k->scratch, "ce_", event->attributes[i].name);
        rc = name.data != NULL ? header_add(headers, name, event->attributes[i].value) : PR_ENOMEM;
    }
    return rc;
}

static int add_headers(struct kafka_transport *k, const struct pr_message *m, rd_kafka_headers_t *headers,
                       struct pr_error *reterr)
{
    struct own_header *own;
    size_t own_count;
    struct cloudevent event;
    pr_slice type = k->envelope != ENVELOPE_RAW ? cloudevent_content_type(m) : (pr_slice){ NULL, 0 };
    int rc = own_headers_read(m, &k->scratch, &own, &own_count, reterr);
    cloudevent_init(&event, m, k->config->source);
    if (rc == PR_OK && k->envelope == ENVELOPE_BINARY)
        rc = add_attributes(k, &event, headers);
    if (rc == PR_OK && k->envelope != ENVELOPE_RAW)
        rc = header_add(headers, PR_STR("content-type"),
                        k->envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE) : type);
    const struct own_header_rules rules = {
        .carrier = "to Kafka",
        .prefix = k->envelope != ENVELOPE_RAW ? "ce_" : NULL,
        .event = &event,
        .content_type = type,
        .can_carry = can_carry,
    };
    for (size_t i = 0; rc == PR_OK && i < own_count; i++) {
        bool is_sent = false;
        rc = own_header_judge(&own[i], &rules, &is_sent, reterr);
        if (rc == PR_OK && is_sent)
            rc = header_add(headers, own[i].name, own[i].value);
    }
    return rc;
}

/* The body, and the name of the topic in k->topic. */
static int make_body(struct kafka_transport *k, const struct pr_message *m, pr_slice *ret_body, struct pr_error *reterr)
{
    buf_reset(&k->topic);
    template_fill(&k->topic, k->url.path, m);
    if (buf_failed(&k->topic) != 0)
        return buf_failed(&k->topic) == PR_ETOOBIG ? error_set(reterr, PR_EINVAL, "the name of the topic is too long")
                                                   : PR_ENOMEM;
    *ret_body = m->payload;
    if (k->envelope == ENVELOPE_STRUCTURED) {
        buf_reset(&k->json);
        cloudevent_write_json(&k->json, m, k->config->source);
        *ret_body = buf_slice(&k->json);
        return buf_failed(&k->json) == 0 ? PR_OK : PR_ENOMEM;
    }
    return PR_OK;
}

/* headers go over to the library when it takes the message. */
static rd_kafka_resp_err_t produce(struct kafka_transport *k, const struct delivery *d, pr_slice body,
                                   rd_kafka_headers_t *headers)
{
    const struct pr_message *m = d->message;
    struct kafka_slot *slot = slot_take(k, d);
    /* An empty value rather than none: a record without a value means "deleted" in a compacted topic. */
    const rd_kafka_vu_t record[] = {
        { .vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = buf_slice(&k->topic).data },
        { .vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY },
        { .vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = { (void *)(uintptr_t)(body.size > 0 ? body.data : ""), body.size } },
        { .vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers },
        { .vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = slot },
        { .vtype = RD_KAFKA_VTYPE_KEY, .u.mem = { (void *)(uintptr_t)m->stream.data, m->stream.size } },
    };
    size_t count = ARRAY_LENGTH(record) - (m->stream.size == 0); /* no stream: any partition */
    rd_kafka_error_t *error = rd_kafka_produceva(k->producer, record, count);
    rd_kafka_resp_err_t code = error != NULL ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_error_destroy(error);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        (void)slot_free(k, slot); /* there will be no report */
    return code;
}

/* Starts the first waiting delivery; false: there is no room for it now. */
static bool kafka_begin(struct kafka_transport *k, const struct delivery *d)
{
    struct pr_error fault = { 0 };
    pr_slice body = { NULL, 0 };
    arena_reset(&k->scratch);
    rd_kafka_headers_t *headers = rd_kafka_headers_new(16);
    int rc = make_body(k, d->message, &body, &fault);
    if (rc == PR_OK)
        rc = add_headers(k, d->message, headers, &fault);
    rd_kafka_resp_err_t error = rc == PR_OK ? produce(k, d, body, headers) : RD_KAFKA_RESP_ERR__FAIL;
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_headers_destroy(headers);
    if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL && k->slots_used > 0)
        return false;
    delivery_queue_drop(&k->waiting);
    if (rc == PR_EINVAL)
        result_unsent(result_ring_add(&k->done), d->token, PR_REASON_VALIDATION_FAILURE, "", slice_from(fault.text));
    else if (rc != PR_OK || error == RD_KAFKA_RESP_ERR__FATAL)
        result_returned(result_ring_add(&k->done), d->token); /* no memory, no producer: later, then */
    else if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        add_failed(k, d, SEND_FAILED, error);
    if (error == RD_KAFKA_RESP_ERR__FATAL)
        (void)has_broken(k);
    return true;
}

static void kafka_start_waiting(struct kafka_transport *k, int64_t now_us)
{
    const struct delivery *d;
    bool may_start;
    if (k->slots_used == 0)
        k->held = false;
    while ((d = delivery_queue_peek(&k->waiting, now_us, &may_start)) != NULL) {
        if (may_start && k->state != KAFKA_DOWN) {
            if (k->state == KAFKA_DOUBT || k->held || k->broken || k->first_free == NULL || !kafka_begin(k, d))
                return;
            continue;
        }
        delivery_queue_drop(&k->waiting);
        if (!may_start)
            result_returned(result_ring_add(&k->done), d->token);
        else
            add_why(k, d, SEND_FAILED);
    }
}

/* ---- Deadlines ----------------------------------------------------------------------------------------------------- */

static int64_t slot_late_us(const struct kafka_slot *slot)
{
    if (slot->delivery == NULL)
        return PR_NEVER;
    return slot->in_flight ? slot->deadline_us : min64(slot->deadline_us, slot->delivery->start_before_us);
}

static void kafka_expire(struct kafka_transport *k, int64_t now_us)
{
    bool queued = false;
    if (now_us < k->check_us)
        return;
    for (size_t i = 0; i < k->capacity; i++)
        queued |= !k->slots[i].in_flight && now_us >= slot_late_us(&k->slots[i]);
    if (queued) {
        kafka_purge(k, PURGE_AGAIN);
        k->held = true;
    }
    k->check_us = PR_NEVER;
    for (size_t i = 0; i < k->capacity; i++) {
        struct kafka_slot *slot = &k->slots[i];
        if (slot->delivery != NULL && now_us >= slot->deadline_us)
            slot_give_up(k, slot);
        k->check_us = min64(k->check_us, slot_late_us(slot));
    }
}

static int64_t kafka_next_us(const struct kafka_transport *k)
{
    int64_t next_us = k->check_us;
    if (k->waiting.count > 0) {
        const struct delivery *d = k->waiting.ring[k->waiting.first];
        next_us = min64(next_us, min64(d->deadline_us, d->start_before_us));
    }
    if (k->state == KAFKA_DOUBT)
        next_us = min64(next_us, min64(k->look_us, k->doubt_us));
    return next_us;
}

/* ---- The transport ---------------------------------------------------------------------------------------------------- */

static int kafka_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    struct arena arena;
    struct broker_url url;
    arena_init(&arena, 1024);
    int rc = kafka_url(config, &arena, &url, reterr);
    arena_fini(&arena);
    return rc;
}

static int kafka_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct kafka_transport *k = self;
    k->config = config;
    k->clock = config_clock(config);
    k->capacity = config->concurrency != 0 ? config->concurrency : KAFKA_CONCURRENCY;
    k->check_us = PR_NEVER;
    k->why_reason = PR_REASON_TRANSPORT_UNAVAILABLE;
    k->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    arena_init(&k->arena, 1024);
    arena_init(&k->scratch, 4096);
    buf_init(&k->topic, KAFKA_TOPIC_MAX);
    buf_init(&k->json, ENVELOPE_JSON_MAX);
    k->slots = calloc(k->capacity, sizeof(*k->slots));
    if (k->slots == NULL || k->event_fd < 0)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory or descriptor for %zu messages", config->name,
                         k->capacity);
    for (size_t i = k->capacity; i-- > 0; k->first_free = &k->slots[i])
        k->slots[i].next_free = k->first_free;
    int rc = kafka_url(config, &k->arena, &k->url, reterr);
    (void)envelope_parse(config->envelope, &k->envelope); /* kafka_url() has */
    if (rc == PR_OK)
        rc = delivery_queue_init(&k->waiting, k->capacity, reterr);
    if (rc == PR_OK)
        rc = result_ring_init(&k->done, k->capacity, reterr);
    return rc == PR_OK ? producer_make(k, reterr) : rc;
}

static void kafka_close(void *self)
{
    struct kafka_transport *k = self;
    producer_free(k);
    if (k->event_fd >= 0)
        close(k->event_fd);
    delivery_queue_fini(&k->waiting);
    result_ring_fini(&k->done);
    buf_fini(&k->topic);
    buf_fini(&k->json);
    arena_fini(&k->arena);
    arena_fini(&k->scratch);
    free(k->slots);
}

static size_t kafka_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct kafka_transport *k = self;
    /* Without those that were given up: a transport with nothing out is not polled, and would never learn of them. */
    size_t used = k->waiting.count + k->slots_used - k->given_up + k->done.count;
    return delivery_queue_push(&k->waiting, list, min_size(count, k->capacity - min_size(used, k->capacity)));
}

/* Does everything that is possible without waiting. */
static void kafka_work(struct kafka_transport *k)
{
    int64_t now_us = clock_mono_us(k->clock);
    if (k->producer != NULL)
        take_events(k, PURGE_AGAIN);
    kafka_keep_producer(k, now_us);
    kafka_expire(k, now_us);
    kafka_start_waiting(k, now_us);
}

static size_t kafka_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct kafka_transport *k = self;
    bool woken = false;
    for (;;) {
        kafka_work(k);
        size_t count = result_ring_take(&k->done, ret, max);
        if (count > 0 || woken || clock_mono_us(k->clock) >= deadline_us)
            return count;
        int64_t until_us = min64(deadline_us, kafka_next_us(k));
        woken = !wait_until(k->event_fd, POLLIN, k->config->wake_fd, k->clock, until_us) &&
                clock_mono_us(k->clock) < until_us;
    }
}

/* K3 */
static void kafka_cancel(void *self)
{
    struct kafka_transport *k = self;
    delivery_queue_cancel(&k->waiting);
    if (k->producer != NULL && k->slots_used > 0)
        kafka_purge(k, PURGE_RETURN);
}

const struct transport_ops transport_kafka = {
    .scheme = "kafka",
    .size = sizeof(struct kafka_transport),
    .promises = TRANSPORT_REMOTE,
    .concurrency = KAFKA_CONCURRENCY,
    .check = kafka_check,
    .open = kafka_open,
    .close = kafka_close,
    .submit = kafka_submit,
    .poll = kafka_poll,
    .cancel = kafka_cancel,
};
