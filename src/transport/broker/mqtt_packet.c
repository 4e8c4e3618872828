#include "transport/broker/mqtt_packet.h"

#include <stdio.h>

#include "base/cursor.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"

#define HEAD_CONNECT 0x10
#define HEAD_PUBLISH_QOS1 0x32
#define HEAD_PUBACK 0x40
#define HEAD_SUBSCRIBE 0x82
#define SUBSCRIBE_OPTIONS 0x11 /* QoS 1, retained ones when it is new */
#define HEAD_PING 0xC0
#define HEAD_DISCONNECT 0xE0
#define FLAG_RETAIN 0x01

#define CONNECT_CLEAN 0x02
#define CONNECT_PASSWORD 0x40
#define CONNECT_USER 0x80

enum property {
    PROPERTY_CONTENT_TYPE = 3,
    PROPERTY_RESPONSE_TOPIC = 8,
    PROPERTY_CORRELATION = 9,
    PROPERTY_SUBSCRIPTION = 11,
    PROPERTY_EXPIRY = 17,
    PROPERTY_KEEPALIVE = 19,
    PROPERTY_RECEIVE_MAX = 33,
    PROPERTY_QOS_MAX = 36,
    PROPERTY_RETAIN = 37,
    PROPERTY_USER = 38,
    PROPERTY_PACKET_MAX = 39,
};

/* ---- Writing ---------------------------------------------------------------------------------------- */

static void put_number(struct buf *b, uint32_t number, unsigned bytes)
{
    while (bytes-- > 0)
        buf_add_char(b, (char)(number >> (8 * bytes)));
}

/* Seven bits in each byte, the lowest first. */
static void put_varint(struct buf *b, uint32_t number)
{
    do {
        buf_add_char(b, (char)(number % 128 | (number >= 128 ? 128u : 0)));
        number /= 128;
    } while (number > 0);
}

static size_t varint_size(size_t number)
{
    return number < 128 ? 1 : number < 16384 ? 2 : number < 2097152 ? 3 : 4;
}

static void put_string(struct buf *b, pr_slice s)
{
    if (s.size > MQTT_STRING_MAX) {
        b->error = PR_ETOOBIG;
        return;
    }
    put_number(b, (uint32_t)s.size, 2);
    buf_add_slice(b, s);
}

void mqtt_put_connect(struct buf *b, const struct mqtt_login *login)
{
    bool named = login->user.size > 0, secret = named && login->password.size > 0;
    bool is_kept = login->expiry_s > 0;
    unsigned flags = (is_kept ? 0 : CONNECT_CLEAN) | (named ? CONNECT_USER : 0) | (secret ? CONNECT_PASSWORD : 0);
    struct buf rest;
    buf_init(&rest, 4 * MQTT_STRING_MAX);
    put_string(&rest, PR_STR("MQTT"));
    put_number(&rest, 5, 1);
    put_number(&rest, flags, 1);
    put_number(&rest, login->keepalive_s, 2);
    if (is_kept) { /* the broker would drop messages above the limit: so no limit is announced */
        put_varint(&rest, 8);
        put_number(&rest, PROPERTY_EXPIRY, 1);
        put_number(&rest, login->expiry_s, 4);
        put_number(&rest, PROPERTY_RECEIVE_MAX, 1);
        put_number(&rest, login->receive_max, 2);
    } else {
        put_varint(&rest, 5); /* the properties */
        put_number(&rest, PROPERTY_PACKET_MAX, 1);
        put_number(&rest, MQTT_ANSWER_MAX, 4);
    }
    put_string(&rest, login->client);
    if (named)
        put_string(&rest, login->user);
    if (secret)
        put_string(&rest, login->password);
    put_number(b, HEAD_CONNECT, 1);
    put_varint(b, (uint32_t)rest.size);
    buf_add_slice(b, buf_slice(&rest));
    if (buf_failed(&rest) != 0)
        b->error = buf_failed(&rest);
    buf_fini(&rest);
}

void mqtt_put_ping(struct buf *b)
{
    put_number(b, HEAD_PING << 8, 2);
}

void mqtt_put_disconnect(struct buf *b)
{
    put_number(b, HEAD_DISCONNECT << 8, 2);
}

