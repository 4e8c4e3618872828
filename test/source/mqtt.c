/* mqtt as a source: the suite's other side, and tests of MQTT alone. */
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../transport/server.h"
#include "base/slice.h"
#include "check.h"
#include "world.h"

static struct server server;
static unsigned poor_port; /* of a listener that grants QoS 0 only */

static void server_gone(void)
{
    server_remove(&server);
}

static void broker_start(void)
{
    char path[256];
    server_prepare(&server);
    poor_port = server_free_port();
    atexit(server_gone);
    snprintf(path, sizeof(path), "%s/conf", server.folder);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f,
            "user root\nallow_anonymous true\npersistence true\npersistence_location %s/\nmax_queued_messages 0\n"
            "listener %u 127.0.0.1\nlistener %u 127.0.0.1\nmax_qos 0\n",
            server.folder, server.port, poor_port);
    CHECK_EQ(fclose(f), 0);
    server_arg(&server, "mosquitto");
    server_arg(&server, "-c");
    server_arg(&server, "%s", path);
    server_start(&server);
}

static bool is_done;

static void on_done(struct mosquitto *m, void *user, int id, int code, const mosquitto_property *properties)
{
    (void)m;
    (void)user;
    (void)id;
    (void)properties;
    CHECK(code < 0x80);
    is_done = true;
}

static void on_subscribed(struct mosquitto *m, void *user, int id, int count, const int *granted,
                          const mosquitto_property *properties)
{
    CHECK_EQ(count, 1);
    on_done(m, user, id, granted[0], properties);
}

static void loop_until_done(struct mosquitto *m)
{
    int64_t until_us = clock_mono_us(clock_system()) + WAIT_US;
    for (is_done = false; !is_done; CHECK(clock_mono_us(clock_system()) < until_us))
        CHECK_EQ(mosquitto_loop(m, 100, 1), MOSQ_ERR_SUCCESS);
}

static struct mosquitto *client(const char *name, bool is_clean, uint32_t expiry_s)
{
    mosquitto_property *properties = NULL;
    struct mosquitto *m = mosquitto_new(name, is_clean, NULL);
    CHECK(m != NULL);
    CHECK_EQ(mosquitto_int_option(m, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5), MOSQ_ERR_SUCCESS);
    mosquitto_publish_v5_callback_set(m, on_done);
    mosquitto_subscribe_v5_callback_set(m, on_subscribed);
    CHECK_EQ(mosquitto_property_add_int32(&properties, MQTT_PROP_SESSION_EXPIRY_INTERVAL, expiry_s), MOSQ_ERR_SUCCESS);
    CHECK_EQ(mosquitto_connect_bind_v5(m, "127.0.0.1", (int)server.port, 60, NULL, properties), MOSQ_ERR_SUCCESS);
    mosquitto_property_free_all(&properties);
    return m;
}

static void leave(struct mosquitto *m)
{
    CHECK_EQ(mosquitto_disconnect(m), MOSQ_ERR_SUCCESS);
    (void)mosquitto_loop(m, 10, 1);
    mosquitto_destroy(m);
}

/* With a session that has subscribed, so that what is sent before the source runs waits for it. */
static void mqtt_start(struct world *w)
{
    static unsigned count;
    char name[32];
    if (!server_is_installed("mosquitto"))
        SKIP("mosquitto is not installed");
    if (server.folder[0] == '\0') {
        CHECK_EQ(mosquitto_lib_init(), MOSQ_ERR_SUCCESS);
        broker_start();
    }
    snprintf(name, sizeof(name), "suite-%u", ++count);
    struct mosquitto *m = client(name, true, 3600);
    CHECK_EQ(mosquitto_subscribe_v5(m, NULL, "orders/#", 1, 0, NULL), MOSQ_ERR_SUCCESS);
    loop_until_done(m);
    leave(m);
    snprintf(w->url, sizeof(w->url), "mqtt://127.0.0.1:%u/orders/%%23?client=%s&expiry=1h", server.port, name);
}

static void add(mosquitto_property **properties, const struct pair *pair)
{
    char value[256];
    snprintf(value, sizeof(value), "%.*s", SLICE_ARGS(pair->value));
    CHECK_EQ(mosquitto_property_add_string_pair(properties, MQTT_PROP_USER_PROPERTY, pair->name, value),
             MOSQ_ERR_SUCCESS);
}

static void mqtt_publish(struct world *w, const struct post *p)
{
    mosquitto_property *properties = NULL;
    struct mosquitto *m = client("sender", true, 0);
    (void)w;
    for (int i = 0; i < POST_PAIRS_MAX && p->attributes[i].name != NULL; i++)
        add(&properties, &p->attributes[i]);
    for (int i = 0; i < POST_PAIRS_MAX && p->headers[i].name != NULL; i++)
        add(&properties, &p->headers[i]);
    if (p->content_type != NULL)
        CHECK_EQ(mosquitto_property_add_string(&properties, MQTT_PROP_CONTENT_TYPE, p->content_type), MOSQ_ERR_SUCCESS);
    CHECK_EQ(mosquitto_publish_v5(m, NULL, "orders/new", (int)p->body.size, p->body.data, 1, false, properties),
             MOSQ_ERR_SUCCESS);
    loop_until_done(m);
    mosquitto_property_free_all(&properties);
    leave(m);
}

static void mqtt_restart(struct world *w)
{
    (void)w;
    server_stop(&server, SIGTERM);
    server_start(&server);
}

static int64_t mqtt_left(struct world *w)
{
    (void)w;
    return -1;
}

static const struct harness harness = {
    .kind = "mqtt",
    .has_headers = true,
    .start = mqtt_start,
    .publish = mqtt_publish,
    .restart = mqtt_restart,
    .left = mqtt_left,
};
const struct harness *const harness_here = &harness;

/* ---- What is MQTT's own ------------------------------------------------------------------------------- */

static struct world w;

TEST(mqtt_raw_message_has_its_topic_as_type)
{
    struct post p = { .body = PR_STR("{}") };
    world_init(&w);
    mqtt_publish(&w, &p);
    world_run(&w, 1000);
    CHECK_SLICE(world_rows(&w, 1)->listed[0].m.type, "orders/new");
    world_fini(&w);
}

TEST(mqtt_source_makes_a_session_that_outlives_it)
{
    struct post p = { .body = PR_STR("{}") };
    world_init(&w);
    snprintf(w.url, sizeof(w.url), "mqtt://127.0.0.1:%u/orders/new", server.port);
    world_run(&w, 1000);
    WAIT_FOR((mqtt_publish(&w, &p), world_status(&w).counts.stored > 0)); /* from then on it has subscribed */
    world_stop(&w);
    struct post last = { .body = PR_STR("while it was away") };
    mqtt_publish(&w, &last);
    world_run(&w, 1000);
    WAIT_FOR(world_has(&w, last.body));
    world_fini(&w);
}

/* What is under way when a connection ends would not come again. */
TEST(mqtt_broker_that_grants_no_acknowledgement_is_reported) /* B91 */
{
    world_init(&w);
    snprintf(w.url, sizeof(w.url), "mqtt://127.0.0.1:%u/orders/new", poor_port);
    world_run(&w, 1000);
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    CHECK(strstr(world_status(&w).trouble.text, "only with QoS 0") != NULL);
    world_fini(&w);
}
