/* The answers of a webhook's server, through the whole transport and libcurl.  The first line is the envelope ("batch"
 * for several in one request), the rest is the answer; then the server closes the connection. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/reason.h"
#include "transport/transport.h"

#include "fuzz.h"

#define MESSAGES 2

static int listener = -1;
static unsigned port;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pr_slice answer; /* under the lock */

static void hear_request(int fd)
{
    char data[8192];
    size_t size = 0;
    ssize_t got = 1;
    while (got > 0 && size < sizeof(data) && memmem(data, size, "\r\n\r\n", 4) == NULL) {
        got = recv(fd, data + size, sizeof(data) - size, 0);
        size += got > 0 ? (size_t)got : 0;
    }
}

static void *serve(void *arg)
{
    char data[1024];
    (void)arg;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        hear_request(fd);
        pthread_mutex_lock(&lock);
        ssize_t sent = answer.size > 0 ? send(fd, answer.data, answer.size, MSG_NOSIGNAL) : 0;
        (void)sent; /* the client may have heard enough */
        pthread_mutex_unlock(&lock);
        shutdown(fd, SHUT_WR);
        while (recv(fd, data, sizeof(data), 0) > 0)
            ; /* the rest of the request: closed before, the answer would be lost */
        close(fd);
    }
    return NULL;
}

static void start_server(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);
    pthread_t thread;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 64) == 0);
    FUZZ_CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    port = ntohs(address.sin_port);
    FUZZ_CHECK(pthread_create(&thread, NULL, serve, NULL) == 0);
    pthread_detach(thread);
}

static void check_result(const struct delivery_result *r)
{
    bool failed = r->outcome == SEND_FAILED || r->outcome == SEND_UNKNOWN;
    FUZZ_CHECK(r->token < MESSAGES);
    FUZZ_CHECK(failed == (r->reason != PR_REASON_NONE));
    FUZZ_CHECK(r->error == NULL || utf8_valid((pr_slice){ r->error, strlen(r->error) }));
    FUZZ_CHECK(r->retry_after_us >= 0 && r->retry_after_us <= PR_SECONDS(24 * 60 * 60));
}

static void carry_all(struct transport *t)
{
    struct pr_message message = { .type = PR_STR("t"), .payload = PR_STR("{}") };
    struct delivery deliveries[MESSAGES];
    const struct delivery *list[MESSAGES];
    int64_t now_us = clock_mono_us(clock_system());
    size_t given = 0, answered = 0;
    for (size_t i = 0; i < MESSAGES; i++) {
        deliveries[i] = (struct delivery){ .message = &message,
                                           .token = i,
                                           .attempt = 1,
                                           .deadline_us = now_us + PR_SECONDS(20),
                                           .start_before_us = now_us + PR_SECONDS(20) };
        list[i] = &deliveries[i];
    }
    while (answered < MESSAGES) {
        struct delivery_result r[MESSAGES];
        given += transport_submit(t, list + given, MESSAGES - given);
        size_t count = transport_poll(t, r, MESSAGES, clock_mono_us(clock_system()) + PR_SECONDS(30));
        FUZZ_CHECK(count > 0);
        for (size_t i = 0; i < count; i++) {
            check_result(&r[i]);
            delivery_result_fini(&r[i]);
        }
        answered += count;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct network loopback = { .address = { 127 }, .prefix = 8 };
    struct input in = input_from(data, size);
    bool batch = slice_eq_cstr(input_line(&in), "batch");
    char url[64];
    struct transport transport = { 0 };
    struct pr_error error = { 0 };
    if (listener < 0)
        start_server();
    pthread_mutex_lock(&lock);
    answer = input_rest(&in);
    pthread_mutex_unlock(&lock);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
    struct endpoint_config config = { .name = "x",
                                      .url = url,
                                      .envelope = batch ? "batch" : "binary",
                                      .timeout_us = PR_SECONDS(20),
                                      .concurrency = 1,
                                      .allow_networks = &loopback,
                                      .allow_network_count = 1,
                                      .wake_fd = -1 };
    FUZZ_CHECK(transport_open(&config, &transport, &error) == PR_OK);
    carry_all(&transport);
    transport_close(&transport);
    pthread_mutex_lock(&lock);
    answer = PR_STR(""); /* the server may still be at it */
    pthread_mutex_unlock(&lock);
    return 0;
}
