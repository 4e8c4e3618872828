/* amqp1: proton and a socket; a message is done when the broker has accepted it. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <proton/codec.h>
#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/link.h>
#include <proton/message.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carrier.h"
#include "transport/rabbitmq.h" /* of the tests */

#define WINDOW 1000
#define QUEUE "sink"
#define ADDRESS "/amq/queue/" QUEUE

static const char *amqp1_open(struct site *site)
{
    if (!rabbitmq_is_installed())
        return "RabbitMQ is not installed";
    snprintf(site->sink, sizeof site->sink,
             "{url: \"amqp1://guest:guest@127.0.0.1:%u/" ADDRESS "?plain=true\", source: " CARRIER_SOURCE "}",
             rabbitmq()->port);
    rabbitmq_queue(QUEUE, amqp_empty_table);
    return NULL;
}

static void amqp1_close(struct site *site)
{
    (void)site; /* it goes with the program */
}

static void amqp1_clear(struct site *site)
{
    (void)site;
    rabbitmq_queue(QUEUE, amqp_empty_table);
}

struct raw_client {
    int fd;
    pn_connection_driver_t driver;
    pn_link_t *sender;
    pn_message_t *message;
    pn_rwbytes_t bytes;
    size_t sent, done;
};

static void client_open(struct raw_client *c, unsigned port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int one = 1;
    *c = (struct raw_client){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .message = pn_message() };
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0 || pn_connection_driver_init(&c->driver, NULL, NULL) != 0)
        die("amqp1: cannot connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    pn_connection_set_container(c->driver.connection, "raw");
    pn_connection_set_user(c->driver.connection, "guest");
    pn_connection_set_password(c->driver.connection, "guest");
    pn_sasl_allowed_mechs(pn_sasl(c->driver.transport), "PLAIN");
    pn_sasl_set_allow_insecure_mechs(pn_sasl(c->driver.transport), true);
    pn_connection_open(c->driver.connection);
    pn_session_t *session = pn_session(c->driver.connection);
    pn_session_open(session);
    c->sender = pn_sender(session, "raw");
    pn_terminus_set_address(pn_link_target(c->sender), ADDRESS);
    pn_link_set_snd_settle_mode(c->sender, PN_SND_UNSETTLED);
    pn_link_open(c->sender);
}

static void client_close(struct raw_client *c)
{
    pn_message_free(c->message);
    free(c->bytes.start);
    pn_connection_driver_destroy(&c->driver);
    close(c->fd);
}

static void property_add(pn_data_t *data, const char *name, const char *value)
{
    pn_data_put_string(data, pn_bytes(strlen(name), name));
    pn_data_put_string(data, pn_bytes(strlen(value), value));
}

static void fill(pn_message_t *message)
{
    struct raw_message m;
    raw_message_make(&m);
    pn_message_clear(message);
    pn_message_set_id(message, (pn_msgid_t){ .type = PN_STRING, .u.as_bytes = pn_bytes(strlen(m.id), m.id) });
    pn_message_set_durable(message, true);
    pn_message_set_inferred(message, true);
    pn_message_set_content_type(message, "application/json");
    pn_message_set_creation_time(message, m.created_us / PR_MILLISECONDS(1));
    pn_data_t *properties = pn_message_properties(message);
    pn_data_put_map(properties);
    pn_data_enter(properties);
    property_add(properties, "cloudEvents_specversion", "1.0");
    property_add(properties, "cloudEvents_id", m.id);
    property_add(properties, "cloudEvents_type", CARRIER_TYPE);
    property_add(properties, "cloudEvents_source", CARRIER_SOURCE);
    property_add(properties, "cloudEvents_time", m.time);
    pn_data_exit(properties);
    pn_data_put_binary(pn_message_body(message), pn_bytes(BENCH_PAYLOAD, raw_payload()));
}

static void send_one(struct raw_client *c)
{
    uint64_t tag = c->sent++;
    fill(c->message);
    pn_delivery(c->sender, pn_dtag((const char *)&tag, sizeof tag));
    if (pn_message_send(c->message, c->sender, &c->bytes) < 0)
        die("amqp1: not sent");
}

static void take_events(struct raw_client *c)
{
    pn_event_t *event;
    while ((event = pn_connection_driver_next_event(&c->driver)) != NULL) {
        if (pn_event_type(event) == PN_TRANSPORT_ERROR || pn_event_type(event) == PN_LINK_REMOTE_CLOSE)
            die("amqp1: the broker has closed it");
        if (pn_event_type(event) != PN_DELIVERY)
            continue;
        pn_delivery_t *delivery = pn_event_delivery(event);
        if (pn_delivery_remote_state(delivery) != PN_ACCEPTED)
            die("amqp1: not accepted");
        pn_delivery_settle(delivery);
        c->done++;
    }
}

static void write_all(struct raw_client *c)
{
    pn_bytes_t bytes;
    ssize_t sent = 1;
    while (sent > 0 && (bytes = pn_connection_driver_write_buffer(&c->driver)).size > 0) {
        sent = send(c->fd, bytes.start, bytes.size, MSG_NOSIGNAL);
        if (sent > 0)
            pn_connection_driver_write_done(&c->driver, (size_t)sent);
        else if (errno != EAGAIN)
            die("amqp1: the connection is gone");
    }
}

/* All that is there. */
static void read_all(struct raw_client *c)
{
    pn_rwbytes_t room;
    ssize_t got = 1;
    while (got > 0 && (room = pn_connection_driver_read_buffer(&c->driver)).size > 0) {
        got = recv(c->fd, room.start, room.size, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            die("amqp1: the connection is gone");
        if (got > 0)
            pn_connection_driver_read_done(&c->driver, (size_t)got);
        take_events(c);
    }
}

static void turn(struct raw_client *c, size_t count)
{
    if (c->sent - c->done <= WINDOW / 2) /* in pieces: the broker takes them faster than one by one */
        while (c->sent < count && c->sent - c->done < WINDOW && pn_link_credit(c->sender) > 0)
            send_one(c);
    take_events(c);
    write_all(c);
    struct pollfd fd = { .fd = c->fd,
                         .events = pn_connection_driver_write_buffer(&c->driver).size > 0 ? POLLIN | POLLOUT : POLLIN };
    if (poll(&fd, 1, -1) < 0)
        die("amqp1: cannot wait");
    read_all(c);
}

static double amqp1_raw_rate(struct site *site, size_t count)
{
    struct raw_client c;
    (void)site;
    client_open(&c, rabbitmq()->port);
    while (pn_link_credit(c.sender) <= 0)
        turn(&c, 0);
    double begin = seconds_now();
    while (c.done < count)
        turn(&c, count);
    double rate = (double)count / (seconds_now() - begin);
    client_close(&c);
    return rate;
}

const struct carrier carrier_amqp1 = {
    .name = "transport_amqp1",
    .raw_name = "raw_amqp1",
    .messages = 30000,
    .open = amqp1_open,
    .close = amqp1_close,
    .clear = amqp1_clear,
    .raw_rate = amqp1_raw_rate,
};