void mqtt_put_subscribe(struct buf *b, uint16_t id, pr_slice filter)
{
    ASSERT(id != 0 && filter.size <= MQTT_STRING_MAX);
    put_number(b, HEAD_SUBSCRIBE, 1);
    put_varint(b, (uint32_t)(2 + 1 + 2 + filter.size + 1));
    put_number(b, id, 2);
    put_varint(b, 0); /* no properties */
    put_string(b, filter);
    put_number(b, SUBSCRIBE_OPTIONS, 1);
}

void mqtt_put_puback(struct buf *b, uint16_t id)
{
    put_number(b, HEAD_PUBACK << 8 | 2, 2);
    put_number(b, id, 2);
}

void mqtt_put_content_type(struct buf *properties, pr_slice type)
{
    put_number(properties, PROPERTY_CONTENT_TYPE, 1);
    put_string(properties, type);
}

void mqtt_put_user_property(struct buf *properties, pr_slice name, pr_slice value)
{
    put_number(properties, PROPERTY_USER, 1);
    put_string(properties, name);
    put_string(properties, value);
}

static size_t rest_size(const struct mqtt_publish *p)
{
    return 2 + p->topic.size + 2 + varint_size(p->properties.size) + p->properties.size + p->body.size;
}

size_t mqtt_publish_size(const struct mqtt_publish *p)
{
    size_t rest = rest_size(p);
    return rest <= MQTT_PACKET_MAX ? 1 + varint_size(rest) + rest : 0;
}

void mqtt_put_publish(struct buf *b, const struct mqtt_publish *p)
{
    ASSERT(p->id != 0 && mqtt_publish_size(p) > 0);
    put_number(b, HEAD_PUBLISH_QOS1 | (p->retain ? FLAG_RETAIN : 0), 1);
    put_varint(b, (uint32_t)rest_size(p));
    put_string(b, p->topic);
    put_number(b, p->id, 2);
    put_varint(b, (uint32_t)p->properties.size);
    buf_add_slice(b, p->properties);
    buf_add_slice(b, p->body);
}

bool mqtt_is_string(pr_slice text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 127)
            return false;
    return text.size <= MQTT_STRING_MAX && utf8_valid(text);
}

bool mqtt_is_topic(pr_slice topic)
{
    for (size_t i = 0; i < topic.size; i++)
        if (topic.data[i] == '+' || topic.data[i] == '#')
            return false;
    return topic.size > 0 && mqtt_is_string(topic);
}

/* ---- Reading ------------------------------------------------------------------------------------------- */

static uint32_t take_varint(struct cursor *c)
{
    uint32_t number = 0;
    for (unsigned shift = 0; shift < 28; shift += 7) {
        uint32_t byte = (uint32_t)cursor_number(c, 1);
        number |= (byte & 127) << shift;
        if (byte < 128)
            return number;
    }
    c->bad = true; /* it has four bytes at most */
    return 0;
}

/* The encoding of a property: an integer of 1, 2 or 4 bytes, a string, or two of them. */
enum shape { SHAPE_UNKNOWN, SHAPE_1 = 1, SHAPE_2 = 2, SHAPE_4 = 4, SHAPE_STRING, SHAPE_PAIR };

/* Properties that a broker may send in CONNACK, PUBACK and DISCONNECT. */
static const uint8_t shapes[] = {
    [17] = SHAPE_4 /* session expiry */,
    [18] = SHAPE_STRING /* assigned client */,
    [PROPERTY_KEEPALIVE] = SHAPE_2,
    [21] = SHAPE_STRING /* authentication method */,
    [22] = SHAPE_STRING /* its data */,
    [26] = SHAPE_STRING /* response information */,
    [28] = SHAPE_STRING /* server */,
    [31] = SHAPE_STRING /* reason */,
    [PROPERTY_RECEIVE_MAX] = SHAPE_2,
    [34] = SHAPE_2 /* topic aliases */,
    [PROPERTY_QOS_MAX] = SHAPE_1,
    [PROPERTY_RETAIN] = SHAPE_1,
    [PROPERTY_USER] = SHAPE_PAIR,
    [PROPERTY_PACKET_MAX] = SHAPE_4,
    [40] = SHAPE_1 /* wildcards */,
    [41] = SHAPE_1 /* subscription identifiers */,
    [42] = SHAPE_1 /* shared subscriptions */,
};

