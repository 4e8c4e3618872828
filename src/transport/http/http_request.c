#include "transport/http/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"
#include "transport/own_headers.h"
#include "transport/template.h"

#define HEADER_ARENA_BLOCK 4096
#define SIGNED_ID_SIZE 64
#define SIGNATURES_MAX (SIGN_KEYS_MAX * 64) /* each is 47 characters and a blank */

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

/* Where user, host and port begin; NULL: nowhere.  Curl would accept "https:/x" and "https:///x", and find the host
 * elsewhere. */
static const char *authority_of(const char *url)
{
    const char *colon = strchr(url, ':');
    return colon != NULL && strncmp(colon, "://", 3) == 0 && colon[3] != '/' ? colon + 3 : NULL;
}

/* The authority belongs to the operator; a message must not choose it. */
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
    const struct pr_message sample = { .type = PR_STR("type"),
                                       .stream = PR_STR("stream"),
                                       .source = PR_STR("source"),
                                       .subject = PR_STR("subject"),
                                       .destination = PR_STR("destination") };
    struct buf url;
    int rc = PR_OK;

    const char *authority = authority_of(config->url);
    if (authority == NULL)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: the url is not valid: use one such as https://host/path",
                         config->name);
    if (has_placeholder_in_authority(config->url, authority))
        return error_set(reterr, PR_ECONFIG, "endpoint %s: placeholders are only allowed after the host", config->name);
    rc = template_check(config->name, "url", slice_from(config->url), reterr);
    if (rc != PR_OK)
        return rc;
    buf_init(&url, HTTP_URL_MAX);
    template_fill_url(&url, slice_from(config->url), &sample);
    if (buf_failed(&url))
        rc = error_set(reterr, PR_ECONFIG, "endpoint %s: the url is longer than %d bytes", config->name, HTTP_URL_MAX);
    else {
        CURLUcode url_rc = parse_url(buf_slice(&url).data);
        if (url_rc != CURLUE_OK)
            rc = error_set(reterr, PR_ECONFIG,
                           "endpoint %s: the url is not valid: %s: use one such as https://host/path", config->name,
                           curl_url_strerror(url_rc));
    }
    buf_fini(&url);
    return rc;
}

/* ---- Headers -------------------------------------------------------------------------------- */

/* A line without its value yet: room for value_max bytes after "prefix + name: ".  NULL: no memory. */
static char *header_new(struct http_request *request, const char *prefix, pr_slice name, size_t value_max,
                        size_t *ret_size)
{
    struct curl_slist *item = arena_alloc(&request->arena, sizeof(*item));
    char *line = arena_alloc(&request->arena, strlen(prefix) + name.size + 2 + value_max + 1);
    if (item == NULL || line == NULL)
        return NULL;
    char *end = stpcpy(line, prefix);
    memcpy(end, name.data, name.size);
    end = stpcpy(end + name.size, ": ");
    *ret_size = (size_t)(end - line);
    *item = (struct curl_slist){ .data = line };
    *request->headers_end = item;
    request->headers_end = &item->next;
    return line;
}

