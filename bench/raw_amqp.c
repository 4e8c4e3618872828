/* amqp: persistent messages to a durable queue, with publisher confirms. */
#include <string.h>
#include <unistd.h>

#include "carrier.h"
#include "transport/rabbitmq.h" /* of the tests */

#define WINDOW 1000
#define QUEUE "sink"

static const char *amqp_open(struct site *site)
{
    if (!rabbitmq_is_installed())
        return "RabbitMQ is not installed";
    snprintf(site->sink, sizeof site->sink, "{url: \"amqp://127.0.0.1:%u/?key=" QUEUE "\", source: " CARRIER_SOURCE "}",
             rabbitmq()->port);
    rabbitmq_queue(QUEUE, amqp_empty_table);
    return NULL;
}

static void amqp_close(struct site *site)
{
    (void)site; /* it goes with the program */
}

static void amqp_clear(struct site *site)
{
    (void)site;
    rabbitmq_queue(QUEUE, amqp_empty_table);
}

static amqp_table_entry_t header(const char *name, const char *value)
{
    return (amqp_table_entry_t){ .key = amqp_cstring_bytes(name),
                                 .value = { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(value) } };
}

static void publish(amqp_connection_state_t c)
{
    struct raw_message m;
    raw_message_make(&m);
    amqp_table_entry_t headers[] = {
        header("cloudEvents_specversion", "1.0"), header("cloudEvents_id", m.id),
        header("cloudEvents_type", CARRIER_TYPE), header("cloudEvents_source", CARRIER_SOURCE),
        header("cloudEvents_time", m.time),
    };
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                  AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_TIMESTAMP_FLAG,
        .content_type = amqp_cstring_bytes("application/json"),
        .delivery_mode = 2,
        .message_id = amqp_cstring_bytes(m.id),
        .timestamp = (uint64_t)(m.created_us / PR_SECONDS(1)),
        .headers = { (int)ARRAY_LENGTH(headers), headers },
    };
    if (amqp_basic_publish(c, 1, amqp_empty_bytes, amqp_cstring_bytes(QUEUE), 1, 0, &properties,
                           amqp_cstring_bytes(raw_payload())) != AMQP_STATUS_OK)
        die("amqp: not sent");
}

/* Waits for a confirm; how far they have come now. */
static uint64_t take_confirm(amqp_connection_state_t c)
{
    amqp_frame_t frame;
    if (amqp_simple_wait_frame(c, &frame) != AMQP_STATUS_OK || frame.frame_type != AMQP_FRAME_METHOD ||
        frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
        die("amqp: not confirmed");
    const amqp_basic_ack_t *ack = frame.payload.method.decoded;
    uint64_t taken = ack->delivery_tag;
    amqp_maybe_release_buffers(c);
    return taken;
}

/* RabbitMQ confirms the messages of one queue in order. */
static double amqp_raw_rate(struct site *site, size_t count)
{
    amqp_connection_state_t c = rabbitmq_ask();
    uint64_t sent = 0, done = 0;
    (void)site;
    if (amqp_confirm_select(c, 1) == NULL)
        die("amqp: no confirms");
    double begin = seconds_now();
    while (done < count) {
        if (sent - done <= WINDOW / 2) /* in pieces: the broker takes them faster than one by one */
            for (; sent < count && sent - done < WINDOW; sent++)
                publish(c);
        uint64_t tag = take_confirm(c);
        done = tag > done ? tag : done;
    }
    double rate = (double)count / (seconds_now() - begin);
    rabbitmq_leave(c);
    return rate;
}

const struct carrier carrier_amqp = {
    .name = "transport_amqp",
    .raw_name = "raw_amqp",
    .messages = 50000,
    .open = amqp_open,
    .close = amqp_close,
    .clear = amqp_clear,
    .raw_rate = amqp_raw_rate,
};
