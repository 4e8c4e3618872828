/* kafka with librdkafka's mock brokers in a process of their own: the suite's other side, and tests of Kafka alone.
 * Each test has topics of its own. */
#include <arpa/inet.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/slice.h"
#include "certificate.h"
#include "check.h"
#include "faults.h"
#include "kafka_cluster.h"
#include "server.h"
#include "tcp_proxy.h"
#include "transport/broker/kafka_settings.h"
#include "world.h"

/* ---- The suite's other side -------------------------------------------------------------------------------- */

static struct kafka_cluster mock; /* one for all tests */
static unsigned topic_number;     /* of the test that runs */

static void mock_gone(void)
{
    kafka_cluster_stop(&mock);
}

static void mock_start(void)
{
    if (mock.pid != 0)
        return;
    kafka_cluster_start(&mock, 1);
    atexit(mock_gone);
}

#define tell(...) kafka_cluster_tell(&mock, __VA_ARGS__)

static void kafka_start(struct world *w)
{
    static char url[128];
    mock_start();
    topic_number++;
    tell("topic-error t%u-fail TOPIC_EXCEPTION", topic_number);
    snprintf(url, sizeof(url), "kafka://127.0.0.1:%u/t%u{subject}?max_bytes=4000000", mock.port, topic_number);
    w->config.url = url;
}

static void kafka_stop(struct world *w)
{
    (void)w;
}

static void kafka_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    CHECK(wish == WISH_OK || wish == WISH_FAIL);
    m->subject = wish == WISH_FAIL ? PR_STR("-fail") : PR_STR("");
}

static void take_arrival(struct world *w, const rd_kafka_message_t *record)
{
    rd_kafka_headers_t *headers;
    const void *value;
    size_t size;
    pr_id id;
    CHECK_EQ(rd_kafka_message_headers(record, &headers), 0);
    CHECK_EQ(rd_kafka_header_get_last(headers, "ce_id", &value, &size), 0);
    CHECK_EQ(pr_id_parse((pr_slice){ value, size }, &id), PR_OK);
    CHECK(record->payload != NULL);
    world_arrival_add(w, id, (pr_slice){ record->payload, record->len });
}

