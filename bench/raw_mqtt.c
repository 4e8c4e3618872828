/* mqtt: QoS 1, as many out as the broker accepts. */
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <string.h>

#include "carrier.h"

#define WINDOW 1000
#define TOPIC "sink"
#define WAIT_MS 1000

static const char *mqtt_open(struct site *site)
{
    struct server *s = &site->server;
    char path[sizeof s->folder + 8];
    if (!server_is_installed("mosquitto"))
        return "mosquitto is not installed";
    server_prepare(s);
    snprintf(path, sizeof path, "%s/conf", s->folder);
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "user root\nallow_anonymous true\nlistener %u 127.0.0.1\n", s->port) < 0 ||
        fclose(file) != 0)
        die("cannot write %s", path);
    server_arg(s, "mosquitto");
    server_arg(s, "-c");
    server_arg(s, "%s", path);
    server_start(s);
    snprintf(site->sink, sizeof site->sink, "{url: \"mqtt://127.0.0.1:%u/" TOPIC "\", source: " CARRIER_SOURCE "}",
             s->port);
    return NULL;
}

static void mqtt_close(struct site *site)
{
    server_remove(&site->server);
}

struct raw_client {
    struct mosquitto *client;
    size_t window, sent, done; /* window 0: not connected yet */
};

static void must(int rc)
{
    if (rc != MOSQ_ERR_SUCCESS)
        die("mqtt: %s", mosquitto_strerror(rc));
}

static void on_connect(struct mosquitto *client, void *arg, int code, int flags, const mosquitto_property *properties)
{
    struct raw_client *c = arg;
    uint16_t maximum = WINDOW;
    (void)client;
    (void)flags;
    if (code != 0)
        die("mqtt: refused with %d", code);
    mosquitto_property_read_int16(properties, MQTT_PROP_RECEIVE_MAXIMUM, &maximum, false);
    c->window = min_size(WINDOW, maximum);
}

static void on_publish(struct mosquitto *client, void *arg, int id, int code, const mosquitto_property *properties)
{
    struct raw_client *c = arg;
    (void)client;
    (void)id;
    (void)properties;
    if (code >= 128)
        die("mqtt: not taken: %d", code);
    c->done++;
}

static void pair_add(mosquitto_property **list, const char *name, const char *value)
{
    must(mosquitto_property_add_string_pair(list, MQTT_PROP_USER_PROPERTY, name, value));
}

static void publish(struct raw_client *c)
{
    struct raw_message m;
    mosquitto_property *list = NULL;
    raw_message_make(&m);
    pair_add(&list, "specversion", "1.0");
    pair_add(&list, "id", m.id);
    pair_add(&list, "type", CARRIER_TYPE);
    pair_add(&list, "source", CARRIER_SOURCE);
    pair_add(&list, "time", m.time);
    must(mosquitto_property_add_string(&list, MQTT_PROP_CONTENT_TYPE, "application/json"));
    must(mosquitto_publish_v5(c->client, NULL, TOPIC, BENCH_PAYLOAD, raw_payload(), 1, false, list));
    mosquitto_property_free_all(&list);
    c->sent++;
}

static void client_open(struct raw_client *c, const struct site *site)
{
    mosquitto_lib_init();
    c->client = mosquitto_new(NULL, true, c);
    if (c->client == NULL)
        die("mqtt: no memory");
    must(mosquitto_int_option(c->client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5));
    must(mosquitto_int_option(c->client, MOSQ_OPT_TCP_NODELAY, 1));
    must(mosquitto_int_option(c->client, MOSQ_OPT_SEND_MAXIMUM, WINDOW));
    mosquitto_connect_v5_callback_set(c->client, on_connect);
    mosquitto_publish_v5_callback_set(c->client, on_publish);
    must(mosquitto_connect(c->client, "127.0.0.1", (int)site->server.port, 60));
    while (c->window == 0)
        must(mosquitto_loop(c->client, WAIT_MS, 1));
}

static double mqtt_raw_rate(struct site *site, size_t count)
{
    struct raw_client c = { .client = NULL };
    client_open(&c, site);
    double begin = seconds_now();
    while (c.done < count) {
        while (c.sent < count && c.sent - c.done < c.window)
            publish(&c);
        must(mosquitto_loop(c.client, WAIT_MS, 1));
    }
    double rate = (double)count / (seconds_now() - begin);
    mosquitto_disconnect(c.client);
    mosquitto_destroy(c.client);
    return rate;
}

const struct carrier carrier_mqtt = {
    .name = "transport_mqtt",
    .raw_name = "raw_mqtt",
    .messages = 100000,
    .open = mqtt_open,
    .close = mqtt_close,
    .raw_rate = mqtt_raw_rate,
};
