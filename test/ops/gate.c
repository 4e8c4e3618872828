/* Access to the HTTP library: heads that two readers could parse differently, and places. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/slice.h"
#include "check.h"
#include "ops/api/gate_places.h"
#include "base/http_head.h"

#define GET "GET /v1/status?a=1 HTTP/1.1\r\n"
#define HOST "Host: localhost\r\n"

TEST(a_head_is_read_when_it_is_complete_and_not_before) /* B206 */
{
    static const char text[] =
        "POST /v1/messages?box=a&x= HTTP/1.1\r\n" HOST "X-Any:\t some\ttext \r\nContent-Length: 12\r\n\r\n{body";
    struct http_head head;
    size_t complete = strlen(text) - strlen("{body");
    for (size_t size = 0; size < complete; size++)
        CHECK_EQ(http_head_read(PR_BYTES(text, size), &head), HEAD_MORE);
    for (size_t size = complete; size <= strlen(text); size++)
        CHECK_EQ(http_head_read(PR_BYTES(text, size), &head), HEAD_READ);
    CHECK(slice_eq_cstr(head.method, "POST") && slice_eq_cstr(head.path, "/v1/messages"));
    CHECK_EQ(head.body_bytes, 12);
    CHECK(!head.chunked);
    CHECK_EQ(http_head_read(PR_STR("GET / HTTP/1.1\r\n" HOST "transfer-encoding: CHUNKED\r\n\r\n"), &head), HEAD_READ);
    CHECK(head.chunked);
    CHECK_EQ(http_head_read(PR_STR("GET / HTTP/1.0\r\n\r\n"), &head), HEAD_READ);
}

