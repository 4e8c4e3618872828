/* nats with a real server: the suite's other side, and tests of NATS alone. */
#include <nats/nats.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/slice.h"
#include "certificate.h"
#include "check.h"
#include "faults.h"
#include "server.h"
#include "transport/broker/nats_creds.h"

#define PAYLOAD_MAX (2 << 20) /* the server's */

static struct server server; /* one for all tests; each begins with an empty stream */

static void server_gone(void)
{
    server_remove(&server);
}

static void write_config(struct server *s, const char *more)
{
    char path[sizeof(s->folder) + 16];
    snprintf(path, sizeof(path), "%s/config", s->folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file,
            "listen: 127.0.0.1:%u\n"
            "max_payload: %d\n"
            "jetstream { store_dir: \"%s/data\" }\n"
            "authorization { users = [\n"
            "  { user: anybody, password: any }\n"
            "  { user: rider, password: secret, permissions: { publish: { deny: \"sink.forbidden\" } } }\n"
            "] }\n"
            "no_auth_user: anybody\n"
            "%s",
            s->port, PAYLOAD_MAX, s->folder, more);
    CHECK_EQ(fclose(file), 0);
    server_arg(s, "nats-server");
    server_arg(s, "-c");
    server_arg(s, "%s", path);
}

/* The server seen by another client. */
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

/* 0: no limit. */
static void make_stream(int64_t max, int64_t max_bytes)
{
    struct asker a = ask();
    jsStreamConfig config;
    jsErrCode code = 0;
    const char *subjects[] = { "sink", "sink.>" };
    (void)js_DeleteStream(a.stream, "SINK", NULL, &code);
    CHECK_EQ(jsStreamConfig_Init(&config), NATS_OK);
    config.Name = "SINK";
    config.Subjects = subjects;
    config.SubjectsLen = 2;
    if (max > 0)
        config.MaxMsgs = max;
    if (max_bytes > 0)
        config.MaxBytes = max_bytes;
    config.Discard = js_DiscardNew;
    CHECK_EQ(js_AddStream(NULL, a.stream, &config, NULL, &code), NATS_OK);
    leave(&a);
}

static void nats_start(struct world *w)
{
    static char url[128];
    if (!server_is_installed("nats-server"))
        SKIP("nats-server is not installed");
    if (server.folder[0] == '\0') {
        server_prepare(&server);
        write_config(&server, "");
        atexit(server_gone);
    }
    if (server.pid == 0)
        server_start(&server);
    make_stream(0, 0);
    snprintf(url, sizeof(url), "nats://127.0.0.1:%u/sink{subject}", server.port);
    w->config.url = url;
}

static void nats_stop(struct world *w)
{
    (void)w;
}

static void nats_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    CHECK(wish == WISH_OK || wish == WISH_FAIL);
    m->subject = wish == WISH_FAIL ? PR_STR("-nowhere") : PR_STR("");
}

static pr_slice data_of(const natsMsg *message)
{
    return (pr_slice){ natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message) };
}

static const char *header(natsMsg *message, const char *name)
{
    const char *value = NULL;
    return natsMsgHeader_Get(message, name, &value) == NATS_OK ? value : "";
}

static void nats_arrivals(struct world *w)
{
    struct asker a = ask();
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    CHECK_EQ(js_GetStreamInfo(&info, a.stream, "SINK", NULL, &code), NATS_OK);
    for (uint64_t n = info->State.FirstSeq; n <= info->State.LastSeq && info->State.Msgs > 0; n++) {
        natsMsg *message = NULL;
        pr_id id;
        CHECK_EQ(js_GetMsg(&message, a.stream, "SINK", n, NULL, &code), NATS_OK);
        CHECK_EQ(pr_id_parse(slice_from(header(message, "ce-id")), &id), PR_OK);
        world_arrival_add(w, id, data_of(message));
        natsMsg_Destroy(message);
    }
    jsStreamInfo_Destroy(info);
    leave(&a);
}

