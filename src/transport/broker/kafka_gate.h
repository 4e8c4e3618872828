/* kafka_gate.h - between librdkafka and its brokers: the library gets one end of a pair of sockets, and a thread of ours carries
 * what goes through them.  What a broker says reaches the library when it is whole and was checked (kafka_answer.h); else the
 * connection is over.
 *
 *    librdkafka <-- pair --> the gate's thread <-- TCP --> broker
 *
 * TLS is the gate's: the library knows nothing of it, and what a broker with a certificate says is checked, too.  The library
 * does not tell whom it connects to, only where; so it gets an address that stands for the name (gate_resolve()), and the name is
 * looked up when it connects. */
#ifndef TRANSPORT_BROKER_KAFKA_GATE_H
#define TRANSPORT_BROKER_KAFKA_GATE_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "base/util.h"
#include "transport/broker/wire.h"

struct kafka_gate;

/* user: see kafka_gate_user().  answer_max: bytes of an answer.  NULL: no memory. */
struct kafka_gate *kafka_gate_new(size_t answer_max, void *user);
/* The gate becomes the opaque of the configuration's callbacks.  tls: connections are secured; config and url are borrowed until
 * free.  Fault PR_ECONFIG: a file is wrong; PR_ENOMEM. */
PR_MUST_CHECK int kafka_gate_install(struct kafka_gate *g, rd_kafka_conf_t *conf, const struct endpoint_config *config,
                                     const struct broker_url *url, bool tls, struct pr_error *reterr);
void *kafka_gate_user(struct kafka_gate *g);

/* All connections end, and no new one is made: before the library is destroyed, so that nobody waits for a broker. */
void kafka_gate_stop(struct kafka_gate *g);
void kafka_gate_free(struct kafka_gate *g); /* behind the library; NULL is fine */

/* So many bytes has an answer that was not let through, since it is larger than answer_max; 0: none was. */
size_t kafka_gate_needs(struct kafka_gate *g);

/* What was wrong with the last answer that was not let through (_BAD_MSG), or why the last connection was not secured (_SSL) or not
 * made (_TRANSPORT), once; RD_KAFKA_RESP_ERR_NO_ERROR: nothing. */
rd_kafka_resp_err_t kafka_gate_why(struct kafka_gate *g, char *ret, size_t size);

#endif
