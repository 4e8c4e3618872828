/* kafka: a topic, read in a group; offsets are committed when their messages are stored.
 *
 *   kafka://user:password@host:9092,host2:9092/orders?group=postrider&start=first&tls=true
 *
 * librdkafka has threads and queues of its own, and signals events with an eventfd.  It fetches about a batch ahead.
 * Uncommitted records are read again by the next owner of the partition.
 *
 * A broker answers with whole batches of its producers: a batch larger than the limit of an answer would never be read,
 * and block everything after it.  So the limit is raised while this source runs, and of a record that is too large the
 * first bytes are kept. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "source/broker/broker.h"
#include "transport/broker/kafka_settings.h"
#include "transport/delivery.h"

#define KAFKA_CLUSTER_MS 5000 /* timeout for the cluster's id */
#define KAFKA_COMMIT_MS 5000
#define KAFKA_ASK_MS 2000
#define KAFKA_SILENCES_MAX 2
#define KAFKA_PLACE_MS 5000
#define KAFKA_ANSWER_LARGEST ((size_t)256 << 20) /* a broker could send any size: this much is held about three times */

struct kafka_source {
    struct broker *broker;
    struct arena scratch; /* one message */
    rd_kafka_t *consumer; /* NULL: none */
    struct kafka_gate *gate;
    rd_kafka_queue_t *events;
    int event_fd;                             /* -1: none */
    rd_kafka_topic_partition_list_t *offsets; /* after the received records */
    char *cluster;                            /* allocated by the library; NULL: not asked yet */
    struct pr_error why;                      /* code PR_OK: no error that concerns everything */
    unsigned silences;                        /* consecutive requests without an answer */
    size_t answer_max;                        /* bytes of an answer; 0: the default */
    char last[200];                           /* last error about a single broker */
};

/* ---- The url ------------------------------------------------------------------------------------------ */

static int kafka_parse(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                       struct pr_error *reterr)
{
    if (!slice_eq_cstr(transport_scheme(config->url), "kafka"))
        return error_set(reterr, PR_ECONFIG, "%s: the url is not valid: use kafka://host/TOPIC",
                         endpoint_title(config).text);
    int rc = kafka_consumer_url(config, arena, ret, reterr);
    return rc == PR_OK ? broker_check_start(config, ret, reterr) : rc;
}

static pr_slice kafka_address(const struct broker_url *url)
{
    return url->path;
}

/* ---- The library ---------------------------------------------------------------------------------------- */

static int failed(rd_kafka_resp_err_t error, const char *text, struct pr_error *reterr)
{
    const char *advice = kafka_advice(error);
    return error_set(reterr, PR_EIO, "%s%s%s", text != NULL ? text : rd_kafka_err2str(error),
                     advice != NULL ? ": " : "", advice != NULL ? advice : "");
}

/* The library handles an unreachable broker, unless all are unreachable. */
static void on_error(rd_kafka_t *consumer, int error, const char *text, void *gate)
{
    struct kafka_source *k = kafka_gate_user(gate);
    char both[450];
    (void)consumer;
    if (error == RD_KAFKA_RESP_ERR__TRANSPORT) {
        if (kafka_gate_why(gate, k->last, sizeof(k->last)) == RD_KAFKA_RESP_ERR_NO_ERROR)
            snprintf(k->last, sizeof(k->last), "%s", text);
        return;
    }
    bool all_down = error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && k->last[0] != '\0';
    snprintf(both, sizeof(both), "%.200s%s%s", text, all_down ? ": " : "", all_down ? k->last : "");
    (void)failed((rd_kafka_resp_err_t)error, both, &k->why);
}

/* start=new: partitions without an offset of the group get one, which is stored at once: otherwise a group without an
 * offset until its first record was stored would start over with every connection, and skip records in between. */
static rd_kafka_resp_err_t settle_places(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *partitions)
{
    rd_kafka_topic_partition_list_t *begun = rd_kafka_topic_partition_list_new(partitions->cnt);
    rd_kafka_resp_err_t error = rd_kafka_committed(consumer, partitions, KAFKA_PLACE_MS);
    for (int i = 0; i < partitions->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        rd_kafka_topic_partition_t *p = &partitions->elems[i];
        int64_t first;
        error = p->err;
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR || p->offset >= 0)
            continue;
        error = rd_kafka_query_watermark_offsets(consumer, p->topic, p->partition, &first, &p->offset, KAFKA_PLACE_MS);
        rd_kafka_topic_partition_list_add(begun, p->topic, p->partition)->offset = p->offset;
    }
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR && begun->cnt > 0)
        error = rd_kafka_commit(consumer, begun, false);
    rd_kafka_topic_partition_list_destroy(begun);
    return error;
}

