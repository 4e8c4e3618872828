#include "core/message.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/columns.h"

/* The slices of a message: field, limit, whether it must be clean text. */
#define SLICES(X)                                                                                                      \
    X(type, PR_TYPE_MAX, true)                                                                                         \
    X(stream, PR_NAME_MAX, true)                                                                                       \
    X(destination, PR_NAME_MAX, true)                                                                                  \
    X(headers, PR_HEADERS_MAX, false)                                                                                  \
    X(payload, PR_PAYLOAD_MAX, false)

static const struct message_field {
    const char *name;
    size_t offset, max;
    bool text;
} fields[] = {
#define FIELD(name, max, text) { #name, offsetof(struct pr_message, name), max, text },
#define SENDER_TEXT(name, attribute, place, max) FIELD(name, max, true)
#define FATE_TEXT(kind, column, member) FIELD(member, SIZE_MAX, false)
    /* clang-format off */
    SLICES(FIELD)
    SENDER_TEXTS(SENDER_TEXT)
    FATE_TEXTS(FATE_TEXT)
    /* clang-format on */
};

static const pr_slice *field_get(const struct pr_message *m, const struct message_field *f)
{
    return (const pr_slice *)(const void *)((const char *)m + f->offset);
}

bool name_is_valid(pr_slice name)
{
    if (name.size == 0 || name.size > BOX_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool first = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
        if (!first && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return true;
}

/* Names are shown in terminals, logs and headers: no control characters, no invalid UTF-8. */
static bool is_clean_text(pr_slice text)
{
    unsigned char all = 0; /* the bits of all bytes */
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < 0x20 || c == 0x7f)
            return false;
        all |= c;
    }
    return all < 0x80 || utf8_valid(text);
}

int message_check(const struct pr_message *message, size_t payload_max, struct pr_error *reterr)
{
    if (message->type.size == 0)
        return error_set(reterr, PR_EINVAL, "type is empty: every message needs a type such as order.created");
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        pr_slice s = *field_get(message, &fields[i]);
        if (s.size > 0 && s.data == NULL)
            return error_set(reterr, PR_EINVAL, "%s has a size but no data", fields[i].name);
        if (s.size > fields[i].max)
            return error_set(reterr, PR_ETOOBIG, "%s has %zu bytes, the limit is %zu", fields[i].name, s.size,
                             fields[i].max);
        if (fields[i].text && !is_clean_text(s))
            return error_set(reterr, PR_EINVAL, "%s contains control characters or broken UTF-8", fields[i].name);
    }
    if (message->payload.size > payload_max)
        return error_set(
            reterr, PR_ETOOBIG,
            "payload has %zu bytes, the limit is %zu: raise limits.payload, or send a reference to the data",
            message->payload.size, payload_max);
    if (message->event && message->stream.size == 0)
        return error_set(reterr, PR_EINVAL,
                         "an event needs a stream: set stream to what it is about, such as order-7, or event to false");
    if (message->expects_version && (!message->event || message->expected_version < 0))
        return error_set(reterr, PR_EINVAL,
                         message->event ? "expected_version is below 0: it is how many events the stream has, 0: none"
                                        : "expected_version is only for events: set event to true");
    if (!slice_is_flat_json_object(message->headers))
        return error_set(reterr, PR_EINVAL,
                         slice_is_json_object(message->headers)
                             ? "headers must not hold objects or arrays: each value is a string, a number, true, false "
                               "or null"
                             : "headers are not a JSON object such as {\"tenant\":\"7\"}");
    if (!time_is_plausible(message->due_us) || !time_is_plausible(message->expires_us))
        return error_set(reterr, PR_EINVAL,
                         "%s is %lld: it must be Unix microseconds of the years 2000 to 2299 (seconds * 1000000, "
                         "milliseconds * 1000), or 0",
                         time_is_plausible(message->due_us) ? "expires_us" : "due_us",
                         (long long)(time_is_plausible(message->due_us) ? message->expires_us : message->due_us));
    return PR_OK;
}

int message_expectation(const struct pr_message *m, bool is_known, int64_t version, struct pr_error *reterr)
{
    if (is_known)
        return PR_DUPLICATE;
    if (!m->expects_version || m->expected_version == version)
        return PR_OK;
    if (reterr != NULL) {
        reterr->expected_version = m->expected_version;
        reterr->version = version;
    }
    return error_set(reterr, PR_ECONFLICT,
                     "stream \"%.*s\" is at version %lld, not %lld: read it again before you retry",
                     SLICE_ARGS(m->stream), (long long)version, (long long)m->expected_version);
}

const char *message_defect(const struct pr_message *message, size_t payload_max)
{
    if (message->type.size == 0)
        return "the type is empty";
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        pr_slice s = *field_get(message, &fields[i]);
        if (s.size > fields[i].max)
            return "a field exceeds its limit";
        if (fields[i].text && !is_clean_text(s))
            return "a field contains control characters or broken UTF-8";
    }
    if (message->payload.size > payload_max)
        return "the payload exceeds the limit";
    if (!slice_is_json_object(message->headers))
        return "the headers are not a JSON object";
    if (!counter_is_valid(message->attempts) || !counter_is_valid(message->failures))
        return "a counter is out of range";
    return NULL;
}

size_t message_bytes(const struct pr_message *message)
{
    size_t bytes = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++)
        bytes += field_get(message, &fields[i])->size;
    return bytes;
}

bool message_is_within(const struct pr_message *message, size_t max)
{
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        size_t size = field_get(message, &fields[i])->size;
        if (size > max)
            return false;
        max -= size;
    }
    return true;
}

void message_copy(const struct pr_message *message, char *block, struct pr_message *ret)
{
    *ret = *message;
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        pr_slice *s = (pr_slice *)(void *)((char *)ret + fields[i].offset);
        if (s->size > 0)
            memcpy(block, s->data, s->size);
        s->data = s->size > 0 ? block : "";
        block += s->size;
    }
}

void message_rebase(struct pr_message *message, const char *block)
{
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        pr_slice *s = (pr_slice *)(void *)((char *)message + fields[i].offset);
        s->data = s->size > 0 ? block : "";
        block += s->size;
    }
}

PR_API pr_slice pr_str(const char *text)
{
    return text != NULL ? (pr_slice){ text, strlen(text) } : (pr_slice){ NULL, 0 };
}
