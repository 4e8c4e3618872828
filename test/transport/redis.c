/* redis with a real server: the suite's other side, and tests of Redis alone. */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/slice.h"
#include "certificate.h"
#include "check.h"
#include "faults.h"
#include "server.h"

static struct server server; /* one for all tests; each begins with an empty one */
static unsigned tls_port;

static void server_gone(void)
{
    server_remove(&server);
}

static redisContext *ask(void)
{
    redisContext *c = redisConnect("127.0.0.1", (int)server.port);
    CHECK(c != NULL);
    CHECK_EQ(c->err, 0);
    return c;
}

/* A server that has just started loads its file first. */
static redisReply *command(redisContext *c, const char *text)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    redisReply *reply;
    while ((reply = redisCommand(c, text)) != NULL && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, "LOADING", 7) == 0) {
        freeReplyObject(reply);
        CHECK(world_now() < end_us);
        usleep(2000);
    }
    CHECK(reply != NULL);
    CHECK_STR(reply->type == REDIS_REPLY_ERROR ? reply->str : "", "");
    return reply;
}

static void tell(const char *text)
{
    redisContext *c = ask();
    freeReplyObject(command(c, text));
    redisFree(c);
}

static void redis_start(struct world *w)
{
    static char url[128];
    if (!server_is_installed("redis-server"))
        SKIP("redis-server is not installed");
    if (server.pid == 0 && server.folder[0] == '\0') {
        server_prepare(&server);
        server_arg(&server, "redis-server");
        server_arg(&server, "--port");
        server_arg(&server, "%u", server.port);
        server_arg(&server, "--bind");
        server_arg(&server, "127.0.0.1");
        tls_port = server_free_port();
        certificate_make(server.folder, "good", 86400);
        server_arg(&server, "--tls-port");
        server_arg(&server, "%u", tls_port);
        server_arg(&server, "--tls-cert-file");
        server_arg(&server, "%s/good.pem", server.folder);
        server_arg(&server, "--tls-key-file");
        server_arg(&server, "%s/good.key", server.folder);
        server_arg(&server, "--tls-auth-clients");
        server_arg(&server, "no");
        server_arg(&server, "--appendonly");
        server_arg(&server, "yes");
        server_arg(&server, "--dir");
        server_arg(&server, "%s", server.folder);
        atexit(server_gone);
        server_start(&server);
    }
    tell("FLUSHALL");
    tell("SET sink-fail text"); /* not a stream */
    snprintf(url, sizeof(url), "redis://127.0.0.1:%u/?stream=sink{subject}", server.port);
    w->config.url = url;
}

static void redis_stop(struct world *w)
{
    (void)w;
}

static void redis_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    CHECK(wish == WISH_OK || wish == WISH_FAIL);
    m->subject = wish == WISH_FAIL ? PR_STR("-fail") : PR_STR("");
}

static pr_slice field(const redisReply *entry, const char *name)
{
    const redisReply *fields = entry->element[1];
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (slice_eq_cstr((pr_slice){ fields->element[i]->str, fields->element[i]->len }, name))
            return (pr_slice){ fields->element[i + 1]->str, fields->element[i + 1]->len };
    return (pr_slice){ NULL, 0 };
}

static void redis_arrivals(struct world *w)
{
    redisContext *c = ask();
    redisReply *entries = command(c, "XRANGE sink - +");
    for (size_t i = 0; i < entries->elements; i++) {
        pr_id id;
        CHECK_EQ(pr_id_parse(field(entries->element[i], "ce_id"), &id), PR_OK);
        world_arrival_add(w, id, field(entries->element[i], "data"));
    }
    freeReplyObject(entries);
    redisFree(c);
}

const struct harness harness_redis = {
    .name = "redis",
    .wishes = 1 << WISH_OK | 1 << WISH_FAIL,
    .exact = true,
    .start = redis_start,
    .stop = redis_stop,
    .make = redis_make,
    .arrivals = redis_arrivals,
};

/* ---- What is redis's own --------------------------------------------------------------------------- */

static struct world w;
static char own_url[256];

/* The same server, another url; through a proxy when port is not 0. */
static void prepare(unsigned port, const char *rest)
{
    world_prepare(&w, &harness_redis, 0);
    snprintf(own_url, sizeof(own_url), "redis://127.0.0.1:%u/%s", port != 0 ? port : server.port, rest);
    w.config.url = own_url;
}

