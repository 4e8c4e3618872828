#include "transport/broker/kafka_answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- What answers look like ----------------------------------------------------------------------------- */

#define KEY_VERSIONS 18
#define UNSUPPORTED_VERSION 35
#define REFUSAL_MAX 1024 /* bytes */

/* 1 2 4 8: integers of this size in bytes; s: a string, n: or NULL; b: bytes, or NULL; [ ]: a list, { }: or NULL; < >:
 * a compact list; t: tags.  Each entry applies to versions up to `last` that no earlier entry of its key covers. */
#define PARTITIONS "[2 4 4 [4] [4]]"
#define BROKERS "[4 s 4 n]"
static const struct shape {
    int16_t key, last;
    const char *name, *fields;
} shapes[] = {
    { 0, 0, "Produce", "[s [4 2 8]]" },
    { 0, 1, "Produce", "[s [4 2 8]] 4" },
    { 0, 4, "Produce", "[s [4 2 8 8]] 4" },
    { 0, 7, "Produce", "[s [4 2 8 8 8]] 4" },
    { 1, 0, "Fetch", "[s [4 2 8 b]]" },
    { 1, 3, "Fetch", "4 [s [4 2 8 b]]" },
    { 1, 4, "Fetch", "4 [s [4 2 8 8 {8 8} b]]" },
    { 1, 6, "Fetch", "4 [s [4 2 8 8 8 {8 8} b]]" },
    { 1, 10, "Fetch", "4 2 4 [s [4 2 8 8 8 {8 8} b]]" },
    { 1, 11, "Fetch", "4 2 4 [s [4 2 8 8 8 {8 8} 4 b]]" },
    { 2, 0, "ListOffsets", "[s [4 2 [8]]]" },
    { 2, 1, "ListOffsets", "[s [4 2 8 8]]" },
    { 2, 3, "ListOffsets", "4 [s [4 2 8 8]]" },
    { 2, 5, "ListOffsets", "4 [s [4 2 8 8 4]]" },
    { 3, 0, "Metadata", "[4 s 4] [2 s " PARTITIONS "]" },
    { 3, 1, "Metadata", BROKERS " 4 [2 s 1 " PARTITIONS "]" },
    { 3, 2, "Metadata", BROKERS " n 4 [2 s 1 " PARTITIONS "]" },
    { 3, 4, "Metadata", "4 " BROKERS " n 4 [2 s 1 " PARTITIONS "]" },
    { 8, 2, "OffsetCommit", "[s [4 2]]" },
    { 8, 7, "OffsetCommit", "4 [s [4 2]]" },
    { 9, 1, "OffsetFetch", "[s [4 8 n 2]]" },
    { 9, 2, "OffsetFetch", "[s [4 8 n 2]] 2" },
    { 9, 4, "OffsetFetch", "4 [s [4 8 n 2]] 2" },
    { 9, 5, "OffsetFetch", "4 [s [4 8 4 n 2]] 2" },
    { 10, 0, "FindCoordinator", "2 4 s 4" },
    { 10, 2, "FindCoordinator", "4 2 n 4 s 4" },
    { 11, 1, "JoinGroup", "2 4 s s s [s b]" },
    { 11, 4, "JoinGroup", "4 2 4 s s s [s b]" },
    { 11, 5, "JoinGroup", "4 2 4 s s s [s n b]" },
    { 12, 0, "Heartbeat", "2" },
    { 12, 3, "Heartbeat", "4 2" },
    { 13, 0, "LeaveGroup", "2" },
    { 13, 2, "LeaveGroup", "4 2" },
    { 14, 0, "SyncGroup", "2 b" },
    { 14, 3, "SyncGroup", "4 2 b" },
    { 17, 1, "SaslHandshake", "2 [s]" },
    { KEY_VERSIONS, 0, "ApiVersions", "2 [2 2 2]" },
    { KEY_VERSIONS, 2, "ApiVersions", "2 [2 2 2] 4" },
    { KEY_VERSIONS, 4, "ApiVersions", "2 <2 2 2 t> 4 t" },
    { 22, 1, "InitProducerId", "4 2 8 2" },
    { 23, 0, "OffsetForLeaderEpoch", "[s [2 4 8]]" },
    { 23, 1, "OffsetForLeaderEpoch", "[s [2 4 4 8]]" },
    { 23, 3, "OffsetForLeaderEpoch", "4 [s [2 4 4 8]]" },
    { 36, 0, "SaslAuthenticate", "2 n b" },
    { 36, 1, "SaslAuthenticate", "2 n b 8" },
};

static const struct shape *shape_of(int16_t key, int16_t version)
{
    for (size_t i = 0; i < ARRAY_LENGTH(shapes) && version >= 0; i++)
        if (shapes[i].key == key && version <= shapes[i].last)
            return &shapes[i];
    return NULL;
}

static int16_t last_version(int16_t key)
{
    int16_t last = -1;
    for (size_t i = 0; i < ARRAY_LENGTH(shapes); i++)
        if (shapes[i].key == key)
            last = shapes[i].last;
    return last;
}

/* ---- Questions ------------------------------------------------------------------------------------------ */

static int32_t number_at(const unsigned char *bytes, unsigned size)
{
    uint32_t number = 0;
    for (unsigned i = 0; i < size; i++)
        number = number << 8 | bytes[i];
    return size == 2 ? (int16_t)number : (int32_t)number;
}

