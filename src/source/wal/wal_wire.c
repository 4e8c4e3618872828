#include "source/wal/wal_wire.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"

#define EPOCH_2000_US INT64_C(946684800000000) /* PostgreSQL counts from 2000 */

/* ---- Reading ------------------------------------------------------------------------------------ */

/* After the first incomplete field everything else is 0, and `bad` says what it was. */
struct wire_reader {
    const uint8_t *at, *end;
    const char *bad;
};

static const uint8_t *take(struct wire_reader *r, size_t size, const char *what)
{
    if (r->bad == NULL && (size_t)(r->end - r->at) < size)
        r->bad = what;
    if (r->bad != NULL)
        return NULL;
    r->at += size;
    return r->at - size;
}

static uint64_t take_number(struct wire_reader *r, size_t size, const char *what)
{
    const uint8_t *bytes = take(r, size, what);
    uint64_t value = 0;
    for (size_t i = 0; bytes != NULL && i < size; i++)
        value = value << 8 | bytes[i];
    return value;
}

static uint8_t take_byte(struct wire_reader *r, const char *what)
{
    return (uint8_t)take_number(r, 1, what);
}

static int64_t take_time(struct wire_reader *r, const char *what)
{
    int64_t us = (int64_t)take_number(r, 8, what);
    return us > INT64_MAX - EPOCH_2000_US ? INT64_MAX : us + EPOCH_2000_US;
}

/* A text up to its NUL. */
static pr_slice take_text(struct wire_reader *r, const char *what)
{
    const uint8_t *from = r->at;
    const uint8_t *nul = r->bad == NULL && r->at < r->end ? memchr(r->at, 0, (size_t)(r->end - r->at)) : NULL;
    if (nul == NULL) {
        r->bad = r->bad != NULL ? r->bad : what;
        return (pr_slice){ "", 0 };
    }
    r->at = nul + 1;
    return (pr_slice){ (const char *)from, (size_t)(nul - from) };
}

/* A length of 32 bits, and that number of bytes. */
static pr_slice take_counted(struct wire_reader *r, const char *what)
{
    uint32_t size = (uint32_t)take_number(r, 4, what);
    const uint8_t *bytes = take(r, size, what);
    return bytes != NULL ? (pr_slice){ (const char *)bytes, size } : (pr_slice){ "", 0 };
}

static int finish(const struct wire_reader *r, const char *about, struct pr_error *reterr)
{
    if (r->bad != NULL)
        return error_set(reterr, PR_ECORRUPT, "the server's log: a %s is cut off at its %s", about, r->bad);
    if (r->at != r->end)
        return error_set(reterr, PR_ECORRUPT, "the server's log: a %s has %zu bytes too many", about,
                         (size_t)(r->end - r->at));
    return PR_OK;
}

static struct wire_reader reader_of(pr_slice bytes)
{
    const uint8_t *at = (const uint8_t *)(bytes.data != NULL ? bytes.data : "");
    return (struct wire_reader){ .at = at, .end = at + bytes.size };
}

static int unknown(uint8_t kind, const char *what, struct pr_error *reterr)
{
    char text[8];
    snprintf(text, sizeof(text), kind > ' ' && kind < 0x7f ? "'%c'" : "0x%02x", kind);
    return error_set(reterr, PR_EUNSUPPORTED, "the server's log: there is no %s of kind %s in the requested output",
                     what, text);
}

/* ---- Frames --------------------------------------------------------------------------------------- */

int wal_frame_parse(pr_slice bytes, struct wal_frame *ret, struct pr_error *reterr)
{
    struct wire_reader r = reader_of(bytes);
    struct wal_frame f = { .kind = WAL_FRAME_DATA };
    uint8_t kind = take_byte(&r, "kind");
    if (r.bad == NULL && kind != 'w' && kind != 'k')
        return unknown(kind, "frame", reterr);
    if (kind == 'w')
        (void)take_number(&r, 8, "start");
    f.end = take_number(&r, 8, "end");
    (void)take_number(&r, 8, "time");
    if (kind == 'k') {
        f.kind = WAL_FRAME_ALIVE;
        f.wants_reply = take_byte(&r, "wish") != 0;
    } else if (r.bad == NULL) {
        f.body = (pr_slice){ (const char *)r.at, (size_t)(r.end - r.at) };
        r.at = r.end;
    }
    int rc = finish(&r, "frame", reterr);
    if (rc == PR_OK)
        *ret = f;
    return rc;
}

/* ---- Events ----------------------------------------------------------------------------------------- */

static void skip_tuple(struct wire_reader *r)
{
    size_t columns = take_number(r, 2, "number of columns");
    if (columns > WAL_COLUMNS_MAX)
        r->bad = "number of columns";
    for (size_t i = 0; i < columns && r->bad == NULL; i++) {
        switch (take_byte(r, "column")) {
        case 'n': /* NULL */
        case 'u': /* unchanged, and not sent */ break;
        case 't':
        case 'b': (void)take_counted(r, "column"); break;
        default: r->bad = "column";
        }
    }
}

static void read_begin(struct wire_reader *r, struct wal_event *e)
{
    e->place = take_number(r, 8, "place");
    e->at_us = take_time(r, "time");
    (void)take_number(r, 4, "transaction");
}

