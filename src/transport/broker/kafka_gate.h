/* kafka_gate.h - between librdkafka and its brokers: the library gets one end of a pair of sockets, and a thread of ours carries
 * what goes through them.  What a broker says reaches the library when it is whole and was checked (kafka_answer.h); else the
 * connection is over.
 *
 *    librdkafka <-- pair --> the gate's thread <-- TCP --> broker
 *
 * With TLS the library has its connection for itself: what comes through it comes from who has the certificate. */
#ifndef TRANSPORT_BROKER_KAFKA_GATE_H
#define TRANSPORT_BROKER_KAFKA_GATE_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "base/util.h"

struct kafka_gate;

/* user: see kafka_gate_user().  answer_max: bytes of an answer.  NULL: no memory. */
struct kafka_gate *kafka_gate_new(size_t answer_max, void *user);
/* The gate becomes the opaque of the configuration's callbacks. */
void kafka_gate_install(struct kafka_gate *g, rd_kafka_conf_t *conf, bool is_open);
void *kafka_gate_user(struct kafka_gate *g);

/* All connections end, and no new one is made: before the library is destroyed, so that nobody waits for a broker. */
void kafka_gate_stop(struct kafka_gate *g);
void kafka_gate_free(struct kafka_gate *g); /* behind the library; NULL is fine */

/* What was wrong with the last answer that was not let through, once; false: nothing. */
bool kafka_gate_why(struct kafka_gate *g, char *ret, size_t size);

#endif
