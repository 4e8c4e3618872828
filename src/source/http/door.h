/* door.h - where one HTTP source is reached: a path at an address.  Doors at one address share a listener (listener.h), whose
 * thread reads requests, refuses those that are not for anybody or not by who they should be, and writes answers.
 *
 *     client --> listener: head, body, token, signature --> queue of the door --> source: commit --> door_answer() --> client
 *
 * What a source cannot take is refused at once, and says when to come again: nobody waits for a box that is full. */
#ifndef SOURCE_HTTP_DOOR_H
#define SOURCE_HTTP_DOOR_H

#include "base/http_head.h"
#include "source/decode.h"

#define DOOR_QUEUE_MAX 256 /* requests that wait for their commit */

/* One that was read, and is by whom it should be; its owner answers it. */
struct door_request {
    pr_slice content_type, body;
    struct decode_header headers[HEAD_FIELDS_MAX]; /* attributes, and the sender's own */
    size_t header_count;
    pr_slice id; /* webhook-id or Idempotency-Key; empty: none */
    bool is_webhook;
};

/* What those who come are told. */
enum door_state {
    DOOR_OPEN,
    DOOR_FULL,   /* the box is: 429 */
    DOOR_CLOSED, /* it cannot be stored now: 503 */
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
void door_close(struct door *door); /* NULL is fine; what is in its queue is answered 503 */

void door_tell(struct door *door, enum door_state state); /* also those who are in the queue, if it is not open */
int door_fd(const struct door *door);                     /* readable: there may be requests */
struct door_request *door_take(struct door *door);        /* NULL: none */
void door_accepted(struct door *door, struct door_request *request, size_t count);
void door_refused(struct door *door, struct door_request *request, unsigned status, const char *why);

#endif
