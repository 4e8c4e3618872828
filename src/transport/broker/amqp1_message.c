#include "transport/broker/amqp1_message.h"

#include <proton/codec.h>
#include <proton/message.h>
#include <stdlib.h>
#include <strings.h>

#include "base/error.h"
#include "base/slice.h"
#include "transport/cloudevents.h"
#include "transport/own_headers.h"

static pn_bytes_t bytes_of(pr_slice s)
{
    return pn_bytes(s.size, s.data != NULL ? s.data : "");
}

/* An older form of the prefix. */
static bool can_carry(pr_slice name)
{
    return strncasecmp(name.data, "cloudEvents:", 12) != 0;
}

static int put_properties(pn_data_t *to, const struct pr_message *m, const char *source, enum envelope envelope,
                          struct arena *scratch, struct pr_error *reterr)
{
    struct cloudevent event;
    struct own_header *own;
    size_t own_count;
    int rc = own_headers_read(m, scratch, &own, &own_count, reterr);
    if (rc != PR_OK)
        return rc;
    cloudevent_init(&event, m, source);
    const struct own_header_rules rules = { .carrier = "over AMQP",
                                            .prefix = envelope != ENVELOPE_RAW ? "cloudEvents_" : NULL,
                                            .event = &event,
                                            .can_carry = can_carry };
    int failed = pn_data_put_map(to);
    pn_data_enter(to);
    for (size_t i = 0; envelope == ENVELOPE_BINARY && failed == 0 && i < event.count; i++) {
        pr_slice name = cloudevent_name(scratch, "cloudEvents_", event.attributes[i].name);
        failed = name.data == NULL;
        if (failed == 0)
            failed = pn_data_put_string(to, bytes_of(name));
        if (failed == 0)
            failed = pn_data_put_string(to, bytes_of(event.attributes[i].value));
    }
    for (size_t i = 0; failed == 0 && i < own_count; i++) {
        bool is_sent = false;
        rc = own_header_judge(&own[i], &rules, &is_sent, reterr);
        if (rc != PR_OK)
            return rc;
        if (!is_sent)
            continue;
        failed = pn_data_put_string(to, bytes_of(own[i].name));
        if (failed == 0)
            failed = pn_data_put_string(to, bytes_of(own[i].value));
    }
    pn_data_exit(to);
    return failed == 0 ? PR_OK : PR_ENOMEM;
}

static int put_all(pn_message_t *to, const struct pr_message *m, const char *source, enum envelope envelope,
                   struct arena *scratch, struct pr_error *reterr)
{
    bool structured = envelope == ENVELOPE_STRUCTURED;
    char id[PR_ID_TEXT_SIZE];
    pr_slice type = slice_dup(scratch, structured ? PR_STR(CLOUDEVENTS_MEDIA_TYPE) : cloudevent_content_type(m));
    pr_slice body = m->payload;
    struct buf json;
    buf_init(&json, ENVELOPE_JSON_MAX);
    int rc =
        type.data != NULL ? put_properties(pn_message_properties(to), m, source, envelope, scratch, reterr) : PR_ENOMEM;
    if (rc == PR_OK && structured) {
        cloudevent_write_json(&json, m, source);
        rc = buf_failed(&json) == 0 ? PR_OK : PR_ENOMEM;
        body = buf_slice(&json);
    }
    pr_id_format(m->id, id);
    pn_msgid_t message_id = { .type = PN_STRING, .u.as_bytes = pn_bytes(PR_ID_TEXT_SIZE - 1, id) };
    if (rc == PR_OK && (pn_message_set_id(to, message_id) != 0 || pn_message_set_durable(to, true) != 0 ||
                        pn_message_set_inferred(to, true) != 0 || pn_message_set_content_type(to, type.data) != 0 ||
                        pn_message_set_creation_time(to, m->created_us / PR_MILLISECONDS(1)) != 0 ||
                        pn_data_put_binary(pn_message_body(to), bytes_of(body)) != 0))
        rc = PR_ENOMEM;
    buf_fini(&json);
    return rc;
}

int amqp1_message_encode(const struct pr_message *m, const char *source, enum envelope envelope, struct arena *scratch,
                         struct buf *ret, struct pr_error *reterr)
{
    pn_message_t *message = pn_message();
    pn_rwbytes_t bytes = { 0, NULL };
    int rc = message != NULL ? put_all(message, m, source, envelope, scratch, reterr) : PR_ENOMEM;
    buf_reset(ret);
    if (rc == PR_OK) {
        ssize_t size = pn_message_encode2(message, &bytes); /* grows them */
        if (size >= 0)
            buf_add(ret, bytes.start, (size_t)size);
        rc = size >= 0 ? buf_failed(ret) : PR_ENOMEM;
    }
    free(bytes.start);
    if (message != NULL)
        pn_message_free(message);
    return rc;
}
