/* Message -> url, headers, body; without a network. */
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "transport/http/http.h"

#define ID "01890a5d-ac96-774b-bcce-b302099a8057"

static struct http_request request;

static void make(const char *url, enum envelope envelope, const struct pr_message *m)
{
    const struct endpoint_config config = { .name = "hook", .url = url };
    struct pr_error error;
    http_request_init(&request);
    CHECK_OK(http_request_make(&request, &config, envelope, m, &error), &error);
}

/* The value of a header line, NULL when it is not there. */
static const char *header(const char *name)
{
    size_t size = strlen(name);
    for (const struct curl_slist *h = request.headers; h != NULL; h = h->next)
        if (strncasecmp(h->data, name, size) == 0 && (h->data[size] == ':' || h->data[size] == ';'))
            return h->data[size] == ':' ? h->data + size + 2 : "";
    return NULL;
}

static size_t header_count(void)
{
    size_t count = 0;
    for (const struct curl_slist *h = request.headers; h != NULL; h = h->next)
        count++;
    return count;
}

static struct pr_message message(const char *headers)
{
    struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("{}"), .headers = slice_from(headers) };
    CHECK_EQ(pr_id_parse(PR_STR(ID), &m.id), PR_OK);
    return m;
}

TEST(http_request_fills_placeholders_with_encoded_values)
{
    static const struct {
        const char *url, *type, *stream, *wanted;
    } table[] = {
        { "https://h/a", "t", "s", "https://h/a" },
        { "https://h/{type}/{stream}/{id}", "order.created", "o-7", "https://h/order.created/o-7/" ID },
        { "https://h/{type}?k={stream}", "a/b", "x&y=z", "https://h/a%2Fb?k=x%26y%3Dz" },
        { "https://h/{type}", "../..", "", "https://h/..%2F.." },
        { "https://h/{type}/x", "..", "", "https://h/%2E%2E/x" },
        { "https://h/{type}/x", ".", "", "https://h/%2E/x" },
        { "https://h/{stream}x", "t", "", "https://h/x" },
        { "https://h/{stream}", "t", "\xe2\x82\xac 1%{type}", "https://h/%E2%82%AC%201%25%7Btype%7D" },
        { "https://h/{stream}{stream}", "t", "?#@", "https://h/%3F%23%40%3F%23%40" },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        struct pr_message m = message("");
        m.type = slice_from(table[i].type);
        m.stream = slice_from(table[i].stream);
        make(table[i].url, ENVELOPE_BINARY, &m);
        CHECK_SLICE(buf_slice(&request.url), table[i].wanted);
        http_request_fini(&request);
    }
}

static int check_url(const char *url)
{
    const struct network any = { .prefix = 0 };
    const struct endpoint_config config = {
        .name = "hook", .url = url, .wake_fd = -1, .allow_networks = &any, .allow_network_count = 1
    };
    struct pr_error error = { 0 };
    int rc = transport_check(&config, &error);
    CHECK_EQ(rc == PR_OK, error.text[0] == '\0');
    CHECK(strstr(error.text, "secret") == NULL); /* B204 */
    return rc;
}

TEST(http_url_check_refuses_what_cannot_work)
{
    static char long_url[HTTP_URL_MAX + 100] = "https://host/";
    static const char *const good[] = { "https://host/path", "http://host", "https://u:secret@host:8443/a?b=c",
                                        "https://[2001:db8::1]/x", "https://host/{type}/{stream}?id={id}" };
    static const char *const bad[] = { "https://",
                                       "https:",
                                       "https:///path",
                                       "https:/{type}",
                                       "https:path",
                                       "https://host:99999/",
                                       "https://ho st/",
                                       "https://u:secret@host:x/",
                                       "https://{type}.host/",
                                       "https://host{id}/",
                                       "https://{type}:secret@host/",
                                       "https://host/{",
                                       "https://host/}",
                                       "https://host/{typ}",
                                       "https://host/{}",
                                       "https://host/{{type}}",
                                       "http://host\r\nX: secret" };
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        CHECK_EQ(check_url(good[i]), PR_OK);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        CHECK_EQ(check_url(bad[i]), PR_ECONFIG);
    memset(long_url + strlen(long_url), 'x', sizeof(long_url) - strlen(long_url) - 1);
    CHECK_EQ(check_url(long_url), PR_ECONFIG);
}

TEST(http_check_wants_networks_for_plain_http_and_a_known_envelope)
{
    const struct network any = { .prefix = 0 };
    struct endpoint_config config = { .name = "hook", .url = "http://host/", .wake_fd = -1 };
    struct pr_error error;
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    CHECK(strstr(error.text, "allow_networks") != NULL);
    config.allow_networks = &any;
    config.allow_network_count = 1;
    CHECK_OK(transport_check(&config, &error), &error);
    config.envelope = "binery";
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    config.envelope = "structured";
    config.concurrency = HTTP_CONCURRENCY_MAX + 1;
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
}

