/* gate.h - which connections reach the HTTP library, and for how long.
 *
 * The gate accepts the connections and inspects the bytes without taking them (MSG_PEEK) until the head of the request
 * is complete.  Only then does the connection get a place, and with it a thread: a client with a slow head costs an
 * entry of a table.  It enforces these limits:
 *
 *   head      must be complete HEAD_SECONDS after the connection; must be valid (http_head.h).
 *   request   its body, too, must be complete in time, and its answer must be read in time.
 *   places    a fixed number in all, fewer for one address.  A request without a place waits for one.
 *   waiting   of these, a limited number may be long polls, again fewer of one address.
 *   probes    /health/live, /health/ready and /metrics have places of their own when all others are taken.
 *   table     when it is full the oldest connection of the address with most connections is closed.
 *
 * A connection carries one request: later bytes cannot be mistaken for another one. */
#ifndef OPS_API_GATE_H
#define OPS_API_GATE_H

#include <postrider.h>
#include <sys/socket.h>

#define GATE_PLACES_MAX 64 /* threads of the HTTP library */

struct gate;
enum wait_room { WAIT_GRANTED, WAIT_ADDRESS_FULL, WAIT_FULL };

struct gate_options {
    int listen_fd; /* taken over when gate_start() succeeds; non-blocking */
    /* Takes over the connection, and closes it in any case.  False: failed.  Called by the gate's thread. */
    bool (*take)(void *arg, int fd, const struct sockaddr *address, socklen_t size);
    void *arg;
};

/* *ret is set before take() is called. */
PR_MUST_CHECK int gate_start(const struct gate_options *options, struct gate **ret, struct pr_error *reterr);

/* About a connection that was taken; from any thread. */
void gate_request_is_read(struct gate *g, int fd);    /* now the time limit of its answer runs */
void gate_request_is_refused(struct gate *g, int fd); /* its answer has no end */
void gate_is_endless(struct gate *g, int fd);         /* must be called before fd is closed */
enum wait_room gate_wait_begin(struct gate *g, int fd);
void gate_wait_end(struct gate *g, int fd);
/* Accepts no new connections; existing ones stay.  Call gate_free() when they have ended. */
void gate_connection_ends(struct gate *g, int fd);

/* Nobody new gets in; those who are in stay.  gate_free() when they have left. */
void gate_shut(struct gate *g);
void gate_free(struct gate *g);

#endif
