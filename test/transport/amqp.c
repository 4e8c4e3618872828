/* amqp with a real RabbitMQ: the suite's other side, and tests of AMQP alone. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "certificate.h"
#include "check.h"
#include "faults.h"
#include "rabbitmq.h"
#include "tcp_proxy.h"
#include "world.h"

static void amqp_start(struct world *w)
{
    static char url[128];
    snprintf(url, sizeof(url), "amqp://127.0.0.1:%u/?key=sink{subject}", rabbitmq()->port);
    rabbitmq_queue("sink", amqp_empty_table);
    w->config.url = url;
}

static void amqp_stop(struct world *w)
{
    (void)w;
}

static void amqp_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    CHECK(wish == WISH_OK || wish == WISH_FAIL);
    m->subject = wish == WISH_FAIL ? PR_STR("-nowhere") : PR_STR("");
}

static pr_slice slice_of(amqp_bytes_t bytes)
{
    return (pr_slice){ bytes.bytes, bytes.len };
}

static void see_arrival(void *user, const amqp_message_t *message)
{
    pr_id id;
    CHECK_EQ(pr_id_parse(slice_of(message->properties.message_id), &id), PR_OK);
    world_arrival_add(user, id, slice_of(message->body));
}

static void amqp_arrivals(struct world *w)
{
    rabbitmq_look("sink", see_arrival, w);
}

const struct harness harness_amqp = {
    .name = "amqp",
    .wishes = 1 << WISH_OK | 1 << WISH_FAIL,
    .exact = true,
    .start = amqp_start,
    .stop = amqp_stop,
    .make = amqp_make,
    .arrivals = amqp_arrivals,
};

/* ---- What is AMQP's own ------------------------------------------------------------------------------ */

static struct world w;
static char own_url[512];

/* The same broker, another url; %u is its port, or that of a proxy. */
static void prepare(unsigned port, const char *rest)
{
    world_prepare(&w, &harness_amqp, 0);
    snprintf(own_url, sizeof(own_url), "amqp://127.0.0.1:%u/%s", port != 0 ? port : rabbitmq()->port, rest);
    w.config.url = own_url;
}

static pr_slice header(const amqp_message_t *m, const char *name)
{
    const amqp_table_t *headers = &m->properties.headers;
    for (int i = 0; i < headers->num_entries; i++)
        if (slice_eq_cstr(slice_of(headers->entries[i].key), name))
            return slice_of(headers->entries[i].value.value.bytes);
    return (pr_slice){ NULL, 0 };
}

static void see_binary(void *user, const amqp_message_t *m)
{
    const struct pr_message *sent = user;
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(sent->id, id);
    CHECK_SLICE(header(m, "cloudEvents_id"), slice_from(id));
    CHECK_SLICE(slice_of(m->properties.message_id), slice_from(id));
    CHECK_SLICE(header(m, "cloudEvents_specversion"), "1.0");
    CHECK_SLICE(header(m, "cloudEvents_type"), "test.sent");
    CHECK_SLICE(header(m, "cloudEvents_partitionkey"), "o-1");
    CHECK_SLICE(header(m, "k"), "v");
    CHECK_EQ(header(m, "CC").size, 0);
    CHECK_SLICE(slice_of(m->properties.content_type), "application/json");
    CHECK_EQ(m->properties.delivery_mode, 2);
    CHECK_EQ(m->properties.timestamp, 1700000000);
    CHECK_SLICE(slice_of(m->body), "{\"a\":1}");
}

static void see_structured(void *user, const amqp_message_t *m)
{
    (void)user;
    CHECK_EQ(header(m, "cloudEvents_id").size, 0);
    CHECK_SLICE(slice_of(m->properties.content_type), "application/cloudevents+json");
    CHECK(slice_contains(slice_of(m->body), PR_STR("\"data\":{\"a\":1}")));
}

static void see_raw(void *user, const amqp_message_t *m)
{
    (void)user;
    CHECK_EQ(header(m, "cloudEvents_id").size, 0);
    CHECK_SLICE(header(m, "k"), "v");
    CHECK_SLICE(slice_of(m->body), "{\"a\":1}");
}

