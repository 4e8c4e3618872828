/* amqp1 with RabbitMQ's AMQP 1.0 plugin: the suite's other side, and tests of AMQP 1.0 alone. */
#include <stdio.h>
#include <string.h>

#include "amqp1_peer.h"
#include "base/slice.h"
#include "check.h"
#include "faults.h"
#include "rabbitmq.h"

#define LOGIN "amqp1://guest:guest@127.0.0.1:%u/"
#define ADDRESS "/amq/queue/sink1"

static void amqp1_start(struct world *w)
{
    static char url[128];
    snprintf(url, sizeof(url), LOGIN ADDRESS, rabbitmq()->port);
    rabbitmq_queue("sink1", amqp_empty_table);
    w->config.url = url;
}

static void amqp1_stop(struct world *w)
{
    (void)w;
}

static void amqp1_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    (void)m;
    CHECK_EQ(wish, WISH_OK); /* RabbitMQ 3.10 accepts what it cannot route, and drops the connection for a nack */
}

static void see_arrival(void *user, const amqp_message_t *message)
{
    pr_id id;
    CHECK_EQ(pr_id_parse((pr_slice){ message->properties.message_id.bytes, message->properties.message_id.len }, &id),
             PR_OK);
    world_arrival_add(user, id, (pr_slice){ message->body.bytes, message->body.len });
}

static void amqp1_arrivals(struct world *w)
{
    rabbitmq_look("sink1", see_arrival, w);
}

const struct harness harness_amqp1 = {
    .name = "amqp1",
    .wishes = 1 << WISH_OK,
    .exact = true,
    .start = amqp1_start,
    .stop = amqp1_stop,
    .make = amqp1_make,
    .arrivals = amqp1_arrivals,
};

/* The peer: whatever the address says. */
static void nothing(struct world *w)
{
    (void)w;
}

static const struct harness harness_peer = {
    .name = "peer", .wishes = 1 << WISH_OK, .start = nothing, .stop = nothing, .make = amqp1_make
};

/* ---- What is AMQP 1.0's own -------------------------------------------------------------------------------- */

static struct world w;
static char own_url[512];

static void prepare(const char *format, unsigned port)
{
    world_prepare(&w, &harness_amqp1, 0);
    snprintf(own_url, sizeof(own_url), format, port != 0 ? port : rabbitmq()->port);
    w.config.url = own_url;
}

static struct faults faults(void)
{
    return (struct faults){ &harness_amqp1, LOGIN ADDRESS };
}

TEST(amqp1_says_what_is_missing_or_forbidden) /* B70 */
{
    prepare(LOGIN "/exchange/nosuch/key", 0);
    faults_refused(&w, own_url, PR_REASON_DESTINATION_MISSING, "amqp:not-found", "no exchange 'nosuch'");
    prepare("amqp1://guest:wrong@127.0.0.1:%u/" ADDRESS, 0);
    faults_refused(&w, own_url, PR_REASON_UNAUTHORIZED, "amqp:unauthorized-access", "check user and password");
    prepare(LOGIN ADDRESS "?vhost=vhost:nosuch", 0);
    faults_refused(&w, own_url, PR_REASON_UNAUTHORIZED, "amqp:unauthorized-access", "insufficient permissions");
}

TEST(amqp1_verifies_a_certificate)
{
    const char *folder = rabbitmq()->folder;
    prepare(LOGIN, 0);
    snprintf(own_url, sizeof(own_url),
             LOGIN ADDRESS "?tls=true&ca=%s/good.pem&cert=%s/client.pem&certkey=%s/client.key", rabbitmq_tls_port(),
             folder, folder, folder);
    world_open(&w);
    static char large[1 << 20];
    for (size_t i = 0; i < 10; i++)
        world_add(&w, "", i == 3 ? PR_BYTES(large, sizeof(large)) : PR_STR("{}"), WISH_OK);
    world_run(&w);
    faults_check(&w);
    CHECK_EQ(w.arrival_count, 10);
    world_fini(&w);

    prepare("amqp1://guest:guest@127.0.0.1:%u/" ADDRESS "?tls=true",
            rabbitmq_tls_port()); /* an authority nobody knows */
    faults_refused(&w, own_url, PR_REASON_TRANSPORT_UNAVAILABLE, "tls", "its certificate was refused");
}

TEST(amqp1_shows_its_own_certificate)
{
    char url[128];
    const char *folder = rabbitmq()->folder;
    snprintf(url, sizeof(url), LOGIN ADDRESS "?tls=true&", rabbitmq_tls_port());
    faults_mutual(&harness_amqp1, url, folder, "it may require a client certificate");
}

