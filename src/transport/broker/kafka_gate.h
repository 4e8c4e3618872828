/* kafka_gate.h - a gate between librdkafka and its brokers: the library gets one end of a pair of sockets, and a thread
 * forwards the bytes.  An answer of a broker reaches the library when it is complete and was checked (kafka_answer.h);
 * otherwise the connection ends.
 *
 *    librdkafka <-- pair --> the gate's thread <-- TCP --> broker
 *
 * The gate also does TLS: the library knows nothing of it, and answers of a broker with a certificate are checked, too.
 * The library only passes the address that it connects to, not the name; so it gets an address that stands for the name
 * (gate_resolve()), and the name is resolved when it connects. */
#ifndef TRANSPORT_BROKER_KAFKA_GATE_H
#define TRANSPORT_BROKER_KAFKA_GATE_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "base/util.h"
#include "transport/broker/wire.h"

struct kafka_gate;

/* user: see kafka_gate_user().  answer_max: bytes of an answer.  NULL: no memory. */
struct kafka_gate *kafka_gate_new(size_t answer_max, void *user);
/* The gate becomes the opaque of the configuration's callbacks.  tls: connections are secured; config and url are
 * borrowed until free.  Fault PR_ECONFIG: a file is invalid; PR_ENOMEM. */
PR_MUST_CHECK int kafka_gate_install(struct kafka_gate *g, rd_kafka_conf_t *conf, const struct endpoint_config *config,
                                     const struct broker_url *url, bool tls, struct pr_error *reterr);
void *kafka_gate_user(struct kafka_gate *g);

/* Ends all connections, and allows no new ones: call it before the library is destroyed, so that nothing waits for a
 * broker. */
void kafka_gate_stop(struct kafka_gate *g);
void kafka_gate_free(struct kafka_gate *g); /* after the library; NULL is allowed */

/* The size of an answer that was blocked since it is larger than answer_max; 0: none was. */
size_t kafka_gate_needs(struct kafka_gate *g);

/* Why the last answer was blocked (_BAD_MSG), or why the last connection was not secured (_SSL) or not made
 * (_TRANSPORT), once; RD_KAFKA_RESP_ERR_NO_ERROR: nothing. */
rd_kafka_resp_err_t kafka_gate_why(struct kafka_gate *g, char *ret, size_t size);

#endif
