#include "transport/broker/kafka_gate.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/list.h"
#include "base/time.h"
#include "transport/broker/kafka_answer.h"

#define CONNECT_MS 5000
#define READ_SIZE 65536
#define QUESTIONS_MAX 4096            /* requests without an answer; idempotence allows five, others are few */
#define WAITING_MAX ((size_t)1 << 20) /* bytes for a side that does not read: beyond that, the other side is not read */
#define NAMES_MAX 65536               /* of brokers: more than any cluster has */

/* Bytes on their way to one side. */
struct flow {
    struct buf bytes;
    size_t written;
};

struct passage {
    struct list_node node; /* in gate.fresh, then in gate.passages */
    int library_fd;        /* to find the passage again; the library closes the descriptor */
    int near_fd, far_fd;
    struct wire *wire; /* with TLS, instead of far_fd */
    bool unread;       /* it may have bytes that poll() does not show */
    bool spoke;        /* the broker has sent something, so our certificate was accepted */
    struct flow up, down;
    struct buf heard;                         /* from the broker, not checked yet */
    unsigned char head[KAFKA_QUESTION_BYTES]; /* of the request being forwarded */
    size_t head_size;
    size_t passing; /* bytes of it that are still to come */
    struct kafka_question questions[QUESTIONS_MAX];
    size_t first, count;
};

/* A broker that the library has resolved, for TLS. */
struct name {
    struct name *next;
    uint32_t number; /* the address that stands for it */
    unsigned port;
    char host[];
};

struct kafka_gate {
    void *user;
    size_t answer_max;
    struct wire tls; /* shared by its passages; .tls NULL: without */
    int wake_fd;     /* there is a new passage */
    int stop_fd;     /* readable from kafka_gate_stop() on */
    pthread_mutex_t lock;
    pthread_t thread;
    bool runs, stops;        /* guarded by the lock */
    struct list fresh;       /* guarded by the lock; made by the library, and possibly not connected yet */
    char why[WIRE_WHY_SIZE]; /* guarded by the lock */
    rd_kafka_resp_err_t why_error;
    size_t needs;         /* guarded by the lock: size of an answer that was too large; 0: none was */
    struct name *names;   /* guarded by the lock; none is freed before the gate */
    struct list passages; /* owned by the thread */
    size_t passage_count;
};

static void passage_free(struct passage *p)
{
    if (p->near_fd >= 0)
        close(p->near_fd);
    if (p->far_fd >= 0)
        close(p->far_fd);
    if (p->wire != NULL)
        wire_fini(p->wire);
    free(p->wire);
    buf_fini(&p->up.bytes);
    buf_fini(&p->down.bytes);
    buf_fini(&p->heard);
    free(p);
}

static void free_all(struct list *list)
{
    struct list_node *node;
    while ((node = list_pop_front(list)) != NULL)
        passage_free(LIST_ENTRY(node, struct passage, node));
}

/* ---- What goes through ---------------------------------------------------------------------------------- */

static bool refuse(struct kafka_gate *g, const char *what, const char *why)
{
    pthread_mutex_lock(&g->lock);
    snprintf(g->why, sizeof(g->why), "the broker's answer to %s is not valid Kafka: %s", what, why);
    g->why_error = RD_KAFKA_RESP_ERR__BAD_MSG;
    pthread_mutex_unlock(&g->lock);
    return false;
}

/* Why a connection was not made.  For later failures the library knows more; only the refusal of our certificate shows
 * up at the end of a connection. */
static void note_wire(struct kafka_gate *g, const struct passage *p)
{
    bool is_tls = strcmp(p->wire->code, "tls") == 0;
    if (p->spoke)
        return;
    pthread_mutex_lock(&g->lock);
    snprintf(g->why, sizeof(g->why), "%s", p->wire->why);
    g->why_error = is_tls ? RD_KAFKA_RESP_ERR__SSL : RD_KAFKA_RESP_ERR__TRANSPORT;
    pthread_mutex_unlock(&g->lock);
}

