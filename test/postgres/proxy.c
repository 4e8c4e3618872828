#include "proxy.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "store/suite.h"
#include "store/suite_postgres.h"

#define SOCKET_NAME ".s.PGSQL.5432"

struct proxy {
    char folder[64], server[256];
    int listener;
    pthread_t thread;
    int cut;
    unsigned round_trips, halves;
    bool stop;
};

struct wire {
    struct proxy *proxy;
    int client, server;
};

static int take_cut(struct proxy *proxy, int wanted)
{
    int expected = wanted;
    return __atomic_compare_exchange_n(&proxy->cut, &expected, PROXY_PASS, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
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

/* Until the server says that it is ready for the next transaction. */
static void swallow_answer(int server)
{
    char data[65536];
    size_t have = 0;
    static const char ready[] = { 'Z', 0, 0, 0, 5, 'I' };
    for (;;) {
        ssize_t got = read(server, data + have, sizeof(data) - have);
        if (got <= 0)
            return;
        have += (size_t)got;
        if (have >= sizeof(ready) && memcmp(data + have - sizeof(ready), ready, sizeof(ready)) == 0)
            return;
        if (have > sizeof(data) / 2) {
            memmove(data, data + have - sizeof(ready), sizeof(ready));
            have = sizeof(ready);
        }
    }
}

/* False: the wire is cut. */
static bool to_server(struct wire *w, const char *data, size_t size)
{
    bool begins = memmem(data, size, "BEGIN", 5) != NULL, commits = memmem(data, size, "COMMIT", 7) != NULL;
    if ((begins && take_cut(w->proxy, PROXY_CUT_BEGIN)) || (commits && take_cut(w->proxy, PROXY_CUT_COMMIT)))
        return false;
    bool lose = commits && take_cut(w->proxy, PROXY_CUT_ANSWER);
    if (!send_all(w->server, data, size))
        return false;
    if (lose)
        swallow_answer(w->server);
    return !lose;
}

/* "server_version" and its value, each with a NUL behind it, stand in the first answer. */
static bool to_client(struct wire *w, char *data, size_t size)
{
    static const char key[] = "server_version", ready[] = { 'Z', 0, 0, 0, 5 };
    char *end = data + size;
    for (char *at = data; (at = memmem(at, (size_t)(end - at), ready, sizeof(ready))) != NULL;) {
        at += sizeof(ready);
        __atomic_fetch_add(&w->proxy->round_trips, 1, __ATOMIC_SEQ_CST);
        if (at < end && *at == 'T')
            __atomic_fetch_add(&w->proxy->halves, 1, __ATOMIC_SEQ_CST);
    }
    char *found = memmem(data, size, key, sizeof(key));
    if (found != NULL && take_cut(w->proxy, PROXY_OLD_SERVER))
        memcpy(found + sizeof(key), "13", 2);
    return send_all(w->client, data, size);
}

static void *wire_run(void *arg)
{
    struct wire *w = arg;
    char data[65536];
    struct pollfd fds[] = { { .fd = w->client, .events = POLLIN }, { .fd = w->server, .events = POLLIN } };
    bool whole = true;
    while (whole && !__atomic_load_n(&w->proxy->stop, __ATOMIC_SEQ_CST)) {
        if (poll(fds, 2, 100) <= 0)
            continue;
        for (int i = 0; i < 2 && whole; i++) {
            if (fds[i].revents == 0)
                continue;
            ssize_t got = read(fds[i].fd, data, sizeof(data));
            whole = got > 0 && (i == 0 ? to_server(w, data, (size_t)got) : to_client(w, data, (size_t)got));
        }
    }
    close(w->client);
    close(w->server);
    free(w);
    return NULL;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void *proxy_run(void *arg)
{
    struct proxy *proxy = arg;
    struct pollfd listener = { .fd = proxy->listener, .events = POLLIN };
    while (!__atomic_load_n(&proxy->stop, __ATOMIC_SEQ_CST)) {
        pthread_t thread;
        if (poll(&listener, 1, 100) <= 0)
            continue;
        struct wire *w = malloc(sizeof(*w));
        *w = (struct wire){ .proxy = proxy,
                            .client = accept(proxy->listener, NULL, NULL),
                            .server = connect_to(proxy->server) };
        if (w->client < 0 || w->server < 0 || pthread_create(&thread, NULL, wire_run, w) != 0) {
            close(w->client);
            close(w->server);
            free(w);
            continue;
        }
        pthread_detach(thread);
    }
    return NULL;
}

struct proxy *proxy_start(const char *server_folder)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct proxy *proxy = calloc(1, sizeof(*proxy));
    CHECK(proxy != NULL);
    strcpy(proxy->folder, "/tmp/pr-proxy-XXXXXX");
    CHECK(mkdtemp(proxy->folder) != NULL);
    snprintf(proxy->server, sizeof(proxy->server), "%s/" SOCKET_NAME, server_folder);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/" SOCKET_NAME, proxy->folder);
    proxy->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(proxy->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(listen(proxy->listener, 16), 0);
    CHECK_EQ(pthread_create(&proxy->thread, NULL, proxy_run, proxy), 0);
    return proxy;
}

void proxy_stop(struct proxy *proxy)
{
    char path[128];
    __atomic_store_n(&proxy->stop, true, __ATOMIC_SEQ_CST);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
    snprintf(path, sizeof(path), "%s/" SOCKET_NAME, proxy->folder);
    unlink(path);
    rmdir(proxy->folder);
    usleep(250000); /* wires look every 100 ms whether to stop; they hold the proxy until then */
    free(proxy);
}

const char *proxy_folder(const struct proxy *proxy)
{
    return proxy->folder;
}

void proxy_set(struct proxy *proxy, enum proxy_cut cut)
{
    __atomic_store_n(&proxy->cut, (int)cut, __ATOMIC_SEQ_CST);
}

unsigned proxy_round_trips(const struct proxy *proxy)
{
    return __atomic_load_n(&proxy->round_trips, __ATOMIC_SEQ_CST);
}

unsigned proxy_halves(const struct proxy *proxy)
{
    return __atomic_load_n(&proxy->halves, __ATOMIC_SEQ_CST);
}

/* ---- In a test ---------------------------------------------------------------------- */

const char *server_folder(void)
{
    const char *folder = getenv("POSTRIDER_TEST_PG_FOLDER");
    if (folder == NULL)
        SKIP("the server is not ours to break");
    return folder;
}

static void connect_through(struct suite *s, const char *folder)
{
    snprintf(s->url, sizeof(s->url), "postgres:///postgres?host=%s&user=postgres&schema=%s", folder, suite_pg_schema());
    suite_reopen(s);
}

struct proxy *over_a_wire(struct suite *s)
{
    struct proxy *proxy = proxy_start(server_folder());
    connect_through(s, proxy_folder(proxy));
    return proxy;
}

void end_of_wire(struct suite *s, struct proxy *proxy)
{
    connect_through(s, server_folder());
    proxy_stop(proxy);
}
