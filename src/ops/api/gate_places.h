/* gate_places.h - the places of the gate: their connections, and time limits.  Pure; the gate locks. */
#ifndef OPS_API_GATE_PLACES_H
#define OPS_API_GATE_PLACES_H

#include <postrider.h>
#include <sys/socket.h>

#include "ops/api/gate.h"

#define PLACES_PER_ADDRESS 32 /* from a loopback address, or behind a proxy, all clients have the same address */
/* Long polls: other requests need places, too, above all those that end claims. */
#define WAITING_MAX 32
#define WAITING_PER_ADDRESS 24

/* The client's address, for IPv6 its network; all zero for a socket file, where clients cannot be distinguished. */
struct client_address {
    unsigned char bytes[16];
    bool known;
};
struct client_address peer_from(const struct sockaddr *address);
bool peer_same(const struct client_address *a, const struct client_address *b);

enum pool { POOL_ALL, POOL_LIVE, POOL_READY, POOL_METRICS, POOL_COUNT };

struct gate_place {
    int fd; /* -1: free */
    enum pool pool;
    struct client_address peer;
    int64_t deadline_us;
    bool waits;
};
struct places {
    struct gate_place list[GATE_PLACES_MAX];
    size_t used[POOL_COUNT];
};

void places_init(struct places *p);
/* The pool that a request may use in addition to POOL_ALL; POOL_ALL: none. */
enum pool pool_of(pr_slice method, pr_slice path, bool has_body);
/* False: there is none now. */
bool places_take(struct places *p, int fd, enum pool own, const struct client_address *peer, int64_t deadline_us);
struct gate_place *places_find(struct places *p, int fd); /* NULL: it has none */
void places_leave(struct places *p, int fd);              /* no-op if it has none */

/* May the request on this connection wait?  One without a place may. */
enum wait_room places_wait(struct places *p, int fd);
void places_wait_end(struct places *p, int fd); /* leaving ends it, too */

#endif
