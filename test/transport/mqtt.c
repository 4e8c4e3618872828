/* mqtt with a real Mosquitto: the suite's other side, and tests of MQTT alone. */
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/slice.h"
#include "certificate.h"
#include "check.h"
#include "faults.h"
#include "server.h"
#include "tcp_proxy.h"
#include "world.h"

#define PACKET_MAX 2000000
#define MESSAGE_MAX 1500000
#define INFLIGHT_MAX 50
#define TEXT_SIZE 4096

/* ---- The broker -------------------------------------------------------------------------------------------- */

static struct server server; /* one for all tests */
static unsigned old_port, secure_port, mutual_port;

static void server_gone(void)
{
    server_remove(&server);
}

__attribute__((format(printf, 3, 4))) static void file_write(struct server *s, const char *name, const char *format,
                                                             ...)
{
    char path[256];
    va_list args;
    snprintf(path, sizeof(path), "%s/%s", s->folder, name);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    va_start(args, format);
    vfprintf(f, format, args);
    va_end(args);
    fclose(f);
}

/* With the file conf in its folder. */
static void broker_run(struct server *s)
{
    server_arg(s, "mosquitto");
    server_arg(s, "-c");
    server_arg(s, "%s/conf", s->folder);
    server_start(s);
}

static void broker_start(void)
{
    char command[256];
    if (!server_is_installed("mosquitto"))
        SKIP("mosquitto is not installed");
    server_prepare(&server);
    atexit(server_gone);
    secure_port = server_free_port();
    old_port = server_free_port();
    mutual_port = server_free_port();
    certificate_make(server.folder, "good", 3600);
    certificate_make_client(server.folder, "client", "good");
    certificate_make(server.folder, "old", -3600);
    file_write(&server, "acl", "topic readwrite sink/#\ntopic readwrite mark\nuser rider\ntopic readwrite sink/#\n");
    snprintf(command, sizeof(command), "mosquitto_passwd -b -c %s/users rider secret", server.folder);
    CHECK_EQ(system(command), 0);
    file_write(&server, "conf",
               "user root\nallow_anonymous true\npassword_file %s/users\nacl_file %s/acl\n"
               "persistence true\npersistence_location %s/\nmax_queued_messages 0\nmax_inflight_messages %d\n"
               "max_packet_size %d\nmessage_size_limit %d\n"
               "listener %u 127.0.0.1\nlistener %u 127.0.0.1\ncertfile %s/good.pem\nkeyfile %s/good.key\n"
               "listener %u 127.0.0.1\ncertfile %s/old.pem\nkeyfile %s/old.key\n"
               "listener %u 127.0.0.1\ncertfile %s/good.pem\nkeyfile %s/good.key\ncafile %s/good.pem\n"
               "require_certificate true\n",
               server.folder, server.folder, server.folder, INFLIGHT_MAX, PACKET_MAX, MESSAGE_MAX, server.port,
               secure_port, server.folder, server.folder, old_port, server.folder, server.folder, mutual_port,
               server.folder, server.folder, server.folder);
    broker_run(&server);
}

/* ---- Somebody who has subscribed ------------------------------------------------------------------------------- */

static struct {
    struct arrival all[WORLD_MESSAGES_MAX * 2];
    size_t count;
    bool marked, subscribed;
    char last[TEXT_SIZE]; /* the last one for people: topic|properties|payload */
} seen;

static void on_subscribe(struct mosquitto *client, void *user, int id, int count, const int *granted)
{
    (void)client;
    (void)user;
    (void)id;
    (void)count;
    (void)granted;
    seen.subscribed = true;
}

