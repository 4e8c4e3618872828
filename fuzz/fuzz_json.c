/* Headers and stories: JSON that is accepted here is accepted by other parsers, too, and a story stays valid whatever
 * was in it. */
#include "base/buf.h"
#include "core/message.h"
#include "core/story.h"

#include <jansson.h>

#include "fuzz.h"

#define STORY_MAX (4u << 20)

/* Jansson has no numbers beyond a double, so those are left out of the comparison. */
static bool is_comparable(pr_slice text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] >= '0' && text.data[i] <= '9')
            return false;
    return true;
}

static void check_headers(pr_slice text)
{
    json_t *other = json_loadb(text.data != NULL ? text.data : "", text.size, JSON_ALLOW_NUL, NULL);
    if (slice_is_json_object(text) && text.size > 0 && is_comparable(text))
        FUZZ_CHECK(other != NULL && json_typeof(other) == JSON_OBJECT);
    json_decref(other);
}

static void check_story(pr_slice story, pr_slice error)
{
    const struct story_line line = { .at_us = 1,
                                     .attempt = 1,
                                     .endpoint = error,
                                     .reason = 1,
                                     .code = error,
                                     .error = error,
                                     .rule = error,
                                     .step = "retry",
                                     .next_us = INT64_MAX };
    struct buf text;
    buf_init(&text, STORY_MAX);
    story_append(story, &line, &text);
    FUZZ_CHECK(buf_failed(&text) == 0);
    if (is_comparable(story)) {
        json_t *array = json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);
        FUZZ_CHECK(json_is_array(array));
        FUZZ_CHECK(json_array_size(array) >= 1 && json_array_size(array) <= STORY_LINES_MAX);
        json_decref(array);
    }
    buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    check_headers((pr_slice){ in.data, in.size });
    pr_slice error = input_line(&in);
    check_story(input_rest(&in), error);
    return 0;
}