bool kafka_question_read(const unsigned char head[KAFKA_QUESTION_BYTES], struct kafka_question *ret)
{
    *ret = (struct kafka_question){ .key = (int16_t)number_at(head + 4, 2),
                                    .version = (int16_t)number_at(head + 6, 2),
                                    .correlation = number_at(head + 8, 4) };
    /* After SaslHandshake 0 come bytes without a frame of their own. */
    bool is_bare = ret->key == 17 && ret->version == 0;
    return !is_bare && shape_of(ret->key, ret->version) != NULL;
}

const char *kafka_question_name(const struct kafka_question *q)
{
    const struct shape *shape = shape_of(q->key, q->version);
    return shape != NULL ? shape->name : "a question";
}

/* ---- Answers -------------------------------------------------------------------------------------------- */

struct answer_cursor {
    unsigned char *at, *end;
    const char *bad; /* what is wrong; NULL: nothing */
};

static unsigned char *take(struct answer_cursor *c, uint64_t size)
{
    unsigned char *taken = c->at;
    if (c->bad == NULL && size > (uint64_t)(c->end - c->at))
        c->bad = "it is too short";
    if (c->bad != NULL)
        return NULL;
    c->at += size;
    return taken;
}

static int32_t take_number(struct answer_cursor *c, unsigned size)
{
    const unsigned char *bytes = take(c, size);
    return bytes != NULL ? number_at(bytes, size) : 0;
}

/* A varint of up to 32 bits. */
static uint32_t take_varint(struct answer_cursor *c)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 35 && c->bad == NULL; shift += 7) {
        const unsigned char *byte = take(c, 1);
        if (byte == NULL)
            return 0;
        number |= (uint64_t)(*byte & 0x7f) << shift;
        if (*byte < 0x80)
            break;
    }
    if (number > INT32_MAX)
        c->bad = "invalid length";
    return (uint32_t)number;
}

static void take_sized(struct answer_cursor *c, int32_t size, bool may_be_null)
{
    if (size < (may_be_null ? -1 : 0))
        c->bad = c->bad != NULL ? c->bad : "invalid length";
    else if (size > 0)
        (void)take(c, (uint64_t)size);
}

static void take_tags(struct answer_cursor *c)
{
    for (uint32_t count = take_varint(c); count > 0 && c->bad == NULL; count--) {
        (void)take_varint(c);
        (void)take(c, take_varint(c));
    }
}

/* After the bracket that closes this one. */
static const char *skip_list(const char *fields)
{
    int depth = 0;
    do {
        depth += strchr("[{<", *fields) != NULL;
        depth -= strchr("]}>", *fields) != NULL;
        fields++;
    } while (depth > 0);
    return fields;
}

static void take_fields(struct answer_cursor *c, const char *fields);

static int64_t take_count(struct answer_cursor *c, char bracket)
{
    if (bracket == '<')
        return (int64_t)take_varint(c) - 1;
    int32_t count = take_number(c, 4);
    return bracket == '{' && count == -1 ? 0 : count;
}

/* Up to the end, or to the bracket that closes a list. */
static void take_fields(struct answer_cursor *c, const char *fields)
{
    while (c->bad == NULL && *fields != '\0' && strchr("]}>", *fields) == NULL) {
        if (strchr("[{<", *fields) != NULL) {
            int64_t count = take_count(c, *fields);
            if (count < 0)
                c->bad = c->bad != NULL ? c->bad : "negative list length";
            for (; count > 0 && c->bad == NULL; count--)
                take_fields(c, fields + 1);
            fields = skip_list(fields);
            continue;
        }
        switch (*fields++) {
        case '1': (void)take(c, 1); break;
        case '2': (void)take(c, 2); break;
        case '4': (void)take(c, 4); break;
        case '8': (void)take(c, 8); break;
        case 's': take_sized(c, take_number(c, 2), false); break;
        case 'n': take_sized(c, take_number(c, 2), true); break;
        case 'b': take_sized(c, take_number(c, 4), true); break;
        case 't': take_tags(c); break;
        default: break; /* a blank */
        }
    }
}

static void put_version(unsigned char *at, int16_t version)
{
    at[0] = (unsigned char)((uint16_t)version >> 8);
    at[1] = (unsigned char)version;
}

/* The library uses the newest version that both sides support: this lowers them to versions whose answers can be
 * checked.  APIs that are unknown here are hidden. */
static void lower_versions(struct answer_cursor c, bool is_compact)
{
    (void)take(&c, 2);
    for (int64_t count = take_count(&c, is_compact ? '<' : '['); count > 0 && c.bad == NULL; count--) {
        unsigned char *api = take(&c, 6);
        if (api == NULL)
            return;
        int16_t last = last_version((int16_t)number_at(api, 2));
        if (last < 0)
            put_version(api + 2, -1);
        if (number_at(api + 4, 2) > last)
            put_version(api + 4, last);
        if (is_compact)
            take_tags(&c);
    }
}

const char *kafka_answer_check(const struct kafka_question *q, unsigned char *bytes, size_t size)
{
    const struct shape *shape = shape_of(q->key, q->version);
    bool is_versions = q->key == KEY_VERSIONS, is_compact = is_versions && q->version > 2;
    ASSERT(shape != NULL);
    /* A broker that does not support the version of the request says so in its own version.  The library then asks in
     * the first version. */
    if (is_compact && size >= 2 && size <= REFUSAL_MAX && number_at(bytes, 2) == UNSUPPORTED_VERSION)
        return NULL;
    struct answer_cursor c = { bytes, bytes + size, NULL };
    take_fields(&c, shape->fields);
    if (c.bad == NULL && c.at != c.end)
        c.bad = "trailing bytes";
    if (c.bad == NULL && is_versions)
        lower_versions((struct answer_cursor){ bytes, bytes + size, NULL }, is_compact);
    return c.bad;
}