static void on_message(struct mosquitto *client, void *user, const struct mosquitto_message *m,
                       const mosquitto_property *properties)
{
    char *name = NULL, *value = NULL;
    pr_id id = { { 0 } };
    (void)client;
    (void)user;
    if (strcmp(m->topic, "mark") == 0) {
        seen.marked = true;
        return;
    }
    size_t size = (size_t)snprintf(seen.last, TEXT_SIZE, "%s|", m->topic);
    if (mosquitto_property_read_string(properties, MQTT_PROP_CONTENT_TYPE, &value, false) != NULL)
        size += (size_t)snprintf(seen.last + size, TEXT_SIZE - size, "<%s>", value);
    free(value);
    const mosquitto_property *p =
        mosquitto_property_read_string_pair(properties, MQTT_PROP_USER_PROPERTY, &name, &value, false);
    for (; p != NULL; p = mosquitto_property_read_string_pair(p, MQTT_PROP_USER_PROPERTY, &name, &value, true)) {
        if (strcmp(name, "id") == 0)
            CHECK_EQ(pr_id_parse(slice_from(value), &id), PR_OK);
        size += (size_t)snprintf(seen.last + size, TEXT_SIZE - size, "%s=%s,", name, value);
        free(name);
        free(value);
    }
    snprintf(seen.last + size, TEXT_SIZE - size, "|%.*s", m->payloadlen < 1000 ? m->payloadlen : 1000,
             m->payload != NULL ? (const char *)m->payload : "");
    CHECK(seen.count < sizeof(seen.all) / sizeof(seen.all[0]));
    struct arrival *a = &seen.all[seen.count++];
    *a = (struct arrival){ .id = id, .payload = malloc((size_t)m->payloadlen + 1), .size = (size_t)m->payloadlen };
    memcpy(a->payload, m->payload != NULL ? m->payload : "", a->size);
}

/* A session that outlives its connections, and the broker: what comes meanwhile waits for it.  A clean one
 * ends the last. */
static struct mosquitto *watch_connect(bool clean)
{
    mosquitto_property *properties = NULL;
    struct mosquitto *client = mosquitto_new("watch", clean, NULL);
    CHECK(client != NULL);
    mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
    mosquitto_property_add_int32(&properties, MQTT_PROP_SESSION_EXPIRY_INTERVAL, clean ? 0 : 3600);
    mosquitto_subscribe_callback_set(client, on_subscribe);
    mosquitto_message_v5_callback_set(client, on_message);
    CHECK_EQ(mosquitto_connect_bind_v5(client, "127.0.0.1", (int)server.port, 60, NULL, properties), 0);
    mosquitto_property_free_all(&properties);
    return client;
}

static void watch_until(struct mosquitto *client, const bool *done)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    while (!*done) {
        CHECK(world_now() < end_us);
        CHECK_EQ(mosquitto_loop(client, 100, 1), 0);
    }
}

static void watch_end(struct mosquitto *client)
{
    mosquitto_disconnect(client);
    mosquitto_destroy(client);
}

static void watch_begin(void)
{
    for (; seen.count > 0; seen.count--)
        free(seen.all[seen.count - 1].payload);
    for (int clean = 1; clean >= 0; clean--) {
        char *topics[] = { "sink/#", "mark" };
        struct mosquitto *client = watch_connect(clean);
        seen.subscribed = false;
        CHECK_EQ(mosquitto_subscribe_multiple(client, NULL, 2, topics, 1, 0, NULL), 0);
        watch_until(client, &seen.subscribed);
        watch_end(client);
    }
}

/* Everything that the broker had before the mark comes before it. */
static void watch_look(void)
{
    seen.marked = false;
    struct mosquitto *client = watch_connect(false);
    CHECK_EQ(mosquitto_publish(client, NULL, "mark", 0, NULL, 1, false), 0);
    watch_until(client, &seen.marked);
    watch_end(client);
}

/* A session that Mosquitto read from its file gets nothing before it has connected once. */
static void broker_start_again(void)
{
    server_start(&server);
    watch_look();
}

/* ---- The suite's other side ---------------------------------------------------------------------------------------- */