/* All partitions of the test's topic, from their beginning to their end. */
static size_t assign_all(rd_kafka_t *consumer, const char *topic)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(consumer, topic, NULL);
    CHECK_EQ(rd_kafka_metadata(consumer, 0, handle, &metadata, 20000), 0);
    size_t count = (size_t)metadata->topics[0].partition_cnt;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
    for (size_t i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(list, topic, (int32_t)i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    CHECK_EQ(rd_kafka_assign(consumer, list), 0);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(handle);
    return count;
}

static void kafka_arrivals(struct world *w)
{
    char servers[64], topic[32], why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    snprintf(servers, sizeof(servers), "127.0.0.1:%u", mock.port);
    snprintf(topic, sizeof(topic), "t%u", topic_number);
    CHECK_EQ(rd_kafka_conf_set(conf, "bootstrap.servers", servers, why, sizeof(why)), RD_KAFKA_CONF_OK);
    CHECK_EQ(rd_kafka_conf_set(conf, "group.id", "look", why, sizeof(why)), RD_KAFKA_CONF_OK);
    CHECK_EQ(rd_kafka_conf_set(conf, "enable.partition.eof", "true", why, sizeof(why)), RD_KAFKA_CONF_OK);
    CHECK_EQ(rd_kafka_conf_set(conf, "fetch.wait.max.ms", "10", why, sizeof(why)), RD_KAFKA_CONF_OK);
    CHECK_EQ(rd_kafka_conf_set(conf, "enable.auto.commit", "false", why, sizeof(why)), RD_KAFKA_CONF_OK);
    rd_kafka_t *consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
    CHECK(consumer != NULL);
    rd_kafka_poll_set_consumer(consumer);
    size_t ends = assign_all(consumer, topic);
    int64_t end_us = world_now() + WORLD_WAIT_US;
    while (ends > 0) {
        CHECK(world_now() < end_us);
        rd_kafka_message_t *record = rd_kafka_consumer_poll(consumer, 1000);
        if (record == NULL)
            continue;
        if (record->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            ends--;
        else if (record->err == 0)
            take_arrival(w, record);
        rd_kafka_message_destroy(record);
    }
    rd_kafka_destroy_flags(consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

const struct harness harness_kafka = {
    .name = "kafka",
    .wishes = 1 << WISH_OK | 1 << WISH_FAIL,
    .exact = true,
    .start = kafka_start,
    .stop = kafka_stop,
    .make = kafka_make,
    .arrivals = kafka_arrivals,
};

/* ---- What is kafka's own ------------------------------------------------------------------------------------- */

static struct world w;
static char own_url[512];

/* A topic of its own at the same cluster, with one partition; through a proxy when port is not 0. */
static void prepare(unsigned port, const char *query)
{
    world_prepare(&w, &harness_kafka, 0);
    tell("topic t%u 1", topic_number);
    snprintf(own_url, sizeof(own_url), "kafka://127.0.0.1:%u/t%u%s", port != 0 ? port : mock.port, topic_number, query);
    w.config.url = own_url;
}

static size_t send_one(const char *stream)
{
    size_t i = world_add(&w, stream, PR_STR("{}"), WISH_OK);
    world_run(&w);
    return i;
}

/* Everybody comes back, sooner or later. */
static void send_until_ok(void)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    while (w.results[send_one("")].outcome != SEND_OK) {
        CHECK(world_now() < end_us);
        CHECK(w.message_count < WORLD_MESSAGES_MAX - 1);
        usleep(50000);
    }
}

/* What was said is so: OK arrived, FAILED and RETURNED did not.  Brokers drop what the library sends again when
 * an answer got lost, by its sequence number; the mock does not. */
static void check_truth(bool answers_lost)
{
    world_look(&w);
    for (size_t i = 0; i < w.message_count; i++) {
        CHECK_EQ(w.result_counts[i], 1);
        if (w.results[i].outcome == SEND_OK)
            CHECK(world_arrived(&w, i) >= 1);
        else if (w.results[i].outcome != SEND_UNKNOWN)
            CHECK_EQ(world_arrived(&w, i), 0);
        CHECK(world_arrived(&w, i) <= 1 || answers_lost);
    }
}

static void check_failed(size_t i, enum send_outcome outcome, int reason, const char *code, const char *text)
{
    CHECK_EQ(w.results[i].outcome, outcome);
    CHECK_EQ(w.results[i].reason, reason);
    CHECK_STR(w.results[i].code, code);
    CHECK(w.results[i].error != NULL);
    if (strstr(w.results[i].error, text) == NULL)
        CHECK_STR(w.results[i].error, text);
}

/* What another client reads: key, headers, value. */
static void read_with_kcat(char *ret, size_t size)
{
    char command[256];
    if (!server_is_installed("kcat"))
        SKIP("kcat is not installed");
    snprintf(command, sizeof(command),
             "kcat -C -X fetch.wait.max.ms=10 -b 127.0.0.1:%u -t t%u -o beginning -e -q -f '%%k|%%h|%%s\\n'", mock.port,
             topic_number);
    FILE *kcat = popen(command, "r");
    CHECK(kcat != NULL);
    size_t got = fread(ret, 1, size - 1, kcat);
    ret[got] = '\0';
    CHECK_EQ(pclose(kcat), 0);
}

static const char *one_with_envelope(const char *envelope)
{
    static char text[4096];
    prepare(0, "");
    w.config.envelope = envelope;
    world_open(&w);
    size_t i = world_add(&w, "o-1", PR_STR("{\"a\":1}"), WISH_OK);
    w.messages[i].headers =
        strcmp(envelope, "raw") == 0 ? PR_STR("{\"k\":\"v\"}") : PR_STR("{\"k\":\"v\",\"ce_id\":\"forged\"}");
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_OK);
    read_with_kcat(text, sizeof(text));
    world_fini(&w);
    CHECK(strstr(text, "forged") == NULL);
    CHECK(strncmp(text, "o-1|", 4) == 0); /* the key is the stream */
    return text;
}

TEST(kafka_refuses_own_headers_that_it_would_lose)
{
    prepare(0, "");
    world_open(&w);
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.messages[i].headers = PR_STR("{\"k\":\"v\",\"content-type\":\"x\"}");
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_VALIDATION_FAILURE);
    CHECK(w.results[i].unsent);
    CHECK(strstr(w.results[i].error, "the message's header \"content-type\" cannot be sent") != NULL);
    world_fini(&w);
}

TEST(kafka_writes_an_event_as_headers)
{
    char id[PR_ID_TEXT_SIZE + 8] = "ce_id=";
    const char *text = one_with_envelope("binary");
    pr_id_format(w.messages[0].id, id + 6);
    CHECK(strstr(text, id) != NULL);
    CHECK(strstr(text, "ce_specversion=1.0,") != NULL);
    CHECK(strstr(text, "ce_type=test.sent,") != NULL);
    CHECK(strstr(text, "ce_partitionkey=o-1,") != NULL);
    CHECK(strstr(text, "content-type=application/json,k=v|{\"a\":1}\n") != NULL);
}

TEST(kafka_writes_structured_and_raw)
{
    const char *text = one_with_envelope("structured");
    CHECK(strstr(text, "|content-type=application/cloudevents+json,k=v|{") != NULL);
    CHECK(strstr(text, "\"data\":{\"a\":1}") != NULL);
    CHECK_STR(one_with_envelope("raw"), "o-1|k=v|{\"a\":1}\n");
}

TEST(kafka_says_what_the_brokers_say) /* B70 */
{
    static const struct {
        const char *code, *advice;
        enum send_outcome outcome;
        int reason;
    } cases[] = {
        { "MSG_SIZE_TOO_LARGE", "max.message.bytes", SEND_FAILED, PR_REASON_MESSAGE_TOO_LARGE },
        { "RECORD_LIST_TOO_LARGE", "", SEND_FAILED, PR_REASON_MESSAGE_TOO_LARGE },
        { "TOPIC_AUTHORIZATION_FAILED", "the right to write", SEND_FAILED, PR_REASON_UNAUTHORIZED },
        { "INVALID_RECORD", "stream", SEND_FAILED, PR_REASON_REJECTED },
        { "POLICY_VIOLATION", "", SEND_FAILED, PR_REASON_REJECTED },
        { "INVALID_TIMESTAMP", "", SEND_FAILED, PR_REASON_REJECTED },
        { "THROTTLING_QUOTA_EXCEEDED", "", SEND_FAILED, PR_REASON_RATE_LIMITED },
    };
    prepare(0, "");
    world_open(&w);
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        tell("error 1 0 %s", cases[n].code);
        check_failed(send_one(""), cases[n].outcome, cases[n].reason, cases[n].code, cases[n].advice);
        send_until_ok(); /* and it goes on */
    }
    check_truth(false);
    world_fini(&w);
}

