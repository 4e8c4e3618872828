/* Incoming CloudEvents, compared with the events that the public conformance suite calls valid and invalid, and its
 * requests by HTTP. */
#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "source/decode.h"

#define EVENT(members)                                                                                                 \
    "{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"io.cloudevents.test\",\"source\":\"/x\"" members "}"

static int decode(const char *content_type, const char *body, struct arena *arena, struct pr_message **ret,
                  size_t *ret_count, struct pr_error *reterr)
{
    struct decode_input in = { .content_type = slice_from(content_type), .body = slice_from(body) };
    return decode_messages(&in, arena, ret, ret_count, reterr);
}

static void check_each(const char *const *bodies, size_t count, const char *content_type, int rc)
{
    for (size_t i = 0; i < count; i++) {
        struct arena arena;
        struct pr_message *m;
        struct pr_error error = { 0 };
        size_t found;
        arena_init(&arena, 1024);
        int got = decode(content_type, bodies[i], &arena, &m, &found, &error);
        CHECK_STR(got == rc ? "" : bodies[i], "");
        CHECK_EQ(error.text[0] != '\0', rc != PR_OK);
        arena_fini(&arena);
    }
}

TEST(conformance_valid_events_are_taken)
{
    static const char *const bodies[] = {
        EVENT(""),
        EVENT(",\"datacontenttype\":null,\"dataschema\":null,\"subject\":null,\"time\":null"),
        EVENT(",\"datacontenttype\":\"text/plain\",\"dataschema\":\"https://cloudevents.io/dataschema\","
              "\"subject\":\"tests\",\"time\":\"2018-04-05T17:31:00Z\""),
        EVENT(",\"time\":\"2018-04-05T17:31:00.000000000Z\""),
        EVENT(",\"time\":\"2018-04-05T18:31:00+01:00\""),
        EVENT(",\"time\":\"2018-04-05T16:31:00-01:00\""),
        "{\"id\":\"a\",\"specversion\":\"1.0\",\"type\":\"t\",\"source\":\"#fragment\"}",
        EVENT(",\"datacontenttype\":\"text/plain\",\"data\":\"Simple text\""),
        EVENT(",\"extinteger\":10,\"extboolean\":true,\"extstring\":\"text\",\"exturi\":\"https://"
              "cloudevents.io\","
              "\"exturiref\":\"//authority/"
              "path\",\"exttimestamp\":\"2023-03-31T15:12:00Z\",\"extbinary\":\"TWE=\""),
    };
    check_each(bodies, ARRAY_LENGTH(bodies), "application/cloudevents+json", PR_OK);
}

TEST(conformance_invalid_events_are_refused)
{
    static const char *const bodies[] = {
        "{\"id\":\"1\",\"type\":\"t\",\"source\":\"/x\"}",
        "{\"specversion\":\"1.0\",\"type\":\"t\",\"source\":\"/x\"}",
        "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/x\"}",
        "{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"t\"}",
        "{\"specversion\":\"1.0\",\"id\":\"\",\"type\":\"t\",\"source\":\"/x\"}",
        "{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"\",\"source\":\"/x\"}",
        "{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"t\",\"source\":\"\"}",
        "{\"specversion\":\"\",\"id\":\"1\",\"type\":\"t\",\"source\":\"/x\"}",
        "{\"specversion\":\"0.9\",\"id\":\"1\",\"type\":\"t\",\"source\":\"/x\"}",
        "{\"specversion\":\"1.0\",\"id\":25,\"type\":\"t\",\"source\":\"/x\"}",
        "{\"specversion\":\"1.0\",\"id\":{\"xyz\":\"abc\"},\"type\":\"t\",\"source\":\"/x\"}",
        EVENT(",\"time\":\"lunchtime\""),
        EVENT(",\"time\":\"2018-04-05T18:31Z\""),
        EVENT(",\"time\":\"2018-04-05T18:31:00X\""),
        EVENT(",\"time\":\"2018-04-05T18:31:00+25:00\""),
        EVENT(",\"time\":\"2018-04-05T18:31:00+xx:00\""),
        EVENT(",\"time\":\"2018-04-05T18:31:00+05\""),
        EVENT(",\"datacontenttype\":\"xyz\""),
        EVENT(",\"datacontenttype\":\"\""),
        EVENT(",\"dataschema\":\"\""),
        EVENT(",\"subject\":\"\""),
        EVENT(",\"MyExtension\":\"bad\""),
        EVENT(",\"my.extension\":\"bad\""),
        EVENT(",\"myextension\":1.5"),
        EVENT(",\"data\":\"text\",\"data_base64\":\"eyAieHl6IjogMTIzIH0=\""),
    };
    check_each(bodies, ARRAY_LENGTH(bodies), "application/cloudevents+json", PR_EINVAL);
}

