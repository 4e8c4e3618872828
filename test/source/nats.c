/* nats as a source: the suite's other side, and tests of NATS alone. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <nats/nats.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../transport/server.h"
#include "base/buf.h"
#include "base/slice.h"
#include "check.h"
#include "transport/cloudevents.h"
#include "world.h"

static struct server server;

static void server_gone(void)
{
    server_remove(&server);
}

struct asker {
    natsConnection *connection;
    jsCtx *stream;
};

static struct asker ask(void)
{
    struct asker a = { NULL, NULL };
    char url[64];
    snprintf(url, sizeof(url), "nats://127.0.0.1:%u", server.port);
    CHECK_EQ(natsConnection_ConnectTo(&a.connection, url), NATS_OK);
    CHECK_EQ(natsConnection_JetStream(&a.stream, a.connection, NULL), NATS_OK);
    return a;
}

static void leave(struct asker *a)
{
    jsCtx_Destroy(a->stream);
    natsConnection_Destroy(a->connection);
}

static void make_stream(void)
{
    struct asker a = ask();
    jsStreamConfig config;
    jsErrCode code = 0;
    const char *subjects[] = { "orders.>" };
    (void)js_DeleteStream(a.stream, "ORDERS", NULL, &code);
    CHECK_EQ(jsStreamConfig_Init(&config), NATS_OK);
    config.Name = "ORDERS";
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Duplicates = 100 * 1000 * 1000; /* ns: the least; the suite sends ids twice, and means it */
    CHECK_EQ(js_AddStream(NULL, a.stream, &config, NULL, &code), NATS_OK);
    leave(&a);
}

static void nats_start(struct world *w)
{
    if (!server_is_installed("nats-server"))
        SKIP("nats-server is not installed");
    if (server.folder[0] == '\0') {
        server_prepare(&server);
        server_arg(&server, "nats-server");
        server_arg(&server, "-a");
        server_arg(&server, "127.0.0.1");
        server_arg(&server, "-p");
        server_arg(&server, "%u", server.port);
        server_arg(&server, "-js");
        server_arg(&server, "-sd");
        server_arg(&server, "%s/data", server.folder);
        atexit(server_gone);
        server_start(&server);
    }
    make_stream();
    snprintf(w->url, sizeof(w->url), "nats://127.0.0.1:%u/?stream=ORDERS", server.port);
}

static void set(natsMsg *m, const char *name, pr_slice value, bool is_encoded)
{
    char text[1024];
    size_t size = value.size;
    CHECK(size * 3 < sizeof(text));
    if (is_encoded)
        size = cloudevent_percent_encode(value, text);
    else
        memcpy(text, value.data, size);
    text[size] = '\0';
    CHECK_EQ(natsMsgHeader_Set(m, name, text), NATS_OK);
}

static void nats_publish(struct world *w, const struct post *p)
{
    struct asker a = ask();
    natsMsg *m = NULL;
    char name[80];
    (void)w;
    CHECK_EQ(natsMsg_Create(&m, "orders.new", NULL, p->body.data, (int)p->body.size), NATS_OK);
    for (int i = 0; i < POST_PAIRS_MAX && p->attributes[i].name != NULL; i++) {
        snprintf(name, sizeof(name), "ce-%s", p->attributes[i].name);
        set(m, name, p->attributes[i].value, true);
    }
    for (int i = 0; i < POST_PAIRS_MAX && p->headers[i].name != NULL; i++)
        set(m, p->headers[i].name, p->headers[i].value, false);
    if (p->content_type != NULL)
        set(m, "Content-Type", slice_from(p->content_type), false);
    if (p->message_id != NULL)
        set(m, "Nats-Msg-Id", slice_from(p->message_id), false);
    jsErrCode code = 0;
    int64_t until_us = clock_mono_us(clock_system()) + WAIT_US;
    while (js_PublishMsg(NULL, a.stream, m, NULL, &code) != NATS_OK) { /* after a restart it takes a moment */
        CHECK(clock_mono_us(clock_system()) < until_us);
        usleep(20000);
    }
    natsMsg_Destroy(m);
    leave(&a);
}

static void nats_restart(struct world *w)
{
    (void)w;
    server_stop(&server, SIGTERM);
    server_start(&server);
}

static int64_t nats_left(struct world *w)
{
    struct asker a = ask();
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    (void)w;
    CHECK_EQ(js_GetConsumerInfo(&info, a.stream, "ORDERS", "postrider", NULL, &code), NATS_OK);
    int64_t count = info->NumAckPending + (int64_t)info->NumPending;
    jsConsumerInfo_Destroy(info);
    leave(&a);
    return count;
}

