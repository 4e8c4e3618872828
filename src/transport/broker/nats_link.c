#include "transport/broker/nats_link.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define INBOX_SIZE 64
#define ANSWERS_MIN 64 /* room for so many at first; never more than are out */

/* Messages in the order in which they came. */
struct answers {
    natsMsg **list;
    size_t count, capacity;
};

struct nats_link {
    struct nats_link *next; /* in `links` */
    uintptr_t number;
    natsOptions *options;
    int event_fd, poll_fd;
    pthread_t thread;
    atomic_bool unwritten;  /* libnats has something for the socket */
    atomic_bool publishing; /* and it is the caller's thread that says so */

    /* The caller's, once it has seen NATS_LINK_UP. */
    natsConnection *connection;
    natsSubscription *inbox;
    char inbox_name[INBOX_SIZE];
    struct answers taken; /* out of the box ... */
    size_t next_taken;    /* ... and asked for up to here */
    bool is_waiting;      /* for the socket to take more */

    /* Below: under the lock. */
    natsSock socket; /* -1: there was none yet */
    enum nats_link_state state;
    natsStatus status;
    char why[NATS_LINK_WHY_SIZE], complaint[NATS_LINK_WHY_SIZE];
    struct answers answers;
    bool is_reading; /* the caller: answers wait until it has read all that is there */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nats_link *links; /* those that are open */
static uintptr_t last_number;
static pthread_cond_t read_over = PTHREAD_COND_INITIALIZER; /* of any link */

static struct nats_link *find(void *closure)
{
    struct nats_link *link = links;
    while (link != NULL && link->number != (uintptr_t)closure)
        link = link->next;
    return link;
}

/* Locked when it is found; else not, and NULL. */
static struct nats_link *find_locked(void *closure)
{
    pthread_mutex_lock(&lock);
    struct nats_link *link = find(closure);
    if (link == NULL)
        pthread_mutex_unlock(&lock);
    return link;
}

static void show_and_unlock(struct nats_link *link)
{
    uint64_t one = 1;
    ssize_t written = write(link->event_fd, &one, sizeof(one)); /* fails only when it is readable anyway */
    (void)written;
    pthread_mutex_unlock(&lock);
}

/* ---- In libnats' threads --------------------------------------------------------------------------- */

static bool answers_add(struct answers *a, natsMsg *message)
{
    if (a->count == a->capacity) {
        size_t capacity = a->capacity == 0 ? ANSWERS_MIN : 2 * a->capacity;
        natsMsg **list = reallocarray(a->list, capacity, sizeof(*list));
        if (list == NULL)
            return false;
        a->list = list;
        a->capacity = capacity;
    }
    a->list[a->count++] = message;
    return true;
}

/* Whoever reads wakes the inbox's thread for every answer that finds it asleep: let it fall asleep once for all of them. */
static void wait_for_reader(void *closure)
{
    struct nats_link *link;
    pthread_mutex_lock(&lock);
    while ((link = find(closure)) != NULL && link->is_reading)
        pthread_cond_wait(&read_over, &lock);
    pthread_mutex_unlock(&lock);
}

/* Called in a thread of the inbox: asked without one, libnats keeps to itself what had no responders. */
static void on_answer(natsConnection *connection, natsSubscription *inbox, natsMsg *message, void *closure)
{
    int behind = 0;
    (void)connection;
    wait_for_reader(closure);
    /* Shown when all that were read are here.  Libraries may count this one as pending or not. */
    bool is_last = natsSubscription_GetPending(inbox, &behind, NULL) != NATS_OK || behind <= 1;
    struct nats_link *link = find_locked(closure);
    if (link == NULL) {
        natsMsg_Destroy(message);
        return;
    }
    if (!answers_add(&link->answers, message))
        natsMsg_Destroy(message); /* without memory it is as if the answer were lost */
    if (is_last)
        show_and_unlock(link);
    else
        pthread_mutex_unlock(&lock);
}

/* Its loop is ours: it says when it wants to read or write, whoever's thread it is in. */

static natsStatus on_attach(void **ret, void *loop, natsConnection *connection, natsSock socket)
{
    struct nats_link *link = find_locked(loop);
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = NATS_LINK_SOCKET };
    (void)connection;
    if (link == NULL)
        return NATS_CONNECTION_CLOSED;
    *ret = loop;
    link->socket = socket;
    int rc = epoll_ctl(link->poll_fd, EPOLL_CTL_ADD, socket, &event);
    pthread_mutex_unlock(&lock);
    return rc == 0 ? NATS_OK : NATS_NO_MEMORY;
}