TEST(redis_writes_an_event_as_fields)
{
    prepare(0, "2?stream=orders.{type}&maxlen=1000");
    world_open(&w);
    size_t i = world_add(&w, "o-1", PR_STR("{\"a\":1}"), WISH_OK);
    w.messages[i].headers = PR_STR("{\"k\":\"v\",\"ce_id\":\"forged\"}");
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_OK);
    redisContext *c = ask();
    freeReplyObject(command(c, "SELECT 2"));
    redisReply *entries = command(c, "XRANGE orders.test.sent - +");
    CHECK_EQ(entries->elements, 1);
    const redisReply *e = entries->element[0];
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(w.messages[i].id, id);
    CHECK_SLICE(field(e, "ce_id"), slice_from(id));
    CHECK_SLICE(field(e, "ce_specversion"), "1.0");
    CHECK_SLICE(field(e, "ce_type"), "test.sent");
    CHECK_SLICE(field(e, "ce_partitionkey"), "o-1");
    CHECK_SLICE(field(e, "content-type"), "application/json");
    CHECK_SLICE(field(e, "data"), "{\"a\":1}");
    CHECK_SLICE(field(e, "k"), "v");
    freeReplyObject(entries);
    redisFree(c);
    world_fini(&w);
}

TEST(redis_refuses_own_headers_that_it_would_lose)
{
    prepare(0, "?stream=sink");
    world_open(&w);
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.messages[i].headers = PR_STR("{\"k\":\"v\",\"data\":\"x\"}");
    world_run(&w);
    CHECK_EQ(w.results[i].outcome, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_VALIDATION_FAILURE);
    CHECK(w.results[i].unsent);
    CHECK(strstr(w.results[i].error, "the message's header \"data\" cannot be sent") != NULL);
    world_fini(&w);
}

TEST(redis_writes_structured_and_raw)
{
    static const char *const envelopes[] = { "structured", "raw" };
    for (size_t n = 0; n < 2; n++) {
        prepare(0, "?stream=sink");
        w.config.envelope = envelopes[n];
        world_open(&w);
        size_t i = world_add(&w, "", PR_STR("{\"a\":1}"), WISH_OK);
        w.messages[i].headers = PR_STR("{\"k\":\"v\"}");
        world_run(&w);
        redisContext *c = ask();
        redisReply *entries = command(c, "XRANGE sink - +");
        CHECK_EQ(entries->elements, 1);
        const redisReply *e = entries->element[0];
        CHECK_EQ(field(e, "ce_id").size, 0);
        CHECK_SLICE(field(e, "k"), "v");
        if (n == 0) {
            CHECK_SLICE(field(e, "content-type"), "application/cloudevents+json");
            CHECK(slice_contains(field(e, "data"), PR_STR("\"data\":{\"a\":1}")));
        } else {
            CHECK_SLICE(field(e, "data"), "{\"a\":1}");
        }
        freeReplyObject(entries);
        redisFree(c);
        world_fini(&w);
    }
}

TEST(redis_says_what_the_server_says) /* B70 */
{
    static const struct {
        const char *set, *unset, *code;
        int reason;
    } cases[] = {
        { "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS",
          PR_REASON_TRANSPORT_UNAVAILABLE },
        { "ACL SETUSER default -xadd", "ACL SETUSER default +xadd", "NOPERM", PR_REASON_UNAUTHORIZED },
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        prepare(0, "?stream=sink");
        world_open(&w);
        tell(cases[n].set);
        world_add(&w, "", PR_STR("{}"), WISH_OK);
        world_run(&w);
        tell(cases[n].unset);
        CHECK_EQ(w.results[0].outcome, SEND_FAILED);
        CHECK_STR(w.results[0].code, cases[n].code);
        CHECK_EQ(w.results[0].reason, cases[n].reason);
        CHECK(strncmp(w.results[0].error, cases[n].code, strlen(cases[n].code)) == 0);
        world_add(&w, "", PR_STR("{}"), WISH_OK); /* and the connection goes on */
        world_run(&w);
        CHECK_EQ(w.results[1].outcome, SEND_OK);
        world_fini(&w);
    }
}

TEST(redis_logs_in_or_says_that_it_may_not)
{
    prepare(0, "?stream=sink");
    tell("ACL SETUSER rider on >secret ~* +@all");
    snprintf(own_url, sizeof(own_url), "redis://rider:secret@127.0.0.1:%u/3?stream=sink", server.port);
    world_open(&w);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_OK);
    world_fini(&w);

    prepare(0, "?stream=sink");
    snprintf(own_url, sizeof(own_url), "redis://rider:wrong@127.0.0.1:%u/3?stream=sink", server.port);
    world_open(&w);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_FAILED);
    CHECK_EQ(w.results[0].reason, PR_REASON_UNAUTHORIZED);
    CHECK(strstr(w.results[0].error, "WRONGPASS") != NULL);
    CHECK(strstr(w.results[0].error, "wrong@") == NULL);
    world_fini(&w);
}