static const struct harness harness = {
    .kind = "nats",
    .is_positioned = true,
    .gives_back_late = true,
    .has_headers = true,
    .has_ids = true,
    .start = nats_start,
    .publish = nats_publish,
    .restart = nats_restart,
    .left = nats_left,
};
const struct harness *const harness_here = &harness;

/* ---- What is NATS's own ------------------------------------------------------------------------------- */

static struct world w;

TEST(nats_raw_message_has_its_subject_as_type)
{
    struct post p = { .body = PR_STR("{}") };
    world_init(&w);
    nats_publish(&w, &p);
    world_run(&w, 1000);
    CHECK_SLICE(world_rows(&w, 1)->listed[0].m.type, "orders.new");
    world_fini(&w);
}

/* The server takes any bytes for headers; no library would write these. */
static void publish_bytes(pr_slice head, pr_slice body)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)server.port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct buf out;
    char heard[4096] = "";
    size_t size = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    buf_init(&out, 1 << 20);
    buf_addf(&out, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB orders.new %zu %zu\r\n", head.size,
             head.size + body.size);
    buf_add_slice(&out, head);
    buf_add_slice(&out, body);
    buf_add_cstr(&out, "\r\nPING\r\n");
    CHECK_EQ(buf_failed(&out), 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(send(fd, out.data, out.size, MSG_NOSIGNAL), (ssize_t)out.size);
    while (strstr(heard, "PONG\r\n") == NULL) { /* it has taken it */
        ssize_t got = recv(fd, heard + size, sizeof(heard) - 1 - size, 0);
        CHECK(got > 0);
        size += (size_t)got;
    }
    close(fd);
    buf_fini(&out);
}

/* As many headers as their bytes allow: all of them are counted before there is room for them. */
TEST(nats_headers_without_a_name_are_no_headers_and_overrun_nothing) /* B206 */
{
    struct buf head;
    buf_init(&head, 1 << 20);
    buf_add_cstr(&head, "NATS/1.0\r\n");
    for (int i = 0; i < 20000; i++)
        buf_add_cstr(&head, ":\r\n");
    buf_add_cstr(&head, "k:v\r\n\r\n");
    world_init(&w);
    publish_bytes(buf_slice(&head), PR_STR("kept"));
    world_run(&w, 1000);
    const struct pr_message *m = &world_rows(&w, 1)->listed[0].m;
    CHECK_SLICE(m->payload, "kept");
    CHECK_SLICE(m->headers, "{\"k\":\"v\"}");
    world_fini(&w);
    buf_fini(&head);
}

TEST(nats_stream_that_is_not_there_is_told_and_what_to_do)
{
    world_init(&w);
    snprintf(w.url, sizeof(w.url), "nats://127.0.0.1:%u/?stream=NOSUCH", server.port);
    world_run(&w, 1000);
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    CHECK(strstr(world_status(&w).trouble.text, "stream not found: check stream and consumer in its url") != NULL);
    world_fini(&w);
}

TEST(nats_consumer_that_is_deleted_meanwhile_is_made_again)
{
    struct post p = { .body = PR_STR("1") };
    jsErrCode code = 0;
    world_init(&w);
    nats_publish(&w, &p);
    world_run(&w, 1000);
    (void)world_rows(&w, 1);
    struct asker a = ask();
    CHECK_EQ(js_DeleteConsumer(a.stream, "ORDERS", "postrider", NULL, &code), NATS_OK);
    leave(&a);
    p.body = PR_STR("2");
    nats_publish(&w, &p);
    (void)world_rows(&w, 2);
    WAIT_FOR(world_status(&w).counts.duplicates == 1); /* it begins at the start */
    world_fini(&w);
}

static bool has_consumer(void)
{
    struct asker a = ask();
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    bool has = js_GetConsumerInfo(&info, a.stream, "ORDERS", "postrider", NULL, &code) == NATS_OK;
    jsConsumerInfo_Destroy(info);
    leave(&a);
    return has;
}