/* Removed when it is closed, and only then. */
static natsStatus on_read(void *closure, bool add)
{
    struct nats_link *link = add ? NULL : find_locked(closure);
    if (link == NULL)
        return NATS_OK;
    (void)epoll_ctl(link->poll_fd, EPOLL_CTL_DEL, link->socket, NULL);
    pthread_mutex_unlock(&lock);
    return NATS_OK;
}

static natsStatus on_write(void *closure, bool add)
{
    struct nats_link *link = find_locked(closure);
    if (link == NULL)
        return NATS_OK;
    link->unwritten = add;
    if (add && !link->publishing) /* a ping */
        show_and_unlock(link);
    else
        pthread_mutex_unlock(&lock);
    return NATS_OK;
}

static natsStatus on_detach(void *closure)
{
    (void)closure;
    return NATS_OK;
}

static void go_down(struct nats_link *link, natsStatus status, const char *text)
{
    link->state = NATS_LINK_DOWN;
    link->status = status;
    snprintf(link->why, sizeof(link->why), "%s", text != NULL && text[0] != '\0' ? text : natsStatus_GetText(status));
}

static void on_closed(natsConnection *connection, void *closure)
{
    const char *text = NULL;
    natsStatus status = natsConnection_GetLastError(connection, &text);
    struct nats_link *link = find_locked(closure);
    if (link == NULL)
        return;
    go_down(link, status != NATS_OK ? status : NATS_CONNECTION_CLOSED,
            status != NATS_OK ? text : "the server closed the connection");
    show_and_unlock(link);
}

static void on_error(natsConnection *connection, natsSubscription *inbox, natsStatus status, void *closure)
{
    const char *text = NULL;
    (void)inbox;
    (void)natsConnection_GetLastError(connection, &text);
    struct nats_link *link = find_locked(closure);
    if (link == NULL)
        return;
    snprintf(link->complaint, sizeof(link->complaint), "%s", text != NULL ? text : natsStatus_GetText(status));
    show_and_unlock(link);
}

/* ---- Connecting -------------------------------------------------------------------------------------- */

static natsStatus connect_all(struct nats_link *link)
{
    void *closure = (void *)link->number;
    natsInbox *name = NULL;
    char subject[INBOX_SIZE + 2];
    natsStatus s = natsOptions_SetEventLoop(link->options, closure, on_attach, on_read, on_write, on_detach);
    if (s == NATS_OK)
        s = natsOptions_SetSendAsap(link->options, true); /* otherwise a thread of its own would say so, later */
    if (s == NATS_OK)
        s = natsOptions_SetClosedCB(link->options, on_closed, closure);
    if (s == NATS_OK)
        s = natsOptions_SetErrorHandler(link->options, on_error, closure);
    if (s == NATS_OK)
        s = natsConnection_Connect(&link->connection, link->options);
    if (s == NATS_OK)
        s = natsInbox_Create(&name);
    if (s != NATS_OK)
        return s;
    snprintf(link->inbox_name, sizeof(link->inbox_name), "%s", name);
    natsInbox_Destroy(name);
    snprintf(subject, sizeof(subject), "%s.*", link->inbox_name);
    s = natsConnection_Subscribe(&link->inbox, link->connection, subject, on_answer, closure);
    return s == NATS_OK ? natsSubscription_SetPendingLimits(link->inbox, -1, -1) : s;
}

static void *run_connect(void *arg)
{
    struct nats_link *link = arg; /* close waits for this thread: it is there */
    natsStatus s = connect_all(link), of_text;
    const char *text = s != NATS_OK ? nats_GetLastError(&of_text) : NULL;
    pthread_mutex_lock(&lock);
    if (s != NATS_OK)
        go_down(link, s, text);
    else if (link->state == NATS_LINK_CONNECTING) /* it may be closed again already */
        link->state = NATS_LINK_UP;
    show_and_unlock(link);
    return NULL;
}

static void forget(struct nats_link *link)
{
    pthread_mutex_lock(&lock);
    struct nats_link **at = &links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    pthread_mutex_unlock(&lock);
}

struct nats_link *nats_link_open(natsOptions *options, int event_fd, int poll_fd)
{
    struct nats_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    link->options = options;
    link->event_fd = event_fd;
    link->poll_fd = poll_fd;
    link->socket = -1;
    pthread_mutex_lock(&lock);
    link->number = ++last_number;
    link->next = links;
    links = link;
    pthread_mutex_unlock(&lock);
    if (pthread_create(&link->thread, NULL, run_connect, link) == 0)
        return link;
    forget(link);
    free(link);
    return NULL;
}

