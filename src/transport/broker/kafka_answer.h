/* kafka_answer.h - checks answers of Kafka brokers.  librdkafka trusts what it reads: a host that is NULL, or a string
 * of -3 bytes, ends the process.  So it only sees answers of which every length was checked. */
#ifndef TRANSPORT_BROKER_KAFKA_ANSWER_H
#define TRANSPORT_BROKER_KAFKA_ANSWER_H

#include <postrider.h>

#include "base/util.h"

struct kafka_question {
    int16_t key, version; /* of the API, as in the request */
    int32_t correlation;
};

#define KAFKA_QUESTION_BYTES 12 /* including the length */

/* Parses the first bytes of a request; false: not a request whose answer can be checked. */
bool kafka_question_read(const unsigned char head[KAFKA_QUESTION_BYTES], struct kafka_question *ret);
const char *kafka_question_name(const struct kafka_question *q); /* "Metadata" */

/* Checks what follows the correlation id.  NULL: it is valid, and API versions that cannot be checked were removed from
 * it; otherwise the reason. */
const char *kafka_answer_check(const struct kafka_question *q, unsigned char *bytes, size_t size);

#endif