/* What came between the last message and the new consumer is new, too. */
TEST(nats_consumer_of_new_messages_that_is_deleted_goes_on_where_it_was) /* B91 */
{
    static const char *const bodies[] = { "before", "1", "missed 1", "missed 2" };
    jsErrCode code = 0;
    world_init(&w);
    size_t size = strlen(w.url);
    snprintf(w.url + size, sizeof(w.url) - size, "&start=new");
    for (size_t i = 0; i < 4; i++) {
        struct post p = { .body = slice_from(bodies[i]) };
        if (i == 1) {
            world_run(&w, 1000);
            WAIT_FOR(has_consumer());
        }
        if (i == 2) {
            (void)world_rows(&w, 1);
            struct asker a = ask();
            CHECK_EQ(js_DeleteConsumer(a.stream, "ORDERS", "postrider", NULL, &code), NATS_OK);
            leave(&a);
        }
        nats_publish(&w, &p);
    }
    const struct query_reply *rows = world_rows(&w, 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_SLICE(rows->listed[i].m.payload, bodies[i + 1]);
    world_fini(&w);
}

/* Each delivery that comes back counts there, also while our store is away. */
TEST(nats_consumer_that_gives_messages_up_is_refused_with_what_to_do) /* B91 */
{
    jsConsumerConfig config;
    jsErrCode code = 0;
    world_init(&w);
    struct asker a = ask();
    CHECK_EQ(jsConsumerConfig_Init(&config), NATS_OK);
    config.Durable = "postrider";
    config.AckPolicy = js_AckExplicit;
    config.MaxDeliver = 5;
    CHECK_EQ(js_AddConsumer(NULL, a.stream, "ORDERS", &config, NULL, &code), NATS_OK);
    leave(&a);
    world_run(&w, 1000);
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    CHECK(strstr(world_status(&w).trouble.text, "has max_deliver 5") != NULL);
    CHECK(strstr(world_status(&w).trouble.text, "set it to -1") != NULL);
    world_fini(&w);
}

/* The sequence begins again: what is new stands where the old messages stood. */
TEST(nats_stream_that_is_deleted_and_made_again_loses_nothing)
{
    static const char *const bodies[] = { "1", "2", "3", "new 1", "new 2", "new 3" };
    world_init(&w);
    for (size_t i = 0; i < 6; i++) {
        struct post p = { .body = slice_from(bodies[i]) };
        if (i == 3) { /* all of the old ones are here */
            world_run(&w, 1000);
            (void)world_rows(&w, 3);
            make_stream();
        }
        nats_publish(&w, &p);
    }
    const struct query_reply *rows = world_rows(&w, 6);
    for (size_t i = 0; i < 6; i++)
        CHECK_SLICE(rows->listed[i].m.payload, bodies[i]);
    CHECK_EQ(world_status(&w).counts.duplicates, 0);
    world_fini(&w);
}

/* When the server stored the first message: a part of its position. */
static int64_t time_of_first(void)
{
    struct asker a = ask();
    natsMsg *m = NULL;
    jsErrCode code = 0;
    CHECK_EQ(js_GetMsg(&m, a.stream, "ORDERS", 1, NULL, &code), NATS_OK);
    int64_t time_ns = natsMsg_GetTime(m);
    natsMsg_Destroy(m);
    leave(&a);
    return time_ns;
}

TEST(nats_id_that_reads_like_a_position_is_another_message)
{
    struct post raw = { .body = PR_STR("at 1") }, number = { .message_id = "1", .body = PR_STR("called 1") };
    char position[64];
    world_init(&w);
    nats_publish(&w, &raw);
    nats_publish(&w, &number);
    snprintf(position, sizeof(position), "ORDERS/1/%" PRId64, time_of_first());
    struct post whole = { .message_id = position, .body = PR_STR("called like the whole position") };
    nats_publish(&w, &whole);
    world_run(&w, 1000);
    (void)world_rows(&w, 3);
    CHECK_EQ(world_status(&w).counts.duplicates, 0);
    world_fini(&w);
}

/* Asking for more would be refused, each time. */
TEST(nats_consumer_with_limits_of_its_own_is_asked_within_them)
{
    jsConsumerConfig config;
    jsErrCode code = 0;
    char body[8];
    world_init(&w);
    struct asker a = ask();
    CHECK_EQ(jsConsumerConfig_Init(&config), NATS_OK);
    config.Durable = "postrider";
    config.AckPolicy = js_AckExplicit;
    config.MaxRequestBatch = 2;
    config.MaxRequestExpires = INT64_C(1000000000);
    CHECK_EQ(js_AddConsumer(NULL, a.stream, "ORDERS", &config, NULL, &code), NATS_OK);
    leave(&a);
    for (int i = 0; i < 7; i++) {
        snprintf(body, sizeof(body), "%d", i);
        nats_publish(&w, &(struct post){ .body = slice_from(body) });
    }
    world_run(&w, 1000);
    (void)world_rows(&w, 7);
    CHECK_EQ(world_status(&w).state, SOURCE_RUNNING);
    usleep(1500000); /* a request has ended */
    nats_publish(&w, &(struct post){ .body = PR_STR("7") });
    (void)world_rows(&w, 8);
    CHECK_EQ(world_status(&w).state, SOURCE_RUNNING);
    world_fini(&w);
}
