/* kafka_answer.h - is what a broker of Kafka answers an answer to what it was asked?  librdkafka believes what it reads: a host
 * that is NULL, or a string of -3 bytes, ends the process.  So it only sees answers of which every length was checked. */
#ifndef TRANSPORT_BROKER_KAFKA_ANSWER_H
#define TRANSPORT_BROKER_KAFKA_ANSWER_H

#include <postrider.h>

#include "base/util.h"

struct kafka_question {
    int16_t key, version; /* of the API, as in the request */
    int32_t correlation;
};

#define KAFKA_QUESTION_BYTES 12 /* with the length before them */

/* The first bytes of a request; false: it is none that we could check the answer of. */
bool kafka_question_read(const unsigned char head[KAFKA_QUESTION_BYTES], struct kafka_question *ret);
const char *kafka_question_name(const struct kafka_question *q); /* "Metadata" */

/* What follows the correlation id.  NULL: it is good, and what it says about versions that we do not know was taken out of it;
 * else what is wrong. */
const char *kafka_answer_check(const struct kafka_question *q, unsigned char *bytes, size_t size);

#endif
