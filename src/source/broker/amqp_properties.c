#include "source/broker/amqp_properties.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "source/broker/event_prefix.h"

pr_slice amqp_take_short(struct cursor *c)
{
    return cursor_take(c, cursor_number(c, 1));
}

/* ---- Values ------------------------------------------------------------------------------------------- */

static pr_slice number_text(struct arena *arena, uint64_t raw, unsigned bytes, bool is_signed)
{
    unsigned shift = 64 - 8 * bytes;
    return is_signed ? arena_printf(arena, "%" PRId64, (int64_t)(raw << shift) >> shift)
                     : arena_printf(arena, "%" PRIu64, raw);
}

static pr_slice time_text(struct arena *arena, uint64_t seconds)
{
    char text[TIME_TEXT_SIZE];
    if (seconds > (uint64_t)(TIME_MAX_US / PR_SECONDS(1)))
        return number_text(arena, seconds, 8, false);
    time_format_rfc3339((int64_t)seconds * PR_SECONDS(1), text);
    return slice_dup(arena, slice_from(text));
}

static pr_slice float_text(struct arena *arena, uint64_t raw, unsigned bytes)
{
    double value;
    float small;
    uint32_t half = (uint32_t)raw;
    memcpy(&small, &half, sizeof(small));
    memcpy(&value, &raw, sizeof(value));
    return bytes == 4 ? arena_printf(arena, "%.9g", (double)small) : arena_printf(arena, "%.17g", value);
}

/* As text; false: it has no text form (null, a list, a table, a decimal). */
static bool take_value(struct cursor *c, struct arena *arena, pr_slice *ret)
{
    static const struct {
        char kind;
        uint8_t bytes;
        bool is_signed;
    } numbers[] = { { 'b', 1, true }, { 'B', 1, false }, { 's', 2, true }, { 'U', 2, true }, { 'u', 2, false },
                    { 'I', 4, true }, { 'i', 4, false }, { 'l', 8, true }, { 'L', 8, true } };
    char kind = (char)cursor_number(c, 1);
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
        if (kind == numbers[i].kind) {
            uint64_t raw = cursor_number(c, numbers[i].bytes);
            *ret = number_text(arena, raw, numbers[i].bytes, numbers[i].is_signed);
            return true;
        }
    switch (kind) {
    case 'S':
    case 'x': *ret = cursor_take(c, cursor_number(c, 4)); return true;
    case 't': *ret = cursor_number(c, 1) != 0 ? PR_STR("true") : PR_STR("false"); return true;
    case 'T': *ret = time_text(arena, cursor_number(c, 8)); return true;
    case 'f': *ret = float_text(arena, cursor_number(c, 4), 4); return true;
    case 'd': *ret = float_text(arena, cursor_number(c, 8), 8); return true;
    case 'D': (void)cursor_take(c, 5); return false;
    case 'V': return false;
    case 'A':
    case 'F': (void)cursor_take(c, cursor_number(c, 4)); return false;
    default: c->bad = true; return false;
    }
}

static int take_table(struct cursor *c, struct arena *arena, struct amqp_properties *ret)
{
    struct cursor inside = { cursor_take(c, cursor_number(c, 4)), c->bad };
    ret->headers = arena_alloc_array(arena, inside.rest.size / 2 + 1, sizeof(*ret->headers));
    if (ret->headers == NULL)
        return PR_ENOMEM;
    while (!inside.bad && inside.rest.size > 0) {
        struct decode_header h = { .name = event_prefix_same(arena, amqp_take_short(&inside)) };
        bool has_text = take_value(&inside, arena, &h.value);
        if (h.name.data == NULL || (has_text && h.value.data == NULL))
            return PR_ENOMEM;
        if (has_text && !inside.bad)
            ret->headers[ret->header_count++] = h;
    }
    c->bad |= inside.bad;
    return PR_OK;
}

/* ---- All of them ---------------------------------------------------------------------------------------- */

int amqp_properties_read(pr_slice payload, struct arena *arena, struct amqp_properties *ret)
{
    enum {
        CONTENT_TYPE = 15,
        ENCODING = 14,
        HEADERS = 13,
        MODE = 12,
        PRIORITY = 11,
        CORRELATION = 10,
        REPLY_TO = 9,
        EXPIRATION = 8,
        MESSAGE_ID = 7,
        TIMESTAMP = 6,
        TYPE = 5
    };
    struct cursor c = { payload, false };
    int rc = PR_OK;
    *ret = (struct amqp_properties){ .body_size = 0 };
    (void)cursor_take(&c, 4); /* class, weight */
    ret->body_size = cursor_number(&c, 8);
    uint64_t flags = cursor_number(&c, 2);
    for (int bit = CONTENT_TYPE; bit >= TYPE && !c.bad && rc == PR_OK; bit--) {
        if ((flags & UINT64_C(1) << bit) == 0)
            continue;
        switch (bit) {
        case CONTENT_TYPE: ret->content_type = amqp_take_short(&c); break;
        case HEADERS: rc = take_table(&c, arena, ret); break;
        case MODE:
        case PRIORITY: (void)cursor_take(&c, 1); break;
        case TIMESTAMP: (void)cursor_take(&c, 8); break;
        case CORRELATION: ret->correlation_id = amqp_take_short(&c); break;
        case MESSAGE_ID: ret->message_id = amqp_take_short(&c); break;
        case TYPE: ret->type = amqp_take_short(&c); break;
        default: (void)amqp_take_short(&c); break; /* encoding, reply-to, expiration */
        }
    }
    return rc != PR_OK ? rc : c.bad ? PR_EINVAL : PR_OK;
}
