/* Messages: what may be sent, what is a defect, copies, and facts. */
#include "core/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "check.h"

#define PAYLOAD_MAX 100

static char long_text[PR_HEADERS_MAX + 10];

static pr_slice text_of(size_t size)
{
    memset(long_text, 'x', sizeof(long_text));
    return PR_BYTES(long_text, size);
}

/* What message_check() and message_defect() say; they must agree. */
static int check(struct pr_message m, struct pr_error *error)
{
    int rc = message_check(&m, PAYLOAD_MAX, error);
    CHECK_EQ(message_defect(&m, PAYLOAD_MAX) == NULL, rc == PR_OK);
    return rc;
}

static int check_code(struct pr_message m)
{
    struct pr_error error = { 0 };
    int rc = check(m, &error);
    if (rc != PR_OK) {
        CHECK_EQ(error.code, rc);
        CHECK(error.text[0] != '\0');
    }
    return rc;
}

TEST(a_type_is_required)
{
    struct pr_error error = { 0 };
    CHECK_EQ(check((struct pr_message){ 0 }, &error), PR_EINVAL);
    CHECK(strstr(error.text, "type") != NULL);
    CHECK_EQ(check_code((struct pr_message){ .type = PR_STR("t") }), PR_OK);
}

/* Each field at its limit and one byte over it. */
TEST(every_field_has_its_limit_and_the_text_names_the_field)
{
    static const struct {
        const char *name;
        size_t offset, max;
    } fields[] = {
#define FIELD(field, max) { #field, offsetof(struct pr_message, field), max }
        FIELD(type, PR_TYPE_MAX),           FIELD(stream, PR_NAME_MAX),       FIELD(destination, PR_NAME_MAX),
        FIELD(source, PR_NAME_MAX),         FIELD(subject, PR_NAME_MAX),      FIELD(content_type, PR_NAME_MAX),
        FIELD(correlation_id, PR_NAME_MAX), FIELD(causation_id, PR_NAME_MAX), FIELD(traceparent, PR_TRACE_MAX),
        FIELD(tracestate, PR_TRACE_MAX),    FIELD(payload, PAYLOAD_MAX),
#undef FIELD
    };
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        struct pr_message m = { .type = PR_STR("t") };
        struct pr_error error = { 0 };
        pr_slice *field = (pr_slice *)(void *)((char *)&m + fields[i].offset);
        *field = text_of(fields[i].max);
        CHECK_EQ(check(m, &error), PR_OK);
        *field = text_of(fields[i].max + 1);
        CHECK_EQ(check(m, &error), PR_ETOOBIG);
        CHECK(strstr(error.text, fields[i].name) != NULL);
    }
}

TEST(headers_have_their_limit)
{
    /* {"a":"xxx..."} */
    char *headers = malloc(PR_HEADERS_MAX + 1);
    CHECK(headers != NULL);
    memset(headers, 'x', PR_HEADERS_MAX + 1);
    memcpy(headers, "{\"a\":\"", 6);
    memcpy(headers + PR_HEADERS_MAX - 2, "\"}", 2);
    int fits = check_code((struct pr_message){ .type = PR_STR("t"), .headers = PR_BYTES(headers, PR_HEADERS_MAX) });
    memcpy(headers + PR_HEADERS_MAX - 2, "x\"}", 3);
    int over = check_code((struct pr_message){ .type = PR_STR("t"), .headers = PR_BYTES(headers, PR_HEADERS_MAX + 1) });
    free(headers);
    CHECK_EQ(fits, PR_OK);
    CHECK_EQ(over, PR_ETOOBIG);
}

TEST(names_with_control_characters_or_broken_utf8_are_refused)
{
    static const pr_slice bad[] = { { "a\nb", 3 }, { "a\0b", 3 },  { "\x7f", 1 },
                                    { "\xff", 1 }, { "a\xc3", 2 }, { "\xed\xa0\x80", 3 } };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        CHECK_EQ(check_code((struct pr_message){ .type = bad[i] }), PR_EINVAL);
        CHECK_EQ(check_code((struct pr_message){ .type = PR_STR("t"), .stream = bad[i] }), PR_EINVAL);
        CHECK_EQ(check_code((struct pr_message){ .type = PR_STR("t"), .tracestate = bad[i] }), PR_EINVAL);
        CHECK_EQ(check_code((struct pr_message){ .type = PR_STR("t"), .payload = bad[i] }), PR_OK); /* opaque */
    }
    CHECK_EQ(check_code((struct pr_message){ .type = PR_STR("bestellt.\xc3\xbc"
                                                            "ber \xf0\x9f\x90\x8e") }),
             PR_OK);
}