TEST(a_head_that_two_readers_could_take_differently_is_wrong) /* B206 */
{
    static const struct {
        unsigned status;
        const char *text;
    } cases[] = {
        { 400, "\r\n" GET HOST "\r\n" },
        { 400, GET "\r\n" },
        { 400, GET HOST HOST "\r\n" },
        { 400, GET "Host: a\n\r\n" },
        { 400, GET HOST "\n" },
        { 400, GET HOST "\rX: y\r\n" },
        { 400, GET HOST "X: a\001b\r\n\r\n" },
        { 400, GET HOST "X : y\r\n\r\n" },
        { 400, GET HOST ": y\r\n\r\n" },
        { 400, GET HOST "X\r\n\r\n" },
        { 400, GET HOST " folded\r\n\r\n" },
        { 400, GET HOST "Content-Length: 1\r\ncontent-length: 1\r\n\r\n" },
        { 400, GET HOST "Content-Length: \r\n\r\n" },
        { 400, GET HOST "Content-Length: 0x1\r\n\r\n" },
        { 400, GET HOST "Content-Length: 1 1\r\n\r\n" },
        { 400, GET HOST "Content-Length: 99999999999999999999\r\n\r\n" },
        { 400, GET HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" },
        { 400, GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" },
        { 400, "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" },
        { 501, GET HOST "Transfer-Encoding: identity\r\n\r\n" },
        { 501, GET HOST "Transfer-Encoding: chunked, chunked\r\n\r\n" },
        { 505, "GET / HTTP/1.2\r\n" },
        { 505, "GET / http/1.1\r\n" },
        { 400, "GET /\r\n" },
        { 400, "GET\t/ HTTP/1.1\r\n" },
        { 400, "GET  / HTTP/1.1\r\n" },
        { 400, "GET /a b HTTP/1.1\r\n" },
        { 505, "GET / HTTP/1.1 \r\n" },
        { 400, "GET * HTTP/1.1\r\n" },
        { 400, "GET /\xc3\xa4 HTTP/1.1\r\n" },
        { 400, "G@T / HTTP/1.1\r\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_head head;
        enum head_found found = http_head_read(pr_str(cases[i].text), &head);
        if (found != HEAD_WRONG || head.status != cases[i].status)
            check_fail(__FILE__, __LINE__, "case %zu: %d, %u", i, (int)found, head.status);
        CHECK(head.code != NULL && strpbrk(head.text, "\"\\") == NULL);
    }
    struct http_head head;
    CHECK_EQ(http_head_read(PR_BYTES("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29), &head), HEAD_WRONG);
}

static struct client_address peer_at(const char *text)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return peer_from((const struct sockaddr *)&v4);
    CHECK_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return peer_from((const struct sockaddr *)&v6);
}

TEST(one_address_has_half_of_the_places_and_probes_have_their_own) /* B206 */
{
    struct places p;
    struct client_address one = peer_at("192.0.2.1"), two = peer_at("192.0.2.2"), three = peer_at("2001:db8::1"),
                          same = peer_at("2001:db8::2");
    enum pool live = pool_of(PR_STR("GET"), PR_STR("/health/live"), false),
              ready = pool_of(PR_STR("HEAD"), PR_STR("/health/ready"), false);
    int fd = 0;
    CHECK_EQ(pool_of(PR_STR("POST"), PR_STR("/health/live"), false), POOL_ALL);
    CHECK_EQ(pool_of(PR_STR("GET"), PR_STR("/health/live"), true), POOL_ALL); /* its body may be slow */
    CHECK_EQ(pool_of(PR_STR("GET"), PR_STR("/v1/status"), false), POOL_ALL);
    places_init(&p);
    while (places_take(&p, fd, POOL_ALL, &one, 1))
        fd++;
    CHECK_EQ(fd, PLACES_PER_ADDRESS);
    CHECK(places_take(&p, fd++, POOL_ALL, &two, 1));
    CHECK(peer_same(&three, &same) && !peer_same(&one, &two));
    while (places_take(&p, fd, POOL_ALL, fd % 2 == 0 ? &two : &three, 1))
        fd++;
    CHECK_EQ(fd, GATE_PLACES_MAX - 10);
    CHECK(places_take(&p, 1000, live, &one, 1));                    /* also of the address that has too many */
    for (int i = 1; places_take(&p, 1000 + i, ready, &two, 1); i++) /* ready may hang: live still has a place */
        fd++;
    CHECK(places_take(&p, 2000, live, &two, 1));
    CHECK_EQ(places_find(&p, 2000)->pool, POOL_LIVE);
    places_leave(&p, 0);
    places_leave(&p, 0);
    CHECK(places_find(&p, 0) == NULL);
    CHECK(places_take(&p, 3000, POOL_ALL, &one, 1));
    CHECK(!places_take(&p, 3001, POOL_ALL, &one, 1));
}

TEST(one_address_cannot_take_all_places_of_those_who_wait) /* B206, B98 */
{
    struct places p;
    struct client_address one = peer_at("192.0.2.1"), two = peer_at("192.0.2.2");
    int fd = 0, waiting = 0;
    places_init(&p);
    while (places_take(&p, fd, POOL_ALL, &one, 1))
        fd++;
    while (places_wait(&p, waiting) == WAIT_GRANTED)
        waiting++;
    CHECK_EQ(waiting, WAITING_PER_ADDRESS);
    CHECK_EQ(places_wait(&p, waiting), WAIT_ADDRESS_FULL);
    CHECK(waiting < fd); /* and it has places left to end what it claimed */
    int other = fd;
    while (places_take(&p, fd, POOL_ALL, &two, 1))
        fd++;
    for (waiting = other; places_wait(&p, waiting) == WAIT_GRANTED;)
        waiting++;
    CHECK_EQ(waiting - other, WAITING_MAX - WAITING_PER_ADDRESS);
    CHECK_EQ(places_wait(&p, waiting), WAIT_FULL);
    places_wait_end(&p, 0);
    CHECK_EQ(places_wait(&p, waiting), WAIT_GRANTED);
    places_leave(&p, 1); /* who goes waits no more, and neither does who gets the place */
    CHECK(places_take(&p, 1, POOL_ALL, &two, 1));
    CHECK_EQ(places_wait(&p, waiting + 1), WAIT_GRANTED);
    CHECK_EQ(places_wait(&p, waiting + 2), WAIT_FULL);
    CHECK_EQ(places_wait(&p, 9999), WAIT_GRANTED);
}

TEST(a_socket_file_knows_no_addresses) /* B206 */
{
    struct places p;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct client_address peer = peer_from((const struct sockaddr *)&address);
    int fd = 0;
    places_init(&p);
    while (places_take(&p, fd, POOL_ALL, &peer, 1))
        fd++;
    CHECK_EQ(fd, GATE_PLACES_MAX - 10);
    for (fd = 0; places_wait(&p, fd) == WAIT_GRANTED;)
        fd++;
    CHECK_EQ(fd, WAITING_MAX);
}