static int add_attribute(struct http_request *request, const struct cloudevent_attribute *a)
{
    size_t size;
    char *line = header_new(request, "ce-", slice_from(a->name), 3 * a->value.size, &size);
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
    char *line = header_new(request, "", name, 3 * value.size, &size);
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
        memcpy(line + size - 2, ";", 2); /* curl's notation for an empty value */
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

/* Names that HTTP, or a signature, needs for itself.  A name that ends with '-' stands for all names with this
 * prefix. */
static bool can_carry(pr_slice name)
{
    static const char *const taken[] = { "connection",        "content-length", "expect", "host",    "http2-settings",
                                         "keep-alive",        "proxy-",         "te",     "trailer", "upgrade",
                                         "transfer-encoding", "webhook-" };

    for (size_t i = 0; i < ARRAY_LENGTH(taken); i++) {
        size_t size = strlen(taken[i]);
        bool is_prefix = taken[i][size - 1] == '-';
        if ((is_prefix ? name.size >= size : name.size == size) && strncasecmp(name.data, taken[i], size) == 0)
            return false;
    }
    return is_token(name);
}

static bool is_name(pr_slice name, const char *text)
{
    return name.size == strlen(text) && strncasecmp(name.data, text, name.size) == 0;
}

/* Curl sends the credentials of the url unless there is such a header: a message must not replace them. */
static bool has_credentials(const char *url)
{
    const char *authority = authority_of(url);
    return authority != NULL && memchr(authority, '@', strcspn(authority, "/?#")) != NULL;
}

/* A header in the configuration is stronger than one in a message. */
static bool is_set_by_endpoint(const struct endpoint_config *config, pr_slice name)
{
    for (size_t i = 0; i < config->header_count; i++)
        if (config->headers[i].name.size == name.size &&
            strncasecmp(config->headers[i].name.data, name.data, name.size) == 0)
            return true;
    return false;
}

static int add_endpoint_headers(struct http_request *request, const struct endpoint_config *config)
{
    int rc = PR_OK;
    for (size_t i = 0; rc == PR_OK && i < config->header_count; i++)
        rc = add_header(request, config->headers[i].name, config->headers[i].value);
    return rc;
}

/* Headers that this transport writes from the message's columns. */
static bool is_written_by_us(pr_slice name)
{
    return is_name(name, "content-type") || is_name(name, "traceparent") || is_name(name, "tracestate") ||
           (name.size >= 3 && strncasecmp(name.data, "ce-", 3) == 0);
}

int http_headers_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    for (size_t i = 0; i < config->header_count; i++)
        if (!can_carry(config->headers[i].name) || is_written_by_us(config->headers[i].name))
            return error_set(reterr, PR_ECONFIG, "endpoint %s: headers: \"%.*s\" cannot be set here", config->name,
                             (int)min_size(config->headers[i].name.size, 100), config->headers[i].name.data);
    return PR_OK;
}

/* A header of the endpoint, or from the message's columns, is stronger. */
static bool is_said(const struct endpoint_config *config, enum envelope envelope, const struct pr_message *m,
                    pr_slice name)
{
    bool traced = envelope != ENVELOPE_RAW && (m->traceparent.size > 0 || m->tracestate.size > 0);

    return (is_name(name, "authorization") && has_credentials(config->url)) || is_set_by_endpoint(config, name) ||
           (traced && (is_name(name, "traceparent") || is_name(name, "tracestate")));
}

/* type: of the message's payload. */
static int add_own_headers(struct http_request *request, const struct endpoint_config *config, enum envelope envelope,
                           const struct pr_message *m, pr_slice type, struct pr_error *reterr)
{
    struct cloudevent event;
    const struct own_header_rules rules = { .carrier = "over HTTP",
                                            .prefix = envelope != ENVELOPE_RAW ? "ce-" : NULL,
                                            .event = &event,
                                            .content_type = type,
                                            .can_carry = can_carry };
    struct own_header *headers;
    size_t count;
    int rc = own_headers_read(m, &request->arena, &headers, &count, reterr);

    cloudevent_init(&event, m, config->source);
    for (size_t i = 0; rc == PR_OK && i < count; i++) {
        bool is_sent = false;
        rc = own_header_judge(&headers[i], &rules, &is_sent, reterr);
        if (rc == PR_OK && is_sent && !is_said(config, envelope, m, headers[i].name))
            rc = add_header(request, headers[i].name, headers[i].value);
    }
    return rc;
}

static int add_cloudevent(struct http_request *request, const struct pr_message *m, const char *source)
{
    struct cloudevent event;
    int rc = PR_OK;
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
    static char expect[] = "Expect:"; /* without a value: do not wait for 100 Continue */
    static struct curl_slist no_expect = { .data = expect };
    *request->headers_end = &no_expect;
}

/* The id of a batch for receivers that drop duplicates: the same messages, the same id. */
static void name_batch(const struct delivery *const *list, size_t count, char ret[SIGNED_ID_SIZE])
{
    uint64_t hashes[2] = { 0, 1 };

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < ARRAY_LENGTH(hashes); k++)
            hashes[k] = hash_slice(hashes[k], PR_BYTES((const char *)&list[i]->message->id, sizeof(pr_id)));
    snprintf(ret, SIGNED_ID_SIZE, "batch_%016" PRIx64 "%016" PRIx64, hashes[0], hashes[1]);
}

