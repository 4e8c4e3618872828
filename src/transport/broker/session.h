/* session.h - the connection to a broker, for transports that implement their protocol themselves: it is made, lost and
 * made again.
 *
 *    down --> connecting --> greeting --> up
 *
 * This file has the common part: when to connect, to give up, to wait, to poll; the protocol on the wire is behind
 * session_ops. */
#ifndef TRANSPORT_BROKER_SESSION_H
#define TRANSPORT_BROKER_SESSION_H

#include "transport/broker/broker_url.h"
#include "transport/broker/pipeline.h"
#include "transport/broker/reconnect.h"
#include "transport/broker/wire.h"

#define SESSION_GREETING_US PR_SECONDS(5) /* for the connection and all greetings */
#define SESSION_READ_MAX (1u << 20)       /* bytes at a time: endless input must not delay deadlines */

enum session_state { SESSION_DOWN, SESSION_CONNECTING, SESSION_GREETING, SESSION_UP };

/* self is the transport.  Any of these may end the session with session_lost() or session_failed(). */
struct session_ops {
    void (*greet)(void *self);                /* the wire is open */
    void (*drop)(void *self);                 /* the connection is over, or was never made */
    void (*read)(void *self, int64_t now_us); /* calls session_read() until it returns nothing; the wire is open */
    /* starts waiting deliveries, writes what can be written; the wire is open */
    void (*send)(void *self, int64_t now_us);
    bool (*has_bytes)(void *self);              /* are there bytes to write? */
    void (*expire)(void *self, int64_t now_us); /* handles the transport's own timers; may be NULL */
    int64_t (*next_us)(void *self);             /* when these are due; may be NULL */
    bool (*is_held)(void *self);                /* are answers missing for a known reason?  may be NULL */
};

struct broker_session {
    const struct session_ops *ops;
    void *self;
    const struct endpoint_config *config;
    const struct clock *clock;
    struct arena arena; /* the url */
    struct broker_url url;
    enum session_state state;
    struct wire wire;
    struct pipeline pipeline;
    struct reconnect reconnect;
    int64_t give_up_us; /* deadline for connecting and greeting */
    bool prolonged;     /* the deadline was extended, since nobody polled meanwhile: once for each greeting */
    size_t read_bytes;  /* in this round of work */
    char why[512];      /* why it is down */
    int why_reason;
    char why_code[RESULT_CODE_SIZE];
};

/* Parses a url for a transport; PR_OK or PR_ECONFIG, PR_ENOMEM. */
typedef int session_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                        struct pr_error *reterr);

/* Checks a url without keeping it. */
PR_MUST_CHECK int session_check(session_url *parse, const struct endpoint_config *config, struct pr_error *reterr);
/* The url is parsed first, since it says whether to use TLS.  Safe to fini after a fault. */
PR_MUST_CHECK int session_init(struct broker_session *s, const struct session_ops *ops, void *self, session_url *parse,
                               const struct endpoint_config *config, struct pr_error *reterr);
PR_MUST_CHECK int session_open(struct broker_session *s, bool tls, struct pr_error *reterr);
void session_fini(struct broker_session *s);

/* Every delivery that is out gets its result (L2), and the session is down: waiting deliveries fail with this reason
 * until the next attempt. */
void session_lost(struct broker_session *s, int reason, const char *code, const char *what);
/* The same, with the host before it. */
void session_failed(struct broker_session *s, int reason, const char *code, const char *what);
void session_wire_lost(struct broker_session *s); /* the wire has the reason */

/* Starts TLS (wire_secure()); greet is called again when it is established. */
void session_secure(struct broker_session *s);

/* Reads bytes of the other side; 0: none now, enough for now, or the wire is lost and the session with it; without room
 * (size 0) the session is lost, too, since an answer is too large. */
PR_MUST_CHECK size_t session_read(struct broker_session *s, void *ret, size_t size);

/* Grants SESSION_GREETING_US for everything before messages. */
void session_begin_greeting(struct broker_session *s, int64_t now_us);

/* Methods of struct transport_ops for a transport that begins with its session. */
size_t session_submit(void *self, const struct delivery *const *list, size_t count);
size_t session_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us);
void session_cancel(void *self);

/* One with its own check, open and close.  cancel: session_cancel, or more. */
#define SESSION_TRANSPORT(name, type, its, its_cancel)                                                                 \
    {                                                                                                                  \
        .scheme = (name), .size = sizeof(struct type), .promises = TRANSPORT_REMOTE,                                   \
        .concurrency = PIPELINE_CONCURRENCY, .check = its##_check, .open = its##_open, .close = its##_close,           \
        .submit = session_submit, .poll = session_poll, .cancel = (its_cancel),                                        \
    }

#endif