TEST(http_request_binary_has_ce_headers_and_the_payload)
{
    struct pr_message m = message("");
    m.content_type = PR_STR("text/plain");
    m.subject = PR_STR("a \"b\" \xe2\x82\xac 100%");
    m.traceparent = PR_STR("00-a-b-01");
    m.tracestate = PR_STR("k=v");
    make("https://h/", ENVELOPE_BINARY, &m);
    CHECK_STR(header("ce-specversion"), "1.0");
    CHECK_STR(header("ce-id"), ID);
    CHECK_STR(header("ce-type"), "t");
    CHECK_STR(header("ce-source"), "postrider");
    CHECK_STR(header("ce-subject"), "a%20%22b%22%20%E2%82%AC%20100%25");
    CHECK_STR(header("Content-Type"), "text/plain");
    CHECK_STR(header("traceparent"), "00-a-b-01");
    CHECK_STR(header("ce-traceparent"), "00-a-b-01");
    CHECK_STR(header("tracestate"), "k=v");
    CHECK(header("ce-datacontenttype") == NULL);
    CHECK(request.body.data == m.payload.data && request.body.size == m.payload.size);
    http_request_fini(&request);
}

TEST(http_request_structured_is_one_json_object)
{
    struct pr_message m = message("{\"x-own\":\"1\"}");
    make("https://h/", ENVELOPE_STRUCTURED, &m);
    CHECK_STR(header("Content-Type"), "application/cloudevents+json; charset=utf-8");
    CHECK(header("ce-id") == NULL);
    CHECK_STR(header("x-own"), "1");
    CHECK(slice_starts_with(request.body, PR_STR("{\"specversion\":\"1.0\"")));
    http_request_fini(&request);
}

TEST(http_request_raw_has_payload_and_own_headers_only)
{
    struct pr_message m = message("{\"x-own\":\"1\",\"ce-id\":\"mine\",\"traceparent\":\"my\"}");
    m.traceparent = PR_STR("00-a-b-01");
    make("https://h/", ENVELOPE_RAW, &m);
    CHECK_STR(header("Content-Type"), "application/json");
    CHECK_STR(header("x-own"), "1");
    CHECK_STR(header("ce-id"), "mine"); /* we say nothing ourselves, so the sender may */
    CHECK_STR(header("traceparent"), "my");
    CHECK_EQ(header_count(), 5); /* with Expect: */
    http_request_fini(&request);
}

TEST(http_request_own_headers_are_strings_numbers_and_booleans)
{
    struct pr_message m = message("{\"a\":\"text \\u20ac\",\"b\":-7,\"c\":1.5,\"d\":true,\"e\":false,\"f\":\"\","
                                  "\"g\":null,\"A!#$%&'*+-.^_`|~9\":\"ok\"}");
    make("https://h/", ENVELOPE_RAW, &m);
    CHECK_STR(header("a"), "text \xe2\x82\xac");
    CHECK_STR(header("b"), "-7");
    CHECK_STR(header("c"), "1.5");
    CHECK_STR(header("d"), "true");
    CHECK_STR(header("e"), "false");
    CHECK_STR(header("f"), "");
    CHECK(header("g") == NULL);
    CHECK_STR(header("A!#$%&'*+-.^_`|~9"), "ok");
    http_request_fini(&request);
}

TEST(http_request_own_authorization_does_not_replace_the_credentials_of_the_url) /* B206 */
{
    struct pr_message m = message("{\"AUTHORIZATION\":\"Bearer evil\",\"x-good\":\"1\"}");
    make("https://user:password@h/", ENVELOPE_BINARY, &m);
    CHECK(header("authorization") == NULL);
    CHECK_STR(header("x-good"), "1");
    http_request_fini(&request);
    make("https://h/a@b", ENVELOPE_BINARY, &m);
    CHECK_STR(header("authorization"), "Bearer evil");
    http_request_fini(&request);
}

/* What cannot be sent is an error of the message that names it, and is not left out. */
TEST(http_request_refuses_own_headers_that_it_would_lose)
{
    static const char *const refused[] = { "Host",
                                           "content-length",
                                           "Content-Type",
                                           "Transfer-Encoding",
                                           "connection",
                                           "TE",
                                           "Keep-Alive",
                                           "Trailer",
                                           "Proxy-Authorization",
                                           "Upgrade",
                                           "Expect",
                                           "HTTP2-Settings",
                                           "ce-anything",
                                           "CE-Type",
                                           "webhook-signature",
                                           "a space",
                                           "" };
    const struct endpoint_config config = { .name = "hook", .url = "https://h/" };
    struct pr_error error;
    char headers[256], text[128];
    for (size_t i = 0; i < ARRAY_LENGTH(refused); i++) {
        snprintf(headers, sizeof(headers), "{\"x-good\":\"1\",\"%s\":\"evil\"}", refused[i]);
        struct pr_message m = message(headers);
        http_request_init(&request);
        CHECK_EQ(http_request_make(&request, &config, ENVELOPE_BINARY, &m, &error), PR_EINVAL);
        snprintf(text, sizeof(text), "the message's header \"%s\" cannot be sent over HTTP", refused[i]);
        CHECK(strstr(error.text, text) != NULL);
        http_request_fini(&request);
    }
}