static void read_commit(struct wire_reader *r, struct wal_event *e)
{
    (void)take_byte(r, "flags");
    (void)take_number(r, 8, "place");
    e->place = take_number(r, 8, "end");
    e->at_us = take_time(r, "time");
}

static void read_origin(struct wire_reader *r, struct wal_event *e)
{
    (void)take_number(r, 8, "place");
    e->name = take_text(r, "name");
}

static void read_relation(struct wire_reader *r, struct wal_event *e)
{
    e->relation = (uint32_t)take_number(r, 4, "number");
    e->schema = take_text(r, "schema");
    e->name = take_text(r, "name");
    (void)take_byte(r, "identity");
    size_t columns = take_number(r, 2, "number of columns");
    if (columns > WAL_COLUMNS_MAX)
        r->bad = "number of columns";
    for (size_t i = 0; i < columns && r->bad == NULL; i++) {
        (void)take_byte(r, "column");
        (void)take_text(r, "column");
        (void)take_number(r, 8, "column"); /* its type and its modifier */
    }
}

static void read_type(struct wire_reader *r, struct wal_event *e)
{
    (void)take_number(r, 4, "number");
    e->schema = take_text(r, "schema");
    e->name = take_text(r, "name");
}

static void read_insert(struct wire_reader *r, struct wal_event *e)
{
    e->relation = (uint32_t)take_number(r, 4, "relation");
    if (take_byte(r, "row") != 'N' && r->bad == NULL)
        r->bad = "row";
    skip_tuple(r);
}

/* An old row or key may precede the new row; a delete has no new one. */
static void read_change(struct wire_reader *r, struct wal_event *e)
{
    e->relation = (uint32_t)take_number(r, 4, "relation");
    for (bool more = true; more && r->bad == NULL;) {
        uint8_t part = take_byte(r, "row");
        if (part != 'K' && part != 'O' && part != 'N' && r->bad == NULL)
            r->bad = "row";
        skip_tuple(r);
        more = part != 'N' && r->at != r->end;
    }
}

static void read_truncate(struct wire_reader *r, struct wal_event *e)
{
    size_t count = take_number(r, 4, "number of relations");
    (void)e;
    (void)take_byte(r, "options");
    if (r->bad == NULL && count > (size_t)(r->end - r->at) / 4)
        r->bad = "number of relations";
    else
        (void)take(r, 4 * count, "relations");
}

static void read_message(struct wire_reader *r, struct wal_event *e)
{
    e->with_transaction = (take_byte(r, "flags") & 1) != 0;
    e->place = take_number(r, 8, "place");
    e->prefix = take_text(r, "prefix");
    e->content = take_counted(r, "content");
}

static const struct {
    uint8_t kind;
    enum wal_event_kind event;
    const char *name;
    void (*read)(struct wire_reader *r, struct wal_event *e);
} events[] = {
    { 'B', WAL_BEGIN, "begin", read_begin },
    { 'C', WAL_COMMIT, "commit", read_commit },
    { 'O', WAL_ORIGIN, "origin", read_origin },
    { 'R', WAL_RELATION, "relation", read_relation },
    { 'Y', WAL_TYPE, "type", read_type },
    { 'I', WAL_INSERT, "insert", read_insert },
    { 'U', WAL_CHANGE, "update", read_change },
    { 'D', WAL_CHANGE, "delete", read_change },
    { 'T', WAL_TRUNCATE, "truncate", read_truncate },
    { 'M', WAL_MESSAGE, "message", read_message },
};

int wal_event_parse(pr_slice body, struct wal_event *ret, struct pr_error *reterr)
{
    struct wire_reader r = reader_of(body);
    uint8_t kind = take_byte(&r, "kind");
    if (r.bad != NULL)
        return finish(&r, "event", reterr);
    for (size_t i = 0; i < ARRAY_LENGTH(events); i++) {
        if (events[i].kind != kind)
            continue;
        struct wal_event e = { .kind = events[i].event };
        events[i].read(&r, &e);
        int rc = finish(&r, events[i].name, reterr);
        if (rc == PR_OK)
            *ret = e;
        return rc;
    }
    return unknown(kind, "event", reterr);
}

/* ---- Writing -------------------------------------------------------------------------------------------- */

static char *put_number(char *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        *at++ = (char)(value >> (56 - 8 * i));
    return at;
}

void wal_status_write(wal_place place, int64_t now_us, bool asks, char ret[WAL_STATUS_BYTES])
{
    char *at = ret;
    *at++ = 'r';
    for (int i = 0; i < 3; i++) /* received, on disk, applied: the same here */
        at = put_number(at, place);
    at = put_number(at, (uint64_t)(now_us - EPOCH_2000_US));
    *at++ = (char)asks;
    ASSERT(at == ret + WAL_STATUS_BYTES);
}

void wal_place_format(wal_place place, char ret[WAL_PLACE_TEXT_SIZE])
{
    snprintf(ret, WAL_PLACE_TEXT_SIZE, "%X/%X", (unsigned)(place >> 32), (unsigned)place);
}
