#include "core/story.h"

#include <string.h>

#include "base/json.h"
#include "base/slice.h"
#include "base/time.h"
#include "core/message.h"
#include "core/reason.h"

static bool is_note(pr_slice line)
{
    return slice_contains(line, PR_STR("\"step\":\"" STORY_NOTE "\"")); /* inside a text, its quotes would be escaped */
}

/* The oldest line that is not among the latest STORY_NOTES_KEPT notes. */
static int choose_dropped(const pr_slice lines[], int count)
{
    int dropped = 0, notes = 0;

    for (int i = count - 1; i >= 0; i--)
        if (!is_note(lines[i]) || ++notes > STORY_NOTES_KEPT)
            dropped = i;
    return dropped;
}

/* Find the lines of a story: the top-level objects of the array. -1: not a story. */
static int find_lines(pr_slice story, pr_slice lines[], int max)
{
    int count = 0, depth = 0;
    bool in_string = false;
    size_t start = 0;

    if (story.size < 2 || story.data[0] != '[' || story.data[story.size - 1] != ']')
        return -1;
    for (size_t i = 1; i < story.size - 1; i++) {
        char c = story.data[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (depth++ == 0)
                start = i;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            if (count == max) /* full: drop a line, to keep the latest */
                for (int k = choose_dropped(lines, count) + 1; k < max; k++)
                    lines[k - 1] = lines[k];
            else
                count++;
            lines[count - 1] = (pr_slice){ story.data + start, i - start + 1 };
            if (!slice_is_json_object(lines[count - 1]))
                return -1;
        }
        if (depth < 0)
            return -1;
    }
    return depth == 0 && !in_string ? count : -1;
}

static void write_line(struct json_writer *w, const struct story_line *line)
{
    json_begin_object(w);
    json_put_time(w, "at", line->at_us);
    json_put_int(w, "attempt", line->attempt);
    json_put_some(w, "endpoint", line->endpoint);
    if (line->reason != PR_REASON_NONE)
        json_put_cstr(w, "reason", pr_reason_name(line->reason));
    json_put_some(w, "code", line->code);
    json_put_some(w, "error", line->error);
    json_put_some(w, "rule", line->rule);
    json_put_some(w, "instance", line->instance);
    if (line->step != NULL)
        json_put_cstr(w, "step", line->step);
    if (line->next_us != 0)
        json_put_time(w, "next", line->next_us);
    json_end_object(w);
}

void story_append(pr_slice story, const struct story_line *line, struct buf *ret)
{
    pr_slice lines[STORY_LINES_MAX - 1];
    struct json_writer w;
    int count = find_lines(story, lines, STORY_LINES_MAX - 1);

    json_init(&w, ret);
    json_begin_array(&w);
    for (int i = 0; i < count; i++)
        json_raw(&w, lines[i]);
    write_line(&w, line);
    json_end_array(&w);
}

void story_append_lost(pr_slice story, int64_t at_us, int attempt, pr_slice endpoint, pr_slice instance,
                       struct buf *ret)
{
    const struct story_line line = {
        .at_us = at_us, .attempt = attempt, .endpoint = endpoint, .instance = instance, .step = STORY_LOST
    };
    story_append(story, &line, ret);
}

int story_count_lost(pr_slice story, int *ret_lines)
{
    pr_slice lines[STORY_LINES_MAX];
    int count = find_lines(story, lines, STORY_LINES_MAX), lost = 0;

    for (int i = 0; i < count; i++)
        lost += slice_contains(lines[i], PR_STR("\"step\":\"" STORY_LOST "\""));
    if (ret_lines != NULL)
        *ret_lines = count > 0 ? count : 0;
    return lost;
}

pr_slice story_endpoint(pr_slice story)
{
    static const char mark[] = "\"endpoint\":\"";
    const size_t size = sizeof(mark) - 1;

    for (size_t i = story.size >= size ? story.size - size : 0; i > 0; i--) {
        const char *name = story.data + i + size;
        if (memcmp(story.data + i, mark, size) == 0) {
            const char *end = memchr(name, '"', story.size - i - size);
            return end != NULL ? (pr_slice){ name, (size_t)(end - name) } : (pr_slice){ NULL, 0 };
        }
    }
    return (pr_slice){ NULL, 0 };
}

bool story_was_postponed(pr_slice story)
{
    pr_slice last;

    return find_lines(story, &last, 1) == 1 && slice_contains(last, PR_STR("\"step\":\"postpone\""));
}

int64_t story_parked_us(pr_slice story)
{
    const pr_slice mark = PR_STR("\"step\":\"park\""), at = PR_STR("\"at\":\"");
    pr_slice lines[STORY_LINES_MAX];
    int64_t us;

    for (int i = find_lines(story, lines, STORY_LINES_MAX) - 1; i >= 0; i--) {
        if (!slice_contains(lines[i], mark)) /* inside a text, its quotes would be escaped */
            continue;
        const char *time = memmem(lines[i].data, lines[i].size, at.data, at.size);
        const char *end =
            time != NULL ? memchr(time + at.size, '"', lines[i].size - (size_t)(time - lines[i].data) - at.size) : NULL;
        if (end != NULL &&
            time_parse_rfc3339((pr_slice){ time + at.size, (size_t)(end - time) - at.size }, &us) == PR_OK)
            return us;
    }
    return 0;
}
