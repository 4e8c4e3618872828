/* The HTTP transport against a real server: its results for answers, silence and refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "peer.h"
#include "tcp_proxy.h"
#include "transport/http/egress_filter.h"
#include "world.h"

static struct world w;
static char headers[WORLD_MESSAGES_MAX][128]; /* of the messages in the world */

/* A message for which the receiver behaves like this. */
static size_t add(const char *behaviour)
{
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    snprintf(headers[i], sizeof(headers[i]), "{\"x-behave\":\"%s\"}", behaviour);
    w.messages[i].headers = slice_from(headers[i]);
    return i;
}

/* Let the transport work until the other side has so many requests. */
static void poll_until_arrived(size_t count)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    while (peer_count(harness_http_peer(&w)) < count) {
        CHECK(world_now() < end_us);
        world_poll(&w, PR_MILLISECONDS(10));
    }
}

static json_int_t from_port(const json_t *records, size_t index)
{
    return json_integer_value(json_object_get(json_array_get(records, index), "from_port"));
}

static void check_result(size_t index, enum send_outcome outcome, int reason, const char *code)
{
    CHECK_STR(w.results[index].code, code);
    CHECK_EQ(w.results[index].outcome, outcome);
    CHECK_EQ(w.results[index].reason, reason);
    CHECK_EQ(w.result_counts[index], 1);
}

TEST(http_maps_every_status) /* B97 */
{
    static const struct {
        int status;
        enum send_outcome outcome;
        int reason;
    } table[] = {
        { 200, SEND_OK, 0 },
        { 201, SEND_OK, 0 },
        { 202, SEND_OK, 0 },
        { 204, SEND_OK, 0 },
        { 299, SEND_OK, 0 },
        { 301, SEND_FAILED, PR_REASON_REJECTED },
        { 304, SEND_FAILED, PR_REASON_REJECTED },
        { 307, SEND_FAILED, PR_REASON_REJECTED },
        { 400, SEND_FAILED, PR_REASON_VALIDATION_FAILURE },
        { 401, SEND_FAILED, PR_REASON_UNAUTHORIZED },
        { 402, SEND_FAILED, PR_REASON_REJECTED },
        { 403, SEND_FAILED, PR_REASON_UNAUTHORIZED },
        { 404, SEND_FAILED, PR_REASON_DESTINATION_MISSING },
        { 405, SEND_FAILED, PR_REASON_DESTINATION_MISSING },
        { 406, SEND_FAILED, PR_REASON_REJECTED },
        { 408, SEND_FAILED, PR_REASON_TIMEOUT_EXCEEDED },
        { 409, SEND_FAILED, PR_REASON_REJECTED },
        { 410, SEND_FAILED, PR_REASON_DESTINATION_MISSING },
        { 413, SEND_FAILED, PR_REASON_MESSAGE_TOO_LARGE },
        { 415, SEND_FAILED, PR_REASON_REJECTED },
        { 422, SEND_FAILED, PR_REASON_VALIDATION_FAILURE },
        { 425, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE },
        { 429, SEND_FAILED, PR_REASON_RATE_LIMITED },
        { 499, SEND_FAILED, PR_REASON_REJECTED },
        { 500, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE },
        { 501, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE },
        { 502, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE },
        { 503, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE },
        { 504, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE },
        { 507, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE },
        { 599, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE },
        { 600, SEND_FAILED, PR_REASON_UNKNOWN },
        { 999, SEND_FAILED, PR_REASON_UNKNOWN },
    };
    world_init(&w, &harness_http, 0);
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        char behaviour[32];
        snprintf(behaviour, sizeof(behaviour), "/status/%d", table[i].status);
        add(behaviour);
    }
    world_run(&w);
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        char code[16];
        snprintf(code, sizeof(code), "%d", table[i].status);
        check_result(i, table[i].outcome, table[i].reason, table[i].outcome == SEND_OK ? "" : code);
        CHECK_EQ(w.results[i].disable, table[i].status == 410);
        CHECK_EQ(w.results[i].retry_after_us, 0);
    }
    world_fini(&w);
}

