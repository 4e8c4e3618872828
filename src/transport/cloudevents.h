/* cloudevents.h - a message as a CloudEvents 1.0.2 event.
 *
 * The attributes are the same for every transport, which writes them in its own form (ce- headers, ce_ headers,
 * properties, JSON).  A retry has the same id as the first attempt. */
#ifndef TRANSPORT_CLOUDEVENTS_H
#define TRANSPORT_CLOUDEVENTS_H

#include "base/buf.h"
#include "base/time.h"
#include "core/columns.h"
#include "core/message.h"

#define CLOUDEVENTS_ATTRIBUTES_MAX (9 + SENDER_TEXT_COUNT)
#define CLOUDEVENTS_SOURCE "postrider" /* when neither message nor endpoint has a source, which is required */
#define CLOUDEVENTS_MEDIA_TYPE "application/cloudevents+json"
#define CLOUDEVENTS_BATCH_MEDIA_TYPE "application/cloudevents-batch+json"
#define CLOUDEVENTS_HEADERS "postriderheaders" /* an extension: a message's headers, as the text of a JSON object */

struct cloudevent_attribute {
    const char *name;
    pr_slice value; /* never empty: attributes without a value are left out */
};

/* Points into the message and into itself: do not move it. */
struct cloudevent {
    struct cloudevent_attribute attributes[CLOUDEVENTS_ATTRIBUTES_MAX];
    size_t count;
    char id[PR_ID_TEXT_SIZE], time[TIME_TEXT_SIZE], expiry[TIME_TEXT_SIZE], sequence[24];
};

/* source may be NULL.  datacontenttype is not among the attributes. */
void cloudevent_init(struct cloudevent *event, const struct pr_message *message, const char *source);

/* An attribute's name with a prefix; data is NULL: no memory. */
pr_slice cloudevent_name(struct arena *arena, const char *prefix, const char *name);
pr_slice cloudevent_content_type(const struct pr_message *message);
/* "application/json; charset=utf-8", "text/json", "application/vnd.x+json" */
bool cloudevent_type_is_json(pr_slice type);

/* Encoding for headers according to the HTTP binding (3.1.3.2): space, ", % and anything but printable ASCII become
 * %XX.  ret_text has room for 3 * value.size; returns the length. */
size_t cloudevent_percent_encode(pr_slice value, char *ret_text);

/* The structured form.  Data is a JSON value when the content type is JSON and the payload is valid JSON; otherwise
 * text when it is UTF-8; otherwise base64.  Errors stick in the buf. */
void cloudevent_write_json(struct buf *b, const struct pr_message *message, const char *source);
/* For a batch, where the message's headers have no other place. */
void cloudevent_write_json_with_headers(struct buf *b, const struct pr_message *message, const char *source);
/* The same as one line, with its newline. */
void cloudevent_write_line(struct buf *b, const struct pr_message *message, const char *source);

/* The line in pieces, for a payload that is too large for a copy of all of it. */
enum cloudevent_form { CLOUDEVENT_EMPTY, CLOUDEVENT_JSON, CLOUDEVENT_TEXT, CLOUDEVENT_BASE64 };
enum cloudevent_form cloudevent_write_line_begin(struct buf *b, const struct pr_message *message, const char *source);
/* What is left of the payload, at most max bytes of it (at least 4); returns how many. */
size_t cloudevent_write_line_piece(struct buf *b, enum cloudevent_form form, pr_slice data, size_t max);
void cloudevent_write_line_end(struct buf *b, enum cloudevent_form form);

#endif