/* The library's own retries: they cost neither a failure nor a duplicate. */
TEST(kafka_outlives_what_passes_by_itself)
{
    static const char *const codes[] = { "NOT_LEADER_FOR_PARTITION", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT",
                                         "KAFKA_STORAGE_ERROR", "NOT_ENOUGH_REPLICAS_AFTER_APPEND" };
    prepare(0, "");
    world_open(&w);
    CHECK_EQ(w.results[send_one("")].outcome, SEND_OK);
    for (size_t n = 0; n < sizeof(codes) / sizeof(codes[0]); n++) {
        tell("error 1 0 %s", codes[n]);
        CHECK_EQ(w.results[send_one("")].outcome, SEND_OK);
    }
    check_truth(true);
    world_fini(&w);
}

/* A broker whose disk is full says no each time; the library tries again until the endpoint's timeout. */
TEST(kafka_outlives_brokers_without_space)
{
    prepare(0, "");
    w.config.timeout_us = PR_MILLISECONDS(500);
    world_open(&w);
    send_until_ok();
    tell("error 1000 0 KAFKA_STORAGE_ERROR");
    size_t i = send_one("");
    tell("error 0 0 NO_ERROR");
    check_failed(i, SEND_FAILED, PR_REASON_TIMEOUT_EXCEEDED, "_MSG_TIMED_OUT", "");
    send_until_ok();
    world_fini(&w);
}

TEST(kafka_knows_its_limit_before_it_sends)
{
    static char large[20000];
    memset(large, 'a', sizeof(large));
    prepare(0, "?max_bytes=10000");
    world_open(&w);
    world_add(&w, "", PR_BYTES(large, sizeof(large)), WISH_OK);
    world_run(&w);
    check_failed(0, SEND_FAILED, PR_REASON_MESSAGE_TOO_LARGE, "MSG_SIZE_TOO_LARGE", "max_bytes");
    CHECK_EQ(w.results[send_one("")].outcome, SEND_OK);
    check_truth(false);
    world_fini(&w);
}

