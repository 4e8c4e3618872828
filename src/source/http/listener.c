/* The thread of a listener, its connections, and the doors of all listeners. */
#include "source/http/listener.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/time.h"
#include "base/util.h"

#define BACKLOG 256
#define EVENTS_MAX 64
#define TICK_MS 500
#define DEAF_MS 20 /* while the process has no free descriptor for a connection */
#define HEAD_US PR_SECONDS(10)
#define BODY_US PR_SECONDS(30)
#define ANSWER_US PR_SECONDS(10)
#define IDLE_US PR_SECONDS(60) /* between two requests of a connection */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list, and the number of users of each */
static struct list all;

static void lock(pthread_mutex_t *mutex)
{
    ASSERT(pthread_mutex_lock(mutex) == 0);
}

static void unlock(pthread_mutex_t *mutex)
{
    ASSERT(pthread_mutex_unlock(mutex) == 0);
}

static int64_t now(void)
{
    return clock_mono_us(clock_system());
}

/* ---- Connections ------------------------------------------------------------------------------------- */

static void conn_watch(struct listener *l, struct http_conn *c, int how, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = c };
    ASSERT(epoll_ctl(l->epoll_fd, how, c->fd, &event) == 0);
}

/* Begins a state, with its time limit. */
static void conn_begin(struct http_conn *c, int64_t span_us)
{
    c->since_us = now();
    c->deadline_us = c->since_us + span_us;
}

static void conn_free(struct listener *l, struct http_conn *c)
{
    l->held_bytes -= c->body.size;
    /* Closing it does not end its polling while a program that starts (exec) has a copy of the descriptor.  In
     * CONN_WAITS it is not polled. */
    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    buf_fini(&c->in);
    buf_fini(&c->head);
    buf_fini(&c->body);
    buf_fini(&c->out);
    list_remove(&c->node);
    l->conn_count--;
    free(c);
}

/* Closes the connection that has taken longest for a head or body, or has been idle longest. */
static bool make_room(struct listener *l)
{
    struct http_conn *oldest = NULL;
    list_foreach(node, &l->conns) {
        struct http_conn *c = LIST_ENTRY(node, struct http_conn, node);
        bool is_read = c->state == CONN_HEAD || c->state == CONN_BODY;
        if (is_read && (oldest == NULL || c->since_us < oldest->since_us))
            oldest = c;
    }
    if (oldest != NULL)
        conn_free(l, oldest);
    return oldest != NULL;
}

static void take_connection(struct listener *l)
{
    int fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && !make_room(l))
        (void)poll(NULL, 0, DEAF_MS); /* otherwise epoll would report the same connection at once */
    if (fd < 0)
        return;
    struct http_conn *c = l->conn_count < CONNS_MAX || make_room(l) ? calloc(1, sizeof(*c)) : NULL;
    if (c == NULL) {
        close(fd);
        return;
    }
    c->fd = fd;
    buf_init(&c->in, HEAD_BYTES_MAX + READ_SIZE);
    buf_init(&c->head, HEAD_BYTES_MAX + READ_SIZE);
    buf_init(&c->out, HEAD_BYTES_MAX);
    conn_begin(c, HEAD_US);
    list_push_back(&l->conns, &c->node);
    l->conn_count++;
    conn_watch(l, c, EPOLL_CTL_ADD, EPOLLIN);
}

/* ---- Requests ------------------------------------------------------------------------------------------ */

static void enqueue(struct listener *l, struct http_conn *c)
{
    lock(&l->lock);
    struct door *d = c->door;
    bool is_open = d->state == DOOR_OPEN && d->queued < DOOR_QUEUE_MAX;
    if (is_open) {
        c->state = CONN_WAITS;
        list_push_back(&d->queue, &c->queued);
        d->queued++;
        conn_watch(l, c, EPOLL_CTL_DEL, 0); /* L2 */
        wake_send(d->ready_fd);
    }
    unlock(&l->lock);
    if (!is_open)
        conn_answer(c, 503, 2, "unavailable", "messages cannot be stored now; send it again later");
}