static void answers_fini(struct answers *a, size_t from)
{
    for (size_t i = from; i < a->count; i++)
        natsMsg_Destroy(a->list[i]);
    free(a->list);
}

/* Newer libraries leave the socket to us, and older ones have no such function. */
extern void natsConnection_ProcessCloseEvent(natsSock *socket) __attribute__((weak));

void nats_link_close(struct nats_link *link)
{
    if (link == NULL)
        return;
    (void)pthread_join(link->thread, NULL);
    on_read((void *)link->number, false);
    forget(link);
    natsSubscription_Destroy(link->inbox); /* NULL is fine for both */
    natsConnection_Destroy(link->connection);
    if (link->socket >= 0 && natsConnection_ProcessCloseEvent != NULL)
        natsConnection_ProcessCloseEvent(&link->socket);
    answers_fini(&link->taken, link->next_taken);
    answers_fini(&link->answers, 0);
    free(link);
}

/* ---- In the caller's thread ----------------------------------------------------------------------------- */

enum nats_link_state nats_link_state(struct nats_link *link)
{
    pthread_mutex_lock(&lock);
    enum nats_link_state state = link->state;
    pthread_mutex_unlock(&lock);
    return state;
}

natsStatus nats_link_why(struct nats_link *link, char ret_text[NATS_LINK_WHY_SIZE])
{
    pthread_mutex_lock(&lock);
    natsStatus status = link->status;
    memcpy(ret_text, link->why, NATS_LINK_WHY_SIZE);
    pthread_mutex_unlock(&lock);
    return status;
}

void nats_link_reply_to(const struct nats_link *link, uint64_t number, char *ret, size_t size)
{
    snprintf(ret, size, "%s.%" PRIu64, link->inbox_name, number);
}

natsStatus nats_link_publish(struct nats_link *link, natsMsg *message)
{
    link->publishing = true;
    natsStatus status = natsConnection_PublishMsg(link->connection, message);
    link->publishing = false;
    return status;
}

size_t nats_link_unwritten(struct nats_link *link)
{
    int size = natsConnection_Buffered(link->connection);
    return size > 0 ? (size_t)size : 0;
}

/* Be told when the socket takes more, or not any more. */
static void wait_for_socket(struct nats_link *link, bool wanted)
{
    struct epoll_event event = { .events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.u64 = NATS_LINK_SOCKET };
    if (link->is_waiting == wanted)
        return;
    link->is_waiting = wanted;
    pthread_mutex_lock(&lock);
    (void)epoll_ctl(link->poll_fd, EPOLL_CTL_MOD, link->socket, &event); /* unless it was closed meanwhile */
    pthread_mutex_unlock(&lock);
}

void nats_link_write(struct nats_link *link)
{
    if (link->unwritten)
        natsConnection_ProcessWriteEvent(link->connection);
    wait_for_socket(link, link->unwritten);
}

static void set_reading(struct nats_link *link, bool is_reading)
{
    pthread_mutex_lock(&lock);
    link->is_reading = is_reading;
    pthread_mutex_unlock(&lock);
    if (!is_reading)
        pthread_cond_broadcast(&read_over);
}

void nats_link_read(struct nats_link *link)
{
    set_reading(link, true);
    natsConnection_ProcessReadEvent(link->connection);
    set_reading(link, false);
}

/* All at once: whoever brings the next one shows it again. */
static void take_all(struct nats_link *link)
{
    struct answers empty = { .list = link->taken.list, .capacity = link->taken.capacity };
    pthread_mutex_lock(&lock);
    link->taken = link->answers;
    link->answers = empty;
    pthread_mutex_unlock(&lock);
    link->next_taken = 0;
}

natsMsg *nats_link_answer(struct nats_link *link, uint64_t *ret_number)
{
    if (link->next_taken == link->taken.count)
        take_all(link);
    if (link->taken.count == 0)
        return NULL;
    natsMsg *message = link->taken.list[link->next_taken++];
    const char *dot = strrchr(natsMsg_GetSubject(message), '.');
    *ret_number = dot != NULL ? strtoull(dot + 1, NULL, 10) : 0;
    return message;
}

bool nats_link_complaint(struct nats_link *link, char ret_text[NATS_LINK_WHY_SIZE])
{
    pthread_mutex_lock(&lock);
    memcpy(ret_text, link->complaint, NATS_LINK_WHY_SIZE);
    link->complaint[0] = '\0';
    pthread_mutex_unlock(&lock);
    return ret_text[0] != '\0';
}