const struct harness harness_nats = {
    .name = "nats",
    .wishes = 1 << WISH_OK | 1 << WISH_FAIL,
    .exact = true,
    .start = nats_start,
    .stop = nats_stop,
    .make = nats_make,
    .arrivals = nats_arrivals,
};

/* ---- What is NATS's own -------------------------------------------------------------------------------- */

static struct world w;
static char own_url[512];

static void prepare(const char *user, const char *rest)
{
    world_prepare(&w, &harness_nats, 0);
    snprintf(own_url, sizeof(own_url), "nats://%s127.0.0.1:%u/%s", user, server.port, rest);
    w.config.url = own_url;
}

TEST(nats_writes_an_event_in_three_ways)
{
    static const char *const envelopes[] = { "binary", "structured", "raw" };
    for (size_t n = 0; n < 3; n++) {
        char id[PR_ID_TEXT_SIZE];
        jsErrCode code = 0;
        natsMsg *got = NULL;
        prepare("", "sink.{type}");
        w.config.envelope = envelopes[n];
        world_open(&w);
        size_t i = world_add(&w, "o 1", PR_STR("{\"a\":1}"), WISH_OK);
        w.messages[i].headers = n == 2 ? PR_STR("{\"k\":\"v\",\"l\":\"a\\nb\"}")
                                       : PR_STR("{\"k\":\"v\",\"l\":\"a\\nb\",\"ce-id\":\"forged\"}");
        world_run(&w);
        CHECK_EQ(w.results[i].outcome, SEND_OK);
        struct asker a = ask();
        CHECK_EQ(js_GetLastMsg(&got, a.stream, "SINK", "sink.test.sent", NULL, &code), NATS_OK);
        pr_id_format(w.messages[i].id, id);
        CHECK_STR(header(got, "Nats-Msg-Id"), id);
        CHECK_STR(header(got, "k"), "v");
        CHECK_STR(header(got, "l"), "a%0Ab");
        CHECK_STR(header(got, "ce-id"), n == 0 ? id : "");
        CHECK_STR(header(got, "ce-type"), n == 0 ? "test.sent" : "");
        CHECK_STR(header(got, "ce-partitionkey"), n == 0 ? "o%201" : "");
        CHECK_STR(header(got, "ce-datacontenttype"), n == 0 ? "application/json" : "");
        if (n == 1) {
            CHECK_STR(header(got, "Content-Type"), "application/cloudevents+json");
            CHECK(slice_contains(data_of(got), PR_STR("\"data\":{\"a\":1}")));
        } else {
            CHECK_SLICE(data_of(got), "{\"a\":1}");
        }
        natsMsg_Destroy(got);
        leave(&a);
        world_fini(&w);
    }
}

TEST(nats_refuses_own_headers_that_it_would_lose)
{
    prepare("", "sink.{type}");
    world_open(&w);
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.messages[i].headers = PR_STR("{\"k\":\"v\",\"Nats-Expected-Stream\":\"x\"}");
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_VALIDATION_FAILURE);
    CHECK(w.results[i].unsent);
    CHECK(strstr(w.results[i].error, "the message's header \"Nats-Expected-Stream\" cannot be sent") != NULL);
    world_fini(&w);
}

TEST(nats_stores_once_what_is_sent_twice)
{
    prepare("", "sink");
    world_open(&w);
    size_t first = faults_send(&w, SEND_OK);
    size_t again = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.messages[again].id = w.messages[first].id;
    world_run(&w);
    CHECK_EQ(w.results[again].outcome, SEND_OK);
    world_look(&w);
    CHECK_EQ(w.arrival_count, 1);
    world_fini(&w);
}