TEST(kafka_misses_a_topic_and_finds_it_when_it_is_there)
{
    prepare(0, "");
    tell("topic-error t%u UNKNOWN_TOPIC_OR_PART", topic_number);
    world_open(&w);
    check_failed(send_one(""), SEND_FAILED, PR_REASON_DESTINATION_MISSING, "UNKNOWN_TOPIC_OR_PART", "create the topic");
    tell("topic-error t%u NO_ERROR", topic_number);
    send_until_ok();
    check_truth(false);
    world_fini(&w);
}

TEST(kafka_is_absent_at_the_start_and_comes)
{
    prepare(0, "");
    tell("down");
    world_open(&w);
    check_failed(send_one(""), SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE, "_TRANSPORT", "127.0.0.1");
    tell("up");
    send_until_ok();
    check_truth(false);
    world_fini(&w);
}

TEST(kafka_says_who_cannot_be_reached)
{
    static const struct {
        const char *host, *code, *text;
    } cases[] = { { "127.0.0.1:1", "_TRANSPORT", "refused" },
                  { "postrider.invalid,127.0.0.1:1", "", "" },
                  { "postrider.invalid", "_RESOLVE", "check the hosts" } };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        prepare(0, "");
        snprintf(own_url, sizeof(own_url), "kafka://%s/t?plain=true", cases[n].host);
        world_open(&w);
        size_t i = send_one("");
        check_failed(i, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE,
                     cases[n].code[0] != '\0' ? cases[n].code : w.results[i].code, cases[n].text);
        world_fini(&w);
    }
}