TEST(http_statuses_have_the_class_of_their_kind) /* B97 */
{
    static const int transient[] = { 408, 425, 429, 500, 502, 503, 504, 599 },
                     permanent[] = { 400, 404, 410, 413, 422 };
    world_init(&w, &harness_http, 0);
    for (size_t i = 0; i < ARRAY_LENGTH(transient) + ARRAY_LENGTH(permanent); i++) {
        char behaviour[32];
        snprintf(behaviour, sizeof(behaviour), "/status/%d",
                 i < ARRAY_LENGTH(transient) ? transient[i] : permanent[i - ARRAY_LENGTH(transient)]);
        add(behaviour);
    }
    world_run(&w);
    for (size_t i = 0; i < w.message_count; i++)
        CHECK_EQ(reason_class(w.results[i].reason), i < ARRAY_LENGTH(transient) ? CLASS_TRANSIENT : CLASS_PERMANENT);
    world_fini(&w);
}

TEST(http_error_has_the_status_and_the_start_of_the_reply)
{
    world_init(&w, &harness_http, 0);
    size_t small = add("/status/503"), big = add("/big-reply/500"), moved = add("/redirect");
    world_run(&w);
    CHECK_STR(w.results[small].error, "HTTP 503: the receiver was told to say 503");
    CHECK_EQ(strlen(w.results[big].error), strlen("HTTP 500: ") + 500);
    CHECK(strstr(w.results[moved].error, "redirects are not followed") != NULL);
    world_fini(&w);
}

TEST(http_honours_retry_after) /* B74 */
{
    world_init(&w, &harness_http, 0);
    size_t seconds = add("/retry-after/7"), date = add("/retry-after-date/100"), past = add("/retry-after-date/-100"),
           eternity = add("/retry-after/999999999999");
    world_run(&w);
    check_result(seconds, SEND_FAILED, PR_REASON_RATE_LIMITED, "429");
    CHECK_EQ(w.results[seconds].retry_after_us, PR_SECONDS(7));
    CHECK(w.results[date].retry_after_us > PR_SECONDS(90) && w.results[date].retry_after_us <= PR_SECONDS(100));
    CHECK_EQ(w.results[past].retry_after_us, 0);
    CHECK_EQ(w.results[eternity].retry_after_us, PR_SECONDS(24 * 60 * 60));
    world_fini(&w);
}

TEST(http_follows_no_redirect)
{
    world_init(&w, &harness_http, 0);
    size_t moved = add("/redirect");
    world_run(&w);
    check_result(moved, SEND_FAILED, PR_REASON_REJECTED, "302");
    CHECK_EQ(peer_count(harness_http_peer(&w)), 1);
    world_fini(&w);
}

TEST(http_judges_an_endless_or_broken_reply_by_its_status)
{
    world_init(&w, &harness_http, 0);
    size_t big = add("/big-reply/200"), big_no = add("/big-reply/422"), cut = add("/truncate/200"),
           cut_no = add("/truncate/422");
    world_run(&w);
    CHECK_EQ(w.results[big].outcome, SEND_OK);
    CHECK_EQ(w.results[cut].outcome, SEND_OK);
    check_result(big_no, SEND_FAILED, PR_REASON_VALIDATION_FAILURE, "422");
    check_result(cut_no, SEND_FAILED, PR_REASON_VALIDATION_FAILURE, "422");
    world_fini(&w);
}

TEST(http_reads_no_more_of_a_reply_than_it_must)
{
    world_init(&w, &harness_http, 0);
    add("/big-reply/200");
    world_run(&w);
    add("/record");
    world_run(&w);
    json_t *records = peer_records(harness_http_peer(&w));
    CHECK(from_port(records, 0) != from_port(records, 1)); /* the rest was dropped with the connection */
    json_decref(records);
    world_fini(&w);
}

/* P5: who has the whole request may have taken it. */
TEST(http_timeout_is_unknown_after_the_request_was_sent)
{
    world_init(&w, &harness_http, 0);
    size_t never = add("/never");
    int64_t begin_us = world_now();
    w.deliveries[never].deadline_us = begin_us + WORLD_WAIT_US / 8;
    world_run(&w); /* which gives up after WORLD_WAIT_US: a timeout in other units would not do */
    CHECK(world_now() >=
          begin_us + WORLD_WAIT_US / 8 - PR_MILLISECONDS(10)); /* libcurl's clock ticks in milliseconds */
    check_result(never, SEND_UNKNOWN, PR_REASON_TIMEOUT_EXCEEDED, "CURLE_OPERATION_TIMEDOUT");
    CHECK(strstr(w.results[never].error, "may have arrived") != NULL);
    CHECK_EQ(peer_count(harness_http_peer(&w)), 1);
    world_fini(&w);
}

