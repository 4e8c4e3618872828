#include "ops/member.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/ended.h"
#include "flow/flow_json.h"
#include "ops/explain/words.h"

#define KEY_MAX 64

/* ---- Words ---- */

static const char *reason_word(int reason)
{
    return reason != PR_REASON_NONE ? pr_reason_name(reason) : NULL;
}

static int word_reason(pr_slice name)
{
    return (int)reason_parse(name);
}

static const char *state_word(int state)
{
    return state_name((enum state)state);
}

static int word_state(pr_slice name)
{
    const enum state state = state_parse(name);
    return (int)(state != STATE_COUNT ? state : STATE_GONE);
}

const struct member_words words_of_reasons = { .name = reason_word, .parse = word_reason };
const struct member_words words_of_states = { .name = state_word, .parse = word_state };
const struct member_words words_of_ended = { .name = ended_name, .parse = ended_parse };

/* ---- Writing ---- */

void member_text(struct json_writer *w, const char *key, pr_slice value)
{
    json_key(w, key);
    if (value.size > 0)
        json_slice(w, value);
    else
        json_cstr(w, NULL);
}

void member_time(struct json_writer *w, const char *key, int64_t us)
{
    json_key(w, key);
    if (us != 0 && us != PR_NEVER)
        json_time(w, us);
    else
        json_cstr(w, NULL);
}

void member_count(struct json_writer *w, const char *key, uint64_t count)
{
    char exact[KEY_MAX];
    (void)snprintf(exact, sizeof(exact), "%s_exact", key);
    json_put_uint(w, key, count <= COUNT_EXACT_MAX ? count : COUNT_EXACT_MAX);
    json_put_bool(w, exact, count <= COUNT_EXACT_MAX);
}

/* Stored JSON; invalid JSON is shown as a string. */
static void write_object(struct json_writer *w, const char *key, pr_slice json)
{
    json_key(w, key);
    if (json.size > 0 && slice_is_json_object(json))
        json_raw_shown(w, json);
    else
        json_slice(w, json);
}

static void write_id(struct json_writer *w, pr_id id)
{
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    json_cstr(w, pr_id_is_zero(id) ? NULL : text);
}

static bool is_empty(const struct member *m, const void *at)
{
    switch (m->kind) {
    case MEMBER_TEXT:
    case MEMBER_STRING:
    case MEMBER_BYTES:
    case MEMBER_OBJECT:
    case MEMBER_FAILURE: return ((const pr_slice *)at)->size == 0;
    case MEMBER_CSTR: return *(const char *const *)at == NULL;
    case MEMBER_ID: return pr_id_is_zero(*(const pr_id *)at);
    case MEMBER_TIME:
    case MEMBER_UNTIL:
    case MEMBER_SPAN:
    case MEMBER_NUMBER: return *(const int64_t *)at == 0;
    case MEMBER_BOOL:
    case MEMBER_EXACT: return !*(const bool *)at;
    case MEMBER_INT: return *(const int *)at == 0;
    case MEMBER_COUNT:
    case MEMBER_SOME:
    case MEMBER_BOUNDED: return *(const uint64_t *)at == 0;
    case MEMBER_DOUBLE: return *(const double *)at == 0;
    case MEMBER_WORD: return m->words->name(*(const int *)at) == NULL;
    }
    return true;
}

/* Kinds that are a single value. */
static void write_value(struct json_writer *w, const struct member *m, const void *at)
{
    json_key(w, m->key);
    switch (m->kind) {
    case MEMBER_CSTR: json_cstr(w, *(const char *const *)at); break;
    case MEMBER_ID: write_id(w, *(const pr_id *)at); break;
    case MEMBER_SPAN: json_double(w, (double)*(const int64_t *)at / 1e6); break;
    case MEMBER_BOOL:
    case MEMBER_EXACT: json_bool(w, *(const bool *)at); break;
    case MEMBER_INT: json_int(w, *(const int *)at); break;
    case MEMBER_NUMBER: json_int(w, *(const int64_t *)at); break;
    case MEMBER_COUNT:
    case MEMBER_SOME: json_uint(w, *(const uint64_t *)at); break;
    case MEMBER_DOUBLE: json_double(w, *(const double *)at); break;
    case MEMBER_WORD: json_cstr(w, m->words->name(*(const int *)at)); break;
    default: ASSERT(!"a kind of member");
    }
}

