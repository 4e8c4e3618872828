/* requests.h - what became of a request (core/request.h), from the rows that are left of it. */
#ifndef STORE_REQUESTS_H
#define STORE_REQUESTS_H

#include "core/request.h"
#include "store/store.h"

enum request_state {
    REQUEST_REPLIED,
    REQUEST_WAITING, /* it is on its way, or was delivered, and there is no reply yet */
    REQUEST_DEAD,    /* it is a dead letter */
    REQUEST_GONE,    /* it was discarded, or has expired */
    REQUEST_UNKNOWN, /* there is no trace of it: it was never sent, or was delivered long ago */
};
const char *request_state_name(enum request_state state);

struct request_info {
    enum request_state state;
    const struct listed *reply;   /* REPLIED */
    const struct listed *request; /* as far as it is there; NULL: it is not */
};

/* In the arena. */
PR_MUST_CHECK int request_look(struct store *store, pr_id id, struct arena *arena, struct request_info *ret,
                               struct pr_error *reterr);
/* Is there a trace of a request with this id?  Then it is not sent again: what was delivered would be handled twice. */
PR_MUST_CHECK int request_was_sent(struct store *store, pr_id id, bool *ret, struct pr_error *reterr);
/* Store a request: the message with its header; *ret_id: what to ask for.  reply_to: an endpoint where the reply goes; empty:
 * it stays in the store of the program that handles it. */
PR_MUST_CHECK int request_message(const struct pr_message *m, pr_slice reply_to, struct buf *headers,
                                  struct pr_message *ret, struct pr_error *reterr);

/* How long to wait between two looks: short at first. */
#define REQUEST_LOOK_MIN_US PR_MILLISECONDS(2)
#define REQUEST_LOOK_MAX_US PR_MILLISECONDS(200)

#endif