TEST(amqp_writes_an_event_in_three_ways)
{
    static const struct {
        const char *envelope;
        rabbitmq_see *see;
    } cases[] = { { "binary", see_binary }, { "structured", see_structured }, { "raw", see_raw } };
    for (size_t n = 0; n < 3; n++) {
        prepare(0, "%2F?exchange=amq.topic&key={type}.x");
        w.config.envelope = cases[n].envelope;
        amqp_connection_state_t c = rabbitmq_ask();
        amqp_queue_bind(c, 1, amqp_cstring_bytes("sink"), amqp_cstring_bytes("amq.topic"), amqp_cstring_bytes("test.#"),
                        amqp_empty_table);
        rabbitmq_leave(c);
        world_open(&w);
        size_t i = world_add(&w, "o-1", PR_STR("{\"a\":1}"), WISH_OK);
        w.messages[i].headers =
            n == 2 ? PR_STR("{\"k\":\"v\"}") : PR_STR("{\"k\":\"v\",\"cloudEvents_id\":\"forged\"}");
        w.messages[i].created_us = INT64_C(1700000000000000);
        world_run(&w);
        CHECK_EQ(w.results[i].outcome, SEND_OK);
        rabbitmq_look("sink", cases[n].see, &w.messages[i]);
        world_fini(&w);
    }
}

TEST(amqp_refuses_own_headers_that_it_would_lose)
{
    prepare(0, "?exchange=amq.direct&key=nobody");
    world_open(&w);
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.messages[i].headers = PR_STR("{\"k\":\"v\",\"CC\":\"x\"}");
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_VALIDATION_FAILURE);
    CHECK(w.results[i].unsent);
    CHECK(strstr(w.results[i].error, "the message's header \"CC\" cannot be sent") != NULL);
    world_fini(&w);
}

TEST(amqp_says_what_cannot_be_routed) /* B70 */
{
    prepare(0, "?exchange=amq.direct&key=nobody");
    world_open(&w);
    faults_send(&w, SEND_FAILED);
    CHECK_EQ(w.results[0].reason, PR_REASON_DESTINATION_MISSING);
    CHECK_STR(w.results[0].code, "312");
    CHECK(strstr(w.results[0].error, "NO_ROUTE") != NULL);
    CHECK(strstr(w.results[0].error, "\"nobody\"") != NULL);
    world_fini(&w);

    prepare(0, "?exchange=amq.direct&key=nobody&mandatory=false");
    world_open(&w);
    faults_send(&w, SEND_OK); /* that is what it means */
    world_fini(&w);
}

TEST(amqp_says_what_is_missing_or_forbidden) /* B70 */
{
    prepare(0, "?exchange=nosuch");
    faults_refused(&w, own_url, PR_REASON_DESTINATION_MISSING, "404", "no exchange 'nosuch'");
    prepare(0, "nosuch?key=sink");
    faults_refused(&w, own_url, PR_REASON_DESTINATION_MISSING, "530", "vhost nosuch not found");
    prepare(0, "");
    snprintf(own_url, sizeof(own_url), "amqp://guest:wrong@127.0.0.1:%u?key=sink", rabbitmq()->port);
    faults_refused(&w, own_url, PR_REASON_UNAUTHORIZED, "403", "check user and password");
}

