#include "transport/broker/amqp_frame.h"

#include <string.h>
#include <strings.h>

#include "base/cursor.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"
#include "transport/own_headers.h"

#define FRAME_END 0xCE
#define FRAME_HEAD 7 /* bytes: type, channel, size */
#define PERSISTENT 2

/* ---- Reading -------------------------------------------------------------------------------------- */

static int check_head(const char *head, uint16_t channel_max, size_t *ret_size, struct pr_error *reterr)
{
    struct cursor c = { { head, FRAME_HEAD }, false };
    uint64_t type = cursor_number(&c, 1), channel = cursor_number(&c, 2), size = cursor_number(&c, 4);
    if (type == 'A' && head[1] == 'M' && head[2] == 'Q')
        return error_set(reterr, PR_EINVAL, "it speaks another version of AMQP");
    if (type != AMQP_FRAME_METHOD && type != AMQP_FRAME_HEADER && type != AMQP_FRAME_BODY &&
        type != AMQP_FRAME_HEARTBEAT)
        return error_set(reterr, PR_EINVAL, "it does not speak AMQP: a frame of type %u", (unsigned)type);
    if (channel > channel_max)
        return error_set(reterr, PR_EINVAL, "a frame for channel %u, which is not open", (unsigned)channel);
    if (size > FRAME_MAX - FRAME_EDGES)
        return error_set(reterr, PR_EINVAL, "a frame of %llu bytes, at most %d were agreed", (unsigned long long)size,
                         FRAME_MAX);
    *ret_size = (size_t)size + FRAME_EDGES;
    return PR_OK;
}

/* Until `size` bytes are there; false: they are not. */
static bool gather(struct frame_reader *r, pr_slice *data, size_t size)
{
    size_t taken = min_size(data->size, size > r->size ? size - r->size : 0);
    if (taken > 0)
        memcpy(r->bytes + r->size, data->data, taken);
    r->size += taken;
    *data = (pr_slice){ data->data + taken, data->size - taken };
    return r->size >= size;
}

int frame_next(struct frame_reader *r, pr_slice *data, uint16_t channel_max, struct amqp_frame *ret,
               struct pr_error *reterr)
{
    size_t size = 0;
    if (!gather(r, data, FRAME_HEAD))
        return FRAME_PART;
    int rc = check_head(r->bytes, channel_max, &size, reterr);
    if (rc != PR_OK)
        return rc;
    if (!gather(r, data, size))
        return FRAME_PART;
    if ((uint8_t)r->bytes[size - 1] != FRAME_END)
        return error_set(reterr, PR_EINVAL, "a frame does not end where it should");
    struct cursor c = { { r->bytes, size - 1 }, false };
    ret->type = (uint8_t)cursor_number(&c, 1);
    ret->channel = (uint16_t)cursor_number(&c, 2);
    (void)cursor_take(&c, 4);
    ret->payload = c.rest;
    r->size = 0;
    return FRAME_WHOLE;
}

bool frame_method(const struct amqp_frame *f, amqp_method_number_t *ret)
{
    struct cursor c = { f->payload, false };
    *ret = (amqp_method_number_t)cursor_number(&c, 4);
    return !c.bad;
}

