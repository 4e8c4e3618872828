/* session.h - one broker's connection, for transports that write their own bytes: it comes, goes and comes again.
 *
 *    down --> connecting --> greeting --> up
 *
 * What is the same for all of them is here: when to connect, to give up, to wait, to poll; what a protocol says on
 * its wire is behind session_ops. */
#ifndef TRANSPORT_BROKER_SESSION_H
#define TRANSPORT_BROKER_SESSION_H

#include "transport/broker/broker_url.h"
#include "transport/broker/pipeline.h"
#include "transport/broker/reconnect.h"
#include "transport/broker/wire.h"

#define SESSION_GREETING_US PR_SECONDS(5) /* for the connection and all greetings */
#define SESSION_READ_MAX (1u << 20) /* bytes at a time: who talks without end must not keep us from our deadlines */

enum session_state { SESSION_DOWN, SESSION_CONNECTING, SESSION_GREETING, SESSION_UP };

/* self is the transport.  Any of them may end the session by session_lost() or session_failed(). */
struct session_ops {
    void (*greet)(void *self);                  /* the wire is open */
    void (*drop)(void *self);                   /* the connection is over; also without one */
    void (*read)(void *self, int64_t now_us);   /* by session_read() until that has nothing; the wire is open */
    void (*send)(void *self, int64_t now_us);   /* begin what waits, write what can be written; the wire is open */
    bool (*has_bytes)(void *self);              /* that wait for the wire */
    void (*expire)(void *self, int64_t now_us); /* may be NULL: has no clock of its own */
    int64_t (*next_us)(void *self);             /* when that is due; may be NULL */
    bool (*is_held)(void *self);                /* it owes answers for a reason that is known; may be NULL */
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
    int64_t give_up_us; /* connecting, greeting: until then */
    bool prolonged;     /* that was, since nobody looked meanwhile: once for each greeting */
    size_t read_bytes;  /* in this round of work */
    char why[512];      /* why it is down */
    int why_reason;
    char why_code[RESULT_CODE_SIZE];
};

/* Parses a url as a transport does it; PR_OK or PR_ECONFIG, PR_ENOMEM. */
typedef int session_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                        struct pr_error *reterr);

/* Checks a url without keeping it. */
PR_MUST_CHECK int session_check(session_url *parse, const struct endpoint_config *config, struct pr_error *reterr);
/* The url first: whether there is TLS is to be seen in it.  Both times safe to fini after a fault. */
PR_MUST_CHECK int session_init(struct broker_session *s, const struct session_ops *ops, void *self, session_url *parse,
                               const struct endpoint_config *config, struct pr_error *reterr);
PR_MUST_CHECK int session_open(struct broker_session *s, bool tls, struct pr_error *reterr);
void session_fini(struct broker_session *s);

/* Everything out gets its result (L2), and it is down: what waits fails with this reason until it is tried again. */
void session_lost(struct broker_session *s, int reason, const char *code, const char *what);
/* The same, with the host before it. */
void session_failed(struct broker_session *s, int reason, const char *code, const char *what);
void session_wire_lost(struct broker_session *s); /* the wire has said why */

/* TLS begins now (wire_secure()); greet is called once more when it is there. */
void session_secure(struct broker_session *s);

/* Bytes of the other side; 0: none now, enough for now, or the wire is lost and the session with it; without
 * room (size 0) that is what happens, since an answer is larger than any. */
PR_MUST_CHECK size_t session_read(struct broker_session *s, void *ret, size_t size);

/* It has SESSION_GREETING_US for all that comes before messages. */
void session_begin_greeting(struct broker_session *s, int64_t now_us);
size_t session_submit(struct broker_session *s, const struct delivery *const *list, size_t count);
size_t session_poll(struct broker_session *s, struct delivery_result *ret, size_t max, int64_t deadline_us);

#endif