TEST(json_is_known_without_a_tree)
{
    static const char *const good[] = { "1", " [ 1, {\"a\": null} ] ", "\"\xc3\xa4\"", "-1.5e+300", "true" };
    static const char *const bad[] = { "", " ", "{", "1 2", "[1,]", "{\"a\":1,}", "\"\xff\"", "'a'", "01" };
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        CHECK(slice_is_json(pr_str(good[i])));
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        CHECK(!slice_is_json(pr_str(bad[i])));
}

/* Strings are looked at eight bytes at a time: what ends or spoils them is seen at each place. */
TEST(a_byte_of_a_json_string_means_the_same_at_each_place)
{
    char text[32];
    for (size_t size = 2; size < sizeof(text); size++)
        for (size_t place = 1; place + 1 < size; place++)
            for (int byte = 0; byte < 0x80; byte++) {
                memset(text, 'x', size);
                text[0] = text[size - 1] = '"';
                text[place] = (char)byte;
                bool escape = byte == '\\'; /* of "x", which is none, or of the quote at the end */
                CHECK_EQ(slice_is_json(PR_BYTES(text, size)), byte >= 0x20 && byte != '"' && !escape);
            }
}

TEST(headers_must_be_one_json_object)
{
    static const char *const good[] = {
        "",
        "{}",
        " { } ",
        "{\"a\":1}",
        "{\"a\":2.5e-3,\"b\":\"x\\u00e9\\n\",\"c\":true,\"d\":false,\"e\":null,\"f\":\":{[\"}",
        "{\"a\":\"\xc3\xa9\"}\n",
        "{\"\":-0}",
        "{\"a\":0.1E+7}",
    };
    static const char *const bad[] = {
        "[]",
        "1",
        "null",
        "\"a\"",
        "{",
        "}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1}}",
        "{\"a\":1}{}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":+1}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":tru}",
        "{\"a\":\"\xff\"}",
        "{\"a\":1 2}",
        "{\"a\":NaN}",
        "{\"a\":[1,]}",
        " ",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        if (check_code((struct pr_message){ .type = PR_STR("t"), .headers = pr_str(good[i]) }) != PR_OK)
            check_fail(__FILE__, __LINE__, "refused: %s", good[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        if (check_code((struct pr_message){ .type = PR_STR("t"), .headers = pr_str(bad[i]) }) != PR_EINVAL)
            check_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
    CHECK(!slice_is_json_object(PR_STR("{\"a\":\"\0\"}")));
}

/* ... and such a row of before can still be handed out. */
TEST(a_header_that_is_an_object_or_an_array_is_refused_and_the_text_says_why)
{
    static const char *const nested[] = { "{\"a\":{}}", "{\"a\":1,\"b\" : [1]}",
                                          "{\"a\":{\"b\":[1,2.5e-3,\"x\\u00e9\\n\",true,false,null]}}" };
    for (size_t i = 0; i < ARRAY_LENGTH(nested); i++) {
        struct pr_message m = { .type = PR_STR("t"), .headers = pr_str(nested[i]) };
        struct pr_error error;
        CHECK_EQ(message_check(&m, PAYLOAD_MAX, &error), PR_EINVAL);
        CHECK(strstr(error.text, "headers must not hold objects or arrays") != NULL);
        CHECK(message_defect(&m, PAYLOAD_MAX) == NULL);
    }
}

TEST(headers_that_nest_without_end_are_refused_and_do_not_hang)
{
    static char deep[40000];
    memset(deep, '[', sizeof(deep));
    memcpy(deep, "{\"a\":", 5);
    CHECK(!slice_is_json_object(PR_BYTES(deep, sizeof(deep))));
}

TEST(times_before_1970_are_refused)
{
    struct pr_error error = { 0 };
    CHECK_EQ(message_check(&(struct pr_message){ .type = PR_STR("t"), .due_us = -1 }, PAYLOAD_MAX, &error), PR_EINVAL);
    CHECK_EQ(message_check(&(struct pr_message){ .type = PR_STR("t"), .expires_us = -1 }, PAYLOAD_MAX, &error),
             PR_EINVAL);
    CHECK_EQ(message_check(&(struct pr_message){ .type = PR_STR("t"), .due_us = PR_NEVER }, PAYLOAD_MAX, &error),
             PR_OK);
}

TEST(a_size_without_data_is_refused)
{
    struct pr_error error = { 0 };
    CHECK_EQ(message_check(&(struct pr_message){ .type = PR_STR("t"), .payload = { NULL, 5 } }, PAYLOAD_MAX, &error),
             PR_EINVAL);
}

TEST(a_stored_row_with_a_negative_counter_is_a_defect) /* B9 */
{
    CHECK(message_defect(&(struct pr_message){ .type = PR_STR("t"), .attempts = -1 }, PAYLOAD_MAX) != NULL);
    CHECK(message_defect(&(struct pr_message){ .type = PR_STR("t"), .failures = -1 }, PAYLOAD_MAX) != NULL);
}

TEST(names_of_boxes_are_identifiers)
{
    CHECK(name_is_valid(PR_STR("outbox")));
    CHECK(name_is_valid(PR_STR("_a9")));
    CHECK(name_is_valid(PR_STR("Z")));
    CHECK(name_is_valid(text_of(BOX_NAME_MAX)));
    CHECK(!name_is_valid(text_of(BOX_NAME_MAX + 1)));
    CHECK(!name_is_valid(PR_STR("")));
    CHECK(!name_is_valid(PR_STR("9a")));
    CHECK(!name_is_valid(PR_STR("a-b")));
    CHECK(!name_is_valid(PR_STR("a b")));
    CHECK(!name_is_valid(PR_STR("a\"b")));
    CHECK(!name_is_valid(PR_STR("\xc3\xa9")));
    CHECK(!name_is_valid(PR_STR("a\0b")));
}

TEST(a_copy_is_whole_and_lives_in_its_block)
{
    struct pr_message m = {
        .type = PR_STR("type"),
        .stream = PR_STR("stream"),
        .payload = PR_STR("p\0q"),
        .headers = PR_STR("{}"),
        .code = PR_STR("c"),
        .error = PR_STR("e"),
        .story = PR_STR("[]"),
        .held_by = PR_STR("h"),
        .due_us = 7,
        .attempts = 3,
        .released = true,
    };
    size_t bytes = message_bytes(&m);
    CHECK_EQ(bytes, 4 + 6 + 3 + 2 + 1 + 1 + 2 + 1);
    char *block = malloc(bytes);
    struct pr_message copy;
    CHECK(block != NULL);
    message_copy(&m, block, &copy);
    CHECK_SLICE(copy.type, "type");
    CHECK_SLICE(copy.stream, "stream");
    CHECK_SLICE(copy.payload, PR_STR("p\0q"));
    CHECK_SLICE(copy.headers, "{}");
    CHECK_SLICE(copy.code, "c");
    CHECK_SLICE(copy.error, "e");
    CHECK_SLICE(copy.story, "[]");
    CHECK_SLICE(copy.held_by, "h");
    CHECK_SLICE(copy.source, "");
    CHECK(copy.payload.data >= block && copy.payload.data + 3 <= block + bytes);
    CHECK_EQ(copy.due_us, 7);
    CHECK_EQ(copy.attempts, 3);
    CHECK(copy.released);
    free(block);
}

TEST(a_message_expires_at_its_time) /* B13 */
{
    CHECK(!message_is_expired(&(struct pr_message){ .expires_us = 0 }, INT64_MAX));
    CHECK(!message_is_expired(&(struct pr_message){ .expires_us = 10 }, 9));
    CHECK(message_is_expired(&(struct pr_message){ .expires_us = 10 }, 10));
}

TEST(unexplained_are_hand_outs_without_a_verdict) /* D1 */
{
    CHECK_EQ(message_unexplained(&(struct pr_message){ .attempts = 5, .failures = 2 }), 3);
    CHECK_EQ(message_unexplained(&(struct pr_message){ .attempts = 2, .failures = 2 }), 0);
    CHECK_EQ(message_unexplained(&(struct pr_message){ .attempts = 1, .failures = 2 }), 0); /* by hand */
}

TEST(what_came_back_blocks_its_stream_and_what_was_delayed_does_not) /* B51, B56 */
{
    CHECK(!message_blocks_stream(&(struct pr_message){ .created_us = 10 }));               /* fresh */
    CHECK(!message_blocks_stream(&(struct pr_message){ .created_us = 10, .due_us = 20 })); /* delayed */
    CHECK(!message_blocks_stream(&(struct pr_message){ .created_us = 10, .due_us = 10 })); /* in the past */
    CHECK(message_blocks_stream(&(struct pr_message){ .created_us = 10, .due_us = 20, .status = PR_STATUS_FAILED }));
    CHECK(message_blocks_stream(&(struct pr_message){ .created_us = 10, .due_us = 20, .attempts = 1 })); /* abandoned */
    CHECK(!message_blocks_stream(
        &(struct pr_message){ .created_us = 10, .due_us = 20, .status = PR_STATUS_FAILED, .released = true }));
}

TEST(what_waits_for_room_at_its_endpoint_is_told_from_what_waits_in_its_stream) /* B16 */
{
    struct pr_message m = { .held_by = PR_STR("e/"), .held_for = PR_HELD_FOR_ENDPOINT };
    CHECK(message_awaits_endpoint(&m));
    m.held_for = PR_HELD_FOR_STREAM;
    CHECK(!message_awaits_endpoint(&m));
    m.held_for = 0; /* stored by plain SQL */
    CHECK(!message_awaits_endpoint(&m));
    CHECK(!message_awaits_endpoint(&(struct pr_message){ .held_for = PR_HELD_FOR_ENDPOINT })); /* held no more */
}
