/* requests.h - the state of a request (core/request.h), derived from the rows that remain of it. */
#ifndef STORE_REQUESTS_H
#define STORE_REQUESTS_H

#include "core/request.h"
#include "store/store.h"

enum request_state {
    REQUEST_REPLIED,
    REQUEST_WAITING, /* on its way, or delivered and without a reply yet */
    REQUEST_DEAD,    /* it is a dead letter */
    REQUEST_GONE,    /* discarded or expired */
    REQUEST_UNKNOWN, /* no trace of it: never sent, or delivered long ago */
};
const char *request_state_name(enum request_state state);

struct request_info {
    enum request_state state;
    const struct listed *reply;   /* REPLIED */
    const struct listed *request; /* its row, if it still exists; else NULL */
};

/* Allocates in the arena. */
PR_MUST_CHECK int request_look(struct store *store, pr_id id, struct arena *arena, struct request_info *ret,
                               struct pr_error *reterr);
/* Does the store have a trace of a request with this id?  Then it must not be sent again: if it was delivered, it would
 * be handled twice. */
PR_MUST_CHECK int request_was_sent(struct store *store, pr_id id, bool *ret, struct pr_error *reterr);
/* Stores a request: the message with its header; *ret_id: the id to ask for.  reply_to: the endpoint that gets the
 * reply; empty: it stays in the store of the program that handles the request. */
PR_MUST_CHECK int request_message(const struct pr_message *m, pr_slice reply_to, struct buf *headers,
                                  struct pr_message *ret, struct pr_error *reterr);

/* How long to wait between two looks: short at first. */
#define REQUEST_LOOK_MIN_US PR_MILLISECONDS(2)
#define REQUEST_LOOK_MAX_US PR_MILLISECONDS(200)

#endif
