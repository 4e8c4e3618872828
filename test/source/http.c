/* http as a source: the suite's other side, a sender that repeats requests that were not accepted; and tests of HTTP
 * alone. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../transport/server.h"
#include "base/buf.h"
#include "base/slice.h"
#include "check.h"
#include "transport/http/signature.h"
#include "world.h"

#define PATH "/hooks/orders"
#define SECRET_OLD "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SECRET_NEW "whsec_QYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GK012"

static unsigned port;

/* ---- A sender with an outbox: in order, each until it is accepted --------------------------------------- */

struct letter {
    struct letter *next;
    struct curl_slist *headers;
    pr_slice body;
};
static struct letter *first, **last = &first;
static size_t letter_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool sends;

static size_t ignore(char *data, size_t size, size_t count, void *user)
{
    (void)data, (void)user;
    return size * count;
}

/* The status; 0: nobody answered. */
static long send_letter(CURL *curl, const struct letter *l)
{
    long status = 0;
    char url[100];
    snprintf(url, sizeof(url), "http://127.0.0.1:%u" PATH, port);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 20L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, l->headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, l->body.data);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)l->body.size);
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static void *send_all(void *arg)
{
    CURL *curl = curl_easy_init();
    (void)arg;
    for (;; usleep(3000)) {
        pthread_mutex_lock(&lock);
        struct letter *l = first;
        pthread_mutex_unlock(&lock);
        while (l != NULL && send_letter(curl, l) == 202) {
            pthread_mutex_lock(&lock);
            first = l->next;
            last = first == NULL ? &first : last;
            letter_count--;
            curl_slist_free_all(l->headers);
            free(l);
            l = first;
            pthread_mutex_unlock(&lock);
        }
    }
    return NULL;
}

static void percent_encode(struct buf *out, pr_slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '%')
            buf_addf(out, "%%%02X", c);
        else
            buf_add_char(out, (char)c);
    }
}

static struct curl_slist *header(struct curl_slist *list, const char *prefix, const char *name, pr_slice value,
                                 bool is_encoded)
{
    struct buf text;
    buf_init(&text, 10000);
    buf_addf(&text, "%s%s: ", prefix, name);
    if (is_encoded)
        percent_encode(&text, value);
    else
        buf_add_slice(&text, value);
    list = curl_slist_append(list, text.data);
    buf_fini(&text);
    return list;
}

static void http_publish(struct world *w, const struct post *p)
{
    struct letter *l = calloc(1, sizeof(*l) + p->body.size + 1);
    struct curl_slist *h = NULL;
    (void)w;
    CHECK(l != NULL);
    for (int i = 0; i < POST_PAIRS_MAX && p->attributes[i].name != NULL; i++)
        h = header(h, "ce-", p->attributes[i].name, p->attributes[i].value, true);
    for (int i = 0; i < POST_PAIRS_MAX && p->headers[i].name != NULL; i++)
        h = header(h, "", p->headers[i].name, p->headers[i].value, false);
    h = header(h, "", "Content-Type", slice_from(p->content_type), false); /* none: curl adds none of its own */
    if (p->message_id != NULL)
        h = header(h, "", "webhook-id", slice_from(p->message_id), false);
    l->headers = h;
    l->body = (pr_slice){ (char *)(l + 1), p->body.size };
    memcpy(l + 1, p->body.data, p->body.size);
    pthread_mutex_lock(&lock);
    *last = l;
    last = &l->next;
    letter_count++;
    pthread_mutex_unlock(&lock);
}

static int64_t http_left(struct world *w)
{
    (void)w;
    pthread_mutex_lock(&lock);
    int64_t count = (int64_t)letter_count;
    pthread_mutex_unlock(&lock);
    return count;
}

static void http_start(struct world *w)
{
    pthread_t thread;
    pthread_mutex_lock(&lock);
    first = NULL; /* what a failed test has left is not worth its memory */
    last = &first;
    letter_count = 0;
    port = server_free_port();
    pthread_mutex_unlock(&lock);
    snprintf(w->url, sizeof(w->url), "http://127.0.0.1:%u" PATH, port);
    if (!sends)
        CHECK_EQ(pthread_create(&thread, NULL, send_all, NULL), 0);
    sends = true;
}

/* The broker of others is us. */
static void http_restart(struct world *w)
{
    world_stop(w);
    world_run(w, 1000);
}

