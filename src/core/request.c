#include "core/request.h"

#include <string.h>

#include "base/slice.h"
#include "core/id.h"
#include "core/message.h"

void reply_id(pr_id request, pr_id *ret)
{
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(request, text);
    id_from_event(PR_STR("postrider:reply"), slice_from(text), ret);
}

struct search {
    const char *name;
    pr_slice found;
};

static int look(void *arg, pr_slice key, pr_slice value)
{
    struct search *s = arg;
    value = slice_trim(value);
    bool named = key.size == strlen(s->name) + 2 && memcmp(key.data + 1, s->name, key.size - 2) == 0;
    if (named && value.size >= 2 && value.data[0] == '"' && memchr(value.data, '\\', value.size) == NULL)
        s->found = PR_BYTES(value.data + 1, value.size - 2);
    return PR_OK;
}

pr_slice header_find(pr_slice headers, const char *name)
{
    struct search s = { .name = name };
    if (!slice_contains(headers, slice_from(name)) || json_object_walk(headers, look, &s) != PR_OK)
        return (pr_slice){ NULL, 0 };
    return s.found;
}

bool reply_is_row(const struct pr_message *m)
{
    return slice_eq(m->destination, PR_STR(REPLY_DESTINATION)) ||
           (m->destination.size == 0 && header_find(m->headers, HEADER_REPLY).data != NULL);
}

bool reply_request(const struct pr_message *m, pr_id *ret)
{
    pr_slice named = header_find(m->headers, HEADER_REPLY);
    return pr_id_parse(named.data != NULL ? named : m->correlation_id, ret) == PR_OK;
}

struct pr_message reply_row(const struct pr_message *reply, pr_id request, char text[PR_ID_TEXT_SIZE])
{
    struct pr_message m = { .type = reply->type,
                            .destination = PR_STR(REPLY_DESTINATION),
                            .source = reply->source,
                            .subject = reply->subject,
                            .content_type = reply->content_type,
                            .headers = reply->headers,
                            .payload = reply->payload,
                            .causation_id = reply->causation_id,
                            .traceparent = reply->traceparent,
                            .tracestate = reply->tracestate };
    pr_id_format(request, text);
    m.correlation_id = slice_from(text);
    reply_id(request, &m.id);
    return m;
}