static void mqtt_start(struct world *w)
{
    static char url[128];
    if (server.pid == 0)
        broker_start();
    mosquitto_lib_init();
    watch_begin();
    snprintf(url, sizeof(url), "mqtt://127.0.0.1:%u/sink{subject}", server.port);
    w->config.url = url;
}

static void mqtt_stop(struct world *w)
{
    (void)w;
}

static void mqtt_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    CHECK(wish == WISH_OK || wish == WISH_FAIL);
    m->subject = wish == WISH_FAIL ? PR_STR("/#") : PR_STR(""); /* nobody can publish to that */
}

static void mqtt_arrivals(struct world *w)
{
    watch_look();
    for (size_t i = 0; i < seen.count; i++)
        world_arrival_add(w, seen.all[i].id, (pr_slice){ seen.all[i].payload, seen.all[i].size });
}

const struct harness harness_mqtt = {
    .name = "mqtt",
    .wishes = 1 << WISH_OK | 1 << WISH_FAIL,
    .exact = true,
    .start = mqtt_start,
    .stop = mqtt_stop,
    .make = mqtt_make,
    .arrivals = mqtt_arrivals,
};

/* ---- What is MQTT's own ------------------------------------------------------------------------------------------------ */

static struct world w;
static char own_url[512];

/* The same broker, another url; through a proxy when port is not 0. */
static void prepare(unsigned port, const char *rest)
{
    world_prepare(&w, &harness_mqtt, 0);
    snprintf(own_url, sizeof(own_url), "mqtt://127.0.0.1:%u/%s", port != 0 ? port : server.port, rest);
    w.config.url = own_url;
}

static size_t send_payload(pr_slice payload)
{
    size_t i = world_add(&w, "", payload, WISH_OK);
    world_run(&w);
    return i;
}

static size_t send_one(void)
{
    return send_payload(PR_STR("{}"));
}

static void check_failed(size_t i, int reason, const char *code, const char *text)
{
    CHECK_EQ(w.results[i].outcome, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, reason);
    CHECK_STR(w.results[i].code, code);
    CHECK(w.results[i].error != NULL);
    if (strstr(w.results[i].error, text) == NULL)
        CHECK_STR(w.results[i].error, text);
}

static const char *one_with_envelope(const char *envelope)
{
    prepare(0, "sink/{type}");
    w.config.envelope = envelope;
    world_open(&w);
    size_t i = world_add(&w, "o-1", PR_STR("{\"a\":1}"), WISH_OK);
    w.messages[i].headers = PR_STR("{\"k\":\"v\",\"type\":\"test.sent\"}");
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_OK);
    watch_look();
    world_fini(&w);
    return seen.last;
}

TEST(mqtt_takes_no_orders_to_the_broker_from_a_message) /* B206 */
{
    prepare(0, "{subject}");
    world_open(&w);
    size_t order = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.messages[order].subject = PR_STR("$CONTROL/dynamic-security/v1");
    world_run(&w);
    check_failed(order, PR_REASON_VALIDATION_FAILURE, "", "belongs to the broker");
    world_fini(&w);
}

TEST(mqtt_refuses_own_headers_that_it_would_lose)
{
    prepare(0, "sink/{type}");
    world_open(&w);
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.messages[i].headers = PR_STR("{\"k\":\"v\",\"type\":\"x\"}");
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_VALIDATION_FAILURE);
    CHECK(w.results[i].unsent);
    CHECK(strstr(w.results[i].error, "the message's header \"type\" cannot be sent") != NULL);
    world_fini(&w);
}

TEST(mqtt_writes_an_event_as_properties)
{
    char id[PR_ID_TEXT_SIZE + 3] = "id=";
    const char *text = one_with_envelope("binary");
    pr_id_format(w.messages[0].id, id + 3);
    CHECK(strncmp(text, "sink/test.sent|<application/json>", 33) == 0);
    CHECK(strstr(text, id) != NULL);
    CHECK(strstr(text, "specversion=1.0,") != NULL);
    CHECK(strstr(text, "type=test.sent,") != NULL);
    CHECK(strstr(text, "partitionkey=o-1,") != NULL);
    CHECK(strstr(text, "k=v,|{\"a\":1}") != NULL);
}

