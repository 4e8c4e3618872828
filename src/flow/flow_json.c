#include "flow/flow_json.h"

#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "core/message.h"

#define MEMBERS_MAX 32
#define KEY_MAX 48
#define BASE64 "_base64"

/* ---- Writing ------------------------------------------------------------------------------------- */

static bool is_json_text(pr_slice bytes)
{
    return (bytes.size == 0 || memchr(bytes.data, '\0', bytes.size) == NULL) && utf8_valid(bytes);
}

void flow_json_bytes(struct json_writer *w, const char *key, pr_slice bytes)
{
    if (is_json_text(bytes)) {
        json_put_slice(w, key, bytes);
        return;
    }
    char name[KEY_MAX];
    struct buf text;
    buf_init(&text, SIZE_MAX / 2);
    base64_encode(&text, bytes);
    memcpy(name, key, strlen(key) + 1);
    strcat(name, BASE64);
    json_put_slice(w, name, buf_slice(&text));
    if (buf_failed(&text) != 0)
        w->buf->error = buf_failed(&text);
    buf_fini(&text);
}

void flow_json_text(struct json_writer *w, const char *key, pr_slice text)
{
    if (text.size == 0)
        return;
    json_put_slice(w, key, text);
}

void flow_json_id(struct json_writer *w, const char *key, pr_id id)
{
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    json_put_cstr(w, key, text);
}

/* ---- Reading -------------------------------------------------------------------------------------- */

struct member_reader {
    const struct flow_member *members;
    size_t count;
    bool strict;
    uint32_t seen;
    struct arena *arena;
    struct pr_error *reterr;
};

int flow_json_int(pr_slice value, int64_t *ret)
{
    uint64_t number = 0;
    size_t at = value.size > 0 && value.data[0] == '-' ? 1 : 0;
    bool negative = at == 1;
    if (at == value.size)
        return PR_EINVAL;
    for (; at < value.size; at++) {
        unsigned digit = (unsigned)(value.data[at] - '0');
        if (digit > 9 || number > (UINT64_MAX - digit) / 10)
            return PR_EINVAL;
        number = number * 10 + digit;
    }
    if (number > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return PR_EINVAL;
    *ret = negative ? (int64_t)(0 - number) : (int64_t)number;
    return PR_OK;
}

static int read_text(pr_slice value, struct arena *arena, pr_slice *ret)
{
    pr_slice text;
    int rc = json_string_read(value, arena, &text);
    if (rc != PR_OK)
        return rc;
    *ret = slice_dup(arena, text);
    return ret->data != NULL ? PR_OK : PR_ENOMEM;
}

static int read_base64(pr_slice value, struct arena *arena, pr_slice *ret)
{
    struct buf bytes;
    pr_slice text;
    int rc = json_string_read(value, arena, &text);
    if (rc != PR_OK)
        return rc;
    buf_init(&bytes, text.size + 1);
    rc = base64_decode(&bytes, text);
    if (rc == PR_OK)
        rc = buf_failed(&bytes);
    if (rc == PR_OK) {
        *ret = slice_dup(arena, buf_slice(&bytes));
        rc = ret->data != NULL ? PR_OK : PR_ENOMEM;
    }
    buf_fini(&bytes);
    return rc;
}

static int read_bool(pr_slice value, bool *ret)
{
    *ret = slice_eq_cstr(value, "true");
    return *ret || slice_eq_cstr(value, "false") ? PR_OK : PR_EINVAL;
}

static int read_raw(pr_slice value, struct arena *arena, pr_slice *ret)
{
    *ret = slice_dup(arena, value);
    return ret->data != NULL ? PR_OK : PR_ENOMEM;
}

static int read_value(const struct member_reader *r, const struct flow_member *m, bool base64, pr_slice value)
{
    switch (m->kind) {
    case FLOW_MEMBER_TEXT: return read_text(value, r->arena, m->ret);
    case FLOW_MEMBER_BYTES: return base64 ? read_base64(value, r->arena, m->ret) : read_text(value, r->arena, m->ret);
    case FLOW_MEMBER_INT: return flow_json_int(value, m->ret);
    case FLOW_MEMBER_BOOL: return read_bool(value, m->ret);
    case FLOW_MEMBER_RAW: return read_raw(value, r->arena, m->ret);
    }
    return PR_EINVAL;
}

/* The key as it is written, with its quotes. */
static bool is_key(pr_slice written, const char *key, bool base64)
{
    size_t size = strlen(key), more = base64 ? strlen(BASE64) : 0;
    return written.size == size + more + 2 && memcmp(written.data + 1, key, size) == 0 &&
           (!base64 || memcmp(written.data + 1 + size, BASE64, more) == 0);
}

static int read_member(void *arg, pr_slice key, pr_slice value)
{
    struct member_reader *r = arg;
    for (size_t i = 0; i < r->count; i++) {
        const struct flow_member *m = &r->members[i];
        bool base64 = m->kind == FLOW_MEMBER_BYTES && is_key(key, m->key, true);
        if (!base64 && !is_key(key, m->key, false))
            continue;
        if ((r->seen >> i & 1) != 0)
            return error_set(r->reterr, PR_EINVAL, "duplicate key \"%s\"", m->key);
        r->seen |= (uint32_t)1 << i;
        if (m->seen != NULL)
            *m->seen = true;
        int rc = read_value(r, m, base64, value);
        if (rc == PR_ENOMEM)
            return error_set(r->reterr, rc, "out of memory for the JSON of a flow");
        return rc == PR_OK ? rc : error_set(r->reterr, PR_EINVAL, "\"%s\" has an invalid value", m->key);
    }
    if (!r->strict)
        return PR_OK;
    pr_slice shown = utf8_cut_bytes((pr_slice){ key.data + 1, key.size - 2 }, 64);
    return error_set(r->reterr, PR_EINVAL, "unknown key \"%.*s\"", SLICE_ARGS(shown));
}

int flow_json_read(pr_slice object, const struct flow_member *members, size_t count, bool strict, struct arena *arena,
                   struct pr_error *reterr)
{
    struct member_reader r = { .members = members, .count = count, .strict = strict, .arena = arena, .reterr = reterr };
    ASSERT(count <= MEMBERS_MAX);
    error_set(reterr, PR_EINVAL, "not a JSON object");
    return json_object_walk(object, read_member, &r);
}
