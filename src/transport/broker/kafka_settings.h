/* kafka_settings.h - from an endpoint's url to a configured librdkafka, and from its errors to our reasons. */
#ifndef TRANSPORT_BROKER_KAFKA_SETTINGS_H
#define TRANSPORT_BROKER_KAFKA_SETTINGS_H

#include <librdkafka/rdkafka.h>

#include "transport/broker/broker_url.h"
#include "transport/broker/kafka_gate.h"

#define KAFKA_CONCURRENCY 2000
#define KAFKA_CONCURRENCY_MAX 100000
/* What a broker says is kept until it is whole.  Answers to messages are small; those about all topics of a large
 * cluster have some megabytes. */
#define KAFKA_ANSWER_MAX ((size_t)16 << 20)

/* PR_OK, PR_ECONFIG, PR_ENOMEM; the path of *ret is the template of the topic. */
PR_MUST_CHECK int kafka_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                            struct pr_error *reterr);

/* Does not connect yet: PR_OK, PR_ECONFIG (a value or a file is wrong), PR_ENOMEM.  Its brokers are behind the gate, which
 * outlives it; NULL: none. */
PR_MUST_CHECK int kafka_producer_new(const struct endpoint_config *config, const struct broker_url *url,
                                     struct kafka_gate *gate, rd_kafka_t **ret, struct pr_error *reterr);

/* The same for who reads a topic, in a group.  Nothing is committed by itself. */
PR_MUST_CHECK int kafka_consumer_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                                     struct pr_error *reterr);
struct kafka_reader {
    const char *group;
    size_t batch; /* messages that are fetched ahead, and their bytes */
    size_t batch_bytes;
    size_t answer_max; /* bytes of an answer, of a batch or of one large record */
    /* Errors that no record has, while it is polled. */
    void (*on_error)(rd_kafka_t *consumer, int error, const char *text, void *gate);
    /* Who gets partitions assigns them, while it is polled; NULL: the library, and a partition without a place of the group begins
     * at its first record.  With such a place, and what is there gone, it goes on with the first record that is there. */
    void (*on_rebalance)(rd_kafka_t *consumer, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t *partitions,
                         void *gate);
    struct kafka_gate *gate;
};
PR_MUST_CHECK int kafka_consumer_new(const struct endpoint_config *config, const struct broker_url *url,
                                     const struct kafka_reader *reader, rd_kafka_t **ret, struct pr_error *reterr);

/* One of ours for each error of theirs. */
int kafka_reason(rd_kafka_resp_err_t error);
/* What a person can do about it; NULL: the error says it all. */
const char *kafka_advice(rd_kafka_resp_err_t error);

#endif