/* False: the connection is gone. */
static bool flush(struct http_conn *c)
{
    while (c->written < c->out.size) {
        ssize_t sent = send(c->fd, c->out.data + c->written, c->out.size - c->written, MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        c->written += (size_t)sent;
    }
    return buf_failed(&c->out) == 0;
}

/* Parses what has arrived; false: the connection is over. */
static bool advance(struct listener *l, struct http_conn *c)
{
    while (c->state == CONN_HEAD || c->state == CONN_BODY) {
        size_t before = c->body.size;
        bool was_head = c->state == CONN_HEAD;
        enum read_result result = conn_read(l, c);
        l->held_bytes += c->body.size - before;
        if (was_head && c->state == CONN_BODY)
            conn_begin(c, BODY_US);
        if (result == READ_MORE && l->held_bytes > max_size(HELD_BYTES_MAX, c->body.size)) { /* unless it is alone */
            c->keeps = false;
            conn_answer(c, 503, 2, "no_memory", "too many requests at once; send it again later");
            result = READ_ANSWER;
        }
        if (result == READ_WHOLE)
            enqueue(l, c);
        if (result == READ_MORE) {
            if (!flush(c)) /* for 100 Continue */
                return false;
            buf_reset(&c->out);
            c->written = 0;
            return true;
        }
        if (c->state == CONN_WAITS)
            return true;
        c->state = CONN_ANSWER;
        conn_begin(c, ANSWER_US);
        if (!flush(c))
            return false;
        if (c->written < c->out.size) {
            conn_watch(l, c, EPOLL_CTL_MOD, EPOLLOUT);
            return true;
        }
        if (!c->keeps)
            return false;
        l->held_bytes -= c->body.size;
        conn_next(c);
        conn_begin(c, IDLE_US);
    }
    return true;
}

/* Writes the rest of an answer; false: the connection is over. */
static bool write_on(struct listener *l, struct http_conn *c)
{
    if (!flush(c))
        return false;
    if (c->written < c->out.size)
        return true;
    if (!c->keeps)
        return false;
    l->held_bytes -= c->body.size;
    conn_next(c);
    conn_begin(c, IDLE_US);
    conn_watch(l, c, EPOLL_CTL_MOD, EPOLLIN);
    return advance(l, c);
}

static bool read_on(struct listener *l, struct http_conn *c)
{
    char bytes[READ_SIZE];
    ssize_t got = recv(c->fd, bytes, sizeof(bytes), 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0)
        return false;
    if (c->state == CONN_HEAD && c->in.size == 0)
        conn_begin(c, HEAD_US);
    buf_add(&c->in, bytes, (size_t)got);
    return buf_failed(&c->in) == 0 && advance(l, c);
}

static void serve(struct listener *l, struct http_conn *c)
{
    bool goes_on = c->state == CONN_ANSWER ? write_on(l, c) : read_on(l, c);
    if (!goes_on)
        conn_free(l, c);
}

/* Connections whose sources have answered: `out` is set. */
static void send_answers(struct listener *l)
{
    for (;;) {
        lock(&l->lock);
        struct list_node *node = list_pop_front(&l->answered);
        unlock(&l->lock);
        if (node == NULL)
            return;
        struct http_conn *c = LIST_ENTRY(node, struct http_conn, queued);
        c->state = CONN_ANSWER;
        conn_begin(c, ANSWER_US);
        conn_watch(l, c, EPOLL_CTL_ADD, EPOLLOUT);
        serve(l, c);
    }
}

/* Removes all references to a door that closes. */
static void part_from(struct listener *l, const struct door *d)
{
    list_foreach(node, &l->conns) {
        struct http_conn *c = LIST_ENTRY(node, struct http_conn, node);
        if (c->door != d || c->state == CONN_WAITS)
            continue;
        if (c->state == CONN_BODY)
            conn_free(l, c);
        else
            c->door = NULL;
    }
}

static void close_doors(struct listener *l)
{
    lock(&l->lock);
    for (struct list_node *node; (node = list_pop_front(&l->closing)) != NULL;)
        part_from(l, LIST_ENTRY(node, struct door, node));
    ASSERT(pthread_cond_broadcast(&l->closed) == 0);
    unlock(&l->lock);
}

static void expire(struct listener *l)
{
    int64_t at_us = now();
    list_foreach(node, &l->conns) {
        struct http_conn *c = LIST_ENTRY(node, struct http_conn, node);
        if (c->state != CONN_WAITS && c->deadline_us <= at_us)
            conn_free(l, c);
    }
}

static void *listener_run(void *arg)
{
    struct listener *l = arg;
    struct epoll_event events[EVENTS_MAX];
    int64_t swept_us = now();
    for (;;) {
        int count = epoll_wait(l->epoll_fd, events, EVENTS_MAX, TICK_MS);
        bool comes = false;
        for (int i = 0; i < count; i++)
            if (events[i].data.ptr == l)
                comes = true;
            else if (events[i].data.ptr == NULL)
                wake_clear(l->wake_fd);
            else
                serve(l, events[i].data.ptr);
        if (comes) /* after the others: it may close one of them to make room */
            take_connection(l);
        send_answers(l);
        close_doors(l);
        if (now() - swept_us > PR_MILLISECONDS(TICK_MS)) {
            expire(l);
            swept_us = now();
        }
        lock(&l->lock);
        bool stops = l->stops;
        unlock(&l->lock);
        if (stops)
            return NULL;
    }
}

/* ---- Listeners ------------------------------------------------------------------------------------------- */

static void listener_free(struct listener *l)
{
    list_foreach(node, &l->conns)
        conn_free(l, LIST_ENTRY(node, struct http_conn, node));
    if (l->listen_fd >= 0)
        close(l->listen_fd);
    if (l->epoll_fd >= 0)
        close(l->epoll_fd);
    wake_close(l->wake_fd);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->closed);
    free(l);
}

