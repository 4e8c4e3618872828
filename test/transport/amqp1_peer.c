#include "amqp1_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
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
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define LAST_MAX 65536
#define TICK_MS 20
#define CREDIT 100

struct amqp1_peer {
    unsigned port;
    int listener;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock;
    char last[LAST_MAX];
    size_t last_size;
};

static bool goes_to(pn_link_t *link, const char *address)
{
    const char *target = pn_terminus_get_address(pn_link_remote_target(link));
    return target != NULL && strcmp(target, address) == 0;
}

static void open_link(pn_link_t *link)
{
    pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link));
    pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link));
    if (goes_to(link, "small"))
        pn_link_set_max_message_size(link, AMQP1_PEER_SMALL);
    pn_link_open(link);
    if (goes_to(link, "refuse")) {
        pn_condition_set_name(pn_link_condition(link), "amqp:resource-deleted");
        pn_condition_set_description(pn_link_condition(link), "it was here yesterday");
        pn_link_close(link);
    } else if (!goes_to(link, "broke")) {
        pn_link_flow(link, CREDIT);
    }
}

static void answer(pn_link_t *link, pn_delivery_t *delivery)
{
    pn_condition_t *condition = pn_disposition_condition(pn_delivery_local(delivery));
    if (goes_to(link, "full")) {
        pn_condition_set_name(condition, "amqp:resource-limit-exceeded");
        pn_condition_set_description(condition, "the queue is full");
        pn_delivery_update(delivery, PN_REJECTED);
    } else if (goes_to(link, "reject")) {
        pn_condition_set_name(condition, "amqp:precondition-failed");
        pn_condition_set_description(condition, "not like this");
        pn_delivery_update(delivery, PN_REJECTED);
    } else if (goes_to(link, "modify")) {
        pn_disposition_set_undeliverable(pn_delivery_local(delivery), true);
        pn_delivery_update(delivery, PN_MODIFIED);
    } else if (goes_to(link, "release")) {
        pn_delivery_update(delivery, PN_RELEASED);
    } else if (!goes_to(link, "settle")) {
        pn_delivery_update(delivery, PN_ACCEPTED);
    }
    pn_delivery_settle(delivery);
}

static void take_delivery(struct amqp1_peer *p, pn_delivery_t *delivery)
{
    pn_link_t *link = pn_delivery_link(delivery);
    if (!pn_delivery_readable(delivery) || pn_delivery_partial(delivery))
        return;
    pthread_mutex_lock(&p->lock);
    ssize_t got = pn_link_recv(link, p->last, sizeof(p->last));
    p->last_size = got > 0 ? (size_t)got : 0;
    pthread_mutex_unlock(&p->lock);
    pn_link_advance(link);
    answer(link, delivery);
    pn_link_flow(link, 1);
}

static void take_event(struct amqp1_peer *p, pn_event_t *event)
{
    switch (pn_event_type(event)) {
    case PN_CONNECTION_REMOTE_OPEN: pn_connection_open(pn_event_connection(event)); break;
    case PN_SESSION_REMOTE_OPEN: pn_session_open(pn_event_session(event)); break;
    case PN_LINK_REMOTE_OPEN: open_link(pn_event_link(event)); break;
    case PN_LINK_REMOTE_CLOSE: pn_link_close(pn_event_link(event)); break;
    case PN_DELIVERY: take_delivery(p, pn_event_delivery(event)); break;
    case PN_CONNECTION_REMOTE_CLOSE: pn_connection_close(pn_event_connection(event)); break;
    default: break;
    }
}

/* Events, then what they want written; false: the connection is over. */
static bool work(struct amqp1_peer *p, pn_connection_driver_t *d, int fd)
{
    pn_event_t *event;
    do {
        while ((event = pn_connection_driver_next_event(d)) != NULL)
            take_event(p, event);
        pn_bytes_t out = pn_connection_driver_write_buffer(d);
        ssize_t sent = out.size > 0 ? send(fd, out.start, out.size, MSG_NOSIGNAL) : 0;
        if (sent < 0)
            return false;
        pn_connection_driver_write_done(d, (size_t)sent);
    } while (pn_connection_driver_has_event(d) || pn_connection_driver_write_buffer(d).size > 0);
    return !pn_connection_driver_finished(d);
}

static void serve(struct amqp1_peer *p, int fd)
{
    pn_connection_driver_t d;
    if (pn_connection_driver_init(&d, NULL, NULL) != 0)
        return;
    pn_transport_set_server(d.transport);
    pn_sasl_allowed_mechs(pn_sasl(d.transport), "ANONYMOUS");
    while (!p->stop && work(p, &d, fd)) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        if (poll(&ready, 1, TICK_MS) <= 0)
            continue;
        pn_rwbytes_t room = pn_connection_driver_read_buffer(&d);
        ssize_t got = room.size > 0 ? recv(fd, room.start, room.size, 0) : 0;
        if (got <= 0)
            break;
        pn_connection_driver_read_done(&d, (size_t)got);
    }
    pn_connection_driver_destroy(&d);
}

static void *run(void *arg)
{
    struct amqp1_peer *p = arg;
    while (!p->stop) {
        struct pollfd ready = { .fd = p->listener, .events = POLLIN };
        int fd = poll(&ready, 1, TICK_MS) > 0 ? accept(p->listener, NULL, NULL) : -1;
        if (fd >= 0) {
            serve(p, fd);
            close(fd);
        }
    }
    return NULL;
}

struct amqp1_peer *amqp1_peer_start(void)
{
    struct amqp1_peer *p = calloc(1, sizeof(*p));
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);
    CHECK(p != NULL);
    pthread_mutex_init(&p->lock, NULL);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(p->listener >= 0);
    CHECK_EQ(bind(p->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(listen(p->listener, 4), 0);
    CHECK_EQ(getsockname(p->listener, (struct sockaddr *)&address, &size), 0);
    p->port = ntohs(address.sin_port);
    CHECK_EQ(pthread_create(&p->thread, NULL, run, p), 0);
    return p;
}

void amqp1_peer_stop(struct amqp1_peer *p)
{
    p->stop = true;
    CHECK_EQ(pthread_join(p->thread, NULL), 0);
    close(p->listener);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

unsigned amqp1_peer_port(const struct amqp1_peer *p)
{
    return p->port;
}

pn_message_t *amqp1_peer_last(struct amqp1_peer *p)
{
    pn_message_t *message = pn_message();
    CHECK(message != NULL);
    pthread_mutex_lock(&p->lock);
    int rc = pn_message_decode(message, p->last, p->last_size);
    pthread_mutex_unlock(&p->lock);
    CHECK_EQ(rc, 0);
    return message;
}