TEST(http_timeout_is_a_failure_before_the_request_was_sent)
{
    static char large[32 << 20];
    world_init(&w, &harness_http, 0);
    size_t stalled = add("/stall");
    w.messages[stalled].payload = PR_BYTES(large, sizeof(large));
    w.deliveries[stalled].deadline_us = world_now() + PR_MILLISECONDS(500);
    world_run(&w);
    check_result(stalled, SEND_FAILED, PR_REASON_TIMEOUT_EXCEEDED, "CURLE_OPERATION_TIMEDOUT");
    CHECK_EQ(peer_count(harness_http_peer(&w)), 0);
    world_fini(&w);
}

TEST(http_lost_connection_is_unknown)
{
    world_init(&w, &harness_http, 0);
    size_t reset = add("/reset"), closed = add("/close-after-request");
    world_run(&w);
    check_result(reset, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_RECV_ERROR");
    check_result(closed, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_GOT_NOTHING");
    world_fini(&w);
}

/* On a connection of its own; false: the answer was known when it was cut. */
static bool cut_at(size_t place)
{
    char url[64];
    world_prepare(&w, &harness_http, 0);
    struct tcp_proxy *proxy = tcp_proxy_start(harness_http_peer(&w)->port);
    tcp_proxy_cut_after(proxy, place);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/record", tcp_proxy_port(proxy));
    w.config.url = url;
    world_open(&w);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    bool unknown = w.results[0].outcome == SEND_UNKNOWN;
    CHECK(unknown || w.results[0].outcome == SEND_OK);
    world_look(&w);
    CHECK_EQ(world_arrived(&w, 0), 1);
    world_fini(&w);
    tcp_proxy_stop(proxy);
    return unknown;
}

/* At every byte of "HTTP/1.1 200 OK"; behind it the status is known, and that is all that we want. */
TEST(http_is_cut_off_in_the_middle_of_an_answer)
{
    size_t place = 0;
    while (cut_at(place))
        place++;
    CHECK(place > strlen("HTTP/1.1 200 OK"));
    CHECK(!cut_at(place + 20));
}

TEST(http_lost_answer_to_a_large_request_is_unknown)
{
    static char large[3 << 20];
    world_init(&w, &harness_http, 0);
    size_t lost = add("/close-after-request");
    w.messages[lost].payload = PR_BYTES(large, sizeof(large));
    world_run(&w);
    check_result(lost, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_GOT_NOTHING");
    json_t *records = peer_records(harness_http_peer(&w));
    CHECK_EQ(json_integer_value(json_object_get(json_array_get(records, 0), "size")), sizeof(large));
    CHECK(record_header(json_array_get(records, 0), "expect") == NULL); /* no round trip before the body */
    json_decref(records);
    world_fini(&w);
}

/* A port where nobody listens, and which nobody else can get while we live. */
static unsigned dead_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, size) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    return ntohs(address.sin_port);
}

TEST(http_refused_connection_is_a_failure)
{
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/", dead_port());
    world_prepare(&w, &harness_http, 0);
    w.config.url = url;
    world_open(&w);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    check_result(0, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_COULDNT_CONNECT");
    world_fini(&w);
}

/* P1, and what was asked of the dead one is not called a plain failure. */
TEST(http_answers_for_all_when_the_other_side_dies)
{
    world_init(&w, &harness_http, 20);
    for (size_t i = 0; i < 20; i++)
        add("/never");
    CHECK_EQ(world_submit(&w), 20);
    poll_until_arrived(20);
    peer_kill(harness_http_peer(&w));
    world_collect(&w);
    for (size_t i = 0; i < 20; i++)
        CHECK_EQ(w.results[i].outcome, SEND_UNKNOWN);
    size_t late = add("/record");
    world_run(&w);
    check_result(late, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_COULDNT_CONNECT");
    world_fini(&w);
}

/* The request went out whole on a kept connection; that curl could not even connect for its second
 * try must not make a plain failure of it. */
TEST(http_is_unknown_when_only_the_second_try_could_not_connect)
{
    static char large[1 << 20];
    world_init(&w, &harness_http, 0);
    add("/record");
    world_run(&w);
    size_t lost = add("/never");
    w.messages[lost].payload = PR_BYTES(large, sizeof(large));
    CHECK_EQ(world_submit(&w), 1);
    poll_until_arrived(2);
    peer_kill(harness_http_peer(&w));
    world_collect(&w);
    check_result(lost, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_COULDNT_CONNECT");
    world_fini(&w);
}

TEST(http_uses_a_connection_again)
{
    world_init(&w, &harness_http, 0);
    for (size_t i = 0; i < 20; i++) {
        add(i % 5 ? "/record" : "/status/500");
        world_run(&w);
    }
    json_t *records = peer_records(harness_http_peer(&w));
    CHECK_EQ(json_array_size(records), 20);
    for (size_t i = 1; i < 20; i++)
        CHECK_EQ(from_port(records, i), from_port(records, 0));
    json_decref(records);
    world_fini(&w);
}

/* Curl sends again when a kept connection breaks without an answer: once, and then it is unknown. */
TEST(http_sends_once_more_at_most_when_a_kept_connection_breaks)
{
    world_init(&w, &harness_http, 0);
    for (size_t i = 0; i < 8; i++) /* several kept connections */
        add("/slow/20");
    world_run(&w);
    size_t lost = add("/close-after-request");
    world_run(&w);
    CHECK_EQ(w.results[lost].outcome, SEND_UNKNOWN);
    CHECK_EQ(w.results[lost].reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    world_look(&w);
    CHECK(world_arrived(&w, lost) <= 2);
    world_fini(&w);
}

TEST(http_cancel_lets_what_is_on_the_wire_finish)
{
    world_init(&w, &harness_http, 8);
    for (size_t i = 0; i < 4; i++)
        add("/hold");
    CHECK_EQ(world_submit(&w), 4);
    poll_until_arrived(4);
    for (size_t i = 0; i < 4; i++)
        add("/record");
    CHECK_EQ(world_submit(&w), 4);
    world_cancel(&w);
    peer_post(harness_http_peer(&w), "/release");
    world_collect(&w);
    for (size_t i = 0; i < 8; i++)
        CHECK_EQ(w.results[i].outcome, i < 4 ? SEND_OK : SEND_RETURNED);
    CHECK_EQ(peer_count(harness_http_peer(&w)), 4);
    world_fini(&w);
}

TEST(http_cancel_stops_the_second_try)
{
    world_init(&w, &harness_http, 0);
    add("/record");
    world_run(&w);
    size_t held = add("/hold-close");
    CHECK_EQ(world_submit(&w), 1);
    poll_until_arrived(2);
    world_cancel(&w);
    peer_post(harness_http_peer(&w), "/release");
    world_collect(&w);
    CHECK_EQ(w.results[held].outcome, SEND_UNKNOWN);
    world_look(&w);
    CHECK_EQ(world_arrived(&w, held), 1);
    world_fini(&w);
}

/* A server whose queue of connections is full: connecting to it takes for ever. */
struct deaf {
    int listener, clients[4];
    unsigned port;
};

static void deaf_start(struct deaf *deaf)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    deaf->listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(deaf->listener, (struct sockaddr *)&address, size) == 0 && listen(deaf->listener, 0) == 0);
    CHECK(getsockname(deaf->listener, (struct sockaddr *)&address, &size) == 0);
    deaf->port = ntohs(address.sin_port);
    for (size_t i = 0; i < ARRAY_LENGTH(deaf->clients); i++) {
        deaf->clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(deaf->clients[i], (struct sockaddr *)&address, size);
    }
}

static void deaf_stop(struct deaf *deaf)
{
    for (size_t i = 0; i < ARRAY_LENGTH(deaf->clients); i++)
        close(deaf->clients[i]);
    close(deaf->listener);
}

TEST(http_takes_back_or_gives_up_what_is_still_connecting)
{
    struct deaf deaf;
    char url[64];
    deaf_start(&deaf);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/", deaf.port);
    world_prepare(&w, &harness_http, 0);
    w.config.url = url;
    world_open(&w);
    size_t late = world_add(&w, "", PR_STR("{}"), WISH_OK), cancelled = world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[late].deadline_us = world_now() + WORLD_SOON_US;
    CHECK_EQ(world_submit(&w), 2);
    CHECK_EQ(world_poll(&w, WORLD_WAIT_US), 1);
    check_result(late, SEND_FAILED, PR_REASON_TIMEOUT_EXCEEDED, "CURLE_OPERATION_TIMEDOUT");
    world_cancel(&w);
    CHECK_EQ(world_poll(&w, 0), 1); /* at once */
    CHECK_EQ(w.results[cancelled].outcome, SEND_RETURNED);
    world_fini(&w);
    deaf_stop(&deaf);
}

TEST(http_message_that_cannot_be_written_costs_only_itself)
{
    world_init(&w, &harness_http, 0);
    size_t good = add("/record"), bad = add("/record"), other = add("/record");
    w.messages[bad].headers = PR_STR("{\"x\":123456789012345678901234567890}");
    world_run(&w);
    check_result(bad, SEND_FAILED, PR_REASON_VALIDATION_FAILURE, "");
    CHECK_EQ(w.results[good].outcome, SEND_OK);
    CHECK_EQ(w.results[other].outcome, SEND_OK);
    world_fini(&w);
}

TEST(http_ignores_proxies_of_the_environment)
{
    char proxy[64];
    snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%u", dead_port());
    unsetenv("no_proxy");
    unsetenv("NO_PROXY");
    setenv("http_proxy", proxy, 1);
    setenv("ALL_PROXY", proxy, 1);
    world_init(&w, &harness_http, 0);
    size_t i = add("/record");
    world_run(&w);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
    CHECK_EQ(w.results[i].outcome, SEND_OK);
    world_fini(&w);
}

/* What arrives on the wire, seen by another program. */
TEST(http_request_arrives_as_a_cloudevent)
{
    struct buf body;
    char id[PR_ID_TEXT_SIZE];
    world_init(&w, &harness_http, 0);
    size_t i = world_add(&w, "order 7", PR_STR("\x01\x02\xff"), WISH_OK);
    struct pr_message *m = &w.messages[i];
    m->content_type = PR_STR("image/png");
    m->subject = PR_STR("\xe2\x82\xac \"x\" 100%");
    m->headers = PR_STR("{\"X-Tenant\":7,\"X-Empty\":\"\"}");
    m->seq = 5;
    world_run(&w);
    json_t *records = peer_records(harness_http_peer(&w)), *r = json_array_get(records, 0);
    pr_id_format(m->id, id);
    CHECK_STR(record_header(r, "ce-id"), id);
    CHECK_STR(record_header(r, "ce-type"), "test.sent");
    CHECK_STR(record_header(r, "ce-specversion"), "1.0");
    CHECK_STR(record_header(r, "ce-source"), "postrider");
    CHECK_STR(record_header(r, "ce-partitionkey"), "order%207");
    CHECK_STR(record_header(r, "ce-subject"), "%E2%82%AC%20%22x%22%20100%25");
    CHECK_STR(record_header(r, "content-type"), "image/png");
    CHECK_STR(record_header(r, "content-length"), "3");
    CHECK_STR(record_header(r, "x-tenant"), "7");
    CHECK_STR(record_header(r, "x-empty"), "");
    CHECK(strncmp(record_header(r, "host"), "127.0.0.1:", 10) == 0);
    CHECK(record_header(r, "expect") == NULL && record_header(r, "accept-encoding") == NULL);
    CHECK_STR(record_header(r, "user-agent"), "postrider");
    buf_init(&body, 1024);
    record_body(r, &body);
    CHECK_SLICE(buf_slice(&body), m->payload);
    buf_fini(&body);
    json_decref(records);
    world_fini(&w);
}

TEST(http_structured_and_raw_envelopes_arrive)
{
    static const char *const envelopes[] = { "structured", "raw" };
    struct buf body;
    buf_init(&body, 4096);
    for (size_t e = 0; e < ARRAY_LENGTH(envelopes); e++) {
        world_prepare(&w, &harness_http, 0);
        w.config.envelope = envelopes[e];
        world_open(&w);
        world_add(&w, "", PR_STR("{\"a\":1}"), WISH_OK);
        world_run(&w);
        json_t *records = peer_records(harness_http_peer(&w)), *r = json_array_get(records, 0);
        CHECK(record_header(r, "ce-id") == NULL);
        record_body(r, &body);
        if (e == 0) {
            json_t *event = json_loadb(body.data, body.size, 0, NULL);
            CHECK_STR(record_header(r, "content-type"), "application/cloudevents+json; charset=utf-8");
            CHECK_EQ(json_integer_value(json_object_get(json_object_get(event, "data"), "a")), 1);
            json_decref(event);
        } else {
            CHECK_SLICE(buf_slice(&body), "{\"a\":1}");
        }
        json_decref(records);
        world_fini(&w);
    }
    buf_fini(&body);
}

/* ---- The gate -------------------------------------------------------------------------------------- */

/* Send one message to the url, with this network allowed (NULL: none). */
static void send_guarded(const char *url, const char *allow)
{
    static struct network network;
    world_prepare(&w, &harness_http, 0);
    w.config.url = url;
    w.config.allow_network_count = 0;
    if (allow != NULL) {
        CHECK_EQ(egress_parse(slice_from(allow), &network, NULL), PR_OK);
        w.config.allow_networks = &network;
        w.config.allow_network_count = 1;
    }
    world_open(&w);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    w.deliveries[0].deadline_us = world_now() + PR_SECONDS(5);
    world_run(&w);
}

TEST(http_reaches_no_address_that_is_not_public)
{
    static const struct {
        const char *url, *allow;
    } table[] = {
        { "https://127.0.0.1/", NULL },
        { "https://127.0.0.1/", "10.0.0.0/8" },
        { "https://localhost/", NULL },
        { "https://[::1]/", NULL },
        { "https://0.0.0.0/", NULL },
        { "https://2130706433/", NULL },
        { "https://0x7f.1/", NULL },
        { "https://[::ffff:127.0.0.1]/", "127.0.0.0/8" },
        { "https://169.254.169.254/latest", NULL },
        { "https://10.0.0.1/", NULL },
        { "http://192.168.0.1/", "127.0.0.0/8" },
        { "http://8.8.8.8/", "127.0.0.0/8" }, /* public, but plain */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        send_guarded(table[i].url, table[i].allow);
        check_result(0, SEND_FAILED, PR_REASON_REJECTED, "address_refused");
        CHECK(strstr(w.results[0].error, "add it to allow_networks") != NULL);
        world_fini(&w);
    }
}

TEST(http_reaches_what_is_allowed_by_name_too)
{
    char url[64];
    world_prepare(&w, &harness_http, 0);
    snprintf(url, sizeof(url), "http://localhost:%u/record", harness_http_peer(&w)->port);
    w.config.url = url;
    world_open(&w);
    world_add(&w, "", PR_STR("{}"), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_OK);
    world_fini(&w);
}

/* One of its addresses is refused, the other one is allowed, and nobody is there. */
TEST(http_blames_the_network_when_an_allowed_address_fails)
{
    char url[64];
    snprintf(url, sizeof(url), "http://localhost:%u/", dead_port());
    send_guarded(url, "127.0.0.0/8");
    check_result(0, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_COULDNT_CONNECT");
    world_fini(&w);
}

TEST(http_name_that_does_not_resolve_is_a_failure)
{
    send_guarded("https://postrider.invalid/", NULL);
    CHECK_EQ(w.results[0].outcome, SEND_FAILED);
    CHECK(reason_class(w.results[0].reason) == CLASS_TRANSIENT);
    world_fini(&w);
}

/* A certificate that nobody vouches for. */
TEST(https_verifies_the_certificate)
{
    char dir[] = "/tmp/postrider-test-XXXXXX", command[512], cert[128], key[128], url[64];
    struct peer secure;
    CHECK(mkdtemp(dir) != NULL);
    snprintf(command, sizeof(command),
             "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext "
             "subjectAltName=DNS:localhost -keyout %s/key -out %s/cert >/dev/null 2>&1",
             dir, dir);
    if (system(command) != 0)
        SKIP("no openssl command");
    snprintf(cert, sizeof(cert), "--cert=%s/cert", dir);
    snprintf(key, sizeof(key), "--key=%s/key", dir);
    peer_start(&secure, cert, key);
    snprintf(url, sizeof(url), "https://localhost:%u/record", secure.port);
    send_guarded(url, "127.0.0.0/8");
    check_result(0, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE, "CURLE_PEER_FAILED_VERIFICATION");
    world_fini(&w);
    peer_stop(&secure);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    CHECK_EQ(system(command), 0);
}
