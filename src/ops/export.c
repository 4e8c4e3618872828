#include "ops/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/columns.h"
#include "core/fingerprint.h"
#include "store/audit.h"

#define FORMAT 1
#define TIME_LAST_US INT64_C(253402300799999999) /* the year 9999 */
#define REPLACED "\xef\xbf\xbd"                  /* U+FFFD, for invalid UTF-8 */
#define TEXT_MAX (SIZE_MAX / 4)                  /* of one text in base64: it is in memory already */

/* The members, each once: for writing and for reading. */
#define TEXTS(X)                                                                                                       \
    X("box", box)                                                                                                      \
    X("type", m.type)                                                                                                  \
    X("stream", m.stream)                                                                                              \
    X("destination", m.destination)                                                                                    \
    SENDER_TEXTS(TEXT_OF_SENDER)                                                                                       \
    X("headers", m.headers)                                                                                            \
    FATE_TEXTS(TEXT_OF_FATE)                                                                                           \
    X("endpoint", endpoint)                                                                                            \
    X("rule", rule)                                                                                                    \
    X("fingerprint", fingerprint)                                                                                      \
    X("note", note)                                                                                                    \
    X("payload", m.payload)
#define TEXT_OF_SENDER(column, ...) X(#column, m.column)
#define TEXT_OF_FATE(kind, column, member) X(#column, m.member)
#define NUMBERS(X)                                                                                                     \
    X("seq", m.seq, 1, INT64_MAX)                                                                                      \
    X("status", m.status, 0, INT32_MAX)                                                                                \
    X("attempts", m.attempts, 0, COUNTER_MAX)                                                                          \
    X("failures", m.failures, 0, COUNTER_MAX)                                                                          \
    X("reason", m.reason, 0, INT16_MAX)                                                                                \
    X("cause", cause, 1, INT16_MAX)                                                                                    \
    X("limit", limit, 0, COUNTER_MAX)                                                                                  \
    X("created_us", m.created_us, 1, TIME_LAST_US)                                                                     \
    X("due_us", m.due_us, 0, PR_NEVER)                                                                                 \
    X("expires_us", m.expires_us, 0, PR_NEVER)                                                                         \
    X("failed_us", m.failed_us, 0, TIME_LAST_US)                                                                       \
    X("died_us", died_us, 1, TIME_LAST_US)                                                                             \
    X("event", m.event, 0, 1)                                                                                          \
    X("released", m.released, 0, 1)

/* ---- Out ---- */

static void write_text(struct json_writer *w, const char *key, pr_slice text)
{
    char name[64];
    struct buf coded;

    if (text.size == 0)
        return;
    if (utf8_valid(text)) {
        json_put_slice(w, key, text);
        return;
    }
    (void)snprintf(name, sizeof(name), "%s_base64", key);
    buf_init(&coded, TEXT_MAX);
    base64_encode(&coded, text);
    json_put_slice(w, name, buf_slice(&coded));
    buf_fini(&coded);
}

static void write_id(struct json_writer *w, const char *key, pr_id id)
{
    char text[PR_ID_TEXT_SIZE];

    pr_id_format(id, text);
    json_put_cstr(w, key, text);
}

void export_write(struct json_writer *w, const struct listed *l)
{
    json_begin_object(w);
    json_put_int(w, "postrider_dead_letter", FORMAT);
    write_id(w, "id", l->m.id);
#define X(key, member) write_text(w, key, l->member);
    TEXTS(X)
#undef X
#define X(key, member, min, max) json_put_int(w, key, l->member);
    NUMBERS(X)
#undef X
    if (!pr_id_is_zero(l->edited_as))
        write_id(w, "edited_as", l->edited_as);
    json_end_object(w);
}

/* ---- In ---- */

static int wrong(struct pr_error *reterr, const char *key, const char *what)
{
    return error_set(reterr, PR_EINVAL, "%s: %s", key, what);
}

/* A text must be valid in every store; only a payload may be arbitrary bytes. */
static int check_text(const char *key, pr_slice text, struct pr_error *reterr)
{
    bool is_any = strcmp(key, "payload") == 0;
    if (is_any || text.size == 0)
        return PR_OK;
    if (!utf8_valid(text) || memchr(text.data, '\0', text.size) != NULL)
        return wrong(reterr, key, "not valid UTF-8, or it contains a zero byte");
    return PR_OK;
}

