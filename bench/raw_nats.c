/* nats: published to JetStream with the library's own asynchronous publisher. */
#include <nats/nats.h>
#include <string.h>

#include "carrier.h"

#define WINDOW 1000
#define STREAM "SINK"
#define SUBJECT "sink"

static void must(natsStatus status)
{
    if (status != NATS_OK)
        die("nats: %s", natsStatus_GetText(status));
}

static void make_stream(const struct site *site)
{
    natsConnection *connection;
    jsCtx *js;
    jsStreamConfig config;
    jsErrCode code = 0;
    const char *subjects[] = { SUBJECT };
    must(natsConnection_ConnectTo(&connection, site->address));
    must(natsConnection_JetStream(&js, connection, NULL));
    (void)js_DeleteStream(js, STREAM, NULL, &code); /* there may be none */
    must(jsStreamConfig_Init(&config));
    config.Name = STREAM;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    must(js_AddStream(NULL, js, &config, NULL, &code));
    jsCtx_Destroy(js);
    natsConnection_Destroy(connection);
}

static const char *nats_open(struct site *site)
{
    struct server *s = &site->server;
    if (!server_is_installed("nats-server"))
        return "nats-server is not installed";
    server_prepare(s);
    server_arg(s, "nats-server");
    server_arg(s, "-a");
    server_arg(s, "127.0.0.1");
    server_arg(s, "-p");
    server_arg(s, "%u", s->port);
    server_arg(s, "-js");
    server_arg(s, "-sd");
    server_arg(s, "%s/data", s->folder);
    server_start(s);
    snprintf(site->address, sizeof site->address, "nats://127.0.0.1:%u", s->port);
    snprintf(site->sink, sizeof site->sink, "{url: \"%.64s/" SUBJECT "\", source: " CARRIER_SOURCE "}", site->address);
    make_stream(site);
    return NULL;
}

static void nats_close_site(struct site *site)
{
    server_remove(&site->server);
}

static void publish(jsCtx *js)
{
    struct raw_message m;
    natsMsg *message;
    raw_message_make(&m);
    must(natsMsg_Create(&message, SUBJECT, NULL, raw_payload(), BENCH_PAYLOAD));
    must(natsMsgHeader_Set(message, "ce-specversion", "1.0"));
    must(natsMsgHeader_Set(message, "ce-id", m.id));
    must(natsMsgHeader_Set(message, "ce-type", CARRIER_TYPE));
    must(natsMsgHeader_Set(message, "ce-source", CARRIER_SOURCE));
    must(natsMsgHeader_Set(message, "ce-time", m.time));
    must(natsMsgHeader_Set(message, "ce-datacontenttype", "application/json"));
    must(natsMsgHeader_Set(message, "Content-Type", "application/json"));
    must(natsMsgHeader_Set(message, "Nats-Msg-Id", m.id));
    must(js_PublishMsgAsync(js, &message, NULL)); /* waits while WINDOW are out */
}

static void on_error(jsCtx *js, jsPubAckErr *error, void *arg)
{
    (void)js;
    (void)arg;
    die("nats: %s", error->ErrText);
}

static double nats_raw_rate(struct site *site, size_t count)
{
    natsConnection *connection;
    jsCtx *js;
    jsOptions options;
    must(natsConnection_ConnectTo(&connection, site->address));
    must(jsOptions_Init(&options));
    options.PublishAsync.MaxPending = WINDOW;
    options.PublishAsync.StallWait = 10000; /* milliseconds */
    options.PublishAsync.ErrHandler = on_error;
    must(natsConnection_JetStream(&js, connection, &options));
    double begin = seconds_now();
    for (size_t i = 0; i < count; i++)
        publish(js);
    must(js_PublishAsyncComplete(js, NULL));
    double rate = (double)count / (seconds_now() - begin);
    jsCtx_Destroy(js);
    natsConnection_Destroy(connection);
    return rate;
}

static void nats_clear(struct site *site)
{
    make_stream(site);
}

const struct carrier carrier_nats = {
    .name = "transport_nats",
    .raw_name = "raw_nats",
    .messages = 100000,
    .open = nats_open,
    .close = nats_close_site,
    .clear = nats_clear,
    .raw_rate = nats_raw_rate,
};
