/* listener.h - internals of doors: connections, and what they have sent so far.
 *
 *   L1  A connection carries one request at a time; later ones wait in the socket or in `in`.
 *   L2  While a request is in a queue or with its source (CONN_WAITS) the listener does not touch it, and does not poll
 *       it.
 *   L3  The memory of all connections together is bounded, and so is the time that each has for a head, a body, an
 *       answer. */
#ifndef SOURCE_HTTP_LISTENER_H
#define SOURCE_HTTP_LISTENER_H

#include <pthread.h>

#include "base/buf.h"
#include "base/list.h"
#include "source/http/door.h"
#include "transport/http/signature.h"

#define CONNS_MAX 256
#define HELD_BYTES_MAX                                                                                                 \
    ((size_t)64 << 20) /* of bodies that are arriving; a single one may be as large as its door allows */
#define READ_SIZE 16384

enum conn_state {
    CONN_HEAD,
    CONN_BODY,
    CONN_WAITS,
    CONN_ANSWER,
};

enum chunk_state { CHUNK_SIZE_LINE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER };

struct http_conn {
    struct list_node node; /* in the listener's list */
    int fd;
    enum conn_state state;
    int64_t since_us, deadline_us; /* monotonic; for the current state */
    struct buf in;                 /* read and not parsed */
    unsigned looks;                /* how often an incomplete head was parsed */
    struct buf head;               /* of the request, as received */
    struct http_head parsed;
    struct buf body;
    uint64_t chunk_left;
    size_t framing_bytes; /* of chunks: everything that is not data */
    enum chunk_state chunk;
    struct buf out;
    size_t written;
    bool keeps; /* the connection continues after this request */
    struct door *door;
    struct door_request request;
    struct list_node queued; /* in its door's queue, or in the list of answered ones */
};

struct door {
    struct list_node node;
    struct listener *listener;
    struct door_options options;
    struct signer signer;
    int ready_fd;
    /* Under the listener's lock: */
    enum door_state state;
    struct list queue;
    size_t queued;
};

struct listener {
    struct list_node node; /* among all listeners of the process */
    char address[96];
    size_t users; /* doors; guarded by the lock of all listeners */
    int listen_fd, epoll_fd, wake_fd;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the following: */
    struct list doors;
    struct list answered;
    struct list closing; /* doors whose sources are closing them */
    pthread_cond_t closed;
    bool stops;
    /* The thread's own: */
    struct list conns;
    size_t conn_count, held_bytes;
};

/* ---- Reading (request.c) ---- */

enum read_result {
    READ_MORE,   /* bytes are missing */
    READ_WHOLE,  /* door and request are set */
    READ_ANSWER, /* out is set: refused, or handled without a source */
};
/* Parses `in`.  Takes the lock of the listener for the doors. */
enum read_result conn_read(struct listener *l, struct http_conn *c);
/* The answer to the request; the text says what the client can do.  retry_s 0: none. */
void conn_answer(struct http_conn *c, unsigned status, int retry_s, const char *code, const char *text);
void conn_accept(struct http_conn *c, size_t count);
void conn_next(struct http_conn *c); /* ready for another request */

#endif
