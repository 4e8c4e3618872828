/* The story of a message. */
#include "core/story.h"

#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "check.h"
#include "core/message.h"

#include <jansson.h> /* an independent reader; its macros come last */

static pr_slice append(struct buf *b, pr_slice story, const struct story_line *line)
{
    buf_init(b, 1 << 20);
    story_append(story, line, b);
    CHECK_EQ(buf_failed(b), 0);
    return buf_slice(b);
}

static const struct story_line full = {
    .at_us = INT64_C(1700000000000000),
    .attempt = 2,
    .endpoint = { "orders", 6 },
    .reason = PR_REASON_TIMEOUT_EXCEEDED,
    .code = { "504", 3 },
    .error = { "it said \"no\"\n", 13 },
    .rule = { "flaky", 5 },
    .step = "retry",
    .next_us = INT64_C(1700000005000000),
};

TEST(a_story_begins_with_its_first_line) /* B30 */
{
    struct buf b;
    CHECK_SLICE(append(&b, PR_STR(""), &full),
                "[{\"at\":\"2023-11-14T22:13:20.000000Z\",\"attempt\":2,\"endpoint\":\"orders\","
                "\"reason\":\"timeout_exceeded\",\"code\":\"504\",\"error\":\"it said \\\"no\\\"\\n\","
                "\"rule\":\"flaky\",\"step\":\"retry\",\"next\":\"2023-11-14T22:13:25.000000Z\"}]");
    buf_fini(&b);
}

TEST(what_a_line_does_not_have_is_left_out)
{
    struct buf b;
    const struct story_line line = { .at_us = INT64_C(1700000000000000), .attempt = 1, .step = "returned" };
    CHECK_SLICE(append(&b, PR_STR("[]"), &line),
                "[{\"at\":\"2023-11-14T22:13:20.000000Z\",\"attempt\":1,\"step\":\"returned\"}]");
    buf_fini(&b);
}

TEST(a_story_keeps_its_last_sixteen_lines_in_order)
{
    struct buf now, before = { 0 };
    struct story_line line = full;
    buf_init(&before, 1);
    for (int i = 1; i <= 40; i++) {
        line.attempt = i;
        append(&now, buf_slice(&before), &line);
        buf_fini(&before);
        before = now;

        json_t *story = json_loadb(before.data, before.size, 0, NULL);
        CHECK(story != NULL);
        size_t count = json_array_size(story);
        CHECK_EQ(count, i < STORY_LINES_MAX ? i : STORY_LINES_MAX);
        for (size_t k = 0; k < count; k++) {
            json_int_t attempt = json_integer_value(json_object_get(json_array_get(story, k), "attempt"));
            CHECK_EQ(attempt, i - (int)count + 1 + (int)k);
        }
        json_decref(story);
    }
    buf_fini(&before);
}

TEST(what_a_person_noted_outlives_other_lines_but_not_newer_notes)
{
    struct buf now, before = { 0 };
    struct story_line line = full;
    char text[32];
    buf_init(&before, 1);
    for (int i = 1; i <= 60; i++) {
        line = (struct story_line){ .at_us = 1, .attempt = i, .step = i % 7 == 0 && i < 40 ? STORY_NOTE : "retry" };
        line.error = PR_STR("\"step\":\"note\""); /* as a text it means nothing */
        append(&now, buf_slice(&before), &line);
        buf_fini(&before);
        before = now;
    }
    for (int i = 1; i <= 60; i++) {
        bool noted = i == 14 || i == 21 || i == 28 || i == 35; /* not 7: these are newer */
        snprintf(text, sizeof(text), "\"attempt\":%d,", i);
        CHECK(slice_contains(buf_slice(&before), pr_str(text)) == (noted || i > 48));
    }
    buf_fini(&before);
}

TEST(lines_with_brackets_and_quotes_in_their_texts_stay_whole)
{
    struct buf one, two;
    struct story_line line = full;
    line.error = PR_STR("]}[{\"\\ ,");
    append(&one, PR_STR(""), &line);
    append(&two, buf_slice(&one), &full);
    json_t *story = json_loadb(two.data, two.size, 0, NULL);
    CHECK(story != NULL);
    CHECK_EQ(json_array_size(story), 2);
    CHECK_STR(json_string_value(json_object_get(json_array_get(story, 0), "error")), "]}[{\"\\ ,");
    json_decref(story);
    buf_fini(&one);
    buf_fini(&two);
}

TEST(a_story_that_cannot_be_read_is_started_anew)
{
    static const char *const damaged[] = { "x", "{}", "[", "[{", "[{]", "[}{]", "[{\"a\":1]", "[\"a]", "null", "[{]]" };
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct buf b, fresh;
        append(&fresh, PR_STR(""), &full);
        CHECK_SLICE(append(&b, pr_str(damaged[i]), &full), buf_slice(&fresh));
        buf_fini(&b);
        buf_fini(&fresh);
    }
}

TEST(a_story_says_when_it_was_parked_last)
{
    struct buf b;
    const struct story_line parks[] = {
        { .at_us = INT64_C(1700000000000000), .step = "park" },
        { .at_us = INT64_C(1700000001000000), .step = "retry" },
        { .at_us = INT64_C(1700000002000000), .step = "park" },
        { .at_us = INT64_C(1700000003000000), .attempt = 1, .error = PR_STR("\"step\":\"park\""), .step = "retry" }
    };
    char story[4096] = "";
    for (size_t i = 0; i < sizeof parks / sizeof parks[0]; i++) {
        pr_slice next = append(&b, pr_str(story), &parks[i]);
        CHECK(next.size < sizeof story);
        (void)snprintf(story, sizeof story, "%.*s", (int)next.size, next.data);
        buf_fini(&b);
    }
    CHECK_EQ(story_parked_us(pr_str(story)), INT64_C(1700000002000000));
    CHECK_EQ(story_parked_us(PR_STR("")), 0);
    CHECK_EQ(story_parked_us(PR_STR("[{\"step\":\"park\"}]")), 0);
    CHECK_EQ(story_parked_us(PR_STR("no story")), 0);
}
