#include "ops/api/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/units.h"
#include "base/url.h"
#include "base/utf8.h"
#include "core/fingerprint.h"

static int param_add(pr_slice pair, struct arena *arena, struct params *params, struct pr_error *reterr)
{
    const char *equals = memchr(pair.data, '=', pair.size);
    size_t name_size = equals != NULL ? (size_t)(equals - pair.data) : pair.size;
    size_t value_at = name_size + (equals != NULL);
    struct param p = { { NULL, 0 }, { NULL, 0 } };
    if (params->count == PARAMS_MAX)
        return error_set(reterr, PR_EINVAL, "at most %d parameters are allowed", PARAMS_MAX);
    int rc = url_decode((pr_slice){ pair.data, name_size }, true, arena, &p.name);
    if (rc == PR_OK)
        rc = url_decode((pr_slice){ pair.data + value_at, pair.size - value_at }, true, arena, &p.value);
    if (rc == PR_OK && (!utf8_valid(p.name) || !utf8_valid(p.value)))
        rc = PR_EINVAL;
    if (rc < 0)
        return error_set(reterr, rc,
                         rc == PR_ENOMEM ? "out of memory for the parameters" : "a parameter is not URL-encoded UTF-8");
    for (size_t i = 0; i < params->count; i++)
        if (slice_eq(params->list[i].name, p.name))
            return error_set(reterr, PR_EINVAL, "parameter %.*s was given twice", SLICE_ARGS(p.name));
    params->list[params->count++] = p;
    return PR_OK;
}

bool word_is_in(pr_slice name, const char *words)
{
    while (*words != '\0') {
        size_t size = strcspn(words, " ");
        if (name.size == size && memcmp(name.data, words, size) == 0)
            return true;
        words += size + (words[size] == ' ');
    }
    return false;
}

int params_parse(pr_slice text, struct arena *arena, struct params *ret, struct pr_error *reterr)
{
    ret->count = 0;
    while (text.size > 0) {
        const char *end = memchr(text.data, '&', text.size);
        size_t size = end != NULL ? (size_t)(end - text.data) : text.size;
        int rc = size > 0 ? param_add((pr_slice){ text.data, size }, arena, ret, reterr) : PR_OK;
        if (rc < 0)
            return rc;
        size_t used = size + (end != NULL);
        text = (pr_slice){ text.data + used, text.size - used };
    }
    return PR_OK;
}

int params_check(const struct params *params, const char *known, struct pr_error *reterr)
{
    for (size_t i = 0; i < params->count; i++) {
        pr_slice name = params->list[i].name;
        if (word_is_in(name, known))
            continue;
        return *known != '\0'
                   ? error_set(reterr, PR_EINVAL, "unknown parameter \"%.*s\"; known are: %s", SLICE_ARGS(name), known)
                   : error_set(reterr, PR_EINVAL, "unknown parameter \"%.*s\"; this path has none", SLICE_ARGS(name));
    }
    return PR_OK;
}

pr_slice params_get(const struct params *params, const char *name)
{
    for (size_t i = 0; i < params->count; i++)
        if (slice_eq_cstr(params->list[i].name, name))
            return params->list[i].value;
    return (pr_slice){ NULL, 0 };
}

