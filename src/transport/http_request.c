#include "transport/http.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"

#define HEADER_ARENA_BLOCK 4096

bool http_envelope_parse(const char *word, enum http_envelope *ret)
{
    static const char *const words[] = {
        [HTTP_BINARY] = "binary", [HTTP_STRUCTURED] = "structured", [HTTP_BATCH] = "batch", [HTTP_RAW] = "raw"
    };
    if (word == NULL || word[0] == '\0')
        word = words[HTTP_BINARY];
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
        if (strcmp(word, words[i]) == 0) {
            *ret = (enum http_envelope)i;
            return true;
        }
    return false;
}

void http_request_init(struct http_request *request)
{
    arena_init(&request->arena, HEADER_ARENA_BLOCK);
    buf_init(&request->url, HTTP_URL_MAX);
    buf_init(&request->json, HTTP_BODY_MAX);
}

void http_request_fini(struct http_request *request)
{
    arena_fini(&request->arena);
    buf_fini(&request->url);
    buf_fini(&request->json);
}

/* ---- The url ------------------------------------------------------------------------------ */

/* Everything that is not unreserved (RFC 3986) becomes %XX, so a value stays inside its
 * segment.  Of "." and "..", too, which would walk up. */
static void add_encoded(struct buf *b, pr_slice value)
{
    bool dots = slice_eq_cstr(value, ".") || slice_eq_cstr(value, "..");
    for (size_t i = 0; i < value.size; i++) {
        unsigned char c = (unsigned char)value.data[i];
        bool alnum = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (alnum || c == '-' || c == '_' || c == '~' || (c == '.' && !dots))
            buf_add_char(b, (char)c);
        else
            buf_addf(b, "%%%02X", c);
    }
}

/* False: there is no such placeholder. */
static bool add_placeholder(struct buf *b, pr_slice name, const struct pr_message *m)
{
    char id[PR_ID_TEXT_SIZE];
    if (slice_eq_cstr(name, "type")) {
        add_encoded(b, m->type);
    } else if (slice_eq_cstr(name, "stream")) {
        add_encoded(b, m->stream);
    } else if (slice_eq_cstr(name, "id")) {
        pr_id_format(m->id, id);
        buf_add_cstr(b, id);
    } else {
        return false;
    }
    return true;
}

/* False: a brace without its partner, or an unknown word in them. */
static bool add_url(struct buf *b, const char *url, const struct pr_message *m)
{
    const char *open;
    while ((open = strpbrk(url, "{}")) != NULL) {
        const char *close = *open == '{' ? strchr(open, '}') : NULL;
        if (close == NULL)
            return false;
        buf_add(b, url, (size_t)(open - url));
        if (!add_placeholder(b, (pr_slice){ open + 1, (size_t)(close - open) - 1 }, m))
            return false;
        url = close + 1;
    }
    buf_add_cstr(b, url);
    return true;
}

/* Where user, host and port begin; NULL: nowhere.  Curl would take "https:/x" and "https:///x",
 * and find the host where we do not. */
static const char *authority_of(const char *url)
{
    const char *colon = strchr(url, ':');
    return colon != NULL && strncmp(colon, "://", 3) == 0 && colon[3] != '/' ? colon + 3 : NULL;
}

/* The authority is the operator's; a message must not choose it. */
static bool has_placeholder_in_authority(const char *url, const char *authority)
{
    const char *brace = strpbrk(url, "{}");
    return brace != NULL && brace < authority + strcspn(authority, "/?#");
}

static CURLUcode parse_url(const char *url)
{
    CURLU *parsed = curl_url();
    if (parsed == NULL)
        return CURLUE_OUT_OF_MEMORY;
    CURLUcode rc = curl_url_set(parsed, CURLUPART_URL, url, 0);
    curl_url_cleanup(parsed);
    return rc;
}

int http_url_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    const struct pr_message sample = { .type = PR_STR("type"), .stream = PR_STR("stream") };
    struct buf              url;
    int                     rc = PR_OK;

    const char *authority = authority_of(config->url);
    if (authority == NULL)
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: the url is wrong: write one such as https://host/path", config->name);
    if (has_placeholder_in_authority(config->url, authority))
        return error_set(reterr, PR_ECONFIG, "endpoint %s: placeholders may stand behind the host only",
                         config->name);
    buf_init(&url, HTTP_URL_MAX);
    if (!add_url(&url, config->url, &sample))
        rc = error_set(reterr, PR_ECONFIG,
                       "endpoint %s: the placeholders of a url are {type}, {stream} and {id}", config->name);
    else if (buf_failed(&url))
        rc = error_set(reterr, PR_ECONFIG, "endpoint %s: the url is longer than %d bytes", config->name,
                       HTTP_URL_MAX);
    else {
        CURLUcode url_rc = parse_url(buf_slice(&url).data);
        if (url_rc != CURLUE_OK)
            rc = error_set(reterr, PR_ECONFIG,
                           "endpoint %s: the url is wrong: %s: write one such as https://host/path",
                           config->name, curl_url_strerror(url_rc));
    }
    buf_fini(&url);
    return rc;
}