/* Properties come in this order, each only if its flag is set.  Those after the message-id do not matter. */
bool frame_header(const struct amqp_frame *f, uint64_t *ret_body_size, pr_slice *ret_message_id)
{
    static const struct {
        unsigned flag, size; /* size 0: a short string, 4: a table after its length */
    } before_id[] = {
        { AMQP_BASIC_CONTENT_TYPE_FLAG, 0 }, { AMQP_BASIC_CONTENT_ENCODING_FLAG, 0 },
        { AMQP_BASIC_HEADERS_FLAG, 4 },      { AMQP_BASIC_DELIVERY_MODE_FLAG, 1 },
        { AMQP_BASIC_PRIORITY_FLAG, 1 },     { AMQP_BASIC_CORRELATION_ID_FLAG, 0 },
        { AMQP_BASIC_REPLY_TO_FLAG, 0 },     { AMQP_BASIC_EXPIRATION_FLAG, 0 },
    };
    struct cursor c = { f->payload, false };
    (void)cursor_take(&c, 4); /* class and weight */
    *ret_body_size = cursor_number(&c, 8);
    unsigned flags = (unsigned)cursor_number(&c, 2);
    for (size_t i = 0; i < ARRAY_LENGTH(before_id); i++)
        if ((flags & before_id[i].flag) != 0)
            (void)cursor_take(&c, before_id[i].size == 1 ? 1 : cursor_number(&c, before_id[i].size == 4 ? 4 : 1));
    *ret_message_id = (flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0 ? cursor_take(&c, cursor_number(&c, 1)) : PR_STR("");
    return !c.bad;
}

/* ---- Frames --------------------------------------------------------------------------------------- */

static void put_number(struct buf *b, uint64_t number, unsigned bytes)
{
    while (bytes-- > 0)
        buf_add_char(b, (char)(number >> (8 * bytes)));
}

static void put_frame(struct buf *b, uint8_t type, amqp_channel_t channel, const void *data, size_t size)
{
    put_number(b, type, 1);
    put_number(b, channel, 2);
    put_number(b, size, 4);
    buf_add(b, data, size);
    put_number(b, FRAME_END, 1);
}

void frame_put_greeting(struct buf *b)
{
    buf_add(b, "AMQP\0\0\x09\x01", 8);
}

void frame_put_heartbeat(struct buf *b)
{
    put_frame(b, AMQP_FRAME_HEARTBEAT, 0, "", 0);
}

void frame_put_method(struct buf *b, amqp_channel_t channel, amqp_method_number_t method, void *fields)
{
    char data[FRAME_MAX];
    amqp_bytes_t rest = { .len = sizeof(data) - 4, .bytes = data + 4 };
    for (unsigned i = 0; i < 4; i++)
        data[i] = (char)(method >> (24 - 8 * i));
    int size = amqp_encode_method(method, fields, rest);
    if (size < 0)
        b->error = PR_ETOOBIG;
    else
        put_frame(b, AMQP_FRAME_METHOD, channel, data, (size_t)size + 4);
}

static void put_content(struct buf *b, amqp_channel_t channel, const struct frame_message *m,
                        amqp_basic_properties_t *properties, pr_slice body)
{
    char data[FRAME_MAX];
    struct buf head;
    ASSERT(m->frame_max >= FRAME_MIN && m->frame_max <= FRAME_MAX);
    size_t room = m->frame_max - FRAME_EDGES;
    int size = amqp_encode_properties(AMQP_BASIC_CLASS, properties, (amqp_bytes_t){ room - 12, data });
    buf_init(&head, FRAME_MAX);
    put_number(&head, AMQP_BASIC_CLASS, 2);
    put_number(&head, 0, 2);
    put_number(&head, body.size, 8);
    if (size < 0)
        b->error = PR_ETOOBIG;
    else
        buf_add(&head, data, (size_t)size);
    put_frame(b, AMQP_FRAME_HEADER, channel, head.data, head.size);
    if (buf_failed(&head) != 0)
        b->error = buf_failed(&head);
    buf_fini(&head);
    for (size_t sent = 0; sent < body.size; sent += room)
        put_frame(b, AMQP_FRAME_BODY, channel, body.data + sent, min_size(room, body.size - sent));
}

/* ---- A message ---------------------------------------------------------------------------------------- */

static void header_add(amqp_table_t *table, pr_slice name, pr_slice value)
{
    table->entries[table->num_entries++] =
        (amqp_table_entry_t){ .key = frame_bytes(name),
                              .value = { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = frame_bytes(value) } };
}

/* For RabbitMQ, CC and BCC are lists of further routing keys, and a text in them closes the channel. */
static bool can_carry(pr_slice name)
{
    return name.size <= FRAME_SHORT_MAX && strncasecmp(name.data, "cloudEvents:", 12) != 0 &&
           !slice_eq_cstr(name, "CC") && !slice_eq_cstr(name, "BCC");
}

static int put_headers(const struct frame_message *m, struct cloudevent *event, struct arena *scratch,
                       amqp_table_t *ret, struct pr_error *reterr)
{
    struct own_header *own;
    size_t own_count;
    int rc = own_headers_read(m->message, scratch, &own, &own_count, reterr);
    if (rc != PR_OK)
        return rc;
    ret->num_entries = 0;
    ret->entries = arena_alloc_array(scratch, CLOUDEVENTS_ATTRIBUTES_MAX + own_count, sizeof(*ret->entries));
    if (ret->entries == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; m->envelope == ENVELOPE_BINARY && i < event->count; i++) {
        pr_slice name = cloudevent_name(scratch, "cloudEvents_", event->attributes[i].name);
        if (name.data == NULL)
            return PR_ENOMEM;
        header_add(ret, name, event->attributes[i].value);
    }
    const struct own_header_rules rules = { .carrier = "over AMQP",
                                            .prefix = m->envelope != ENVELOPE_RAW ? "cloudEvents_" : NULL,
                                            .event = event,
                                            .can_carry = can_carry };
    for (size_t i = 0; i < own_count; i++) {
        bool is_sent = false;
        rc = own_header_judge(&own[i], &rules, &is_sent, reterr);
        if (rc != PR_OK)
            return rc;
        if (is_sent)
            header_add(ret, own[i].name, own[i].value);
    }
    return PR_OK;
}

static int put_body(const struct frame_message *m, struct buf *json, pr_slice *ret)
{
    *ret = m->message->payload;
    if (m->envelope != ENVELOPE_STRUCTURED)
        return PR_OK;
    buf_reset(json);
    cloudevent_write_json(json, m->message, m->source);
    *ret = buf_slice(json);
    return buf_failed(json) == 0 ? PR_OK : PR_ENOMEM;
}

int frame_put_message(struct buf *b, amqp_channel_t channel, const struct frame_message *m, struct arena *scratch,
                      struct buf *json, struct pr_error *reterr)
{
    const struct pr_message *message = m->message;
    struct cloudevent event;
    pr_slice body,
        type = m->envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE) : cloudevent_content_type(message);
    cloudevent_init(&event, message, m->source);
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                  AMQP_BASIC_HEADERS_FLAG | (message->created_us > 0 ? AMQP_BASIC_TIMESTAMP_FLAG : 0),
        .content_type = frame_bytes(type),
        .delivery_mode = PERSISTENT,
        .message_id = frame_bytes(slice_from(event.id)),
        .timestamp = (uint64_t)(message->created_us / PR_SECONDS(1)),
    };
    amqp_basic_publish_t publish = { .exchange = frame_bytes(m->exchange),
                                     .routing_key = frame_bytes(m->key),
                                     .mandatory = m->mandatory };
    if (m->key.size > FRAME_SHORT_MAX)
        return error_set(reterr, PR_EINVAL, "the routing key is longer than %d bytes", FRAME_SHORT_MAX);
    if (type.size > FRAME_SHORT_MAX)
        return error_set(reterr, PR_EINVAL, "the content type is longer than %d bytes", FRAME_SHORT_MAX);
    int rc = put_headers(m, &event, scratch, &properties.headers, reterr);
    if (rc == PR_OK)
        rc = put_body(m, json, &body);
    if (rc != PR_OK)
        return rc;
    size_t before = b->size;
    frame_put_method(b, channel, AMQP_BASIC_PUBLISH_METHOD, &publish);
    put_content(b, channel, m, &properties, body);
    rc = buf_failed(b);
    if (rc != PR_OK)
        buf_truncate(b, before);
    return rc == PR_ETOOBIG
               ? error_set(reterr, PR_EINVAL, "the headers are longer than one frame of %zu bytes", m->frame_max)
               : rc;
}