static int listener_start(struct listener *l, const struct door_options *o, struct pr_error *reterr)
{
    struct address address;
    struct epoll_event listens = { .events = EPOLLIN, .data.ptr = l }, wakes = { .events = EPOLLIN };
    unsigned port;
    int rc = address_parse(o->name, o->listen, &address, reterr);
    if (rc == PR_OK)
        rc = address_listen(o->name, o->listen, &address, BACKLOG, &l->listen_fd, &port, reterr);
    if (rc == PR_OK)
        rc = wake_open(&l->wake_fd, reterr);
    if (rc != PR_OK)
        return rc;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0 || epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->listen_fd, &listens) != 0 ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &wakes) != 0)
        return error_set(reterr, PR_EIO, "%s: epoll: %s", o->name, strerror(errno));
    return thread_start(&l->thread, THREAD_STACK_LOOP, "http-source", listener_run, l, reterr);
}

/* With the lock of all listeners held. */
static int listener_join(const struct door_options *o, struct listener **ret, struct pr_error *reterr)
{
    if (all.head.next == NULL)
        list_init(&all);
    list_foreach(node, &all) {
        *ret = LIST_ENTRY(node, struct listener, node);
        if (strcmp((*ret)->address, o->listen) == 0) {
            (*ret)->users++;
            return PR_OK;
        }
    }
    struct listener *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return error_set(reterr, PR_ENOMEM, "%s: out of memory", o->name);
    l->listen_fd = l->epoll_fd = l->wake_fd = -1;
    l->users = 1;
    snprintf(l->address, sizeof(l->address), "%s", o->listen);
    ASSERT(pthread_mutex_init(&l->lock, NULL) == 0 && pthread_cond_init(&l->closed, NULL) == 0);
    list_init(&l->doors);
    list_init(&l->answered);
    list_init(&l->closing);
    list_init(&l->conns);
    int rc = listener_start(l, o, reterr);
    if (rc != PR_OK) {
        listener_free(l);
        return rc;
    }
    list_push_back(&all, &l->node);
    *ret = l;
    return PR_OK;
}