/* ---- Headers -------------------------------------------------------------------------------- */

/* A line without its value yet: room for so many bytes behind "prefix + name: ".  NULL: no memory. */
static char *header_new(struct http_request *request, const char *prefix, pr_slice name, size_t value_max,
                        size_t *ret_size)
{
    struct curl_slist *item = arena_alloc(&request->arena, sizeof(*item));
    char              *line = arena_alloc(&request->arena, strlen(prefix) + name.size + 2 + value_max + 1);
    if (item == NULL || line == NULL)
        return NULL;
    char *end = stpcpy(line, prefix);
    memcpy(end, name.data, name.size);
    end = stpcpy(end + name.size, ": ");
    *ret_size = (size_t)(end - line);
    *item     = (struct curl_slist){ .data = line };
    *request->headers_end = item;
    request->headers_end  = &item->next;
    return line;
}

static int add_attribute(struct http_request *request, const struct cloudevent_attribute *a)
{
    size_t size;
    char  *line = header_new(request, "ce-", slice_from(a->name), 3 * a->value.size, &size);
    if (line == NULL)
        return PR_ENOMEM;
    size += cloudevent_percent_encode(a->value, line + size);
    line[size] = '\0';
    return PR_OK;
}

/* A plain header: control characters, which could end the line, become %XX. */
static int add_header(struct http_request *request, pr_slice name, pr_slice value)
{
    size_t size;
    char  *line = header_new(request, "", name, 3 * value.size, &size);
    if (line == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < value.size; i++) {
        unsigned char c = (unsigned char)value.data[i];
        if (c < 0x20 || c == 0x7f)
            size += cloudevent_percent_encode((pr_slice){ &value.data[i], 1 }, line + size);
        else
            line[size++] = (char)c;
    }
    line[size] = '\0';
    if (value.size == 0)
        memcpy(line + size - 2, ";", 2); /* curl's way to say "with an empty value" */
    return PR_OK;
}

static bool is_token(pr_slice name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool alnum = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!alnum && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
            return false;
    }
    return name.size > 0;
}

/* What a message's own headers must not touch: the framing, and what we say about the message
 * ourselves.  A name that ends with '-' stands for all that begin with it. */
static const struct reserved {
    const char *name;
    bool        in_raw; /* also when the message is sent without an envelope */
} reserved[] = {
    { "connection", true },  { "content-length", true },    { "content-type", true }, { "expect", true },
    { "host", true },        { "http2-settings", true },    { "keep-alive", true },   { "proxy-", true },
    { "te", true },          { "trailer", true },           { "upgrade", true },      { "webhook-", true },
    { "transfer-encoding", true }, { "ce-", false },        { "traceparent", false }, { "tracestate", false },
};

static bool is_reserved(pr_slice name, enum http_envelope envelope)
{
    for (size_t i = 0; i < ARRAY_LENGTH(reserved); i++) {
        size_t size = strlen(reserved[i].name);
        bool   is_prefix = reserved[i].name[size - 1] == '-';
        if ((is_prefix ? name.size >= size : name.size == size) &&
            strncasecmp(name.data, reserved[i].name, size) == 0)
            return reserved[i].in_raw || envelope != HTTP_RAW;
    }
    return false;
}

/* Strings, numbers, true and false; what is nested has no place in a header. */
static int add_own_header(struct http_request *request, pr_slice name, const json_t *value)
{
    if (json_is_string(value))
        return add_header(request, name, (pr_slice){ json_string_value(value), json_string_length(value) });
    if (json_is_boolean(value))
        return add_header(request, name, json_is_true(value) ? PR_STR("true") : PR_STR("false"));
    if (!json_is_number(value))
        return PR_OK;
    char   text[64];
    size_t size = json_dumpb(value, text, sizeof(text), JSON_ENCODE_ANY);
    return size <= sizeof(text) ? add_header(request, name, (pr_slice){ text, size }) : PR_OK;
}