TEST(nats_says_what_the_server_says) /* B70 */
{
    prepare("", "nowhere");
    faults_refused(&w, own_url, PR_REASON_DESTINATION_MISSING, "503", "no stream receives the subject \"nowhere\"");
    prepare("rider:wrong@", "sink");
    faults_refused(&w, own_url, PR_REASON_UNAUTHORIZED, "Authentication Violation", "127.0.0.1");
    prepare("rider:secret@", "sink.forbidden");
    faults_refused(&w, own_url, PR_REASON_UNAUTHORIZED, "Not Permitted", "sink.forbidden");
    prepare("", "sink.{source}");
    faults_refused(&w, own_url, PR_REASON_VALIDATION_FAILURE, "Invalid Subject", "\"sink.\"");
    prepare("", "");
    faults_refused(&w, "nats://nosuch.invalid/sink?plain=true", PR_REASON_TRANSPORT_UNAVAILABLE, "lookup",
                   "nosuch.invalid:4222");
}

TEST(nats_takes_no_orders_to_the_server_from_a_message) /* B206 */
{
    prepare("", "{subject}");
    world_open(&w);
    size_t order = world_add(&w, "", PR_STR(""), WISH_OK), good = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.messages[order].subject = PR_STR("$JS.API.STREAM.DELETE.SINK");
    w.messages[good].subject = PR_STR("sink");
    world_run(&w);
    CHECK_EQ(w.results[order].outcome, SEND_FAILED);
    CHECK_EQ(w.results[order].reason, PR_REASON_VALIDATION_FAILURE);
    CHECK_EQ(w.results[good].outcome, SEND_OK); /* the stream is still there */
    world_fini(&w);
}

TEST(nats_says_when_a_full_stream_refuses)
{
    static const struct {
        int64_t messages, bytes;
        const char *text;
    } cases[] = { { 1, 0, "maximum messages exceeded" }, { 0, 2000, "maximum bytes exceeded" } };
    for (size_t n = 0; n < 2; n++) {
        prepare("", "sink");
        make_stream(cases[n].messages, cases[n].bytes);
        world_open(&w);
        faults_send(&w, SEND_OK);
        size_t full;
        do {
            full = world_add(&w, "", PR_STR("{}"), WISH_OK);
            world_run(&w);
        } while (w.results[full].outcome == SEND_OK && full < 20);
        CHECK_EQ(w.results[full].outcome, SEND_FAILED);
        CHECK_STR(w.results[full].code, "10077");
        CHECK_EQ(w.results[full].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
        CHECK(strstr(w.results[full].error, cases[n].text) != NULL);
        world_fini(&w);
    }
}

TEST(nats_refuses_what_is_over_the_servers_limit)
{
    static char large[PAYLOAD_MAX + 1];
    prepare("rider:secret@", "sink");
    world_open(&w);
    world_add(&w, "", PR_BYTES(large, sizeof(large)), WISH_OK);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_FAILED);
    CHECK_EQ(w.results[0].reason, PR_REASON_MESSAGE_TOO_LARGE);
    CHECK(strstr(w.results[0].error, "max_payload") != NULL);
    CHECK_EQ(w.results[1].outcome, SEND_OK);
    world_fini(&w);
}

static void count_one(natsConnection *connection, natsSubscription *subscription, natsMsg *message, void *closure)
{
    (void)connection;
    (void)subscription;
    (void)closure;
    natsMsg_Destroy(message);
}

