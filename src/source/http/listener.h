/* listener.h - inside the doors: connections, and what they have sent so far.
 *
 *   L1  A connection carries one request at a time; what is behind it waits in the socket or in `in`.
 *   L2  While a request is in a queue or with its source (CONN_WAITS) the listener does not touch it, and polls nothing of it.
 *   L3  What is held of all connections together is bounded, and so is the time that each has for a head, a body, an answer. */
#ifndef SOURCE_HTTP_LISTENER_H
#define SOURCE_HTTP_LISTENER_H

#include <pthread.h>

#include "base/buf.h"
#include "base/list.h"
#include "source/http/door.h"
#include "transport/http/signature.h"

#define CONNS_MAX 256
#define HELD_BYTES_MAX                                                                                                 \
    ((size_t)64 << 20) /* of bodies that are on their way; one alone may be as large as its door allows */
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
    int64_t since_us, deadline_us; /* monotonic; of what the state waits for */
    struct buf in;                 /* read and not understood */
    unsigned looks;                /* at a head that was not complete */
    struct buf head;               /* of the request, as it came */
    struct http_head parsed;
    struct buf body;
    uint64_t chunk_left;
    size_t framing_bytes; /* of chunks: all that is not data */
    enum chunk_state chunk;
    struct buf out;
    size_t written;
    bool keeps; /* the connection goes on behind this request */
    struct door *door;
    struct door_request request;
    struct list_node queued; /* in its door's queue, or in the list of the answered */
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
    struct list_node node; /* among all of the process */
    char address[96];
    size_t users; /* doors; under the lock of all */
    int listen_fd, epoll_fd, wake_fd;
    pthread_t thread;
    pthread_mutex_t lock; /* over what follows: */
    struct list doors;
    struct list answered;
    struct list closing; /* doors that their sources wait to be rid of */
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
    READ_ANSWER, /* out is set: refused, or nothing for a source */
};
/* What is in `in`.  Takes the lock of the listener for the doors. */
enum read_result conn_read(struct listener *l, struct http_conn *c);
/* The answer to the request; status in words a client can act on.  retry_s 0: none. */
void conn_answer(struct http_conn *c, unsigned status, int retry_s, const char *code, const char *text);
void conn_accept(struct http_conn *c, size_t count);
void conn_next(struct http_conn *c); /* ready for another request */

#endif
