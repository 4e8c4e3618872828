/* Answers of a Kafka broker, through the whole transport and librdkafka, which has sockets and threads of its own: so
 * this target is a server.  The input is a list of answers, each the number of the request that it is for (one byte), a
 * length (two) and the bytes after the correlation id; each is given once, the last one of its number repeatedly.  A
 * request without an answer ends the connection.  Whatever brokers an answer names, this server is used. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
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
#define TIMEOUT_US PR_MILLISECONDS(200) /* what an answer spoils is tried again until then */
#define PATIENCE_US PR_SECONDS(20)
#define ANSWERS_MAX 64
#define REQUEST_MAX 65536

struct answer {
    unsigned key;
    pr_slice body;
    bool used;
};

static unsigned port;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct answer answers[ANSWERS_MAX]; /* under the lock */
static size_t answer_count;

/* In the place of the C library's: no name leads away from here. */
__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints, struct addrinfo **ret)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    struct addrinfo mine = *hints;
    char number[16];
    (void)node;
    (void)service;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    snprintf(number, sizeof(number), "%u", port);
    mine.ai_family = AF_INET;
    return real("127.0.0.1", number, &mine, ret);
}

static bool hear(int fd, unsigned char *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = recv(fd, data + at, size - at, 0);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

/* A copy, since the input may go while it is sent. */
static size_t answer_for(unsigned key, unsigned char *ret)
{
    struct answer *found = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < answer_count && (found == NULL || found->used); i++)
        if (answers[i].key == key)
            found = &answers[i];
    size_t size = found != NULL ? found->body.size : 0;
    if (found != NULL) {
        found->used = true;
        if (size > 0)
            memcpy(ret, found->body.data, size);
    }
    pthread_mutex_unlock(&lock);
    return found != NULL ? size : SIZE_MAX;
}

static void *serve_one(void *arg)
{
    int fd = (int)(intptr_t)arg;
    unsigned char *request = malloc(REQUEST_MAX), *reply = malloc(REQUEST_MAX + 8), head[4];
    FUZZ_CHECK(request != NULL && reply != NULL);
    while (hear(fd, head, sizeof(head))) {
        size_t size = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        if (size < 8 || size > REQUEST_MAX || !hear(fd, request, size))
            break;
        size_t body = answer_for((unsigned)request[0] << 8 | request[1], reply + 8);
        if (body == SIZE_MAX)
            break;
        uint32_t length = htonl((uint32_t)body + 4);
        memcpy(reply, &length, 4);
        memcpy(reply + 4, request + 4, 4); /* the correlation id */
        if (send(fd, reply, body + 8, MSG_NOSIGNAL) < 0)
            break;
    }
    close(fd);
    free(request);
    free(reply);
    return NULL;
}

static void *serve(void *arg)
{
    int listener = (int)(intptr_t)arg;
    for (;;) {
        pthread_t thread;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        FUZZ_CHECK(pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd) == 0);
        pthread_detach(thread);
    }
    return NULL;
}

static void start_server(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);
    pthread_t thread;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 64) == 0);
    FUZZ_CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    port = ntohs(address.sin_port);
    FUZZ_CHECK(pthread_create(&thread, NULL, serve, (void *)(intptr_t)listener) == 0);
    pthread_detach(thread);
}

static void take_answers(const uint8_t *data, size_t size)
{
    pthread_mutex_lock(&lock);
    answer_count = 0;
    while (size >= 3 && answer_count < ANSWERS_MAX) {
        size_t length = (size_t)data[1] << 8 | data[2];
        if (length > size - 3)
            length = size - 3;
        answers[answer_count++] =
            (struct answer){ .key = data[0], .body = { length > 0 ? (const char *)data + 3 : "", length } };
        data += 3 + length;
        size -= 3 + length;
    }
    pthread_mutex_unlock(&lock);
}

static void check_result(const struct delivery_result *r, unsigned results[MESSAGES])
{
    bool failed = r->outcome == SEND_FAILED || r->outcome == SEND_UNKNOWN;
    FUZZ_CHECK(r->token < MESSAGES && results[r->token]++ == 0);
    FUZZ_CHECK(failed == (r->reason != PR_REASON_NONE));
    FUZZ_CHECK(!failed || reason_is_known(r->reason));
    FUZZ_CHECK(r->error == NULL || utf8_valid((pr_slice){ r->error, strlen(r->error) }));
    FUZZ_CHECK(memchr(r->code, '\0', sizeof(r->code)) != NULL);
}

/* P1: each gets one result. */
static void carry_all(struct transport *t)
{
    struct pr_message message = { .type = PR_STR("t"),
                                  .payload = PR_STR("{\"a\":1}"),
                                  .headers = PR_STR("{\"k\":\"v\"}") };
    struct delivery deliveries[MESSAGES];
    const struct delivery *list[MESSAGES];
    unsigned results[MESSAGES] = { 0 };
    size_t given = 0, answered = 0;
    int64_t now_us = clock_mono_us(clock_system());
    for (size_t i = 0; i < MESSAGES; i++) {
        deliveries[i] = (struct delivery){ .message = &message,
                                           .token = i,
                                           .attempt = 1,
                                           .deadline_us = now_us + PR_SECONDS(60),
                                           .start_before_us = now_us + PR_SECONDS(60) };
        list[i] = &deliveries[i];
    }
    while (answered < MESSAGES) {
        struct delivery_result r[MESSAGES];
        given += transport_submit(t, list + given, MESSAGES - given);
        size_t count = transport_poll(t, r, MESSAGES, clock_mono_us(clock_system()) + PATIENCE_US);
        FUZZ_CHECK(count > 0);
        for (size_t i = 0; i < count; i++) {
            check_result(&r[i], results);
            delivery_result_fini(&r[i]);
        }
        answered += count;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct transport transport = { 0 };
    struct pr_error error = { 0 };
    struct endpoint_config config = {
        .name = "x", .url = "kafka://127.0.0.1/t", .timeout_us = TIMEOUT_US, .concurrency = MESSAGES + 1, .wake_fd = -1
    };
    if (port == 0)
        start_server();
    take_answers(data, size);
    FUZZ_CHECK(transport_open(&config, &transport, &error) == PR_OK);
    carry_all(&transport);
    transport_close(&transport);
    take_answers(NULL, 0); /* somebody may still be at it */
    return 0;
}