static void take_property(struct cursor *c, struct mqtt_answer *ret)
{
    uint32_t number = 0, property = take_varint(c);
    enum shape shape = property < ARRAY_LENGTH(shapes) ? (enum shape)shapes[property] : SHAPE_UNKNOWN;
    switch (shape) {
    case SHAPE_1:
    case SHAPE_2:
    case SHAPE_4: number = (uint32_t)cursor_number(c, (unsigned)shape); break;
    case SHAPE_PAIR: (void)cursor_take(c, cursor_number(c, 2)); /* fall through */
    case SHAPE_STRING: (void)cursor_take(c, cursor_number(c, 2)); break;
    default: c->bad = true; /* how long it is nobody knows */
    }
    switch (property) {
    case PROPERTY_KEEPALIVE: ret->keepalive_s = (uint16_t)number; break;
    case PROPERTY_RECEIVE_MAX: ret->receive_max = (uint16_t)number; break;
    case PROPERTY_QOS_MAX: ret->takes_qos1 = number > 0; break;
    case PROPERTY_RETAIN: ret->takes_retain = number > 0; break;
    case PROPERTY_PACKET_MAX: ret->packet_max = number; break;
    default: break;
    }
}

/* They may be missing at the end of a packet, together with their length. */
static void take_properties(struct cursor *c, struct mqtt_answer *ret)
{
    if (c->rest.size == 0)
        return;
    uint32_t size = take_varint(c);
    struct cursor inside = { cursor_take(c, size), c->bad };
    while (!inside.bad && inside.rest.size > 0)
        take_property(&inside, ret);
    c->bad |= inside.bad || c->rest.size > 0;
}

/* The code may be missing as well: that means success. */
static void take_body(struct cursor *c, struct mqtt_answer *ret)
{
    if (ret->kind == MQTT_CONNACK)
        (void)cursor_take(c, 1); /* session present: none was requested */
    if (ret->kind == MQTT_PUBACK)
        ret->id = (uint16_t)cursor_number(c, 2);
    if (ret->kind != MQTT_PINGRESP && (ret->kind == MQTT_CONNACK || c->rest.size > 0)) {
        ret->code = (uint8_t)cursor_number(c, 1);
        take_properties(c, ret);
    }
    c->bad |= c->rest.size > 0 || ret->receive_max == 0 || (ret->kind == MQTT_PUBACK && ret->id == 0);
}

static bool is_answer(uint32_t head)
{
    uint32_t kind = head >> 4;
    return (head & 15) == 0 &&
           (kind == MQTT_CONNACK || kind == MQTT_PUBACK || kind == MQTT_PINGRESP || kind == MQTT_DISCONNECT);
}

/* Are the first bytes there, with the complete length? */
static bool has_head(pr_slice bytes)
{
    for (size_t i = 1; i < bytes.size && i < 5; i++)
        if ((uint8_t)bytes.data[i] < 128 || i == 4)
            return true;
    return false;
}

ssize_t mqtt_answer_read(pr_slice bytes, struct mqtt_answer *ret, struct pr_error *reterr)
{
    struct cursor c = { bytes, false };
    if (bytes.size > 0 && !is_answer((uint8_t)bytes.data[0]))
        return error_set(reterr, PR_EINVAL, "an unexpected packet that begins with %d", (uint8_t)bytes.data[0]);
    if (!has_head(bytes))
        return 0;
    uint32_t head = (uint32_t)cursor_number(&c, 1), size = take_varint(&c);
    if (c.bad || size > MQTT_ANSWER_MAX)
        return error_set(reterr, PR_EINVAL, "a packet of %u bytes, at most %d are read", (unsigned)size,
                         MQTT_ANSWER_MAX);
    if (c.rest.size < size)
        return 0;
    *ret = (struct mqtt_answer){
        .kind = (enum mqtt_kind)(head >> 4), .receive_max = UINT16_MAX, .takes_qos1 = true, .takes_retain = true
    };
    size_t whole = bytes.size - c.rest.size + size;
    struct cursor body = { { c.rest.data, size }, false };
    take_body(&body, ret);
    if (body.bad)
        return error_set(reterr, PR_EINVAL, "a malformed packet that begins with %u", (unsigned)head);
    return (ssize_t)whole;
}

