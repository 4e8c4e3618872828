/* gate.h - who gets to the HTTP library, and for how long.
 *
 * The gate accepts the connections and looks at the bytes without taking them (MSG_PEEK) until the head of the request
 * is there.  Only then does the connection get a place, and with it a thread: a client that is slow to ask costs an entry of
 * a table.  It holds these limits:
 *
 *   head      has to be there HEAD_SECONDS after the connection; must be right (http_head.h).
 *   request   its body, too, must be there in time, and its answer must have been taken in time.
 *   places    a fixed number in all, fewer for one address.  Who finds none waits for one.
 *   waiting   of these, a limited number may wait for something to come (long polls), again fewer of one address.
 *   probes    /health/live, /health/ready and /metrics have places of their own when all others are taken.
 *   table     when it is full the oldest connection of the address that has most is closed.
 *
 * A connection carries one request: nothing behind it can be taken for another. */
#ifndef OPS_API_GATE_H
#define OPS_API_GATE_H

#include <postrider.h>
#include <sys/socket.h>

#define GATE_PLACES_MAX 64 /* threads of the HTTP library */

struct gate;
enum wait_room { WAIT_GRANTED, WAIT_ADDRESS_FULL, WAIT_FULL };

struct gate_options {
    int listen_fd; /* handed over when gate_start() succeeds; not blocking */
    /* Has the connection, which it closes in every case.  False: it could not.  Called by the gate's thread. */
    bool (*take)(void *arg, int fd, const struct sockaddr *address, socklen_t size);
    void *arg;
};

/* *ret is set before take() is called. */
PR_MUST_CHECK int gate_start(const struct gate_options *options, struct gate **ret, struct pr_error *reterr);

/* Of a connection that was taken; from any thread. */
void gate_request_is_read(struct gate *g, int fd);    /* now the time of its answer runs */
void gate_request_is_refused(struct gate *g, int fd); /* the rest of it is for nobody: it has a few seconds */
void gate_is_endless(struct gate *g, int fd);         /* its answer goes on without end */
enum wait_room gate_wait_begin(struct gate *g, int fd);
void gate_wait_end(struct gate *g, int fd);
void gate_connection_ends(struct gate *g, int fd); /* to be called before fd is closed */

/* Nobody new gets in; those who are in stay.  gate_free() when they have left. */
void gate_shut(struct gate *g);
void gate_free(struct gate *g);

#endif
