/* door.h - the address of one HTTP source: a path at a host and port.  Doors at one host and port share a listener
 * (listener.h), whose thread reads requests, refuses invalid and unauthorised ones, and writes answers.
 *
 *     client --> listener: head, body, token, signature --> queue of the door --> source: commit --> door_answer() -->
 *     client
 *
 * Requests that the source cannot take are refused at once, with a time to retry: they do not wait for a full box. */
#ifndef SOURCE_HTTP_DOOR_H
#define SOURCE_HTTP_DOOR_H

#include "base/http_head.h"
#include "source/decode.h"

#define DOOR_QUEUE_MAX 256 /* requests that wait for their commit */

/* An authorised request that was read; its owner answers it. */
struct door_request {
    pr_slice content_type, body;
    struct decode_header headers[HEAD_FIELDS_MAX]; /* attributes, and the sender's own headers */
    size_t header_count;
    pr_slice id; /* webhook-id or Idempotency-Key; empty: none */
    bool is_webhook;
};

/* How the door treats requests. */
enum door_state {
    DOOR_OPEN,
    DOOR_FULL,   /* the box is full: 429 */
    DOOR_CLOSED, /* messages cannot be stored now: 503 */
};

struct door_options {
    const char *name;   /* for texts: "source http:/orders" */
    const char *listen; /* 127.0.0.1:8090 */
    const char *path;
    const char *token; /* "": none */
    const char *const *secrets;
    size_t secret_count;
    int64_t tolerance_us;
    size_t body_max;
};

struct door;

/* The options are borrowed until close.  The first door at an address starts its listener.  Fault PR_ECONFIG, PR_EIO, PR_ENOMEM. */
PR_MUST_CHECK int door_open(const struct door_options *options, struct door **ret, struct pr_error *reterr);
void door_close(struct door *door); /* NULL is allowed; requests in its queue are answered 503 */

void door_set_state(struct door *door, enum door_state state); /* also applies to the queue, unless it is DOOR_OPEN */
int door_fd(const struct door *door);                          /* readable: there may be requests */
struct door_request *door_take(struct door *door);             /* NULL: none */
void door_accepted(struct door *door, struct door_request *request, size_t count);
void door_refused(struct door *door, struct door_request *request, unsigned status, const char *why);

#endif
