#include "transport/broker/nats_message.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/slice.h"
#include "transport/cloudevents.h"
#include "transport/own_headers.h"

static bool has_controls(pr_slice s)
{
    for (size_t i = 0; i < s.size; i++)
        if ((unsigned char)s.data[i] < ' ' || s.data[i] == 127)
            return true;
    return false;
}

/* Values are encoded as in the HTTP binding; a header cannot contain a line break.  Without memory the error sticks. */
static void put_header(struct buf *headers, struct arena *scratch, const char *name, pr_slice value, bool encoded)
{
    buf_add_cstr(headers, name);
    buf_add_cstr(headers, ": ");
    if (encoded || has_controls(value)) {
        char *text = arena_alloc(scratch, 3 * value.size + 1);
        if (text == NULL) {
            headers->error = PR_ENOMEM;
            return;
        }
        value = (pr_slice){ text, cloudevent_percent_encode(value, text) };
    }
    buf_add_slice(headers, value);
    buf_add_cstr(headers, "\r\n");
}

/* A message must not set headers that control the server (Nats-). */
static bool can_carry(pr_slice name)
{
    for (size_t i = 0; i < name.size; i++)
        if ((unsigned char)name.data[i] <= ' ' || (unsigned char)name.data[i] >= 127 || name.data[i] == ':')
            return false;
    return strncasecmp(name.data, "nats-", 5) != 0;
}

static void put_event(struct buf *headers, struct arena *scratch, const struct cloudevent *event, pr_slice type,
                      enum envelope envelope)
{
    for (size_t i = 0; envelope == ENVELOPE_BINARY && i < event->count; i++) {
        buf_add_cstr(headers, "ce-");
        put_header(headers, scratch, event->attributes[i].name, event->attributes[i].value, true);
    }
    if (envelope == ENVELOPE_BINARY)
        put_header(headers, scratch, "ce-datacontenttype", type, true);
    if (envelope != ENVELOPE_RAW)
        put_header(headers, scratch, "Content-Type",
                   envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE) : type, false);
    put_header(headers, scratch, "Nats-Msg-Id", slice_from(event->id), false);
}

int nats_message_headers(const struct pr_message *m, enum envelope envelope, const char *source, struct arena *scratch,
                         struct buf *ret, struct pr_error *reterr)
{
    struct own_header *own;
    size_t own_count;
    int rc = own_headers_read(m, scratch, &own, &own_count, reterr);
    if (rc != PR_OK)
        return rc;
    pr_slice type = envelope != ENVELOPE_RAW ? cloudevent_content_type(m) : (pr_slice){ NULL, 0 };
    struct cloudevent event;
    cloudevent_init(&event, m, source);
    buf_reset(ret);
    buf_add_cstr(ret, "NATS/1.0\r\n");
    put_event(ret, scratch, &event, type, envelope);
    const struct own_header_rules rules = {
        .carrier = "to NATS",
        .prefix = envelope != ENVELOPE_RAW ? "ce-" : NULL,
        .event = &event,
        .content_type = type,
        .can_carry = can_carry,
    };
    for (size_t i = 0; i < own_count; i++) {
        bool is_sent = false;
        rc = own_header_judge(&own[i], &rules, &is_sent, reterr);
        if (rc != PR_OK)
            return rc;
        if (is_sent)
            put_header(ret, scratch, own[i].name.data, own[i].value, false);
    }
    buf_add_cstr(ret, "\r\n");
    return buf_failed(ret) == PR_ETOOBIG ? error_set(reterr, PR_EINVAL, "its headers are too long") : buf_failed(ret);
}