static size_t length_of(const unsigned char *bytes)
{
    return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

/* It answers a request of this library, and may be valid: it is only larger than the limit. */
static bool refuse_size(struct kafka_gate *g, const struct passage *p, const unsigned char *bytes, size_t have)
{
    size_t length = length_of(bytes);
    bool is_ours =
        p->count > 0 && have >= 8 && (uint32_t)length_of(bytes + 4) == (uint32_t)p->questions[p->first].correlation;
    if (length > g->answer_max && length <= INT32_MAX && is_ours) {
        pthread_mutex_lock(&g->lock);
        g->needs = length;
        pthread_mutex_unlock(&g->lock);
    }
    return refuse(g, p->count > 0 ? kafka_question_name(&p->questions[p->first]) : "nobody", "invalid size");
}

static bool note_question(struct kafka_gate *g, struct passage *p)
{
    struct kafka_question q;
    size_t length = length_of(p->head);
    if (!kafka_question_read(p->head, &q))
        return refuse(g, kafka_question_name(&q), "its version is too old; the brokers must be Kafka 1.0 or newer");
    if (length < KAFKA_QUESTION_BYTES - 4 || p->count == QUESTIONS_MAX)
        return refuse(g, kafka_question_name(&q), "no data");
    p->questions[(p->first + p->count++) % QUESTIONS_MAX] = q;
    p->passing = length - (KAFKA_QUESTION_BYTES - 4);
    p->head_size = 0;
    return true;
}

/* From the library: parses the requests. */
static bool pass_up(struct kafka_gate *g, struct passage *p, const unsigned char *bytes, size_t size)
{
    buf_add(&p->up.bytes, bytes, size);
    while (size > 0) {
        size_t skip = min_size(size, p->passing);
        p->passing -= skip;
        bytes += skip;
        size -= skip;
        skip = min_size(size, sizeof(p->head) - p->head_size);
        memcpy(p->head + p->head_size, bytes, skip);
        p->head_size += skip;
        bytes += skip;
        size -= skip;
        if (p->head_size == sizeof(p->head) && !note_question(g, p))
            return false;
    }
    return buf_failed(&p->up.bytes) == 0;
}

/* One complete answer, with its length. */
static bool pass_answer(struct kafka_gate *g, struct passage *p, unsigned char *bytes, size_t size)
{
    if (p->count == 0)
        return refuse(g, "nobody", "unsolicited answer");
    const struct kafka_question *q = &p->questions[p->first];
    if ((uint32_t)length_of(bytes + 4) != (uint32_t)q->correlation)
        return refuse(g, kafka_question_name(q), "it answers another request");
    const char *bad = kafka_answer_check(q, bytes + 8, size - 8);
    if (bad != NULL)
        return refuse(g, kafka_question_name(q), bad);
    p->first = (p->first + 1) % QUESTIONS_MAX;
    p->count--;
    buf_add(&p->down.bytes, bytes, size);
    return buf_failed(&p->down.bytes) == 0;
}

static bool pass_down(struct kafka_gate *g, struct passage *p)
{
    unsigned char *bytes = (unsigned char *)p->heard.data;
    size_t size = p->heard.size, used = 0;
    while (size - used >= 4) {
        size_t length = length_of(bytes + used);
        if (length > g->answer_max && size - used < 8)
            break; /* which request does it answer? */
        if (length < 4 || length > g->answer_max)
            return refuse_size(g, p, bytes + used, size - used);
        if (size - used < length + 4)
            break;
        if (!pass_answer(g, p, bytes + used, length + 4))
            return false;
        used += length + 4;
    }
    if (used > 0) {
        memmove(bytes, bytes + used, size - used);
        buf_truncate(&p->heard, size - used);
    }
    return true;
}

/* ---- The sockets ---------------------------------------------------------------------------------------- */

static bool flow_write(struct flow *f, int fd)
{
    while (f->written < f->bytes.size) {
        ssize_t sent = send(fd, f->bytes.data + f->written, f->bytes.size - f->written, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        f->written += (size_t)sent;
    }
    buf_reset(&f->bytes);
    f->written = 0;
    return true;
}

/* Like flow_write().  Bytes of a TLS record that is held back go out first. */
static bool wire_flush(struct kafka_gate *g, struct passage *p)
{
    struct flow *f = &p->up;
    ssize_t sent;
    do {
        size_t size = f->bytes.size - f->written;
        sent = wire_write(p->wire, size > 0 ? f->bytes.data + f->written : NULL, size);
        f->written += sent > 0 ? (size_t)sent : 0;
    } while (sent > 0 && f->written < f->bytes.size);
    if (sent < 0)
        note_wire(g, p);
    if (f->written == f->bytes.size) {
        buf_reset(&f->bytes);
        f->written = 0;
    }
    return sent >= 0;
}

/* Reads all that is there, as far as the library takes it: poll() does not show what TLS has read already. */
static bool wire_hear(struct kafka_gate *g, struct passage *p)
{
    unsigned char bytes[WIRE_CHUNK_MAX];
    ssize_t got = 1;
    bool good = true;
    while (good && got > 0 && p->down.bytes.size < WAITING_MAX) {
        got = wire_read(p->wire, bytes, sizeof(bytes));
        if (got > 0)
            buf_add(&p->heard, bytes, (size_t)got);
        p->spoke |= got > 0;
        good = buf_failed(&p->heard) == 0 && (got <= 0 || pass_down(g, p));
    }
    p->unread = got > 0;
    if (got < 0)
        note_wire(g, p);
    return good && got >= 0;
}

static bool passage_read(struct kafka_gate *g, struct passage *p, bool near)
{
    if (!near && p->wire != NULL)
        return wire_hear(g, p);
    unsigned char bytes[READ_SIZE];
    ssize_t got = recv(near ? p->near_fd : p->far_fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0)
        return false;
    if (near)
        return pass_up(g, p, bytes, (size_t)got);
    buf_add(&p->heard, bytes, (size_t)got);
    return buf_failed(&p->heard) == 0 && pass_down(g, p);
}

/* A side that does not read its input gets no more. */
static short events_of(const struct flow *in, const struct flow *out)
{
    return (short)((out->bytes.size < WAITING_MAX ? POLLIN : 0) | (in->bytes.size > 0 ? POLLOUT : 0));
}

static bool passage_work(struct kafka_gate *g, struct passage *p, const struct pollfd fds[2])
{
    bool good = true;
    if (good && (fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        good = passage_read(g, p, true);
    if (good && ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0 || (p->unread && (fds[1].events & POLLIN) != 0)))
        good = passage_read(g, p, false);
    bool written = flow_write(&p->down, p->near_fd); /* checked bytes, even before an end */
    return good && written && (p->wire != NULL ? wire_flush(g, p) : flow_write(&p->up, p->far_fd));
}

/* ---- The thread ----------------------------------------------------------------------------------------- */

static void take_connected(struct kafka_gate *g)
{
    list_foreach(node, &g->fresh) {
        struct passage *p = LIST_ENTRY(node, struct passage, node);
        if (p->library_fd >= 0)
            continue; /* not connected yet */
        list_remove(node);
        list_push_back(&g->passages, node);
        g->passage_count++;
    }
}

static void work(struct kafka_gate *g, struct pollfd *fds)
{
    size_t i = 1;
    list_foreach(node, &g->passages) {
        struct passage *p = LIST_ENTRY(node, struct passage, node);
        if (!passage_work(g, p, &fds[i])) {
            list_remove(node);
            passage_free(p);
            g->passage_count--;
        }
        i += 2;
    }
}

static bool wait_for_bytes(struct kafka_gate *g, struct pollfd *fds)
{
    uint64_t ignored;
    size_t count = 0;
    bool unread = false;
    fds[count++] = (struct pollfd){ .fd = g->wake_fd, .events = POLLIN };
    list_foreach(node, &g->passages) {
        const struct passage *p = LIST_ENTRY(node, struct passage, node);
        fds[count++] = (struct pollfd){ .fd = p->near_fd, .events = events_of(&p->down, &p->up) };
        fds[count] = (struct pollfd){ .fd = p->far_fd, .events = events_of(&p->up, &p->down) };
        if (p->wire != NULL) {
            fds[count].fd = p->wire->fd;
            fds[count].events |= p->wire->held_size > 0 ? POLLOUT : 0;
            unread |= p->unread && (fds[count].events & POLLIN) != 0;
        }
        count++;
    }
    if (poll(fds, count, unread ? 0 : -1) < (unread ? 0 : 1))
        return false;
    if (fds[0].revents != 0)
        (void)!read(g->wake_fd, &ignored, sizeof(ignored));
    return true;
}

/* Without memory it ends, too: the library has then lost all its brokers. */
static void *run(void *arg)
{
    struct kafka_gate *g = arg;
    for (;;) {
        pthread_mutex_lock(&g->lock);
        bool stops = g->stops;
        take_connected(g);
        pthread_mutex_unlock(&g->lock);
        struct pollfd *fds = stops ? NULL : calloc(1 + 2 * g->passage_count, sizeof(*fds));
        if (fds == NULL)
            break;
        if (wait_for_bytes(g, fds))
            work(g, fds);
        free(fds);
    }
    free_all(&g->passages);
    return NULL;
}

static void ring(int fd)
{
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof(one));
}

/* ---- What the library calls, in threads of its own -------------------------------------------------------- */

static struct passage *passage_new(struct kafka_gate *g, int domain, int type, int protocol)
{
    int pair[2];
    struct passage *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        free(p);
        return NULL;
    }
    p->library_fd = pair[0];
    p->near_fd = pair[1];
    p->far_fd = -1;
    if (g->tls.tls != NULL)
        p->wire = calloc(1, sizeof(*p->wire));
    else
        p->far_fd = socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    buf_init(&p->up.bytes, SIZE_MAX / 2);
    buf_init(&p->down.bytes, SIZE_MAX / 2);
    buf_init(&p->heard, g->answer_max + READ_SIZE + 4);
    if (p->far_fd >= 0 || p->wire != NULL)
        return p;
    close(pair[0]);
    passage_free(p);
    return NULL;
}

/* A passage with this descriptor that the library has closed since, without a connection. */
static void forget(struct kafka_gate *g, int library_fd)
{
    list_foreach(node, &g->fresh) {
        struct passage *p = LIST_ENTRY(node, struct passage, node);
        if (p->library_fd == library_fd) {
            list_remove(node);
            passage_free(p);
        }
    }
}

static int gate_socket(int domain, int type, int protocol, void *opaque)
{
    struct kafka_gate *g = opaque;
    struct passage *p = passage_new(g, domain, type, protocol);
    if (p == NULL)
        return -1;
    int library_fd = p->library_fd;
    pthread_mutex_lock(&g->lock);
    forget(g, library_fd);
    list_push_back(&g->fresh, &p->node);
    pthread_mutex_unlock(&g->lock);
    return library_fd;
}

/* 0, or an errno.  The library has a thread for each broker, so this one may block. */
static int wait_connected(const struct kafka_gate *g, int fd)
{
    struct pollfd fds[2] = { { .fd = fd, .events = POLLOUT }, { .fd = g->stop_fd, .events = POLLIN } };
    int error = 0;
    socklen_t size = sizeof(error);
    if (poll(fds, 2, CONNECT_MS) <= 0)
        return ETIMEDOUT;
    if (fds[1].revents != 0)
        return ECANCELED;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

static int start_thread(struct kafka_gate *g)
{
    if (!g->runs && pthread_create(&g->thread, NULL, run, g) == 0)
        g->runs = true;
    return g->runs ? 0 : EAGAIN;
}

static int connect_plainly(const struct kafka_gate *g, int fd, const struct sockaddr *address, int size)
{
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    int error = connect(fd, address, (socklen_t)size) == 0 ? 0 : errno;
    return error == EINPROGRESS ? wait_connected(g, fd) : error;
}

/* 0, or an errno; includes the TLS handshake. */
static int connect_wire(struct kafka_gate *g, const struct passage *p, const struct sockaddr *address)
{
    struct wire *w = p->wire;
    const uint32_t number = ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    const struct name *name;
    pthread_mutex_lock(&g->lock);
    for (name = g->names; name != NULL && name->number != number;)
        name = name->next;
    pthread_mutex_unlock(&g->lock);
    ASSERT(name != NULL);
    int64_t until_us = clock_mono_us(clock_system()) + PR_MILLISECONDS(CONNECT_MS), left_us;
    wire_init_like(w, &g->tls, name->host, name->port);
    bool good = wire_connect(w);
    while (good && w->state != WIRE_OPEN) {
        struct pollfd fds[2] = { { .fd = w->fd, .events = wire_events(w, false) },
                                 { .fd = g->stop_fd, .events = POLLIN } };
        left_us = until_us - clock_mono_us(clock_system());
        if (left_us <= 0 || poll(fds, 2, (int)(left_us / 1000) + 1) < 0)
            return ETIMEDOUT;
        if (fds[1].revents != 0)
            return ECANCELED;
        good = fds[0].revents == 0 || wire_progress(w);
    }
    if (!good)
        note_wire(g, p);
    return good ? 0 : ECONNABORTED;
}

static int gate_connect(int library_fd, const struct sockaddr *address, int size, const char *id, void *opaque)
{
    struct kafka_gate *g = opaque;
    struct passage *mine = NULL;
    (void)id;
    pthread_mutex_lock(&g->lock);
    list_foreach(node, &g->fresh)
        if (LIST_ENTRY(node, struct passage, node)->library_fd == library_fd)
            mine = LIST_ENTRY(node, struct passage, node);
    pthread_mutex_unlock(&g->lock);
    ASSERT(mine != NULL);
    int error = mine->wire != NULL ? connect_wire(g, mine, address) : connect_plainly(g, mine->far_fd, address, size);
    pthread_mutex_lock(&g->lock);
    if (error == 0 && mine->wire != NULL)
        g->why_error = RD_KAFKA_RESP_ERR_NO_ERROR; /* the error of another connection does not apply to this one */
    if (error == 0)
        error = g->stops ? ECANCELED : start_thread(g);
    list_foreach(node, &g->fresh) {
        struct passage *p = LIST_ENTRY(node, struct passage, node);
        if (p->library_fd == library_fd && error == 0)
            p->library_fd = -1; /* owned by the thread from here on */
    }
    if (error != 0)
        forget(g, library_fd);
    pthread_mutex_unlock(&g->lock);
    if (error == 0)
        ring(g->wake_fd);
    return error;
}

/* The number that stands for a name; 0: no memory. */
static uint32_t number_of(struct kafka_gate *g, const char *host, unsigned port)
{
    const struct name *n;
    uint32_t number = 0;
    pthread_mutex_lock(&g->lock);
    for (n = g->names; n != NULL && (n->port != port || strcmp(n->host, host) != 0);)
        n = n->next;
    struct name *added = n == NULL && (g->names == NULL || g->names->number < NAMES_MAX)
                             ? malloc(sizeof(*added) + strlen(host) + 1)
                             : NULL;
    if (added != NULL) {
        *added = (struct name){ g->names, g->names != NULL ? g->names->number + 1 : 1, port };
        memcpy(added->host, host, strlen(host) + 1);
        n = g->names = added;
    }
    number = n != NULL ? n->number : 0;
    pthread_mutex_unlock(&g->lock);
    return number;
}

/* One address, which stands for the name.  The name is resolved all the same, so that an unknown one is reported as
 * such. */
static int gate_resolve(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res,
                        void *opaque)
{
    struct addrinfo *found = NULL;
    if (node == NULL) {
        free(*res);
        return 0;
    }
    int rc = getaddrinfo(node, service, hints, &found);
    if (rc != 0)
        return rc;
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } *one = calloc(1, sizeof(*one));
    const unsigned port = found->ai_family == AF_INET6
                              ? ntohs(((const struct sockaddr_in6 *)(const void *)found->ai_addr)->sin6_port)
                              : ntohs(((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_port);
    const uint32_t number = one != NULL ? number_of(opaque, node, port) : 0;
    freeaddrinfo(found);
    if (number == 0) {
        free(one);
        return EAI_MEMORY;
    }
    one->address.sin_family = AF_INET;
    one->address.sin_port = htons((uint16_t)port);
    one->address.sin_addr.s_addr = number;
    one->info = (struct addrinfo){ .ai_family = AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_addrlen = sizeof(one->address),
                                   .ai_addr = (struct sockaddr *)&one->address };
    *res = &one->info;
    return 0;
}

/* ---- Its life ----------------------------------------------------------------------------------------------- */

struct kafka_gate *kafka_gate_new(size_t answer_max, void *user)
{
    struct kafka_gate *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return NULL;
    g->user = user;
    g->answer_max = answer_max;
    g->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    g->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&g->lock, NULL);
    list_init(&g->fresh);
    list_init(&g->passages);
    if (g->wake_fd >= 0 && g->stop_fd >= 0)
        return g;
    kafka_gate_free(g);
    return NULL;
}

int kafka_gate_install(struct kafka_gate *g, rd_kafka_conf_t *conf, const struct endpoint_config *config,
                       const struct broker_url *url, bool tls, struct pr_error *reterr)
{
    rd_kafka_conf_set_opaque(conf, g);
    rd_kafka_conf_set_socket_cb(conf, gate_socket);
    rd_kafka_conf_set_connect_cb(conf, gate_connect);
    if (!tls)
        return PR_OK;
    rd_kafka_conf_set_resolve_cb(conf, gate_resolve);
    int rc = wire_init(&g->tls, config, url, true, reterr);
    g->tls.host = ""; /* passages have their own */
    return rc;
}

void *kafka_gate_user(struct kafka_gate *g)
{
    return g->user;
}

void kafka_gate_stop(struct kafka_gate *g)
{
    pthread_mutex_lock(&g->lock);
    bool runs = g->runs;
    g->stops = true;
    g->runs = false;
    pthread_mutex_unlock(&g->lock);
    if (g->stop_fd >= 0)
        ring(g->stop_fd);
    if (!runs)
        return;
    ring(g->wake_fd);
    pthread_join(g->thread, NULL);
}

void kafka_gate_free(struct kafka_gate *g)
{
    if (g == NULL)
        return;
    kafka_gate_stop(g);
    free_all(&g->fresh);
    wire_fini(&g->tls);
    while (g->names != NULL) {
        struct name *n = g->names;
        g->names = n->next;
        free(n);
    }
    if (g->wake_fd >= 0)
        close(g->wake_fd);
    if (g->stop_fd >= 0)
        close(g->stop_fd);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

size_t kafka_gate_needs(struct kafka_gate *g)
{
    pthread_mutex_lock(&g->lock);
    size_t needs = g->needs;
    pthread_mutex_unlock(&g->lock);
    return needs;
}

rd_kafka_resp_err_t kafka_gate_why(struct kafka_gate *g, char *ret, size_t size)
{
    pthread_mutex_lock(&g->lock);
    rd_kafka_resp_err_t error = g->why_error;
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        snprintf(ret, size, "%s", g->why);
    g->why_error = RD_KAFKA_RESP_ERR_NO_ERROR;
    pthread_mutex_unlock(&g->lock);
    return error;
}