static const struct harness harness = {
    .kind = "http",
    .has_headers = true,
    .has_ids = true,
    .is_batched = true,
    .start = http_start,
    .publish = http_publish,
    .restart = http_restart,
    .left = http_left,
};
const struct harness *const harness_here = &harness;

/* ---- What is HTTP's own: bytes on a socket ------------------------------------------------------------------ */

static struct world w;
static char answer[65536];

static int dial(void)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval patience = { .tv_sec = 20 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    return fd;
}

static void say(int fd, const char *bytes)
{
    CHECK_EQ(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL), (ssize_t)strlen(bytes));
}

/* One answer with its body: what it says. */
static const char *hear(int fd)
{
    size_t size = 0;
    for (;;) {
        answer[size] = '\0';
        char *end = strstr(answer, "\r\n\r\n"), *length = strstr(answer, "Content-Length: ");
        bool is_interim = strncmp(answer, "HTTP/1.1 100", 12) == 0;
        if (end != NULL && (is_interim || (length != NULL && strlen(end + 4) >= strtoul(length + 16, NULL, 10))))
            return answer;
        ssize_t got = recv(fd, answer + size, 1, 0);
        if (got <= 0)
            return answer;
        size += (size_t)got;
        CHECK(size < sizeof(answer) - 1);
    }
}

#define POST_HEAD "POST " PATH " HTTP/1.1\r\nHost: here\r\n"
#define EVENT "{\"specversion\":\"1.0\",\"id\":\"%s\",\"type\":\"a\",\"source\":\"/s\",\"data\":1}"

/* A whole request; the status. */
static int post(int fd, const char *more, pr_slice body)
{
    char head[2000];
    snprintf(head, sizeof(head), POST_HEAD "%sContent-Length: %zu\r\n\r\n", more, body.size);
    say(fd, head);
    if (body.size > 0)
        CHECK_EQ(send(fd, body.data, body.size, MSG_NOSIGNAL), (ssize_t)body.size);
    return atoi(hear(fd) + strlen("HTTP/1.1 "));
}

static int post_alone(const char *more, const char *body)
{
    int fd = dial();
    int status = post(fd, more, slice_from(body));
    close(fd);
    return status;
}

static void run(void)
{
    world_run(&w, 1000000);
}

TEST(http_a_batch_of_events_is_one_request_and_a_bad_one_in_it_is_a_dead_letter) /* B91 S3 */
{
    char body[1000];
    snprintf(body, sizeof(body), "[" EVENT ", {\"specversion\":\"1.0\",\"id\":\"2\"}," EVENT "]", "1", "3");
    world_init(&w);
    run();
    CHECK_EQ(post_alone("Content-Type: application/cloudevents-batch+json; charset=utf-8\r\n", body), 202);
    CHECK(strstr(answer, "{\"accepted\":3}") != NULL);
    CHECK_EQ(world_rows(&w, 2)->listed_count, 2);
    CHECK(slice_contains(world_dead(&w, 1)->listed[0].m.payload, PR_STR("\"2\"")));
    CHECK_EQ(post_alone("Content-Type: application/cloudevents-batch+json\r\n", "[]"), 202);
    CHECK_EQ(post_alone("Content-Type: application/cloudevents-batch+json\r\n", "{\"no\":\"list\"}"), 202);
    CHECK_SLICE(world_dead(&w, 2)->listed[1].m.error, "a batch of events must be a JSON array");
    (void)world_rows(&w, 2);
    CHECK_EQ(post_alone("Content-Type: application/cloudevents+avro\r\n", "x"), 415);
    world_fini(&w);
}

/* More than a batch of ours (100): several commits, one answer. */
TEST(http_a_batch_that_is_larger_than_ours_is_accepted_when_all_of_it_is_stored)
{
    struct buf body;
    buf_init(&body, 1 << 20);
    for (int i = 0; i < 250; i++) {
        char id[20];
        snprintf(id, sizeof(id), "%d", i);
        buf_add_char(&body, i == 0 ? '[' : ',');
        buf_addf(&body, EVENT, id);
    }
    buf_add_char(&body, ']');
    world_init(&w);
    run();
    int fd = dial();
    CHECK_EQ(post(fd, "Content-Type: application/cloudevents-batch+json\r\n", buf_slice(&body)), 202);
    CHECK(strstr(answer, "{\"accepted\":250}") != NULL);
    CHECK_EQ(world_status(&w).counts.stored, 250);
    (void)world_rows(&w, 250);
    close(fd);
    buf_fini(&body);
    world_fini(&w);
}