TEST(amqp1_is_cut_off_in_the_middle_of_an_answer)
{
    struct faults f = faults();
    faults_cut(&f, 1);
}

TEST(amqp1_gives_up_at_the_deadline_when_nobody_answers)
{
    struct faults f = faults();
    faults_hold(&f);
}

TEST(amqp1_says_when_a_message_is_too_large_for_the_broker) /* B70 */
{
    static char large[RABBITMQ_MESSAGE_MAX + 1];
    world_init(&w, &harness_amqp1, 0);
    size_t i = world_add(&w, "", PR_BYTES(large, sizeof(large)), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_MESSAGE_TOO_LARGE);
    CHECK_STR(w.results[i].code, "amqp:precondition-failed");
    world_fini(&w);
}

TEST(amqp1_does_not_wait_for_a_broker_that_says_nothing)
{
    struct faults f = faults();
    faults_silent(&f);
}

TEST(amqp1_does_not_hammer_a_broker_that_is_away)
{
    struct faults f = faults();
    faults_hammer(&f);
}

/* ---- Against the peer ------------------------------------------------------------------------------------------ */

static struct amqp1_peer *peer;

static void prepare_peer(const char *address)
{
    if (peer == NULL)
        peer = amqp1_peer_start();
    world_prepare(&w, &harness_peer, 0);
    snprintf(own_url, sizeof(own_url), "amqp1://127.0.0.1:%u/%s", amqp1_peer_port(peer), address);
    w.config.url = own_url;
}

TEST(amqp1_says_what_a_disposition_says) /* B70 */
{
    static const struct {
        const char *address, *code, *text;
        int reason;
    } cases[] = {
        { "reject", "amqp:precondition-failed", "not like this", PR_REASON_REJECTED },
        { "full", "amqp:resource-limit-exceeded", "the queue is full", PR_REASON_RATE_LIMITED },
        { "release", "released", "released it", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "modify", "modified", "could not deliver", PR_REASON_REJECTED },
        { "refuse", "amqp:resource-deleted", "it was here yesterday", PR_REASON_DESTINATION_MISSING },
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        prepare_peer(cases[n].address);
        faults_refused(&w, own_url, cases[n].reason, cases[n].code, cases[n].text);
    }
    prepare_peer("settle");
    world_open(&w);
    faults_send(&w, SEND_UNKNOWN);
    world_fini(&w);
}

TEST(amqp1_one_bad_address_costs_the_others_nothing) /* P6 */
{
    static const char *const streams[] = { "accept", "reject", "refuse", "accept", "release", "accept" };
    static const enum send_outcome outcomes[] = { SEND_OK, SEND_FAILED, SEND_FAILED, SEND_OK, SEND_FAILED, SEND_OK };
    prepare_peer("{stream}");
    world_open(&w);
    for (size_t i = 0; i < 60; i++)
        world_add(&w, streams[i % 6], PR_STR("{}"), WISH_OK);
    world_run(&w);
    for (size_t i = 0; i < 60; i++)
        CHECK_EQ(w.results[i].outcome, outcomes[i % 6]);
    world_fini(&w);
}

TEST(amqp1_has_room_for_many_addresses)
{
    static char names[200][16];
    prepare_peer("{stream}");
    world_open(&w);
    for (size_t i = 0; i < 200; i++) {
        snprintf(names[i], sizeof(names[i]), "queue-%zu", i);
        world_add(&w, names[i], PR_STR("{}"), WISH_OK);
    }
    world_run(&w);
    for (size_t i = 0; i < 200; i++)
        CHECK_EQ(w.results[i].outcome, SEND_OK);
    world_fini(&w);
}

TEST(amqp1_refuses_what_is_over_the_links_limit)
{
    static char large[AMQP1_PEER_SMALL];
    prepare_peer("small");
    w.config.envelope = "raw";
    world_open(&w);
    world_add(&w, "", PR_BYTES(large, sizeof(large)), WISH_OK);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_FAILED);
    CHECK_EQ(w.results[1].outcome, SEND_OK);
    CHECK_EQ(w.results[0].reason, PR_REASON_MESSAGE_TOO_LARGE);
    CHECK_STR(w.results[0].code, "amqp:link:message-size-exceeded");
    world_fini(&w);
}

TEST(amqp1_sends_nothing_without_credit)
{
    prepare_peer("broke");
    world_open(&w);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[0].deadline_us = world_now() + PR_MILLISECONDS(100);
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_RETURNED);
    world_fini(&w);
}