TEST(kafka_goes_away_in_flight_and_nothing_is_lost)
{
    prepare(0, "");
    world_open(&w);
    CHECK_EQ(w.results[send_one("")].outcome, SEND_OK);
    for (size_t i = 0; i < 400; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    for (size_t i = 0; i < 100 && w.answered < 50; i++) {
        world_submit(&w);
        world_poll(&w, PR_MILLISECONDS(1));
        if (i == 1)
            tell("rtt 30");
    }
    tell("down");
    world_poll(&w, PR_MILLISECONDS(50));
    tell("rtt 0");
    tell("up");
    world_run(&w);
    for (size_t i = 0; i < w.message_count; i++)
        CHECK_EQ(w.results[i].outcome, SEND_OK); /* it came back in time, and the library sent again */
    check_truth(true);
    world_fini(&w);
}

TEST(kafka_stays_away_and_everything_says_so)
{
    prepare(0, "");
    world_open(&w);
    CHECK_EQ(w.results[send_one("")].outcome, SEND_OK);
    tell("rtt 2000");
    for (size_t i = 0; i < 20; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_submit(&w);
    world_poll(&w, PR_MILLISECONDS(100));
    tell("down");
    world_collect(&w);
    for (size_t i = 1; i < w.message_count; i++) {
        CHECK(w.results[i].outcome == SEND_UNKNOWN || w.results[i].outcome == SEND_FAILED);
        CHECK_EQ(w.results[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    }
    CHECK_EQ(w.results[1].outcome, SEND_UNKNOWN); /* its answer never came */
    int64_t begin_us = world_now();
    CHECK_EQ(w.results[send_one("")].outcome, SEND_FAILED); /* and now at once */
    CHECK(world_now() - begin_us < WORLD_WAIT_US / 2);      /* of its time */
    tell("rtt 0");
    tell("up");
    send_until_ok();
    check_truth(true);
    world_fini(&w);
}

/* A proxy before the only broker, which shall tell the proxy's address as its own. */
static struct tcp_proxy *proxy_start(void)
{
    char from[13] = "127.0.0.1", to[13] = "127.0.0.1";
    mock_start();
    struct tcp_proxy *proxy = tcp_proxy_start(mock.port);
    uint32_t port = htonl(mock.port), own = htonl(tcp_proxy_port(proxy));
    memcpy(from + 9, &port, 4);
    memcpy(to + 9, &own, 4);
    tcp_proxy_rewrite(proxy, from, to, sizeof(from));
    return proxy;
}

#define CUTS 16

/* The connection is cut at bytes of an answer that are `step` apart: the library connects and sends again.  All at
 * once, because it waits a second before it connects so soon again.  False: the last of them was not cut. */
static bool cut_from(size_t first, size_t step)
{
    bool cut = true;
    static struct cut {
        struct world w;
        struct tcp_proxy *proxy;
        unsigned topic;
        char url[64];
    } cuts[CUTS];
    int64_t end_us = world_now() + WORLD_WAIT_US;
    for (size_t k = 0; k < CUTS; k++) {
        struct cut *c = &cuts[k];
        c->proxy = proxy_start();
        world_prepare(&c->w, &harness_kafka, 0);
        c->topic = topic_number;
        tell("topic t%u 1", c->topic);
        snprintf(c->url, sizeof(c->url), "kafka://127.0.0.1:%u/t%u", tcp_proxy_port(c->proxy), c->topic);
        c->w.config.url = c->url;
        world_open(&c->w);
        world_add(&c->w, "", PR_STR("{}"), WISH_OK);
        world_run(&c->w);
        CHECK_EQ(c->w.results[0].outcome, SEND_OK);
        tcp_proxy_cut_after(c->proxy, first + k * step);
        for (size_t i = 0; i < 4; i++)
            world_add(&c->w, "", PR_STR("{}"), WISH_OK);
        CHECK_EQ(world_submit(&c->w), 4);
        world_poll(&c->w, 0);
    }
    for (size_t k = 0; k < CUTS; k++) {
        struct cut *c = &cuts[k];
        while (c->w.answered < c->w.taken) {
            CHECK(world_now() < end_us);
            for (size_t other = k; other < CUTS; other++)
                world_poll(&cuts[other].w, PR_MILLISECONDS(1));
        }
        topic_number = c->topic;
        world_look(&c->w);
        for (size_t i = 0; i < c->w.message_count; i++) {
            CHECK_EQ(c->w.results[i].outcome, SEND_OK);
            CHECK(world_arrived(&c->w, i) >= 1);
        }
        cut = tcp_proxy_was_cut(c->proxy);
        CHECK(!cut || tcp_proxy_connections(c->proxy) >= 2);
        world_fini(&c->w);
        tcp_proxy_stop(c->proxy);
    }
    topic_number = cuts[CUTS - 1].topic;
    return cut;
}

TEST(kafka_is_cut_off_in_the_middle_of_an_answer)
{
    if (!faults_everywhere())
        CHECK(cut_from(0, 3));
    for (size_t first = 0; faults_everywhere() && cut_from(first, 1); first += CUTS)
        CHECK(first < FAULTS_ANSWER_MAX);
}

TEST(kafka_gives_up_at_the_deadline_when_nobody_answers)
{
    struct tcp_proxy *proxy = proxy_start();
    prepare(tcp_proxy_port(proxy), "");
    w.config.timeout_us = PR_SECONDS(2);
    world_open(&w);
    send_until_ok();
    size_t first = w.message_count;
    tcp_proxy_hold(proxy, true);
    for (size_t i = 0; i < 2; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[first].deadline_us = world_now() + WORLD_SOON_US / 2;
    w.deliveries[first + 1].deadline_us = world_now() + WORLD_SOON_US;
    world_run(&w);
    for (size_t i = first; i < first + 2; i++)
        check_failed(i, SEND_UNKNOWN, PR_REASON_TIMEOUT_EXCEEDED, "", "in time");
    tcp_proxy_hold(proxy, false);
    send_until_ok();
    world_fini(&w);
    tcp_proxy_stop(proxy);
}

/* The same by the library's own clock: it is on the wire, and nobody may say that it did not arrive. */
TEST(kafka_does_not_know_what_became_of_what_the_library_gives_up_in_flight)
{
    struct tcp_proxy *proxy = proxy_start();
    prepare(tcp_proxy_port(proxy), "");
    w.config.timeout_us = PR_SECONDS(2);
    world_open(&w);
    send_until_ok();
    tcp_proxy_hold(proxy, true);
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[i].deadline_us = world_now() + WORLD_WAIT_US;
    world_run(&w);
    check_failed(i, SEND_UNKNOWN, PR_REASON_TIMEOUT_EXCEEDED, "_MSG_TIMED_OUT", "timed out");
    tcp_proxy_hold(proxy, false);
    world_fini(&w);
    tcp_proxy_stop(proxy);
}

/* Nobody leads the partition: everything stays in the library's queue. */
TEST(kafka_sends_nothing_late_that_the_library_has)
{
    prepare(0, "");
    tell("leader t%u -1", topic_number);
    world_open(&w);
    size_t lease = world_add(&w, "", PR_STR("{}"), WISH_OK), deadline = world_add(&w, "", PR_STR("{}"), WISH_OK),
           good = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[lease].start_before_us = world_now() + PR_MILLISECONDS(150);
    w.deliveries[deadline].deadline_us = world_now() + WORLD_SOON_US;
    world_submit(&w);
    while (w.answered < 2)
        world_poll(&w, PR_SECONDS(1));
    CHECK_EQ(w.results[lease].outcome, SEND_RETURNED);
    check_failed(deadline, SEND_FAILED, PR_REASON_TIMEOUT_EXCEEDED, "", "in time");
    tell("leader t%u 1", topic_number);
    world_collect(&w);
    CHECK_EQ(w.results[good].outcome, SEND_OK);
    check_truth(false);
    world_fini(&w);
}

/* P4 with the library's queue full and requests in flight: what is RETURNED never arrives, all else is true. */
TEST(kafka_takes_back_what_is_not_in_flight) /* B23 */
{
    static char body[20000];
    size_t returned = 0;
    prepare(0, "");
    world_open(&w);
    CHECK_EQ(w.results[send_one("")].outcome, SEND_OK);
    tell("rtt 1000");
    for (size_t i = 0; i < 100; i++) /* more than five batches */
        world_add(&w, "", PR_BYTES(body, sizeof(body)), WISH_OK);
    world_submit(&w);
    world_poll(&w, PR_MILLISECONDS(100));
    world_cancel(&w);
    tell("rtt 0");
    world_collect(&w);
    for (size_t i = 1; i < w.message_count; i++) {
        CHECK(w.results[i].outcome == SEND_RETURNED || w.results[i].outcome == SEND_OK);
        returned += w.results[i].outcome == SEND_RETURNED;
    }
    CHECK(returned > 0 && returned < 100);
    CHECK_EQ(w.results[send_one("")].outcome, SEND_OK);
    check_truth(false);
    world_fini(&w);
}

TEST(kafka_makes_a_broken_producer_anew)
{
    prepare(0, "");
    tell("error 1 22 CLUSTER_AUTHORIZATION_FAILED");
    world_open(&w);
    check_failed(send_one(""), SEND_FAILED, PR_REASON_UNAUTHORIZED, "CLUSTER_AUTHORIZATION_FAILED", "IdempotentWrite");
    send_until_ok();
    check_truth(false);
    world_fini(&w);
}

/* The only partition goes by another number than 0.  The library counts one partition, gives the message to
 * number 0, of which it knows nothing, and never speaks of it again. */
TEST(kafka_gives_up_what_the_library_forgot) /* B206 */
{
    static const char one_partition[] = { 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0 }; /* not internal, 1 of them, no error, 0 */
    char from[32], to[32];
    struct tcp_proxy *proxy = proxy_start();
    prepare(tcp_proxy_port(proxy), "");
    size_t name = (size_t)snprintf(from, sizeof(from), "t%u", topic_number), size = name + sizeof(one_partition);
    memcpy(from + name, one_partition, sizeof(one_partition));
    memcpy(to, from, size);
    to[size - 1] = 7;
    tcp_proxy_rewrite(proxy, from, to, size);
    w.config.timeout_us = WORLD_SOON_US;
    world_open(&w);
    int64_t begin_us = world_now();
    size_t i = send_one("");
    check_failed(i, SEND_FAILED, PR_REASON_TIMEOUT_EXCEEDED, "", "in time");
    CHECK(w.results[i].unsent);
    CHECK(world_now() - begin_us < WORLD_WAIT_US / 2); /* its own deadline is later */
    check_truth(false);
    world_fini(&w);
    tcp_proxy_stop(proxy);
}

/* The library still has the first one, and who has nothing out does not poll until it lets go. */
TEST(kafka_takes_more_when_all_it_has_were_given_up)
{
    struct tcp_proxy *proxy = proxy_start();
    prepare(tcp_proxy_port(proxy), "");
    w.config.concurrency = 1;
    world_open(&w);
    send_until_ok();
    tcp_proxy_hold(proxy, true);
    size_t first = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[first].deadline_us = world_now() + WORLD_SOON_US;
    world_run(&w);
    CHECK_EQ(w.results[first].outcome, SEND_UNKNOWN);
    size_t second = world_add(&w, "", PR_STR("{}"), WISH_OK);
    CHECK_EQ(world_submit(&w), 1);
    tcp_proxy_hold(proxy, false);
    world_collect(&w);
    CHECK_EQ(w.results[second].outcome, SEND_OK);
    check_truth(true);
    world_fini(&w);
    tcp_proxy_stop(proxy);
}

TEST(kafka_does_not_hammer_a_cluster_that_is_away)
{
    struct tcp_proxy *proxy = proxy_start();
    tcp_proxy_close(proxy, true);
    prepare(tcp_proxy_port(proxy), "");
    world_open(&w);
    int64_t begin_us = world_now();
    while (world_now() < begin_us + PR_MILLISECONDS(1100) && w.message_count < WORLD_MESSAGES_MAX - 1) {
        world_add(&w, "", PR_STR("{}"), WISH_OK);
        w.deliveries[w.message_count - 1].deadline_us = world_now() + PR_MILLISECONDS(300);
        world_run(&w);
        usleep(5000);
    }
    CHECK(tcp_proxy_connections(proxy) >= 1);
    CHECK(tcp_proxy_connections(proxy) <= 1 + (uint64_t)((world_now() - begin_us) / PR_SECONDS(1)));
    world_fini(&w);
    tcp_proxy_stop(proxy);
}

/* As the benchmark's producer does, which shows what the gate costs. */
TEST(kafka_without_a_gate_connects_by_itself)
{
    const struct endpoint_config config = { .name = "x", .url = "kafka://127.0.0.1:1/t", .timeout_us = PR_SECONDS(1) };
    const struct rd_kafka_metadata *metadata = NULL;
    struct arena arena;
    struct broker_url url;
    struct pr_error error;
    rd_kafka_t *rk;
    arena_init(&arena, 1024);
    CHECK_EQ(kafka_url(&config, &arena, &url, &error), PR_OK);
    CHECK_EQ(kafka_producer_new(&config, &url, NULL, &rk, &error), PR_OK);
    CHECK_EQ(rd_kafka_metadata(rk, 0, NULL, &metadata, 500), RD_KAFKA_RESP_ERR__TRANSPORT); /* nobody listens there */
    rd_kafka_destroy(rk);
    arena_fini(&arena);
}

TEST(kafka_says_what_to_do_about_mistakes)
{
    faults_troubles(&(struct troubles){ &harness_kafka, "kafka://nosuch.invalid/t?plain=true", NULL, NULL,
                                        "kafka://localhost:%u/t?tls=true&" });
}

TEST(kafka_refuses_a_wrong_url)
{
    static const struct {
        const char *url, *text;
    } cases[] = {
        { "kafka://127.0.0.1", "no topic" },
        { "kafka://127.0.0.1/", "no topic" },
        { "kafka://127.0.0.1/a{typ}", "placeholders" },
        { "kafka://127.0.0.1/a?topic=b", "known are: tls, ca" },
        { "kafka://127.0.0.1/a?max_bytes=1", "max_bytes" },
        { "kafka://127.0.0.1/a?sasl=gssapi", "scram-sha-256" },
        { "kafka://127.0.0.1/a?compression=zip", "zstd" },
        { "kafka://127.0.0.1/a?tls=yes", "true or false" },
        { "kafka://127.0.0.1:x/a", "port" },
        { "kafka://127.0.0.1,broker.example/a", "plain=true" },
        { "kafka://127.0.0.1/a?tls=true&ca=/nowhere", "ca: /nowhere cannot be read" },
        { "kafka://127.0.0.1/a?tls=true&ca=/dev/null", "the file of ca, /dev/null" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct endpoint_config config = { .name = "k", .url = cases[i].url, .wake_fd = -1 };
        struct transport transport = { 0 };
        struct pr_error error = { 0 };
        CHECK_EQ(transport_open(&config, &transport, &error), PR_ECONFIG);
        if (strstr(error.text, cases[i].text) == NULL)
            CHECK_STR(error.text, cases[i].text);
    }
}
