#include "transport/broker/kafka_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/envelope.h"
#include "transport/template.h"

#define KAFKA_PORT 9092
/* The library does not ask the brokers for their limit; this is its own default, just below theirs. */
#define KAFKA_MESSAGE_BYTES 1000000
#define KAFKA_MESSAGE_BYTES_MAX 1000000000

/* ---- The url -------------------------------------------------------------------------------------- */

static const char *const params[] = {
    "tls", "ca", "cert", "certkey", "sasl", "plain", "compression", "max_bytes", NULL
};

static int check_words(const struct endpoint_config *config, const struct broker_url *url, const char *name,
                       const char *const *words, const char *list, struct pr_error *reterr)
{
    pr_slice value = broker_url_param(url, name, words[0]);
    for (size_t i = 0; words[i] != NULL; i++)
        if (slice_eq_cstr(value, words[i]))
            return PR_OK;
    return error_set(reterr, PR_ECONFIG, "%s: %s in the url must be one of %s", endpoint_title(config).text, name,
                     list);
}

/* Authentication, and encryption of the connection. */
static int check_security(const struct endpoint_config *config, const struct broker_url *url, struct pr_error *reterr)
{
    static const char *const mechanisms[] = { "plain", "scram-sha-256", "scram-sha-512", NULL };
    bool tls;
    int rc = broker_url_bool(config, url, "tls", false, &tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, url, tls, reterr);
    return rc == PR_OK ? check_words(config, url, "sasl", mechanisms, "plain, scram-sha-256, scram-sha-512", reterr)
                       : rc;
}

static int check_values(const struct endpoint_config *config, const struct broker_url *url, struct pr_error *reterr)
{
    static const char *const codecs[] = { "none", "gzip", "snappy", "lz4", "zstd", NULL };
    int64_t number;
    int rc = check_security(config, url, reterr);
    if (rc == PR_OK)
        rc = check_words(config, url, "compression", codecs, "none, gzip, snappy, lz4, zstd", reterr);
    if (rc == PR_OK)
        rc = broker_url_number(config, url, "max_bytes", KAFKA_MESSAGE_BYTES, 1000, KAFKA_MESSAGE_BYTES_MAX, &number,
                               reterr);
    return rc;
}

int kafka_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
              struct pr_error *reterr)
{
    int rc = broker_url_parse_hosts(config, KAFKA_PORT, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = check_values(config, ret, reterr);
    if (rc == PR_OK && ret->path.size == 0)
        rc = error_set(reterr, PR_ECONFIG,
                       "endpoint %s: the url has no topic: use kafka://host/TOPIC, for example orders or orders.{type}",
                       config->name);
    if (rc == PR_OK)
        rc = template_check(config->name, "the topic", ret->path, reterr);
    if (rc == PR_OK)
        rc = envelope_check(config, reterr);
    if (rc == PR_OK && config->concurrency > KAFKA_CONCURRENCY_MAX)
        rc = error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency can be at most %d", config->name,
                       KAFKA_CONCURRENCY_MAX);
    return rc;
}

/* ---- The library's settings ------------------------------------------------------------------------- */

/* Settings that never depend on the url. */
static const struct kafka_setting {
    const char *name, *value;
} fixed[] = {
    { "client.id", "postrider" },
    { "acks", "all" },
    { "enable.idempotence", "true" },    /* its own retries make no duplicates and keep the order */
    { "max.in.flight", "5" },            /* the most that idempotence allows */
    { "partitioner", "murmur2_random" }, /* a key goes to the same partition as with Java's producer */
    /* Messages come a thousand at a time.  Without a short pause the first few leave as requests of their own, all five
     * that may be in flight, and broker and library spend more time on requests than on messages. */
    { "linger.ms", "1" },
    /* Brokers refuse a batch as a whole.  One this small is never refused for its size, and a larger message travels
     * alone: "too large" always means the message itself. */
    { "batch.size", "131072" },
    { "socket.nagle.disable", "true" },
    { "socket.connection.setup.timeout.ms", "5000" },
    /* At most one attempt a second for each broker (it takes 75 % at least), the first at once. */
    { "reconnect.backoff.ms", "1350" },
    { "reconnect.backoff.max.ms", "1350" },
    { "retry.backoff.ms", "100" },
    { "topic.metadata.refresh.interval.ms", "10000" },    /* a refused topic is asked for again */
    { "topic.metadata.refresh.fast.interval.ms", "100" }, /* a new leader is found soon */
    /* How long a topic may be unknown (it is just being created) before that is an error. */
    { "topic.metadata.propagation.max.ms", "2000" },
};