TEST(conformance_a_batch_is_as_good_as_its_worst_event)
{
    static const char *const good[] = { "[" EVENT("") "]", "[" EVENT("") "," EVENT(",\"subject\":\"a\"") "]" };
    static const char *const bad[] = {
        "[" EVENT("") ",{\"specversion\":\"0.9\",\"id\":\"2\",\"type\":\"t\",\"source\":\"/x\"}]",
        "[{\"specversion\":\"1.0\",\"type\":\"t\",\"source\":\"/x\"}]",
        "[\"not an object\"," EVENT("") "]",
    };
    check_each(good, ARRAY_LENGTH(good), "application/cloudevents-batch+json", PR_OK);
    check_each(bad, ARRAY_LENGTH(bad), "application/cloudevents-batch+json", PR_EINVAL);
}

/* What the features of HTTP ask of every event. */
static void check_hello(const struct pr_message *m)
{
    static const char body[] = "{\"message\":\"HelloWorld!\"}";
    char solid[64];
    size_t size = 0;
    for (size_t i = 0; i < m->payload.size; i++)
        if (m->payload.data[i] > ' ')
            solid[size++] = m->payload.data[i];
    CHECK_SLICE(PR_BYTES(solid, size), body);
    CHECK_SLICE(m->type, "com.example.someevent");
    CHECK_SLICE(m->source, "/mycontext/subcontext");
    CHECK_SLICE(m->headers, "{\"ce-id\":\"1234-1234-1234\"}");
}

TEST(conformance_requests_by_http)
{
    static const char *const types[] = { "application/json", "application/json; charset=utf-8" };
    static const char *const structured[] = { "application/cloudevents+json",
                                              "application/cloudevents+json; charset=utf-8" };
    struct arena arena;
    struct pr_message *m;
    struct pr_error error;
    size_t count;
    arena_init(&arena, 1024);
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        const struct decode_header headers[] = { { PR_STR("ce-specversion"), PR_STR("1.0") },
                                                 { PR_STR("ce-type"), PR_STR("com.example.someevent") },
                                                 { PR_STR("ce-time"), PR_STR("2018-04-05T03:56:24Z") },
                                                 { PR_STR("ce-id"), PR_STR("1234-1234-1234") },
                                                 { PR_STR("ce-source"), PR_STR("/mycontext/subcontext") } };
        struct decode_input in = { .content_type = slice_from(types[i]),
                                   .headers = headers,
                                   .header_count = ARRAY_LENGTH(headers),
                                   .prefix = "ce-",
                                   .is_percent_encoded = true,
                                   .body = PR_STR("{\n    \"message\": \"Hello World!\"\n}") };
        CHECK_OK(decode_messages(&in, &arena, &m, &count, &error), &error);
        CHECK_EQ(count, 1);
        CHECK_SLICE(m->content_type, types[i]);
        check_hello(m);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(structured); i++) {
        CHECK_OK(decode(structured[i],
                        "{\"specversion\":\"1.0\",\"type\":\"com.example.someevent\",\"time\":\"2018-04-05T03:56:24Z\","
                        "\"id\":\"1234-1234-1234\",\"source\":\"/mycontext/subcontext\","
                        "\"datacontenttype\":\"application/json\",\"data\":{\"message\":\"Hello World!\"}}",
                        &arena, &m, &count, &error),
                 &error);
        CHECK_EQ(count, 1);
        CHECK_SLICE(m->content_type, "application/json");
        check_hello(m);
    }
    arena_fini(&arena);
}