/* After url, headers and body are complete. */
static int add_signature(struct http_request *request, const char *id)
{
    int64_t now_s = clock_wall_us(request->clock) / PR_SECONDS(1);
    char stamp[24];
    struct buf text;
    int rc;

    buf_init(&text, SIGNATURES_MAX);
    snprintf(stamp, sizeof(stamp), "%" PRId64, now_s);
    rc = signer_sign(request->signer, slice_from(id), now_s, request->body, &text);
    if (rc == PR_OK)
        rc = add_header(request, PR_STR("webhook-id"), slice_from(id));
    if (rc == PR_OK)
        rc = add_header(request, PR_STR("webhook-timestamp"), slice_from(stamp));
    if (rc == PR_OK)
        rc = add_header(request, PR_STR("webhook-signature"), buf_slice(&text));
    buf_fini(&text);
    return rc;
}

static bool is_signed(const struct http_request *request)
{
    return request->signer != NULL && request->signer->count > 0;
}

static int add_headers(struct http_request *request, const struct endpoint_config *config, enum envelope envelope,
                       const struct pr_message *m, struct pr_error *reterr)
{
    pr_slice type = cloudevent_content_type(m);
    char id[PR_ID_TEXT_SIZE];
    int rc = add_header(request, PR_STR("Content-Type"),
                        envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE "; charset=utf-8") : type);
    if (rc == PR_OK && envelope == ENVELOPE_BINARY)
        rc = add_cloudevent(request, m, config->source);
    if (rc == PR_OK && envelope != ENVELOPE_RAW)
        rc = add_trace(request, m);
    if (rc == PR_OK)
        rc = add_endpoint_headers(request, config);
    if (rc == PR_OK)
        rc = add_own_headers(request, config, envelope, m, type, reterr);
    if (rc == PR_OK && is_signed(request)) {
        pr_id_format(m->id, id);
        rc = add_signature(request, id);
    }
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

int http_request_make(struct http_request *request, const struct endpoint_config *config, enum envelope envelope,
                      const struct pr_message *m, struct pr_error *reterr)
{
    request_reset(request);
    template_fill_url(&request->url, slice_from(config->url), m);
    if (buf_failed(&request->url) == PR_ETOOBIG)
        return error_set(reterr, PR_EINVAL, "the url is longer than %d bytes for this message", HTTP_URL_MAX);
    request->body = m->payload;
    if (envelope == ENVELOPE_STRUCTURED) {
        cloudevent_write_json(&request->json, m, config->source);
        request->body = buf_slice(&request->json);
    }
    if (buf_failed(&request->url) || buf_failed(&request->json))
        return PR_ENOMEM;
    return add_headers(request, config, envelope, m, reterr);
}

/* A message's own headers are a part of its event: those of the request apply to all. */
int http_request_make_batch(struct http_request *request, const struct endpoint_config *config,
                            const struct delivery *const *list, size_t count)
{
    char id[SIGNED_ID_SIZE];
    int rc;

    request_reset(request);
    buf_add_cstr(&request->url, config->url);
    for (size_t i = 0; i < count; i++) {
        buf_add_char(&request->json, i == 0 ? '[' : ',');
        cloudevent_write_json_with_headers(&request->json, list[i]->message, config->source);
    }
    buf_add_char(&request->json, ']');
    request->body = buf_slice(&request->json);
    rc = add_header(request, PR_STR("Content-Type"), PR_STR(CLOUDEVENTS_BATCH_MEDIA_TYPE "; charset=utf-8"));
    if (rc == PR_OK)
        rc = add_endpoint_headers(request, config);
    if (rc == PR_OK && is_signed(request) && !buf_failed(&request->json)) {
        name_batch(list, count, id);
        rc = add_signature(request, id);
    }
    end_headers(request);
    return buf_failed(&request->url) || buf_failed(&request->json) ? PR_ENOMEM : rc;
}
