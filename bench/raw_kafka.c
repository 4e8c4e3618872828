/* kafka: records through librdkafka, set up by the very function that sets up an endpoint's producer. */
#include <string.h>

#include "base/error.h"
#include "carrier.h"
#include "transport/broker/kafka_settings.h"

#define TOPIC "sink"
#define TIMEOUT_S 30
#define WAIT_MS 1000

static const char *kafka_open(struct site *site)
{
    site->helper = helper_start(site->bench, "kafka-mock", "1", site->address, sizeof site->address);
    if (site->helper == NULL)
        return "the mock cluster of the tests is not built";
    snprintf(site->sink, sizeof site->sink, "{url: \"kafka://%.200s/" TOPIC "\", source: " CARRIER_SOURCE "}",
             site->address);
    return NULL;
}

static void kafka_close(struct site *site)
{
    helper_stop(site->helper);
}

static void header_add(rd_kafka_headers_t *headers, const char *name, const char *value)
{
    rd_kafka_header_add(headers, name, -1, value, -1);
}

/* False: its queue is full. */
static bool produce(rd_kafka_t *rk)
{
    struct raw_message m;
    raw_message_make(&m);
    rd_kafka_headers_t *headers = rd_kafka_headers_new(8);
    header_add(headers, "ce_specversion", "1.0");
    header_add(headers, "ce_id", m.id);
    header_add(headers, "ce_type", CARRIER_TYPE);
    header_add(headers, "ce_source", CARRIER_SOURCE);
    header_add(headers, "ce_time", m.time);
    header_add(headers, "content-type", "application/json");
    rd_kafka_resp_err_t error = rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(TOPIC), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                                  RD_KAFKA_V_VALUE((void *)(uintptr_t)raw_payload(), BENCH_PAYLOAD),
                                                  RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_headers_destroy(headers);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR && error != RD_KAFKA_RESP_ERR__QUEUE_FULL)
        die("kafka: %s", rd_kafka_err2str(error));
    return error == RD_KAFKA_RESP_ERR_NO_ERROR;
}

static size_t take_reports(rd_kafka_queue_t *events, int wait_ms)
{
    size_t taken = 0;
    rd_kafka_event_t *event;
    const rd_kafka_message_t *report;
    while ((event = rd_kafka_queue_poll(events, taken == 0 ? wait_ms : 0)) != NULL) {
        while ((report = rd_kafka_event_message_next(event)) != NULL) {
            if (report->err != RD_KAFKA_RESP_ERR_NO_ERROR)
                die("kafka: %s", rd_kafka_err2str(report->err));
            taken++;
        }
        rd_kafka_event_destroy(event);
    }
    return taken;
}

static double kafka_raw_rate(struct site *site, size_t count)
{
    const struct endpoint_config config = { .name = "raw",
                                            .url = "kafka://localhost/" TOPIC,
                                            .timeout_us = PR_SECONDS(TIMEOUT_S) };
    struct arena arena;
    struct broker_url url;
    struct pr_error error;
    rd_kafka_t *rk;
    arena_init(&arena, 1024);
    if (kafka_url(&config, &arena, &url, &error) < 0 || kafka_producer_new(&config, &url, NULL, &rk, &error) < 0)
        die("kafka: %s", error.text);
    if (rd_kafka_brokers_add(rk, site->address) < 1)
        die("kafka: no broker at %s", site->address);
    rd_kafka_queue_t *events = rd_kafka_queue_get_main(rk);
    (void)produce(rk); /* it connects with the first one */
    for (size_t done = 0; done < 1;)
        done += take_reports(events, WAIT_MS);

    size_t sent = 0, done = 0;
    double begin = seconds_now();
    while (done < count) {
        while (sent < count && produce(rk))
            sent++;
        done += take_reports(events, WAIT_MS);
    }
    double rate = (double)count / (seconds_now() - begin);
    rd_kafka_queue_destroy(events);
    rd_kafka_destroy(rk);
    arena_fini(&arena);
    return rate;
}

const struct carrier carrier_kafka = {
    .name = "transport_kafka",
    .raw_name = "raw_kafka",
    .messages = 200000,
    .open = kafka_open,
    .close = kafka_close,
    .raw_rate = kafka_raw_rate,
};
