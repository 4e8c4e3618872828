/* A request: its head, its body, its authentication; and the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "source/http/listener.h"
#include "transport/cloudevents.h"

#define CHUNK_LINE_MAX 256 /* bytes of a chunk's size line, and of a trailer */
/* overhead per byte of data in chunks: a chunk of one byte has five bytes of overhead, ... */
#define FRAMING_PER_BYTE 8
#define LOOKS_MAX 256 /* parsing attempts of one head: each starts at the beginning */

/* ---- Answers --------------------------------------------------------------------------------------- */

static const char *phrase(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } known[] = { { 200, "OK" },
                  { 202, "Accepted" },
                  { 401, "Unauthorized" },
                  { 404, "Not Found" },
                  { 405, "Method Not Allowed" },
                  { 408, "Request Timeout" },
                  { 413, "Content Too Large" },
                  { 415, "Unsupported Media Type" },
                  { 429, "Too Many Requests" },
                  { 503, "Service Unavailable" } };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
        if (known[i].status == status)
            return known[i].text;
    return "Bad Request";
}

static void write_answer(struct http_conn *c, unsigned status, const char *more, pr_slice body)
{
    buf_reset(&c->out);
    c->written = 0;
    buf_addf(&c->out, "HTTP/1.1 %u %s\r\n%s", status, phrase(status), more);
    buf_addf(&c->out, "Content-Type: application/json\r\nContent-Length: %zu\r\nConnection: %s\r\n\r\n", body.size,
             c->keeps ? "keep-alive" : "close");
    buf_add_slice(&c->out, body);
}

void conn_answer(struct http_conn *c, unsigned status, int retry_s, const char *code, const char *text)
{
    char more[64] = "";
    struct buf body;
    struct json_writer w;
    buf_init(&body, 4096);
    json_init(&w, &body);
    json_begin_object(&w);
    json_key(&w, "error");
    json_begin_object(&w);
    json_put_cstr(&w, "code", code);
    json_put_cstr(&w, "message", text);
    json_end_object(&w);
    json_end_object(&w);
    buf_add_char(&body, '\n');
    if (retry_s > 0)
        snprintf(more, sizeof(more), "Retry-After: %d\r\n", retry_s);
    else if (status == 401)
        snprintf(more, sizeof(more), "WWW-Authenticate: Bearer\r\n");
    else if (status == 405)
        snprintf(more, sizeof(more), "Allow: POST, OPTIONS\r\n");
    write_answer(c, status, more, buf_slice(&body));
    buf_fini(&body);
}

void conn_accept(struct http_conn *c, size_t count)
{
    char body[40];
    int size = snprintf(body, sizeof(body), "{\"accepted\":%zu}\n", count);
    write_answer(c, 202, "", (pr_slice){ body, (size_t)size });
}

void conn_next(struct http_conn *c)
{
    buf_reset(&c->head);
    buf_fini(&c->body); /* it may be large */
    buf_reset(&c->out);
    c->written = 0;
    c->door = NULL;
    c->request = (struct door_request){ .header_count = 0 };
    c->looks = 0;
    c->state = CONN_HEAD;
}

/* The rest of the request is not read: the connection ends with the answer. */
static enum read_result refuse(struct http_conn *c, unsigned status, int retry_s, const char *code, const char *text)
{
    c->keeps = false;
    conn_answer(c, status, retry_s, code, text);
    return READ_ANSWER;
}

/* ---- The head ----------------------------------------------------------------------------------------- */

static pr_slice field(const struct http_conn *c, const char *wanted)
{
    const char *at = NULL;
    pr_slice name, value;
    while (http_head_next(buf_slice(&c->head), &at, &name, &value))
        if (http_name_is(name, wanted))
            return value;
    return PR_STR("");
}

static struct door *find_door(struct listener *l, pr_slice path)
{
    struct door *found = NULL; /* the last of two: the other one is about to close */
    list_foreach(node, &l->doors) {
        struct door *d = LIST_ENTRY(node, struct door, node);
        found = slice_eq_cstr(path, d->options.path) ? d : found;
    }
    return found;
}

/* Headers that identify the sender or the message must not be repeated: two readers could choose different ones.
 * Case-insensitive. */
static bool is_said_once(pr_slice name)
{
    static const char *const once[] = { "Content-Type",      "Authorization",   "webhook-id",
                                        "webhook-timestamp", "Idempotency-Key", "traceparent" };
    for (size_t i = 0; i < ARRAY_LENGTH(once); i++)
        if (http_name_is(name, once[i]))
            return true;
    return name.size > 3 && strncasecmp(name.data, "ce-", 3) == 0;
}

