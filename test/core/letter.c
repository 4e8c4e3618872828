/* A message written as one JSON object. */
#include <string.h>

#include "check.h"
#include "core/letter.h"

static struct arena arena;

static struct pr_message read_letter(const char *text)
{
    struct pr_message m;
    struct pr_error error;
    arena_fini(&arena);
    arena_init(&arena, 1024);
    CHECK_OK(letter_read(pr_str(text), &arena, &m, &error), &error);
    return m;
}

static void refuse(const char *text, const char *word)
{
    struct pr_message m;
    struct pr_error error = { 0 };
    arena_fini(&arena);
    arena_init(&arena, 1024);
    if (letter_read(pr_str(text), &arena, &m, &error) != PR_EINVAL || strstr(error.text, word) == NULL)
        check_fail(__FILE__, __LINE__, "%s: %s", text, error.text);
}

TEST(a_plain_letter_has_the_names_of_the_columns)
{
    struct pr_message m =
        read_letter(" {\"id\":\"0190163d-8694-739b-aea5-966c26f8ad91\",\"type\":\"a\",\"stream\":\"s\",\"destination\":"
                    "\"d\",\"source\":\"o\","
                    "\"subject\":\"u\",\"content_type\":\"c\",\"headers\": {\"tenant\" : \"7\"} "
                    ",\"correlation_id\":\"1\",\"causation_id\":\"2\","
                    "\"traceparent\":\"3\",\"tracestate\":\"4\",\"event\":true,\"due_at\":\"1970-01-01T00:00:01Z\","
                    "\"expires_at\":\"1970-01-01T00:00:02Z\",\"payload\":\"text\"}\n");
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(m.id, id);
    CHECK_STR(id, "0190163d-8694-739b-aea5-966c26f8ad91");
    const struct {
        pr_slice field;
        const char *text;
    } expected[] = {
        { m.type, "a" },           { m.stream, "s" },       { m.destination, "d" },
        { m.source, "o" },         { m.subject, "u" },      { m.content_type, "c" },
        { m.correlation_id, "1" }, { m.causation_id, "2" }, { m.traceparent, "3" },
        { m.tracestate, "4" },     { m.payload, "text" },   { m.headers, "{\"tenant\" : \"7\"}" },
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        CHECK_SLICE(expected[i].field, expected[i].text);
    CHECK(m.event);
    CHECK_EQ(m.due_us, 1000000);
    CHECK_EQ(m.expires_us, 2000000);
}

/* No digit of a number may be lost on the way. */
TEST(a_payload_that_is_json_is_kept_as_it_was_written) /* B4 */
{
    struct pr_message m =
        read_letter("{\"type\":\"a\",\"payload\": {\"b\":1.10, \"a\":12345678901234567890.1234567890} }");
    CHECK_SLICE(m.payload, "{\"b\":1.10, \"a\":12345678901234567890.1234567890}");
    CHECK_SLICE(m.content_type, "application/json");
    CHECK(pr_id_is_zero(m.id));
    CHECK_SLICE(read_letter("{\"type\":\"a\",\"payload\":[1]}").payload, "[1]");
    CHECK_SLICE(read_letter("{\"type\":\"a\",\"payload\":0}").payload, "0");
    CHECK_EQ(read_letter("{\"type\":\"a\",\"payload\":null,\"stream\":null}").payload.size, 0);
    m = read_letter("{\"type\":\"a\",\"payload_base64\":\"AP8=\"}");
    CHECK_EQ(m.payload.size, 2);
    CHECK(memcmp(m.payload.data, "\0\xff", 2) == 0);
}

TEST(escapes_in_texts_are_read)
{
    struct pr_message m = read_letter("{\"ty\\u0070e\":\"\\u00e4\\n\\\"\\/\\uD83D\\uDE00\",\"payload\":\"\\u20ac\"}");
    CHECK_SLICE(m.type, "\xc3\xa4\n\"/\xf0\x9f\x98\x80");
    CHECK_SLICE(m.payload, "\xe2\x82\xac");
    refuse("{\"type\":\"\\ud83d\"}", "type: must be a string");
    refuse("{\"type\":\"\\ud83d\\u0041\"}", "type: must be a string");
    refuse("{\"type\":\"\\ude00\"}", "type: must be a string");
    refuse("{\"type\":\"\\u0000\"}", "type: must be a string");
}

TEST(a_cloudevent_is_known_by_its_version)
{
    struct pr_message m = read_letter("{\"specversion\":\"1.0\",\"id\":\"0190163d-8694-739b-aea5-"
                                      "966c26f8ad91\",\"type\":\"a\",\"source\":\"/shop\","
                                      "\"partitionkey\":\"s\",\"time\":\"2024-01-01T00:00:00Z\",\"data\":"
                                      "\"text\",\"tenant\":\"7\",\"sampled\":1,"
                                      "\"expirytime\":\"1970-01-01T00:00:02Z\",\"correlationid\":\"c\"}");
    CHECK_SLICE(m.stream, "s");
    CHECK_SLICE(m.source, "/shop");
    CHECK_SLICE(m.headers, "{\"tenant\":\"7\",\"sampled\":1}");
    CHECK_SLICE(m.payload, "\"text\""); /* JSON, for it says nothing else */
    CHECK_SLICE(m.content_type, "application/json");
    CHECK_SLICE(m.correlation_id, "c");
    CHECK_EQ(m.expires_us, 2000000);
    m = read_letter("{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"a\",\"source\":\"s\",\"data\":\"text\","
                    "\"datacontenttype\":\"text/plain; charset=utf-8\"}");
    CHECK_SLICE(m.payload, "text");
    CHECK_SLICE(m.headers, "{\"ce-id\":\"1\"}");
    refuse("{\"specversion\":\"0.3\",\"id\":\"1\",\"type\":\"a\",\"source\":\"s\"}",
           "specversion: only CloudEvents 1.0");
    m = read_letter("{\"specversion\":\"1.0\",\"id\":\"0190163d-8694-739b-aea5-966c26f8ad91\",\"type\":\"a\","
                    "\"source\":\"s\",\"postriderheaders\":\"{\\\"tenant\\\":7}\"}");
    CHECK_SLICE(m.headers, "{\"tenant\":7}");
    refuse("{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"s\"}", "type is missing: every CloudEvent needs it");
    refuse("{\"specversion\":\"1.0\",\"type\":\"a\",\"source\":\"s\"}", "id: is missing");
    refuse("{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"a\"}", "source: is missing");
    refuse("{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"a\",\"source\":\"s\",\"more\":{}}", "more: an extension");
}

TEST(an_id_of_a_cloudevent_that_is_no_uuid_gives_the_same_uuid_again_and_another_for_another_source)
{
    pr_id one = read_letter("{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"a\",\"source\":\"s\"}").id;
    pr_id same = read_letter("{\"source\":\"s\",\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"b\"}").id;
    pr_id other = read_letter("{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"a\",\"source\":\"t\"}").id;
    CHECK(pr_id_equal(one, same) && !pr_id_equal(one, other) && !pr_id_is_zero(one));
}

TEST(what_is_no_letter_is_refused_with_the_key_that_is_wrong)
{
    refuse("", "a JSON object");
    refuse("[]", "a JSON object");
    refuse("{\"type\":\"a\"} x", "a JSON object");
    refuse("{\"type\":1}", "type: must be a string");
    refuse("{\"steam\":\"a\"}", "steam: unknown key");
    refuse("{\"type\":\"a\",\"type\":\"b\"}", "type: given twice");
    refuse("{\"id\":\"7\"}", "id: must be a UUID");
    refuse("{\"due_at\":\"tomorrow\"}", "due_at: must be a time");
    refuse("{\"event\":1}", "event: must be true or false");
    refuse("{\"headers\":[]}", "headers: must be an object");
    refuse("{\"payload_base64\":\"?\"}", "payload_base64: not valid base64");
    refuse("{\"payload\":1,\"payload_base64\":\"\"}", "payload: given twice");
}