static int read_text(struct arena *arena, const json_t *object, const char *key, pr_slice *ret, struct pr_error *reterr)
{
    char name[64];
    const json_t *plain = json_object_get(object, key);
    struct buf bytes;

    *ret = (pr_slice){ NULL, 0 };
    (void)snprintf(name, sizeof(name), "%s_base64", key);
    const json_t *coded = json_object_get(object, name);
    if (plain != NULL && coded != NULL)
        return wrong(reterr, key, "given twice, as text and in base64");
    if (plain == NULL && coded == NULL)
        return PR_OK;
    if (!json_is_string(plain != NULL ? plain : coded))
        return wrong(reterr, key, "must be a string");
    pr_slice text = { json_string_value(plain != NULL ? plain : coded),
                      json_string_length(plain != NULL ? plain : coded) };
    buf_init(&bytes, TEXT_MAX);
    int rc = coded != NULL ? base64_decode(&bytes, text) : PR_OK;
    *ret = slice_dup(arena, coded != NULL ? buf_slice(&bytes) : text);
    buf_fini(&bytes);
    if (rc != PR_OK)
        return wrong(reterr, name, "not valid base64");
    if (ret->data == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a letter");
    return check_text(key, *ret, reterr);
}

static int read_number(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *ret,
                       struct pr_error *reterr)
{
    const json_t *number = json_object_get(object, key);

    *ret = json_integer_value(number);
    if (json_is_integer(number) && *ret >= min && *ret <= max)
        return PR_OK;
    return error_set(reterr, PR_EINVAL, "%s: must be a whole number from %" PRId64 " to %" PRId64, key, min, max);
}

static int read_id(const json_t *object, const char *key, pr_id *ret, struct pr_error *reterr)
{
    const char *text = json_string_value(json_object_get(object, key));

    if (text != NULL && pr_id_parse(slice_from(text), ret) == PR_OK && !pr_id_is_zero(*ret))
        return PR_OK;
    return wrong(reterr, key, "not an id such as 0190163d-8694-739b-aea5-966c26f8ad91");
}

static bool is_known(const char *key)
{
    static const char *const names[] = { "postrider_dead_letter", "id", "edited_as",
#define X(key, member) key, key "_base64",
                                         TEXTS(X)
#undef X
#define X(key, member, min, max) key,
                                             NUMBERS(X)
#undef X
    };
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(names[i], key) == 0)
            return true;
    return false;
}

static int check_members(const json_t *object, struct pr_error *reterr)
{
    const char *key;
    json_t *value;

    if (json_integer_value(json_object_get(object, "postrider_dead_letter")) != FORMAT)
        return error_set(reterr, PR_EINVAL, "is not a dead letter from postrider dead export");
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (!is_known(key))
            return error_set(reterr, PR_EINVAL, "%.60s: unknown member of a dead letter", key);
    }
    return PR_OK;
}

static bool is_time(int64_t us)
{
    return us <= TIME_LAST_US || us == PR_NEVER;
}

static bool is_longer(pr_slice text, size_t chars)
{
    return utf8_cut(text, chars).size < text.size;
}

/* Does the letter's data give another fingerprint?  A fingerprint that cannot be checked is accepted: for an error that
 * was cut or cleaned, or a letter that could not be decoded, other texts were used. */
static bool is_other_fingerprint(const struct listed *l)
{
    const pr_slice endpoints[] = { l->endpoint, l->m.destination };
    const int reasons[] = { l->m.reason, l->cause };

    if (l->cause == PR_REASON_SERIALIZATION_ERROR || l->m.reason == PR_REASON_SERIALIZATION_ERROR ||
        slice_contains(l->m.error, PR_STR(REPLACED)) || is_longer(l->m.error, PR_ERROR_MAX - 1))
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(endpoints) * ARRAY_LENGTH(reasons); i++) {
        char print[FINGERPRINT_SIZE];

        fingerprint(endpoints[i % 2], l->m.type, reasons[i / 2], l->m.error, print);
        if (slice_eq_cstr(l->fingerprint, print))
            return false;
    }
    return true;
}

/* One event of a story, with the members that core/story.c writes. */
static bool is_story_line(json_t *line)
{
    static const char *const times[] = { "at", "next" };
    static const char *const texts[] = { "endpoint", "reason", "code", "error", "rule", "instance", "step" };
    json_t *attempt = json_object_get(line, "attempt"), *reason = json_object_get(line, "reason");
    size_t known = 1; /* the attempt */
    int64_t us;

    if (json_object_get(line, "at") == NULL || !json_is_integer(attempt) || json_integer_value(attempt) < 0 ||
        json_integer_value(attempt) > COUNTER_MAX)
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(times); i++) {
        json_t *time = json_object_get(line, times[i]);

        known += time != NULL;
        if (time != NULL && time_parse_rfc3339(slice_from(json_string_value(time)), &us) != PR_OK)
            return false;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        json_t *text = json_object_get(line, texts[i]);

        known += text != NULL;
        if (text != NULL && (!json_is_string(text) || is_longer(slice_from(json_string_value(text)), NOTE_TEXT_MAX)))
            return false;
    }
    return known == json_object_size(line) &&
           (reason == NULL || reason_parse(slice_from(json_string_value(reason))) != PR_REASON_NONE);
}