/* The name of such a header that is repeated; empty: none. */
static pr_slice said_twice(const struct http_conn *c)
{
    const char *at = NULL;
    pr_slice name, value;
    while (http_head_next(buf_slice(&c->head), &at, &name, &value)) {
        const char *later = at;
        pr_slice other;
        while (is_said_once(name) && http_head_next(buf_slice(&c->head), &later, &other, &value))
            if (other.size == name.size && strncasecmp(other.data, name.data, name.size) == 0)
                return name;
    }
    return PR_STR("");
}

static enum read_result refuse_twice(struct http_conn *c, pr_slice name)
{
    char text[128];
    snprintf(text, sizeof(text), "duplicate header %.*s: send it once", (int)min_size(name.size, 60), name.data);
    return refuse(c, 400, 0, "duplicate_header", text);
}

/* Requests that are not authorised, or cannot be served now, are answered before the body is read. */
static enum read_result judge_head(struct listener *l, struct http_conn *c)
{
    const pr_slice bearer = PR_STR("Bearer "), given = field(c, "Authorization"), twice = said_twice(c);
    ASSERT(pthread_mutex_lock(&l->lock) == 0);
    struct door *d = c->door = find_door(l, c->parsed.path);
    enum door_state state = d != NULL ? d->state : DOOR_CLOSED;
    bool is_crowded = d != NULL && d->queued >= DOOR_QUEUE_MAX;
    ASSERT(pthread_mutex_unlock(&l->lock) == 0);
    if (d == NULL)
        return refuse(c, 404, 0, "not_found", "no source has this path");
    if (slice_eq_cstr(c->parsed.method, "OPTIONS")) /* may events be sent here?  (CloudEvents, webhooks) */
        return READ_MORE;
    if (!slice_eq_cstr(c->parsed.method, "POST"))
        return refuse(c, 405, 0, "method", "send messages with POST");
    if (twice.size > 0)
        return refuse_twice(c, twice);
    bool has_token = given.size > bearer.size && strncasecmp(given.data, bearer.data, bearer.size) == 0;
    pr_slice token = has_token ? (pr_slice){ given.data + bearer.size, given.size - bearer.size } : PR_STR("");
    if (d->options.token[0] != '\0' && !slice_is_secret(slice_from(d->options.token), token))
        return refuse(c, 401, 0, has_token ? "token_wrong" : "token_missing",
                      has_token ? "this token is not valid" : "send Authorization: Bearer TOKEN");
    if (c->parsed.body_bytes > d->options.body_max)
        return refuse(c, 413, 0, "too_large", "the body is too large");
    if (state == DOOR_FULL || is_crowded)
        return refuse(c, 429, state == DOOR_FULL ? 5 : 1, "full", "too many messages are waiting; send it again later");
    if (state == DOOR_CLOSED)
        return refuse(c, 503, 2, "unavailable", "messages cannot be stored now; send it again later");
    return READ_MORE;
}

static void drop(struct http_conn *c, size_t size)
{
    memmove(c->in.data, c->in.data + size, c->in.size - size);
    buf_truncate(&c->in, c->in.size - size);
}