static bool number_parse(pr_slice text, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = (unsigned char)text.data[i] - (unsigned)'0';
        if (digit > 9 || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return text.size > 0;
}

static int set_state(struct filter *filter, pr_slice value, struct pr_error *reterr)
{
    enum state state = state_parse(value);
    if (state == STATE_COUNT || state == STATE_GONE)
        return error_set(reterr, PR_EINVAL,
                         "state: unknown state \"%.*s\"; use one of ready, in-flight, delayed, retrying, held, parked, "
                         "paused, dead, done",
                         SLICE_ARGS(value));
    filter->state = (int)state;
    return PR_OK;
}

static int set_time(pr_slice name, pr_slice value, int64_t now_us, int64_t *ret, struct pr_error *reterr)
{
    if (time_or_span(value, -1, now_us, ret))
        return PR_OK;
    return error_set(reterr, PR_EINVAL, "%.*s: \"%.*s\" is not a time; use 1h or 2024-01-31T12:00:00Z",
                     SLICE_ARGS(name), SLICE_ARGS(value));
}

int filter_set(struct filter *f, pr_slice name, pr_slice value, int64_t now_us, struct pr_error *reterr)
{
    const struct {
        const char *name;
        pr_slice *field;
    } texts[] = { { "box", &f->box },
                  { "endpoint", &f->endpoint },
                  { "type", &f->type },
                  { "stream", &f->stream },
                  { "error", &f->error },
                  { "fingerprint", &f->fingerprint },
                  { "correlation_id", &f->correlation_id } };
    uint64_t limit;
    if (value.size == 0)
        return error_set(reterr, PR_EINVAL, "%.*s: must not be empty; omit it instead", SLICE_ARGS(name));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!slice_eq_cstr(name, texts[i].name))
            continue;
        if (i == 0 && !name_is_valid(value))
            return error_set(reterr, PR_EINVAL, "box: \"%.*s\" is not a valid box name", SLICE_ARGS(value));
        if (texts[i].field == &f->fingerprint && !fingerprint_is_valid(value))
            return error_set(reterr, PR_EINVAL, "fingerprint: \"%.*s\" is not a fingerprint; use 16 hex digits",
                             SLICE_ARGS(utf8_cut(value, 40)));
        *texts[i].field = value;
        return PR_OK;
    }
    if (slice_eq_cstr(name, "state"))
        return set_state(f, value, reterr);
    if (slice_eq_cstr(name, "since") || slice_eq_cstr(name, "until"))
        return set_time(name, value, now_us, name.data[0] == 's' ? &f->since_us : &f->until_us, reterr);
    if (slice_eq_cstr(name, "reason")) {
        f->reason = (int)reason_parse(value);
        return f->reason != PR_REASON_NONE
                   ? PR_OK
                   : error_set(reterr, PR_EINVAL, "reason: unknown reason \"%.*s\"; for example timeout_exceeded",
                               SLICE_ARGS(value));
    }
    if (slice_eq_cstr(name, "limit")) {
        if (!number_parse(value, LIST_LIMIT_MAX, &limit) || limit == 0)
            return error_set(reterr, PR_EINVAL, "limit: must be a number from 1 to %d", LIST_LIMIT_MAX);
        f->limit = (size_t)limit;
        return PR_OK;
    }
    if (slice_eq_cstr(name, "row"))
        return number_parse(value, INT64_MAX, &f->row) && f->row > 0
                   ? PR_OK
                   : error_set(reterr, PR_EINVAL, "row: must be the row number of a dead letter");
    if (slice_eq_cstr(name, "newest_row"))
        return number_parse(value, INT64_MAX, &f->newest_row) && f->newest_row > 0
                   ? PR_OK
                   : error_set(reterr, PR_EINVAL, "newest_row: must be newest_row of the previous step");
    if (slice_eq_cstr(name, "after"))
        return filter_set_after(f, value)
                   ? PR_OK
                   : error_set(reterr, PR_EINVAL, "after: must be `next` of the previous page: a row, or BOX:ROW");
    return PR_UNKNOWN;
}

void stream_mark_format(const struct stream_info *stream, char ret[STREAM_MARK_SIZE])
{
    const struct stream_mark m = stream_mark_of(stream);
    (void)snprintf(ret, STREAM_MARK_SIZE, "%" PRIu64 "-%" PRId64 "-%016" PRIx64, m.waiting, m.since_us, m.place);
}

bool stream_mark_parse(pr_slice text, struct stream_mark *ret)
{
    uint64_t parts[2];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *end = text.size > 0 ? memchr(text.data, '-', text.size) : NULL;
        size_t size = end != NULL ? (size_t)(end - text.data) : 0;
        if (!number_parse((pr_slice){ text.data, size }, INT64_MAX, &parts[i]))
            return false;
        text = (pr_slice){ end + 1, text.size - size - 1 };
    }
    uint64_t place = 0;
    for (size_t i = 0; i < text.size && i < 16; i++) {
        int digit = hex_value(text.data[i]);
        if (digit < 0)
            return false;
        place = place << 4 | (uint64_t)digit;
    }
    *ret = (struct stream_mark){ parts[0], (int64_t)parts[1], place };
    return text.size == 16;
}
