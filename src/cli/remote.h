/* remote.h - the store of a running daemon, through its HTTP API.
 *
 * The result is a struct store like any other, so commands that show facts or give orders do not notice the difference.
 * It supports what the API does: the questions MESSAGES DEAD ID BOXES ENDPOINTS INSTANCES DEAD_GROUPS STREAMS (by box,
 * endpoint, stream and fingerprint), and the orders PAUSE, RESUME, RETRY (of one id) and DEAD_REPLAY; others are
 * PR_EUNSUPPORTED.  Messages come without their payloads.
 *
 * Threads: one at a time. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "store/store.h"

struct remote_options {
    const char *url;   /* http://127.0.0.1:8026, https://relay.example, unix:/run/postrider.sock */
    const char *token; /* "": none */
};

/* Does not connect yet.  Fault PR_EINVAL: the URL is invalid, or a token would be sent unencrypted; PR_ENOMEM. */
PR_MUST_CHECK int remote_open(const struct remote_options *options, struct store *ret, struct pr_error *reterr);

/* ---- What the answers say (remote_decode.c); strings are copied into the arena ---- */

struct json_t;

/* Decodes the list that answers the question; an answer without it is PR_ESTORE.  now_us: the daemon's. */
PR_MUST_CHECK int remote_decode(const struct json_t *answer, enum query_kind kind, int64_t now_us, struct arena *arena,
                                struct query_reply *ret, struct pr_error *reterr);

#endif
