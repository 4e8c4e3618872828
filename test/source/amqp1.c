/* amqp1 as a source, with RabbitMQ's AMQP 1.0 plugin: the suite's other side, and tests of AMQP 1.0 alone. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <proton/codec.h>
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
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../transport/rabbitmq.h"
#include "base/slice.h"
#include "check.h"
#include "rabbit.h"

#define URL "amqp1://guest:%s@127.0.0.1:%u//amq/queue/%s"
#define ADDRESS "/amq/queue/" RABBIT_QUEUE

/* ---- Who sends: proton on a socket that blocks, kept for all messages until the server goes --------------- */

static struct sender {
    int fd; /* 0: not connected */
    unsigned port;
    pn_connection_driver_t driver;
    pn_link_t *link;
    uint64_t tag;
    bool is_answered;
} sender;

static void sender_close(void)
{
    if (sender.fd > 0) {
        pn_connection_driver_destroy(&sender.driver);
        close(sender.fd);
    }
    sender.fd = 0;
}

static void sender_take(pn_event_t *event)
{
    pn_event_type_t type = pn_event_type(event);
    if (type == PN_DELIVERY) {
        CHECK_EQ(pn_delivery_remote_state(pn_event_delivery(event)), PN_ACCEPTED);
        pn_delivery_settle(pn_event_delivery(event));
        sender.is_answered = true;
    }
    CHECK(type != PN_TRANSPORT_ERROR && type != PN_LINK_REMOTE_CLOSE && type != PN_CONNECTION_REMOTE_CLOSE);
}

/* Writes what proton has to say; then, if asked to, waits for something that it reads. */
static void sender_work(bool reads)
{
    pn_event_t *event;
    pn_bytes_t out;
    do {
        while ((event = pn_connection_driver_next_event(&sender.driver)) != NULL)
            sender_take(event);
        out = pn_connection_driver_write_buffer(&sender.driver);
        if (out.size > 0) {
            ssize_t sent = send(sender.fd, out.start, out.size, MSG_NOSIGNAL);
            CHECK(sent > 0);
            pn_connection_driver_write_done(&sender.driver, (size_t)sent);
        }
    } while (out.size > 0 || pn_connection_driver_has_event(&sender.driver));
    if (!reads)
        return;
    pn_rwbytes_t room = pn_connection_driver_read_buffer(&sender.driver);
    ssize_t got = recv(sender.fd, room.start, room.size, 0);
    CHECK(got > 0);
    pn_connection_driver_read_done(&sender.driver, (size_t)got);
    while ((event = pn_connection_driver_next_event(&sender.driver)) != NULL)
        sender_take(event);
}