static void on_rebalance(rd_kafka_t *consumer, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t *partitions,
                         void *gate)
{
    struct kafka_source *k = kafka_gate_user(gate);
    bool is_assigned = what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    rd_kafka_resp_err_t error = is_assigned ? settle_places(consumer, partitions) : RD_KAFKA_RESP_ERR_NO_ERROR;
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        (void)failed(error, NULL, &k->why); /* it starts over */
    bool is_settled = is_assigned && error == RD_KAFKA_RESP_ERR_NO_ERROR;
    (void)rd_kafka_assign(consumer, is_settled ? partitions : NULL);
}

static int subscribe(struct kafka_source *k, struct pr_error *reterr)
{
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, k->broker->url.path.data, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t error = rd_kafka_subscribe(k->consumer, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR ? PR_OK : failed(error, NULL, reterr);
}

static size_t answer_usual(const struct kafka_source *k)
{
    return INTAKE_BYTES_MAX + broker_message_max(k->broker);
}

/* PR_OK: the answer was not too large; otherwise the next consumer accepts it, or it can never be read. */
static int raise_limit(struct kafka_source *k, struct pr_error *reterr)
{
    size_t before = max_size(k->answer_max, answer_usual(k)), needed = kafka_gate_needs(k->gate);
    size_t largest = max_size(KAFKA_ANSWER_LARGEST, answer_usual(k));
    if (needed <= before)
        return PR_OK;
    if (needed > largest)
        return error_set(
            reterr, PR_EIO,
            "a batch of records has more than %zu bytes, the most that is possible: its partition stands still; "
            "have its producers send smaller batches, and delete this one",
            largest);
    k->answer_max = min_size(largest, needed + needed / 8);
    log_emit(k->broker->source->log, LOG_WARN, "source_takes_more", LOG_STR("source", k->broker->config.name),
             LOG_INT("bytes", k->answer_max), LOG_STR("why", "a batch of records is larger than an answer should be"));
    return error_set(reterr, PR_EIO, "a batch of records is larger than %zu bytes: reading again with a limit of %zu",
                     before, k->answer_max);
}

static int consumer_make(struct kafka_source *k, struct pr_error *reterr)
{
    static const uint64_t one = 1;
    const struct broker *b = k->broker;
    const size_t answer_max = max_size(k->answer_max, answer_usual(k));
    const struct kafka_reader reader = { .group = broker_url_param(&b->url, "group", "postrider").data,
                                         .on_rebalance = broker_starts_at_first(&b->url) ? NULL : on_rebalance,
                                         .batch = b->intake.capacity,
                                         .batch_bytes = INTAKE_BYTES_MAX,
                                         .on_error = on_error,
                                         .answer_max = answer_max,
                                         .gate = kafka_gate_new(answer_max, k) };
    k->why = (struct pr_error){ .code = PR_OK };
    k->last[0] = '\0';
    k->silences = 0;
    if (reader.gate == NULL)
        return error_set(reterr, PR_ENOMEM, "source %s: no memory or descriptor for its connections", b->config.name);
    int rc = kafka_consumer_new(&b->config, &b->url, &reader, &k->consumer, reterr);
    if (rc != PR_OK) {
        kafka_gate_free(reader.gate);
        return rc;
    }
    k->gate = reader.gate;
    k->events = rd_kafka_queue_get_consumer(k->consumer);
    rd_kafka_queue_io_event_enable(k->events, k->event_fd, &one, sizeof(one));
    k->offsets = rd_kafka_topic_partition_list_new(16);
    return PR_OK;
}

/* Leaves the group, so that other members get the partitions at once. */
static void kafka_drop(void *self)
{
    struct kafka_source *k = self;
    if (k->consumer == NULL)
        return;
    rd_kafka_topic_partition_list_destroy(k->offsets);
    rd_kafka_queue_io_event_enable(k->events, -1, NULL, 0);
    rd_kafka_consumer_close(k->consumer);
    rd_kafka_queue_destroy(k->events);
    if (k->cluster != NULL)
        rd_kafka_mem_free(k->consumer, k->cluster);
    kafka_gate_stop(k->gate);
    rd_kafka_destroy(k->consumer);
    kafka_gate_free(k->gate);
    k->consumer = NULL;
    k->cluster = NULL;
}

/* ---- Messages ---------------------------------------------------------------------------------------------- */

/* Only needed for records without an id of their own. */
static int know_cluster(struct kafka_source *k, struct pr_error *reterr)
{
    if (k->cluster == NULL)
        k->cluster = rd_kafka_clusterid(k->consumer, KAFKA_CLUSTER_MS);
    return k->cluster != NULL ? PR_OK : error_set(reterr, PR_EIO, "the brokers do not report their cluster id");
}

static int take_headers(struct kafka_source *k, rd_kafka_message_t *record, struct received *m)
{
    rd_kafka_headers_t *all = NULL;
    if (rd_kafka_message_headers(record, &all) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return PR_OK;
    struct decode_header *headers = arena_alloc_array(&k->scratch, rd_kafka_header_cnt(all) + 1, sizeof(*headers));
    const char *name;
    const void *value;
    size_t size;
    m->headers = headers;
    for (size_t i = 0; headers != NULL && rd_kafka_header_get_all(all, i, &name, &value, &size) == 0; i++) {
        pr_slice text = { value != NULL ? value : "", value != NULL ? size : 0 };
        if (strcasecmp(name, "content-type") == 0)
            m->content_type = text;
        else
            headers[m->header_count++] = (struct decode_header){ slice_from(name), text };
    }
    return headers != NULL ? PR_OK : PR_ENOMEM;
}

/* Of a record that is far too large the first bytes are kept, and its position. */
static int cut(struct kafka_source *k, const rd_kafka_message_t *record, struct received *m)
{
    size_t most = broker_message_max(k->broker);
    if (m->body.size <= most)
        return PR_OK;
    struct decode_header *headers = arena_alloc_array(&k->scratch, m->header_count + 1, sizeof(*headers));
    pr_slice place = arena_printf(&k->scratch, "%s/%" PRId32 "/%" PRId64, rd_kafka_topic_name(record->rkt),
                                  record->partition, record->offset);
    if (headers == NULL || place.data == NULL)
        return PR_ENOMEM;
    headers[0] = (struct decode_header){ PR_STR("kafka-record"), place };
    if (m->header_count > 0)
        memcpy(headers + 1, m->headers, m->header_count * sizeof(*headers));
    m->headers = headers;
    m->header_count++;
    m->missing = m->body.size - most;
    m->body.size = most;
    return PR_OK;
}

static int take_record(struct kafka_source *k, struct intake *in, rd_kafka_message_t *record, struct pr_error *reterr)
{
    const char *topic = rd_kafka_topic_name(record->rkt);
    pr_slice key = { record->key, record->key_len };
    struct received m = { .prefix = "ce_",
                          .body = { record->payload != NULL ? record->payload : "", record->len },
                          .type = slice_from(topic) };
    arena_reset(&k->scratch);
    int rc = take_headers(k, record, &m) == PR_OK && cut(k, record, &m) == PR_OK
                 ? know_cluster(k, reterr)
                 : error_set(reterr, PR_ENOMEM, "out of memory for a record");
    if (rc != PR_OK)
        return rc;
    if (utf8_valid(key) && key.size <= PR_NAME_MAX)
        m.stream = key;
    m.position = arena_printf(&k->scratch, "%s/%s/%" PRId32 "/%" PRId64 "/%" PRId64, k->cluster, topic,
                              record->partition, record->offset, rd_kafka_message_timestamp(record, NULL));
    rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_find(k->offsets, topic, record->partition);
    if (at == NULL)
        at = rd_kafka_topic_partition_list_add(k->offsets, topic, record->partition);
    at->offset = min64(record->offset, INT64_MAX - 1) + 1;
    return m.position.data != NULL ? intake_add(in, &m, reterr)
                                   : error_set(reterr, PR_ENOMEM, "out of memory for a record");
}

/* The library recovers from most errors by itself; one that it reports is shown to people. */
static bool is_passing(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__PARTITION_EOF || error == RD_KAFKA_RESP_ERR__TRANSPORT ||
           error == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED;
}

/* All available records.  An error of one partition is reported when the records of the others, which came with it, are stored:
 * else they would be read again and again. */
static int take_ready(struct kafka_source *k, struct intake *in, struct pr_error *reterr)
{
    int rc = PR_OK;
    rd_kafka_message_t *record;
    while (rc == PR_OK && !intake_is_full(in) && (record = rd_kafka_consumer_poll(k->consumer, 0)) != NULL) {
        if (record->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            rc = take_record(k, in, record, reterr);
        else if (!is_passing(record->err))
            (void)failed(record->err, rd_kafka_message_errstr(record), &k->why);
        rd_kafka_message_destroy(record);
    }
    if (rc == PR_OK && intake_size(in) == 0)
        rc = raise_limit(k, reterr);
    if (rc == PR_OK && intake_size(in) == 0 && k->why.code != PR_OK)
        rc = error_set(reterr, PR_EIO, "%s", k->why.text);
    return rc;
}

/* Nothing came for a while: is any broker reachable?  The library does not always report that all are gone.  One late
 * answer is tolerated. */
static int ask_brokers(struct kafka_source *k, struct pr_error *reterr)
{
    const struct rd_kafka_metadata *brokers = NULL;
    rd_kafka_resp_err_t error = rd_kafka_metadata(k->consumer, 0, NULL, &brokers, KAFKA_ASK_MS);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_metadata_destroy(brokers);
        k->silences = 0;
        return PR_OK;
    }
    return ++k->silences < KAFKA_SILENCES_MAX ? PR_OK : failed(error, k->last[0] != '\0' ? k->last : NULL, reterr);
}

static int kafka_receive(void *self, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    struct kafka_source *k = self;
    int64_t until_us = clock_mono_us(clock_system()) + BROKER_WAIT_US;
    bool is_new = k->consumer == NULL;
    int rc = is_new ? consumer_make(k, reterr) : PR_OK;
    if (rc == PR_OK && is_new)
        rc = subscribe(k, reterr);
    while (rc == PR_OK) {
        uint64_t count;
        rc = take_ready(k, in, reterr);
        if (rc != PR_OK || intake_size(in) > 0 || clock_mono_us(clock_system()) >= until_us || source_rest(wake_fd, 0))
            break;
        if (wait_until(k->event_fd, POLLIN, wake_fd, clock_system(), until_us))
            (void)!read(k->event_fd, &count, sizeof(count));
    }
    return rc == PR_OK && intake_size(in) == 0 && !source_rest(wake_fd, 0) ? ask_brokers(k, reterr) : rc;
}

static int kafka_acknowledge(void *self, struct pr_error *reterr)
{
    struct kafka_source *k = self;
    if (k->offsets->cnt == 0)
        return PR_OK;
    rd_kafka_queue_t *answers = rd_kafka_queue_new(k->consumer);
    rd_kafka_resp_err_t error = rd_kafka_commit_queue(k->consumer, k->offsets, answers, NULL, NULL);
    rd_kafka_event_t *answer =
        error == RD_KAFKA_RESP_ERR_NO_ERROR ? rd_kafka_queue_poll(answers, KAFKA_COMMIT_MS) : NULL;
    if (answer != NULL)
        error = rd_kafka_event_error(answer);
    else if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        error = RD_KAFKA_RESP_ERR__TIMED_OUT;
    rd_kafka_event_destroy(answer);
    rd_kafka_queue_destroy(answers);
    rd_kafka_topic_partition_list_destroy(k->offsets);
    k->offsets = rd_kafka_topic_partition_list_new(16);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR ? PR_OK : failed(error, NULL, reterr);
}

/* ---- The source -------------------------------------------------------------------------------------------------- */

static int kafka_open(void *self, struct broker *broker, struct pr_error *reterr)
{
    struct kafka_source *k = self;
    k->broker = broker;
    k->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    arena_init(&k->scratch, 4096);
    if (k->event_fd < 0)
        return error_set(reterr, PR_EIO, "source %s: no descriptor: %s", broker->config.name, strerror(errno));
    int rc = consumer_make(k, reterr); /* reports wrong settings now; it connects in the background */
    kafka_drop(k);
    return rc;
}

static void kafka_close(void *self)
{
    struct kafka_source *k = self;
    if (k->broker == NULL)
        return;
    kafka_drop(k);
    if (k->event_fd >= 0)
        close(k->event_fd);
    arena_fini(&k->scratch);
}

static const struct broker_ops kafka_broker = {
    .kind = "kafka",
    .size = sizeof(struct kafka_source),
    .parse = kafka_parse,
    .address = kafka_address,
    .open = kafka_open,
    .close = kafka_close,
    .receive = kafka_receive,
    .acknowledge = kafka_acknowledge,
    .drop = kafka_drop,
};

static int kafka_source_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    return broker_open(source, &kafka_broker, ret_self, reterr);
}

const struct source_ops source_kafka = {
    .broker = &kafka_broker, .open = kafka_source_open, .run = broker_run, .close = broker_close
};
