/* rabbitmq.h - one RabbitMQ for all tests of a program: a node of its own, and an epmd of its own. */
#ifndef TEST_TRANSPORT_RABBITMQ_H
#define TEST_TRANSPORT_RABBITMQ_H

#include <amqp.h>

#include "server.h"

#define RABBITMQ_MESSAGE_MAX (2 << 20) /* bytes; the broker's limit */

bool rabbitmq_is_installed(void);

/* Started at the first call, gone with the program.  Skips the test when RabbitMQ is not installed. */
struct server *rabbitmq(void);
unsigned rabbitmq_tls_port(void); /* wants a certificate: client.pem and client.key in its folder */

/* The alarm that its disk monitor raises when there is no space left, and takes back. */
void rabbitmq_alarm(bool on);

/* The broker seen by another client: blocking, on channel 1. */
amqp_connection_state_t rabbitmq_ask(void);
void rabbitmq_leave(amqp_connection_state_t connection);
/* A durable queue, empty; arguments may be amqp_empty_table. */
void rabbitmq_queue(const char *name, amqp_table_t arguments);

/* Each message of a queue in turn; they all are back in it afterwards. */
typedef void rabbitmq_see(void *user, const amqp_message_t *message);
void rabbitmq_look(const char *queue, rabbitmq_see *see, void *user);

#endif
