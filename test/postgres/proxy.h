/* proxy.h - a wire between the store and its server that can be cut at the worst moment. */
#ifndef TEST_POSTGRES_PROXY_H
#define TEST_POSTGRES_PROXY_H

enum proxy_cut {
    PROXY_PASS,       /* everything goes through */
    PROXY_CUT_BEGIN,  /* the next transaction does not reach the server */
    PROXY_CUT_COMMIT, /* the next COMMIT does not */
    PROXY_CUT_ANSWER, /* it does, and is done; its answer does not come back */
    PROXY_OLD_SERVER, /* the next who connects is told that the server is version 13 */
};

struct proxy;
struct suite;

/* Listens on a socket in a new folder, for the server whose socket is in this one. */
struct proxy *proxy_start(const char *server_folder);
void proxy_stop(struct proxy *proxy);
const char *proxy_folder(const struct proxy *proxy);
/* What happens next; it happens once, then everything passes again. */
void proxy_set(struct proxy *proxy, enum proxy_cut cut);
/* How often the server has said that it is ready for more: once for each round trip. */
unsigned proxy_round_trips(const struct proxy *proxy);
/* How often in the middle of a transaction: whoever began it has waited for an answer. */
unsigned proxy_halves(const struct proxy *proxy);

/* The folder of the server's socket; skips the test when the server is not ours to break. */
const char *server_folder(void);
/* The store of the test, from now on over this wire; and no more: the proxy must outlive whoever uses it. */
struct proxy *over_a_wire(struct suite *s);
void end_of_wire(struct suite *s, struct proxy *proxy);

#endif
