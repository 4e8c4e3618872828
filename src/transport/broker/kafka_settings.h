/* kafka_settings.h - from an endpoint's url to a configured librdkafka, and from its errors to Postrider's reasons. */
#ifndef TRANSPORT_BROKER_KAFKA_SETTINGS_H
#define TRANSPORT_BROKER_KAFKA_SETTINGS_H

#include <librdkafka/rdkafka.h>

#include "transport/broker/broker_url.h"
#include "transport/broker/kafka_gate.h"

#define KAFKA_CONCURRENCY 2000
#define KAFKA_CONCURRENCY_MAX 100000
/* Answers are kept until they are complete.  Answers to messages are small; those about all topics of a large cluster
 * have some megabytes. */
#define KAFKA_ANSWER_MAX ((size_t)16 << 20)

/* PR_OK, PR_ECONFIG, PR_ENOMEM; the path of *ret is the template of the topic. */
PR_MUST_CHECK int kafka_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                            struct pr_error *reterr);

/* Does not connect yet: PR_OK, PR_ECONFIG (a value or a file is invalid), PR_ENOMEM.  Its brokers are behind the gate,
 * which outlives it; NULL: no gate, and no TLS. */
PR_MUST_CHECK int kafka_producer_new(const struct endpoint_config *config, const struct broker_url *url,
                                     struct kafka_gate *gate, rd_kafka_t **ret, struct pr_error *reterr);

/* The same for a consumer of a topic, in a group.  Nothing is committed automatically. */
PR_MUST_CHECK int kafka_consumer_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                                     struct pr_error *reterr);
struct kafka_reader {
    const char *group;
    size_t batch; /* messages that are fetched ahead, and their bytes */
    size_t batch_bytes;
    size_t answer_max; /* bytes of an answer, of a batch or of one large record */
    /* Called for errors that belong to no record, during a poll. */
    void (*on_error)(rd_kafka_t *consumer, int error, const char *text, void *gate);
    /* Assigns partitions, during a poll; NULL: the library does, and a partition without an offset of the group begins
     * at its first record.  If that offset no longer exists, reading continues at the first record that does. */
    void (*on_rebalance)(rd_kafka_t *consumer, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t *partitions,
                         void *gate);
    struct kafka_gate *gate;
};
PR_MUST_CHECK int kafka_consumer_new(const struct endpoint_config *config, const struct broker_url *url,
                                     const struct kafka_reader *reader, rd_kafka_t **ret, struct pr_error *reterr);

/* The reason for each error of the library. */
int kafka_reason(rd_kafka_resp_err_t error);
/* Advice for a person; NULL: the error is sufficient. */
const char *kafka_advice(rd_kafka_resp_err_t error);

#endif
