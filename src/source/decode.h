/* decode.h - messages from the body of a request or of a broker's message: CloudEvents 1.0 (binary, structured, batch),
 * or plain JSON.
 *
 * Plain JSON is {"type": ..., "payload": any JSON value} or "payload_text", "payload_base64"; and id, stream,
 * destination, source, subject, content_type, headers, correlation_id, causation_id, traceparent, tracestate, due_at,
 * expires_at.  A CloudEvents id that is a UUID becomes the message's id; another id is mapped to one that is always the
 * same for the same source and id, and stays readable in the header ce-id. */
#ifndef SOURCE_DECODE_H
#define SOURCE_DECODE_H

#include "base/arena.h"
#include "core/message.h"

#define DECODE_MESSAGES_MAX 1000 /* in one batch */

struct decode_header {
    pr_slice name, value;
};

#define DECODE_ORIGINAL_ID "ce-id" /* the header with an id that is no UUID */

struct decode_input {
    pr_slice content_type;
    const struct decode_header *headers; /* attributes; for a broker's message also its other headers */
    size_t header_count;
    const char *prefix;      /* prefix of attributes among the headers: "ce-", "ce_", ""; case-insensitive */
    bool is_percent_encoded; /* values of attributes are percent-encoded, as in HTTP */
    /* From a broker: other headers become the message's own, and it cannot choose when and where it is delivered. */
    bool is_foreign;
    pr_slice body;
    int64_t now_us;
};

/* Is it a CloudEvent in binary mode? */
bool decode_is_event(const struct decode_input *in);
/* If so: the message.  Faults as below. */
PR_MUST_CHECK int decode_event(const struct decode_input *in, struct arena *arena, struct pr_message *ret,
                               struct pr_error *reterr);

/* *ret lives in the arena; the body is borrowed.  Fault PR_EINVAL: the text says what is wrong; PR_ETOOBIG: too many;
 * PR_EUNSUPPORTED: another media type; PR_ENOMEM. */
PR_MUST_CHECK int decode_messages(const struct decode_input *in, struct arena *arena, struct pr_message **ret,
                                  size_t *ret_count, struct pr_error *reterr);

/* One message as plain JSON; *ret lives in the arena.  Faults as above. */
struct json_t;
PR_MUST_CHECK int decode_plain(const struct json_t *object, int64_t now_us, struct arena *arena, struct pr_message *ret,
                               struct pr_error *reterr);

/* JSON nested deeper than DECODE_DEPTH_MAX is refused before it is parsed: parsing and writing it takes stack for each
 * level. */
#define DECODE_DEPTH_MAX 100
bool json_is_shallow(pr_slice text);

/* "application/json; charset=utf-8" is "application/json". */
bool media_type_is(pr_slice content_type, const char *media_type);

#endif