TEST(http_request_says_itself_what_own_headers_repeat)
{
    struct pr_message m = message("{\"CE-id\":\"as it came\",\"ce-type\":\"t\",\"traceparent\":\"own\","
                                  "\"content-type\":\"text/csv\"}");
    char id[PR_ID_TEXT_SIZE];
    m.type = PR_STR("t");
    m.content_type = PR_STR("text/csv");
    pr_id_format(m.id, id);
    make("https://h/", ENVELOPE_BINARY, &m);
    CHECK_STR(header("ce-id"), id);
    CHECK_STR(header("ce-type"), "t");
    CHECK_STR(header("content-type"), "text/csv");
    CHECK_STR(header("traceparent"), "own"); /* the message says no other */
    for (const struct curl_slist *h = request.headers; h != NULL; h = h->next)
        CHECK(strstr(h->data, "as it came") == NULL);
    http_request_fini(&request);
    m.traceparent = PR_STR("column");
    make("https://h/", ENVELOPE_BINARY, &m);
    CHECK_STR(header("traceparent"), "column");
    http_request_fini(&request);
}

TEST(http_request_own_headers_cannot_forge_anything)
{
    struct pr_message m = message("{\"x\":\"a\\r\\nHost: evil\\u0000\\t\\u007f\",\"hosts\":\"fine\"}");
    make("https://h/", ENVELOPE_BINARY, &m);
    CHECK_STR(header("x"), "a%0D%0AHost: evil%00%09%7F");
    CHECK_STR(header("hosts"), "fine");
    http_request_fini(&request);
}

TEST(http_request_says_when_headers_cannot_be_read)
{
    static const char *const texts[] = { "[]",
                                         "{",
                                         "{\"a\":123456789012345678901234567890}",
                                         "7",
                                         "{\"a\\u0000b\":1}",
                                         "{\"a\":[1]}",
                                         "{\"a\":{}}",
                                         "{\"a b\":1}",
                                         "{\"a:\":1}",
                                         "{\"a\\r\\nHost\":1}",
                                         "{\"\\u20ac\":1}",
                                         "{\"\":1}",
                                         "{\"a/b\":1}",
                                         "{\"(a)\":1}" };
    const struct endpoint_config config = { .name = "hook", .url = "https://h/" };
    struct pr_error error;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        struct pr_message m = message(texts[i]);
        http_request_init(&request);
        CHECK_EQ(http_request_make(&request, &config, ENVELOPE_BINARY, &m, &error), PR_EINVAL);
        http_request_fini(&request);
    }
}

TEST(http_request_headers_of_the_endpoint_are_stronger_than_the_messages)
{
    const struct endpoint_header headers[] = { { PR_STR("X-Api-Key"), PR_STR("k") } };
    const struct endpoint_header wrong[] = { { PR_STR("content-length"), PR_STR("1") },
                                             { PR_STR("a b"), PR_STR("1") } };
    struct endpoint_config config = { .name = "hook", .url = "https://h/", .headers = headers, .header_count = 1 };
    struct pr_message m = message("{\"x-api-key\":\"evil\",\"x-good\":\"1\"}");
    struct pr_error error;
    http_request_init(&request);
    CHECK_OK(http_request_make(&request, &config, ENVELOPE_BINARY, &m, &error), &error);
    CHECK_STR(header("X-Api-Key"), "k");
    CHECK_STR(header("x-good"), "1");
    for (const struct curl_slist *h = request.headers; h != NULL; h = h->next)
        CHECK(strstr(h->data, "evil") == NULL);
    http_request_fini(&request);
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        config.headers = &wrong[i];
        CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    }
    config.headers = headers;
    config.url = "null:";
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
}

TEST(http_request_limits_the_url)
{
    static char name[PR_NAME_MAX];
    static char url[HTTP_URL_MAX] = "https://h/";
    const struct endpoint_config config = { .name = "hook", .url = url };
    struct pr_error error;
    memset(name, '%', sizeof(name));
    while (strlen(url) + 8 < 1000)
        strcat(url, "{stream}");
    struct pr_message m = message("");
    m.stream = PR_BYTES(name, sizeof(name));
    http_request_init(&request);
    CHECK_EQ(http_request_make(&request, &config, ENVELOPE_BINARY, &m, &error), PR_EINVAL);
    CHECK(strstr(error.text, "url") != NULL);
    http_request_fini(&request);
}