static void sign(const char *const *secrets, size_t count, const char *id, int64_t at_s, const char *body, char *ret,
                 size_t size)
{
    struct signer signer;
    struct pr_error error = { 0 };
    struct buf value;
    buf_init(&value, 1000);
    CHECK_OK(signer_init(&signer, "x", secrets, count, &error), &error);
    CHECK_EQ(signer_sign(&signer, slice_from(id), at_s, slice_from(body), &value), PR_OK);
    snprintf(ret, size, "webhook-id: %s\r\nwebhook-timestamp: %lld\r\nwebhook-signature: v2,bm8= %s\r\n", id,
             (long long)at_s, value.data);
    buf_fini(&value);
    signer_fini(&signer);
}

TEST(http_a_webhook_needs_a_signature_of_a_known_key_that_is_recent)
{
    static const char *const both[] = { SECRET_NEW, SECRET_OLD };
    const char *unknown[] = { "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" };
    char head[500];
    int64_t now_s = clock_wall_us(clock_system()) / PR_SECONDS(1);
    const char *body = "{\"type\":\"invoice.paid\",\"data\":{}}";
    world_init(&w);
    w.config.http.secrets = both; /* while keys are changed */
    w.config.http.secret_count = 2;
    run();
    for (size_t i = 0; i < 2; i++) {
        char id[20];
        snprintf(id, sizeof(id), "msg_%zu", i);
        sign(&both[i], 1, id, now_s, body, head, sizeof(head));
        CHECK_EQ(post_alone(head, body), 202);
        CHECK_EQ(post_alone(head, body), 202); /* the sender has not heard the answer */
    }
    const struct pr_message *m = &world_rows(&w, 2)->listed[0].m;
    CHECK_SLICE(m->type, "invoice.paid");
    CHECK(slice_contains(m->headers, PR_STR("\"ce-id\":\"msg_0\"")));
    CHECK(!slice_contains(m->headers, PR_STR("signature")));
    CHECK_EQ(world_status(&w).counts.duplicates, 2);

    CHECK_EQ(post_alone(head, "{\"type\":\"invoice.forged\"}"), 401);
    CHECK_EQ(post_alone("", body), 401);
    sign(unknown, 1, "msg_2", now_s, body, head, sizeof(head));
    CHECK_EQ(post_alone(head, body), 401);
    CHECK(strstr(answer, "signature_wrong") != NULL);
    sign(both, 1, "msg_2", now_s - 301, body, head, sizeof(head));
    CHECK_EQ(post_alone(head, body), 401);
    CHECK(strstr(answer, "signature_stale") != NULL);
    sign(both, 1, "msg_2", now_s + 310, body, head, sizeof(head));
    CHECK_EQ(post_alone(head, body), 401);
    (void)world_rows(&w, 2);
    world_fini(&w);
}

/* Headers are not signed: one who has seen a request must not make others of it. */
TEST(http_a_signed_event_that_comes_again_with_another_id_in_its_headers_is_stored_once) /* B206 */
{
    static const char *const secret[] = { SECRET_NEW };
    char head[500], more[900];
    world_init(&w);
    w.config.http.secrets = secret;
    w.config.http.secret_count = 1;
    run();
    sign(secret, 1, "msg_7", clock_wall_us(clock_system()) / PR_SECONDS(1), "{}", head, sizeof(head));
    for (int i = 0; i < 3; i++) {
        snprintf(more, sizeof(more), "%sce-specversion: 1.0\r\nce-type: paid\r\nce-source: /s%d\r\nce-id: %d\r\n", head,
                 i, i);
        CHECK_EQ(post_alone(more, "{}"), 202);
    }
    CHECK_SLICE(world_rows(&w, 1)->listed[0].m.type, "paid");
    CHECK_EQ(world_status(&w).counts.duplicates, 2);
    world_fini(&w);
}

TEST(http_a_token_opens_the_door_and_nothing_else_does)
{
    world_init(&w);
    w.config.http.token = "sesame-sesame-16";
    run();
    CHECK_EQ(post_alone("Authorization: Bearer sesame-sesame-16\r\n", "1"), 202);
    CHECK_EQ(post_alone("Authorization: Bearer sesame-sesame-17\r\n", "1"), 401);
    CHECK(strstr(answer, "WWW-Authenticate: Bearer") != NULL);
    CHECK_EQ(post_alone("", "1"), 401);
    (void)world_rows(&w, 1);
    world_fini(&w);
}

