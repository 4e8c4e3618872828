#include "ops/api/gate.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/http_head.h"
#include "base/time.h"
#include "base/util.h"
#include "ops/api/gate_places.h"
#include "runtime/threads/thread.h"

#define GUESTS_MAX 256 /* connections without a place */
#define LOOKS_MAX 256  /* inspections of one head: each copies what has arrived */
#define HEAD_SECONDS 10
#define PLACE_SECONDS 5                  /* time to wait for a place */
#define REQUEST_SECONDS 20               /* time from the connection to the end of its body, and ... */
#define BODY_BYTES_PER_SECOND (1u << 20) /* ... longer for a large one */
#define CHUNKED_SECONDS 60
#define ANSWER_SECONDS 300
#define REFUSED_SECONDS 5 /* so that a refused client can read why */
#define LINGER_SECONDS 2  /* its head is incomplete */
#define TICK_SECONDS 1
#define EVENTS_MAX 64

#define MARK_LISTEN UINT64_MAX
#define MARK_WAKE (UINT64_MAX - 1)

enum guest_state {
    GUEST_FREE,
    GUEST_ASKS,    /* its head is not complete */
    GUEST_WAITS,   /* the refusal was sent; further input is dropped */
    GUEST_REFUSED, /* so that an event of the previous connection is recognised */
};

struct guest {
    enum guest_state state;
    int fd;
    unsigned generation; /* waiting: the pool that it may use in addition */
    unsigned looks;
    struct client_address peer;
    enum pool pool; /* waits: that it may also use */
    int64_t since_us, deadline_us, request_us;
    struct sockaddr_storage address;
    socklen_t address_size;
};

struct gate {
    struct gate_options options;
    int epoll_fd, wake_fd;
    pthread_t thread;
    atomic_bool stops;
    pthread_mutex_t lock; /* out of descriptors: the listening socket is ignored until the next tick */
    struct places places;
    bool deaf; /* out of descriptors: the listening socket is not asked until the next tick */
    struct guest guests[GUESTS_MAX];
    char bytes[HEAD_BYTES_MAX];
};

static int64_t now(void)
{
    return clock_mono_us(clock_system());
}

/* With unread input close() would send a reset, and the answer could be lost. */

static void guest_forget(struct gate *g, struct guest *guest)
{
    (void)epoll_ctl(g->epoll_fd, EPOLL_CTL_DEL, guest->fd, NULL);
    guest->state = GUEST_FREE;
    guest->generation++;
}

static void guest_close(struct gate *g, struct guest *guest)
{
    guest_forget(g, guest);
    close(guest->fd);
}