TEST(nats_without_jetstream_means_that_the_server_has_it)
{
    struct asker a;
    natsSubscription *heard = NULL;
    int64_t delivered = 0;
    prepare("", "news?jetstream=false");
    a = ask();
    CHECK_EQ(natsConnection_Subscribe(&heard, a.connection, "news", count_one, NULL), NATS_OK);
    CHECK_EQ(natsConnection_Flush(a.connection), NATS_OK);
    world_open(&w);
    for (size_t i = 0; i < 50; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    for (size_t i = 0; i < 50; i++)
        CHECK_EQ(w.results[i].outcome, SEND_OK);
    for (int64_t end_us = world_now() + WORLD_WAIT_US; delivered < 50;) {
        CHECK(world_now() < end_us);
        CHECK_EQ(natsConnection_Flush(a.connection), NATS_OK);
        CHECK_EQ(natsSubscription_GetDelivered(heard, &delivered), NATS_OK);
    }
    natsSubscription_Destroy(heard);
    leave(&a);
    world_fini(&w);
}

/* A seed of 32 known bytes, and what libnats makes of it. */
TEST(nats_signs_a_nonce_with_the_seed_of_its_credentials)
{
    static const char seed[] = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y";
    struct pr_error error = { 0 };
    struct buf jwt, ours, theirs;
    unsigned char *raw = NULL;
    int size = 0;
    FILE *file;
    char name[256];
    prepare("", "sink");
    world_fini(&w);
    snprintf(name, sizeof(name), "%s/creds", server.folder);
    file = fopen(name, "we");
    CHECK(file != NULL);
    fprintf(file,
            "-----BEGIN NATS USER JWT-----\neyJ0.eyJq.sig\n------END NATS USER JWT------\n\n"
            "-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
            seed);
    fclose(file);
    buf_init(&jwt, 1000);
    buf_init(&ours, 1000);
    buf_init(&theirs, 1000);
    CHECK_OK(nats_creds_sign(name, PR_STR("nonce-1"), &jwt, &ours, &error), &error);
    CHECK_SLICE(buf_slice(&jwt), "eyJ0.eyJq.sig");
    CHECK_EQ(nats_Sign(seed, "nonce-1", &raw, &size), NATS_OK);
    base64_encode(&theirs, (pr_slice){ (char *)raw, (size_t)size });
    for (size_t i = 0; i < theirs.size; i++)
        theirs.data[i] = theirs.data[i] == '+' ? '-' : theirs.data[i] == '/' ? '_' : theirs.data[i];
    CHECK(slice_starts_with(buf_slice(&theirs), buf_slice(&ours)));
    CHECK_EQ(ours.size, 86);
    CHECK_EQ(nats_seed_sign(PR_STR("SUAA"), PR_STR("nonce-1"), &ours, &error), PR_EINVAL);
    CHECK_EQ(nats_creds_sign("/no/such/file", PR_STR("nonce-1"), &jwt, &ours, &error), PR_EINVAL);
    free(raw);
    buf_fini(&jwt);
    buf_fini(&ours);
    buf_fini(&theirs);
}

TEST(nats_verifies_a_certificate)
{
    static const struct {
        const char *name;
        long valid_s;
    } cases[] = { { "good", 3600 }, { "old", -60 } };
    for (size_t n = 0; n < 2; n++) {
        struct server secure;
        char more[512];
        prepare("", "sink");
        server_prepare(&secure);
        certificate_make(secure.folder, cases[n].name, cases[n].valid_s);
        snprintf(more, sizeof(more), "tls { cert_file: \"%s/%s.pem\", key_file: \"%s/%s.key\" }\n", secure.folder,
                 cases[n].name, secure.folder, cases[n].name);
        write_config(&secure, more);
        server_start(&secure);
        snprintf(own_url, sizeof(own_url), "nats://localhost:%u/news?tls=true&jetstream=false&ca=%s/%s.pem",
                 secure.port, secure.folder, cases[n].name);
        if (n == 0) {
            world_open(&w);
            faults_send(&w, SEND_OK);
            world_fini(&w);
            prepare("", "sink"); /* nobody on this machine knows that authority */
            snprintf(own_url, sizeof(own_url), "nats://localhost:%u/news?tls=true", secure.port);
        }
        faults_refused(&w, own_url, PR_REASON_TRANSPORT_UNAVAILABLE, "tls", n == 0 ? "certificate" : "expired");
        server_remove(&secure);
    }
}

TEST(nats_shows_its_own_certificate)
{
    struct server secure;
    char more[512], url[128];
    prepare("", "sink");
    world_fini(&w);
    server_prepare(&secure);
    certificate_make(secure.folder, "good", 3600);
    certificate_make_client(secure.folder, "client", "good");
    snprintf(more, sizeof(more),
             "tls { cert_file: \"%s/good.pem\", key_file: \"%s/good.key\", ca_file: \"%s/good.pem\", verify: "
             "true }\n",
             secure.folder, secure.folder, secure.folder);
    write_config(&secure, more);
    server_start(&secure);
    snprintf(url, sizeof(url), "nats://localhost:%u/news?tls=true&jetstream=false&", secure.port);
    faults_mutual(&harness_nats, url, secure.folder, "it may require a client certificate");
    server_remove(&secure);
}

TEST(nats_restarts_in_flight_and_nothing_is_lost)
{
    prepare("", "sink");
    faults_take_off(&w);
    server_stop(&server, SIGKILL);
    faults_crash(&w);
    server_start(&server);
    faults_land(&w);
}

static struct faults faults(void)
{
    return (struct faults){ &harness_nats, "nats://127.0.0.1:%u/sink{subject}" };
}

TEST(nats_is_cut_off_in_the_middle_of_an_answer)
{
    struct faults f = faults();
    faults_cut(&f, 5);
}

TEST(nats_gives_up_at_the_deadline_when_nobody_answers)
{
    struct faults f = faults();
    faults_hold(&f);
}

TEST(nats_takes_back_what_is_not_on_the_wire) /* B23, P4 */
{
    struct faults f = faults();
    faults_cancel(&f);
}

/* The same with the server itself; it also must not hold us up. */
TEST(nats_takes_back_what_a_server_that_stands_still_has_not_taken) /* B23, P4 */
{
    static char body[400000];
    size_t returned = 0;
    prepare("", "sink");
    world_open(&w);
    faults_send(&w, SEND_OK);
    CHECK_EQ(kill(server.pid, SIGSTOP), 0);
    for (size_t i = 0; i < 60; i++)
        world_add(&w, "", PR_BYTES(body, sizeof(body)), WISH_OK);
    int64_t begin_us = world_now();
    world_submit(&w);
    world_poll(&w, PR_MILLISECONDS(50));
    bool held_up = world_now() > begin_us + PR_SECONDS(2);
    world_cancel(&w);
    CHECK_EQ(kill(server.pid, SIGCONT), 0);
    CHECK(!held_up);
    world_collect(&w);
    for (size_t i = 1; i < w.message_count; i++) {
        CHECK(w.results[i].outcome == SEND_RETURNED || w.results[i].outcome == SEND_OK);
        returned += w.results[i].outcome == SEND_RETURNED;
    }
    CHECK(returned > 30 && returned < 60);
    faults_check(&w);
    world_fini(&w);
}

TEST(nats_does_not_wait_for_a_server_that_says_nothing)
{
    struct faults f = faults();
    faults_silent(&f);
}

TEST(nats_does_not_hammer_a_server_that_is_away)
{
    struct faults f = faults();
    faults_hammer(&f);
}

TEST(nats_says_what_to_do_about_mistakes)
{
    char password[128], missing[128];
    prepare("", "");
    world_fini(&w);
    snprintf(password, sizeof(password), "nats://rider:wr0ng@127.0.0.1:%u/sink", server.port);
    snprintf(missing, sizeof(missing), "nats://127.0.0.1:%u/nosuch", server.port);
    faults_troubles(
        &(struct troubles){ &harness_nats, "nats://nosuch.invalid/sink?plain=true", password, missing, NULL });
}

TEST(nats_refuses_a_wrong_url)
{
    static const struct {
        const char *url, *text;
    } cases[] = {
        { "nats://127.0.0.1", "it needs a subject after the host" },
        { "nats://127.0.0.1/a b", "it needs a subject after the host" },
        { "nats://127.0.0.1/a..b", "it needs a subject after the host" },
        { "nats://127.0.0.1/a.>", "it needs a subject after the host" },
        { "nats://127.0.0.1/{typ}", "placeholders" },
        { "nats://127.0.0.1/a?jetsteam=false", "known are: jetstream" },
        { "nats://127.0.0.1/a?jetstream=no", "jetstream" },
        { "nats://broker.example/a", "plain=true" },
        { "nats://127.0.0.1/a?creds=/no/such/file", "creds: /no/such/file cannot be read: No such file" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct endpoint_config config = { .name = "r", .url = cases[i].url };
        struct pr_error error = { 0 };
        CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
        CHECK(strstr(error.text, cases[i].text) != NULL);
    }
}