TEST(redis_is_absent_at_the_start_and_comes)
{
    prepare(0, "?stream=sink");
    server_stop(&server, SIGTERM);
    world_open(&w);
    size_t i = faults_send(&w, SEND_FAILED);
    CHECK_EQ(w.results[i].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK(strstr(w.results[i].error, "refused") != NULL);
    server_start(&server);
    faults_send_until_ok(&w);
    world_fini(&w);
}

TEST(redis_restarts_in_flight_and_nothing_is_lost)
{
    prepare(0, "?stream=sink");
    faults_take_off(&w);
    server_stop(&server, SIGKILL);
    faults_crash(&w);
    server_start(&server);
    faults_land(&w);
}

static struct faults faults(void)
{
    return (struct faults){ &harness_redis, "redis://127.0.0.1:%u/?stream=sink{subject}" };
}

TEST(redis_is_cut_off_in_the_middle_of_an_answer)
{
    struct faults f = faults();
    faults_cut(&f, 5);
}

TEST(redis_gives_up_at_the_deadline_when_nobody_answers)
{
    struct faults f = faults();
    faults_hold(&f);
}

TEST(redis_does_not_wait_for_a_server_that_says_nothing)
{
    struct faults f = { &harness_redis, "redis://:secret@127.0.0.1:%u/?stream=sink" };
    faults_silent(&f);
}

TEST(redis_does_not_hammer_a_server_that_is_away)
{
    struct faults f = faults();
    faults_hammer(&f);
}

TEST(redis_verifies_a_certificate)
{
    prepare(0, "");
    snprintf(own_url, sizeof(own_url), "rediss://127.0.0.1:%u/?stream=sink&ca=%s/good.pem", tls_port, server.folder);
    world_open(&w);
    for (size_t i = 0; i < 20; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    faults_check(&w);
    CHECK_EQ(w.arrival_count, 20);
    world_fini(&w);

    prepare(0, ""); /* nobody on this machine knows that authority */
    snprintf(own_url, sizeof(own_url), "rediss://127.0.0.1:%u/?stream=sink", tls_port);
    faults_refused(&w, own_url, PR_REASON_TRANSPORT_UNAVAILABLE, "tls", "its certificate was refused");
}

TEST(redis_shows_its_own_certificate)
{
    char url[128], set[256];
    prepare(0, "");
    world_fini(&w);
    certificate_make_client(server.folder, "client", "good");
    snprintf(set, sizeof(set), "CONFIG SET tls-ca-cert-file %s/good.pem tls-auth-clients yes", server.folder);
    tell(set);
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%u/?stream=sink&", tls_port);
    faults_mutual(&harness_redis, url, server.folder, "it may require a client certificate");
    tell("CONFIG SET tls-auth-clients no");
}

TEST(redis_says_when_a_password_is_missing)
{
    prepare(0, "?stream=sink");
    redisContext *c = ask(); /* stays logged in */
    freeReplyObject(command(c, "CONFIG SET requirepass secret"));
    world_open(&w);
    for (size_t i = 0; i < 20; i++)
        world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    freeReplyObject(command(c, "ACL SETUSER default nopass"));
    redisFree(c);
    for (size_t i = 0; i < 20; i++) {
        CHECK_EQ(w.results[i].outcome, SEND_FAILED);
        CHECK_EQ(w.results[i].reason, PR_REASON_UNAUTHORIZED);
        CHECK(strstr(w.results[i].error, "check user and password") != NULL);
    }
    faults_check(&w);
    world_fini(&w);
}

TEST(redis_says_when_there_is_no_such_database)
{
    prepare(0, "99?stream=sink");
    faults_refused(&w, own_url, PR_REASON_DESTINATION_MISSING, "", "check the database in its url");
}

TEST(redis_says_what_to_do_about_mistakes)
{
    char password[128];
    prepare(0, "");
    world_fini(&w);
    snprintf(password, sizeof(password), "redis://rider:wr0ng@127.0.0.1:%u/", server.port);
    faults_troubles(&(struct troubles){ &harness_redis, "redis://nosuch.invalid/?plain=true", password, NULL,
                                        "rediss://localhost:%u/?" });
}

TEST(redis_takes_back_what_a_full_wire_did_not_take) /* B23 */
{
    struct faults f = faults();
    faults_cancel(&f);
}

TEST(redis_refuses_a_wrong_url)
{
    static const struct {
        const char *url, *text;
    } cases[] = {
        { "redis://127.0.0.1/one", "database number" },
        { "redis://127.0.0.1?stream={typ}", "placeholders" },
        { "redis://127.0.0.1?strem=a", "known are: stream, maxlen, plain" },
        { "redis://127.0.0.1?maxlen=-1", "maxlen" },
        { "redis://broker.example", "plain=true" },
        { "redis://secret@127.0.0.1", "redis://:password@host" },
        { "rediss://127.0.0.1?ca=/no/such/file", "ca: /no/such/file cannot be read: No such file" },
        { "rediss://127.0.0.1?cert=/no/such/file", "cert: /no/such/file cannot be read: No such file" },
        { "rediss://127.0.0.1?cert=/dev/null&certkey=/no/such/file", "key: /no/such/file cannot be read: No such" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct endpoint_config config = { .name = "r", .url = cases[i].url };
        struct pr_error error = { 0 };
        CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
        CHECK(strstr(error.text, cases[i].text) != NULL);
    }
}
