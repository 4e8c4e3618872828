/* talk.h - a conversation with a broker on one connection, for sources that write their own bytes: say something, wait for
 * what the other side says, until a deadline or until somebody wakes us.  The wire is the transports' own. */
#ifndef SOURCE_BROKER_TALK_H
#define SOURCE_BROKER_TALK_H

#include "base/buf.h"
#include "transport/broker/wire.h"

#define TALK_GREETING_US PR_SECONDS(5) /* for a connection, and for each answer to a greeting */

enum talk_end {
    TALK_BYTES, /* there are new ones */
    TALK_TIMEOUT,
    TALK_WOKEN,
    TALK_LOST, /* the connection is over; why says so */
};

struct talk {
    struct wire wire;
    struct buf in;  /* from `used` on not understood yet */
    struct buf out; /* from `written` on to be written */
    size_t used, written;
    size_t in_max;             /* bytes that are not understood yet */
    bool is_over;              /* the connection ended since there were more */
    bool is_cutting;           /* see talk_cut() */
    uint64_t skip;             /* bytes that are still to come and to be forgotten */
    int64_t heard_us, said_us; /* when bytes last came and went; monotonic */
    char why[512];
};

/* config and url are borrowed until fini.  in_max: bytes that the other side may say before they can be understood.  PR_OK,
 * PR_ECONFIG, PR_ENOMEM; afterwards safe to fini. */
PR_MUST_CHECK int talk_init(struct talk *t, const struct endpoint_config *config, const struct broker_url *url,
                            bool tls, size_t in_max, struct pr_error *reterr);
void talk_fini(struct talk *t); /* safe on a zeroed one */

/* With TLS, unless the wire's tls_later is set: TALK_BYTES when it is open. */
enum talk_end talk_connect(struct talk *t, int wake_fd);
/* The same, when TLS begins on an open connection. */
enum talk_end talk_secure(struct talk *t, int wake_fd);
void talk_drop(struct talk *t); /* the connection, and what is in both buffers */
static inline bool talk_is_open(const struct talk *t)
{
    return t->wire.state == WIRE_OPEN;
}

/* Says what is in `out` and waits for bytes of the other side. */
enum talk_end talk_wait(struct talk *t, int wake_fd, int64_t deadline_us);
/* Bytes that are there already, without waiting: TALK_TIMEOUT: none. */
enum talk_end talk_look(struct talk *t);
/* Says all that is in `out`, whoever wakes us: false: it is lost, or took too long. */
bool talk_say(struct talk *t);

/* Says what is in `out`, a farewell at its end, and waits a moment until the other side closes the connection: so it has read
 * all of it.  Who closes first, with bytes unread, may take back what was said before. */
void talk_leave(struct talk *t);

/* What came and is not understood; and how much of that is. */
pr_slice talk_heard(const struct talk *t);
void talk_understood(struct talk *t, size_t size);
/* Of something that is too long to be held: `drop` bytes behind the first `keep` of what was heard are forgotten as they come.
 * False: not all have come; wait for bytes and call it again with the same numbers. */
PR_MUST_CHECK bool talk_cut(struct talk *t, size_t keep, uint64_t drop);

/* As a fault, with what the other side said; the connection is dropped. */
int talk_fault(struct talk *t, struct pr_error *reterr, const char *format, ...) PR_PRINTF(3, 4);
/* What an end other than bytes means to who cannot go on without them: PR_EIO.  Woken: PR_EBUSY, no trouble. */
PR_MUST_CHECK int talk_ended(struct talk *t, enum talk_end end, struct pr_error *reterr);

#endif