static void sender_open(unsigned port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    sender.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sender.port = port;
    CHECK(sender.fd > 0 && connect(sender.fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    CHECK_EQ(pn_connection_driver_init(&sender.driver, NULL, NULL), 0);
    pn_connection_set_container(sender.driver.connection, "sender");
    pn_connection_set_user(sender.driver.connection, "guest");
    pn_connection_set_password(sender.driver.connection, "guest");
    pn_sasl_allowed_mechs(pn_sasl(sender.driver.transport), "PLAIN");
    pn_sasl_set_allow_insecure_mechs(pn_sasl(sender.driver.transport), true);
    CHECK_EQ(pn_connection_driver_bind(&sender.driver), 0);
    pn_connection_open(sender.driver.connection);
    pn_session_t *session = pn_session(sender.driver.connection);
    pn_session_open(session);
    sender.link = pn_sender(session, "out");
    pn_terminus_set_address(pn_link_target(sender.link), ADDRESS);
    pn_link_open(sender.link);
}

static void sender_send(pn_message_t *m)
{
    pn_rwbytes_t bytes = { 0, NULL };
    ssize_t size = pn_message_encode2(m, &bytes);
    CHECK(size > 0);
    if (sender.fd == 0)
        sender_open(rabbitmq()->port);
    while (pn_link_credit(sender.link) <= 0)
        sender_work(true);
    sender.tag++;
    pn_delivery(sender.link, pn_dtag((const char *)&sender.tag, sizeof(sender.tag)));
    CHECK_EQ(pn_link_send(sender.link, bytes.start, (size_t)size), size);
    pn_link_advance(sender.link);
    sender.is_answered = false;
    while (!sender.is_answered)
        sender_work(true);
    sender_work(false);
    free(bytes.start);
    pn_message_free(m);
}

static pn_bytes_t bytes_of(pr_slice s)
{
    return pn_bytes(s.size, s.data);
}

static pn_message_t *message_of(const struct post *p)
{
    pn_message_t *m = pn_message();
    pn_data_t *properties = pn_message_properties(m);
    pn_data_put_map(properties);
    pn_data_enter(properties);
    for (int i = 0; i < POST_PAIRS_MAX && p->attributes[i].name != NULL; i++) {
        char name[64];
        snprintf(name, sizeof(name), "cloudEvents%c%s", i % 2 == 0 ? '_' : ':', p->attributes[i].name);
        pn_data_put_string(properties, bytes_of(slice_from(name)));
        pn_data_put_string(properties, bytes_of(p->attributes[i].value));
    }
    for (int i = 0; i < POST_PAIRS_MAX && p->headers[i].name != NULL; i++) {
        pn_data_put_string(properties, bytes_of(slice_from(p->headers[i].name)));
        pn_data_put_string(properties, bytes_of(p->headers[i].value));
    }
    pn_data_exit(properties);
    pn_message_set_durable(m, true);
    pn_message_set_inferred(m, true);
    if (p->content_type != NULL)
        pn_message_set_content_type(m, p->content_type);
    if (p->message_id != NULL)
        pn_message_set_id(m, (pn_msgid_t){ .type = PN_STRING, .u.as_bytes = bytes_of(slice_from(p->message_id)) });
    pn_data_put_binary(pn_message_body(m), bytes_of(p->body));
    return m;
}

/* ---- The suite's other side --------------------------------------------------------------------------------- */

static void amqp1_publish(struct world *w, const struct post *p)
{
    (void)w;
    sender_send(message_of(p));
}

static void amqp1_restart(struct world *w)
{
    sender_close();
    rabbit_restart(w);
}

static void amqp1_start(struct world *w)
{
    unsigned port = rabbitmq()->port;
    sender_close();
    rabbitmq_queue(RABBIT_QUEUE, amqp_empty_table);
    snprintf(w->url, sizeof(w->url), URL, "guest", port, RABBIT_QUEUE);
}

static const struct harness harness = {
    .kind = "amqp1",
    .has_headers = true,
    .has_ids = true,
    .start = amqp1_start,
    .publish = amqp1_publish,
    .restart = amqp1_restart,
    .left = rabbit_left,
};
const struct harness *const harness_here = &harness;

/* ---- What is AMQP 1.0's own ------------------------------------------------------------------------------- */

static struct world w;

TEST(amqp1_queue_that_is_not_there_and_a_wrong_password_are_told_and_what_to_do)
{
    world_init(&w);
    snprintf(w.url, sizeof(w.url), URL, "guest", rabbitmq()->port, "nosuch");
    world_run(&w, 1000);
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    if (strstr(world_status(&w).trouble.text, "create the queue, or check the address in its url") == NULL)
        check_fail(__FILE__, __LINE__, "%s", world_status(&w).trouble.text);
    world_stop(&w);
    snprintf(w.url, sizeof(w.url), URL, "wrong", rabbitmq()->port, RABBIT_QUEUE);
    world_run(&w, 1000);
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    if (strstr(world_status(&w).trouble.text, "check user and password in its url") == NULL)
        check_fail(__FILE__, __LINE__, "%s", world_status(&w).trouble.text);
    CHECK(strstr(world_status(&w).trouble.text, "wrong") == NULL);
    world_fini(&w);
}

TEST(amqp1_properties_of_other_kinds_are_text)
{
    struct post p = { .body = PR_STR("{}") };
    pn_message_t *m = message_of(&p);
    pn_data_t *properties = pn_message_properties(m);
    world_init(&w);
    pn_data_clear(properties);
    pn_data_put_map(properties);
    pn_data_enter(properties);
    pn_data_put_string(properties, pn_bytes(6, "number"));
    pn_data_put_long(properties, -7);
    pn_data_put_string(properties, pn_bytes(5, "truth"));
    pn_data_put_bool(properties, true);
    pn_data_put_string(properties, pn_bytes(2, "at"));
    pn_data_put_timestamp(properties, INT64_C(1706702400000));
    pn_data_put_string(properties, pn_bytes(7, "nothing"));
    pn_data_put_null(properties);
    pn_data_put_string(properties, pn_bytes(4, "half"));
    pn_data_put_double(properties, 0.5);
    pn_data_exit(properties);
    pn_message_set_id(m, (pn_msgid_t){ .type = PN_ULONG, .u.as_ulong = 42 });
    pn_message_set_subject(m, "order.paid");
    sender_send(m);
    world_run(&w, 1000);
    const struct pr_message *row = &world_rows(&w, 1)->listed[0].m;
    CHECK_SLICE(row->headers, "{\"number\":\"-7\",\"truth\":\"true\",\"at\":\"2024-01-31T12:00:00.000000Z\","
                              "\"half\":\"0.5\",\"ce-id\":\"42\"}");
    CHECK_SLICE(row->type, "order.paid");
    world_fini(&w);
}

TEST(amqp1_a_text_is_a_payload_and_a_map_is_a_dead_letter) /* S3 */
{
    struct post p = { .body = PR_STR("") };
    pn_message_t *text = message_of(&p), *map = message_of(&p);
    world_init(&w);
    pn_message_set_inferred(text, false);
    pn_data_clear(pn_message_body(text));
    pn_data_put_string(pn_message_body(text), pn_bytes(5, "hello"));
    sender_send(text);
    pn_message_set_inferred(map, false);
    pn_data_clear(pn_message_body(map));
    pn_data_put_map(pn_message_body(map));
    sender_send(map);
    world_run(&w, 1000);
    CHECK_SLICE(world_rows(&w, 1)->listed[0].m.payload, "hello");
    const struct listed *dead = &world_dead(&w, 1)->listed[0];
    CHECK_SLICE(dead->m.error, "its body is not bytes or a text");
    CHECK(dead->m.payload.size > 0);
    world_fini(&w);
}