TEST(http_elsewhere_than_on_loopback_needs_a_token_or_secrets)
{
    struct pr_error error = { 0 };
    const char *name;
    world_init(&w);
    w.config.urls[SOURCE_HTTP] = "http://0.0.0.0:8090/x";
    CHECK_EQ(source_check_url(&w.config, &w.arena, &name, &error), PR_ECONFIG);
    CHECK_STR(error.text, "source http: 0.0.0.0:8090 is not a loopback address; other addresses need token or secrets");
    w.config.http.token = "sesame-sesame-16";
    CHECK_OK(source_check_url(&w.config, &w.arena, &name, &error), &error);
    CHECK_STR(name, "http:x");
    w.config.urls[SOURCE_HTTP] = "http://127.0.0.1:8090/";
    CHECK_EQ(source_check_url(&w.config, &w.arena, &name, &error), PR_ECONFIG);
    w.config.urls[SOURCE_HTTP] = "http://example.org:8090/x";
    CHECK_EQ(source_check_url(&w.config, &w.arena, &name, &error), PR_ECONFIG);
    world_fini(&w);
}

TEST(http_a_connection_is_kept_for_many_requests_also_when_they_come_at_once)
{
    world_init(&w);
    run();
    int fd = dial();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(post(fd, "Content-Type: text/plain\r\n", PR_STR("one")), 202);
    say(fd, POST_HEAD "Content-Length: 3\r\n\r\ntwo" POST_HEAD
                      "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nth\r\n3\r\nree\r\n"
                      "0\r\nTrailer: t\r\n\r\n" POST_HEAD "Connection: close\r\nContent-Length: 4\r\n\r\nfour");
    for (int i = 0; i < 3; i++)
        CHECK(strstr(hear(fd), "202 Accepted") != NULL);
    CHECK_EQ(recv(fd, answer, 1, 0), 0);
    close(fd);
    const struct query_reply *rows = world_rows(&w, 6);
    CHECK_SLICE(rows->listed[4].m.payload, "three");
    CHECK_SLICE(rows->listed[5].m.payload, "four");
    CHECK_SLICE(rows->listed[5].m.type, PATH);
    world_fini(&w);
}