/* With the lock of all listeners held. */
static void listener_leave(struct listener *l)
{
    if (--l->users > 0)
        return;
    list_remove(&l->node);
    lock(&l->lock);
    l->stops = true;
    unlock(&l->lock);
    wake_send(l->wake_fd);
    ASSERT(pthread_join(l->thread, NULL) == 0);
    listener_free(l);
}

/* ---- Doors ------------------------------------------------------------------------------------------------- */

static void door_free(struct door *d)
{
    signer_fini(&d->signer);
    wake_close(d->ready_fd);
    free(d);
}

int door_open(const struct door_options *o, struct door **ret, struct pr_error *reterr)
{
    struct door *d = calloc(1, sizeof(*d));
    char whose[200];
    if (d == NULL)
        return error_set(reterr, PR_ENOMEM, "%s: out of memory", o->name);
    d->options = *o;
    d->ready_fd = -1;
    list_init(&d->queue);
    snprintf(whose, sizeof(whose), "%s: secrets", o->name);
    int rc = signer_init(&d->signer, whose, o->secrets, o->secret_count, reterr);
    if (rc == PR_OK)
        rc = wake_open(&d->ready_fd, reterr);
    lock(&all_lock);
    if (rc == PR_OK)
        rc = listener_join(o, &d->listener, reterr);
    if (rc == PR_OK) {
        lock(&d->listener->lock);
        list_push_back(&d->listener->doors, &d->node);
        unlock(&d->listener->lock);
    }
    unlock(&all_lock);
    if (rc == PR_OK)
        *ret = d;
    else
        door_free(d);
    return rc;
}

void door_close(struct door *d)
{
    if (d == NULL)
        return;
    struct listener *l = d->listener;
    door_set_state(d, DOOR_CLOSED);
    lock(&l->lock);
    list_remove(&d->node);
    list_push_back(&l->closing, &d->node);
    wake_send(l->wake_fd);
    while (list_is_linked(&d->node))
        ASSERT(pthread_cond_wait(&l->closed, &l->lock) == 0);
    unlock(&l->lock);
    lock(&all_lock);
    listener_leave(l);
    unlock(&all_lock);
    door_free(d);
}

int door_fd(const struct door *d)
{
    return d->ready_fd;
}

struct door_request *door_take(struct door *d)
{
    wake_clear(d->ready_fd);
    lock(&d->listener->lock);
    struct list_node *node = list_pop_front(&d->queue);
    d->queued -= node != NULL;
    if (d->queued > 0)
        wake_send(d->ready_fd);
    unlock(&d->listener->lock);
    return node != NULL ? &LIST_ENTRY(node, struct http_conn, queued)->request : NULL;
}

/* Its `out` is set; with the lock held. */
static void hand_back(struct listener *l, struct http_conn *c)
{
    list_push_back(&l->answered, &c->queued);
    wake_send(l->wake_fd);
}

static void answered(struct door *d, struct http_conn *c)
{
    lock(&d->listener->lock);
    hand_back(d->listener, c);
    unlock(&d->listener->lock);
}

void door_accepted(struct door *d, struct door_request *request, size_t count)
{
    struct http_conn *c = CONTAINER_OF(request, struct http_conn, request);
    conn_accept(c, count);
    answered(d, c);
}

void door_refused(struct door *d, struct door_request *request, unsigned status, const char *why)
{
    struct http_conn *c = CONTAINER_OF(request, struct http_conn, request);
    conn_answer(c, status, status == 429 || status == 503 ? 2 : 0, "refused", why);
    answered(d, c);
}

void door_set_state(struct door *d, enum door_state state)
{
    struct listener *l = d->listener;
    lock(&l->lock);
    d->state = state;
    while (state != DOOR_OPEN && d->queued > 0) {
        struct http_conn *c = LIST_ENTRY(list_pop_front(&d->queue), struct http_conn, queued);
        d->queued--;
        conn_answer(c, state == DOOR_FULL ? 429 : 503, 2, state == DOOR_FULL ? "full" : "unavailable",
                    "it could not be stored; send it again later");
        hand_back(l, c);
    }
    unlock(&l->lock);
}