static enum read_result read_head(struct listener *l, struct http_conn *c)
{
    pr_slice bytes = buf_slice(&c->in);
    enum head_found found = bytes.size > 0 ? http_head_read(bytes, &c->parsed) : HEAD_MORE;
    if (found == HEAD_MORE && bytes.size > HEAD_BYTES_MAX)
        return refuse(c, 431, 0, "too_large", "the head of the request is too large");
    if (found == HEAD_MORE && ++c->looks > LOOKS_MAX)
        return refuse(c, 408, 0, "timeout", "the head of the request came in too many pieces");
    if (found == HEAD_MORE)
        return READ_MORE;
    if (found == HEAD_WRONG)
        return refuse(c, c->parsed.status, 0, c->parsed.code, c->parsed.text);
    buf_reset(&c->head);
    buf_add(&c->head, bytes.data, c->parsed.size);
    drop(c, c->parsed.size);
    if (buf_failed(&c->head) != 0 || http_head_read(buf_slice(&c->head), &c->parsed) != HEAD_READ)
        return refuse(c, 503, 2, "no_memory", "out of memory");
    c->keeps = c->parsed.is_1_1 && !http_name_is(field(c, "Connection"), "close");
    enum read_result result = judge_head(l, c);
    if (result != READ_MORE)
        return result;
    c->state = CONN_BODY;
    c->chunk = CHUNK_SIZE_LINE;
    c->framing_bytes = 0;
    buf_init(&c->body, c->door->options.body_max);
    if (http_name_is(field(c, "Expect"), "100-continue"))
        buf_add_cstr(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return READ_MORE;
}

/* ---- The body -------------------------------------------------------------------------------------------- */

static void skip(pr_slice *rest, size_t size)
{
    *rest = (pr_slice){ rest->data + size, rest->size - size };
}

/* Excessive overhead: extensions of chunks and trailers cost time and are ignored. */
static bool is_mostly_framing(const struct http_conn *c)
{
    return c->framing_bytes / FRAMING_PER_BYTE > c->body.size + HEAD_BYTES_MAX / FRAMING_PER_BYTE;
}

/* A line without its CR LF; false: incomplete, or (*ret_bad) invalid: with a NUL in it, it would look shorter than it
 * is. */
static bool take_line(struct http_conn *c, pr_slice *rest, char ret[CHUNK_LINE_MAX], bool *ret_bad)
{
    size_t near = min_size(rest->size, CHUNK_LINE_MAX + 1);
    const char *end = near > 0 ? memmem(rest->data, near, "\r\n", 2) : NULL;
    size_t size = end != NULL ? (size_t)(end - rest->data) : 0;
    *ret_bad = end == NULL ? rest->size > CHUNK_LINE_MAX /* the last byte may be the CR */
                           : size >= CHUNK_LINE_MAX || memchr(rest->data, '\n', size) != NULL ||
                                 memchr(rest->data, '\0', size) != NULL;
    if (end == NULL || *ret_bad)
        return false;
    memcpy(ret, rest->data, size);
    ret[size] = '\0';
    skip(rest, size + 2);
    c->framing_bytes += size + 2;
    *ret_bad = is_mostly_framing(c);
    return !*ret_bad;
}

static bool read_hex(const char *text, uint64_t *ret)
{
    size_t digits = strspn(text, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 15 || (text[digits] != '\0' && text[digits] != ';'))
        return false;
    *ret = strtoull(text, NULL, 16);
    return true;
}

/* True: the body is complete, or *ret_bad. */
static bool read_chunk_part(struct http_conn *c, pr_slice *rest, bool *ret_bad)
{
    char line[CHUNK_LINE_MAX];
    *ret_bad = false;
    for (;;) {
        size_t part = min_size(rest->size, (size_t)min64((int64_t)c->chunk_left, INT32_MAX));
        switch (c->chunk) {
        case CHUNK_SIZE_LINE:
            if (!take_line(c, rest, line, ret_bad))
                return *ret_bad;
            if (!read_hex(line, &c->chunk_left))
                return *ret_bad = true;
            c->chunk = c->chunk_left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
            break;
        case CHUNK_DATA:
            if (part == 0)
                return false;
            buf_add(&c->body, rest->data, part);
            skip(rest, part);
            c->chunk_left -= part;
            if (buf_failed(&c->body) != 0)
                return true;
            c->chunk = c->chunk_left > 0 ? CHUNK_DATA : CHUNK_DATA_END;
            break;
        case CHUNK_DATA_END:
            if (!take_line(c, rest, line, ret_bad))
                return *ret_bad;
            if (line[0] != '\0')
                return *ret_bad = true;
            c->chunk = CHUNK_SIZE_LINE;
            break;
        case CHUNK_TRAILER:
            if (!take_line(c, rest, line, ret_bad))
                return *ret_bad;
            if (line[0] == '\0')
                return true;
            break;
        }
    }
}

/* Parsed bytes are dropped once, not with each chunk: chunks may have one byte each, and are parsed before the
 * signature is checked. */
static bool read_chunks(struct http_conn *c, bool *ret_bad)
{
    pr_slice rest = buf_slice(&c->in);
    bool over = read_chunk_part(c, &rest, ret_bad);
    drop(c, c->in.size - rest.size);
    return over;
}

static bool read_sized(struct http_conn *c)
{
    size_t part = min_size(c->in.size, (size_t)(c->parsed.body_bytes - c->body.size));
    buf_add(&c->body, c->in.data, part);
    drop(c, part);
    return c->body.size == c->parsed.body_bytes || buf_failed(&c->body) != 0;
}

/* ---- Whose it is ------------------------------------------------------------------------------------------- */

static bool is_kept(pr_slice name)
{
    static const char *const kept[] = { "traceparent", "tracestate" };
    for (size_t i = 0; i < ARRAY_LENGTH(kept); i++)
        if (http_name_is(name, kept[i]))
            return true;
    return (name.size > 3 && strncasecmp(name.data, "ce-", 3) == 0) ||
           (name.size > 2 && strncasecmp(name.data, "x-", 2) == 0 &&
            !(name.size > 12 && strncasecmp(name.data, "x-forwarded-", 12) == 0));
}

static void fill_request(struct http_conn *c)
{
    const char *at = NULL;
    pr_slice name, value;
    struct door_request *r = &c->request;
    *r = (struct door_request){ .content_type = field(c, "Content-Type"),
                                .body = buf_slice(&c->body),
                                .id = field(c, "webhook-id"),
                                .is_webhook = field(c, "webhook-id").size > 0 };
    if (r->id.size == 0)
        r->id = field(c, "Idempotency-Key");
    while (http_head_next(buf_slice(&c->head), &at, &name, &value))
        if (is_kept(name))
            r->headers[r->header_count++] = (struct decode_header){ name, value };
}

/* What is wrong with its content type; NULL: nothing. */
static const char *find_wrong_type(const struct door_request *r)
{
    pr_slice type = r->content_type, body = slice_trim(r->body);
    bool is_event = media_type_is(type, CLOUDEVENTS_MEDIA_TYPE) || media_type_is(type, CLOUDEVENTS_BATCH_MEDIA_TYPE);
    if (slice_starts_with(type, PR_STR("application/cloudevents")) && !is_event)
        return "unsupported Content-Type: send CloudEvents as " CLOUDEVENTS_MEDIA_TYPE
               " or " CLOUDEVENTS_BATCH_MEDIA_TYPE ", or with ce- headers and any other Content-Type";
    if (media_type_is(type, "application/x-www-form-urlencoded") && body.size > 0 &&
        (body.data[0] == '{' || body.data[0] == '['))
        return "the body is JSON, but Content-Type is application/x-www-form-urlencoded, which curl sends by "
               "default: add Content-Type: application/json, or " CLOUDEVENTS_MEDIA_TYPE " for a CloudEvent";
    return NULL;
}

/* If secrets are configured, a request without a valid signature is refused. */
static enum read_result judge_whole(struct http_conn *c)
{
    const struct door *d = c->door;
    const char *wrong_type = find_wrong_type(&c->request);
    if (wrong_type != NULL) {
        conn_answer(c, 415, 0, "unsupported", wrong_type);
        return READ_ANSWER;
    }
    if (d->signer.count == 0)
        return READ_WHOLE;
    switch (signer_verify(&d->signer, field(c, "webhook-id"), field(c, "webhook-timestamp"), c->request.body,
                          field(c, "webhook-signature"), clock_wall_us(clock_system()), d->options.tolerance_us)) {
    case SIGNATURE_GOOD: return READ_WHOLE;
    case SIGNATURE_STALE:
        conn_answer(c, 401, 0, "signature_stale", "webhook-timestamp is too far from the current time; sign it again");
        break;
    case SIGNATURE_WRONG:
        conn_answer(c, 401, 0, "signature_wrong", "webhook-signature is missing or does not match any configured key");
        break;
    }
    return READ_ANSWER;
}

static enum read_result answer_options(struct http_conn *c)
{
    char more[512] = "Allow: POST, OPTIONS\r\n";
    pr_slice origin = field(c, "WebHook-Request-Origin");
    if (origin.size > 0 && origin.size < 300)
        snprintf(more, sizeof(more),
                 "Allow: POST, OPTIONS\r\nWebHook-Allowed-Origin: %.*s\r\nWebHook-Allowed-Rate: *\r\n",
                 SLICE_ARGS(origin));
    write_answer(c, 200, more, PR_STR(""));
    return READ_ANSWER;
}

enum read_result conn_read(struct listener *l, struct http_conn *c)
{
    bool is_bad = false;
    if (c->state == CONN_HEAD) {
        enum read_result result = read_head(l, c);
        if (result != READ_MORE || c->state == CONN_HEAD)
            return result;
    }
    bool is_whole = c->parsed.chunked ? read_chunks(c, &is_bad) : read_sized(c);
    if (is_bad)
        return refuse(c, 400, 0, "bad_request", "a chunk of the body is malformed");
    if (buf_failed(&c->body) != 0)
        return refuse(c, 413, 0, "too_large", "the body is too large");
    if (!is_whole)
        return READ_MORE;
    if (slice_eq_cstr(c->parsed.method, "OPTIONS"))
        return answer_options(c);
    fill_request(c);
    return judge_whole(c);
}