static int add_own_headers(struct http_request *request, enum http_envelope envelope,
                           const struct pr_message *m, struct pr_error *reterr)
{
    if (m->headers.size == 0)
        return PR_OK;
    json_error_t why;
    json_t      *headers = json_loadb(m->headers.data, m->headers.size, JSON_ALLOW_NUL, &why);
    if (!json_is_object(headers)) {
        json_decref(headers);
        return error_set(reterr, PR_EINVAL, "the message's headers are not a JSON object: %s", why.text);
    }
    const char *key;
    json_t     *value;
    int         rc = PR_OK;
    json_object_foreach(headers, key, value) {
        pr_slice name = slice_from(key);
        if (rc == PR_OK && is_token(name) && !is_reserved(name, envelope))
            rc = add_own_header(request, name, value);
    }
    json_decref(headers);
    return rc;
}

static int add_cloudevent(struct http_request *request, const struct pr_message *m, const char *source)
{
    struct cloudevent event;
    int               rc = PR_OK;
    cloudevent_init(&event, m, source);
    for (size_t i = 0; rc == PR_OK && i < event.count; i++)
        rc = add_attribute(request, &event.attributes[i]);
    return rc;
}

static int add_trace(struct http_request *request, const struct pr_message *m)
{
    int rc = PR_OK;
    if (m->traceparent.size > 0)
        rc = add_header(request, PR_STR("traceparent"), m->traceparent);
    if (rc == PR_OK && m->tracestate.size > 0)
        rc = add_header(request, PR_STR("tracestate"), m->tracestate);
    return rc;
}

static void end_headers(struct http_request *request)
{
    static char              expect[]  = "Expect:"; /* without a value: do not wait for 100 Continue */
    static struct curl_slist no_expect = { .data = expect };
    *request->headers_end = &no_expect;
}

static int add_headers(struct http_request *request, const struct endpoint_config *config,
                       enum http_envelope envelope, const struct pr_message *m, struct pr_error *reterr)
{
    pr_slice type = envelope == HTTP_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE "; charset=UTF-8")
                                                : cloudevent_content_type(m);
    int      rc = add_header(request, PR_STR("Content-Type"), type);
    if (rc == PR_OK && envelope == HTTP_BINARY)
        rc = add_cloudevent(request, m, config->source);
    if (rc == PR_OK && envelope != HTTP_RAW)
        rc = add_trace(request, m);
    if (rc == PR_OK)
        rc = add_own_headers(request, envelope, m, reterr);
    end_headers(request);
    return rc;
}

static void request_reset(struct http_request *request)
{
    arena_reset(&request->arena);
    buf_reset(&request->url);
    buf_reset(&request->json);
    request->headers_end = &request->headers;
}

int http_request_make(struct http_request *request, const struct endpoint_config *config,
                      enum http_envelope envelope, const struct pr_message *m, struct pr_error *reterr)
{
    request_reset(request);
    if (!add_url(&request->url, config->url, m) || buf_failed(&request->url) == PR_ETOOBIG)
        return error_set(reterr, PR_EINVAL, "the url is longer than %d bytes for this message", HTTP_URL_MAX);
    request->body = m->payload;
    if (envelope == HTTP_STRUCTURED) {
        cloudevent_write_json(&request->json, m, config->source);
        request->body = buf_slice(&request->json);
    }
    if (buf_failed(&request->url) || buf_failed(&request->json))
        return PR_ENOMEM;
    return add_headers(request, config, envelope, m, reterr);
}

/* A message's own headers are a part of its event: the request's are those of all. */
int http_request_make_batch(struct http_request *request, const struct endpoint_config *config,
                            const struct delivery *const *list, size_t count)
{
    int rc;

    request_reset(request);
    buf_add_cstr(&request->url, config->url);
    for (size_t i = 0; i < count; i++) {
        buf_add_char(&request->json, i == 0 ? '[' : ',');
        cloudevent_write_json_with_headers(&request->json, list[i]->message, config->source);
    }
    buf_add_char(&request->json, ']');
    request->body = buf_slice(&request->json);
    rc = add_header(request, PR_STR("Content-Type"), PR_STR(CLOUDEVENTS_BATCH_MEDIA_TYPE "; charset=UTF-8"));
    end_headers(request);
    return buf_failed(&request->url) || buf_failed(&request->json) ? PR_ENOMEM : rc;
}
