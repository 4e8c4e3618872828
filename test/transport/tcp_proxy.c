/* One thread, poll() over all connections. */
#include "tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define WIRES_MAX 64
#define TICK_MS 5
#define REWRITE_MAX 32
#define REWRITINGS_MAX 2

struct wire {
    int client, server;
};

struct tcp_proxy {
    unsigned port, server_port;
    int listener;
    pthread_t thread;
    atomic_bool stop, hold, closed;
    atomic_size_t cut_after;
    _Atomic uint64_t connections, answer_bytes, question_bytes;
    struct wire wires[WIRES_MAX];
    size_t count;
    struct rewriting {
        char from[REWRITE_MAX], to[REWRITE_MAX];
        size_t size;
    } rewritings[REWRITINGS_MAX];
    size_t rewriting_count;
};

static struct sockaddr_in loopback(unsigned port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

static void wire_cut(struct tcp_proxy *p, size_t i)
{
    struct linger reset = { .l_onoff = 1 };
    setsockopt(p->wires[i].client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(p->wires[i].client);
    close(p->wires[i].server);
    p->wires[i] = p->wires[--p->count];
}

static void accept_one(struct tcp_proxy *p)
{
    struct sockaddr_in address = loopback(p->server_port);
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    p->connections++;
    int server = p->closed || p->count == WIRES_MAX ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof(address)) < 0) {
        if (server >= 0)
            close(server);
        close(client);
        return;
    }
    p->wires[p->count++] = (struct wire){ client, server };
}

static bool send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

static void rewrite(const struct tcp_proxy *p, char *data, size_t size)
{
    for (size_t i = 0; i < p->rewriting_count; i++) {
        const struct rewriting *r = &p->rewritings[i];
        char *found = data;
        while ((found = memmem(found, size - (size_t)(found - data), r->from, r->size)) != NULL)
            memcpy(found, r->to, r->size);
    }
}

/* False: the wire is to be cut. */
static bool pass(struct tcp_proxy *p, int from, int to, bool answer)
{
    char data[16384];
    ssize_t got = recv(from, data, sizeof(data), 0);
    if (got <= 0)
        return false;
    size_t size = (size_t)got, room = p->cut_after;
    if (answer)
        rewrite(p, data, size);
    bool cut = answer && room != SIZE_MAX && size >= room;
    if (cut)
        size = room;
    bool good = send_all(to, data, size);
    if (answer)
        p->answer_bytes += size;
    else
        p->question_bytes += size;
    if (answer && room != SIZE_MAX)
        p->cut_after = cut ? SIZE_MAX : room - size;
    return good && !cut;
}

static void *run(void *arg)
{
    struct tcp_proxy *p = arg;
    while (!p->stop) {
        struct pollfd fds[1 + 2 * WIRES_MAX] = { { .fd = p->listener, .events = POLLIN } };
        size_t count = p->count;
        for (size_t i = 0; i < count; i++) {
            fds[1 + 2 * i] = (struct pollfd){ .fd = p->hold ? -1 : p->wires[i].client, .events = POLLIN };
            fds[2 + 2 * i] = (struct pollfd){ .fd = p->hold ? -1 : p->wires[i].server, .events = POLLIN };
        }
        if (poll(fds, 1 + 2 * count, TICK_MS) < 0)
            continue;
        for (size_t i = count; i-- > 0;) { /* backwards: a cut moves the last one here */
            bool good = !p->closed;
            if (good && fds[1 + 2 * i].revents != 0)
                good = pass(p, p->wires[i].client, p->wires[i].server, false);
            if (good && fds[2 + 2 * i].revents != 0)
                good = pass(p, p->wires[i].server, p->wires[i].client, true);
            if (!good)
                wire_cut(p, i);
        }
        if (fds[0].revents != 0)
            accept_one(p);
    }
    return NULL;
}

struct tcp_proxy *tcp_proxy_start(unsigned server_port)
{
    struct tcp_proxy *p = calloc(1, sizeof(*p));
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    CHECK(p != NULL);
    p->server_port = server_port;
    p->cut_after = SIZE_MAX;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(p->listener >= 0);
    CHECK_EQ(bind(p->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(listen(p->listener, WIRES_MAX), 0);
    CHECK_EQ(getsockname(p->listener, (struct sockaddr *)&address, &size), 0);
    p->port = ntohs(address.sin_port);
    CHECK_EQ(pthread_create(&p->thread, NULL, run, p), 0);
    return p;
}

void tcp_proxy_stop(struct tcp_proxy *p)
{
    p->stop = true;
    CHECK_EQ(pthread_join(p->thread, NULL), 0);
    while (p->count > 0)
        wire_cut(p, p->count - 1);
    close(p->listener);
    free(p);
}

unsigned tcp_proxy_port(const struct tcp_proxy *p)
{
    return p->port;
}

void tcp_proxy_rewrite(struct tcp_proxy *p, const void *from, const void *to, size_t size)
{
    CHECK(size > 0 && size <= REWRITE_MAX);
    CHECK(p->rewriting_count < REWRITINGS_MAX);
    struct rewriting *r = &p->rewritings[p->rewriting_count++];
    memcpy(r->from, from, size);
    memcpy(r->to, to, size);
    r->size = size;
}

void tcp_proxy_cut_after(struct tcp_proxy *p, size_t answer_bytes)
{
    p->cut_after = answer_bytes;
}

bool tcp_proxy_was_cut(const struct tcp_proxy *p)
{
    return p->cut_after == SIZE_MAX;
}

void tcp_proxy_hold(struct tcp_proxy *p, bool hold)
{
    p->hold = hold;
}

void tcp_proxy_close(struct tcp_proxy *p, bool closed)
{
    p->closed = closed;
}

uint64_t tcp_proxy_connections(const struct tcp_proxy *p)
{
    return p->connections;
}

uint64_t tcp_proxy_answer_bytes(const struct tcp_proxy *p)
{
    return p->answer_bytes;
}

uint64_t tcp_proxy_question_bytes(const struct tcp_proxy *p)
{
    return p->question_bytes;
}