/* more than anybody sends by mistake */
static bool guest_drain(struct gate *g, struct guest *guest)
{
    for (unsigned i = 0; i < EVENTS_MAX; i++) {
        ssize_t got = recv(guest->fd, g->bytes, sizeof g->bytes, MSG_DONTWAIT);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    return false; /* The texts are literals without quotes. */
}

/* False: there is no place now. */
static void guest_refuse(struct gate *g, struct guest *guest, unsigned status, const char *code, const char *text)
{
    char body[400], answer[800];
    int size =
        snprintf(body, sizeof body, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"hint\":\"\"}}\n", code, text);
    ASSERT(size > 0 && (size_t)size < sizeof body);
    int all = snprintf(answer, sizeof answer,
                       "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                       "Content-Length: %d\r\nCache-Control: no-store\r\n%s\r\n%s",
                       status, status < 500 ? "Refused" : "Unavailable", size,
                       status == 503 ? "Retry-After: 1\r\n" : "", body);
    ASSERT(all > 0 && (size_t)all < sizeof answer);
    bool stays = guest_drain(g, guest);
    if (send(guest->fd, answer, (size_t)all, MSG_NOSIGNAL | MSG_DONTWAIT) != all || shutdown(guest->fd, SHUT_WR) < 0)
        stays = false;
    guest->state = GUEST_REFUSED;
    guest->deadline_us = now() + PR_SECONDS(LINGER_SECONDS);
    if (!stays)
        guest_close(g, guest);
}

static int64_t request_deadline(const struct guest *guest, const struct http_head *head)
{
    int64_t seconds = head->chunked ? CHUNKED_SECONDS : REQUEST_SECONDS;
    return guest->since_us +
           PR_SECONDS(seconds + (int64_t)(min64((int64_t)head->body_bytes, INT32_MAX) / BODY_BYTES_PER_SECOND));
}

/* False: there is no place now. */
static bool guest_enter(struct gate *g, struct guest *guest)
{
    ASSERT(pthread_mutex_lock(&g->lock) == 0);
    bool room = places_take(&g->places, guest->fd, guest->pool, &guest->peer, guest->request_us);
    ASSERT(pthread_mutex_unlock(&g->lock) == 0);
    if (!room)
        return false;
    guest_forget(g, guest);
    if (!g->options.take(g->options.arg, guest->fd, (const struct sockaddr *)&guest->address, guest->address_size))
        gate_connection_ends(g, guest->fd);
    return true;
}

static void guest_look(struct gate *g, struct guest *guest)
{
    struct http_head head;
    ssize_t got = recv(guest->fd, g->bytes, sizeof g->bytes, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        guest_close(g, guest);
        return;
    }
    switch (http_head_read(PR_BYTES(g->bytes, (size_t)got), &head)) {
    case HEAD_MORE:
        if ((size_t)got == sizeof g->bytes)
            guest_refuse(g, guest, 431, "too_large", "the request header is too large");
        else if (++guest->looks > LOOKS_MAX)
            guest_refuse(g, guest, 408, "timeout", "the request header came in too many pieces");
        return;
    case HEAD_WRONG: guest_refuse(g, guest, head.status, head.code, head.text); return;
    case HEAD_READ: break;
    }
    guest->pool = pool_of(head.method, head.path, head.chunked || head.body_bytes > 0);
    guest->request_us = request_deadline(guest, &head);
    guest->state = GUEST_WAITS;
    guest->deadline_us = now() + PR_SECONDS(PLACE_SECONDS);
    (void)guest_enter(g, guest);
}

static void guest_time_is_over(struct gate *g, struct guest *guest)
{
    if (guest->state == GUEST_ASKS)
        guest_refuse(g, guest, 408, "timeout", "the request header did not arrive in time");
    else if (guest->state == GUEST_WAITS)
        guest_refuse(g, guest, 503, "busy", "too many requests at once");
    else
        guest_close(g, guest);
}

/* Of the address with most connections, first those whose head is incomplete, oldest first. */

static size_t count_same(const struct gate *g, const struct guest *guest)
{
    size_t count = 0;
    for (size_t i = 0; i < GUESTS_MAX; i++)
        count += peer_same(&g->guests[i].peer, &guest->peer);
    return count;
}

/* False: no connection, or no descriptor. */
static struct guest *guest_to_close(struct gate *g)
{
    struct guest *worst = &g->guests[0];
    size_t worst_count = count_same(g, worst);
    for (size_t i = 1; i < GUESTS_MAX; i++) {
        struct guest *guest = &g->guests[i];
        size_t count = peer_same(&guest->peer, &worst->peer) ? worst_count : count_same(g, guest);
        bool asks = guest->state != GUEST_WAITS, worst_asks = worst->state != GUEST_WAITS;
        if (count > worst_count || (count == worst_count && asks > worst_asks) ||
            (count == worst_count && asks == worst_asks && guest->since_us < worst->since_us)) {
            worst = guest;
            worst_count = count;
        }
    }
    return worst;
}

static struct guest *guest_room(struct gate *g)
{
    for (size_t i = 0; i < GUESTS_MAX; i++)
        if (g->guests[i].state == GUEST_FREE)
            return &g->guests[i];
    struct guest *guest = guest_to_close(g);
    guest_close(g, guest);
    return guest;
}

/* one event for each arrival, since the bytes are only inspected */
static bool guest_accept(struct gate *g)
{
    struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
    socklen_t size = sizeof address;
    int fd = accept4(g->options.listen_fd, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        g->deaf = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
        return errno == EINTR || errno == ECONNABORTED;
    }
    struct guest *guest = guest_room(g);
    unsigned generation = guest->generation;
    *guest = (struct guest){ .state = GUEST_ASKS,
                             .fd = fd,
                             .generation = generation,
                             .peer = peer_from((const struct sockaddr *)&address),
                             .since_us = now(),
                             .address = address,
                             .address_size = size };
    guest->deadline_us = guest->since_us + PR_SECONDS(HEAD_SECONDS);
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP |
                                           EPOLLET, /* an edge for all that comes: it is only looked at */
                                 .data.u64 = (uint64_t)generation << 32 | (uint64_t)(guest - g->guests) };
    if (epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        guest_close(g, guest);
    else
        guest_look(g, guest);
    return true;
}

/* The longest waiting connection goes first; a later one may still fit if only the first one's address is full. */

static void listen_for(struct gate *g, bool listens)
{
    struct epoll_event event = { .events = listens ? EPOLLIN : 0, .data.u64 = MARK_LISTEN };
    (void)epoll_ctl(g->epoll_fd, EPOLL_CTL_MOD, g->options.listen_fd, &event);
}

/* The HTTP library sees the end of the connection, and closes it: the descriptor remains the library's. */
static void let_in(struct gate *g)
{
    bool tried[GUESTS_MAX] = { false };
    for (;;) {
        size_t first = GUESTS_MAX;
        for (size_t i = 0; i < GUESTS_MAX; i++)
            if (g->guests[i].state == GUEST_WAITS && !tried[i] &&
                (first == GUESTS_MAX || g->guests[i].since_us < g->guests[first].since_us))
                first = i;
        if (first == GUESTS_MAX)
            return;
        tried[first] = true;
        (void)guest_enter(g, &g->guests[first]);
    }
}

/* The HTTP library sees the end of the connection, and closes it: the descriptor stays its own. */
static void end_late_requests(struct gate *g, int64_t now_us)
{
    ASSERT(pthread_mutex_lock(&g->lock) == 0);
    for (size_t i = 0; i < GATE_PLACES_MAX; i++)
        if (g->places.list[i].fd >= 0 && g->places.list[i].deadline_us <= now_us)
            (void)shutdown(g->places.list[i].fd, SHUT_RDWR);
    ASSERT(pthread_mutex_unlock(&g->lock) == 0);
}

static void tick(struct gate *g)
{
    int64_t now_us = now();
    for (size_t i = 0; i < GUESTS_MAX; i++)
        if (g->guests[i].state != GUEST_FREE && g->guests[i].deadline_us <= now_us)
            guest_time_is_over(g, &g->guests[i]);
    end_late_requests(g, now_us);
    if (g->deaf)
        listen_for(g, true);
    g->deaf = false;
}

static void on_event(struct gate *g, uint64_t mark)
{
    if (mark == MARK_WAKE) {
        wake_clear(g->wake_fd);
        let_in(g);
        return;
    }
    if (mark == MARK_LISTEN) {
        for (unsigned i = 0; i < EVENTS_MAX && guest_accept(g); i++)
            ;
        if (g->deaf)
            listen_for(g, false);
        return;
    }
    struct guest *guest = &g->guests[(uint32_t)mark];
    if (guest->generation != (uint32_t)(mark >> 32) || guest->state == GUEST_FREE)
        return;
    if (guest->state == GUEST_ASKS)
        guest_look(g, guest);
    else if (guest->state == GUEST_REFUSED && !guest_drain(g, guest))
        guest_close(g, guest);
}

static void *gate_run(void *arg)
{
    struct gate *g = arg;
    struct epoll_event events[EVENTS_MAX];
    int64_t tick_us = now();
    while (!atomic_load(&g->stops)) {
        int count = epoll_wait(g->epoll_fd, events, EVENTS_MAX, TICK_SECONDS * 1000);
        for (int i = 0; i < count; i++)
            on_event(g, events[i].data.u64);
        if (now() >= tick_us) {
            tick(g);
            tick_us = now() + PR_SECONDS(TICK_SECONDS);
        }
    }
    for (size_t i = 0; i < GUESTS_MAX; i++)
        if (g->guests[i].state != GUEST_FREE)
            guest_close(g, &g->guests[i]);
    return NULL;
}

/* before the first connection is accepted */

static int watch(struct gate *g, int fd, uint64_t mark)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = mark };
    return epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int gate_start(const struct gate_options *options, struct gate **ret, struct pr_error *reterr)
{
    struct gate *g = calloc(1, sizeof *g);
    if (g == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for http");
    g->options = *options;
    g->wake_fd = -1;
    g->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    places_init(&g->places);
    ASSERT(pthread_mutex_init(&g->lock, NULL) == 0);
    int rc =
        g->epoll_fd >= 0 ? wake_open(&g->wake_fd, reterr) : error_set(reterr, PR_EIO, "epoll: %s", strerror(errno));
    if (rc == PR_OK && (watch(g, options->listen_fd, MARK_LISTEN) < 0 || watch(g, g->wake_fd, MARK_WAKE) < 0))
        rc = error_set(reterr, PR_EIO, "epoll: %s", strerror(errno));
    if (rc == PR_OK)
        *ret = g; /* before the first connection is taken */
    if (rc == PR_OK)
        rc = thread_start(&g->thread, THREAD_STACK_LOOP, "http-gate", gate_run, g, reterr);
    if (rc < 0) {
        g->options.listen_fd = -1;
        gate_free(g);
    }
    return rc;
}

static void set_deadline(struct gate *g, int fd, int64_t deadline_us)
{
    ASSERT(pthread_mutex_lock(&g->lock) == 0);
    struct gate_place *place = places_find(&g->places, fd);
    if (place != NULL)
        place->deadline_us = deadline_us;
    ASSERT(pthread_mutex_unlock(&g->lock) == 0);
}

void gate_request_is_read(struct gate *g, int fd)
{
    set_deadline(g, fd, now() + PR_SECONDS(ANSWER_SECONDS));
}

void gate_request_is_refused(struct gate *g, int fd)
{
    set_deadline(g, fd, now() + PR_SECONDS(REFUSED_SECONDS));
}

void gate_is_endless(struct gate *g, int fd)
{
    set_deadline(g, fd, INT64_MAX);
}

enum wait_room gate_wait_begin(struct gate *g, int fd)
{
    ASSERT(pthread_mutex_lock(&g->lock) == 0);
    enum wait_room room = places_wait(&g->places, fd);
    ASSERT(pthread_mutex_unlock(&g->lock) == 0);
    return room;
}

void gate_wait_end(struct gate *g, int fd)
{
    ASSERT(pthread_mutex_lock(&g->lock) == 0);
    places_wait_end(&g->places, fd);
    ASSERT(pthread_mutex_unlock(&g->lock) == 0);
}

void gate_connection_ends(struct gate *g, int fd)
{
    ASSERT(pthread_mutex_lock(&g->lock) == 0);
    places_leave(&g->places, fd);
    ASSERT(pthread_mutex_unlock(&g->lock) == 0);
    wake_send(g->wake_fd);
}

void gate_shut(struct gate *g)
{
    atomic_store(&g->stops, true);
    wake_send(g->wake_fd);
    pthread_join(g->thread, NULL);
    close(g->options.listen_fd);
    g->options.listen_fd = -1;
}

void gate_free(struct gate *g)
{
    if (g->epoll_fd >= 0)
        close(g->epoll_fd);
    wake_close(g->wake_fd);
    pthread_mutex_destroy(&g->lock);
    free(g);
}
