/* One thread, one connection at a time. */
#include "liar.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define TICK_MS 20

struct liar {
    const struct liar_step *steps;
    size_t count;
    bool stays;
    int listener;
    unsigned port;
    pthread_t thread;
    atomic_bool stop;
};

/* False: it is over, or we are. */
static bool wait_for(struct liar *l, int fd, short events)
{
    struct pollfd p = { .fd = fd, .events = events };
    while (!l->stop)
        if (poll(&p, 1, TICK_MS) > 0)
            return (p.revents & events) != 0;
    return false;
}

static bool hear(struct liar *l, int fd)
{
    char data[16384];
    return wait_for(l, fd, POLLIN) && recv(fd, data, sizeof(data), 0) > 0;
}

static bool say(struct liar *l, int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = wait_for(l, fd, POLLOUT) ? send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
        if (sent <= 0)
            return false;
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

static void play(struct liar *l, int fd)
{
    bool good = true;
    for (size_t i = 0; good && i < l->count; i++) {
        const struct liar_step *s = &l->steps[i];
        good = (!s->waits || hear(l, fd)) && say(l, fd, s->bytes, s->size);
        while (good && s->floods)
            good = say(l, fd, s->bytes, s->size);
    }
    while (good && l->stays)
        good = hear(l, fd);
}

static void *run(void *arg)
{
    struct liar *l = arg;
    while (wait_for(l, l->listener, POLLIN)) {
        int fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        play(l, fd);
        close(fd);
    }
    return NULL;
}

struct liar *liar_start(const struct liar_step *steps, size_t count, bool stays)
{
    struct liar *l = calloc(1, sizeof(*l));
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);
    CHECK(l != NULL);
    l->steps = steps;
    l->count = count;
    l->stays = stays;
    l->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(l->listener >= 0);
    CHECK_EQ(bind(l->listener, (struct sockaddr *)&address, size), 0);
    CHECK_EQ(listen(l->listener, 16), 0);
    CHECK_EQ(getsockname(l->listener, (struct sockaddr *)&address, &size), 0);
    l->port = ntohs(address.sin_port);
    CHECK_EQ(pthread_create(&l->thread, NULL, run, l), 0);
    return l;
}

unsigned liar_port(const struct liar *l)
{
    return l->port;
}

void liar_stop(struct liar *l)
{
    l->stop = true;
    pthread_join(l->thread, NULL);
    close(l->listener);
    free(l);
}
