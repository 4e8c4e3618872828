#include "core/local_delivery.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "core/message.h"

/* ---- The header -------------------------------------------------------------------------- */

static int find_from(void *arg, pr_slice key, pr_slice value)
{
    pr_slice *ret = arg;
    if (slice_eq(key, PR_STR("\"" HEADER_FROM "\"")))
        *ret = slice_trim(value);
    return PR_OK;
}

/* The raw value of the header, with its quotes; empty: not present. */
static pr_slice from_header(const struct pr_message *m)
{
    pr_slice value = { NULL, 0 };
    if (slice_contains(m->headers, PR_STR(HEADER_FROM)) && json_object_walk(m->headers, find_from, &value) != PR_OK)
        return (pr_slice){ NULL, 0 };
    return value;
}

/* The list "a,b" without its quotes; a value that is not a string was not written by us. */
static pr_slice boxes_in(pr_slice value)
{
    if (value.size < 2 || value.data[0] != '"')
        return (pr_slice){ NULL, 0 };
    return (pr_slice){ value.data + 1, value.size - 2 };
}

bool local_is_loop(const struct pr_message *m, pr_slice from, pr_slice into)
{
    pr_slice boxes = boxes_in(from_header(m));

    if (slice_eq(from, into))
        return true;
    while (boxes.size > 0) {
        const char *comma = memchr(boxes.data, ',', boxes.size);
        size_t size = comma != NULL ? (size_t)(comma - boxes.data) : boxes.size;
        if (slice_eq((pr_slice){ boxes.data, size }, into))
            return true;
        size += comma != NULL;
        boxes = (pr_slice){ boxes.data + size, boxes.size - size };
    }
    return false;
}

/* The headers of m, with this box appended to the list. */
static void add_from(const struct pr_message *m, pr_slice from, struct buf *ret)
{
    pr_slice value = from_header(m), own = slice_trim(m->headers), boxes = boxes_in(value);

    if (value.data != NULL) {
        const char *behind = value.data + value.size;
        buf_add(ret, m->headers.data, (size_t)(value.data - m->headers.data));
        buf_addf(ret, "\"%.*s%s%.*s\"", SLICE_ARGS(boxes), boxes.size > 0 ? "," : "", SLICE_ARGS(from));
        buf_add(ret, behind, m->headers.size - (size_t)(behind - m->headers.data));
        return;
    }
    own = own.size > 2 ? slice_trim((pr_slice){ own.data + 1, own.size - 2 }) : (pr_slice){ NULL, 0 };
    buf_addf(ret, "{\"" HEADER_FROM "\":\"%.*s\"%s", SLICE_ARGS(from), own.size > 0 ? "," : "");
    buf_add_slice(ret, own);
    buf_add_char(ret, '}');
}

/* ---- The effect --------------------------------------------------------------------------- */

static struct send_effect *effect_with(const struct pr_message *m, pr_slice headers, pr_slice into)
{
    struct send_effect *effect = malloc(sizeof(*effect) + headers.size);

    if (effect == NULL)
        return NULL;
    if (headers.size > 0)
        memcpy(effect + 1, headers.data, headers.size);
    *effect = (struct send_effect){
        .box = into,
        .message = { .id = m->id,
                     .type = m->type,
                     .stream = m->stream,
                     .source = m->source,
                     .subject = m->subject,
                     .content_type = m->content_type,
                     .headers = { (const char *)(effect + 1), headers.size },
                     .payload = m->payload,
                     .correlation_id = m->correlation_id,
                     .causation_id = m->causation_id,
                     .traceparent = m->traceparent,
                     .tracestate = m->tracestate,
                     .expires_us = m->expires_us,
                     .event = m->event && m->stream.size > 0 }, /* events without a stream come from an older version */
    };
    return effect;
}

int local_effect(const struct pr_message *m, pr_slice from, pr_slice into, struct send_effect **ret)
{
    struct buf headers;

    buf_init(&headers, PR_HEADERS_MAX);
    add_from(m, from, &headers);
    int rc = buf_failed(&headers);
    if (rc == PR_OK) {
        *ret = effect_with(m, buf_slice(&headers), into);
        rc = *ret != NULL ? PR_OK : PR_ENOMEM;
    }
    buf_fini(&headers);
    return rc;
}
