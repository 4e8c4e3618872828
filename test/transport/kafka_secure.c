/* kafka with TLS, a login and several brokers.  The mock brokers support neither of the first two: a gate in front of
 * them does, kafka_gate.py. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "certificate.h"
#include "check.h"
#include "faults.h"
#include "kafka_cluster.h"
#include "server.h"

static struct world w;
static char own_url[1024];
static struct server gate; /* gone also after a failure */

static void gate_gone(void)
{
    server_remove(&gate);
}

/* Before the broker of the suite's cluster. */
static void gate_start_as(bool tls, const char *mechanism, bool lies)
{
    unsigned broker, topic;
    const char *script = getenv("KAFKA_GATE");
    if (script == NULL || !server_is_installed("python3"))
        SKIP("KAFKA_GATE is not set, or python3 is not installed");
    world_prepare(&w, &harness_kafka, 0);
    CHECK_EQ(sscanf(w.config.url, "kafka://127.0.0.1:%u/t%u", &broker, &topic), 2);
    world_fini(&w);
    server_prepare(&gate);
    atexit(gate_gone);
    certificate_make(gate.folder, "good", 3600);
    certificate_make_client(gate.folder, "client", "good");
    server_arg(&gate, "python3");
    server_arg(&gate, "%s", script);
    server_arg(&gate, "%u", gate.port);
    server_arg(&gate, "%u", broker);
    if (tls) {
        server_arg(&gate, "--tls");
        server_arg(&gate, "%s", gate.folder);
    }
    if (mechanism != NULL) {
        static const char *const words[] = { "rider", "secret%" };
        server_arg(&gate, "--sasl");
        server_arg(&gate, "%s", mechanism);
        for (size_t i = 0; i < 2; i++)
            server_arg(&gate, "%s", words[i]);
    }
    if (lies)
        server_arg(&gate, "--lie");
    server_start(&gate);
}

static void gate_start(bool tls, const char *mechanism)
{
    gate_start_as(tls, mechanism, false);
}

TEST(kafka_shows_its_own_certificate)
{
    char url[128];
    gate_start(true, NULL);
    snprintf(url, sizeof(url), "kafka://localhost:%u/secure?tls=true&", gate.port);
    faults_mutual(&harness_kafka, url, gate.folder, "certificate required");
    server_remove(&gate);
}

/* What comes through TLS is checked before the library sees it, as it is without. */
TEST(kafka_does_not_believe_a_broker_for_its_certificate) /* B206 */
{
    gate_start_as(true, NULL, true);
    world_prepare(&w, &harness_kafka, 0);
    snprintf(own_url, sizeof(own_url),
             "kafka://localhost:%u/secure?tls=true&ca=%s/good.pem&cert=%s/client.pem&certkey=%s/client.key", gate.port,
             gate.folder, gate.folder, gate.folder);
    w.config.url = own_url;
    world_open(&w);
    size_t i = faults_send(&w, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK(strstr(w.results[i].error, "is not valid Kafka") != NULL);
    world_fini(&w);
    server_remove(&gate);
}

/* A name for 127.0.0.1 that is not in its certificate. */
TEST(kafka_refuses_a_broker_of_another_name) /* B206 */
{
    gate_start(true, NULL);
    world_prepare(&w, &harness_kafka, 0);
    snprintf(own_url, sizeof(own_url),
             "kafka://127.1:%u/secure?tls=true&ca=%s/good.pem&cert=%s/client.pem&certkey=%s/client.key", gate.port,
             gate.folder, gate.folder, gate.folder);
    w.config.url = own_url;
    world_open(&w);
    size_t i = faults_send(&w, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK(w.results[i].unsent);
    CHECK(strstr(w.results[i].error, "127.1:") != NULL);
    CHECK(strstr(w.results[i].error, "its certificate was refused: hostname mismatch") != NULL);
    world_fini(&w);
    server_remove(&gate);
}

static void check_login(const char *mechanism, const char *word, bool tls)
{
    static const struct {
        const char *password;
        bool good;
    } cases[] = { { "secret%25", true }, { "wrong", false } };
    gate_start(tls, mechanism);
    for (size_t n = 0; n < 2; n++) {
        world_prepare(&w, &harness_kafka, 0);
        snprintf(own_url, sizeof(own_url), "kafka://rider:%s@localhost:%u/secure?sasl=%s", cases[n].password, gate.port,
                 word);
        if (tls)
            snprintf(own_url + strlen(own_url), sizeof(own_url) / 2,
                     "&tls=true&ca=%s/good.pem&cert=%s/client.pem&certkey=%s/client.key", gate.folder, gate.folder,
                     gate.folder);
        w.config.url = own_url;
        world_open(&w);
        size_t i = faults_send(&w, cases[n].good ? SEND_OK : SEND_FAILED);
        if (!cases[n].good) {
            CHECK_EQ(w.results[i].reason, PR_REASON_UNAUTHORIZED);
            CHECK_STR(w.results[i].code, "_AUTHENTICATION");
            CHECK(strstr(w.results[i].error, "password") != NULL);
            CHECK(strstr(w.results[i].error, "wrong") == NULL);
        }
        world_fini(&w);
    }
    server_remove(&gate);
}

TEST(kafka_logs_in_or_says_that_it_may_not)
{
    check_login("PLAIN", "plain", false);
    check_login("SCRAM-SHA-256", "scram-sha-256", false);
    check_login("SCRAM-SHA-512", "scram-sha-512", true);
}

/* ---- Several brokers ------------------------------------------------------------------------------------- */

static struct kafka_cluster three;

static void three_gone(void)
{
    kafka_cluster_stop(&three);
}

static void three_start(void)
{
    kafka_cluster_start(&three, 3);
    atexit(three_gone);
    kafka_cluster_tell(&three, "topic t 1");
    kafka_cluster_tell(&three, "leader t 1");
    world_prepare(&w, &harness_kafka, 0);
    /* Somebody in the list who is not there costs nothing. */
    snprintf(own_url, sizeof(own_url), "kafka://127.0.0.1:1,%s/t", three.servers);
    w.config.url = own_url;
    world_open(&w);
}

static void three_end(void)
{
    for (size_t i = 0; i < w.message_count; i++)
        CHECK_EQ(w.results[i].outcome, SEND_OK);
    world_fini(&w);
    kafka_cluster_stop(&three);
}

TEST(kafka_follows_the_leader)
{
    three_start();
    for (int leader = 1; leader <= 3; leader++) {
        kafka_cluster_tell(&three, "leader t %d", leader);
        for (size_t i = 0; i < 20; i++)
            world_add(&w, "", PR_STR("{}"), WISH_OK);
        world_run(&w);
    }
    three_end();
}

TEST(kafka_loses_a_broker_and_goes_on_with_the_others)
{
    three_start();
    faults_send(&w, SEND_OK);
    kafka_cluster_tell(&three, "rtt 30");
    for (size_t i = 0; i < 100; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_submit(&w);
    world_poll(&w, PR_MILLISECONDS(10));
    kafka_cluster_tell(&three, "down 1");
    kafka_cluster_tell(&three, "leader t 2"); /* as the others elect one */
    world_run(&w);
    faults_send(&w, SEND_OK);
    three_end();
}
