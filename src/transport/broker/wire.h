/* wire.h - one TCP connection that never blocks (except for resolving a name), optionally with TLS.
 *
 * The other side's certificate is always verified: against the system's authorities, or those in the file that the
 * endpoint's ca, or ca= in its url, names. */
#ifndef TRANSPORT_BROKER_WIRE_H
#define TRANSPORT_BROKER_WIRE_H

#include <sys/types.h>

#include "transport/broker/broker_url.h"

#define WIRE_CHUNK_MAX 16384 /* bytes in one TLS record */
#define WIRE_WHY_SIZE 384

/* Parameters of a url that wire_init() reads; each transport with TLS includes them in its own list. */
#define WIRE_PARAMS "ca", "cert", "certkey"

enum wire_state { WIRE_CLOSED, WIRE_CONNECTING, WIRE_GREETING, WIRE_OPEN };

struct addrinfo;

struct wire {
    const char *host; /* borrowed */
    unsigned port;
    struct ssl_ctx_st *tls; /* NULL: without */
    enum wire_state state;
    int fd; /* -1: none */
    struct ssl_st *session;
    struct addrinfo *addresses, *address; /* all, and the one being tried */
    bool tls_later;                       /* TLS begins with wire_secure(), not with the connection */
    short wants;                          /* events that the TLS handshake waits for */
    bool anonymous;                       /* we have no certificate to show */
    bool heard;                           /* the other side has sent something on this connection */
    char held[WIRE_CHUNK_MAX];            /* accepted bytes of an incomplete TLS record */
    size_t held_size;
    char why[WIRE_WHY_SIZE]; /* why it failed, for people */
    const char *code;        /* and as a word: "lookup", "tls", "" */
};

/* url is borrowed until wire_fini().  PR_OK, PR_ECONFIG (a file is invalid), PR_ENOMEM; safe to fini afterwards. */
PR_MUST_CHECK int wire_init(struct wire *w, const struct endpoint_config *config, const struct broker_url *url,
                            bool tls, struct pr_error *reterr);
/* A wire to another host, which is also borrowed, with the certificates of `like`. */
void wire_init_like(struct wire *w, const struct wire *like, const char *host, unsigned port);
void wire_fini(struct wire *w); /* safe on a zeroed one */

/* False: it failed, see why. */
PR_MUST_CHECK bool wire_connect(struct wire *w);
/* Call it when its events have occurred while it connects or greets; see state for the result.  False as above. */
PR_MUST_CHECK bool wire_progress(struct wire *w);
/* tls_later: starts TLS on an open wire without unread bytes.  False as above. */
PR_MUST_CHECK bool wire_secure(struct wire *w);
void wire_close(struct wire *w);

/* Number of bytes written or read, 0: none now, -1: it failed or has ended. */
PR_MUST_CHECK ssize_t wire_write(struct wire *w, const void *data, size_t size);
PR_MUST_CHECK ssize_t wire_read(struct wire *w, void *ret, size_t size);

/* The events for poll(). */
short wire_events(const struct wire *w, bool has_bytes);

#endif
