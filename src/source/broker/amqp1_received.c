#include "source/broker/amqp1_received.h"

#include <inttypes.h>
#include <proton/codec.h>
#include <proton/message.h>

#include "base/slice.h"
#include "base/time.h"
#include "source/broker/event_prefix.h"
#include "transport/broker/amqp1_gate.h"

static pr_slice slice_of(pn_bytes_t bytes)
{
    return (pr_slice){ bytes.start, bytes.size };
}

static pr_slice time_text(struct arena *arena, int64_t ms)
{
    char text[TIME_TEXT_SIZE];
    if (ms < 0 || ms > TIME_MAX_US / PR_MILLISECONDS(1))
        return arena_printf(arena, "%" PRId64, ms);
    time_format_rfc3339(ms * PR_MILLISECONDS(1), text);
    return slice_dup(arena, slice_from(text));
}

static pr_slice uuid_text(struct arena *arena, pn_uuid_t uuid)
{
    pr_id id;
    char text[PR_ID_TEXT_SIZE];
    memcpy(id.bytes, uuid.bytes, sizeof(id.bytes));
    pr_id_format(id, text);
    return slice_dup(arena, slice_from(text));
}

/* The current value of the reader as text; false: it has no text form. */
static bool value_text(pn_data_t *data, struct arena *arena, pr_slice *ret)
{
    switch (pn_data_type(data)) {
    case PN_STRING: *ret = slice_of(pn_data_get_string(data)); return true;
    case PN_SYMBOL: *ret = slice_of(pn_data_get_symbol(data)); return true;
    case PN_BOOL: *ret = pn_data_get_bool(data) ? PR_STR("true") : PR_STR("false"); return true;
    case PN_UBYTE: *ret = arena_printf(arena, "%u", pn_data_get_ubyte(data)); return true;
    case PN_BYTE: *ret = arena_printf(arena, "%d", pn_data_get_byte(data)); return true;
    case PN_USHORT: *ret = arena_printf(arena, "%u", pn_data_get_ushort(data)); return true;
    case PN_SHORT: *ret = arena_printf(arena, "%d", pn_data_get_short(data)); return true;
    case PN_UINT: *ret = arena_printf(arena, "%" PRIu32, pn_data_get_uint(data)); return true;
    case PN_INT: *ret = arena_printf(arena, "%" PRId32, pn_data_get_int(data)); return true;
    case PN_ULONG: *ret = arena_printf(arena, "%" PRIu64, pn_data_get_ulong(data)); return true;
    case PN_LONG: *ret = arena_printf(arena, "%" PRId64, pn_data_get_long(data)); return true;
    case PN_FLOAT: *ret = arena_printf(arena, "%.9g", (double)pn_data_get_float(data)); return true;
    case PN_DOUBLE: *ret = arena_printf(arena, "%.17g", pn_data_get_double(data)); return true;
    case PN_TIMESTAMP: *ret = time_text(arena, pn_data_get_timestamp(data)); return true;
    case PN_UUID: *ret = uuid_text(arena, pn_data_get_uuid(data)); return true;
    default: return false; /* null, bytes, decimals; lists and maps are not allowed there */
    }
}

static int read_properties(pn_data_t *data, struct arena *arena, struct received *ret)
{
    pn_data_rewind(data);
    size_t count = pn_data_next(data) ? pn_data_get_map(data) / 2 : 0;
    struct decode_header *headers = arena_alloc_array(arena, count + 1, sizeof(*headers));
    if (headers == NULL)
        return PR_ENOMEM;
    ret->headers = headers;
    pn_data_enter(data);
    while (count-- > 0 && pn_data_next(data)) {
        pr_slice name = slice_of(pn_data_get_string(data));
        struct decode_header h = { .name = event_prefix_same(arena, name) };
        if (!pn_data_next(data) || !value_text(data, arena, &h.value))
            continue;
        if (h.name.data == NULL || (h.value.data == NULL && h.value.size > 0))
            return PR_ENOMEM;
        headers[ret->header_count++] = h;
    }
    return PR_OK;
}

/* message-id and correlation-id are a number, a UUID, bytes or text; bytes are ignored. */
static pr_slice id_text(pn_msgid_t id, struct arena *arena)
{
    switch (id.type) {
    case PN_ULONG: return arena_printf(arena, "%" PRIu64, id.u.as_ulong);
    case PN_UUID: return uuid_text(arena, id.u.as_uuid);
    case PN_STRING: return slice_of(id.u.as_bytes);
    default: return PR_STR("");
    }
}

/* One data section, or a value that is bytes or text. */
static bool read_body(pn_data_t *body, struct received *ret)
{
    pn_data_rewind(body);
    if (!pn_data_next(body)) { /* none */
        ret->body = PR_STR("");
        return true;
    }
    switch (pn_data_type(body)) {
    case PN_BINARY: ret->body = slice_of(pn_data_get_binary(body)); break;
    case PN_STRING: ret->body = slice_of(pn_data_get_string(body)); break;
    case PN_NULL: ret->body = PR_STR(""); break;
    default: return false;
    }
    return !pn_data_next(body);
}

int amqp1_received_read(struct pn_message_t *reader, pr_slice bytes, uint64_t missing, struct arena *arena,
                        struct received *ret, const char **ret_why)
{
    *ret = (struct received){ .body = bytes, .prefix = EVENT_PREFIX, .missing = missing };
    *ret_why = NULL;
    pn_message_clear(reader);
    pr_slice decoded = missing > 0 ? amqp1_gate_head(bytes, &ret->body) : bytes;
    if (!amqp1_gate_is_sound(decoded) || pn_message_decode(reader, decoded.data, decoded.size) != 0) {
        *ret_why = missing == 0 ? "it is not a message of AMQP 1.0" : NULL;
        return PR_OK;
    }
    if (missing == 0 && !read_body(pn_message_body(reader), ret)) {
        ret->body = bytes;
        *ret_why = "its body is not bytes or a text";
    }
    ret->content_type = slice_from(pn_message_get_content_type(reader));
    ret->type = slice_from(pn_message_get_subject(reader));
    ret->id = id_text(pn_message_get_id(reader), arena);
    ret->correlation_id = id_text(pn_message_get_correlation_id(reader), arena);
    ret->stream = slice_from(pn_message_get_group_id(reader));
    return read_properties(pn_message_properties(reader), arena, ret);
}