TEST(mqtt_writes_structured_and_raw)
{
    const char *text = one_with_envelope("structured");
    CHECK(strstr(text, "|<application/cloudevents+json>k=v,") != NULL);
    CHECK(strstr(text, "\"data\":{\"a\":1}") != NULL);
    CHECK_STR(one_with_envelope("raw"), "sink/test.sent|k=v,type=test.sent,|{\"a\":1}");
}

TEST(mqtt_says_what_the_broker_says) /* B70 */
{
    static char large[PACKET_MAX + 1];
    prepare(0, "sink-fail");
    world_open(&w);
    check_failed(send_one(), PR_REASON_UNAUTHORIZED, "not_authorized", "their permissions at the broker");
    world_fini(&w); /* this Mosquitto cuts the connection after it has said no */

    prepare(0, "sink");
    world_open(&w);
    check_failed(send_payload(PR_BYTES(large, MESSAGE_MAX + 1)), PR_REASON_MESSAGE_TOO_LARGE, "packet_too_large",
                 "(149)");
    world_fini(&w);

    prepare(0, "sink{subject}");
    world_open(&w);
    check_failed(send_payload(PR_BYTES(large, PACKET_MAX)), PR_REASON_MESSAGE_TOO_LARGE, "packet_too_large",
                 "max_packet_size"); /* known before it is sent */
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_FAIL);
    world_run(&w);
    check_failed(i, PR_REASON_VALIDATION_FAILURE, "", "no + or #");
    CHECK_EQ(w.results[send_one()].outcome, SEND_OK); /* and the connection goes on */
    faults_check(&w);
    world_fini(&w);
}

/* Mosquitto has no quotas: the wire makes one out of its "not authorized" to the first message. */
TEST(mqtt_says_when_a_quota_is_used_up)
{
    static const unsigned char refused[] = { 0x40, 3, 0, 1, MQTT_RC_NOT_AUTHORIZED },
                               full_up[] = { 0x40, 3, 0, 1, MQTT_RC_QUOTA_EXCEEDED };
    prepare(0, "");
    world_fini(&w);
    struct tcp_proxy *proxy = tcp_proxy_start(server.port);
    tcp_proxy_rewrite(proxy, refused, full_up, sizeof(refused));
    prepare(tcp_proxy_port(proxy), "sink-fail");
    world_open(&w);
    check_failed(send_one(), PR_REASON_RATE_LIMITED, "quota_exceeded", "(151)");
    world_fini(&w);
    tcp_proxy_stop(proxy);
}

static struct server full; /* gone also after a failure */

static void full_gone(void)
{
    server_remove(&full);
}

/* Mosquitto does not say that it has no memory left for what waits for a subscriber: it cuts the connection.  So
 * nobody knows, the message is sent again, and smaller ones pass. */