/* Kinds that are null where they are empty. */
static bool may_be_null(enum member_kind kind)
{
    return kind == MEMBER_TEXT || kind == MEMBER_BYTES || kind == MEMBER_FAILURE || kind == MEMBER_SOME;
}

static void member_write(struct json_writer *w, const struct member *m, const void *at)
{
    const bool empty = is_empty(m, at);
    if (m->optional && empty)
        return;
    if (may_be_null(m->kind) && empty) {
        json_put_cstr(w, m->key, NULL);
        return;
    }
    switch (m->kind) {
    case MEMBER_TEXT:
    case MEMBER_STRING: json_put_slice(w, m->key, *(const pr_slice *)at); break;
    case MEMBER_BYTES: flow_json_bytes(w, m->key, *(const pr_slice *)at); break;
    case MEMBER_OBJECT:
    case MEMBER_FAILURE: write_object(w, m->key, *(const pr_slice *)at); break;
    case MEMBER_TIME:
    case MEMBER_UNTIL: member_time(w, m->key, *(const int64_t *)at); break;
    case MEMBER_BOUNDED: member_count(w, m->key, *(const uint64_t *)at); break;
    default: write_value(w, m, at);
    }
}

void members_write(struct json_writer *w, const struct members *members, const void *row)
{
    for (size_t i = 0; i < members->count; i++)
        member_write(w, &members->list[i], (const char *)row + members->list[i].offset);
}

void members_object(struct json_writer *w, const struct members *members, const void *row)
{
    json_begin_object(w);
    members_write(w, members, row);
    json_end_object(w);
}

void members_list(struct json_writer *w, const char *key, const struct members *members, const void *rows,
                  size_t row_size, size_t count)
{
    json_key(w, key);
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        members_object(w, members, (const char *)rows + i * row_size);
    json_end_array(w);
}

/* ---- Reading ---- */

static pr_slice copy_of(pr_slice text, struct arena *arena)
{
    if (text.data == NULL)
        return (pr_slice){ NULL, 0 };
    text = slice_dup(arena, text);
    ASSERT(text.data != NULL);
    return text;
}

static pr_slice read_text(const json_t *value, struct arena *arena)
{
    return copy_of((pr_slice){ json_string_value(value), json_string_length(value) }, arena);
}

static pr_slice read_object(const json_t *value, struct arena *arena)
{
    if (json_is_string(value))
        return read_text(value, arena);
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
    const pr_slice copy = copy_of(slice_from(text), arena);
    free(text);
    return copy;
}

static pr_slice read_bytes(const json_t *object, const char *key, struct arena *arena)
{
    char coded[KEY_MAX];
    struct buf bytes;
    (void)snprintf(coded, sizeof(coded), "%s_base64", key);
    const json_t *value = json_object_get(object, coded);
    if (value == NULL)
        return read_text(json_object_get(object, key), arena);
    buf_init(&bytes, SIZE_MAX / 2);
    const bool right =
        base64_decode(&bytes, (pr_slice){ json_string_value(value), json_string_length(value) }) == PR_OK;
    const pr_slice copy = right ? copy_of(buf_slice(&bytes), arena) : (pr_slice){ NULL, 0 };
    buf_fini(&bytes);
    return copy;
}

static uint64_t read_count(const json_t *value)
{
    json_int_t number = json_integer_value(value);
    return number > 0 ? (uint64_t)number : 0;
}

static int read_int(const json_t *value)
{
    uint64_t number = read_count(value);
    return number <= COUNTER_MAX ? (int)number : COUNTER_MAX;
}

static int64_t read_time(const json_t *value, int64_t otherwise)
{
    const char *text = json_string_value(value);
    int64_t us;
    return text != NULL && time_parse_rfc3339(slice_from(text), &us) == PR_OK ? us : otherwise;
}

static int64_t read_span(const json_t *value)
{
    double seconds = json_number_value(value);
    return seconds > -1e9 && seconds < 1e9 ? (int64_t)(seconds * 1e6) : 0;
}

static pr_id read_id(const json_t *value)
{
    const char *text = json_string_value(value);
    pr_id id = { { 0 } };
    return text != NULL && pr_id_parse(slice_from(text), &id) == PR_OK ? id : (pr_id){ { 0 } };
}

static uint64_t read_bounded(const json_t *object, const char *key)
{
    char exact[KEY_MAX];
    uint64_t count = read_count(json_object_get(object, key));
    (void)snprintf(exact, sizeof(exact), "%s_exact", key);
    return count + (count == COUNT_EXACT_MAX && json_is_false(json_object_get(object, exact)));
}