TEST(amqp_says_when_a_full_queue_refuses)
{
    amqp_table_entry_t entries[] = {
        { .key = amqp_cstring_bytes("x-max-length"), .value = { .kind = AMQP_FIELD_KIND_I32, .value.i32 = 1 } },
        { .key = amqp_cstring_bytes("x-overflow"),
          .value = { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("reject-publish") } },
    };
    prepare(0, "?key=small");
    rabbitmq_queue("small", (amqp_table_t){ 2, entries });
    world_open(&w);
    faults_send(&w, SEND_OK);
    faults_send(&w, SEND_FAILED);
    CHECK_STR(w.results[1].code, "basic.nack");
    CHECK_EQ(w.results[1].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    world_fini(&w);
}

/* The broker closes the channel and does not say for which message: what is not sure is sent again, as the engine
 * would, and then the culprit is alone. */
TEST(amqp_finds_the_one_that_is_too_large) /* P6 */
{
    static char large[RABBITMQ_MESSAGE_MAX + 1];
    size_t left[] = { 0, 1, 2, 3, 4 }, count = 5;
    prepare(0, "?key=sink");
    world_open(&w);
    for (size_t round = 0; count > 0; round++) {
        size_t first = w.message_count, again = 0;
        CHECK(round < 2);
        for (size_t i = 0; i < count; i++) {
            size_t m = world_add(&w, "", left[i] == 2 ? PR_BYTES(large, sizeof(large)) : PR_STR("{}"), WISH_OK);
            w.messages[m].id = w.messages[left[i]].id;
        }
        world_run(&w);
        for (size_t i = 0; i < count; i++) {
            const struct delivery_result *r = &w.results[first + i];
            if (r->outcome == SEND_UNKNOWN || r->outcome == SEND_RETURNED) {
                left[again++] = left[i];
                continue;
            }
            CHECK_EQ(r->outcome, left[i] == 2 ? SEND_FAILED : SEND_OK);
            CHECK_EQ(r->reason, left[i] == 2 ? PR_REASON_MESSAGE_TOO_LARGE : PR_REASON_NONE);
            CHECK_STR(r->code, left[i] == 2 ? "406" : "");
        }
        count = again;
    }
    world_look(&w);
    for (size_t i = 0; i < 5; i++)
        CHECK(i == 2 ? world_arrived(&w, i) == 0 : world_arrived(&w, i) >= 1);
    world_fini(&w);
}

TEST(amqp_is_blocked_while_the_broker_has_no_space)
{
    prepare(0, "?key=sink");
    world_open(&w);
    faults_send(&w, SEND_OK);
    rabbitmq_alarm(true);
    int64_t end_us = world_now() + WORLD_WAIT_US;
    size_t i;
    do { /* the first is taken or held, then the broker says that it is blocked */
        CHECK(world_now() < end_us);
        i = world_add(&w, "", PR_STR("{}"), WISH_OK);
        w.deliveries[i].deadline_us = world_now() + PR_MILLISECONDS(200);
        world_run(&w);
    } while (strcmp(w.results[i].code, "connection.blocked") != 0);
    rabbitmq_alarm(false);
    CHECK_EQ(w.results[i].outcome, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK(strstr(w.results[i].error, "low on disk") != NULL);
    faults_send_until_ok(&w);
    faults_check(&w);
    world_fini(&w);
}

TEST(amqp_verifies_a_certificate)
{
    prepare(0, "");
    const char *folder = rabbitmq()->folder;
    snprintf(own_url, sizeof(own_url),
             "amqps://127.0.0.1:%u/?key=sink&ca=%s/good.pem&cert=%s/client.pem&certkey=%s/client.key",
             rabbitmq_tls_port(), folder, folder, folder);
    world_open(&w);
    static char large[1 << 20];
    for (size_t i = 0; i < 20; i++)
        world_add(&w, "", i == 3 ? PR_BYTES(large, sizeof(large)) : PR_STR("{}"), WISH_OK);
    world_run(&w);
    world_look(&w);
    for (size_t i = 0; i < 20; i++)
        CHECK_EQ(world_arrived(&w, i), w.results[i].outcome == SEND_OK);
    CHECK_EQ(w.arrival_count, 20);
    world_fini(&w);

    prepare(0, ""); /* nobody on this machine knows that authority */
    snprintf(own_url, sizeof(own_url), "amqps://127.0.0.1:%u/?key=sink", rabbitmq_tls_port());
    world_open(&w);
    faults_send(&w, SEND_FAILED);
    CHECK(strstr(w.results[0].error, "certificate") != NULL);
    world_fini(&w);
}

TEST(amqp_shows_its_own_certificate)
{
    char url[128];
    const char *folder = rabbitmq()->folder;
    snprintf(url, sizeof(url), "amqps://127.0.0.1:%u/?key=sink&", rabbitmq_tls_port());
    faults_mutual(&harness_amqp, url, folder, "it may require a client certificate");
}

/* A restart takes long: all that speak to this broker go through it together. */
TEST(amqp_restarts_in_flight_and_nothing_is_lost)
{
    static struct world worlds[2];
    static const struct harness *const all[] = {
        &harness_amqp,
#ifdef SUITE_ALSO
        &harness_amqp1,
#endif
    };
    const size_t count = sizeof(all) / sizeof(all[0]);
    for (size_t i = 0; i < count; i++)
        world_prepare(&worlds[i], all[i], 0);
    for (size_t i = 0; i < count; i++)
        faults_take_off(&worlds[i]);
    server_stop(rabbitmq(), SIGKILL);
    for (size_t i = 0; i < count; i++)
        faults_crash(&worlds[i]);
    (void)rabbitmq(); /* starts again */
    for (size_t i = 0; i < count; i++)
        faults_land(&worlds[i]);
}

static struct faults faults(void)
{
    return (struct faults){ &harness_amqp, "amqp://127.0.0.1:%u/?key=sink{subject}" };
}

TEST(amqp_is_cut_off_in_the_middle_of_an_answer)
{
    struct faults f = faults();
    faults_cut(&f, 5);
}

TEST(amqp_gives_up_at_the_deadline_when_nobody_answers)
{
    struct faults f = faults();
    faults_hold(&f);
}

TEST(amqp_does_not_wait_for_a_broker_that_says_nothing)
{
    struct faults f = faults();
    faults_silent(&f);
}

TEST(amqp_does_not_hammer_a_broker_that_is_away)
{
    struct faults f = faults();
    faults_hammer(&f);
}

static int64_t moved_us; /* the clock of the next test is so far ahead */

static int64_t moved_mono(void *arg)
{
    (void)arg;
    return world_now() + moved_us;
}

static int64_t moved_wall(void *arg)
{
    (void)arg;
    return clock_wall_us(clock_system());
}

static const struct clock moved_clock = { .wall_us = moved_wall, .mono_us = moved_mono };

/* By the moved clock, whatever it comes to. */
static struct delivery_result send_within(int64_t time_us)
{
    struct delivery_result result = { 0 };
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[i].deadline_us = moved_mono(NULL) + time_us;
    w.deliveries[i].start_before_us = moved_mono(NULL) + WORLD_WAIT_US;
    world_submit(&w);
    for (int64_t end_us = world_now() + WORLD_WAIT_US; w.transport.out > 0;) {
        CHECK(world_now() < end_us);
        (void)transport_poll(&w.transport, &result, 1, moved_mono(NULL) + PR_SECONDS(1));
    }
    return result;
}

TEST(amqp_gives_up_a_greeting_that_never_ends_however_seldom_messages_come)
{
    struct tcp_proxy *proxy = tcp_proxy_start(rabbitmq()->port);
    moved_us = 0;
    prepare(tcp_proxy_port(proxy), "?key=sink");
    w.config.clock = &moved_clock;
    tcp_proxy_hold(proxy, true);
    world_open(&w);
    for (int i = 0; i < 6; i++, moved_us += PR_SECONDS(10)) { /* each time longer than a greeting may take */
        struct delivery_result result = send_within(PR_MILLISECONDS(100));
        CHECK_EQ(result.outcome, SEND_FAILED);
        CHECK_EQ(result.reason, PR_REASON_TRANSPORT_UNAVAILABLE);
        delivery_result_fini(&result);
    }
    CHECK(tcp_proxy_connections(proxy) >= 2);
    world_fini(&w);
    tcp_proxy_stop(proxy);
}

/* Polls end with the last result, and nobody looks at the connection until there is a message again. */
TEST(amqp_goes_on_after_a_refusal_and_a_pause)
{
    static char large[RABBITMQ_MESSAGE_MAX + 1];
    moved_us = 0;
    prepare(0, "?key=sink");
    w.config.clock = &moved_clock;
    world_open(&w);
    world_add(&w, "", PR_BYTES(large, sizeof(large)), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[0].reason, PR_REASON_MESSAGE_TOO_LARGE);
    moved_us = PR_SECONDS(10); /* longer than a greeting may take */
    struct delivery_result result = send_within(WORLD_WAIT_US);
    CHECK_STR(result.error != NULL ? result.error : "", "");
    CHECK_EQ(result.outcome, SEND_OK);
    world_fini(&w);
}

TEST(amqp_sends_heartbeats_and_misses_them)
{
    struct tcp_proxy *proxy = tcp_proxy_start(rabbitmq()->port);
    struct delivery_result result;
    moved_us = 0;
    prepare(tcp_proxy_port(proxy), "?key=sink");
    w.config.clock = &moved_clock;
    world_open(&w);
    faults_send(&w, SEND_OK);
    uint64_t asked = tcp_proxy_question_bytes(proxy);
    moved_us = PR_SECONDS(16); /* half of what was agreed */
    CHECK_EQ(transport_poll(&w.transport, &result, 1, moved_mono(NULL)), 0);
    for (int64_t end_us = world_now() + WORLD_WAIT_US; tcp_proxy_question_bytes(proxy) < asked + 8;)
        CHECK(world_now() < end_us);
    CHECK_EQ(tcp_proxy_question_bytes(proxy), asked + 8);
    moved_us = PR_SECONDS(80); /* nothing has come for longer than twice that */
    CHECK_EQ(transport_poll(&w.transport, &result, 1, moved_mono(NULL)), 0);
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[i].deadline_us = w.deliveries[i].start_before_us = moved_mono(NULL) + WORLD_WAIT_US;
    world_submit(&w);
    for (int64_t end_us = world_now() + WORLD_WAIT_US; w.transport.out > 0;) {
        CHECK(world_now() < end_us);
        if (transport_poll(&w.transport, &result, 1, moved_mono(NULL) + PR_SECONDS(1)) > 0)
            CHECK_EQ(result.outcome, SEND_OK);
    }
    CHECK_EQ(tcp_proxy_connections(proxy), 2);
    world_fini(&w);
    tcp_proxy_stop(proxy);
}

TEST(amqp_takes_back_what_a_full_wire_did_not_take) /* B23 */
{
    struct faults f = faults();
    faults_cancel(&f);
}

TEST(amqp_says_what_to_do_about_mistakes) /* and above, with their codes */
{
    faults_troubles(&(struct troubles){ .harness = &harness_amqp,
                                        .no_host = "amqp://nosuch.invalid/?key=sink&plain=true",
                                        .secure = "amqps://127.0.0.1:%u/?key=sink&" });
}

TEST(amqp_says_when_a_port_does_not_speak_tls)
{
    char url[128];
    world_prepare(&w, &harness_amqp, 0);
    snprintf(url, sizeof(url), "amqps://127.0.0.1:%u/?key=sink", rabbitmq()->port);
    faults_refused(&w, url, PR_REASON_TRANSPORT_UNAVAILABLE, "tls", "check the port in its url");
}

TEST(amqp_refuses_a_wrong_url)
{
    static const struct {
        const char *url, *text;
    } cases[] = {
        { "amqp://127.0.0.1", "?exchange=NAME" },
        { "amqp://127.0.0.1?key={typ}", "placeholders" },
        { "amqp://127.0.0.1?exchange={type}", "placeholders belong into key" },
        { "amqp://127.0.0.1?exchang=a", "known are: exchange, key" },
        { "amqp://127.0.0.1?key=a&mandatory=maybe", "mandatory" },
        { "amqp://broker.example?key=a", "plain=true" },
        { "amqps://broker.example?key=a&ca=/no/such/file", "/no/such/file cannot be read" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct endpoint_config config = { .name = "r", .url = cases[i].url };
        struct pr_error error = { 0 };
        CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
        CHECK(strstr(error.text, cases[i].text) != NULL);
    }
}