/* ---- Messages ---------------------------------------------------------------------------------------------- */

struct message_property {
    uint32_t kind;
    pr_slice name, value; /* name: of a user property */
};

/* A property that a message can have. */
static struct message_property take_message_property(struct cursor *c)
{
    struct message_property p = { .kind = take_varint(c) };
    switch (p.kind) {
    case 1 /* is it text */: p.value = cursor_take(c, 1); break;
    case 2 /* expiry */: p.value = cursor_take(c, 4); break;
    case PROPERTY_CONTENT_TYPE:
    case PROPERTY_RESPONSE_TOPIC:
    case PROPERTY_CORRELATION: p.value = cursor_take(c, cursor_number(c, 2)); break;
    case PROPERTY_SUBSCRIPTION: (void)take_varint(c); break;
    case 35 /* topic alias: not allowed */: c->bad = true; break;
    case PROPERTY_USER:
        p.name = cursor_take(c, cursor_number(c, 2));
        p.value = cursor_take(c, cursor_number(c, 2));
        break;
    default: c->bad = true;
    }
    return p;
}

bool mqtt_user_property(pr_slice *properties, pr_slice *ret_name, pr_slice *ret_value)
{
    struct cursor c = { *properties, false };
    while (!c.bad && c.rest.size > 0) {
        struct message_property p = take_message_property(&c);
        *properties = c.rest;
        if (p.kind == PROPERTY_USER && !c.bad) {
            *ret_name = p.name;
            *ret_value = p.value;
            return true;
        }
    }
    return false;
}

static void take_publish(struct cursor *c, unsigned qos, struct mqtt_arrival *ret)
{
    ret->topic = cursor_take(c, cursor_number(c, 2));
    ret->id = qos > 0 ? (uint16_t)cursor_number(c, 2) : 0;
    size_t size = take_varint(c);
    bool is_cut = ret->missing > 0 && size > c->rest.size; /* so long are they that the body is not here */
    ret->properties = cursor_take(c, is_cut ? c->rest.size : size);
    ret->body = c->rest;
    struct cursor inside = { ret->properties, c->bad };
    while (!inside.bad && inside.rest.size > 0) {
        struct message_property p = take_message_property(&inside);
        if (p.kind == PROPERTY_CONTENT_TYPE)
            ret->content_type = p.value;
        else if (p.kind == PROPERTY_CORRELATION)
            ret->correlation = p.value;
    }
    c->bad |= (inside.bad && !is_cut) || qos > 1 || (qos > 0 && ret->id == 0) || ret->topic.size == 0;
}

static void take_suback(struct cursor *c, struct mqtt_arrival *ret)
{
    (void)cursor_number(c, 2);
    (void)cursor_take(c, take_varint(c));
    ret->answer.code = (uint8_t)cursor_number(c, 1);
}

ssize_t mqtt_arrival_read(pr_slice bytes, size_t max, struct mqtt_arrival *ret, struct pr_error *reterr)
{
    struct cursor c = { bytes, false };
    uint32_t kind = bytes.size > 0 ? (uint8_t)bytes.data[0] >> 4 : 0;
    *ret = (struct mqtt_arrival){ .answer.kind = (enum mqtt_kind)kind };
    if (kind != MQTT_PUBLISH && kind != MQTT_SUBACK)
        return mqtt_answer_read(bytes, &ret->answer, reterr);
    if (!has_head(bytes))
        return 0;
    uint32_t head = (uint32_t)cursor_number(&c, 1), size = take_varint(&c);
    if (c.bad)
        return error_set(reterr, PR_EINVAL, "a packet without a length");
    size_t kept = min_size(size, max), whole = bytes.size - c.rest.size + kept;
    if (c.rest.size < kept)
        return 0;
    struct cursor body = { { c.rest.data, kept }, false };
    ret->missing = size - kept;
    if (kind == MQTT_PUBLISH)
        take_publish(&body, head >> 1 & 3, ret);
    else
        take_suback(&body, ret);
    return body.bad ? error_set(reterr, PR_EINVAL, "a malformed packet that begins with %u", (unsigned)head)
                    : (ssize_t)whole;
}