TEST(mqtt_outlives_a_broker_without_memory)
{
    static char large[300000];
    char command[256];
    if (!server_is_installed("mosquitto_sub"))
        SKIP("mosquitto_sub is not installed");
    server_prepare(&full);
    atexit(full_gone);
    file_write(&full, "conf",
               "user root\nallow_anonymous true\nmax_queued_messages 0\nmemory_limit 2000000\nlistener %u 127.0.0.1\n",
               full.port);
    broker_run(&full);
    prepare(full.port, "sink");
    world_open(&w);
    snprintf(command, sizeof(command), "mosquitto_sub -V mqttv5 -h 127.0.0.1 -p %u -t '#' -q 1 -c -i keep -x 3600 -E",
             full.port);
    CHECK_EQ(system(command), 0);
    size_t i;
    do
        i = send_payload(PR_BYTES(large, sizeof(large)));
    while (i < 10 && w.results[i].outcome == SEND_OK);
    CHECK_EQ(w.results[i].outcome, SEND_UNKNOWN);
    CHECK_EQ(w.results[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    faults_send_until_ok(&w);
    world_fini(&w);
    server_remove(&full);
}

TEST(mqtt_logs_in_or_says_that_it_may_not)
{
    prepare(0, "");
    snprintf(own_url, sizeof(own_url), "mqtt://rider:secret@127.0.0.1:%u/sink", server.port);
    world_open(&w);
    CHECK_EQ(w.results[send_one()].outcome, SEND_OK);
    world_fini(&w);

    prepare(0, "");
    snprintf(own_url, sizeof(own_url), "mqtt://rider:wrong@127.0.0.1:%u/sink", server.port);
    world_open(&w);
    check_failed(send_one(), PR_REASON_UNAUTHORIZED, "not_authorized", "check user and password");
    CHECK(strstr(w.results[0].error, "wrong") == NULL);
    world_fini(&w);
}

TEST(mqtt_verifies_the_certificate)
{
    static const struct {
        const char *host, *ca;
        bool old, good;
    } cases[] = {
        { "localhost", "good", false, true }, { "127.0.0.1", "good", false, true },
        { "localhost", "old", true, false },  /* it is over */
        { "localhost", "old", false, false }, /* nobody vouches for it */
        { "localhost", "", false, false },
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        prepare(0, "");
        snprintf(own_url, sizeof(own_url), "mqtts://%s:%u/sink?%s%s%s%s%s", cases[n].host,
                 cases[n].old ? old_port : secure_port, cases[n].ca[0] != '\0' ? "ca=" : "",
                 cases[n].ca[0] != '\0' ? server.folder : "", cases[n].ca[0] != '\0' ? "/" : "", cases[n].ca,
                 cases[n].ca[0] != '\0' ? ".pem" : "");
        world_open(&w);
        size_t i = send_one();
        if (cases[n].good)
            CHECK_STR(w.results[i].error, NULL);
        else
            check_failed(i, PR_REASON_TRANSPORT_UNAVAILABLE, "tls", "certificate expires");
        world_fini(&w);
    }
}

TEST(mqtt_shows_its_own_certificate)
{
    char url[128];
    prepare(0, "");
    world_fini(&w);
    snprintf(url, sizeof(url), "mqtts://localhost:%u/sink?", mutual_port);
    faults_mutual(&harness_mqtt, url, server.folder, "it may require a client certificate");
}

TEST(mqtt_is_absent_at_the_start_and_comes)
{
    prepare(0, "sink");
    server_stop(&server, SIGTERM);
    world_open(&w);
    check_failed(send_one(), PR_REASON_TRANSPORT_UNAVAILABLE, "", "refused");
    broker_start_again();
    faults_send_until_ok(&w);
    faults_check(&w);
    world_fini(&w);

    prepare(0, "");
    snprintf(own_url, sizeof(own_url), "mqtt://postrider.invalid/sink?plain=true");
    world_open(&w);
    check_failed(send_one(), PR_REASON_TRANSPORT_UNAVAILABLE, "lookup", "check the host");
    world_fini(&w);
}

TEST(mqtt_restarts_in_flight_and_nothing_is_lost)
{
    prepare(0, "sink");
    world_open(&w);
    for (size_t i = 0; i < 400; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    for (size_t i = 0; i < 100 && w.answered < 50; i++) {
        world_submit(&w);
        world_poll(&w, PR_MILLISECONDS(1));
    }
    server_stop(&server, SIGTERM);
    world_run(&w);
    broker_start_again();
    faults_send_until_ok(&w);
    faults_check(&w);
    world_fini(&w);
}

static struct faults faults(void)
{
    return (struct faults){ &harness_mqtt, "mqtt://127.0.0.1:%u/sink{subject}" };
}

TEST(mqtt_is_cut_off_in_the_middle_of_an_answer)
{
    struct faults f = faults();
    faults_cut(&f, 1);
}

TEST(mqtt_gives_up_at_the_deadline_when_nobody_answers)
{
    struct faults f = faults();
    faults_hold(&f);
}

/* P4 while nobody answers: so many are out as the broker takes at once, or as fit on the wire. */
static void cancel_with(size_t size, size_t out_least, size_t out_most)
{
    static char body[400000];
    size_t returned = 0;
    prepare(0, "sink");
    world_fini(&w);
    struct tcp_proxy *proxy = tcp_proxy_start(server.port);
    prepare(tcp_proxy_port(proxy), "sink");
    world_open(&w);
    CHECK_EQ(w.results[send_one()].outcome, SEND_OK);
    tcp_proxy_hold(proxy, true);
    for (size_t i = 0; i < 200; i++)
        world_add(&w, "", PR_BYTES(body, size), WISH_OK);
    world_submit(&w);
    world_poll(&w, PR_MILLISECONDS(50));
    world_cancel(&w);
    tcp_proxy_hold(proxy, false);
    world_collect(&w);
    for (size_t i = 1; i < w.message_count; i++) {
        CHECK(w.results[i].outcome == SEND_RETURNED || w.results[i].outcome == SEND_OK);
        returned += w.results[i].outcome == SEND_RETURNED;
    }
    CHECK(200 - returned >= out_least);
    CHECK(200 - returned <= out_most);
    faults_check(&w);
    world_fini(&w);
    tcp_proxy_stop(proxy);
}

TEST(mqtt_takes_back_what_is_not_in_flight) /* B23 */
{
    cancel_with(2, INFLIGHT_MAX, INFLIGHT_MAX);
    cancel_with(400000, 1, INFLIGHT_MAX / 2);
}

TEST(mqtt_does_not_wait_for_a_broker_that_says_nothing)
{
    struct faults f = faults();
    faults_silent(&f);
}

TEST(mqtt_does_not_hammer_a_broker_that_is_away)
{
    struct faults f = faults();
    faults_hammer(&f);
}

TEST(mqtt_says_what_to_do_about_mistakes)
{
    char password[128];
    prepare(0, "");
    world_fini(&w);
    snprintf(password, sizeof(password), "mqtt://rider:wr0ng@127.0.0.1:%u/sink", server.port);
    faults_troubles(&(struct troubles){ &harness_mqtt, "mqtt://nosuch.invalid/sink?plain=true", password, NULL,
                                        "mqtts://localhost:%u/sink?" });
}

TEST(mqtt_refuses_a_wrong_url)
{
    static const struct {
        const char *url, *text;
    } cases[] = {
        { "mqtt://127.0.0.1", "no topic" },
        { "mqtt://127.0.0.1/", "no topic" },
        { "mqtt://127.0.0.1/a{typ}", "placeholders" },
        { "mqtt://127.0.0.1/a/+", "must not contain + or #" },
        { "mqtt://127.0.0.1/a?ca=b", "known are: retain, client, plain" },
        { "mqtt://127.0.0.1/a?retain=1", "true or false" },
        { "mqtt://127.0.0.1,127.0.0.2/a", "more than one host" },
        { "mqtt://broker.example/a", "plain=true" },
        { "mqtts://broker.example/a?plain=true", "unknown parameter" },
        { "mqtts://127.0.0.1/a?certkey=x", "key needs cert" },
        { "mqtts://127.0.0.1/a?ca=/nowhere", "ca: /nowhere cannot be read" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct endpoint_config config = { .name = "m", .url = cases[i].url, .wake_fd = -1 };
        struct transport transport = { 0 };
        struct pr_error error = { 0 };
        CHECK_EQ(transport_open(&config, &transport, &error), PR_ECONFIG);
        if (strstr(error.text, cases[i].text) == NULL)
            CHECK_STR(error.text, cases[i].text);
    }
}