struct settings {
    rd_kafka_conf_t *conf;
    char why[256]; /* the first that was refused; empty: none */
};

static void set(struct settings *s, const char *name, const char *value)
{
    if (s->why[0] == '\0' && rd_kafka_conf_set(s->conf, name, value, s->why, sizeof(s->why)) == RD_KAFKA_CONF_OK)
        s->why[0] = '\0';
}

static void set_number(struct settings *s, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    set(s, name, text);
}

static void set_value(struct settings *s, const char *name, pr_slice value)
{
    if (value.size > 0)
        set(s, name, value.data);
}

static bool has_tls(const struct broker_url *url)
{
    return slice_eq_cstr(broker_url_param(url, "tls", "false"), "true");
}

/* TLS is the gate's. */
static void set_security(struct settings *s, const struct broker_url *url)
{
    bool sasl = url->user.size > 0;
    set(s, "security.protocol", sasl ? "sasl_plaintext" : "plaintext");
    if (sasl) {
        char mechanism[32];
        pr_slice word = broker_url_param(url, "sasl", "plain");
        size_t size = min_size(word.size, sizeof(mechanism) - 1);
        for (size_t i = 0; i < size; i++)
            mechanism[i] = (char)(word.data[i] >= 'a' && word.data[i] <= 'z' ? word.data[i] - 32 : word.data[i]);
        mechanism[size] = '\0';
        set(s, "sasl.mechanisms", mechanism);
        set(s, "sasl.username", url->user.data);
        set(s, "sasl.password", url->password.size > 0 ? url->password.data : "");
    }
}

static void set_hosts(struct settings *s, const struct broker_url *url)
{
    struct buf hosts;
    buf_init(&hosts, BROKER_URL_MAX * 2);
    for (size_t i = 0; i < url->host_count; i++) {
        bool v6 = memchr(url->hosts[i].name.data, ':', url->hosts[i].name.size) != NULL;
        buf_addf(&hosts, v6 ? "%s[%s]:%u" : "%s%s:%u", i > 0 ? "," : "", url->hosts[i].name.data, url->hosts[i].port);
    }
    if (buf_failed(&hosts) == 0)
        set(s, "bootstrap.servers", buf_slice(&hosts).data);
    else
        snprintf(s->why, sizeof(s->why), "out of memory");
    buf_fini(&hosts);
}

/* The library writes to stderr without a callback; relevant errors come as events. */
static void log_nothing(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk;
    (void)level;
    (void)facility;
    (void)text;
}

static void set_all(struct settings *s, const struct endpoint_config *config, const struct broker_url *url)
{
    size_t capacity = config->concurrency != 0 ? config->concurrency : KAFKA_CONCURRENCY;
    int64_t max_bytes = KAFKA_MESSAGE_BYTES, timeout_ms = max64(config->timeout_us / 1000, 100);
    struct pr_error ignored;

    for (size_t i = 0; i < ARRAY_LENGTH(fixed); i++)
        set(s, fixed[i].name, fixed[i].value);
    set_hosts(s, url);
    set_security(s, url);
    set_value(s, "compression.codec", broker_url_param(url, "compression", ""));
    int rc =
        broker_url_number(config, url, "max_bytes", max_bytes, 1000, KAFKA_MESSAGE_BYTES_MAX, &max_bytes, &ignored);
    ASSERT(rc == PR_OK); /* kafka_url() has checked it */
    set_number(s, "message.max.bytes", max_bytes);
    set_number(s, "receive.message.max.bytes", (int64_t)KAFKA_ANSWER_MAX);
    set_number(s, "queue.buffering.max.messages", (int64_t)capacity);
    /* Each delivery has its own deadline; these settings only free what exceeds it. */
    set_number(s, "message.timeout.ms", timeout_ms);
    set_number(s, "request.timeout.ms", timeout_ms);
    set_number(s, "socket.timeout.ms", min64(timeout_ms, 60000));
}