static int read_word(pr_slice name, const struct member_words *words)
{
    if (words->parse != NULL)
        return words->parse(name);
    for (int value = words->first; value <= words->last; value++)
        if (words->name(value) != NULL && slice_eq_cstr(name, words->name(value)))
            return value;
    return words->first;
}

static void member_read(const json_t *object, const struct member *m, struct arena *arena, void *at)
{
    const json_t *value = json_object_get(object, m->key);
    switch (m->kind) {
    case MEMBER_TEXT:
    case MEMBER_STRING: *(pr_slice *)at = read_text(value, arena); break;
    case MEMBER_CSTR: *(const char **)at = read_text(value, arena).data; break;
    case MEMBER_BYTES: *(pr_slice *)at = read_bytes(object, m->key, arena); break;
    case MEMBER_OBJECT:
    case MEMBER_FAILURE: *(pr_slice *)at = read_object(value, arena); break;
    case MEMBER_ID: *(pr_id *)at = read_id(value); break;
    case MEMBER_TIME: *(int64_t *)at = read_time(value, 0); break;
    case MEMBER_UNTIL: *(int64_t *)at = read_time(value, PR_NEVER); break;
    case MEMBER_SPAN: *(int64_t *)at = read_span(value); break;
    case MEMBER_BOOL: *(bool *)at = json_is_true(value); break;
    case MEMBER_EXACT: *(bool *)at = !json_is_false(value); break;
    case MEMBER_INT: *(int *)at = read_int(value); break;
    case MEMBER_NUMBER: *(int64_t *)at = (int64_t)read_count(value); break;
    case MEMBER_COUNT:
    case MEMBER_SOME: *(uint64_t *)at = read_count(value); break;
    case MEMBER_DOUBLE: *(double *)at = json_number_value(value); break;
    case MEMBER_BOUNDED: *(uint64_t *)at = read_bounded(object, m->key); break;
    case MEMBER_WORD: *(int *)at = read_word(slice_from(json_string_value(value)), m->words); break;
    }
}

void members_read(const json_t *object, const struct members *members, struct arena *arena, void *row)
{
    for (size_t i = 0; i < members->count; i++)
        member_read(object, &members->list[i], arena, (char *)row + members->list[i].offset);
}

/* ---- For people ---- */

bool member_is_text(const struct member *member)
{
    switch (member->kind) {
    case MEMBER_SPAN:
    case MEMBER_INT:
    case MEMBER_NUMBER:
    case MEMBER_COUNT:
    case MEMBER_SOME:
    case MEMBER_DOUBLE:
    case MEMBER_BOUNDED: return false;
    default: return true;
    }
}

static const char *moment_words(struct arena *arena, int64_t at_us)
{
    return at_us == 0 || at_us == PR_NEVER ? "" : time_words(arena, at_us);
}

pr_slice member_cell(const struct member *member, const void *row, struct arena *arena)
{
    const void *at = (const char *)row + member->offset;
    char id[PR_ID_TEXT_SIZE];
    switch (member->kind) {
    case MEMBER_TEXT:
    case MEMBER_STRING:
    case MEMBER_BYTES:
    case MEMBER_OBJECT:
    case MEMBER_FAILURE: return *(const pr_slice *)at;
    case MEMBER_CSTR: return slice_from(*(const char *const *)at);
    case MEMBER_ID: pr_id_format(*(const pr_id *)at, id); return arena_printf(arena, "%s", id);
    case MEMBER_TIME:
    case MEMBER_UNTIL: return slice_from(moment_words(arena, *(const int64_t *)at));
    case MEMBER_SPAN: return slice_from(span_short(arena, *(const int64_t *)at));
    case MEMBER_BOOL:
    case MEMBER_EXACT: return *(const bool *)at ? PR_STR("yes") : PR_STR("no");
    case MEMBER_INT: return arena_printf(arena, "%d", *(const int *)at);
    case MEMBER_NUMBER: return arena_printf(arena, "%" PRId64, *(const int64_t *)at);
    case MEMBER_COUNT:
    case MEMBER_SOME: return arena_printf(arena, "%" PRIu64, *(const uint64_t *)at);
    case MEMBER_DOUBLE: return arena_printf(arena, "%.15g", *(const double *)at);
    case MEMBER_BOUNDED: return slice_from(count_words(arena, *(const uint64_t *)at, "", ""));
    case MEMBER_WORD: return slice_from(member->words->name(*(const int *)at));
    }
    return PR_STR("");
}