static pn_bytes_t property(pn_message_t *m, const char *name)
{
    pn_data_t *data = pn_message_properties(m);
    pn_data_rewind(data);
    CHECK(pn_data_next(data));
    size_t count = pn_data_get_map(data);
    pn_data_enter(data);
    for (size_t i = 0; i < count / 2; i++) {
        CHECK(pn_data_next(data));
        pn_bytes_t key = pn_data_get_string(data);
        CHECK(pn_data_next(data));
        if (key.size == strlen(name) && memcmp(key.start, name, key.size) == 0)
            return pn_data_get_string(data);
    }
    return pn_bytes(0, NULL);
}

static void check_property(pn_message_t *m, const char *name, const char *value)
{
    pn_bytes_t got = property(m, name);
    CHECK_SLICE(((pr_slice){ got.start, got.size }), value);
}

TEST(amqp1_refuses_own_headers_that_it_would_lose)
{
    prepare_peer("accept");
    world_open(&w);
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.messages[i].headers = PR_STR("{\"k\":\"v\",\"cloudEvents_type\":\"x\"}");
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_VALIDATION_FAILURE);
    CHECK(w.results[i].unsent);
    CHECK(strstr(w.results[i].error, "the message's header \"cloudEvents_type\" cannot be sent") != NULL);
    world_fini(&w);
}

TEST(amqp1_writes_an_event_in_three_ways)
{
    static const char *const envelopes[] = { "binary", "structured", "raw" };
    for (size_t n = 0; n < 3; n++) {
        char id[PR_ID_TEXT_SIZE];
        prepare_peer("accept");
        w.config.envelope = envelopes[n];
        world_open(&w);
        size_t i = world_add(&w, "o-1", PR_STR("{\"a\":1}"), WISH_OK);
        w.messages[i].headers =
            n == 2 ? PR_STR("{\"k\":\"v\"}") : PR_STR("{\"k\":\"v\",\"cloudEvents_id\":\"forged\"}");
        w.messages[i].created_us = INT64_C(1700000000123000);
        world_run(&w);
        CHECK_EQ(w.results[i].outcome, SEND_OK);
        pn_message_t *m = amqp1_peer_last(peer);
        pr_id_format(w.messages[i].id, id);
        check_property(m, "cloudEvents_id", n == 0 ? id : "");
        check_property(m, "cloudEvents_type", n == 0 ? "test.sent" : "");
        check_property(m, "cloudEvents_partitionkey", n == 0 ? "o-1" : "");
        check_property(m, "k", "v");
        CHECK_STR(pn_message_get_content_type(m), n == 1 ? "application/cloudevents+json" : "application/json");
        CHECK_EQ(pn_message_get_creation_time(m), 1700000000123);
        CHECK(pn_message_is_durable(m));
        pn_data_t *body = pn_message_body(m);
        pn_data_rewind(body);
        CHECK(pn_data_next(body));
        pn_bytes_t data = pn_data_get_binary(body);
        if (n == 1)
            CHECK(slice_contains((pr_slice){ data.start, data.size }, PR_STR("\"data\":{\"a\":1}")));
        else
            CHECK_SLICE(((pr_slice){ data.start, data.size }), "{\"a\":1}");
        pn_message_free(m);
        world_fini(&w);
    }
    amqp1_peer_stop(peer);
    peer = NULL;
}

TEST(amqp1_says_what_to_do_about_mistakes) /* and above, with their codes */
{
    faults_troubles(&(struct troubles){ .harness = &harness_amqp1,
                                        .no_host = "amqp1://nosuch.invalid/a?plain=true",
                                        .secure = LOGIN ADDRESS "?tls=true&" });
}

TEST(amqp1_takes_back_what_a_full_wire_did_not_take) /* B23 */
{
    struct faults f = faults();
    faults_cancel(&f);
}

TEST(amqp1_refuses_a_wrong_url)
{
    static const struct {
        const char *url, *text;
    } cases[] = {
        { "amqp1://127.0.0.1", "it needs the address" },
        { "amqp1://127.0.0.1/{typ}", "placeholders" },
        { "amqp1://127.0.0.1/a?tsl=true", "known are: tls" },
        { "amqp1://broker.example/a", "plain=true" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct endpoint_config config = { .name = "r", .url = cases[i].url };
        struct pr_error error = { 0 };
        CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
        CHECK(strstr(error.text, cases[i].text) != NULL);
    }
}