int kafka_producer_new(const struct endpoint_config *config, const struct broker_url *url, struct kafka_gate *gate,
                       rd_kafka_t **ret, struct pr_error *reterr)
{
    struct settings s = { .conf = rd_kafka_conf_new() };
    set_all(&s, config, url);
    int rc = gate != NULL ? kafka_gate_install(gate, s.conf, config, url, has_tls(url), reterr) : PR_OK;
    if (rc != PR_OK) {
        rd_kafka_conf_destroy(s.conf);
        return rc;
    }
    rd_kafka_conf_set_log_cb(s.conf, log_nothing);
    rd_kafka_conf_set_events(s.conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    rd_kafka_t *rk = s.why[0] == '\0' ? rd_kafka_new(RD_KAFKA_PRODUCER, s.conf, s.why, sizeof(s.why)) : NULL;
    if (rk == NULL) { /* only then does the conf still belong to the caller */
        rd_kafka_conf_destroy(s.conf);
        return error_set(reterr, PR_ECONFIG, "endpoint %s: %s", config->name, s.why);
    }
    *ret = rk;
    return PR_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------- */

static const char *const consumer_params[] = {
    "group", "start", "tls", "ca", "cert", "certkey", "sasl", "plain", NULL
};

int kafka_consumer_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                       struct pr_error *reterr)
{
    int rc = broker_url_parse_hosts(config, KAFKA_PORT, consumer_params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = check_security(config, ret, reterr);
    /* Which the library would take for a pattern. */
    if (rc == PR_OK && (ret->path.size == 0 || ret->path.data[0] == '^'))
        rc = error_set(reterr, PR_ECONFIG, "%s: the url has no topic: use kafka://host/TOPIC",
                       endpoint_title(config).text);
    if (rc == PR_OK && broker_url_param(ret, "group", "postrider").size == 0)
        rc = error_set(reterr, PR_ECONFIG, "%s: group is empty; omit it for the group postrider",
                       endpoint_title(config).text);
    return rc;
}

static const struct kafka_setting fixed_of_consumers[] = {
    { "client.id", "postrider" },
    { "enable.auto.commit", "false" }, /* an offset is committed after its message */
    { "enable.auto.offset.store", "false" },
    { "auto.offset.reset", "earliest" },
    { "fetch.wait.max.ms", "100" },
    { "session.timeout.ms", "10000" }, /* a consumer that dies without leaving keeps its partitions for this time */
    { "heartbeat.interval.ms", "3000" },
    { "socket.nagle.disable", "true" },
    { "socket.connection.setup.timeout.ms", "5000" },
    { "socket.timeout.ms", "10000" },
    { "reconnect.backoff.ms", "1350" },
    { "reconnect.backoff.max.ms", "1350" },
    { "topic.metadata.refresh.interval.ms", "10000" },
    { "allow.auto.create.topics", "false" },
};

int kafka_consumer_new(const struct endpoint_config *config, const struct broker_url *url,
                       const struct kafka_reader *reader, rd_kafka_t **ret, struct pr_error *reterr)
{
    struct settings s = { .conf = rd_kafka_conf_new() };
    for (size_t i = 0; i < ARRAY_LENGTH(fixed_of_consumers); i++)
        set(&s, fixed_of_consumers[i].name, fixed_of_consumers[i].value);
    set_hosts(&s, url);
    set_security(&s, url);
    set(&s, "group.id", reader->group);
    set_number(&s, "queued.min.messages", (int64_t)reader->batch);
    set_number(&s, "queued.max.messages.kbytes", (int64_t)reader->batch_bytes / 1024);
    set_number(&s, "fetch.max.bytes", (int64_t)reader->batch_bytes);
    set_number(&s, "fetch.message.max.bytes", (int64_t)reader->batch_bytes);
    set_number(&s, "receive.message.max.bytes", min64((int64_t)reader->answer_max, INT32_MAX));
    rd_kafka_conf_set_log_cb(s.conf, log_nothing);
    rd_kafka_conf_set_error_cb(s.conf, reader->on_error);
    if (reader->on_rebalance != NULL)
        rd_kafka_conf_set_rebalance_cb(s.conf, reader->on_rebalance);
    int rc = kafka_gate_install(reader->gate, s.conf, config, url, has_tls(url), reterr);
    if (rc != PR_OK) {
        rd_kafka_conf_destroy(s.conf);
        return rc;
    }
    rd_kafka_t *rk = s.why[0] == '\0' ? rd_kafka_new(RD_KAFKA_CONSUMER, s.conf, s.why, sizeof(s.why)) : NULL;
    if (rk == NULL) { /* only then does the conf still belong to the caller */
        rd_kafka_conf_destroy(s.conf);
        return error_set(reterr, PR_ECONFIG, "%s: %s", endpoint_title(config).text, s.why);
    }
    rd_kafka_poll_set_consumer(rk);
    *ret = rk;
    return PR_OK;
}

/* ---- Errors ---------------------------------------------------------------------------------------------- */

#define E(name) RD_KAFKA_RESP_ERR_##name
static const struct {
    rd_kafka_resp_err_t error;
    int reason;
    const char *advice;
} errors[] = {
    { E(MSG_SIZE_TOO_LARGE), PR_REASON_MESSAGE_TOO_LARGE,
      "the brokers' limit is max.message.bytes of the topic, ours max_bytes in its url" },
    { E(RECORD_LIST_TOO_LARGE), PR_REASON_MESSAGE_TOO_LARGE, NULL },
    { E(UNKNOWN_TOPIC_OR_PART), PR_REASON_DESTINATION_MISSING, "create the topic, or check it in its url" },
    { E(_UNKNOWN_TOPIC), PR_REASON_DESTINATION_MISSING, "create the topic, or check it in its url" },
    { E(_UNKNOWN_PARTITION), PR_REASON_DESTINATION_MISSING, NULL },
    { E(TOPIC_EXCEPTION), PR_REASON_DESTINATION_MISSING,
      "a topic name can have up to 249 letters, digits, dots, underscores and dashes" },
    { E(TOPIC_AUTHORIZATION_FAILED), PR_REASON_UNAUTHORIZED,
      "give the user the right to write to the topic, or to read it" },
    { E(GROUP_AUTHORIZATION_FAILED), PR_REASON_UNAUTHORIZED, "allow the user to read in the group" },
    { E(CLUSTER_AUTHORIZATION_FAILED), PR_REASON_UNAUTHORIZED, "allow the user IdempotentWrite on the cluster" },
    { E(SASL_AUTHENTICATION_FAILED), PR_REASON_UNAUTHORIZED, "check user, password and sasl in its url" },
    { E(_AUTHENTICATION), PR_REASON_UNAUTHORIZED, "check user, password and sasl in its url" },
    { E(UNSUPPORTED_SASL_MECHANISM), PR_REASON_UNAUTHORIZED, "change sasl in its url" },
    { E(ILLEGAL_SASL_STATE), PR_REASON_UNAUTHORIZED, NULL },
    { E(SECURITY_DISABLED), PR_REASON_UNAUTHORIZED, NULL },
    { E(_SSL), PR_REASON_TRANSPORT_UNAVAILABLE, "check ca in its url, and when the broker's certificate expires" },
    { E(_RESOLVE), PR_REASON_TRANSPORT_UNAVAILABLE, "check the hosts in its url" },
    { E(_TIMED_OUT), PR_REASON_TIMEOUT_EXCEEDED, NULL },
    { E(_MSG_TIMED_OUT), PR_REASON_TIMEOUT_EXCEEDED, NULL },
    { E(_TIMED_OUT_QUEUE), PR_REASON_TIMEOUT_EXCEEDED, NULL },
    { E(REQUEST_TIMED_OUT), PR_REASON_TIMEOUT_EXCEEDED, NULL },
    { E(THROTTLING_QUOTA_EXCEEDED), PR_REASON_RATE_LIMITED, NULL },
    { E(INVALID_MSG), PR_REASON_REJECTED, NULL },
    { E(INVALID_MSG_SIZE), PR_REASON_REJECTED, NULL },
    { E(INVALID_RECORD), PR_REASON_REJECTED, "a compacted topic needs a key: give the message a stream" },
    { E(INVALID_TIMESTAMP), PR_REASON_REJECTED, NULL },
    { E(INVALID_REQUIRED_ACKS), PR_REASON_REJECTED, NULL },
    { E(UNSUPPORTED_FOR_MESSAGE_FORMAT), PR_REASON_REJECTED, NULL },
    { E(UNSUPPORTED_COMPRESSION_TYPE), PR_REASON_REJECTED, "change compression in its url" },
    { E(POLICY_VIOLATION), PR_REASON_REJECTED, NULL },
    { E(_BAD_MSG), PR_REASON_SERIALIZATION_ERROR, NULL },
    { E(_BAD_COMPRESSION), PR_REASON_SERIALIZATION_ERROR, NULL },
    { E(_INVALID_ARG), PR_REASON_SERIALIZATION_ERROR, NULL },
    { E(UNSUPPORTED_VERSION), PR_REASON_DEPENDENCY_FAILURE, "the brokers must be Kafka 0.11 or newer" },
    { E(_UNSUPPORTED_FEATURE), PR_REASON_DEPENDENCY_FAILURE, "the brokers must be Kafka 0.11 or newer" },
};
#undef E

/* The others are troubles of the cluster: no leader, not enough replicas, storage, sequence numbers, ... */
int kafka_reason(rd_kafka_resp_err_t error)
{
    for (size_t i = 0; i < ARRAY_LENGTH(errors); i++)
        if (errors[i].error == error)
            return errors[i].reason;
    return PR_REASON_TRANSPORT_UNAVAILABLE;
}

const char *kafka_advice(rd_kafka_resp_err_t error)
{
    for (size_t i = 0; i < ARRAY_LENGTH(errors); i++)
        if (errors[i].error == error)
            return errors[i].advice;
    return NULL;
}
