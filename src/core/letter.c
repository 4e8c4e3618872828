#include "core/letter.h"

#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/buf.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/columns.h"
#include "core/id.h"

#define SHOWN_MAX 64 /* bytes of a key in an error */

enum field_kind {
    FIELD_TEXT,
    FIELD_TIME,
    FIELD_BOOL,
    FIELD_ID,
    FIELD_HEADERS,
    FIELD_PAYLOAD,
    FIELD_BASE64,
    FIELD_VERSION,
    FIELD_IGNORED, /* the store has its own value */
};

#define AT(member) offsetof(struct pr_message, member)

/*    plain             CloudEvents       kind                        NULL: not in this form */
static const struct letter_field {
    const char *plain, *cloud;
    enum field_kind kind;
    size_t offset;
} fields[] = {
    { "type", "type", FIELD_TEXT, AT(type) },
    { "stream", "partitionkey", FIELD_TEXT, AT(stream) },
    { "destination", NULL, FIELD_TEXT, AT(destination) },
#define X(column, attribute, ...) { #column, attribute, FIELD_TEXT, AT(column) },
    SENDER_TEXTS(X)
#undef X
        { "due_at", NULL, FIELD_TIME, AT(due_us) },
    { "expires_at", "expirytime", FIELD_TIME, AT(expires_us) },
    { "event", NULL, FIELD_BOOL, AT(event) },
    { "id", "id", FIELD_ID, 0 },
    { "headers", NULL, FIELD_HEADERS, 0 },
    { "payload", "data", FIELD_PAYLOAD, 0 },
    { "payload_base64", "data_base64", FIELD_BASE64, 0 },
    { NULL, "specversion", FIELD_VERSION, 0 },
    { NULL, "postriderheaders", FIELD_TEXT, AT(headers) },
    { NULL, "time", FIELD_IGNORED, 0 },
    { NULL, "sequence", FIELD_IGNORED, 0 },
};

struct letter {
    struct pr_message *m;
    struct arena *arena;
    struct pr_error *reterr;
    bool is_cloud;
    uint32_t seen;      /* one bit per element of fields */
    pr_slice id, data;  /* the raw JSON values */
    struct buf headers; /* built from extension attributes */
    struct json_writer writer;
};

static int fail(const struct letter *l, pr_slice key, const char *what)
{
    return error_set(l->reterr, PR_EINVAL, "%.*s: %s", (int)min_size(key.size, SHOWN_MAX), key.data, what);
}

/* ---- Values --------------------------------------------------------------------------------------- */

static int read_text(struct letter *l, pr_slice key, pr_slice value, pr_slice *ret)
{
    int rc = json_string_read(value, l->arena, ret);
    if (rc == PR_ENOMEM)
        return error_set(l->reterr, rc, "out of memory for a message");
    return rc == PR_OK ? PR_OK : fail(l, key, "must be a string");
}

static int read_time(struct letter *l, pr_slice key, pr_slice value, int64_t *ret)
{
    pr_slice text;
    int rc = read_text(l, key, value, &text);
    if (rc == PR_OK && time_parse_rfc3339(text, ret) != PR_OK)
        rc = fail(l, key, "must be a time such as 2024-02-29T12:00:00Z");
    return rc;
}

static int read_base64(struct letter *l, pr_slice key, pr_slice value)
{
    pr_slice text;
    struct buf bytes;
    int rc = read_text(l, key, value, &text);
    if (rc != PR_OK)
        return rc;
    buf_init(&bytes, text.size + 1);
    if (base64_decode(&bytes, text) != PR_OK)
        rc = fail(l, key, "not valid base64");
    else if (buf_failed(&bytes) != PR_OK || (l->m->payload = slice_dup(l->arena, buf_slice(&bytes))).data == NULL)
        rc = error_set(l->reterr, PR_ENOMEM, "out of memory for a message");
    buf_fini(&bytes);
    return rc;
}

static int read_field(struct letter *l, const struct letter_field *f, pr_slice key, pr_slice value)
{
    char *place = (char *)l->m + f->offset;
    pr_slice version;
    switch (f->kind) {
    case FIELD_TEXT: return read_text(l, key, value, (pr_slice *)(void *)place);
    case FIELD_TIME: return read_time(l, key, value, (int64_t *)(void *)place);
    case FIELD_BASE64: return read_base64(l, key, value);
    case FIELD_ID: return read_text(l, key, value, &l->id);
    case FIELD_BOOL:
        *(bool *)place = slice_eq_cstr(value, "true");
        return *(bool *)place || slice_eq_cstr(value, "false") ? PR_OK : fail(l, key, "must be true or false");
    case FIELD_HEADERS:
        l->m->headers = value;
        return value.data[0] == '{' ? PR_OK : fail(l, key, "must be an object such as {\"tenant\":\"7\"}");
    case FIELD_PAYLOAD: l->data = value; return PR_OK;
    case FIELD_VERSION:
        if (json_string_read(value, l->arena, &version) == PR_OK && slice_eq_cstr(version, "1.0"))
            return PR_OK;
        return fail(l, key, "only CloudEvents 1.0 is supported");
    case FIELD_IGNORED: break;
    }
    return PR_OK;
}