TEST(http_what_is_not_right_is_refused_and_says_why)
{
    static const struct {
        const char *bytes;
        int status;
    } cases[] = {
        { "GET " PATH " HTTP/1.1\r\nHost: h\r\n\r\n", 405 },
        { "POST /elsewhere HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", 404 },
        { "POST " PATH " HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400 },
        { POST_HEAD "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400 },
        { POST_HEAD "Content-Length: 99999999\r\n\r\n", 413 },
        { POST_HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400 },
        { POST_HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400 },
        { "hello\r\n\r\n", 400 },
    };
    world_init(&w);
    run();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = dial();
        say(fd, cases[i].bytes);
        CHECK_EQ(atoi(hear(fd) + strlen("HTTP/1.1 ")), cases[i].status);
        close(fd);
    }
    int fd = dial();
    say(fd, "OPTIONS " PATH " HTTP/1.1\r\nHost: h\r\nWebHook-Request-Origin: events.example\r\n\r\n");
    CHECK(strstr(hear(fd), "WebHook-Allowed-Origin: events.example") != NULL);
    close(fd);
    fd = dial();
    say(fd, POST_HEAD "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    CHECK(strstr(hear(fd), "100 Continue") != NULL);
    say(fd, "{}");
    CHECK(strstr(hear(fd), "202") != NULL);
    close(fd);
    (void)world_rows(&w, 1);
    CHECK_EQ(world_status(&w).counts.stored, 1);
    world_fini(&w);
}

/* The whole answer, with its text. */
static const char *answer_to(const char *more, const char *body)
{
    int fd = dial();
    (void)post(fd, more, slice_from(body));
    close(fd);
    return answer;
}

static void check_answer(const char *more, const char *body, const char *status, const char *text)
{
    const char *said = answer_to(more, body);
    if (strncmp(said + strlen("HTTP/1.1 "), status, 3) != 0 || strstr(said, text) == NULL)
        check_fail(__FILE__, __LINE__, "%s and \"%s\" expected: %s", status, text, said);
}

/* Whoever else reads it, a proxy, sees another end of the body. */
TEST(http_a_chunk_does_not_end_with_a_nul) /* B206 */
{
    static const pr_slice bodies[] = { PR_STR("1\r\na\0x\r\n0\r\n\r\n"), PR_STR("1\0x\r\na\r\n0\r\n\r\n"),
                                       PR_STR("1\r\na\r\n0\r\n\0x\r\n\r\n") };
    world_init(&w);
    run();
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        int fd = dial();
        say(fd, POST_HEAD "Transfer-Encoding: chunked\r\n\r\n");
        CHECK_EQ(send(fd, bodies[i].data, bodies[i].size, MSG_NOSIGNAL), (ssize_t)bodies[i].size);
        CHECK_EQ(atoi(hear(fd) + strlen("HTTP/1.1 ")), 400);
        close(fd);
    }
    world_fini(&w);
}

TEST(http_a_header_that_says_who_it_is_is_there_once) /* B206 */
{
#define BINARY "ce-specversion: 1.0\r\nce-type: t\r\nce-source: /s\r\n"
    world_init(&w);
    run();
    check_answer(BINARY "ce-id: 1\r\nce-id: 2\r\n", "1", "400", "duplicate header ce-id");
    check_answer(BINARY "ce-id: 1\r\nx-own: 1\r\nCE-ID: 1\r\n", "1", "400", "duplicate header ce-id");
    check_answer("Ce-Tenant: 1\r\n" BINARY "ce-id: 1\r\nce-tenant: 2\r\n", "1", "400", "duplicate header Ce-Tenant");
    check_answer("Content-Type: a/b\r\ncontent-type: c/d\r\n", "1", "400", "duplicate header Content-Type");
    check_answer("Idempotency-Key: a\r\nidempotency-key: b\r\n", "1", "400", "duplicate header Idempotency-Key");
    check_answer("x-own: a\r\nx-own: b\r\n" BINARY "ce-id: 1\r\n", "1", "202", "accepted");
    (void)world_rows(&w, 1);
    world_fini(&w);
}

TEST(http_a_newcomers_mistakes_are_answered_with_what_to_do)
{
#define STRUCTURED "Content-Type: application/cloudevents+json\r\n"
    static const char *const texts[] = { "not a JSON object, but its content type is application/cloudevents+json",
                                         "specversion is missing", "type is missing: every CloudEvent needs it" };
    world_init(&w);
    run();
    check_answer("Content-Type: application/cloudevents+xml\r\n", "<a/>", "415",
                 "send CloudEvents as application/cloudevents+json");
    check_answer("Content-Type: application/x-www-form-urlencoded\r\n", " {\"a\":1}", "415",
                 "add Content-Type: application/json");
    check_answer(STRUCTURED, "hello", "202", "accepted"); /* S3: it is kept, and people see why */
    check_answer(STRUCTURED, "{\"id\":\"1\",\"source\":\"/s\",\"type\":\"t\"}", "202", "accepted");
    check_answer(STRUCTURED, "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/s\"}", "202", "accepted");
    const struct query_reply *dead = world_dead(&w, 3);
    for (size_t i = 0; i < 3; i++) {
        size_t found = 0;
        for (size_t k = 0; k < 3; k++)
            found += slice_contains(dead->listed[k].m.error, slice_from(texts[i]));
        if (found != 1)
            check_fail(__FILE__, __LINE__, "%zu dead letters say: %s", found, texts[i]);
    }
    check_answer("Content-Type: application/x-www-form-urlencoded\r\n", "a=1&b=2", "202", "accepted");
    (void)world_rows(&w, 1);
    world_fini(&w);
}

TEST(http_a_full_box_answers_429_and_a_store_that_fails_503_both_with_a_time_to_come_again)
{
    world_init(&w);
    world_run(&w, 1);
    CHECK_EQ(post_alone("", "1"), 202);
    WAIT_FOR(post_alone("", "2") == 429);
    CHECK(strstr(answer, "Retry-After: ") != NULL);
    WAIT_FOR(world_status(&w).is_held);
    world_stop(&w);
    world_mood(STORE_REFUSES);
    run();
    int fd = dial();
    CHECK_EQ(post(fd, "", PR_STR("3")), 503); /* after the time in which it was tried again */
    CHECK(strstr(answer, "Retry-After: ") != NULL);
    close(fd);
    world_fini(&w);
}

TEST(http_sources_share_an_address_by_their_paths)
{
    struct pr_error error = { 0 };
    struct source_config config;
    struct source other;
    char url[100];
    world_init(&w);
    run();
    config = w.config;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/other", port);
    config.urls[SOURCE_HTTP] = url;
    config.name = "http:other";
    other = world_source(&w, 1000);
    other.config = &config;
    CHECK_OK(source_open(&other, &error), &error);
    int fd = dial();
    say(fd, "POST /other HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"); /* its source goes while it is sent */
    usleep(20000);
    source_close(&other);
    ssize_t got =
        recv(fd, answer, 12, MSG_WAITALL); /* its end; or a machine so slow that the head was not read before */
    CHECK(got == 0 || (got == 12 && memcmp(answer, "HTTP/1.1 404", 12) == 0));
    close(fd);
    CHECK_EQ(post_alone("", "1"), 202);
    world_fini(&w);
}

static void be_slow(const char *bytes)
{
    enum { SLOW = 300 };
    static int fds[SLOW];
    world_init(&w);
    run();
    for (int i = 0; i < SLOW; i++) {
        fds[i] = dial();
        say(fds[i], bytes);
    }
    for (int i = 0; i < 10; i++)
        CHECK_EQ(post_alone("", "1"), 202);
    for (int i = 0; i < SLOW; i++)
        close(fds[i]);
    world_fini(&w);
}

/* Many that have said half a head do not keep others out. */
TEST(http_slow_ones_make_room_for_others)
{
    be_slow("POST " PATH " HTTP/1.1\r\n");
}

TEST(http_those_who_are_slow_with_a_body_make_room_for_others)
{
    be_slow(POST_HEAD "Content-Length: 5\r\n\r\nab");
}

/* A program that is started has a copy of all descriptors for a moment: what is closed here is not closed yet. */
TEST(http_a_connection_that_is_closed_while_a_program_starts_is_forgotten) /* B206 */
{
    int ends[2];
    char byte;
    world_init(&w);
    run();
    int fd = dial();
    CHECK_EQ(post(fd, "", PR_STR("1")), 202);
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        while (read(ends[0], &byte, 1) > 0)
            ;
        _exit(0);
    }
    CHECK(pid > 0);
    close(ends[0]);
    CHECK_EQ(post(fd, "Connection: close\r\n", PR_STR("2")), 202);
    for (int i = 0; i < 20; i++) {
        (void)send(fd, "more", 4, MSG_NOSIGNAL);
        CHECK_EQ(post_alone("", "3"), 202);
    }
    close(ends[1]);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    close(fd);
    world_fini(&w);
}