static bool is_story(pr_slice text)
{
    json_t *story = text.size > 0 ? json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL) : json_array();
    bool right = json_is_array(story) && json_array_size(story) <= STORY_LINES_MAX;

    for (size_t i = 0; right && i < json_array_size(story); i++)
        right = is_story_line(json_array_get(story, i));
    json_decref(story);
    return right;
}

/* The program itself cuts its texts to these sizes. */
static int check_sizes(const struct listed *l, struct pr_error *reterr)
{
    const struct {
        const char *key;
        pr_slice text;
        size_t chars;
    } texts[] = { { "code", l->m.code, CODE_CHARS_MAX },    { "error", l->m.error, PR_ERROR_MAX },
                  { "held_by", l->m.held_by, PR_NAME_MAX }, { "endpoint", l->endpoint, PR_NAME_MAX },
                  { "rule", l->rule, NOTE_TEXT_MAX }, /* or the author */
                  { "note", l->note, NOTE_KEPT_MAX } };

    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        if (is_longer(texts[i].text, texts[i].chars))
            return error_set(reterr, PR_EINVAL, "%s: longer than %zu characters", texts[i].key, texts[i].chars);
    return PR_OK;
}

/* Checks that each member is in its range. */
static int check_letter(const struct listed *l, struct pr_error *reterr)
{
    if (!name_is_valid(l->box))
        return wrong(reterr, "box", "not a valid box name");
    if (l->m.reason != PR_REASON_NONE && !reason_is_known(l->m.reason))
        return wrong(reterr, "reason", "no dead letter has this number");
    if (!reason_is_known(l->cause))
        return wrong(reterr, "cause", "unknown reason number");
    if (!is_time(l->m.due_us))
        return wrong(reterr, "due_us", "not a time before the year 10000");
    if (!is_time(l->m.expires_us))
        return wrong(reterr, "expires_us", "not a time before the year 10000");
    if (l->m.failures > l->m.attempts)
        return wrong(reterr, "failures", "more failures than attempts");
    if (!is_story(l->m.story))
        return wrong(reterr, "story", "not a JSON array of events as an export writes it");
    int rc = check_sizes(l, reterr);
    struct pr_message m = l->m; /* a letter may have died because of its times */
    m.due_us = m.expires_us = 0;
    if (rc == PR_OK)
        rc = message_check(&m, PR_PAYLOAD_MAX, reterr);
    if (rc != PR_OK)
        return rc;
    if (!fingerprint_is_valid(l->fingerprint))
        return wrong(reterr, "fingerprint", "must be 16 hex digits");
    if (is_other_fingerprint(l)) /* last: a wrong type, reason or error changes it, too */
        return wrong(reterr, "fingerprint", "does not match its endpoint, type, reason and error");
    return PR_OK;
}

int export_read(struct arena *arena, const json_t *object, struct listed *l, struct pr_error *reterr)
{
    int64_t number;
    int rc =
        json_is_object(object) ? check_members(object, reterr) : error_set(reterr, PR_EINVAL, "is not a JSON object");

    *l = (struct listed){ .state = STATE_DEAD };
    if (rc == PR_OK)
        rc = read_id(object, "id", &l->m.id, reterr);
    if (rc == PR_OK && json_object_get(object, "edited_as") != NULL)
        rc = read_id(object, "edited_as", &l->edited_as, reterr);
#define X(key, member)                                                                                                 \
    if (rc == PR_OK)                                                                                                   \
        rc = read_text(arena, object, key, &l->member, reterr);
    TEXTS(X)
#undef X
#define X(key, member, min, max)                                                                                       \
    if (rc == PR_OK)                                                                                                   \
        rc = read_number(object, key, min, max, &number, reterr);                                                      \
    if (rc == PR_OK)                                                                                                   \
        l->member = (__typeof__(l->member))number;
    NUMBERS(X)
#undef X
    return rc == PR_OK ? check_letter(l, reterr) : rc;
}