/* ---- Members --------------------------------------------------------------------------------------- */

static int find_version(void *arg, pr_slice key, pr_slice value)
{
    struct letter *l = arg;
    (void)value;
    l->is_cloud |= slice_eq_cstr(key, "\"specversion\"");
    return PR_OK;
}

static int add_extension(struct letter *l, pr_slice key, pr_slice value)
{
    if (!l->is_cloud)
        return fail(l, key, "unknown key; put your own data into payload or headers");
    if (value.data[0] == '{' || value.data[0] == '[')
        return fail(l, key, "an extension attribute must be a single value");
    json_key_slice(&l->writer, key);
    json_raw(&l->writer, value);
    return PR_OK;
}

static int read_member(void *arg, pr_slice quoted, pr_slice value)
{
    struct letter *l = arg;
    pr_slice key;
    int rc = read_text(l, quoted, quoted, &key);
    if (rc != PR_OK || slice_eq_cstr(value, "null"))
        return rc;
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        const char *name = l->is_cloud ? fields[i].cloud : fields[i].plain;
        if (name == NULL || !slice_eq_cstr(key, name))
            continue;
        if (l->seen & UINT32_C(1) << i)
            return fail(l, key, "given twice");
        l->seen |= UINT32_C(1) << i;
        return read_field(l, &fields[i], key, value);
    }
    return add_extension(l, key, value);
}

/* ---- The whole -------------------------------------------------------------------------------------- */

static int settle_id(struct letter *l)
{
    if (l->is_cloud && l->m->type.size == 0)
        return error_set(l->reterr, PR_EINVAL, "type is missing: every CloudEvent needs it");
    if (l->is_cloud && l->m->source.size == 0)
        return fail(l, PR_STR("source"), "is missing");
    if (l->id.size == 0)
        return l->is_cloud ? fail(l, PR_STR("id"), "is missing") : PR_OK;
    if (pr_id_parse(l->id, &l->m->id) == PR_OK)
        return PR_OK;
    if (!l->is_cloud)
        return fail(l, PR_STR("id"), "must be a UUID");
    id_from_event(l->m->source, l->id, &l->m->id);
    json_put_slice(&l->writer, "ce-id", l->id);
    return PR_OK;
}

static bool is_json(pr_slice content_type)
{
    const char *semicolon = content_type.size > 0 ? memchr(content_type.data, ';', content_type.size) : NULL;
    pr_slice bare = content_type;
    if (semicolon != NULL)
        bare.size = (size_t)(semicolon - content_type.data);
    bare = slice_trim(bare);
    return bare.size == 0 || slice_ends_with(bare, PR_STR("/json")) || slice_ends_with(bare, PR_STR("+json"));
}

static int settle_payload(struct letter *l)
{
    struct pr_message *m = l->m;
    if (l->data.size == 0)
        return PR_OK;
    if (m->payload.data != NULL)
        return fail(l, l->is_cloud ? PR_STR("data") : PR_STR("payload"), "given twice, once as base64");
    if (l->data.data[0] == '"' && !(l->is_cloud && is_json(m->content_type)))
        return read_text(l, l->is_cloud ? PR_STR("data") : PR_STR("payload"), l->data, &m->payload);
    m->payload = l->data;
    if (m->content_type.size == 0)
        m->content_type = PR_STR("application/json");
    return PR_OK;
}

static int settle_headers(struct letter *l)
{
    json_end_object(&l->writer);
    if (buf_failed(&l->headers) == PR_ETOOBIG)
        return error_set(l->reterr, PR_EINVAL, "the extension attributes have more than %d bytes", PR_HEADERS_MAX);
    if (!l->is_cloud || l->headers.size == 2)
        return PR_OK;
    if (l->m->headers.size > 0)
        return fail(l, PR_STR("postriderheaders"), "cannot be combined with extension attributes");
    l->m->headers = slice_dup(l->arena, buf_slice(&l->headers));
    return l->m->headers.data != NULL ? PR_OK : error_set(l->reterr, PR_ENOMEM, "out of memory for a message");
}

int letter_read(pr_slice text, struct arena *arena, struct pr_message *ret, struct pr_error *reterr)
{
    struct letter l = { .m = ret, .arena = arena, .reterr = reterr };
    *ret = (struct pr_message){ .seq = 0 };
    if (json_object_walk(text, find_version, &l) != PR_OK)
        return error_set(reterr, PR_EINVAL, "not a JSON object such as {\"type\":\"order.created\",\"payload\":{}}");
    buf_init(&l.headers, PR_HEADERS_MAX);
    json_init(&l.writer, &l.headers);
    json_begin_object(&l.writer);
    int rc = json_object_walk(text, read_member, &l);
    if (rc == PR_OK)
        rc = settle_id(&l);
    if (rc == PR_OK)
        rc = settle_payload(&l);
    if (rc == PR_OK)
        rc = settle_headers(&l);
    buf_fini(&l.headers);
    return rc;
}
