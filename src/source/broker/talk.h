/* talk.h - a conversation with a broker on one connection, for sources that implement their protocol themselves: send
 * something, wait for bytes of the other side, until a deadline or a wake-up.  The wire is the transports' own. */
#ifndef SOURCE_BROKER_TALK_H
#define SOURCE_BROKER_TALK_H

#include "base/buf.h"
#include "transport/broker/wire.h"

#define TALK_GREETING_US PR_SECONDS(5) /* for a connection, and for each answer in a greeting */

enum talk_end {
    TALK_BYTES, /* new bytes arrived */
    TALK_TIMEOUT,
    TALK_WOKEN,
    TALK_LOST, /* the connection is over; see why */
};

struct talk {
    struct wire wire;
    struct buf in;  /* from `used` on not parsed yet */
    struct buf out; /* from `written` on to be written */
    size_t used, written;
    size_t in_max;             /* limit of unparsed bytes */
    bool is_over;              /* the connection ended because of that limit */
    bool is_cutting;           /* see talk_cut() */
    uint64_t skip;             /* bytes that are still to come and are dropped */
    int64_t heard_us, said_us; /* when bytes were last read and written; monotonic */
    char why[512];
};

/* config and url are borrowed until fini.  in_max: bytes that the other side may send before they can be parsed.
 * PR_OK, PR_ECONFIG, PR_ENOMEM; safe to fini afterwards. */
PR_MUST_CHECK int talk_init(struct talk *t, const struct endpoint_config *config, const struct broker_url *url,
                            bool tls, size_t in_max, struct pr_error *reterr);
void talk_fini(struct talk *t); /* safe on a zeroed one */

/* Connects, with TLS unless the wire's tls_later is set: TALK_BYTES when it is open. */
enum talk_end talk_connect(struct talk *t, int wake_fd);
/* The same, when TLS begins on an open connection. */
enum talk_end talk_secure(struct talk *t, int wake_fd);
void talk_drop(struct talk *t); /* drops the connection, and both buffers */
static inline bool talk_is_open(const struct talk *t)
{
    return t->wire.state == WIRE_OPEN;
}

/* Writes `out` and waits for bytes of the other side. */
enum talk_end talk_wait(struct talk *t, int wake_fd, int64_t deadline_us);
/* Reads available bytes without waiting: TALK_TIMEOUT: none. */
enum talk_end talk_look(struct talk *t);
/* Writes all of `out`, ignoring wake-ups: false: the connection is lost, or it took too long. */
bool talk_say(struct talk *t);

/* Writes `out`, which ends with a farewell, and waits a moment until the other side closes the connection: so it has
 * read everything.  Closing first, with bytes unread, may destroy what was sent before. */
void talk_leave(struct talk *t);

/* The unparsed bytes that have arrived. */
pr_slice talk_heard(const struct talk *t);
void talk_understood(struct talk *t, size_t size);
/* For something that is too long to be held: drops `drop` bytes after the first `keep` of the unparsed bytes as they
 * arrive.  False: not all have arrived; wait for bytes and call it again with the same numbers. */
PR_MUST_CHECK bool talk_cut(struct talk *t, size_t keep, uint64_t drop);

/* A fault, with the words of the other side; the connection is dropped. */
int talk_fault(struct talk *t, struct pr_error *reterr, const char *format, ...) PR_PRINTF(3, 4);
/* The fault for an end other than bytes, for callers that need bytes: PR_EIO.  Woken: PR_EBUSY, no trouble. */
PR_MUST_CHECK int talk_ended(struct talk *t, enum talk_end end, struct pr_error *reterr);

#endif
