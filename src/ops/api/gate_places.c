#include "ops/api/gate_places.h"

#include <netinet/in.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define V6_NETWORK_BYTES 8 /* a client with one IPv6 address has the other addresses of its /64, too */

static const struct {
    const char *path;
    size_t places;
} pools[POOL_COUNT] = {
    [POOL_ALL] = { NULL, GATE_PLACES_MAX - 10 },
    [POOL_LIVE] = { "/health/live", 4 },
    [POOL_READY] = { "/health/ready", 4 }, /* asks the store: it may hang, and /health/live must not hang then */
    [POOL_METRICS] = { "/metrics", 2 },
};

struct client_address peer_from(const struct sockaddr *address)
{
    struct client_address peer = { .known = false };
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        memcpy(peer.bytes + 12, &v4->sin_addr, 4);
        peer.known = true;
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) || IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
        memcpy(peer.bytes, &v6->sin6_addr, mapped ? sizeof peer.bytes : V6_NETWORK_BYTES);
        peer.known = true;
    }
    return peer;
}

bool peer_same(const struct client_address *a, const struct client_address *b)
{
    return a->known == b->known && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

void places_init(struct places *p)
{
    *p = (struct places){ .used = { 0 } };
    for (size_t i = 0; i < GATE_PLACES_MAX; i++)
        p->list[i].fd = -1;
}

enum pool pool_of(pr_slice method, pr_slice path, bool has_body)
{
    for (enum pool pool = POOL_LIVE; pool < POOL_COUNT; pool++)
        if (!has_body && slice_eq_cstr(path, pools[pool].path) &&
            (slice_eq_cstr(method, "GET") || slice_eq_cstr(method, "HEAD")))
            return pool;
    return POOL_ALL;
}

static size_t count_peer(const struct places *p, const struct client_address *peer)
{
    size_t count = 0;
    for (size_t i = 0; i < GATE_PLACES_MAX; i++)
        count += p->list[i].fd >= 0 && p->list[i].pool == POOL_ALL && peer_same(&p->list[i].peer, peer);
    return count;
}

static bool has_room(const struct places *p, enum pool pool, const struct client_address *peer)
{
    return p->used[pool] < pools[pool].places &&
           (pool != POOL_ALL || !peer->known || count_peer(p, peer) < PLACES_PER_ADDRESS);
}

bool places_take(struct places *p, int fd, enum pool own, const struct client_address *peer, int64_t deadline_us)
{
    enum pool pool = has_room(p, POOL_ALL, peer) ? POOL_ALL : own;
    if (!has_room(p, pool, peer))
        return false;
    for (size_t i = 0; i < GATE_PLACES_MAX; i++) {
        if (p->list[i].fd >= 0)
            continue;
        p->list[i] = (struct gate_place){ .fd = fd, .pool = pool, .peer = *peer, .deadline_us = deadline_us };
        p->used[pool]++;
        return true;
    }
    ASSERT(false && "the pools have as many places as the list");
    return false;
}

struct gate_place *places_find(struct places *p, int fd)
{
    for (size_t i = 0; i < GATE_PLACES_MAX; i++)
        if (fd >= 0 && p->list[i].fd == fd)
            return &p->list[i];
    return NULL;
}

enum wait_room places_wait(struct places *p, int fd)
{
    struct gate_place *place = places_find(p, fd);
    size_t all = 0, same = 0;
    if (place == NULL)
        return WAIT_GRANTED;
    for (size_t i = 0; i < GATE_PLACES_MAX; i++) {
        bool waits = p->list[i].fd >= 0 && p->list[i].waits;
        all += waits;
        same += waits && place->peer.known && peer_same(&p->list[i].peer, &place->peer);
    }
    if (all >= WAITING_MAX || same >= WAITING_PER_ADDRESS)
        return all >= WAITING_MAX ? WAIT_FULL : WAIT_ADDRESS_FULL;
    place->waits = true;
    return WAIT_GRANTED;
}

void places_wait_end(struct places *p, int fd)
{
    struct gate_place *place = places_find(p, fd);
    if (place != NULL)
        place->waits = false;
}

void places_leave(struct places *p, int fd)
{
    struct gate_place *place = places_find(p, fd);
    if (place == NULL)
        return;
    ASSERT(p->used[place->pool] > 0);
    p->used[place->pool]--;
    place->fd = -1;
}
