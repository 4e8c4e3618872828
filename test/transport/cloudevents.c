/* Messages as CloudEvents, without a network. */
#include "transport/cloudevents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/base64.h"
#include "base/slice.h"
#include "base/util.h"
#include "check.h"

#define ID "01890a5d-ac96-774b-bcce-b302099a8057"

static struct pr_message full_message(void)
{
    struct pr_message m = { .type = PR_STR("order.created"),
                            .stream = PR_STR("order-7"),
                            .source = PR_STR("/shop"),
                            .subject = PR_STR("7"),
                            .payload = PR_STR("{\"a\":1}"),
                            .correlation_id = PR_STR("c1"),
                            .causation_id = PR_STR("c2"),
                            .traceparent = PR_STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
                            .tracestate = PR_STR("a=1"),
                            .created_us = 1709208000000001,
                            .expires_us = 1709208060000000,
                            .seq = 42 };
    CHECK_EQ(pr_id_parse(PR_STR(ID), &m.id), PR_OK);
    return m;
}

static pr_slice attribute(const struct cloudevent *event, const char *name)
{
    for (size_t i = 0; i < event->count; i++)
        if (strcmp(event->attributes[i].name, name) == 0)
            return event->attributes[i].value;
    return PR_STR("(none)");
}

TEST(cloudevent_has_all_attributes)
{
    struct cloudevent event;
    struct pr_message m = full_message();
    cloudevent_init(&event, &m, "elsewhere");
    CHECK_SLICE(attribute(&event, "specversion"), "1.0");
    CHECK_SLICE(attribute(&event, "id"), ID);
    CHECK_SLICE(attribute(&event, "type"), "order.created");
    CHECK_SLICE(attribute(&event, "source"), "/shop");
    CHECK_SLICE(attribute(&event, "subject"), "7");
    CHECK_SLICE(attribute(&event, "time"), "2024-02-29T12:00:00.000001Z");
    CHECK_SLICE(attribute(&event, "expirytime"), "2024-02-29T12:01:00.000000Z");
    CHECK_SLICE(attribute(&event, "partitionkey"), "order-7");
    CHECK_SLICE(attribute(&event, "sequence"), "0000000000000000042");
    CHECK_SLICE(attribute(&event, "correlationid"), "c1");
    CHECK_SLICE(attribute(&event, "causationid"), "c2");
    CHECK_SLICE(attribute(&event, "traceparent"), m.traceparent);
    CHECK_SLICE(attribute(&event, "tracestate"), "a=1");
    CHECK_SLICE(attribute(&event, "datacontenttype"), "(none)");
}

/* Names are lower-case letters and digits; values are never empty; the four are always there. */
TEST(cloudevent_of_the_smallest_message_is_valid)
{
    struct cloudevent event;
    struct pr_message m = { .type = PR_STR("t"), .due_us = PR_NEVER };
    cloudevent_init(&event, &m, NULL);
    CHECK_EQ(event.count, 4);
    CHECK_SLICE(attribute(&event, "source"), "postrider");
    cloudevent_init(&event, &m, "");
    CHECK_SLICE(attribute(&event, "source"), "postrider");
    cloudevent_init(&event, &m, "/endpoint");
    CHECK_SLICE(attribute(&event, "source"), "/endpoint");
    for (size_t i = 0; i < event.count; i++) {
        CHECK(event.attributes[i].value.size > 0);
        CHECK_EQ(strspn(event.attributes[i].name, "abcdefghijklmnopqrstuvwxyz0123456789"),
                 strlen(event.attributes[i].name));
    }
    CHECK_SLICE(cloudevent_content_type(&m), "application/json");
}

TEST(cloudevent_sequence_sorts_as_text)
{
    struct cloudevent a, b;
    struct pr_message m = { .type = PR_STR("t"), .seq = 9 };
    cloudevent_init(&a, &m, NULL);
    m.seq = 10;
    cloudevent_init(&b, &m, NULL);
    CHECK(slice_cmp(attribute(&a, "sequence"), attribute(&b, "sequence")) < 0);
    m.seq = INT64_MAX;
    cloudevent_init(&a, &m, NULL);
    CHECK(slice_cmp(attribute(&b, "sequence"), attribute(&a, "sequence")) < 0);
}