/* What is held of all is bounded; but a request that is allowed must be possible. */
TEST(http_a_body_as_large_as_the_limit_is_accepted_whatever_that_is)
{
    const size_t size = (size_t)70 << 20;
    char *body = malloc(size);
    CHECK(body != NULL);
    memset(body, 'a', size);
    world_init(&w);
    w.payload_max = (size_t)80 << 20;
    run();
    int fd = dial();
    CHECK_EQ(post(fd, "Content-Type: text/plain\r\n", (pr_slice){ body, size }), 202);
    (void)world_rows(&w, 1);
    close(fd);
    free(body);
    world_fini(&w);
}

/* Whoever must go may have said something in the same moment. */
TEST(http_those_who_make_room_may_be_talking)
{
    enum { SLOW = 256, ROUNDS = 40 };
    static int fds[SLOW];
    world_init(&w);
    run();
    for (int i = 0; i < SLOW; i++) {
        fds[i] = dial();
        say(fds[i], "POST " PATH " HTTP/1.1\r\n");
    }
    for (int round = 0; round < ROUNDS; round++) {
        int fd = fds[round];
        for (int i = round; i < SLOW; i++)
            (void)send(fds[i], "A", 1, MSG_NOSIGNAL);
        fds[round] = dial();
        for (int i = round + 1; i < SLOW; i++)
            (void)send(fds[i], "b", 1, MSG_NOSIGNAL);
        close(fd);
        say(fds[round], "POST " PATH " HTTP/1.1\r\n");
    }
    CHECK_EQ(post_alone("", "1"), 202);
    for (int i = 0; i < SLOW; i++)
        close(fds[i]);
    world_fini(&w);
}
