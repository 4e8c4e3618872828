/* amqp1_peer.h - the other side of AMQP 1.0, made with proton, for answers that RabbitMQ 3.10 never gives: rejected,
 * released, modified, a refused link, one that takes small messages only, one without credit.
 *
 * The address selects the answer to a message: "accept", "reject", "full", "release", "modify", "settle", "small",
 * "broke" (no credit), "refuse".  One connection at a time. */
#ifndef TEST_TRANSPORT_AMQP1_PEER_H
#define TEST_TRANSPORT_AMQP1_PEER_H

#include <proton/message.h>

#define AMQP1_PEER_SMALL 300 /* bytes, the largest message of "small" */

struct amqp1_peer;

struct amqp1_peer *amqp1_peer_start(void);
void amqp1_peer_stop(struct amqp1_peer *peer);
unsigned amqp1_peer_port(const struct amqp1_peer *peer);
/* The last message that came, decoded; the caller frees it. */
pn_message_t *amqp1_peer_last(struct amqp1_peer *peer);

#endif