static void check_encoded(pr_slice value, const char *wanted)
{
    char text[1024];
    CHECK_SLICE(PR_BYTES(text, cloudevent_percent_encode(value, text)), wanted);
}

/* The example of the specification, and its list of characters. */
TEST(cloudevent_headers_are_percent_encoded)
{
    check_encoded(PR_STR("Euro \xe2\x82\xac \xf0\x9f\x98\x80"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
    check_encoded(PR_STR("100%"), "100%25");
    check_encoded(PR_STR("\"a b\""), "%22a%20b%22");
    check_encoded(PR_STR("a\r\nb\t\x7f"), "a%0D%0Ab%09%7F");
    check_encoded(PR_STR(""), "");
    for (int c = 0x21; c < 0x7f; c++) {
        char one = (char)c, text[4];
        if (c != '"' && c != '%')
            CHECK_SLICE(PR_BYTES(text, cloudevent_percent_encode(PR_BYTES(&one, 1), text)), PR_BYTES(&one, 1));
    }
}

/* The tree of the structured form; the caller's. */
static json_t *structured(const struct pr_message *m)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    cloudevent_write_json(&b, m, NULL);
    CHECK_EQ(buf_failed(&b), 0);
    json_t *tree = json_loadb(b.data, b.size, JSON_ALLOW_NUL, NULL);
    CHECK(tree != NULL);
    buf_fini(&b);
    return tree;
}

static const char *text(const json_t *tree, const char *key)
{
    return json_string_value(json_object_get(tree, key));
}

TEST(cloudevent_structured_has_json_data_as_json)
{
    struct pr_message m = full_message();
    json_t *tree = structured(&m);
    CHECK_STR(text(tree, "specversion"), "1.0");
    CHECK_STR(text(tree, "id"), ID);
    CHECK_STR(text(tree, "source"), "/shop");
    CHECK_STR(text(tree, "type"), "order.created");
    CHECK_STR(text(tree, "partitionkey"), "order-7");
    CHECK_STR(text(tree, "datacontenttype"), "application/json");
    CHECK_EQ(json_integer_value(json_object_get(json_object_get(tree, "data"), "a")), 1);
    CHECK(json_object_get(tree, "data_base64") == NULL);
    json_decref(tree);
}

TEST(what_has_no_content_type_is_called_what_it_is)
{
    static const struct {
        pr_slice payload;
        const char *type;
    } table[] = {
        { { "", 0 }, "application/json" },
        { { "{\"a\":[1,2]}", 11 }, "application/json" },
        { { " \"\\u00e4\" ", 10 }, "application/json" },
        { { "1e999", 5 }, "application/json" },
        { { "hello", 5 }, "text/plain; charset=utf-8" },
        { { "{\"a\":1} x", 9 }, "text/plain; charset=utf-8" },
        { { "<a/>", 4 }, "text/plain; charset=utf-8" },
        { { "\"\xc3\xa4", 3 }, "text/plain; charset=utf-8" },
        { { "a\x00", 2 }, "application/octet-stream" }, /* as a JSON text it would be cut by many */
        { { "\xff\x00", 2 }, "application/octet-stream" },
        { { "{\"a\":\"\xff\"}", 9 }, "application/octet-stream" },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct buf b;
        struct pr_message m = { .type = PR_STR("t"), .payload = table[i].payload };
        CHECK_SLICE(cloudevent_content_type(&m), table[i].type);
        buf_init(&b, 4096); /* and so in an envelope of JSON, where the data is as before */
        cloudevent_write_json(&b, &m, NULL);
        json_t *tree = json_loadb(b.data, b.size, JSON_DECODE_INT_AS_REAL, NULL);
        if (i != 3) { /* too large for jansson, not for JSON */
            CHECK_STR(text(tree, "datacontenttype"), table[i].type);
            bool bytes = strstr(table[i].type, "octet") != NULL;
            CHECK((json_object_get(tree, "data_base64") != NULL) == bytes);
            CHECK((json_object_get(tree, "data") != NULL) == (!bytes && table[i].payload.size > 0));
        }
        json_decref(tree);
        buf_fini(&b);
    }
    struct pr_message said = { .content_type = PR_STR("image/png"), .payload = PR_STR("{}") };
    CHECK_SLICE(cloudevent_content_type(&said), "image/png");
}

/* content type, payload -> data as a JSON text; NULL: it is in data_base64 */
TEST(cloudevent_structured_takes_the_form_that_fits_the_data)
{
    static const struct {
        const char *type, *payload, *data;
    } table[] = {
        { "", "[1,\"x\"]", "[1,\"x\"]" },
        { "application/json; charset=utf-8", "\"text\"", "\"text\"" },
        { "application/vnd.shop+JSON", "null", "null" },
        { "text/json", " [ 1 ] ", "[1]" },
        { "application/json", "{\"a\":", NULL }, /* a lie */
        { "application/json", "{\"a\":1} x", NULL },
        { "application/json", "\"\\u00e4\"", "\"\xc3\xa4\"" },
        { "application/json", "\"\\ud800\"", NULL }, /* half of a character: others would refuse the event */
        { "text/plain", "Euro \xe2\x82\xac \"q\" \n", "\"Euro \xe2\x82\xac \\\"q\\\" \\n\"" },
        { "text/plain", "\xff\xfe", NULL },
        { "application/octet-stream", "{\"a\":1}", "\"{\\\"a\\\":1}\"" },
        { "application/jsonp", "1", "\"1\"" },
        { "json", "1", "\"1\"" },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        struct pr_message m = { .type = PR_STR("t"),
                                .content_type = slice_from(table[i].type),
                                .payload = slice_from(table[i].payload) };
        json_t *tree = structured(&m), *data = json_object_get(tree, "data");
        if (table[i].data != NULL) {
            char *dumped = json_dumps(data, JSON_ENCODE_ANY | JSON_COMPACT);
            CHECK_STR(dumped, table[i].data);
            free(dumped);
        } else {
            struct buf bytes;
            CHECK(data == NULL);
            buf_init(&bytes, 1024);
            CHECK_EQ(base64_decode(&bytes, slice_from(text(tree, "data_base64"))), PR_OK);
            CHECK_SLICE(buf_slice(&bytes), table[i].payload);
            buf_fini(&bytes);
        }
        json_decref(tree);
    }
}

TEST(cloudevent_structured_copies_json_as_it_is_written)
{
    struct buf b;
    struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("{ \"n\": 12345678901234567890123, \"n\": 1.10 }") };
    buf_init(&b, 1 << 20);
    cloudevent_write_json(&b, &m, NULL);
    CHECK(slice_contains(buf_slice(&b), m.payload));
    buf_fini(&b);
}

TEST(cloudevent_structured_without_payload_has_no_data)
{
    struct pr_message m = { .type = PR_STR("t") };
    json_t *tree = structured(&m);
    CHECK(json_object_get(tree, "data") == NULL && json_object_get(tree, "data_base64") == NULL);
    json_decref(tree);
}

TEST(cloudevent_structured_carries_all_bytes) /* B4 */
{
    char all[256];
    struct buf bytes;
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    struct pr_message m = { .type = PR_STR("t"), .content_type = PR_STR("image/png"), .payload = PR_BYTES(all, 256) };
    json_t *tree = structured(&m);
    buf_init(&bytes, 1024);
    CHECK_EQ(base64_decode(&bytes, slice_from(text(tree, "data_base64"))), PR_OK);
    CHECK_SLICE(buf_slice(&bytes), m.payload);
    buf_fini(&bytes);
    json_decref(tree);
}
